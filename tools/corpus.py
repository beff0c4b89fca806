#!/usr/bin/env python3
"""Shows that a move is one: many caches are played by an earlier revision, and judged by both, rule by rule.

    .venv/bin/python tools/corpus.py --quick            this tree against the last commit: a share of all kinds
    .venv/bin/python tools/corpus.py --base main        against a branch or a commit, all of it
    .venv/bin/python tools/corpus.py --quick specimen   some targets: as for 'kvlitmus run', or 'zoo NAME', 'mutant ID'
    .venv/bin/python tools/corpus.py --steps TARGET …   records the steps of other projects' caches (see tools/peers)

The code of the base plays its own caches, mutants and legal variations, records their steps and says the verdict of
every rule on each: true, false or not judged.  This tree judges the same record by its own reader, and each
difference is told with its item, step, call and rule, then → now.  So do the committed records of other projects'
caches.  A rule that has another id here is compared by ``RETIRED`` of the spec.  What may differ is listed in
``tests/corpus/differences.toml``; a listed difference that does not occur is wrong as well.

What a base plays is kept in ``~/.cache/kvlitmus`` (``XDG_CACHE_HOME``) with its files and, where it needs other
packages than this tree, its environment; the next call with this base only judges.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.run import engine, failures, plan, targets  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options, item_from_json  # noqa: E402
from kvlitmus.conformance.tape import recorder  # noqa: E402
from kvlitmus.conformance.tape.lines import TapeReader  # noqa: E402
from kvlitmus.conformance.tape.played import Again, records  # noqa: E402
from tools import corpus_plays  # noqa: E402
from tools.corpus_plays import Change, Difference, Notes, judged, verdicts_from  # noqa: E402

ALLOWED = ROOT / "tests" / "corpus" / "differences.toml"
PEERS = ROOT / "docs" / "results" / "recorded"
NOT_MISUSED = ("hicache", "-swa", "-mamba", "-ranks", "vllm-")
"""By a part of the name the targets in which no misuse is tried: there is none in their schedules and litmus tests."""
QUICK_PEERS = 12
"""In the quick share every so manieth recorded item of other projects' caches is judged."""
SHOWN = 20
"""So many differences of a rule are shown."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Allowed(NamedTuple):
    """A difference that is wanted, at so many steps of the whole corpus, and why."""

    change: Change
    steps: int
    reason: str


class Compared(NamedTuple):
    """What came of one item at one depth."""

    target: str
    depth: int
    steps: int
    differences: list[Difference]


@dataclass(slots=True)
class CorpusCheck:
    """What came of a comparison: steps and items by kind of target, the differences, and what is wrong."""

    steps: Counter[str] = field(default_factory=Counter)
    items: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


# -- a base --------------------------------------------------------------------------------------------------------


def git(*command: str) -> str:
    """What git says; raises ``ValueError`` with its message."""
    done = subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"git {' '.join(command)}: {done.stderr.strip() or 'it failed'}")
    return done.stdout.strip()


def home() -> Path:
    """Where bases are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvlitmus" / "corpus"


def base_of(revision: str) -> Path:
    """A folder with the files of a revision in ``tree``, made when it isn't there; raises ``ValueError``."""
    sha = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    folder = home() / sha[:16]
    if not (folder / "tree").is_dir():
        fresh = folder / f"tree.{os.getpid()}"
        fresh.mkdir(parents=True)
        archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", sha], stdout=subprocess.PIPE)
        unpacked = subprocess.run(["tar", "-x", "-C", str(fresh)], stdin=archive.stdout, check=False)
        if archive.wait() or unpacked.returncode:
            shutil.rmtree(fresh)
            raise ValueError(f"the files of {revision} could not be unpacked into {folder}")
        fresh.rename(folder / "tree")
    command = folder / "tree" / "tools" / "corpus.py"
    if not command.is_file() or "--play" not in command.read_text(encoding="utf-8"):
        raise ValueError(f"{revision} is from before this command: it can't play its own caches")
    return folder


