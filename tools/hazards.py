#!/usr/bin/env python3
"""Known hazards of real caches, rediscovered by drawn schedules alone.

    .venv/bin/python tools/hazards.py                    runs all searches, writes docs/results/hazards.json
    .venv/bin/python tools/hazards.py --only H-08,H-13   some of them; the others keep what was found before

How they are searched, and what counts as a find, the page says (:data:`INTRODUCTION`).  The weights are those of
``schedule.WEIGHTS``; that the hazard has happened is told by :mod:`tests.conformance.support.hazard_hooks`.  Of each:
five searches, the median of the steps until it was found, and the shortest counterexample, saved as a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance"))]

from kvlitmus.conformance.generate.schedule import NEEDS, WEIGHTS  # noqa: E402
from kvlitmus.conformance.isolation.current_run import CurrentRun  # noqa: E402
from kvlitmus.conformance.report import build  # noqa: E402
from kvlitmus.conformance.run import engine, failures  # noqa: E402
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options  # noqa: E402
from kvlitmus.conformance.run.targets import KNOWN, peer_python  # noqa: E402
from kvlitmus.conformance.support.version import version  # noqa: E402
from kvlitmus.spec.law.rule import in_force  # noqa: E402
from kvlitmus.spec.parts import all_rules  # noqa: E402
from tests.conformance.support.hazard_hooks import MECHANISMS, NOT_YET, HazardChecker  # noqa: E402
from tools import results_page  # noqa: E402

FOLDER = ROOT / "docs" / "results"
RECORD = FOLDER / "hazards.json"
SEARCHES = 5
OPS = 250
BUDGET = 40_000
"""Steps of one search, for every hazard alike."""

APART = 10_000
"""The searches begin with the seeds 0, 10,000, and so on."""

SHRINKING = 90.0
"""Seconds for each of the two rounds in which a counterexample is shrunk."""

PATIENCE = 240
"""A schedule, or what shrinking makes of it, that takes more seconds than this has hung."""


class Hazard(NamedTuple):
    """One hazard: the rules that are judged, where it is looked for, and in which configurations."""

    id: str
    title: str
    rules: tuple[str, ...]
    target: str
    only: Mapping[str, object]


def read() -> list[dict[str, Any]]:
    """What is searched for, and what was found of it."""
    records: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))["hazards"]
    return records


HAZARDS: tuple[Hazard, ...] = tuple(
    Hazard(one["id"], one["title"], tuple(dict.fromkeys(map(in_force, one["judged"]))), one["target"], one["only"])
    for one in read()
)
"""What is searched for: the record says it, beside what was found."""


class Search(NamedTuple):
    """What one search came to: the steps, and the counterexample if there is one."""

    steps: int
    finding: Finding | None


class TookTooLong(BaseException):
    """A schedule that did not come back."""


def played(hazard: Hazard, item: Item, options: Options) -> ItemResult:
    """What comes of an item in this process, with the hazard's hook and its judge."""

    def late(*_: object) -> None:
        raise TookTooLong

    signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        return engine.run_item(MECHANISMS[hazard.id], item, options, CurrentRun(HazardChecker))
    except TookTooLong:
        return ItemResult(item=item.id, config=item.config.label, error="did not come back")
    finally:
        signal.alarm(0)


def muted(hazard: Hazard) -> frozenset[str]:
    """The rules that are not judged."""
    return frozenset(all_rules()) - set(hazard.rules)


def search(hazard: Hazard, seed: int) -> Search:
    """Draw schedules until the hazard shows or the budget is spent; the counterexample is not shrunk yet."""
    configs = [
        config
        for config in MECHANISMS[hazard.id].configs
        if (config.tiered or config.components)
        and all(getattr(config, name) == value for name, value in hazard.only.items())
    ]
    options = Options(muted=muted(hazard), reruns=0, shrink_trials=0)
    steps = at = 0
    while steps < BUDGET:
        item = Item(kind="random", config=configs[at % len(configs)], seed=seed + at, ops=OPS)
        result = played(hazard, item, options)
        one = first(result, hazard)
        if one is not None:
            return Search(steps + one.drawn_steps, one)
        steps += max(result.steps + ended(result), 1)
        at += 1
    return Search(steps, None)


