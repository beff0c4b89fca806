"""The folder of a campaign.  What was announced is on disk, and survives any kill.

::

    corpus/DIGEST.jsonl        one kept schedule each: a tape that is to be played
    findings/RULE-DIGEST.jsonl one counterexample each, as 'kvlitmus replay' reads it
    findings/gone/             those that did not occur any more when the campaign went on
    pending/RULE-DIGEST.jsonl  counterexamples as they were met, until they have been shrunk
    aside/                     files that can't be read, and what was torn off the journal
    journal.jsonl              what happened, line by line; never rewritten
    lock                       held by the one campaign that runs

The rules of its upkeep: a file is written beside its place, flushed to disk, and renamed, so that it
is there as a whole or not at all.  The name of a kept schedule is the digest of what is in it, so
one that was torn or changed all the same is recognised and set aside; nothing is deleted silently.
The journal is only appended to; a last line without its end is one that was being written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from kvlitmus.conformance.fuzz.corpus import Entry
from kvlitmus.conformance.run.failures import SUFFIX, FailureError, read
from kvlitmus.conformance.run.results import Item, item_as_json, to_json
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless, raised_text
from kvlitmus.conformance.tape.lines import encoded, headed

MAX_BYTES = 1 << 20
MAX_JOURNAL = 64 << 20
"""So much of a journal is read, from its end."""

FOLDERS = ("corpus", "findings", "findings/gone", "pending")
OTHERS = ("running", "canary")
"""Folders that are made when they are needed, and must be none but ours then."""


T = TypeVar("T")


class StoreError(Exception):
    """The folder can't be used; the text says why."""


