#!/usr/bin/env python3
"""The corpus: recorded steps of many caches with the verdict of every rule, by which a move is shown to be one.

    .venv/bin/python tools/corpus.py --check --quick   judges a share that reaches every rule as it was ever reached
    .venv/bin/python tools/corpus.py --check           judges all of it
    .venv/bin/python tools/corpus.py --judge           keeps the verdicts of this tree: after a change that is wanted
    .venv/bin/python tools/corpus.py --record          records the caches of this tree anew, and judges everything

``--check`` needs no cache: they are answered for by what was recorded of them.  It says how many steps were
compared, and of each difference where it is: target, depth, item, step, call, rule, then → now.  What may differ is
listed in ``tests/corpus/differences.toml``; a listed difference that does not occur is wrong as well.

``tests/corpus/*.steps.xz`` are recorded steps of the tree's own caches, its mutants and its legal variations;
``docs/results/recorded`` has those of SGLang's.  ``tests/corpus/verdicts.xz`` has the verdicts on both.

Page stores are not recorded, as answers don't tell what was done to buffers and to processes that were killed.  Those
of the tree are in the group ``live``: they are played each time, and so are mutants that no record can answer for.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import multiprocessing
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.history import steps  # noqa: E402
from kvlitmus.conformance.run.results import item_from_json  # noqa: E402
from tools import corpus_items, corpus_verdicts  # noqa: E402
from tools.corpus_items import GROUPS  # noqa: E402
from tools.corpus_verdicts import Change, Difference, Kept, Notes, Verdicts, judged  # noqa: E402

FOLDER = ROOT / "tests" / "corpus"
VERDICTS = FOLDER / "verdicts.xz"
ALLOWED = FOLDER / "differences.toml"
PEERS = ROOT / "docs" / "results" / "recorded"
PEER_RERUNS = 4
"""SGLang's steps were recorded by runs that play so many times again after a broken rule, which is muted then."""

QUICK_STEPS = 60_000
"""About so many steps make up the quick share."""

SHOWN = 20
"""So many differences of a kind are shown."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Allowed(NamedTuple):
    """A difference that is wanted, at so many steps of the whole corpus, and why."""

    change: Change
    steps: int
    reason: str


class Record(NamedTuple):
    """One recorded item: where it stands, as it stands there, and what to know of its recording."""

    file: str
    line: int
    target: str
    text: str
    misuse: bool
    reruns: int


class Compared(NamedTuple):
    """What came of one item at one depth."""

    kept: Kept
    steps: int
    now: Verdicts
    differences: list[Difference]


@dataclass(slots=True)
class Outcome:
    """What came of a check: steps and items by group and depth, the differences, and what is wrong."""

    steps: Counter[tuple[str, int]] = field(default_factory=Counter)
    items: Counter[tuple[str, int]] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def files() -> list[Path]:
    """The files of recorded steps, in their order."""
    return [*(FOLDER / f"{group}.steps.xz" for group in GROUPS), *sorted(PEERS.glob("*.steps.xz"))]


def name_of(path: Path) -> str:
    """A file as it is called in the verdicts."""
    return path.relative_to(ROOT).as_posix()


def digest(path: Path) -> str:
    """What changes when the file does."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"


def group_of(file: str) -> str:
    """The group of targets, or the target, whose steps a file has."""
    return Path(file).name.removesuffix(".steps.xz")


def records(path: Path) -> Iterator[Record]:
    """The items of a file of recorded steps."""
    ours = path.parent == FOLDER
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        header = json.loads(lines.readline())
        if header.get("kind") != "kvlitmus steps" or header.get("format") != steps.FORMAT:
            raise ValueError(f"{name_of(path)}: expected recorded steps of format {steps.FORMAT}")
        for at, text in enumerate(lines):
            yield Record(
                name_of(path),
                at,
                "" if ours else header["target"],
                text,
                bool(header["force_misuse"]),
                0 if ours else PEER_RERUNS,
            )


