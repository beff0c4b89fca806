"""From the steps of a play to scenes: what is drawn after each step, whatever kind of cache it is.

A scene is plain data.  ``pools``: squares, each a page or place with its number, its ``kind`` and who has it.
``tables``: rows of texts, each with a key by which it is known again in the next scene, and a mark where it stands out.
``jobs``: what is under way, each with the state that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypedDict

from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.tape.calls import CALLS
from kvlitmus.conformance.tape.changes import SEVERAL, changed, exact
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.viewer.plain import answered, fields, items, short, text_of, told

KINDS: Mapping[str, str] = {
    "free": "free",
    "cached": "cached",
    "request": "held by a request",
    "caller": "held by the caller",
    "flight": "in flight",
    "waiting": "given back, not yet free",
    "unseen": "not seen",
    "two": "more than one home",
    "none": "no home",
    "stray": "no page of this pool",
}
"""What a square may be, with the words of the legend."""

ODD = frozenset({"two", "none", "stray"})
"""The kinds that no page may be."""

Square = tuple[int, str, str]
"""Number, kind, and who has it."""


class Pool(TypedDict):
    """The pages or places of one pool."""

    name: str
    squares: list[Square]


class Row(NamedTuple):
    """A row of a table: its key, its cells, how deep it is indented, and whether it stands out."""

    key: str
    cells: list[str]
    depth: int = 0
    odd: bool = False


class Drawn(TypedDict):
    """A table; ``tree``: its rows are indented, and the first cell is the prefix."""

    name: str
    head: list[str]
    rows: list[Row]
    tree: bool


class Beside(NamedTuple):
    """The reference beside a step: what it answered, whether that ``differs``, and in what the two differ then."""

    answer: str = ""
    differs: bool = False
    table: Drawn | None = None


Job = tuple[str, str, str, str]
"""What it is known by, its kind, its state, and more about it."""


class Verdict(TypedDict):
    """A broken rule."""

    rule: str
    sentence: str
    allowed: str
    seen: dict[str, str]


class Scene(TypedDict):
    """What is drawn after one step; ``begins``: a call that findings count begins with it.

    ``expected``: what the reference answered; ``unlike``: that is not what the cache did.  ``beside``: in what the two
    differ.
    """

    n: int
    text: str
    begins: bool
    op: int | None
    answer: str
    raised: bool
    expected: str
    unlike: bool
    did: list[str]
    verdicts: list[Verdict]
    beside: Drawn | None
    pools: list[Pool]
    tables: list[Drawn]
    jobs: list[Job]


class Call(NamedTuple):
    """A step as families look at it; ``given``: the arguments by name.  ``refused``: it raised.

    ``request``: the one that the suite composes of this step and others, empty where it composes none.
    """

    number: int
    name: str
    given: dict[str, Json]
    answer: Json
    refused: bool
    did: list[Json]
    request: str = ""


class Looks(dict[str, Json]):
    """What each look showed last, by key."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.when: dict[str, int] = {}

    def saw(self, step: int, looks: Mapping[str, Json]) -> None:
        """What was looked at after a step."""
        self.step = step
        for key, value in looks.items():
            self[key] = seen(self.get(key), value)
            self.when[key] = step

    def stale(self, key: str) -> str:
        """Of which earlier step a snapshot is, in words; empty if it is of the last one, or there is none."""
        when = self.when.get(key, self.step)
        return "" if when == self.step else f", last seen {f'after step {when}' if when else 'when it was fresh'}"


class Family(Protocol):
    """What is drawn of one kind of cache."""

    def follow(self, call: Call) -> None:
        """A call was made and answered."""

    def draw(self, looks: Looks) -> tuple[list[Pool], list[Drawn], list[Job]]:
        """What is there now."""


class Follows:
    """Of a family: each call that did something has a method by its name, without what such names begin with."""

    begins = ""

    def follow(self, call: Call) -> None:
        """A call was made and answered."""
        does = getattr(self, f"_{call.name.removeprefix(self.begins)}", None)
        if does is not None and not call.refused:
            does(call)


REQUEST = re.compile(r"(?:begin|grow|take_back|fork|retract|resume|publish|publish_upto|end|end_upto)\((\d+)\b")
"""A call that is about a request, as findings print it, with the number of the request."""


def composed(text: Json, call: str) -> str:
    """Which request begins to be composed with a step of this ``text``; empty where the cache has requests itself."""
    found = REQUEST.match(str(text))
    return found[1] if found and not str(text).startswith(call) else ""


