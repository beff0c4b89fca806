"""Calls on the prefix tree: match, insert, lock, unlock, evict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker import partial as unseen
from kvlitmus.conformance.checker.calls.order import needless_victims, passed_over
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.observation import Observation
from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.conformance.ports import Hit, Stored
from kvlitmus.reference import tree as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Name, PageNo, Slot, page_slots, pages_in_order

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Judge


FREED_BY = ("cache_frees", "caller_frees")
"""Who may have to free what an insert was brought in vain, as profiles say it."""


def match(judge: Judge, key: Key) -> Hit:
    """Match a key."""
    names = judge.names_of(key)
    paged = page_names(names, judge.size)
    cap = judge.cap(len(names))
    certain, possible = judge.cached_range(paged)
    answer = judge.call(f"match({key_text(key)})", "match", key)
    hit = _hit(judge, answer)
    facts: dict[str, Any] = {
        "key_length": len(names),
        "key_names": names,
        "match_length": hit.length,
        "match_cap": cap,
        "certain_length": min(certain * judge.size, cap),
        "possible_length": min(possible * judge.size, cap),
    }
    if hit.slots is not None:
        facts["match_slots"], facts["found_names"] = hit.slots, judge.read(tuple(map(Slot, hit.slots)))
    kinds = "match" if hit.slots is not None else "match+blind"
    if judge.tiers is not None and hit.host is not None:
        kinds += "+host"
        facts["host_hit"], facts["host_hit_certain"] = hit.host, host_hit(judge, paged, hit.length, cap)
    covered = paged[: min(hit.length // judge.size, possible)]
    if hit.slots is not None:
        judge.tree = unseen.known(judge, judge.tree, covered, pages_in_order(hit.slots, judge.size))
    if hit.length < cap:
        judge.tree = unseen.gone(judge, judge.tree, paged[len(covered) :])
    tree = trees.touch(judge.tree, covered, hits=int(judge.profile.hit_counts == "match"))
    judge.finish(kinds, facts, trees.split(tree, covered[-1], renews=judge.renews) if covered else tree)
    return hit


def insert(
    judge: Judge, key: Key, slots: Sequence[Slot], *, protected: int = 0, priority: int = 0, chunked: bool = False
) -> tuple[Slot, ...]:
    """Insert a key with the suite's own slots beyond ``protected``; returns the slots that are the caller's to free.

    The suite writes the KV of the key into its own slots first.  What the tree takes is the tree's
    afterwards.
    """
    size = judge.size
    names = judge.names_of(key)
    paged = page_names(names, size)
    judge.write(slots[protected : len(paged) * size], names[protected : len(paged) * size])
    certain, possible = judge.cached_range(paged)
    offered = {name: PageNo(slots[at * size] // size) for at, name in enumerate(paged)}
    answer = judge.call(
        f"insert({key_text(key)}, {list(slots)}, protected={protected}, priority={priority}, chunked={chunked})",
        "insert",
        key,
        list(slots),
        protected=protected,
        priority=priority,
        chunked=chunked,
    )
    stored = _stored(judge, answer)
    already = min(max(stored.already // size, certain), possible)
    judge.tree = unseen.gone(judge, judge.tree, paged[already:])
    vain = {
        name: page
        for name, page in list(offered.items())[protected // size : already]
        if judge.tree.pages[name].page != page
    }
    to_free = _to_free(judge, stored, slots, protected)
    by_cache, by_caller = (frozenset(vain.values() if judge.profile.duplicates == who else ()) for who in FREED_BY)
    facts: dict[str, Any] = {
        "key_length": len(names),
        "key_names": names,
        "reported_already": stored.already,
        "certain_length": certain * size,
        "possible_length": possible * size,
        "missing_before": paged[already:],
        "offered": offered,
        "duplicates": by_cache,
        "to_free": frozenset(to_free),
        "expected_to_free": frozenset(slot for page in by_caller for slot in page_slots(page, size)),
    }
    tree, _ = trees.insert(
        judge.tree,
        judge.names.root(key.namespace),
        paged,
        list(offered.values()),
        counts=judge.profile.hit_counts == "insert" and not chunked,
        priority=priority,
        renews=judge.renews,
    )
    judge.maybe.difference_update(paged)
    judge.inserted(() if chunked else paged)
    adopted = [slots[at * size] for at in range(already, len(paged))]
    judge.disown([*adopted, *[Slot(page * size) for page in by_cache]])
    judge.finish("insert", facts, tree)
    return to_free


def lock(judge: Judge, hit: Hit, key: Key, receipt: int) -> None:
    """Lock what a match found; ``receipt`` is the suite's number for it."""
    names = judge.names_of(key)
    at = names[hit.length - 1] if hit.length else judge.names.root(key.namespace)
    answer = judge.call(f"lock(match of {hit.length} units) → receipt {receipt}", "lock", hit.handle)
    judge.receipts[receipt] = (answer, at)
    tree = trees.lock(judge.tree, at)
    covered = trees.path(tree, at)
    if judge.profile.lock_touches:
        tree = trees.touch(tree, covered)
    judge.maybe.difference_update(covered)
    judge.finish("lock", {}, tree)


