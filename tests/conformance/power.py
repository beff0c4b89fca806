"""How much less observation costs: for how many mutants a rule that they name fires, at each depth.

    .venv/bin/python -m tests.conformance.power [--out FILE] [--depths 0 1 2 3] [--steps 4000] [--only ID …] [--tiers]

Flat caches are played, or with ``--tiers`` hierarchies.

A mutant is played at random until a rule that it names is broken, or so many steps are spent.  Its names are of rules
that read a snapshot, for the most part.  Without one, other rules say what they say, of what answers and counters tell:
the spec declares which (:mod:`kvlitmus.spec.prefix.stand_ins`).  Such a rule counts only where the same calls, played
again with a snapshot, have by then broken a rule that the mutant names and that it stands for.  Both counts are
printed, with names alone and with these rules beside them; then which pairs of the spec's table the mutants have shown.

Two denominators.  *All*: every flat mutant that random steps reach, so none of the packs in :data:`NOT_RANDOM`, which
litmus tests play.  *Those that differ*: mutants that at this depth answer, or show, something that no legal cache could
have.  A broken rule shows that; where none is broken, ``tests/spec/support/histories.py`` decides: schedules are played
on the mutant in small pools, and all legal completions are followed.  The budget is :data:`SCHEDULES` schedules in each
of at most :data:`CONFIGS` configurations, of ``OPS`` operations each, and at most ``MOST`` completions at once.  A
mutant that differs only beyond it isn't counted as one.

Of hierarchies there are no histories to follow: one *differs* if any rule is broken, whichever.  Those are fewer than
do differ, so what is counted of them alone is at most what it says.  Before random steps such a mutant plays the litmus
tests that lead to a rule that it names, in :data:`CONFIGS` configurations, as ``kvlitmus run`` would: faults, timeouts
and prefetches that meet are rare at random.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.prefix.stand_ins import SAID
from kvlitmus.spec.words.setting import SNAPSHOT
from tests.spec.support.histories import MOST, OPS, Differs, all_histories, noted

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 4_000
RERUNS = 4
SCHEDULES = 4
CONFIGS = 2
SMALL = {1: 10, 4: 12}
"""How many pages the pool has in which completions are followed, by the size of a page."""

NOT_RANDOM = ("MISUSE", "HASH")
"""Packs that random schedules don't reach."""

MEANT = {one.rule: {id for other in SAID if other.rule == one.rule for id in other.of} for one in SAID}
"""What rules stand for, by their ids."""


@dataclass(frozen=True, slots=True)
class Power:
    """What became of one mutant at one depth.

    fires: the rule that it names and that was broken; says: the rules that were broken and stand for some that it
    names, with these; consequences: rules that would stand for these, and were broken by calls that break none of them
    where they are seen whole; broken: all; differs: how it shows that no legal cache is at work.
    """

    id: str
    depth: int
    fires: str
    says: tuple[tuple[str, str], ...]
    consequences: tuple[str, ...]
    broken: tuple[str, ...]
    differs: str


def flat(one: Mutant) -> bool:
    """Whether a mutant is of a flat cache, and random steps reach it."""
    return (
        not one.null
        and not any(config.tiered or config.apart for config in one.configs)
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
    names = set(one.kills)
    stand = {
        rule: [id for id in one.kills if id in meant] for rule, meant in MEANT.items() if not names.isdisjoint(meant)
    }
    broken: dict[str, None] = {}
    alone: dict[str, None] = {}
    says: dict[tuple[str, str], None] = {}
    drawn = 0
    for item in played(one):
        result = engine.run_item(one.target, item, Options(depth=depth, shrink_trials=0, reruns=RERUNS))
        drawn += max(1, result.steps) if item.kind == "random" else 0
        broken.update((rule, None) for finding in result.findings for rule in finding.rules)
        if not says:
            told = [(rule, finding) for finding in result.findings for rule in finding.rules if rule in stand]
            whole = seen_whole(one, item) if told else []
            for rule, finding in told:
                shown = same_fault(finding, stand[rule], whole)
                says.update(((rule, meant), None) for meant in shown)
                alone.update(() if shown else ((rule, None),))
        if drawn >= steps or not names.isdisjoint(broken):
            break
    fired = next((rule for rule in broken if rule in names), "")
    how = "a rule is broken" if broken else "" if hierarchical(one) else differs(one, depth)
    return Power(one.id, depth, fired, tuple(says), tuple(alone), tuple(broken), how)


def seen_whole(one: Mutant, item: Item) -> Sequence[Finding]:
    """What the same calls break where there is a snapshot."""
    return engine.run_item(one.target, item, Options(depth=SNAPSHOT, shrink_trials=0, reruns=RERUNS)).findings


def same_fault(less: Finding, meant: Sequence[str], whole: Sequence[Finding]) -> Sequence[str]:
    """Those of these rules that are broken, by the time that less was seen of it, where the calls are seen whole."""
    there = {rule for finding in whole if len(finding.calls) <= len(less.calls) for rule in finding.rules}
    return [rule for rule in meant if rule in there]


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
    lines = [
        "| depth | mutants | named | or said with less | differ | named, of these | or said with less |",
        "|---|---|---|---|---|---|---|",
    ]
    for depth in sorted({one.depth for one in found}):
        here = [one for one in found if one.depth == depth]
        named, said = sum(bool(one.fires) for one in here), sum(bool(one.fires or one.says) for one in here)
        every, some = len(here), sum(bool(one.differs) for one in here)
        of_all, of_some = ([f"{n} = {n / max(1, many):.0%}" for n in (named, said)] for many in (every, some))
        lines.append(f"| {depth} | {every} | {' | '.join(of_all)} | {some} | {' | '.join(of_some)} |")
    return lines


def pairs(found: Sequence[Power]) -> list[str]:
    """Which pairs of rules the mutants have shown, and which rules have fired at what is another fault."""
    shown = Counter(pair for one in found for pair in one.says)
    never = [(rule, id) for rule in MEANT for id in sorted(MEANT[rule]) if (rule, id) not in shown]
    lines = [f"{rule} for {meant}: {times}" for (rule, meant), times in sorted(shown.items())]
    lines += [f"never shown: {rule} for {id}" for rule, id in never]
    others = [f"{one.id} at {one.depth}: {', '.join(one.consequences)}" for one in found if one.consequences]
    return [*lines, *(f"by the same calls no rule that is named and stood for: {text}" for text in others)]


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
            said = ", ".join(f"{rule} for {meant}" for rule, meant in last.says)
            print(f"{depth} {last.id}: {last.fires or '-'}; {said or '-'}; {how}", flush=True)
    print("\n".join([*pairs(found), *table(found)]))
    if asked.out:
        commit = subprocess.run(("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=True)
        effort = {"steps": asked.steps, "schedules": SCHEDULES, "configs": CONFIGS, "ops": OPS, "completions": MOST}
        stamped = {"kind": "kvlitmus power", "commit": commit.stdout.strip(), "effort": effort, "table": table(found)}
        asked.out.write_text(json.dumps({**stamped, "mutants": [asdict(one) for one in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
