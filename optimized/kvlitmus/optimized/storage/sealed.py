"""Pages that are sealed where they lie, so that a batch of them is checked in one pass over memory.

A record of :mod:`~kvlitmus.optimized.storage.record` costs a cryptographic hash of the page.  Where pages come in at
gigabytes a second that would be most of the time.  A sealed page is what can be had at the speed of memory: the page,
filled up with zeros to whole words of 8 bytes, and :data:`SEAL_WORDS` more, a magic number, the page's length, a sum,
and the 32 bytes that stand for the key in this store.  A page that is torn, changed, of another length, of another
store or under another's name doesn't have the seal that it needs.

The sum is NH, the hash of UMAC (RFC 4418), with the store's identity as its key: two pages that were not made with the
key in mind have the same sum once in 2**32 at most.  It guards against accidents, not against who can write into the
memory of the store: they could as well seal what they write.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.jit import jitted
from kvlitmus.optimized.storage.base import Identity

Words: TypeAlias = NDArray[np.uint64]
Lengths: TypeAlias = NDArray[np.int64]

WORD = 8
NAME_WORDS = 4
SEAL_WORDS = 3 + NAME_WORDS
MAGIC = int.from_bytes(b"KVSEAL_1", "little")

DAMAGED = -2
"""In the place of a page's length: there is something, and it is not this page."""

_MAGIC, _LOW, _HALF = np.uint64(MAGIC), np.uint64(0xFFFFFFFF), np.uint64(32)
_LENGTHS = np.uint64(0x9E3779B97F4A7C15)


def words_of(length: int) -> int:
    """How many words a page of so many bytes fills."""
    return -(-length // WORD)


def sealed_bytes(length: int) -> int:
    """How many bytes a page of so many has when it is sealed."""
    return (words_of(length) + SEAL_WORDS) * WORD


@functools.lru_cache(maxsize=4)
def keys_of(identity: Identity, words: int) -> Words:
    """What sums of pages of up to so many words are made with, in the store of this identity."""
    return np.frombuffer(hashlib.shake_128(b"kvlitmus seal" + identity.digest).digest(words * WORD), np.uint64)


@jitted
def _sum(row: Any, keys: Any, words: int, length: Any) -> Any:
    """NH of the words, and the length."""
    page, with_ = row[:words], keys[:words]
    total = np.uint64(length) * _LENGTHS
    for at in range(words):
        word, key = page[at], with_[at]
        total += ((word + key) & _LOW) * (((word >> _HALF) + (key >> _HALF)) & _LOW)
    return total


@jitted
def seal(rows: Words, keys: Words, names: Words, lengths: Lengths) -> None:
    """Seal the page in each row."""
    for at in range(len(lengths)):
        row, words = rows[at], (lengths[at] + 7) // 8
        row[words] = _MAGIC
        row[words + 1] = np.uint64(lengths[at])
        row[words + 2] = _sum(row, keys, words, lengths[at])
        row[words + 3 : words + SEAL_WORDS] = names[at]


@jitted
def opened(rows: Words, keys: Words, names: Words, lengths: Lengths) -> None:
    """Put the length of the page for the bytes that have come into each row, or ``DAMAGED``; negative ones stay."""
    for at in range(len(lengths)):
        came = lengths[at]
        if came < 0:
            continue
        row, words = rows[at], came // 8 - SEAL_WORDS
        lengths[at] = DAMAGED
        if came % 8 != 0 or words < 0 or came // 8 > len(row) or row[words] != _MAGIC:
            continue
        length = np.int64(row[words + 1])
        good = length >= 0 and (length + 7) // 8 == words and row[words + 2] == _sum(row, keys, words, length)
        for part in range(NAME_WORDS):
            good = good and row[words + 3 + part] == names[at, part]
        if good:
            lengths[at] = length


def prepare() -> None:
    """Compile what is not compiled yet: it may take seconds, which no call has."""
    identity, row, lengths = Identity(), np.zeros((1, SEAL_WORDS + 1), np.uint64), np.ones(1, np.int64)
    keys, names = keys_of(identity, 1), np.frombuffer(identity.digest, np.uint64).reshape(1, NAME_WORDS)
    seal(row, keys, names, lengths)
    lengths[0] = sealed_bytes(1)
    opened(row, keys, names, lengths)
    assert lengths[0] == 1
