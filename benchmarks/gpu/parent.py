"""The parent of a run: each stage in a process group of its own, with a limit that nothing outlives.

A stage that hangs, crashes, or loses the device's context costs its own rows and nothing else.  The parent makes no
call of CUDA; it has imported what the stages need and forks, so that a stage begins at once.  What a stage has found
it writes to a file after each row, and the parent takes it from there, however the stage has ended:

``ok``           it came to its end
``failed``       it raised, was ended by a signal, or lost the context; its reason is in its note
``hung``         it was not over within its limit, and was killed with all that it had started
``not run``      for the reason in its note; never to be read as passed
``interrupted``  somebody has ended the run
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.gpu.stage import Bench, Record, Skip, Stage

KEPT = 6_000
"""Characters of a stage's output that go into the record."""
MARK = "KVLITMUS_GPU_RUN"
"""The variable that marks what a run starts: what left its process group is found by it."""
KILLED_WITHIN = 5.0
"""Seconds that a killed process gets to vanish; one that the kernel doesn't let go is left."""
ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals that end a run."""
EVERY = 0.01
"""Seconds between two looks at what is running."""
MARGIN = 1.0
"""Seconds before its limit at which a stage's own loops stop, so that what they have is written."""

Say = Callable[[str], None]


@dataclass
class StageRun:
    """A stage that was forked."""

    stage: Stage
    entry: dict[str, Any]
    process: int
    folder: Path
    ends: float
    status: int | None = None
    begun: float = field(default_factory=time.monotonic)

    @property
    def output(self) -> str:
        """What it has printed."""
        with suppress(OSError):
            return (self.folder / "output").read_text(errors="replace")
        return ""

    def over(self) -> bool:
        """Whether it has ended; its status is kept."""
        if self.status is None:
            found, status = os.waitpid(self.process, os.WNOHANG)
            if found:
                self.status = status
        return self.status is not None

    def kill(self) -> str:
        """End its process group; what is to be said of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        until = time.monotonic() + KILLED_WITHIN
        while not self.over():
            if time.monotonic() > until:
                return ", and can't be ended"
            time.sleep(EVERY)
        return ""


def run(bench: Bench, stages: list[Stage], limit: float, say: Say) -> None:
    """Run stages one after another, those of one group at once; whatever happens in one, the next begins.

    limit: seconds for all of them; a stage that begins late has what is left, and one that would begin later is not
    run. The record is written after every stage; on an interruption, too, before it is raised again.
    """
    bench.overall = time.monotonic() + limit
    place = Path(tempfile.mkdtemp(prefix="kvlitmus-gpu-"))
    os.environ[MARK] = mark = f"{os.getpid()}-{uuid.uuid4().hex}"
    running: list[StageRun] = []
    try:
        for _, group in groupby(stages, key=lambda stage: stage.group or stage.name):
            for stage in group:
                _begin(bench, stage, place, say, running)
            while running:
                for one in [one for one in running if one.over() or time.monotonic() > one.ends]:
                    running.remove(one)
                    _end(bench, one, say)
                time.sleep(EVERY)
            sweep(mark)
    except KeyboardInterrupt:
        for one in running:
            one.kill()
            _absorb(bench.record, one)
        for entry in bench.record.stages:
            if entry["outcome"] == "running":
                entry.update(outcome="interrupted", note="the run was interrupted")
        bench.record.interrupted = True
        raise
    finally:
        sweep(mark)
        os.environ.pop(MARK, None)
        bench.record.write()
        shutil.rmtree(place, ignore_errors=True)


def _begin(bench: Bench, stage: Stage, place: Path, say: Say, running: list[StageRun]) -> None:
    """Fork a stage, unless there is a reason not to; it is among those running from then on."""
    entry: dict[str, Any] = {"stage": stage.name, "outcome": "running", "seconds": 0.0, "note": ""}
    bench.record.stages.append(entry)
    left = bench.overall - time.monotonic()
    why = "the run's time was used up" if left <= 0 else missing(bench.record, stage)
    if why:
        entry.update(outcome="not run", note=why)
        say(f"-- {stage.name}: not run, {why}")
        bench.record.write()
        return
    seconds = min(stage.seconds, left)
    say(f"-- {stage.name} (at most {seconds:.0f} s)")
    folder = place / str(len(bench.record.stages))
    folder.mkdir()
    sys.stdout.flush()
    sys.stderr.flush()
    ends = time.monotonic() + seconds
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # nobody may be forked and not known
    process = os.fork()
    if process == 0:
        _child(bench, stage, folder, ends)
    running.append(StageRun(stage, entry, process, folder, ends))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def missing(record: Record, stage: Stage) -> str:
    """Which of the stages that this one needs is not ok, and why; nothing if all are."""
    for entry in record.stages:
        if entry["stage"] in stage.needs and entry["outcome"] != "ok":
            return f"{entry['stage']} {entry['outcome']}" + (f": {entry['note']}" if entry["note"] else "")
    return ""


def _end(bench: Bench, one: StageRun, say: Say) -> None:
    """Take what a stage has found, and say how it ended."""
    hung = "" if one.over() else f"killed after {time.monotonic() - one.begun:.0f} s{one.kill()}"
    found = _absorb(bench.record, one)
    entry = one.entry
    last = next((line.strip() for line in reversed(one.output.splitlines()) if line.strip()), "")
    said = f"; it last said: {last[:200]}" if last else ""
    if hung:
        entry.update(outcome="hung", note=hung + said)
    elif "outcome" in found:
        entry.update(outcome=found["outcome"], note=found["note"])
    else:
        code = os.waitstatus_to_exitcode(one.status or 0)
        entry.update(outcome="failed", note=(f"ended by signal {-code}" if code < 0 else f"exit code {code}") + said)
    entry["seconds"] = round(time.monotonic() - one.begun, 2)
    if one.output and entry["outcome"] != "ok":
        entry["output"] = one.output[-KEPT:]
    why = f": {entry['note']}" if entry["note"] else ""
    say(f"   {one.stage.name}: {entry['outcome']} in {entry['seconds']:.1f} s{why}")
    bench.record.write()


def _absorb(record: Record, one: StageRun) -> dict[str, Any]:
    """Add a stage's findings to the record; how it says that it ended, if it came to that."""
    with suppress(OSError, ValueError):
        found = json.loads((one.folder / "found.json").read_text())
        record.absorb(found)
        ended: dict[str, Any] = found["ended"]
        return ended
    return {}


