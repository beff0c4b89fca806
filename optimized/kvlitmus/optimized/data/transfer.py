"""The mover of tensors: backups and loads between a device pool and a host pool.

>>> mover = TorchMover(DevicePool(shape, 1024), HostPool(shape, 8192), stepped=False)          # doctest: +SKIP
>>> ticket = mover.load(host_pages, device_pages)      # submitted: after what the current stream has to do so far
>>> ticket.wait_layer(0)                               # the current stream goes on when layer 0 is there
>>> ticket.done()

- **Stepped**: a copy is made by ``Ticket.advance``, as many layers at a time as it is asked for, and on return it is
  there, on CUDA too.  That is what schedules are played with.
- **Free-running on CUDA**: each direction has a stream, which waits for the caller's current stream and then copies;
  see :mod:`kvlitmus.optimized.data.lane`.
- **Free-running on CPU tensors**: each direction has a thread, which copies layer by layer, so that whatever is wrong
  with the order of things goes wrong here, too.

The pages of both sides belong to a copy until its ticket is done.  A mover doesn't check that: it is the control plane
that pins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kvlitmus.optimized.data.copies import DECLARED, Choice, Engine, PageCopy
from kvlitmus.optimized.data.kernels import Launch
from kvlitmus.optimized.data.lane import Lane, LaneTicket
from kvlitmus.optimized.data.measured import Trial, fastest
from kvlitmus.optimized.data.pages import bring_pages, copy_pages, keep_pages, read_page, write_page
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.tables import Tables
from kvlitmus.optimized.data.threads import Worker
from kvlitmus.optimized.data.tickets import SteppedTicket, ThreadTicket
from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.storage.base import Buffer

TorchTicket: TypeAlias = SteppedTicket | ThreadTicket | LaneTicket


class Kept(NamedTuple):
    """What a row held: places in it, and their contents; ``made``: when the stream has come that far, on CUDA."""

    parts: Sequence[tuple[npt.NDArray[np.int64], torch.Tensor]]
    made: torch.cuda.Event | None


class TorchMover:
    """Copies pages between two pools of one shape.

    stepped: whether copies wait to be advanced.  backup_engine, load_engine: see
    :mod:`kvlitmus.optimized.data.copies`; by default what ``choice`` says of the chunks: those of a backup, which has
    all layers at once, may be longer than those of a load, which goes layer by layer by either engine; a ``staged``
    load has all its layers ready together.  choice: declared sizes, or ``"measured"``: each direction tries the engines
    that could serve it and takes the fastest (:mod:`kvlitmus.optimized.data.measured`); ``trials`` says what came of
    it.  launch: of the kernels.  Everything is compiled and allocated here, so that no transfer pays for it.
    :meth:`close` it at the end.
    """

    def __init__(
        self,
        device_pool: DevicePool,
        host_pool: HostPool,
        *,
        stepped: bool = True,
        backup_engine: Engine | None = None,
        load_engine: Engine | None = None,
        launch: Launch | None = None,
        choice: Choice | Literal["measured"] = DECLARED,
    ) -> None:
        self.device_pool = device_pool
        self.host_pool = host_pool
        self.stepped = stepped
        self.layers = device_pool.shape.layers
        self.page_bytes = device_pool.shape.page_bytes
        self._threads: tuple[Worker, Worker] | None = None
        self._lanes: tuple[Lane, Lane] | None = None
        cuda = device_pool.device.type == "cuda"
        free_on_cuda = cuda and not stepped
        self.trials: dict[str, Trial] = {}
        if choice == "measured":
            if backup_engine is None:
                trial = fastest(device_pool, host_pool, by_layer=not free_on_cuda, launch=launch)
                self.trials["backup"], backup_engine = trial, trial.engine
            if load_engine is None:
                trial = fastest(host_pool, device_pool, by_layer=True, launch=launch)
                self.trials["load"], load_engine = trial, trial.engine
            choice = DECLARED
        self._backup = PageCopy(
            device_pool,
            host_pool,
            engine=backup_engine,
            launch=launch,
            choice=choice,
            by_layer=not free_on_cuda,
        )
        self._load = PageCopy(
            host_pool,
            device_pool,
            engine=load_engine,
            launch=launch,
            choice=choice,
            by_layer=load_engine != "staged",
        )
        if free_on_cuda:
            self._lanes = (Lane(self._backup, "kv-backup"), Lane(self._load, "kv-load"))
        elif not stepped:
            self._threads = (Worker("kv-backup"), Worker("kv-load"))
        elif cuda:
            self._backup.prepare()
            self._load.prepare()

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> TorchTicket:
        """Copy device pages to host pages, after what the caller's current stream has to do so far.

        Raises ``ValueError`` when there are not as many targets as sources, ``IndexError`` for a page that is not
        there.
        """
        return self._submit(0, device_pages, host_pages)

    def load(self, host_pages: PageArray, device_pages: PageArray) -> TorchTicket:
        """Copy host pages to device pages, layer by layer, after what the caller's current stream has to do so far.

        Raises as :meth:`backup` does.
        """
        return self._submit(1, host_pages, device_pages)

    def copy(self, device_pages: PageArray, to: PageArray) -> None:
        """Copy device pages to other ones, in the order of the caller's current stream."""
        copy_pages(self.device_pool, device_pages, to)

    def save(self, device_pages: PageArray, host_pages: PageArray) -> Kept:
        """Keep device pages on the host, or the host pages that are named instead; see :class:`Mover`."""
        device, host = np.flatnonzero(host_pages < 0), np.flatnonzero(host_pages >= 0)
        parts = ((device, self.device_pool, device_pages), (host, self.host_pool, host_pages))
        kept = [(at, keep_pages(pool, pages[at])) for at, pool, pages in parts]
        cuda = self.device_pool.device.type == "cuda"
        return Kept(kept, torch.cuda.current_stream(self.device_pool.device).record_event() if cuda else None)

    def restore(self, kept: object, device_pages: PageArray) -> None:
        """Bring what was kept back, in the order of the caller's current stream."""
        assert isinstance(kept, Kept)
        if kept.made is not None:
            torch.cuda.current_stream(self.device_pool.device).wait_event(kept.made)
        for at, contents in kept.parts:
            bring_pages(self.device_pool, contents, device_pages[at])

    @property
    def load_lane(self) -> Lane | None:
        """The lane of loads, where they are free-running on CUDA."""
        return self._lanes[1] if self._lanes is not None else None

    def _submit(self, way: int, sources: PageArray, targets: PageArray) -> TorchTicket:
        if self._lanes is not None:
            return self._lanes[way].submit(sources, targets)
        copy = self._load if way else self._backup
        tables = copy.tables(sources, targets)
        if self._threads is None:
            return SteppedTicket(copy, tables)
        ticket = self.thread_ticket(copy, tables)
        self._threads[way].post(ticket.run)
        return ticket

    def thread_ticket(self, copy: PageCopy, tables: Tables) -> ThreadTicket:
        """A copy that a thread is going to make."""
        return ThreadTicket(copy, tables)

    def read_page(self, host_page: int) -> Buffer:
        """The canonical bytes of a host page; see :func:`kvlitmus.optimized.data.pages.read_page`."""
        return read_page(self.host_pool, host_page)

    def write_page(self, host_page: int, contents: Buffer) -> None:
        """Replace a host page; see :func:`kvlitmus.optimized.data.pages.write_page`."""
        write_page(self.host_pool, host_page, contents)

    def close(self) -> None:
        """Return when everything submitted is copied; the mover takes nothing more."""
        for each in (*(self._threads or ()), *(self._lanes or ())):
            each.close()

    def __enter__(self) -> TorchMover:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
