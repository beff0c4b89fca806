"""From the steps of a play to scenes: what is drawn after each step, whatever kind of cache it is.

A scene is plain data.  ``pools``: squares, each a page or place with its number, its ``kind`` and who has it.
``tables``: rows of texts, each with a key by which it is known again in the next scene, and a mark where it stands out.
``jobs``: what is under way, each with the state that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, tee, zip_longest
from typing import NamedTuple, Protocol, TypedDict

from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.tape.calls import CALLS
from kvlitmus.conformance.tape.changes import SEVERAL, changed, exact
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.viewer.plain import answered, fields, items, short, text_of, told, worded
from kvlitmus.spec.law.rule import in_force

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
    """A table; ``tree``: its rows are indented, and the first cell is the prefix; ``leads``: it stands first."""

    name: str
    head: list[str]
    rows: list[Row]
    tree: bool
    leads: bool


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
    """What is drawn after one step.

    ``call``: the number of the call that it is of, as findings count them, 0 where they don't; ``begins``: that call
    begins with it; ``whole``: the text of that call, where it begins and has several steps.  ``expected``: what the
    reference answered; ``unlike``: that is not what the cache did.  ``beside``: in what the two differ.
    """

    n: int
    text: str
    call: int
    begins: bool
    whole: str
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
    calls = 0
    end: Mapping[str, Json] = {}
    every, following = tee(with_fresh(apart(steps)))
    for number, (step, after) in enumerate(zip_longest(every, islice(following, 1, None), fillvalue=end)):
        name = str(step.get("call", ""))
        raised = "raised" in step
        answer = step.get("raised") if raised else step.get("answer")
        looks.saw(number, fields(step.get("looks")))
        request = composed(step["text"], name) if "text" in step else request
        begins = "text" in step
        calls += begins
        if name in CALLS:
            did = items(step.get("did"))
            given = CALLS[name].by_name(items(step.get("args")), fields(step.get("kwargs")))
            call = Call(number, name, given, None if raised else answer, raised, did, request)
            for one in kept:
                one.follow(call)
        drawn = [one.draw(looks) for one in kept]
        reference = beside[number] if beside and number in beside else told_beside(step)
        op = step.get("op")
        alone = "text" in step and not ("call" in after and "text" not in after)
        yield {
            "n": number,
            "text": short(brief(str(step["text"]))) if alone else own_text(step) if name else "fresh",
            "call": calls if name else 0,
            "begins": begins,
            "whole": short(brief(str(step["text"]))) if "text" in step and not alone else "",
            "op": op if type(op) is int else None,
            "answer": answered(name, answer) if name else "",
            "raised": raised,
            "expected": reference.answer,
            "unlike": reference.differs,
            "did": [told(one) for one in items(step.get("did"))],
            "verdicts": [verdict(fields(one)) for one in items(step.get("verdicts"))],
            "beside": reference.table,
            "pools": bounded([pool for pools, _, _ in drawn for pool in pools]),
            "tables": [*(table for _, tables, _ in drawn for table in tables), counters(looks)],
            "jobs": [job for _, _, jobs in drawn for job in jobs],
        }


MEANT: Mapping[str, str] = {
    "shares_free_list": "does the returned sequence share the memory of the free list?",
    "scribble": "overwrite the returned sequence, to the end of the memory that it lies in",
}
"""Calls of no port, in words: they are what a caller asks or does besides."""

SILENT = "null"
"""What a call answers, as its form says it, that has nothing to say."""


def own_text(step: Mapping[str, Json]) -> str:
    """The call of one step, with its answer: findings print calls of several steps as one."""
    name = str(step.get("call", ""))
    text = MEANT.get(name) or text_of(name, step.get("args"), step.get("kwargs"))
    if "raised" in step:
        return short(f"{text} → raised {told(step['raised'])}")
    answer = step.get("answer")
    silent = answer is None and (name in MEANT or (name in CALLS and CALLS[name].answer.words == SILENT))
    return text if silent else short(f"{text} → {answered(name, answer)}")


def with_fresh(steps: Iterable[Mapping[str, Json]]) -> Iterator[Mapping[str, Json]]:
    """The steps by their numbers: what was seen of the fresh cache is number 0, also where nobody looked."""
    for at, step in enumerate(steps):
        if at == 0 and "call" in step:
            yield {}
        yield step


TIMES = re.compile(r"(\w+)\(\) ×(\d{1,6})")
"""Calls that findings print as one, and how many they are."""


def apart(steps: Iterable[Mapping[str, Json]]) -> Iterator[Mapping[str, Json]]:
    """The steps, each text at the first of its own: on tapes that of the call behind ``tick() ×2`` stands at a tick."""
    name, more = "", 0
    late: Json = None
    for step in steps:
        if more and step.get("call") == name:
            more -= 1
            late = step.get("text", late)
            yield {key: one for key, one in step.items() if key != "text"}
            continue
        step = {"text": late, **step} if late is not None else step
        late = None
        found = TIMES.fullmatch(str(step.get("text")))
        name, more = (found[1], int(found[2]) - 1) if found and found[1] == step.get("call") else ("", 0)
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
        "rule": short(in_force(str(one.get("rule", ""))), 40),
        "sentence": short(one.get("sentence", ""), 4_000),
        "allowed": short(one.get("allowed", ""), 4_000),
        "seen": {short(name, 80): short(worded(str(value)), 4_000) for name, value in fields(one.get("seen")).items()},
    }


DRAWN = frozenset(
    {"view", "tiers", "jobs", "component_free_places", "component_entries", "component_free_host"}
    | {"component_host_entries", "ranks_view", "ranks_states", "sparse_view", "peek", "store_yard"}
)
"""The looks that are drawn, or that show too much to be: they aren't among the counters."""


