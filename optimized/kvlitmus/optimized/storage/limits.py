"""How long one call may wait for a server, and how much it may be sent: whatever the server does.

A socket's own limit is one for each wait: a server that sends a byte now and then keeps a reader for ever.  And who
reads an answer of the length that the server names reads a gigabyte, if the server says so.  Here both are limits of
the whole call, kept where bytes come in and go out, below any protocol.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvlitmus.optimized.storage.base import Buffer


class Limits(threading.local):
    """What the call that this thread is making may still take; without limits outside of a call."""

    def __init__(self) -> None:
        self._until = math.inf
        self._bytes = math.inf

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """A call that may take so long, connecting included."""
        self._until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._until = self._bytes = math.inf

    def allow(self, amount: int) -> None:
        """From now on, so many bytes may be sent to us."""
        self._bytes = amount

    def wait(self, seconds: float | None) -> float | None:
        """How long to wait now, where it would be ``seconds`` otherwise; raises ``TimeoutError`` when time is over."""
        if seconds == 0 or self._until == math.inf:
            return seconds
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server took longer than the call may take")
        return left if seconds is None else min(left, seconds)

    def room(self, size: int) -> int:
        """How many bytes to read at once; raises ``ConnectionError`` when the server has sent more than it may."""
        if self._bytes <= 0:
            raise ConnectionError("the server sends more than it was asked for")
        return int(min(self._bytes, size))

    def took(self, amount: int) -> None:
        """So many bytes have come."""
        self._bytes -= amount


class LimitedSocket:
    """A socket of which every wait keeps the limits; everything else is the socket's own."""

    def __init__(self, real: socket.socket, limits: Limits) -> None:
        self._real = real
        self._limits = limits
        self._seconds = real.gettimeout()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def settimeout(self, seconds: float | None) -> None:
        """See ``socket.settimeout``: a wait is the shorter of this and what is left of the call."""
        self._seconds = seconds

    def gettimeout(self) -> float | None:
        """See ``socket.gettimeout``."""
        return self._seconds

    def recv(self, size: int, flags: int = 0) -> bytes:
        """See ``socket.recv``."""
        self._real.settimeout(self._limits.wait(self._seconds))
        data = self._real.recv(self._limits.room(size), flags)
        self._limits.took(len(data))
        return data

    def recv_into(self, buffer: Buffer, size: int = 0, flags: int = 0) -> int:
        """See ``socket.recv_into``."""
        self._real.settimeout(self._limits.wait(self._seconds))
        room = self._limits.room(size or memoryview(buffer).nbytes)
        got = self._real.recv_into(buffer, room, flags)
        self._limits.took(got)
        return got

    def sendall(self, data: Buffer, flags: int = 0) -> None:
        """See ``socket.sendall``."""
        rest = memoryview(data).cast("B")
        while rest:
            self._real.settimeout(self._limits.wait(self._seconds))
            rest = rest[self._real.send(rest, flags) :]
