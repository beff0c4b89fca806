"""Every kernel of a run, compiled by several processes before the first is needed.

A kernel takes half a second to compile and a run has some hundred; compiled one by one where they are launched they
would take the time that is meant for measuring.  What is missing here is compiled there, later but just as well.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.gpu import choice, copies, correct, movers, overlap, pairs
from benchmarks.gpu.device import GIB
from benchmarks.gpu.stage import Bench
from kvlitmus.optimized.data.kernels import DEVICE, LINK, OUT, Launch, compile_for, target_of
from kvlitmus.optimized.data.layout import Layout, Nest, nest, strides
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.staged import PARTS, PIECE


class Job(NamedTuple):
    """One kernel."""

    loops: Nest
    launch: Launch
    signal: bool


def transfers_of(of: KVShape, layout: Layout, pages: int, launch: Launch | None = None) -> Iterator[Job]:
    """What a mover launches between a host pool and a layer-first device pool, and a load in one shot."""
    host, device = strides(layout, of, pages), strides("layer_first", of, pages)
    inward, outward = launch or LINK, launch or OUT
    yield Job(nest(of, host, device, by_layer=True), inward, True)
    yield Job(nest(of, host, device), inward, False)
    yield Job(nest(of, device, host), outward, False)
    if layout != "layer_first":
        stage = strides(layout, of, PARTS * max(1, PIECE // of.page_bytes))
        yield Job(nest(of, stage, device), inward, False)
        yield Job(nest(of, device, stage), inward, False)


def jobs(bench: Bench) -> Iterator[Job]:
    """The kernels of all stages, in the order of the stages."""
    for case, pair in correct.chosen_pairs(bench):
        of = pairs.shape(*case)
        pages = (correct.SOURCE_PAGES, correct.TARGET_PAGES)
        yield Job(pairs.loops(of, pair, pages), correct.launch_of(bench, pair), False)
    for make, layout in movers.SHAPES:
        yield from transfers_of(make(), layout, correct.MOVER_PAGES)
    for make, layout in movers.STREAMED:
        yield from transfers_of(make(), layout, correct.STREAM_PAGES)
    for row in copies.ROWS:
        of = row.shape(bench)
        yield from transfers_of(of, row.host, copies.pages_of(bench, row))
    for row in overlap.QUOTA_ROWS:
        for shape in overlap.LAUNCHES:
            yield from transfers_of(row.shape(bench), row.host, copies.pages_of(bench, row), Launch(*shape))
    for _, heads, page, one, other, _ in copies.DEVICE_CASES:
        of = copies.Row("", 0, heads, page, one, None).shape(bench)
        pages_there = GIB // of.page_bytes + 1
        yield Job(nest(of, strides(one, of, pages_there), strides(other, of, pages_there)), DEVICE, False)
    for _, of, layout, most in overlap.SUBMITTED:
        yield from transfers_of(of, layout, most + 1)
    for _, of, pages_there in choice.cases(bench):
        yield from list(transfers_of(of, "layer_first", pages_there))[1:]


def _compile(job: Job, target: Any) -> None:
    compile_for(job.loops, job.launch, signal=job.signal, target=target)


def compile_ahead(bench: Bench) -> None:
    """Fill Triton's cache; how far it got is in the record."""
    wanted = list(dict.fromkeys(jobs(bench)))
    if bench.dry:
        bench.record.head["compiled_ahead"] = f"none of {len(wanted)}: a dry run interprets"
        return
    workers = max(2, min(14, (os.cpu_count() or 2) - 1))
    target = target_of(0)
    pool = concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    waiting = [pool.submit(_compile, job, target) for job in wanted]
    done, late = concurrent.futures.wait(waiting, timeout=max(5.0, bench.left() - 5.0))
    failed = [trouble for trouble in (future.exception() for future in done) if trouble]
    pool.shutdown(wait=False, cancel_futures=True)
    said = f"{len(done) - len(failed)} of {len(wanted)} kernels by {workers} processes, {len(late)} late"
    bench.record.head["compiled_ahead"] = said + (f", {len(failed)} failed: {failed[0]!r}" if failed else "")
    if failed and len(failed) == len(done):
        raise RuntimeError(f"no kernel could be compiled: {failed[0]!r}")
