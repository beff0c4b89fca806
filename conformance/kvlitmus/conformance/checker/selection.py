"""Which rules are evaluated after a call, compiled for all calls that are alike: first in short, later for speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvlitmus.spec.law.plan import Plan, compile_plan
from kvlitmus.spec.law.rule import Rule

FLAT_CALL = "flat_call"
"""What every call to a cache without a host tier is as well: nothing is under way after it."""

OFTEN = 5
"""The checker of a plan for which it is compiled for speed; most plans of a short run are used less often than that."""


@dataclass(slots=True)
class Used:
    """A plan, and for how many checkers it was asked for."""

    plan: Plan
    times: int = 1


PLANS: dict[tuple[object, ...], Used] = {}
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
    used = PLANS.get(key)
    if used is not None:
        used.times += 1
        if used.times != OFTEN:
            return used.plan
    wanted = frozenset(occasions)
    if "tiers" not in capabilities:
        wanted |= {FLAT_CALL}
    plan = compile_plan(
        rules.values(),
        wanted,
        depth=depth,
        capabilities=capabilities,
        unknown=unknown,
        inline=used is not None,
    )
    if used is None:
        PLANS[key] = Used(plan)
    else:
        used.plan = plan
    return plan
