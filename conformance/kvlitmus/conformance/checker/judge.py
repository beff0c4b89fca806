"""Judging steps: which rules are evaluated after a step, what came of it, and how often that was done.

A :class:`Judge` is for steps of one kind of cache, seen to one depth.  A checker has one for the cache itself; where a
step can be seen as one of a plainer cache as well, as of one rank, it has another one for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kvlitmus.spec.law.plan import Judged, Plan, plan_of
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


class Tally:
    """Which rules to evaluate after calls that are alike, how often that was done, and how often one was unknown.

    ``together``: how often just these rules were unknown.  ``idle``: how often the premise of each rule that has one
    was not true.  ``blocked``: how often one would have needed what can't be trusted.
    """

    __slots__ = ("blocked", "idle", "occasions", "plan", "times", "together")

    def __init__(self, occasions: tuple[str, ...], plan: Plan) -> None:
        self.occasions = occasions
        self.plan = plan
        self.times = 0
        self.together: Counter[tuple[str, ...]] = Counter()
        self.blocked: Counter[str] = Counter()
        self.idle = [0] * len(plan.premised)


class Judge:
    """Evaluates the rules that apply to a cache with these capabilities, and counts.

    tally, not_judged, broken: of the last step, the count of those that are alike, the rules that could not be judged,
    and those that it broke.
    """

    tally: Tally

    def __init__(
        self,
        rules: Mapping[str, Rule],
        *,
        depth: int,
        capabilities: frozenset[str],
        muted: frozenset[str],
        predicates: tuple[Callable[..., bool], ...] = (),
    ) -> None:
        self.rules = rules
        self.depth = depth
        self.capabilities = capabilities
        self.muted = muted
        self.predicates = predicates or tuple([one.predicate for one in rules.values()])
        self.tallies: dict[object, Tally] = {}
        self.not_judged: tuple[str, ...] = ()
        self.broken: tuple[str, ...] = ()

    def beside(self, depth: int, capabilities: frozenset[str], laws: frozenset[str]) -> Judge:
        """Another one by the same rules, or these of them, for steps seen as those of a plainer cache as well."""
        rules = {id: one for id, one in self.rules.items() if id in laws} if laws else self.rules
        predicates = () if laws else self.predicates
        return Judge(rules, depth=depth, capabilities=capabilities, muted=self.muted, predicates=predicates)

    def step(
        self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str], *, told: bool
    ) -> Judged | None:
        """Evaluate every rule whose facts are known; ``None`` where all were, and are kept.

        unknown: the inputs that aren't there.  told: whether all facts are to be told.
        """
        alike = (occasions, unknown) if unknown else occasions
        tally = self.tallies.get(alike)
        if tally is None:
            tally = self.tallies[alike] = Tally(
                occasions,
                plan_for(
                    occasions,
                    unknown,
                    self.rules,
                    depth=self.depth,
                    capabilities=self.capabilities,
                    predicates=self.predicates,
                ),
            )
        tally.times += 1
        self.tally, self.not_judged = tally, tally.plan.never
        judged = tally.plan.run(*inputs, told, tally.idle)
        self.broken = () if judged is None else judged.broken
        if judged is not None and judged.unknown:
            self.not_judged = tally.plan.never + judged.unknown
            tally.together[judged.unknown] += 1
        return judged

    def block(self, distrusted: Collection[str], broken: Sequence[str]) -> list[str]:
        """Count the ``distrusted`` rules, which need what can't be trusted, and give the broken ones that don't."""
        self.tally.blocked.update(distrusted)
        self.not_judged += tuple([id for id in broken if id in distrusted])
        return [id for id in broken if id not in distrusted]

    @property
    def reached(self) -> Counter[str]:
        """How often there was each occasion."""
        total: Counter[str] = Counter()
        for tally in self.tallies.values():
            for occasion in tally.occasions:
                total[str(occasion)] += tally.times
        return total

    def counted(self, others: Mapping[str, int]) -> Counter[str]:
        """How often each rule was evaluated where its premise was true, beside ``others``."""
        total = dict(others)
        for tally in self.tallies.values():
            for id in self.heard(tally.plan.rules):
                total[id] = total.get(id, 0) + tally.times
            for rules, times in (*tally.together.items(), *[((id,), n) for id, n in tally.blocked.items()]):
                for id in self.heard(rules):
                    total[id] -= times
        for id, times in self.idle().items():
            total[id] -= times
        return Counter({id: times for id, times in total.items() if times > 0})

    def heard(self, rules: Sequence[str]) -> Sequence[str]:
        """Those of these rules that are not muted."""
        return [id for id in rules if id not in self.muted] if self.muted else rules

    def idle(self) -> Counter[str]:
        """How often each rule was judged though its premise was not true: it had nothing to say."""
        total: dict[str, int] = {}
        for tally in self.tallies.values():
            for id, times in zip(tally.plan.premised, tally.idle, strict=True):
                total[id] = total.get(id, 0) + times
        return Counter({id: total[id] for id in self.heard([*total]) if total[id] > 0})

    def unknown(self) -> Counter[str]:
        """How often each rule was not judged, since a fact that it speaks of could not be known."""
        total: dict[str, int] = {}
        for tally in self.tallies.values():
            for rules, times in (*tally.together.items(), (tally.plan.never, tally.times)):
                for id in rules:
                    total[id] = total.get(id, 0) + times
        return Counter({id: total[id] for id in self.heard([*total])})
