"""A page store on a Redis or Valkey server, over the network protocol they share (RESP).

The server is the one that ``KVLITMUS_REDIS_URL`` names (``redis://[[user]:password@]host[:port][/database]``), else
one that is started for this process, if ``valkey-server`` or ``redis-server`` is found: on a free port of the loopback
device, without persistence, in a temporary folder, and stopped with the process.  Debian has both, as
``apt-get install valkey-server`` or ``apt-get install redis-server``.  Where there is none, the target says so and
nothing is judged.

What is judged is the server with the plainest lawful use of it: one ``SET`` per page, all of a batch in one
pipeline, ``MGET`` to read, ``EXISTS`` per key to count.  A page of another length than the reader expects is a
miss.  Pages carry no checksum: that the server keeps what it was given is what TCP and its memory are for, and
nothing can damage an object behind its back but another client, so ``flip`` and ``other`` are not offered.
Each adapter has a prefix of its own, ``clear`` removes what has that prefix and nothing else, pages are removed with
the adapter, and expire by themselves after an hour; so a server in use can be judged too.

A crash is a client whose connection ends in the middle of a ``SET``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kvlitmus.conformance.adapters.stores import scratch
from kvlitmus.conformance.adapters.stores.folders import cut_or_changed
from kvlitmus.conformance.adapters.stores.target import LAST, WITHOUT_YARD, StoreTarget
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.spec.stores.facts import STRANGE

VARIABLE = "KVLITMUS_REDIS_URL"
SERVERS = ("valkey-server", "redis-server")
KEY_BYTES = 1024
SECONDS = 5.0
EXPIRY = (b"EX", b"3600")
CRLF = b"\r\n"
LONG = 1 << 24
"""How long a value is made that is far too long."""


class Address(NamedTuple):
    """Where a server is, and what it wants to hear first."""

    host: str
    port: int
    greetings: tuple[tuple[bytes, ...], ...] = ()


class ServerError(Exception):
    """The server answered with an error."""


class Connection:
    """A connection that speaks RESP: requests as arrays of byte strings, answers as Python values."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection((address.host, address.port), timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb")
        for greeting in address.greetings:
            self.ask(*greeting)

    def ask(self, *words: bytes) -> Any:
        """One command; raises :class:`ServerError` for an error."""
        (answer,) = self.pipeline([words])
        if isinstance(answer, ServerError):
            raise answer
        return answer

    def pipeline(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Several commands at once; an error is an answer like any other."""
        self.socket.sendall(b"".join(map(encoded, commands)))
        return [self.answer() for _ in commands]

    def answer(self) -> Any:
        """Read one answer; raises ``ConnectionError`` when the server hangs up."""
        line = self.answers.readline()
        if not line.endswith(CRLF):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ServerError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            length = int(rest)
            data = self.answers.read(length + 2) if length >= 0 else None
            if data is not None and len(data) < length + 2:
                raise ConnectionError("the server closed the connection")
            return None if data is None else data[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        raise ConnectionError(f"the server does not speak RESP: {line[:40]!r}")

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self.answers.close()
            self.socket.close()


def encoded(words: Sequence[bytes]) -> bytes:
    """A command as it goes over the line."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def address_of(url: str) -> Address:
    """The address in a URL; raises :class:`Unsupported` for one that isn't understood."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    database = parts.path.strip("/")
    if parts.scheme not in ("redis", "valkey") or not host or (database and not database.isdigit()):
        raise Unsupported(f"{VARIABLE} must look like redis://host:6379/0")
    greetings: list[tuple[bytes, ...]] = []
    if parts.password is not None:
        user = [unquote(parts.username).encode()] if parts.username else []
        greetings.append((b"AUTH", *user, unquote(parts.password).encode()))
    if database:
        greetings.append((b"SELECT", database.encode()))
    return Address(host, port or 6379, tuple(greetings))


@functools.cache
def started(program: str, pid: int) -> Address:
    """Start a server for this process; raises :class:`Unsupported` when it doesn't answer in time."""
    assert pid == os.getpid()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "{folder}")
    scratch.kept_folder(program, *words, "--daemonize", "no", prefix="kvlitmus-server-")
    address = Address("127.0.0.1", port)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ServerError):
            connection = Connection(address)
            connection.ask(b"PING")
            connection.close()
            return address
        time.sleep(0.02)
    raise Unsupported(f"{program} was started on 127.0.0.1:{port}, but doesn't answer")


def server(programs: Sequence[str] = SERVERS) -> Address:
    """The server to be judged; :class:`Unsupported` with what to do where there is none."""
    url = os.environ.get(VARIABLE)
    if url:
        address = address_of(url)
        try:
            Connection(address).close()
        except (OSError, ServerError) as error:
            raise Unsupported(f"the server that {VARIABLE} names can't be used: {error}") from error
        return address
    for name in programs:
        program = shutil.which(name)
        if program:
            return started(program, os.getpid())
    raise Unsupported(
        f"not run: {' and '.join(programs)} not found, and {VARIABLE} is not set; "
        f"'apt-get install {programs[-1]}' (Debian) brings one"
    )


def replaced(connection: Connection, name: bytes, how: str) -> bool:
    """Put something else in the place of a value (see ``STRANGE``); whether a server has such a thing."""
    if how not in ("long", "folder"):
        return False
    connection.ask(b"DEL", name)
    if how == "long":
        connection.ask(b"SET", name, bytes(LONG), *EXPIRY)
    else:
        connection.ask(b"RPUSH", name, b"a list")
        connection.ask(b"EXPIRE", name, EXPIRY[1])
    return True


