"""Prefetches of components: what judge and reference calculate is proven, and slips in it are found."""

from __future__ import annotations

import pytest

from tests.proofs.components import fetch_lemmas as lemmas
from tests.proofs.support.reader import Ask, confirmed, found_and_real
from tests.support.night import by_turns

PLANTED = tuple(name for name in vars(lemmas) if name.startswith("planted_"))
LEMMAS = (
    "what_is_needed_covers_the_window",
    "one_hole_and_a_boundary_is_not_valid",
    "a_window_is_read_whole_or_not",
    "a_run_is_read_from_its_anchor",
    "only_the_kv_is_cut_short",
    "one_pool_grants_the_sum",
    "what_is_read_all_can_restore",
    "a_window_with_a_hole_restores_what_is_around_it",
    "min_says_no_less_than_all_can_restore",
    "a_commit_ends_before_what_is_missing",
    "a_commit_attaches_all_or_nothing",
)


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(LEMMAS))
def test_the_lemma_is_confirmed_over_all_paths(crosshair: Ask, name: str) -> None:
    confirmed(crosshair(f"components.fetch_lemmas.{name}"))


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(PLANTED))
def test_the_planted_slip_is_found_and_real(crosshair: Ask, name: str) -> None:
    found_and_real(crosshair(f"components.fetch_lemmas.{name}"), getattr(lemmas, name))


def test_each_lemma_has_its_slip() -> None:
    assert len(PLANTED) == len(LEMMAS)
