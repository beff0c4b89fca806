"""What came of a session of a campaign, as plain data: what a summary says, and what several of them add up to."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from kvlitmus.conformance.fuzz.dedupe import Distinct
from kvlitmus.conformance.run.failures import FailureError
from kvlitmus.conformance.run.results import Finding
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless

FILE = "session.json.gz"
"""What a session in a shard leaves in its folder when it is over."""

KIND, FORMAT = "kvlitmus fuzz session", 1

MAX_BYTES = 256 << 20
"""The longest such file, unpacked."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was done in this session; ``replayed``: steps of kept schedules, which the budget does not count."""

    plays: int = 0
    steps: int = 0
    replayed: int = 0
    kept: int = 0
    loaded: int = 0
    redundant: int = 0
    evaluated: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    declined: dict[str, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Take what another session did."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if isinstance(mine, dict):
                mine.update(theirs)  # a counter's adds
            else:
                setattr(self, one.name, mine + theirs)


@dataclass(slots=True, kw_only=True)
class Came:
    """What came of a session, or of several.

    seconds: how long they played, added up.  reached: the features, by their family, and how many plays reached each.
    entries: the kept schedules by the names of their files, each with the features that it was the first to reach.
    resting, further, fenced, deaths: as the campaign tells them.  worn_out: whether too many workers died.  shards: how
    many sessions these are, 0 for one that is no shard.
    """

    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    reached: dict[str, Counter[int]] = field(default_factory=dict)
    entries: dict[str, tuple[int, ...]] = field(default_factory=dict)
    resting: list[str] = field(default_factory=list)
    further: Counter[str] = field(default_factory=Counter)
    fenced: list[str] = field(default_factory=list)
    deaths: int = 0
    worn_out: bool = False
    shards: int = 0

    @property
    def features(self) -> int:
        """How many features were reached."""
        return sum(map(len, self.reached.values()))

    def add(self, other: Came) -> None:
        """Take what another session came to.  Entries are not added up: merging chooses among them."""
        self.tally.add(other.tally)
        self.seconds += other.seconds
        for family, hits in other.reached.items():
            self.reached.setdefault(family, Counter()).update(hits)
        self.resting = sorted({*self.resting, *other.resting})
        self.further.update(other.further)
        self.fenced = sorted({*self.fenced, *other.fenced})
        self.deaths += other.deaths
        self.worn_out = self.worn_out or other.worn_out
        self.shards += 1


class Played(Protocol):
    """A session that was played, or several that were merged.  open: counterexamples that were not shrunk."""

    @property
    def open(self) -> Mapping[Path, Finding]:
        """Findings that are on disk as they were met: there was no time to shrink them."""

    def found(self) -> list[Distinct]:
        """All distinct findings, those that don't occur any more among them."""

    def came(self) -> Came:
        """What came of it, as it stands now."""


def write(folder: Path, came: Came, about: Mapping[str, Any]) -> None:
    """Save what came of a session, and what else is to be known of it; raises ``OSError``."""
    whole = {one.name: getattr(came, one.name) for one in fields(came)}
    tally = {one.name: getattr(came.tally, one.name) for one in fields(came.tally)}
    plain = {"kind": KIND, "format": FORMAT, "about": about, "came": {**whole, "tally": tally}}
    text = json.dumps(plain, separators=(",", ":")).encode()
    files.write(folder / FILE, gzip.compress(text, 6, mtime=0), lasting=True)


def read(folder: Path) -> tuple[Came, dict[str, Any]]:
    """What :func:`write` saved; raises :class:`FailureError`, and ``FileNotFoundError`` where nothing is."""
    path = folder / FILE
    try:
        with gzip.GzipFile(fileobj=(raw := path.open("rb"))) as stream, raw:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"expected at most {MAX_BYTES:,} bytes")
        plain = json.loads(data)
        if (plain["kind"], plain["format"]) != (KIND, FORMAT):
            raise ValueError(f"expected a {KIND} of format {FORMAT}")
        return came_of(plain["came"]), dict(plain["about"])
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FailureError(f"{path}: {harmless(error, 300)}") from error


def came_of(plain: Mapping[str, Any]) -> Came:
    """What came of a session from plain data; raises what a wrong form raises."""
    tally = dict(plain["tally"])
    for name in ("evaluated", "errors"):
        tally[name] = counter(tally[name])
    return Came(
        **{
            **plain,
            "tally": Tally(**tally),
            "reached": {
                str(family): Counter({int(number): int(times) for number, times in hits.items()})
                for family, hits in plain["reached"].items()
            },
            "entries": {str(name): tuple(map(int, features)) for name, features in plain["entries"].items()},
            "further": counter(plain["further"]),
        }
    )


def counter(plain: Mapping[str, Any]) -> Counter[str]:
    """Counts from plain data."""
    return Counter({str(name): int(times) for name, times in plain.items()})
