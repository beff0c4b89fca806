"""Tiers: where a page is, when there is host memory below the device.

A cached page is on the **device**, on the **host**, or on both.  Only what is on the device can be
used by a request; what is on the host can be brought back.  An eviction of the device leaves the
host copy (the page is *demoted*); an eviction of the host forgets pages that are nowhere else.

Each page of the host pool is at home in exactly one place: on the free list, under one page of the
tree, or in the hands of work in flight (reserved by a prefetch, waiting to be released).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvlitmus.spec.interface import Hit
from kvlitmus.spec.interface.tiers import BACKUP, LOAD
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.prefix.calls import Match
from kvlitmus.spec.prefix.evictable import droppable
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.partial import run_of
from kvlitmus.spec.prefix.rules import below as _below  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import Held, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import COPIES, Tiers, more_available
from kvlitmus.spec.prefix.work_calls import EvictHost, PlainCall
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens, pages_needed


@fact(0)
def host_hit(answer: Hit) -> Tokens | Unknown:
    """Units that a match reports as cached on the host alone."""
    return UNKNOWN if answer.host is None else Tokens(answer.host)


@fact(0, ports=("tiers",))
def host_hit_certain(state: State, setting: Setting, call: Match, answer: Hit) -> Tokens | Unknown:
    """Units of the key that are cached on the host alone, directly behind those on the device."""
    path, size = call.path, setting.size
    at = answer.length // size
    sure, possible = run_of(path.pages[at : setting.cap(len(path.names)) // size], state.host)
    return Tokens(sure * size) if sure == possible else UNKNOWN


@fact(0)
def host_asked(call: EvictHost[int]) -> Tokens:
    """Slots of host memory that an eviction of the host asked for."""
    return Tokens(call.asked)


@fact(1, ports=("host",))
def host_available(tiers_seen: TierSeen) -> Tokens | Unknown:
    """Slots that the host pool says it could hand out, after the call; unknown where it doesn't say so."""
    return UNKNOWN if tiers_seen.host_available is None else Tokens(tiers_seen.host_available)


@fact(1)
def host_reported(answer: int | None) -> Tokens | Unknown:
    """Slots that an eviction of the host says it dropped."""
    return UNKNOWN if answer is None else Tokens(answer)


