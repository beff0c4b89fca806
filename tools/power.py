#!/usr/bin/env python3
"""How much less observation costs: for how many mutants a rule that they name fires, at each depth.

    .venv/bin/python tools/power.py [--out FILE] [--depths 0 1 2 3] [--steps 4000] [--only ID …] [--tiers]

Flat caches are played, or with ``--tiers`` hierarchies.

A mutant is played at random until a rule that it names is broken, or so many steps are spent.  Its names are of rules
that read a snapshot, for the most part.  Without one, other rules say what they say, of what answers and counters tell:
:data:`SAYS` lists which.  Both counts are printed, with those names alone and with these rules beside them.

Two denominators.  *All*: every flat mutant that random steps reach, so none of the packs in :data:`NOT_RANDOM`, which
litmus tests play.  *Those that differ*: mutants that at this depth answer, or show, something that no legal cache could
have.  A broken rule shows that; where none is broken, :mod:`tools.histories` decides: schedules are played on the
mutant in small pools, and all legal completions are followed.  The budget is :data:`SCHEDULES` schedules in each of at
most :data:`CONFIGS` configurations, of :data:`~tools.histories.OPS` operations each, and at most
:data:`~tools.histories.MOST` completions at once.  A mutant that differs only beyond it isn't counted as one.

Of hierarchies there are no histories to follow: one *differs* if any rule is broken, whichever.  Those are fewer than
do differ, so what is counted of them alone is at most what it says.  Before random steps such a mutant plays the litmus
tests that lead to a rule that it names, in :data:`CONFIGS` configurations, as ``kvlitmus run`` would: faults, timeouts
and prefetches that meet are rare at random.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.litmus.registry import all_litmus  # noqa: E402
from kvlitmus.conformance.run import engine, plan  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options  # noqa: E402
from kvlitmus.mutants.mutant import Mutant  # noqa: E402
from kvlitmus.mutants.registry import all_mutants  # noqa: E402
from tools.histories import MOST, OPS, Differs, all_histories, noted  # noqa: E402

STEPS = 4_000
SCHEDULES = 4
CONFIGS = 2
SMALL = {1: 10, 4: 12}
"""How many pages the pool has in which completions are followed, by the size of a page."""

NOT_RANDOM = ("MISUSE", "HASH", "STORE")
"""Packs that random schedules don't reach, or not in a cache."""

SAYS: Mapping[str, tuple[str, ...]] = {
    "EVICT-20": ("EVICT-01", "EVICT-04", "EVICT-05", "EVICT-06", "TREE-13", "TREE-14", "POOL-12", "REQ-07", "POOL-20"),
    "EVICT-21": ("EVICT-01", "EVICT-02", "EVICT-06", "LOCK-02", "LOCK-04", "LOCK-06", "POOL-12", "REQ-07"),
    "EVICT-22": ("EVICT-01", "EVICT-02", "EVICT-04"),
    "EVICT-23": ("EVICT-06",),
    "EVICT-24": ("POOL-20",),
    "TREE-19": ("POOL-12", "REQ-07", "REQ-08", "REQ-09", "REQ-11", "TREE-08", "POOL-11"),
    "TREE-20": ("LOCK-01", "EVICT-03"),
    "TREE-22": ("TREE-04", "LOCK-05"),
    "TREE-23": ("REQ-10", "POOL-08"),
    "TREE-24": ("LOCK-02", "LOCK-04"),
    "POOL-14": ("POOL-12",),
    "POOL-04": ("POOL-05", "EVICT-03", "LOCK-01"),
    "POOL-15": ("POOL-12", "POOL-11"),
    "LOCK-07": ("LOCK-05",),
}
"""Rules that say without a snapshot what others say of one: of contents and order the first group, of sums the others.

EVICT-20 and EVICT-21 hold what is found and reported against the policy's order, which hits and priorities decide, and
against amounts, which are right only if each page has one home and ended requests own nothing.
"""


