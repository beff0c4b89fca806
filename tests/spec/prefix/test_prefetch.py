"""The rules of prefetch plan and page hashes bite: each is kept by the specimen and broken by a mutant."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvlitmus.conformance.checker.calls.prefix.hashing import Noting, checked_hashes, run_hashes, run_two_ways
from kvlitmus.conformance.checker.calls.prefix.prefetch import checked_plan, run_plan
from kvlitmus.conformance.checker.scripted_host import MAX_CALLS, HostScript, ScriptedHost
from kvlitmus.conformance.litmus.prefix import hashing_table as hash_cases
from kvlitmus.conformance.litmus.prefix import prefetch_table, spelling
from kvlitmus.conformance.ports import Hashes, Prefetch
from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.conformance.specimen.prefix.prefetch import PrefetchPlanner
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.prefix import prefetch as prefetch_mutants
from kvlitmus.mutants.registry import ALONE, all_mutants
from kvlitmus.spec.interface.plans import PrefetchAsk, PrefetchPlan
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import verdicts
from kvlitmus.spec.law.rule import RULES, Strength
from kvlitmus.spec.prefix.hash_calls import (
    EMPTY_LEDGER,
    CompareHashes,
    HashCall,
    HashNamespaces,
    HashPair,
    HashPieces,
    PageHashes,
    noted,
    prefixes_of,
)
from kvlitmus.spec.prefix.prefetch_plan import PlanPrefetch
from kvlitmus.spec.prefix.rules import hashing, prefetch
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.schemes import SCHEMES
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key
from tests.support.mutants import Look, assert_killed, noticed
from tests.support.step_judge import StepJudge

PLAN_RULES = [rule for rule in RULES.values() if rule.predicate.__module__ == prefetch.__name__]
HASH_RULES = [rule for rule in RULES.values() if rule.predicate.__module__ == hashing.__name__]
SMALLEST = [one for one in all_mutants().values() if one.configs == ALONE]
PLANNERS = [one for one in SMALLEST if one.target.parts.prefetch is not PrefetchPlanner]
HASHERS = [one for one in SMALLEST if one.target.parts.hashing is not PageHasher]
ALONE_JUDGED = PLANNERS + HASHERS
"""The mutants and null mutants of plan and chain that are judged by themselves."""

RANDOM_PLANS = 3000
RANDOM_KEYS = 400


Step = tuple[object, object]
"""A call, and its answer."""


def judged(
    step: Step, scheme: str = "kvlitmus-2", state: object = None, known: dict[str, Any] | None = None
) -> set[str]:
    """The rules that a step breaks, under a scheme of page names; ``known``: facts that are known already."""
    judge = judge_of(scheme)
    if known is None:
        return set(judge.broken(state, *step))
    inputs = {"setting": judge.setting, "state": state, "call": step[0], "answer": step[1]}
    found = verdicts(judge.rules, occasions_of(*step), judge.capabilities, inputs, known)
    return {id for id, kept in found.items() if not kept}


@functools.cache
def judge_of(scheme: str) -> StepJudge:
    """Who judges under a scheme of page names."""
    capabilities = frozenset({"scheme"} if scheme in SCHEMES else ())
    setting = Setting(Config(), Profile(hash_scheme=scheme), 0, capabilities)
    return StepJudge(PLAN_RULES + HASH_RULES, capabilities, setting)


def planned(planner: Prefetch, ask: PrefetchAsk, script: HostScript) -> Step:
    """One plan, as a step."""
    call = PlanPrefetch(ask)
    return call, run_plan(planner, call, script)[0]


def broken_by_plans(planner: Prefetch, seed: int | None) -> set[str]:
    """The rules that a planner breaks on the litmus cases (no seed) or on random scripts."""
    found: set[str] = set()
    if seed is None:
        for case in prefetch_table.CASES:
            found |= judged(planned(planner, case.ask, case.script))
    else:
        source = random.Random(seed)
        for _ in range(RANDOM_PLANS):
            ask, script = prefetch_table.draw(source.randrange)
            before = prefetch_table.BEFORE[source.randrange(4) :]
            found |= judged(planned(planner, ask._replace(prefix_keys=before), script))
    return found


def hash_calls_of(seed: int | None, scheme: str) -> Iterator[HashCall]:
    """The calls of the litmus cases (no seed) or on random keys."""
    if seed is None:
        for vector in hash_cases.VECTORS[scheme if scheme in SCHEMES else "kvlitmus-2"]:
            yield PageHashes(vector.key, vector.page_size, vector.prior)
            yield HashPieces(vector.key, vector.page_size, 1)
        for spelt in (*spelling.within(), *spelling.across()):
            yield PageHashes(spelt.victim, spelt.victim_page)
            yield PageHashes(spelt.prompt, spelt.page)
        for page_size, bigram in ((1, False), (2, False), (1, True)):
            yield PageHashes(Key(None, (1, 2, 3), bigram), page_size)
        for pair in hash_cases.PAIRS:
            yield HashPair(pair.key, pair.other, pair.page_size)
        for own, foreign in hash_cases.FOREIGN:
            yield HashNamespaces(hash_cases.LARGEST._replace(namespace=own), foreign, 1)
        for _, key, page_size in hash_cases.REFUSED:
            yield PageHashes(key, page_size)
        return
    source = random.Random(seed)
    for _ in range(RANDOM_KEYS):
        key, other, page, cut = hash_cases.draw(source.randrange)
        yield PageHashes(key, page)
        yield HashPieces(key, page, cut)
        yield HashPair(key, other, page)
        yield HashNamespaces(key, "lora-c", page)


def broken_by_hashes(hasher: Hashes, seed: int | None, scheme: str = "kvlitmus-2") -> set[str]:
    """The rules that a hasher breaks which declares this scheme."""
    noting = Noting(hasher)
    found: set[str] = set()
    for call in hash_calls_of(seed, scheme):
        answer = run_hashes(noting, call)[0] if isinstance(call, PageHashes) else run_two_ways(noting, call)
        found |= judged((call, answer), scheme)
    names, ledger = Names(), EMPTY_LEDGER
    for asked, hashes in noting.answered:
        prefixes = prefixes_of(ledger, names, asked)
        if prefixes is not None:
            compared = CompareHashes(asked.page_size, asked.key.bigram, prefixes)
            found |= judged((compared, hashes), scheme, ledger)
            ledger = noted(ledger, compared, hashes)
    return found


def plans(seed: int | None) -> Look:
    """Plans of a table, or drawn: the rules that a mutant's planner breaks."""
    return lambda one: broken_by_plans(one.target.parts.prefetch(), seed)


