"""Page hashes: vectors with known results, and pairs of keys that must or must not agree.

The vectors are the same for every implementation of this chain, in any language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvlitmus.spec.words.schemes import TOKEN_LIMIT
from kvlitmus.spec.words.units import Key

FIRST = "cf97adeedb59e05bfd73a2b4c2a8885708c4f4f70c84c64b27120e72ab733b72"
SECOND = "4ebfa8a1f3c341517621838c6e1b9aa350307e3f00b3cbd1a07ef740f54396d6"


class Vector(NamedTuple):
    """A key and the hashes of its whole pages."""

    name: str
    key: Key
    page_size: int
    prior: str | None
    hashes: tuple[str, ...]


class KeyPair(NamedTuple):
    """Two keys of one namespace."""

    name: str
    key: Key
    other: Key
    page_size: int


def _key(*tokens: int, namespace: str | None = None, bigram: bool = False) -> Key:
    return Key(namespace, tokens, bigram)


class Golden(NamedTuple):
    """What a scheme names the pages of certain keys."""

    first: str
    second: str
    zero: str
    bigrams: str
    named: str
    three: tuple[str, str, str]
    largest: str


def _vectors(known: Golden) -> tuple[Vector, ...]:
    first, second = known.first, known.second
    return (
        Vector("one page", _key(1, 2, 3, 4), 4, None, (first,)),
        Vector("two pages", _key(1, 2, 3, 4, 5, 6, 7, 8), 4, None, (first, second)),
        Vector("a tail", _key(1, 2, 3, 4, 5, 6, 7), 4, None, (first,)),
        Vector("going on from a hash", _key(5, 6, 7, 8), 4, first, (second,)),
        Vector("an empty hash is none", _key(1, 2, 3, 4), 4, "", (first,)),
        Vector("no page", _key(1, 2, 3), 4, None, ()),
        Vector("no key", _key(), 4, None, ()),
        Vector("token 0", _key(0), 1, None, (known.zero,)),
        Vector("bigrams", _key(1, 2, 3, 4, 5, bigram=True), 4, None, (known.bigrams,)),
        Vector("bigrams, one short", _key(1, 2, 3, 4, bigram=True), 4, None, ()),
        Vector("a named namespace", _key(1, 2, 3, 4, namespace="lora-a"), 4, None, (known.named,)),
        Vector("three pages", _key(1, 2, 3, 4, 5, 6), 2, None, known.three),
        Vector("the largest token", _key(TOKEN_LIMIT - 1, 2**16), 2, None, (known.largest,)),
        Vector("a named namespace, going on from a hash", _key(5, 6, 7, 8, namespace="lora-a"), 4, first, (second,)),
    )


VECTORS: dict[str, tuple[Vector, ...]] = {
    "sglang-1": _vectors(
        Golden(
            first=FIRST,
            second=SECOND,
            zero="df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119",
            bigrams="f721fe42aac11dcbfd1a17f24cc5765a0d5b6bc264d1c0b6581d775a7344c11f",
            named="e4f68dc4af99b6de199d5a048add282da40aa4ef97942ce9eca321bccada9376",
            three=(
                "34fb5c825de7ca4aea6e712f19d439c1da0c92c37b423936c5f618545ca4fa1f",
                "c57b445f90651b9a650e516ab2238c965b21af35608a31c303e6d9e407f2915c",
                "4a8a26efbf98ddb0eca98c8913c209b45b7241fb0ccbdb559f74dafba44b7c60",
            ),
            largest="37fd1c5fb4530f06877025e0132aacd71fdea4f9a46336d5a45e0cba3083b4fe",
        )
    ),
    "kvlitmus-2": _vectors(
        Golden(
            first="a3d5bb5e7d6329f86e9da10423788da7ad888b79a679b7a98b3d688211392014",
            second="fc15a3b2b09d67d299baf849826f17867dca0b8cc62a3253da4b96a0b6e7738a",
            zero="cc34eb7451ee7db90d7cfa653bcf6ab1179f720acffb4702e0034682a6044108",
            bigrams="530688f05a5154e3ece90663640ce157e9feed963ccdcadd0046eed447b3e558",
            named="be4a0c4f0e52f44a61e95eac305314210df5f3a21ac1506dcbbd258bcf3ab089",
            three=(
                "dfdeb5a246650c1f7919068a4e8463f8fa7c101cde988b2cb3371502c5561092",
                "e0bcff9b60bbe14a5bf3e9425b5a9bd84610e4aa56813a25d258900afca732fc",
                "218627784e137cfd2f9a342aed13eb4c1ac46278f568b30d611da81045c85d13",
            ),
            largest="fe187628d746a896cd0b5077b798312ed9e4a899cef0044faeb98c955c7b3cb0",
        )
    ),
}
"""Keys with their hashes, by scheme.  ``sglang-1``: as upstream's releases 0.5.13.post1 and 0.5.23 compute them, or
``sha256sum`` on the bytes.  ``kvlitmus-2``: as ``tests/reference/support/known_names.py`` does, with hashlib alone.
"""

EVENT_NUMBERS: dict[str, int] = {FIRST: -3488128144981237669, SECOND: 5674439469042975057}
"""Hashes and the numbers that stand for them in cache events."""

PAIRS: tuple[KeyPair, ...] = (
    KeyPair("equal keys", _key(1, 2, 3, 4), _key(1, 2, 3, 4), 2),
    KeyPair("one is the other's prefix", _key(1, 2, 3, 4), _key(1, 2, 3, 4, 5, 6), 2),
    KeyPair("they part inside a page", _key(1, 2, 3, 4), _key(1, 2, 3, 9), 2),
    KeyPair("they part in the first page", _key(9, 2, 3, 4), _key(1, 2, 3, 4), 2),
    KeyPair("the same page at another place", _key(1, 2, 1, 2), _key(3, 4, 1, 2), 2),
    KeyPair("the same page again", _key(1, 2, 1, 2), _key(1, 2), 2),
    KeyPair("swapped tokens", _key(1, 2), _key(2, 1), 2),
    KeyPair("tokens alike in 16 bits", _key(7), _key(7 + 2**16), 1),
    KeyPair("tokens alike in 24 bits", _key(7), _key(7 + 2**24), 1),
    KeyPair("tokens of one byte or two", _key(0x0102, 3), _key(0x02, 0x0103), 2),
    KeyPair("bigrams that part at the last token", _key(1, 2, 3, bigram=True), _key(1, 2, 4, bigram=True), 2),
)
"""Pairs of keys whose hashes agree exactly on their common whole pages."""

REFUSED: tuple[tuple[str, Key, int], ...] = (
    ("a negative token", _key(1, -1), 2),
    ("a token of 33 bits", _key(1, TOKEN_LIMIT), 2),
    ("a negative token in a bigram", _key(1, -1, bigram=True), 1),
)
"""Keys that can't be hashed, each with a name and a page size."""

