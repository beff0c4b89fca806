"""What is proven of uses, inserts, evictions and requests, as functions that CrossHair reads (see ``lemmas.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.interface import Stored
from kvlitmus.spec.law import step as performed
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.calls import Begin, End, Evict, Grow, Insert, Match, PlayedAgain, Publish
from kvlitmus.spec.prefix.state import Page, State, Tier, empty_state
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Pages, Slot, Tick, Tokens, pages_of
from tests.proofs.prefix.lemmas import LEMMAS, lemma, plain
from tests.proofs.prefix.lock_lemmas import SETTING, Numbers, shape, small_tree
from tests.proofs.support.steps import (
    ROOT,
    Acting,
    Claim,
    Step,
    claim,
    keeps,
    path_of,
    seen,
    setting_of,
    state_of,
    step_of,
)


def path_to(tree: Tier, place: int) -> tuple[Name, ...]:
    """The key that ends at a page."""
    return effects.path(tree, Name(place))


# Uses

Inserting = Callable[..., tuple[Tier, Pages]]


def _inserted(insert: Inserting, tree: Tier, names: Sequence[Name], first: int, priority: int, chunked: bool) -> Step:
    """The step of an insert of these pages, in the slots from ``first`` on."""
    offered = [PageNo(first + at) for at in range(len(names))]
    added, already = insert(tree, ROOT, names, offered, counts=not chunked, priority=priority)
    call = Insert(path_of(names), tuple([Slot(page) for page in offered]), 0, priority, chunked)
    state, after = state_of(tree), state_of(added)
    return Step(SETTING, state, seen(state, SETTING), call, Stored(already), seen(after, SETTING))


def is_a_use(insert: Inserting, tree: Tier, place: int, priority: int, chunked: bool) -> bool:
    """What a use is, in words of its own: each page of the path counts it, and is younger than any page was."""
    names = path_to(tree, place)
    after, already = insert(tree, ROOT, names, [PageNo(9)] * len(names), counts=not chunked, priority=priority)
    for name, page in tree.pages.items():
        used, now = name in names, after.pages[name]
        if now.hits != page.hits + (used and not chunked):
            return False
        if now.priority != (priority if used and priority > page.priority else page.priority):
            return False
        if used and any(now.touched <= other.touched for other in tree.pages.values()):
            return False
        if not used and now.touched != page.touched:
            return False
    return already == len(names)


USED = claim("TREE-09", "TREE-13", "TREE-14", on=("insert",))


@lemma(*USED.rules, bounds="3 pages in every shape; any hits, ticks and priority; any place")
def a_use_is_counted_once_on_the_whole_path(
    second: int, third: int, hits: int, tick: int, place: int, priority: int, chunked: bool
) -> None:
    """An insert of what is cached counts a use of each page of its path and of no other."""
    assert shape(second, third) and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(tick, hits, 0), Numbers(tick, 0, 0), Numbers(tick, hits, 0)])
    place = plain(place, 3)
    assert keeps(_inserted(effects.insert, tree, path_to(tree, place), 9, priority, chunked), USED)
    assert is_a_use(effects.insert, tree, place, priority, chunked)


def insert_that_forgets(
    tree: Tier, root: Name, names: Sequence[Name], offered: Any, *, counts: bool, priority: int
) -> tuple[Tier, Pages]:
    """The last priority counts, not the highest."""
    after, already = effects.insert(tree, root, names, offered, counts=counts, priority=priority)
    pages = {n: page._replace(priority=priority if n in names else page.priority) for n, page in after.pages.items()}
    return Tier(pages, after.clock, after.doubt), already


@lemma("TREE-14", bounds="priority falls")
def planted_priority_that_falls(
    second: int, third: int, hits: int, tick: int, place: int, priority: int, chunked: bool
) -> None:
    """The last priority counts, not the highest; the rules find it."""
    assert shape(second, third) and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(tick, hits, 0), Numbers(tick, 0, 0), Numbers(tick, hits, 0)])
    names = path_to(tree, plain(place, 3))
    assert keeps(_inserted(insert_that_forgets, tree, names, 9, priority, chunked), USED)


@lemma("TREE-14", bounds="priority falls, and nobody expects otherwise")
def planted_effect_that_forgets_the_priority(
    second: int, third: int, hits: int, tick: int, place: int, priority: int, chunked: bool
) -> None:
    """The slip is in the effect, so that reference and judge share it: what a use is in words of its own finds it."""
    assert shape(second, third) and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(tick, hits, 0), Numbers(tick, 0, 0), Numbers(tick, hits, 0)])
    assert is_a_use(insert_that_forgets, tree, plain(place, 3), priority, chunked)


# Inserts and matches

ADDED = claim("TREE-05", "TREE-07", "TREE-08", "TREE-09", on=("insert",))
FOUND = claim("TREE-01", "TREE-02", "TREE-04", "TREE-10", on=("match",))


def _inserts(insert: Inserting, tree: Tier, names: tuple[Name, ...], used: int) -> bool:
    """What was missing is added, and then a match covers the whole key."""
    step = _inserted(insert, tree, names, used, 0, False)
    after = insert(tree, ROOT, names, [PageNo(used + at) for at in range(len(names))], counts=True, priority=0)[0]
    match = step_of(perform, state_of(after), SETTING, Match(path_of(names)))
    return keeps(step, ADDED) and keeps(match, FOUND) and match.answer.length == len(names)


def _part_of(second: int, third: int, kept: int) -> tuple[Tier, Tier]:
    """A whole small tree, and the part of it that is cached: the pages up to ``kept``."""
    whole = small_tree(second, third, [Numbers(0, 0, 0)] * 3)
    return whole, Tier({name: page for name, page in whole.pages.items() if name <= kept}, whole.clock)


@lemma(
    *ADDED.rules,
    *FOUND.rules,
    bounds="up to 3 pages in every shape, up to 3 of them cached; any fresh pages",
)
def an_insert_keeps_every_rule(second: int, third: int, kept: int, place: int, used: int) -> None:
    """Exactly the missing pages of the key are added, and then it is found."""
    assert shape(second, third) and 0 <= kept <= 3 and 0 <= place <= 3 and used > 3
    whole, tree = _part_of(second, third, plain(kept, 3))
    assert _inserts(effects.insert, tree, path_to(whole, plain(place, 3)), used)


@lemma("TREE-08", bounds="the pages offered replace those that are cached")
def planted_insert_that_replaces(second: int, third: int, kept: int, place: int, used: int) -> None:
    """Existing pages lose against offered ones."""
    assert shape(second, third) and 0 <= kept <= 3 and 0 <= place <= 3 and used > 3
    whole, tree = _part_of(second, third, plain(kept, 3))

    def insert(
        tree: Tier, root: Name, names: Sequence[Name], offered: Sequence[PageNo], *, counts: bool, priority: int
    ) -> tuple[Tier, Pages]:
        after, already = effects.insert(tree, root, names, offered, counts=counts, priority=priority)
        pages = dict(after.pages)
        for name, page in zip(names, offered, strict=True):
            pages[name] = pages[name]._replace(page=page)
        return Tier(pages, after.clock, after.doubt), already

    assert _inserts(insert, tree, path_to(whole, plain(place, 3)), used)


# Evictions


EVICTED = claim(
    *("EVICT-01", "EVICT-02", "EVICT-03", "EVICT-04", "EVICT-05", "EVICT-06"),
    *("LOCK-01", "LOCK-02", "TREE-05", "TREE-07", "POOL-11", "POOL-12", "POOL-13", "POOL-14"),
    on=("evict",),
)
SPARED = claim("EVICT-03", "LOCK-01", on=("evict",))
IN_ORDER = claim("EVICT-05", on=("evict",))
AGAIN = claim("EVICT-07", on=("again",))


def _evicts(act: Acting, tree: Tier, wanted: int, claimed: Claim) -> bool:
    return keeps(step_of(act, state_of(tree), SETTING, Evict(Tokens(wanted))), claimed)


@lemma(*EVICTED.rules, bounds="3 pages in every shape, any of them locked with its path; 0 to 4 pages asked for")
def an_eviction_keeps_every_rule(second: int, third: int, locked: int, wanted: int) -> None:
    """Whatever hangs where, whatever is locked, and however much is asked for."""
    assert shape(second, third) and 0 <= locked <= 3 and 0 <= wanted <= 4
    tree = effects.lock(small_tree(second, third, [Numbers(1, 0, 0)] * 3), Name(plain(locked, 3)))
    assert _evicts(perform, tree, max(0, wanted), EVICTED)


@lemma("EVICT-03", "LOCK-01", bounds="locks are overlooked")
def planted_eviction_of_what_is_locked(second: int, third: int, locked: int, wanted: int) -> None:
    """Every page counts as unlocked."""
    assert shape(second, third) and 0 <= locked <= 3 and 0 <= wanted <= 4
    tree = effects.lock(small_tree(second, third, [Numbers(1, 0, 0)] * 3), Name(plain(locked, 3)))

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        bare = Tier(
            {n: page._replace(locks=0) for n, page in state.device.pages.items()}, state.device.clock, tree.doubt
        )
        return perform(state._replace(device=bare), setting, call)

    assert _evicts(act, tree, max(0, wanted), SPARED)


FIRST: dict[str, Callable[[Page, Page], bool]] = {
    "lru": lambda one, other: one.touched < other.touched,
    "mru": lambda one, other: one.touched > other.touched,
    "fifo": lambda one, other: one.created < other.created,
    "filo": lambda one, other: one.created > other.created,
    "lfu": lambda one, other: one.hits < other.hits or (one.hits == other.hits and one.touched < other.touched),
    "priority": lambda one, other: (
        one.priority < other.priority or (one.priority == other.priority and one.touched < other.touched)
    ),
    "slru": lambda one, other: (
        (one.hits < 2 <= other.hits) or ((one.hits >= 2) == (other.hits >= 2) and one.touched < other.touched)
    ),
}
"""Which of two leaves goes first, in the words of the policies' definitions."""


