"""Pages on a server that speaks RESP: Redis, Valkey, or what is compatible with them.

Needs the client library ``redis`` (the extra ``redis``).  How it stays right, whatever happens:

* **Checked.**  A value is a record as in the file store (:mod:`~kvlitmus.optimized.storage.record`): one that is short,
  changed, of another store or under another's name is a miss; the next put replaces it.
* **Contained.**  Names on the server are digests under a prefix and the identity; so no key can name anything else, and
  :meth:`RedisStore.clear` removes what it could have named itself.  Errors concern the pages they are about: a server
  that is full refuses pages, one that can't be reached misses them all, one that answers something else than was asked
  misses what it answered so, and none of them raises.
* **Bounded.**  No call takes longer than ``seconds``, connecting, sending and receiving included, however slowly bytes
  trickle in (:mod:`~kvlitmus.optimized.storage.limits`); only how long the system takes to look up the server's address
  is not in our hands.  After a failed connection the server is left alone for ``rest`` seconds: calls miss at once, so
  that an unreachable server costs a wait now and then, not one per call.  Batches are cut, so that no more than about
  ``batch_bytes`` are under way at once.
* **Sized.**  The server is asked for as many bytes as the page has, and one more: by the caller's size, or by the
  header, which is read first.  So a value that is too long is never read, whatever it is, and a server that sends more
  than it was asked for is hung up on.

Whether pages outlive the server, and what it removes when memory is short, is the server's configuration: for a cache
``maxmemory`` with ``allkeys-lru`` or ``allkeys-lfu`` is apt.  A page that was removed is a miss.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from kvlitmus.optimized.storage.base import LARGEST, Buffer, Identity, as_bytes
from kvlitmus.optimized.storage.limits import LimitedSocket, Limits
from kvlitmus.optimized.storage.record import HEAD, KEY_BYTES, head_length, head_of, name_of, page_in, promised

UNREACHABLE = (redis.ConnectionError, redis.TimeoutError, OSError)

QUESTIONS = 512
"""How many keys are asked for at once, at most."""

ANSWER_BYTES = 1 << 10
"""What one answer may have besides the bytes of a page: an error, a number, or what frames them."""

GREETING_BYTES = 1 << 16
"""What a server may say when a connection is made, besides."""

SCAN_BYTES = 1 << 24
"""What an answer may have that lists a thousand names or so."""

MISSING, ODD = -1, -2
"""In the place of a page's length: there is nothing, or nothing that could be this page."""


