"""Components of the compiled core where calls are refused, find no memory, or are interrupted: nothing has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("kvlitmus.optimized._core", reason="no core")

from kvlitmus.optimized.components import ComponentConfig, Kind, component_tree
from tests.optimized.support.type_faults import Faults, plain, refused

PAGE, PLACES, ON_HOST = 4, (9, 5), (5, 3)
KINDS = (Kind("run", 0, PAGE, PAGE), Kind("window", 1, PAGE, PAGE, 6))
Tree = Any
Call = Callable[[Tree], object]
KEY, OTHER, MORE, LATE = np.arange(12), np.r_[0:8, 50:58], np.r_[0:8, 70:74], np.r_[0:4, 90:98]


def world(events: bool = True) -> Tree:
    """Two paths, one of them locked, places of the caller, and two prefetches: one whose I/O runs, one that is over."""
    tree: Tree = component_tree(
        ComponentConfig(components=KINDS, places=PLACES, host=ON_HOST, page_size=PAGE, events=events)
    )
    own = tree.alloc([3, 2])
    tree.insert("a", KEY, [[4, 8, 12], [8, 12]], own)
    tree.lock("a", KEY)
    for name, start, number in (("a", 8, 0), ("b", 0, 1)):
        tree.prefetch(name, MORE[: start + 4], start, 1)
        tree.prefetch_found(number, [[start + 4], []])
    tree.prefetch_abort(1)
    tree.alloc([1, 1])
    return tree


def exactly(tree: Tree) -> object:
    """All that there is, and in which order it is handed out."""
    entries = [sorted(plain(some), key=str) for some in (tree.entries(), tree.host_entries())]
    free = [plain(places(pool)) for places in (tree.free_places, tree.free_host_places) for pool in (0, 1)]
    return entries, free, plain(tree.sizes()), held(tree)


def held(tree: Tree) -> object:
    """The places of both prefetches; ``None`` of one that there isn't."""
    found = []
    for number in range(4):
        try:
            found.append(plain(tree.reserved(number)))
        except ValueError:
            found.append(None)
    return found


