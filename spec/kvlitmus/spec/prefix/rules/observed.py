"""Facts of every call: what was seen before and after it, and what the state says beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.prefix import late_locks as _late_locks  # noqa: F401 - its facts
from kvlitmus.spec.prefix.calls import Match
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.page import Page
from kvlitmus.spec.prefix.partial import counts, free_least
from kvlitmus.spec.prefix.release import NONE, at_hand
from kvlitmus.spec.prefix.seen import Seen, TierNodeSeen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import counted_tree
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens

# What is known without a look


@fact(0)
def said_yes(answer: object) -> bool:
    """Whether the cache says yes: that it did what was asked, or that a request need not wait."""
    return bool(answer)


@fact(0)
def told_units(answer: int) -> Tokens:
    """How many units the cache tells of: that it evicted, that came free, or that a prefetch has added."""
    return Tokens(answer)


@fact(0)
def page_size(setting: Setting) -> int:
    """Slots in a page."""
    return setting.size


@fact(0)
def usable(setting: Setting) -> frozenset[PageNo]:
    """The pages that the pool may hand out."""
    return setting.usable


@fact(0)
def may_evict(setting: Setting) -> bool:
    """Whether the profile lets an allocation evict."""
    return setting.profile.evict_moment == "alloc"


@fact(0)
def something_cached(then: State) -> bool:
    """Whether anything is on the device, or may be, after the call."""
    return bool(then.device.pages)


@fact(0)
def owned_after(then: State) -> frozenset[PageNo]:
    """Pages owned by requests and callers, after the call."""
    return frozenset(then.owners)


@fact(0)
def owned_twice(then: State) -> frozenset[PageNo]:
    """Pages that two requests or callers own at once."""
    owners = then.owners
    if len(owners) == sum(owners.values()):
        return frozenset()
    return frozenset(page for page, times in owners.items() if times > 1)


@fact(0)
def quiet(setting: Setting, then: State) -> bool | Unknown:
    """Whether no lock is held, nor any that was given back may protect still, no request runs and no copy is under way; unknown where nobody lists these."""
    if setting.config.tiered and not setting.seen and then.tiers is None:
        return UNKNOWN
    going = then.receipts or then.requests or any(then.unlocking)
    return not going and not (then.tiers is not None and then.tiers.copying)


# Counters


@fact(1, ports=("pool",))
def available_before(before: Seen, state: State, setting: Setting, call: PlainCall) -> Tokens | Unknown:
    """Slots that the pool says it could hand out, before the call, and those that the call reclaims first.

    Without a snapshot nobody knows whether something waits still that a call could have reclaimed.
    """
    return counted_before(cast("int", before.available), state, setting, call)


def counted_before(available: int, state: State, setting: Setting, call: PlainCall) -> Tokens | Unknown:
    """So many slots, and those that a call reclaims first."""
    if not setting.reclaims:
        return Tokens(available)
    waiting = at_hand(NONE, state, call)
    return UNKNOWN if waiting and not setting.seen else Tokens(available + len(waiting) * setting.size)


@fact(0, ports=("pool",))
def available_least(before: Seen, state: State, setting: Setting, call: PlainCall) -> Tokens | Unknown:
    """The same; where nobody counts, at least what is neither owned nor may be cached or wait to be free."""
    if before.available is not None:
        return counted_before(before.available, state, setting, call)
    return Tokens(free_least(state, setting) * setting.size) if counts(setting) else UNKNOWN


@fact(1, ports=("pool",))
def available_after(after: Seen) -> Tokens:
    """Slots that the pool says it could hand out, after the call."""
    return Tokens(cast("int", after.available))


@fact(1)
def capacity(setting: Setting) -> Tokens:
    """Slots of all usable pages."""
    return setting.capacity


@fact(1)
def owned_slots(owned_after: frozenset[PageNo], page_size: int) -> Tokens:
    """Slots of all pages owned by requests and callers, after the call."""
    return Tokens(len(owned_after) * page_size)


@fact(1, ports=("counters",), before="evictable_before")
def evictable(after: Seen) -> Tokens | Unknown:
    """Units that the tree says could be evicted, after the call."""
    return UNKNOWN if after.sizes is None else Tokens(after.sizes.evictable)


@fact(1, ports=("counters",), before="protected_before")
def protected(after: Seen) -> Tokens | Unknown:
    """Units that the tree says are protected, after the call."""
    return UNKNOWN if after.sizes is None else Tokens(after.sizes.protected)


# Snapshots


@fact(3)
def look(
    setting: Setting, state: State, expected: State, then: State, call: Any, answer: Any, before: Seen, after: Seen
) -> Look:
    """The step, with the cache before and after it."""
    return Look(setting, state, expected, then, call, answer, before, after)


@fact(3)
def free_before(before: Seen, state: State, setting: Setting, call: PlainCall) -> frozenset[PageNo]:
    """Pages on the free list, before the call, and those that the call reclaims first."""
    return at_hand(before.free, state, call) if setting.reclaims else before.free


@fact(3)
def free_after(after: Seen) -> frozenset[PageNo]:
    """Pages on the free list, after the call."""
    return after.free


@fact(3)
def free_listed(after: Seen) -> Sequence[PageNo]:
    """The free list as it stands, repetitions included."""
    return after.listed


@fact(3, before="cached_before")
def cached_after(after: Seen) -> Mapping[Name, PageNo]:
    """Every cached page, after the call: name to page."""
    return after.cached


@fact(3)
def cached_listed(after: Seen) -> Sequence[PageNo]:
    """The pages that the nodes of the tree refer to, repetitions included."""
    return after.cached_listed


@fact(3)
def vanished(cached_before: Mapping[Name, PageNo], cached_after: Mapping[Name, PageNo]) -> AbstractSet[Name]:
    """Names that were cached before the call and are not after it."""
    return frozenset() if cached_after is cached_before else cached_before.keys() - cached_after.keys()


@fact(3)
def expired(vanished: AbstractSet[Name], setting: Setting, call: PlainCall) -> AbstractSet[Name]:
    """Those of them that may have gone because they were old: all, of a lookup, where the profile lets pages expire."""
    return vanished if setting.expires and isinstance(call, Match) else frozenset()


@fact(3)
def parents(after: Seen, setting: Setting) -> AbstractSet[Name] | Unknown:
    """The names of the parents of all cached pages, roots left out; not asked of a block table that may leave gaps."""
    return UNKNOWN if setting.table and setting.profile.table_gaps == "left" else after.parents


@fact(3)
def cut_off(
    setting: Setting, after: Seen, parents: AbstractSet[Name], cached_after: Mapping[Name, PageNo]
) -> Sequence[Name]:
    """Pages that are missing on a tier where pages behind them are; on the host, where a write policy keeps it closed."""
    if cached_after.keys() >= parents and not isinstance(after, TierSeen):
        return ()
    return missing_on_tiers(setting, after, parents)


def missing_on_tiers(setting: Setting, after: Seen, parents: AbstractSet[Name]) -> Sequence[Name]:
    """What is missing on the device, and on the host of a hierarchy."""
    missing = sorted(parents - after.cached.keys())
    if not isinstance(after, TierSeen):
        return missing
    return missing + after.gaps + ([] if setting.config.write == WRITE_BACK else after.unbacked)


@fact(3)
def broken_nodes(after: Seen) -> Sequence[str]:
    """Nodes that are empty, not made of whole pages, or share their first page with a sibling."""
    return after.broken


@fact(3)
def broken_pages(after: Seen) -> Sequence[str]:
    """Cached pages whose slots are not one whole page in order, on any tier, and parts of pages that work in flight holds."""
    broken = [text for node in after.nodes if node.info.broken_pages for text in node.info.broken_pages]
    return broken + after.host_broken if isinstance(after, TierSeen) else broken


# Counts beside what they should be


Pairs = list[tuple[int, int]]
"""What nodes show, each beside what it should be."""


class NodeCounts(NamedTuple):
    """What nodes show beside what their pages should have, in pairs; unknown where there are nodes and none shows it.

    See the facts that take them apart.
    """

    locks: Pairs | Unknown
    hits: Pairs | Unknown
    priorities: Pairs | Unknown
    inversions: Pairs | Unknown


def as_shown(pairs: Sequence[tuple[int | None, int]]) -> Pairs | Unknown:
    """The pairs of the nodes that show a count; unknown where only nodes are that hide it."""
    found = [(shown, due) for shown, due in pairs if shown is not None]
    return UNKNOWN if pairs and not found else found


@fact(3)
def node_counts(after: Seen, then: State, setting: Setting, late_after: Mapping[Name, int]) -> NodeCounts:
    """What the nodes show of themselves, beside what their use amounts to."""
    pages, nodes, table = counted_tree(then.device, then.tiers, setting).pages, after.nodes, then.table
    locks: list[tuple[int | None, int]] = []
    hits: list[tuple[int | None, int]] = []
    priorities: list[tuple[int | None, int]] = []
    inversions: Pairs = []
    for info, parent, own, shown, priority in nodes:
        names, _, _, _, _, _, items = info
        if not items:
            continue
        last = pages.get(names[-1])
        first = last if len(names) == 1 else pages.get(names[0])
        if first is None or last is None:
            continue
        if own is None:
            locks.append((None, 0))
        elif table:
            locks += [(own, table[page].holders) for page in info.pages if page in table]
        else:
            # By its name: what isn't trusted can't be read (kvlitmus.spec.prefix.frame.trust).
            locks.append((own, held_by(own, last.locks, late_after.get(names[-1], 0)) if late_after else last.locks))
            if first is not last and first.locks != last.locks:
                locks.append((own, held_by(own, first.locks, late_after.get(names[0], 0))))
            if parent >= 0:
                above = nodes[parent].locks
                if above is not None and above < own:
                    inversions.append((above, own))
        hits.append((shown, last.hits))
        priorities.append((priority, last.priority))
    if then.tiers is not None:
        for node, page in on_the_host_alone(then, after):
            hits.append((node.hits, page.hits))
            priorities.append((node.priority, page.priority))
    known = as_shown(locks)
    return NodeCounts(known, as_shown(hits), as_shown(priorities), UNKNOWN if known is UNKNOWN else inversions)


def held_by(shown: int, locks: int, late: int) -> int:
    """How many locks a node should show which shows so many: of those that were given back, some may be there still."""
    return min(max(shown, locks), locks + late)


def on_the_host_alone(then: State, after: Seen) -> Iterator[tuple[TierNodeSeen, Page]]:
    """The nodes that are on the host alone, each with what is known of its last page."""
    for node in after.tier_nodes if then.host.pages and isinstance(after, TierSeen) else ():
        if node.slots is None and node.named.pages and (page := then.host.pages.get(node.named.pages[-1])) is not None:
            yield node, page


@fact(3)
def node_locks(node_counts: NodeCounts) -> Sequence[tuple[int, int]] | Unknown:
    """The lock count of each node, beside the number of receipts that cover it, and of those given back that may be there still."""
    return node_counts.locks


@fact(3)
def node_hits(node_counts: NodeCounts, setting: Setting) -> Sequence[tuple[int, int]] | Unknown:
    """The hit count of each node, beside the count that its use amounts to."""
    return as_counted(node_counts.hits, setting)


def as_counted(hits: Pairs | Unknown, setting: Setting) -> Pairs | Unknown:
    """Hits that are shown, beside those that a cache has counted, whose counts stop somewhere."""
    if not setting.profile.most_hits or hits is UNKNOWN:
        return hits
    return [(shown, setting.counted(expected)) for shown, expected in hits]


@fact(3)
def node_priorities(node_counts: NodeCounts) -> Sequence[tuple[int, int]] | Unknown:
    """The priority of each node, beside the highest it was given."""
    return node_counts.priorities


@fact(3)
def lock_inversions(node_counts: NodeCounts) -> Sequence[tuple[int, int]] | Unknown:
    """For each node with more locks than its parent: the parent's locks and its own."""
    return node_counts.inversions


