"""Kills writers of the file store with SIGKILL, again and again, and reads everything after each kill.

    python -m tests.optimized.crash --kills 1000

Writers are forked from this process, one or two at a time over one folder.  Each puts pages as fast as it can, removes
or damages some of its own so that they are written again, and says what it does through a pipe: that a page is stored
*after* its put has returned, that one may be gone *before* it removes anything.  A writer dies in one of two ways:
killed from outside after a random time, or by its own hand at a random line of the store's code.  After each death
the folder is read through a fresh store.  Half of the rounds end with power cuts besides: everything that the writers
did was written down, and from that states are drawn that a power cut at their death may have left, with writes torn and
reordered as far as nobody had waited for them (``support/power.py``); each is read, and written to, as well:

wrong      a page came back that is not, byte for byte, the one put under that key: must be 0
lost       a page is missing although its put had returned and nobody has removed it: must be 0
damaged    a file under a page's name is not whole: 0 for a store that renames whole files into place
remains    temporary files that a fresh store, opened when no writer was left, has not removed: must be 0
midway     writers that died in the middle of a put: if few, little has been tested
pages      pages read back, all of them right
cuts       states after a power cut; what was there at the beginning of a round, or what a durable put had said, must be
           in each of them (else it is lost), torn pages are misses (else they are wrong)
torn       pages found damaged in these states: if none, nothing was torn
unmended   pages that couldn't be put again, or not read then: must be 0

``--planted in-place`` writes without a temporary file, ``--planted unchecked`` moreover believes whatever it reads,
``--planted early`` says *stored* before it is; ``--planted believing`` writes as it should and believes what it reads,
``--planted hasty`` waits for nothing: what each breaks shows that the figures can be other than 0.  It needs the
standard library only, and prints one line of JSON.  The exit code is 1 when something was wrong, lost or left.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from kvlitmus.optimized.storage import file as file_module
from kvlitmus.optimized.storage.base import Buffer
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.optimized.storage.record import HEAD
from tests.optimized.support.power import Medium, Tape, written

KEYS = [f"{number:064x}" for number in range(14)]
SIZES = (0, 1, 300, 4_096, 60_000, 262_144, 700_000)
LINES = 400
"""A writer that dies by its own hand does so within so many lines of the store's code: some puts."""

SECONDS = 0.012
"""A writer that is killed from outside lives so long at most."""


BAD = ("wrong", "lost", "damaged", "uncounted", "remains", "unmended")
"""What must be 0."""

MARK = b"damaged on purpose"
"""What a writer puts in the place of a page that it damages."""


def page_of(key: str) -> bytes:
    """The one right page of a key."""
    size = SIZES[int(key, 16) % len(SIZES)]
    return hashlib.shake_128(key.encode()).digest(size)


PAGES = {key: page_of(key) for key in KEYS}


# -- planted faults ---------------------------------------------------------------------------------


class InPlace(FileStore):
    """Without a temporary file."""

    def _write(self, path: Path, head: bytes, page: memoryview) -> None:
        path.parent.mkdir(exist_ok=True)
        with path.open("wb", buffering=0) as file:
            file.write(head)
            for start in range(0, len(page), 16_384):
                file.write(page[start : start + 16_384])


class Believing(FileStore):
    """Believing whatever it reads."""

    def _read(self, key: str, size: int | None) -> memoryview | None:
        path = self.path_of(key)
        assert path is not None
        with contextlib.suppress(OSError):
            return memoryview(path.read_bytes()[HEAD.size + len(key) :])
        return None


class Unchecked(InPlace, Believing):
    """Without a temporary file, and believing whatever it reads."""


class Hasty(FileStore):
    """Says that it waits for the medium, and doesn't."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        super().__init__(folder)


class Early(FileStore):
    """Says *stored* of a page, and stores it at the next put."""

    kept: tuple[str, bytes] | None = None

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        before, self.kept = self.kept, (keys[-1], bytes(values[-1]))
        late = [*keys[:-1], *([before[0]] if before else [])]
        super().put(late, [*values[:-1], *([before[1]] if before else [])])
        return [True] * len(keys)


STORES: dict[str, type[FileStore]] = {
    "": FileStore,
    "in-place": InPlace,
    "unchecked": Unchecked,
    "early": Early,
    "believing": Believing,
    "hasty": Hasty,
}
POWER = ("", "believing", "hasty")
"""Those that change files by the calls that are written down."""

STATES = 3
"""So many states are drawn for a power cut."""


# -- the writer -------------------------------------------------------------------------------------


def die_at_line(lines: int) -> None:
    """Kill this process at that line of the store's code, counted as they run."""
    left = lines

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != file_module.__file__:
            return None
        if event == "line":
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


