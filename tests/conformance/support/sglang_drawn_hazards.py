"""Drawn schedules on published functions within the suite's reference: ``RELEASE HAZARD STEPS``, as JSON.

What storage in files finds usable (H-17, H-18), where a state is attached that a prefetch has read (H-26), and where it
is not though it is missing (``given back``).  A broken rule counts only where the hazard has happened in that call
(``tests/conformance/support/hazard_hooks.py``).  Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.storage_hits import hits_13, hits_23
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.hazard_hooks import MECHANISMS, NOT_YET, HazardChecker, Note, around

TARGETS = {"0.5.13.post1": hits_13, "0.5.23": hits_23}
"""What finds storage's hits, by release."""
GIVEN_BACK = "given back"
JUDGED = {"H-17": {"COMP-26"}, "H-18": {"COMP-26"}, "H-26": {"COMP-15", "COMP-29"}, GIVEN_BACK: {"COMP-29"}}
LAYOUTS = {"H-17": "kv+swa+state", "H-18": "kv+swa", "H-26": "kv+state", GIVEN_BACK: "kv+state"}


def a_state_is_given_back(adapter: Any, note: Note) -> None:
    """All of a prefetch has come, and its KV is cached by then: the commit makes no node, and drops the state."""

    def committed(asked: int, _cached: int, agreed: int, state: int | None) -> Callable[[Any], None]:
        def after(done: Any) -> None:
            if state is not None and agreed == asked and not done.node:
                note()

        return after

    around(adapter.published, "commit", committed)


def mechanism_of(release: str, hazard: str) -> Any:
    """The target in which a hazard is looked for, with what notices it."""
    if hazard in ("H-26", GIVEN_BACK):
        known = MECHANISMS["H-26"]
        return known if hazard == "H-26" else replace(known, id=hazard, hook=a_state_is_given_back)
    return replace(MECHANISMS[hazard], target=TARGETS[release])


def found(release: str, hazard: str, most: int) -> int:
    """In how many schedules of so many the hazard breaks a rule, each shrunk and then still the hazard."""
    mechanism = mechanism_of(release, hazard)
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