class RedisStore:
    """A page store on a server; see :class:`~kvlitmus.optimized.storage.base.PageStore`.

    url: ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS, ``unix://`` for a socket.
    prefix: what all names on the server begin with.
    seconds: how long a call may take, whatever it does; but for a clear, which may take ``clear_seconds``.
    rest: how many seconds an unreachable server is left alone.
    expire: after how many seconds a page is forgotten that nobody has put again; never, if ``None``.
    largest: a page of more bytes is neither stored nor read.

    Raises ``ValueError`` for a url that isn't understood or a prefix that is no Unicode, and ``ConnectionError`` when
    the server can't be used now.
    """

    def __init__(
        self,
        url: str,
        identity: Identity | None = None,
        *,
        prefix: str = "kvlitmus",
        seconds: float = 5.0,
        rest: float = 1.0,
        expire: int | None = None,
        batch_bytes: int = 32 << 20,
        largest: int = LARGEST,
        clear_seconds: float = 300.0,
    ) -> None:
        self.identity = identity or Identity()
        self.seconds = seconds
        self.rest = rest
        self.expire = expire
        self.batch_bytes = batch_bytes
        self.largest = largest
        self.clear_seconds = clear_seconds
        self.home = f"{prefix}:{self.identity.digest.hex()[:32]}:"
        try:
            self._home = self.home.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"a prefix must be text that UTF-8 can spell (got {prefix!r})") from error
        self._counts: Counter[str] = Counter()
        self._turn = threading.Lock()
        self._resting = float("-inf")
        self._limits = Limits()
        # One more attempt, for a connection that the server has closed while it was idle; a late answer gets none.
        retry = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
        self.client: Any = redis.Redis.from_url(
            url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=retry, protocol=2
        )
        pool = self.client.connection_pool
        if pool.connection_kwargs.get("decode_responses"):
            raise ValueError("pages are bytes: a url with decode_responses can't be used")
        pool.connection_class = _limited(pool.connection_class, self._limits, seconds)
        try:
            with self._limits.within(seconds):
                self._limits.allow(GREETING_BYTES)
                self.client.ping()
        except Exception as error:
            self.close()
            raise ConnectionError(f"the page store's server can't be used: {_harmless(error)}") from error

    # -- the port ------------------------------------------------------------------------------

    def exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there.  Header and length are looked at, the page's bytes are not."""
        known = list(takewhile(lambda key: name_of(self.identity, key) is not None, keys))
        with self._limits.within(self.seconds):
            for start in range(0, len(known), QUESTIONS):
                for at, length in enumerate(self._lengths(known[start : start + QUESTIONS]), start):
                    if length < 0:
                        return at
        return len(known)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """The bytes of each page; ``None`` where there is none, or none that is whole (and of this size)."""
        with self._limits.within(self.seconds):
            return list(map(_taken, self._pages(keys, None if size is None else [size] * len(keys))))

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """Fill one buffer per key; a buffer is touched only when its page has been found whole."""
        targets = as_bytes(keys, buffers, "buffers")
        filled = []
        with self._limits.within(self.seconds):
            for target, page in zip(targets, self._pages(keys, [len(target) for target in targets]), strict=True):
                if page is not None:
                    target[:] = page
                filled.append(page is not None)
        return filled

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """Store one page per key; ``False`` where the server refused it, or didn't say that it has it."""
        pages = as_bytes(keys, values, "pages")
        stored: list[bool] = []
        with self._limits.within(self.seconds):
            for start, end in self._batches([len(page) for page in pages]):
                stored += self._store(keys[start:end], pages[start:end])
        return stored

    def clear(self) -> None:
        """Remove all pages of this identity, and nothing else that is on the server; as many as time allows."""
        pattern = "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in self.home) + "?" * 64
        with self._limits.within(self.clear_seconds):
            self._asked(lambda: self._remove(pattern), 0)

    # -- looking at it -------------------------------------------------------------------------

    def counts(self) -> Mapping[str, int]:
        """What happened so far to pages: ``hit``, ``miss``, ``damaged``, ``stored``, ``refused`` or ``failed``.

        ``unreachable`` counts the batches that the server didn't answer, or wasn't asked because it had not before.
        """
        with self._turn:
            return dict(self._counts)

    def place_of(self, key: str) -> str | None:
        """The name on the server; ``None`` for a key that is refused."""
        name = name_of(self.identity, key)
        return None if name is None else self.home + name

    def close(self) -> None:
        """Hang up; a further call connects again."""
        self.client.close()

    # -- batches -------------------------------------------------------------------------------

    def _batches(self, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Where to cut a batch: bounds of runs of at most about ``batch_bytes``."""
        start = total = 0
        for at, size in enumerate(sizes):
            cost = HEAD.size + KEY_BYTES + max(0, size)
            if at > start and (total + cost > self.batch_bytes or at - start >= QUESTIONS):
                yield start, at
                start, total = at, 0
            total += cost
        if start < len(sizes):
            yield start, len(sizes)

    def _asked(self, question: Callable[[], Any], count: int, amount: int = 0) -> list[Any]:
        """So many answers of the server, ``None`` where there is none, or where it is left alone.

        ``amount``: how many bytes the pages in it can have.  Whatever the client library makes of a foreign answer, an
        exception of any kind, costs these answers and the connection.
        """
        nothing: list[Any] = [None] * count
        if time.monotonic() < self._resting:
            self._count("unreachable")
            return nothing
        self._limits.allow(amount + count * ANSWER_BYTES + GREETING_BYTES)
        try:
            answers = question()
        except UNREACHABLE:
            self._resting = time.monotonic() + self.rest
            self._count("unreachable")
            return nothing
        except Exception:  # noqa: BLE001 - see above
            self.client.connection_pool.disconnect(inuse_connections=False)
            return nothing
        return answers if isinstance(answers, list) and len(answers) == count else nothing

    def _piped(self, commands: Sequence[tuple[Any, ...]], amount: int = 0) -> list[Any]:
        """The answers to some commands, each a method of the client and its arguments, sent in one go."""

        def question() -> Any:
            with self.client.pipeline(transaction=False) as line:
                for method, *words in commands:
                    getattr(line, method)(*words)
                return line.execute(raise_on_error=False)

        return self._asked(question, len(commands), amount) if commands else []

    def _lengths(self, keys: Sequence[str]) -> list[int]:
        """The length of the page of each key by header and record, ``MISSING`` or ``ODD`` where it can't be there."""
        heads = list(map(head_length, keys))
        places = list(map(self.place_of, keys))
        commands: list[tuple[Any, ...]] = []
        for place, head in zip(places, heads, strict=True):
            commands += [("getrange", place, 0, head - 1), ("strlen", place)]
        answers = self._piped(commands, sum(heads))
        lengths = []
        for key, length, head, total in zip(keys, heads, answers[::2], answers[1::2], strict=True):
            if not isinstance(head, bytes) or type(total) is not int or not total:
                lengths.append(MISSING)
                continue
            page_length = promised(self.identity, key, head)
            fits = page_length is not None and page_length == total - length <= self.largest
            lengths.append(total - length if fits else ODD)
        return lengths

    def _pages(self, keys: Sequence[str], sizes: Sequence[int] | None) -> Iterator[memoryview | None]:
        """The page of each key, if it is whole and of this size; without sizes, of the one that the header promises."""
        known = [at for at, key in enumerate(keys) if name_of(self.identity, key) is not None]
        wanted = dict(zip(known, [MISSING] * len(known) if sizes is None else [sizes[at] for at in known], strict=True))
        for start in range(0, len(known) if sizes is None else 0, QUESTIONS):
            some = known[start : start + QUESTIONS]
            wanted.update(zip(some, self._lengths([keys[at] for at in some]), strict=True))
        for start, end in self._batches([wanted.get(at, MISSING) for at in range(len(keys))]):
            asked = [at for at in range(start, end) if 0 <= wanted.get(at, MISSING) <= self.largest]
            ends = [head_length(keys[at]) + wanted[at] for at in asked]
            commands = [("getrange", self.place_of(keys[at]), 0, last) for at, last in zip(asked, ends, strict=True)]
            records = dict(zip(asked, self._piped(commands, sum(ends)), strict=True))
            for at in range(start, end):
                yield self._opened(keys[at], records.get(at), wanted.get(at, MISSING))

    def _opened(self, key: str, record: Any, size: int) -> memoryview | None:
        """The page in an answer, if it is whole and of this size; what it was is counted."""
        page, what = None, "damaged" if size == ODD else "miss"
        if isinstance(record, bytes) and record:
            length = promised(self.identity, key, record[: head_length(key)])
            if length is None or length == size:
                page = page_in(self.identity, key, record)
                what = "damaged" if page is None else "hit"
        self._count(what)
        return page

    def _store(self, keys: Sequence[str], pages: Sequence[memoryview]) -> list[bool]:
        taken = [len(page) <= self.largest for page in pages]
        places = [self.place_of(key) if fits else None for key, fits in zip(keys, taken, strict=True)]
        commands = [
            ("set", place, b"".join((head_of(self.identity, key, page), page)), self.expire)
            for key, page, place in zip(keys, pages, places, strict=True)
            if place is not None
        ]
        answers = iter(self._piped(commands))
        stored = []
        for place in places:
            done = place is not None and next(answers, None) is True
            self._count("stored" if done else "failed" if place is not None else "refused")
            stored.append(done)
        return stored

    def _remove(self, pattern: str) -> list[Any]:
        """Remove what has such a name: round by round, until the server has named everything."""
        cursor = 0
        while True:
            self._limits.allow(SCAN_BYTES)
            cursor, names = self.client.scan(cursor, match=pattern, count=1000)
            mine = [name for name in names if isinstance(name, bytes) and self._named(name)]
            if mine:
                self.client.unlink(*mine)
            if cursor == 0:
                return []

    def _named(self, name: bytes) -> bool:
        """Whether it is a name that this store could have given."""
        return name.startswith(self._home) and len(name) == len(self._home) + 64

    def _count(self, what: str) -> None:
        with self._turn:
            self._counts[what] += 1


def _taken(page: memoryview | None) -> bytes | None:
    """A page as bytes of its own; none where there is no memory for it."""
    try:
        return None if page is None else bytes(page)
    except MemoryError:
        return None


def _harmless(error: Exception) -> str:
    """What a server or the system says, as one line that no terminal obeys."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(error)[:200])


def _limited(kind: Any, limits: Limits, seconds: float) -> Any:
    """A kind of connection that keeps the limits of the call that makes or uses it."""

    class Limited(kind):  # type: ignore[misc]  # which kind it is, the url says
        """See :mod:`~kvlitmus.optimized.storage.limits`."""

        @property
        def socket_connect_timeout(self) -> float | None:
            """How long to wait for one of the server's addresses: asked for before each."""
            return limits.wait(seconds)

        @socket_connect_timeout.setter
        def socket_connect_timeout(self, _: float | None) -> None:
            """It is the call's to say."""

        def _connect(self) -> LimitedSocket:
            # What happens in there, such as the greetings of TLS, waits by the connection's own limit.
            mine: Any = self
            whole, mine.socket_timeout = mine.socket_timeout, limits.wait(seconds)
            try:
                made = super()._connect()
                made.settimeout(whole)
                return LimitedSocket(made, limits)
            finally:
                mine.socket_timeout = whole

    return Limited
