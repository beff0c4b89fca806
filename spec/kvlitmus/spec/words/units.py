"""The words that all rooms share: units, keys, and the arithmetic of pages.

A **slot** is the place of one token's KV in a pool, a plain integer.  A **page** is
``page_size`` consecutive slots beginning at a multiple of ``page_size``; a page's number is
its first slot divided by ``page_size``.  Pools hand out whole pages, trees cache whole pages,
so a page is the unit in which ownership is counted.

A **key** says which KV is meant: a namespace (LoRA id, cache salt; ``None`` for the default
one) and the tokens from the first one on.  With speculative decoding (EAGLE) the KV of a
token depends on the next token too, so a key's **units** are then *bigrams*, pairs of
neighbouring tokens, one fewer than there are tokens.

A **name** stands for one prefix: "everything from the beginning up to here, in this
namespace".  Names are interned (:class:`kvlitmus.spec.words.names.Names`): equal prefixes, equal
names.  The name of a page is the name of the prefix that ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NewType, cast

# Of one integer each of these makes nothing and costs a call; of many at once ``cast`` says the same for less.

Tokens = NewType("Tokens", int)
"""A number of tokens (or of bigrams, for a bigram key)."""

Pages = NewType("Pages", int)
"""A number of pages."""

Slot = NewType("Slot", int)
"""The place of one token's KV in a pool."""

PageNo = NewType("PageNo", int)
"""The number of a page in a pool: its first slot divided by the page size."""

Name = NewType("Name", int)
"""One prefix in one namespace, interned."""

Tick = NewType("Tick", int)
"""Logical time: it grows by one with every call that touches the tree."""

RequestId = NewType("RequestId", int)
"""A request's identity; it may be used again after the request has ended."""

Unit = int | tuple[int, int]
"""What a key is made of: a token, or a bigram."""

FREE, CACHED, REQUEST = "free", "cached", "request"
"""The homes a page can have in this part of the spec."""


class Key(NamedTuple):
    """Which KV is meant.

    ``tokens`` are the raw tokens; ``namespace`` separates tenants; ``bigram`` says that the
    units are pairs of neighbouring tokens.
    """

    namespace: str | None
    tokens: tuple[int, ...]
    bigram: bool = False

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of the key, in order: tokens, or bigrams (TREE-10)."""
        if self.bigram:
            return tuple(zip(self.tokens, self.tokens[1:], strict=False))
        return self.tokens

    @property
    def length(self) -> Tokens:
        """How many units the key has."""
        return key_length(len(self.tokens), self.bigram)


def key_length(tokens: int, bigram: bool) -> Tokens:
    """The number of units of a key with this many raw tokens: one fewer for bigrams, never negative."""
    if bigram:
        return Tokens(max(0, tokens - 1))
    return Tokens(tokens)


def page_floor(tokens: int, page_size: int) -> Tokens:
    """The largest multiple of ``page_size`` that is not above ``tokens``."""
    return Tokens(tokens - tokens % page_size)


def page_ceil(tokens: int, page_size: int) -> Tokens:
    """The smallest multiple of ``page_size`` that is not below ``tokens``."""
    return Tokens(-(-tokens // page_size) * page_size)


def pages_needed(tokens: int, page_size: int) -> Pages:
    """How many pages it takes to hold ``tokens``."""
    return Pages(-(-tokens // page_size))


def page_slots(page: PageNo, page_size: int) -> tuple[Slot, ...]:
    """The slots of a page, in order."""
    return cast("tuple[Slot, ...]", tuple(range(page * page_size, (page + 1) * page_size)))


def pages_of(slots: Sequence[Slot], page_size: int) -> frozenset[PageNo]:
    """The pages that these slots lie in."""
    return cast("frozenset[PageNo]", frozenset(slots if page_size == 1 else [slot // page_size for slot in slots]))


def pages_in_order(slots: Sequence[int], page_size: int) -> tuple[PageNo, ...]:
    """The page of the first slot, of the slot one page on, and so forth: the pages of a row of slots."""
    return cast("tuple[PageNo, ...]", tuple([slot // page_size for slot in slots[::page_size]]))


def continues_pages(start: int, last: int, new: Sequence[int], page_size: int) -> bool:
    """Whether the slots ``new``, for positions from ``start`` on, fill the page of slot ``last`` before they open others.

    Within a page each slot follows the one before; a position that begins a page has the first slot of one.
    """
    for position, slot in enumerate(new, start):
        if slot != (last + 1 if position % page_size else slot - slot % page_size):
            return False
        last = slot
    return True


def same(left: Sequence[object], right: Sequence[object]) -> bool:
    """Whether two sequences are equal, element by element.

    Two symbolic integer sequences must not be compared with ``==``: the symbolic executor
    compares what lies beyond their length too and reports counterexamples that are none.
    """
    return len(left) == len(right) and all(a == b for a, b in zip(left, right, strict=True))
