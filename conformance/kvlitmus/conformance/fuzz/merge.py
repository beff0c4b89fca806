"""Merging: the shards of a night become one campaign, which the next night begins with.

Kept schedules have the digest of what is played as their name, so the same one of two shards is one.  Of those that a
shard's last word names with their features only as many are taken as it takes to reach all that was reached.  Of
findings with one cause the shortest is kept; how often each was met is added up, and so are all counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlitmus.conformance.fuzz import came as sessions
from kvlitmus.conformance.fuzz.came import Came, Tally
from kvlitmus.conformance.fuzz.corpus import Entry
from kvlitmus.conformance.fuzz.dedupe import Distinct
from kvlitmus.conformance.fuzz.findings import finding_of
from kvlitmus.conformance.fuzz.store import MAX_JOURNAL, Store, digest, entry_in, size_and_name
from kvlitmus.conformance.fuzz.summary import totals
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.failures import MAX_BYTES, SUFFIX, FailureError
from kvlitmus.conformance.run.results import Finding
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless


def campaigns_in(folders: Iterable[Path]) -> list[Path]:
    """The folders of campaigns that these are, or that are in them."""
    found = [one for folder in folders for one in (folder, *sorted(folder.iterdir())) if (one / "corpus").is_dir()]
    return list(dict.fromkeys(found))


@dataclass(slots=True)
class Merged:
    """What several sessions came to, in the folder of one campaign."""

    store: Store
    whole: Came = field(default_factory=Came)
    causes: dict[tuple[str, str], Distinct] = field(default_factory=dict)
    open: dict[Path, Finding] = field(default_factory=dict)
    abouts: list[dict[str, Any]] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)

    def found(self) -> list[Distinct]:
        """The distinct findings."""
        return list(self.causes.values())

    def came(self) -> Came:
        """What came of all."""
        return self.whole

    # -- findings ------------------------------------------------------------------------------------------------

    def know(self) -> None:
        """Take up what was found before."""
        told = self.store.reported()
        for finding, path in self.store.readable(self.store.findings, finding_of):
            self.causes[key_of(finding)] = Distinct(finding=finding, path=path, new=path.name not in told)

    def take_findings(self, folder: Path, about: dict[str, Any]) -> None:
        """Take the findings of a shard."""
        told = about.get("found", {})
        for finding, path in self.readable(folder / "findings", finding_of):
            known = self.causes.get(key_of(finding))
            if known is None or len(finding.calls) < len(known.finding.calls):
                known = self.keep(finding, path, known)
            more = told.get(path.name, {})
            known.hits += int(more.get("hits", 1))
            known.leads = known.leads and bool(more.get("leads", True))
            known.steady = known.steady and bool(more.get("steady", True))

    def take_open(self, folder: Path) -> None:
        """Take counterexamples that nobody has shrunk, unless their cause has a shorter one."""
        for finding, path in self.readable(folder / "pending", finding_of):
            if key_of(finding) not in self.causes and key_of(finding) not in map(key_of, self.open.values()):
                self.open[self.copy(path, self.store.pending)] = finding

    def keep(self, finding: Finding, path: Path, known: Distinct | None) -> Distinct:
        """Keep a finding that is new, or shorter than what is known of its cause."""
        copied = self.copy(path, self.store.findings)
        if known is None:
            known = self.causes[key_of(finding)] = Distinct(finding=finding, path=copied)
            self.store.note("found", rules=finding.rules, file=copied.name)
        else:
            self.store.note("shorter", rules=finding.rules, file=copied.name, instead_of=known.path.name)
            known.path.unlink(missing_ok=True)
            known.finding, known.path = finding, copied
        return known

    def retire(self, folders: Iterable[Path]) -> None:
        """Put apart what was known and occurs in no shard any more, though one has looked."""
        gone = {path.name for folder in folders for path in (folder / "findings" / "gone").glob(f"*{SUFFIX}")}
        for one in self.causes.values():
            if one.hits == 0 and one.path.name in gone:
                target = self.store.findings / "gone" / one.path.name
                one.path.replace(target)
                one.path, one.gone = target, True
                self.store.note("gone", rules=one.finding.rules, file=target.name)

    # -- kept schedules ------------------------------------------------------------------------------------------

    def take_entries(self, entries: Mapping[str, tuple[Entry, frozenset[int] | None]]) -> None:
        """Take as many kept schedules as reach all that was reached, the short ones first.

        With each are its features, ``None`` where nobody said what they are: then it is taken.
        """
        covered: set[int] = set()
        there = {path.stem for path in (self.store.folder / "corpus").glob(f"*{SUFFIX}")}
        for name, (entry, features) in sorted(entries.items(), key=lambda one: (len(one[1][0].schedule), one[0])):
            if features is None or name in there or not covered.issuperset(features):
                self.store.keep(entry)
                covered |= features or frozenset()
                self.whole.entries[name] = tuple(sorted(features or ()))
                self.whole.tally.kept += name not in there

    # -- files ---------------------------------------------------------------------------------------------------

    def readable(self, folder: Path, read: Callable[[Path], Any]) -> Iterator[tuple[Any, Path]]:
        """What is in the files of somebody else's folder, the short ones first; one that can't be read is told."""
        for path in sorted(folder.glob(f"*{SUFFIX}"), key=size_and_name):
            try:
                yield read(path), path
            except (FailureError, ValueError) as error:
                self.store.torn += 1
                self.store.say(f"{harmless(path)} can't be used and is left out: {harmless(error, 300)}")

    def copy(self, path: Path, folder: Path) -> Path:
        """A copy of a file that was read; it is on disk when this returns."""
        files.write(folder / path.name, files.read(path, MAX_BYTES), lasting=True)
        return folder / path.name


def key_of(finding: Finding) -> tuple[str, str]:
    """What stays the same of a finding, whoever has met it: its first rule and its cause."""
    return finding.rules[0], cause_of(finding).id


def merge(folders: Sequence[Path], store: Store) -> Merged:
    """Merge the campaigns in folders into one; raises :class:`FailureError` for a last word that can't be read.

    A shard that was killed has none: what it had kept and found is taken, and its counts are what its journal says.
    """
    merged = Merged(store)
    merged.know()
    entries: dict[str, tuple[Entry, frozenset[int] | None]] = {}
    for folder in folders:
        came, about = last_word(folder)
        if came is None:
            merged.unfinished.append(folder)
        merged.abouts.append(about)
        merged.whole.add(came or by_journal(folder))
        for entry, _ in merged.readable(folder / "corpus", entry_in):
            name = digest(entry)
            features = None if came is None else frozenset(came.entries.get(name, ()))
            _, before = entries.get(name, (entry, features))
            entries[name] = (entry, before if features is None else features | (before or frozenset()))
        merged.take_findings(folder, about)
        merged.take_open(folder)
    merged.whole.tally.kept = 0  # what is new here is counted when it is taken
    merged.take_entries(entries)
    merged.retire(folders)
    return merged


def last_word(folder: Path) -> tuple[Came | None, dict[str, Any]]:
    """What came of a shard, and what else it said when it was over; nothing of one that was killed."""
    try:
        return sessions.read(folder)
    except FileNotFoundError:
        return None, {}


def journal_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a shard's journal that make sense."""
    with suppress(OSError):
        for line in files.read_end(folder / "journal.jsonl", MAX_JOURNAL).splitlines():
            with suppress(ValueError, RecursionError):
                plain = json.loads(line)
                if isinstance(plain, dict):
                    yield plain


def target_in(folder: Path) -> str:
    """The target that a campaign was begun on; empty where none was."""
    began = [line.get("target") for line in journal_of(folder) if line.get("what") == "began"]
    return next((name for name in reversed(began) if isinstance(name, str)), "")


def absent(folders: Iterable[Path]) -> list[str]:
    """The shards that are not there, by the names of those that are."""
    names = {folder.name for folder in folders}
    many = {int(found[2]) for name in names if (found := NAME.fullmatch(name))}
    wanted = [f"fuzz-{at}-of-{shards}" for shards in sorted(many) for at in range(1, shards + 1)]
    return [name for name in wanted if name not in names]


NAME = re.compile(r"fuzz-([0-9]{1,7})-of-([0-9]{1,7})")
"""The name of a shard's folder."""


def by_journal(folder: Path) -> Came:
    """What came of a shard that was killed, by the last lines of its journal."""
    total = totals(list(journal_of(folder)))
    return Came(tally=Tally(plays=int(total["plays"]), steps=int(total["steps"])), seconds=total["seconds"])
