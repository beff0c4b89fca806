"""Slips in how handles and inputs are looked at: each must be found by a test that is about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized import cache as caches
from kvlitmus.optimized.branch import ALWAYS
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.kernels import CACHED
from kvlitmus.optimized.paths import Paths
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.request import RequestTable
from kvlitmus.optimized.tree import Tree
from tests.optimized import test_inputs as inputs
from tests.optimized import test_request as requests
from tests.optimized import test_stale_handles as handles


class Slip(NamedTuple):
    """What is replaced, by what, and the test that must fail."""

    owner: Any
    name: str
    make: Callable[[Any], Any]
    found_by: Callable[[], None]


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


SLIPS: dict[str, Slip] = {
    "any time": Slip(
        Paths, "check", any_time, lambda: handles.test_a_place_is_not_another_prompts(handles.flat, False)
    ),
    "same tokens": Slip(
        Paths,
        "check",
        any_time,
        lambda: handles.test_a_place_of_the_same_tokens_cached_again_is_stale_too(handles.tiered),
    ),
    "any cache": Slip(Paths, "check", anybodys, handles.test_places_and_receipts_are_of_one_cache),
    "locked unseen": Slip(
        Tree, "lock", locked_unseen, lambda: handles.test_a_place_is_not_another_prompts(handles.flat, True)
    ),
    "any receipt": Slip(
        FlatCache, "unlock", any_receipt, lambda: handles.test_places_and_receipts_end_with_a_reset(handles.flat)
    ),
    "reset under requests": Slip(
        FlatCache,
        "may_reset",
        lambda original: lambda self, abort: None,
        lambda: handles.test_a_reset_does_not_take_the_slots_of_running_requests(handles.flat),
    ),
    "free pages": Slip(
        PagePool,
        "adopt",
        adopted_unseen,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("free", False),
    ),
    "cached pages": Slip(
        PagePool,
        "adopt",
        first_ones,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("the tree's own", False),
    ),
    "repeated pages": Slip(
        PagePool,
        "adopt",
        adopted_unseen,
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("named twice", True),
    ),
    "freed by the caller": Slip(
        PagePool, "give_back", callers_too, inputs.test_a_caller_can_not_free_what_the_tree_has
    ),
    "cut to integers": Slip(
        caches,
        "integers",
        lambda original: lambda what, given: np.asarray(given, np.int64),
        lambda: inputs.test_pages_that_can_not_be_cached_are_refused_and_change_nothing("parts", False),
    ),
    "any setting": Slip(
        CacheConfig,
        "__post_init__",
        lambda original: lambda self: None,
        lambda: inputs.test_a_setting_that_can_not_be_is_refused_by_name("no page size"),
    ),
    "all is computed": Slip(
        RequestTable,
        "computed",
        lambda original: staticmethod(lambda request, upto: request.length),
        requests.test_what_is_not_computed_is_not_published,
    ),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slip = SLIPS[name]
    slip.found_by()
    monkeypatch.setattr(slip.owner, slip.name, slip.make(getattr(slip.owner, slip.name)))
    with pytest.raises((AssertionError, pytest.fail.Exception, IndexError)):
        slip.found_by()
