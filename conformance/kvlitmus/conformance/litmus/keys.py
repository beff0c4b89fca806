"""Keys for litmus tests: whole pages and a tail, in every page size and with bigrams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def prompt(checker: Checker, ways: str, *, tail: int = 0, namespace: str | None = None) -> Key:
    """A key with one page for each letter of ``ways`` and ``tail`` tokens after them.

    Equal letters are equal pages, wherever they stand; pages of different letters differ in their
    first token, but an upper-case letter of the alphabet differs from its lower-case one in the last token only.
    """
    size = checker.config.page_size
    tokens: list[int] = []
    for way in ways:
        upper = "A" <= way <= "Z"
        page = [10 + ord(way.lower() if upper else way) - ord("a")] + [1] * (size - 1)
        if upper:
            page[-1] += 100
        tokens += page
    tokens += [7] * (tail + int(checker.config.bigram and bool(ways or tail)))
    return Key(namespace, tuple(tokens), checker.config.bigram)
