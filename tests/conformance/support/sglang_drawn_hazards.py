"""Drawn schedules on published functions within the suite's reference: ``RELEASE HAZARD STEPS``, as JSON.

What storage in files finds usable (H-17, H-18), and where a state is attached that a prefetch has read (H-26).  A
broken rule counts only where the hazard has happened in that call (``tools/hazard_hooks.py``).  Run by the interpreter
of the release's environment.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from kvlitmus.conformance.adapters.sglang.common.storage_hits import hits_13, hits_23
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.spec.rule import all_rules
from tools.hazard_hooks import MECHANISMS, NOT_YET, HazardChecker

TARGETS = {"0.5.13.post1": hits_13, "0.5.23": hits_23}
"""What finds storage's hits, by release."""
JUDGED = {"H-17": {"COMP-26"}, "H-18": {"COMP-26"}, "H-26": {"COMP-15", "COMP-29"}}
LAYOUTS = {"H-17": "kv+swa+state", "H-18": "kv+swa", "H-26": "kv+state"}


def found(release: str, hazard: str, most: int) -> int:
    """In how many schedules of so many the hazard breaks a rule, each shrunk and then still the hazard."""
    mechanism = MECHANISMS[hazard] if hazard == "H-26" else replace(MECHANISMS[hazard], target=TARGETS[release])
    options = Options(muted=frozenset(all_rules()) - JUDGED[hazard], reruns=0, shrink_trials=100, shrink_seconds=2.0)
    config = next(one for one in mechanism.configs if one.components == LAYOUTS[hazard])
    times = 0
    for seed in range(most):
        item = Item(kind="random", config=config, seed=seed, ops=250)
        result = engine.run_item(mechanism, item, options, CurrentRun(HazardChecker))
        assert not result.error or NOT_YET in result.error, result.error
        times += bool(result.findings)
    return times


if __name__ == "__main__":
    print(json.dumps(found(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
