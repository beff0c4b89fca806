"""Room on the host: what is dropped to make it, in which order, and how much.

The host makes room for what is backed up, written back or read ahead, and when it is asked to.  It drops pages that are
on the host alone, the least valuable first, and no more of them than are needed: the same law as on the device
(:mod:`kvlitmus.spec.prefix.rules.evict`).  What came to the host when other pages left the device is worth what it was worth there.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any

from kvlitmus.spec.interface.tiers import SPILL, SPILLED
from kvlitmus.spec.law.actions import What
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import calls, effects
from kvlitmus.spec.prefix.calls import Reset
from kvlitmus.spec.prefix.memory_needed import lacking, wanted_pages
from kvlitmus.spec.prefix.page import Page, Tree, empty_tree
from kvlitmus.spec.prefix.prefetch_advance import known_part
from kvlitmus.spec.prefix.rules import backup as _backup  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules.backup import hot_pages, inserted_path
from kvlitmus.spec.prefix.rules.evict import Choosing
from kvlitmus.spec.prefix.rules.order import had_a_choice, needless_victims, passed_over_by
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.tier_calls import EvictHost, LoadBack, OutOfMemory, Prefetch, Tick
from kvlitmus.spec.prefix.tier_state import BY_AGE, Tiers, droppable, orphaned
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens, pages_needed
from kvlitmus.spec.words.units import Tick as ClockTick


@fact(3)
def host_evicted(
    setting: Setting,
    call: Any,
    below_before: Tiers,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
    host_vanished: AbstractSet[Name],
) -> AbstractSet[Name]:
    """Names that the host forgot to make room, those that came to it during the call included.

    What was below a page that left the device without a copy went with it, not to make room.
    """
    if isinstance(call, Reset):
        return frozenset()
    now = tiers_seen.parent_names
    gone = {name for name in host_vanished if name not in now}
    if setting.config.write == policies.WRITE_BACK and below_before.spills_succeed:
        gone.update(name for name in tiers_seen_before.cached if name not in now)
    elif gone:
        gone -= orphaned(tiers_seen_before, now)
    return gone


@fact(3)
def choosing_on_the_host(
    state: State,
    setting: Setting,
    expected: State,
    then: State,
    call: Any,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
    host_vanished: AbstractSet[Name],
    host_evicted: AbstractSet[Name],
) -> Choosing | Unknown:
    """What the eviction of the host could choose from, when it chose.

    What was lost with a page above it is not among it: nobody knows whether it was there still.
    """
    if not host_evicted:
        return NOTHING_LEFT
    if not setting.steps or setting.own_order:
        return UNKNOWN  # what work holds isn't shown, or nobody says what goes first
    if setting.profile.split_created == "renews" and setting.config.policy in BY_AGE:
        return UNKNOWN  # nobody asks when nodes were made
    tiers, was, now = expected.tiers, state.tiers, then.tiers
    assert tiers is not None and was is not None and now is not None
    before = tiers_seen_before
    pages = dict(tiers.alone)
    ageless = set(tiers.ageless(setting.config.policy))
    for name in host_evicted:
        if name not in pages:  # it left the device during the call, or nobody knows it
            own = expected.tree.pages.get(name)
            pages[name] = own or Page(before.parent_names[name], effects.NOWHERE, ClockTick(0), ClockTick(0))
            if own is None:
                ageless.add(name)
    free = droppable(was, before, {*used_by(call, before), *now.held_sources(), *tiers_seen.parent_names.values()})
    held = {name for name in pages if name not in free or name in tiers_seen.cached}
    held |= host_vanished - host_evicted
    return Choosing(Tree(pages, expected.tree.clock), ageless, held)


NOTHING_LEFT = Choosing(empty_tree())


def used_by(call: Any, before: TierSeen) -> Collection[Name]:
    """The pages that a call itself uses, which perhaps can't go as long as it lasts."""
    if isinstance(call, LoadBack | OutOfMemory):
        return call.path.pages
    return known_part(before, call.path.pages) if isinstance(call, Prefetch) else ()


@fact(3)
def host_choice(choosing_on_the_host: Choosing, host_evicted: AbstractSet[Name]) -> bool:
    """Whether the host had a choice that can be judged: it dropped a page of known worth and kept another that could go."""
    tree, ageless, held = choosing_on_the_host
    return bool(host_evicted) and had_a_choice(tree, host_evicted, ageless, held)


@fact(3)
def host_passed_over(
    choosing_on_the_host: Choosing, host_choice: bool, setting: Setting, host_evicted: AbstractSet[Name]
) -> frozenset[Name]:
    """Names that the policy would have dropped from the host before one that was dropped."""
    if not host_choice:
        return frozenset()
    tree, ageless, held = choosing_on_the_host
    return passed_over_by(
        tree,
        host_evicted,
        setting.order,
        ageless=ageless,
        held=held,
        nodes=setting.profile.evict_granularity == "node",
        ties=setting.ties,
    )


