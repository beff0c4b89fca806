"""Writers and readers of forms, compiled: what is of the promised type is done at once, all else is the form's own.

Over a pipe each look is written and read once a call, so that most of the time of a play would be spent in walking from
form to form.  A form tells here by two :class:`Quick` pieces how it writes and reads a value that needs no second look;
a record puts those of its fields into one function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from marshal import dumps
from typing import Any, NamedTuple, TypeVar, cast

LONG_INT = 1_000
"""Whole numbers of more bits are written as text: readers have limits of their own."""

LONG = 1 << LONG_INT

PAIR = 2
"""A bigram has so many tokens."""

MARSHAL = 2
"""The last form of it that has no references, so that equal values have equal texts."""

NUMBERS = frozenset({int})
"""The types in a sequence of whole numbers."""


def whole(values: Sequence[object]) -> bool:
    """Whether these are integers of bearable size and nothing else."""
    if not values:
        return True
    if not NUMBERS.issuperset(map(type, values)):
        return False
    numbers: Sequence[Any] = values
    return bool(min(numbers) > -LONG and max(numbers) < LONG)


def all_pairs(values: Sequence[object], kind: type[list[object]] | type[tuple[object, ...]]) -> bool:
    """Whether these are lists, or tuples, of two whole numbers, and nothing else: the units of bigrams."""
    if set(map(type, values)) != {kind}:
        return False
    pairs = cast("Sequence[Sequence[object]]", values)
    return set(map(len, pairs)) == {PAIR} and whole([one for pair in pairs for one in pair])


class Quick(NamedTuple):
    """Python: where ``when`` is true of ``{v}``, ``then`` is what becomes of it."""

    when: str
    then: str = "{v}"


class Field(NamedTuple):
    """A field of a record: how it is done quickly, where it can be, and how else."""

    quick: Quick | None
    slow: Callable[[Any, Any], Any]


SCALARS: Mapping[type, str] = {
    type(None): "{v} is None",
    bool: "{v} is True or {v} is False",
    int: "type({v}) is int and -LONG < {v} < LONG",
    str: "type({v}) is str and {v}.isascii()",
}
"""When scalars are written as they are; numbers that JSON may not have are looked at."""

READ: Mapping[type, str] = {
    type(None): "{v} is None",
    bool: "{v} is True or {v} is False",
    int: "type({v}) is int",
    str: "type({v}) is str",
    float: "type({v}) is float or type({v}) is int",
}

NUMBERS_WRITTEN = Quick("(type({v}) is tuple or type({v}) is list) and whole({v})", "list({v})")

NUMBERS_READ: Mapping[type, Quick] = {
    kind: Quick("type({v}) is list and NUMBERS.issuperset(map(type, {v}))", f"{kind.__name__}({{v}})")
    for kind in (list, tuple)
}


def scalars_written(kinds: Iterable[type]) -> Quick:
    """Scalars of these types: themselves."""
    return Quick(" or ".join(SCALARS[kind] for kind in kinds if kind in SCALARS) or "False")


def scalars_read(kinds: Iterable[type]) -> Quick:
    """The same, from JSON."""
    return Quick(" or ".join(READ[kind] for kind in kinds))


def either(quicks: Iterable[Quick | None]) -> Quick:
    """One of several, which have no type in common."""
    ways = [one for one in quicks if one is not None]
    then = " else ".join(f"{one.then} if {one.when}" for one in ways[:-1])
    return Quick(" or ".join(f"({one.when})" for one in ways), f"({then} else {ways[-1].then})")


def value_of(quick: Quick | None, slow: str, value: str) -> str:
    """An expression: a value, done quickly or slowly."""
    if quick is None:
        return f"{slow}({value}, things)"
    return f"({quick.then} if {quick.when} else {slow}({{v}}, things))".format(v=value)


def single(quick: Quick, slow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A value that is no record."""
    return cast("Callable[[Any, Any], Any]", _single(quick)(slow))


@cache
def _single(quick: Quick) -> Callable[..., Any]:
    """What makes such a function; there are few kinds of them."""
    text = value_of(quick, "slow", "value")
    return _made(["def done(slow):", f" return lambda value, things: {text}"], {})


def later(make: Callable[[], Callable[[Any, Any], Any]]) -> Callable[[Any, Any], Any]:
    """A function that is made when it is called for the first time: few of all forms are ever used in a run."""
    made = list[Callable[[Any, Any], Any]]()

    def done(value: object, things: object) -> Any:
        if not made:
            made.append(make())
        return made[0](value, things)

    return done


