"""One direction of transfers on CUDA, free-running: submitted in some microseconds, whatever the number of pages.

A submission is a few calls of the driver on a stream of its own: wait for the caller's current stream, copy the page
tables from a ring of pinned memory, start **one** kernel for all pages and layers, record an event.  The calling thread
never waits for the device, unless the ring is full of tables that are still in use.

Layers are announced by flags in pinned memory (:mod:`kvlitmus.optimized.data.flags`), which the kernel itself writes:
compared with a kernel and an event per layer, the time to submit doesn't grow with the layers, and nothing is lost
between two kernels.

The copy engine takes a descriptor per chunk, which costs the submitting thread 1 to 3 us each; many of them are
handed to a thread, where the driver works without the interpreter's lock.  Its layers are announced by the stream, one
flag after each batch; in a load of few pages a batch has several layers, for it costs its submitter as much as some
descriptors.
"""

from __future__ import annotations

import collections
import threading
import time
import weakref
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.flags import FlagRow, LayerFlags, on_device, pinned
from kvlitmus.optimized.data.tables import Tables
from kvlitmus.optimized.data.threads import Worker
from kvlitmus.optimized.jit import jitted
from kvlitmus.optimized.mover import PageArray

_SLOTS = 256
"""Tickets of a lane that may be under way at once; one more waits for the oldest."""

_SHORT = 2_048
"""Pages up to which one compiled call is faster than four of numpy, on whatever processor."""

_KEPT = 32
"""Tickets up to which nobody looks whether the oldest are over."""

_ENTRIES = 1 << 18
"""Page numbers that the ring of tables holds at first: 128 Ki pages under way, 1 MiB."""

_PAUSE = 0.0002
"""How long somebody who waits for a copy, but not for ever, looks away, in seconds."""

_FEW = 32
"""Descriptors of the copy engine up to which the caller submits them itself."""

_SMALL = 1 << 20
"""Bytes of a load up to which a kernel copies all layers at once.

Its programs wait for each other at the end of each layer, and the link is idle meanwhile; so small a load is there in
some 20 us, no later than its first layers would be.  Declared; ``benchmarks/gpu.py`` measures loads both ways.
"""


