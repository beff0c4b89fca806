"""Values of recorded steps as plain data: what ports take and answer, written down and made again.

A :class:`Table` keeps each value once, as a row; other rows know it by its number.  A row is a scalar, or a list that
begins with what it is:

==========================  ============================================================================
``["l", 1, 2]``, ``"t"``     a list, a tuple of integers (``"a"``: anything else that iterates, an array for instance)
``["L", n …]``, ``"T"``      a list, a tuple of other values
``["i", key, value …]``      a mapping from integers to integers
``["m", key, n …]``          a mapping from other scalars; ``["M", n, n …]`` from anything
``["b", text]``              bytes, one character each (ISO 8859-1); ``"z"``: compressed by zlib, in base 64
``["Hit", n …]``             a form of the ports, field by field
``["h"]``                    a handle or receipt that means nothing but itself
``["@", call, at …]``        one that was given before: by which call of the play, and where in its answer it stands
``["p", of, [call, at, many] …]``
                             an operand of places: ``many`` of those that a call gave, from the ``at``-th on (``-1``
                             for a call: the numbers themselves follow); ``of``: ``"l"`` or ``"t"``
``["P", name, of, […] …]``   the same of several components; ``of`` may be the ends at which the places stand
``["lent", what]``           something of the suite's
``["o", n]``                 an object that is none of these, the ``n``-th of its play
``["raised", text]``         an exception
==========================  ============================================================================

Operands are references, so that steps can be played on another cache, whose handles and places are others.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kvlitmus.spec.interface import cache, components, plans, ranks, sparse, stores, tiers
from kvlitmus.spec.words.units import Key

Row = Any
"""A scalar, or a list as above."""

FORMS: dict[str, type[Any]] = {
    form.__name__: form
    for module in (cache, tiers, components, ranks, sparse, stores, plans)
    for form in vars(module).values()
    if isinstance(form, type) and issubclass(form, tuple) and hasattr(form, "_fields")
} | {"Key": Key}
"""What ports take and answer that has fields, by the name of its form."""

LONG = 2_000
"""So many bytes are written as they are; more are compressed."""

GIVES: Mapping[str, tuple[int, ...]] = {
    "match": (2,),
    "raw_match": (2,),
    "raw_array": (),
    "lock": (),
    "component_match": (2,),
    **dict.fromkeys(
        ("component_lock", "component_start", "component_prefetch", "component_back_up", "component_load"), (0,)
    ),
    "component_write": (0,),
    "component_begun": (-1, 0),
}
"""The calls that give a handle or a receipt, and where in the answer it stands (-1: in each that is there)."""

TAKES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("lock", "unlock", "component_lock", "component_unlock", "component_grow", "component_finish"), (0,)
    ),
    **dict.fromkeys(("component_back_up", "component_load", "component_copied", "component_prefetch"), (0,)),
    **dict.fromkeys(("component_prefetch_found", "component_prefetch_settled", "component_prefetch_commit"), (0,)),
    **dict.fromkeys(("component_prefetch_abort", "component_write", "component_written", "raw_free"), (0,)),
    "raw_match": (0,),
    "raw_insert": (0, 1),
    "raw_begin": (1,),
    "raw_prefetch": (1,),
}
"""The calls that take one, and as which argument."""

PLACES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("alloc", "alloc_extend", "alloc_decode", "grow", "component_alloc", "component_insert"), ()),
    **dict.fromkeys(("component_copied", "component_prefetch_settled", "component_prefetch_abort"), ()),
    **dict.fromkeys(("match", "insert", "load_back", "load_back_within", "component_match", "component_grow"), (1,)),
    **dict.fromkeys(("component_prefetch", "component_back_up", "component_prefetch_commit"), (1,)),
    **dict.fromkeys(("begin", "publish", "publish_upto"), (0,)),
    **dict.fromkeys(("component_start", "component_load"), (2,)),
}
"""The calls that give places of a pool (slots, entries), and where in the answer these stand."""

PLACED: Mapping[str, int] = {"free": 0, "insert": 1, "poke": 0, "component_free": 0, "component_insert": 1}
"""The calls that take places, and as which argument."""


class NotKnown(ValueError):
    """A row that can't be read; the text says what was expected."""


class Lent(NamedTuple):
    """Stands for something of the suite's where calls are compared."""

    what: str


class Gone:
    """Stands for a handle, a receipt, or an object of the cache's."""


class Handle:
    """Stands for a handle or receipt that is written down; ``again``: which call gave it before, if one did."""

    def __init__(self, again: list[Any] | None) -> None:
        self.row: Row = ["h"] if again is None else ["@", *again]


