"""Is every operator of the specification there for a reason?  One-operator changes, and what tells them apart.

    .venv/bin/python -m tests.spec.mutation                        a sample of 200 changes, on the plays of one seed
    .venv/bin/python -m tests.spec.mutation --sample 0             all changes: hours
    .venv/bin/python -m tests.spec.mutation --modules effects evict of these modules of the spec alone
    .venv/bin/python -m tests.spec.mutation --ids FILE             only the changes listed there, one a line

What is changed are predicates, facts, the functions from which these are worked out and by which the state is folded,
and the tables of actions and of jobs, an entry of which is left out.  Each change is tried in a process of its own:
first on rows by hand (tests/spec/support), then on plays.  It is **told apart** by the first row or step of which some
rule says something else: kept, broken, unknown, or nothing, as its premise isn't true.

Plays are litmus tests and schedules at all depths: of legal caches, each step of which is judged a few times more with
one value changed (tests/spec/support/wrong.py), and of mutants.  A sample is drawn, and it is noted which functions
each calls: a change is tried only where its function is called, the shortest plays first, for so many seconds of CPU
time at most (``--each``).  What is then left may be told apart by other plays.  Changes that nothing can tell apart are
in tests/corpus/equivalent.toml, each with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import os
import random
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from kvlitmus.conformance.checker import judge
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.actions import ACTIONS, Group
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.law.rule import RULES
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import judged_step as look
from kvlitmus.spec.prefix.frame.explain import REACH
from kvlitmus.spec.prefix.rules.job import JOBS
from tests.spec.support.edges import ALL_ROWS
from tests.spec.support.functions import FUNCTIONS
from tests.spec.support.wrong import TOLD, TellingChecker, Told, Wrong, WrongChecker
from tests.support.mutations import changes
from tools import night

ROOT = Path(__file__).resolve().parent.parent.parent
EQUIVALENT = ROOT / "tests" / "corpus" / "equivalent.toml"
GOAL = 0.95

SPEC = "kvlitmus.spec."
JUDGE = "kvlitmus.conformance.checker"
"""Where the functions of the spec are called by their names: in itself, and by the judge."""

LEFT_OUT = {
    "words.choices": "what a profile may declare; its tests say what is refused",
    "words.config": "what a cache may be asked to be; the same",
    "words.profile": "the same",
    "words.text": "how refusals are worded",
    "law.facts": "how facts are registered; every fact is tested by being there",
    "law.rule": "how rules are registered",
    "parts": "which modules there are",
    "law.plan": "how rules are compiled; each plan is compared with rules judged one by one",
    "law.inline": "the same",
    "words.names": "numbers that stand for prefixes; any are as good",
    "prefix.own_work": "what the reference alone knows",
    "law.on": "which occasions there are",
    "law.actions": "the table itself, and how it is joined: changed as a table",
    "words.transitions": "how a table of states is made: changed as a table",
}
"""Modules whose functions aren't changed, each with the reason."""

PLAYS = 360
"""So many plays are drawn, a third of mutants."""
OPS = 60
"""Operations of a schedule: what is told apart by a short one is told sooner."""
DEPTHS = (0, 1, 2, 3)


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
    top = ROOT / "spec" / "kvlitmus" / "spec"
    paths = [path.relative_to(top) for path in sorted(top.rglob("*.py")) if path.stem != "__init__"]
    names = [".".join(path.with_suffix("").parts) for path in paths if path.parts[0] != "interface"]
    return [name for name in names if name not in LEFT_OUT]


def sites(names: Sequence[str]) -> Iterator[Site]:
    """The functions and methods of these modules: predicates, facts, and what these call."""
    all_rules()  # which defines them
    for name in names:
        module = importlib.import_module(SPEC + name)
        for key, value in list(vars(module).items()):
            plain = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield from of_class(name, value)
            elif isinstance(plain, FunctionType) and plain.__module__ == module.__name__:
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
    FACTS.update({name: one._replace(compute=new) for name, one in FACTS.items() if one.compute is old})
    RULES.update({id: replace(one, predicate=new) for id, one in RULES.items() if one.predicate is old})


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
    judge.PLANS.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith((SPEC, JUDGE)):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


# -- what tells changes apart -------------------------------------------------------------------------------


class Play(NamedTuple):
    """One item that is to be played, by which cache, how deep it is looked at, and the seed of wrong values, if any."""

    target: Any
    item: Item
    depth: int
    wrong: int | None


class Known(NamedTuple):
    """A play, what was said of each step, how long it took, and the functions that it called."""

    play: Play
    said: list[int]
    seconds: float
    called: frozenset[str]


def judged(one: Play, then: Sequence[int] | None = None) -> list[int]:
    """What is said of each step of a play, and what came of it; ends the process where it is not what it was then."""
    told = Told(then)
    kind: type[TellingChecker] = TellingChecker if one.wrong is None else WrongChecker
    members = {"told": told} if one.wrong is None else {"told": told, "wrong": Wrong(one.wrong)}
    options = Options(depth=one.depth, force_misuse=True, reruns=0, shrink_trials=0)
    result = engine.run_item(one.target, one.item, options, CurrentRun(type(kind.__name__, (kind,), members)))
    told.note((result.error, result.unsupported, tuple(tuple(found.rules) for found in result.findings)))
    return told.said