POLICIES = tuple(FIRST)
BY_POLICY = {policy: setting_of(1, pages=2, policy=policy) for policy in POLICIES}


def _one_goes(act: Acting, policy: str, one: Page, other: Page) -> tuple[Step, Name]:
    """The step of an eviction of one of two leaves, and which went."""
    state = state_of(Tier({Name(1): one, Name(2): other}, Tick(0)))
    step = step_of(act, state, BY_POLICY[policy], Evict(Tokens(1)))
    return step, Name(2) if Name(1) in step.after.cached else Name(1)


def goes_first(act: Acting, policy: str, one: Page, other: Page) -> bool:
    """The victim by the words of the definitions: the other one doesn't go before it."""
    _, gone = _one_goes(act, policy, one, other)
    return not FIRST[policy](*((other, one) if gone == 1 else (one, other)))


@lemma("EVICT-05", bounds="two leaves; any ticks of use and creation, any hits and priorities; every policy")
def the_first_victim_is_the_policys(
    policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int
) -> None:
    """Each policy orders two leaves as its definition says, for all integers."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    name = POLICIES[plain(policy, 6)]
    assert keeps(_one_goes(perform, name, one, other)[0], IN_ORDER)
    assert goes_first(perform, name, one, other)


def by_recency(state: State, setting: Setting, call: Any) -> performed.Step[State]:
    """Whatever policy was asked for."""
    return perform(state, BY_POLICY["lru"], call)


@lemma("EVICT-05", bounds="slru forgets its segments")
def planted_policy_without_segments(
    policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int
) -> None:
    """Asked for slru, the cache evicts by recency alone; the rule finds it."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    assert keeps(_one_goes(by_recency, "slru", one, other)[0], IN_ORDER)


