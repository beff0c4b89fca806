"""Who notices what calls on components, sparse pools and ranks must not change: they have no row in the table.

    .venv/bin/python -m tests.conformance.frame [KIND …] [--seeds 3] [--most 2] [--update]

A specimen plays at random, and behind each kind of call each change of :mod:`kvlitmus.mutants.disturb_kinds` is made.
A cell is *noticed* by a rule, at once or later, or *legal* for a reason, or *impossible*: the change could not be made
behind that call in any schedule.  What no rule says anything of, though it isn't legal, is *open*.  The rest is
*missed*, and makes the exit status 1.  ``--update`` keeps the cells in ``docs/frame.json``: of each change and outcome
the rules, and behind which calls.

Calls that have a row are disturbed by ``test_frame.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import component_request_target, component_target, target
from kvlitmus.mutants.components import disturbances as component_disturbances
from kvlitmus.mutants.disturb_kinds import (
    IMPOSSIBLE,
    LATER,
    LEGAL,
    MISSED,
    NOTICED,
    OPEN,
    OUTCOMES,
    Cell,
    Cells,
    Lasting,
    Way,
    excuse_of,
    showing,
)
from kvlitmus.mutants.ranks import disturbances as rank_disturbances
from kvlitmus.mutants.sparse import disturbances as sparse_disturbances
from kvlitmus.spec.law.actions import ELSEWHERE
from kvlitmus.spec.law.rule import in_force
from kvlitmus.spec.words.config import Config

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "docs" / "frame.json"

TRIED = 2
"""In how many configurations of a target a change that does not show at once is tried."""

LONGER = 24
"""With so many times the seeds: it shows only where somebody goes by it, and is tried until it has shown."""

COUNTED = tuple(
    [
        Config(
            page_size=4,
            pages=16,
            host_pages=16,
            write="write_through_selective",
            storage=storage,
            components="kv+swa+state",
        )
        for storage in ("attached", "later")
    ]
)
"""Storage behind a cache that backs up what is used a second time."""


class Kind(NamedTuple):
    """A kind of cache: what plays, in which configurations, and the module that says what is changed.

    ``times``: how many schedules there are for one of another kind, as not every shape is in each.
    """

    name: str
    title: str
    plays: tuple[tuple[Any, tuple[Config, ...]], ...]
    changes: Any
    times: int = 1

    @property
    def ways(self) -> tuple[Way, ...]:
        """What is changed."""
        return tuple(self.changes.WAYS)

    def excuse(self, cell: Cell) -> str:
        """Why a change is not noticed behind a call; empty where there is no reason."""
        return excuse_of(cell, self.changes.EXCUSES)


KINDS: tuple[Kind, ...] = (
    Kind(
        "component",
        "Components",
        (
            (component_target, (*plan.COMPONENT_STORAGE_CONFIGS, *plan.COMPONENT_HOST_CONFIGS)),
            (component_target, (*plan.COMPONENT_WRITE_CONFIGS, *plan.COMPONENT_CONFIGS[:4])),
            (component_target, COUNTED),
            (component_request_target, plan.REQUEST_CONFIGS[:4]),
        ),
        component_disturbances,
    ),
    Kind("sparse", "Sparse host pools", ((target, plan.SPARSE_CONFIGS),), sparse_disturbances, 4),
    Kind("ranks", "Ranks", ((target, plan.RANK_CONFIGS),), rank_disturbances, 8),
)
"""The kinds of caches whose calls have no row."""

Kept = dict[str, dict[str, dict[str, str]]]
"""Of each change and outcome the rules that notice it, and behind which calls; both as words between spaces."""


def kept(kind: Kind) -> Kept:
    """What is kept of a kind."""
    return everything_kept()[kind.name]


def everything_kept() -> dict[str, Kept]:
    """What is kept of all kinds; where calls are the same as before, the file says a number in their stead."""
    told = json.loads(KEPT.read_text(encoding="utf-8"))
    calls = told.pop("calls")
    return {
        name: {
            how: {outcome: {rules: calls[at] for rules, at in by.items()} for outcome, by in outcomes.items()}
            for how, outcomes in kinds.items()
        }
        for name, kinds in told.items()
    }


def cells_of(outcomes: Mapping[str, Mapping[str, str]], outcome: str) -> dict[str, list[str]]:
    """The calls behind which a change has an outcome, each with the rules that notice it, as they are called now."""
    found: dict[str, list[str]] = {}
    for rules, calls in outcomes.get(outcome, {}).items():
        found |= dict.fromkeys(calls.split(), [*dict.fromkeys(map(in_force, rules.split()))])  # noqa: RUF024 - read only
    return found


def items(kind: Kind, seeds: int, most: int = 99) -> Iterator[tuple[Any, Item]]:
    """Schedules of a kind; ``most``: of each target so many configurations at most."""
    for seed in range(seeds * kind.times):
        for one, configs in kind.plays:
            for config in configs[:most]:
                yield one, Item(kind="random", config=config, seed=seed, ops=plan.OPS)


def played(one: Any, item: Item, checker: type[Checker]) -> Any:
    """What came of a schedule."""
    return engine.run_item(one, item, Options(shrink_trials=0, reruns=0), CurrentRun(checker))


def shown(kind: Kind, seeds: int, most: int) -> Cells:
    """What came of changes that show at once; raises ``RuntimeError`` where the specimen breaks a rule undisturbed."""
    cells = Cells()
    for one, item in items(kind, seeds):
        result = played(one, item, showing(cells, kind.ways, most=most))
        if result.error or result.findings:
            raise RuntimeError(f"the specimen alone breaks rules in {item.id}: {result.error or result.findings}")
    return cells


def lasted(kind: Kind, cells: Cells, seeds: int) -> None:
    """What came later of changes that don't show at once, or did not; each is tried until it is noticed."""
    for on in cells.reached:
        for way in kind.ways:
            cell = Cell(on, way.how)
            if cell in cells.can_last or cell in cells.silent:
                last(kind, cells, cell, way, seeds)