def host_lacking(
    state: State,
    setting: Setting,
    then: State,
    call: Any,
    answer: Any,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
) -> Tokens | Unknown:
    """Slots of the host that the call may free by dropping pages: those asked for, or those that it lacks."""
    before, size = tiers_seen_before, setting.size
    if isinstance(call, EvictHost):
        return Tokens(setting.in_batches(pages_needed(call.asked, size)) * size)
    below = state.tiers
    assert below is not None
    if isinstance(call, calls.INSERTS):
        wanted = backed_by(state, setting, then, call, before, tiers_seen)
    elif isinstance(call, Prefetch):
        wanted = len(call.path.pages) - len(known_part(before, call.path.pages))
    elif isinstance(call, Tick):
        waited = {name for path in below.paths for name in path}
        wanted = found_by(below, size) + sum(name not in before.hosted for name in waited)
    elif not isinstance(call, OutOfMemory) and not copies_down(setting, before):
        return lacking(0, before.host_free_count, setting)  # whatever the suite has asked to fail: nothing is allocated
    elif setting.config.write == policies.WRITE_BACK:
        if setting.profile.evict_granularity == "node":
            return UNKNOWN  # each node that is written back makes room for itself
        wanted = written_back_by(state, setting, call, answer, before, tiers_seen)
        if setting.profile.evict_amount == "need":  # a copy that fails had made room for all that it needed
            wanted *= 1 + len(below.failing & {SPILL, SPILLED})
    else:
        wanted = 0
    lacks = lacking(wanted, before.host_free_count, setting)
    if below.fault is None or lacks:
        return lacks
    least = wanted if setting.profile.evict_amount == "need" else 1
    return Tokens(
        setting.in_batches(least) * size
    )  # an allocation failed as the suite had asked for, whatever was free (PREFETCH-18)


def copies_down(setting: Setting, before: TierSeen) -> bool:
    """Whether what leaves the device may be copied to the host: under write-back, what had no copy there."""
    return setting.config.write == policies.WRITE_BACK and any(name not in before.hosted for name in before.cached)


def backed_by(state: State, setting: Setting, then: State, call: Any, before: TierSeen, after: TierSeen) -> int:
    """How many pages an insert may have wanted to back up: those that were due, whether there was memory for them or not."""
    path = inserted_path(state, setting, call)
    bare = [name for name in path if name not in before.hosted]
    backed = len(after.hosted.keys() - before.hosted.keys())  # of a chunk, too, where the cache is eager
    if setting.config.write == policies.WRITE_BACK:
        return backed
    if setting.profile.hit_counts != "insert":
        return max(backed, len(bare))
    hot = hot_pages(then, setting, path)
    return max(backed, policies.due([hot.get(name, True) for name in bare], setting.profile.backup_parent))


def found_by(below: Tiers, size: int) -> int:
    """How many pages the prefetches want that storage has told of."""
    return sum(pages_needed(one.hit or 0, size) for one in below.prefetches.under_way())


def written_back_by(state: State, setting: Setting, call: Any, answer: Any, before: TierSeen, after: TierSeen) -> int:
    """How many pages may have wanted to be written back: those that left the device without a copy, or as many as were lacking."""
    gone = sum(name not in after.cached and name not in before.hosted for name in before.cached)
    asked = getattr(call, "asked", None)
    wanted = wanted_pages(state, setting, call, answer, before)
    lacks = lacking(wanted or 0, before.free_count, setting) if asked is None else asked
    most = pages_needed(lacks, setting.size)
    return max(gone, setting.in_batches(most))


@fact(3)
def host_needless(
    state: State,
    setting: Setting,
    then: State,
    call: Any,
    answer: Any,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
    host_evicted: AbstractSet[Name],
) -> frozenset[Name] | Unknown:
    """Names that the host dropped although enough was free without them."""
    if not host_evicted:
        return frozenset()
    lacks = host_lacking(state, setting, then, call, answer, tiers_seen_before, tiers_seen)
    if lacks is UNKNOWN:
        return UNKNOWN
    nodes = ((node.named.pages, node.before) for node in tiers_seen_before.tier_nodes)
    return needless_victims(nodes, host_evicted, lacks, setting.size, setting.profile.evict_granularity)


# Rules


@rule(
    "TIER-30",
    on=What.DROP,
    needs=("tiers",),
    source="R-EV-03, R-EV-07; map §4.7",
    reference="prefix.choose.next_to_go",
    allowed="{host_passed_over} first, as the policy orders",
    premise="host_choice",
)
def the_host_follows_the_policy(host_passed_over: frozenset[Name]) -> bool:
    """Wherever room is made on the host, pages MUST be dropped in the order of the declared policy: no page that may go is passed over for one that is worth more."""
    return not host_passed_over


@rule(
    "TIER-31",
    on=What.DROP,
    needs=("tiers",),
    source="R-EV-04, R-EV-07; sglang#4989",
    reference="prefix.tier.allocate_or_evict",
    allowed="{host_needless} left alone: enough was free without them",
    premise="host_evicted",
)
def the_host_stops_when_enough_is_free(host_needless: frozenset[Name]) -> bool:
    """Wherever room is made on the host, no page MUST be dropped once what was asked for, or is lacking for the copies and reads of the call, is free, and what the profile declares beyond that."""
    return not host_needless
