"""A plan's first steps are judged rule by rule, the others by a function of its own: both say the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvlitmus.conformance.checker import judge
from kvlitmus.conformance.isolation.integrity import OPTIONS, PLANTED, Planted, planted_item
from kvlitmus.conformance.run import engine
from kvlitmus.mutants.registry import mutant_of
from kvlitmus.spec.law import plan


@pytest.mark.parametrize("one", PLANTED, ids=lambda one: one.mutant)
def test_a_plan_says_the_same_rule_by_rule_and_compiled(one: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    rule_by_rule, made = plan.Plan.followed, dict[plan.Plan, Callable[..., plan.Judged | None]]()

    def both(self: plan.Plan, *given: Any) -> plan.Judged | None:
        if self not in made:
            made[self] = self.compiled()
        for told in (True, False):
            idle = [[0] * len(self.premised) for _ in range(2)]
            judged = rule_by_rule(self, *given[:-2], told, idle[0])
            want = made[self](*given[:-2], told, idle[1])
            assert repr(judged) == repr(want)  # of what isn't compared by what it says, too
            assert idle[0] == idle[1]
        return made[self](*given)

    monkeypatch.setattr(plan.Plan, "followed", both)
    monkeypatch.setattr(judge, "PLANS", {})
    engine.run_item(mutant_of(one.module, one.mutant).target, planted_item(one), OPTIONS)
    assert made