def last(kind: Kind, cells: Cells, cell: Cell, way: Way, seeds: int) -> None:
    """Make one change in one schedule after another, until it is noticed."""
    for one, item in items(kind, LONGER * seeds, TRIED):
        trial = Lasting(cell, way)
        result = played(one, item, trial.checker())
        if not trial.done:
            continue
        cells.made[cell] = cells.made.get(cell, 0) + 1
        if result.findings or result.error:
            broken = tuple(rule for finding in result.findings for rule in finding.rules)
            cells.later[cell] = broken or (str(result.error).splitlines()[-1],)
            return
        cells.silent.setdefault(cell, trial.last)
        if kind.excuse(cell):
            return


def outcome_of(kind: Kind, cells: Cells, cell: Cell) -> str:
    """What a cell is; a change is noticed if it was each time."""
    if cell not in cells.made:
        return IMPOSSIBLE
    if cell in cells.noticed and cell not in cells.silent:
        return NOTICED
    if cell in cells.later:
        return LATER
    why = kind.excuse(cell)
    if not why:
        return MISSED
    return OPEN if why.startswith(OPEN) else LEGAL


def rules_of(cells: Cells, cell: Cell, outcome: str) -> list[str]:
    """The rules that notice a change, those that do so most often first."""
    if outcome == LATER:
        return list(cells.later[cell])
    return [rule for rule, _ in sorted(cells.noticed.get(cell, {}).items(), key=lambda one: (-one[1], one[0]))]


def rows(kind: Kind, cells: Cells) -> Iterator[tuple[Cell, str, list[str]]]:
    """All cells of a kind, with their outcomes and rules."""
    for on in (one for one in ELSEWHERE if one in cells.reached):
        for way in kind.ways:
            cell = Cell(on, way.how)
            outcome = outcome_of(kind, cells, cell)
            yield cell, outcome, rules_of(cells, cell, outcome)


def keep(found: Mapping[str, Sequence[tuple[Cell, str, list[str]]]]) -> None:
    """Keep the cells of some kinds."""
    everything = everything_kept()
    for name, cells in found.items():
        ways: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for cell, outcome, rules in cells:
            ways[cell.how][outcome][" ".join(rules)].append(cell.on.value)
        everything[name] = {
            how: {outcome: {rules: " ".join(calls) for rules, calls in by.items()} for outcome, by in outcomes.items()}
            for how, outcomes in ways.items()
        }
    KEPT.write_text(text_of(everything), encoding="utf-8")


def text_of(everything: Mapping[str, Kept]) -> str:
    """What is kept as JSON, a change a line, and the calls once each."""
    calls: dict[str, int] = {}

    def told(outcomes: Mapping[str, Mapping[str, str]]) -> str:
        return json.dumps(
            {
                outcome: {rules: calls.setdefault(those, len(calls)) for rules, those in by.items()}
                for outcome, by in outcomes.items()
            }
        )

    parts = [
        f' "{name}": {{\n'
        + ",\n".join(f"  {json.dumps(how)}: {told(outcomes)}" for how, outcomes in everything[name].items())
        + "\n }"
        for name in sorted(everything)
    ]
    lines = ",\n".join(f"  {json.dumps(one)}" for one in calls)
    return "{\n" + ",\n".join([f' "calls": [\n{lines}\n ]', *parts]) + "\n}\n"


def main() -> int:
    """Disturb, print, and keep what was asked for."""
    known = [kind.name for kind in KINDS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(known)} (default: all)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="schedules per configuration (default: 3)")
    parser.add_argument("--most", type=int, default=2, metavar="N", help="trials of each cell (default: 2)")
    parser.add_argument("--at-once", action="store_true", help="only what shows at once")
    parser.add_argument("--update", action="store_true", help=f"keep the cells in {KEPT.relative_to(ROOT)}")
    given = parser.parse_args()
    if strangers := set(given.kinds) - set(known):
        parser.error(f"no such kind: {', '.join(sorted(strangers))}; there are {', '.join(known)}")
    found = {}
    missed = 0
    for kind in KINDS:
        if given.kinds and kind.name not in given.kinds:
            continue
        cells = shown(kind, given.seeds, given.most)
        if not given.at_once:
            lasted(kind, cells, given.seeds)
        found[kind.name] = [*rows(kind, cells)]
        counts = Counter(outcome for _, outcome, _ in found[kind.name])
        print(kind.name, ", ".join(f"{counts[one]} {one}" for one in OUTCOMES))
        for cell, outcome, rules in found[kind.name]:
            if outcome == MISSED:
                print(f"  missed: {cell.on}: {cell.how} {rules} {cells.silent.get(cell, [])[-1:]}")
        missed += counts[MISSED]
    if given.update:
        keep(found)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