LARGEST = _key(TOKEN_LIMIT - 1, 0)
"""The largest token that can be hashed."""

FOREIGN: tuple[tuple[str | None, str | None], ...] = (
    (None, "lora-a"),
    ("lora-a", "lora-b"),
    (None, ""),
    ("a", "a\0"),
    ("tenant-00001", "tenant-10001"),
)
"""Pairs of namespaces that share no hash."""


def draw(take: Callable[[int], int]) -> tuple[Key, Key, int, int]:
    """Two keys of one namespace, a page size and a number of pages to cut at, from a source of choices.

    ``take(n)`` gives a number from 0 to n-1.  The second key shares a prefix with the first one
    and then differs in a single token, in its low or its high bits.
    """
    page = (1, 2, 4)[take(3)]
    namespace = (None, "lora-a", "lora-b")[take(3)]
    bigram = take(4) == 0
    tokens = tuple((take(3), 2**16 + take(2), TOKEN_LIMIT - 1 - take(2))[take(3)] for _ in range(take(5 * page + 2)))
    other = list(tokens)
    if other:
        place = take(len(other))
        other[place] = (other[place] + (1, 2**16, 2**31)[take(3)]) % TOKEN_LIMIT
    return Key(namespace, tokens, bigram), Key(namespace, tuple(other), bigram), page, take(4)
