"""What transfers cost others, and what they need: the host's time, SMs, and how soon the first layer is there."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.copies import ROWS, Row, ways, world_of
from benchmarks.gpu.device import KIB, Machine, repeat, summary
from benchmarks.gpu.movers import World
from benchmarks.gpu.stage import Bench
from benchmarks.record import at_most
from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.kernels import LINK, OUT, Launch
from kvlitmus.optimized.data.layout import Layout
from kvlitmus.optimized.data.shape import KVShape

BLOCKS = (2, 4, 8, 16)
LAUNCHES = [(blocks, LINK.warps, LINK.tile) for blocks in BLOCKS]
LAUNCHES += [(OUT.programs, OUT.warps, OUT.tile), (2, 8, 2048), (4, 32, 8192), (4, 16, 2048)]
"""Blocks, warps and tiles of the sweep."""
QUOTA_ROWS = (ROWS[2], ROWS[1], ROWS[3])
SIDE = 8192
"""Rows and columns of the matrix product that transfers run beside."""
SMS, SLOWED, SUBMIT_US, FIRST, ALL = 4, 0.03, 20.0, 1.2, 1.03
"""The goals: SMs of a transfer, slow-down of the product, host time, first layer, all layers."""


class Product:
    """A stream of large matrix products, timed alone and beside transfers."""

    def __init__(self, machine: Machine, dry: bool) -> None:
        self.machine = machine
        side = 32 if dry else SIDE
        kind = torch.float32 if dry else torch.bfloat16
        self.one, self.other = (torch.randn(side, side, device=machine.device, dtype=kind) for _ in range(2))
        self.result = torch.empty_like(self.one)
        self.turns = 2 if dry else 120
        self.alone = statistics.median(repeat(self.time_alone, 3, 1))

    def run(self) -> None:
        """All turns, on the current stream."""
        for _ in range(self.turns):
            torch.matmul(self.one, self.other, out=self.result)

    def time_alone(self) -> float:
        """Seconds of the products with nothing beside them."""
        return self.machine.events(self.run)

    def beside(self, start: Callable[[], Any], stop: Callable[[], Any]) -> tuple[float, float, bool]:
        """Seconds of the products while transfers run; seconds of all transfers; whether these lasted longer.

        ``start`` submits transfers to streams of their own; ``stop`` lets the current stream wait for all of them.
        """
        if not self.machine.cuda:
            start()
            seconds = self.machine.wall(self.run)
            stop()
            return seconds, seconds, True
        first, begun, ended, over = (torch.cuda.Event(enable_timing=True) for _ in range(4))
        self.machine.sync()
        first.record()
        start()
        begun.record()
        self.run()
        ended.record()
        stop()
        over.record()
        over.synchronize()
        # After the products the stream waits for the transfers: if it hardly waits, they may have ended long before.
        whole, tail = first.elapsed_time(over) / 1e3, ended.elapsed_time(over) / 1e3
        return begun.elapsed_time(ended) / 1e3, whole, tail > 0.02 * whole


def beside_copy(bench: Bench, product: Product, world: World, direction: str, each: float) -> dict[str, Any]:
    """Run one kind of transfer again and again beside the products; how much slower they were, and it was.

    The products are timed alone in between: clocks drift under load.
    """
    machine = bench.machine
    rounds = 1 if bench.dry else max(2, int(1.6 * product.alone / each) + 1)
    orders = (machine.pages(world.host.pages), machine.pages(world.host.pages))
    last = world.mover.layers - 1
    tickets: list[Any] = []

    def start() -> None:
        tickets[:] = [world.start(direction, orders) for _ in range(rounds)]

    def stop() -> None:
        tickets[-1].wait_layer(last)

    alone, beside, rates, lasted = [], [], [], True
    for _ in range(2 if bench.dry else 4):
        alone.append(product.time_alone())
        seconds, whole, longer = product.beside(start, stop)
        for ticket in tickets:
            ticket.wait()
        beside.append(seconds)
        rates.append(rounds * world.payload / whole / 1e9)
        lasted = lasted and longer
    return {
        "slowed": statistics.median(beside) / statistics.median(alone) - 1,
        "slowed_worst": max(beside) / min(alone) - 1,
        "gb_s_beside": statistics.median(rates),
        "lasted_longer_than_the_products": lasted,
    }


def interference(bench: Bench) -> None:
    """The transfers as the cache makes them, beside a large matrix product."""
    machine = bench.machine
    product = Product(machine, bench.dry)
    flops = 2 * product.one.shape[0] ** 3 * product.turns
    worst, blocks = 0.0, 0
    for row in (ROWS[0], ROWS[2]):
        world = world_of(bench, row)
        for direction in ("h2d", "d2h"):
            copy = world.copy(direction)
            each = min(world.timed(machine, direction, []) for _ in range(2))
            found = beside_copy(bench, product, world, direction, each)
            worst = max(worst, found["slowed"])
            programs = copy.launch.programs if copy.engine == "kernel" else 0
            blocks = max(blocks, programs)
            facts = {"engine": copy.engine, "blocks": programs}
            bench.record.row("interference", name=f"{direction} {row.label} beside matmul", **facts, **found)
        world.close()
        del world
        machine.free()
    bench.record.row(
        "interference", name="matmul alone", tflops=flops / product.alone / 1e12, turns=product.turns, side=SIDE
    )
    bench.record.goal(at_most("SMs used for transfers", "blocks of the kernel", SMS, float(blocks)))
    bench.record.goal(at_most("slow-down of a concurrent large matmul", "", SLOWED, worst))


def quota(bench: Bench) -> None:
    """The kernel with 2, 4, 8 and 16 blocks: bandwidth, and what it costs a matrix product (32 KiB chunks)."""
    machine = bench.machine
    product = Product(machine, bench.dry)
    shapes = [(2, 4, 256), (4, 4, 256)] if bench.dry else LAUNCHES
    for row in QUOTA_ROWS[:1] if bench.dry else QUOTA_ROWS:
        world = world_of(bench, row)
        for blocks, warps, tile in shapes:
            if bench.short(2):
                break
            launch = Launch(blocks, warps, tile)
            beside = row is ROWS[2] and (warps, tile) in ((LINK.warps, LINK.tile), (OUT.warps, OUT.tile))
            for direction in ("h2d", "d2h"):
                name = f"{direction} {row.label}, {blocks} x {warps} warps, {tile * 16 // KIB} KiB each"
                facts = {"direction": direction, "chunk": row.chunk, "blocks": blocks, "warps": warps, "tile": tile}
                measure = partial(_with_launch, bench, world, launch, direction, product if beside else None)
                bench.record.tried("quota", {"name": name, **facts}, measure)
        world.close()
        del world
        machine.free()


def _with_launch(bench: Bench, world: World, launch: Launch, direction: str, product: Product | None) -> dict[str, Any]:
    """One launch of the kernel: its bandwidth alone, and beside a product."""
    mine = world.by(launch=launch, load_engine="kernel", backup_engine="kernel")
    once = partial(mine.timed, bench.machine, direction, [])
    found = summary(repeat(once, bench.repeats(3)), world.payload)
    cost: dict[str, Any] = {"slowed": None}
    if product is not None:
        cost = beside_copy(bench, product, mine, direction, found["median_s"])
    mine.close()
    return {**cost, **found}


SMALL = KVShape(layers=2, heads=2, head_dim=128, dtype=torch.bfloat16, page_size=4)
LARGE = KVShape(layers=2, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64)
SUBMITTED: tuple[tuple[str, KVShape, Layout, int], ...] = (
    ("small chunks", SMALL, "layer_first", 8192),
    ("small chunks", SMALL, "page_first_direct", 8192),
    ("chunks of 128 KiB", LARGE, "page_first_direct", 1024),
)


def submission(bench: Bench) -> None:
    """How long the caller's thread is busy until a transfer is submitted, for any number of pages."""
    machine = bench.machine
    for what, of, layout, most in SUBMITTED:
        most = 8 if bench.dry else most
        world = World.make(machine, SMALL if bench.dry else of, layout, pages=most + 1)
        for direction, verb in (("h2d", "load"), ("d2h", "backup")):
            engine = world.copy(direction).engine
            for count in (1, most) if bench.dry else (1, 64, 1024, most):
                if count > most:
                    continue
                spent = world.submit(machine, direction, count, 5 if bench.dry else 60)
                middle, late = statistics.median(spent) * 1e6, sorted(spent)[int(0.99 * len(spent))] * 1e6
                name = f"{verb} of {count} pages, {what}, host {layout}, by {engine}"
                facts = {"median_us": middle, "p99_us": late, "best_us": min(spent) * 1e6}
                bench.record.row("submission", name=name, engine=engine, pages=count, **facts)
                if count == most:
                    row = f"submit a {verb} of {count} pages, {what}, {layout}"
                    bench.record.goal(at_most(row, "host time", SUBMIT_US, middle, " us"))
        world.close()


