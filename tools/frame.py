#!/usr/bin/env python3
"""What each call may change: the site's page, and who notices a change behind calls that have no row in the table.

    .venv/bin/python tools/frame.py [KIND …] [--seeds 3] [--most 2] [--update]

Calls on components, sparse pools and ranks have no row in the table of actions.  A specimen plays at random, and behind
each kind of call each change of :mod:`kvlitmus.mutants.disturb_kinds` is made.  A cell is *noticed* by a rule, at once
or later, or *legal* for a reason, or *impossible*: the change could not be made behind that call in any schedule.  What
no rule says anything of, though it isn't legal, is *open*.  The rest is *missed*, and makes the exit status 1.
``--update`` keeps the cells in ``docs/frame.json``: of each change and outcome the rules, and behind which calls.

Calls that have a row are disturbed by ``tests/conformance/test_frame.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.checker.checker import Checker  # noqa: E402
from kvlitmus.conformance.isolation.current_run import CurrentRun  # noqa: E402
from kvlitmus.conformance.run import engine, plan  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options  # noqa: E402
from kvlitmus.conformance.specimen.cache import component_request_target, component_target, target  # noqa: E402
from kvlitmus.mutants import component_disturbances, rank_disturbances, sparse_disturbances  # noqa: E402
from kvlitmus.mutants.disturb import BY_FRAME_ALONE  # noqa: E402
from kvlitmus.mutants.disturb_kinds import (  # noqa: E402
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
from kvlitmus.spec.actions import ACTIONS, CAUSES, EFFECTS, ELSEWHERE, FACETS, Because, Group, What  # noqa: E402
from kvlitmus.spec.config import Config  # noqa: E402
from kvlitmus.spec.on import On  # noqa: E402

KEPT = ROOT / "docs" / "frame.json"

GOVERNED: dict[What, tuple[str, ...]] = {
    What.PLACE: ("TREE-08", "REQ-08", "FRAME-01"),
    What.RESTORE: ("LOAD-01", "LOAD-02", "FRAME-01"),
    What.EVICT: ("EVICT-01", "EVICT-05", "EVICT-06", "LOCK-01", "FRAME-01"),
    What.DEMOTE: ("EVICT-05", "EVICT-06", "TIER-13", "LOAD-08", "FRAME-01"),
    What.MOVE: ("FRAME-01",),
    What.TAKE: ("POOL-12", "POOL-14", "FRAME-02"),
    What.RELEASE: ("POOL-12", "EVICT-04", "FRAME-02"),
    What.USE: ("EVICT-05",),
    What.COUNT: ("TREE-13", "TIER-25"),
    What.RAISE: ("TREE-14", "TIER-26"),
    What.LOCK: ("LOCK-02", "LOCK-04"),
    What.UNLOCK: ("LOCK-02", "LOCK-04"),
    What.SPLIT: (),
    What.BACK: ("BACKUP-01", "BACKUP-02", "FETCH-12", "FETCH-13", "TIER-42", "FRAME-03"),
    What.DROP: ("TIER-14", "TIER-30", "TIER-31", "TIER-41", "FRAME-03"),
    What.MOVE_COPY: ("TIER-11", "TIER-41", "FRAME-03"),
    What.HOST_TAKE: ("TIER-02", "FETCH-04", "FRAME-04"),
    What.HOST_RELEASE: ("TIER-01", "TIER-16", "FRAME-04"),
    What.PIN: ("LIFE-08", "FRAME-05"),
    What.UNPIN: ("TIER-11", "TIER-12", "FRAME-05"),
    What.BEGIN_JOB: ("BACKUP-02", "LOAD-04", "FETCH-08", "FRAME-06"),
    What.GO_ON: ("LOAD-06", "FETCH-10", "FRAME-06"),
    What.END_JOB: ("BACKUP-03", "LIFE-06", "FRAME-06"),
    What.ASK: ("BACKUP-04", "FRAME-07"),
    What.READ: ("FETCH-09", "FRAME-07"),
    What.PUT: ("BACKUP-06", "BACKUP-07", "FRAME-07"),
    What.TELL: ("EVENT-01", "EVENT-02", "EVENT-03", "EVENT-04"),
}
"""By which rules each effect is governed where it is allowed, and guarded where it isn't."""

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
    found: Kept = json.loads(KEPT.read_text(encoding="utf-8"))[kind.name]
    return found


