"""Explanations: what was allowed, what was seen, in words.

Names of prefixes are turned back into tokens, sets are sorted, long things are cut short, and
whatever an adapter handed out is made harmless for terminals before it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from kvlitmus.conformance.text import harmless, page_text
from kvlitmus.spec.names import NO_NAME, Names
from kvlitmus.spec.rule import Rule

__all__ = ["allowed_text", "fact_text", "harmless", "name_text", "seen_texts"]

NAMED = frozenset(
    {
        "key_names",
        "found_names",
        "request_names",
        "row_names",
        "missing_before",
        "vanished",
        "locked_names",
        "passed_over",
        "needless",
        "parents",
        "unreachable_names",
        "hashed_prefixes",
    }
)
"""Facts that are names of prefixes, or sequences of them."""

NAMED_KEYS = frozenset({"cached_before", "cached_after", "offered", "locked_pages"})
"""Facts that map names of prefixes to pages."""

NAMED_VALUES = frozenset({"bearers"})
"""Facts that map something to names of prefixes."""

PAGES = frozenset(
    {
        "store_got",
        "store_puts",
        "store_due",
        "store_mended",
        "store_foreign",
        "store_odd_got",
        "store_odd_puts",
        "store_glimpses",
        "store_wholes",
        "buffers_before",
        "buffers_after",
    }
)
"""Facts that hold the bytes of pages."""

LONGEST_PREFIX = 24
"""Prefixes of more units are cut short."""


def name_text(names: Names, name: int) -> str:
    """The prefix that a name stands for, short."""
    if name == NO_NAME:
        return "‹never written›"
    try:
        namespace, units = names.prefix(name)  # type: ignore[arg-type]
    except IndexError:
        return f"‹{name}›"
    text = " ".join(str(unit[0]) if isinstance(unit, tuple) else str(unit) for unit in units)
    if len(units) > LONGEST_PREFIX:
        text = f"{text[:20]} … {len(units)} units"
    return f"‹{text}›" if namespace is None else f"‹{text} @{namespace}›"


def fact_text(names: Names, fact: str, value: Any) -> str:
    """A fact as a reader wants it."""
    if fact in NAMED and isinstance(value, Set | tuple | list):
        ordered = sorted(value) if isinstance(value, Set) else value
        return harmless("[" + ", ".join(name_text(names, name) for name in ordered) + "]")
    if fact in NAMED_KEYS and isinstance(value, Mapping):
        return harmless("{" + ", ".join(f"{name_text(names, name)}: page {page}" for name, page in value.items()) + "}")
    if fact in NAMED_VALUES and isinstance(value, Mapping):
        return harmless("{" + ", ".join(f"{one}: {name_text(names, name)}" for one, name in value.items()) + "}")
    if fact in PAGES and isinstance(value, Set | tuple | list):
        return harmless(pages_text(value))
    if isinstance(value, Set):
        return harmless("{" + ", ".join(map(str, sorted(value))) + "}")
    return harmless(value)


def pages_text(value: Set[Any] | Sequence[Any]) -> str:
    """Pages by the names that the suite gave them, in whatever they are nested."""
    items = sorted(value, key=str) if isinstance(value, Set) else value
    texts = [
        pages_text(one)
        if isinstance(one, Set | tuple | list)
        else page_text(one)
        if one is None or isinstance(one, bytes)
        else str(one)
        for one in items
    ]
    return "[" + ", ".join(texts) + "]"


class _Shown(dict[str, str]):
    """Facts for a format string; a fact that isn't there shows as its name."""

    def __missing__(self, key: str) -> str:
        return f"‹{key}›"


def allowed_text(rule: Rule, names: Names, facts: Mapping[str, Any]) -> str:
    """What the rule would have allowed; its sentence where it says nothing more specific."""
    if not rule.allowed:
        return rule.text
    shown = _Shown(
        {fact: fact_text(names, fact, value) for fact, value in facts.items() if f"{{{fact}}}" in rule.allowed}
    )
    return rule.allowed.format_map(shown)


def seen_texts(rule: Rule, names: Names, facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts that the rule speaks of, as they were."""
    return {fact: fact_text(names, fact, facts[fact]) for fact in rule.facts if fact in facts}
