"""The optimized room's networked store as a target, over a server that is found or started.

The server is found as in :mod:`~kvlitmus.conformance.adapters.stores.redis`.  Where there is none, or the client
library is missing, the target says so and nothing is judged.  Each adapter has a prefix of its own and removes what it
wrote.  A crash is a client whose connection ends in the middle of a ``SET``; damage is done by another client.

It stores whatever it is given, so of two values the last.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import uuid
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.adapters.stores import redis as redis_store
from kvlitmus.conformance.adapters.stores.pages import PageStoreCalls
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.ports.stores import STORE_PORTS
from kvlitmus.conformance.run.plan import STORE_CONFIGS
from kvlitmus.spec.store_facts import STRANGE


def url_of(address: redis_store.Address) -> str:
    """The server's url: the one that was given, or one of the server that was started."""
    return os.environ.get(redis_store.VARIABLE) or f"redis://{address.host}:{address.port}/0"


class NetworkStore(PageStoreCalls):
    """``RedisStore`` behind the ports."""

    def __init__(self, address: redis_store.Address, prefix: str, rank: int = 0) -> None:
        self.address = address
        self.prefix = prefix
        self.rank = rank
        self.handles: dict[int, Any] = {}
        self.connection = redis_store.Connection(address)

    def __del__(self) -> None:
        """Hang up, and leave nothing behind on a server that others use."""
        for handle in getattr(self, "handles", {}).values():
            with contextlib.suppress(Exception):
                handle.clear()
                handle.close()
        if hasattr(self, "connection"):
            self.connection.close()

    @property
    def handle(self) -> Any:
        """The store, as the present rank opened it."""
        from kvlitmus.optimized.storage.base import Identity
        from kvlitmus.optimized.storage.redis import RedisStore

        if self.rank not in self.handles:
            identity = Identity(model="litmus", rank=self.rank, ranks=2)
            self.handles[self.rank] = RedisStore(url_of(self.address), identity, prefix=self.prefix, expire=3600)
        return self.handles[self.rank]

    def place(self, key: str) -> bytes | None:
        """The name of a key on the server."""
        found: str | None = self.handle.place_of(key)
        return None if found is None else found.encode()

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """Another client removes, cuts, changes or exchanges what is stored."""
        place = self.place(key)
        record = None if place is None else self.connection.ask(b"GET", place)
        if place is None or record is None:
            return False
        if how in STRANGE:
            return redis_store.replaced(self.connection, place, how)
        if how == "gone":
            self.connection.ask(b"DEL", place)
            return True
        if how == "other":
            source = self.place(other)
            wrong = None if source is None else self.connection.ask(b"GET", source)
            if wrong is None:
                return False
        else:
            flipped = record[:-5] + bytes([record[-5] ^ 16]) + record[-4:]
            wrong = {"short": record[: len(record) // 2], "empty": b"", "flip": flipped}[how]
        self.connection.ask(b"SET", place, wrong, *redis_store.EXPIRY)
        return True

    def store_reopen(self) -> None:
        """New connections."""
        for handle in self.handles.values():
            handle.close()
        self.handles.clear()

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """A client that sends a part of its ``SET`` and is gone."""
        from kvlitmus.optimized.storage.record import head_of

        place = self.place(key)
        assert place is not None
        record = head_of(self.handle.identity, key, value) + value
        command = redis_store.encoded((b"SET", place, record, *redis_store.EXPIRY))
        start = command.index(record)
        dying = redis_store.Connection(self.address)
        dying.socket.sendall(command[: start + after])
        if start + after >= len(command):
            dying.answer()
        dying.close()

    def store_other(self) -> NetworkStore:
        """Another client."""
        return NetworkStore(self.address, self.prefix, self.rank)

    def store_rank(self, rank: int) -> None:
        """The same server, as another rank."""
        self.rank = rank


@dataclass(frozen=True)
class NetworkTarget:
    """The target ``network-store``."""

    profile = Profile(store_put="last")
    capabilities = frozenset(STORE_PORTS) - {"store_yard"}
    configs = STORE_CONFIGS

    def make(self, config: Config) -> NetworkStore:
        """A client with a prefix that nobody else has."""
        if config.pool != "store":
            raise Unsupported("this target is a page store alone")
        if importlib.util.find_spec("redis") is None:
            raise Unsupported("not run: the client library is missing; the extra 'redis' brings it")
        return NetworkStore(redis_store.server(), f"kvlitmus:{uuid.uuid4().hex}")


target = NetworkTarget()