class OnServer:
    """What stores on a server have alike: what other clients do to them, and clients that die."""

    address: Address
    connection: Connection
    damages = frozenset({"short", "empty", "gone", "flip", "other", *STRANGE})
    """The damage that can be done; what it is, says ``StorageFaults``."""

    @abstractmethod
    def place(self, key: str) -> bytes | None:
        """The name of a key on the server; ``None`` for one that is refused."""

    @abstractmethod
    def record(self, key: str, value: bytes) -> bytes:
        """What is stored there for a page."""

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """Another client removes, cuts, changes or exchanges what is stored."""
        place = self.place(key)
        record = None if place is None or how not in self.damages else self.connection.ask(b"GET", place)
        if place is None or record is None:
            return False
        if how in STRANGE:
            return replaced(self.connection, place, how)
        if how == "gone":
            self.connection.ask(b"DEL", place)
            return True
        if how == "other":
            source = self.place(other)
            wrong = None if source is None else self.connection.ask(b"GET", source)
            if wrong is None:
                return False
        else:
            wrong = cut_or_changed(record, how)
        self.connection.ask(b"SET", place, wrong, *EXPIRY)
        return True

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """A client that sends a part of its ``SET`` and is gone."""
        place, record = self.place(key), self.record(key, value)
        assert place is not None
        command = encoded((b"SET", place, record, *EXPIRY))
        start = command.index(record)
        dying = Connection(self.address)
        dying.socket.sendall(command[: start + after])
        if start + after >= len(command):
            dying.answer()
        dying.close()


class RedisStore(OnServer):
    """One client of a server."""

    damages = OnServer.damages - {"flip", "other"}

    def __init__(self, address: Address, prefix: bytes, rank: int = 0) -> None:
        self.address = address
        self.prefix = prefix
        self.rank = rank
        self.written: set[bytes] = set()
        self.connection = Connection(address)

    def __del__(self) -> None:
        """Hang up, and leave nothing behind on a server that others use."""
        connection = getattr(self, "connection", None)
        if connection is not None:
            with contextlib.suppress(OSError, ServerError):
                if self.written:
                    connection.ask(b"UNLINK", *self.written)
            connection.close()

    def place(self, key: str) -> bytes | None:
        """The key on the server: prefix, rank and key; ``None`` for one that is refused."""
        text = key.encode("utf-8", "surrogatepass")
        return b"%b:%dof2:%b" % (self.prefix, self.rank, text) if 0 < len(text) <= KEY_BYTES else None

    def names(self, keys: Sequence[str]) -> list[bytes]:
        """The keys on the server; a refused one is a name under which nothing ever is."""
        return [self.place(key) or self.prefix + b":refused" for key in keys]

    def store_exists(self, keys: Sequence[str]) -> int:
        """``EXISTS`` for each key, in one pipeline."""
        found = self.connection.pipeline([(b"EXISTS", name) for name in self.names(keys)])
        return found.index(0) if 0 in found else len(found)

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """``MGET``; a page of another length is a miss."""
        pages = self.connection.ask(b"MGET", *self.names(keys)) if keys else []
        return [page if page is not None and len(page) == size else None for page in pages]

    def store_get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """``MGET``, and copies of what fits."""
        pages = self.connection.ask(b"MGET", *self.names(keys)) if keys else []
        filled = []
        for page, buffer in zip(pages, buffers, strict=True):
            fits = page is not None and len(page) == len(buffer)
            if fits:
                buffer[:] = page
            filled.append(fits)
        return filled

    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """``SET`` for each page, in one pipeline; a server that is full answers with an error for each."""
        names = [self.place(key) for key in keys]
        commands = [(b"SET", name, value, *EXPIRY) for name, value in zip(names, values, strict=True) if name]
        self.written.update(name for name in names if name)
        answers = iter(self.connection.pipeline(commands))
        return [name is not None and next(answers) == b"OK" for name in names]

    def store_clear(self) -> None:
        """``UNLINK`` for everything with the prefix of this adapter and rank."""
        for names in self.scanned(b"%b:%dof2:*" % (self.prefix, self.rank)):
            self.connection.ask(b"UNLINK", *names)

    def scanned(self, pattern: bytes) -> Iterator[list[bytes]]:
        """The names on the server, some at a time."""
        cursor = b"0"
        while True:
            cursor, names = self.connection.ask(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000")
            if names:
                yield names
            if cursor == b"0":
                return

    def store_reopen(self) -> None:
        """A new connection."""
        self.connection.close()
        self.connection = Connection(self.address)

    def record(self, key: str, value: bytes) -> bytes:
        """The page itself, noted as written."""
        name = self.place(key)
        assert name is not None
        self.written.add(name)
        return value

    def store_other(self) -> RedisStore:
        """Another connection."""
        return RedisStore(self.address, self.prefix, self.rank)

    def store_rank(self, rank: int) -> None:
        """Another name for the same server."""
        self.rank = rank


def _target(program: str) -> StoreTarget:
    """A client with a prefix that nobody else has; the program is started where no server is named."""

    def build() -> RedisStore:
        return RedisStore(server((program,)), b"kvlitmus:" + uuid.uuid4().hex.encode())

    return StoreTarget(build, LAST, WITHOUT_YARD)


redis = _target("redis-server")
valkey = _target("valkey-server")
