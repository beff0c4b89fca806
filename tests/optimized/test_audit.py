"""The audit of the optimized tree sees every kind of mistake, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("numba")

from kvlitmus.optimized.audit import audit, complaints
from kvlitmus.optimized.branch import Branch, Place
from kvlitmus.optimized.kernels import HEAP, WHERE
from kvlitmus.optimized.tree import Tree
from tests.optimized.support.trees import array, back_up, put, tree_of


def _shift(level: str) -> Callable[[Tree, Branch], None]:
    def wrong(tree: Tree, branch: Branch) -> None:
        getattr(branch, level)[0] += 1

    return wrong


def _set(**fields: Any) -> Callable[[Tree, Branch], None]:
    def wrong(tree: Tree, branch: Branch) -> None:
        for name, value in fields.items():
            setattr(branch, name, value)

    return wrong


WRONG: dict[str, Callable[[Tree, Branch], Any]] = {
    "sizes": lambda tree, branch: setattr(tree, "evictable", tree.evictable + 1),
    "a lost lock": _set(locks=None),
    "an unsorted lock": lambda tree, branch: (branch.locks or []).insert(0, 9),
    "a child's lock": lambda tree, branch: (branch.locks or []).insert(0, 2),
    "too many locked": _set(locks=[99]),
    "a forgotten child": lambda tree, branch: (branch.children or {}).popitem(),
    "a forgotten branch": lambda tree, branch: tree.by_uid.pop(branch.uid),
    "resident children": _set(resident_at=None),
    "children": _set(all_at={1: 7}),
    "touched": _shift("touched"),
    "created": _shift("created"),
    "a node behind the end": lambda tree, branch: branch.nodes.add(99),  # type: ignore[union-attr]
    "counts": lambda tree, branch: branch.nodes.counts.append(1),  # type: ignore[union-attr]
    "a lost boundary": _set(nodes=3),
    "digests": _set(digests=bytearray(32 * 99)),
    "residency": _set(dev=99),
    "a base": _set(base=3),
    "no offer": lambda tree, branch: _each(tree, tree.victims.drop),
    "no host offer": lambda tree, branch: _each(tree, tree.host_victims.drop),
    "an empty heap": lambda tree, branch: setattr(tree.victims, "size", 0),
    "too high an offer": lambda tree, branch: _outbid(tree),
    "a heap out of order": lambda tree, branch: _swap(tree),
    "a lost place": lambda tree, branch: tree.victims.places[WHERE].fill(0),
    "a number in use that is free": lambda tree, branch: tree.free_uids.append(branch.uid),
    "two homes": lambda tree, branch: _double(branch.dev_pages),
    "two homes on the host": lambda tree, branch: _double(branch.host_pages),
    "nowhere": lambda tree, branch: _each(tree, _nowhere),
    "a foreign page": lambda tree, branch: branch.dev_pages.__setitem__(0, 0),
    "a wrong pool": lambda tree, branch: setattr(tree.pool, "free_count", 3),
    "tokens": lambda tree, branch: branch.units.__setitem__(0, 77),
    "pages in a root": lambda tree, branch: setattr(tree.root(None), "n", 1),
}


def _each(tree: Tree, call: Callable[[Branch], None]) -> None:
    for branch in tree.branches():
        call(branch)


def _double(pages: Any) -> None:
    pages[0] = pages[1]


def _outbid(tree: Tree) -> None:
    tree.victims.keys[:, 0] += 99


def _swap(tree: Tree) -> None:
    entries, where = tree.victims.places[HEAP], tree.victims.places[WHERE]
    entries[:2] = entries[1::-1].copy()
    where[entries[:2]] = (0, 1)


def _nowhere(branch: Branch) -> None:
    if branch.host_pages is not None:
        branch.host_pages[:] = -1


def _varied() -> tuple[Tree, Branch]:
    """A tree with a bit of everything, and its largest branch."""
    tree = tree_of(50, host=50)
    branch = put(tree, [1, 1, 2, 2, 3, 3, 4, 4]).place.branch
    put(tree, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6])
    tree.match(None, array(1, 1, 2, 2))
    for tail in (7, 8):
        tree.lock(put(tree, [1, 1, 2, 2, tail, tail]).place)
    put(tree, [9, 9, 9, 9])
    for place in (Place(branch, branch.n), put(tree, [8, 8, 8, 8]).place):
        back_up(tree, place)
    tree.victims.drop(branch)
    tree.victims.offer(branch)
    assert tree.evict(3) == 3
    return tree, branch


def test_the_audit_finds_nothing_wrong_with_a_tree_that_is_well() -> None:
    tree, branch = _varied()
    assert branch.dev < branch.n and branch.locks and branch.children
    assert complaints(tree) == []


@pytest.mark.parametrize("wrong", WRONG)
def test_the_audit_sees(wrong: str) -> None:
    tree, branch = _varied()
    WRONG[wrong](tree, branch)
    assert complaints(tree)
    with pytest.raises(AssertionError):
        audit(tree)
