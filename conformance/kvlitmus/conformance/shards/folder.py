"""The folder of a run in shards: a file for each shard that was played, written whole.

A file is JSON Lines with gzip.  Its first line says which run it belongs to (:class:`Plan`) and which of the items it
has, as ``part``: first, end and step of a range, of the items as they are dealt (:meth:`Plan.place`).  Each further
line is the result of one item, by its number there (``at``), or the sum of so many others of one configuration
(``items``).

Files of one folder belong to one run: the same target, version, judge, options and items.  How they divide these
doesn't matter, so a run that was begun in eight shards may be finished in a hundred.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, lcm
from pathlib import Path
from typing import Any, cast

from kvlitmus.conformance.run.results import Item, ItemResult, result_from_json, to_json
from kvlitmus.conformance.shards.shard import SUMMED, Summary
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.forms import Json

KIND, FORMAT = "kvlitmus shard", 1

NAME = "run-{0.start}-{0.stop}-{0.step}.jsonl.gz"
"""The name of a shard's file, by its part."""

PATTERN = "run-*.jsonl.gz"

MAX_LINE = 64 << 20
"""The longest line that is read, in bytes."""

MAX_ITEMS = 1 << 40
"""No plan has more items."""


class ShardError(Exception):
    """A file that is no shard, or one of another run; the text names the file, the line, and what was expected."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """What all shards of a run have in common, as plain data (``head``), and how many items it has.

    ``first``: how many of these are no drawn schedules; after them a schedule of each of ``wide`` configurations comes,
    then the next of each, and so on.
    """

    head: dict[str, Json]
    items: int
    first: int = 0
    wide: int = 1

    @classmethod
    def of(cls, head: dict[str, Json], items: Sequence[Item]) -> Plan:
        """The plan of these items."""
        drawn = [one.config for one in items if one.kind == "random"]
        return cls(head=head, items=len(items), first=len(items) - len(drawn), wide=max(1, len(set(drawn))))

    def place(self, at: int) -> int:
        """Which of the items is dealt as this one: schedules configuration by configuration.

        Those of one cost about the same, of two they needn't; in their own order some shards would have all schedules
        of the dear ones.
        """
        if at < self.first:
            return at
        config, number = divmod(at - self.first, (self.items - self.first) // self.wide)
        return self.first + number * self.wide + config

    def differs(self, other: Plan) -> str:
        """In what another plan isn't this one, in words; empty where they are one."""
        if self.items != other.items:
            return f"{other.items:,} items, expected {self.items:,}"
        if (self.first, self.wide) != (other.first, other.wide):
            told = [f"{one.first:,} before schedules of {one.wide:,} configurations" for one in (other, self)]
            return f"{told[0]}, expected {told[1]}"
        for name in dict.fromkeys([*self.head, *other.head]):
            mine, theirs = self.head.get(name), other.head.get(name)
            if mine != theirs:
                return f"{name} {harmless(json.dumps(theirs), 200)}, expected {harmless(json.dumps(mine), 200)}"
        return ""


@dataclass(slots=True, kw_only=True)
class Played:
    """What is there of a run: its plan, and the part and the file of each shard."""

    plan: Plan | None = None
    parts: dict[Path, range] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The shards that were not played, or not wholly, by how most that are there divide the plan."""
        items = 0 if self.plan is None else self.plan.items
        ((shards, _),) = Counter(part.step for part in self.parts.values()).most_common(1) or [(1, 0)]
        done = list(self.parts.values())
        return [
            f"{at}/{shards}"
            for at, part in enumerate(parts_of(items, shards), 1)
            if sum(common(part, one) for one in done) < len(part)
        ]


def parts_of(items: int, shards: int) -> list[range]:
    """So many parts of a plan, none of them empty: each has every so-manieth item, so that all cost about the same."""
    return [range(first, items, shards) for first in range(min(shards, items))]


def missing(part: range, done: Sequence[range]) -> Iterator[range]:
    """What of a part was not played yet, in as few parts as halving it makes."""
    if not part:
        return
    covered = sum(common(part, one) for one in done)
    if not covered:
        yield part
    elif covered < len(part):
        half = len(part) // 2
        yield from missing(part[:half], done)
        yield from missing(part[half:], done)


def common(one: range, other: range) -> int:
    """How many numbers are in both of two ranges of growing numbers; it takes no longer for long ones."""
    least, greatest = max(one[0], other[0]), min(one[-1], other[-1])
    step = gcd(one.step, other.step)
    if (other[0] - one[0]) % step or greatest < least:
        return 0
    turns = (other[0] - one[0]) // step * pow(one.step // step, -1, other.step // step) % (other.step // step)
    both = lcm(one.step, other.step)
    first = one[0] + turns * one.step
    first += max(0, -(-(least - first) // both)) * both
    return max(0, (greatest - first) // both + 1)


def write(folder: Path, plan: Plan, part: range, summary: Summary) -> Path:
    """Write a shard; it is there as a whole or not at all.  Returns the file; raises ``OSError``."""
    part = range(part.start, part[-1] + 1, part.step)  # one name for one part
    head: dict[str, Json] = {
        "kind": KIND,
        "format": FORMAT,
        "part": [part.start, part.stop, part.step],
        "items": plan.items,
        "dealt": [plan.first, plan.wide],
        "run": plan.head,
        "changed": summary.changed,
        "seconds": round(summary.seconds, 3),
    }
    rows: list[dict[str, Json]] = [
        head,
        *({"at": part[at], "result": to_json(one)} for at, one in summary.results.items()),
        *({"items": summary.many[label], "result": to_json(one)} for label, one in summary.sums.items()),
    ]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path = folder / NAME.format(part)
    files.write(path, gzip.compress(text.encode(), 6, mtime=0), lasting=True)
    return path


def lines_of(path: Path) -> Iterator[dict[str, Json]]:
    """The lines of a shard's file; raises :class:`ShardError`."""
    number = 0
    try:
        with os.fdopen(files.open_regular(path), "rb") as raw, gzip.GzipFile(fileobj=raw) as stream:
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise ValueError(f"expected a line of at most {MAX_LINE:,} bytes")
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"expected an object, got {type(row).__name__}")
                yield row
    except OSError as error:  # gzip's own among them
        raise ShardError(f"{path}: {harmless(error.strerror or error)}") from None
    except (EOFError, zlib.error) as error:
        raise ShardError(f"{path}: torn after line {number}: {harmless(error)}") from None
    except RecursionError:
        raise ShardError(f"{path}, line {number}: nested too deeply") from None
    except ValueError as error:
        raise ShardError(f"{path}, line {number}: {harmless(error)}") from None


