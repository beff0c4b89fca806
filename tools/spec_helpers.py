#!/usr/bin/env python3
"""Is every operator of what facts call there for a reason?  One-operator changes to functions and tables of the spec.

    .venv/bin/python tools/spec_helpers.py                        a sample of 200 changes, on the plays of one seed
    .venv/bin/python tools/spec_helpers.py --sample 0             all changes: hours
    .venv/bin/python tools/spec_helpers.py --modules effects look of these modules of the spec alone
    .venv/bin/python tools/spec_helpers.py --ids FILE             only the changes listed there, one a line
    .venv/bin/python tools/spec_helpers.py --report FILE          writes what came of it as JSON as well

``tools/spec_mutation.py`` changes predicates and facts, which say something of one step.  Here the functions are
changed from which they are worked out, and by which the state is folded (effects, windows, block tables, the order of
victims, what a cause reaches), and the tables of actions and of jobs, an entry of which is left out.  What such a
function says may show only steps later.  So plays are judged as a whole, each change in a process of its own: first
rows by hand (tests/spec/support/functions.py), then recorded plays at all depths, then plays of legal caches, each
step of which is judged a few times more with one value changed (tools/spec_wrong.py).  A change is **told apart** by
the first step of which some rule says something else.

Of all plays a sample is drawn, and it is noted which functions each of them calls: a change is tried only where its
function is called, the shortest plays first, for so many seconds of CPU time at most (``--each``).  What is then left
may be told apart by other plays.  Changes that nothing can tell apart are in tests/corpus/equivalent.toml, each with
the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.isolation.current_run import CurrentRun  # noqa: E402
from kvlitmus.conformance.run import engine  # noqa: E402
from kvlitmus.spec import look  # noqa: E402
from kvlitmus.spec.actions import ACTIONS, Group  # noqa: E402
from kvlitmus.spec.explain import REACH  # noqa: E402
from kvlitmus.spec.facts import FACTS, Facts  # noqa: E402
from kvlitmus.spec.job import JOBS  # noqa: E402
from kvlitmus.spec.parts import all_rules  # noqa: E402
from kvlitmus.spec.rule import Kind, Rule  # noqa: E402
from tests.spec.support.edges import ALL_ROWS  # noqa: E402
from tests.spec.support.functions import FUNCTIONS  # noqa: E402
from tools import spec_mutation  # noqa: E402
from tools.mutations import changes  # noqa: E402
from tools.spec_mutation import GOAL, Play, equivalents  # noqa: E402
from tools.spec_trial import Says, TryingChecker, trying  # noqa: E402
from tools.spec_wrong import Wrong, WrongChecker  # noqa: E402

SPEC = "kvlitmus.spec."
JUDGE = "kvlitmus.conformance.checker"
"""Where the functions of the spec are called by their names: in itself, and by the judge."""

LEFT_OUT = {
    "choices": "what a profile may declare; its tests say what is refused",
    "config": "what a cache may be asked to be; the same",
    "profile": "the same",
    "text": "how refusals are worded",
    "facts": "how facts are registered; every fact is tested by being there",
    "rule": "how rules are registered",
    "parts": "which modules there are",
    "plan": "how rules are compiled; each plan is compared with rules judged one by one",
    "inline": "the same",
    "names": "numbers that stand for prefixes; any are as good",
    "host_state": "what the reference alone knows",
    "on": "which occasions there are",
    "actions": "the table itself, and how it is joined: changed as a table",
    "transitions": "how a table of states is made: changed as a table",
}
"""Modules whose functions aren't changed, each with the reason."""

RECORDED, WRONG = 240, 120
"""So many recorded plays, and plays with wrong values, are drawn."""
LONGEST = 60
"""No play with more steps than this is drawn: what is told apart by a short one is told sooner."""


class Site(NamedTuple):
    """A function that is changed: its name, itself, what stands for it in the spec, and what puts another there."""

    name: str
    function: FunctionType
    value: Any
    put: Callable[[Any], None]


class Helper(NamedTuple):
    """A change to a function or a table: where, as text, what puts it in place, and the function, if it is one."""

    id: str
    name: str
    line: int
    apply: Callable[[], None]
    site: Site | None = None
    made: Callable[..., Any] | None = None


# -- what can be changed ------------------------------------------------------------------------------------


def modules() -> list[str]:
    """The modules of the spec whose functions are changed."""
    names = sorted(path.stem for path in (ROOT / "spec" / "kvlitmus" / "spec").glob("*.py"))
    return [name for name in names if name not in LEFT_OUT and name != "__init__"]


