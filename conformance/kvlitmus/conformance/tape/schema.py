"""The JSON Schema of a line of a tape, made of the forms by which lines are written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import cast, get_type_hints

from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.run.results import KINDS
from kvlitmus.conformance.tape.calls import CALLS, FILLED, LENT, OTHER, TURNS, Call
from kvlitmus.conformance.tape.forms import RECORDS, Form, Record, Scalar, form_of, schema_of
from kvlitmus.conformance.tape.lines import BEGINNINGS, CONTENTS, FORMAT, KIND, MOST_DEPTH

Schema = dict[str, object]

ABOUT = (
    "One line of a tape: the header of a play, the looks at a fresh cache, or a step. What has another type than "
    "promised is tagged; what a broken cache answered may stand there as it is, and is judged for that."
)
TEXT: Schema = {"type": "string"}
ANY = True  # a schema that everything fits
OBJECT: Schema = {"type": "object"}


def document() -> Schema:
    """The schema."""
    lines = ["header", "fresh", *(f"call_{name}" for name in CALLS)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:kvlitmus:tape:{FORMAT}",
        "title": KIND,
        "description": ABOUT,
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in lines],
        "$defs": {
            "tagged": {"anyOf": [{**OBJECT, "required": ["$"]}, {**OBJECT, "required": ["@"]}]},
            "scalar": {"type": ["null", "boolean", "number", "string"]},
            "lent": {
                **OBJECT,
                "properties": {"lent": TEXT, "of": {"type": "integer", "minimum": 0}},
                "required": ["lent"],
                "additionalProperties": False,
            },
            "did": {"type": "array", "items": {"type": "array", "minItems": 2}},
            "verdicts": {"type": "array", "items": {**OBJECT, "required": ["rule", "sentence", "allowed", "seen"]}},
            "header": header(),
            "fresh": {**OBJECT, "properties": {"looks": OBJECT}, "required": ["looks"], "additionalProperties": False},
            **{name: record_of(kind) for name, kind in sorted(RECORDS.items())},
            **{f"call_{name}": step(call) for name, call in CALLS.items()},
        },
    }


def record_of(kind: type[tuple[object, ...]]) -> Schema:
    """The schema of a form of the ports."""
    form = form_of(kind)
    assert isinstance(form, Record)
    return form.definition()


def header() -> Schema:
    """The schema of a header."""
    kinds = get_type_hints(Config)
    config = {name: {"type": Scalar.SCHEMAS[kinds[name]]} for name in (one.name for one in fields(Config))}
    return {
        **OBJECT,
        "properties": {
            "kind": {"const": KIND},
            "format": {"const": FORMAT},
            **dict.fromkeys(("kvlitmus", "target", "cache", "version", "build", "date", "origin"), TEXT),
            "config": {
                **OBJECT,
                "properties": config,
                "required": ["page_size", "pages"],
                "additionalProperties": False,
            },
            "profile": {
                **OBJECT,
                "properties": {one.name: ANY for one in fields(Profile)},
                "additionalProperties": False,
            },
            "ports": {"type": "array", "items": {"enum": sorted(PORTS)}},
            "methods": {"type": "array", "items": TEXT},
            "begins": {"enum": list(BEGINNINGS)},
            "without": {"type": "array", "items": TEXT},
            "contents": {"enum": list(CONTENTS)},
            "item": {**OBJECT, "properties": {"kind": {"enum": list(KINDS)}}, "required": ["kind"]},
            "depth": {"type": "integer", "minimum": 0, "maximum": MOST_DEPTH},
            "force_misuse": {"type": "boolean"},
            "finding": {
                **OBJECT,
                "properties": {"rules": {"type": "array", "items": TEXT, "minItems": 1}},
                "required": ["rules"],
            },
            "vector": {**OBJECT, "required": ["rules", "sentence", "origin"]},
        },
        "required": ["kind", "format", "config"],
        "additionalProperties": False,
    }


def step(call: Call) -> Schema:
    """The schema of a call."""
    named = enumerate(call.parameters.items())
    given: dict[str, object] = {name: argument(call, at, form) for at, (name, form) in named}
    answer = ANY if call.method in (TURNS, OTHER) else schema_of(call.answer)
    return {
        **OBJECT,
        "properties": {
            "call": {"const": call.method},
            "args": {"type": "array", "prefixItems": list(given.values()), "maxItems": len(given)},
            "kwargs": {**OBJECT, "properties": given, "additionalProperties": False},
            "answer": answer,
            "raised": TEXT,
            "did": {"$ref": "#/$defs/did"},
            "looks": OBJECT,
            **dict.fromkeys(("time", "thread", "expected"), ANY),
            "text": TEXT,
            "op": {"type": "integer", "minimum": 0},
            "verdicts": {"$ref": "#/$defs/verdicts"},
        },
        "required": ["call"],
        "additionalProperties": False,
    }


def argument(call: Call, at: int, form: Form) -> Mapping[str, object]:
    """The schema of an argument."""
    if LENT.get(call.method) == at or FILLED.get(call.method) == at:
        return {"anyOf": [{"$ref": "#/$defs/lent"}, {"type": "array"}]}
    return schema_of(form)


def text() -> str:
    """The schema as it is committed: a definition a line."""
    whole = document()
    definitions = cast("Schema", whole.pop("$defs"))
    rows = [f"  {_compact(name)}: {_compact(one)}" for name, one in definitions.items()]
    head = [f" {_compact(name)}: {_compact(value)}" for name, value in whole.items()]
    return "{\n" + ",\n".join(head) + ',\n "$defs": {\n' + ",\n".join(rows) + "\n }\n}\n"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