def head_of(path: Path, lines: Iterator[dict[str, Json]]) -> tuple[Plan, range, dict[str, Json]]:
    """The plan and the part that the first line of a file says; raises :class:`ShardError`."""
    head = next(lines, {})
    if head.get("kind") != KIND or head.get("format") != FORMAT:
        said = harmless(json.dumps([head.get("kind"), head.get("format")]), 80)
        raise ShardError(f"{path}, line 1: expected a {KIND} of format {FORMAT} (got {said})")
    items, run = head.get("items"), head.get("run")
    if type(items) is not int or not 0 <= items <= MAX_ITEMS or not isinstance(run, dict):
        raise ShardError(f"{path}, line 1: expected 'items', a whole number, and 'run', an object")
    start, stop, step = bounds = numbers_in(path, head, "part", 3)
    first, wide = dealt = numbers_in(path, head, "dealt", 2)
    if not 0 <= first <= items or wide <= 0 or (items - first) % wide:
        raise ShardError(f"{path}, line 1: expected 'dealt' to fit {items:,} items (got {dealt})")
    if not (0 <= start < stop <= items and step > 0):
        raise ShardError(f"{path}, line 1: expected a part of {items:,} items (got {bounds})")
    return Plan(head=run, items=items, first=first, wide=wide), range(start, stop, step), head


def numbers_in(path: Path, head: dict[str, Json], name: str, many: int) -> list[int]:
    """So many whole numbers of a first line; raises :class:`ShardError`."""
    told = head.get(name)
    found = [one for one in told if type(one) is int] if isinstance(told, list) else []
    if not isinstance(told, list) or not len(found) == len(told) == many:
        raise ShardError(f"{path}, line 1: expected {name!r}, {many} whole numbers (got {harmless(told, 80)})")
    return found


def played(folders: Iterable[Path]) -> Played:
    """The shards that are in folders; raises :class:`ShardError` for one of another run, and for two with one item."""
    found = Played()
    for path in sorted(path for folder in folders for path in folder.glob(PATTERN)):
        plan, part, _ = head_of(path, lines_of(path))
        if found.plan is None:
            found.plan = plan
        elif differs := found.plan.differs(plan):
            first = next(iter(found.parts))
            raise ShardError(f"{path}: of another run than {first}: {differs}")
        for other, taken in found.parts.items():
            if common(part, taken):
                raise ShardError(f"{path}: it has items that {other} has, too")
        found.parts[path] = part
    return found


def read(path: Path) -> tuple[range, Summary]:
    """The part of the plan that a shard has, and what it brought; raises :class:`ShardError`."""
    lines = lines_of(path)
    _, part, head = head_of(path, lines)
    found = Summary(changed=str(head.get("changed", "")), seconds=seconds_of(head))
    for number, row in enumerate(lines, 2):
        try:
            result = counted(result_from_json(cast("dict[str, Any]", row["result"])))
            at, many = row.get("at"), row.get("items", 1)
            if type(many) is not int:
                raise TypeError(f"expected 'items', a whole number (got {harmless(many, 80)})")
            if at is None and 0 < many <= len(part):
                found.add_sum(result, many)
            elif type(at) is int and at in part and part.index(at) not in found.results and many == 1:
                found.results[part.index(at)] = result
            else:
                raise ValueError(f"expected 'at', a further one of the items {part}, or 'items', how many of them")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ShardError(f"{path}, line {number}: {harmless(error)}") from None
        found.items += many
    if found.items != len(part):
        raise ShardError(f"{path}: expected the results of {len(part):,} items (got {found.items:,})")
    return part, found


def seconds_of(head: dict[str, Json]) -> float:
    """How long a shard took, by its first line; 0 where that is no such number."""
    told = head.get("seconds")
    return float(told) if isinstance(told, int | float) and 0 <= told < 1e12 else 0.0


def counted(result: ItemResult) -> ItemResult:
    """A result whose counts are numbers; raises ``ValueError`` for one in which they aren't."""
    counts = [result.steps, *(number for name in SUMMED for number in getattr(result, name).values())]
    if not all(type(number) is int for number in counts):
        raise ValueError("expected whole numbers in 'steps' and in the counts")
    return result


WORD = re.compile(r"([0-9]{1,7})/([0-9]{1,7})")


def part_of(word: str) -> tuple[int, int]:
    """Which of how many shards ``3/16`` is; raises ``ValueError``."""
    found = WORD.fullmatch(word)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"expected I/N with I from 1 to N, such as 3/16 (got {harmless(word, 40)!r})")
    return int(found[1]), int(found[2])
