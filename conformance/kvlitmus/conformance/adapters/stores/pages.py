"""What adapters of the optimized room's page stores have alike: the calls, which are the ports' own."""

from __future__ import annotations

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
