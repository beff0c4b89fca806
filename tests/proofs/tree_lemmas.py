"""What is proven of uses, inserts, evictions and requests, as functions that CrossHair reads (see ``lemmas.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvlitmus.reference import cache as caches
from kvlitmus.reference import request as requests
from kvlitmus.reference import tree as trees
from kvlitmus.reference.cache import Cache
from kvlitmus.reference.tree import Page, Tree
from kvlitmus.spec.units import CACHED, FREE, Name, PageNo, Pages, RequestId, Slot, Tick, pages_of
from tests.proofs.lemmas import LEMMAS, keeps, lemma, plain
from tests.proofs.lock_lemmas import Numbers, shape, small_tree

ROOT = Name(0)


def path_to(tree: Tree, place: int) -> tuple[Name, ...]:
    """The key that ends at a page."""
    return trees.path(tree, Name(place))


# Uses


def _uses(insert: Callable[..., Any], tree: Tree, place: int, priority: int, chunked: bool) -> bool:
    names = path_to(tree, place)
    after, already = insert(tree, ROOT, names, [PageNo(9)] * len(names), counts=not chunked, priority=priority)
    pairs = [(after.pages[name].hits, page.hits + (name in names and not chunked)) for name, page in tree.pages.items()]
    worth = [
        (after.pages[name].priority, priority if name in names and priority > page.priority else page.priority)
        for name, page in tree.pages.items()
    ]
    newest = all(after.pages[name].touched > page.touched for name in names for page in tree.pages.values())
    facts = {"node_hits": pairs, "node_priorities": worth}
    return keeps(facts, "TREE-13", "TREE-14") and already == len(names) and newest


@lemma("TREE-13", "TREE-14", "TREE-09", bounds="3 pages in every shape; any hits, ticks and priority; any place")
def a_use_is_counted_once_on_the_whole_path(
    second: int, third: int, hits: int, tick: int, place: int, priority: int, chunked: bool
) -> None:
    """An insert of what is cached counts a use of each page of its path and of no other."""
    assert shape(second, third) and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(tick, hits, 0), Numbers(tick, 0, 0), Numbers(tick, hits, 0)])
    assert _uses(trees.insert, tree, plain(place, 3), priority, chunked)


@lemma("TREE-14", bounds="priority falls")
def planted_priority_that_falls(
    second: int, third: int, hits: int, tick: int, place: int, priority: int, chunked: bool
) -> None:
    """The last priority counts, not the highest."""
    assert shape(second, third) and 0 <= place <= 3
    tree = small_tree(second, third, [Numbers(tick, hits, 0), Numbers(tick, 0, 0), Numbers(tick, hits, 0)])

    def insert(tree: Tree, root: Name, names: Sequence[Name], offered: Any, *, counts: bool, priority: int) -> Any:
        after, already = trees.insert(tree, root, names, offered, counts=counts, priority=priority)
        pages = {
            n: page._replace(priority=priority if n in names else page.priority) for n, page in after.pages.items()
        }
        return Tree(pages, after.clock), already

    assert _uses(insert, tree, plain(place, 3), priority, chunked)


# Inserts and matches


def _inserts(insert: Callable[..., Any], tree: Tree, names: tuple[Name, ...], used: int) -> bool:
    offered = [PageNo(used + at) for at in range(len(names))]
    longest = 0
    while longest < len(names) and names[longest] in tree.pages:
        longest += 1
    after, already = insert(tree, ROOT, names, offered)
    cached = {name: page.page for name, page in after.pages.items()}
    facts = {
        "cached_before": {name: page.page for name, page in tree.pages.items()},
        "cached_after": cached,
        "missing_before": names[longest:],
        "offered": dict(zip(names, offered, strict=True)),
        "reported_already": already,
        "certain_length": longest,
        "possible_length": longest,
        "parents": frozenset(page.parent for page in after.pages.values()) - {ROOT},
        "cached_listed": list(cached.values()),
        "match_length": trees.match(after, names)[1],
    }
    found = {**facts, "certain_length": len(names), "possible_length": len(names)}
    return keeps(facts, "TREE-05", "TREE-07", "TREE-08", "TREE-09") and keeps(found, "TREE-02")


def _part_of(second: int, third: int, kept: int) -> tuple[Tree, Tree]:
    """A whole small tree, and the part of it that is cached: the pages up to ``kept``."""
    whole = small_tree(second, third, [Numbers(0, 0, 0)] * 3)
    return whole, Tree({name: page for name, page in whole.pages.items() if name <= kept}, whole.clock)


@lemma(
    "TREE-02",
    "TREE-05",
    "TREE-07",
    "TREE-08",
    "TREE-09",
    bounds="up to 3 pages in every shape, up to 3 of them cached; any fresh pages",
)
def an_insert_keeps_every_rule(second: int, third: int, kept: int, place: int, used: int) -> None:
    """Exactly the missing pages of the key are added, and then it is found."""
    assert shape(second, third) and 0 <= kept <= 3 and 0 <= place <= 3 and used > 3
    whole, tree = _part_of(second, third, plain(kept, 3))
    assert _inserts(trees.insert, tree, path_to(whole, plain(place, 3)), used)


@lemma("TREE-08", bounds="the pages offered replace those that are cached")
def planted_insert_that_replaces(second: int, third: int, kept: int, place: int, used: int) -> None:
    """Existing pages lose against offered ones."""
    assert shape(second, third) and 0 <= kept <= 3 and 0 <= place <= 3 and used > 3
    whole, tree = _part_of(second, third, plain(kept, 3))

    def insert(tree: Tree, root: Name, names: Sequence[Name], offered: Sequence[PageNo]) -> Any:
        after, already = trees.insert(tree, root, names, offered)
        pages = dict(after.pages)
        for name, page in zip(names, offered, strict=True):
            pages[name] = pages[name]._replace(page=page)
        return Tree(pages, after.clock), already

    assert _inserts(insert, tree, path_to(whole, plain(place, 3)), used)


# Evictions


def _evicts(evict: Callable[..., Any], policy: str, tree: Tree, wanted: int) -> bool:
    after, victims = evict(tree, Pages(wanted), trees.Eviction(policy))
    unlocked = [name for name, page in tree.pages.items() if not page.locks]
    free_before, cached = frozenset[int](), {name: page.page for name, page in tree.pages.items()}
    free_after = frozenset(cached[name] for name in victims)
    leaves = [name for name in trees.leaves(tree) if not tree.pages[name].locks]
    facts = {
        "asked": wanted,
        "unlocked_before": len(unlocked),
        "free_before": free_before,
        "free_after": free_after,
        "page_size": 1,
        "reported_evicted": len(victims),
        "vanished": frozenset(victims),
        "locked_names": frozenset(tree.pages) - frozenset(unlocked),
        "cached_before": cached,
        "cached_after": {name: page.page for name, page in after.pages.items()},
        "needless": frozenset(victims[wanted:]),
    }
    rules = ("EVICT-01", "EVICT-02", "EVICT-03", "EVICT-04", "EVICT-06")
    return keeps(facts, *rules) and (not victims or victims[0] in leaves) and trees.is_closed(after, [ROOT])


@lemma(
    "EVICT-01",
    "EVICT-02",
    "EVICT-03",
    "EVICT-04",
    "EVICT-06",
    "LOCK-01",
    bounds="3 pages in every shape, any of them locked with its path; 0 to 4 pages asked for",
)
def an_eviction_keeps_every_rule(second: int, third: int, locked: int, wanted: int) -> None:
    """Whatever hangs where, whatever is locked, and however much is asked for."""
    assert shape(second, third) and 0 <= locked <= 3 and 0 <= wanted <= 4
    tree = trees.lock(small_tree(second, third, [Numbers(1, 0, 0)] * 3), Name(plain(locked, 3)))
    assert _evicts(trees.evict, "lru", tree, max(0, wanted))


@lemma("EVICT-03", bounds="locks are overlooked")
def planted_eviction_of_what_is_locked(second: int, third: int, locked: int, wanted: int) -> None:
    """Every page counts as unlocked."""
    assert shape(second, third) and 0 <= locked <= 3 and 0 <= wanted <= 4
    tree = trees.lock(small_tree(second, third, [Numbers(1, 0, 0)] * 3), Name(plain(locked, 3)))

    def evict(tree: Tree, wanted: Pages, how: trees.Eviction) -> Any:
        return trees.evict(Tree({n: page._replace(locks=0) for n, page in tree.pages.items()}, tree.clock), wanted, how)

    assert _evicts(evict, "lru", tree, max(0, wanted))


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


def _orders(evict: Callable[..., Any], policy: str, one: Page, other: Page) -> bool:
    _, victims = evict(Tree({Name(1): one, Name(2): other}, Tick(0)), Pages(1), trees.Eviction(policy))
    passed = [Name(2)] if victims[0] == 1 and FIRST[policy](other, one) else []
    passed += [Name(1)] if victims[0] == 2 and FIRST[policy](one, other) else []
    return keeps({"passed_over": frozenset(passed)}, "EVICT-05")


@lemma("EVICT-05", bounds="two leaves; any ticks of use and creation, any hits and priorities; every policy")
def the_first_victim_is_the_policys(
    policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int
) -> None:
    """Each policy orders two leaves as its definition says, for all integers."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    assert _orders(trees.evict, tuple(FIRST)[plain(policy, 6)], one, other)


