"""The folder of a campaign.  What was announced is on disk, and survives any kill.

::

    corpus/DIGEST.json        one kept schedule each
    findings/RULE-DIGEST.json one counterexample each, as 'kvlitmus replay' reads it
    findings/gone/            those that did not occur any more when the campaign went on
    pending/RULE-DIGEST.json  counterexamples as they were met, until they have been shrunk
    aside/                    files that can't be read, and what was torn off the journal
    journal.jsonl             what happened, line by line; never rewritten
    lock                      held by the one campaign that runs

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
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from kvlitmus.conformance.fuzz.corpus import Entry
from kvlitmus.conformance.report.failures import FailureError, read_json
from kvlitmus.conformance.results import config_from_json, schedule_from_json, to_json
from kvlitmus.conformance.text import harmless

FORMAT = 1
ENTRY_KIND = "kvlitmus corpus entry"
MAX_BYTES = 1 << 20
MAX_JOURNAL = 64 << 20
"""So much of a journal is read, from its end."""

FOLDERS = ("corpus", "findings", "findings/gone", "pending", "aside")


class StoreError(Exception):
    """The folder can't be used; the text says why."""


class Store:
    """The folder of one campaign; use it in ``with``, which takes the lock.

    say: called with every message about a file that was set aside.  torn: how many were.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self.torn = 0
        self.lock = -1
        self.senseless: set[bytes] = set()

    def __enter__(self) -> Store:
        try:
            for name in FOLDERS:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self.lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            self.take_lock()
            self.sweep()
            self.mend_journal()
        except OSError as error:
            self.close()
            raise StoreError(f"{self.folder}: {error.strerror or error}") from error
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

    def take_lock(self) -> None:
        """Be the only one; the system lets go of the lock of a process that is killed."""
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self.lock, 32, 0).decode(errors="replace").strip()
            by = f" (process {harmless(holder, 20)})" if holder else ""
            raise StoreError(f"{self.folder}: another campaign is using this folder{by}") from None
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, str(os.getpid()).encode(), 0)

    def sweep(self) -> None:
        """Remove what a killed campaign was about to write: it was never announced."""
        for name in FOLDERS:
            for path in (self.folder / name).glob(".*"):
                if path.is_file():
                    path.unlink(missing_ok=True)

    @property
    def findings(self) -> Path:
        """Where counterexamples are."""
        return self.folder / "findings"

    @property
    def pending(self) -> Path:
        """Where counterexamples are that have not been shrunk yet."""
        return self.folder / "pending"

    def put_aside(self, path: Path, why: str) -> None:
        """Set a file aside that can't be used, and say so."""
        self.torn += 1
        target = self.folder / "aside" / path.name
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{path.stem}-{number}{path.suffix}")
        path.rename(target)
        self.say(f"{path} can't be used and is set aside as {target}: {harmless(why)}")

    # -- kept schedules ------------------------------------------------------------------------

    def keep(self, entry: Entry) -> Path:
        """Save a schedule; when this returns, it is on disk."""
        body = {
            "kind": ENTRY_KIND,
            "format": FORMAT,
            "config": to_json(entry.config),
            "schedule": to_json(list(entry.schedule)),
            "origin": entry.origin,
        }
        path = self.folder / "corpus" / f"{digest(body)}.json"
        if not path.exists():
            write(path, json.dumps(body, separators=(",", ":")) + "\n")
        return path

    def entries(self) -> Iterator[Entry]:
        """All kept schedules, the short ones first; those that can't be read are set aside."""
        paths = sorted((self.folder / "corpus").glob("*.json"), key=lambda path: (path.stat().st_size, path.name))
        for path in paths:
            try:
                yield entry_of(read_json(path, MAX_BYTES), path.stem)
            except (FailureError, ValueError) as error:
                self.put_aside(path, str(error).removeprefix(f"{path}: "))

    # -- the journal ---------------------------------------------------------------------------

    def note(self, what: str, **more: Any) -> None:
        """Append one line to the journal."""
        line = {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "what": what, **more}
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        file = os.open(self.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)

    @property
    def journal(self) -> Path:
        """Where the journal is."""
        return self.folder / "journal.jsonl"

    def mend_journal(self) -> None:
        """Tear off a last line that has no end, and keep it aside."""
        with suppress(FileNotFoundError), self.journal.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - MAX_BYTES)
            file.seek(start)
            tail = file.read()
            end = tail.rfind(b"\n") + 1
            if end == len(tail):
                return
            rest = self.folder / "aside" / f"journal-{size}.part"
            rest.write_bytes(tail[end:])
            file.truncate(start + end)
            self.torn += 1
            self.say(f"{self.journal}: the last line was torn; what there is of it is set aside as {rest}")

    def reported(self) -> set[str]:
        """The files of the findings that a summary has told of."""
        named = (line.get("files") for line in self.told() if line.get("what") == "summary")
        return {name for names in named if isinstance(names, list) for name in names if isinstance(name, str)}

    def told(self) -> Iterator[dict[str, Any]]:
        """The lines of the journal; one that makes no sense is left out and counted."""
        with suppress(FileNotFoundError):
            for line in self.journal.read_bytes()[-MAX_JOURNAL:].splitlines():
                try:
                    plain = json.loads(line)
                except ValueError:
                    plain = None
                if isinstance(plain, dict):
                    yield plain
                elif line not in self.senseless:
                    self.senseless.add(line)
                    self.torn += 1
                    self.say(f"{self.journal}: a line makes no sense and is left out: {harmless(line[:80], 100)}")


def write(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all, whatever happens."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Flush a folder, so that a renamed file stays where it is."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def digest(body: dict[str, Any]) -> str:
    """The name of a kept schedule: what is played, and nothing else."""
    played = json.dumps([body["config"], body["schedule"]], separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(played.encode()).hexdigest()[:16]


def entry_of(plain: Any, name: str) -> Entry:
    """A kept schedule from plain data; raises ``ValueError`` that says what is wrong with it."""
    if not isinstance(plain, dict) or plain.get("kind") != ENTRY_KIND or plain.get("format") != FORMAT:
        raise ValueError(f"this is no {ENTRY_KIND} of format {FORMAT}")
    if not isinstance(plain.get("origin", ""), str):
        raise ValueError("'origin' must be a text")
    for field in ("config", "schedule"):
        if field not in plain:
            raise ValueError(f"'{field}' is missing")
    config, schedule = config_from_json(plain["config"]), schedule_from_json(plain["schedule"])
    if digest(plain) != name:
        raise ValueError("its name is not the digest of what is in it: it was torn or changed")
    if not schedule:
        raise ValueError("the schedule is empty")
    return Entry(config=config, schedule=schedule, features=(), origin=plain.get("origin", ""))
