"""What is proven of locks, as functions that CrossHair reads (see ``lemmas.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.law import step as performed
from kvlitmus.spec.misuse.calls import Aftermath, StaleUnlock
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.calls import Lock, Unlock
from kvlitmus.spec.prefix.state import Page, State, Tier
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tick
from tests.proofs.prefix.lemmas import LEMMAS, lemma, plain
from tests.proofs.support.steps import Acting, Claim, Step, claim, keeps, seen, setting_of, state_of

__all__ = ["LEMMAS"]

# Tier: up to three pages, in every shape; ticks, hits, priorities and locks are any integers


class Numbers(NamedTuple):
    """What a page carries."""

    touched: int
    hits: int
    locks: int


def small_tree(second: int, third: int, numbers: Sequence[Numbers]) -> Tier:
    """Page 1 below the root 0, page 2 below ``second`` (0 or 1), page 3 below ``third`` (0, 1 or 2)."""
    pages = {}
    second, third = plain(second, 1), plain(third, 2)
    for at, (parent, one) in enumerate(zip((0, second, third), numbers, strict=True), 1):
        pages[Name(at)] = Page(
            Name(parent), PageNo(at), Tick(one.touched), Tick(one.touched), one.hits, 0, one.locks, True
        )
    return Tier(pages, Tick(max(one.touched for one in numbers)))


def shape(second: int, third: int) -> bool:
    """Whether these are parents of the pages 2 and 3."""
    return second in (0, 1) and third in (0, 1, 2)


SETTING = setting_of(1)
LOCKED = claim("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "TREE-04", "LOCK-07", on=("lock",))
UNLOCKED = claim("LOCK-03", "LOCK-04", on=("unlock",))
COVERED = claim("LOCK-03", "LOCK-04", on=("lock",))


def _locks(lock: Callable[[Tier, Name], Tier], tree: Tier, place: int, claimed: Claim) -> bool:
    state, after = state_of(tree), state_of(lock(tree, Name(place)))
    step = Step(SETTING, state, seen(state, SETTING), Lock(Name(place), 1), 1, seen(after, SETTING))
    return keeps(step, claimed)


def covers_the_path(lock: Callable[[Tier, Name], Tier], tree: Tier, place: int) -> bool:
    """What a lock is, in words of its own: one more for the page and for each page above it, and for no other."""
    covered, name = [], Name(place)
    while name in tree.pages:
        covered.append(name)
        name = tree.pages[name].parent
    after = lock(tree, Name(place)).pages
    return all(after[name] == one._replace(locks=one.locks + (name in covered)) for name, one in tree.pages.items())


def inversions(tree: Tier) -> list[Name]:
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
        assert _locks(effects.lock, tree, place, LOCKED)
        assert covers_the_path(effects.lock, tree, place)


def only_the_page(tree: Tier, name: Name) -> Tier:
    """A lock that forgets the parents."""
    pages = dict(tree.pages)
    if name in pages:
        pages[name] = pages[name]._replace(locks=pages[name].locks + 1)
    return Tier(pages, tree.clock)


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


def _gives_back(act: Acting, tree: Tier, one: int, other: int) -> tuple[bool, Tier]:
    """Two places are locked and given back: whether the rules hold after the last call, and the tree then."""
    state = state_of(tree)
    for call in (Lock(Name(one), 1), Lock(Name(other), 2), Unlock(1)):
        state = perform(state, SETTING, call).after
    last = Unlock(2)
    after = act(state, SETTING, last).after
    before, now = (seen(known, SETTING, counted=False) for known in (state, after))
    return keeps(Step(SETTING, state, before, last, None, now), UNLOCKED), after.device


def _as_before(tree: Tier, after: Tier) -> bool:
    return all(after.pages[name].locks == one.locks for name, one in tree.pages.items())


@lemma(*UNLOCKED.rules, bounds="3 pages in every shape; any lock counts; any two places")
def an_unlock_takes_back_what_its_lock_gave(
    second: int, third: int, a: int, b: int, c: int, one: int, other: int
) -> None:
    """Two locks, given back in the order in which they were taken, leave every count as it was."""
    assert shape(second, third) and a >= 0 and b >= 0 and c >= 0 and 0 <= one <= 3 and 0 <= other <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    if not inversions(tree):
        sound, after = _gives_back(perform, tree, plain(one, 3), plain(other, 3))
        assert sound and _as_before(tree, after)


@lemma("LOCK-04", bounds="the second receipt is taken for the first")
def planted_unlock_of_the_same_place_twice(
    second: int, third: int, a: int, b: int, c: int, one: int, other: int
) -> None:
    """One of the two receipts is given back twice; the rules find it."""
    assert shape(second, third) and a >= 1 and b >= 1 and c >= 1 and 0 <= one <= 3 and 0 <= other <= 3
    tree = small_tree(second, third, [Numbers(0, 0, a), Numbers(0, 0, b), Numbers(0, 0, c)])
    one, other = plain(one, 3), plain(other, 3)

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        return performed.Step(call, None, state, state._replace(device=effects.lock(state.device, Name(one), -1)))

    assert inversions(tree) or _gives_back(act, tree, one, other)[0]


SPENT = claim("MISUSE-06", on=("misuse", "stale_unlock"))


def _refuses(act: Acting, second: int, third: int, place: int) -> bool:
    tree = small_tree(second, third, [Numbers(0, 0, 0)] * 3)
    give_back = Unlock(1)
    locked = perform(state_of(tree), SETTING, Lock(Name(place), 1)).after
    spent = perform(locked, SETTING, give_back).after
    raised, after = False, spent
    try:
        after = act(spent, SETTING, give_back).after
    except ValueError:
        raised = True
    before, now = seen(spent, SETTING), seen(after, SETTING)
    step = Step(SETTING, spent, before, StaleUnlock(1), Aftermath(raised, True, (), True), now)
    return keeps(step, SPENT) and _as_before(tree, after.device)


@lemma("MISUSE-06", bounds="3 pages in every shape, nothing locked; any place")
def a_spent_receipt_is_refused(second: int, third: int, place: int) -> None:
    """A lock that was given back can't be given back again: the call raises, and nobody's protection is less."""
    assert shape(second, third) and 1 <= place <= 3
    assert _refuses(perform, second, third, plain(place, 3))


@lemma("MISUSE-06", bounds="an unlock doesn't look whether anything is locked")
def planted_unlock_of_what_is_not_locked(second: int, third: int, place: int) -> None:
    """The counts go below nought."""
    assert shape(second, third) and 1 <= place <= 3
    at = plain(place, 3)

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        return performed.Step(call, None, state, state._replace(device=effects.lock(state.device, Name(at), -1)))

    assert _refuses(act, second, third, at)
