#!/usr/bin/env python3
"""The self-test of the table of actions: what calls must not change is changed behind them, and who notices is printed.

    .venv/bin/python tools/frame.py [--seeds 2] [--most 2] [--json FILE]

A specimen plays at random in flat and hierarchical configurations.  Behind each call copies of it are disturbed, each
in one way (:mod:`kvlitmus.mutants.disturb`), and the step is judged as if the call had done that.  Each way is tried so
many times behind each kind of call.  The cells of the table come apart:

- **unchanged** cells: the frame notices every disturbance;
- **governed** cells: an effect without its cause, too much of it, on the wrong subject.  It is noticed by a law, as
  that of the order of evictions, or by the frame alone, or it is legal there
  (:data:`~kvlitmus.mutants.disturb.LEGAL`).  Why it is the frame alone says
  :data:`~kvlitmus.mutants.disturb.BY_FRAME_ALONE`.

What is silent and not legal is *missed*, is printed, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.isolation.current_run import CurrentRun  # noqa: E402
from kvlitmus.conformance.run import engine, plan  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options  # noqa: E402
from kvlitmus.conformance.specimen.cache import target  # noqa: E402
from kvlitmus.mutants.disturb import (  # noqa: E402
    CASES,
    UNCHANGED,
    UNREACHED,
    Findings,
    Trial,
    alone_because,
    disturbing,
    guarded,
    legal_because,
)
from kvlitmus.mutants.disturbances import LEFT_OUT  # noqa: E402
from kvlitmus.spec.config import Config  # noqa: E402

CONFIGS = (Config(page_size=4, pages=8), Config(page_size=1), *plan.TIER_CONFIGS)

OUTCOMES = ("by the frame alone", "by a law", "legal there", "missed")
BY_FRAME, BY_LAW, LEGAL_THERE, MISSED = OUTCOMES
"""What came of a trial."""


def disturbed(seeds: int, most: int, configs: Sequence[Config] = CONFIGS) -> Findings:
    """What came of disturbing the specimen; raises ``RuntimeError`` where it breaks a rule undisturbed."""
    findings = Findings()
    checker = disturbing(findings, most=most)
    for seed in range(seeds):
        for config in configs:
            item = Item(kind="random", config=config, seed=seed, ops=plan.OPS)
            result = engine.run_item(target, item, Options(shrink_trials=0, reruns=0), CurrentRun(checker))
            if result.error or result.findings:
                raise RuntimeError(f"the specimen alone breaks rules in {item.id}: {result.error or result.findings}")
    return findings


def outcome_of(findings: Findings, trial: Trial) -> str:
    """What came of a trial: in governed cells a law counts before the frame, in the others the frame alone."""
    rules = findings.noticed[trial]
    if trial in findings.silent:
        return LEGAL_THERE if legal_because(trial) else MISSED
    if trial.case == UNCHANGED:
        return BY_FRAME if any(guarded(rule, trial.what) for rule in rules) else MISSED
    return BY_LAW if any(not rule.startswith("FRAME-") for rule in rules) else BY_FRAME


def because(trial: Trial, outcome: str) -> str:
    """Why a trial is legal, or why it is noticed by the frame alone though its cell is governed; else nothing."""
    if outcome == LEGAL_THERE:
        return legal_because(trial)
    return alone_because(trial) if outcome == BY_FRAME and trial.case != UNCHANGED else ""


def document(findings: Findings) -> dict[str, Any]:
    """All trials with what came of them, and the counts, as plain data."""
    trials = sorted(findings.made, key=lambda one: (one.case, one.on, one.what.value, one.how))
    counts = {case: dict.fromkeys(OUTCOMES, 0) for case in CASES}
    rows = []
    for trial in trials:
        outcome = outcome_of(findings, trial)
        counts[trial.case][outcome] += 1
        rows.append(
            {
                "call": trial.on.value,
                "effect": trial.what.value,
                "how": trial.how,
                "case": trial.case,
                "outcome": outcome,
                "made": findings.made[trial],
                "rules": dict(findings.noticed[trial].most_common()),
                "because": because(trial, outcome),
                "silent after": findings.silent.get(trial, []) if outcome == MISSED else [],
            }
        )
    left_out = {what.value: why for what, why in LEFT_OUT.items()}
    unreached = {on.value: why for on, why in UNREACHED.items()}
    return {"counts": counts, "trials": rows, "left out": left_out, "unreached": unreached}


def text_of(found: dict[str, Any]) -> str:
    """The counts, what is legal and why, and what was missed, to be read."""
    lines = [f"{'':16}{''.join(f'{outcome:>20}' for outcome in OUTCOMES)}"]
    lines += [
        f"{case:16}{''.join(f'{counts[outcome]:>20,}' for outcome in OUTCOMES)}"
        for case, counts in found["counts"].items()
    ]
    reasons = Counter(one["because"] for one in found["trials"] if one["outcome"] == LEGAL_THERE)
    lines += ["", "Legal there:", *(f"  {many} × {why}" for why, many in sorted(reasons.items()))]
    alone = [one for one in found["trials"] if one["outcome"] == BY_FRAME and one["case"] != UNCHANGED]
    lines += ["", f"In governed cells, by the frame alone: {len(alone)}"]
    lines += [f"  {many} × {why}" for why, many in sorted(Counter(one["because"] for one in alone).items())]
    lines += ["", *by_frame_alone(alone)]
    lines += ["", "Not disturbed:", *(f"  {name}: {why}" for name, why in found["left out"].items())]
    lines += [f"  {name}: {why}" for name, why in found["unreached"].items()]
    missed = [one for one in found["trials"] if one["outcome"] == MISSED]
    lines += ["", f"Missed: {len(missed)}"]
    for one in missed:
        after = one["silent after"][-1] if one["silent after"] else ""
        lines.append(f"  {one['case']}: {one['call']}: {one['effect']}: {one['how']} {one['rules']} {after}")
    return "\n".join(lines)


def by_frame_alone(trials: Sequence[dict[str, Any]]) -> list[str]:
    """What no law governs but the frame, each effect and way with the calls behind which it was tried."""
    calls: dict[tuple[str, str], set[str]] = {}
    for one in trials:
        calls.setdefault((one["effect"], one["how"]), set()).add(one["call"])
    return [f"  {what}: {how} {', '.join(sorted(calls[what, how]))}" for what, how in sorted(calls)]


def main() -> int:
    """Disturb, print, and keep what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="schedules per configuration (default: 2)")
    parser.add_argument("--most", type=int, default=2, metavar="N", help="trials of each kind (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all trials here")
    given = parser.parse_args()
    found = document(disturbed(given.seeds, given.most))
    print(text_of(found))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(counts[MISSED] for counts in found["counts"].values()))


if __name__ == "__main__":
    sys.exit(main())
