"""Without a snapshot: what answers and counters say of what a snapshot would show.

What is cached is then known as far as evictions can be told (:mod:`kvlitmus.spec.prefix.partial`): which pages went follows from the
policy and from how many went, and that from what was reported, or from what the pool says is available.  These rules hold
what is found against it.  A snapshot says all of it, and more, by other rules; where there is one these aren't judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import late_locks as _late_locks  # noqa: F401 - its facts
from kvlitmus.spec.prefix.advance import duplicate_pages, inserted_already, opened_by
from kvlitmus.spec.prefix.calls import Begin, Evict, Fork, Grow, Insert, Match, Resume
from kvlitmus.spec.prefix.page import Tier
from kvlitmus.spec.prefix.partial import beyond, cached_count, cached_pages, most_evicted
from kvlitmus.spec.prefix.rules import evict as _evict  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import tree as _tree  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules.request import REFUSED
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import counted_tree
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens, page_floor, pages_needed, pages_of

FOUND = (On.MATCH, On.BEGIN, On.RESUME, On.INSERT, On.LOCK, On.PUBLISH)
TOLD = (On.EVICT, *REFUSED, On.REFUSED_ALLOC, On.REFUSED_EXTEND)
HANDED_OUT = (On.GROW, On.FORK, On.ALLOC, On.ALLOC_EXTEND, On.ALLOC_DECODE, On.EXTEND_BATCH)


@fact(0, unseen=True)
def unexplained(setting: Setting, then: State) -> Sequence[Name] | Unknown:
    """Pages that the call showed to be there, or gone, as no eviction in the policy's order can have left them."""
    return UNKNOWN if setting.bare else then.device.doubt.odd


@fact(0, unseen=True)
def evictable_pages(setting: Setting, state: State, late_before: Mapping[Name, int]) -> tuple[int, int] | Unknown:
    """How many cached pages nothing protects, before the call: certainly, and possibly.

    Under write-back a page without a host copy goes only if the host has room for one, so that none is certain to go.
    """
    if setting.config.tiered and state.tiers is None:
        return UNKNOWN
    (sure, possible), protected = cached_pages(state), protected_pages(state.device)
    late = sum(not state.device.pages[name].locks for name in late_before)
    return 0 if setting.config.write == WRITE_BACK else sure - protected - late, possible - protected


@fact(0)
def evictable_least(setting: Setting, evictable_pages: tuple[int, int]) -> Tokens:
    """Slots of the cached pages that nothing protects, before the call: those that are certainly there."""
    return Tokens(evictable_pages[0] * setting.size)


@fact(0)
def evicted_most(setting: Setting, state: State, call: Evict[Tokens], evictable_pages: tuple[int, int]) -> Tokens:
    """The most slots that the eviction may free: what was asked for, in whole pages, batches or nodes, of what may be there."""
    asked = setting.in_batches(pages_needed(call.asked, setting.size))
    most = asked + beyond(state, setting) if asked else 0
    return Tokens(min(most, evictable_pages[1]) * setting.size)


@fact(0, unseen=True)
def protected_length(setting: Setting, state: State, call: Match | Begin, match_cap: Tokens) -> Tokens | Unknown:
    """Units of the key that receipts and running requests protect, before the call."""
    if setting.profile.match_ends == "node":
        return UNKNOWN
    pages, length = state.device.pages, 0
    for name in call.path.pages:
        if name not in pages or not pages[name].locks:
            break
        length += setting.size
    return Tokens(min(length, page_floor(match_cap, setting.size)))


@fact(1, unseen=True)
def cached_least(then: State) -> int:
    """How many pages are certainly cached, after the call."""
    return cached_pages(then)[0]


@fact(1, unseen=True)
def cached_most(then: State) -> int:
    """How many pages are possibly cached, after the call."""
    return cached_pages(then)[1]


@fact(1, ports=("pool",), unseen=True)
def neither_free_nor_owned(setting: Setting, then: State, after: Seen) -> int | Unknown:
    """How many pages are neither available nor owned by requests and callers, after the call."""
    count = cached_count(then, setting, after)
    return UNKNOWN if count is None else count


