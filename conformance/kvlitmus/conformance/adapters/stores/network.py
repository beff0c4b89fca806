"""The optimized room's networked store as a target, over a server that is found or started.

The server is found as in :mod:`~kvlitmus.conformance.adapters.stores.redis`.  Where there is none, or the client
library is missing, the target says so and nothing is judged.  Each adapter has a prefix of its own and removes what it
wrote.  A crash is a client whose connection ends in the middle of a ``SET``; damage is done by another client.

It stores whatever it is given, so of two values the last.
"""

from __future__ import annotations

import importlib.util
import os
import uuid
from typing import Any

from kvlitmus.conformance.adapters.stores import redis as redis_store
from kvlitmus.conformance.adapters.stores.pages import SharedStoreCalls
from kvlitmus.conformance.adapters.stores.target import LAST, WITHOUT_YARD, StoreTarget
from kvlitmus.conformance.ports import Unsupported


def url_of(address: redis_store.Address) -> str:
    """The server's url: the one that was given, or one of the server that was started."""
    return os.environ.get(redis_store.VARIABLE) or f"redis://{address.host}:{address.port}/0"


class NetworkStore(SharedStoreCalls, redis_store.OnServer):
    """``RedisStore`` behind the ports."""

    def __init__(self, address: redis_store.Address, prefix: str, rank: int = 0) -> None:
        super().__init__(rank)
        self.address = address
        self.prefix = prefix
        self.connection = redis_store.Connection(address)

    def __del__(self) -> None:
        """The connection by which it is damaged goes, too."""
        super().__del__()
        if hasattr(self, "connection"):
            self.connection.close()

    def opened(self, rank: int) -> Any:
        """A client of this rank of two."""
        from kvlitmus.optimized.storage.base import Identity
        from kvlitmus.optimized.storage.redis import RedisStore

        identity = Identity(model="litmus", rank=rank, ranks=2)
        return RedisStore(url_of(self.address), identity, prefix=self.prefix, expire=3600)

    def place(self, key: str) -> bytes | None:
        """The name of a key on the server."""
        found: str | None = self.handle.place_of(key)
        return None if found is None else found.encode()

    def record(self, key: str, value: bytes) -> bytes:
        """The page behind its header."""
        from kvlitmus.optimized.storage.record import head_of

        return head_of(self.handle.identity, key, value) + value

    def store_other(self) -> NetworkStore:
        """Another client."""
        return NetworkStore(self.address, self.prefix, self.rank)


def build() -> NetworkStore:
    """A client with a prefix that nobody else has."""
    if importlib.util.find_spec("redis") is None:
        raise Unsupported("not run: the client library is missing; the extra 'redis' brings it")
    return NetworkStore(redis_store.server(), f"kvlitmus:{uuid.uuid4().hex}")


target = StoreTarget(build, LAST, WITHOUT_YARD)
