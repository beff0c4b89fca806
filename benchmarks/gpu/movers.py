"""Transfers through the mover that the cache uses, with everything compared; and the times that only a mover has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.device import Machine
from benchmarks.timing import quiet
from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.layout import Layout
from kvlitmus.optimized.data.pools import DevicePool, HostPool, KVPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.transfer import TorchMover

Array = np.ndarray[Any, Any]
PATIENCE = 20.0
"""Seconds after which a transfer that isn't done counts as lost."""


def _gqa() -> KVShape:
    return KVShape(layers=8, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=16)


def _latent() -> KVShape:
    return KVShape(kind="mla", layers=6, head_dim=576, dtype=torch.float8_e4m3fn, page_size=64)


def _packed() -> KVShape:
    return KVShape(kind="mla", layers=5, head_dim=656, dtype=torch.uint8, page_size=1)


def _long() -> KVShape:
    return KVShape(layers=4, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64)


def _tiny() -> KVShape:
    return KVShape(layers=3, heads=2, head_dim=4, dtype=torch.bfloat16, page_size=2)


SHAPES: tuple[tuple[Callable[[], KVShape], Layout], ...] = (
    (_gqa, "layer_first"),
    (_gqa, "page_first_direct"),
    (_gqa, "page_first"),
    (_gqa, "page_head"),
    (_long, "layer_first"),
    (_long, "page_first_direct"),
    (_latent, "layer_first"),
    (_latent, "page_first_direct"),
    (_packed, "page_first"),
    (_packed, "layer_first"),
)
DRY: tuple[tuple[Callable[[], KVShape], Layout], ...] = ((_tiny, "layer_first"), (_tiny, "page_head"))


STREAMED = (SHAPES[0], SHAPES[1])
"""Those with which streams are tried: chunks on both sides, and whole pages on the host."""


def contents(pool: KVPool) -> torch.Tensor:
    """All bytes of a pool on the CPU, by page, in one order for all layouts."""
    return pool.canonical().cpu().reshape(pool.pages, -1).clone()


def after(source: KVPool, target: KVPool, here: Array, there: Array) -> torch.Tensor:
    """What a target must hold when these pages of a source are there, by plain indexing on the CPU."""
    wanted = contents(target)
    wanted[torch.from_numpy(there).long()] = contents(source)[torch.from_numpy(here).long()]
    return wanted


def differ(found: torch.Tensor, wanted: torch.Tensor, what: str = "") -> str:
    """What is wrong, or nothing."""
    if torch.equal(found, wanted):
        return ""
    pages = (found != wanted).any(dim=-1).nonzero().flatten().tolist()
    return f"{what}{what and ': '}{int((found != wanted).sum())} wrong bytes in pages {pages[:8]}"


