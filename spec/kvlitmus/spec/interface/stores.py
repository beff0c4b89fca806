"""The interface of a page store: what is judged when a storage backend is judged alone.

Keys are text, as a rule the 64 hex digits of a page hash.  Values are the bytes of one page.  All calls are
batches, and all answers are positional.  A page store is asked for with ``Config(pool="store")``; the
adapter needs no pool and no tree, only :class:`Storage`, and of the rest what it can offer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Storage(Protocol):
    """A page store."""

    def store_exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there."""

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """The bytes of each page, ``None`` for a miss.  The caller knows that its pages have ``size`` bytes."""

    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """Store one page per key; for each, whether it is stored now."""

    def store_clear(self) -> None:
        """Remove everything."""


class StorageInto(Protocol):
    """Reading into memory that the caller has reserved, as an engine does."""

    def store_get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """Fill one buffer per key; for each, whether it was filled."""


class StorageFaults(Protocol):
    """What happens below a store, made to happen."""

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """Damage the stored object of a key, behind the store's back; ``False`` where that can't be done.

        ``how``: ``short`` (the second half is cut off), ``empty`` (nothing is left), ``flip`` (one bit of the page
        is changed), ``other`` (it is replaced by what is stored for the key ``other``), ``gone`` (removed).  And what
        else can come to lie in its place: ``long`` (zeros, far more than any page has bytes), ``folder`` (an empty
        folder, or a container of another type), ``pipe`` (at which a reader waits for a writer), ``link`` (one to the
        object of the key ``other``).
        """

    def store_reopen(self) -> None:
        """Go on with a fresh handle over the same content, as after the process died and was started again."""


class StorageCrash(Protocol):
    """A writer that dies."""

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """Have another process put a page, and die when about ``after`` bytes have reached the medium.

        Where it gets to its end before that, the page is stored.
        """


class StorageShared(Protocol):
    """Several handles over one content."""

    def store_other(self) -> Storage:
        """Another handle over the same content, which another thread will use while this one goes on being used."""


class StorageRanks(Protocol):
    """Several ranks that store their shares of the same pages."""

    def store_rank(self, rank: int) -> None:
        """From now on the calls are those of rank 0 or of rank 1 of two; it begins with rank 0."""


class StorageYard(Protocol):
    """A look at what lies around a store that keeps its objects in a file system."""

    def store_yard(self) -> str:
        """The absolute path of a folder that belongs to the suite; the store's own folder lies directly in it."""

    def store_strays(self) -> Sequence[str]:
        """Whatever lies in that folder and isn't in the store's own."""


STORE_PORTS: dict[str, tuple[str, ...]] = {
    "store": ("store_exists", "store_get", "store_put", "store_clear"),
    "store_into": ("store_get_into",),
    "store_faults": ("store_damage", "store_reopen"),
    "store_crash": ("store_crash",),
    "store_other": ("store_other",),
    "store_ranks": ("store_rank",),
    "store_yard": ("store_yard", "store_strays"),
}
"""Those of a page store: capability → the methods that make it up."""
