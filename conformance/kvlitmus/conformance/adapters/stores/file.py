"""The optimized room's file store as a target, in a temporary folder that is removed afterwards.

``target`` (also the module itself)
    as it is by default.
``durable``
    waiting for the medium with every put.

It keeps a page that is there and whole, so of two values the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.stores.folders import FolderStore
from kvlitmus.conformance.adapters.stores.pages import PageStoreCalls
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.ports.stores import STORE_PORTS
from kvlitmus.conformance.run.plan import STORE_CONFIGS


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


@dataclass(frozen=True)
class FileStoreTarget:
    """The target ``file-store``, or ``file-store-durable``."""

    adapter: type[FileStoreAdapter] = FileStoreAdapter
    profile = Profile(store_put="first")
    capabilities = frozenset(STORE_PORTS)
    configs = STORE_CONFIGS

    def make(self, config: Config) -> FileStoreAdapter:
        """A fresh store in a folder of its own."""
        if config.pool != "store":
            raise Unsupported("this target is a page store alone")
        return self.adapter()


target = FileStoreTarget()
durable = FileStoreTarget(DurableFileStore)

profile = target.profile
capabilities = target.capabilities
configs = target.configs
make = target.make
