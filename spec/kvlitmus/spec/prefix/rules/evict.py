"""Eviction: making room, in the policy's order, without hurting anybody.

An eviction takes leaves, the least valuable first; when a leaf is gone its parent may become a
leaf.  What "valuable" means is the **policy** (least recently used, least often used, oldest,
and so on); ties are broken in some total order.  A cache frees whole nodes or single pages, as
its profile says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.law.actions import What
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Kind, Strength, rule
from kvlitmus.spec.prefix.calls import LOOKING, Begin, Evict, Flush, PlayedAgain, Reset, Resume
from kvlitmus.spec.prefix.evictable import certainly_evictable, droppable, reclaimable
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.late_locks import late_locks
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.memory_needed import found_for, lacking, wanted_pages
from kvlitmus.spec.prefix.page import BY_AGE
from kvlitmus.spec.prefix.rules import pool as _pool  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules.order import ByTier, Choosing, ageless, had_a_choice, needless_victims, passed_over_by
from kvlitmus.spec.prefix.rules.room import dropped_for_room, host_lacking, on_the_host
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import EvictHost, LoadBack, OutOfMemory, PlainCall
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens, pages_needed, same


@fact(0)
def locked_names(state: State) -> frozenset[Name]:
    """The names of cached pages that receipts or running requests protect."""
    return frozenset(name for name, page in state.device.pages.items() if page.locks)


@fact(3)
def spared(
    state: State, setting: Setting, call: PlainCall, before: Seen, locked_names: frozenset[Name]
) -> AbstractSet[Name]:
    """Names that the tier which the call evicts from has to keep: what is protected; of the host, what is on the device too, has something below it, or is held."""
    if not isinstance(call, EvictHost):
        return locked_names
    assert isinstance(before, TierSeen)
    return state.host.pages.keys() - droppable(state, before, nodes=False) - reclaimable(state, setting)


@fact(3, before="places_before")
def places_after(call: PlainCall, after: Seen, cached_after: Mapping[Name, PageNo]) -> Mapping[Name, PageNo]:
    """Where the pages of the tier are that the call evicts from, after it."""
    return after.hosted if isinstance(call, EvictHost) and isinstance(after, TierSeen) else cached_after


@fact(3)
def evicted(places_before: Mapping[Name, PageNo], places_after: Mapping[Name, PageNo]) -> AbstractSet[Name]:
    """Names that have left the tier that the call evicts from."""
    return places_before.keys() - places_after.keys()


@fact(3)
def freed(
    call: PlainCall,
    before: Seen,
    after: Seen,
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    evicted: AbstractSet[Name],
    places_before: Mapping[Name, PageNo],
) -> tuple[AbstractSet[PageNo], AbstractSet[PageNo]]:
    """The pages that came to the free list of that tier, evicted ones that were on it before among them; and those that left it."""
    if isinstance(call, EvictHost) and isinstance(before, TierSeen) and isinstance(after, TierSeen):
        free_before, free_after = frozenset(before.host_free), frozenset(after.host_free)
    already = free_before.difference([places_before[name] for name in evicted])
    return free_after - already, free_before - free_after


@fact(3)
def unlocked_before(
    state: State, before: Seen, setting: Setting, locked_names: frozenset[Name], late_before: Mapping[Name, int]
) -> Tokens:
    """Slots of all cached pages that nothing protects, nor may still, before the call."""
    unlocked = len(state.device.pages) - len(locked_names | late_before.keys())
    if state.tiers is not None:
        assert isinstance(before, TierSeen)
        unlocked = min(unlocked, certainly_evictable(state, setting, before))
    return Tokens(unlocked * setting.size)


@fact(1)
def freed_slots(setting: Setting, before: Seen, after: Seen) -> Tokens | Unknown:
    """Slots that are free after the call and were not before it; without a snapshot those that are available."""
    if setting.seen:
        return Tokens((after.free_count - before.free_count) * setting.size)
    if setting.config.tiered or setting.profile.evict_moment != "call":
        return UNKNOWN
    if before.available is None or after.available is None:
        return UNKNOWN
    return Tokens(after.available - before.available)


@fact(3)
def room_made(look: Look, vanished: AbstractSet[Name]) -> ByTier:
    """Names that went so that there is room, by the tier that they went from; none by a reset, nor what a failed load was to bring."""
    if isinstance(look.call, Reset | Flush):
        return {}
    if vanished and look.state.tiers is not None:
        works = look.below_before.work.values()
        vanished = vanished - {name for work in works if work.failed and work.job.kind == LOAD for name in work.names}
    device = {DEVICE: vanished} if vanished else {}
    host = dropped_for_room(look) if isinstance(look.after, TierSeen) else ()
    return {**device, HOST: host} if host else device


def room_lacking(look: Look) -> Tokens | Unknown:
    """Slots of the device that the call may evict: those asked for, or those that it lacks, as the profile declares."""
    setting, call = look.setting, look.call
    if setting.table or (setting.expires and isinstance(call, LOOKING)):
        return UNKNOWN
    if isinstance(call, Evict):
        return Tokens(setting.in_batches(pages_needed(call.asked, setting.size)) * setting.size)
    wanted = wanted_pages(look.state, setting, call, look.answer)
    return UNKNOWN if wanted is None else lacking(wanted, look.before.free_count, setting)


LOADS = (LoadBack, OutOfMemory)
"""Calls that bring back, or allocate for, the pages of a key while they make room."""


@fact(3)
def choosing(look: Look, room_made: ByTier) -> Sequence[Choosing] | Unknown:
    """What each tier on which room was made could choose from, when it chose: after what the call itself uses and locks."""
    if not room_made:
        return ()
    setting = look.setting
    if setting.table or setting.own_order or (setting.expires and isinstance(look.call, LOOKING)):
        return UNKNOWN  # a page is found until it is handed out, and its order is the free list's
    if look.expected.tiers is not None and (
        not setting.steps or (setting.profile.split_created == "renews" and setting.config.policy in BY_AGE)
    ):
        return UNKNOWN  # what copies protect isn't shown; or nodes come and go between tiers, and nobody asks when
    found = []
    if DEVICE in room_made:
        found.append(on_the_device(look, room_made[DEVICE]))
    if HOST in room_made:
        found.append(on_the_host(look, room_made[HOST]))
    return found


def on_the_device(look: Look, vanished: AbstractSet[Name]) -> Choosing:
    """What the device could choose from."""
    state, setting, call, tree = look.state, look.setting, look.call, look.expected.device
    held: set[Name] = set()
    if look.answer is None and isinstance(call, Begin | Resume):  # used and locked in the attempt, or not
        held.update(found_for(state, setting, call, look.answer))
    if isinstance(call, LOADS):
        held.update(call.path.pages)
    if look.expected.tiers is None:
        return Choosing(tree, vanished, held, held.union(late_locks(state, state.device)))
    was = state.device.pages
    held.update(name for name, page in tree.pages.items() if not page.locks and name in was and was[name].locks)
    if setting.config.write == WRITE_BACK:
        held.update(perhaps_no_room(state, setting, look.tiers_seen_before, vanished, held))
    return Choosing(tree, vanished, ageless(tree, setting.config.policy), held)


def perhaps_no_room(
    state: State, setting: Setting, before: TierSeen, vanished: AbstractSet[Name], spared: Collection[Name]
) -> Collection[Name]:
    """The pages without a host copy for which the host had perhaps no room, so that they could not be written back."""
    tiers, pages = state.tiers, state.device.pages
    assert tiers is not None
    bare = [name for name in pages if name not in before.hosted]
    if not tiers.spills_succeed:
        return bare
    room = before.host_free_count + len(droppable(state, before, spared)) - sum(name in vanished for name in bare)
    long = max([len(node.named.pages) for node in before.tier_nodes], default=1)
    return () if room >= (long if setting.profile.evict_granularity == "node" else 1) else bare


@fact(3)
def had_choice(choosing: Sequence[Choosing]) -> bool:
    """Whether a tier had a choice that can be judged: it took a page of known worth and left another that could go."""
    return bool(choosing) and any(map(had_a_choice, choosing))


@fact(3)
def passed_over(choosing: Sequence[Choosing], had_choice: bool, setting: Setting) -> frozenset[Name]:
    """Names that the policy would have taken from a tier before one that was taken from it."""
    if not had_choice:
        return frozenset()
    nodes = setting.profile.evict_granularity == "node"
    return frozenset().union(*[passed_over_by(one, setting.order, nodes=nodes, ties=setting.ties) for one in choosing])


@fact(3)
def needless(look: Look, room_made: ByTier) -> frozenset[Name] | Unknown:
    """Names that a tier let go although enough was free there without them; unknown where no tier can tell."""
    found: list[AbstractSet[Name]] = []
    for tier, gone in room_made.items():
        lacks = room_lacking(look) if tier == DEVICE else host_lacking(look)
        if lacks is not UNKNOWN:
            nodes, granularity = look.before.runs(tier), look.setting.profile.evict_granularity
            found.append(needless_victims(nodes, gone, lacks, look.setting.size, granularity))
    return frozenset().union(*found) if found or not room_made else UNKNOWN


@fact(3)
def victims(call: PlayedAgain) -> Sequence[object]:
    """What each eviction of a schedule removed, in order: the prefixes."""
    return call.victims


@fact(3)
def victims_again(call: PlayedAgain) -> Sequence[object]:
    """The same for a second, fresh cache that got the same calls."""
    return call.victims_again


# Rules

victim_rule = partial(rule, reference="prefix.perform.least_valuable")


@victim_rule(
    "EVICT-01",
    on=(On.EVICT,),
    source="R-EV-01; sglang#5499",
    allowed="at least min({asked}, {unlocked_before}) slots freed",
    premise="unlocked_before",
)
def an_eviction_frees_what_was_asked_if_it_can(asked: Tokens, unlocked_before: Tokens, freed_slots: Tokens) -> bool:
    """An eviction MUST free at least as much as was asked for, or everything that nothing protects if that is less."""
    return freed_slots >= min(asked, unlocked_before)


@victim_rule("EVICT-02", on=(On.EVICT,), source="R-EV-01; sglang#4989", allowed="the number of slots that became free")
def an_eviction_reports_what_it_freed(told_units: Tokens, freed_slots: Tokens) -> bool:
    """An eviction MUST report exactly the number of slots that became free."""
    return told_units == freed_slots


@victim_rule(
    "EVICT-03",
    on=(On.EVICT, On.EVICT_HOST),
    source="R-EV-01, R-EV-07; map §4.7",
    allowed="victims outside {spared}",
    premise="spared",
)
def an_eviction_spares_what_is_protected(evicted: AbstractSet[Name], spared: AbstractSet[Name]) -> bool:
    """An eviction MUST NOT take a page that a receipt, a running request or work under way protects. One of the host
    MUST take only pages that are on the host alone and have nothing below them when they go.
    """
    return evicted.isdisjoint(spared)


@victim_rule(
    "EVICT-04",
    on=(On.EVICT, On.EVICT_HOST),
    source="R-EV-01, R-EV-07, R-EV-09; map §4.7, vllm#4764",
    allowed="the free list grown by exactly the pages of {evicted}",
    premise="evicted",
)
def what_is_evicted_becomes_free(
    evicted: AbstractSet[Name],
    places_before: Mapping[Name, PageNo],
    places_after: Mapping[Name, PageNo],
    freed: tuple[AbstractSet[PageNo], AbstractSet[PageNo]],
) -> bool:
    """An eviction MUST free the pages of exactly the names that it removes from its tier, and change nothing else there."""
    victims = {places_before[name] for name in evicted}
    kept = {name: page for name, page in places_before.items() if name not in evicted}
    return freed == (victims, set()) and places_after == kept


@rule(
    "EVICT-05",
    on=(What.EVICT, What.DROP),
    source="R-EV-03, R-EV-07; map §4.7, sglang#18843, mini-sglang#124",
    reference="prefix.choose.next_to_go",
    allowed="{passed_over} first, as the policy orders",
    premise="had_choice",
)
def victims_follow_the_policy(passed_over: frozenset[Name]) -> bool:
    """Wherever room is made on a tier, victims MUST be taken in the order of the declared policy: no leaf that may go is passed over for one that is worth more."""
    return not passed_over


@rule(
    "EVICT-06",
    on=(What.EVICT, What.DROP),
    source="R-EV-04, R-EV-07; sglang#4989",
    reference="prefix.perform.room_for",
    allowed="{needless} left alone: enough was free without them",
    premise="room_made",
)
def an_eviction_stops_when_enough_is_free(needless: frozenset[Name]) -> bool:
    """Making room on a tier MUST NOT take a victim once what was asked for or what the call lacks is free, and what
    the profile declares beyond that. This holds for a call that is refused in the end, too.
    """
    return not needless


@victim_rule(
    "EVICT-07",
    kind=Kind.HISTORY,
    on=(On.AGAIN,),
    strength=Strength.SHOULD,
    source="R-EV-03",
    allowed="the victims of the first cache: {victims}",
    premise="victims",
)
def the_same_calls_have_the_same_victims(victims: Sequence[object], victims_again: Sequence[object]) -> bool:
    """Two fresh caches that get the same calls SHOULD evict the same pages: ties are broken by something that both have, else ranks drift apart."""
    return same(victims, victims_again)
