"""A small server that speaks RESP, on the loopback device and in threads of this process: it may answer anything.

It knows the commands that the store uses.  ``odd`` is asked first: what it returns is sent instead of the right answer,
in pieces with waits between them if it is an iterator.  It counts what it has sent, and it ends with the test.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Odd = Callable[[list[bytes]], "bytes | Iterator[bytes] | None"]


def honest(_: list[bytes]) -> None:
    """The right answer to everything."""


def bulk(data: bytes | None) -> bytes:
    """A string as it is sent; ``None`` for none."""
    return b"$-1\r\n" if data is None else b"$%d\r\n%b\r\n" % (len(data), data)


def fits(pattern: bytes, name: bytes) -> bool:
    """Whether a name has the form of a pattern, as ``SCAN`` understands it: ``*``, ``?``, ``[...]``, a backslash."""
    if not pattern:
        return not name
    first, rest = pattern[:1], pattern[1:]
    if first == b"*":
        return any(fits(rest, name[at:]) for at in range(len(name) + 1))
    if not name:
        return False
    if first == b"[":
        chosen = bytearray()
        while rest and rest[:1] != b"]":
            if rest[:1] == b"\\" and len(rest) > 1:
                rest = rest[1:]
            chosen += rest[:1]
            rest = rest[1:]
        return name[0] in chosen and fits(rest[1:], name[1:])
    if first == b"\\" and rest:
        first, rest = rest[:1], rest[1:]
    elif first == b"?":
        first = name[:1]
    return first == name[:1] and fits(rest, name[1:])


class Server:
    """What it keeps, what it answers instead of the right thing, and how many bytes it has sent."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.odd: Odd = honest
        self.sent = 0
        self.stop = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.held: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.socket.getsockname()[1]}/0"

    def accept(self) -> None:
        """A thread for each connection."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # no answer waits for the one before
            self.held.append(connection)
            thread = threading.Thread(target=self.serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def serve(self, connection: socket.socket) -> None:
        """Read commands and answer them, until either side hangs up."""
        with suppress(OSError, ValueError), connection, connection.makefile("rb") as lines:
            while head := lines.readline():
                words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                answer = self.odd(words)
                pieces = [self.right(words)] if answer is None else answer
                for piece in [pieces] if isinstance(pieces, bytes) else pieces:
                    connection.sendall(piece)
                    self.sent += len(piece)

    def right(self, words: list[bytes]) -> bytes:
        """What a server answers."""
        command, *rest = words
        match command.upper():
            case b"PING":
                return b"+PONG\r\n"
            case b"SET":
                self.data[rest[0]] = rest[1]
            case b"STRLEN":
                return b":%d\r\n" % len(self.data.get(rest[0], b""))
            case b"GETRANGE":
                return bulk(self.data.get(rest[0], b"")[int(rest[1]) : int(rest[2]) + 1])
            case b"SCAN":
                names = [name for name in self.data if fits(rest[rest.index(b"MATCH") + 1], name)]
                return b"*2\r\n$1\r\n0\r\n*%d\r\n%b" % (len(names), b"".join(map(bulk, names)))
            case b"UNLINK":
                return b":%d\r\n" % sum(self.data.pop(name, None) is not None for name in rest)
        return b"+OK\r\n"

    def close(self) -> None:
        """Hang up on everybody."""
        self.stop.set()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for connection in self.held:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self.threads)


@contextmanager
def serving() -> Iterator[Server]:
    """A server, for as long as it is needed."""
    server = Server()
    try:
        yield server
    finally:
        server.close()


def only(commands: str, answer: Any) -> Odd:
    """Answers these commands so, the others as they should be; ``answer`` may be a function of the words."""
    chosen = commands.encode().split()

    def odd(words: list[bytes]) -> Any:
        if words[0].upper() not in chosen:
            return None
        return answer(words) if callable(answer) else answer

    return odd
