"""What is proven of locks, as functions that CrossHair reads (see ``lemmas.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlitmus.reference import tree as trees
from kvlitmus.reference.tree import Page, Tree
from kvlitmus.spec.units import Name, PageNo, Tick
from tests.proofs.lemmas import LEMMAS, keeps, lemma, plain

__all__ = ["LEMMAS"]

# Tree: up to three pages, in every shape; ticks, hits, priorities and locks are any integers


class Numbers(NamedTuple):
    """What a page carries."""

    touched: int
    hits: int
    locks: int


def small_tree(second: int, third: int, numbers: Sequence[Numbers]) -> Tree:
    """Page 1 below the root 0, page 2 below ``second`` (0 or 1), page 3 below ``third`` (0, 1 or 2)."""
    pages = {}
    second, third = plain(second, 1), plain(third, 2)
    for at, (parent, one) in enumerate(zip((0, second, third), numbers, strict=True), 1):
        pages[Name(at)] = Page(
            Name(parent), PageNo(at), Tick(one.touched), Tick(one.touched), one.hits, 0, one.locks, True
        )
    return Tree(pages, Tick(max(one.touched for one in numbers)))


def shape(second: int, third: int) -> bool:
    """Whether these are parents of the pages 2 and 3."""
    return second in (0, 1) and third in (0, 1, 2)


def _locks(lock: Callable[[Tree, Name], Tree], tree: Tree, place: int) -> bool:
    after = lock(tree, Name(place))
    evictable_before, protected_before = trees.sizes(tree)
    evictable, protected = trees.sizes(after)
    covered = trees.path(tree, Name(place))
    cached = {name: page.page for name, page in tree.pages.items()}
    facts = {
        "lock_inversions": inversions(after),
        "cached_before": cached,
        "cached_after": {name: page.page for name, page in after.pages.items()},
        "free_before": frozenset(),
        "free_after": frozenset(),
        "node_locks": [(page.locks, tree.pages[name].locks + (name in covered)) for name, page in after.pages.items()],
        "evictable_before": evictable_before,
        "protected_before": protected_before,
        "evictable": evictable,
        "protected": protected,
        "unlocked_count": sum(1 for page in after.pages.values() if page.locks == 0),
        "locked_count": sum(1 for page in after.pages.values() if page.locks > 0),
    }
    return keeps(facts, "LOCK-02", "LOCK-03", "LOCK-04", "LOCK-05", "LOCK-07")


def inversions(tree: Tree) -> list[Name]:
    """Pages that are locked more often than their parent."""
    return [
        name
        for name, page in tree.pages.items()
        if page.parent in tree.pages and tree.pages[page.parent].locks < page.locks
    ]


@lemma(
    "LOCK-02", "LOCK-03", "LOCK-04", "LOCK-05", "LOCK-07", bounds="3 pages in every shape; any lock counts; any place"
)
def a_lock_keeps_every_rule(second: int, third: int, a: int, b: int, c: int, place: int) -> None:
    """Locking protects the path to the root, and nothing else."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    assert inversions(tree) or _locks(trees.lock, tree, plain(place, 3))


@lemma("LOCK-03", "LOCK-04", bounds="only the page itself is locked")
def planted_lock_of_one_page(second: int, third: int, a: int, b: int, c: int, place: int) -> None:
    """The parents are forgotten."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])

    def lock(tree: Tree, name: Name) -> Tree:
        pages = dict(tree.pages)
        if name in pages:
            pages[name] = pages[name]._replace(locks=pages[name].locks + 1)
        return Tree(pages, tree.clock)

    assert inversions(tree) or _locks(lock, tree, plain(place, 3))


@lemma("LOCK-04", "LOCK-06", "MISUSE-06", bounds="3 pages in every shape; any lock counts; any two places")
def an_unlock_takes_back_what_its_lock_gave(
    second: int, third: int, a: int, b: int, c: int, one: int, other: int
) -> None:
    """Two locks, given back in the order in which they were taken, leave every count as it was."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= one <= 3 and 0 <= other <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    one, other = plain(one, 3), plain(other, 3)
    locked = trees.lock(trees.lock(tree, Name(one)), Name(other))
    after = trees.unlock(trees.unlock(locked, Name(one)), Name(other))
    assert after.pages[Name(1)].locks == a
    assert after.pages[Name(2)].locks == b
    assert after.pages[Name(3)].locks == c


@lemma("LOCK-04", bounds="the second receipt is taken for the first")
def planted_unlock_of_the_same_place_twice(
    second: int, third: int, a: int, b: int, c: int, one: int, other: int
) -> None:
    """One of the two receipts is given back twice."""
    assert shape(second, third) and a >= 1 and b >= 1 and c >= 1 and 0 <= one <= 3 and 0 <= other <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    one, other = plain(one, 3), plain(other, 3)
    locked = trees.lock(trees.lock(tree, Name(one)), Name(other))
    after = trees.unlock(trees.unlock(locked, Name(one)), Name(one))
    assert after.pages[Name(1)].locks == a
    assert after.pages[Name(2)].locks == b
    assert after.pages[Name(3)].locks == c