class Place(NamedTuple):
    """Where a place comes from: the call that gave it, and how many it had given before of the same component."""

    call: int
    at: int


class Operands:
    """What the calls of one play gave, by which later calls name it."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self._given: list[tuple[object, list[Any]]] = []
        self._places: dict[tuple[str, int], Place] = {}
        self._runs: dict[int, Mapping[str, Sequence[int]]] = {}

    def add(self, method: str, answer: Any) -> None:
        """The next call has given this."""
        number = len(self.answers)
        self.answers.append(answer)
        for path in paths_of(answer, GIVES.get(method)):
            if (value := walked(answer, path)) is not None:
                self._given.append((value, [number, *path]))
        if method in PLACES:
            self._runs[number] = runs = places_in(walked(answer, PLACES[method]))
            for component, run in runs.items():
                for at, place in enumerate(run):
                    self._places[component, place] = Place(number, at)

    def place_of(self, value: object) -> list[Any] | None:
        """Which call gave a handle, and where in its answer; ``None`` where none did."""
        plain = type(value) in (int, str, tuple)
        for one, where in reversed(self._given):
            if one is value or (plain and type(value) is type(one) and value == one):
                return [*where]
        return None

    def segments(self, component: str, places: Iterable[int]) -> list[list[int]]:
        """Places as runs of what calls gave, and as themselves where none did."""
        found: list[list[int]] = []
        for place in places:
            known = self._places.get((component, place))
            last = found[-1] if found else None
            if known is None:
                if last is not None and last[0] == -1:
                    last.append(place)
                else:
                    found.append([-1, place])
            elif last is not None and last[0] == known.call and last[1] + last[2] == known.at:
                last[2] += 1
            else:
                found.append([known.call, known.at, 1])
        return found

    def places(self, component: str, segments: Iterable[Sequence[int]]) -> list[int]:
        """The same places again."""
        found: list[int] = []
        for call, *rest in segments:
            run = rest if call == -1 else self._runs[call][component][rest[0] : rest[0] + rest[1]]
            found += run
        return found


def marked(answer: Any, path: Sequence[int], operands: Operands) -> Any:
    """An answer with a :class:`Handle` where it gives a handle that is no scalar."""
    if not path:
        scalar = answer is None or type(answer) in (bool, int, float, str)
        return answer if scalar else Handle(operands.place_of(answer))
    if not isinstance(answer, list | tuple) or len(answer) <= path[0]:
        return answer
    parts = list(answer)
    parts[path[0]] = marked(parts[path[0]], path[1:], operands)
    made = getattr(type(answer), "_make", type(answer))
    return made(parts)


def walked(answer: Any, path: Sequence[Any]) -> Any:
    """What stands there in an answer; ``None`` where there is nothing, as in a refusal."""
    for at in path:
        if not isinstance(answer, list | tuple) or len(answer) <= at:
            return None
        answer = answer[at]
    return answer


def paths_of(answer: Any, path: tuple[int, ...] | None) -> list[tuple[int, ...]]:
    """Where in an answer there are handles."""
    if path is None:
        return []
    if path[:1] == (-1,):
        return [(at, *path[1:]) for at in range(len(answer) if isinstance(answer, list | tuple) else 0)]
    return [path]


def places_in(answer: Any) -> dict[str, list[int]]:
    """The places in a part of an answer, by component (``""`` where there is one pool)."""
    if isinstance(answer, Mapping):
        return {str(name): places_in(some).get("", []) for name, some in answer.items() if type(name) is str} or {
            "": [one for one in answer.values() if type(one) is int]
        }
    return {"": [one for one in answer if type(one) is int] if isinstance(answer, list | tuple) else []}


def whole(values: Iterable[Any]) -> bool:
    """Whether these are integers and nothing else."""
    return all(type(one) is int for one in values)


def bytes_of(kind: str, text: str) -> bytes:
    """The bytes of a row."""
    return text.encode("latin-1") if kind == "b" else zlib.decompress(base64.b64decode(text))


class Table:
    """Values, each kept once."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._at: dict[str, int] = {}
        self._fast: dict[Any, int] = {}

    def put(self, row: Row) -> int:
        """The number of a row."""
        key = json.dumps(row)
        at = self._at.get(key)
        if at is None:
            at = self._at[key] = len(self.rows)
            self.rows.append(row)
        return at

    def add(self, value: Any, odd: Callable[[Any], Row]) -> int:
        """The number of a value; ``odd`` gives the row of what is no plain data."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            key = (kind, value)
            at = self._fast.get(key)
            if at is None:
                at = self._fast[key] = self.put(value)
            return at
        return self.put(self.row(value, odd))

    def row(self, value: Any, odd: Callable[[Any], Row]) -> Row:
        """The row of a value that is no scalar."""
        kind = type(value)
        if kind in (list, tuple) and whole(value):
            return ["l" if kind is list else "t", *value]
        if isinstance(value, list | tuple):
            named = FORMS.get(kind.__name__) is kind
            plain = "L" if isinstance(value, list) else "T"
            return [kind.__name__ if named else plain, *(self.add(one, odd) for one in value)]
        if isinstance(value, Mapping):
            if whole(value) and whole(value.values()):
                return ["i", *(one for pair in value.items() for one in pair)]
            if all(one is None or type(one) is str for one in value):
                return ["m", *(part for key, one in value.items() for part in (key, self.add(one, odd)))]
            return ["M", *(self.add(one, odd) for pair in value.items() for one in pair)]
        if isinstance(value, bytes):
            if len(value) > LONG:
                return ["z", base64.b64encode(zlib.compress(value)).decode()]
            return ["b", value.decode("latin-1")]
        if hasattr(value, "tolist"):  # an array, or one number of such a class
            listed = value.tolist()
            if type(listed) in (bool, int, float):
                return listed
            if type(listed) is list and whole(listed):
                return ["a", *listed]
        return value.row if isinstance(value, Handle) else odd(value)


class Reader:
    """Makes values from the rows of a table."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._plain: dict[int, Any] = {}

    def value(self, at: int, objects: dict[int, Any], operands: Operands | None = None) -> Any:
        """A value, made afresh where a caller may write into it; raises :class:`NotKnown`.

        ``objects``: those of the play that are none of anything else.  ``operands``: what its calls gave.
        """
        if at in self._plain:
            return self._plain[at]
        row = self.rows[at]
        if type(row) is not list:
            self._plain[at] = row
            return row
        kind, *rest = row
        if kind in ("t", "b", "z"):
            self._plain[at] = tuple(rest) if kind == "t" else bytes_of(kind, rest[0])
            return self._plain[at]
        return self._made(kind, rest, objects, operands)

    def _made(self, kind: str, rest: list[Any], objects: dict[int, Any], operands: Operands | None) -> Any:
        def inner(numbers: Iterable[int]) -> list[Any]:
            return [self.value(one, objects, operands) for one in numbers]

        if kind in ("l", "a"):
            return rest
        if kind in ("L", "T"):
            return inner(rest) if kind == "L" else tuple(inner(rest))
        if kind == "i":
            return dict(zip(rest[::2], rest[1::2], strict=True))
        if kind == "m":
            return dict(zip(rest[::2], inner(rest[1::2]), strict=True))
        if kind == "M":
            return dict(zip(inner(rest[::2]), inner(rest[1::2]), strict=True))
        if kind == "h":
            return Gone()
        if kind == "o":
            return objects.setdefault(rest[0], Gone())
        if kind == "lent":
            return Lent(rest[0])
        if kind in ("@", "p", "P") and operands is not None:
            return referred(kind, rest, operands)
        if kind in FORMS:
            return FORMS[kind](*inner(rest))
        raise NotKnown(f"expected a row of a known kind, got {kind!r}")


