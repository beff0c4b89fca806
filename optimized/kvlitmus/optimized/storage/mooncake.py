"""Pages in a Mooncake Store: in the memory of several processes, which a master knows, read by address.

Needs Mooncake's client (the extra ``mooncake``).  A process that is a
:class:`~kvlitmus.optimized.storage.mooncake_client.Member` of a store may give memory to it, and reads and writes what
all have given.  How it stays right, whatever happens:

* **Checked.**  A page is sealed (:mod:`~kvlitmus.optimized.storage.sealed`) and every code is looked at: a page that is
  short, changed, evicted, still being written, or in the place of another is a miss.  A put looks whether its page
  is there, for the client says *done* of one that somebody else has only begun to write.  One that is there and not
  whole is replaced.
* **In registered memory.**  Pages come into rows that are registered once, in lanes of ``batch`` rows, in one call of
  the client for each batch.  Who takes pages as they arrive (:meth:`MooncakeStore.arriving`) reads them there.
* **Never again.**  A transfer that has failed, or didn't end in time, may still write later.  So the rows of its lane
  are not used again; when :data:`SPOILED` lanes have gone so, the store connects anew, and gives their memory back when
  the old client has closed.
* **Bounded.**  No call takes longer than ``seconds`` (a clear: ``clear_seconds``), whatever the client waits for.
  Then, and when the master doesn't answer, calls miss at once for ``rest`` seconds.
* **Within the lease.**  The master keeps what a get has found for as long as its lease (``default_kv_lease_ttl``), no
  longer.  ``seconds`` is shorter, so what took longer than a lease is a miss.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from operator import index
from re import fullmatch

import numpy as np

from kvlitmus.optimized.storage.base import Buffer, Identity, as_bytes
from kvlitmus.optimized.storage.mooncake_client import LINE, Client, Connection, Lane, end_all, within
from kvlitmus.optimized.storage.record import name_of
from kvlitmus.optimized.storage.sealed import (
    DAMAGED,
    NAME_WORDS,
    WORD,
    Lengths,
    Words,
    keys_of,
    opened,
    prepare,
    seal,
    sealed_bytes,
    words_of,
)

MISSING, FAILED = -1, -3
"""In the place of a page's length: there is nothing that could be read; nobody can say."""

TOO_LARGE, NO_MASTER = -600, -900
"""Codes of the client: the object is larger than a row; the master doesn't answer."""

MEANT = {0: DAMAGED, TOO_LARGE: DAMAGED, -703: MISSING, -704: MISSING, -707: MISSING}
"""What codes of a get mean besides: being written, not there, lease over."""

NOT_BEGUN = frozenset({-200, NO_MASTER, *MEANT})
"""Codes after which nothing is under way; -200: no room."""

NOT_TOLD = -(1 << 31)
"""In the place of codes: there was no answer."""

SPOILED = 8
"""After so many lanes that can't be used again, the store connects anew."""


