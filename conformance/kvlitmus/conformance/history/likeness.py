"""Where two recorded plays first part, if what a cache may name as it likes is left aside.

Each play is read with names (:mod:`~kvlitmus.conformance.history.names`) in the place of slots, jobs and the like.  Two
plays are alike as long as all else is equal.  What one of them doesn't tell (a counter of a node, a count that the port
leaves open) is not compared, and of exceptions not their texts.  Nor is what lies in slots: nobody owes anything for a
slot that was never written, and for all others it is judged.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, cast

from kvlitmus.conformance.history.names import PLACE, UNTOLD, Names, Plain, Prefixes
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.conformance.tape.calls import TOLD_ONCE, look_of
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.lines import Header, Step

EXCERPT = 200
"""How much of an answer is shown, in characters."""

FREES = frozenset({"free", "component_free"})
"""Calls by which the caller gives back what is its own."""


class Moment(NamedTuple):
    """A step with names: each of what can be compared, in order, and how it stands on the tape."""

    step: Step
    parts: dict[str, tuple[Plain, Json]]


def moments(names: Names, steps: Iterable[Step]) -> Iterator[Moment]:
    """The steps of a play one by one; raises :class:`~kvlitmus.conformance.tape.forms.FormError` for a bad look."""
    looks = Looks()
    last: dict[str, tuple[Json, Plain]] = {}
    for step in steps:
        parts: dict[str, tuple[Plain, Json]] = {}
        if step.call:
            asked = names.arguments(step.call, step.args, step.kwargs)
            parts["call"] = [step.call, asked], cast("Json", {"args": step.args, "kwargs": step.kwargs})
            told: Plain = "raised" if step.raised is not None else [names.answer(step.call, step.answer)]
            parts["answer"] = told, step.answer if step.raised is None else f"raised {step.raised}"
            parts["did"] = names.did(step.did), step.did
        for key, answers in looks.read(step.looks).items():
            method, args = look_of(key)
            if method == "peek":
                continue
            asked = names.arguments(method, args, {})
            place = f"{method}({json.dumps(list(asked.values()))[1:-1]})" if asked else method
            if method in TOLD_ONCE:
                parts[place] = [names.look(method, one) for one in answers], cast("Json", answers)
                continue
            seen = answers[-1]
            before = last.get(key)
            again = before is not None and before[0] is seen and type(seen) in (list, dict)
            plain = before[1] if before is not None and again else names.look(method, seen)
            last[key] = seen, plain
            parts[place] = plain, seen
        yield Moment(step, parts)


@dataclass(slots=True, kw_only=True)
class Parting:
    """Where two plays part.

    ``step``: its number; ``call``: the call as A got it.  ``what``: ``call`` (the caller asks otherwise), ``answer``,
    ``did`` (with what it was lent), ``end`` (one play ends before), or what was looked at.  ``where``: the place in
    that.  ``a``, ``b``: what each showed there.  ``order``: that both showed the same in another order.  ``victims``:
    that each has cached what the other has not.
    """

    step: int
    call: str
    what: str
    where: str = ""
    a: str = ""
    b: str = ""
    answers: tuple[str, str] = ("", "")
    order: bool = False
    victims: bool = False


def parting(one: tuple[Header, Sequence[Step]], other: tuple[Header, Sequence[Step]]) -> Parting | None:
    """Where a play first parts from another; ``None``: they are alike to their end."""
    prefixes = Prefixes()
    names = [Names(header.config.page_size, prefixes) for header, _ in (one, other)]
    only_order: Parting | None = None
    last: Moment | None = None
    for mine, theirs in zip_longest(moments(names[0], one[1]), moments(names[1], other[1])):
        if mine is None or theirs is None:
            following = cast("Moment", mine or theirs).step
            goes_on, ends = f"it goes on: {text_of(following)}", "its play ends here"
            told = (ends, goes_on) if mine is None else (goes_on, ends)
            at = following if last is None else last.step
            return Parting(step=at.number, call=text_of(at), what="end", a=told[0], b=told[1])
        last = mine
        for what, (plain, told_a) in mine.parts.items():
            seen, told_b = theirs.parts.get(what, (plain, None))
            if plain is seen or (found := difference(plain, seen)) is None:
                continue
            if what == "call" and mine.step.call in FREES and went_by_number(plain, seen, names[1]):
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
