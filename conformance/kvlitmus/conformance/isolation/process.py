"""One worker process, seen from the supervisor.

A :class:`Process` starts the interpreter of a target, speaks with it over its pipes without ever
waiting for longer than it is told, keeps a little of what the adapter prints, knows when the last
call was made, and leaves nothing behind when it is killed: the worker leads a process group of
its own, and the whole group goes.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

from kvlitmus.conformance.isolation import parent
from kvlitmus.conformance.isolation.watchdog import Watchdog
from kvlitmus.conformance.run.targets import TargetRef
from kvlitmus.conformance.support.frames import Frame, theirs
from kvlitmus.conformance.support.text import harmless

LINE_BYTES = 16 << 20
"""The longest answer that is read."""

OUTPUT_BYTES = 4_000
"""So much of what an adapter prints is kept, from the beginning and from the end."""

WORKER = "kvlitmus.conformance.isolation.worker"

LINE_CLOSED = 119
"""The exit status of a worker whose own files somebody has closed."""

MARK = "KVLITMUS_RUN"
"""The environment variable by which the processes of a run are known."""

OF_WORKER = "KVLITMUS_WORKER"
"""The environment variable by which caches that are processes are known to be of a worker, by its number."""

WAIT_SECONDS = 5.0
"""After so long without progress it is told for the first time what is waited for."""

GRACE_SECONDS = 10.0
"""How long a dying process has for its last words; on a busy machine it needs a while to get to speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a worker ended: ``kind`` is ``hang``, ``exit``, ``signal``, ``closed`` (somebody has closed the files that
    the worker needs) or ``broken`` (its answers make no sense).

    number: the exit status or the signal.  place: where it was, if that is known.  output: the end of
    what it printed.  memory_mb: how much memory it might use, 0 for no bound.  Everything is harmless.
    """

    kind: str
    number: int = 0
    place: str = ""
    output: str = ""
    seconds: float = 0.0
    memory_mb: int = 0

    @property
    def text(self) -> str:
        """What happened, as the end of a sentence."""
        where = f" ({self.place})" if self.place else ""
        if self.memory_mb and self.kind in ("signal", "exit"):
            where += f", where it may use {self.memory_mb:,} MB of memory (--memory)"
        if self.kind == "closed":
            return f"closed descriptors that are not its own, those of the worker{where}"
        if self.kind == "hang":
            return f"did not come back within {self.seconds:g} s{where}"
        if self.kind == "signal":
            return f"ended the process by {signal_name(self.number)}{where}"
        if self.kind == "exit":
            return f"ended the process with exit status {self.number}{where}"
        return f"broke the worker's line to the supervisor{where}"

    def same(self, other: Death) -> bool:
        """Whether two processes ended alike."""
        return (self.kind, self.number) == (other.kind, other.number)


def signal_name(number: int) -> str:
    """The name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Piped:
    """A program in a group of its own, with a pipe to each of its input, output and errors, at none of which anybody
    waits; raises ``OSError`` where it can't be started.
    """

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self.popen.pid
        for which in range(3):
            os.set_blocking(self.pipe(which).fileno(), False)

    def pipe(self, which: int) -> IO[bytes]:
        """Its standard input, output or error."""
        pipe = (self.popen.stdin, self.popen.stdout, self.popen.stderr)[which]
        assert pipe is not None
        return pipe