SAYS_BELOW: Mapping[str, tuple[str, ...]] = {
    **SAYS,
    "TREE-03": ("TIER-07", "TIER-08"),
    "TREE-20": (*SAYS["TREE-20"], "TIER-05"),
    "TREE-24": ("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "LIFE-08"),
    "BACKUP-06": ("TIER-07", "TIER-11"),
    "BACKUP-04": ("TIER-11", "TIER-12", "TIER-14"),
    "TIER-10": ("TIER-06", "TIER-11", "TIER-13", "TIER-14", "TIER-16", "LOAD-05", "LIFE-04", "FETCH-14"),
    "LOAD-01": ("TIER-06", "TIER-11", "TIER-13", "TIER-14", "TIER-16", "LOAD-05", "LIFE-04", "FETCH-14"),
    "TIER-15": ("TIER-01", "TIER-02", "LIFE-08"),
    "TIER-17": ("TIER-15", "TIER-16"),
    "TIER-32": ("TIER-01", "TIER-02", "TIER-15", "TIER-16", "LIFE-01", "LIFE-05", "LIFE-08"),
    "TIER-33": ("FRAME-01", "FRAME-03", "FRAME-04", "TIER-02"),
    "FETCH-07": ("LIFE-05",),
    "FETCH-18": ("LIFE-05",),
    "FETCH-19": ("FRAME-07",),
}
"""The same of hierarchies.

What a page held on the host shows when it comes back or is put; locks in the tree's counter; that a copy went which had
to stay when it is asked for; host pages that are lost, held or counted twice when all that is left is asked for.
"""


@dataclass(frozen=True, slots=True)
class Power:
    """What became of one mutant at one depth.

    fires: the rule that it names and that was broken; says: that one, or one that says the same; broken: all;
    differs: how it shows that no legal cache is at work.
    """

    id: str
    depth: int
    fires: str
    says: str
    broken: tuple[str, ...]
    differs: str


def flat(one: Mutant) -> bool:
    """Whether a mutant is of a flat cache, and random steps reach it."""
    return (
        not one.null
        and not any(config.tiered or config.pool == "store" for config in one.configs)
        and not all(rule.startswith(NOT_RANDOM) for rule in one.kills)
    )


def hierarchical(one: Mutant) -> bool:
    """Whether a mutant is of a hierarchy."""
    return not one.null and any(config.tiered for config in one.configs)


def played(one: Mutant) -> Iterator[Item]:
    """What a mutant plays, one after the other: of a hierarchy litmus tests first, then random steps without an end."""
    configs = [config for config in one.configs if config.tiered] or list(one.configs)
    if hierarchical(one):
        leads = [test.id for test in all_litmus().values() if not set(one.kills).isdisjoint(test.rules)]
        yield from (Item(kind="litmus", config=config, name=id) for id in leads for config in configs[:CONFIGS])
    for seed in count():
        yield from (Item(kind="random", config=config, seed=seed, ops=plan.OPS) for config in configs)


def power(one: Mutant, depth: int, steps: int) -> Power:
    """Play one mutant at one depth."""
    names, says = set(one.kills), SAYS_BELOW if hierarchical(one) else SAYS
    also = names | {rule for rule, others in says.items() if not names.isdisjoint(others)}
    broken: dict[str, None] = {}
    drawn = 0
    for item in played(one):
        result = engine.run_item(one.target, item, Options(depth=depth, shrink_trials=0, reruns=4))
        drawn += max(1, result.steps) if item.kind == "random" else 0
        for finding in result.findings:
            broken.update(dict.fromkeys(finding.rules))
        if drawn >= steps or not names.isdisjoint(broken):
            break
    fired = next((rule for rule in broken if rule in names), "")
    said = fired or next((rule for rule in broken if rule in also), "")
    how = "a rule is broken" if broken else "" if hierarchical(one) else differs(one, depth)
    return Power(one.id, depth, fired, said, tuple(broken), how)


def differs(one: Mutant, depth: int) -> str:
    """What a mutant showed that no legal cache could have; empty where nothing was found."""
    for config in one.configs[:CONFIGS]:
        small = replace(config, pages=SMALL.get(config.page_size, 12))
        for seed in range(SCHEDULES):
            try:
                for _ in all_histories(*noted(one.target, small, depth, seed, judged=False)):
                    pass
            except Differs as found:
                return f"{small.label}, seed {seed}: {found}"[:200]
    return ""


def table(found: Sequence[Power]) -> list[str]:
    """The counts, a line for each depth."""
    lines = ["depth   named / all      with those that say the same   differ   named / differ   with …"]
    for depth in sorted({one.depth for one in found}):
        here = [one for one in found if one.depth == depth]
        apart = [one for one in here if one.differs]
        fires, says = sum(bool(one.fires) for one in here), sum(bool(one.says) for one in here)
        every, some = len(here), max(1, len(apart))
        lines.append(
            f"{depth}       {fires}/{every} = {fires / every:.0%}      {says}/{every} = {says / every:.0%}"
            f"      {len(apart)}      {fires / some:.0%}      {says / some:.0%}"
        )
    return lines


def main() -> int:
    """Play, count, print, and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--depths", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--tiers", action="store_true")
    asked = parser.parse_args()
    wanted = hierarchical if asked.tiers else flat
    mutants = [one for one in all_mutants().values() if wanted(one) and (not asked.only or one.id in asked.only)]
    found = []
    for depth in asked.depths:
        for one in mutants:
            found.append(power(one, depth, asked.steps))
            last = found[-1]
            how = last.differs or "as a legal cache"
            print(f"{depth} {last.id}: {last.fires or '-'} {last.says or '-'} {how}", flush=True)
    print("\n".join(table(found)))
    if asked.out:
        commit = subprocess.run(("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=True)
        effort = {"steps": asked.steps, "schedules": SCHEDULES, "configs": CONFIGS, "ops": OPS, "completions": MOST}
        stamped = {"kind": "kvlitmus power", "commit": commit.stdout.strip(), "effort": effort, "table": table(found)}
        asked.out.write_text(json.dumps({**stamped, "mutants": [asdict(one) for one in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
