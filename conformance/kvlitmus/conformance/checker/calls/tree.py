"""Calls on the prefix tree: match, insert, lock, unlock, evict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker import partial
from kvlitmus.conformance.checker.calls.order import needless_victims, passed_over
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.observation import Observation
from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.conformance.ports import Hit, Stored
from kvlitmus.reference import tree as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Name, PageNo, Slot, page_slots, pages_in_order

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


FREED_BY = ("cache_frees", "caller_frees")
"""Who may have to free what an insert was brought in vain, as profiles say it."""


def match(checker: Checker, key: Key) -> Hit:
    """Match a key."""
    names = checker.names_of(key)
    paged = page_names(names, checker.size)
    cap = checker.cap(len(names))
    certain, possible = checker.cached_range(paged)
    answer = checker.call(f"match({key_text(key)})", "match", key)
    hit = _hit(checker, answer)
    facts: dict[str, Any] = {
        "key_length": len(names),
        "key_names": names,
        "match_length": hit.length,
        "match_cap": cap,
        "certain_length": min(certain * checker.size, cap),
        "possible_length": min(possible * checker.size, cap),
    }
    if hit.slots is not None:
        facts["match_slots"], facts["found_names"] = hit.slots, checker.read(tuple(map(Slot, hit.slots)))
    kinds = "match" if hit.slots is not None else "match+blind"
    if checker.tiers is not None and hit.host is not None:
        kinds += "+host"
        facts["host_hit"], facts["host_hit_certain"] = hit.host, host_hit(checker, paged, hit.length, cap)
    covered = paged[: min(hit.length // checker.size, possible)]
    if hit.slots is not None:
        checker.tree = partial.known(checker, checker.tree, covered, pages_in_order(hit.slots, checker.size))
    if hit.length < cap:
        checker.tree = partial.gone(checker, checker.tree, paged[len(covered) :])
    tree = trees.touch(checker.tree, covered, hits=int(checker.profile.hit_counts == "match"))
    checker.finish(kinds, facts, trees.split(tree, covered[-1], renews=checker.renews) if covered else tree)
    return hit


def insert(
    checker: Checker, key: Key, slots: Sequence[Slot], *, protected: int = 0, priority: int = 0, chunked: bool = False
) -> tuple[Slot, ...]:
    """Insert a key with the suite's own slots beyond ``protected``; returns the slots that are the caller's to free.

    The suite writes the KV of the key into its own slots first.  What the tree takes is the tree's
    afterwards.
    """
    size = checker.size
    names = checker.names_of(key)
    paged = page_names(names, size)
    checker.write(slots[protected : len(paged) * size], names[protected : len(paged) * size])
    certain, possible = checker.cached_range(paged)
    offered = {name: PageNo(slots[at * size] // size) for at, name in enumerate(paged)}
    answer = checker.call(
        f"insert({key_text(key)}, {list(slots)}, protected={protected}, priority={priority}, chunked={chunked})",
        "insert",
        key,
        list(slots),
        protected=protected,
        priority=priority,
        chunked=chunked,
    )
    stored = _stored(checker, answer)
    already = min(max(stored.already // size, certain), possible)
    checker.tree = partial.gone(checker, checker.tree, paged[already:])
    vain = {
        name: page
        for name, page in list(offered.items())[protected // size : already]
        if checker.tree.pages[name].page != page
    }
    to_free = _to_free(checker, stored, slots, protected)
    by_cache, by_caller = (frozenset(vain.values() if checker.profile.duplicates == who else ()) for who in FREED_BY)
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
        checker.tree,
        checker.names.root(key.namespace),
        paged,
        list(offered.values()),
        counts=checker.profile.hit_counts == "insert" and not chunked,
        priority=priority,
        renews=checker.renews,
    )
    checker.maybe.difference_update(paged)
    checker.inserted(() if chunked else paged)
    adopted = [slots[at * size] for at in range(already, len(paged))]
    checker.disown([*adopted, *[Slot(page * size) for page in by_cache]])
    checker.finish("insert", facts, tree)
    return to_free


def lock(checker: Checker, hit: Hit, key: Key, receipt: int) -> None:
    """Lock what a match found; ``receipt`` is the suite's number for it."""
    names = checker.names_of(key)
    at = names[hit.length - 1] if hit.length else checker.names.root(key.namespace)
    answer = checker.call(f"lock(match of {hit.length} units) → receipt {receipt}", "lock", hit.handle)
    checker.receipts[receipt] = (answer, at)
    tree = trees.lock(checker.tree, at)
    covered = trees.path(tree, at)
    if checker.profile.lock_touches:
        tree = trees.touch(tree, covered)
    checker.maybe.difference_update(covered)
    checker.finish("lock", {}, tree)


