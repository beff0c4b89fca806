"""The forms of values on a tape: plain JSON, made and read by the types that the ports promise.

A value of the promised type is plain: a form with fields is an object (fields at their default left out), a sequence or
tuple an array, a mapping from texts an object and any other a list of pairs, bytes are base64.  Null, truth values,
numbers and texts are themselves wherever they stand.  Everything else that is not as promised has a **tag**, so that it
is told from what is:

==================================================  ==================================================================
``{"$": "tuple", "of": […]}``, ``"list"``           a tuple or a list where something else is promised
``{"$": "array", "of": […]}``                       whole numbers that are neither, numpy's for instance
``{"$": "map", "of": [[key, value], …]}``           a mapping
``{"$": "Hit", "of": {…}}``                         a form of the ports, by its name
``{"$": "bytes", "of": base64}``                    bytes
``{"$": "text", "of": text}``                       a text where bytes are promised
``{"$": "utf16", "of": base64}``                    a text with half a pair of UTF-16, which no file in UTF-8 may hold
``{"$": "float", "of": "nan"}``                     a number that JSON hasn't; ``"inf"``, ``"-inf"``
``{"$": "int", "of": "0x1f…"}``                     a whole number of more than a thousand bits
``{"$": "object", "of": n}``                        anything else, known by its number in the play
==================================================  ==================================================================

``{"@": …}`` stands for what a step gave (:mod:`~kvlitmus.conformance.tape.operands`).
"""

# ruff: noqa: SLF001 - forms are made of forms

from __future__ import annotations

import base64
import binascii
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias, cast, get_type_hints