@dataclass
class World:
    """A host pool, a device pool, and the free-running mover between them; ``options`` are the mover's."""

    host: HostPool
    device: DevicePool
    options: dict[str, Any] = field(default_factory=dict)
    mover: TorchMover = field(init=False)

    def __post_init__(self) -> None:
        self.mover = TorchMover(self.device, self.host, stepped=False, **self.options)

    @classmethod
    def make(cls, machine: Machine, of: KVShape, layout: Layout, pages: int) -> World:
        """Pools of so many pages with random contents."""
        world = cls(HostPool(of, pages, layout=layout), DevicePool(of, pages, device=machine.device))
        world.scramble(machine)
        return world

    def by(self, **options: Any) -> World:
        """The same pools with another mover."""
        return World(self.host, self.device, options)

    @property
    def moved(self) -> int:
        """Pages of a transfer of all pages but the reserved one."""
        return self.host.pages - 1

    @property
    def payload(self) -> int:
        """Bytes of such a transfer."""
        return self.moved * self.host.shape.page_bytes

    def sides(self, direction: str) -> tuple[KVPool, KVPool]:
        """Source and target of a direction, ``h2d`` or ``d2h``."""
        return (self.host, self.device) if direction == "h2d" else (self.device, self.host)

    def scramble(self, machine: Machine) -> None:
        """New random contents on both sides."""
        machine.fill(self.host.buffer)
        machine.fill(self.device.buffer)
        machine.sync()

    def close(self) -> None:
        """Wait for what is under way, and close the mover."""
        self.mover.close()

    def orders(self, machine: Machine, share: float = 0.7) -> tuple[Array, Array]:
        """Random pages of both pools, as many each."""
        count = max(1, int(share * self.host.pages))
        return machine.pages(self.host.pages)[:count], machine.pages(self.device.pages)[:count]

    def round_trip(self, machine: Machine) -> str:
        """Back up random pages, load them to other pages; everything else must stay as it was."""
        self.scramble(machine)
        there, here = self.orders(machine)
        wanted = after(self.device, self.host, here, there)
        self.mover.backup(here, there).wait()
        if said := differ(contents(self.host), wanted, "host after a backup"):
            return said
        _, back = self.orders(machine)
        wanted = after(self.host, self.device, there, back)
        self.mover.load(there, back).wait()
        return differ(contents(self.device), wanted, "device after a load")

    def layer_by_layer(self, machine: Machine) -> str:
        """Copy every layer away as soon as it is said to be ready, by the stream's and then by the host's answer."""
        for by in (self._by_stream, self._by_host):
            self.scramble(machine)
            there, here = self.orders(machine)
            shape = self.host.shape
            wanted = self.host.canonical()[torch.from_numpy(there).long()].clone()
            index = torch.from_numpy(here).long().to(machine.device)
            machine.sync()
            taken = by(machine, self.mover.load(there, here), index)
            machine.sync()
            if len(taken) != shape.layers:
                return f"{len(taken)} of {shape.layers} layers were ready in {PATIENCE:.0f} s"
            for layer, found in enumerate(taken):
                if not torch.equal(found.cpu(), wanted[:, :, layer]):
                    return f"layer {layer} was said to be ready {by.__name__.strip('_').replace('_', ' ')} and was not"
        return ""

    def _layer(self, index: torch.Tensor, layer: int) -> torch.Tensor:
        return self.device.canonical()[index, :, layer]

    def _by_stream(self, machine: Machine, ticket: Any, index: torch.Tensor) -> list[torch.Tensor]:
        taken = []
        for layer in range(self.host.shape.layers):
            ticket.wait_layer(layer)
            taken.append(self._layer(index, layer))
        return taken

    def _by_host(self, machine: Machine, ticket: Any, index: torch.Tensor) -> list[torch.Tensor]:
        """On a stream that nothing orders after the transfer: only the host's answer says that a layer is there."""
        taken: list[torch.Tensor] = []
        stream = torch.cuda.Stream() if machine.cuda else None
        until = time.monotonic() + PATIENCE
        while len(taken) < self.host.shape.layers and time.monotonic() < until:
            ready = ticket.layers_ready()
            while len(taken) < ready:
                with torch.cuda.stream(stream):  # nothing, where there is no stream
                    taken.append(self._layer(index, len(taken)))
        return taken

    def late_producer(self, machine: Machine) -> str:
        """The pages are computed late on the caller's stream: a backup submitted before must copy what was computed."""
        self.scramble(machine)
        fresh = torch.empty_like(self.device.buffer)
        machine.fill(fresh)
        there, here = self.orders(machine)
        made = KVPool(self.device.shape, self.device.pages, self.device.layout, fresh)
        wanted = after(made, self.host, here, there)
        machine.sync()
        doze(machine)
        self.device.buffer.copy_(fresh)
        ticket = self.mover.backup(here, there)
        ticket.wait()
        return differ(contents(self.host), wanted, "a backup did not wait for its producer")

    def late_reader(self, machine: Machine) -> str:
        """What the caller's stream reads late must be read before a load overwrites it."""
        self.scramble(machine)
        before = contents(self.device)
        there, here = self.orders(machine)
        machine.sync()
        doze(machine)
        read = self.device.buffer.clone()
        ticket = self.mover.load(there, here)
        ticket.wait()
        machine.sync()
        seen = KVPool(self.device.shape, self.device.pages, self.device.layout, read)
        return differ(contents(seen), before, "a load did not wait for a reader")

    def dropped(self, machine: Machine) -> str:
        """Loads whose tickets are dropped at once: their tables and events may not be reused while they are read."""
        self.scramble(machine)
        there, here = machine.pages(self.host.pages), machine.pages(self.device.pages)
        wanted = after(self.host, self.device, there, here)
        machine.sync()
        doze(machine)
        for one, other in zip(np.array_split(there, 24), np.array_split(here, 24), strict=True):
            if len(one):
                self.mover.load(one, other)
        self.mover.load(there[:1], here[:1]).wait()
        machine.sync()
        return differ(contents(self.device), wanted, "loads whose tickets were dropped")

    def cancelled(self, machine: Machine) -> str:
        """A load cancelled while it runs: its layers are whole or untouched, and once it is done nothing is written."""
        self.scramble(machine)
        shape = self.host.shape
        there, here = machine.pages(self.host.pages), machine.pages(self.device.pages)
        rows, froms = torch.from_numpy(here).long(), torch.from_numpy(there).long()
        old = self.device.canonical().cpu()[rows]
        new = self.host.canonical()[froms]
        ticket = self.mover.load(there, here)
        ticket.cancel()
        ticket.wait()
        machine.sync()
        found = self.device.canonical().cpu()[rows]
        for layer in range(shape.layers):
            if not any(torch.equal(found[:, :, layer], whole[:, :, layer]) for whole in (old, new)):
                return f"layer {layer} of a cancelled load is neither whole nor untouched"
        self.device.buffer.zero_()
        machine.sync()
        time.sleep(0.002)
        machine.sync()
        return "a cancelled load was done, and wrote on" if bool(self.device.buffer.any()) else ""

    def crowded(self, machine: Machine) -> str:
        """Backups of one half of the pages and loads into the other half, many at a time."""
        self.scramble(machine)
        half = (self.host.pages - 1) // 2
        hosts, devices = machine.pages(self.host.pages), machine.pages(self.device.pages)
        host_after = after(self.device, self.host, devices[:half], hosts[:half])
        device_after = after(self.host, self.device, hosts[half : 2 * half], devices[half : 2 * half])
        machine.sync()
        tickets = []
        for at in np.array_split(np.arange(half), min(12, half)):
            tickets.append(self.mover.backup(devices[at], hosts[at]))
            tickets.append(self.mover.load(hosts[at + half], devices[at + half]))
        for ticket in reversed(tickets):
            ticket.wait()
        if not all(ticket.done() for ticket in tickets):
            return "a ticket that was waited for is not done"
        machine.sync()
        return differ(contents(self.host), host_after, "host") or differ(contents(self.device), device_after, "device")

    def submit(self, machine: Machine, direction: str, count: int, times: int) -> list[float]:
        """Seconds that the caller is busy with submitting a transfer of so many pages, each waited for afterwards."""
        spent = []
        with quiet():
            for turn in range(times + 3):
                orders = [machine.pages(self.host.pages)[:count] for _ in range(2)]
                machine.sync()
                started = time.perf_counter()
                ticket = self.start(direction, orders)
                seconds = time.perf_counter() - started
                ticket.wait()
                if turn >= 3:
                    spent.append(seconds)
        return spent

    def copy(self, direction: str) -> PageCopy:
        """The copy that the mover makes in a direction: its engine, its launch."""
        return self.mover._load if direction == "h2d" else self.mover._backup  # noqa: SLF001

    def start(self, direction: str, orders: Sequence[Array]) -> Any:
        """Submit a transfer; ``orders``: pages of the source, and of the target."""
        return self.mover.load(*orders) if direction == "h2d" else self.mover.backup(*orders)

    def timed(self, machine: Machine, direction: str, orders: list[Array]) -> float:
        """Seconds of one transfer of all pages in a fresh order, by events on the caller's stream."""
        orders[:] = [machine.pages(self.host.pages), machine.pages(self.host.pages)]
        last = self.host.shape.layers - 1
        tickets: list[Any] = []

        def work() -> None:
            tickets.append(self.start(direction, orders))
            tickets[0].wait_layer(last)

        seconds = machine.events(work)
        tickets[0].wait()  # raises what a thread could not submit: the stream has gone on then
        machine.sync()
        return seconds

    def timed_load(self, machine: Machine, count: int | None = None) -> tuple[float, float]:
        """Seconds until the first layer, and until all of them, are there for the caller's stream.

        count: pages, by default all of them.
        """
        there, here = (machine.pages(pool.pages)[:count] for pool in (self.host, self.device))
        last = self.host.shape.layers - 1
        if not machine.cuda:
            started = time.perf_counter()
            self.mover.load(there, here).wait()
            return (time.perf_counter() - started,) * 2
        begun, first, ended = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        machine.sync()
        begun.record()
        ticket = self.mover.load(there, here)
        ticket.wait_layer(0)
        first.record()
        ticket.wait_layer(last)
        ended.record()
        ended.synchronize()
        ticket.wait()
        return begun.elapsed_time(first) / 1e3, begun.elapsed_time(ended) / 1e3


def doze(machine: Machine) -> None:
    """Keep the caller's stream busy for some ten milliseconds."""
    if machine.cuda:
        torch.cuda._sleep(20_000_000)  # noqa: SLF001 (torch's own tests use it; there is no public way)
