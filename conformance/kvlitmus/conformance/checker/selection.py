"""Which rules are evaluated after a call, worked out once for all calls that are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from kvlitmus.spec.rule import Kind, Rule

Facts = dict[str, Any]


class Plan(NamedTuple):
    """The rules to evaluate after one kind of call: id, predicate, how to get its facts, whether that is one fact."""

    checks: tuple[tuple[str, Callable[..., bool], Callable[[Facts], Any], bool], ...]


FLAT_CALL = "flat_call"
"""What every call to a cache without a host tier is as well: nothing is under way after it."""

PLANS: dict[tuple[object, ...], Plan] = {}
"""Plans by everything that they depend on: a judge lives for one schedule, and most are alike."""


def plan_for(
    kinds: str,
    facts: Facts,
    rules: Mapping[str, Rule],
    *,
    depth: int,
    muted: frozenset[str],
    capabilities: frozenset[str],
) -> Plan:
    """Which rules to evaluate after such a call: those of state and of its kinds, if their facts are known.

    ``kinds`` are joined by ``+``.  After misuse the rules of that pack are evaluated, and no others.
    """
    predicates = tuple([one.predicate for one in rules.values()])
    key = (kinds, depth, muted, capabilities, frozenset(facts), predicates)
    plan = PLANS.get(key)
    if plan is None:
        wanted = frozenset(kinds.split("+"))
        if "tiers" not in capabilities:
            wanted |= {FLAT_CALL}
        judged = [one for one in rules.values() if (one.pack == "misuse") == ("misuse" in wanted)]
        plan = PLANS[key] = Plan(
            tuple(
                (one.id, one.predicate, itemgetter(*one.facts), len(one.facts) == 1)
                for one in judged
                if one.id not in muted
                and one.depth <= depth
                and applies(one, wanted, capabilities)
                and all(name in facts for name in one.facts)
            )
        )
    return plan


def applies(one: Rule, kinds: frozenset[str], capabilities: frozenset[str]) -> bool:
    """Whether a rule is about calls of these kinds, made to a cache with these capabilities."""
    if one.kind is Kind.PROCEDURE or not one.facts or not one.needs <= capabilities:
        return False
    return one.kind is Kind.STATE or not kinds.isdisjoint(one.on)