REFUSED: dict[str, tuple[Call, str]] = {
    "a place of nobody": (lambda tree: tree.free([[8], []]), "not the caller's"),
    "a place twice": (lambda tree: tree.free([[5], [2, 2]]), "not the caller's"),
    "a place that is read into": (lambda tree: tree.free([[3], []]), "not the caller's"),
    "a place that is cached": (lambda tree: tree.insert("a", OTHER, [[12], [12]], [[5], [0]]), "not the caller's"),
    "no such place": (lambda tree: tree.free([[-1], []]), "not the caller's"),
    "an end within a page": (lambda tree: tree.insert("a", OTHER, [[10], []], [[5], []]), "multiples of their unit"),
    "an end behind the key": (lambda tree: tree.insert("a", OTHER, [[20], []], [[5], []]), "within a key"),
    "an end without a place": (lambda tree: tree.insert("a", OTHER, [[12], [12]], [[5], []]), "each with a place"),
    "a token of 33 bits": (lambda tree: tree.insert("a", OTHER + (1 << 32), [[12], []], [[5], []]), "32 bits"),
    "fewer than none": (lambda tree: tree.alloc([-1, 0]), "none negative"),
    "too few numbers": (lambda tree: tree.evict([1]), "of each component"),
    "a lock of what is not cached": (lambda tree: tree.lock("a", OTHER), "not all cached"),
    "a receipt that is not out": (lambda tree: tree.unlock(7), "not out"),
    "a prefetch from nowhere": (lambda tree: tree.prefetch("a", OTHER, 16, 1), "boundary that is cached"),
    "a prefetch that is over": (lambda tree: tree.prefetch_abort(1), "is over, or never began"),
    "storage twice": (lambda tree: tree.prefetch_found(0, [[], []]), "already"),
    "a backup of what is not cached": (lambda tree: tree.back_up("a", OTHER), "not all cached"),
    "a copy that has not begun": (lambda tree: tree.copied(0, True), "not under way"),
    "a pool that there isn't": (lambda tree: tree.free_places(2), "pools 0 to 1"),
    "a token of another kind": (lambda tree: tree.match("a", [1.5]), "sequence of integers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_never_be_is_refused_and_nothing_changes(name: str) -> None:
    call, why = REFUSED[name]
    tree = world()
    before = exactly(tree)
    with pytest.raises(ValueError, match=why):
        call(tree)
    assert exactly(tree) == before


def test_a_namespace_is_a_string_or_none() -> None:
    with pytest.raises(TypeError, match="a string or None"):
        world().match(7, KEY)


def test_a_cache_without_host_memory_has_none() -> None:
    tree: Tree = component_tree(ComponentConfig(components=KINDS, places=PLACES, page_size=PAGE))
    calls: tuple[Call, ...] = (
        lambda tree: tree.back_up("a", KEY),
        lambda tree: tree.load("a", KEY, 0),
        lambda tree: tree.evict_host([1, 1]),
        lambda tree: tree.available_host(),
        lambda tree: tree.free_host_places(0),
        lambda tree: tree.host_entries(),
    )
    for call in calls:
        with pytest.raises(ValueError, match="has no host"):
            call(tree)


def test_what_no_cache_has_is_refused() -> None:
    for wrong in ({"shape": "ring"}, {"unit": 0}, {"pool": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Kind(**{"shape": "run", "pool": 0, "unit": 4, "align": 4, **wrong})  # type: ignore[arg-type]
    for kinds, places in (
        ((Kind("window", 0, 4, 4),), (4,)),
        ((Kind("run", 1, 4, 4),), (4,)),
        ((Kind("run", 0, 6, 6),), (4,)),
        ((Kind("run", 0, 8, 8),), (4,)),
        ((Kind("run", 0, 4, 4), Kind("run", 0, 4, 4)), (4,)),
        ((Kind("run", 0, 4, 4), Kind("point", 0, 8, 4)), (4,)),
        ((), (4,)),
    ):
        with pytest.raises(ValueError, match="no cache of such components"):
            component_tree(ComponentConfig(components=kinds, places=places, page_size=4))
    with pytest.raises(ValueError, match="no cache of such components"):
        component_tree(ComponentConfig(components=KINDS, places=PLACES, host=(4,), page_size=4))


def assert_all_comes_back(tree: Tree) -> None:
    """After a reset everything is free, and serves."""
    tree.reset()
    free = [sorted(places(pool)) for places in (tree.free_places, tree.free_host_places) for pool in (0, 1)]
    assert free == [list(range(many)) for many in (*PLACES, *ON_HOST)]
    assert not tree.entries() and not tree.host_entries() and held(tree) == [None] * 4
    own = tree.alloc([3, 2])
    tree.insert("a", KEY, [[4, 8, 12], [8, 12]], own)
    assert tree.match("a", KEY)[0] == 12 and [len(one) for one in tree.match("a", OTHER)[1]] == [0, 0]


def test_namespaces_share_nothing_however_often_all_was_forgotten() -> None:
    tree = world()
    tree.reset()
    tree.reset()
    keys = {name: np.arange(PAGE) + 10 * number for number, name in enumerate("abcde")}
    for name, key in keys.items():
        tree.insert(name, key, [[PAGE], [PAGE]], tree.alloc([1, 1]))
    found = {(name, other) for name in keys for other in keys if tree.match(name, keys[other])[0]}
    assert found == {(name, name) for name in keys}


FAULTS = Faults(world, exactly, assert_all_comes_back)

# -- what fails, and what is interrupted -----------------------------------------------------------

CALLS: dict[str, Call] = {
    "a hit": lambda tree: tree.match("a", KEY),
    "a lock": lambda tree: tree.lock("a", KEY),
    "an allocation": lambda tree: tree.alloc([1, 0]),
    "what is asked": lambda tree: (plain(tree.available()), plain(tree.sizes())),
    "an insert that branches off": lambda tree: tree.insert("a", OTHER, [[12], [8]], [[5], [2]]),
    "an insert in another namespace": lambda tree: tree.insert("c", KEY, [[4], []], [[6], []]),
    "a lock is given back": lambda tree: tree.unlock(1),
    "the first, too": lambda tree: tree.unlock(0),
    "an eviction": lambda tree: tree.evict([1, 1]),
    "a prefetch": lambda tree: tree.prefetch("a", np.r_[KEY[:4], 90:98], 4, 1),
    "storage has it": lambda tree: tree.prefetch_found(2, [[8, 12], [8, 12]]),
    "it ends": lambda tree: tree.prefetch_settled(2),
    "it is cached": lambda tree: tree.prefetch_commit(2, [[8, 12], [8, 12]]),
    "a part of another is": lambda tree: tree.prefetch_commit(0, [[], []]),
    "its I/O ends": lambda tree: tree.prefetch_settled(0),
    "a backup": lambda tree: tree.back_up("a", LATE),
    "it lands": lambda tree: tree.copied(0, True),
    "what it was for goes": lambda tree: tree.evict([4, 4]),
    "a load": lambda tree: tree.load("a", LATE, 0),
    "it fails": lambda tree: tree.copied(1, False),
    "another": lambda tree: tree.load("a", LATE, 0),
    "it lands there": lambda tree: tree.copied(2, True),
    "places": lambda tree: tree.alloc([2, 2]),
    "more is cached": lambda tree: tree.insert("d", KEY, [[4, 8], [4, 8]], [[6, 1], [0, 4]]),
    "a backup that makes room": lambda tree: tree.back_up("d", KEY[:8]),
    "an eviction from the host": lambda tree: tree.evict_host([1, 1]),
    "the backup lands": lambda tree: tree.copied(3, True),
    "a free": lambda tree: tree.free([[], [2]]),
    "events": lambda tree: tree.events(),
    "a reset": lambda tree: tree.reset(),
    "more events": lambda tree: tree.events(),
}
"""One after the other in the world as it is."""


@pytest.mark.parametrize("events", [False, True])
def test_whenever_memory_is_short_nothing_has_changed(events: bool) -> None:
    tree, other = world(events), world(events)
    failed: Counter[str] = Counter()
    for name, call in CALLS.items():
        failed[name], answer = FAULTS.failing(tree, call, most=300)
        assert answer == plain(call(other)) and exactly(tree) == exactly(other), name
    unfailing = {name for name in CALLS if not failed[name]}
    assert unfailing <= {"a lock is given back", "the first, too", "a reset", "a free", "more events", "events"}
    assert min(failed["an insert that branches off"], failed["an insert in another namespace"]) >= 4
    assert_all_comes_back(tree)


def test_a_tree_for_which_there_is_no_memory_is_not_made() -> None:
    assert refused(world) > 20


def test_an_interrupted_call_was_made_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list(CALLS.values())
    assert len(FAULTS.sweep(monkeypatch, calls)) >= len(CALLS) - 7, "reads change nothing"


def test_a_call_of_two_steps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    two: Call = lambda tree: (tree.unlock(0), tree.evict([9, 9]))  # noqa: E731
    with pytest.raises(AssertionError, match="half a call"):
        FAULTS.sweep(monkeypatch, [two])
