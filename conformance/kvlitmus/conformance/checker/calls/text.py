"""Calls as a reader sees them."""

from __future__ import annotations

from kvlitmus.spec.words.units import Key


def key_text(key: Key) -> str:
    """A key, short: its tokens, and its namespace where it has one."""
    tokens = ", ".join(map(str, key.tokens))
    where = "" if key.namespace is None else f", namespace={key.namespace!r}"
    kind = ", bigram" if key.bigram else ""
    return f"[{tokens}]{where}{kind}"
