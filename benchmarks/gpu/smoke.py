"""The first that an engine does: some pages there and back, byte by byte, and layer by layer.

What would hang, crash or copy wrongly at once does so here, in twenty seconds, and not in the middle of the table.
Each step is said before it is made, so that a record says where a hang was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.gpu.device import Machine
from benchmarks.gpu.movers import DRY, SHAPES, World
from benchmarks.gpu.stage import Bench
from kvlitmus.optimized.data.copies import Engine

PAGES = 24
LATE = 15.0
"""Seconds after which a thread that submits counts as lost."""


def smoke(engine: Engine, bench: Bench) -> None:
    """One engine both ways, for a host pool of whole pages, and of layers where the engine serves one."""
    machine = bench.machine
    wrong: list[str] = []
    cases = 0
    layouts = [one for one in (DRY if bench.dry else SHAPES[:2]) if engine != "staged" or one[1] != "layer_first"]
    for make, layout in layouts:
        print(f"{engine}, host {layout}: pools and mover")
        world = World.make(machine, make(), layout, pages=6 if bench.dry else PAGES)
        options = {"launch": tiny()} if bench.dry and engine == "kernel" else {}
        mine = world.by(load_engine=engine, backup_engine=engine, **options)
        steps: dict[str, Callable[[], str]] = {
            "there and back": partial(mine.round_trip, machine),
            "layer by layer": partial(mine.layer_by_layer, machine),
            "from a thread that has not used the device": partial(elsewhere, mine, machine),
        }
        for name, step in steps.items():
            print(f"{engine}, host {layout}: {name}")
            cases += 1
            if trouble := step():
                wrong.append(f"host {layout}, {name}: {trouble}")
        mine.close()
        world.close()
    bench.record.check(f"smoke of {engine}", cases, wrong)


def tiny() -> object:
    """A launch that the interpreter can run in time."""
    from benchmarks.gpu.copies import TINY

    return TINY


def elsewhere(world: World, machine: Machine) -> str:
    """The same from a thread whose first call of CUDA this is."""
    said: list[str] = []

    def work() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream() if machine.cuda else None):
                said.append(world.round_trip(machine))
        except Exception as error:  # noqa: BLE001  whatever it is, it is what is wrong
            said.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LATE)
    return said[0] if said else f"not over in {LATE:.0f} s"