def placed(value: Any, operands: Operands) -> Row | None:
    """Places that are handed to a call, as references; ``None`` for what are none."""
    if type(value) in (list, tuple) and whole(value):
        return ["p", "l" if type(value) is list else "t", *operands.segments("", value)]
    if isinstance(value, Mapping) and all(type(one) is str for one in value):
        row: list[Any] = ["P"]
        for component, some in value.items():
            if isinstance(some, Mapping) and whole(some) and whole(some.values()):
                row += [component, list(some), operands.segments(component, some.values())]
            elif isinstance(some, list | tuple) and whole(some):
                row += [component, "l" if isinstance(some, list) else "t", operands.segments(component, some)]
            else:
                return None
        return row
    return None


def referred(kind: str, rest: list[Any], operands: Operands) -> Any:
    """What an operand refers to."""
    if kind == "@":
        call, *path = rest
        return walked(operands.answers[call], path)
    if kind == "p":
        of, *segments = rest
        places = operands.places("", segments)
        return places if of == "l" else tuple(places)
    found: dict[str, Any] = {}
    for component, of, segments in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        places = operands.places(component, segments)
        found[component] = (
            dict(zip(of, places, strict=True)) if type(of) is list else places if of == "l" else tuple(places)
        )
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two arguments say the same; a list says what a tuple does, and what is lent is not looked at."""
    if isinstance(one, Lent):
        return True
    if type(one) in (list, tuple) and type(other) in (list, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and bool(one == other)
