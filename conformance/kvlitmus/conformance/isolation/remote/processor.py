"""One processor for two processes that never run at the same time: a worker asks, the cache answers.

On two processors each message wakes one that sleeps, and what it needs is in the other's memory: that costs more than
the message.  The processor is chosen anew for each item, and left where an answer is long in coming, so no pair stays
for long on one that others use.  No verdict depends on it: where the system refuses, or isn't Linux, nothing changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvlitmus.conformance.isolation.process import descendants
from kvlitmus.conformance.isolation.remote.process import Line

PROCESSOR = 36
"""Where ``/proc/PID/stat`` says on which processor a thread runs, behind its name and the state."""


class Processor:
    """The processor that this thread shares with processes.

    before: the processors that all of them might use; none while nothing is shared.  shared: the one.  lines: those of
    the processes with which it is shared.
    """

    def __init__(self) -> None:
        self.before: set[int] = set()
        self.shared: set[int] = set()
        self.lines: list[Line] = []

    @contextmanager
    def with_all(self, lines: Iterable[Line]) -> Iterator[None]:
        """Meanwhile the processes of these lines run where this thread runs now."""
        try:
            self.share(lines)
        except OSError:
            self.part()
        try:
            yield
        finally:
            self.part()

    def share(self, lines: Iterable[Line]) -> None:
        """Keep these processes where this thread is, and this thread with them.

        One with threads of its own is left alone, which may run while this thread does; so is one that has chosen its
        processors.
        """
        if sys.platform != "linux":
            return
        before = os.sched_getaffinity(0)
        shared = {running_on()}
        if not shared < before:
            return
        self.before, self.shared = before, shared
        for line in lines:
            with suppress(OSError):
                if line.open and threads(line.pid) == [line.pid] and os.sched_getaffinity(line.pid) == before:
                    os.sched_setaffinity(line.pid, shared)
                    self.lines.append(line)
        if self.lines:
            os.sched_setaffinity(0, shared)

    def part(self) -> None:
        """Each may use again what it might before, with all that it has started meanwhile."""
        if sys.platform != "linux" or not self.before:
            return
        caches = [line.pid for line in self.lines if line.open]
        started = [one for cache in caches for one in descendants(cache)]
        for pid in (os.getpid(), *caches, *started):
            for thread in threads(pid):
                with suppress(OSError):
                    if os.sched_getaffinity(thread) == self.shared:
                        os.sched_setaffinity(thread, self.before)
        self.before, self.lines = set(), []


def running_on() -> int:
    """The processor on which this thread runs."""
    return int(Path("/proc/thread-self/stat").read_bytes().rpartition(b")")[2].split()[PROCESSOR])


def threads(pid: int) -> list[int]:
    """The threads of a process by number; none of one that has ended."""
    with suppress(OSError):
        return [int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()]
    return []
