"""CrossHair reads the lemmas of pool, tree, locks, evictions and requests.

Each must be *confirmed over all paths* within its bounds (see :data:`tests.proofs.prefix.lemmas.LEMMAS`);
"not confirmed" fails.  Each planted slip must be found, and the counterexample must fail again in
plain Python.
"""

from __future__ import annotations

import pytest

from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.calls import Alloc
from kvlitmus.spec.words.units import Tokens
from tests.proofs.prefix import fetch_lemmas, lemmas, lock_lemmas, tree_lemmas
from tests.proofs.prefix.lemmas import LEMMAS, SETTINGS, small_state
from tests.proofs.ranks import lemmas as rank_lemmas
from tests.proofs.support.reader import Ask, confirmed, found_and_real
from tests.proofs.support.steps import claim, keeps, step_of
from tests.support.night import by_turns

HOLDS = tuple(name for name, one in LEMMAS.items() if not one.planted)
PLANTED = tuple(name for name, one in LEMMAS.items() if one.planted)


MODULES = {
    name: module
    for module in (lemmas, lock_lemmas, tree_lemmas, fetch_lemmas, rank_lemmas)
    for name in LEMMAS
    if hasattr(module, name)
}


def target_of(name: str) -> str:
    """Where a lemma is, as its reader wants to know it."""
    return f"{MODULES[name].__name__.removeprefix('tests.proofs.')}.{name}"


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(HOLDS, every=9))
def test_the_lemma_is_confirmed_over_all_paths(crosshair: Ask, name: str) -> None:
    confirmed(crosshair(target_of(name)))


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(PLANTED, every=6))
def test_the_planted_slip_is_found_and_real(crosshair: Ask, name: str) -> None:
    found_and_real(crosshair(target_of(name)), getattr(MODULES[name], name))


def test_lemmas_name_rules_and_bounds() -> None:
    for one in LEMMAS.values():
        assert one.rules and set(one.rules) <= all_rules().keys(), one
        assert one.bounds, one
    planted = {rule.split("-")[0] for name in PLANTED for rule in LEMMAS[name].rules}
    assert planted == {rule.split("-")[0] for name in HOLDS for rule in LEMMAS[name].rules}


def test_a_claim_of_what_is_not_judged_then_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['EVICT-01'\] are not judged"):
        claim("EVICT-01", "POOL-12", on=("alloc",))


def test_a_step_of_another_kind_proves_nothing() -> None:
    state, setting = small_state((True, False, True)), SETTINGS[1]
    step = step_of(perform, state, setting, Alloc(Tokens(1)))

    assert keeps(step, claim("POOL-12", on=("alloc",)))
    with pytest.raises(ValueError, match="this was"):
        keeps(step, claim("POOL-12", on=("evict",)))
