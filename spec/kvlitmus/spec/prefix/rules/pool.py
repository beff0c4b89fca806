"""Pools: who owns a slot.

A pool has a fixed number of pages.  At any moment each page has exactly one **home**: it is
*free*, it is *cached* (a tree refers to it), or it belongs to one *request* (or caller).
Allocation moves pages from free to a request; freeing moves them back; an insert moves them
into the tree; an eviction from the tree to the free list.  Nothing else moves a page.

Some pools keep a reserved page at the start as the target of padded writes; it has no home and
is never handed out.  Balanced sums are not enough: a page owned twice and a page owned by
nobody cancel out.  So the rules compare *sets*.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import spare_pages as _spare_pages  # noqa: F401 - its facts
from kvlitmus.spec.prefix.advance import extended_by, opened_by, opened_needed_by
from kvlitmus.spec.prefix.calls import (
    EXTENSIONS,
    Alloc,
    Begin,
    EndGroup,
    Evict,
    Extend,
    ExtendBatch,
    ExtendOne,
    Fork,
    Free,
    Grow,
    Publish,
    Resume,
    Slots,
)
from kvlitmus.spec.prefix.release import NONE, released
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tokens, continues_pages, page_floor, pages_of

ALLOCATIONS = (On.ALLOC, On.ALLOC_EXTEND, On.ALLOC_DECODE, On.EXTEND_BATCH)
TAKING = (On.ALLOC, On.BEGIN, On.GROW, On.FORK, On.RESUME)
"""What takes pages, to hand them out or for a request."""


@fact(0)
def asked(call: Alloc[Tokens] | Extend | ExtendBatch | Evict[Tokens]) -> Tokens:
    """How much the call asked for, in slots."""
    return call.asked


@fact(0)
def due_slots(asked: Tokens, setting: Setting) -> Tokens:
    """How many slots an allocation of so much hands out: whole pages, where the profile's ``align`` says ``round_up``."""
    return Tokens(-(-asked // setting.size) * setting.size) if setting.profile.align == "round_up" else asked


@fact(0)
def granted(answer: tuple[Slot, ...]) -> Sequence[Slot]:
    """The slots that the allocation handed out, in order."""
    return answer


@fact(0)
def granted_count(answer: tuple[Slot, ...]) -> Tokens:
    """How many slots the allocation handed out."""
    return Tokens(len(answer))


@fact(0)
def new_slots(answer: tuple[Slot, ...]) -> Sequence[Slot]:
    """The slots that the request got for further tokens."""
    return answer


@fact(0)
def row_before(state: State, call: Extend | ExtendOne | Grow | Publish) -> Sequence[Slot]:
    """The slots of the request before the call; of one in a batch only the last one counts, repeated."""
    if isinstance(call, ExtendOne):
        return (call.last,) * call.before
    return call.row if isinstance(call, Extend) else state.requests[call.rid].row


@fact(0)
def last_slot(row_before: Sequence[Slot]) -> Slot:
    """The slot of the request's last token before it grew."""
    return row_before[-1] if row_before else Slot(-1)


@fact(0)
def granted_pages(
    state: State,
    setting: Setting,
    call: Alloc[Tokens] | Extend | ExtendBatch | Begin | Grow | Fork | Resume,
    answer: Any,
) -> frozenset[PageNo]:
    """The pages that the granted slots lie in."""
    if isinstance(call, Alloc):
        return pages_of(answer, setting.size)
    if isinstance(call, Begin | Fork | Resume):
        return pages_of(answer.row[page_floor(answer.cached, setting.size) :], setting.size)
    if isinstance(call, EXTENSIONS):
        return extended_by(call, answer, setting)
    running = state.requests[call.rid]
    return opened_by(running.row, answer, setting) - running.spare


@fact(0)
def opened_needed(setting: Setting, call: Extend | ExtendBatch) -> int:
    """How many pages the further tokens need beyond the last page of each request."""
    return opened_needed_by(call, setting)


@fact(0)
def held_before(state: State, locked_before: frozenset[PageNo]) -> frozenset[PageNo]:
    """Pages known to be owned by a request or a caller, or cached under a lock, before the call."""
    return locked_before.union(state.owners)


@fact(0)
def freed_pages(setting: Setting, call: Free[Slots] | EndGroup) -> frozenset[PageNo]:
    """The pages that the call gave back."""
    return pages_of(call.slots, setting.size)


@fact(3)
def claimable(unlocked_count: Tokens, may_evict: bool) -> Tokens:
    """Units of cached pages that an allocation could evict, where the profile lets it (``evict_moment``)."""
    return unlocked_count if may_evict else Tokens(0)


@fact(0)
def numbered(setting: Setting) -> str:
    """Why the pages of the pool have the numbers that they have: what is reserved there."""
    if setting.config.pool == "host":
        return "nothing is, this configuration is a host pool, pages from 0"
    return "as the profile says"


def misplaced(
    usable: Collection[PageNo], homes: Mapping[str, Collection[PageNo]], excused: Collection[PageNo] = ()
) -> str:
    """In words which pages have no home, or two, or are no pages of the pool; ``excused``: those that need none."""
    where: dict[PageNo, list[str]] = {page: [] for page in usable}
    for home, pages in homes.items():
        for page in pages:
            where.setdefault(page, []).append(home)
    told = [
        f"page {page} is {' and '.join(found)}{'' if page in usable else ', and no page of the pool'}"
        if found
        else f"page {page} has no home"
        for page, found in sorted(where.items())
        if len(found) > 1 or page not in usable or not (found or page in excused)
    ]
    return ", ".join(told)


def one_home(
    usable: AbstractSet[PageNo], homes: Collection[Collection[PageNo]], waiting: AbstractSet[PageNo] = NONE
) -> bool:
    """Whether each page of a pool is in one of these homes, or waits, and none is in two."""
    housed: frozenset[PageNo] = frozenset().union(*homes)
    return sum(map(len, homes)) == len(housed) and housed <= usable <= housed | waiting


@fact(3)
def misplaced_on_host(setting: Setting, after: Seen) -> str:
    """In words which pages of the host have no home or two: each is free, in the tree, or with work in flight."""
    if not isinstance(after, TierSeen):
        return ""
    homes = {"free": after.host_free, "in the tree": after.host_listed, "in flight": after.moving}
    return "" if one_home(setting.host_usable, homes.values()) else misplaced(setting.host_usable, homes)


@fact(3)
def odd_homes(
    usable: frozenset[PageNo],
    free_after: frozenset[PageNo],
    cached_homes: Sequence[PageNo],
    owned_after: frozenset[PageNo],
    waiting_after: frozenset[PageNo],
    misplaced_on_host: str,
) -> str:
    """In words which pages have no home or two, for whoever reads of them."""
    homes = {"free": free_after, "cached": cached_homes, "owned": owned_after}
    told = [misplaced(usable, homes, waiting_after), misplaced_on_host and f"on the host {misplaced_on_host}"]
    return ", and ".join([one for one in told if one])


# Rules

alloc_rule = partial(rule, reference="prefix.perform.alloc")
home_rule = partial(rule, reference="prefix.perform.free_pages")
free_rule = partial(rule, reference="prefix.perform.free")
extend_rule = partial(rule, reference="prefix.perform.extend")


@alloc_rule(
    "POOL-01",
    on=(On.ALLOC,),
    source="R-DEV-01, R-DEV-09, R-HOST-02, R-HOST-03",
    allowed="{due_slots} slots, by the profile's align",
)
def an_allocation_hands_out_what_was_asked_for(due_slots: Tokens, granted_count: Tokens) -> bool:
    """A successful allocation MUST hand out exactly as many slots as were asked for, rounded up to whole pages where the profile says so; a size is never silently rounded down."""
    return granted_count == due_slots


@alloc_rule(
    "POOL-02",
    on=(On.ALLOC,),
    source="R-DEV-01, R-HOST-04",
    allowed="runs of {page_size} consecutive slots, each beginning at a multiple of {page_size}",
    premise="granted",
)
def an_allocation_is_made_of_whole_pages(granted: Sequence[Slot], page_size: int) -> bool:
    """An allocation MUST consist of whole pages: runs of consecutive slots, each beginning at a multiple of the page size."""
    if page_size == 1:
        return True
    if len(granted) % page_size:
        return False
    return all(
        granted[start] % page_size == 0 and granted[start + offset] == granted[start] + offset
        for start in range(0, len(granted), page_size)
        for offset in range(page_size)
    )


@alloc_rule("POOL-03", on=ALLOCATIONS, source="R-DEV-01, R-HOST-03")
def an_allocation_names_no_slot_twice(granted: Sequence[Slot]) -> bool:
    """The slots of an allocation MUST be distinct."""
    return len(set(granted)) == len(granted)


@alloc_rule(
    "POOL-04",
    on=(On.ALLOC,),
    source="R-DEV-01, R-HOST-03, R-LK-01, R-MA-04",
    allowed="pages other than {held_before}",
    premise="held_before",
)
def an_allocation_takes_nothing_that_somebody_holds(
    granted_pages: frozenset[PageNo], held_before: frozenset[PageNo]
) -> bool:
    """An allocation MUST NOT hand out a page that a request or caller owns or a lock protects."""
    return granted_pages.isdisjoint(held_before)


@alloc_rule(
    "POOL-05",
    on=TAKING,
    source="R-DEV-01, R-DEV-05; sglang#27731",
    allowed="pages of the free list: {free_before}",
    premise="granted_pages",
)
def what_is_taken_comes_from_the_free_list(
    granted_pages: frozenset[PageNo],
    free_before: frozenset[PageNo],
    cached_before: Mapping[Name, PageNo],
    vanished: frozenset[Name],
) -> bool:
    """The pages that an allocation hands out, or that a request opens, MUST have been free, or been evicted to make room for it."""
    return granted_pages <= free_before | {cached_before[name] for name in vanished}


@home_rule(
    "POOL-06",
    on=ALLOCATIONS,
    source="R-DEV-02",
    allowed="pages {usable}; reserved: {numbered}",
    premise="granted_pages",
)
def an_allocation_stays_within_the_usable_pages(granted_pages: frozenset[PageNo], usable: frozenset[PageNo]) -> bool:
    """An allocation MUST stay within the usable pages: never the reserved page, never beyond the pool's end."""
    return granted_pages <= usable


@alloc_rule(
    "POOL-07",
    on=(On.REFUSED_ALLOC,),
    source="R-DEV-01, R-DEV-03",
    allowed="an allocation of {asked} slots, since {available_least} were available",
)
def an_allocation_is_refused_only_when_memory_is_short(asked: Tokens, available_least: Tokens) -> bool:
    """An allocation MUST NOT be refused while the pool says that enough is available, or enough is neither owned nor may be cached."""
    return asked > available_least


@alloc_rule(
    "POOL-08",
    on=(On.REFUSED_ALLOC, On.REFUSED_EXTEND),
    source="R-DEV-03, R-HOST-03, vllm#11565",
    allowed="{available_before} slots available as before, or more where the profile's evict_moment is alloc",
)
def a_refused_allocation_changes_nothing(available_before: Tokens, available_after: Tokens, may_evict: bool) -> bool:
    """A refused allocation MUST leave as much available as before; more only where the profile lets it evict."""
    return available_before <= available_after and (may_evict or available_before == available_after)


@free_rule(
    "POOL-09",
    on=(On.FREE,),
    source="R-DEV-04, R-DEV-07",
    allowed="the free list grown by exactly {freed_pages}, by the profile's release_delay",
    premise="freed_pages",
)
def freeing_returns_exactly_the_pages_touched(
    freed_pages: frozenset[PageNo],
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    waiting_before: frozenset[PageNo],
    waiting_after: frozenset[PageNo],
) -> bool:
    """Freeing slots MUST put exactly the pages that they lie in on the free list, or into the release queue that the profile declares, from which earlier ones may come."""
    return released(free_before, freed_pages, free_after, waiting_before, waiting_after)


@free_rule(
    "POOL-10",
    on=(On.FREE,),
    source="R-DEV-04",
    allowed="{available_before} + {page_size} × {freed_pages} slots available, by the profile's release_delay",
    premise="freed_pages",
)
def freeing_makes_the_pages_available(
    freed_pages: frozenset[PageNo],
    available_before: Tokens,
    available_after: Tokens,
    page_size: int,
    waiting_before: frozenset[PageNo],
    waiting_after: frozenset[PageNo],
) -> bool:
    """After a free the pool MUST have that many more slots available; a release queue may keep them, and give earlier ones."""
    least = len(freed_pages - waiting_after) * page_size
    most = len(freed_pages | waiting_before) * page_size
    return least <= available_after - available_before <= most


@home_rule("POOL-11", source="R-DEV-08, R-HOST-06")
def the_free_list_repeats_nothing(free_listed: Sequence[PageNo], free_after: frozenset[PageNo]) -> bool:
    """The free list MUST NOT contain a page twice."""
    return len(free_listed) == len(free_after)


@home_rule(
    "POOL-12",
    source="R-DEV-04, R-HOST-07, R-LIFE-04, R-PFC-02, R-TR-09, R-WB-06; map §2.2, I1, sglang#27731",
    allowed="each of {usable} in exactly one of: free, cached, owned by a request or caller; here {odd_homes}",
)
def every_page_has_exactly_one_home(
    usable: frozenset[PageNo],
    free_after: frozenset[PageNo],
    cached_homes: Sequence[PageNo],
    owned_after: frozenset[PageNo],
    waiting_after: frozenset[PageNo],
    misplaced_on_host: str,
) -> bool:
    """After every call each usable page MUST be in exactly one home: free, cached, owned by one request or caller, or
    waiting to be free no longer than the profile declares. Of the host, what work in flight holds is a home too. Where
    free pages can be found, what nobody holds MUST be free.
    """
    return one_home(usable, (free_after, cached_homes, owned_after), waiting_after) and not misplaced_on_host


@rule("POOL-13", source="R-DEV-04", reference="prefix.perform.available")
def the_pool_counts_its_free_list(
    available_after: Tokens, free_listed: Sequence[PageNo], page_size: int, claimable: Tokens
) -> bool:
    """What the pool says is available MUST be what its free list holds; where the profile lets allocations evict, what they could evict may be counted too."""
    return 0 <= available_after - len(free_listed) * page_size <= claimable


@home_rule(
    "POOL-14",
    needs=("counters",),
    source="R-DEV-04, R-LK-02; sglang#27731",
    allowed="available + evictable + protected + owned = {capacity}; where the profile's evict_moment is alloc, available may include evictable; a release queue may hold {waiting_after}, and requests {spares_unseen} spare pages, by the profile's spare_pages",
)
def the_counters_add_up(
    available_after: Tokens,
    evictable: Tokens,
    protected: Tokens,
    owned_slots: Tokens,
    capacity: Tokens,
    may_evict: bool,
    waiting_after: frozenset[PageNo],
    spares_unseen: int,
    page_size: int,
) -> bool:
    """What is available, evictable, protected and owned MUST add up to the capacity after every call, but for what waits in a release queue or is spare. Where the profile lets allocations evict, what is evictable may count as available too."""
    beyond = available_after + evictable + protected + owned_slots - capacity
    return -(len(waiting_after) + spares_unseen) * page_size <= beyond <= (evictable if may_evict else 0)


@home_rule("POOL-15", source="R-DEV-08; sglang#27731, sglang#38941")
def no_two_requests_own_one_page(owned_twice: frozenset[PageNo]) -> bool:
    """Two requests or callers MUST NOT own the same page."""
    return not owned_twice


@home_rule("POOL-16", on=(On.RESET,), source="R-DEV-11", allowed="all of {usable} free and nothing cached")
def a_reset_restores_the_initial_state(
    usable: frozenset[PageNo], free_after: frozenset[PageNo], cached_after: Mapping[Name, PageNo]
) -> bool:
    """A reset MUST free every page and forget everything that was cached."""
    return free_after == usable and not cached_after


@extend_rule(
    "POOL-17",
    on=(On.ALLOC_EXTEND, On.ALLOC_DECODE, On.EXTEND_ONE, On.GROW),
    source="R-DEV-05, R-DEV-06; sglang#31616, sglang#27731",
    allowed="the rest of the last page after slot {last_slot}, then whole new pages in order",
)
def an_extension_fills_the_last_page_first(
    last_slot: Slot, new_slots: Sequence[Slot], row_before: Sequence[Slot], page_size: int
) -> bool:
    """An extending allocation, or a request that grows, MUST continue the last page slot by slot, and then use new pages from their first slot on."""
    return continues_pages(len(row_before), last_slot, new_slots, page_size)


@extend_rule(
    "POOL-18",
    on=(On.ALLOC_EXTEND, On.ALLOC_DECODE, On.EXTEND_BATCH),
    source="R-DEV-05, R-DEV-06; sglang#27731",
    allowed="{asked} slots in {opened_needed} new pages that nobody holds",
)
def an_extension_opens_no_more_pages_than_it_needs(
    asked: Tokens,
    new_slots: Sequence[Slot],
    granted_pages: frozenset[PageNo],
    opened_needed: int,
    held_before: frozenset[PageNo],
) -> bool:
    """An extending allocation MUST hand out exactly the slots asked for, opening as many new pages as they need and none that somebody holds."""
    return len(new_slots) == asked and len(granted_pages) == opened_needed and granted_pages.isdisjoint(held_before)


@free_rule(
    "POOL-19", on=(On.GROUP_OPEN,), source="R-DEV-06", allowed="{available_before} slots available until the group ends"
)
def frees_in_a_group_wait_for_its_end(available_before: Tokens, available_after: Tokens) -> bool:
    """What is freed within a group MUST become available at the group's end, not before."""
    return available_before == available_after


@alloc_rule(
    "POOL-20",
    on=(*ALLOCATIONS, On.REFUSED_ALLOC, On.REFUSED_EXTEND),
    source="R-EV-01, R-PF-09",
    allowed="nothing evicted: {vanished} still cached, unless the profile's evict_moment is alloc",
    premise="cached_before",
)
def an_allocation_evicts_only_where_it_is_declared(vanished: frozenset[Name], may_evict: bool) -> bool:
    """An allocation MUST NOT evict anything, unless the profile says that eviction happens inside allocations."""
    return may_evict or not vanished


@extend_rule(
    "POOL-21",
    on=(On.REFUSED_EXTEND,),
    source="R-DEV-01, R-DEV-05; vllm#11565",
    allowed="{opened_needed} pages opened, since {available_before} slots were available",
)
def an_extension_is_refused_only_when_memory_is_short(
    opened_needed: int, available_before: Tokens, page_size: int
) -> bool:
    """An extending allocation MUST NOT be refused while the pool says that the pages that it has to open are available."""
    return opened_needed * page_size > available_before


@home_rule("POOL-22", on=(On.RESET,), source="R-DEV-11", allowed="all {capacity} slots available")
def a_reset_makes_everything_available(available_after: Tokens, capacity: Tokens) -> bool:
    """After a reset the pool MUST have everything available."""
    return available_after == capacity