class Writer(NamedTuple):
    """A process that writes: which of the keys are its own, to remove and to damage, and where it tells."""

    pid: int
    tells: int
    own: tuple[str, ...]


class Work(NamedTuple):
    """What a writer is to do: which keys are its own, at which line it dies if at any, where it notes what it does."""

    own: tuple[str, ...]
    seed: int
    lines: int
    durable: bool
    tape: Path | None


def spawn(store: FileStore, work: Work) -> Writer:
    """Fork a writer."""
    here, there = os.pipe()
    pid = os.fork()
    if pid:
        os.close(there)
        return Writer(pid, here, work.own)
    os.close(here)
    try:
        write_until_killed(store, work, there)
    finally:
        os._exit(3)  # it must be killed: to get here is an error


def write_until_killed(like: FileStore, work: Work, tells: int) -> None:
    """Open the folder and write.

    A told line is ``+KEY`` (is stored now), ``-KEY`` (may be gone from now on), ``<`` or ``>`` (a put begins, ends).
    """
    draw = random.Random(work.seed)
    system: Any = Tape(work.tape) if work.tape else os
    vars(file_module)["os"] = system
    store = type(like)(like.folder, durable=work.durable)
    os.write(tells, b"ready\n")
    if work.lines:
        die_at_line(work.lines)
    while True:
        key = draw.choice(work.own)
        path = store.path_of(key)
        assert path is not None
        what = draw.random()
        if what < 0.5:
            os.write(tells, f"-{key}\n".encode())
            with contextlib.suppress(FileNotFoundError):
                system.unlink(path)
        elif what < 0.6 and path.exists():
            os.write(tells, f"-{key}\n".encode())
            damage(system, path)
        keys = [key, *draw.sample(KEYS, draw.randrange(3))]
        os.write(tells, b"<\n")
        stored = store.put(keys, [PAGES[one] for one in keys])
        told = [f"+{one}\n" for one, there in zip(keys, stored, strict=True) if there]
        os.write(tells, ("".join(told) + ">\n").encode())


def damage(system: Any, path: Path) -> None:
    """Put something else in the place of a page."""
    mark = path.with_name(f"mark-{os.getpid()}-{time.monotonic_ns()}")
    file = system.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    system.write(file, MARK)
    os.close(file)
    system.rename(mark, path)


# -- the reader -------------------------------------------------------------------------------------