def scenes(
    steps: Iterable[Mapping[str, Json]], families: Iterable[Family], beside: Mapping[int, Beside] | None = None
) -> Iterator[Scene]:
    """What is drawn after each step of a play, one by one.  ``beside``: the reference, at some of them."""
    looks = Looks()
    kept = tuple(families)
    request = ""
    for number, step in enumerate(with_fresh(steps)):
        name = str(step.get("call", ""))
        raised = "raised" in step
        answer = step.get("raised") if raised else step.get("answer")
        looks.saw(number, fields(step.get("looks")))
        request = composed(step["text"], name) if "text" in step else request
        if name in CALLS:
            did = items(step.get("did"))
            given = CALLS[name].by_name(items(step.get("args")), fields(step.get("kwargs")))
            call = Call(number, name, given, None if raised else answer, raised, did, request)
            for one in kept:
                one.follow(call)
        drawn = [one.draw(looks) for one in kept]
        reference = beside[number] if beside and number in beside else told_beside(step)
        op = step.get("op")
        yield {
            "n": number,
            "text": short(
                brief(str(step["text"])) if step.get("text") else text_of(name, step.get("args"), step.get("kwargs"))
            )
            if name
            else "fresh",
            "begins": "text" in step,
            "op": op if type(op) is int else None,
            "answer": answered(name, answer) if name else "",
            "raised": raised,
            "expected": reference.answer,
            "unlike": reference.differs,
            "did": [told(one) for one in items(step.get("did"))],
            "verdicts": [verdict(fields(one)) for one in items(step.get("verdicts"))],
            "beside": reference.table,
            "pools": [pool for pools, _, _ in drawn for pool in pools],
            "tables": [*(table for _, tables, _ in drawn for table in tables), counters(looks)],
            "jobs": [job for _, _, jobs in drawn for job in jobs],
        }


def with_fresh(steps: Iterable[Mapping[str, Json]]) -> Iterator[Mapping[str, Json]]:
    """The steps by their numbers: what was seen of the fresh cache is number 0, also where nobody looked."""
    for at, step in enumerate(steps):
        if at == 0 and "call" in step:
            yield {}
        yield step


def told_beside(step: Mapping[str, Json]) -> Beside:
    """What the tape itself says of the reference."""
    if "expected" not in step:
        return Beside()
    call = str(step.get("call", ""))
    return Beside(answered(call, step["expected"]), step["expected"] != step.get("answer"))


def seen(before: Json, told_now: Json) -> Json:
    """What a look shows: of several answers the last, of changes what comes of them; else as it stands."""
    if isinstance(told_now, dict) and told_now.keys() == {SEVERAL}:
        answers = items(told_now[SEVERAL])
        return answers[-1] if answers else None
    try:
        return changed(before, told_now)
    except FormError:
        return told_now


def verdict(one: Mapping[str, Json]) -> Verdict:
    """A broken rule, as the page shows it."""
    return {
        "rule": short(one.get("rule", ""), 40),
        "sentence": short(one.get("sentence", ""), 4_000),
        "allowed": short(one.get("allowed", ""), 4_000),
        "seen": {short(name, 80): short(value, 4_000) for name, value in fields(one.get("seen")).items()},
    }


DRAWN = frozenset(
    {"view", "tiers", "jobs", "component_free_places", "component_entries", "component_free_host"}
    | {"component_host_entries", "ranks_view", "ranks_states", "sparse_view", "peek"}
)
"""The looks that are drawn, or that show too much to be: they aren't among the counters."""


def counters(looks: Looks) -> Drawn:
    """All other looks, one a row."""
    rows = [
        Row(short(key, 120), [short(key, 120), told(value) + looks.stale(key)])
        for key, value in looks.items()
        if key.partition("(")[0] not in DRAWN
    ]
    return table("What else was looked at", ["look", "shows"], rows)


def table(name: str, head: list[str], rows: Iterable[Row], *, tree: bool = False) -> Drawn:
    """A table."""
    return {"name": name, "head": head, "rows": list(rows), "tree": tree}


class Numbered:
    """Numbers for things of any kind, by which they are known in every scene."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, *what: Json) -> str:
        """The number of a thing, as a text."""
        return str(self._numbers.setdefault(exact(list(what)), len(self._numbers)))


MOST_SQUARES = 2_048
"""Of larger pools those that are free aren't drawn."""


def pool(name: str, squares: list[Square]) -> Pool:
    """A pool."""
    if len(squares) <= MOST_SQUARES:
        return {"name": name, "squares": squares}
    taken = [one for one in squares if one[1] != "free"]
    more = len(taken) - MOST_SQUARES
    told = f"{name}: {len(squares) - len(taken):,} of {len(squares):,} are free" + f", {more:,} more" * (more > 0)
    return {"name": told, "squares": taken[:MOST_SQUARES]}


Homes = dict[int, list[tuple[str, str]]]
"""By page or place its homes, each a kind and who it is."""


def square(label: int, homes: list[tuple[str, str]], *, usable: bool = True, empty: str = "none") -> Square:
    """A square of these homes; ``empty``: what it is without one."""
    if not homes:
        return label, empty, ""
    text = short(" + ".join(who or KINDS[kind] for kind, who in homes), 200)
    if not usable:
        return label, "stray", text
    return label, homes[0][0] if len(homes) == 1 else "two", text


def protected(times: int, word: str) -> str:
    """How often what is cached is protected, behind the text of its square; empty for not at all."""
    return f", {word}{f' {times} times' if times > 1 else ''}" if times > 0 else ""


def taken(seen_homes: Homes, held: Iterable[tuple[int, tuple[str, str]]], *, stale: bool) -> None:
    """Add who holds what to what a snapshot showed; of a ``stale`` one no more is known of what somebody holds now."""
    by_page: Homes = {}
    for page, home in held:
        by_page.setdefault(page, []).append(home)
    for page, some in by_page.items():
        seen_homes[page] = some if stale else [*seen_homes.get(page, []), *some]