class LaneTicket:
    """A copy on a lane's stream.

    together: layers that become ready at once.
    """

    __slots__ = ("_ended", "_event", "_flags", "_lane", "_passed", "_progress", "error", "layers", "together")

    def __init__(self, lane: Lane, *, submitted: bool, together: int) -> None:
        self._lane = lane
        self._event = torch.cuda.Event()
        self._progress = None if submitted else threading.Condition()
        """Told by the thread that submits it whenever it has come further."""
        self._passed = 0
        self._ended = submitted
        self._flags: FlagRow | None = None
        self.together = together
        self.error: BaseException | None = None
        self.layers = lane.layers

    def announce(self, flags: FlagRow) -> None:
        """Its layers are announced by these flags."""
        self._flags = flags

    def pass_layers(self, layers: int, stream: int) -> None:
        """The first so many layers are submitted: their flag is the next operation of the stream."""
        if self._flags is not None:
            driver.write_value(stream, self._flags.at(layers - 1), self._flags.epoch)
        if self._progress is not None:
            with self._progress:
                self._passed = layers
                self._progress.notify_all()

    def record(self, error: BaseException | None = None) -> None:
        """Everything is submitted (or failed to be): the end of the copy is the next event of the stream.

        Whatever goes wrong with that, too, whoever waits is told, and doesn't wait for ever; nor does a stream.
        """
        self.error = error
        try:
            self._event.record(self._lane.stream)
        except Exception as broken:  # noqa: BLE001  kept for whoever waits
            self.error = error or broken
        finally:
            if self.error is not None and self._flags is not None:
                self._flags.set()
            if self._progress is not None:
                with self._progress:
                    self._ended = True
                    self._progress.notify_all()

    @property
    def pending(self) -> bool:
        """Whether a thread has still to submit it."""
        return not self._ended

    def _until_submitted(self, layers: int | None = None) -> None:
        """Block until the first so many layers are submitted, all of it by default, or nothing more will be."""
        if self._progress is not None:
            with self._progress:
                self._progress.wait_for(lambda: self._ended or (layers is not None and self._passed >= layers))

    def over(self) -> bool:
        """Whether the copy is over, however it ended."""
        return not self.pending and bool(self._event.query())

    def forget(self) -> None:
        """Block until the copy is over, however it ended."""
        self._until_submitted()
        self._event.synchronize()

    def _told(self) -> None:
        """Raise what went wrong with submitting it."""
        if self.error is not None:
            raise RuntimeError("a copy could not be submitted") from self.error

    def advance(self, layers: int | None = None) -> None:
        """Nothing: the device goes on by itself."""

    def layers_ready(self) -> int:
        """How many layers are copied."""
        if self.done():
            return self.layers
        return self._flags.ready() if self._flags is not None else 0

    def wait_layer(self, layer: int) -> None:
        """Let the caller's current stream wait for a layer; the call returns as soon as that layer is submitted.

        It doesn't wait for the copy itself.  What a thread has still to submit it does wait for: were a stream to wait
        for that, the caller's next call that waits for its stream inside of the driver (an allocation, the loading of
        a module) would keep the thread out of the driver, and neither would ever go on.

        Raises ``RuntimeError`` if the copy is known to have failed.  The rest of it may fail after this call: the
        stream goes on then, and :meth:`done` raises; what was computed meanwhile is void.  Where streams know no
        values, the call blocks until all of the copy is submitted, and all layers are waited for.
        """
        if not 0 <= layer < self.layers:
            raise IndexError(f"layer must be from 0 to {self.layers - 1} (got {layer})")
        stream = torch.cuda.current_stream(self._lane.device)
        last = min(self.layers, (layer // self.together + 1) * self.together) - 1
        flags = self._flags if self._lane.flags_in_streams else None
        self._until_submitted(None if flags is None else last + 1)
        self._told()
        if flags is None or (last == self.layers - 1 and not self.pending):
            stream.wait_event(self._event)
        elif self.pending or not self._event.query():
            self._lane.bind()
            driver.wait_value(stream.cuda_stream, flags.at(last), flags.epoch)

    def done(self) -> bool:
        """Whether the copy is over; never blocks.  Raises ``RuntimeError`` if not all of it could be submitted."""
        if not self.over():
            return False
        self._told()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the copy is over, at most so many seconds; whether it is.

        Raises ``RuntimeError`` if not all of it could be submitted: when the part that could is over.
        """
        if timeout is None:
            self.forget()
        else:
            until = time.monotonic() + timeout
            while not self.over():
                if time.monotonic() >= until:
                    return False
                time.sleep(_PAUSE)
        self._told()
        return True

    def cancel(self) -> None:
        """Nothing: what a device was given it does; the pages belong to the copy until it is :meth:`done`."""


Upload: TypeAlias = tuple[int, int, int]
"""Page tables to be copied to the device: where to, where from, how many bytes."""


class _Held(NamedTuple):
    """What a ticket under way keeps of the ring: from a position on that only ever grows."""

    number: int
    start: int
    ticket: LaneTicket


class Lane:
    """Copies in one direction, in the order in which they are submitted; one thread submits."""

    def __init__(self, copy: PageCopy, name: str) -> None:
        self.copy = copy
        self.name = name
        self.device = copy.device
        self.layers = copy.source.shape.layers
        # The few programs of a copy start as soon as an SM has room for them, before waiting blocks of a computation.
        self.stream: Any = torch.cuda.Stream(self.device, priority=-1)
        self._index: int = self.device.index or 0
        self._raw: int = self.stream.cuda_stream
        self._context = driver.context_of(self._index)
        self._produced = torch.cuda.Event()
        self._number = 0
        self._held: collections.deque[_Held] = collections.deque()
        self._worker: Worker | None = None
        self._last: LaneTicket | None = None
        # What copies under way use; it outlives a lane that nobody has closed.
        self._used: dict[str, Any] = {"copy": copy, "stream": self.stream, "over": torch.cuda.Event()}
        self._leave = weakref.finalize(self, leave, self._used)
        self._leave.atexit = False
        self._ring(_ENTRIES)
        self.small = _SMALL
        """Bytes of a load up to which a kernel copies all layers at once."""
        self._saying = copy.engine == "kernel" and copy.by_layer
        with torch.cuda.device(self.device):
            self.bind()
            self._flags = self._used["flags"] = LayerFlags(_SLOTS, self.layers, self.device, counters=self._saying)
            self._flags.probe(self._raw)
            copy.prepare()
            if copy.engine == "kernel":
                kernel = copy.signalling if self._saying else copy.kernel
                self._start = kernel.bind(copy.source.address, copy.target.address)
                self._start_small = copy.at_once.bind(copy.source.address, copy.target.address)
        nothing = np.zeros(1, np.int32)
        fill_table(self._host, 0, nothing, nothing, 1, 1)
        torch.cuda.current_stream(self.device).synchronize()
        self.stream.synchronize()

    def bind(self) -> None:
        """Make the device's context current on this thread, whose first call may be one of the driver."""
        self._context.bind()

    @property
    def flags_in_streams(self) -> bool:
        """Whether streams can wait for flags."""
        return self._flags.in_streams

    def submit(self, source_pages: PageArray, target_pages: PageArray) -> LaneTicket:
        """Submit a copy of these pages, after what the caller's current stream has to do so far.

        Raises ``ValueError`` when there are not as many targets as sources, ``IndexError`` for a page that is not
        there.
        """
        count = len(source_pages)
        if len(target_pages) != count:
            raise ValueError(f"{count} pages can't be copied to {len(target_pages)}", count, len(target_pages))
        if torch.cuda.current_device() != self._index:
            with torch.cuda.device(self.device):
                return self._submit(source_pages, target_pages, count)
        return self._submit(source_pages, target_pages, count)

    def close(self) -> None:
        """Return when everything submitted is copied."""
        if self._worker is not None:
            self._worker.close()
        self.stream.synchronize()
        self._leave.detach()

    def _submit(self, source_pages: PageArray, target_pages: PageArray, count: int) -> LaneTicket:
        self.bind()
        if not self.copy.on_device or not count:
            tables = self.copy.tables(source_pages, target_pages)
            return self._hand_over(tables, self._position, None, many=count * self.copy.loops.chunks > _FEW)
        start = self._room(2 * count)
        at = start % self._entries
        middle, end = at + count, at + 2 * count
        self._write(at, source_pages, target_pages)
        where = self._device_address + 4 * at
        upload = (where, self._host_address + 4 * at, 8 * count)
        if self.copy.staged is None and count <= self.copy.kernel.most:
            self._begin(self._caller(self._produced), upload)
            return self._launch(where, count, start)
        addresses = (where, where + 4 * count)
        tables = Tables(self._host[at:middle], self._host[middle:end], addresses)
        many = self.copy.staged is not None and self.copy.staged.pieces(count) > 1
        return self._hand_over(tables, start, upload, many=many)

    def _write(self, at: int, source_pages: PageArray, target_pages: PageArray) -> None:
        """Put both tables into the ring.  Raises ``IndexError`` for a page that is not there."""
        count = len(source_pages)
        limits = (self.copy.source.pages, self.copy.target.pages)
        given = [_narrow(pages, limit) for pages, limit in zip((source_pages, target_pages), limits, strict=True)]
        if count <= _SHORT:
            wrong = fill_table(self._host, at, given[0], given[1], *limits)
        else:
            self._host[at : at + count], self._host[at + count : at + 2 * count] = given
            # As unsigned numbers, negative ones are too large.
            bad = [int(pages.view(np.uint32).max()) >= limit for pages, limit in zip(given, limits, strict=True)]
            wrong = fill_table(self._host, at, given[0], given[1], *limits) if any(bad) else -1
        if wrong >= 0:
            limit = limits[wrong >= count]
            raise IndexError(f"pages must be from 0 to {limit - 1} (got {self._host[at + wrong]})")

    def _caller(self, event: Any) -> Any:
        """An event for what the caller's stream has to do so far."""
        event.record(torch.cuda.current_stream(self._index))
        return event

    def _begin(self, produced: Any, upload: Upload | None) -> None:
        """What comes next on the lane's stream comes after ``produced``, and finds its page tables on the device.

        Only when it is this copy's turn: what a thread has still to submit comes before it on the lane's stream.
        """
        self.stream.wait_event(produced)
        if upload is not None:
            driver.copy_async(*upload, self._raw)

    def _launch(self, where: int, count: int, start: int) -> LaneTicket:
        """One kernel for all: layer by layer, unless that takes longer than all of it."""
        if not self._saying or count * self.copy.source.shape.page_bytes <= self.small:
            ticket = self._ticket(start, submitted=True)
            small = self._start_small if self._saying else self._start
            small(where, where + 4 * count, count, self._raw)
        else:
            ticket = self._ticket(start, submitted=True, together=1)
            flags = self._flags.row(self._number)
            ticket.announce(flags)
            self._start(where, where + 4 * count, count, self._raw, self._flags.counters, flags.address, flags.epoch)
        ticket.record()
        return ticket

    def _hand_over(self, tables: Tables, start: int, upload: Upload | None, *, many: bool) -> LaneTicket:
        """What takes many calls, by a thread; what takes few, by the caller."""
        # Order is kept: nothing overtakes what the thread has still to submit.
        inline = not many and (self._last is None or not self._last.pending)
        together = self._together(tables)
        produced = self._caller(self._produced if inline else torch.cuda.Event())
        ticket = self._ticket(start, submitted=inline, together=together)
        if self.flags_in_streams and not (inline and together == self.layers):
            ticket.announce(self._flags.row(self._number))
        if inline:
            # What raises here may have submitted a part, which goes on: so the copy has failed under way.
            ticket.record(self._enqueued(tables, ticket, produced, upload))
            return ticket
        if self._worker is None:
            self._worker = self._used["worker"] = Worker(self.name, self._context.bind)
        self._last = ticket

        def submit() -> None:
            ticket.record(self._enqueued(tables, ticket, produced, upload))

        self._worker.post(submit)
        return ticket

    def _together(self, tables: Tables) -> int:
        """Layers of a batch for the copy engine: several, if they have few descriptors together."""
        if not self.copy.by_layer or self.copy.engine == "kernel" or not len(tables):
            return self.layers
        each = max(1, len(tables) * self.copy.loops.chunks // self.layers)
        return min(self.layers, max(1, _FEW // each))

    def _enqueued(
        self, tables: Tables, ticket: LaneTicket, produced: Any, upload: Upload | None
    ) -> BaseException | None:
        """Submit a copy; what was raised, of which whoever waits is told."""
        try:
            with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
                self._begin(produced, upload)
                self._enqueue(tables, ticket)
        except Exception as error:  # noqa: BLE001  handed to the ticket
            return error
        return None

    def _enqueue(self, tables: Tables, ticket: LaneTicket) -> None:
        """Submit all layers, and let the stream say after each batch how far it is."""
        if ticket.together == self.layers:
            self.copy.enqueue(tables, stream=self.stream)
            ticket.pass_layers(self.layers, self._raw)
            return
        for lo in range(0, self.layers, ticket.together):
            hi = min(self.layers, lo + ticket.together)
            self.copy.enqueue(tables, lo=lo, hi=hi, stream=self.stream)
            ticket.pass_layers(hi, self._raw)

    def _ring(self, entries: int) -> None:
        self._entries = entries
        self._position = 0
        tables = self._used["tables"] = (pinned(entries), on_device(entries, self.device))
        self._host: npt.NDArray[np.int32] = tables[0].numpy()
        self._host_address, self._device_address = (tensor.data_ptr() for tensor in tables)

    def _room(self, size: int) -> int:
        """A position with so many entries in a row that no copy under way reads."""
        if size > self._entries:
            while self._held:
                self._held.popleft().ticket.forget()
            self._ring(1 << (size - 1).bit_length())
            torch.cuda.current_stream(self.device).synchronize()
        left = self._entries - self._position % self._entries
        start = self._position if size <= left else self._position + left
        self._position = start + size
        while self._held and self._held[0].start < self._position - self._entries:
            self._held.popleft().ticket.forget()
        return start

    def _ticket(self, start: int, *, submitted: bool, together: int = 0) -> LaneTicket:
        while len(self._held) >= _SLOTS or (len(self._held) > _KEPT and self._held[0].ticket.over()):
            self._held.popleft().ticket.forget()
        self._number += 1
        ticket = LaneTicket(self, submitted=submitted, together=together or self.layers)
        self._held.append(_Held(self._number, start, ticket))
        return ticket


_LEFT: list[dict[str, Any]] = []
"""What lanes that nobody closed were using; nothing uses it after its event ``over``."""


def leave(used: dict[str, Any]) -> None:
    """Keep what a lane's copies under way write to until they are over, without waiting for them.

    Their flags, page tables and pools would be somebody else's memory by then.
    """
    if "worker" in used:
        used["worker"].leave()
    _LEFT.append(used)
    try:
        used["over"].record(used["stream"])
    except RuntimeError:
        used["lost"] = True
    _LEFT[:] = [one for one in _LEFT if not _over(one)]


def _over(used: dict[str, Any]) -> bool:
    """Whether nothing uses it any more; of a context that is lost nobody knows, and it is kept for good."""
    try:
        return "lost" not in used and bool(used["over"].query())
    except RuntimeError:
        return False


def _narrow(pages: PageArray, limit: int) -> npt.NDArray[np.int32]:
    """As int32; what doesn't fit must not become the number of another page."""
    array = np.asarray(pages)
    if array.dtype != np.int32 and len(array) and not 0 <= int(array.min()) <= int(array.max()) < limit:
        wrong = array[(array < 0) | (array >= limit)][0]
        raise IndexError(f"pages must be from 0 to {limit - 1} (got {wrong})")
    return np.ascontiguousarray(array, np.int32)


@jitted
def fill_table(
    ring: PageArray, at: int, sources: PageArray, targets: PageArray, source_limit: int, target_limit: int
) -> int:
    """Write two page tables one behind the other; the place of the first page that is not there, or -1."""
    count = len(sources)
    ring[at : at + count] = sources
    ring[at + count : at + 2 * count] = targets
    last, final = np.int32(source_limit - 1), np.int32(target_limit - 1)
    signs = np.int32(0)
    for i in range(count):  # negative as soon as one is too small or too large: no branch, so that it vectorises
        signs |= sources[i] | (last - sources[i]) | targets[i] | (final - targets[i])
    if signs >= 0:
        return -1
    for i in range(count):
        if sources[i] < 0 or sources[i] > last:
            return i
    for i in range(count):
        if targets[i] < 0 or targets[i] > final:
            return count + i
    return -1