def compare(record: Record, kept: Sequence[Kept]) -> list[Compared]:
    """Judge an item again, at each depth of which there are verdicts."""
    data = json.loads(record.text)
    item = item_from_json(data["item"])
    cache = corpus_items.cache_of(data)
    found = []
    for one in kept:
        if one.item != item.id:
            raise ValueError(f"{record.file}: item {record.line} is {item.id} (expected {one.item})")
        notes = Notes(one.verdicts)
        judged(cache, item, one.depth, notes, misuse=record.misuse, reruns=data.get("reruns", record.reruns))
        differences = [
            Difference(one.target, one.depth, one.item, at, call, *change) for at, call, change in notes.changes
        ]
        found.append(Compared(one, len(notes.now.steps), notes.now, differences))
    return found


def fresh_verdicts(record: Record, depths: Sequence[int]) -> list[Kept]:
    """The verdicts of this tree on an item, whatever they were before."""
    data = json.loads(record.text)
    item, cache = item_from_json(data["item"]), corpus_items.cache_of(data)
    target = data.get("target", record.target)
    found = []
    for depth in depths:
        notes = Notes()
        judged(cache, item, depth, notes, misuse=record.misuse, reruns=data.get("reruns", record.reruns))
        if not notes.lost:  # steps that were recorded before a call was composed otherwise can't answer for it
            found.append(Kept(record.file, record.line, target, item.id, depth, False, notes.now))
    return found


# -- in several processes ----------------------------------------------------------------------------------------------

SHARED: list[Any] = []
"""What the processes do, and what on: they are forked, so nothing of it has to be sent."""


def _numbered(at: int) -> tuple[int, Any]:
    do, tasks = SHARED
    return at, do(tasks[at])


def each(do: Callable[[Task], Answer], tasks: Sequence[Task], jobs: int, what: str) -> list[Answer]:
    """The answers in the order of the tasks; says how far it is, about every five seconds."""
    answers: dict[int, Answer] = {}
    told = time.monotonic()
    SHARED[:] = [do, tasks]
    with _pool(jobs) as mapped:
        for at, answer in mapped(_numbered, range(len(tasks))):
            answers[at] = answer
            if time.monotonic() - told > 5:
                told = time.monotonic()
                print(f"{what}: {len(answers):,} of {len(tasks):,} items", file=sys.stderr, flush=True)
    return [answers[at] for at in range(len(tasks))]


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[..., Iterable[Any]]]:
    if jobs == 1:
        yield map
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield lambda do, many: pool.imap_unordered(do, many, chunksize=4)


# -- the commands ------------------------------------------------------------------------------------------------------


def allowed(path: Path = ALLOWED) -> list[Allowed]:
    """The differences that are wanted; raises ``ValueError`` for an entry that has not the form."""
    found = []
    for number, raw in enumerate(tomllib.loads(path.read_text(encoding="utf-8")).get("difference", ()), 1):
        if raw.keys() != {"rule", "then", "now", "steps", "reason"} or not raw["reason"]:
            raise ValueError(f"{path.name}, difference {number}: expected rule, then, now, steps, reason")
        found.append(Allowed(Change(raw["rule"], raw["then"], raw["now"]), raw["steps"], raw["reason"]))
    return found


def check(
    *, quick: bool, jobs: int = 1, names: Sequence[str] = (), wanted: Sequence[Allowed] = (), path: Path = VERDICTS
) -> Outcome:
    """Judge the corpus by the rules of this tree, and compare."""
    outcome = Outcome()
    digests, kept = corpus_verdicts.load(path)
    tasks = tasks_of(kept, digests, outcome, quick=quick, names=names)

    def one(task: tuple[Record, list[Kept]]) -> list[Compared]:
        return compare(*task)

    for found in each(one, tasks, jobs, "judged"):
        for kept_one, many, _, differences in found:
            where = (group_of(kept_one.file), kept_one.depth)
            outcome.items[where] += 1
            outcome.steps[where] += many
            outcome.differences += differences
    outcome.wrong += complaints(outcome.differences, wanted, whole=not quick and not names)
    return outcome


