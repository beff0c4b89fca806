"""What is proven of pool, tree, locks, eviction and requests, as functions that CrossHair reads.

Each function begins with its assumptions and ends with its claim: that the rules it declares hold
of a transition of the reference, with facts worked out as for any cache (``support/steps.py``).
The trees and pools are small, and every number in them (ticks, hit counts, priorities, lock
counts, sizes asked for) is any integer, so that what the exhaustive enumeration must take as ranks
and saturated counts is proven here for all values.

A lemma of the table :data:`LEMMAS` declares the rules it establishes and its bounds.  Each has
a planted slip beside it, which must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from kvlitmus.reference import cache as caches
from kvlitmus.reference import pool as pools
from kvlitmus.reference.cache import Cache
from kvlitmus.reference.pool import Pool
from kvlitmus.reference.tree import empty_tree
from kvlitmus.spec.calls import Alloc, EndGroup, Extend, Free, FreeInGroup, Match, Path
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.misuse_calls import Aftermath, DoubleFree, RepeatedFree
from kvlitmus.spec.seen import Seen
from kvlitmus.spec.units import PageNo, Pages, Slot, Tokens, key_length, pages_needed
from tests.proofs.support.steps import NO_KEY, ROOT, Step, claim, keeps, known, seen, setting_of

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


# Pool: three pages, any of them free; the page size is 1 or 2; the size asked for is any integer

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


ALLOCATED = claim(
    "POOL-01",
    "POOL-02",
    "POOL-03",
    "POOL-04",
    "POOL-05",
    "POOL-06",
    "POOL-11",
    "POOL-12",
    "POOL-13",
    "POOL-15",
    "POOL-20",
    on=("alloc",),
)
REFUSED = claim("POOL-07", "POOL-08", "POOL-12", "POOL-20", on=("refused_alloc",))
SETTINGS = {size: setting_of(size) for size in SIZES}


def alone(pool: Pool) -> Cache:
    """A cache of this pool in which nothing is cached."""
    return Cache(pool, empty_tree(), {}, caches.Settings())


def shown(pool: Pool) -> Seen:
    """What is seen of such a cache."""
    return seen(alone(pool))


def _allocates(allocate: Callable[[Pool, Tokens], Any], free: tuple[bool, bool, bool], size: int, asked: int) -> bool:
    pool = small_pool(free, size)
    taken = allocate(pool, Tokens(asked))
    after = pool if taken is None else taken[0]
    answer = None if taken is None else pools.slots_of(taken[1], size)
    step = Step(SETTINGS[size], known(alone(pool)), shown(pool), Alloc(Tokens(asked)), answer, shown(after))
    if taken is None:
        return keeps(step, REFUSED)
    return keeps(step, ALLOCATED) and after.free == pool.free - frozenset(taken[1])


@lemma(*ALLOCATED.rules, *REFUSED.rules[:2], bounds="3 pages, any free; page size 1 or 2; any size asked for")
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


RELEASED = claim("POOL-09", "POOL-10", "POOL-11", "POOL-12", "POOL-13", on=("free",))
FREED_AGAIN = claim("MISUSE-01", "MISUSE-02", on=("misuse", "double_free"))
FREED_TWICE = claim("MISUSE-02", "MISUSE-03", on=("misuse", "repeated_free"))
REJECTING = setting_of(1, misuse="reject")


def _releases(
    release: Callable[[Pool, Sequence[PageNo]], Pool], free: tuple[bool, bool, bool], one: int, other: int
) -> bool:
    pool = small_pool(free, 1)
    given = (PageNo(one), PageNo(other))
    slots = slots_of_size_1(given)
    raised, after = False, pool
    try:
        after = release(pool, given)
    except ValueError:
        raised = True
    if one != other and all(page in pool.usable and page not in pool.free for page in given):
        step = Step(SETTINGS[1], known(alone(pool)), shown(pool), Free(slots), None, shown(after))
        return not raised and keeps(step, RELEASED)
    call = RepeatedFree(slots[:1]) if one == other else DoubleFree(slots)
    step = Step(REJECTING, known(alone(pool)), shown(pool), call, aftermath(after, raised), shown(after))
    return keeps(step, FREED_TWICE if one == other else FREED_AGAIN) and after == pool


def aftermath(pool: Pool, raised: bool) -> Aftermath:
    """Everything is allocated after misuse, page by page."""
    grants: list[tuple[Slot, ...]] = []
    while taken := pools.allocate(pool, Tokens(pool.page_size)):
        pool, pages = taken
        grants.append(pools.slots_of(pages, pool.page_size))
    return Aftermath(raised, True, tuple(grants), True)


def slots_of_size_1(pages: Sequence[PageNo]) -> tuple[Slot, ...]:
    """The slots of pages that have one each."""
    return tuple(map(Slot, pages))


@lemma(
    *RELEASED.rules,
    *FREED_AGAIN.rules,
    *FREED_TWICE.rules[1:],
    bounds="3 pages, any free; any two of pages 0 to 4 are given back in one call",
)
def a_release_keeps_every_rule(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """What is lawful is taken back, and what isn't is refused."""
    assert 0 <= one <= 4 and 0 <= other <= 4
    assert _releases(pools.release, (first, second, third), plain(one, 4), plain(other, 4))


