"""Room on the host: what is dropped to make it, in which order, and how much.

The host makes room for what is backed up, written back or read ahead, and when it is asked to.  It drops pages that are
on the host alone, the least valuable first, and no more of them than are needed: the same law as on the device
(:mod:`kvlitmus.spec.prefix.rules.evict`).  What came to the host when other pages left the device is worth what it was worth there.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from kvlitmus.spec.interface.tiers import SPILL, SPILLED
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.evictable import droppable
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.memory_needed import lacking, wanted_pages
from kvlitmus.spec.prefix.page import Page, Tier
from kvlitmus.spec.prefix.partial import SOMEWHERE, known_part
from kvlitmus.spec.prefix.rules.backup import hot_pages, inserted_path
from kvlitmus.spec.prefix.rules.order import Choosing, ageless
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers, orphaned
from kvlitmus.spec.prefix.work_calls import EvictHost, LoadBack, OutOfMemory, PlainCall, Prefetch, Tick
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens, pages_needed
from kvlitmus.spec.words.units import Tick as ClockTick


def dropped_for_room(look: Look) -> AbstractSet[Name]:
    """Names that the host forgot to make room, those that came to it during the call included.

    What was below a page that left the device without a copy went with it, not to make room.
    """
    before, after = look.tiers_seen_before, look.tiers_seen
    gone, now = before.hosted.keys() - after.hosted.keys() - after.parent_names.keys(), after.parent_names
    if look.setting.config.write == policies.WRITE_BACK and look.below_before.spills_succeed:
        gone.update(name for name in before.cached if name not in now)
    elif gone:
        gone -= orphaned(before, now)
    return gone


def on_the_host(look: Look, gone: AbstractSet[Name]) -> Choosing:
    """What the host could choose from.

    What was lost with a page above it is not among it: nobody knows whether it was there still.
    """
    before, after, expected = look.tiers_seen_before, look.tiers_seen, look.expected
    pages = {name: page for name, page in expected.host.pages.items() if name not in look.state.device.pages}
    for name in gone:
        if name not in pages:  # it left the device during the call, or nobody knows it
            never = ClockTick(0)
            pages[name] = expected.device.pages.get(name) or Page(
                before.parent_names[name], SOMEWHERE, never, never, undated=True, unsure=True
            )
    held_now = look.below.held_sources()
    free = droppable(look.state, before, {*used_by(look.state, look.call), *held_now, *after.parent_names.values()})
    held = {name for name in pages if name not in free or name in after.cached}
    held |= before.hosted.keys() - after.hosted.keys() - gone
    tree = Tier(pages, expected.device.clock)
    return Choosing(tree, gone, ageless(tree, look.setting.config.policy), held)


def used_by(state: State, call: PlainCall) -> Collection[Name]:
    """The pages that a call itself uses, which perhaps can't go as long as it lasts."""
    if isinstance(call, LoadBack | OutOfMemory):
        return call.path.pages
    return known_part(state, call.path.pages) if isinstance(call, Prefetch) else ()


def host_lacking(look: Look) -> Tokens | Unknown:
    """Slots of the host that the call may free by dropping pages: those asked for, or those that it lacks."""
    below, setting, call, before = look.below_before, look.setting, look.call, look.tiers_seen_before
    size = setting.size
    if isinstance(call, EvictHost):
        return Tokens(setting.in_batches(pages_needed(call.asked, size)) * size)
    if isinstance(call, calls.INSERTS):
        wanted = backed_by(look)
    elif isinstance(call, Prefetch):
        wanted = len(call.path.pages) - len(known_part(look.state, call.path.pages))
    elif isinstance(call, Tick):
        waited = {name for path in below.paths for name in path}
        wanted = found_by(below, size) + sum(name not in before.hosted for name in waited)
    elif not isinstance(call, OutOfMemory) and not copies_down(setting, before):
        return lacking(0, before.host_free_count, setting)  # whatever the suite has asked to fail: nothing is allocated
    elif setting.config.write == policies.WRITE_BACK:
        if setting.profile.evict_granularity == "node":
            return UNKNOWN  # each node that is written back makes room for itself
        wanted = written_back_by(look)
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


def backed_by(look: Look) -> int:
    """How many pages an insert may have wanted to back up: those that were due, whether there was memory for them or not."""
    setting, before = look.setting, look.tiers_seen_before
    path = inserted_path(look.state, setting, look.call)
    bare = [name for name in path if name not in before.hosted]
    backed = len(look.tiers_seen.hosted.keys() - before.hosted.keys())  # of a chunk, too, where the cache is eager
    if setting.config.write == policies.WRITE_BACK:
        return backed
    if setting.profile.hit_counts != "insert":
        return max(backed, len(bare))
    hot = hot_pages(look.then, setting, path)
    return max(backed, policies.due([hot.get(name, True) for name in bare], setting.profile.backup_parent))


def found_by(below: Tiers, size: int) -> int:
    """How many pages the prefetches want that storage has told of."""
    return sum(pages_needed(one.hit or 0, size) for one in below.prefetches.under_way())


def written_back_by(look: Look) -> int:
    """How many pages may have wanted to be written back: those that left the device without a copy, or as many as were lacking."""
    setting, before = look.setting, look.tiers_seen_before
    gone = sum(name not in look.after.cached and name not in before.hosted for name in before.cached)
    asked = getattr(look.call, "asked", None)
    wanted = wanted_pages(look.state, setting, look.call, look.answer)
    lacks = lacking(wanted or 0, before.free_count, setting) if asked is None else asked
    most = pages_needed(lacks, setting.size)
    return max(gone, setting.in_batches(most))