def drawn(seed: int, many: int) -> list[Play]:
    """The plays on which changes are tried."""
    draw = random.Random(seed)
    legal = [night.cache_of(name) for name in night.names()]
    wrong = [(one.target, one.configs) for one in all_mutants().values() if not one.null]
    found = []
    for number in range(many):
        target, configs = draw.choice(wrong if number % 3 == 0 else legal)
        config = draw.choice(configs)
        items = plan.items((config,), target.profile, steps=0, force_misuse=True)
        item = Item(kind="random", config=config, seed=draw.randrange(100), ops=OPS)
        item = draw.choice(items) if items and draw.random() < 0.5 else item
        found.append(Play(target, item, draw.choice(DEPTHS), None if number % 3 == 0 else seed + number))
    return found


@contextlib.contextmanager
def noting(found: Sequence[Site], called: set[str]) -> Iterator[None]:
    """Meanwhile the names of these functions are noted when they are called."""

    def noted(site: Site) -> Callable[..., Any]:
        function: Any = site.value.fget if isinstance(site.value, property) else site.value

        @functools.wraps(function)
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


def known_plays(plays: Sequence[Play], found: Sequence[Site]) -> list[Known]:
    """What these plays say with nothing changed; those left out that don't say the same twice."""
    kept, shown = [], time.monotonic()
    for number, one in enumerate(plays, 1):
        called: set[str] = set()
        forget()
        with noting(found, called):
            said = judged(one)
        forget()
        started = time.process_time()
        if judged(one) == said:
            kept.append(Known(one, said, time.process_time() - started, frozenset(called)))
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"{number:,} of {len(plays):,} plays looked at", file=sys.stderr, flush=True)
    return kept


ALIKE, ROW = 11, 12
"""How a process ends that has compared and found nothing, or a row."""


def by_row() -> bool:
    """Whether a row by hand, of whatever fact or function, says otherwise as things are now."""
    for row in (*ALL_ROWS, *FUNCTIONS):
        said = row.function(**row.values)
        if not (said is row.says or said == row.says):
            return True
    return False


def compare(change: Helper, plays: Sequence[Known], seconds: float) -> None:
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
            if judged(one.play, one.said) != one.said:
                os._exit(TOLD)
            if time.process_time() > ends:
                break
    except BaseException:  # noqa: BLE001  # a change by which something raises is noticed
        os._exit(TOLD)
    os._exit(ALIKE)


def tried(change: Helper, plays: Sequence[Known], seconds: float) -> int:
    """The process in which a change is tried."""
    child = os.fork()
    if not child:
        compare(change, plays, seconds)
    return child


def try_all(sample: Sequence[Helper], plays: Sequence[Known], seconds: float, jobs: int) -> dict[str, str]:
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
        running[tried(change, mine, seconds)] = (change, bool(mine))
        while len(running) >= jobs:
            wait()
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{len(found):,} of {len(sample):,} changes, {Counter(found.values())}", file=sys.stderr, flush=True)
    while running:
        wait()
    return found


# -- the command --------------------------------------------------------------------------------------------


def equivalents() -> dict[str, str]:
    """The changes that make no difference, and why."""
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    return {str(row["change"]): " ".join(str(row["reason"]).split()) for row in rows}


def outcomes(sample: Sequence[Helper], *, seed: int, plays: int, seconds: float, jobs: int) -> dict[str, str]:
    """What came of each of these changes, tried on plays that are drawn by a seed."""
    looked_at = {one.name: one.site for one in sample if one.site is not None}
    known = known_plays(drawn(seed, plays), [*looked_at.values()])
    print(f"on {len(known):,} plays, {sum(len(one.said) for one in known):,} steps", flush=True)
    return try_all(sample, known, seconds, jobs)


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="tests.spec.mutation", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modules", nargs="*", metavar="MODULE", help="functions of these modules alone, no tables")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="so many changes (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="by which changes and plays are drawn")
    parser.add_argument("--plays", type=int, default=PLAYS, metavar="N", help=f"so many plays ({PLAYS})")
    parser.add_argument("--each", type=float, default=10.0, metavar="S", help="seconds of CPU time for each change")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many processes")
    parser.add_argument("--ids", type=Path, metavar="FILE", help="only these changes, one a line")
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
    found = outcomes(sample, seed=asked.seed, plays=asked.plays, seconds=asked.each, jobs=asked.jobs)
    alike = [one for one in sample if found[one.id] in ("left", "not called")]
    left = [one for one in alike if one.id not in equivalents()]
    for one in sorted(left, key=lambda one: (one.name, one.line)):
        print(f"{found[one.id]}: {one.id.removeprefix(SPEC)} (line {one.line})")
    told = len(sample) - len(alike)
    rate = told / max(1, told + len(left))
    print(
        f"{len(sample):,} changes tried (seed {asked.seed}), {told:,} told apart, "
        f"{len(alike) - len(left):,} equivalent, {len(left):,} not told apart: {rate:.1%}; "
        f"{time.monotonic() - started:.0f} s"
    )
    return int(rate < GOAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
