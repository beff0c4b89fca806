"""The reference plans as the table says, as the specimen does, and never breaks a rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.checker.calls.prefix.prefetch import checked_plan, planned
from kvlitmus.conformance.checker.scripted_host import HostScript, ScriptedHost
from kvlitmus.conformance.litmus.prefix.prefetch_table import CASES, PlanCase
from kvlitmus.conformance.specimen.prefix.prefetch import PrefetchPlanner
from kvlitmus.reference.prefix.prefetch import Answer, Call, converse, plan_prefetch
from kvlitmus.spec.interface.plans import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.law.plan import verdicts
from kvlitmus.spec.law.rule import RULES
from kvlitmus.spec.prefix.prefetch_plan import PlanPrefetch, full_length
from kvlitmus.spec.prefix.rules import prefetch

PLAN_RULES = [rule for rule in RULES.values() if rule.predicate.__module__ == prefetch.__name__]

LENGTHS = st.one_of(st.integers(0, 70), st.integers(0, 10_000))
ASKS = st.builds(
    PrefetchAsk,
    key_length=LENGTHS,
    page_size=st.sampled_from((1, 2, 3, 4, 16, 64)),
    threshold=st.integers(0, 70),
    storage_on=st.integers(0, 9).map(bool),
    occupied=st.integers(0, 5),
    capacity=st.one_of(st.integers(-1, 5), st.just(10_000)),
)
SCRIPTS = st.builds(
    HostScript,
    free=LENGTHS,
    evictable=LENGTHS,
    refuse=st.lists(st.integers(0, 2), unique=True, max_size=3).map(tuple),
    arriving=st.one_of(st.just(0), LENGTHS),
    arrives_after=st.integers(0, 2),
    evict_grain=st.sampled_from((1, 4, 64)),
)


def reply_from(host: HostPool) -> Callable[[Call], Answer]:
    """Answers for the reference's conversation, from a host that is called."""

    def reply(call: Call) -> Answer:
        match call.name:
            case "alloc":
                return host.alloc(call.amount)
            case "evict":
                return host.evict(call.amount)
            case "available":
                return host.available()
            case "protect":
                host.protect()
                return None
            case "release":
                host.release()
                return None
            case name:
                raise ValueError(f"a plan makes no call named {name!r}", name)

    return reply


class Reference:
    """The reference behind the port."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        return converse(plan_prefetch(ask), reply_from(host))


@pytest.mark.parametrize("planner", [Reference(), PrefetchPlanner()], ids=["reference", "specimen"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_boundary_table(case: PlanCase, planner: Reference | PrefetchPlanner) -> None:
    host = ScriptedHost(case.script)
    plan = checked_plan(planner.plan_prefetch(case.ask, host))
    assert plan.refusal == case.refusal
    assert len(host.held) == len(plan.slots) == plan.key_length == plan.accounted == case.expected
    assert plan.hashed_pages * case.ask.page_size == case.expected
    names = [call.name for call in host.calls]
    assert names.count("protect") - names.count("release") == (case.expected > 0)
    if case.refusal not in (None, "no memory"):
        assert names == []
    assert names.count("evict") <= 1


def test_the_table_has_unique_names_and_both_outcomes() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.refusal for case in CASES} == {None, *("storage off", "too short", "rate limited", "no memory")}
    assert any(0 < case.expected < full_length(case.ask) for case in CASES)


@settings(max_examples=400)
@given(ASKS, SCRIPTS)
def test_reference_and_specimen_agree_and_keep_every_rule(ask: PrefetchAsk, script: HostScript) -> None:
    hosts = ScriptedHost(script), ScriptedHost(script)
    plans = Reference().plan_prefetch(ask, hosts[0]), PrefetchPlanner().plan_prefetch(ask, hosts[1])
    assert checked_plan(plans[0]) == checked_plan(plans[1])
    assert hosts[0].calls == hosts[1].calls
    event(plans[0].refusal or ("full" if plans[0].key_length == full_length(ask) else "truncated"))
    inputs = {"call": PlanPrefetch(ask), "answer": planned(checked_plan(plans[0]), hosts[0])}
    said = verdicts(PLAN_RULES, {"plan_prefetch"}, frozenset(), inputs, {})
    assert said == {rule.id: True for rule in PLAN_RULES}


@given(ASKS, SCRIPTS)
def test_a_plan_depends_on_the_answers_alone(ask: PrefetchAsk, script: HostScript) -> None:
    first, second = ScriptedHost(script), ScriptedHost(script)
    assert Reference().plan_prefetch(ask, first) == Reference().plan_prefetch(ask, second)
    assert first.calls == second.calls
