"""The optimized room's file store as a target, in a temporary folder that is removed afterwards.

``target``
    as it is by default.
``durable``
    waiting for the medium with every put.

It keeps a page that is there and whole, so of two values the first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.stores.folders import FolderStore
from kvlitmus.conformance.adapters.stores.pages import PageStoreCalls
from kvlitmus.conformance.adapters.stores.target import StoreTarget


class FileStoreAdapter(PageStoreCalls, FolderStore):
    """``FileStore`` behind the ports."""

    durable = False

    def opened(self, rank: int) -> Any:
        """A ``FileStore`` of this rank of two."""
        from kvlitmus.optimized.storage.base import Identity
        from kvlitmus.optimized.storage.file import FileStore

        return FileStore(self.folder, Identity(model="litmus", rank=rank, ranks=2), durable=self.durable)

    def file_of(self, key: str) -> Path | None:
        """``path_of``."""
        found: Path | None = self.handle.path_of(key)
        return found


class DurableFileStore(FileStoreAdapter):
    """``FileStore`` with ``durable``."""

    durable = True


target = StoreTarget(FileStoreAdapter)
durable = StoreTarget(DurableFileStore)
