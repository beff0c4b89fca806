#!/usr/bin/env python3
"""Known hazards of real caches, rediscovered by drawn schedules alone.

    .venv/bin/python tools/hazards.py                    runs all searches, writes docs/results/hazards.json and .md
    .venv/bin/python tools/hazards.py --only H-08,H-13   some of them; the others keep what was found before
    .venv/bin/python tools/hazards.py --page             writes the page from hazards.json, runs nothing

Each hazard was found by hand once.  Here nobody helps: one generator with one table of weights draws
schedules for every target alike (``schedule.WEIGHTS``), without litmus tests.  What counts as "found" is
said in :data:`HAZARDS`; rules that other hazards break are muted, since a schedule ends at its first broken rule.

For each: five searches, the median of the steps until it was found, and the shortest counterexample, saved
so that ``kvlitmus replay`` plays it.  Then the same search on other releases, as far as the budget goes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / room) for room in ("spec", "reference", "conformance")]

from hazards_page import page  # noqa: E402

from kvlitmus.conformance.commands import session  # noqa: E402
from kvlitmus.conformance.commands.common import version  # noqa: E402
from kvlitmus.conformance.ports import Config  # noqa: E402
from kvlitmus.conformance.report import failures  # noqa: E402
from kvlitmus.conformance.results import Finding, Item, ItemResult, Options  # noqa: E402
from kvlitmus.conformance.schedule import NAMESPACES  # noqa: E402

FOLDER = ROOT / "docs" / "results"
SEEDS = 5
OPS = 250
ROUND = 500
"""So many schedules are drawn at once; the search ends with the first that has it."""

OLD, OLD_UNIFIED = "sglang-0.5.13.post1-hicache", "sglang-0.5.13.post1-unified-hicache"
NEW = "sglang-0.5.23-hicache"

NAMES = ("BACKUP-04", "BACKUP-05")
"""What storage is asked for under wrong names breaks one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """One hazard: where it is looked for, and how it is told from others."""

    id: str
    title: str
    target: str
    rules: tuple[str, ...]
    muted: tuple[str, ...] = ()
    shows: Callable[[Finding], bool] = lambda _: True
    configs: Callable[[Config], bool] = lambda _: True
    others: tuple[str, ...] = field(default=())


def calls(finding: Finding) -> str:
    """The calls of a counterexample as one text."""
    return "\n".join(finding.calls)


def namespaces(finding: Finding) -> set[str]:
    """The namespaces of the prefixes that share a name, as shown."""
    shown = str(finding.seen.get("many_prefixes", "")).replace("\\'", "'")
    return set(re.findall(r"\((None|'[^']*'), \(", shown))


def lately(finding: Finding, what: str, within: int) -> bool:
    """Whether one of the last few calls was this one."""
    return any(call.startswith(what) for call in finding.calls[-within:])


def reset(finding: Finding) -> bool:
    """Whether the offence comes with a reset, or at the ticks behind it."""
    return lately(finding, "reset()", 4)


def again(finding: Finding) -> bool:
    """Whether one request was prefetched for twice."""
    asked = re.findall(r"prefetch\((\d+),.*units behind", calls(finding))
    return len(asked) > len(set(asked)) and "reset()" not in calls(finding) and "detach()" not in calls(finding)


def raised(finding: Finding) -> bool:
    """Whether storage raised in a fetch or a query."""
    return bool(re.search(r"advance\((fetch|query) \d+, fail", calls(finding)))


def loads(finding: Finding) -> bool:
    """Whether the offence is a load back, or what it brings is wrong."""
    return finding.call.startswith(("load_back(", "advance(load"))


OTHERS = (OLD, OLD_UNIFIED, NEW)
HOMES = ("TIER-01", "TIER-02")
LEFT = ("LIFE-01", "LIFE-05", "LIFE-06", "LIFE-07", "LIFE-08", "LIFE-09")
COMMITS = ("TIER-07", "FETCH-12", "FETCH-13")
NOISE = (*NAMES, "BACKUP-01", "BACKUP-08", "BACKUP-09", "FETCH-05", *COMMITS)
"""What HiRadixCache breaks in most schedules."""

WAITS = ("LIFE-06", "LIFE-07", "LIFE-08", "FETCH-11", "FETCH-10")
"""What follows from a thread that has died."""