def sites(names: Sequence[str]) -> Iterator[Site]:
    """The functions and methods of these modules that are neither facts nor predicates."""
    predicates = {one.predicate for one in all_rules().values()}  # which defines the facts as well
    taken = predicates | {one.compute for one in FACTS.values()}
    for name in names:
        module = importlib.import_module(SPEC + name)
        for key, value in list(vars(module).items()):
            plain = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield from of_class(name, value)
            elif isinstance(plain, FunctionType) and plain.__module__ == module.__name__ and plain not in taken:
                yield Site(f"{name}.{key}", plain, value, functools.partial(everywhere, value))


def of_class(module: str, owner: type) -> Iterator[Site]:
    """The methods and properties of a class."""
    for key, value in list(vars(owner).items()):
        plain = value.fget if isinstance(value, property) else value
        if isinstance(plain, FunctionType) and plain.__module__ == owner.__module__ and not key.startswith("__"):
            yield Site(f"{module}.{owner.__name__}.{key}", plain, value, functools.partial(in_class, owner, key))


def helpers(found: Sequence[Site]) -> Iterator[Helper]:
    """Every one-operator change to these functions; of those with the same text each has its number."""
    for site in found:
        seen: Counter[str] = Counter()
        with contextlib.suppress(OSError, AssertionError, KeyError):  # its text is nowhere, or it is no plain function
            for one in changes(site.function):
                text = f"{SPEC}{site.name}: {one.before} → {one.after}"
                seen[text] += 1
                id = f"{text} ({seen[text]})" if seen[text] > 1 else text
                apply = functools.partial(site.put, like(site.value, one.made))
                yield Helper(id, site.name, one.line, apply, site, one.made)


def like(value: Any, function: Callable[..., Any]) -> Any:
    """A function as another one stands in the spec: as a property, or remembering what it has said."""
    if isinstance(value, property):
        return property(function)
    return functools.cache(function) if hasattr(value, "cache_clear") else function


def everywhere(old: Any, new: Any) -> None:
    """Put a function in the place of another, wherever the spec and the judge know it by a name or in a table."""
    for name, module in list(sys.modules.items()):
        if name.startswith((SPEC, JUDGE)):
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)
                elif isinstance(value, dict) and not key.startswith("__"):
                    value.update({at: new for at, one in value.items() if one is old})


def in_class(owner: type, key: str, new: Any) -> None:
    """Put a method in the place of another."""
    setattr(owner, key, new)


UNJUDGED = (Group.NODES, Group.USES, Group.LOCKS, Group.EVENTS)
"""Of these groups the table of actions is there to be read alone: other rules say what must become of them."""


def tables() -> Iterator[Helper]:
    """Every cause of the table of actions, every reach, and every transition of jobs, left out one by one."""
    for on, row in ACTIONS.items():
        for what, causes in row.items():
            if what.group in UNJUDGED:
                continue
            for at, one in enumerate(causes):
                left = (*causes[:at], *causes[at + 1 :])
                text = f"{SPEC}actions.ACTIONS: {on} {what.value}: {one.cause.value} {one.field} → left out"
                yield Helper(text, "actions.ACTIONS", 0, functools.partial(put_row, on, {**row, what: left}))
    for key in REACH:
        text = f"{SPEC}explain.REACH: {key[0].value}, {key[1].value} → everything"
        yield Helper(text, "explain.REACH", 0, functools.partial(REACH.pop, key))  # type: ignore[attr-defined]
    for at, two in enumerate(JOBS.transitions):
        if not two.elsewhere:
            text = (
                f"{SPEC}job.JOBS: {', '.join(two.kinds)} {two.before[0]} by {two.causes[0]} to {two.after} → left out"
            )
            left_over = (*JOBS.transitions[:at], *JOBS.transitions[at + 1 :])
            yield Helper(text, "job.JOBS", 0, functools.partial(put_transitions, left_over))


def put_row(on: Any, row: Any) -> None:
    """Another row in the table of actions."""
    ACTIONS[on] = row  # type: ignore[index]


def put_transitions(left: Any) -> None:
    """Other transitions of jobs."""
    JOBS.transitions = left
    vars(JOBS).pop("steps", None)


def forget() -> None:
    """Nothing is remembered that an unchanged function has said."""
    look.KNOWN.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith((SPEC, JUDGE)):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


# -- what tells changes apart -------------------------------------------------------------------------------


class Alive:
    """There is always something to be tried."""

    alive = True


