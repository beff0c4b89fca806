"""From which chunk size on the copy engine is faster than the kernel, on this machine.

``optimized/data/copies.py`` chooses by declared sizes.  Here both engines move layer-first pages of 4 KiB to 1 MiB per
chunk, both ways; the smallest size from which on the copy engine is never slower is what :class:`Choice` should have.
Beside it: whole pages as rectangles, one ``cudaMemcpy2DAsync`` each, which is what a page-first host page and a
layer-first device pool have in common.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.baselines import runtime
from benchmarks.gpu.copies import ROWS
from benchmarks.gpu.device import KIB, MIB, repeat, summary
from benchmarks.gpu.movers import World
from benchmarks.gpu.overlap import one_shot
from benchmarks.gpu.stage import Bench
from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.kernels import Launch
from kvlitmus.optimized.data.measured import fastest
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape

SIZES = tuple(size * KIB for size in (4, 8, 16, 32, 64, 128, 256, 1024))
PAYLOAD = 256 * MIB
NEVER = 1 << 62


def shape_of(chunk: int) -> KVShape:
    """Layer-first chunks of this size: one token of one long head per page."""
    return KVShape(layers=8, head_dim=chunk, dtype=torch.uint8, page_size=1)


def cases(bench: Bench) -> Iterator[tuple[int, KVShape, int]]:
    """Chunk size, shape, pages of the pools."""
    for chunk in (512, 1024) if bench.dry else SIZES:
        of = shape_of(chunk)
        yield chunk, of, (2 if bench.dry else PAYLOAD // of.page_bytes) + 1


def choice(bench: Bench) -> None:
    """Both engines at every chunk size, and what follows from it."""
    machine = bench.machine
    engines = ("kernel", "dma") if machine.cuda else ("kernel", "torch")
    speeds: dict[str, dict[int, dict[str, float]]] = {"h2d": {}, "d2h": {}}
    for chunk, of, pages in cases(bench):
        if bench.short(2):
            break
        host, device = HostPool(of, pages, layout="layer_first"), DevicePool(of, pages, device=machine.device)
        machine.fill(host.buffer)
        machine.fill(device.buffer)
        for direction, pools in (("h2d", (host, device)), ("d2h", (device, host))):
            for engine in engines:
                facts = {"name": f"{direction} {chunk / KIB:g} KiB", "way": engine, "chunk": chunk}
                measure = partial(_measure, bench, pools, engine, (pages - 1) * of.page_bytes)
                if bench.record.tried("choice", facts, measure):
                    speeds[direction].setdefault(chunk, {})[engine] = bench.record.rows[-1]["gb_s"]
    names = {"h2d": "to_device", "d2h": "to_host"}
    bench.record.head["choice"] = {names[way]: crossing(speeds[way], engines) for way in speeds}
    _tried(bench)
    for size in (1 * MIB, 2 * MIB, 8 * MIB):
        _rectangles(bench, size)


def _tried(bench: Bench) -> None:
    """Which engines a mover takes for the rows of the table when it is asked to measure."""
    found = bench.record.head["measured"] = {}
    for row in ROWS:
        if bench.short(2):
            break
        world = World.make(bench.machine, row.shape(bench), row.host, pages=3)
        room = 4096 if bench.dry else None
        sides = {way: world.sides(way) for way in ("h2d", "d2h")}
        trials = {way: fastest(*sides[way], by_layer=way == "h2d", room=room) for way in sides}
        found[row.label] = {way: trial.engine for way, trial in trials.items()}
        for way, trial in trials.items():
            for engine, why in trial.refused.items():
                bench.record.failed("choice", {"name": f"{way} {row.label}, tried", "way": engine}, RuntimeError(why))
        world.close()


def crossing(speeds: dict[int, dict[str, float]], engines: tuple[str, str]) -> int:
    """The smallest chunk from which on the second engine is never slower than the first; :data:`NEVER` if none is."""
    best = NEVER
    for chunk in sorted(speeds, reverse=True):
        kernel, other = (speeds[chunk].get(engine, 0.0) for engine in engines)
        if other < kernel:
            break
        best = chunk
    return best


def _measure(bench: Bench, pools: Any, engine: Any, payload: int) -> dict[str, Any]:
    launch = Launch(programs=2, warps=4, tile=256) if bench.dry else None
    copy = PageCopy(*pools, engine=engine, launch=launch)
    return summary(repeat(partial(one_shot, bench.machine, copy), bench.repeats(4)), payload)


def _rectangles(bench: Bench, page: int) -> None:
    """Page-first pages of 64 parts on the host, layer-first on the device, in random order: one rectangle a page."""
    machine = bench.machine
    parts, pages = 64, 64 if bench.dry else (1 << 30) // page
    chunk = 16 if bench.dry else page // parts
    host = machine.host_bytes(parts * pages * chunk).view(pages, parts, chunk)
    device = machine.device_bytes(parts * pages * chunk).view(parts, pages, chunk)
    for direction in ("h2d", "d2h"):
        facts = {"name": f"{direction} whole pages of {page // MIB} MiB, one 2D copy each", "way": "2d", "chunk": 0}
        bench.record.tried("choice", facts, partial(_rectangle, bench, host, device, direction))
    machine.free()


def _rectangle(bench: Bench, host: torch.Tensor, device: torch.Tensor, direction: str) -> dict[str, Any]:
    pairs = list(zip(bench.machine.pages(len(host), 0), bench.machine.pages(len(host), 0), strict=True))
    (device if direction == "h2d" else host).zero_()
    work = partial(_rectangle_copies, host, device, pairs, direction)
    found = repeat(partial(bench.machine.events, work), bench.repeats(4))
    exact = all(torch.equal(host[int(one)].cpu(), device[:, int(other)].cpu()) for one, other in pairs[:5])
    return {"exact": exact, **summary(found, host.numel())}


def _rectangle_copies(host: torch.Tensor, device: torch.Tensor, pairs: list[Any], direction: str) -> None:
    library = runtime()
    parts, _, chunk = device.shape
    pitches = (ctypes.c_size_t(device.stride(0)), ctypes.c_size_t(chunk))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for one, other in pairs:
        sides = [
            (ctypes.c_void_p(device.data_ptr() + int(other) * chunk), pitches[0]),
            (ctypes.c_void_p(host.data_ptr() + int(one) * parts * chunk), pitches[1]),
        ]
        (target, target_pitch), (source, source_pitch) = sides if direction == "h2d" else reversed(sides)
        code = library.cudaMemcpy2DAsync(
            target,
            target_pitch,
            source,
            source_pitch,
            ctypes.c_size_t(chunk),
            ctypes.c_size_t(parts),
            ctypes.c_int(4),  # cudaMemcpyDefault: the addresses tell
            ctypes.c_void_p(stream.cuda_stream),
        )
        if code:
            raise RuntimeError(f"cudaMemcpy2DAsync returned {code}")
    torch.cuda.current_stream().wait_stream(stream)
