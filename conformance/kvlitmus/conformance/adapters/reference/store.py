"""The reference page store as a target: the frozen model behind the ports of a page store.

``target``
    keeps the first of two values put under a key.
``replacing``
    keeps the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.adapters.stores.target import FIRST, LAST, WITHOUT_YARD, StoreTarget
from kvlitmus.conformance.ports import Profile
from kvlitmus.reference import stores


class Box:
    """What all handles share: the present state of the store."""

    def __init__(self, *, replaces: bool) -> None:
        self.store = stores.empty_store(replaces=replaces)


class ReferenceStore:
    """One handle on a reference store."""

    def __init__(self, box: Box, rank: int = 0) -> None:
        self.box = box
        self.rank = rank

    def store_exists(self, keys: Sequence[str]) -> int:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`."""
        return stores.exists(self.box.store, keys, self.rank)

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`; a page of another size is a miss."""
        found = stores.get(self.box.store, keys, self.rank)
        return [page if page is not None and len(page) == size else None for page in found]

    def store_get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """See :class:`~kvlitmus.spec.interface.stores.StorageInto`."""
        pages = stores.get(self.box.store, keys, self.rank)
        for page, buffer in zip(pages, buffers, strict=True):
            if page is not None:
                buffer[:] = page
        return [page is not None for page in pages]

    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`."""
        self.box.store, stored = stores.put(self.box.store, keys, values, self.rank)
        return stored

    def store_clear(self) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`."""
        self.box.store = stores.clear(self.box.store)

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """See :class:`~kvlitmus.spec.interface.stores.StorageFaults`: to the model all damage is the same."""
        before = self.box.store
        if how == "gone":
            where = stores.place(key, self.rank)
            left = {place: one for place, one in before.objects.items() if place != where}
            self.box.store = before._replace(objects=left)
        else:
            self.box.store = stores.damage(before, key, self.rank)
        return self.box.store != before

    def store_reopen(self) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.StorageFaults`: a handle remembers nothing."""

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.StorageCrash`."""
        self.box.store = stores.crash(self.box.store, key, value, self.rank, finished=after > len(value))

    def store_other(self) -> ReferenceStore:
        """See :class:`~kvlitmus.spec.interface.stores.StorageShared`."""
        return ReferenceStore(self.box, self.rank)

    def store_rank(self, rank: int) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.StorageRanks`."""
        self.rank = rank


def _target(profile: Profile, *, replaces: bool) -> StoreTarget:
    return StoreTarget(lambda: ReferenceStore(Box(replaces=replaces)), profile, WITHOUT_YARD)


target = _target(FIRST, replaces=False)
replacing = _target(LAST, replaces=True)
"""The reference when a second put replaces the first."""