@lemma("EVICT-05", bounds="slru forgets its segments")
def planted_policy_without_segments(
    policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int
) -> None:
    """Asked for slru, the cache evicts by recency alone."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    assert _orders(lambda tree, n, how: trees.evict(tree, n, how._replace(policy="lru")), "slru", one, other)


def _alike(evict: Callable[..., Any], policy: str, one: Page, other: Page) -> bool:
    """Two caches that hold the same pages, and came to hold them in another order."""
    first = evict(Tree({Name(1): one, Name(2): other}, Tick(0)), Pages(1), trees.Eviction(policy))[1]
    again = evict(Tree({Name(2): other, Name(1): one}, Tick(0)), Pages(1), trees.Eviction(policy))[1]
    return keeps({"victims": first, "victims_again": again}, "EVICT-07")


@lemma("EVICT-07", bounds="two leaves; any ticks of use and creation, any hits and priorities; every policy")
def ties_are_broken_alike(policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int) -> None:
    """The victim does not depend on the order in which a cache holds its pages."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)
    assert _alike(trees.evict, tuple(FIRST)[plain(policy, 6)], one, other)


@lemma("EVICT-07", bounds="ties go to the page that is held first")
def planted_ties_by_order(policy: int, t: int, u: int, c: int, d: int, h: int, i: int, p: int, q: int) -> None:
    """Worth alone decides, and among equals the order in the table."""
    assert 0 <= policy <= 6
    one = Page(ROOT, PageNo(1), Tick(t), Tick(c), h, p, 0, True)
    other = Page(ROOT, PageNo(2), Tick(u), Tick(d), i, q, 0, True)

    def evict(tree: Tree, wanted: Pages, how: trees.Eviction) -> Any:
        return tree, (min(tree.pages, key=lambda name: tree.pages[name].touched),)

    assert _alike(evict, "lru", one, other)


