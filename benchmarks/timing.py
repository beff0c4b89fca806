"""Taking time: several contenders in turn, in one process, many rounds, the garbage collector off.

What other processes do to a machine only ever makes a call slower, so the least of many rounds says what
the code costs; the median says how noisy it was.  Contenders take turns within each round, and the order
changes from round to round, so that a slow minute hits all of them.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

NOISY = 2.0
"""A series whose median is more than this many times its least is called noisy."""

ATTEMPTS = 2
"""How often a noisy measurement is tried before it is reported as it is."""

BATCH = 150e-6
"""Calls that need no preparation are timed in batches of about this long, in seconds."""

SLICE = 3e-3
"""How long each contender's turn is at least, in seconds, where calls need no preparation: all get the same time, so
that nobody is judged by its first call after another one has emptied the processor's caches."""

Call = Callable[[], Any]


@dataclass(frozen=True)
class Stat:
    """Times of one contender in microseconds per call; ``rounds``: how many times were taken."""

    least: float
    median: float
    mean: float
    rounds: int

    @property
    def noisy(self) -> bool:
        """Whether the times differ so much that the least may be luck."""
        return self.median > NOISY * self.least


@dataclass
class Action:
    """What is timed.

    run: the call.  before, after: what has to be done around every single call, outside of the clock.
    times: single calls, or batches, per round.  batch: calls per batch; found out when it is 0.  clock: nanoseconds;
    of the thread's CPU time where a call takes so long that other processes come in between.
    """

    run: Call
    before: Call | None = None
    after: Call | None = None
    times: int = 1
    batch: int = 0
    clock: Callable[[], int] = time.perf_counter_ns
    seen: list[float] = field(default_factory=list)

    def settle(self) -> None:
        """Find out how many calls make a batch; calls that need preparation are timed one by one."""
        if self.before is not None or self.after is not None:
            self.batch = 1
        if self.batch:
            return
        self.run()
        started = time.perf_counter()
        self.run()
        self.batch = max(1, min(1000, int(BATCH / max(1e-7, time.perf_counter() - started))))

    def round(self) -> None:
        """Take the times of one round."""
        ready = self.before is None and self.after is None
        until = time.perf_counter() + (SLICE if ready else 0)
        for turn in itertools.count():
            if turn >= self.times and time.perf_counter() >= until:
                break
            if self.before is not None:
                self.before()
            calls = itertools.repeat(None, self.batch)
            run, clock = self.run, self.clock
            started = clock()
            for _ in calls:
                run()
            spent = clock() - started
            if self.after is not None:
                self.after()
            self.seen.append(spent / self.batch / 1e3)

    def stat(self) -> Stat:
        """What was seen so far."""
        least, middle = min(self.seen), statistics.median(self.seen)
        return Stat(round(least, 3), round(middle, 3), round(statistics.fmean(self.seen), 3), len(self.seen))


@contextmanager
def quiet() -> Iterator[None]:
    """The garbage collector off, and what is alive now out of sight; it stays there where others hid some."""
    was, hidden = gc.isenabled(), gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if not hidden:
            gc.unfreeze()
        if was:
            gc.enable()


def measure(actions: Mapping[str, Action], *, rounds: int, judged: tuple[str, ...] = ()) -> dict[str, Stat]:
    """Time all actions in turn; when one of ``judged`` is noisy, try again, and keep the quietest attempt."""
    best: dict[str, Stat] = {}
    for _ in range(ATTEMPTS):
        found = _attempt(actions, rounds)
        if not best or _noise(found, judged) < _noise(best, judged):
            best = {**found}
        if not any(found[name].noisy for name in judged if name in found):
            break
    return best


def _attempt(actions: Mapping[str, Action], rounds: int) -> dict[str, Stat]:
    names = list(actions)
    for name in names:
        actions[name].seen.clear()
    with quiet():
        for name in names:
            actions[name].settle()
        for turn in range(rounds):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                actions[name].round()
    return {name: actions[name].stat() for name in names}


def _noise(found: Mapping[str, Stat], judged: tuple[str, ...]) -> float:
    return max((found[name].median / found[name].least for name in judged if name in found), default=0.0)
