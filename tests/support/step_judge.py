"""The judge of a search whose steps are a state, a call and an answer: by plans, since many steps are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvlitmus.spec.law.facts import INPUTS, UNKNOWN
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import Plan, plan_of
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.words.setting import SNAPSHOT, Setting

GIVEN = ("setting", "state", "call", "answer", "pools", "component_known")
"""What is known of such a step, of components also after it; no fact is worked out from anything else."""


class StepJudge:
    """Judges steps in one setting, and counts how often each rule was evaluated."""

    def __init__(self, rules: Iterable[Rule], capabilities: frozenset[str], setting: Setting) -> None:
        self.rules = tuple(rules)
        self.capabilities = capabilities
        self.setting = setting
        self.evaluated: Counter[str] = Counter()
        self.plans: dict[tuple[frozenset[str], int], Plan] = {}

    def plan(self, occasions: frozenset[str], given: int) -> Plan:
        """What is judged on such occasions, where so much is known."""
        found = self.plans.get((occasions, given))
        if found is None:
            found = self.plans[occasions, given] = plan_of(
                self.rules,
                occasions,
                depth=SNAPSHOT,
                capabilities=self.capabilities,
                unknown=frozenset(INPUTS) - set(GIVEN[:given]),
                premises=False,
            )
        return found

    def broken(self, state: object, call: object, answer: object, *seen: object) -> tuple[str, ...]:
        """The rules that a step breaks; ``seen``: of components what was seen and is known after it."""
        known = (self.setting, state, call, answer, *seen)
        plan = self.plan(frozenset(occasions_of(call, answer, state, self.setting)), len(known))
        given = dict.fromkeys(INPUTS, UNKNOWN) | dict(zip(GIVEN, known, strict=False))
        judged = plan.run(*given.values(), False)
        if judged is None:
            self.evaluated.update(plan.rules)
            return ()
        self.evaluated.update([rule for rule in plan.rules if rule not in judged.unknown])
        return judged.broken
