"""A small validator for the project's JSON Schemas: the words that they use, and a complaint about any other."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

SCHEMA_WORDS = {
    "$schema", "$id", "$defs", "$ref", "title", "description", "type", "const", "enum", "properties", "required",
    "additionalProperties", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "pattern", "anyOf",
    "contentEncoding",
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    text = resources.files("kvlitmus.conformance").joinpath("schema", f"{name}.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def complaints(value: Any, rule: Any, top: Any, at: str = "$") -> list[str]:
    """What a value lacks to fit a JSON Schema, for the words of it that the project's schemas use."""
    unknown = rule.keys() - SCHEMA_WORDS
    assert not unknown, f"the validator of this test does not know {unknown}"
    if "$ref" in rule:
        return complaints(value, top["$defs"][rule["$ref"].rpartition("/")[2]], top, at)
    if "anyOf" in rule and all(complaints(value, one, top, at) for one in rule["anyOf"]):
        return [f"{at}: fits none"]
    if "const" in rule and value != rule["const"]:
        return [f"{at}: {value!r} is not {rule['const']!r}"]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{at}: {value!r} is not in {rule['enum']}"]
    types: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
        "null": type(None),
    }
    kinds = [rule["type"]] if isinstance(rule.get("type"), str) else rule.get("type", [])
    named = "boolean" if isinstance(value, bool) else ""
    if kinds and not any(isinstance(value, types[one]) and named in ("", one) for one in kinds):
        return [f"{at}: {type(value).__name__} is no {' or '.join(kinds)}"]
    found: list[str] = []
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        found.append(f"{at}: {value!r} does not match")
    if isinstance(value, int | float) and value < rule.get("minimum", value):
        found.append(f"{at}: {value} is too small")
    if isinstance(value, list):
        if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
            found.append(f"{at}: {len(value)} items")
        for number, one in enumerate(value):
            first = rule.get("prefixItems", [])
            inner = first[number] if number < len(first) else rule.get("items", {})
            found += complaints(one, inner, top, f"{at}[{number}]")
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in rule.get("required", []) if name not in value]
        more = rule.get("additionalProperties", True)
        for name, one in value.items():
            known = rule.get("properties", {}).get(name, more)
            if known is False:
                found.append(f"{at}: unknown field {name}")
            elif isinstance(known, dict):
                found += complaints(one, known, top, f"{at}.{name}")
    return found


def fits(value: Any, name: str, loaded: Any = None) -> list[str]:
    loaded = loaded or schema(name)
    return complaints(json.loads(json.dumps(value)), loaded, loaded)
