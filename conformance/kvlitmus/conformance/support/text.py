"""Text from strangers, made harmless (:mod:`kvlitmus.spec.words.text`), and the pages of page stores as text."""

from __future__ import annotations

import re

from kvlitmus.spec.words.text import LONGEST, closest, harmless, raised_text, shown, type_name

__all__ = ["LONGEST", "closest", "harmless", "page_text", "raised_text", "shown", "type_name"]


def page_text(value: bytes | None) -> str:
    """A page of a page store as a reader wants it: the suite begins its pages with a name, such as ``v3``."""
    if value is None:
        return "None"
    head, _, rest = value.partition(b"|")
    if not rest or len(head) > 20:
        return f"{len(value)} bytes that nobody put" if value else "no bytes"
    return harmless(head.decode("ascii", "replace"))


_HALF = re.compile("[\ud800-\udfff]")


def whole_text(text: str) -> bool:
    """Whether a text can be written in UTF-8: no half of a pair of UTF-16 is in it."""
    return text.isascii() or _HALF.search(text) is None