class MooncakeStore:
    """A page store over Mooncake's; see :class:`~kvlitmus.optimized.storage.base.PageStore`.

    connect: gives a client of this store's own, a :class:`Member` as a rule.
    page_bytes: a page of more bytes is neither stored nor read.
    prefix: what all names begin with.
    seconds: how long a call may take; lease: how long the master keeps what was found, at least.
    rest: how many seconds a store that doesn't answer is left alone.
    batch: how many pages one call of the client reads or writes.
    lanes: how many such calls there may be at once.

    Raises ``ValueError`` for numbers and prefixes that can't be, ``ConnectionError`` when the store can't be used now,
    and ``ImportError`` as :class:`Member` does.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        identity: Identity | None = None,
        *,
        page_bytes: int,
        prefix: str = "kvlitmus",
        seconds: float = 5.0,
        lease: float = 10.0,
        rest: float = 1.0,
        batch: int = 128,
        lanes: int = 4,
        clear_seconds: float = 300.0,
    ) -> None:
        if not 0 < seconds < lease:
            raise ValueError(f"seconds must be fewer than the lease has (got {seconds} and {lease})")
        if min(page_bytes, batch - 1, lanes - 1) < 0:
            raise ValueError(f"there must be a page, a batch and a lane (got {page_bytes}, {batch} and {lanes})")
        if not fullmatch("[A-Za-z0-9_:.-]*", prefix):
            raise ValueError(f"a prefix has letters, digits and any of _:.- (got {prefix!r})")
        self.identity = identity or Identity()
        self.page_bytes = page_bytes
        self.seconds = seconds
        self.rest = rest
        self.batch = batch
        self.lanes = lanes
        self.clear_seconds = clear_seconds
        self.home = f"{prefix}:{self.identity.digest.hex()[:32]}:"
        self._keys = keys_of(self.identity, words_of(page_bytes))
        self._stride = -(-sealed_bytes(page_bytes) // LINE) * LINE
        prepare()
        self._connect = connect
        self._counts: Counter[str] = Counter()
        self._change = threading.Condition()
        self._resting = float("-inf")
        self._joining = threading.Lock()
        self._joined: list[Connection] = []
        weakref.finalize(self, end_all, self._joined, seconds)
        try:
            self._connection(time.monotonic() + seconds)
        except (ImportError, ConnectionError):
            raise
        except Exception as error:
            raise ConnectionError(f"the Mooncake Store can't be used: {error}") from error

    # -- the port ------------------------------------------------------------------------------

    def exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there; the page's bytes are not looked at."""
        until = time.monotonic() + self.seconds
        places = list(takewhile(lambda place: place is not None, map(self.place_of, keys)))
        for start in range(0, len(places), self.batch):
            some = [place for place in places[start : start + self.batch] if place is not None]
            found = [*self._there(some, until), False].index(False)
            if found < len(some):
                return start + found
        return len(places)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """The bytes of each page; ``None`` where there is none, or none that is whole (and of this size)."""
        found: list[bytes | None] = [None] * len(keys)
        for at, page in self.arriving(keys):
            if size is None or len(page) == size:
                with suppress(MemoryError):
                    found[at] = bytes(page)
        return found

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """Fill one buffer per key; a buffer is touched only when its page has been found whole."""
        targets = as_bytes(keys, buffers, "buffers")
        filled = [False] * len(keys)
        for at, page in self.arriving(keys):
            if len(page) == len(targets[at]):
                targets[at][:] = page
                filled[at] = True
        return filled

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """Store one page per key; ``False`` where that failed, or where nobody can say.

        A page that is there and whole stays; one that is damaged is replaced.
        """
        pages = as_bytes(keys, values, "pages")
        asked = {
            name: places for name, places in self._positions(keys).items() if len(pages[places[0]]) <= self.page_bytes
        }
        stored = [False] * len(keys)
        names = list(asked)
        self._count("refused", len(keys) - sum(map(len, asked.values())))
        until = time.monotonic() + self.seconds
        for start in range(0, len(names), self.batch):
            some = names[start : start + self.batch]
            done = [False] * len(some)
            with self._lane(until) as lane:
                if lane is not None:
                    done = self._store(lane, [(name, pages[asked[name][0]]) for name in some], until)
            self._count("failed", done.count(False))
            for name, there in zip(some, done, strict=True):
                for at in asked[name]:
                    stored[at] = there
        return stored

    def clear(self) -> None:
        """Remove all pages of this identity, and nothing else; not those that somebody is just writing."""
        pattern = f"^{self.home.replace('.', '[.]')}[0-9a-f]{{64}}$"
        until = time.monotonic() + self.clear_seconds
        self._asked(until, lambda client: [client.remove_by_regex(pattern, True)], None)

    # -- more than the port --------------------------------------------------------------------

    def arriving(self, keys: Sequence[str]) -> Iterator[tuple[int, memoryview]]:
        """The position of each page that is found, and the page where it has arrived: good until the next step."""
        until = time.monotonic() + self.seconds
        asked = self._positions(keys)
        self._count("miss", len(keys) - sum(map(len, asked.values())))
        names = list(asked)
        for start in range(0, len(names), self.batch):
            some = names[start : start + self.batch]
            with self._lane(until) as lane:
                lengths = self._fetched(lane, some, until)
                hits = np.flatnonzero(lengths >= 0).tolist()
                damaged = int((lengths == DAMAGED).sum())
                for what, times in (
                    ("hit", len(hits)),
                    ("damaged", damaged),
                    ("miss", len(some) - len(hits) - damaged),
                ):
                    self._count(what, times)
                for row in hits:
                    assert lane is not None
                    for at in asked[some[row]]:
                        yield at, lane.page(row, int(lengths[row]))

    def counts(self) -> Mapping[str, int]:
        """What happened so far to pages: ``hit``, ``miss``, ``damaged``, ``stored``, ``kept``, ``refused``, ``failed``.

        ``unreachable`` counts the calls of the client that had no answer, or were not made because one before had none.
        """
        with self._change:
            return dict(self._counts)

    def place_of(self, key: str) -> str | None:
        """The name in the store; ``None`` for a key that is refused."""
        name = name_of(self.identity, key)
        return None if name is None else self.home + name

    def close(self) -> None:
        """Leave; a further call joins again."""
        with self._joining:
            joined, self._joined[:] = list(self._joined), []
        end_all(joined, self.seconds)

    def _positions(self, keys: Sequence[str]) -> dict[str, list[int]]:
        """What stands for each key that isn't refused, once, and where it was asked for.

        The client answers for a name that comes twice in a batch as if both were read, and fills one buffer.
        """
        found: dict[str, list[int]] = {}
        for at, key in enumerate(keys):
            if (name := name_of(self.identity, key)) is not None:
                found.setdefault(name, []).append(at)
        return found

    # -- one batch -----------------------------------------------------------------------------

    def _fetched(self, lane: Lane | None, names: list[str], until: float) -> Lengths:
        """Read pages into the first rows: the length of each that is whole, else a negative number."""
        lengths = np.full(len(names), FAILED, np.int64)
        if lane is None or not names:
            return lengths
        places, sizes = [self.home + name for name in names], [self._stride] * len(names)
        rows = lane.addresses[: len(names)]
        for at, code in enumerate(
            self._asked(until, lambda client: client.batch_get_into(places, rows, sizes), lane)[: len(names)]
        ):
            lengths[at] = code if code > 0 else MEANT.get(code, FAILED)
        opened(lane.words, self._keys, _digests(names), lengths)
        return lengths

    def _store(self, lane: Lane, pages: Sequence[tuple[str, memoryview]], until: float) -> list[bool]:
        """Store as many pages as the lane has rows at most; whether each is there now."""
        names = [name for name, _ in pages]
        places = [self.home + name for name in names]
        stored = [False] * len(pages)
        there = self._there(places, until)
        known = [at for at, found in enumerate(there) if found]
        found = dict(zip(known, self._fetched(lane, [names[at] for at in known], until).tolist(), strict=True))
        broken = [places[at] for at, length in found.items() if length == DAMAGED]
        if broken:
            self._asked(until, lambda client: client.batch_remove(broken, True), None)
        for at in known:
            stored[at] = found[at] >= 0
        self._count("kept", sum(stored))
        new = [at for at in range(len(pages)) if found.get(at, MISSING) in (MISSING, DAMAGED)]
        if not new or lane.spoiled:
            return stored
        self._write(lane, [pages[at] for at in new])
        rows, sizes = lane.addresses[: len(new)], [sealed_bytes(len(pages[at][1])) for at in new]
        named = [places[at] for at in new]
        codes = self._asked(until, lambda client: client.batch_put_from(named, rows, sizes), lane)
        taken = [at for at, code in zip(new, codes, strict=False) if code == 0]
        for at, whole in zip(taken, self._there([places[at] for at in taken], until), strict=True):
            stored[at] = whole
        self._count("stored", sum(stored[at] for at in taken))
        return stored

    def _write(self, lane: Lane, pages: Sequence[tuple[str, memoryview]]) -> None:
        """Copy pages into the first rows, and seal them."""
        for row, (_, page) in enumerate(pages):
            lane.bytes[row, : len(page)] = page
            lane.bytes[row, len(page) : words_of(len(page)) * WORD] = 0
        lengths = np.array([len(page) for _, page in pages], np.int64)
        seal(lane.words, self._keys, _digests([name for name, _ in pages]), lengths)

    def _there(self, places: list[str], until: float) -> list[bool]:
        """Whether each can be read."""
        codes = self._asked(until, lambda client: client.batch_is_exist(places), None) if places else []
        return [code == 1 for code in codes] if len(codes) == len(places) else [False] * len(places)

    # -- the client ----------------------------------------------------------------------------

    def _asked(self, until: float, question: Callable[[Client], list[int]], lane: Lane | None) -> list[int]:
        """The client's codes, none where there is no answer; a lane that may still be written to is spoiled."""
        if time.monotonic() < self._resting:
            self._count("unreachable")
            return []
        try:
            connection = lane.connection if lane is not None else self._connection(until)
            codes = list(map(index, connection.ask(lambda: question(connection.client), until - time.monotonic())))
        except Exception:  # noqa: BLE001 - whatever the client raises, there is no answer
            codes = [NOT_TOLD]
        if {NOT_TOLD, NO_MASTER} & set(codes):
            self._resting = time.monotonic() + self.rest
            self._count("unreachable")
        if lane is not None:
            lane.spoiled |= any(code < 0 and code not in NOT_BEGUN for code in codes)
        return codes if codes != [NOT_TOLD] else []

    def _connection(self, until: float) -> Connection:
        """The client that is joined; joins where none is.  Raises ``ConnectionError`` while it is left alone."""
        if time.monotonic() < self._resting:
            raise ConnectionError("the store didn't answer a moment ago")
        if not self._joining.acquire(timeout=max(0.0, until - time.monotonic())):
            raise TimeoutError("another thread is still joining")
        try:
            if self._joined and self._joined[-1].spoiled < SPOILED:
                return self._joined[-1]
            old, self._joined[:] = list(self._joined), []
            end_all(old, 0.0)
            made = Connection(within(self._connect, until - time.monotonic()))
            self._joined.append(made)
            return made
        except Exception:
            self._resting = time.monotonic() + self.rest
            raise
        finally:
            self._joining.release()

    @contextmanager
    def _lane(self, until: float) -> Iterator[Lane | None]:
        """A lane for one batch; none where there is none in time, or no client."""
        try:
            connection = self._connection(until)
            lane = self._free(connection, until)
        except Exception:  # noqa: BLE001 - as above
            self._count("unreachable")
            yield None
            return
        try:
            yield lane
        finally:
            with self._change:
                if not lane.spoiled:
                    connection.free.append(lane)
                self._change.notify()

    def _free(self, connection: Connection, until: float) -> Lane:
        """A lane that nobody uses; raises ``ConnectionError`` where none can be had, ``TimeoutError`` in time."""
        with self._change:
            while not connection.free:
                if len(connection.lanes) - connection.spoiled < self.lanes:
                    lane = Lane(connection, self._stride, self.batch)
                    connection.lanes.append(lane)
                    break
                if not self._change.wait(until - time.monotonic()):
                    raise TimeoutError("all lanes are in use")
            else:
                return connection.free.pop()
        size = self._stride * self.batch
        code = connection.ask(
            lambda: connection.client.register_buffer(lane.addresses[0], size), until - time.monotonic()
        )
        if code:
            lane.spoiled = True
            raise ConnectionError(f"memory can't be registered (code {code})")
        return lane

    def _count(self, what: str, times: int = 1) -> None:
        if times:
            with self._change:
                self._counts[what] += times


def _digests(names: Sequence[str]) -> Words:
    """What stands for keys, as words."""
    return np.frombuffer(bytes.fromhex("".join(names)), np.uint64).reshape(-1, NAME_WORDS)