def tasks_of(
    kept: Iterable[Kept], digests: Mapping[str, str], outcome: Outcome, *, quick: bool, names: Sequence[str]
) -> list[tuple[Record, list[Kept]]]:
    """The recorded items that are asked for, each with its verdicts."""
    verdicts: dict[tuple[str, int], list[Kept]] = {}
    for one in kept:
        if (one.quick or not quick) and (not names or group_of(one.file) in names or one.target in names):
            verdicts.setdefault((one.file, one.line), []).append(one)
    for file in sorted({file for file, _ in verdicts}):
        if digest(ROOT / file) != digests[file]:
            outcome.wrong.append(f"{file} was recorded anew: --judge keeps this tree's verdicts on it")
    changed = {text.split(" ")[0] for text in outcome.wrong}
    return [
        (record, verdicts[record.file, record.line])
        for path in files()
        if name_of(path) in {file for file, _ in verdicts} - changed
        for record in records(path)
        if (record.file, record.line) in verdicts
    ]


def complaints(differences: Sequence[Difference], wanted: Sequence[Allowed], *, whole: bool) -> list[str]:
    """Differences that nobody wanted, and wanted ones that are not as listed."""
    found: dict[Change, list[Difference]] = {}
    for one in differences:
        found.setdefault(Change(one.rule, one.then, one.now), []).append(one)
    listed = {one.change: one for one in wanted}
    wrong: list[str] = []
    for change, many in sorted(found.items()):
        if change not in listed:
            wrong += [one.text for one in many[:SHOWN]]
            wrong += [f"… and {len(many) - SHOWN:,} more of {change.rule}"] if len(many) > SHOWN else []
    for change, entry in listed.items():
        seen = len(found.get(change, ()))
        if seen > entry.steps or (whole and seen != entry.steps):
            listing = f"{ALLOWED.name}: {change.rule}: {change.then} → {change.now}"
            wrong.append(f"{listing}: listed for {entry.steps:,} steps, but seen at {seen:,}")
    return wrong


def tell(outcome: Outcome, seconds: float) -> None:
    """What was compared, and what came of it."""
    differing = Counter((one.target, one.depth) for one in outcome.differences)
    for group in dict.fromkeys(group for group, _ in outcome.steps):
        depths = sorted(depth for one, depth in outcome.steps if one == group)
        counts = ", ".join(f"{outcome.steps[group, depth]:,} at depth {depth}" for depth in depths)
        items = sum(outcome.items[group, depth] for depth in depths)
        print(f"{group}: {items:,} plays, steps compared: {counts}")
    for (target, depth), many in sorted(differing.items()):
        print(f"{target}, depth {depth}: {many:,} differences")
    for one in outcome.wrong:
        print(one)
    for change, many in sorted(Counter(Change(one.rule, one.then, one.now) for one in outcome.differences).items()):
        print(f"{change.rule}: {change.then} → {change.now}: {many:,} steps")
    print(
        f"{sum(outcome.steps.values()):,} steps compared in {seconds:.0f} s: "
        f"{len(outcome.differences):,} differences, {len(outcome.wrong):,} complaints"
    )


def record_groups(groups: Sequence[str], jobs: int) -> dict[str, list[Kept]]:
    """Record these groups of the tree's own caches anew; their verdicts by file."""
    FOLDER.mkdir(exist_ok=True)
    found: dict[str, list[Kept]] = {}
    for group in groups:
        works = [work for some in each(corpus_items.works, corpus_items.parts(group), jobs, group) for work in some]
        made = [one for one in each(corpus_items.record, works, jobs, group) if one.line]
        names = Counter((one.target, one.item) for one in made)
        if twice := [one for one, times in names.items() if times > 1]:
            raise ValueError(f"{group}: recorded twice: {twice[:3]}")
        header = {"kind": "kvlitmus steps", "format": steps.FORMAT, "target": group, "force_misuse": True}
        text = "\n".join([json.dumps(header), *(one.line for one in made)]) + "\n"
        path = FOLDER / f"{group}.steps.xz"
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        found[name_of(path)] = [
            Kept(name_of(path), at, one.target, one.item, depth, False, verdicts)
            for at, one in enumerate(made)
            for depth, verdicts in one.verdicts.items()
        ]
        print(f"{group}: {len(made):,} items, {path.stat().st_size:,} bytes", flush=True)
    return found


