"""The judge of a search whose steps are a state, a call and an answer: by plans, since many steps are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvlitmus.spec.law.facts import INPUTS, UNKNOWN
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import Plan, plan_of
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.words.setting import SNAPSHOT, Setting

GIVEN = ("setting", "state", "call", "answer")
"""What is known of such a step; no fact is worked out from anything else."""


class StepJudge:
    """Judges steps in one setting, and counts how often each rule was evaluated."""

    def __init__(self, rules: Iterable[Rule], capabilities: frozenset[str], setting: Setting) -> None:
        self.rules = tuple(rules)
        self.capabilities = capabilities
        self.setting = setting
        self.evaluated: Counter[str] = Counter()
        self.plans: dict[frozenset[str], Plan] = {}

    def plan(self, occasions: frozenset[str]) -> Plan:
        """What is judged on such occasions."""
        found = self.plans.get(occasions)
        if found is None:
            found = self.plans[occasions] = plan_of(
                self.rules,
                occasions,
                depth=SNAPSHOT,
                capabilities=self.capabilities,
                unknown=frozenset(INPUTS) - set(GIVEN),
                premises=False,
            )
        return found

    def broken(self, state: object, call: object, answer: object) -> tuple[str, ...]:
        """The rules that a step breaks."""
        plan = self.plan(frozenset(occasions_of(call, answer)))
        given = dict.fromkeys(INPUTS, UNKNOWN) | dict(zip(GIVEN, (self.setting, state, call, answer), strict=True))
        judged = plan.run(*given.values(), False)
        if judged is None:
            self.evaluated.update(plan.rules)
            return ()
        self.evaluated.update([rule for rule in plan.rules if rule not in judged.unknown])
        return judged.broken