def layers(bench: Bench) -> None:
    """A load that goes layer by layer: when the first is there, and what all of them take beside one shot."""
    machine = bench.machine
    for row in (ROWS[0], ROWS[2]):
        _layers(bench, row)
        machine.free()


def _layers(bench: Bench, row: Row) -> None:
    """One shot: the same pages by the same engine in one copy whose layers nobody can wait for."""
    machine = bench.machine
    world = world_of(bench, row)
    for at, (engine, options) in enumerate(ways(machine, world, "h2d", few=True)):
        mine = world.by(**options)
        at_once = PageCopy(world.host, world.device, engine=mine.copy("h2d").engine, launch=mine.copy("h2d").launch)
        whole = statistics.median(repeat(partial(one_shot, machine, at_once), bench.repeats(5), 2))
        times = [mine.timed_load(machine) for _ in range(bench.repeats(5) + 2)][2:]
        first, total = (statistics.median(column) for column in zip(*times, strict=True))
        count = mine.mover.layers
        mine.close()
        facts = {"first_ms": first * 1e3, "all_ms": total * 1e3, "one_shot_ms": whole * 1e3, "layers": count}
        bench.record.row("layers", name=f"load of 1 GiB by layers, {row.label}", way=engine, used=at == 0, **facts)
        if at == 0:
            wanted = FIRST * whole / count + 20e-6
            bench.record.goal(
                at_most(f"load by layers, {row.label}", "first layer ready", wanted * 1e3, first * 1e3, " ms")
            )
            bench.record.goal(at_most(f"load by layers, {row.label}", "all layers, times one shot", ALL, total / whole))
    world.close()