class Telling:
    """What was said of each step of a play: it takes the place of a trial."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.predicates = dict.fromkeys(rules, Alive())
        self.said: list[int] = []
        self.then: list[int] | None = None
        """What was said of them before, if they are compared."""

    def facts_of(self, _: frozenset[str]) -> tuple[()]:
        """Facts of which there are changes: of none by themselves."""
        return ()

    def step(self, said: Mapping[str, Says], _premised: Any, _inputs: Facts, _known: Facts) -> None:
        """Note what was said of a step, or end the process that compares where it was something else."""
        self.note((*said.items(),))

    def note(self, what: Any) -> None:
        """Note something, or compare it."""
        self.said.append(hash(what))
        if self.then is not None and self.then[: len(self.said)][-1:] != self.said[-1:]:
            os._exit(TOLD)


TOLD, ALIKE, ROW = 10, 11, 12
"""How a process ends that compares."""


def judged(telling: Telling, one: Play, seed: int) -> list[int]:
    """What is said of each step of a play, and what came of it."""
    trial: Any = telling
    kind = trying(trial, WrongChecker if issubclass(one.kind, WrongChecker) else TryingChecker)
    if issubclass(kind, WrongChecker):
        kind.wrong = Wrong(seed)
    telling.said = []
    result = engine.run_item(one.target, one.item, one.options, CurrentRun(kind))
    telling.note((result.error, result.unsupported, tuple(tuple(found.rules) for found in result.findings)))
    return telling.said


class Known(NamedTuple):
    """A play, what was said of it, how many steps were judged, and the functions that it called."""

    play: Play
    seed: int
    said: list[int]
    seconds: float
    called: frozenset[str]


def drawn(seed: int, recorded: int, wrong: int) -> list[tuple[Play, int]]:
    """The plays on which changes are tried: recorded ones, then some with wrong values."""
    nobody: Any = Telling({})
    draw = random.Random(seed)
    found = []
    first = [one for one in spec_mutation.corpus(nobody, whole=False) if len(one.item.schedule) <= LONGEST]
    found += draw.sample(first, min(recorded, len(first)))
    second = [one for one in spec_mutation.wrong(nobody, seed) if one.item.kind != "random" or one.item.ops <= LONGEST]
    found += [one._replace(item=one.item) for one in draw.sample(second, min(wrong, len(second)))]
    return [(one, seed + number) for number, one in enumerate(found)]


@contextlib.contextmanager
def noting(found: Sequence[Site], called: set[str]) -> Iterator[None]:
    """Meanwhile the names of these functions are noted when they are called."""

    def noted(site: Site) -> Callable[..., Any]:
        function: Any = site.value.fget if isinstance(site.value, property) else site.value

        def call(*args: Any, **more: Any) -> Any:
            called.add(site.name)
            return function(*args, **more)

        return call

    stand_ins = [(site, property(noted(site)) if isinstance(site.value, property) else noted(site)) for site in found]
    for site, one in stand_ins:
        site.put(one)
    try:
        yield
    finally:
        for site, one in stand_ins:
            if site.put.func is in_class:  # type: ignore[attr-defined]
                site.put(site.value)
            else:
                everywhere(one, site.value)


def known_plays(telling: Telling, plays: Sequence[tuple[Play, int]], found: Sequence[Site]) -> list[Known]:
    """What these plays say with nothing changed; those left out that don't say the same twice."""
    kept, told = [], time.monotonic()
    for number, (one, seed) in enumerate(plays, 1):
        called: set[str] = set()
        forget()
        with noting(found, called):
            said = judged(telling, one, seed)
        started = time.process_time()
        if judged(telling, one, seed) == said:
            kept.append(Known(one, seed, said, time.process_time() - started, frozenset(called)))
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{number:,} of {len(plays):,} plays looked at", file=sys.stderr, flush=True)
    return kept


def by_row() -> bool:
    """Whether a row by hand, of whatever fact or function, says otherwise as things are now."""
    for row in (*ALL_ROWS, *FUNCTIONS):
        said = row.function(**row.values)
        if not (said is row.says or said == row.says):
            return True
    return False