def hashes(seed: int | None) -> Look:
    """Keys of a table, or drawn: the rules that a mutant's hasher breaks under the scheme that it declares."""
    return lambda one: broken_by_hashes(one.target.parts.hashing(), seed, one.profile.hash_scheme)


def real(mutants: list[Mutant]) -> list[Mutant]:
    """Those that are no legal variations."""
    return [one for one in mutants if not one.null]


@pytest.mark.parametrize("one", real(PLANNERS), ids=lambda one: one.id)
def test_every_mutant_of_the_plan_is_caught_by_the_table_and_at_random(one: Mutant) -> None:
    assert set(one.kills) <= RULES.keys()
    assert noticed(one, plans(None)) >= set(one.kills)
    assert_killed(one, plans(7))


@pytest.mark.parametrize("one", real(HASHERS), ids=lambda one: one.id)
def test_every_mutant_of_the_chain_is_caught_by_the_litmus_cases(one: Mutant) -> None:
    assert noticed(one, hashes(None)) >= set(one.kills)


AT_RANDOM_ONLY_BY_LITMUS = {
    "hash-16-bit-namespace",
    "hash-low-bits-only",
    "hash-no-tags",
    "hash-upstreams",
    "hash-upstreams-undeclared",
}
"""These need a namespace, a token or a prompt made for them."""


@pytest.mark.parametrize("one", real(HASHERS), ids=lambda one: one.id)
def test_most_mutants_of_the_chain_are_caught_at_random(one: Mutant) -> None:
    assert one.killed_by(noticed(one, hashes(7))) or one.id in AT_RANDOM_ONLY_BY_LITMUS


@pytest.mark.parametrize("one", [one for one in PLANNERS if one.null], ids=lambda one: one.id)
def test_legal_plans_raise_no_alarm(one: Mutant) -> None:
    assert noticed(one, *map(plans, (None, 1, 2, 3))) == set()


