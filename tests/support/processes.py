"""Processes that tests start, and how long anything may take: a busy machine makes tests slow, never red.

A limit here tells a hang from slow work and nothing else, so it is far above what the slowest machine needs.
What somebody sees as *quick* is measured in ``benchmarks/``, never in a test.

Every process that a test starts inherits a mark in its environment.  So what a test leaves behind is found, however
far it has gone from its parent, ended, and held against the test (``tests/conftest.py``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kvlitmus.conformance.adapters.stores import scratch

LIMIT = 1500.0
"""Seconds after which what a test waits for hangs for certain."""

MARK = "KVLITMUS_STARTED_BY_TEST"
"""The variable that marks what tests start; its value is the process that runs the tests."""

IGNORED = "KVLITMUS_TESTS_IGNORE"
"""The variable that tells the processes that run tests which signals the first of them was started to ignore."""

KERNEL = "2"
"""The process whose children are the kernel's own threads."""

TRUSTED = 10.0
"""For so many seconds a number stands for the process that it stood for: the system goes through all others first."""

HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", scratch.KEEPER)
"""Parts of command lines of processes that end with the one that runs the tests, whatever becomes of it."""


def run(command: Sequence[str], *, timeout: float = LIMIT, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, its output as text; what it has started ends with it if it takes too long."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextmanager
def started(command: Sequence[str], *, text: bool = True, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process in a group of its own; whatever of the group is left at the end of the block is killed."""
    process = subprocess.Popen(command, text=text, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        pipes: list[IO[Any] | None] = [process.stdin, process.stdout, process.stderr]
        for pipe in pipes:
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def eventually(true: Callable[[], object], what: str = "what was waited for", *, every: float = 0.01) -> None:
    """Return as soon as this is true; fails when it hangs."""
    until = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < until, f"{what}: not after {LIMIT:.0f} s"
        time.sleep(every)


def listen_to_nobody() -> None:
    """Undo what a starter in the background has set: signals that it ignores, all children would ignore for ever.

    The tests themselves go on ignoring them, by a handler, which children don't inherit.
    """
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        told = os.environ.get(IGNORED, "").split()
        if name in told or signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
            os.environ[IGNORED] = " ".join(dict.fromkeys([*told, name]))


class Watch:
    """What the tests of this process have started and is still there.

    Where there is no ``/proc``, nothing is seen.
    """

    def __init__(self) -> None:
        self._mark = f"{MARK}={os.getpid()}".encode()
        self._others: dict[int, str] = {}
        self._known: frozenset[int] = frozenset()
        self._newest = ""
        self._looked = -TRUSTED
        self._seen: dict[int, str] = {}
        os.environ[MARK] = str(os.getpid())

    def begin(self) -> None:
        """What is there now belongs to fixtures that several tests share."""
        self._known = frozenset(self.running())

    def left(self, patience: float, *, shared: bool = True) -> dict[int, str]:
        """What has been started and does not end by itself: its command line by process number.

        patience: seconds that it may take to end.
        shared: whether what was there when the test began may stay.
        """
        known = self._known if shared else frozenset()
        until = time.monotonic() + patience
        while True:
            left = {pid: line for pid, line in self.running().items() if pid not in known}
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.02)

    def running(self) -> dict[int, str]:
        """What is there, whichever test has started it.

        As long as no process at all was begun, nobody can be there who wasn't the last time.
        """
        if sys.platform != "linux":
            return {}
        newest = Path("/proc/loadavg").read_text().split()[-1]
        if newest == self._newest:
            self._seen = {pid: line for pid, line in self._seen.items() if runs(pid)}
        else:
            self._newest, self._seen = newest, self._found()
        return dict(self._seen)

    def _found(self) -> dict[int, str]:
        """The same, looked for among all processes."""
        ours: dict[int, str] = {}
        others: dict[int, str] = {}
        now = time.monotonic()
        trusted = self._others if now - self._looked < TRUSTED else {}
        self._looked = now
        for entry in os.scandir("/proc"):
            if not entry.name.isdecimal():
                continue
            if int(entry.name) in trusted:
                others[int(entry.name)] = trusted[int(entry.name)]
                continue
            with suppress(OSError):  # it has ended meanwhile, or is somebody else's
                found = self._looked_at(Path(entry.path), others)
                if found is not None:
                    ours[int(entry.name)] = found
        self._others = others
        return ours

    def _looked_at(self, process: Path, others: dict[int, str]) -> str | None:
        """The command line of a process of ours; one that is not is remembered by when it was started."""
        state, parent, *more = (process / "stat").read_text().rpartition(")")[2].split()
        pid, begun = int(process.name), more[17]
        if state in "ZX" or pid == os.getpid():
            return None
        if parent != str(os.getpid()) and (self._others.get(pid) == begun or KERNEL in (parent, str(pid))):
            others[pid] = begun
            return None
        line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        if parent != str(os.getpid()) and self._mark not in (process / "environ").read_bytes().split(b"\0"):
            others[pid] = begun
            return None
        return None if any(helper in line for helper in HELPERS) else line


def runs(pid: int | str) -> bool:
    """Whether a process is there and not merely waiting to be noticed as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def read_quietly(file: Path) -> bytes:
    """What a file holds; nothing where it can't be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def end(processes: dict[int, str]) -> None:
    """Kill these."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
