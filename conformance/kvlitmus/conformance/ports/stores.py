"""The ports of a page store: :mod:`kvlitmus.spec.interface.stores`."""

from __future__ import annotations

from kvlitmus.spec.interface.stores import (
    STORE_PORTS,
    Storage,
    StorageCrash,
    StorageFaults,
    StorageInto,
    StorageRanks,
    StorageShared,
    StorageYard,
)

__all__ = [
    "STORE_PORTS",
    "Storage",
    "StorageCrash",
    "StorageFaults",
    "StorageInto",
    "StorageRanks",
    "StorageShared",
    "StorageYard",
]
