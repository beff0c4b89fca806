"""Drawn schedules on what SGLang's storage in files finds usable: ``RELEASE HAZARD STEPS``, as JSON.

A broken COMP-26 counts only where the hazard has happened in that call (``tools/hazard_hooks.py``).  Run by the
interpreter of the release's environment.
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


def found(release: str, hazard: str, most: int) -> int:
    """In how many schedules of so many the hazard breaks COMP-26, each shrunk and then still the hazard."""
    mechanism = replace(MECHANISMS[hazard], target=TARGETS[release])
    options = Options(muted=frozenset(all_rules()) - {"COMP-26"}, reruns=0, shrink_trials=100, shrink_seconds=2.0)
    config = next(one for one in mechanism.configs if (one.components == "kv+swa") == (hazard == "H-18"))
    times = 0
    for seed in range(most):
        item = Item(kind="random", config=config, seed=seed, ops=250)
        result = engine.run_item(mechanism, item, options, CurrentRun(HazardChecker))
        assert not result.error or NOT_YET in result.error, result.error
        times += bool(result.findings)
    return times


if __name__ == "__main__":
    print(json.dumps(found(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
