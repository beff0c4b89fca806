"""Bandwidth of paged copies: random pages of at least 1 GiB, over the link both ways, at once, and within the device.

Each row is timed by events on the caller's stream around the whole transfer, with a fresh random order of the pages of
both pools for every repeat; page tables are uploaded inside of what is timed.  Transfers go through the mover that
the cache uses.  ``used`` is the engine that it chooses by itself, and that row is judged; the other engine's row is
there to judge the choice by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.device import GIB, KIB, MIB, Machine, repeat, summary
from benchmarks.gpu.movers import World
from benchmarks.gpu.stage import Bench
from benchmarks.record import at_least
from kvlitmus.optimized.data.copies import ENGINES, Engine, PageCopy
from kvlitmus.optimized.data.kernels import Launch
from kvlitmus.optimized.data.layout import Layout
from kvlitmus.optimized.data.pools import DevicePool, KVPool
from kvlitmus.optimized.data.shape import KVShape

REPEATS = 7
TINY = Launch(programs=2, warps=4, tile=256)
"""What the interpreter can run in time."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Row:
    """A row of the table: what a chunk is, and the goals either way (none: it is only reported)."""

    label: str
    chunk: int
    heads: int
    page_size: int
    host: Layout
    goals: tuple[float, float] | None

    def shape(self, bench: Bench) -> KVShape:
        """32 layers of bf16 rows; in a dry run two layers of small ones."""
        if bench.dry:
            return KVShape(layers=2, heads=1, head_dim=8, dtype=torch.bfloat16, page_size=min(4, self.page_size))
        return KVShape(layers=32, heads=self.heads, head_dim=128, dtype=torch.bfloat16, page_size=self.page_size)


ROWS = (
    Row("whole pages of 8 MiB", 8 * MIB, 8, 64, "page_first_direct", (0.97, 0.97)),
    Row("128 KiB", 128 * KIB, 8, 64, "layer_first", (0.95, 0.95)),
    Row("32 KiB", 32 * KIB, 8, 16, "layer_first", (0.90, 0.92)),
    Row("8 KiB", 8 * KIB, 2, 16, "layer_first", (0.80, 0.85)),
    Row("whole pages of 2 MiB", 2 * MIB, 8, 16, "page_first_direct", None),
    Row("whole pages of 8 MiB, token by token on the host", 8 * MIB, 8, 64, "page_first", None),
)


def world_of(bench: Bench, row: Row, payload: int = GIB) -> World:
    """Pools of just over ``payload`` bytes for a row of the table."""
    return World.make(bench.machine, row.shape(bench), row.host, pages_of(bench, row, payload))


