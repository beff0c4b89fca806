"""What is proven of pool, tree, locks, eviction and requests, as functions that CrossHair reads.

Each function begins with its assumptions and ends with its claim: that the rules it declares hold
of a transition of the reference.  The trees and pools are small, and every number in them (ticks,
hit counts, priorities, lock counts, sizes asked for) is any integer, so that what the exhaustive
enumeration must take as ranks and saturated counts is proven here for all values.

A lemma of the table :data:`LEMMAS` declares the rules it establishes and its bounds.  Each has
a planted slip beside it, which must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kvlitmus.reference import cache as caches
from kvlitmus.reference import pool as pools
from kvlitmus.reference.pool import Pool
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.units import PageNo, Pages, Slot, Tokens, key_length, pages_needed, pages_of

RULES = all_rules()
Function = TypeVar("Function", bound=Callable[..., None])


class Lemma(NamedTuple):
    """Which rules a lemma establishes, and within which bounds; or the slip that a planted one has."""

    name: str
    rules: tuple[str, ...]
    bounds: str
    planted: bool


LEMMAS: dict[str, Lemma] = {}


def lemma(*rules: str, bounds: str) -> Callable[[Function], Function]:
    """Note a lemma; the function itself is left as it is, for CrossHair reads its source."""

    def note(function: Function) -> Function:
        name = function.__name__
        LEMMAS[name] = Lemma(name, rules, bounds, name.startswith("planted_"))
        return function

    return note


def keeps(facts: Mapping[str, Any], *rules: str) -> bool:
    """Whether these rules hold of these facts."""
    return all(RULES[id].predicate(**{name: facts[name] for name in RULES[id].facts}) for id in rules)


# Pool: four pages, any of them free; the page size is 1 or 2; the size asked for is any integer

SIZES = (1, 2)


def small_pool(free: tuple[bool, bool, bool], page_size: int) -> Pool:
    """Pages 1 to 3, of which these are free."""
    usable = frozenset(map(PageNo, (1, 2, 3)))
    return Pool(usable, frozenset(PageNo(at) for at, there in enumerate(free, 1) if there), page_size)


def plain(number: int, most: int) -> int:
    """The number as a plain one: it is one of 0 to ``most``, and each is a case of its own."""
    for one in range(most + 1):
        if number == one:
            return one
    raise ValueError(number)


ALLOCATED = ("POOL-01", "POOL-02", "POOL-03", "POOL-04", "POOL-05", "POOL-06", "POOL-11", "POOL-13")


def _allocates(allocate: Callable[[Pool, Tokens], Any], free: tuple[bool, bool, bool], size: int, asked: int) -> bool:
    pool = small_pool(free, size)
    taken = allocate(pool, Tokens(asked))
    before = pools.available(pool)
    if taken is None:
        return keeps({"asked": asked, "available_before": before, "available_after": before}, "POOL-07", "POOL-08")
    after, pages = taken
    slots = pools.slots_of(pages, size)
    facts = {
        "asked": asked,
        "page_size": size,
        "granted": slots,
        "granted_pages": pages_of(slots, size),
        "held_before": pool.usable - pool.free,
        "free_before": pool.free,
        "cached_before": {},
        "vanished": frozenset(),
        "usable": pool.usable,
        "free_listed": tuple(after.free),
        "free_after": after.free,
        "available_after": pools.available(after),
    }
    return keeps(facts, *ALLOCATED) and after.free == pool.free - frozenset(pages)


@lemma(*ALLOCATED, "POOL-07", "POOL-08", bounds="3 pages, any free; page size 1 or 2; any size asked for")
def an_allocation_keeps_every_rule(first: bool, second: bool, third: bool, large: bool, asked: int) -> None:
    """Whatever is free and however much is asked for."""
    assert asked >= 0 and asked % (2 if large else 1) == 0
    assert _allocates(pools.allocate, (first, second, third), 2 if large else 1, asked)


@lemma("POOL-04", "POOL-05", bounds="a page of somebody else's is handed out when one is missing")
def planted_allocation_from_elsewhere(first: bool, second: bool, third: bool, large: bool, asked: int) -> None:
    """The third page counts as free when the first isn't."""
    assert asked >= 0 and asked % (2 if large else 1) == 0

    def allocate(pool: Pool, asked: Tokens) -> Any:
        return pools.allocate(pool if PageNo(1) in pool.free else pool._replace(free=pool.free | {PageNo(3)}), asked)

    assert _allocates(allocate, (first, second, third), 2 if large else 1, asked)


