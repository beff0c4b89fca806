"""A cache takes the tokens that its profile declares, to the last one."""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.adapters.optimized.target import target as optimized
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.spec.words.units import Key

TARGETS = {"specimen": specimen, "reference": reference, "optimized": optimized}


@pytest.mark.parametrize("bigram", [False, True])
@pytest.mark.parametrize("name", TARGETS)
def test_the_first_and_the_last_token_of_the_vocabulary_are_cached(name: str, bigram: bool) -> None:
    target: Any = TARGETS[name]
    cache = target.make(Config(page_size=4, pages=16, bigram=bigram))
    keys = [Key(None, (token,) * (4 + bigram), bigram) for token in (0, target.profile.vocabulary - 1)]

    for key in keys:
        cache.insert(key, list(cache.alloc(4)))

    found = [cache.match(key) for key in keys]
    assert [hit.length for hit in found] == [4, 4]
    assert set(found[0].slots).isdisjoint(found[1].slots)


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_caller_does_to_its_slots_after_an_insert_reaches_nobody(name: str) -> None:
    cache = TARGETS[name].make(Config(page_size=4, pages=16))
    key, own = Key(None, tuple(range(8))), list(cache.alloc(8))
    passed = list(own)

    cache.insert(key, passed)
    passed[:] = [0] * 8

    assert list(cache.match(key).slots) == own
