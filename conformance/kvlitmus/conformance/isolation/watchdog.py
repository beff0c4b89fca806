"""The watchdog: for how long a worker could have made progress, and made none.

A time limit by the wall clock blames a cache for the machine: a call that takes a millisecond takes
seconds where twenty processes share two cores.  So what counts towards the limit is the time in which
nothing but the cache was in the way: not the time in which a thread of the worker was ready to run and got no
processor, waited for a disk, or was stopped, nor the time in which the supervisor itself didn't get
to look.  A call that sleeps, spins or waits for a lock has no such excuse.

None of this makes a hang go unnoticed, only later: a tenth of the time counts in any case.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple

LOOK_SECONDS = 0.3
"""The supervisor means to look every 0.1 s.  Of a longer pause no more than this counts: nobody listened meanwhile."""

BETWEEN_SECONDS = 0.05
"""Looks closer together than this are one."""

SHARE = 0.1
"""The share of the time that counts whatever held the worker up: a process that stops itself hangs, too."""


class Thread(NamedTuple):
    """A thread as the system tells of it: ``state`` as in ``/proc/PID/stat``, seconds that it ran, seconds that it
    was ready to run and waited for a processor, and how often it got one; -1 where the system doesn't tell.
    """

    state: str
    ran: float = 0.0
    waited: float = 0.0
    turns: int = -1


def threads_of(pid: int) -> dict[str, Thread]:
    """The threads of a process, by their number (Linux); none where the system doesn't tell."""
    found: dict[str, Thread] = {}
    with suppress(OSError):
        for folder in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, ValueError, IndexError):  # it may be gone by now
                state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0].decode()
                found[folder.name] = Thread(state)
                ran, waited, turns = map(int, (folder / "schedstat").read_bytes().split())
                found[folder.name] = Thread(state, ran / 1e9, waited / 1e9, turns)
    return found


def held_up(before: dict[str, Thread], now: dict[str, Thread], seconds: float) -> float:
    """For how many of the last ``seconds`` the machine kept the worker from going on, as far as is known.

    It is the thread that waited longest that counts: others may need what it has locked.  The system adds up what
    a thread has waited when it runs again; one that is ready both times and had no turn in between has waited,
    or run, all the time.
    """
    longest = 0.0
    for name, thread in now.items():
        earlier = before.get(name, thread)
        waited = thread.waited - earlier.waited
        if thread.state in ("T", "t", "D"):
            waited = seconds
        elif thread.state == earlier.state == "R" and name in before and thread.turns == earlier.turns >= 0:
            waited = max(waited, seconds - (thread.ran - earlier.ran))
        longest = max(longest, waited)
    return min(longest, seconds)


class Watchdog:
    """What is left of the patience with one process; ``spent``: seconds without progress that count."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.renew()

    def renew(self) -> None:
        """There was progress."""
        self.spent = 0.0
        self.looked = monotonic()
        self.seen: dict[str, Thread] = {}

    def look(self) -> float:
        """Look at the process; the seconds that count so far."""
        passed = monotonic() - self.looked
        if passed >= BETWEEN_SECONDS:
            seen = threads_of(self.pid)
            passed = min(passed, LOOK_SECONDS)
            self.spent += max(passed * SHARE, passed - held_up(self.seen, seen, passed))
            self.looked, self.seen = monotonic(), seen
        return self.spent
