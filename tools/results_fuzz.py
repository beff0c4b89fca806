"""What fuzz campaigns broke that runs did not: `docs/results/fuzz.json`, and a counterexample for each.

    .venv/bin/python tools/results_fuzz.py SUMMARY.json …

Takes the summaries of campaigns (``kvlitmus fuzz TARGET --steps N --seed S --workers 1 --report SUMMARY.json``), plays
their counterexamples again in this tree, and keeps those that break a rule which the target's committed report passes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance"))]

from kvlitmus.conformance.run import failures  # noqa: E402
from tools import results  # noqa: E402

FOLDER = results.FOLDER
SECONDS = 300


def replays(path: Path, rules: Sequence[str]) -> bool:
    """Whether a counterexample breaks its rules in this tree."""
    command = [sys.executable, "-m", "kvlitmus.conformance.cli", "replay", str(path), "--color", "never"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode == 1 and all(rule in done.stdout for rule in rules)


def kept(summary: dict[str, Any], passed: set[str]) -> list[dict[str, Any]]:
    """The findings of a campaign that break a rule which the report passes, one for each such rule, the shortest."""
    found: list[dict[str, Any]] = []
    for one in sorted(summary["findings"], key=lambda one: int(one["calls"])):
        fresh = set(one["rules"]) & passed
        if not fresh or all(any(rule in other["rules"] for other in found) for rule in fresh):
            continue
        path = Path(one["file"])
        if not replays(path, one["rules"]):
            print(f"{path.name}: does not break {', '.join(one['rules'])} any more")
            continue
        saved = failures.load(path)
        target = FOLDER / "counterexamples" / "fuzz" / f"{saved.target}-{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        found.append(
            {
                "target": saved.target,
                "config": saved.config.label,
                "counterexample": str(target.relative_to(ROOT)),
                **{
                    name: saved.finding.get(name, "")
                    for name in ("rules", "call", "calls", "allowed", "seen", "detail", "not_minimal")
                },
            }
        )
        print(f"{path.name}: {', '.join(one['rules'])} on {saved.target}, {len(saved.calls)} calls")
    return found


def main(paths: Sequence[str]) -> int:
    """Write what the campaigns broke; 2 when there is no such campaign."""
    missing = [path for path in paths if not Path(path).is_file()]
    if missing or not paths:
        print(
            __doc__ if not paths else f"results_fuzz: no summary of a campaign: {', '.join(missing)}", file=sys.stderr
        )
        return 2
    reports = results.reports()
    shutil.rmtree(FOLDER / "counterexamples" / "fuzz", ignore_errors=True)
    campaigns: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    for path in paths:
        summary = json.loads(Path(path).read_text(encoding="utf-8"))
        target, settings, session = summary["target"]["name"], summary["settings"], summary["session"]
        passed = {rule["id"] for rule in reports[target]["rules"] if rule["verdict"] == "passed"}
        passed -= {rule for one in findings if one["target"] == target for rule in one["rules"]}
        findings += kept(summary, passed)
        campaigns.append(
            {
                "target": target,
                "configs": len(settings["configs"]),
                "steps": session["steps"],
                "plays": session["plays"],
                "seed": settings["seed"],
                "found": sorted({rule for one in summary["findings"] for rule in one["rules"]}),
            }
        )
    data = {"format": 1, "campaigns": campaigns, "findings": findings}
    (FOLDER / "fuzz.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