class Process(Piped):
    """A worker process and the state of the conversation with it.

    start_seconds: how long it may take to load the target and to make the first cache, for which an
    adapter may import half a framework, and each first call of a method, which may compile what it runs.
    on_wait: who is told, now and then, that a call takes long: for what and for how long, and by which option.
    made: whether there is a first cache.
    """

    def __init__(
        self,
        ref: TargetRef,
        folder: Path,
        number: int,
        *,
        start_seconds: float,
        memory_mb: int = 0,
        on_wait: Callable[[str, str], None] | None = None,
    ) -> None:
        self.on_wait = on_wait
        self.told_waiting = 0.0
        self.place = ""
        self.start_seconds = start_seconds
        self.memory_mb = memory_mb
        self.made = False
        self.plays = folder / f"worker-{number}.plays"
        self.words = folder / f"worker-{number}.words"
        for path in (self.plays, self.words):
            path.write_bytes(b"")
        super().__init__(
            [ref.python, "-P", "-m", WORKER, self.plays, self.words, str(memory_mb), parent.told()],
            environment(ref, folder),
        )
        self.number = number
        self.told_steps = 0
        self.answers = bytearray()
        self.output = bytearray()
        self.printed = 0
        self.answer: dict[str, Any] | None = None
        self.progress: list[int] = []
        self.watchdog = Watchdog(self.pid)
        self.closed = False
        self.broken = False
        self.status: int | None = None

    # -- conversation --------------------------------------------------------------------------

    def send(self, **command: Any) -> None:
        """Send a command; a worker that doesn't read it is noticed by :meth:`death`."""
        data = memoryview(json.dumps(command, separators=(",", ":")).encode() + b"\n")
        self.answer = None
        self.watchdog.renew()
        self.printed = 0
        self.output.clear()
        until = monotonic() + 10
        while data and monotonic() < until:
            try:
                data = data[os.write(self.pipe(0).fileno(), data) :]
            except BlockingIOError:
                sleep(0.001)
            except OSError:
                self.closed = True
                return
        self.broken = self.broken or bool(data)

    def receive(self) -> None:
        """Read what has come; never waits."""
        with suppress(BlockingIOError):
            while len(self.output) < 1 << 30:
                data = os.read(self.pipe(2).fileno(), 1 << 16)
                if not data:
                    break
                self.printed += len(data)
                self.output += data
                if len(self.output) > 4 * OUTPUT_BYTES:
                    del self.output[OUTPUT_BYTES:-OUTPUT_BYTES]
                if self.printed > 1 << 20:
                    break  # the others want to be heard too
        with suppress(BlockingIOError):
            while True:
                data = os.read(self.pipe(1).fileno(), 1 << 16)
                if not data:
                    self.closed = True
                    break
                self.answers += data
                if len(self.answers) > LINE_BYTES:
                    self.broken = True
                    break
        self.read_lines()

    def read_lines(self) -> None:
        """Understand the complete lines that have come."""
        while (end := self.answers.find(b"\n")) >= 0:
            line = bytes(self.answers[:end])
            del self.answers[: end + 1]
            try:
                message = json.loads(line)
                beat, answer = message.get("beat"), message.get("answer")
                self.place = harmless(message.get("place", ""), 120)
                if beat is not None and not (type(beat) is list and all(type(one) is int for one in beat)):
                    raise ValueError("a beat is a list of numbers")
            except (ValueError, AttributeError, RecursionError):
                self.broken = True
                return
            if beat is not None and beat != self.progress:
                self.progress = beat
                self.watchdog.renew()
                self.made = self.made or self.steps_known
            if isinstance(answer, dict):
                self.answer = answer
                self.made = self.made or "loaded" not in answer

    def ask(self, seconds: float, **command: Any) -> dict[str, Any] | Death:
        """Send a command and wait for the answer; ``seconds`` may pass without progress (:mod:`.patience`)."""
        self.send(**command)
        while True:
            wait([self], 0.1)
            if self.answer is not None:
                return self.answer
            death = self.death(seconds)
            if death is not None:
                return death

    @property
    def steps_known(self) -> bool:
        """Whether a cache is being played on, not made."""
        return len(self.progress) > 1 and self.progress[1] >= 0

    @property
    def steps(self) -> int:
        """Calls made in the play that is going on."""
        return self.progress[1] if self.steps_known else 0

    @property
    def warming(self) -> bool:
        """Whether a method is called for the first time."""
        return self.progress[2:] == [1]

    def printed_text(self) -> str:
        """What the adapter printed since the last command, short and harmless."""
        text = self.output.decode(errors="replace")
        return harmless(text.strip().replace("\n", " ⏎ "), 500)

    # -- the end -------------------------------------------------------------------------------

    def death(self, seconds: float) -> Death | None:
        """How the worker ended, if it has ended or has made no progress for so long; it is killed then."""
        if self.closed or self.broken or self.ended() is not None:
            broken = self.broken
            status = self.stop(GRACE_SECONDS)
            if broken or status is None:
                return Death(kind="broken", place=self.last_stack(), output=self.printed_end())
            kind = "closed" if status == LINE_CLOSED else "exit" if status >= 0 else "signal"
            return Death(
                kind=kind,
                number=abs(status),
                place=self.last_stack(),
                output=self.printed_end(),
                memory_mb=self.memory_mb,
            )
        first = (not self.made or self.warming) and self.start_seconds >= seconds
        seconds = self.start_seconds if first else seconds
        if self.watchdog.look() < seconds:
            self.tell_waiting(seconds, "--start-timeout" if first else "--timeout")
            return None
        with suppress(OSError):
            os.kill(self.pid, signal.SIGUSR1)  # the worker writes down where it is, whatever holds it up, and ends
            os.kill(self.pid, signal.SIGCONT)  # even if it has stopped itself
        until = monotonic() + GRACE_SECONDS
        while monotonic() < until and self.ended() is None:
            sleep(0.005)
        self.stop(0)
        return Death(kind="hang", place=self.last_stack(), output=self.printed_end(), seconds=seconds)

    def tell_waiting(self, limit: float, option: str) -> None:
        """Tell that nothing has come back for a while, and again when twice as much time has passed."""
        spent = self.watchdog.spent
        if spent < WAIT_SECONDS:
            self.told_waiting = 0.0
        elif spent >= 2 * self.told_waiting and self.on_wait is not None:
            self.told_waiting = spent
            what = self.place or ("the cache" if self.made else "the first cache")
            self.on_wait(f"waiting for {what}: {spent:.0f} s so far, limit {limit:g} s", option)

    def stop(self, grace: float) -> int | None:
        """End the worker and its whole group; returns its exit status if it ended by itself in time."""
        if self.status is not None:
            return self.status
        with suppress(OSError):
            self.pipe(0).close()
        until, status = monotonic() + grace, None
        while status is None:
            status = self.ended()
            if status is None and monotonic() >= until:
                break
            if status is None:
                sleep(0.002)
        kill_group(self.pid)
        kill_marked(str(self.pid), OF_WORKER)  # what hangs doesn't notice that nobody asks it any more
        self.popen.wait()
        with suppress(OSError):
            self.receive_rest()
        for which in (1, 2):
            self.pipe(which).close()
        self.status = self.popen.returncode
        return status

    def ended(self) -> int | None:
        """The exit status of a worker that has ended by itself, negative for a signal."""
        return status_of(self.pid)

    def receive_rest(self) -> None:
        """What was printed last."""
        with suppress(BlockingIOError):
            self.output += os.read(self.pipe(2).fileno(), 1 << 16)

    def printed_end(self) -> str:
        """The end of what was printed: there a dying process says why."""
        text = self.output[-OUTPUT_BYTES:].decode(errors="replace").strip()
        return harmless(text.replace("\n", " ⏎ ")[-500:], 500)

    def last_stack(self) -> str:
        """Where the process was when it was asked or died: the innermost frame that isn't the suite's."""
        with suppress(OSError):
            return innermost(self.words.read_text(errors="replace")[:100_000])
        return ""


