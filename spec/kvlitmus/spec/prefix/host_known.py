"""What is known of the host where nobody sees it: which pages have a copy there for certain, and which may have one.

A backup that begins, a commit of what was read and a match that counts the host's pages say that copies are there.  The
host makes room when it is asked to, and for what comes to it; then a copy is certain no more, unless something protects
it: its page is on the device for certain, or work under way reads it or writes it.  What may be there stays so until an answer
says that it isn't, or the host says that nothing is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvlitmus.spec.interface import Hit
from kvlitmus.spec.interface.tiers import BACKUP, LOAD, PUT, QUERY
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.prefix import calls, tier_calls
from kvlitmus.spec.prefix.prefetch_advance import ending, tiers_of
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.tier_state import Hosted, Prefetched
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens

LOOKING = (calls.Match, calls.Lock, calls.Unlock, tier_calls.Poll, tier_calls.TellLoaded, tier_calls.Settled)
"""Calls that make room on no tier."""


def hosted_then(
    state: State, then: State, setting: Setting, call: Any, answer: Any, before: TierSeen, after: TierSeen
) -> Hosted:
    """What is known of the host after a step from ``state`` to ``then``."""
    was, tiers = tiers_of(state).hosted, tiers_of(then)
    if type(call) is calls.Reset:
        return Hosted()
    surely, perhaps = was
    if setting.config.write == WRITE_BACK:  # what leaves the device comes to the host, or not
        for pages in (state.tree.pages, then.tree.pages):
            perhaps = perhaps if pages.keys() <= perhaps else perhaps.union(pages)
    if surely and makes_room(state, then, setting, call, before):
        surely = surely.intersection(protected(state, then, setting))
    lost = [name for work in tiers.ended if work.failed and work.job.kind == BACKUP for name in work.names]
    surely = surely.difference(lost) if lost else surely
    fresh = [name for work in tiers.begun if work.job.kind in (BACKUP, LOAD, PUT) for name in work.names]
    if fresh:
        surely, perhaps = surely.union(fresh), perhaps.union(fresh)
    for one in committed_by(state, setting, call, answer):
        perhaps = perhaps.union(one.names[: one.got // setting.size])
    if type(call) is calls.Match and isinstance(answer, Hit) and answer.host is not None:
        start, end = answer.length // setting.size, (answer.length + answer.host) // setting.size
        surely, perhaps = surely.union(call.path.pages[start:end]), perhaps.union(call.path.pages[start:end])
        if setting.profile.match_ends == "page" and end < setting.cap(len(call.path.names)) // setting.size:
            missing = frozenset(call.path.pages[end : end + 1])
            surely, perhaps = surely - missing, perhaps - missing
    if after.host_available == setting.config.host_pages * setting.size:
        return Hosted()
    return was if (surely, perhaps) == was else Hosted(surely, perhaps)


def makes_room(state: State, then: State, setting: Setting, call: Any, before: TierSeen) -> bool:
    """Whether the host may have dropped copies in this step."""
    kind, late = type(call), setting.profile.reserve == "hit"
    if kind not in calls.INSERTS and any(work.job.kind == BACKUP for work in tiers_of(then).begun):
        return True
    if kind in LOOKING:
        return False
    if setting.config.write == WRITE_BACK or kind in (tier_calls.EvictHost, tier_calls.OutOfMemory):
        return True
    if kind is tier_calls.Tick:
        return late or bool(ending(state, setting)) or bool(tiers_of(state).paths)
    if kind is tier_calls.Advance:
        return late and tiers_of(state).work[call.job].job.kind == QUERY
    if kind in calls.INSERTS:
        paged = call.path.pages if kind is calls.Insert else state.requests[call.rid].path.pages
        return not has_room(state, setting, before, paged)
    return kind is tier_calls.Prefetch and not has_room(state, setting, before, call.path.pages)


def has_room(state: State, setting: Setting, before: TierSeen, paged: Sequence[Name]) -> bool:
    """Whether the host had room for all of these pages, so that it makes none."""
    tiers, profile = tiers_of(state), setting.profile
    least = before.host_available is not None and before.host_available >= len(paged) * setting.size
    as_due = profile.evict_amount == "lack" and not profile.evict_slack
    return least and as_due and tiers.fault is None and not tiers.starved


def protected(state: State, then: State, setting: Setting) -> set[Name]:
    """The pages whose host copies stay though the host makes room."""
    tiers = tiers_of(then)
    kinds = (BACKUP, LOAD, PUT) if tiers.attached else (BACKUP, LOAD)
    works = [work for work in tiers.work.values() if work.job.kind in kinds and not work.failed]
    held = {name for work in works for name in work.names}
    if setting.profile.host_duplicates != "reclaimed" or setting.config.write != WRITE_BACK:
        held |= on_device(state) & on_device(then)
    return held


def on_device(state: State) -> set[Name]:
    """The pages that are on the device for certain."""
    return state.tree.pages.keys() - state.tree.doubt.open - state.tree.doubt.fallen


def committed_by(state: State, setting: Setting, call: Any, answer: Any) -> Iterator[Prefetched]:
    """The prefetches that a poll or a tick has committed."""
    fetches = tiers_of(state).prefetches
    if type(call) is tier_calls.Poll and answer and call.rid in fetches.running:
        yield fetches.by_number[fetches.running[call.rid]]
    elif type(call) is tier_calls.Tick:
        yield from (fetches.by_number[number] for number in ending(state, setting))


# What a key finds there


def certain_run(state: State, paged: Sequence[Name], start: int) -> tuple[int, bool]:
    """Where the pages of a key that have a host copy for certain end, from ``start`` on, and whether none follows."""
    surely, perhaps = tiers_of(state).hosted
    end = start
    while end < len(paged) and paged[end] in surely:
        end += 1
    return end, end == len(paged) or paged[end] not in perhaps


def known_run(state: State, paged: Sequence[Name]) -> tuple[int, bool]:
    """How many pages of a key are certainly cached on either tier, and whether no more are."""
    (surely, perhaps), device = tiers_of(state).hosted, on_device(state)
    end = 0
    while end < len(paged) and (paged[end] in surely or paged[end] in device):
        end += 1
    return end, end == len(paged) or (paged[end] not in perhaps and paged[end] not in state.tree.pages)


def more_available(before: TierSeen, after: TierSeen) -> Tokens | Unknown:
    """How many slots more of the host are available; unknown where nobody looked."""
    was, now = before.host_available, after.host_available
    return UNKNOWN if was is None or now is None else Tokens(now - was)
