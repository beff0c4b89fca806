"""Spreading: shards are played by an executor, whatever happens to its workers.

A worker that dies costs its shard one try.  If another one dies of it, the shard is halved, and so on, until a single
item is left.  That is played once more while nothing else is, so that nobody is taken for what a neighbour did to the
machine; if it ends that worker too, it is told as lost, and everything else of its shard is played.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from kvlitmus.conformance.shards.executors import Executor
from kvlitmus.conformance.shards.shard import Summary
from kvlitmus.conformance.support.text import harmless

Submit = Callable[[range], Future[Summary]]
"""Has the items of a part played."""

BEAT = 0.5
"""Seconds between two looks of whoever waits."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a part: its summary, or, for a single item that ended each worker, how that showed."""

    part: range
    summary: Summary | None
    lost: str = ""


def spread(
    executor: Executor, parts: Iterable[range], submit: Submit, beat: Callable[[], None] = lambda: None
) -> Iterator[Done]:
    """What becomes of each part, or of its halves, as soon as it is known; raises what a shard raises.

    beat: called now and then while nothing comes.
    """
    waiting = deque(parts)
    alone: deque[range] = deque()
    again: set[range] = set()
    running: dict[Future[Summary], range] = {}
    while running or waiting or alone:
        while waiting and len(running) < executor.at_once:
            part = waiting.popleft()
            running[submit(part)] = part
        last = not running
        if last:
            part = alone.popleft()
            running[submit(part)] = part
        done, _ = wait(running, BEAT, FIRST_COMPLETED)
        while last and not done:
            beat()
            done, _ = wait(running, BEAT, FIRST_COMPLETED)
        beat()
        for future in done:
            part = running.pop(future)
            try:
                yield Done(part, future.result())
            except executor.lost as error:
                if last:
                    yield Done(part, None, harmless(error, 300))
                elif len(part) == 1:
                    alone.append(part)
                elif part in again:
                    half = len(part) // 2
                    again |= {part[:half], part[half:]}
                    waiting.extend([part[:half], part[half:]])
                else:
                    again.add(part)
                    waiting.append(part)
