"""Are the copies right: every pair of layouts byte by byte, whole transfers, layers as they get ready, streams.

Contents are random bytes, page lists random orders.  A target is random, too, before: what a copy must not touch is
compared just as what it must write, and so are the guards before and behind each pool.
"""

from __future__ import annotations

import torch

from benchmarks.gpu.copies import TINY
from benchmarks.gpu.device import Machine
from benchmarks.gpu.movers import DRY, SHAPES, STREAMED, World, after
from benchmarks.gpu.pairs import (
    CASES,
    DRY_CASES,
    Case,
    Pair,
    guarded,
    loops,
    shape,
    wrong_bytes,
)
from benchmarks.gpu.pairs import pairs as all_pairs
from benchmarks.gpu.stage import Bench
from kvlitmus.optimized.data.kernels import DEVICE, LINK, OUT, Launch, PagedCopy
from kvlitmus.optimized.data.shape import KVShape

SOURCE_PAGES, TARGET_PAGES, MOVED = 11, 13, 7
MOVER_PAGES, STREAM_PAGES = 40, 64


def launch_of(bench: Bench, pair: Pair) -> Launch:
    """The launch that is checked: the one that is used, over the link either way or on the device."""
    if bench.dry:
        return TINY
    if pair.target_host:
        return OUT
    return LINK if pair.source_host else DEVICE


def chosen_pairs(bench: Bench) -> list[tuple[Case, Pair]]:
    """All cases in all pairs of layouts; a few of them in a dry run."""
    chosen = [(case, pair) for case in (DRY_CASES if bench.dry else CASES) for pair in all_pairs()]
    return chosen[::5] if bench.dry else chosen


def pairs(bench: Bench) -> None:
    """Every pair of layouts, for every case of element type, page size and row length."""
    machine = bench.machine
    chosen = chosen_pairs(bench)
    done, wrong = 0, []
    for case, pair in chosen:
        if bench.left() < 1.0:
            break
        of = shape(*case)
        trouble = one(machine, of, pair, launch_of(bench, pair))
        done += 1
        if trouble:
            wrong.append(f"{'/'.join(map(str, case))}, {pair.text}: {trouble}")
    note = "" if done == len(chosen) else f"{len(chosen) - done} more were not reached in time"
    bench.record.check("layout pairs x element types x page sizes x row lengths", done, wrong, note)


def one(machine: Machine, of: KVShape, pair: Pair, launch: Launch) -> str:
    """One copy of random pages; what is wrong with it, or nothing."""
    source = guarded(machine, of, SOURCE_PAGES, pair.source, host=pair.source_host)
    target = guarded(machine, of, TARGET_PAGES, pair.target, host=pair.target_host)
    here, there = machine.pages(SOURCE_PAGES)[:MOVED], machine.pages(TARGET_PAGES)[:MOVED]
    wanted = after(source.pool, target.pool, here, there)
    guards = target.guards
    copy = PagedCopy(loops(of, pair, (SOURCE_PAGES, TARGET_PAGES)), launch)
    tables = [torch.from_numpy(pages).to(machine.device) for pages in (here, there)]
    stream = torch.cuda.current_stream().cuda_stream if machine.cuda else 0
    machine.sync()
    copy(
        source.pool.address,
        target.pool.address,
        (tables[0].data_ptr(), tables[1].data_ptr()),
        MOVED,
        stream=stream,
    )
    machine.sync()
    return wrong_bytes(target, wanted, guards)


def movers(bench: Bench) -> None:
    """Whole transfers through the mover that the cache uses, both ways, for every host layout and some shapes."""
    machine = bench.machine
    cases = DRY if bench.dry else SHAPES
    done, wrong = 0, []
    for of, layout in cases:
        if bench.short(2):
            break
        world = World.make(machine, of(), layout, pages=6 if bench.dry else MOVER_PAGES)
        for trouble in (world.round_trip(machine), world.layer_by_layer(machine)):
            done += 1
            wrong += [f"{layout}: {trouble}"] if trouble else []
        world.close()
    note = "" if done == 2 * len(cases) else f"{2 * len(cases) - done} more were not reached in time"
    bench.record.check("transfers there and back, and layers as they get ready", done, wrong, note)


ATTEMPTS = {
    "a backup waits for a producer that is late": "late_producer",
    "a load waits for a reader that is late": "late_reader",
    "layers that are ready are there": "layer_by_layer",
    "dropped tickets: nothing is torn, nothing is reused too soon": "dropped",
    "cancelled loads: layers are whole, nothing is written after the end": "cancelled",
    "both ways at once, many in flight": "crowded",
}


def streams(bench: Bench) -> None:
    """Late producers, late readers, dropped and cancelled transfers, many in flight; by every engine in turn.

    The caller computes on the default stream, then on a stream of its own.
    """
    machine = bench.machine
    rounds = 1 if bench.dry else 10
    cases: list[tuple[str, str]] = []
    wrong: dict[str, list[str]] = {name: [] for name in ATTEMPTS}
    for of, layout in DRY if bench.dry else STREAMED:
        world = World.make(machine, of(), layout, pages=6 if bench.dry else STREAM_PAGES)
        for engine in ("kernel", "dma") if machine.cuda else ("torch",):
            mine = world.by(load_engine=engine, backup_engine=engine)
            for own in (False, True):
                with torch.cuda.stream(torch.cuda.Stream() if own and machine.cuda else None):
                    for name, attempt in ATTEMPTS.items():
                        for _ in range(rounds):
                            if bench.short(1):
                                break
                            trouble = getattr(mine, attempt)(machine)
                            cases.append((name, engine))
                            if trouble:
                                wrong[name].append(f"{layout}, {engine}, own stream {own}: {trouble}")
                    machine.sync()
            mine.close()
        world.close()
    for name, found in wrong.items():
        bench.record.check(name, sum(case[0] == name for case in cases), found)
