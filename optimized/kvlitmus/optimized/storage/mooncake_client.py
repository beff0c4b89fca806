"""A Mooncake Store's client, and the memory that it may still write into.

A call of the client is made in a thread of its own: whatever it waits for, nobody waits longer than they said.  A
transfer that failed, or didn't end in time, may write later.  So its lane of memory isn't used again, and is given back
when the client has closed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

T = TypeVar("T")

LINE = 64
"""Rows begin at a multiple of it."""


class Client(Protocol):
    """What is used of a ``MooncakeDistributedStore``."""

    def register_buffer(self, address: int, size: int) -> int:
        """0 where it is registered."""

    def unregister_buffer(self, address: int) -> int:
        """0 where it was registered."""

    def batch_is_exist(self, names: list[str]) -> list[int]:
        """1 for what can be read now."""

    def batch_get_into(self, names: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        """How many bytes came, or a negative code."""

    def batch_put_from(self, names: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        """0, or a negative code; what is there stays."""

    def batch_remove(self, names: list[str], force: bool) -> list[int]:
        """0, or a negative code; ``force``: in spite of a lease."""

    def remove_by_regex(self, pattern: str, force: bool) -> int:
        """How many were removed, or a negative code."""

    def close(self) -> int:
        """Leave."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process in a Mooncake Store: called, it gives a client.

    master: ``host:port``.  metadata: where members find each other, by default each other.  host: this one's name for
    the others.  memory: how many bytes it gives to the store.  buffer: how many the client keeps for itself.

    Raises ``ImportError`` where the client library can't be loaded, ``ConnectionError`` where it can't join.
    """

    master: str
    metadata: str = "P2PHANDSHAKE"
    host: str = "127.0.0.1"
    protocol: str = "tcp"
    devices: str = ""
    memory: int = 0
    buffer: int = 1 << 20

    def __call__(self) -> Client:
        """Join."""
        try:
            from mooncake.store import MooncakeDistributedStore
        except ImportError as error:
            raise ImportError(
                f"Mooncake's client can't be loaded ({error}): the extra 'mooncake' brings it, and it needs libraries "
                "of the system (Debian: apt-get install libibverbs1 libnl-3-200 libnuma1 libcurl4)"
            ) from error
        client = MooncakeDistributedStore()
        place = self.host, self.metadata, self.memory, self.buffer, self.protocol, self.devices, self.master
        code = client.setup(*place)
        if code:
            raise ConnectionError(f"the Mooncake Store of {self.master} can't be joined (code {code})")
        joined: Client = client
        return joined


class Lane:
    """Rows in registered memory, for one call at a time."""

    def __init__(self, connection: Connection, stride: int, batch: int) -> None:
        self.connection = connection
        memory = np.zeros(stride * batch + LINE, np.uint8)
        start = -memory.ctypes.data % LINE
        self.bytes = memory[start : start + stride * batch].reshape(batch, stride)
        self.words = self.bytes.view(np.uint64)
        self.addresses = [self.bytes.ctypes.data + at * stride for at in range(batch)]
        self.spoiled = False

    def page(self, row: int, length: int) -> memoryview:
        """The page in a row."""
        return self.bytes[row, :length].data


class Connection:
    """A client, and the memory that it may still touch."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.lanes: list[Lane] = []
        self.free: list[Lane] = []
        self.calls: set[threading.Thread] = set()
        self.ended = False

    @property
    def spoiled(self) -> int:
        """How many lanes can't be used again."""
        return sum(lane.spoiled for lane in self.lanes)

    def ask(self, question: Callable[[], T], seconds: float) -> T:
        """The answer; raises ``TimeoutError``, and whatever the question does."""
        if self.ended:
            raise ConnectionError("the store was left")
        return within(question, seconds, self.calls)

    def end(self, seconds: float) -> None:
        """Leave when all calls are over, and wait for that at most so long."""

        def leave() -> None:
            for call in list(self.calls):
                call.join()
            try:
                for lane in self.lanes:
                    self.client.unregister_buffer(lane.addresses[0])
            finally:
                self.client.close()
            self.lanes.clear()

        self.ended = True
        with suppress(Exception):
            within(leave, seconds)


def within(question: Callable[[], T], seconds: float, calls: set[threading.Thread] | None = None) -> T:
    """The answer to a question that is asked in a thread of its own: nothing else can be left waiting."""
    if sys.is_finalizing():
        raise RuntimeError("no thread can begin any more: the interpreter ends")
    answers: list[T] = []
    errors: list[BaseException] = []
    under_way = set() if calls is None else calls

    def ask() -> None:
        try:
            answers.append(question())
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
        finally:
            under_way.discard(call)

    call = threading.Thread(target=ask, name="kvlitmus-mooncake", daemon=True)
    under_way.add(call)
    call.start()
    call.join(max(0.0, seconds))
    if answers:
        return answers[0]
    if errors:
        raise errors[0]
    raise TimeoutError(f"no answer in {seconds:.1f} seconds")


def end_all(joined: Iterable[Connection], seconds: float) -> None:
    """Leave them all."""
    for connection in joined:
        connection.end(seconds)