@lemma("EVICT-05", bounds="slru forgets its segments, and nobody expects any")
def planted_worth_without_segments(policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int) -> None:
    """The slip is in the worth, so that reference and judge share it: the words of the definition find it."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    assert goes_first(by_recency, "slru", one, other)


def _alike(act: Acting, policy: str, one: Page, other: Page) -> bool:
    """Two caches that hold the same pages, and came to hold them in another order."""
    first = _one_goes(act, policy, one, other)[1]
    state = state_of(Tier({Name(2): other, Name(1): one}, Tick(0)))
    step = step_of(act, state, BY_POLICY[policy], Evict(Tokens(1)))
    again = Name(2) if Name(1) in step.after.cached else Name(1)
    return keeps(step._replace(call=PlayedAgain((first,), (again,)), answer=None), AGAIN)


@lemma("EVICT-07", bounds="two leaves; any ticks of use and creation, any hits and priorities; every policy")
def ties_are_broken_alike(policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int) -> None:
    """The victim does not depend on the order in which a cache holds its pages."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    assert _alike(perform, POLICIES[plain(policy, 6)], one, other)


@lemma("EVICT-07", bounds="ties go to the page that is held first")
def planted_ties_by_order(policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int) -> None:
    """Worth alone decides, and among equals the order in the table."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        pages = state.device.pages
        gone = min(pages, key=lambda name: pages[name].touched)
        return performed.Step(call, 1, state, state._replace(device=effects.remove(state.device, [gone])))

    assert _alike(act, "lru", one, other)


# Requests


RID = 1
ALWAYS = ("POOL-12", "POOL-15")
BEGUN = claim(
    *("TREE-01", "TREE-02", "TREE-03", "TREE-10", "REQ-01", "REQ-02", "REQ-03", "POOL-05"), *ALWAYS, on=("begin",)
)
NOT_BEGUN = claim("REQ-10", "LOCK-04", *ALWAYS, on=("refused_begin",))
GROWN = claim("REQ-01", "REQ-02", "POOL-17", "POOL-05", *ALWAYS, on=("grow",))
NOT_GROWN = claim("REQ-10", *ALWAYS, on=("refused_grow",))
PUBLISHED = claim("REQ-01", "REQ-02", "REQ-03", "REQ-04", "REQ-11", *ALWAYS, on=("publish", "publish_all"))
FINISHED = claim("REQ-07", "TREE-08", "LOCK-04", "LOCK-06", *ALWAYS, on=("end", "finish"))
ABORTED = claim("REQ-07", "REQ-09", "LOCK-04", "LOCK-06", *ALWAYS, on=("end", "abort"))
LIFE = (BEGUN, NOT_BEGUN, GROWN, NOT_GROWN, PUBLISHED, FINISHED, ABORTED)
PAGES_OF_TWO = {pages: setting_of(2, pages=pages) for pages in (1, 2, 3)}


class Life:
    """A request of the reference, call by call: whether every rule held so far, and the cache now."""

    def __init__(self, pages: int) -> None:
        self.setting = PAGES_OF_TWO[pages]
        self.state = empty_state()
        self.seen = seen(self.state, self.setting)
        self.sound = True

    def goes_on(self, act: Acting, call: Any, granted: Claim, refused: Claim | None = None) -> bool:
        """One call more; whether it was granted."""
        _, answer, before, after = act(self.state, self.setting, call)
        was_refused = refused is not None and answer is None
        if was_refused and isinstance(call, Grow):
            call = call._replace(path=None)
        shown = seen(after, self.setting)
        step = Step(self.setting, before, self.seen, call, answer, shown)
        self.sound = self.sound and keeps(step, refused if was_refused and refused is not None else granted)
        self.state, self.seen = after, shown
        return not was_refused


def _lives(end: Acting, free: int, prompt: int, further: int, publish: bool, keep: bool) -> bool:
    """A request begins, grows, may publish, and ends, in a cache of ``free`` pages of two slots."""
    life = Life(free)
    names = tuple([Name(at + 1) for at in range(prompt + further)])
    if not life.goes_on(perform, Begin(RID, path_of(names[:prompt], 2)), BEGUN, NOT_BEGUN):
        return life.sound and prompt > 2 * free
    grown = life.goes_on(perform, Grow(RID, Tokens(further), path_of(names, 2)), GROWN, NOT_GROWN)
    if not grown and prompt + further <= 2 * free:
        return False
    if publish:
        life.goes_on(perform, Publish(RID), PUBLISHED)
    life.goes_on(end, End(RID, bool(keep)), FINISHED if keep else ABORTED)
    return life.sound and not life.state.owners and not life.state.requests


@lemma(
    *sorted({rule for one in LIFE for rule in one.rules}),
    bounds="one request; up to 3 pages of 2 slots; prompts of up to 3 tokens, up to 3 further ones; every way to end",
)
def a_request_leaves_nothing_behind(free: int, prompt: int, further: int, publish: bool, keep: bool) -> None:
    """However long it is, whether it publishes, and however it ends."""
    assert 1 <= free <= 3 and 0 <= prompt <= 3 and 0 <= further <= 3
    assert _lives(perform, plain(free, 3), plain(prompt, 3), plain(further, 3), publish, keep)


@lemma("REQ-07", bounds="the tail is not freed")
def planted_request_that_loses_its_tail(free: int, prompt: int, further: int, publish: bool, keep: bool) -> None:
    """A page that is partly used is forgotten at the end."""
    assert 1 <= free <= 3 and 0 <= prompt <= 3 and 0 <= further <= 3

    def end(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        row = state.requests[RID].row
        made = perform(state, setting, call)
        lost = pages_of(row[-1:], 2) if len(row) % 2 else frozenset[PageNo]()
        owners = {**made.after.owners, **dict.fromkeys(lost, 1)}
        return made._replace(after=made.after._replace(owners=owners))

    assert _lives(end, plain(free, 3), plain(prompt, 3), plain(further, 3), publish, keep)


__all__ = ["LEMMAS"]
