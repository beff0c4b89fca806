"""The evidence that the traceability matrix shows is computed, and none is missing without a reason."""

from __future__ import annotations

import pytest

from kvlitmus.spec.law.rule import Kind
from kvlitmus.spec.parts import all_rules
from tests.proofs.prefix.test_exhaustive import ALONE, WITHOUT_A_SNAPSHOT
from tests.proofs.prefix.test_tier_exhaustive import ELSEWHERE
from tests.proofs.support.coverage import evidence
from tests.proofs.support.tier_judge import PACKS

pytestmark = [pytest.mark.proof, pytest.mark.nightly]
FLAT = ("pool", "tree", "lock", "evict", "req")

UNDRAWN = {
    **WITHOUT_A_SNAPSHOT,
    "LIFE-15": "a reset between the poll that lets a request go and its question is drawn too seldom: a litmus test",
}
"""Rules that these random schedules don't evaluate, and what establishes them instead."""


def test_every_rule_about_states_is_enumerated_or_proven_symbolically() -> None:
    found = evidence()
    silent = [id for id, one in found.items() if not one.exhaustive and not one.symbolic]
    rules = [all_rules()[id] for id in silent if id not in {**ELSEWHERE, **ALONE}]
    packs = {rule.pack for rule in rules if rule.kind is not Kind.PROCEDURE}
    assert packs <= {"hash", "prefetch", "store"}, silent


def test_every_rule_of_ordinary_calls_is_evaluated_in_random_schedules() -> None:
    def judged(id: str) -> bool:
        rule = all_rules()[id]
        return rule.pack in {*FLAT, *PACKS} and rule.kind is not Kind.HISTORY

    assert {id for id, one in evidence().items() if judged(id) and not one.property} == UNDRAWN.keys()


def test_lemmas_cover_more_than_half_of_the_rules_about_states() -> None:
    states = [id for id, one in all_rules().items() if one.pack in {"pool", "tree", "lock", "evict", "req", "misuse"}]
    proven = [id for id in states if evidence()[id].symbolic]
    print(f"{len(proven)} of {len(states)} rules have a lemma; without: {sorted(set(states) - set(proven))}")
    assert len(proven) > len(states) / 2