def ended(result: ItemResult) -> int:
    """The steps of a schedule that ended because a rule was broken for another reason."""
    found = re.search(rf"{NOT_YET} (\d+)", result.error)
    return int(found[1]) if found else 0


def first(result: ItemResult, hazard: Hazard) -> Finding | None:
    """The finding of an item that breaks a rule of the hazard's."""
    return next((one for one in result.findings if set(one.rules) & set(hazard.rules)), None)


def shrunk(hazard: Hazard, finding: Finding) -> Finding:
    """The same, as short as it gets; every play on the way, and the last one, has the hook and its judge."""
    best = finding
    for rules in (hazard.rules, best.rules[:1]):
        unwanted = frozenset(all_rules()) - set(rules)
        options = Options(muted=unwanted, reruns=0, shrink_trials=6000, shrink_seconds=SHRINKING)
        item = Item(kind="schedule", config=finding.config, schedule=tuple(best.schedule))
        one = first(played(hazard, item, options), hazard)
        if one is not None and one.steps <= best.steps:
            best = one
    return best


def confirmed(hazard: Hazard, finding: Finding) -> bool:
    """Whether the shrunk schedule, played once more, breaks the rules after the hazard has happened."""
    item = Item(kind="schedule", config=finding.config, schedule=tuple(finding.schedule))
    return first(played(hazard, item, Options(muted=muted(hazard), reruns=0, shrink_trials=0)), hazard) is not None


def rediscover(hazard: Hazard) -> dict[str, Any]:
    """All searches for one hazard, as plain data."""
    runs = [search(hazard, APART * number) for number in range(SEARCHES)]
    hits = [run.finding for run in runs if run.finding is not None]
    known = KNOWN[hazard.target]
    record: dict[str, Any] = {
        "id": hazard.id,
        "title": hazard.title,
        "target": hazard.target,
        "build": build.build_of(known.module, known.attribute),
        "mechanism": MECHANISMS[hazard.id].says,
        "judged": list(hazard.rules),
        "only": hazard.only,
        "budget": BUDGET,
        "found": len(hits),
        "searches": SEARCHES,
        "steps": [run.steps for run in runs],
        "median_steps": statistics.median(run.steps for run in runs) if len(hits) > SEARCHES / 2 else None,
    }
    short = min((shrunk(hazard, one) for one in hits[:2]), key=lambda one: one.steps, default=None)
    return record | counterexample(hazard, short)


def counterexample(hazard: Hazard, short: Finding | None) -> dict[str, str]:
    """Save a shrunk counterexample, if it stands; where it is."""
    path = FOLDER / "counterexamples" / "hazards" / f"{hazard.id}.jsonl"
    path.unlink(missing_ok=True)
    if short is None or not confirmed(hazard, short):
        return {}
    path.parent.mkdir(parents=True, exist_ok=True)
    about: Any = {"target": hazard.target, "depth": 3, "force_misuse": False, "version": version()}
    failures.save(path.parent, short, **about).replace(path)
    return {"counterexample": str(path.relative_to(ROOT))}


