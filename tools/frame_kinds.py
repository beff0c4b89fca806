#!/usr/bin/env python3
"""Who notices what calls on components, sparse pools and ranks must not change: they have no row in the table.

    .venv/bin/python tools/frame_kinds.py [--seeds 3] [--most 2] [--update]

A specimen plays at random.  Behind each kind of call each change of :mod:`kvlitmus.mutants.disturb_kinds` is made.  A
cell is *noticed* by a rule, at once or later, or *legal* for a reason, or *impossible*: the change could not be made
behind that call in any schedule.  What no rule says anything of, though it isn't legal, is *open*.  The rest
is *missed*, and makes the exit status 1.  ``--update`` keeps the cells for ``docs/frame.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
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
    Excuse,
    Lasting,
    Way,
    excuse_of,
    showing,
)
from kvlitmus.spec.actions import ELSEWHERE  # noqa: E402
from kvlitmus.spec.config import Config  # noqa: E402
from kvlitmus.spec.on import On  # noqa: E402
from tools.frame_page import KINDS_KEPT  # noqa: E402

TRIED = 2
"""In how many configurations of a target a change that does not show at once is tried."""

LONGER = 24
"""With so many times the seeds: it shows only where somebody goes by it, and is tried until it has shown."""

UNREACHED: dict[On, str] = {}
"""Calls behind which nothing is changed, each with the reason."""


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
    """A kind of cache: what plays, in which configurations, and what is changed.

    ``times``: how many schedules there are for one of another kind, as not every shape is in each.
    """

    name: str
    plays: tuple[tuple[Any, tuple[Config, ...]], ...]
    ways: tuple[Way, ...]
    excuses: tuple[Excuse, ...]
    times: int = 1


KINDS: tuple[Kind, ...] = (
    Kind(
        "component",
        (
            (component_target, (*plan.COMPONENT_STORAGE_CONFIGS, *plan.COMPONENT_HOST_CONFIGS)),
            (component_target, (*plan.COMPONENT_WRITE_CONFIGS, *plan.COMPONENT_CONFIGS[:4])),
            (component_target, COUNTED),
            (component_request_target, plan.REQUEST_CONFIGS[:4]),
        ),
        component_disturbances.WAYS,
        component_disturbances.EXCUSES,
    ),
    Kind("sparse", ((target, plan.SPARSE_CONFIGS),), sparse_disturbances.WAYS, sparse_disturbances.EXCUSES, 4),
    Kind("ranks", ((target, plan.RANK_CONFIGS),), rank_disturbances.WAYS, rank_disturbances.EXCUSES, 8),
)
"""The kinds of caches whose calls have no row."""


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
        if excuse_of(cell, kind.excuses):
            return


def outcome_of(kind: Kind, cells: Cells, cell: Cell) -> str:
    """What a cell is; a change is noticed if it was each time."""
    if cell not in cells.made:
        return IMPOSSIBLE
    if cell in cells.noticed and cell not in cells.silent:
        return NOTICED
    if cell in cells.later:
        return LATER
    why = excuse_of(cell, kind.excuses)
    if not why:
        return MISSED
    return OPEN if why.startswith(OPEN) else LEGAL


def document(kind: Kind, cells: Cells) -> list[dict[str, Any]]:
    """All cells of a kind, as plain data."""
    rows = []
    for on in (one for one in ELSEWHERE if one in cells.reached):
        for way in kind.ways:
            cell = Cell(on, way.how)
            outcome = outcome_of(kind, cells, cell)
            rules = sorted(cells.noticed.get(cell, {}).items(), key=lambda one: (-one[1], one[0]))
            row: dict[str, Any] = {"call": on.value, "how": way.how, "outcome": outcome}
            row["rules"] = list(cells.later[cell]) if outcome == LATER else [rule for rule, _ in rules]
            row["because"] = excuse_of(cell, kind.excuses) if outcome in (LEGAL, OPEN) else ""
            row["after"] = cells.silent.get(cell, []) if outcome == MISSED else []
            rows.append(row)
    return rows


def keep(found: dict[str, list[dict[str, Any]]]) -> None:
    """Keep the cells of some kinds for the page: of each change and outcome the calls, and the rules that notice."""
    kept = json.loads(KINDS_KEPT.read_text()) if KINDS_KEPT.exists() else {}
    for name, rows in found.items():
        ways: dict[str, dict[str, dict[str, list[str]]]] = {}
        for row in rows:
            ways.setdefault(row["how"], {}).setdefault(row["outcome"], {})[row["call"]] = row["rules"]
        kept[name] = ways
    lines = [
        f' "{name}": {{\n'
        + ",\n".join(f"  {json.dumps(how)}: {json.dumps(kept[name][how])}" for how in kept[name])
        + "\n }"
        for name in sorted(kept)
    ]
    KINDS_KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    """Disturb, print, and keep what was asked for."""
    known = [kind.name for kind in KINDS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(known)} (default: all)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="schedules per configuration (default: 3)")
    parser.add_argument("--most", type=int, default=2, metavar="N", help="trials of each cell (default: 2)")
    parser.add_argument("--at-once", action="store_true", help="only what shows at once")
    parser.add_argument("--update", action="store_true", help=f"keep the cells in {KINDS_KEPT.relative_to(ROOT)}")
    given = parser.parse_args()
    if strangers := set(given.kinds) - set(known):
        parser.error(f"no such kind: {', '.join(sorted(strangers))}; there are {', '.join(known)}")
    found: dict[str, list[dict[str, Any]]] = {}
    missed = 0
    for kind in KINDS:
        if given.kinds and kind.name not in given.kinds:
            continue
        cells = shown(kind, given.seeds, given.most)
        if not given.at_once:
            lasted(kind, cells, given.seeds)
        rows = document(kind, cells)
        counts = Counter(row["outcome"] for row in rows)
        print(kind.name, ", ".join(f"{counts[one]} {one}" for one in OUTCOMES))
        for row in (row for row in rows if row["outcome"] == MISSED):
            print(f"  missed: {row['call']}: {row['how']} {row['rules']} {row['after'][-1:]}")
        missed += counts[MISSED]
        found[kind.name] = rows
    if given.update:
        keep(found)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
