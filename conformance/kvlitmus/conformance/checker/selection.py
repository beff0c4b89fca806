"""Which rules are evaluated after a call, compiled once for all calls that are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvlitmus.spec.law.plan import Plan, plan_of
from kvlitmus.spec.law.rule import Rule

FLAT_CALL = "flat_call"
"""What every call to a cache without a host tier is as well: nothing is under way after it."""

PLANS: dict[tuple[object, ...], Plan] = {}
"""Plans by everything that they depend on: a checker lives for one schedule, and most are alike."""


def plan_for(
    occasions: tuple[str, ...],
    unknown: frozenset[str],
    rules: Mapping[str, Rule],
    *,
    depth: int,
    capabilities: frozenset[str],
    predicates: tuple[Callable[..., bool], ...],
) -> Plan:
    """Which rules to evaluate on such occasions: those of state and of these, if their facts are known.

    ``predicates``: those of the rules, in order.
    """
    key = (occasions, depth, capabilities, unknown, predicates)
    plan = PLANS.get(key)
    if plan is None:
        wanted = frozenset(occasions)
        if "tiers" not in capabilities:
            wanted |= {FLAT_CALL}
        plan = PLANS[key] = plan_of(
            rules.values(),
            wanted,
            depth=depth,
            capabilities=capabilities,
            unknown=unknown,
        )
    return plan