def interpreter_of(tree: Path) -> str:
    """The Python that runs a base: this one, where it has the packages that the base needs, else one of its own."""
    if packages(tree) == packages(ROOT):
        native = Path("optimized", "kvlitmus", "optimized")
        for core in (ROOT / native).glob("_core.*.so"):
            if not (tree / native / core.name).is_file() and sources(tree / native) == sources(ROOT / native):
                shutil.copy2(core, tree / native)
        return sys.executable
    say(f"{tree} needs other packages: it gets an environment of its own")
    subprocess.run(["bash", "tools/setup"], cwd=tree, check=True, stdout=sys.stderr)
    return str(tree / ".venv" / "bin" / "python")


def packages(tree: Path) -> tuple[Any, ...]:
    """What a tree needs of packages."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["requires-python"], project["dependencies"], project["optional-dependencies"]
    return *asked, (tree / "constraints.txt").read_text(encoding="utf-8")


def sources(folder: Path) -> list[bytes]:
    """What the compiled core is built from."""
    return [path.read_bytes() for path in sorted((folder / "native").rglob("*")) if path.is_file()]


def played(folder: Path, *, quick: bool, names: Sequence[str], jobs: int) -> list[Path]:
    """The files with what a base has played; those that are asked for are played when they aren't there."""
    share = folder / ("quick" if quick else "whole")
    tree = folder / "tree"
    command = [interpreter_of(tree), str(tree / "tools" / "corpus.py"), "--play", str(share), "--jobs", str(jobs)]
    command += [*(["--quick"] if quick else []), *names]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tree, env=environment, check=False)
    if done.returncode:
        raise ValueError(f"the base could not play: {' '.join(command)}: exit {done.returncode}")
    wanted = {file_of(name) for name in names}
    return [path for path in sorted(share.glob("*.jsonl")) if not wanted or path.name in wanted]


def file_of(target: str) -> str:
    """The file with what was played of a target."""
    return f"{target.replace(' ', '-')}.jsonl"


# -- the base plays ------------------------------------------------------------------------------------------------


def play(share: Path, names: Sequence[str], *, quick: bool, jobs: int) -> None:
    """Play what isn't there yet of these targets, or of all, each into a file."""
    share.mkdir(parents=True, exist_ok=True)
    # Whoever names a target wants that one, whether the quick share has it or not.
    everything = [
        *corpus_plays.targets(quick=quick and not names),
        *(f"peer {path.name}" for path in sorted(PEERS.glob("*.xz"))),
    ]
    if unknown := [name for name in names if name not in everything]:
        raise ValueError(f"there is no target {', '.join(unknown)}")
    missing = [name for name in names or everything if not (share / file_of(name)).is_file()]

    def one(name: str) -> int:
        path = share / file_of(name)
        fresh = path.with_suffix(f".{os.getpid()}")
        lines = peer_lines(name, quick=quick) if name.startswith("peer ") else own_lines(name, quick=quick)
        with fresh.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines if line)
        fresh.rename(path)
        return 0

    # Those that take longest come first, so that no process is left with them at the end.
    each(one, sorted(missing, key=lambda name: name.startswith("mutant ")), jobs, "played", "targets")


def own_lines(name: str, *, quick: bool) -> Iterator[str]:
    """What is recorded of a target of this tree."""
    return map(corpus_plays.record, corpus_plays.works(name, quick=quick))


def peer_lines(name: str, *, quick: bool) -> Iterator[str]:
    """What was recorded of another project's cache, with this tree's verdicts."""
    path = PEERS / name.removeprefix("peer ")
    with TapeReader(str(path)) as reader:
        target, misuse = reader.header.target, reader.header.force_misuse
        for number, record in enumerate(records(reader)):
            if quick and number % QUICK_PEERS:
                continue
            notes = Notes()
            judged(Again(record), record.item, 3, notes, misuse=misuse, reruns=corpus_plays.RERUNS)
            yield corpus_plays.line_of(target, record.item, record.tape, {3: notes.now}, misuse=misuse)


# -- this tree judges ----------------------------------------------------------------------------------------------


