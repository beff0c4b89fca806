"""What a page store is, and whose pages it keeps."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from kvlitmus.spec.words.schemes import KVLITMUS_2

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What a page can be read from; a tensor in host memory gives one by ``memoryview(tensor.numpy()).cast("B")``."""

LARGEST = 256 << 20
"""A page of more bytes than this is neither stored nor read, unless a store is told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Everything besides the key that decides whether the bytes of a page can be used.

    model: the model and its revision.  layout: element type and order of the bytes, as any text that
    tells two layouts apart.  page_size: tokens per page.  rank, ranks: which share of each page is
    stored; data that all ranks have alike (such as latent KV) are stored with ``rank=0, ranks=1`` by one of
    them, for all.  names: the scheme by which the keys are made (:mod:`kvlitmus.spec.words.schemes`), for what a key
    stands for is part of what the page is.  Stores with different identities never find each other's objects: those
    that were written before schemes had names, with upstream's, are misses.
    """

    model: str = ""
    layout: str = ""
    page_size: int = 0
    rank: int = 0
    ranks: int = 1
    names: str = KVLITMUS_2.name

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a rank that can't be."""
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank must be from 0 to ranks - 1 (got rank={self.rank}, ranks={self.ranks})", self)

    @property
    def digest(self) -> bytes:
        """32 bytes that differ between different identities."""
        return _digest(self)


@functools.lru_cache(maxsize=256)  # every key's name asks for it
def _digest(of: Identity) -> bytes:
    hashed = hashlib.sha256(b"kvlitmus page store 2")
    for part in (of.model, of.layout, str(of.page_size), str(of.rank), str(of.ranks), of.names):
        text = part.encode("utf-8", "surrogatepass")
        hashed.update(len(text).to_bytes(8, "little") + text)
    return hashed.digest()


def as_bytes(keys: Sequence[str], given: Sequence[Buffer], what: str) -> list[memoryview]:
    """One buffer per key, as bytes; ``ValueError`` where there are not as many of these (``what``) as keys."""
    if len(keys) != len(given):
        raise ValueError(f"as many {what} as keys are needed (got {len(given)} and {len(keys)})")
    return [memoryview(one).cast("B") for one in given]


@runtime_checkable
class PageStore(Protocol):
    """Keeps whole pages under keys, in batches, answering by position.

    What goes wrong with one object concerns that position alone: a page that can't be read is a miss, one that can't be
    written is not stored, and neither raises.  All methods may be called from several threads.
    """

    def exists(self, keys: Sequence[str]) -> int:
        """How many of the keys are there, from the first on without a gap."""

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """The bytes of each page, ``None`` for a miss; with ``size``, a page of another size is a miss."""

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """Fill one buffer per key; whether each was filled.  A buffer that is not filled is left as it was."""

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """Store one page per key; whether each is stored now."""

    def clear(self) -> None:
        """Remove all pages of this identity."""