@fact(1)
def host_freed(setting: Setting, tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Tokens | Unknown:
    """Slots of the host that are free after the call and were not before it."""
    if not setting.seen:
        return more_available(tiers_seen_before, tiers_seen)
    return Tokens((len(tiers_seen.host_free) - len(frozenset(tiers_seen_before.host_free))) * setting.size)


@fact(1)
def host_dropped(setting: Setting, tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Tokens | Unknown:
    """Slots of the host copies that are gone after the call."""
    if not setting.seen:
        return more_available(tiers_seen_before, tiers_seen)
    return Tokens(len(tiers_seen_before.hosted.keys() - tiers_seen.hosted.keys()) * setting.size)


@fact(1)
def host_evicted(answer: int | None, host_dropped: Tokens) -> Tokens:
    """Slots that an eviction of the host has dropped, by what is gone and by what it says, if it does: the least of both."""
    return host_dropped if answer is None else Tokens(min(answer, host_dropped))


@fact(0)
def host_evicted_most(setting: Setting, call: EvictHost[int]) -> Tokens:
    """The most slots that it may drop: what was asked for, in whole pages or batches; where whole nodes go, any number."""
    if setting.profile.evict_granularity == "node":
        return Tokens(setting.config.host_pages * setting.size)
    return Tokens(setting.in_batches(pages_needed(call.asked, setting.size)) * setting.size)


@fact(1)
def host_droppable(state: State, below_before: Tiers, tiers_seen_before: TierSeen, setting: Setting) -> Tokens:
    """Slots of pages that an eviction of the host could drop, before the call; without a snapshot all, in an empty cache at rest."""
    if not setting.seen:
        available = tiers_seen_before.host_available
        if not below_before.rests or tiers_seen_before.sizes != (0, 0) or available is None:
            return Tokens(0)
        return Tokens(setting.config.host_pages * setting.size - available)
    return Tokens(len(droppable(state, tiers_seen_before)) * setting.size)


@fact(3)
def homeless(tiers_seen: TierSeen) -> Sequence[Name]:
    """Nodes of the tree with neither copy, or whose parent isn't in the tree."""
    return tiers_seen.homeless


WRONG = 4
"""How many wrong pages are told."""


FILLED_BY = {HOST: BACKUP, DEVICE: LOAD}
"""The copies that fill pages of each tier."""


@fact(0, ports=("data",))
def wrong_pages(
    setting: Setting, below: Tiers, tiers_seen: TierSeen, call: PlainCall, answer: Any, found: Sequence[Name] | None
) -> Sequence[Held] | Unknown:
    """Pages that don't hold the KV of their prefix on some tier, copies under way left out; without a snapshot those that a match found."""
    if setting.seen:
        works = [work for work in below.work.values() if work.job.kind in COPIES and not work.landed]
        filling = {(work.job.kind, name) for work in works for name in work.names} if tiers_seen.odd else ()
        return [one for one in tiers_seen.odd if (FILLED_BY[one.tier], one.page) not in filling][:WRONG]
    if type(call) is not Match or found is None:
        return UNKNOWN
    size, names = setting.size, call.path.names
    parts = [slice(at, at + size) for at in range(0, len(found) // size * size, size)]
    wrong = [part for part in parts if tuple(found[part]) != tuple(names[part])][:WRONG]
    return [Held(names[part][-1], DEVICE, tuple(answer.slots[part]), tuple(found[part])) for part in wrong]


@fact(3)
def demoted(tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Sequence[Name]:
    """Pages that were on both tiers before the call, and are not on the device after it."""
    then = tiers_seen_before
    return [name for name in then.hosted if name in then.cached and name not in tiers_seen.cached]


@fact(3)
def demoted_lost(tiers_seen_before: TierSeen, tiers_seen: TierSeen, setting: Setting) -> Sequence[Name]:
    """Pages that were on both tiers before an eviction of the device, and are on none after it."""
    if setting.config.write == "write_back":
        return []  # making room on the host may drop what was demoted just before
    then, now = tiers_seen_before, tiers_seen.parent_names
    return [name for name in then.hosted if name in then.cached and name not in now]


@fact(3)
def held_sources(below: Tiers) -> Mapping[Name, PageNo]:
    """Host copies that work in flight reads from, as they were when it began: name to host page."""
    return below.held_sources()


@fact(3)
def anchors(below: Tiers) -> frozenset[Name]:
    """Names of the pages behind which a prefetch under way began to read."""
    return below.prefetches.anchors()


@fact(3)
def in_tree(tiers_seen: TierSeen) -> frozenset[Name]:
    """Names of all pages of the tree, on either tier."""
    return tiers_seen.in_tree


@fact(3)
def failed_backups(below: Tiers) -> frozenset[Name]:
    """Names of the pages of backups that failed and ended with the call."""
    return failed(below, BACKUP)


@fact(3)
def failed_loads(below: Tiers) -> frozenset[Name]:
    """Names of the pages of loads that failed and ended with the call."""
    return failed(below, LOAD)


def failed(below: Tiers, kind: str) -> frozenset[Name]:
    """The pages of the copies of a kind that failed and ended with the call."""
    return frozenset(name for work in below.ended if work.failed and work.job.kind == kind for name in work.names)


# Rules


@rule(
    "TIER-04",
    needs=("tiers",),
    source="R-EV-09, R-HT-01, I7; sglang#30106",
    reference="prefix.tier.known_prefix",
    premise="in_tree",
)
def a_page_in_the_tree_is_somewhere_and_reachable(homeless: Sequence[Name]) -> bool:
    """A page of the tree MUST be on the device or on the host. Its parent MUST be in the tree."""
    return not homeless


@rule(
    "TIER-08",
    needs=("tiers", "data"),
    source="R-WB-05, R-WB-08, R-EV-06, R-HOST-09, R-LB-06, R-PFC-04, R-PFT-03; H-13, H-14, H-29, sglang#27631, sglang#31427",
    reference="prefix.backup.land",
    premise="something_cached",
)
def each_tier_holds_what_belongs_there(wrong_pages: Sequence[Held]) -> bool:
    """A page on the device or on the host that no copy or read is still filling MUST hold the KV of exactly its prefix, in its namespace."""
    return not wrong_pages


# Beside POOL-13: that needs the port of a pool, which a hierarchy that serves requests need not have.
@rule(
    "TIER-09",
    needs=("tiers", "host"),
    source="R-HOST-02",
    reference="prefix.tier.allocate",
    allowed="a page size times the number of pages in {host_free}",
    premise="host_taken",
)
def the_host_pool_counts_its_free_pages(host_available: Tokens, host_free: Sequence[PageNo], page_size: int) -> bool:
    """The host pool MUST report as available exactly the slots of its free pages."""
    return host_available == len(host_free) * page_size


@rule(
    "TIER-10",
    on=(On.MATCH,),
    needs=("host",),
    source="R-HT-03",
    reference="prefix.tier.match",
    allowed="{host_hit_certain} units",
    premise="host_hit_certain",
)
def a_match_tells_what_the_host_has(host_hit: Tokens, host_hit_certain: Tokens) -> bool:
    """A match MUST report how many units are cached on the host alone directly behind those on the device."""
    return host_hit == host_hit_certain


@rule(
    "TIER-11",
    needs=("tiers",),
    source="R-PF-10, R-BK-02, R-LB-06, R-LK-08; H-29",
    reference="prefix.tier.evict_host",
    allowed="{held_sources} still there",
    premise="held_sources",
)
def what_is_read_from_stays(held_sources: Mapping[Name, PageNo], hosted: Mapping[Name, PageNo]) -> bool:
    """A host copy that a load or a put under way reads from MUST stay where it is until that has ended."""
    return held_sources.items() <= hosted.items()


@rule(
    "TIER-12",
    needs=("tiers", "prefetching"),
    source="R-PF-10",
    reference="prefix.tier.evict_host",
    allowed="{anchors} still in the tree",
    premise="anchors",
)
def the_anchor_of_a_prefetch_stays(anchors: frozenset[Name], in_tree: frozenset[Name]) -> bool:
    """The page behind which a prefetch reads MUST stay in the tree as long as the prefetch is under way."""
    return anchors <= in_tree


@rule(
    "TIER-13",
    on=(On.EVICT,),
    needs=("tiers",),
    source="R-EV-05; map §4.6",
    reference="prefix.tier.leave_device",
    premise="demoted",
)
def an_eviction_of_the_device_leaves_the_host_copy(demoted_lost: Sequence[Name]) -> bool:
    """A page that has a host copy MUST keep it when an eviction takes the page from the device."""
    return not demoted_lost


# Beside EVICT-01 and EVICT-06: these need a snapshot, and of the host the counter says as much.
@rule(
    "TIER-15",
    on=(On.EVICT_HOST,),
    source="R-EV-07",
    reference="prefix.tier.evict_host",
    allowed="at least min({host_asked}, {host_droppable}) slots freed, and at most {host_evicted_most} dropped",
    premise="host_droppable",
)
def an_eviction_of_the_host_frees_what_was_asked_if_it_can(
    host_asked: Tokens, host_droppable: Tokens, host_freed: Tokens, host_evicted: Tokens, host_evicted_most: Tokens
) -> bool:
    """An eviction of the host MUST free as much as was asked for, in whole pages, batches or nodes, or all that it may drop if that is less."""
    return host_freed >= min(host_asked, host_droppable) and host_evicted <= host_evicted_most


# Beside EVICT-02: what the device reports is a MUST.
@rule(
    "TIER-17",
    on=(On.EVICT_HOST,),
    strength=Strength.SHOULD,
    source="R-EV-07",
    reference="prefix.tier.evict_host",
    premise="host_dropped",
)
def an_eviction_of_the_host_reports_what_it_freed(host_reported: Tokens, host_dropped: Tokens) -> bool:
    """An eviction of the host SHOULD report the number of slots that became free."""
    return host_reported == host_dropped