COUNTERS = {
    "available": "free slots, as it says",
    "sizes": "units, as it says",
    "host_available": "free host slots, as it says",
    "occupied": "units that prefetches occupy",
    "component_available": "free places, as it says",
    "component_sizes": "entries that could go and that are protected, as it says",
    "component_available_host": "free host places, as it says",
    "sparse_available": "free slots, as it says",
    "sparse_device_available": "free device slots",
    "sparse_copying": "copies under way",
    "sparse_transferring": "transfers under way",
}
"""Looks that show a number, with what it counts."""


def counters(looks: Looks) -> Drawn:
    """All other looks, one a row."""
    rows = [
        Row(short(key, 120), [short(key, 120), told(value) + looks.stale(key), COUNTERS.get(key, "")])
        for key, value in looks.items()
        if key.partition("(")[0] not in DRAWN
    ]
    return table("What else was looked at", ["look", "shows", "in"], rows)


MOST_ROWS = 1_000
"""Of longer tables no more is drawn."""


def table(name: str, head: list[str], rows: Iterable[Row], *, tree: bool = False, leads: bool = False) -> Drawn:
    """A table."""
    shown = list(rows)
    if (more := len(shown) - MOST_ROWS) > 0:
        shown[MOST_ROWS:] = [Row("more", [f"… {more:,} more"])]
    return {"name": name, "head": head, "rows": shown, "tree": tree, "leads": leads}


class Numbered:
    """Numbers for things of any kind, by which they are known in every scene."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, *what: Json) -> str:
        """The number of a thing, as a text."""
        return str(self._numbers.setdefault(exact(list(what)), len(self._numbers)))


MOST_SQUARES = 2_048
"""A scene has no more squares, so that it is drawn at once."""


def bounded(pools: list[Pool]) -> list[Pool]:
    """The pools of a scene; where they are large together, what is free in large ones isn't drawn."""
    if sum(len(one["squares"]) for one in pools) <= MOST_SQUARES:
        return pools
    return [taken_of(one, MOST_SQUARES // len(pools)) for one in pools]


def taken_of(pool: Pool, most: int) -> Pool:
    """A pool without what is free in it, if it has more squares than that; what no page may be is drawn first."""
    name, squares = pool["name"], pool["squares"]
    if len(squares) <= most:
        return pool
    taken = [one for one in squares if one[1] != "free"]
    more = len(taken) - most
    told = f"{name}, {len(squares) - len(taken):,} of {len(squares):,} are free" + f", {more:,} more" * (more > 0)
    return {"name": told, "squares": sorted(sorted(taken, key=lambda one: one[1] not in ODD)[:most])}


SEEN = ": what is free or cached"
"""What a snapshot shows of a pool, behind the name where it is an earlier one: calls tell who holds a page."""


Homes = dict[int, list[tuple[str, str]]]
"""By page or place its homes, each a kind and who it is."""


def square(label: int, homes: list[tuple[str, str]], *, usable: bool = True, empty: str = "none") -> Square:
    """A square of these homes; ``empty``: what it is without one."""
    if not homes:
        return label, empty, ""
    (kind, who), *more = homes
    text = short(homes_text(homes), 200) if who or more else KINDS[kind]
    if not usable:
        return label, "stray", text
    return label, "two" if more else kind, text


STEP = re.compile(r"(.*), step (\d+)")
"""Who has a page since which step."""


def homes_text(homes: Iterable[tuple[str, str]]) -> str:
    """The homes of a page, alike ones once: ``free ×30``, ``caller, steps 33 + 35``."""
    steps: dict[str, list[str]] = {}
    for kind, who in homes:
        since = STEP.fullmatch(who)
        steps.setdefault(since[1] if since else who or KINDS[kind], []).append(since[2] if since else "")
    return " + ".join(
        f"{who}, step{'s' * (len(since) > 1)} {' + '.join(since)}"
        if since[0]
        else f"{who} ×{len(since)}"
        if len(since) > 1
        else who
        for who, since in steps.items()
    )


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