def compare(line: str) -> list[Compared]:
    """Judge a played item again, at each depth of which there are verdicts."""
    data = json.loads(line)
    item, cache = item_from_json(data["item"]), Again(corpus_plays.record_in(data))
    found = []
    for depth, kept in data["verdicts"].items():
        notes = Notes(verdicts_from(kept))
        judged(cache, item, int(depth), notes, misuse=data["misuse"], reruns=corpus_plays.RERUNS)
        differences = [
            Difference(data["target"], int(depth), item.id, at, call, *change) for at, call, change in notes.changes
        ]
        found.append(Compared(data["target"], int(depth), len(notes.now.steps), differences))
    return found


def check(files: Iterable[Path], *, jobs: int, wanted: Sequence[Allowed] = (), whole: bool = False) -> CorpusCheck:
    """Judge what a base has played by the rules of this tree, and compare."""
    outcome = CorpusCheck()

    def one(path: Path) -> list[Compared]:
        with path.open(encoding="utf-8") as lines:
            return [found for line in lines for found in compare(line)]

    for many in each(one, sorted(files, key=lambda path: -path.stat().st_size), jobs, "judged", "targets"):
        for found in many:
            kind = found.target.split(" ")[0]
            outcome.items[kind] += 1
            outcome.steps[kind] += found.steps
            outcome.differences += found.differences
    outcome.wrong += complaints(outcome.differences, wanted, whole=whole)
    return outcome


def allowed(path: Path = ALLOWED) -> list[Allowed]:
    """The differences that are wanted; raises ``ValueError`` for an entry that has not the form."""
    found = []
    for number, raw in enumerate(tomllib.loads(path.read_text(encoding="utf-8")).get("difference", ()), 1):
        if raw.keys() != {"rule", "then", "now", "steps", "reason"} or not raw["reason"]:
            raise ValueError(f"{path.name}, difference {number}: expected rule, then, now, steps, reason")
        found.append(Allowed(Change(raw["rule"], raw["then"], raw["now"]), raw["steps"], raw["reason"]))
    return found


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


def tell(outcome: CorpusCheck, seconds: float) -> None:
    """What was compared, and what came of it."""
    for kind, many in outcome.steps.items():
        print(f"{kind}: {outcome.items[kind]:,} plays, {many:,} steps")
    for one in outcome.wrong:
        print(one)
    for change, many in sorted(Counter(Change(one.rule, one.then, one.now) for one in outcome.differences).items()):
        print(f"{change.rule}: {change.then} → {change.now}: {many:,} steps")
    print(
        f"{sum(outcome.steps.values()):,} steps compared in {seconds:.0f} s: "
        f"{len(outcome.differences):,} differences, {len(outcome.wrong):,} complaints"
    )


# -- other projects' caches ----------------------------------------------------------------------------------------


def misused(target: str) -> bool:
    """Whether misuse is forced on a target."""
    return not any(part in target for part in NOT_MISUSED)


def target_here(name: str) -> Any:
    """A known target, in this Python, whichever is its own."""
    known = targets.KNOWN[name]
    ref = targets.TargetRef(name=name, module=known.module, attribute=known.attribute, python="", roots=())
    return targets.load_target(ref)


def record_peer(name: str, path: Path) -> str:
    """Record the steps of a target in this Python, which must be its own; says what came of it."""
    target = target_here(name)
    misuse = misused(name)
    options = Options(force_misuse=misuse, shrink_trials=0)
    items = plan.items(plan.configs_of(target), target.profile, steps=plan.OPS * recorder.SEEDS, force_misuse=misuse)
    items = list({one.id: one for one in (*items, *counterexamples(name))}.values())
    version, date = str(getattr(target, "version", "")), time.strftime("%Y-%m-%d")
    many = broken = 0
    tapes: list[bytes] = []
    for item in items:
        recording = recorder.Recording(target)
        result = engine.run_item(recording, item, options)
        if result.error:
            raise ValueError(f"{name}: {item.id}: {result.error}")
        tape = recording.record(item, target=name, version=version, date=date, force_misuse=misuse)
        if result.unsupported or tape is None:
            continue
        tapes.append(tape)
        many += result.steps
        broken += len(result.findings)
    fresh = path.with_suffix(".part")
    fresh.write_bytes(lzma.compress(b"".join(tapes), preset=9 | lzma.PRESET_EXTREME))
    fresh.replace(path)
    return f"{len(tapes):,} items, {many:,} calls, {broken} findings, {path.stat().st_size:,} bytes"