def record_writer(
    kind: type[tuple[object, ...]],
    fields: Mapping[str, Field],
    defaults: Mapping[str, object],
    slow: Callable[..., Any],
) -> Callable[[Any, Any], Any]:
    """How a record becomes an object, with fields at their default left out.  ``fields``: in the order of writing."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    places = {name: f"v{at}" for at, name in enumerate(names)}
    scope: dict[str, object] = {"kind": kind, "slow": slow}
    told, later = list[str](), list[str]()
    for name, field in fields.items():
        place = places[name]
        scope[f"f{place}"] = field.slow
        text = value_of(field.quick, f"f{place}", place)
        if name not in defaults:
            told.append(f"{name!r}: {text}")
            continue
        scope[f"d{place}"] = defaults[name]
        later += [
            f" if {place} is not d{place} and (type({place}) is not type(d{place}) or {place} != d{place}):",
            f"  found[{name!r}] = {text}",
        ]
    lines = [
        "def done(value, things):",
        f" if type(value) is not kind or tuple.__len__(value) != {len(names)}: return slow(value, things)",
        f" {', '.join(places.values())}, = tuple.__iter__(value)",
        f" found = {{{', '.join(told)}}}",
        *later,
        " return found",
    ]
    return _made(lines, scope)


def record_reader(
    kind: type[tuple[object, ...]],
    fields: Mapping[str, Field],
    defaults: Mapping[str, object],
    slow: Callable[..., Any],
) -> Callable[[Any, Any], Any]:
    """How an object becomes a record."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    scope: dict[str, object] = {"kind": kind, "slow": slow}
    lines = ["def done(told, things):", " if type(told) is not dict: return slow(told, things)", " left = len(told)"]
    for at, name in enumerate(names):
        scope[f"f{at}"] = fields[name].slow
        text = value_of(fields[name].quick, f"f{at}", "one")
        if name in defaults:
            scope[f"d{at}"] = defaults[name]
            lines += [f" if {name!r} in told:", f"  one = told[{name!r}]; left -= 1; v{at} = {text}"]
            lines += [f" else: v{at} = d{at}"]
        else:
            lines += [f" if {name!r} not in told: return slow(told, things)"]
            lines += [f" one = told[{name!r}]; left -= 1; v{at} = {text}"]
    lines += [" if left: return slow(told, things)"]
    lines += [f" return tuple.__new__(kind, ({', '.join(f'v{at}' for at in range(len(names)))},))"]
    return _made(lines, scope)


def _made(lines: Sequence[str], scope: Mapping[str, object]) -> Callable[[Any, Any], Any]:
    """The function that these lines define."""
    names: dict[str, Any] = {**scope, "LONG": LONG, "NUMBERS": NUMBERS, "whole": whole}
    exec(compile("\n".join(lines), "<form>", "exec"), names)  # noqa: S102 - of this tree's own names
    return cast("Callable[[Any, Any], Any]", names["done"])


ROWS = 1_000
"""So many rows of a kind that were read are remembered."""

FIRST: tuple[list[bytes], list[Any], dict[bytes, Any]] = ([], [], {})
"""What there is before the first list of a kind: its contents, what they were written as, and this of each content."""


Made = TypeVar("Made")


NOTHING: tuple[object, object] = (None, None)
"""What there is before the first list that was read."""


class Rows:
    """The rows of lists, and what was made of each: most nodes of a snapshot are those of the one before.

    A row that is written is known by its content to the last type, one that is read by being the very same object.
    What is told of the same content is the same object: whoever changes one changes the other.
    """

    def __init__(self) -> None:
        self._written: dict[type, tuple[list[bytes], list[Any], dict[bytes, Any]]] = {}
        self._read: dict[Callable[..., Any], dict[int, tuple[Any, Any]]] = {}
        self._last: dict[Callable[..., Any], tuple[object, object]] = {}

    def written(self, kind: type, rows: Sequence[Any], write: Callable[[Any, Any], Any], things: object) -> list[Any]:
        """These rows as JSON, the same object for the same row, and for the same rows as the last time."""
        last, told, known = self._written.get(kind, FIRST)
        try:
            contents = [dumps(row[:], MARSHAL) for row in rows] if set(map(type, rows)) == {kind} else []
        except ValueError:  # something in it is no plain data
            contents = []
        if not contents:
            return [write(row, things) for row in rows]
        if contents == last:
            return told
        told = [known.get(content) or write(row, things) for content, row in zip(contents, rows, strict=True)]
        self._written[kind] = contents, told, dict(zip(contents, told, strict=True))
        return told

    def read(
        self, rows: Iterable[Any], kind: Callable[[list[Any]], Made], read: Callable[[Any, Any], Any], things: object
    ) -> Made:
        """What they are of this kind: the very same object where the rows are the very same as the last time."""
        of, made = self._last.get(read, NOTHING)
        if of is not rows:
            made = kind(self._values(rows, read, things))
            self._last[read] = rows, made
        return cast("Made", made)

    def _values(self, rows: Iterable[Any], read: Callable[[Any, Any], Any], things: object) -> list[Any]:
        known, found = self._read.setdefault(read, {}), list[Any]()
        for row in rows:
            kept = known.get(id(row))
            if kept is None:
                if len(known) >= ROWS:
                    known.clear()
                kept = known[id(row)] = row, read(row, things)
            found.append(kept[1])
        return found
