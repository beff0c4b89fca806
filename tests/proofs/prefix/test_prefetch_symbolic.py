"""CrossHair reads the lemmas: each must be *confirmed over all paths*, each planted slip found.

"Not confirmed" fails, so a proof can't silently become a search.  The bound that is left is the
choice of page sizes in one lemma (see ``prefetch_lemmas.py``).  A counterexample is run again in plain Python before it
counts.
"""

from __future__ import annotations

import pytest

from kvlitmus.spec.parts import all_rules
from tests.proofs.prefix import prefetch_lemmas
from tests.proofs.support.reader import Ask, confirmed, found_and_real
from tests.support.night import by_turns

LEMMAS = (
    "every_plan_keeps_every_rule",
    "the_plan_follows_the_table",
    "truncation_gives_up_no_page",
    "truncation_stays_within_its_bounds",
    "an_eviction_covers_the_deficit_and_less_than_a_page_more",
)
PLANTED = tuple(name for name in vars(prefetch_lemmas) if name.startswith("planted_"))


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(LEMMAS))
def test_the_lemma_is_confirmed_over_all_paths(crosshair: Ask, name: str) -> None:
    confirmed(crosshair(f"prefix.prefetch_lemmas.{name}"))


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(PLANTED))
def test_the_planted_slip_is_found_and_real(crosshair: Ask, name: str) -> None:
    found_and_real(crosshair(f"prefix.prefetch_lemmas.{name}"), getattr(prefetch_lemmas, name))


def test_every_lemma_is_read() -> None:
    module = prefetch_lemmas.__name__
    own = [name for name, value in vars(prefetch_lemmas).items() if getattr(value, "__module__", "") == module]
    helpers = {"Answers", "chosen", "broken_rules"}
    assert {name for name in own if not name.startswith("_")} - helpers == {*LEMMAS, *PLANTED}


def test_all_rules_but_the_one_about_slots_are_proven() -> None:
    rules = [id for id, one in all_rules().items() if one.pack == "prefetch"]
    assert [rule.id for rule in prefetch_lemmas.PROVEN] == [id for id in rules if id != "PREFETCH-17"]