def counterexamples(name: str) -> list[Item]:
    """What broke a rule of a target, as items."""
    found = []
    for path in sorted((ROOT / "docs" / "results" / "counterexamples").glob("*/*.jsonl")):
        one = failures.load(path)
        if one.target == name:
            kind, label = ("litmus", one.litmus) if one.litmus else ("schedule", path.stem)
            found.append(Item(kind=kind, config=one.config, name=label, schedule=tuple(one.schedule)))
    return found


def record_peers(names: Sequence[str]) -> int:
    """Record the steps of targets, each by its own Python; the exit code."""
    code = 0
    PEERS.mkdir(parents=True, exist_ok=True)
    for name in names:
        python = targets.resolve_target(name).python or sys.executable
        command = [python, str(Path(__file__).resolve()), "--steps-here", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{name}: {(done.stdout if done.returncode == 0 else done.stderr[-500:]).strip()}", flush=True)
        code = code or done.returncode
    return code


# -- in several processes --------------------------------------------------------------------------------------------

SHARED: list[Any] = []
"""What the processes do, and what on: they are forked, so nothing of it has to be sent."""


def say(text: str) -> None:
    """Something that is no result."""
    print(text, file=sys.stderr, flush=True)


def _numbered(at: int) -> Any:
    do, tasks = SHARED
    return do(tasks[at])


def each(do: Callable[[Task], Answer], tasks: Sequence[Task], jobs: int, done: str, what: str) -> list[Answer]:
    """The answers in the order of the tasks; says how far it is, about every five seconds."""
    answers: list[Answer] = []
    told = time.monotonic()
    SHARED[:] = [do, tasks]
    with ExitStack() as stack:
        several = jobs > 1 and len(tasks) > 1
        ways = stack.enter_context(multiprocessing.get_context("fork").Pool(jobs)).imap if several else map
        for answer in ways(_numbered, range(len(tasks))):
            answers.append(answer)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                say(f"{done}: {len(answers):,} of {len(tasks):,} {what}")
    return answers


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="corpus.py", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="HEAD", metavar="REV", help="the revision that plays (default: HEAD)")
    parser.add_argument("--quick", action="store_true", help="a share of all kinds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many processes")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--steps", action="store_true", help="record the steps of these targets of other projects")
    what.add_argument("--steps-here", action="store_true", help=argparse.SUPPRESS)
    what.add_argument("--play", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="TARGET", help="these alone")
    asked = parser.parse_args(arguments)
    if asked.jobs < 1:
        parser.error("--jobs must be at least 1")
    if (asked.steps or asked.steps_here) and (wrong := [name for name in asked.names if name not in targets.KNOWN]):
        parser.error(f"there is no target {', '.join(wrong)}")
    started = time.monotonic()
    try:
        if asked.steps:
            return record_peers(asked.names)
        if asked.steps_here:
            print(record_peer(asked.names[0], PEERS / f"{asked.names[0]}.jsonl.xz"))
            return 0
        if asked.play:
            play(asked.play, asked.names, quick=asked.quick, jobs=asked.jobs)
            return 0
        files = played(base_of(asked.base), quick=asked.quick, names=asked.names, jobs=asked.jobs)
        outcome = check(files, jobs=asked.jobs, wanted=allowed(), whole=not asked.quick and not asked.names)
    except (OSError, ValueError) as error:
        print(f"corpus.py: {error}")
        return 2
    except KeyboardInterrupt:
        print("corpus.py: interrupted; what was played whole is kept", file=sys.stderr)
        return 130
    tell(outcome, time.monotonic() - started)
    return int(bool(outcome.wrong) or not outcome.steps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