@lemma("POOL-01", bounds="3 pages, any free; page size 2; sizes from -3 to 7")
def an_allocation_refuses_to_round(first: bool, second: bool, third: bool, asked: int) -> None:
    """A size that is negative or no multiple of the page size is an error."""
    assert -3 <= asked <= 7 and (asked < 0 or asked % 2 == 1)
    try:
        pools.allocate(small_pool((first, second, third), 2), Tokens(plain(asked + 3, 10) - 3))
    except ValueError:
        return
    raise AssertionError(asked)


@lemma("POOL-01", bounds="a size is rounded down")
def planted_rounding(first: bool, second: bool, third: bool, asked: int) -> None:
    """An odd size is rounded down."""
    assert -3 <= asked <= 7 and (asked < 0 or asked % 2 == 1)
    asked = plain(asked + 3, 10) - 3
    try:
        pools.allocate(small_pool((first, second, third), 2), Tokens(asked - asked % 2))
    except ValueError:
        return
    raise AssertionError(asked)


def _releases(
    release: Callable[[Pool, Sequence[PageNo]], Pool], free: tuple[bool, bool, bool], one: int, other: int
) -> bool:
    pool = small_pool(free, 1)
    given = (PageNo(one), PageNo(other))
    lawful = one != other and all(page in pool.usable and page not in pool.free for page in given)
    try:
        after = release(pool, given)
    except ValueError:
        return not lawful
    facts = {
        "freed_pages": frozenset(given),
        "free_before": pool.free,
        "free_after": after.free,
        "free_listed": tuple(after.free),
        "available_before": pools.available(pool),
        "available_after": pools.available(after),
        "page_size": 1,
        "capacity": 3,
        "later_sound": after.free <= pool.usable,
        "raised": False,
        "declared_misuse": "reject" if not lawful else "undefined",
    }
    return keeps(facts, "POOL-09", "POOL-10", "POOL-11", "POOL-13", "MISUSE-01", "MISUSE-02", "MISUSE-03")