HAZARDS: tuple[Hazard, ...] = (
    Hazard(
        id="H-04",
        title="a reset leaves the release queue and running prefetches behind; their slots are freed twice",
        target=OLD,
        rules=("TIER-01", "LIFE-01"),
        muted=(*NOISE, *LEFT[2:], "TIER-12", "TIER-15", *WAITS),
        shows=reset,
        others=OTHERS,
    ),
    Hazard(
        id="H-05",
        title="a late revocation of an old prefetch hits the new one of the same request",
        target=OLD,
        rules=("TIER-02", "FETCH-07", "LIFE-09"),
        muted=(*NOISE, *WAITS, "FETCH-01", "FETCH-03", "FETCH-04", "TIER-15"),
        shows=again,
        configs=lambda config: config.stop == "best_effort",
        others=OTHERS,
    ),
    Hazard(
        id="H-06",
        title="a detach frees whole ranges of which parts wait in the release queue",
        target=OLD,
        rules=("TIER-01", "LIFE-05"),
        muted=(*NOISE, *WAITS, "TIER-12", "TIER-15", *LEFT[2:]),
        shows=lambda one: lately(one, "detach()", 3),
        others=OTHERS,
    ),
    Hazard(
        id="H-07",
        title="an exception of storage ends the thread that reads, and with it every later prefetch",
        target=OLD,
        rules=("LIFE-06", "LIFE-07", "LIFE-08", "FETCH-11"),
        muted=(*NOISE, *HOMES, "TIER-15", "FETCH-01", "FETCH-03", "FETCH-07"),
        shows=raised,
        others=OTHERS,
    ),
    Hazard(
        id="H-08",
        title="a prefetch begins behind pages that only the device has, below a shallower anchor",
        target=OLD,
        rules=("FETCH-05",),
        muted=tuple(one for one in NOISE if one != "FETCH-05"),
        others=OTHERS,
    ),
    Hazard(
        id="H-13",
        title="tenants share the names of pages in storage",
        target=OLD,
        rules=("BACKUP-05",),
        muted=("FETCH-05", "BACKUP-04", "BACKUP-08", "BACKUP-01"),
        shows=lambda one: len(namespaces(one)) > 1,
        others=OTHERS,
    ),
    Hazard(
        id="H-14",
        title="below a page without a name the chain of names begins anew: a suffix is stored as a prefix",
        target=OLD,
        rules=NAMES,
        muted=("FETCH-05", "BACKUP-08", "BACKUP-01", *COMMITS),
        shows=lambda one: one.call.startswith("advance(put") and len(namespaces(one)) < 2,
        configs=lambda config: config.storage == "later",
        others=OTHERS,
    ),
    Hazard(
        id="H-28",
        title="a commit hangs pages of the host below a page that only the device has",
        target=OLD,
        rules=("TIER-06", "PORT-01"),
        muted=(*NOISE, *WAITS, "TIER-02", "TIER-12", "TIER-15"),
        shows=lambda one: one.call.startswith("poll(") or "assert" in one.detail.lower(),
        others=OTHERS,
    ),
    Hazard(
        id="H-29",
        title="a load back makes room by writing back over the very pages that it loads",
        target=OLD,
        rules=("TIER-01", "TIER-08", "TIER-11", "POOL-12", "LOAD-02", "LOAD-05", "PORT-01"),
        muted=(*NOISE, *WAITS, "TIER-02", "TIER-12", "TIER-15"),
        shows=loads,
        configs=lambda config: config.write == "write_back",
        others=OTHERS,
    ),
    Hazard(
        id="H-61",
        title="bigram keys are stored under one name and asked for under another",
        target=OLD_UNIFIED,
        rules=("BACKUP-04",),
        muted=("BACKUP-05", "FETCH-05", "BACKUP-08", "BACKUP-01", *COMMITS),
        configs=lambda config: config.bigram,
        others=OTHERS,
    ),
)


class Search(NamedTuple):
    """What one search came to: the steps, and the counterexample if there is one."""

    steps: int
    finding: Finding | None


def search(found: session.Session, hazard: Hazard, seed: int, limit: int) -> Search:
    """Draw schedules until the hazard shows or the budget is spent; the counterexample is not shrunk yet."""
    configs = [config for config in found.configs if config.tiered and hazard.configs(config)]
    options = Options(muted=frozenset(hazard.muted), reruns=1, shrink_trials=0)
    steps = 0
    at = 0
    while configs and steps < limit:
        items = [
            Item(kind="random", config=configs[(at + k) % len(configs)], seed=seed + at + k, ops=OPS)
            for k in range(ROUND)
        ]
        at += ROUND
        with contextlib.closing(found.run(items, options, jobs=2)) as results:
            for result in results:
                one = first(result, hazard)
                if one is not None:
                    return Search(steps + one.drawn_steps, one)
                steps += result.steps
                if steps >= limit:
                    break
    return Search(steps, None)


def first(result: ItemResult, hazard: Hazard) -> Finding | None:
    """The finding of an item that shows the hazard."""
    for one in result.findings:
        if set(one.rules) & set(hazard.rules) and hazard.shows(one):
            return one
    return None


def shrunk(found: session.Session, hazard: Hazard, finding: Finding) -> Finding:
    """The same, as short as it gets: shrinking keeps the first broken rule, so what it shows is checked."""
    best = tamed(found, hazard, finding)
    wanted = [rule for rule in finding.rules if rule in hazard.rules][:1]
    for muted in (frozenset(hazard.muted), frozenset(failures_but(wanted))):
        options = Options(muted=muted, reruns=0, shrink_trials=1500, shrink_seconds=40.0)
        item = Item(kind="schedule", config=finding.config, schedule=tuple(best.schedule))
        for result in found.run([item], options):
            one = first(result, hazard)
            if one is not None and one.steps < best.steps:
                best = one
    return best


