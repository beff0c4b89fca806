"""Litmus tests on prefetch plans: the cases of :mod:`~.prefetch_table`, judged."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.calls import prefetch
from kvlitmus.conformance.judge import Judge
from kvlitmus.conformance.litmus.prefetch_table import BOUNDARIES, FAULTS, GATES, THRESHOLDS, PlanCase
from kvlitmus.conformance.litmus.registry import litmus

RULES = tuple(f"PREFETCH-{number:02}" for number in range(1, 20))


def _plan_all(judge: Judge, cases: Sequence[PlanCase]) -> None:
    for case in cases:
        prefetch.plan(judge, case.ask, case.script)


@litmus(rules=RULES, needs=("prefetch",))
def a_plan_takes_what_there_is(judge: Judge) -> None:
    """For each amount of memory around the key's length and the threshold, the plan reserves the whole pages there
    are.
    """
    _plan_all(judge, BOUNDARIES)


@litmus(rules=RULES, needs=("prefetch",))
def a_plan_survives_its_host(judge: Judge) -> None:
    """Whichever allocation fails, the last one too, and however much becomes available meanwhile, nothing leaks."""
    _plan_all(judge, FAULTS)


@litmus(rules=RULES, needs=("prefetch",))
def exactly_the_threshold_is_enough(judge: Judge) -> None:
    """The threshold is compared with whole pages, before truncation and after it, and reaching it is enough."""
    _plan_all(judge, THRESHOLDS)


@litmus(rules=RULES, needs=("prefetch",))
def a_shut_gate_has_no_effect(judge: Judge) -> None:
    """Storage off, a key too short, a full quota: nothing is touched; the last unit of the quota lets a plan through."""
    _plan_all(judge, GATES)