@fact(0, unseen=True)
def may_become_free(
    setting: Setting,
    state: State,
    call: PlainCall,
    answer: Any,
    waiting_before: frozenset[PageNo],
    waiting_after: frozenset[PageNo],
) -> tuple[Tokens, Tokens]:
    """How many slots a call that takes nothing makes free, at least and at most: what is old, or duplicates."""
    if isinstance(call, Insert) and setting.profile.duplicates == "cache_frees":
        twice = frozenset(duplicate_pages(state, setting, call, inserted_already(state, setting, call, answer)))
        most = twice | waiting_before if twice else twice
        return Tokens(len(twice - waiting_after) * setting.size), Tokens(len(most) * setting.size)
    old = len(state.device.pages) - protected_pages(state.device) if setting.expires and isinstance(call, Match) else 0
    return Tokens(0), Tokens(old * setting.size)


@fact(1, ports=("pool",), unseen=True)
def made_available(setting: Setting, available_before: Tokens, available_after: Tokens) -> Tokens | Unknown:
    """How many slots more are available after the call than before it."""
    if setting.config.tiered or setting.profile.evict_moment != "call":
        return UNKNOWN
    return Tokens(available_after - available_before)


@fact(1, ports=("pool",), unseen=True)
def evicted_unseen(
    setting: Setting, state: State, then: State, call: Begin | Grow | Fork | Resume, before: Seen, after: Seen
) -> int | Unknown:
    """How many pages fewer are cached after the call than before it, by what is available and owned; not where some may have expired."""
    if setting.expires and isinstance(call, Begin):
        return UNKNOWN
    was, now = cached_count(state, setting, before), cached_count(then, setting, after)
    return UNKNOWN if was is None or now is None else was - now