def judge_again(path: Path, kept: Sequence[Kept], jobs: int) -> list[Kept]:
    """The verdicts of this tree on a file of recorded steps, at the depths of the ``kept`` ones, else the deepest."""
    depths: dict[int, list[int]] = {}
    for one in kept:
        depths.setdefault(one.line, []).append(one.depth)

    def anew(record: Record) -> list[Kept]:
        return fresh_verdicts(record, depths.get(record.line, corpus_items.DEPTHS[:1]))

    return [one for many in each(anew, list(records(path)), jobs, group_of(path.name)) for one in many]


def keep(found: Mapping[str, Sequence[Kept]]) -> None:
    """Choose the quick share and write the verdicts."""
    kept = [one for path in files() for one in found[name_of(path)]]
    chosen = quick_share(kept)
    kept = [one._replace(quick=at in chosen) for at, one in enumerate(kept)]
    corpus_verdicts.save(VERDICTS, kept, {name_of(path): digest(path) for path in files()})
    many = sum(len(one.verdicts.steps) for one in kept)
    print(f"{len(kept):,} plays, {many:,} steps, {VERDICTS.stat().st_size:,} bytes of verdicts")
    print(f"quick share: {len(chosen):,} plays, {sum(len(kept[at].verdicts.steps) for at in chosen):,} steps")


def quick_share(kept: Sequence[Kept]) -> set[int]:
    """Short plays that judge every rule as it is judged anywhere, by kind of call and depth; then every nth play."""
    seen: set[object] = set()
    chosen: set[int] = set()
    for at in sorted(range(len(kept)), key=lambda at: (len(kept[at].verdicts.steps), at)):
        one = kept[at]
        reached: set[object] = {(one.file, one.depth, len(one.verdicts.steps) > 20)}
        reached |= {(one.depth, kinds, rule) for kinds, rules in set(one.verdicts.steps) for rule in rules}
        reached |= {(one.depth, rules) for _, rules in one.verdicts.broken}
        if not reached <= seen:
            chosen.add(at)
            seen |= reached
    rest = [at for at in range(len(kept)) if at not in chosen]
    covered, left = (sum(len(kept[at].verdicts.steps) for at in some) for some in (chosen, rest))
    if covered < QUICK_STEPS:
        chosen.update(rest[:: max(1, left // (QUICK_STEPS - covered))])
    return chosen


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="corpus.py", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="judge the corpus by this tree's rules, and compare")
    what.add_argument("--judge", action="store_true", help="judge the corpus, and keep the verdicts")
    what.add_argument("--record", action="store_true", help="record the tree's own caches as well")
    parser.add_argument("--quick", action="store_true", help="with --check: the share that is judged each time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many processes")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="with --check: files of steps, or targets; else: groups"
    )
    asked = parser.parse_args(arguments)
    if asked.jobs < 1 or (asked.quick and not asked.check):
        parser.error("--jobs must be at least 1; --quick goes with --check")
    if not asked.check and (unknown := {*asked.names} - {group_of(path.name) for path in files()}):
        parser.error(f"there is no file of steps {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    started = time.monotonic()
    try:
        if asked.check:
            outcome = check(quick=asked.quick, jobs=asked.jobs, names=asked.names, wanted=allowed())
            tell(outcome, time.monotonic() - started)
            return int(bool(outcome.wrong) or not outcome.steps)
        before = corpus_verdicts.load(VERDICTS)[1] if asked.judge or asked.names else []
        found = (
            record_groups([one for one in GROUPS if one in (asked.names or GROUPS)], asked.jobs) if asked.record else {}
        )
        for path in files():
            name, group = name_of(path), group_of(path.name)
            mine = [one for one in before if one.file == name]
            if name not in found:
                found[name] = mine if asked.names and group not in asked.names else judge_again(path, mine, asked.jobs)
        keep(found)
    except (OSError, ValueError) as error:
        print(f"corpus.py: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