def compare(telling: Telling, change: Helper, plays: Sequence[Known], seconds: float) -> None:
    """Put a change in place and judge these plays, for so long at most; the end of the process says what came of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    limit = int(time.process_time() + 10 * seconds) + 10
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    ends = time.process_time() + seconds
    try:
        change.apply()
        forget()
        if by_row():
            os._exit(ROW)
        for one in plays:
            telling.then = one.said
            if len(judged(telling, one.play, one.seed)) != len(one.said):
                os._exit(TOLD)
            if time.process_time() > ends:
                break
    except BaseException:  # noqa: BLE001  # a change by which something raises is noticed
        os._exit(TOLD)
    os._exit(ALIKE)


def tried(telling: Telling, change: Helper, plays: Sequence[Known], seconds: float) -> int:
    """The process in which a change is tried."""
    child = os.fork()
    if not child:
        compare(telling, change, plays, seconds)
    return child


def try_all(
    telling: Telling, sample: Sequence[Helper], plays: Sequence[Known], seconds: float, jobs: int
) -> dict[str, str]:
    """What came of each change: ``row``, ``play``, ``not called`` or ``left``."""
    found: dict[str, str] = {}
    running: dict[int, tuple[Helper, bool]] = {}
    told = time.monotonic()

    def wait() -> None:
        child, status = os.wait()
        change, called = running.pop(child)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else TOLD
        found[change.id] = {ROW: "row", ALIKE: "left" if called else "not called"}.get(code, "play")

    for change in sample:
        mine = [one for one in plays if change.site is None or change.name in one.called]
        mine.sort(key=lambda one: one.seconds)
        running[tried(telling, change, mine, seconds)] = (change, bool(mine))
        while len(running) >= jobs:
            wait()
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{len(found):,} of {len(sample):,} changes, {Counter(found.values())}", file=sys.stderr, flush=True)
    while running:
        wait()
    return found


# -- the command --------------------------------------------------------------------------------------------


def judging_rules() -> dict[str, Rule]:
    """The rules that have a predicate."""
    return {id: one for id, one in all_rules().items() if one.kind is not Kind.PROCEDURE and one.facts}


def outcomes(
    sample: Sequence[Helper], *, seed: int, recorded: int, wrong: int, seconds: float, jobs: int
) -> dict[str, str]:
    """What came of each of these changes, tried on plays that are drawn by a seed."""
    telling = Telling(judging_rules())
    looked_at = {one.name: one.site for one in sample if one.site is not None}
    plays = known_plays(telling, drawn(seed, recorded, wrong), [*looked_at.values()])
    print(f"on {len(plays):,} plays, {sum(len(one.said) for one in plays):,} steps", flush=True)
    return try_all(telling, sample, plays, seconds, jobs)


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="spec_helpers.py", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modules", nargs="*", metavar="MODULE", help="functions of these modules alone, no tables")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="so many changes (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="by which changes and plays are drawn")
    parser.add_argument("--recorded", type=int, default=RECORDED, metavar="N", help="so many recorded plays")
    parser.add_argument("--wrong", type=int, default=WRONG, metavar="N", help="so many plays with wrong values")
    parser.add_argument("--each", type=float, default=10.0, metavar="S", help="seconds of CPU time for each change")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many processes")
    parser.add_argument("--ids", type=Path, metavar="FILE", help="only these changes, one a line")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what came of it as JSON")
    asked = parser.parse_args(arguments)
    if strange := sorted(set(asked.modules or ()) - set(modules())):
        parser.error(f"no functions are changed in {', '.join(strange)}")
    started = time.monotonic()
    everything = [*helpers([*sites(asked.modules or modules())]), *(() if asked.modules else tables())]
    sample = everything
    if asked.ids:
        only = frozenset(asked.ids.read_text(encoding="utf-8").splitlines())
        sample = [one for one in everything if one.id in only]
    elif asked.sample:
        sample = random.Random(asked.seed).sample(everything, min(asked.sample, len(everything)))
    print(f"{len(everything):,} changes, of which {len(sample):,} are tried", flush=True)
    found = outcomes(
        sample, seed=asked.seed, recorded=asked.recorded, wrong=asked.wrong, seconds=asked.each, jobs=asked.jobs
    )
    known = equivalents("function")
    left = [one for one in sample if found[one.id] in ("left", "not called") and one.id not in known]
    listed = [one for one in sample if found[one.id] in ("left", "not called") and one.id in known]
    for one in sorted(left, key=lambda one: (one.name, one.line)):
        print(f"{found[one.id]}: {one.id.removeprefix(SPEC)} (line {one.line})")
    told = len(sample) - len(left) - len(listed)
    rate = told / max(1, len(sample) - len(listed))
    print(
        f"{len(sample):,} changes tried (seed {asked.seed}), {told:,} told apart, {len(listed):,} equivalent, "
        f"{len(left):,} not told apart: {rate:.1%}; {time.monotonic() - started:.0f} s"
    )
    if asked.report:
        outcome = {"kind": "kvlitmus spec helpers", "seed": asked.seed, "of": len(everything), "found": found}
        asked.report.write_text(json.dumps(outcome, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(rate < GOAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