@lemma("MISUSE-02", bounds="a page that is named twice is not noticed")
def planted_release_of_a_page_named_twice(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """The pages are made a set before anybody looks."""
    assert 0 <= one <= 4 and 0 <= other <= 4
    free = (first, second, third)
    assert _releases(lambda pool, pages: pools.release(pool, frozenset(pages)), free, plain(one, 4), plain(other, 4))


WAITING = claim("POOL-19", on=("group_open",))


def _groups(
    end_early: Callable[[Pool], Pool], first: bool, second: bool, third: bool, one: int, other: int
) -> tuple[bool, Step]:
    """Two pages are given back in one group: whether they wait, and the step of the group's end."""
    one, other = plain(one, 3), plain(other, 3)
    pool = small_pool(
        (first and 1 not in (one, other), second and 2 not in (one, other), third and 3 not in (one, other)), 1
    )
    given = slots_of_size_1((PageNo(one), PageNo(other)))
    opened = end_early(pools.release(pools.open_group(pool), [PageNo(one)]))
    opened = pools.release(opened, [PageNo(other)])
    state = known(alone(pool))
    waits = Step(SETTINGS[1], state, shown(pool), FreeInGroup(given), None, shown(opened))
    ended = Step(SETTINGS[1], state, shown(pool), EndGroup(given), None, shown(pools.close_group(opened)))
    return keeps(waits, WAITING), ended


@lemma(*WAITING.rules, *RELEASED.rules, bounds="3 pages, any free; any two pages are given back in one group")
def a_group_of_frees_waits_for_its_end(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """Within the group nothing becomes available, at its end everything."""
    assert 1 <= one <= 3 and 1 <= other <= 3 and one != other
    waits, ended = _groups(lambda pool: pool, first, second, third, one, other)
    assert waits and keeps(ended, RELEASED)


@lemma("POOL-19", bounds="the second free of a group takes effect at once")
def planted_group_of_one(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """The group ends with the first free."""
    assert 1 <= one <= 3 and 1 <= other <= 3 and one != other
    assert _groups(pools.close_group, first, second, third, one, other)[0]


ROWS: tuple[tuple[Slot, ...], ...] = tuple(tuple(map(Slot, row)) for row in ((), (8,), (8, 9), (10, 11, 8)))
"""The slots of a request by its tokens: its last page is page 4, the one before page 5."""

EXTENDED = claim("POOL-03", "POOL-06", "POOL-11", "POOL-13", "POOL-17", "POOL-18", "POOL-20", on=("alloc_extend",))
NOT_EXTENDED = claim("POOL-08", "POOL-20", on=("refused_extend",))
FIVE_PAGES = setting_of(2, pages=5)


def _extends(extend: Callable[..., Any], free: tuple[bool, bool, bool], before: int, further: int) -> bool:
    """A request of ``before`` tokens grows."""
    pool = small_pool(free, 2)._replace(usable=frozenset(map(PageNo, range(1, 6))))
    row = ROWS[before]
    extended = extend(pool, before, before + further, row[-1] if row else Slot(-1))
    after, answer = (pool, None) if extended is None else extended
    call = Extend(row, Tokens(further))
    step = Step(FIVE_PAGES, known(alone(pool)), shown(pool), call, answer, shown(after))
    if answer is None:
        needed = pages_needed(before + further, 2) - pages_needed(before, 2)
        return needed > len(pool.free) and keeps(step, NOT_EXTENDED)
    return keeps(step, EXTENDED)


@lemma(
    *EXTENDED.rules,
    "POOL-08",
    bounds="5 pages of 2 slots, 3 of them free or not; up to 3 tokens before, up to 4 further ones",
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

WHOLE_PAGES = claim("TREE-01", "TREE-10", on=("match",))
CAPPED = {
    (size, capped): setting_of(size, match_cap="len-1" if capped else "full")
    for size in (1, 2, 64, 100)
    for capped in (False, True)
}


@lemma(*WHOLE_PAGES.rules, bounds="any key length; page size 1, 2, 64 or 100; bigram or not; both caps")
def a_match_is_capped_in_whole_pages(tokens: int, page_size: int, bigram: bool, capped: bool) -> None:
    """The cap is the most whole pages of the key's units, or of all but one of them."""
    assert tokens >= 0 and page_size in (1, 2, 64, 100)
    for size in (1, 2, 64, 100):
        if page_size == size:
            assert _capped(caches.match_limit, tokens, size, bigram, capped)


def _capped(limit: Callable[..., Pages], tokens: int, size: int, bigram: bool, capped: bool) -> bool:
    """The reference's limit against the judge's; and in words of its own: no page less than what is allowed."""
    units = key_length(tokens, bigram)
    settings = caches.Settings(match_cap="len-1" if capped else "full")
    length = limit(settings, units, size) * size
    names: Any = range(units)
    cache = alone(small_pool((False, False, False), size))
    setting = CAPPED[size, bool(capped)]
    now = seen(cache)
    step = Step(setting, known(cache), now, Match(Path(NO_KEY, ROOT, names, (), names)), Hit(length), now)
    allowed = units - 1 if capped and units else units
    return keeps(step, WHOLE_PAGES) and length <= allowed < length + size and length <= tokens


@lemma("TREE-10", bounds="a bigram key counts as many units as it has tokens")
def planted_bigram_counted_as_token(tokens: int, page_size: int, bigram: bool, capped: bool) -> None:
    """The length is taken from the tokens."""
    assert tokens >= 0 and page_size in (1, 2, 64, 100)
    assert _capped(lambda settings, _, size: caches.match_limit(settings, tokens, size), tokens, 2, bigram, capped)
