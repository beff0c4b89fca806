"""Two processes, each with its own cache: what a request costs in each of them, beside what it costs in one alone.

Started by itself it is one of these processes: it gets ready, says so, waits for a line, replays the trace and prints
the microseconds of CPU time per request.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.control.rows import PAGE, Peers
from benchmarks.control.trace import CAPACITIES, replay_one, requests, warm, warm_capacity
from benchmarks.record import started

LEFT_OUT = ("python", "radix")
"""Contenders whose single pass takes long and tells nothing more."""


def start(release: str | None, number: int, trace: str, limit: int | None) -> subprocess.Popen[str]:
    """One process, ready to replay; raises ``RuntimeError`` where it isn't."""
    wanted = json.dumps({"release": release, "number": number, "trace": trace, "limit": limit})
    child = started("benchmarks.control.pair", wanted, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    if child.stdout.readline() != "ready\n":
        child.kill()
        raise RuntimeError(f"a process that was to replay the trace ended with exit code {child.wait()}")
    return child


def replayed(children: list[subprocess.Popen[str]]) -> float:
    """Let them replay at the same time: microseconds of CPU time per request, the mean of all."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    found = [float(child.communicate()[0]) for child in children]
    return sum(found) / len(found)


def measure(
    release: str | None, trace: str, limit: int | None, passes: int, tell: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """For each contender the least over the passes, alone and in a pair, which take turns."""
    seen: dict[str, dict[str, list[float]]] = {}
    names = [make().name for make in Peers(release).makers(PAGE, 100 * PAGE)]
    for turn in range(passes):
        for number, name in enumerate(names):
            for kind, many in (("alone", 1), ("pair", 2)) if name not in LEFT_OUT else ():
                tell(f"pass {turn + 1} of {passes}, {name}, {kind}")
                children = [start(release, number, trace, limit) for _ in range(many)]
                seen.setdefault(name, {}).setdefault(kind, []).append(replayed(children))
    return {name: {kind: round(min(values), 3) for kind, values in kinds.items()} for name, kinds in seen.items()}


def main() -> int:
    """Be one of the processes."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    trace = requests(wanted["trace"], wanted["limit"])
    makers, number = Peers(wanted["release"]).makers, wanted["number"]
    warm(makers(PAGE, warm_capacity(trace))[number](), trace)
    cache = makers(PAGE, CAPACITIES[0])[number]()
    print("ready", flush=True)
    sys.stdin.readline()
    _, spent = replay_one(cache, trace)
    print(spent.mean() / 1e3)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