# Requests


def _lives(end: Callable[..., Cache], free: int, prompt: int, further: int, publish: bool, keep: bool) -> bool:
    """A request begins, grows, may publish, and ends, in a cache of ``free`` pages of two slots."""
    cache = caches.empty_cache(free, 2)
    names = tuple(Name(at + 1) for at in range(prompt + further))
    cache, begun = requests.begin(cache, RequestId(1), ROOT, names[:prompt], prompt)
    if begun is None:
        return set(caches.homes(cache).values()) <= {FREE} and prompt > 2 * free
    before = cache
    cache, new = requests.grow(cache, RequestId(1), names, prompt + further)
    if new is None:
        if not (cache.pool == before.pool and prompt + further > 2 * free):
            return False
    elif not _grew(begun.row, new, cache, prompt + further):
        return False
    if publish:
        cache, published = requests.publish(cache, RequestId(1), chunked=False)
        if published.cached != len(published.names) - len(published.names) % 2:
            return False
    own = caches.own_pages(cache, cache.requests[RequestId(1)])
    cached_before = {name: page.page for name, page in cache.tree.pages.items()}
    cache = end(cache, RequestId(1), keep=keep)
    facts = {
        "request_pages": own,
        "free_after": cache.pool.free,
        "cached_listed": [page.page for page in cache.tree.pages.values()],
        "cached_before": cached_before,
        "cached_after": {name: page.page for name, page in cache.tree.pages.items()},
    }
    sound = set(caches.homes(cache).values()) <= {FREE, CACHED}
    return sound and keeps(facts, "REQ-07", *(() if keep else ("REQ-09",))) and trees.sizes(cache.tree)[1] == 0


def _grew(row: Sequence[Slot], new: Sequence[Slot], cache: Cache, tokens: int) -> bool:
    grown = cache.requests[RequestId(1)].row
    last = row[-1] if row else Slot(-1)
    facts = {"row": grown, "request_names": range(tokens), "last_slot": last, "new_slots": new}
    facts |= {"row_before": row, "page_size": 2}
    return keeps(facts, "REQ-01", "REQ-05") and pages_of(grown, 2).isdisjoint(cache.pool.free)


@lemma(
    "REQ-01",
    "REQ-04",
    "REQ-05",
    "REQ-07",
    "REQ-09",
    "REQ-10",
    "POOL-12",
    "POOL-15",
    "LOCK-06",
    bounds="one request; up to 3 pages of 2 slots; prompts of up to 3 tokens, up to 3 further ones; every way to end",
)
def a_request_leaves_nothing_behind(free: int, prompt: int, further: int, publish: bool, keep: bool) -> None:
    """However long it is, whether it publishes, and however it ends."""
    assert 1 <= free <= 3 and 0 <= prompt <= 3 and 0 <= further <= 3
    assert _lives(requests.end, plain(free, 3), plain(prompt, 3), plain(further, 3), publish, keep)


@lemma("REQ-07", bounds="the tail is not freed")
def planted_request_that_loses_its_tail(free: int, prompt: int, further: int, publish: bool, keep: bool) -> None:
    """A page that is partly used is forgotten at the end."""
    assert 1 <= free <= 3 and 0 <= prompt <= 3 and 0 <= further <= 3

    def end(cache: Cache, rid: RequestId, *, keep: bool) -> Cache:
        row = cache.requests[rid].row
        after = requests.end(cache, rid, keep=keep)
        lost = pages_of(row[-1:], 2) if len(row) % 2 else frozenset[PageNo]()
        return after._replace(pool=after.pool._replace(free=after.pool.free - lost))

    assert _lives(end, plain(free, 3), plain(prompt, 3), plain(further, 3), publish, keep)


__all__ = ["LEMMAS"]