def pages_of(bench: Bench, row: Row, payload: int = GIB) -> int:
    """Pages of such a pool, the reserved one included."""
    return (3 if bench.dry else -(-payload // row.shape(bench).page_bytes)) + 1


def same(pools: tuple[KVPool, KVPool], orders: list[Array], some: int = 6) -> bool:
    """Whether some pages of a transfer arrived byte by byte; the rest is what the correctness stages are for."""
    (source, target), (here, there) = pools, orders
    return all(
        torch.equal(source.canonical()[int(one)].cpu(), target.canonical()[int(other)].cpu())
        for one, other in zip(here[:some], there[:some], strict=True)
    )


def ways(machine: Machine, world: World, direction: str, *, few: bool) -> list[tuple[str, dict[str, Any]]]:
    """What the mover uses by itself, first, and the others that could serve; in a dry run few rows by kernel."""
    chosen = world.copy(direction).engine
    if machine.cuda:
        others: list[str] = [way for way in ENGINES if way not in (chosen, "torch")]
        if world.host.layout == "layer_first":  # a staged copy has whole pages, which are runs of bytes
            others = [way for way in others if way != "staged"]
        more: dict[str, Any] = {}
    else:
        others, more = ["kernel"] if few else [], {"launch": TINY}
    option = "load_engine" if direction == "h2d" else "backup_engine"
    return [(chosen, {}), *((way, {option: way, **more}) for way in others)]


def transfers(engine: Engine, bench: Bench) -> None:
    """Random pages over the link, both directions, by one engine, wherever it could serve."""
    wrong: list[str] = []
    failed: list[str] = []
    cases = 0
    for row in ROWS:
        if engine == "staged" and row.host == "layer_first":
            continue  # it has no whole pages
        for at, direction in enumerate(("h2d", "d2h")):
            if bench.short(2):
                bench.record.row("transfers", name=f"{direction} {row.label}", way=engine, note="not reached in time")
                bench.record.unfinished.append(f"{direction} {row.label} by {engine}")
                continue
            cases += 1
            _transfer(bench, row, direction, row.goals[at] if row.goals else None, engine, (wrong, failed))
            bench.machine.free()
    bench.record.check(f"contents after the timed transfers by {engine}", cases, wrong)
    if failed:
        raise RuntimeError(f"{len(failed)} of {cases} rows by {engine} failed, the first of them {failed[0]}")


def _transfer(
    bench: Bench, row: Row, direction: str, goal: float | None, engine: Engine, bad: tuple[list[str], list[str]]
) -> None:
    """One row by an engine, if it serves it; if it copied wrongly, or failed, it is added to ``bad``."""
    machine = bench.machine
    ceiling = bench.ceiling(direction)
    world = world_of(bench, row)
    name = f"{direction} {row.label}"
    for at, (way, options) in enumerate(ways(machine, world, direction, few=row in ROWS[1:3])):
        if way != engine:
            continue

        def measure(way: str = way, options: dict[str, Any] = options) -> dict[str, Any]:
            mine = world.by(**options)
            orders: list[Array] = []
            world.sides(direction)[1].buffer.zero_()
            seconds = repeat(partial(mine.timed, machine, direction, orders), bench.repeats(REPEATS), 2)
            if not same(world.sides(direction), orders):
                bad[0].append(f"{name} by {way}")
            mine.close()
            found = summary(seconds, world.payload)
            return {"share": found["gb_s"] / ceiling if ceiling else None, **found}

        judged = at == 0 and goal is not None
        label, chunk = f"{direction} {row.label.split(',')[0]}", row.chunk if row.chunk < MIB else 0
        facts: dict[str, Any] = {"name": name, "label": label, "direction": direction, "way": way, "used": at == 0}
        if not bench.record.tried("transfers", {**facts, "chunk": chunk, "goal": goal, "judged": judged}, measure):
            bad[1].append(f"{name}: {bench.record.rows[-1]['note']}")
        elif judged and ceiling:
            share = bench.record.rows[-1]["share"]
            bench.record.goal(at_least(name, "share of the copy engine", goal or 0.0, share))
    world.close()


def both_ways(bench: Bench) -> None:
    """A load and a backup at once, of different pages, against one way of the copy engine."""
    for row in ROWS[:4]:
        world = world_of(bench, row)
        found = summary(
            repeat(partial(_both, bench, world), bench.repeats(REPEATS), 2), world.moved // 2 * 2 * page(world)
        )
        world.close()
        one_way = bench.ceiling("h2d")
        share = found["gb_s"] / one_way if one_way else None
        way = ", ".join(world.copy(direction).engine for direction in ("h2d", "d2h"))
        bench.record.row("both ways", name=f"both ways, {row.label}", way=way, share=share, **found)
        if share is not None and row.label in ("whole pages of 8 MiB", "32 KiB"):
            bench.record.goal(at_least(f"both ways at once, {row.label}", "times one way", 1.5, share))
        bench.machine.free()


def page(world: World) -> int:
    """Bytes of a page."""
    return world.host.shape.page_bytes


def _both(bench: Bench, world: World) -> float:
    machine = bench.machine
    half = world.moved // 2
    hosts, devices = machine.pages(world.host.pages), machine.pages(world.host.pages)
    tickets: list[Any] = []

    def work() -> None:
        last = world.mover.layers - 1
        tickets[:] = [
            world.start("h2d", (hosts[:half], devices[:half])),
            world.start("d2h", (devices[half : 2 * half], hosts[half : 2 * half])),
        ]
        for ticket in tickets:
            ticket.wait_layer(last)

    seconds = machine.events(work)
    for ticket in tickets:
        ticket.wait()
    return seconds


DEVICE_CASES: tuple[tuple[str, int, int, Layout, Layout, float | None], ...] = (
    ("gather and scatter, 16 KiB", 8, 8, "layer_first", "layer_first", 0.85),
    ("relayout to pages first, 16 KiB", 8, 8, "layer_first", "page_first_direct", 0.85),
    ("relayout to layers first, 16 KiB", 8, 8, "page_first_direct", "layer_first", 0.85),
    ("relayout, rows of 512 B", 2, 16, "layer_first", "page_first", None),
)


def on_device(bench: Bench) -> None:
    """Gather and scatter between device pools, and the relayout between layers first and pages first."""
    wrong = []
    for name, heads, page, one, other, goal in DEVICE_CASES:
        of = Row(name, 0, heads, page, one, None).shape(bench)
        if not _on_device(bench, name, of, (one, other), goal):
            wrong.append(name)
        bench.machine.free()
    bench.record.check("contents after the timed copies on the device", len(DEVICE_CASES), wrong)


def _on_device(bench: Bench, name: str, of: KVShape, layouts: tuple[Layout, Layout], goal: float | None) -> bool:
    machine = bench.machine
    ceiling = bench.ceiling("d2d")
    moved = 3 if bench.dry else GIB // of.page_bytes
    source, target = (DevicePool(of, moved + 1, device=machine.device, layout=layout) for layout in layouts)
    machine.fill(source.buffer)
    copy = PageCopy(source, target)
    orders: list[Array] = []
    seconds = repeat(partial(_within, machine, copy, moved, orders), bench.repeats(REPEATS), 2)
    found = summary(seconds, moved * of.page_bytes)
    share = found["gb_s"] / ceiling if ceiling else None
    facts = {"label": name, "way": copy.engine, "judged": goal is not None, "goal": goal, "share": share}
    bench.record.row("on device", name=name, direction="d2d", **facts, **found)
    if goal is not None and share is not None:
        bench.record.goal(at_least(name, "share of a device copy", goal, share))
    return same((source, target), orders)


def _within(machine: Machine, copy: PageCopy, moved: int, orders: list[Array]) -> float:
    """The tables are on the device already: a relayout reads them from whoever allocated the pages."""
    orders[:] = [machine.pages(moved + 1), machine.pages(moved + 1)]
    tables = copy.tables(*orders)
    return machine.events(lambda: copy.enqueue(tables))
