"""What adapters of stores in folders have in common: a yard of their own, damage, crashes, other handles.

The store's folder lies in a yard, a temporary folder that is removed with the adapter; what a key leads
to outside of the store lands there.  Damage is done to the file that holds an object, which the heirs
name; crashes happen to a real child process (:mod:`~kvlitmus.conformance.adapters.stores.dying`).
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.stores import scratch
from kvlitmus.conformance.adapters.stores.dying import die_while
from kvlitmus.spec.stores.facts import STRANGE

STORE = "store"
"""The name of the store's folder."""

HUGE = 1 << 42
"""How long a file is made that is far too long: its bytes take no place on the medium."""


def cut_or_changed(data: bytes, how: str) -> bytes:
    """What is left of an object: half of it (``short``), nothing (``empty``), or one bit of its page differs."""
    flipped = data[:-5] + bytes([data[-5] ^ 16]) + data[-4:]
    return {"short": data[: len(data) // 2], "empty": b"", "flip": flipped}[how]


def replaced(path: Path, how: str, other: Path | None) -> bool:
    """Put something else in the place of a file (see ``STRANGE``); whether that could be done."""
    if how == "link" and (other is None or not other.is_file()):
        return False
    path.unlink()
    try:
        if how == "long":
            path.touch(0o600)
            os.truncate(path, HUGE)
        elif how == "folder":
            path.mkdir(0o700)
        elif how == "pipe":
            os.mkfifo(path, 0o600)
        elif other is not None:
            path.symlink_to(other)
    except OSError:  # a file system that has no such thing, or no files of that length
        path.write_bytes(b"")
    return True


class FolderStore:
    """A store in a folder; ``handle`` opens it for a rank, and the heirs say how it is called."""

    def __init__(self, folder: Path | None = None, rank: int = 0) -> None:
        self.yard = folder or scratch.yard()
        if folder is None:
            scratch.remove_with(self, self.yard)
        self.rank = rank
        self.handles: dict[int, Any] = {}

    @property
    def folder(self) -> Path:
        """The store's own folder."""
        return self.yard / STORE

    @property
    def handle(self) -> Any:
        """The store, as the present rank opened it."""
        if self.rank not in self.handles:
            self.handles[self.rank] = self.opened(self.rank)
        return self.handles[self.rank]

    @abstractmethod
    def opened(self, rank: int) -> Any:
        """Open the store in ``folder`` as this rank of two."""

    @abstractmethod
    def file_of(self, key: str) -> Path | None:
        """The file that holds the object of a key."""

    @abstractmethod
    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`."""

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """See :class:`~kvlitmus.spec.interface.stores.StorageFaults`."""
        path = self.file_of(key)
        if path is None or not path.is_file():
            return False
        if how in STRANGE:
            return replaced(path, how, self.file_of(other))
        data = path.read_bytes()
        if how == "gone":
            path.unlink()
            return True
        if how == "other":
            source = self.file_of(other)
            if source is None or not source.is_file():
                return False
            path.write_bytes(source.read_bytes())
            return True
        path.write_bytes(cut_or_changed(data, how))
        return True

    def store_reopen(self) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.StorageFaults`."""
        self.handles.clear()

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.StorageCrash`."""
        die_while(lambda: self.store_put([key], [value]), after)

    def store_other(self) -> FolderStore:
        """See :class:`~kvlitmus.spec.interface.stores.StorageShared`."""
        return type(self)(self.yard, self.rank)

    def store_rank(self, rank: int) -> None:
        """See :class:`~kvlitmus.spec.interface.stores.StorageRanks`."""
        self.rank = rank

    def store_yard(self) -> str:
        """See :class:`~kvlitmus.spec.interface.stores.StorageYard`."""
        return str(self.yard)

    def store_strays(self) -> Sequence[str]:
        """See :class:`~kvlitmus.spec.interface.stores.StorageYard`."""
        return scratch.strays(self.yard, STORE)
