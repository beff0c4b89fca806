"""Pages on a server that speaks RESP: Redis, Valkey, or what is compatible with them.

Needs the client library ``redis`` (the extra ``redis``).  How it stays right, whatever happens:

* **Checked.**  A value is a record as in the file store (:mod:`~kvlitmus.optimized.storage.record`): one that is short,
  changed, of another store or under another's name is a miss; the next put replaces it.
* **Contained.**  Names on the server are digests under a prefix and the identity; so no key can name anything else, and
  :meth:`RedisStore.clear` removes what it could have named itself.  Errors concern the pages they are about: a server
  that is full refuses pages, one that can't be reached misses them all, and neither raises.
* **Bounded.**  No call waits longer than ``seconds`` for an answer.  After a failed connection the server is left alone
  for ``rest`` seconds: calls miss at once, so that an unreachable server costs a wait now and then, not one per call.
  Batches are cut, so that no more than about ``batch_bytes`` are under way at once.

Whether pages outlive the server, and what it removes when memory is short, is the server's configuration: for a cache
``maxmemory`` with ``allkeys-lru`` or ``allkeys-lfu`` is apt.  A page that was removed is a miss.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from kvlitmus.optimized.storage.base import Buffer, Identity
from kvlitmus.optimized.storage.record import HEAD, KEY_BYTES, head_fits, head_of, name_of, page_in

ERRORS = (redis.RedisError, OSError)
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError, OSError)

PAGE_GUESS = 1 << 20
"""How many bytes a page is taken to have where nobody said: batches are cut by that."""

QUESTIONS = 512
"""How many keys are asked for at once, at most."""

T = TypeVar("T")


class RedisStore:
    """A page store on a server; see :class:`~kvlitmus.optimized.storage.base.PageStore`.

    url: ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS, ``unix://`` for a socket.  prefix:
    what all names on the server begin with.  seconds: how long an answer may take, and a connection to be made.
    rest: how many seconds an unreachable server is left alone.  expire: after how many seconds a page is forgotten
    that nobody has put again; never, if ``None``.

    Raises ``ValueError`` for a url that isn't understood, and ``ConnectionError`` when the server can't be used now.
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
    ) -> None:
        self.identity = identity or Identity()
        self.rest = rest
        self.expire = expire
        self.batch_bytes = batch_bytes
        self.home = f"{prefix}:{self.identity.digest.hex()[:32]}:"
        self._counts: Counter[str] = Counter()
        self._turn = threading.Lock()
        self._resting = float("-inf")
        # One more attempt, for a connection that the server has closed while it was idle; a late answer gets none.
        retry = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
        self.client: Any = redis.Redis.from_url(
            url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=retry, protocol=2
        )
        if self.client.connection_pool.connection_kwargs.get("decode_responses"):
            raise ValueError("pages are bytes: a url with decode_responses can't be used")
        try:
            self.client.ping()
        except ERRORS as error:
            self.close()
            raise ConnectionError(f"the page store's server can't be used: {error}") from error

    # -- the port ------------------------------------------------------------------------------

    def exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there.  Header and length are looked at, the page's bytes are not."""
        known = list(takewhile(lambda key: name_of(self.identity, key) is not None, keys))
        for start in range(0, len(known), QUESTIONS):
            found = self._complete(known[start : start + QUESTIONS])
            if found < len(known[start : start + QUESTIONS]):
                return start + found
        return len(known)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """The bytes of each page; ``None`` where there is none, or none that is whole (and of this size)."""
        sizes = [size] * len(keys)
        return [None if page is None else bytes(page) for page in self._pages(keys, sizes)]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """Fill one buffer per key; a buffer is touched only when its page has been found whole."""
        if len(keys) != len(buffers):
            raise ValueError(f"as many buffers as keys are needed (got {len(buffers)} and {len(keys)})")
        targets = [memoryview(buffer).cast("B") for buffer in buffers]
        filled = []
        for target, page in zip(targets, self._pages(keys, [len(target) for target in targets]), strict=True):
            if page is not None:
                target[:] = page
            filled.append(page is not None)
        return filled

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """Store one page per key; ``False`` where the server refused it, or didn't say that it has it."""
        if len(keys) != len(values):
            raise ValueError(f"as many pages as keys are needed (got {len(values)} and {len(keys)})")
        pages = [memoryview(value).cast("B") for value in values]
        stored: list[bool] = []
        for start, end in self._batches([len(page) for page in pages]):
            stored += self._store(keys[start:end], pages[start:end])
        return stored

    def clear(self) -> None:
        """Remove all pages of this identity, and nothing else that is on the server."""
        pattern = "".join(f"[{letter}]" if letter in "*?[\\" else letter for letter in self.home) + "?" * 64
        self._asked(lambda: self._remove(pattern))

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

    def _batches(self, sizes: Sequence[int | None]) -> Iterator[tuple[int, int]]:
        """Where to cut a batch: bounds of runs of at most about ``batch_bytes``."""
        start = total = 0
        for at, size in enumerate(sizes):
            cost = HEAD.size + KEY_BYTES + (PAGE_GUESS if size is None else size)
            if at > start and total + cost > self.batch_bytes:
                yield start, at
                start, total = at, 0
            total += cost
        if start < len(sizes):
            yield start, len(sizes)

    def _asked(self, question: Callable[[], T]) -> T | None:
        """The server's answer; ``None`` if there is none, or if the server is left alone."""
        if time.monotonic() < self._resting:
            self._count("unreachable")
            return None
        try:
            return question()
        except ERRORS as error:
            if isinstance(error, UNREACHABLE):
                self._resting = time.monotonic() + self.rest
                self._count("unreachable")
            return None

    def _complete(self, keys: Sequence[str]) -> int:
        """How many leading keys have a record with the right header and of the right length."""
        lengths = [HEAD.size + len(key.encode()) for key in keys]

        def question() -> Any:
            with self.client.pipeline(transaction=False) as line:
                for key, length in zip(keys, lengths, strict=True):
                    line.getrange(self.place_of(key), 0, length - 1)
                    line.strlen(self.place_of(key))
                return line.execute(raise_on_error=False)

        answers = self._asked(question) or []
        for at, (head, total) in enumerate(zip(answers[::2], answers[1::2], strict=True)):
            if not isinstance(head, bytes) or not isinstance(total, int):
                return at
            if not head_fits(self.identity, keys[at], head, total - lengths[at]):
                return at
        return len(answers) // 2

    def _pages(self, keys: Sequence[str], sizes: Sequence[int | None]) -> Iterator[memoryview | None]:
        """The page of each key, if it is whole and of this size."""
        places = [self.place_of(key) for key in keys]
        for start, end in self._batches(sizes):
            known = [place for place in places[start:end] if place is not None]
            records = iter(self._asked(partial(self.client.mget, known)) or [] if known else [])
            for at in range(start, end):
                record = next(records, None) if places[at] is not None else None
                yield self._opened(keys[at], record, sizes[at])

    def _opened(self, key: str, record: bytes | None, size: int | None) -> memoryview | None:
        page = None if record is None else page_in(self.identity, key, record)
        if page is None or (size is not None and len(page) != size):
            self._count("miss" if record is None or page is not None else "damaged")
            return None
        self._count("hit")
        return page

    def _store(self, keys: Sequence[str], pages: Sequence[memoryview]) -> list[bool]:
        places = [self.place_of(key) for key in keys]

        def question() -> Any:
            with self.client.pipeline(transaction=False) as line:
                for key, page, place in zip(keys, pages, places, strict=True):
                    if place is not None:
                        line.set(place, b"".join((head_of(self.identity, key, page), page)), ex=self.expire)
                return line.execute(raise_on_error=False)

        answers = iter(self._asked(question) or [])
        stored = []
        for place in places:
            done = place is not None and next(answers, None) is True
            self._count("stored" if done else "failed" if place is not None else "refused")
            stored.append(done)
        return stored

    def _remove(self, pattern: str) -> None:
        names: list[bytes] = []
        for name in self.client.scan_iter(match=pattern, count=1000):
            names.append(name)
            if len(names) == 1000:
                self.client.unlink(*names)
                names.clear()
        if names:
            self.client.unlink(*names)

    def _count(self, what: str) -> None:
        with self._turn:
            self._counts[what] += 1