class Harness:
    """Writers over one folder, what they have told, and what was found."""

    def __init__(self, folder: Path, planted: str, seed: int, power: float) -> None:
        self.store = STORES[planted](folder)
        self.draw = random.Random(seed)
        self.found: Counter[str] = Counter()
        self.there: dict[str, bool] = {}
        self.power = power if planted in POWER else 0.0
        self.settled: dict[str, bool] = {}

    def round(self) -> None:
        """One or two writers write and die, one after the other; after each death everything is read."""
        cut = self.draw.random() < self.power
        durable = self.draw.random() < (0.6 if cut else 0.1)
        medium, tape = (Medium(self.store.folder), self.store.folder.with_name("tape")) if cut else (None, None)
        self.settled = dict(self.there)
        count = self.draw.choice((1, 1, 2))
        writers = [self.start(KEYS[number::count], durable, tape) for number in range(count)]
        for number, (writer, within) in enumerate(writers):
            self.finish(writer, within, durable)
            if medium is None or number == count - 1:
                self.look(alone=number == count - 1)
        if medium is not None and tape is not None:
            self.cut(medium, tape)

    def cut(self, medium: Medium, tape: Path) -> None:
        """Draw states that a power cut at the last writer's death may have left; read each, and write to it."""
        self.found["unsettled"] += medium.play(tape)
        tape.unlink()
        folder = self.store.folder.with_name("state")
        for _ in range(STATES):
            written(medium.drawn(self.draw), folder)
            store = type(self.store)(folder)
            self.found["cuts"] += 1
            for key, page in zip(KEYS, store.get(KEYS), strict=True):
                self.found["pages"] += page is not None
                self.found["wrong"] += page is not None and page != PAGES[key]
                self.found["lost"] += page is None and self.settled.get(key, False)
            self.found["torn"] += store.counts().get("damaged", 0)
            self.found["remains"] += len(list(folder.rglob("*.tmp")))
            stored = store.put(KEYS, list(PAGES.values()))
            self.found["unmended"] += stored.count(False) + sum(
                page != PAGES[key] for key, page in zip(KEYS, store.get(KEYS), strict=True)
            )
            shutil.rmtree(folder)

    def start(self, own: Sequence[str], durable: bool, tape: Path | None) -> tuple[Writer, bool]:
        """Fork a writer; whether it will die by its own hand."""
        within = self.draw.random() < 0.4
        lines = self.draw.randrange(1, LINES) if within else 0
        writer = spawn(self.store, Work(tuple(own), self.draw.randrange(1 << 30), lines, durable, tape))
        text = os.read(writer.tells, 6)
        assert text == b"ready\n", text
        return writer, within

    def finish(self, writer: Writer, within: bool, durable: bool) -> None:
        """Read what the writer tells until it is dead, and kill it when its time has come."""
        until = time.monotonic() + (20.0 if within else self.draw.random() * SECONDS)
        told = bytearray()
        killed = False
        while True:
            wait = 20.0 if killed else max(0.0, until - time.monotonic())
            if select.select([writer.tells], [], [], wait)[0]:
                data = os.read(writer.tells, 1 << 16)
                if not data:
                    break
                told += data
            elif not killed:
                os.kill(writer.pid, signal.SIGKILL)
                killed = True
            else:
                raise TimeoutError("a killed writer still tells")
        os.close(writer.tells)
        _, status = os.waitpid(writer.pid, 0)
        if os.WTERMSIG(status) != signal.SIGKILL:
            raise RuntimeError(f"a writer ended by itself (status {status})")
        self.found["kills"] += 1
        self.found["killed_by_line"] += within and not killed
        self.note(told.decode(), set(writer.own), durable)

    def note(self, told: str, own: set[str], durable: bool) -> None:
        """What is there now, by what a writer told; only its own keys can't have been removed by another one."""
        *lines, _ = told.split("\n")
        for line in lines:
            if line[1:] in own:
                self.there[line[1:]] = line[0] == "+"
                self.settled[line[1:]] = line[0] == "+" and (durable or self.settled.get(line[1:], False))
        marks = [line for line in lines if line in ("<", ">")]
        self.found["midway"] += marks[-1:] == ["<"]
        self.found["puts"] += marks.count(">")

    def look(self, *, alone: bool) -> None:
        """Read everything through a fresh store; ``alone``: no writer is at work."""
        store = type(self.store)(self.store.folder)
        found = self.found
        found["leftovers"] += store.removed
        for key, page in zip(KEYS, store.get(KEYS), strict=True):
            found["pages"] += page is not None
            found["wrong"] += page is not None and page != PAGES[key]
            if alone:
                found["lost"] += page is None and self.there.get(key, False)
                found["uncounted"] += (store.exists([key]) == 1) != (page is not None)
        if alone:
            found["damaged"] += store.counts().get("damaged", 0) - self.marked(store)
            found["remains"] += len(list(store.folder.rglob("*.tmp")))

    def marked(self, store: FileStore) -> int:
        """How many pages a writer had damaged on purpose, and not mended before it died."""
        paths = [path for path in map(store.path_of, KEYS) if path is not None and path.exists()]
        return sum(path.read_bytes() == MARK for path in paths)


def run(folder: Path, kills: int, seed: int = 0, planted: str = "", power: float = 0.5) -> dict[str, Any]:
    """Kill so many writers; what was found."""
    harness = Harness(folder, planted, seed, power)
    began = time.monotonic()
    while harness.found["kills"] < kills:
        harness.round()
    names = ("kills", "killed_by_line", "midway", "puts", "pages", "leftovers", "cuts", "unsettled", "torn")
    figures = {name: harness.found[name] for name in (*names, *BAD)}
    return {**figures, "seed": seed, "planted": planted, "seconds": round(time.monotonic() - began, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Kill writers of the file store, and read everything after each kill.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--planted", choices=sorted(STORES), default="")
    parser.add_argument("--power", type=float, default=0.5, help="the share of rounds that end with power cuts")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kvlitmus-crash-") as folder:
        found = run(Path(folder) / "pages", options.kills, options.seed, options.planted, options.power)
    print(json.dumps(found))
    return int(any(found[name] for name in BAD))


if __name__ == "__main__":
    sys.exit(main())
