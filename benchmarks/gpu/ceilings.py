"""The ceilings of this machine, measured in the run that is judged by them.

Pinned ``cudaMemcpyAsync`` of 1 GiB each way (the copy engine), both ways at once, a device-to-device copy, and a large
matrix product.  They are measured before and after the table, so that a machine that drifts is seen.
"""

from __future__ import annotations

import torch

from benchmarks.gpu.device import GIB, KIB, Machine, repeat, summary
from benchmarks.gpu.stage import Bench

REPEATS = 9


def ceilings(bench: Bench, moment: str = "before") -> None:
    """Measure all of them; they are kept under ``ceiling`` for the stages that follow."""
    machine = bench.machine
    size = 64 * KIB if bench.dry else GIB
    repeats = bench.repeats(REPEATS)
    host, other = machine.host_bytes(size), machine.host_bytes(size)
    first, second = machine.device_bytes(size), machine.device_bytes(size)
    found = {
        "h2d": repeat(lambda: machine.events(lambda: first.copy_(host, non_blocking=True)), repeats, 2),
        "d2h": repeat(lambda: machine.events(lambda: host.copy_(first, non_blocking=True)), repeats, 2),
        "d2d": repeat(lambda: machine.events(lambda: second.copy_(first)), repeats, 2),
    }
    found["both"] = repeat(lambda: machine.events(lambda: _both(machine, first, second, host, other)), repeats, 2)
    kept: dict[str, float] = bench.kept.setdefault("ceiling", {})
    for name, seconds in found.items():
        payload = 2 * size if name == "both" else size
        row = bench.record.row("ceilings", name=name, moment=moment, **summary(seconds, payload))
        # The best of its repeats: nothing may look better because its ceiling was measured badly.
        kept[name] = max(kept.get(name, 0.0), row["best_gb_s"])
    bench.record.head["ceiling"] = dict(kept)
    if not (first.cpu() == host).all():
        raise RuntimeError("a plain copy of this machine is not exact")


def _both(machine: Machine, first: torch.Tensor, second: torch.Tensor, host: torch.Tensor, other: torch.Tensor) -> None:
    """One copy each way on streams of their own; the current stream waits for both."""
    if not machine.cuda:
        first.copy_(host)
        other.copy_(second)
        return
    here = torch.cuda.current_stream()
    up, down = torch.cuda.Stream(), torch.cuda.Stream()
    for stream, target, source in ((up, first, host), (down, other, second)):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
    for stream in (up, down):
        here.wait_stream(stream)


def ceilings_after(bench: Bench) -> None:
    """The same again, after the table."""
    ceilings(bench, "after")