FRAME = re.compile(r'^ *File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
"""A frame as :mod:`faulthandler` tells it."""


def innermost(dump: str) -> str:
    """The innermost place of a dump by :mod:`faulthandler` in the thread that calls the cache."""
    for stack in dump.split("\n\n"):
        frames = [Frame(file, int(line), function) for file, line, function in FRAME.findall(stack)]
        serving = {one.function for one in frames if one.file.endswith("kvlitmus/conformance/isolation/worker.py")}
        if serving and "beat" not in serving:
            return theirs(frames)
    return ""


def status_of(pid: int) -> int | None:
    """The exit status of a child that has ended by itself, negative for a signal.

    The process is left waiting until its group is killed: as long, its number isn't used again.
    """
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:  # somebody else has waited for it
        return 0
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def kill_group(pid: int) -> None:
    """Kill a process, the children that it has, and the group that it leads."""
    strays = descendants(pid)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    for stray in strays:
        with suppress(OSError):
            os.kill(stray, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs, as far as the system tells (Linux); at most a thousand."""
    found: list[int] = []
    todo = [pid]
    while todo and len(found) < 1_000:
        with suppress(OSError, ValueError):
            children = Path(f"/proc/{todo[-1]}/task/{todo.pop()}/children").read_text().split()
            found += map(int, children)
            todo += map(int, children)
    return found


def wait(processes: Sequence[Process], seconds: float) -> None:
    """Wait until one of the processes has said something, and read it."""
    poll = select.poll()
    by_file: dict[int, Process] = {}
    for process in processes:
        for which in (1, 2):
            file = process.pipe(which).fileno()
            poll.register(file, select.POLLIN)
            by_file[file] = process
    ready = poll.poll(seconds * 1_000)
    heard: Iterable[Process] = {id(by_file[file]): by_file[file] for file, _ in ready}.values()
    for process in heard:
        process.receive()


def environment(ref: TargetRef, folder: Path) -> dict[str, str]:
    """The environment of a worker: this one's, with kvlitmus on the path and nothing left to chance.

    Where kvlitmus is installed among other packages, another interpreter gets a folder with a
    link to kvlitmus alone, so that it doesn't see packages that were built for this one.
    """
    roots = []
    for root in ref.roots:
        if Path(root).name in ("site-packages", "dist-packages") and ref.python != sys.executable:
            linked = folder / "roots"
            linked.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                (linked / "kvlitmus").symlink_to(Path(root) / "kvlitmus")
            root = str(linked)
        roots.append(root)
    path = os.pathsep.join([*roots, *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", MARK: folder.name}
    return {"PYTHONHASHSEED": "0", **os.environ, **settings}


def kill_marked(mark: str, variable: str = MARK) -> None:
    """Kill what the workers of a run have started and left behind, whatever group it is in (Linux)."""
    wanted = f"{variable}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