from kvlitmus.conformance.support.text import whole_text
from kvlitmus.conformance.tape import compiled
from kvlitmus.conformance.tape.compiled import LONG_INT, PAIR, Field, Quick, Rows, all_pairs, whole
from kvlitmus.spec.interface import cache as flat
from kvlitmus.spec.interface import components, plans, ranks, sparse, stores, tiers
from kvlitmus.spec.words.units import Key

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value as it stands in a file."""

RECORDS: Mapping[str, type[tuple[object, ...]]] = {
    form.__name__: form
    for module in (flat, tiers, components, ranks, sparse, stores, plans)
    for form in vars(module).values()
    if isinstance(form, type) and issubclass(form, tuple) and hasattr(form, "_fields")
} | {"Key": Key}
"""What ports take and answer that has fields, by the name of its form."""

TAGS = ("$", "@")
RESERVED = frozenset((*TAGS, "~", "several", "raised"))
"""The keys that tell an object apart from a mapping, and those with one of which a mapping is written as pairs."""

DEEPEST = 20
"""What lies in more tagged values than that is an object."""


class FormError(ValueError):
    """JSON that has not the promised form; ``expected`` in words."""

    def __init__(self, expected: str, got: object) -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = got


class Things(Protocol):
    """What is no plain data in one play.

    strict: whether JSON of another form than promised is an error; else it is taken as it stands, as what a cache
    answered must be.  depth: how many tagged values the one that is written lies in.  rows: what was made of the rows
    of lists before, where that is remembered.
    """

    strict: bool
    depth: int
    rows: Rows | None

    def told(self, value: object) -> Json:
        """How an object is written."""

    def meant(self, told: dict[str, Json]) -> object:
        """What ``{"@": …}`` or ``{"$": "object", …}`` stands for; raises :class:`FormError`."""


Writer: TypeAlias = Callable[[object, Things], Json]
Reader: TypeAlias = Callable[[Json, Things], object]


class Named(NamedTuple):
    """Stands for a handle or receipt where it is written: ``json`` is its name."""

    json: Json


class Form:
    """A promised type: ``words`` say it to people.

    write: a value as JSON, tagged where it is not of this type.  read: the value again; raises :class:`FormError` for a
    tag that can't be read, and for any other form if strict.  Most forms have compiled ones in their place, which do
    the same.
    """

    words = "anything"
    quick_write: Quick | None = None
    quick_read: Quick | None = None

    def __init__(self) -> None:
        self.write: Writer = self._write
        self.read: Reader = self._read

    def quickly(self, write: Quick, read: Quick) -> None:
        """From now on this is tried first."""
        self.quick_write, self.quick_read = write, read
        self.write, self.read = compiled.single(write, self._write), compiled.single(read, self._read)

    def _write(self, value: object, things: Things) -> Json:
        return self._plain(value, things) if self._takes(value) else odd(value, things)

    def _read(self, told: Json, things: Things) -> object:
        if type(told) is dict and not told.keys().isdisjoint(TAGS):
            return untagged(told, things)
        if self._fits(told):
            return self._made(told, things)
        if things.strict:
            raise FormError(self.words, told)
        return told

    def _takes(self, value: object) -> bool:
        """Whether a value is of this type, as far as can be seen from outside."""
        raise NotImplementedError

    def _fits(self, told: Json) -> bool:
        """Whether JSON is of this type, as far as can be seen from outside."""
        raise NotImplementedError

    def _plain(self, value: object, things: Things) -> Json:
        """A value of this type as JSON."""
        raise NotImplementedError

    def _made(self, told: Json, things: Things) -> object:
        """The value of this type."""
        raise NotImplementedError

    def _schema(self) -> dict[str, object]:
        """The JSON Schema of a value of this type; tagged values come on top (:func:`schema_of`)."""
        return {}


class Anything(Form):
    """``object``: scalars are themselves, a tuple is an array, all else is tagged."""

    def _takes(self, value: object) -> bool:
        return type(value) is tuple

    def _fits(self, told: Json) -> bool:
        return True

    def _plain(self, value: object, things: Things) -> Json:
        return [self.write(one, things) for one in cast("tuple[object, ...]", value)]

    def _made(self, told: Json, things: Things) -> object:
        return tuple([self.read(one, things) for one in told]) if type(told) is list else told


class Scalar(Form):
    """A number, a text, a truth value, null: one of these types."""

    NAMES: Mapping[type, str] = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }
    SCHEMAS: Mapping[type, str] = {
        int: "integer",
        float: "number",
        str: "string",
        bool: "boolean",
        type(None): "null",
    }

    def __init__(self, *kinds: type) -> None:
        super().__init__()
        self.kinds = kinds
        self.words = " or ".join(self.NAMES[kind] for kind in kinds)
        self.quickly(compiled.scalars_written(kinds), compiled.scalars_read(kinds))

    def _takes(self, value: object) -> bool:
        return False  # a scalar is itself anywhere: see odd()

    def _fits(self, told: Json) -> bool:
        return type(told) in self.kinds or (type(told) is int and float in self.kinds)

    def _made(self, told: Json, things: Things) -> object:
        return told

    def _schema(self) -> dict[str, object]:
        names = [self.SCHEMAS[kind] for kind in self.kinds]
        return {"type": names if len(names) > 1 else names[0]}


class Bytes(Form):
    """Bytes, in base64."""

    words = "bytes in base64"

    def _takes(self, value: object) -> bool:
        return type(value) in (bytes, str)

    def _fits(self, told: Json) -> bool:
        return type(told) is str

    def _plain(self, value: object, things: Things) -> Json:
        return base64.b64encode(value).decode() if isinstance(value, bytes) else {"$": "text", "of": cast("str", value)}

    def _made(self, told: Json, things: Things) -> object:
        return unpacked(told)

    def _schema(self) -> dict[str, object]:
        return {"type": "string", "contentEncoding": "base64"}


class Array(Form):
    """A sequence, or a tuple of any length (``kind``: what it becomes)."""

    def __init__(self, of: Form, kind: type[list[object]] | type[tuple[object, ...]]) -> None:
        super().__init__()
        self.of, self.kind = of, kind
        self.numbers = takes_numbers(of)
        self.pairs = isinstance(of, Either) and any(isinstance(one, Fixed) and one.pairs for one in of.of)
        self.words = f"a list, each {of.words}"
        if self.numbers:
            self.quickly(compiled.NUMBERS_WRITTEN, compiled.NUMBERS_READ[kind])

    def _takes(self, value: object) -> bool:
        return type(value) in (list, tuple)

    def _fits(self, told: Json) -> bool:
        return type(told) is list

    def _plain(self, value: object, things: Things) -> Json:
        parts = cast("Sequence[object]", value)
        if self.numbers and whole(parts):
            return cast("list[Json]", list(parts))
        if self.pairs and all_pairs(parts, tuple):
            return [list(one) for one in cast("Sequence[tuple[int, int]]", parts)]
        if things.rows is not None and isinstance(self.of, Record):
            return things.rows.written(self.of.kind, parts, self.of.write, things)
        return [self.of.write(one, things) for one in parts]

    def _made(self, told: Json, things: Things) -> object:
        parts = cast("list[Json]", told)
        if self.numbers and whole(parts):
            return self.kind(parts)
        if self.pairs and all_pairs(parts, list):
            return self.kind([tuple(cast("list[int]", one)) for one in parts])
        if things.rows is not None and isinstance(self.of, Record):
            return things.rows.read(parts, self.kind, self.of.read, things)
        return self.kind([self.of.read(one, things) for one in parts])

    def _schema(self) -> dict[str, object]:
        return {"type": "array", "items": schema_of(self.of)}


class Fixed(Form):
    """A tuple of so many values, each of its own type."""

    def __init__(self, of: Sequence[Form]) -> None:
        super().__init__()
        self.of = of
        self.pairs = len(of) == PAIR and all(map(takes_numbers, of))
        self.words = f"a list of {len(of)}: {', '.join(one.words for one in of)}"

    def _takes(self, value: object) -> bool:
        return type(value) is tuple and len(cast("tuple[object, ...]", value)) == len(self.of)

    def _fits(self, told: Json) -> bool:
        return type(told) is list and len(told) == len(self.of)

    def _plain(self, value: object, things: Things) -> Json:
        return [form.write(one, things) for form, one in zip(self.of, cast("Sequence[object]", value), strict=True)]

    def _made(self, told: Json, things: Things) -> object:
        return tuple([form.read(one, things) for form, one in zip(self.of, cast("list[Json]", told), strict=True)])

    def _schema(self) -> dict[str, object]:
        items = [schema_of(one) for one in self.of]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


class Table(Form):
    """A mapping: an object if its keys are texts, else a list of pairs."""

    def __init__(self, key: Form, of: Form) -> None:
        super().__init__()
        self.key, self.of = key, of
        self.named = isinstance(key, Scalar) and key.kinds == (str,)
        self.words = f"an object, each {of.words}" if self.named else f"a list of pairs: {key.words}, {of.words}"

    def _takes(self, value: object) -> bool:
        if type(value) is not dict and not isinstance(value, types.MappingProxyType):
            return False
        return not self.named or (
            all(type(one) is str and whole_text(one) for one in value) and RESERVED.isdisjoint(value)
        )

    def _fits(self, told: Json) -> bool:
        if self.named:
            return type(told) is dict
        return type(told) is list and all(type(one) is list and len(one) == PAIR for one in told)

    def _plain(self, value: object, things: Things) -> Json:
        items = cast("Mapping[object, object]", value).items()
        if self.named:
            return {cast("str", key): self.of.write(one, things) for key, one in items}
        return [[self.key.write(key, things), self.of.write(one, things)] for key, one in items]

    def _made(self, told: Json, things: Things) -> object:
        if self.named:
            return {key: self.of.read(one, things) for key, one in cast("dict[str, Json]", told).items()}
        pairs = cast("list[list[Json]]", told)
        return keyed([(self.key.read(key, things), self.of.read(one, things)) for key, one in pairs], told)

    def _schema(self) -> dict[str, object]:
        of = schema_of(self.of)
        if self.named:
            return {"type": "object", "additionalProperties": of}
        pair = {"type": "array", "prefixItems": [schema_of(self.key), of], "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair}


class Record(Form):
    """A form with fields: an object; fields at their default are left out."""

    def __init__(self, kind: type[tuple[object, ...]], of: Mapping[str, Form]) -> None:
        super().__init__()
        self.kind, self.of = kind, of
        self.fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
        self.defaults: dict[str, object] = kind._field_defaults  # type: ignore[attr-defined]
        self.left_out: Mapping[str, object] = {} if kind is Key else self.defaults
        if kind is Key:
            self.defaults = {"namespace": None, "bigram": False}
        self.needed = frozenset(self.fields) - self.defaults.keys()
        optional = [f"{one} (optional)" for one in self.fields if one in self.defaults]
        self.words = f"an object ({kind.__name__}) with {', '.join([*sorted(self.needed), *optional])}"
        self.write = compiled.later(self._writer)
        self.read = compiled.later(self._reader)

    def _writer(self) -> Writer:
        fields = {name: Field(form.quick_write, form.write) for name, form in self.of.items()}
        return compiled.record_writer(self.kind, fields, self.left_out, self._write)

    def _reader(self) -> Reader:
        fields = {name: Field(form.quick_read, form.read) for name, form in self.of.items()}
        return compiled.record_reader(self.kind, fields, self.defaults, self._read)

    def _takes(self, value: object) -> bool:
        return type(value) is self.kind and len(value) == len(self.fields)

    def _fits(self, told: Json) -> bool:
        return type(told) is dict and self.needed <= told.keys() and told.keys() <= self.of.keys()

    def _plain(self, value: object, things: Things) -> Json:
        found: dict[str, Json] = {}
        parts = dict(zip(self.fields, tuple.__iter__(cast("tuple[object, ...]", value)), strict=True))
        for name, form in self.of.items():
            one, default = parts[name], self.left_out.get(name, self)  # which no value is
            if one is default or (type(one) is type(default) and one == default):
                continue
            found[name] = form.write(one, things)
        return found

    def _made(self, told: Json, things: Things) -> object:
        given = cast("dict[str, Json]", told)
        found = [
            self.of[name].read(given[name], things) if name in given else self.defaults[name] for name in self.fields
        ]
        return cast("Callable[..., object]", self.kind)(*found)

    def _schema(self) -> dict[str, object]:
        return {"$ref": f"#/$defs/{self.kind.__name__}"}

    def definition(self) -> dict[str, object]:
        """What the schema refers to."""
        return {
            "type": "object",
            "properties": {name: schema_of(form) for name, form in self.of.items()},
            "required": sorted(self.needed),
            "additionalProperties": False,
        }


class Either(Form):
    """One of several types."""

    def __init__(self, of: Sequence[Form]) -> None:
        super().__init__()
        self.of = of
        self.words = " or ".join(one.words for one in of)
        write, read = [one.quick_write for one in of], [one.quick_read for one in of]
        if None not in write and None not in read:
            self.quickly(compiled.either(write), compiled.either(read))

    def _takes(self, value: object) -> bool:
        return any(one._takes(value) for one in self.of)

    def _fits(self, told: Json) -> bool:
        return any(one._fits(told) for one in self.of)

    def _plain(self, value: object, things: Things) -> Json:
        return next(one for one in self.of if one._takes(value))._plain(value, things)

    def _made(self, told: Json, things: Things) -> object:
        return next(one for one in self.of if one._fits(told))._made(told, things)

    def _schema(self) -> dict[str, object]:
        return {"anyOf": [one._schema() for one in self.of]}


ANYTHING = Anything()


def odd(value: object, things: Things) -> Json:
    """A value that is not of the promised type, or a scalar: those are themselves."""
    kind = type(value)
    if value is None or kind is bool:
        return cast("Json", value)
    if kind is str:
        text = cast("str", value)
        if whole_text(text):
            return text
        return {"$": "utf16", "of": base64.b64encode(text.encode("utf-16-le", "surrogatepass")).decode()}
    if issubclass(kind, int):
        number = int.__index__(cast("int", value))  # of whatever class, as a judge takes it
        return number if number.bit_length() <= LONG_INT else {"$": "int", "of": hex(number)}
    if kind is float:
        return cast("float", value) if math.isfinite(cast("float", value)) else {"$": "float", "of": repr(value)}
    if kind is Named:
        return cast("Named", value).json
    if things.depth >= DEEPEST:  # it may hold itself
        return things.told(value)
    things.depth += 1
    try:
        return tagged(value, things)
    finally:
        things.depth -= 1


def tagged(value: object, things: Things) -> Json:
    """What is no scalar, with its tag."""
    kind = type(value)
    record = form_of(kind) if RECORDS.get(kind.__name__) is kind else None
    if record is not None and record._takes(value):
        return {"$": kind.__name__, "of": record._plain(value, things)}
    if issubclass(kind, tuple):
        return {"$": "tuple", "of": [odd(one, things) for one in tuple.__iter__(cast("tuple[object, ...]", value))]}
    if issubclass(kind, list):
        return {"$": "list", "of": [odd(one, things) for one in list.__iter__(cast("list[object]", value))]}
    if issubclass(kind, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {"$": "map", "of": [[odd(key, things), odd(one, things)] for key, one in pairs]}
    if issubclass(kind, bytes):
        return {"$": "bytes", "of": base64.b64encode(cast("bytes", value)).decode()}
    listed: object = getattr(value, "tolist", lambda: None)()  # an array, or one number of such a class
    if type(listed) in (bool, int, float):
        return odd(listed, things)
    if type(listed) is list and whole(listed):
        return {"$": "array", "of": listed}
    return things.told(value)


def untagged(told: dict[str, Json], things: Things) -> object:
    """The value of a tagged object; raises :class:`FormError`."""
    tag, of = told.get("$"), told.get("of")
    if "@" in told or tag == "object":
        return things.meant(told)
    if type(tag) is str and tag in RECORDS and told.keys() == {"$", "of"}:
        form = form_of(RECORDS[tag])
        if form._fits(of):
            return form._made(of, things)
        raise FormError(form.words, of)
    read = UNTAG.get(tag) if type(tag) is str else None
    if read is None or told.keys() != {"$", "of"}:
        words = f'{{"$": "tuple", "of": [1, 2]}}, of {", ".join([*UNTAG, "object"])} or a form of the ports'
        raise FormError(f"a tagged value such as {words}", told)
    return read(of, things)


def of_list(of: Json, things: Things) -> list[object]:
    """The parts of a tagged list."""
    if type(of) is not list:
        raise FormError("a list", of)
    return [ANYTHING.read(one, things) for one in of]


def of_pairs(of: Json, things: Things) -> object:
    """A tagged mapping."""
    if type(of) is not list or not all(type(one) is list and len(one) == PAIR for one in of):
        raise FormError("a list of pairs", of)
    pairs = cast("list[list[Json]]", of)
    return keyed([(ANYTHING.read(key, things), ANYTHING.read(one, things)) for key, one in pairs], of)


def keyed(pairs: Sequence[tuple[object, object]], told: Json) -> dict[object, object]:
    """A mapping of these pairs; raises :class:`FormError` where one can't be a key."""
    try:
        return dict(pairs)
    except TypeError:
        raise FormError("pairs with a key that is a scalar or a tuple", told) from None