@pytest.mark.parametrize("one", [one for one in HASHERS if one.null], ids=lambda one: one.id)
def test_legal_hashers_raise_no_alarm(one: Mutant) -> None:
    assert noticed(one, *map(hashes, (None, 1))) == set()


def test_the_specimen_keeps_every_rule() -> None:
    for seed in (None, 1, 2, 3):
        assert broken_by_plans(PrefetchPlanner(), seed) == set()
        assert broken_by_hashes(PageHasher(), seed) == set()


def test_every_rule_has_a_mutant_that_it_catches() -> None:
    assert len(real(PLANNERS)) == 25 and len(real(HASHERS)) == 18 and len(ALONE_JUDGED) == 49
    named = {rule for one in ALONE_JUDGED for rule in one.kills}
    assert named == {rule.id for rule in PLAN_RULES + HASH_RULES}


def test_only_two_mutants_break_nothing_but_a_should() -> None:
    weak = {rule.id for rule in PLAN_RULES + HASH_RULES if rule.strength is Strength.SHOULD}
    only_warned = {one.id for one in real(PLANNERS) if set(one.kills) <= weak}
    assert only_warned == {"prefetch-evicts-full-length", "prefetch-silent-refusal"}
    assert broken_by_plans(prefetch_mutants.EvictsTheFullLength(), None) == {"PREFETCH-18"}
    assert broken_by_plans(prefetch_mutants.SilentRefusal(), None) == {"PREFETCH-19"}


def test_the_rules_need_nothing_but_what_the_suite_itself_sees() -> None:
    for rule in PLAN_RULES + HASH_RULES:
        assert rule.depth == 0, rule.id
        assert "MUST" in rule.text or rule.strength is Strength.SHOULD
        assert all(FACTS[name].meaning for name in rule.facts)


def test_what_is_allowed_can_be_shown_for_every_rule() -> None:
    facts: dict[str, Any] = {}
    judged(planned(PrefetchPlanner(), prefetch_table.CASES[0].ask, prefetch_table.CASES[0].script), known=facts)
    for rule in PLAN_RULES:
        assert rule.allowed.format(**facts)


def test_a_plan_of_the_wrong_form_is_refused() -> None:
    with pytest.raises(TypeError, match="PrefetchPlan"):
        checked_plan((None, (), 0, 0, 0, 0))
    with pytest.raises(TypeError, match="integers"):
        checked_plan(PrefetchPlan(None, slots=(1.5,)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integers"):
        checked_plan(PrefetchPlan(None, accounted=True))
    with pytest.raises(TypeError, match="refusal"):
        checked_plan(PrefetchPlan(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a sequence of texts"):
        checked_plan(PrefetchPlan(None, prefix_keys="page 0"))
    with pytest.raises(TypeError, match="a text as the hash"):
        checked_plan(PrefetchPlan(None, prefix_keys=(b"page 0",)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sequence of texts"):
        checked_hashes("ab")
    with pytest.raises(TypeError, match="a text as the hash"):
        checked_hashes([b"ab"])


def test_planning_that_raises_is_an_observation() -> None:
    ask, script = PrefetchAsk(16, 4, 8), HostScript(8, refuse=(2,))
    call = PlanPrefetch(ask)
    answer, error = run_plan(prefetch_mutants.UncheckedLastAllocation(), call, script)
    assert isinstance(error, TypeError)
    assert judged((call, answer)) == {"PREFETCH-15"}


def test_the_scripted_host_notes_what_is_given_back_wrongly() -> None:
    host = ScriptedHost(HostScript(8))
    slots = host.alloc(4)
    assert slots is not None
    host.free([*slots[:2], slots[0], 5])
    assert list(host.held) == slots[2:]
    assert host.strays == [slots[0], 5]
    assert host.available() == 6


def test_a_plan_that_never_ends_is_stopped() -> None:
    class Stubborn(PrefetchPlanner):
        def plan_prefetch(self, ask: PrefetchAsk, host: object) -> PrefetchPlan:
            assert isinstance(host, ScriptedHost)
            while host.alloc(ask.key_length) is None:
                pass
            return PrefetchPlan(None)

    _, error = run_plan(Stubborn(), PlanPrefetch(PrefetchAsk(16, 4, 8)), HostScript(8))
    assert isinstance(error, RuntimeError)
    assert str(MAX_CALLS) in str(error)
