"""The optimized tree by itself: what it is made of, what it costs, and what it refuses."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized import paths
from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.branch import Branch, Place, Run
from kvlitmus.optimized.inputs import StaleHandle
from kvlitmus.optimized.kernels import common
from kvlitmus.optimized.view import nodes_of
from tests.optimized.support.trees import array, back_up, put, tree_of

# -- what it is made of, and what that costs -----------------------------------------------------------------


def test_a_conversation_is_one_branch_of_many_nodes() -> None:
    tree, tokens = tree_of(1200), np.arange(1000, dtype=np.int32)
    for turn in range(1, 501):
        put(tree, tokens[: 2 * turn])
    assert len(tree.by_uid) == 1
    assert len(nodes_of(tree)) == 500
    audit(tree)


def test_a_match_compares_once_per_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, tokens = tree_of(1200), np.arange(1000, dtype=np.int32)
    for turn in range(1, 501):
        put(tree, tokens[: 2 * turn])
    other = np.concatenate((tokens[:600], tokens[:200]))
    put(tree, other)
    calls: list[int] = []

    def counted(*given: Any) -> int:
        calls.append(1)
        return int(common(*given))

    monkeypatch.setattr(paths, "common", counted)
    assert tree.match(None, tokens).known == 500
    assert len(calls) == 1
    assert tree.match(None, other).known == 400
    assert len(calls) == 3
    place = tree.match(None, tokens[:998]).place
    tree.lock(place)
    del calls[:]
    assert tree.resume(place, tokens[998:]).known == 500
    assert len(calls) == 1


@pytest.mark.parametrize("policy", ["lru", "mru", "lfu", "fifo", "filo", "priority", "slru"])
def test_an_eviction_looks_at_what_it_evicts(policy: str) -> None:
    looked: dict[int, int] = {}
    for leaves in (50, 3000):
        tree = tree_of(leaves + 10, policy=policy)
        for leaf in range(leaves):
            put(tree, [1, 1, leaf + 2, leaf + 2])
        worth, calls = tree.victims.worth, [0]

        def counted(branch: Branch, position: int, worth: Any = worth, calls: Any = calls) -> Any:
            calls[0] += 1
            return worth(branch, position)

        tree.victims.worth = counted
        assert tree.evict(20) == 20
        looked[leaves] = calls[0]
        audit(tree)
    assert looked[3000] == looked[50] <= 3 * 20


def test_an_eviction_does_not_pay_for_uses() -> None:
    """However many pages were used since they were cached, and however many were locked and unlocked."""
    tree, looked = tree_of(500, 1), [0]
    keys = [array(leaf) for leaf in range(400)]
    for key in keys:
        put(tree, key)
    for key in keys[:0:-1]:
        found = tree.match(None, key)
        tree.lock(found.place)
        tree.unlock(found.place)
    worth = tree.victims.worth

    def counted(branch: Branch, position: int) -> tuple[int, int]:
        looked[0] += 1
        return worth(branch, position)

    tree.victims.worth = counted
    assert tree.evict(100) == 100
    assert looked[0] <= 100
    assert [tree.find(None, key).known for key in keys] == [0, *[1] * 300, *[0] * 99]


def test_the_heap_has_each_branch_once() -> None:
    for policy in ("lru", "mru", "filo"):
        tree = tree_of(100, policy=policy, host=20)
        keys = [np.array([1, 1, leaf, leaf], np.int32) for leaf in range(2, 12)]
        for _ in range(300):
            for key in keys:
                put(tree, key)
                found = tree.match(None, key)
                tree.lock(found.place)
                tree.unlock(found.place)
        assert tree.victims.size <= len(tree.by_uid) == 10
        audit(tree)


def test_numbers_of_branches_are_used_again() -> None:
    tree = tree_of(100)
    for turn in range(20):
        for leaf in range(20):
            put(tree, [turn, leaf])
        assert tree.evict(20) == 20
        assert not tree.by_uid
    assert len(tree.free_uids) == 20
    audit(tree)


def test_locks_go_up_to_the_first_branch_that_is_locked() -> None:
    tree = tree_of(50)
    put(tree, [1, 1, 2, 2, 3, 3])
    places = [put(tree, [1, 1, 2, 2, leaf, leaf]).place for leaf in (4, 5, 6)]
    for place in places:
        tree.lock(place)
    above: Any = places[0].branch.parent
    assert above.locks == [4, 4, 4]
    assert (tree.protected, tree.evictable) == (5, 1)
    tree.lock(places[0])
    assert above.locks == [4, 4, 4]
    for place in (*places, places[0]):
        tree.unlock(place)
    assert above.locks is None
    assert (tree.protected, tree.evictable) == (0, 6)


def test_bookkeeping_is_at_most_64_bytes_a_page() -> None:
    """Beyond 256 bytes of tokens and a page number, for prompts of 16 pages of 64 tokens and more."""
    for pages, turns, most in ((16, 1, 64), (32, 1, 40), (32, 4, 50)):
        tree = tree_of(401 * pages, 64)
        units = np.arange(64 * pages, dtype=np.int32)
        put(tree, units)
        put(tree, units)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for prompt in range(1, 400):
            for turn in range(1, turns + 1):
                put(tree, (units + 7 * prompt)[: 64 * pages * turn // turns])
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert used / (399 * pages) - 256 - 4 <= most


def test_memory_is_given_up_by_eviction() -> None:
    tree, tokens = tree_of(2100), np.arange(4000)
    tree.lock(put(tree, tokens[:40]).place)
    put(tree, tokens)
    tree.evict(3000)
    tracemalloc.start()
    put(tree, tokens)
    full = tracemalloc.get_traced_memory()[0]
    assert tree.evict(3000) == 1980
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert full > 4 * (4000 + 2000) and left < 2000
    audit(tree)


# -- looking -----------------------------------------------------------------------------------------------


def test_places_and_paths() -> None:
    tree = tree_of(50)
    long = put(tree, [1, 1, 2, 2, 3, 3]).place
    fork = put(tree, [1, 1, 2, 2, 4, 4, 5, 5]).place
    assert [tree.depth(place) for place in (long, fork)] == [3, 4]
    assert tree.path_units(fork).tolist() == [1, 1, 2, 2, 4, 4, 5, 5]
    assert tree.path_units(fork, 1).tolist() == [2, 2, 4, 4, 5, 5]
    assert [(run.lo, run.hi) for run in tree.runs(fork, 1)] == [(1, 2), (0, 2)]
    assert [(run.lo, run.hi) for run in tree.nodes(long)] == [(0, 2), (2, 3)]
    assert tree.ascend(fork, 2)[:2] == (long.branch, 2)
    assert tree.ascend(fork, 3)[:2] == (fork.branch, 1)
    assert tree.ascend(fork, 0)[:2] == (tree.root(None), 0)
    assert tree.path_pages(fork, 2).tolist() == fork.branch.dev_pages[:2].tolist()
    assert tree.path_pages(tree.ascend(fork, 0)).tolist() == []
    tree.lock(tree.ascend(fork, 3))
    assert tree.locked_pages(fork) == 3 and tree.locked_pages(long) == 2
    view = [(node.parent, node.units.tolist(), node.locks) for node in nodes_of(tree)]
    assert view == [(-1, [1, 1, 2, 2], 1), (0, [3, 3], 0), (0, [4, 4, 5, 5], 1)]


def test_tokens_of_another_type_are_found_or_refused_but_never_cut_down() -> None:
    tree = tree_of(50)
    put(tree, [1, 2, 3, 4])
    for same in (np.array([1, 2, 3, 4]), np.array([1, 9, 2, 9, 3, 9, 4, 9], np.int32)[::2]):
        assert tree.match(None, same).known == 2
    with pytest.raises(ValueError, match="units must fit int32"):
        tree.match(None, np.array([1, 2 + 2**32, 3, 4]))
    assert tree.clock == 3


def test_namespaces_share_nothing() -> None:
    tree = tree_of(50)
    put(tree, [1, 1])
    assert tree.match("lora", array(1, 1)).known == 0
    assert tree.match(None, array(1, 1)).known == 1


def test_namespaces_come_and_go() -> None:
    tree = tree_of(50, host=50)
    gone = tree.match("salt", array(1, 1)).place
    assert not tree.roots
    put(tree, [1, 1])
    old = tree.ascend(tree.match(None, array(1, 1)).place, 0)
    assert list(tree.roots) == [None]
    assert tree.evict(1) == 1
    assert not tree.roots
    fresh = tree.pool.take(1)
    assert fresh is not None
    assert tree.insert_behind(old, array(1, 1), fresh).place.branch.parent is tree.root(None)
    assert tree.insert_host(gone, array(2, 2), array(7)) == (0, 1)
    assert tree.insert_host(gone, array(2, 2), array(8)) == (1, 0)
    assert set(tree.roots) == {None, "salt"}
    assert tree.match("salt", array(2, 2)).known == 1


# -- what it refuses ---------------------------------------------------------------------------------------


def test_what_is_gone_is_refused() -> None:
    tree = tree_of(50)
    place = put(tree, [1, 1, 2, 2]).place
    assert tree.evict(1) == 1
    for call in (lambda: tree.resume(place, array(3, 3)), lambda: tree.lock(place)):
        with pytest.raises(ValueError, match="this place is"):
            call()
    with pytest.raises(ValueError, match="only 1 pages are resident"):
        tree.path_pages(place)
    assert tree.evict(1) == 1
    with pytest.raises(ValueError, match="this place is gone"):
        tree.insert_behind(Place(place.branch, 1), array(3, 3), array(9))
    audit(tree)


def test_a_place_that_was_not_kept_is_refused_though_its_branch_has_grown_again() -> None:
    tree = tree_of(50)
    place = put(tree, [1, 1, 2, 2]).place
    assert tree.evict(1) == 1
    assert put(tree, [1, 1, 9, 9, 8, 8]).place.branch is place.branch
    kept = tree.match(None, array(1, 1, 9, 9)).place
    with pytest.raises(ValueError, match="the prefix of 2 pages is not locked"):
        tree.resume(kept, array(8, 8))
    tree.lock(kept)
    for call in (
        lambda: tree.resume(place, array(8, 8)),
        lambda: tree.insert_behind(place, array(7, 7), array(20)),
        lambda: tree.lock(place),
        lambda: tree.unlock(place),
    ):
        with pytest.raises(StaleHandle, match="other pages have been cached where it was"):
            call()
    assert tree.resume(kept, array(8, 8)).known == 3
    audit(tree)


def test_locks_that_nobody_has_are_not_given_back() -> None:
    tree = tree_of(50)
    place = put(tree, [1, 1, 2, 2]).place
    child = put(tree, [1, 1, 3, 3]).place
    tree.lock(child)
    for wrong in (place, Place(place.branch, 1)):
        with pytest.raises(ValueError, match="not locked"):
            tree.unlock(wrong)
    tree.unlock(child)
    with pytest.raises(ValueError, match="not locked"):
        tree.unlock(child)
    root = tree.ascend(place, 0)
    tree.lock(root)
    tree.unlock(root)
    audit(tree)


def test_an_insert_needs_units_for_its_pages() -> None:
    tree = tree_of(50)
    with pytest.raises(ValueError, match="2 pages need 4 units"):
        tree.insert(None, array(1, 1, 2), array(4, 5))
    with pytest.raises(ValueError, match="priority must be within"):
        tree.insert(None, array(1, 1), array(4), priority=2**63)
    assert (tree.clock, tree.evictable) == (0, 0)


def test_what_is_on_the_host_alone_can_not_be_locked_or_read() -> None:
    tree = tree_of(50, host=50)
    place = put(tree, [1, 1, 2, 2]).place
    back_up(tree, place)
    assert tree.evict(1) == 1
    found = tree.match(None, array(1, 1, 2, 2))
    assert (found.resident, found.known) == (1, 2)
    with pytest.raises(ValueError, match="not resident"):
        tree.lock(found.place)
    with pytest.raises(ValueError, match="pages are resident"):
        tree.path_pages(found.place)
    with pytest.raises(ValueError, match="follows the resident part"):
        tree.make_resident([Run(place.branch, 0, 2)], array(8, 9))
    with pytest.raises(ValueError, match="not all pinned"):
        tree.unpin_place(found.place)
    tree.pin_place(found.place)
    assert tree.evict_host(5) == 0
    tree.unpin_place(found.place)
    assert tree.evict_host(5) == 1
    audit(tree)


def test_nothing_is_attached_below_a_page_without_a_host_copy() -> None:
    for write_back in (False, True):
        tree = tree_of(50, host=50, write_back=write_back)
        place = put(tree, [1, 1]).place
        assert tree.host is not None
        pages = tree.host.take(1)
        assert pages is not None
        assert tree.insert_host(place, array(2, 2), pages) == (0, int(write_back))


def test_what_could_not_be_written_back_is_passed_over() -> None:
    tree = tree_of(50, host=50, write_back=True)
    stays = put(tree, [1, 1]).place
    put(tree, [2, 2])
    asked: list[Run] = []

    def spill(run: Run) -> int:
        asked.append(run)
        if run.branch is stays.branch:
            return 0
        back_up(tree, Place(run.branch, run.hi))
        return run.hi - run.lo

    tree.spill = spill
    assert tree.evict(2) == 1
    assert len(asked) == 2 and stays.branch.dev == 1
    audit(tree)
    assert tree.evict(1) == 0
    assert len(asked) == 3