def tamed(found: session.Session, hazard: Hazard, finding: Finding) -> Finding:
    """The same without namespaces, if it shows then, too: shrinking would drift to what tenants share."""
    plain = tuple(op._replace(c=op.c - op.c % len(NAMESPACES)) for op in finding.schedule)
    item = Item(kind="schedule", config=finding.config, schedule=plain)
    options = Options(muted=frozenset(hazard.muted), reruns=0, shrink_trials=0)
    shown = [first(result, hazard) for result in found.run([item], options)]
    return shown[0] or finding if shown else finding


def failures_but(wanted: Sequence[str]) -> list[str]:
    """Every rule but these."""
    from kvlitmus.spec.rule import all_rules

    return [rule for rule in all_rules() if rule not in wanted and not rule.startswith("PORT")]


def rediscover(hazard: Hazard, limit: int, elsewhere: int) -> dict[str, Any]:
    """All searches for one hazard, as plain data."""
    found = session.ask(session.find(hazard.target, None))
    runs = [search(found, hazard, 10_000 * number, limit) for number in range(SEEDS)]
    hits = [run for run in runs if run.finding is not None]
    record: dict[str, Any] = {
        "id": hazard.id,
        "title": hazard.title,
        "target": hazard.target,
        "version": found.version,
        "found": len(hits),
        "searches": SEEDS,
        "steps": [run.steps for run in runs],
        "median_steps": statistics.median(run.steps for run in runs) if hits else None,
        "muted": sorted(hazard.muted),
    }
    if hits:
        short = min((shrunk(found, hazard, run.finding) for run in hits[:2] if run.finding), key=lambda one: one.steps)
        folder = FOLDER / "counterexamples" / "hazards"
        folder.mkdir(parents=True, exist_ok=True)
        path = failures.save(folder, short, target=hazard.target, depth=3, force_misuse=False, version=version())
        named = path.with_name(f"{hazard.id}.json")
        path.replace(named)
        record |= {
            "rules": short.rules,
            "config": short.config.label,
            "calls": short.calls,
            "length": short.steps,
            "call": short.call,
            "seen": short.seen,
            "detail": short.detail,
            "counterexample": str(named.relative_to(ROOT)),
        }
    record["elsewhere"] = others(hazard, elsewhere) if elsewhere else {}
    return record


def others(hazard: Hazard, limit: int) -> dict[str, Any]:
    """One search on each of the other targets."""
    return {name: tried(hazard, name, limit) for name in hazard.others if name != hazard.target}


def tried(hazard: Hazard, name: str, limit: int) -> dict[str, Any]:
    """One search on another target."""
    try:
        found = session.ask(session.find(name, None))
    except Exception as error:  # noqa: BLE001 - a target that can't be had is an entry of the table
        return {"error": f"{error}"[:200]}
    run = search(found, replace(hazard, target=name), 0, limit)
    shows = run.finding is not None
    return {"found": shows, "steps": run.steps, "rules": run.finding.rules if run.finding else []}


def main() -> int:
    """Search, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="ids of hazards, comma separated")
    parser.add_argument(
        "--steps", type=int, default=60_000, help="most steps of one search (default 60000; 0: only elsewhere)"
    )
    parser.add_argument(
        "--elsewhere", type=int, default=20_000, help="most steps on another target (default 20000; 0: none)"
    )
    parser.add_argument("--page", action="store_true", help="write the page from hazards.json and run nothing")
    args = parser.parse_args()
    file = FOLDER / "hazards.json"
    records = {one["id"]: one for one in json.loads(file.read_text())["hazards"]} if file.exists() else {}
    only = {part.strip() for part in args.only.split(",") if part.strip()}
    unknown = only - {hazard.id for hazard in HAZARDS}
    if unknown:
        parser.error(f"no such hazard: {', '.join(sorted(unknown))}; there are {', '.join(one.id for one in HAZARDS)}")
    for hazard in () if args.page else HAZARDS:
        if only and hazard.id not in only:
            continue
        started = time.monotonic()
        if args.steps:
            records[hazard.id] = rediscover(hazard, args.steps, args.elsewhere)
        else:
            records[hazard.id]["elsewhere"] = others(hazard, args.elsewhere)
        one = records[hazard.id]
        print(
            f"{hazard.id}: {one['found']} of {SEEDS}, median {one['median_steps']}, {one.get('length')} calls, "
            f"{one.get('rules')}, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        ordered = [records[hazard.id] for hazard in HAZARDS if hazard.id in records]
        file.write_text(json.dumps({"format": 1, "hazards": ordered}, indent=1, ensure_ascii=False) + "\n")
    ordered = [records[hazard.id] for hazard in HAZARDS if hazard.id in records]
    (FOLDER / "hazards.md").write_text(page(ordered))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