def cells_of(outcomes: Mapping[str, Mapping[str, str]], outcome: str) -> dict[str, list[str]]:
    """The calls behind which a change has an outcome, each with the rules that notice it."""
    return {call: rules.split() for rules, calls in outcomes.get(outcome, {}).items() for call in calls.split()}


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
    everything: dict[str, Kept] = json.loads(KEPT.read_text(encoding="utf-8"))
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
    """What is kept as JSON, a change a line."""
    parts = (
        f' "{name}": {{\n'
        + ",\n".join(f"  {json.dumps(how)}: {json.dumps(outcomes)}" for how, outcomes in everything[name].items())
        + "\n }"
        for name in sorted(everything)
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


# -- the page ----------------------------------------------------------------------------------


PAGE_SAYS = """Every call may change what is listed here, for these causes, and nothing else. Granted, refused and
failed calls are rows of their own; a step that is several of them may have what any of its rows allow. Rendered from
[actions.py](../spec/kvlitmus/spec/actions.py). What isn't explained by a cause breaks the
[frame](rules/frame.md)."""

KINDS_SAY = """Calls on these have no row above: rules of their own say what must stay as it is. Each change here is
made behind each kind of call, and who notices it is kept by `tools/frame.py --update`. What does not show
at once is made to a cache that plays on: it is noticed later. *Impossible* is what could not be made behind
that call, in any schedule: nothing of that kind was there. *Open* is what isn't legal, and no rule notices."""


def cell(causes: Sequence[Because]) -> str:
    """One cell of the table."""
    if not causes:
        return "*unchanged*"
    return ", ".join(one.cause.value + (f" ({one.field} = {one.value})" if one.field else "") for one in causes)


def group_table(group: Group) -> list[str]:
    """What each call may do to one group of the state."""
    columns = [what for what in What if what.group is group]
    lines = [f"| call | {' | '.join(what.value for what in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for on, row in ACTIONS.items():
        lines.append(f"| `{on}` | {' | '.join(cell(row.get(what, ())) for what in columns)} |")
    return lines


def noticing(cells: Mapping[str, Sequence[str]]) -> str:
    """By which rules a change is noticed, each with the number of calls."""
    rules = Counter(rule for named in cells.values() for rule in named)
    return ", ".join(f"{rule} ({many})" for rule, many in rules.most_common()) or "–"


def calls_text(kind: Kind, calls: Sequence[str]) -> str:
    """Calls, without the name of their kind."""
    return ", ".join(f"`{call.replace(f'{kind.name}_', '', 1)}`" for call in calls) or "–"


def kind_part(kind: Kind) -> list[str]:
    """The cells of one kind of caches, a line for each change."""
    ways = {how: {one: cells_of(outcomes, one) for one in outcomes} for how, outcomes in kept(kind).items()}
    counts = Counter(dict.fromkeys((one for one in OUTCOMES if one != MISSED), 0))
    for outcomes in ways.values():
        counts.update({one: len(cells) for one, cells in outcomes.items()})
    calls = dict.fromkeys(call for outcomes in ways.values() for cells in outcomes.values() for call in cells)
    lines = ["", f"### {kind.title}", "", ", ".join(f"{many:,} {one}" for one, many in counts.items()) + "."]
    lines += [f"Behind {calls_text(kind, list(calls))}.", ""]
    lines += ["| change | noticed at once by (calls) | later by (calls) | legal, or open | impossible behind |"]
    lines += ["|---|---|---|---|---|"]
    for how, outcomes in ways.items():
        why = {call: kind.excuse(Cell(On(call), how)) for one in (LEGAL, OPEN) for call in outcomes.get(one, ())}
        said = "; ".join(
            f"{calls_text(kind, [one for one in why if why[one] == text])}: {text}"
            for text in dict.fromkeys(why.values())
        )
        away = outcomes.get(IMPOSSIBLE, {})
        gone = "all" if len(away) == len(calls) else calls_text(kind, list(away))
        lines.append(
            f"| {how} | {noticing(outcomes.get(NOTICED, {}))} | {noticing(outcomes.get(LATER, {}))} "
            f"| {said or '–'} | {gone} |"
        )
    lines += ["", "| part of the state | disturbed by |", "|---|---|"]
    lines += [f"| {part} | *{start}* … |" for part, start in kind.changes.GROUPS.items()]
    lines += [f"| {part} | nothing: {why} |" for part, why in kind.changes.NOT_DISTURBED.items()]
    return lines


def frame_page() -> str:
    """The page."""
    lines = ["# What each call may change", "", PAGE_SAYS]
    for group in Group:
        lines += [
            "",
            f"## {group.value[0].upper()}{group.value[1:]}",
            "",
            "| effect | meaning | rules |",
            "|---|---|---|",
        ]
        for what in What:
            if what.group is group:
                rules = ", ".join(GOVERNED[what]) or "none: it is the cache's own affair"
                lines.append(f"| {what.value} | {EFFECTS[what][1]} | {rules} |")
        lines += ["", *group_table(group)]
    lines += ["", "## Where the frame is the law", ""]
    lines += ["Where an effect may happen, and no other law says for what: one that nobody asked for is noticed by the"]
    lines += ["frame alone.", "", "| effects | why |", "|---|---|"]
    lines += [f"| {', '.join(what.value for what in whats)} | {why} |" for whats, why in BY_FRAME_ALONE]
    lines += ["", "## Components, sparse host pools and ranks", "", KINDS_SAY]
    lines += [line for kind in KINDS for line in kind_part(kind)]
    lines += ["", "## Causes", "", "| cause | meaning |", "|---|---|"]
    lines += [f"| {cause.value} | {meaning} |" for cause, meaning in CAUSES.items()]
    lines += ["", "## Without a row", "", "| call | why |", "|---|---|"]
    lines += [f"| `{on}` | always comes with {', '.join(f'`{one}`' for one in rows)} |" for on, rows in FACETS.items()]
    lines += [f"| `{on}` | {why} |" for on, why in ELSEWHERE.items()]
    return "\n".join(lines) + "\n"


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
