"""The optimized room's store over a Mooncake Store, whose master is started for this process and ends with it.

The master listens on free ports of the loopback device.  One client of this process gives the memory, and all adapters
read and write through it; each has a prefix of its own and removes what it wrote.  Where the client can't be loaded,
the target says why and nothing is judged.  Damage is done by another client, which removes a page in spite of its
lease and puts something else; a crash is a client that has begun to put a page, has written a part, and never ends.

A page that is there stays, so of two values the first is kept.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.stores import scratch
from kvlitmus.conformance.adapters.stores.folders import cut_or_changed
from kvlitmus.conformance.adapters.stores.pages import SharedStoreCalls
from kvlitmus.conformance.adapters.stores.target import FIRST, WITHOUT_YARD, StoreTarget
from kvlitmus.conformance.ports import Unsupported

SECONDS = 10.0
MEMORY, PAGE_BYTES = 256 << 20, 2 << 20
DISCARD_SECONDS = 0
"""After how long the master lets somebody else put a page that was begun and not ended: here, a writer that is dead."""


def command(*, rpc: int, metrics: int) -> list[str]:
    """What starts a master; raises ``Unsupported`` where there is none."""
    try:
        import mooncake
    except ImportError as error:
        raise Unsupported("not run: the client library is missing; the extra 'mooncake' brings it") from error
    program = Path(mooncake.__path__[0]) / "mooncake_master"
    if not os.access(program, os.X_OK):  # a wheel doesn't say so
        program.chmod(0o755)
    words = {"rpc_port": rpc, "metrics_port": metrics, "put_start_discard_timeout_sec": DISCARD_SECONDS}
    hosts = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--logtostderr=1", "--minloglevel=2"]
    return [str(program), *hosts, *(f"--{word}={number}" for word, number in words.items())]


def free_ports(count: int) -> list[int]:
    """So many ports of the loopback device that nobody uses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def wait_for(port: int) -> None:
    """Return when a server listens; raises ``Unsupported`` when none does in time."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.02)
    raise Unsupported(f"a Mooncake master was started on 127.0.0.1:{port}, but doesn't answer")


@functools.cache
def started(pid: int) -> str:
    """The address of this process's master."""
    assert pid == os.getpid()
    rpc, metrics = free_ports(2)
    scratch.kept_folder(*command(rpc=rpc, metrics=metrics), prefix="kvlitmus-mooncake-")
    wait_for(rpc)
    return f"127.0.0.1:{rpc}"


class Kept:
    """A client that many stores use: none of them closes it."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def close(self) -> int:
        """It stays."""
        return 0


@functools.cache
def client(pid: int) -> Kept:
    """The client of this process, which gives the memory."""
    from kvlitmus.optimized.storage.mooncake_client import Member

    try:
        kept = Kept(Member(master=started(pid), memory=MEMORY)())
    except ImportError as error:
        raise Unsupported(f"not run: {error}") from error
    atexit.register(kept.client.close)  # a process that ends without that hangs
    return kept


class MooncakePages(SharedStoreCalls):
    """``MooncakeStore`` behind the ports."""

    damages = frozenset({"short", "empty", "gone", "flip", "other", "long"})
    """The damage that can be done; what it is, says ``StorageFaults``."""

    def __init__(self, client: Any, prefix: str, rank: int = 0) -> None:
        super().__init__(rank)
        self.client = client
        self.prefix = prefix

    def opened(self, rank: int) -> Any:
        """A store of this rank of two, over the client of all."""
        from kvlitmus.optimized.storage.base import Identity
        from kvlitmus.optimized.storage.mooncake import MooncakeStore

        identity = Identity(model="litmus", rank=rank, ranks=2)
        limits = {"page_bytes": PAGE_BYTES, "batch": 4, "lanes": 2}
        return MooncakeStore(lambda: self.client, identity, prefix=self.prefix, **limits)

    def store_other(self) -> MooncakePages:
        """Another store."""
        return MooncakePages(self.client, self.prefix, self.rank)

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """Another client removes, cuts, changes or exchanges what is stored."""
        place = self.handle.place_of(key)
        record = None if place is None or how not in self.damages else bytes(self.client.get(place))
        if not record:
            return False
        wrong = b"" if how == "gone" else bytes(PAGE_BYTES + 4096)
        if how == "other":
            source = self.handle.place_of(other)
            wrong = b"" if source is None else bytes(self.client.get(source))
            if not wrong:
                return False
        elif how in ("short", "empty", "flip"):
            wrong = cut_or_changed(record, how)
        self.client.remove(place, True)
        if wrong:
            self.client.put(place, wrong)
        return True

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """A client that begins a put, writes a part and never ends it; the rest of a put that was ended is there."""
        from kvlitmus.optimized.storage.sealed import sealed_bytes

        place, size = self.handle.place_of(key), sealed_bytes(len(value))
        if after >= size:
            self.handle.put([key], [value])
            return
        if self.client.batch_put_session_start([place], [size]) != [0]:
            return
        part = ctypes.create_string_buffer(value[:after], max(1, after))
        address = ctypes.addressof(part)
        self.client.register_buffer(address, len(part))
        self.client.batch_put_from_multi_buffer_ranges([place], [[address]], [[after]], [[0]])
        self.client.unregister_buffer(address)


def build() -> MooncakePages:
    """A store with a prefix that nobody else has."""
    return MooncakePages(client(os.getpid()), f"kvlitmus:{uuid.uuid4().hex}")


target = StoreTarget(build, FIRST, WITHOUT_YARD)
