"""Storage names: under what a page is kept outside of the machine (see :mod:`kvlitmus.spec.prefix.rules.hashing`).

The name of a page is the SHA-256 of the page before it and of its own tokens, so names form a chain; the scheme is
``kvlitmus-2`` (:mod:`kvlitmus.spec.words.schemes`).  A key's whole pages are brought into the bytes that are hashed at
once, and then hashed in one go (:mod:`kvlitmus.optimized.sha`).

What is cached keeps its digests: each branch has those of its first pages, as many as somebody asked for.  So the names
of a path cost what is new about it.  The seed of a namespace is kept with its root, and ends with it.

Rules of upkeep: ``branch.digests`` has 32 bytes for each of the first pages of the branch, and the seed in a root;
:meth:`Branch.truncate` cuts it.  Nothing else changes it, for the tokens of a page and of those before it never change.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from kvlitmus.optimized.arrays import IntArray
from kvlitmus.optimized.branch import DIGEST_BYTES, Branch, Place
from kvlitmus.spec.prefix.rules.hashing import raw
from kvlitmus.spec.words.schemes import HASH_DIGITS, KVLITMUS_2, TOKEN_LIMIT, Domain

if TYPE_CHECKING:
    from kvlitmus.optimized.paths import Paths

PAGE_TAG = KVLITMUS_2.page_tag


def pack_bigrams(tokens: IntArray) -> IntArray:
    """The bigrams of these tokens, each packed into 64 bits: the first token above the second.

    Raises ``ValueError`` for a token outside ``[0, 2**32)``: cut down to 32 bits it would be another.
    """
    wide = _in_range(tokens).astype(np.uint64)
    return ((wide[:-1] << np.uint64(32)) | wide[1:]).view(np.int64)


def encode(units: IntArray, *, bigram: bool) -> bytes:
    """The bytes of some units: 4 little-endian bytes per token, both tokens of a packed bigram.

    Raises ``ValueError`` for a token outside ``[0, 2**32)``.
    """
    if bigram:
        return np.ascontiguousarray(units.astype("<i8", copy=False).view("<u4").reshape(-1, 2)[:, ::-1]).tobytes()
    return _in_range(units).astype("<u4", copy=False).tobytes()


def spelled(joined: bytes) -> list[str]:
    """Digests, one after the other, as hex text each."""
    return joined.hex(":", DIGEST_BYTES).split(":") if joined else []


def seed(namespace: Hashable, page_size: int, *, bigram: bool) -> bytes:
    """What precedes the first page of a namespace; raises ``TypeError`` for one that is no text."""
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"to be stored, a namespace must be a str or None (got {namespace!r})")
    return KVLITMUS_2.seed(Domain(page_size, bigram, namespace))


def page_hashes(
    units: IntArray, page_size: int, namespace: Hashable = None, prior: str | None = None, *, bigram: bool = False
) -> list[str]:
    """The names of the whole pages of a key, in order; ``prior`` is that of the page before, for a key that goes on.

    Raises ``ValueError`` for a token outside ``[0, 2**32)``, and for a ``prior`` that is not 64 hex digits.
    """
    before = raw(prior) if prior else seed(namespace, page_size, bigram=bigram)
    if before is None or (prior and len(prior) != HASH_DIGITS):
        raise ValueError(f"a prior hash must be 64 digits of hex text (got {prior!r})", prior)
    whole = len(units) - len(units) % page_size
    data = encode(units[:whole], bigram=bigram)
    return spelled(digests(data, page_size * (8 if bigram else 4), before, PAGE_TAG))


def digests(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
    """The digests of pages that follow one another (see :func:`kvlitmus.optimized.sha.digests`)."""
    from kvlitmus.optimized import sha  # with numba, whose import takes longer than a flat cache's first call

    return sha.digests(data, width, before, tag)


class PathNames:
    """The names of what is cached in one tree."""

    def __init__(self, paths: Paths, *, bigram: bool) -> None:
        self.paths = paths
        self.bigram = bigram
        self.width = paths.page_size * (8 if bigram else 4)

    def names(self, place: Place, lo: int = 0) -> list[str]:
        """The names of the pages ``lo .. depth-1`` of a path."""
        names: list[str] = []
        size = DIGEST_BYTES
        for branch, start, end in self._known(place, lo):
            if branch.digests is not None:
                names += spelled(bytes(branch.digests[start * size : end * size]))
        return names

    def names_behind(self, place: Place, units: IntArray) -> list[str]:
        """The names of the whole pages of these units, which follow a path; they need not be cached."""
        size = self.paths.page_size
        whole = len(units) - len(units) % size
        data = encode(units[:whole], bigram=self.bigram)
        return spelled(digests(data, self.width, self.last(place), PAGE_TAG))

    def last(self, place: Place) -> bytes:
        """The digest of the last page of a path; of a root, what precedes the first page of its namespace."""
        branch, end, _ = place
        if not end:
            return self._seed(branch)
        self._known(place, branch.base + end - 1)
        assert branch.digests is not None
        return bytes(branch.digests[(end - 1) * DIGEST_BYTES : end * DIGEST_BYTES])

    def _seed(self, root: Branch) -> bytes:
        if root.digests is None:
            root.digests = bytearray(seed(root.namespace, self.paths.page_size, bigram=self.bigram))
        return bytes(root.digests)

    def _known(self, place: Place, lo: int) -> list[tuple[Branch, int, int]]:
        """The runs of a path from page ``lo`` on, all of whose digests are there now.

        A branch lacks its last digests or none; above the first branch that lacks none there is nothing to do.
        """
        branch, end, _ = place
        lacking: list[tuple[Branch, int]] = []
        while branch.parent is not None and (branch.digests is None or len(branch.digests) < end * DIGEST_BYTES):
            lacking.append((branch, end))
            branch, end = branch.parent, branch.at
        for branch, end in reversed(lacking):
            self._hash(branch, end)
        return [(run.branch, run.lo, run.hi) for run in self.paths.runs(place, lo)]

    def _hash(self, branch: Branch, end: int) -> None:
        """Hash what is missing of the first ``end`` pages of a branch, whose parent's digests are there."""
        size = self.paths.page_size
        if branch.digests:
            before = bytes(branch.digests[-DIGEST_BYTES:])
        else:
            branch.digests = bytearray()
            parent = branch.parent
            assert parent is not None
            at = branch.at * DIGEST_BYTES
            above = parent.digests if branch.at else None
            before = self._seed(parent) if above is None else bytes(above[at - DIGEST_BYTES : at])
        start = len(branch.digests) // DIGEST_BYTES
        data = encode(branch.units[start * size : end * size], bigram=self.bigram)
        branch.digests += digests(data, self.width, before, PAGE_TAG)


def _in_range(tokens: IntArray) -> IntArray:
    """These tokens; raises ``ValueError`` for one outside ``[0, 2**32)``."""
    if not len(tokens):
        return tokens
    bits = np.bitwise_or.reduce(tokens)
    if bits < 0 or bits >= TOKEN_LIMIT:
        raise ValueError(f"a token must be in [0, 2**32) to be hashed (got {tokens.min()} to {tokens.max()})")
    return tokens