def _child(bench: Bench, stage: Stage, folder: Path, ends: float) -> None:
    """Do the work of a stage; never returns.

    It ends without the interpreter's clean-up, which would call a context that may be lost.
    """
    code = 1
    try:
        os.setsid()
        _die_with_parent()
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        found = Record(folder / "found.json", {"dry": bench.record.head.get("dry")}, live=True)
        known = bench.record.head
        mine = Bench(bench.device, bench.dry, found, bench.root, bench.seed, overall=bench.overall)
        mine.ends = ends - MARGIN
        mine.kept.update(bench.kept, ceiling=dict(known.get("ceiling", {})))
        found.ended = dict(zip(("outcome", "note"), _worked(stage, mine), strict=True))
        found.write()
        code = 0
    except BaseException:  # noqa: BLE001  said where the parent looks
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _worked(stage: Stage, bench: Bench) -> tuple[str, str]:
    """How a stage ended, and why."""
    try:
        if stage.machine:
            bench.prepare()
        stage.work(bench)
        if stage.machine:
            bench.kept["machine"].alive()
        wrong = [check for check in bench.record.checks if check["wrong_cases"]]
        if wrong:
            return "failed", f"WRONG DATA: {wrong[0]['check']}: {wrong[0]['wrong'][0]}"
        if bench.record.troubles:
            return "failed", f"{len(bench.record.troubles)} rows failed, the first of them {bench.record.troubles[0]}"
    except Skip as skip:
        return "not run", str(skip)
    except Exception as error:  # noqa: BLE001  a stage's failure is a result
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {str(error).partition(chr(10))[0][:400]}"
    return "ok", ""


def _die_with_parent() -> None:
    """Ask the kernel (Linux) to end this process when its parent ends, however that happens."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def sweep(mark: str) -> None:
    """End what a stage has started and what has left its process group; nothing of anybody else."""
    wanted = f"{MARK}={mark}".encode()
    for number in _processes():
        with suppress(OSError):
            if number != os.getpid() and wanted in Path(f"/proc/{number}/environ").read_bytes().split(b"\0"):
                os.kill(number, signal.SIGKILL)


def _processes() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM interrupts as Ctrl-C does."""

    def raised(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, raised)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