def unpacked(of: Json) -> bytes:
    """Bytes from base64; raises :class:`FormError`."""
    try:
        return base64.b64decode(cast("str", of), validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise FormError("bytes in base64", of) from None


def of_halves(of: Json) -> str:
    """A text from UTF-16 in base64; raises :class:`FormError`."""
    try:
        return unpacked(of).decode("utf-16-le", "surrogatepass")
    except UnicodeDecodeError:
        raise FormError("a text in UTF-16, in base64", of) from None


def of_text(of: Json, how: Callable[[str], object], words: str) -> object:
    """What is written as a text; raises :class:`FormError`."""
    try:
        return how(cast("str", of))
    except (ValueError, TypeError):
        raise FormError(words, of) from None


UNTAG: Mapping[str, Callable[[Json, Things], object]] = {
    "tuple": lambda of, things: tuple(of_list(of, things)),
    "list": of_list,
    "array": of_list,
    "map": of_pairs,
    "bytes": lambda of, _: unpacked(of),
    "text": lambda of, _: of_text(of, lambda text: text + "", "a text"),
    "utf16": lambda of, _: of_halves(of),
    "float": lambda of, _: of_text(of, float, '"nan", "inf" or "-inf"'),
    "int": lambda of, _: of_text(of, lambda text: int(text, 16), "a whole number in hexadecimal"),
}
"""How tagged values are read."""


def takes_numbers(form: Form) -> bool:
    """Whether whole numbers are of this form."""
    if isinstance(form, Either):
        return any(map(takes_numbers, form.of))
    return isinstance(form, Scalar) and int in form.kinds


@cache
def form_of(kind: object) -> Form:
    """The form of an annotation, as :func:`typing.get_type_hints` gives it."""
    if kind is object:
        return ANYTHING
    if kind is bytes or kind is bytearray:
        return Bytes()
    if kind in Scalar.NAMES:
        return Scalar(cast("type", kind))
    if isinstance(kind, type) and kind in RECORDS.values():
        hints = get_type_hints(kind)
        order = ("tokens", "namespace", "bigram") if kind is Key else kind._fields  # type: ignore[attr-defined]
        return Record(kind, {name: form_of(hints[name]) for name in order})
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Sequence or (origin is tuple and inner[-1] is Ellipsis):
        return Array(form_of(inner[0]), tuple if origin is tuple else list)
    if origin is tuple:
        return Fixed([form_of(one) for one in inner])
    if origin is Mapping:
        return Table(*map(form_of, inner))
    if origin in (typing.Union, types.UnionType):
        return either([form_of(one) for one in inner])
    return ANYTHING  # a protocol: what the suite lends, or another handle


def either(forms: Sequence[Form]) -> Form:
    """One of these forms; scalars make one form."""
    kinds = [kind for one in forms if isinstance(one, Scalar) for kind in one.kinds]
    others = [one for one in forms if not isinstance(one, Scalar)]
    found = [*others, *([Scalar(*kinds)] if kinds else [])]
    return found[0] if len(found) == 1 else Either(found)


def schema_of(form: Form) -> dict[str, object]:
    """The JSON Schema of a value that should be of this form, and may be anything else with a tag."""
    own = form._schema()
    return {"anyOf": [own, {"$ref": "#/$defs/tagged"}, {"$ref": "#/$defs/scalar"}]} if own else {}