@lemma(
    "POOL-09",
    "POOL-10",
    "POOL-11",
    "POOL-13",
    "MISUSE-01",
    "MISUSE-02",
    "MISUSE-03",
    bounds="3 pages, any free; any two of pages 0 to 4 are given back in one call",
)
def a_release_keeps_every_rule(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """What is lawful is taken back, and what isn't is refused."""
    assert 0 <= one <= 4 and 0 <= other <= 4
    assert _releases(pools.release, (first, second, third), plain(one, 4), plain(other, 4))


@lemma("MISUSE-03", bounds="a page that is named twice is not noticed")
def planted_release_of_a_page_named_twice(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """The pages are made a set before anybody looks."""
    assert 0 <= one <= 4 and 0 <= other <= 4
    free = (first, second, third)
    assert _releases(lambda pool, pages: pools.release(pool, frozenset(pages)), free, plain(one, 4), plain(other, 4))


@lemma("POOL-19", bounds="3 pages, any free; any two pages are given back in one group")
def a_group_of_frees_waits_for_its_end(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """Within the group nothing becomes available, at its end everything."""
    assert 1 <= one <= 3 and 1 <= other <= 3 and one != other
    one, other = plain(one, 3), plain(other, 3)
    pool = small_pool(
        (first and 1 not in (one, other), second and 2 not in (one, other), third and 3 not in (one, other)), 1
    )
    opened = pools.release(pools.release(pools.open_group(pool), [PageNo(one)]), [PageNo(other)])
    facts = {"available_before": pools.available(pool), "available_after": pools.available(opened)}
    assert keeps(facts, "POOL-19")
    assert pools.close_group(opened).free == pool.free | {one, other}


@lemma("POOL-19", bounds="the second free of a group takes effect at once")
def planted_group_of_one(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """The group ends with the first free."""
    assert 1 <= one <= 3 and 1 <= other <= 3 and one != other
    one, other = plain(one, 3), plain(other, 3)
    pool = small_pool(
        (first and 1 not in (one, other), second and 2 not in (one, other), third and 3 not in (one, other)), 1
    )
    opened = pools.release(pools.close_group(pools.release(pools.open_group(pool), [PageNo(one)])), [PageNo(other)])
    facts = {"available_before": pools.available(pool), "available_after": pools.available(opened)}
    assert keeps(facts, "POOL-19")


def _extends(extend: Callable[..., Any], free: tuple[bool, bool, bool], before: int, further: int) -> bool:
    """A request of ``before`` tokens whose last page is page 4 grows."""
    size = 2
    pool = small_pool(free, size)
    start = 8 - (before - before % size) if before % size else 8 - before + size
    row = tuple(Slot(start + at) for at in range(before))
    last = row[-1] if row else Slot(-1)
    extended = extend(pool, before, before + further, last)
    needed = pages_needed(before + further, size) - pages_needed(before, size)
    if extended is None:
        return needed > len(pool.free)
    after, slots = extended
    opened = pool.free - after.free
    facts = {
        "page_size": size,
        "last_slot": last,
        "new_slots": slots,
        "granted": slots,
        "row_before": row,
        "asked": further,
        "opened_pages": opened,
        "opened_needed": needed,
        "held_before": pool.usable - pool.free,
        "granted_pages": opened,
        "usable": pool.usable,
    }
    return keeps(facts, "POOL-03", "POOL-06", "POOL-17", "POOL-18", "REQ-05")


@lemma(
    "POOL-03",
    "POOL-06",
    "POOL-08",
    "POOL-17",
    "POOL-18",
    "REQ-05",
    bounds="3 pages of 2 slots, any free; up to 3 tokens before, up to 4 further ones",
)
def an_extension_keeps_every_rule(first: bool, second: bool, third: bool, before: int, further: int) -> None:
    """The last page is filled before another one is opened, and no page too many is opened."""
    assert 0 <= before <= 3 and 0 <= further <= 4
    before, further = plain(before, 3), plain(further, 4)
    assert _extends(pools.extend, (first, second, third), before, further)


@lemma("POOL-17", bounds="a partly filled page is left as it is")
def planted_extension_on_a_new_page(first: bool, second: bool, third: bool, before: int, further: int) -> None:
    """Growth always begins on a new page."""
    assert 0 <= before <= 3 and 0 <= further <= 4
    before, further = plain(before, 3), plain(further, 4)

    def extend(pool: Pool, before: int, after: int, last: Slot) -> Any:
        return pools.extend(pool, 0, after - before, Slot(-1))

    assert _extends(extend, (first, second, third), before, further)


# Keys: any length


@lemma("TREE-01", "TREE-10", bounds="any key length; page size 1, 2, 64 or 100; bigram or not; both caps")
def a_match_is_capped_in_whole_pages(tokens: int, page_size: int, bigram: bool, capped: bool) -> None:
    """The cap is the most whole pages of the key's units, or of all but one of them."""
    assert tokens >= 0 and page_size in (1, 2, 64, 100)
    for size in (1, 2, 64, 100):
        if page_size == size:
            assert _capped(caches.match_limit, tokens, size, bigram, capped)


def _capped(limit: Callable[..., Pages], tokens: int, size: int, bigram: bool, capped: bool) -> bool:
    units = key_length(tokens, bigram)
    settings = caches.Settings(match_cap="len-1" if capped else "full")
    length = limit(settings, units, size) * size
    allowed = units - 1 if capped and units else units
    facts = {"match_length": length, "page_size": size, "match_cap": allowed}
    return keeps(facts, "TREE-01", "TREE-10") and allowed - length < size and length <= tokens


@lemma("TREE-10", bounds="a bigram key counts as many units as it has tokens")
def planted_bigram_counted_as_token(tokens: int, page_size: int, bigram: bool, capped: bool) -> None:
    """The length is taken from the tokens."""
    assert tokens >= 0 and page_size in (1, 2, 64, 100)
    assert _capped(lambda settings, _, size: caches.match_limit(settings, tokens, size), tokens, 2, bigram, capped)
