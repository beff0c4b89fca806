"""What is proven of locks, as functions that CrossHair reads (see ``lemmas.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlitmus.reference import tree as trees
from kvlitmus.reference.cache import Cache, Settings
from kvlitmus.reference.pool import Pool
from kvlitmus.reference.tree import Page, Tree
from kvlitmus.spec import advance
from kvlitmus.spec.calls import Lock, Unlock
from kvlitmus.spec.misuse_calls import Aftermath, StaleUnlock
from kvlitmus.spec.units import Name, PageNo, Tick
from tests.proofs.lemmas import LEMMAS, lemma, plain
from tests.proofs.support.steps import Claim, Step, claim, keeps, known, seen, setting_of

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


SETTING = setting_of(1)
LOCKED = claim("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "LOCK-05", "LOCK-07", on=("lock",))
UNLOCKED = claim("LOCK-03", "LOCK-04", on=("unlock",))
COVERED = claim("LOCK-03", "LOCK-04", on=("lock",))


def full(tree: Tree) -> Cache:
    """A cache of three pages that are all cached."""
    pool = Pool(SETTING.usable, frozenset(), 1)
    return Cache(pool, tree, {}, Settings())


def _locks(lock: Callable[[Tree, Name], Tree], tree: Tree, place: int, claimed: Claim) -> bool:
    before, after = full(tree), full(lock(tree, Name(place)))
    step = Step(SETTING, known(before), seen(before), Lock(Name(place), 1), None, seen(after))
    return keeps(step, claimed)


def covers_the_path(lock: Callable[[Tree, Name], Tree], tree: Tree, place: int) -> bool:
    """What a lock is, in words of its own: one more for the page and for each page above it, and for no other."""
    covered, name = [], Name(place)
    while name in tree.pages:
        covered.append(name)
        name = tree.pages[name].parent
    after = lock(tree, Name(place)).pages
    return all(after[name] == one._replace(locks=one.locks + (name in covered)) for name, one in tree.pages.items())


def inversions(tree: Tree) -> list[Name]:
    """Pages that are locked more often than their parent."""
    return [
        name
        for name, page in tree.pages.items()
        if page.parent in tree.pages and tree.pages[page.parent].locks < page.locks
    ]


@lemma(*LOCKED.rules, bounds="3 pages in every shape; any lock counts; any place")
def a_lock_keeps_every_rule(second: int, third: int, a: int, b: int, c: int, place: int) -> None:
    """Locking protects the path to the root, and nothing else."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= place <= 3
    tree, place = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)]), plain(place, 3)
    if not inversions(tree):
        assert _locks(trees.lock, tree, place, LOCKED)
        assert covers_the_path(trees.lock, tree, place)


def only_the_page(tree: Tree, name: Name) -> Tree:
    """A lock that forgets the parents."""
    pages = dict(tree.pages)
    if name in pages:
        pages[name] = pages[name]._replace(locks=pages[name].locks + 1)
    return Tree(pages, tree.clock)


@lemma("LOCK-03", "LOCK-04", bounds="only the page itself is locked")
def planted_lock_of_one_page(second: int, third: int, a: int, b: int, c: int, place: int) -> None:
    """The parents are forgotten; the rules find it."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    assert inversions(tree) or _locks(only_the_page, tree, plain(place, 3), COVERED)


@lemma("LOCK-04", bounds="only the page itself is locked, and nobody expects more")
def planted_effect_of_one_page(second: int, third: int, a: int, b: int, c: int, place: int) -> None:
    """The slip is in the effect, so that reference and judge share it: what a lock is in words of its own finds it."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    assert inversions(tree) or covers_the_path(only_the_page, tree, plain(place, 3))


def _gives_back(tree: Tree, places: Sequence[int], given_back: Sequence[int]) -> tuple[bool, Tree]:
    """Each place is locked, then these are given back: whether the rules hold after the last call; the tree then."""
    state = known(full(tree))
    calls: list[Lock | Unlock] = [Lock(Name(place), number) for number, place in enumerate(places, 1)]
    calls += [Unlock(Name(place), number) for number, place in enumerate(places, 1)]
    for call in calls[:-1]:
        state = advance.expect(state, SETTING, call, None)
    for place in places:
        tree = trees.lock(tree, Name(place))
    for place in given_back[:-1]:
        tree = trees.unlock(tree, Name(place))
    before, after = full(tree), full(trees.unlock(tree, Name(given_back[-1])))
    step = Step(SETTING, state, seen(before, counted=False), calls[-1], None, seen(after, counted=False))
    return keeps(step, UNLOCKED), after.tree


def _as_before(tree: Tree, after: Tree) -> bool:
    return all(after.pages[name].locks == one.locks for name, one in tree.pages.items())


@lemma(*UNLOCKED.rules, bounds="3 pages in every shape; any lock counts; any two places")
def an_unlock_takes_back_what_its_lock_gave(
    second: int, third: int, a: int, b: int, c: int, one: int, other: int
) -> None:
    """Two locks, given back in the order in which they were taken, leave every count as it was."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= one <= 3 and 0 <= other <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    if not inversions(tree):
        places = (plain(one, 3), plain(other, 3))
        sound, after = _gives_back(tree, places, places)
        assert sound and _as_before(tree, after)


@lemma("LOCK-04", bounds="the second receipt is taken for the first")
def planted_unlock_of_the_same_place_twice(
    second: int, third: int, a: int, b: int, c: int, one: int, other: int
) -> None:
    """One of the two receipts is given back twice; the rules find it."""
    assert shape(second, third) and a >= 1 and b >= 1 and c >= 1 and 0 <= one <= 3 and 0 <= other <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    one, other = plain(one, 3), plain(other, 3)
    assert inversions(tree) or _gives_back(tree, (one, other), (one, one))[0]


SPENT = claim("MISUSE-06", on=("misuse", "stale_unlock"))


def _refuses(unlock: Callable[[Tree, Name], Tree], second: int, third: int, place: int) -> bool:
    tree = small_tree(second, third, [Numbers(0, 0, 0)] * 3)
    spent = unlock(trees.lock(tree, Name(place)), Name(place))
    raised, after = False, spent
    try:
        after = unlock(spent, Name(place))
    except ValueError:
        raised = True
    answer = Aftermath(raised, True, (), True)
    step = Step(SETTING, known(full(spent)), seen(full(spent)), StaleUnlock(1), answer, seen(full(after)))
    return keeps(step, SPENT) and _as_before(tree, after)


@lemma("MISUSE-06", bounds="3 pages in every shape, nothing locked; any place")
def a_spent_receipt_is_refused(second: int, third: int, place: int) -> None:
    """A lock that was given back can't be given back again: the call raises, and nobody's protection is less."""
    assert shape(second, third) and 1 <= place <= 3
    assert _refuses(trees.unlock, second, third, plain(place, 3))


@lemma("MISUSE-06", bounds="an unlock doesn't look whether anything is locked")
def planted_unlock_of_what_is_not_locked(second: int, third: int, place: int) -> None:
    """The counts go below nought."""
    assert shape(second, third) and 1 <= place <= 3
    assert _refuses(lambda tree, name: trees.lock(tree, name, -1), second, third, plain(place, 3))
