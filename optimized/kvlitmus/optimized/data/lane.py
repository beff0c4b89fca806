"""One direction of transfers on CUDA, free-running: submitted in some microseconds, whatever the number of pages.

A submission is a few calls of the driver on a stream of its own: wait for the caller's current stream, copy the page
tables from a ring of pinned memory, start **one** kernel for all pages and layers, record an event.  The calling thread
never waits for the device, unless the ring is full of tables that are still in use.

Layers are announced by the kernel itself: each one's flag, in pinned memory, becomes the number of the ticket.  The
host reads it; a stream waits for it (``cuStreamWaitValue32``).  Compared with a kernel and an event per layer, the
time to submit doesn't grow with the layers, and nothing is lost between two kernels.

The copy engine takes a descriptor per chunk, which costs the submitting thread about 0.5 us each; many of them are
handed to a thread, where the driver works without the interpreter's lock.  Its layers are announced by events, one
after each batch; in a load of few pages a batch has several layers, for it costs its submitter as much as some
descriptors.
"""

from __future__ import annotations

import collections
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.tables import Tables
from kvlitmus.optimized.data.threads import Worker
from kvlitmus.optimized.jit import jitted
from kvlitmus.optimized.mover import PageArray

_SLOTS = 256
"""Tickets of a lane that may be under way at once; one more waits for the oldest."""

_SHORT = 16_384
"""Pages up to which one compiled call is faster than four of numpy."""

_KEPT = 32
"""Tickets up to which nobody looks whether the oldest are over."""

_ENTRIES = 1 << 18
"""Page numbers that the ring of tables holds at first: 128 Ki pages under way, 1 MiB."""

_PAUSE = 0.0002
"""How long somebody who waits for a copy, but not for ever, looks away, in seconds."""

_FEW = 32
"""Descriptors of the copy engine up to which the caller submits them itself."""


