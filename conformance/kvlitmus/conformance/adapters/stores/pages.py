"""What adapters of the optimized room's page stores have alike: the calls, which are the ports' own."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any


class PageStoreCalls:
    """The calls of a page store, to the ``handle`` that the present rank has open (:class:`PageStore` of that room)."""

    handle: Any

    def store_exists(self, keys: Sequence[str]) -> int:
        """``exists``."""
        return int(self.handle.exists(keys))

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """``get``."""
        found: list[bytes | None] = self.handle.get(keys, size)
        return found

    def store_get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """``get_into``."""
        filled: list[bool] = self.handle.get_into(keys, buffers)
        return filled

    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """``put``."""
        stored: list[bool] = self.handle.put(keys, values)
        return stored

    def store_clear(self) -> None:
        """``clear``."""
        self.handle.clear()


class SharedStoreCalls(PageStoreCalls):
    """The same of a store outside of this process, which all ranks share; each opens it when it is first asked."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.handles: dict[int, Any] = {}

    @abstractmethod
    def opened(self, rank: int) -> Any:
        """Open the store as this rank of two."""

    @property
    def handle(self) -> Any:
        """The store, as the present rank opened it."""
        if self.rank not in self.handles:
            self.handles[self.rank] = self.opened(self.rank)
        return self.handles[self.rank]

    def __del__(self) -> None:
        """Hang up, and leave nothing behind where others are."""
        for handle in getattr(self, "handles", {}).values():
            with contextlib.suppress(Exception):
                handle.clear()
                handle.close()

    def store_reopen(self) -> None:
        """New handles."""
        for handle in self.handles.values():
            handle.close()
        self.handles.clear()

    def store_rank(self, rank: int) -> None:
        """The same store, as another rank."""
        self.rank = rank
