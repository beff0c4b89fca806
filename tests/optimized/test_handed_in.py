"""Mutants of how handles and inputs are looked at: each must be found by a test that is about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("numba")

import numpy as np

from kvlitmus.mutants.mutant import recipe_of
from kvlitmus.optimized.arrays import CACHED
from kvlitmus.optimized.branch import ALWAYS
from kvlitmus.optimized.cache import FlatCache
from kvlitmus.optimized.pool import PagePool
from tests.optimized import test_inputs as inputs
from tests.optimized import test_request as requests
from tests.optimized import test_stale_handles as handles
from tests.optimized.support.mutants import PACKAGE
from tests.support.mutants import Change, Look, Patched, assert_killed, fails
from tests.support.night import by_turns


def mutant(id: str, place: str, change: Change, found_by: Callable[[], None]) -> tuple[Patched, Look]:
    """What is wrong in a place of the optimized cache, and the test that must fail."""
    look = fails("its test", found_by, IndexError, pytest.fail.Exception)
    patches = {f"{PACKAGE}.{place}": change}
    return Patched(id=id, recipe=recipe_of(id, change), kills=("its test",), patches=patches), look


def any_time(original: Any) -> Any:
    """A place means whatever is there now."""
    return lambda self, place: original(self, place._replace(tick=ALWAYS))


def anybodys(original: Any) -> Any:
    """A place of any tree will do."""
    return lambda self, place: place[:2]


def locked_unseen(original: Any) -> Any:
    """Only residency is asked about when something is locked."""
    return lambda self, place: original(self, place._replace(tick=ALWAYS))


def any_receipt(original: Any) -> Any:
    """A receipt of any tree will do."""

    def unlock(self: FlatCache, receipt: Any) -> None:
        receipt.tree = self.tree
        original(self, receipt)

    return unlock


def adopted_unseen(original: Any) -> Any:
    """Whatever is inserted becomes the tree's."""

    def adopt(self: PagePool, pages: Any) -> None:
        self.state[np.asarray(pages)] = CACHED

    return adopt


def first_ones(original: Any) -> Any:
    """Of the pages that are inserted only the first is looked at."""

    def adopt(self: PagePool, pages: Any) -> None:
        original(self, pages[:1])
        self.state[np.asarray(pages[1:])] = CACHED

    return adopt


def callers_too(original: Any) -> Any:
    """A caller may free what the tree has."""

    def give_back(self: PagePool, pages: Any) -> None:
        self.state[np.asarray(pages)] = 1
        original(self, pages)

    return give_back


def reset_whoever_runs(original: Any) -> Any:
    """A reset asks for no running requests."""
    return lambda self, abort: None


def cut_to_integers(original: Any) -> Any:
    """A part of a page is cut down to a whole one."""
    return lambda what, given: np.asarray(given, np.int64)


def any_setting(original: Any) -> Any:
    """Settings are not looked at."""
    return lambda self: None


def all_is_computed(original: Any) -> Any:
    """What a request has is taken to be computed."""
    return staticmethod(lambda request, upto: request.length)


MUTANTS = (
    mutant(
        "any time",
        "paths:Paths.check",
        any_time,
        lambda: handles.test_a_place_is_not_another_prompts(handles.flat, False),
    ),
    mutant(
        "same tokens",
        "paths:Paths.check",
        any_time,
        lambda: handles.test_a_place_of_the_same_tokens_cached_again_is_stale_too(handles.tiered),
    ),
    mutant("any cache", "paths:Paths.check", anybodys, handles.test_places_and_receipts_are_of_one_cache),
    mutant(
        "locked unseen",
        "tree:Tree.lock",
        locked_unseen,
        lambda: handles.test_a_place_is_not_another_prompts(handles.flat, True),
    ),
    mutant(
        "any receipt",
        "cache:FlatCache.unlock",
        any_receipt,
        lambda: handles.test_places_and_receipts_end_with_a_reset(handles.flat),
    ),
    mutant(
        "reset under requests",
        "cache:FlatCache.may_reset",
        reset_whoever_runs,
        lambda: handles.test_a_reset_does_not_take_the_slots_of_running_requests(handles.flat),
    ),
    mutant(
        "free pages",
        "pool:PagePool.adopt",
        adopted_unseen,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("free", False),
    ),
    mutant(
        "cached pages",
        "pool:PagePool.adopt",
        first_ones,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("the tree's own", False),
    ),
    mutant(
        "repeated pages",
        "pool:PagePool.adopt",
        adopted_unseen,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("named twice", True),
    ),
    mutant(
        "freed by the caller",
        "pool:PagePool.give_back",
        callers_too,
        inputs.test_a_caller_can_not_free_what_the_tree_has,
    ),
    mutant(
        "cut to integers",
        "cache:integers",
        cut_to_integers,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("parts", False),
    ),
    mutant(
        "any setting",
        "cache:CacheConfig.__post_init__",
        any_setting,
        lambda: inputs.test_a_setting_that_can_not_be_is_refused_by_name("no page size"),
    ),
    mutant(
        "all is computed",
        "request:RequestTable.computed",
        all_is_computed,
        requests.test_what_is_not_computed_is_not_published,
    ),
)


@pytest.mark.parametrize(("one", "look"), by_turns(MUTANTS), ids=[one.id for one, _ in MUTANTS])
@pytest.mark.usefixtures("python_core")
def test_a_mutant_is_found(one: Patched, look: Look) -> None:
    assert not look(one)
    assert_killed(one, look)
