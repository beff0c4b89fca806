"""Where two recorded plays first part, if what a cache may name as it likes is left aside.

Each play is read with names (:mod:`~kvlitmus.conformance.history.compare.names`) in the place of slots, jobs and the
like.  Two plays are alike as long as all else is equal.  What one of them doesn't tell (a counter of a node, a count
that the port leaves open) is not compared, and of exceptions not their texts.  Nor is what lies in slots: nobody owes
anything for a slot that was never written, and for all others it is judged.

Where they have parted they are asked in different states, and nothing more is compared until both look as they did
when they were fresh: from there on they are together again.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, cast

from kvlitmus.conformance.history.compare.names import PLACE, UNTOLD, Names, Plain, Prefixes
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.conformance.tape.calls import TOLD_ONCE, look_of
from kvlitmus.conformance.tape.changes import Looks, Unchanged
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.lines import Header, Step

EXCERPT = 200
"""How much of an answer is shown, in characters."""

FREES = frozenset({"free", "component_free"})
"""Calls by which the caller gives back what is its own."""

APART = "after a parting the two never look again as they did when they were fresh"
BETWEEN = "from a parting to where both look again as they did when they were fresh"
STORED = "after a parting what lies in storage may differ, and nobody sees it all"

NEVER = 1 << 62
"""The number of a step that there is not."""

RESETS = frozenset({"reset", "ranks_start"})
"""The calls after which a cache is as it was when it was fresh, or, of ranks, all begin anew."""


class Moment(NamedTuple):
    """A step with names: each of what can be compared, in order, and how it stands on the tape."""

    step: Step
    parts: dict[str, tuple[Plain, Json]]


class Play:
    """A play, step by step, with names.

    Raises :class:`~kvlitmus.conformance.tape.forms.FormError` for a look that has no form.
    """

    def __init__(self, header: Header, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self._page = header.config.page_size
        self._lasting = header.config.storage != "none"
        self._looks = Looks()
        self._first: dict[str, Plain] = {}
        self.afresh()

    def afresh(self) -> None:
        """From now on all that comes up has a new name."""
        self.names = Names(self._page, self._prefixes)
        self._last = Unchanged[Plain]()

    def moment(self, step: Step) -> Moment:
        """A step with names."""
        parts: dict[str, tuple[Plain, Json]] = {}
        if step.call:
            asked = self.names.arguments(step.call, step.args, step.kwargs)
            parts["call"] = [step.call, asked], cast("Json", {"args": step.args, "kwargs": step.kwargs})
            told: Plain = "raised" if step.raised is not None else [self.names.answer(step.call, step.answer)]
            parts["answer"] = told, step.answer if step.raised is None else f"raised {step.raised}"
            parts["did"] = self.names.did(step.did), step.did
        seen = dict(self._seen(step))
        if not step.call:
            self._first = {what: plain for what, (plain, _) in seen.items()}
        return Moment(step, parts | seen)

    def _seen(self, step: Step) -> Iterator[tuple[str, tuple[Plain, Json]]]:
        for key, answers in self._looks.read(step.looks).items():
            method, args = look_of(key)
            if method == "peek":
                continue
            asked = self.names.arguments(method, args, {})
            place = f"{method}({json.dumps(list(asked.values()))[1:-1]})" if asked else method
            if method in TOLD_ONCE:
                yield place, ([self.names.look(method, one) for one in answers], cast("Json", answers))
                continue
            seen = answers[-1]
            yield place, (self._last.of(key, seen, partial(self.names.look, method)), seen)

    def fresh(self, moment: Moment) -> bool:
        """Whether the cache looks as it did before the first call; storage keeps what nobody sees.

        Ranks can't be looked at before they begin: where all begin anew, they are.
        """
        if moment.step.call == "ranks_start":
            return True
        first = {what: plain for what, plain in self._first.items() if what not in TOLD_ONCE}
        seen = moment.parts
        return (
            bool(first)
            and not self._lasting
            and all(what in seen and difference(plain, seen[what][0]) is None for what, plain in first.items())
        )


@dataclass(slots=True, kw_only=True)
class Parting:
    """Where two plays part.

    ``step``: its number; ``call``: the call as A got it.  ``what``: ``call`` (the caller asks otherwise), ``answer``,
    ``did`` (with what it was lent), ``end`` (one play ends before), ``contents`` (of slots), or what was looked at.
    ``where``: the place in that.  ``a``, ``b``: what each showed there.  ``order``: that both showed the same in
    another order.  ``victims``: that each has cached what the other has not.  ``since``: the step after which they
    were together again, 0 before they have parted once.  ``until``: the step after which they are together the next
    time, 0 if they never are.  ``step_b``, ``since_b``, ``until_b``: the numbers that these steps have in the other
    play.
    """

    step: int
    step_b: int
    since: int = 0
    since_b: int = 0
    until: int = 0
    until_b: int = 0
    call: str
    what: str
    where: str = ""
    a: str = ""
    b: str = ""
    answers: tuple[str, str] = ("", "")
    order: bool = False
    victims: bool = False


class Likeness(NamedTuple):
    """What came of laying two plays side by side.

    ``partings``: the first, and one for each time that they part again after they were together.  ``steps``: how many
    steps were compared; ``apart``: why not all, in words.
    """

    partings: list[Parting]
    steps: int
    apart: str = ""

    @property
    def alike(self) -> int:
        """How far they are alike, in steps."""
        return self.partings[0].step if self.partings else NEVER


def likeness(one: tuple[Header, Sequence[Step]], other: tuple[Header, Sequence[Step]]) -> Likeness:
    """Lay two plays side by side."""
    prefixes = Prefixes()
    a, b = Play(one[0], prefixes), Play(other[0], prefixes)
    mine_left, theirs_left = iter(one[1]), iter(other[1])
    found, order = list[Parting](), list[Parting]()
    steps, since = 0, (0, 0)
    last: tuple[Step, Step] | None = None
    for step, step_b in zip_longest(mine_left, theirs_left):
        if step is None or step_b is None:
            found.append(ended(step, step_b, last, since))
            break
        mine, theirs = a.moment(step), b.moment(step_b)
        last = step, step_b
        steps += bool(step.call)
        parts = first_difference(mine, theirs, b.names, prefixes)
        if parts is None:
            continue
        parts.since, parts.since_b = since
        if parts.order:
            order = order or [parts]
            continue
        found.append(parts)
        if (met := together_again((a, b), (mine_left, theirs_left))) is None:
            return Likeness(found, steps, APART if one[0].config.storage == "none" else STORED)
        parts.until, parts.until_b = since = met
    return Likeness(found or order, steps, BETWEEN if any(since) else "")


def ended(step: Step | None, step_b: Step | None, last: tuple[Step, Step] | None, since: tuple[int, int]) -> Parting:
    """One play goes on where the other has ended."""
    following = cast("Step", step or step_b)
    goes_on, ends = f"it goes on: {text_of(following)}", "its play ends here"
    told = (ends, goes_on) if step is None else (goes_on, ends)
    at, at_b = last or (following, following)
    return Parting(
        step=at.number,
        step_b=at_b.number,
        since=since[0],
        since_b=since[1],
        call=text_of(at),
        what="end",
        a=told[0],
        b=told[1],
    )


def together_again(plays: tuple[Play, Play], left: tuple[Iterator[Step], Iterator[Step]]) -> tuple[int, int] | None:
    """Go on to where both look fresh: in the same place, or after a reset; the numbers of the step in both."""
    while True:
        moments = [next(map(play.moment, steps), None) for play, steps in zip(plays, left, strict=True)]
        resets = [one is not None and one.step.call in RESETS for one in moments]
        if any(resets) and not all(resets):
            at = resets.index(False)
            moments[at] = next((one for one in map(plays[at].moment, left[at]) if one.step.call in RESETS), None)
        mine, theirs = moments
        if mine is None or theirs is None:
            return None
        if plays[0].fresh(mine) and plays[1].fresh(theirs):
            for play in plays:
                play.afresh()
            return mine.step.number, theirs.step.number


def first_difference(mine: Moment, theirs: Moment, names: Names, prefixes: Prefixes) -> Parting | None:
    """What differs in a step, an order only if nothing else does; ``names``: those of the other."""
    only_order: Parting | None = None
    for what, (plain, told_a) in mine.parts.items():
        seen, told_b = theirs.parts.get(what, (plain, None))
        if plain is seen or (found := difference(plain, seen)) is None:
            continue
        if what == "call" and mine.step.call in FREES and went_by_number(plain, seen, names):
            continue
        parts = parted(mine, theirs, what, (plain, seen), (told_a, told_b), found, prefixes)
        if not parts.order:
            return parts
        only_order = only_order or parts
    return only_order


def went_by_number(one: Plain, other: Plain, names: Names) -> bool:
    """Whether two calls that free something differ in which of the caller's own alone: these are named alike then.

    Callers that hold several pages may give them back in the order of their numbers.
    """
    pairs = list(zip(named(one), named(other), strict=False))
    if erased(one) != erased(other):
        return False
    for left, right in pairs:
        if left != right:
            names.swap(left, right)
    return True


def named(value: Plain) -> list[str]:
    """The names of places in a value, in order."""
    if isinstance(value, dict):
        return [name for one in value.values() for name in named(one)]
    if isinstance(value, list):
        if len(value) == PLACE and type(value[0]) is str and type(value[1]) is int:
            return [value[0]]
        return [name for one in value for name in named(one)]
    return []


def erased(value: Plain) -> Plain:
    """A value without the names of its places."""
    if isinstance(value, dict):
        return {key: erased(one) for key, one in value.items()}
    if isinstance(value, list):
        if len(value) == PLACE and type(value[0]) is str and type(value[1]) is int:
            return value[1:]
        return [erased(one) for one in value]
    return value


def parted(
    mine: Moment,
    theirs: Moment,
    what: str,
    plain: tuple[Plain, Plain],
    told: tuple[Json, Json],
    found: tuple[list[Hashable], Plain, Plain],
    prefixes: Prefixes,
) -> Parting:
    """What is said of two steps that differ in one thing."""
    path, left, right = found
    places = [
        prefixes.text(cast("int", one)) if at and path[at - 1] == "tree" else str(one) for at, one in enumerate(path)
    ]
    trees = [cast("Mapping[str, Mapping[int, Plain]]", one)["tree"] for one in plain] if path[:1] == ["tree"] else []
    cached = [len(one) for one in trees] or [0, 0]
    alone = [sorted(one.keys() - other.keys()) for one, other in (trees, trees[::-1])] if trees else [[], []]
    if what == "call":
        shown_at = (text_of(mine.step), text_of(theirs.step))
    elif alone[0] or alone[1]:
        shown_at = tuple([f"cached alone: {', '.join(map(prefixes.text, one)) or 'nothing'}" for one in alone])  # type: ignore[assignment]
    elif what in ("answer", "did") or not path:
        shown_at = (excerpt(told[0]), excerpt(told[1]))
    else:
        shown_at = (excerpt(left), excerpt(right))
    answers = [excerpt(one.parts["answer"][1]) if "answer" in one.parts else "" for one in (mine, theirs)]
    return Parting(
        step=mine.step.number,
        step_b=theirs.step.number,
        call=text_of(mine.step),
        what=what,
        where=" / ".join(places),
        a=harmless(brief(shown_at[0]), EXCERPT),
        b=harmless(brief(shown_at[1]), EXCERPT),
        answers=(answers[0], answers[1]),
        order=in_order(left) == in_order(right) is not None,
        victims=bool(alone[0] and alone[1]) and cached[0] == cached[1],
    )


def difference(one: Plain, other: Plain) -> tuple[list[Hashable], Plain, Plain] | None:
    """The first place at which two values differ, and both values there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            left, right = one.get(key), other.get(key)
            if left is right or (key in UNTOLD and (left is None or right is None)):
                continue
            if (found := difference(left, right)) is not None:
                return [key, *found[0]], *found[1:]
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        if one == other:
            return None
        if (first := in_order(one)) is not None and first == in_order(other):
            return [], one, other
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            if (found := difference(left, right)) is not None:
                return [at, *found[0]], *found[1:]
        return None
    return None if type(one) is type(other) and one == other else ([], one, other)


def in_order(value: Plain) -> list[str] | None:
    """The parts of a list of at least two, whatever their order; ``None`` of anything else."""
    return sorted(map(repr, value)) if isinstance(value, list) and len(value) > 1 else None


def excerpt(value: object) -> str:
    """A value, short enough to be read."""
    try:
        return harmless(brief(json.dumps(value)), EXCERPT)
    except (TypeError, ValueError):
        return shown(value, EXCERPT)


def text_of(step: Step) -> str:
    """A call as people read it."""
    if not step.call:
        return "the fresh cache"
    if type(told := step.data.get("text")) is str:
        return harmless(brief(told.partition(" → ")[0]), EXCERPT)
    given = [json.dumps(one) for one in step.args] + [f"{name}={json.dumps(one)}" for name, one in step.kwargs.items()]
    return harmless(brief(f"{step.call}({', '.join(given)})"), EXCERPT)
