"""Every state of small caches, every call in every state, every rule after every call."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Kind
from kvlitmus.spec.parts import all_rules
from tests.proofs.support.explore import Counterexample, Explorer
from tests.proofs.support.planted import PLANTED, Planted
from tests.proofs.support.scopes import EVERY_RUN, NIGHTLY
from tests.proofs.support.searches import flat as explore
from tests.support.mutants import assert_killed
from tests.support.night import by_turns

pytestmark = pytest.mark.proof

ELSEWHERE = {
    "hash": "a key of two pages has no states: tests of the hash chain",
    "prefetch": "the prefetch plan has no states: lemmas for all integers",
    "port": "kept or broken by the call itself: every call of every search was made through the guard",
    **dict.fromkeys(("tier", "backup", "load", "fetch", "life", "event"), "test_tier_exhaustive.py"),
    "frame": "of flat caches with all other rules, of hierarchies in test_tier_exhaustive.py",
    "ranks": "of two ranks with all delays: test_ranks.py",
    "store": "a page store has no tree: tests/spec/test_stores.py",
    "sparse": "a sparse host pool is no cache: test_sparse_rows.py",
    "comp": "of caches of components: test_components.py",
    "creq": "of requests on them: test_component_requests.py",
}
"""Packs that the enumeration can't reach, and what establishes them instead; rules about two runs are lemmas."""

WITHOUT_A_SNAPSHOT = {
    id: "judged only where there is no snapshot: tests/spec/prefix/test_windows.py, tests/conformance/test_depths.py"
    for id, rule in all_rules().items()
    if rule.predicate.__module__ == "kvlitmus.spec.prefix.rules.unseen"
}
"""Rules that no search evaluates, for a search looks at everything, and what establishes them instead."""

ALONE = {
    **WITHOUT_A_SNAPSHOT,
    "MISUSE-08": "forbidden calls with no rule of their own aren't tried: litmus tests, the end of random schedules",
    "MISUSE-09": "nothing follows from a forbidden call here: litmus tests, the end of random schedules",
    "MISUSE-11": "arrays are the port's, and no key here has any: a litmus test, the end of random schedules",
    "MISUSE-12": "the same",
    "MISUSE-13": "of the tokens that no key has none is tried: a litmus test, the end of random schedules",
    "MISUSE-10": "of the sizes that the contract rules out none is asked for: a litmus test",
}
"""Rules of other packs that the enumeration can't evaluate, and what establishes them instead."""


@pytest.mark.parametrize("name", by_turns(sorted(EVERY_RUN, key="nodes".__ne__), every=len(EVERY_RUN)))
def test_no_transition_breaks_a_rule(name: str) -> None:
    report = explore(name)
    print(f"{name}: {report.line()}")
    assert report.complete
    assert report.states > 50 and report.transitions > report.states


@pytest.mark.nightly
def test_every_rule_is_evaluated_in_some_transition() -> None:
    counts = {id: sum(explore(name).evaluated[id] for name in EVERY_RUN) for id in all_rules()}
    for id, count in counts.items():
        print(f"{id}: {count:,} evaluations")
    silent = [id for id, count in counts.items() if not count and all_rules()[id].kind is not Kind.HISTORY]
    assert {id for id in silent if all_rules()[id].pack not in ELSEWHERE} == ALONE.keys()


IN_TRACES_ALONE = {On.EXTEND_BATCH, On.EXTEND_ONE}
"""What the suite never asks for: engines do (a batch, and each request of it), and their traces are judged."""

OF_HIERARCHIES = {On.LOAD_BACK, On.REFUSED_LOAD_BACK, On.EVICT_HOST, On.PREFETCH, On.REFUSED_PREFETCH, On.TICK}
"""What a flat cache isn't asked for: test_tier_exhaustive.py does, and judges what is evicted for it."""

NO_MEMORY = {On.OUT_OF_MEMORY}
"""A value can't be left half changed, so no memory fails here: it does in random schedules of hierarchies (LOAD-04)."""


UNTRIED = {On.FORBIDDEN}
"""Forbidden calls with no rule of their own, which MISUSE-02 is about as well: litmus tests, the end of schedules."""


@pytest.mark.nightly
def test_every_kind_of_call_that_a_rule_is_about_is_reached() -> None:
    reached = {kind for name in EVERY_RUN for kinds in explore(name).reached for kind in kinds.split("+")}
    wanted = {
        kind
        for rule in all_rules().values()
        if rule.kind not in (Kind.PROCEDURE, Kind.HISTORY) and rule.pack not in ELSEWHERE and rule.id not in ALONE
        for kind in rule.on
    }
    assert wanted - IN_TRACES_ALONE - OF_HIERARCHIES - NO_MEMORY - UNTRIED <= reached


def search(one: Planted) -> Sequence[str]:
    """The rules that a mutant of the reference breaks, in the first transition that breaks any."""
    try:
        Explorer(one.scope, one.target).run(most_states=20_000)
    except Counterexample as found:
        return found.rules
    return ()


@pytest.mark.parametrize("one", by_turns(PLANTED), ids=lambda one: one.id)
def test_a_mutant_of_the_reference_is_found(one: Planted) -> None:
    assert_killed(one, lambda _: search(one))


@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
def test_no_transition_of_a_larger_cache_breaks_a_rule(name: str) -> None:
    report = Explorer(NIGHTLY[name]).run()
    print(f"{name}: {report.line()}")
    assert report.complete