def unlock(judge: Judge, receipt: int) -> None:
    """Give a receipt back."""
    token, at = judge.receipts.pop(receipt)
    judge.call(f"unlock(receipt {receipt})", "unlock", token)
    judge.finish("unlock", {}, trees.lock(judge.tree, at, -1))


def evict(judge: Judge, n: int) -> int:
    """Make room for ``n`` slots; returns what the cache reports."""
    before, tree = judge.before, judge.tree
    locked = frozenset(name for name, page in tree.pages.items() if page.locks)
    # Asked before the eviction: it may take the very pages of which it isn't known how recently they were used.
    ordered = judge.tiers is None or judge.tiers.ordered(tree)
    reported = judge.count(judge.call(f"evict({n})", "evict", n), "the number of slots freed")
    judge.trail[-1] += f" → {reported}"
    facts: dict[str, Any] = {"asked": n, "reported_evicted": reported, "locked_names": locked}
    if judge.depth < 3:
        unseen.unsure(judge, tree)
        judge.finish("evict", facts, tree)
        return reported

    def held_against_policy(after: Observation, facts: dict[str, Any]) -> None:
        vanished = facts["vanished"]
        judge.victims.append(frozenset(vanished))
        if ordered:
            facts["passed_over"] = passed_over(tree, vanished, judge.config.policy, judge.profile.slru_hits)
        if judge.tiers is not None:
            facts["demoted_lost"] = judge.tiers.demoted_lost(before, after)
        facts["needless"] = needless_victims(before, vanished, n, judge.size, judge.profile.evict_granularity)

    facts["unlocked_before"] = (len(tree.pages) - len(locked)) * judge.size
    if judge.tiers is not None:
        facts["unlocked_before"] = min(facts["unlocked_before"], judge.tiers.evictable(tree) * judge.size)
    judge.finish("evict", facts, tree, held_against_policy)
    return reported


def host_hit(judge: Judge, paged: Sequence[Name], length: int, cap: int) -> int:
    """How many units behind a match are on the host alone, as far as the match may go."""
    assert isinstance(judge.before, TierObservation)
    at = length // judge.size
    return (hosted_to(judge.before, paged[: cap // judge.size], at) - at) * judge.size


def hosted_to(seen: TierObservation, paged: Sequence[Name], start: int) -> int:
    """Where the pages of a key that have a host copy end, from page ``start`` on."""
    end = start
    while end < len(paged) and paged[end] in seen.hosted:
        end += 1
    return end


def room_of(judge: Judge, path: Sequence[Name], below: Sequence[Name]) -> int:
    """Slots of the device that are free or could be evicted for what hangs ``below`` a ``path``."""
    assert judge.tiers is not None
    tree = trees.lock(judge.tree, path[-1]) if path else judge.tree
    return (len(judge.before.free) + judge.tiers.evictable(tree, (*path, *below))) * judge.size


def _hit(judge: Judge, answer: object) -> Hit:
    """The answer of a match, in the promised form."""
    length, slots, handle, host = judge.fields(answer, 4, "Hit(length, slots, handle, host)")
    length = judge.count(length, "the length of the match")
    host = None if host is None else judge.count(host, "the units on the host alone")
    if slots is None:
        judge.trail[-1] += f" → {length} units"
        return Hit(length, None, handle, host)
    return Hit(length, judge.slots(slots), handle, host)


def _stored(judge: Judge, answer: object) -> Stored:
    """The answer of an insert, in the promised form."""
    already, to_free = judge.fields(answer, 2, "Stored(already, to_free)")
    already = judge.count(already, "the units cached already")
    judge.trail[-1] += f" → already {already}"
    return Stored(already, None if to_free is None else judge.slots(to_free))


def _to_free(judge: Judge, stored: Stored, slots: Sequence[Slot], protected: int) -> tuple[Slot, ...]:
    """The slots that the caller has to free: as told, or by the contract of the profile."""
    if stored.to_free is not None:
        return tuple(Slot(slot) for slot in stored.to_free)
    if judge.profile.duplicates != "caller_frees":
        return ()
    return tuple(slots[protected : stored.already])


def compare_victims(judge: Judge, other: Judge) -> None:
    """Judge whether a second cache, which got the same calls, evicted the same prefixes."""
    judge.trail.append("the same calls again, on a fresh cache")
    facts: dict[str, Any] = {
        "victims": [sorted(map(judge.names.prefix, gone), key=repr) for gone in judge.victims],
        "victims_again": [sorted(map(other.names.prefix, gone), key=repr) for gone in other.victims],
    }
    judge.evaluate("again", facts)
