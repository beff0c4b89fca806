"""Each rank is judged by the laws of a cache; agreement comes on top."""

from __future__ import annotations

from collections import Counter

import pytest

from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.specimen.ranks import Deciding, RankCache, RankedSpecimen
from kvlitmus.mutants.ranks.alike import Refusing
from kvlitmus.spec.interface.ranks import Ask
from kvlitmus.spec.parts import all_rules


@pytest.mark.parametrize("what", ["insert", "load", "prefetch", "match"])
def test_one_rank_that_refuses_by_key_is_named_too(what: str) -> None:
    class Alone(Refusing):
        def ask(self, ask: Ask) -> Deciding:
            return (yield from super().ask(ask) if self.number else RankCache.ask(self, ask))

    Alone.what = what

    def play() -> None:
        for seed in range(4):
            checker = Checker(RankedSpecimen(Alone), plan.RANKS, specimen.profile)
            Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))

    with pytest.raises(Violation) as found:
        play()
    assert {"RANKS-01", "RANKS-03"} <= {*found.value.rules}


def test_each_rank_is_judged_by_the_laws_of_a_cache() -> None:
    counted = Counter[str]()
    for seed in range(4):
        checker = Checker(specimen.make(plan.RANKS), plan.RANKS, specimen.profile)
        Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))
        counted += checker.counted()
    laws = "POOL-01 TREE-02 TREE-05 TREE-08 EVICT-01 EVICT-05 EVICT-06 LOCK-01 BACKUP-01 LOAD-01 FETCH-03"
    assert {id for id in laws.split() if counted[id] < 5} == set()


def test_a_finding_names_the_rule_and_the_ranks() -> None:
    class Stubborn(RankCache):
        def ask_evict(self, ask: Ask) -> Deciding:
            return (yield from super().ask_evict(ask._replace(pages=0)))

    checker = Checker(RankedSpecimen(Stubborn), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp2")
    ranks.ask(checker, "insert", (1, 2))
    ranks.finish_copies(checker)
    with pytest.raises(Violation) as found:
        ranks.ask(checker, "evict", pages=1)
    assert found.value.rules == ("EVICT-01",)
    told = allowed_text(all_rules()["EVICT-01"], checker.names, found.value.facts)
    assert told == "every rank: at least min(1, 2) slots freed"