def unlock(checker: Checker, receipt: int) -> None:
    """Give a receipt back."""
    token, at = checker.receipts.pop(receipt)
    checker.call(f"unlock(receipt {receipt})", "unlock", token)
    checker.finish("unlock", {}, trees.lock(checker.tree, at, -1))


def evict(checker: Checker, n: int) -> int:
    """Make room for ``n`` slots; returns what the cache reports."""
    before, tree = checker.before, checker.tree
    locked = frozenset(name for name, page in tree.pages.items() if page.locks)
    # Asked before the eviction: it may take the very pages of which it isn't known how recently they were used.
    ordered = checker.tiers is None or checker.tiers.ordered(tree)
    reported = checker.count(checker.call(f"evict({n})", "evict", n), "the number of slots freed")
    checker.history[-1] += f" → {reported}"
    facts: dict[str, Any] = {"asked": n, "reported_evicted": reported, "locked_names": locked}
    if checker.depth < 3:
        partial.unsure(checker, tree)
        checker.finish("evict", facts, tree)
        return reported

    def held_against_policy(after: Observation, facts: dict[str, Any]) -> None:
        vanished = facts["vanished"]
        checker.victims.append(frozenset(vanished))
        if ordered:
            facts["passed_over"] = passed_over(tree, vanished, checker.config.policy, checker.profile.slru_hits)
        if checker.tiers is not None:
            facts["demoted_lost"] = checker.tiers.demoted_lost(before, after)
        facts["needless"] = needless_victims(before, vanished, n, checker.size, checker.profile.evict_granularity)

    facts["unlocked_before"] = (len(tree.pages) - len(locked)) * checker.size
    if checker.tiers is not None:
        facts["unlocked_before"] = min(facts["unlocked_before"], checker.tiers.evictable(tree) * checker.size)
    checker.finish("evict", facts, tree, held_against_policy)
    return reported


def host_hit(checker: Checker, paged: Sequence[Name], length: int, cap: int) -> int:
    """How many units behind a match are on the host alone, as far as the match may go."""
    assert isinstance(checker.before, TierObservation)
    at = length // checker.size
    return (hosted_to(checker.before, paged[: cap // checker.size], at) - at) * checker.size


def hosted_to(seen: TierObservation, paged: Sequence[Name], start: int) -> int:
    """Where the pages of a key that have a host copy end, from page ``start`` on."""
    end = start
    while end < len(paged) and paged[end] in seen.hosted:
        end += 1
    return end


def room_of(checker: Checker, path: Sequence[Name], below: Sequence[Name]) -> int:
    """Slots of the device that are free or could be evicted for what hangs ``below`` a ``path``."""
    assert checker.tiers is not None
    tree = trees.lock(checker.tree, path[-1]) if path else checker.tree
    return (len(checker.before.free) + checker.tiers.evictable(tree, (*path, *below))) * checker.size


def _hit(checker: Checker, answer: object) -> Hit:
    """The answer of a match, in the promised form."""
    length, slots, handle, host = checker.fields(answer, 4, "Hit(length, slots, handle, host)")
    length = checker.count(length, "the length of the match")
    host = None if host is None else checker.count(host, "the units on the host alone")
    if slots is None:
        checker.history[-1] += f" → {length} units"
        return Hit(length, None, handle, host)
    return Hit(length, checker.slots(slots), handle, host)


def _stored(checker: Checker, answer: object) -> Stored:
    """The answer of an insert, in the promised form."""
    already, to_free = checker.fields(answer, 2, "Stored(already, to_free)")
    already = checker.count(already, "the units cached already")
    checker.history[-1] += f" → already {already}"
    return Stored(already, None if to_free is None else checker.slots(to_free))


def _to_free(checker: Checker, stored: Stored, slots: Sequence[Slot], protected: int) -> tuple[Slot, ...]:
    """The slots that the caller has to free: as told, or by the contract of the profile."""
    if stored.to_free is not None:
        return tuple(Slot(slot) for slot in stored.to_free)
    if checker.profile.duplicates != "caller_frees":
        return ()
    return tuple(slots[protected : stored.already])


def compare_victims(checker: Checker, other: Checker) -> None:
    """Judge whether a second cache, which got the same calls, evicted the same prefixes."""
    checker.history.append("the same calls again, on a fresh cache")
    facts: dict[str, Any] = {
        "victims": [sorted(map(checker.names.prefix, gone), key=repr) for gone in checker.victims],
        "victims_again": [sorted(map(other.names.prefix, gone), key=repr) for gone in other.victims],
    }
    checker.evaluate("again", facts)