SMALL_LOADS = (1, 4, 16, 64, 256)
"""Pages of a load: with bf16 and two KV heads of 128, 16 tokens and 32 layers a page is 512 KiB."""


def small_loads(bench: Bench) -> None:
    """Loads of few pages, layer by layer and all layers at once: a barrier per layer is not for small ones.

    ``together`` in the record is the largest load whose last layer comes sooner at once, and no later than the first
    would layer by layer plus what the goal allows: what the lane's own limit should be.
    """
    machine = bench.machine
    row = ROWS[3]
    world = World.make(machine, row.shape(bench), row.host, (4 if bench.dry else SMALL_LOADS[-1]) + 1)
    together = 0
    engines = ("kernel", "dma") if machine.cuda else ("torch",)
    for count in SMALL_LOADS[:2] if bench.dry else SMALL_LOADS:
        size = count * world.host.shape.page_bytes
        times: dict[str, tuple[float, float]] = {}
        for engine in engines:
            for name, small in (("at once", 1 << 62), ("by layers", 0)) if engine == "kernel" else (("by layers", 0),):
                facts = {"name": f"load of {count} pages, {size / KIB:g} KiB, by {engine} {name}", "way": engine}
                measure = partial(_small_load, bench, world, engine, small, count)
                if bench.record.tried("small loads", {**facts, "pages": count, "bytes_of_load": size}, measure):
                    found = bench.record.rows[-1]
                    times[f"{engine} {name}"] = (found["first_ms"], found["all_ms"])
        once, layered = times.get("kernel at once"), times.get("kernel by layers")
        if once and layered and once[1] < layered[1] and once[1] < layered[0] + 20e-3:
            together = size
    world.close()
    bench.record.head["together"] = together


def _small_load(bench: Bench, world: World, engine: str, small: int, count: int) -> dict[str, Any]:
    machine = bench.machine
    mine = world.by(load_engine=engine)
    if mine.mover.load_lane is not None:
        mine.mover.load_lane.small = small
    times = [mine.timed_load(machine, count) for _ in range(bench.repeats(20) + 2)][2:]
    mine.close()
    first, total = (statistics.median(column) for column in zip(*times, strict=True))
    return {"first_ms": first * 1e3, "all_ms": total * 1e3}


def one_shot(machine: Machine, copy: PageCopy) -> float:
    """A copy of all layers at once on a stream of its own, tables included."""
    pages = copy.source.pages
    orders = (machine.pages(pages), machine.pages(pages))
    if not machine.cuda:
        return machine.wall(lambda: copy.now(*orders))
    stream = torch.cuda.Stream()

    def work() -> None:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            copy.enqueue(copy.tables(*orders), stream=stream)
        torch.cuda.current_stream().wait_stream(stream)

    return machine.events(work)