class LaneTicket:
    """A copy on a lane's stream."""

    __slots__ = ("_epoch", "_event", "_flags", "_lane", "_moved", "_passed", "_submitted", "address", "error", "layers")

    def __init__(self, lane: Lane, number: int, *, submitted: bool, flagged: bool) -> None:
        slot = number % _SLOTS
        self._lane = lane
        self._epoch = number
        self._event = torch.cuda.Event()
        self._submitted = None if submitted else threading.Event()
        self._moved = None if submitted else threading.Condition()
        self._passed: list[tuple[int, Any]] = []
        self._flags = lane.flags[slot] if flagged and lane.flags is not None else None
        self.address = lane.flag_address + 4 * slot * lane.layers
        self.error: BaseException | None = None
        self.layers = lane.layers

    def pass_layers(self, layers: int) -> None:
        """The first so many layers, but not all, are submitted: they are ready when the next event of the stream is."""
        event = torch.cuda.Event()
        event.record(self._lane.stream)
        self._passed.append((layers, event))
        self._tell()

    def record(self, error: BaseException | None = None) -> None:
        """Everything is submitted (or failed to be): the end of the copy is the next event of the stream.

        Whatever goes wrong with that, too, whoever waits is told, and doesn't wait for ever.
        """
        self.error = error
        try:
            self._event.record(self._lane.stream)
        except Exception as broken:  # noqa: BLE001  kept for whoever waits
            self.error = error or broken
        finally:
            if self._submitted is not None:
                self._submitted.set()
                self._tell()

    def _tell(self) -> None:
        if self._moved is not None:
            with self._moved:
                self._moved.notify_all()

    def _after(self, layer: int) -> Any:
        """The event after which a layer is ready, if it is known before the end of the copy."""
        return next((event for layers, event in self._passed if layers > layer), None)

    @property
    def pending(self) -> bool:
        """Whether a thread has still to submit it."""
        return self._submitted is not None and not self._submitted.is_set()

    def over(self) -> bool:
        """Whether the copy is over, however it ended."""
        return not self.pending and bool(self._event.query())

    def forget(self) -> None:
        """Block until the copy is over, however it ended."""
        if self._submitted is not None:
            self._submitted.wait()
        self._event.synchronize()

    def _known(self, *, block: bool) -> bool:
        """Whether the copy is on the stream already."""
        if self.pending:
            if not block:
                return False
            if self._submitted is not None:
                self._submitted.wait()
        if self.error is not None:
            raise RuntimeError("a copy could not be submitted") from self.error
        return True

    def advance(self, layers: int | None = None) -> None:
        """Nothing: the device goes on by itself."""

    def layers_ready(self) -> int:
        """How many layers are copied."""
        if self.done():
            return self.layers
        if self._flags is not None:
            return int(np.count_nonzero(self._flags >= self._epoch))
        ready = 0
        for layers, event in self._passed:
            if not event.query():
                break
            ready = layers
        return ready

    def wait_layer(self, layer: int) -> None:
        """Let the caller's current stream wait for a layer; the call returns at once."""
        if not 0 <= layer < self.layers:
            raise IndexError(f"layer must be from 0 to {self.layers - 1} (got {layer})")
        if self._moved is not None:
            with self._moved:  # until the thread that submits has come to this layer
                self._moved.wait_for(lambda: self._after(layer) is not None or not self.pending)
        self._known(block=False)
        stream = torch.cuda.current_stream(self._lane.device)
        if self._flags is None or layer == self.layers - 1:
            stream.wait_event(self._after(layer) or self._event)
        elif not self._event.query():
            try:
                driver.wait_value(stream.cuda_stream, self.address + 4 * layer, self._epoch)
            except driver.DriverError:  # a driver or a virtual machine without such waits: all layers, then
                stream.wait_event(self._event)

    def done(self) -> bool:
        """Whether the copy is over; never blocks.  Raises ``RuntimeError`` if not all of it could be submitted."""
        return self.over() and self._known(block=False)

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
        return self._known(block=True)

    def cancel(self) -> None:
        """Nothing: what a device was given it does; the pages belong to the copy until it is :meth:`done`."""


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
        self._produced = torch.cuda.Event()
        self._number = 0
        self._held: collections.deque[_Held] = collections.deque()
        self._worker: Worker | None = None
        self._last: LaneTicket | None = None
        self._ring(_ENTRIES)
        self.flags: npt.NDArray[np.int32] | None = None
        self.flag_address = self._counters = 0
        if copy.engine == "kernel" and copy.by_layer:
            self._keep = (
                _pinned(_SLOTS * self.layers).view(_SLOTS, self.layers),
                _on_device(self.layers, self.device),
            )
            self.flags = self._keep[0].numpy()
            self.flag_address, self._counters = (tensor.data_ptr() for tensor in self._keep)
        self._saying = self.flags is not None
        copy.prepare()
        if copy.engine == "kernel":
            kernel = copy.signalling if self._saying else copy.kernel
            self._start = kernel.bind(copy.source.address, copy.target.address)
        nothing = np.zeros(1, np.int32)
        fill_table(self._host, 0, nothing, nothing, 1, 1)
        torch.cuda.current_stream(self.device).synchronize()

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

    def _submit(self, source_pages: PageArray, target_pages: PageArray, count: int) -> LaneTicket:
        if not self.copy.on_device or not count:
            tables = self.copy.tables(source_pages, target_pages)
            self._follow()
            return self._hand_over(tables, self._position, many=count * self.copy.loops.chunks > _FEW)
        start = self._room(2 * count)
        at = start % self._entries
        middle, end = at + count, at + 2 * count
        self._write(at, source_pages, target_pages)
        self._follow()
        where = self._device_address + 4 * at
        driver.copy_async(where, self._host_address + 4 * at, 8 * count, self._raw)
        if self.copy.staged is None and count <= self.copy.kernel.most:
            return self._launch(where, count, start)
        addresses = (where, where + 4 * count)
        tables = Tables(self._host[at:middle], self._host[middle:end], addresses)
        many = self.copy.staged is not None and self.copy.staged.pieces(count) > 1
        return self._hand_over(tables, start, many=many)

    def _write(self, at: int, source_pages: PageArray, target_pages: PageArray) -> None:
        """Put both tables into the ring.  Raises ``IndexError`` for a page that is not there."""
        count = len(source_pages)
        limits = (self.copy.source.pages, self.copy.target.pages)
        given = [np.ascontiguousarray(pages, np.int32) for pages in (source_pages, target_pages)]
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

    def _follow(self) -> None:
        """What comes next on the lane's stream comes after what the caller's stream has to do so far."""
        self._produced.record(torch.cuda.current_stream(self.device))
        self.stream.wait_event(self._produced)

    def _launch(self, where: int, count: int, start: int) -> LaneTicket:
        """One kernel for all."""
        ticket = self._ticket(start, submitted=True, flagged=True)
        said = (self._counters, ticket.address, self._number) if self._saying else (0, 0, 0)
        self._start(where, where + 4 * count, count, self._raw, *said)
        ticket.record()
        return ticket

    def _hand_over(self, tables: Tables, start: int, *, many: bool) -> LaneTicket:
        """What takes many calls, by a thread; what takes few, by the caller."""
        # Order is kept: nothing overtakes what the thread has still to submit.
        inline = not many and (self._last is None or not self._last.pending)
        ticket = self._ticket(start, submitted=inline, flagged=False)
        if inline:
            # What raises here may have submitted a part, which goes on: so the copy has failed under way.
            ticket.record(self._enqueued(tables, ticket))
            return ticket
        if self._worker is None:
            self._worker = Worker(self.name)
        self._last = ticket

        def submit() -> None:
            with torch.cuda.device(self.device):
                ticket.record(self._enqueued(tables, ticket))

        self._worker.post(submit)
        return ticket

    def _enqueued(self, tables: Tables, ticket: LaneTicket) -> BaseException | None:
        """Submit a copy; what was raised, of which whoever waits is told."""
        try:
            with torch.cuda.stream(self.stream):
                self._enqueue(tables, ticket)
        except Exception as error:  # noqa: BLE001  handed to the ticket
            return error
        return None

    def _enqueue(self, tables: Tables, ticket: LaneTicket) -> None:
        """Submit a copy by the copy engine, several layers in a batch if they have few descriptors together."""
        if not self.copy.by_layer or self.copy.engine == "kernel":
            self.copy.enqueue(tables, stream=self.stream)
            return
        each = max(1, len(tables) * self.copy.loops.chunks // self.layers)
        together = max(1, _FEW // each)
        for lo in range(0, self.layers, together):
            hi = min(self.layers, lo + together)
            self.copy.enqueue(tables, lo=lo, hi=hi, stream=self.stream)
            if hi < self.layers:
                ticket.pass_layers(hi)

    def _ring(self, entries: int) -> None:
        self._entries = entries
        self._position = 0
        self._tables = (
            _pinned(entries),
            _on_device(entries, self.device),
        )
        self._host: npt.NDArray[np.int32] = self._tables[0].numpy()
        self._host_address, self._device_address = (tensor.data_ptr() for tensor in self._tables)

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

    def _ticket(self, start: int, *, submitted: bool, flagged: bool) -> LaneTicket:
        while len(self._held) >= _SLOTS or (len(self._held) > _KEPT and self._held[0].ticket.over()):
            self._held.popleft().ticket.forget()
        self._number += 1
        ticket = LaneTicket(self, self._number, submitted=submitted, flagged=flagged)
        self._held.append(_Held(self._number, start, ticket))
        return ticket


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


def _pinned(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32, pin_memory=True)


def _on_device(count: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32, device=device)