@fact(0)
def locked_pages(expected: State) -> AbstractSet[tuple[Name, PageNo]]:
    """What is protected, with the place where it was when it was locked."""
    if expected.table:
        return {(block.name, page) for page, block in expected.table.items() if block.holders}
    return {(name, page.page) for name, page in expected.device.pages.items() if page.locks}


@fact(3)
def locked_count(
    expected: State, then: State, setting: Setting, page_size: int, locked_pages: AbstractSet[tuple[Name, PageNo]]
) -> Tokens:
    """Units of cached pages that something protects, after the call; copies left out, where they protect apart."""
    tree = counted_tree(then.device, then.tiers, setting)
    if tree is expected.device and not expected.table:
        return Tokens(len(locked_pages) * page_size)
    return Tokens(len([page for page in tree.pages.values() if page.locks]) * page_size)


@fact(3)
def unlocked_count(then: State, locked_count: Tokens, page_size: int) -> Tokens:
    """Units of cached pages that nothing protects, after the call."""
    return Tokens(len(then.device.pages) * page_size - locked_count)


@fact(3)
def cached_places(after: Seen, setting: Setting) -> AbstractSet[tuple[Name, PageNo]]:
    """Every cached page with its place, after the call; in a block table a name may have several."""
    if setting.table:
        return {(name, page) for page, name in after.places().items()}
    return after.cached.items()


@fact(3)
def cached_homes(after: Seen, then: State, setting: Setting) -> Sequence[PageNo]:
    """The cached pages that must not be free: of a block table, whose free list can be searched, those that somebody holds or owns."""
    if setting.table:
        return [page for page in after.cached_listed if page in then.owners or then.table[page].holders]
    return after.cached_listed


@fact(0)
def locked_before(state: State) -> frozenset[PageNo]:
    """The pages of what was protected, before the call."""
    if state.table:
        return frozenset(page for page, block in state.table.items() if block.holders)
    return frozenset(page.page for page in state.device.pages.values() if page.locks)
