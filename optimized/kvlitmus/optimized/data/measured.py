"""Which engine is fastest between two pools on this machine, found out by trying.

Declared sizes (:class:`~kvlitmus.optimized.data.copies.Choice`) are right for most machines and wrong for some: whether
a kernel or the copy engine is ahead at 32 KiB depends on link and driver, and whether staging pays, on both.  A trial
copies random pages between scratch pools of the same shape and layouts, some tens of milliseconds per engine.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field

import numpy as np

from kvlitmus.optimized.data.copies import Engine, PageCopy, reachable
from kvlitmus.optimized.data.kernels import Launch
from kvlitmus.optimized.data.pools import DevicePool, HostPool, KVPool

SCRATCH = 64 << 20
"""Bytes of a scratch pool, at least two pages."""

REPEATS = 3
"""Copies of which the fastest counts, after one that doesn't."""


@dataclass(slots=True)
class Trial:
    """What came of trying: the fastest engine, the seconds of each, and why the others could not be tried."""

    engine: Engine
    seconds: dict[Engine, float] = field(default_factory=dict)
    refused: dict[Engine, str] = field(default_factory=dict)


def fastest(
    source: KVPool, target: KVPool, *, by_layer: bool, launch: Launch | None = None, room: int | None = None
) -> Trial:
    """Try every engine that can copy from one pool to the other; the pools themselves are not touched.

    by_layer: whether layers are to be ready one by one, which staged copies can't.  room: bytes of a scratch pool,
    by default :data:`SCRATCH`.  Raises ``RuntimeError`` if none of
    them works, ``MemoryError`` or torch's own error where there is no room for the scratch pools.
    """
    engines = candidates(source, target, by_layer=by_layer)
    trial = Trial(engines[0])
    if len(engines) == 1:
        return trial
    pages = max(2, (SCRATCH if room is None else room) // source.shape.page_bytes)
    one, other = scratch(source, pages), scratch(target, pages)
    for engine in engines:
        try:
            trial.seconds[engine] = seconds(
                PageCopy(one, other, engine=engine, launch=launch, by_layer=by_layer), pages
            )
        except RuntimeError as error:
            trial.refused[engine] = str(error)
    if not trial.seconds:
        raise RuntimeError(f"no engine copies between these pools: {trial.refused}", trial.refused)
    trial.engine = min(trial.seconds, key=lambda engine: trial.seconds[engine])
    return trial


def candidates(source: KVPool, target: KVPool, *, by_layer: bool) -> list[Engine]:
    """The engines that can serve two pools, ``torch`` only where nothing else can."""
    cuda = [pool for pool in (source, target) if pool.device.type == "cuda"]
    if not cuda or not (reachable(source) and reachable(target)):
        return ["torch"]
    found: list[Engine] = ["dma"]
    if importlib.util.find_spec("triton"):
        found.append("kernel")
        host = target if source.device.type == "cuda" else source
        if len(cuda) == 1 and not by_layer and host.layout != "layer_first":
            found.append("staged")
    return found


def seconds(copy: PageCopy, pages: int) -> float:
    """The fastest of some copies of all pages, in a random order on both sides."""
    copy.prepare()
    rng = np.random.default_rng(1)
    tables = copy.tables(rng.permutation(pages), rng.permutation(pages))
    taken = []
    for _ in range(1 + REPEATS):
        begun = time.perf_counter()
        copy.finish(tables)
        taken.append(time.perf_counter() - begun)
    return min(taken[1:])  # the first pays for what is done once


def scratch(pool: KVPool, pages: int) -> KVPool:
    """A pool of the same kind with so many pages."""
    if isinstance(pool, HostPool):
        return HostPool(pool.shape, pages, layout=pool.layout, pinned=pool.pinned)
    return DevicePool(pool.shape, pages, device=pool.device, layout=pool.layout)