@fact(1, ports=("pool",), unseen=True)
def room_most(setting: Setting, state: State, call: Begin | Grow | Fork | Resume, answer: object, before: Seen) -> int:
    """How many pages may be evicted at most for the pages that the request opens."""
    assert before.available is not None
    needed = opened_for(setting, state, call, answer)
    return most_evicted(state, setting, needed - before.available // setting.size, needed)


@fact(1, unseen=True)
def counted_protected(setting: Setting, then: State) -> Tokens | Unknown:
    """Units of the cached pages that receipts, running requests and copies under way protect, after the call; copies left out, where they protect apart."""
    if setting.config.tiered and then.tiers is None:
        return UNKNOWN
    return Tokens(protected_pages(counted_tree(then.device, then.tiers, setting)) * setting.size)


def protected_pages(tree: Tier) -> int:
    """How many cached pages something protects."""
    return sum([1 for page in tree.pages.values() if page.locks])


def opened_for(setting: Setting, state: State, call: Begin | Grow | Fork | Resume, answer: object) -> int:
    """How many pages a request opened."""
    if isinstance(call, Begin | Fork | Resume):
        row, cached = answer.row, answer.cached  # type: ignore[attr-defined]
        return len(pages_of(row[page_floor(cached, setting.size) :], setting.size))
    return len(opened_by(state.requests[call.rid].row, answer, setting))  # type: ignore[arg-type]


# Rules


@rule(
    "EVICT-20",
    on=FOUND + HANDED_OUT + TOLD,
    source="R-EV-01, R-EV-03, R-EV-04; sglang#4989",
    reference="prefix.perform.least_valuable",
    allowed="pages there or gone as evictions in the policy's order leave them",
)
def what_is_found_is_what_evictions_can_have_left(unexplained: Sequence[Name]) -> bool:
    """A page that is found, missed, told of or handed out anew MUST be one that evictions in the policy's order, of as much as was needed or reported, can have left or taken."""
    return not unexplained


@rule(
    "EVICT-21",
    on=(On.EVICT,),
    source="R-EV-01, R-EV-04; sglang#4989, sglang#5499",
    reference="prefix.perform.least_valuable",
    allowed="at least min({asked}, {evictable_least}) slots, and at most {evicted_most}",
)
def an_eviction_reports_what_can_have_been_evicted(
    asked: Tokens, told_units: Tokens, evictable_least: Tokens, evicted_most: Tokens
) -> bool:
    """An eviction MUST report at least what was asked for, or all that is certainly there and not protected; and no more than what was asked for in whole pages, batches or nodes, of what may be there."""
    return min(asked, evictable_least) <= told_units <= evicted_most


@rule(
    "EVICT-23",
    on=(On.BEGIN, On.GROW, On.FORK, On.RESUME),
    source="R-EV-04; sglang#4989",
    reference="prefix.perform.begin",
    allowed="at most {room_most} pages evicted",
)
def a_request_evicts_no_more_than_it_lacks(evicted_unseen: int, room_most: int) -> bool:
    """A request that begins, grows, is forked or resumed MUST NOT evict more pages than it lacks, beyond what the profile says is taken ahead."""
    return 0 <= evicted_unseen <= room_most


@rule(
    "EVICT-24",
    on=(On.ALLOC,),
    source="R-EV-01, R-PF-09",
    reference="prefix.perform.alloc",
    allowed="what is available less by the {page_size} slots of each of {granted_pages}",
)
def an_allocation_takes_from_what_is_available(
    granted_pages: frozenset[PageNo], made_available: Tokens, page_size: int
) -> bool:
    """An allocation MUST make less available by exactly the pages that it hands out: it evicts nothing, unless the profile says that it may."""
    return made_available == -len(granted_pages) * page_size


@rule(
    "TREE-19",
    source="R-DEV-04, R-HOST-07, R-TR-09; sglang#27731",
    reference="prefix.perform.free_pages",
    allowed="{cached_least} to {cached_most} pages neither available nor owned",
)
def what_is_neither_free_nor_owned_is_cached(neither_free_nor_owned: int, cached_least: int, cached_most: int) -> bool:
    """As many pages as are neither available nor owned by requests and callers MUST be cached."""
    return cached_least <= neither_free_nor_owned <= cached_most


@rule(
    "TREE-20",
    on=(On.MATCH, On.BEGIN),
    needs=("tree",),
    source="R-LK-01, R-EV-01; LMCache#993",
    reference="prefix.perform.match",
    allowed="at least {protected_length} units",
)
def what_is_protected_is_found(match_length: Tokens, protected_length: Tokens) -> bool:
    """A match MUST cover what receipts and running requests protect of the key."""
    return match_length >= protected_length


@rule(
    "TREE-22",
    on=(On.MATCH, On.LOCK, On.UNLOCK, On.INSERT),
    source="R-TR-04, R-TR-06, R-TR-09, R-LK-04",
    reference="prefix.perform.match",
    allowed="from {may_become_free} slots more available, by the profile's expiry and duplicates",
)
def looking_locking_and_inserting_leave_the_pool_alone(
    made_available: Tokens, may_become_free: tuple[Tokens, Tokens]
) -> bool:
    """A match, a lock, an unlock or an insert MUST NOT change what is available, but for what the profile lets expire,
    or the cache free of duplicates.
    """
    return may_become_free[0] <= made_available <= may_become_free[1]


@rule(
    "TREE-23",
    on=REFUSED,
    source="R-DEV-03; vllm#11565",
    reference="prefix.perform.begin",
    allowed="at least as much available as before",
)
def a_refused_request_keeps_nothing(made_available: Tokens) -> bool:
    """A request that can't begin, grow, be forked or resumed for want of memory MUST leave at least as much available as before."""
    return made_available >= 0


@rule(
    "TREE-24",
    needs=("counters",),
    source="R-LK-02; sglang#10637, mllm#656",
    reference="prefix.perform.sizes",
    allowed="protected {counted_protected}, by the profile's unlock_delay",
)
def what_is_protected_is_counted(protected: Tokens, counted_protected: Tokens, late_count: Tokens) -> bool:
    """The tree's counter of protected units MUST equal what receipts, running requests and, unless the profile says that these protect apart, copies under way protect. Where the profile has an unlock_delay, it may be more by what was given back."""
    return counted_protected <= protected <= counted_protected + late_count