class Store:
    """The folder of one campaign; use it in ``with``, which takes the lock.

    say: called with every message about a file that was set aside.  torn: how many were.  left: what could
    not be moved, and is left out where it is.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self.torn = 0
        self.lock = -1
        self.senseless: set[bytes] = set()
        self.left: set[Path] = set()

    def __enter__(self) -> Store:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.make_folders("aside")
            self.open_lock()
            self.make_folders(*FOLDERS, *OTHERS)
            self.sweep()
            self.mend_journal()
        except OSError as error:
            self.close()
            raise StoreError(f"{harmless(self.folder)}: can't be written: {harmless(files.reason(error))}") from error
        except StoreError:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the lock go."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def open_lock(self) -> None:
        """Open the file that is locked and lock it.  What is no file of ours is moved away, never written to."""
        path = self.folder / "lock"
        try:
            self.lock = files.open_regular(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if not os.path.lexists(path):
                raise
            self.put_aside(path, str(error.strerror))
            self.lock = files.open_regular(path, os.O_RDWR | os.O_CREAT)
        self.take_lock()

    def make_folders(self, *names: str) -> None:
        """Make folders; what has the name of one and is none, a link for instance, is set aside."""
        for name in names:
            path = self.folder / name
            if os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
                self.put_aside(path, "expected a folder")
            if name not in OTHERS:
                path.mkdir(exist_ok=True)

    def take_lock(self) -> None:
        """Be the only one; the system lets go of the lock of a process that is killed."""
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self.lock, 32, 0).decode(errors="replace").strip()
            by = f" (process {harmless(holder, 20)})" if holder else ""
            raise StoreError(f"{harmless(self.folder)}: another campaign is using this folder{by}") from None
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, str(os.getpid()).encode(), 0)

    def sweep(self) -> None:
        """Remove what a killed campaign was about to write: it was never announced."""
        for name in FOLDERS:
            for path in (self.folder / name).glob(".*"):
                with suppress(OSError):
                    if stat.S_ISREG(path.lstat().st_mode):
                        path.unlink()

    @property
    def findings(self) -> Path:
        """Where counterexamples are."""
        return self.folder / "findings"

    @property
    def pending(self) -> Path:
        """Where counterexamples are that have not been shrunk yet."""
        return self.folder / "pending"

    def put_aside(self, path: Path, why: str) -> None:
        """Set aside what can't be used, and say so; where it can't be moved it is left out, and that is said once."""
        if path in self.left:
            return
        self.torn += 1
        aside = self.folder / "aside"
        try:
            if path != aside:
                aside.mkdir(exist_ok=True)
            target = files.put_aside(path, self.folder if path == aside else aside)
            where = f"is set aside as {harmless(target)}"
        except OSError as error:
            self.left.add(path)
            where = f"is left out, since it can't be moved ({harmless(error.strerror)})"
        self.say(f"{harmless(path)} can't be used and {where}: {harmless(why)}")

    def readable(self, folder: Path, read: Callable[[Path], T]) -> Iterator[tuple[T, Path]]:
        """What is in the files of a folder, the short ones first.  Whatever is wrong with one, it is set aside."""
        for path in sorted(folder.glob(f"*{SUFFIX}"), key=size_and_name):
            try:
                found = read(path)
            except Exception as error:  # noqa: BLE001 - a file may hold anything, and costs no more than itself
                known = isinstance(error, FailureError | ValueError)
                self.put_aside(path, str(error).removeprefix(f"{path}: ") if known else raised_text(error))
            else:
                yield found, path

    # -- kept schedules ------------------------------------------------------------------------

    def keep(self, entry: Entry) -> Path:
        """Save a schedule; when this returns, it is on disk."""
        path = self.folder / "corpus" / f"{digest(entry)}{SUFFIX}"
        if not path.exists():
            files.write(path, encoded(headed({**played(entry), "origin": entry.origin})), lasting=True)
        return path

    def entries(self) -> Iterator[Entry]:
        """All kept schedules, the short ones first; those that can't be read are set aside."""
        for entry, _ in self.readable(self.folder / "corpus", entry_in):
            yield entry

    # -- the journal ---------------------------------------------------------------------------

    def note(self, what: str, **more: Any) -> None:
        """Append one line to the journal; raises ``OSError``."""
        line = {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "what": what, **more}
        files.append(self.journal, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    @property
    def journal(self) -> Path:
        """Where the journal is."""
        return self.folder / "journal.jsonl"

    def mend_journal(self) -> None:
        """Tear off a last line that has no end, and keep it aside; a journal that is none goes there as a whole."""
        try:
            number = files.open_regular(self.journal, os.O_RDWR)
        except FileNotFoundError:
            return
        except OSError as error:
            self.put_aside(self.journal, str(error.strerror))
            return
        with os.fdopen(number, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - MAX_BYTES)
            file.seek(start)
            tail = file.read()
            end = tail.rfind(b"\n") + 1
            if end == len(tail):
                return
            if not end and start:
                self.put_aside(self.journal, f"its last line is longer than {MAX_BYTES:,} bytes")
                return
            rest = self.folder / "aside" / f"journal-{size}.part"
            files.write(rest, tail[end:])
            file.truncate(start + end)
            self.torn += 1
            told = f"the last line was torn; what there is of it is set aside as {rest}"
            self.say(f"{harmless(self.journal)}: {harmless(told)}")

    def reported(self) -> set[str]:
        """The files of the findings that a summary has told of."""
        named = (line.get("files") for line in self.told() if line.get("what") == "summary")
        return {name for names in named if isinstance(names, list) for name in names if isinstance(name, str)}

    def told(self) -> Iterator[dict[str, Any]]:
        """The lines of the journal; one that makes no sense is left out and counted."""
        with suppress(FileNotFoundError):
            data = files.read_end(self.journal, MAX_JOURNAL)
            if len(data) == MAX_JOURNAL:
                data = data.partition(b"\n")[2]
            for line in data.splitlines():
                try:
                    plain = json.loads(line)
                except (ValueError, RecursionError):
                    plain = None
                if isinstance(plain, dict):
                    yield plain
                elif line not in self.senseless:
                    self.senseless.add(line)
                    self.torn += 1
                    said = harmless(line[:80], 100)
                    self.say(f"{harmless(self.journal)}: a line can't be read and is skipped: {said}")


def size_and_name(path: Path) -> tuple[int, str]:
    """In which order files are read; one that is gone already will be missed when its turn comes."""
    with suppress(OSError):
        return path.lstat().st_size, path.name
    return 0, path.name


def played(entry: Entry) -> dict[str, Any]:
    """What is to be played of a kept schedule, as it stands in a header."""
    item = Item(kind="schedule", config=entry.config, schedule=entry.schedule)
    return {"config": to_json(entry.config), "item": item_as_json(item, entry.config)}


def digest(entry: Entry) -> str:
    """The name of a kept schedule: what is played, and nothing else."""
    text = json.dumps([to_json(entry.config), to_json(list(entry.schedule))], separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def entry_in(path: Path) -> Entry:
    """The kept schedule in a file; raises ``FailureError`` or ``ValueError`` for what is none."""
    header, _ = read(path, MAX_BYTES, follow=False)
    if header.item is None or header.item.kind != "schedule" or not header.item.schedule:
        raise ValueError("expected a schedule as the item of the header")
    origin = header.data.get("origin", "")
    if not isinstance(origin, str):
        raise ValueError("'origin' must be a text")
    found = Entry(config=header.config, schedule=header.item.schedule, features=(), origin=origin)
    if digest(found) != path.stem:
        raise ValueError("its name is not the digest of what is in it: it was torn or changed")
    return found