def main() -> int:
    """Search, and keep what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="ids of hazards, comma separated")
    parser.add_argument("--here", action="store_true", help="search in this process, and print the records as JSON")
    args = parser.parse_args()
    known = {one.id: one for one in HAZARDS}
    only = [part.strip() for part in args.only.split(",") if part.strip()] or list(known)
    if unknown := sorted(set(only) - known.keys()):
        parser.error(f"no such hazard: {', '.join(unknown)}; there are {', '.join(known)}")
    if args.here:
        print(json.dumps([rediscover(known[id]) for id in only]))
        return 0
    records = {one["id"]: one for one in read()}
    with ThreadPoolExecutor(2) as pool:
        for one in pool.map(searched, [known[id] for id in only]):
            records[one["id"]] = one
            print(f"{one['id']}: {one['found']} of {SEARCHES}, steps {one['steps']}, {one.get('counterexample')}")
            text = json.dumps({"format": 3, "hazards": [*records.values()]}, indent=1, ensure_ascii=False)
            RECORD.write_text(text + "\n", encoding="utf-8")
    return 0


def searched(hazard: Hazard) -> dict[str, Any]:
    """All searches for one hazard, in SGLang's environment."""
    rooms = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance"))]
    command = [peer_python(KNOWN[hazard.target].release), str(Path(__file__)), "--here", "--only", hazard.id]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(rooms)}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    (record,) = json.loads(done.stdout.splitlines()[-1])
    return dict(record)


INTRODUCTION = """# Known hazards, found again by drawn schedules

Each of these was found by hand once. Here one generator with one table of weights
draws schedules for all of them, without litmus tests; a step is one fully checked call. What help there is stands in
the tables: only the rules that the hazard can break are judged (a schedule ends at its first broken rule, so all others
are muted), in the configurations that are named. Each search has the same budget, fixed beforehand, and ends with the
first find; five of them begin with different seeds.

A broken rule alone is no find. A hook in SGLang's own functions notes when the hazard really happens
(the column *must have happened*), and a broken rule counts only in the calls after that. It is
so in every play while a counterexample is shrunk, and once more at its end.

H-38 (what an allocation returns is a view on the free list), H-39 (double frees) and H-45 (frees of parts of pages) are
not here: they take a caller who breaks the contract, and schedules draw none. They are found by litmus tests with
`--force-misuse` alone (MISUSE-01 to MISUSE-05 on the [results page](README.md)).
"""


def page() -> str:
    """The page of the site: the table, how it was searched, and each counterexample as calls."""
    records = read()
    saved = {one["id"]: failures.load(ROOT / one["counterexample"]) for one in records if "counterexample" in one}
    lines = [INTRODUCTION]
    lines += ["| hazard | must have happened | found | median steps | rule | calls |", "|---|---|---|---|---|---|"]
    for one in records:
        median = "–" if one["median_steps"] is None else f"{one['median_steps']:,.0f}"
        found = f"{one['found']} of {one['searches']}" if one["found"] else "**not found**"
        short = saved.get(one["id"])
        shown = f"{', '.join(short.rules[:2])} | {len(short.calls)}" if short else "– | –"
        lines.append(f"| **{one['id']}** {one['title']} | {one['mechanism']} | {found} | {median} | {shown} |")
    lines += ["", "## How it was searched", ""]
    lines += ["| hazard | target | rules judged | configurations | steps of the searches |", "|---|---|---|---|---|"]
    for one in records:
        steps = ", ".join(f"{steps:,}" for steps in one["steps"])
        only = ", ".join(f"{name}={value}" for name, value in one["only"].items())
        lines.append(
            f"| {one['id']} | {one['target'].removeprefix('sglang-')} | {', '.join(one['judged'])} "
            f"| {only or 'all'} | {steps} (of {one['budget']:,} each; build `{one['build']}`) |"
        )
    others = {"store", "sparse", "ranks", "components", "component_requests"}
    weights = ", ".join(f"{kind} {weight}" for kind, weight in WEIGHTS.items() if NEEDS[kind].isdisjoint(others))
    lines += ["", f"The weights of the operations, among those that a target can do: {weights}.", ""]
    for one in [one for one in records if one["id"] in saved]:
        short, name = saved[one["id"]], one["counterexample"]
        lines += [f"## {one['id']}: {one['title']}", ""]
        lines += [*results_page.counterexample(short.finding, short.target, short.config.label), ""]
        lines += [*results_page.replay(name), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
