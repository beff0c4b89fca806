"""A stand-in for Mooncake's client over memory of this process, with its contract: codes by key, leases, replicas.

``says`` is asked first: what it returns for a call is answered in place of the right codes, and what it raises is
raised.  A name that comes twice in a get is read into the last of its buffers alone, as the client does.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

NO_ROOM, TOO_LARGE, BEING_WRITTEN, NOT_THERE, LEASED = -200, -600, -703, -704, -706


def honest(method: str, names: Sequence[str]) -> Any:
    """The right answer to everything."""


class FakeClient:
    """One client of a store that is this object; memory that isn't registered is neither read nor written."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.objects: dict[str, bytes] = {}
        self.writing: set[str] = set()
        self.leased: set[str] = set()
        self.registered: dict[int, int] = {}
        self.says: Callable[[str, Sequence[str]], Any] = honest
        self.calls: list[str] = []
        self.closed = 0

    def _told(self, method: str, names: Sequence[str], right: Callable[[], Any]) -> Any:
        self.calls.append(method)
        said = self.says(method, names)
        return right() if said is None else said

    def _inside(self, address: int, size: int) -> bool:
        return any(at <= address and address + size <= at + length for at, length in self.registered.items())

    def register_buffer(self, address: int, size: int) -> int:
        def right() -> int:
            self.registered[address] = size
            return 0

        return int(self._told("register_buffer", (), right))

    def unregister_buffer(self, address: int) -> int:
        return 0 if self.registered.pop(address, None) else TOO_LARGE

    def batch_is_exist(self, names: list[str]) -> list[int]:
        return list(self._told("exist", names, lambda: [int(name in self.objects) for name in names]))

    def batch_get_into(self, names: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        into = dict(zip(names, addresses, strict=True))

        def one(name: str, size: int) -> int:
            data = self.objects.get(name)
            if data is None:
                return BEING_WRITTEN if name in self.writing else NOT_THERE
            if len(data) > size or not self._inside(into[name], size):
                return TOO_LARGE
            self.leased.add(name)
            ctypes.memmove(into[name], data, len(data))
            return len(data)

        return list(self._told("get", names, lambda: list(map(one, names, sizes))))

    def batch_put_from(self, names: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        def one(name: str, address: int, size: int) -> int:
            if name in self.objects or name in self.writing:
                return 0
            if sum(map(len, self.objects.values())) + size > self.room:
                return NO_ROOM
            if not self._inside(address, size):
                return TOO_LARGE
            self.objects[name] = ctypes.string_at(address, size)
            return 0

        return list(self._told("put", names, lambda: list(map(one, names, addresses, sizes))))

    def batch_remove(self, names: list[str], force: bool) -> list[int]:
        return list(self._told("remove", names, lambda: [self.remove(name, force) for name in names]))

    def remove(self, name: str, force: bool = False) -> int:
        if name in self.leased and not force:
            return LEASED
        self.leased.discard(name)
        return 0 if self.objects.pop(name, None) is not None else NOT_THERE

    def remove_by_regex(self, pattern: str, force: bool) -> int:
        names = [name for name in self.objects if re.search(pattern, name)]
        return int(self._told("regex", names, lambda: -sum(self.remove(name, force) for name in names) or len(names)))

    def get(self, name: str) -> bytes:
        return self.objects.get(name, b"")

    def put(self, name: str, data: bytes) -> int:
        self.objects.setdefault(name, data)
        return 0

    def batch_put_session_start(self, names: list[str], sizes: list[int]) -> list[int]:
        """Begin a put of a writer that is dead at once: the next one may put."""
        return [0 for _ in zip(names, sizes, strict=True)]

    def batch_put_from_multi_buffer_ranges(self, *parts: Any) -> list[int]:
        return [0]

    def close(self) -> int:
        self.closed += 1
        return 0
