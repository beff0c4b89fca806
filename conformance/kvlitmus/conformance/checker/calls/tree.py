"""Calls on the prefix tree: match, insert, lock, unlock, evict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.spec import effects
from kvlitmus.spec.calls import Evict, Insert, Lock, Match, PlayedAgain, Unlock
from kvlitmus.spec.facts import UNKNOWN
from kvlitmus.spec.interface import Hit, Stored
from kvlitmus.spec.order import passed_over_by
from kvlitmus.spec.seen import Seen
from kvlitmus.spec.tree import left_to_caller
from kvlitmus.spec.units import Key, Name, Slot, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def match(checker: Checker, key: Key) -> Hit:
    """Match a key."""
    path = checker.path(key)
    hit = _hit(checker, checker.call(f"match({key_text(key)})", "match", key))
    facts: dict[str, Any] | None = None
    if checker.tiers is not None and hit.host is not None:
        cap = checker.setting.cap(len(path.names))
        facts = {"host_hit": hit.host, "host_hit_certain": host_hit(checker, path.pages, hit.length, cap)}
    checker.step(Match(path), hit, facts)
    return hit


def insert(
    checker: Checker, key: Key, slots: Sequence[Slot], *, protected: int = 0, priority: int = 0, chunked: bool = False
) -> tuple[Slot, ...]:
    """Insert a key with the suite's own slots beyond ``protected``; returns the slots that are the caller's to free.

    The suite writes the KV of the key into its own slots first.  What the tree takes is the tree's
    afterwards.
    """
    call = Insert(checker.path(key), tuple(slots), protected, priority, chunked)
    checker.poke(call, None)
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
    checker.inserted(() if chunked else call.path.pages)
    to_free = left_to_caller(checker.setting, call, stored)
    checker.step(call, stored)
    return to_free


def lock(checker: Checker, hit: Hit, key: Key, receipt: int) -> None:
    """Lock what a match found; ``receipt`` is the suite's number for it."""
    path = checker.path(key)
    at = path.names[hit.length - 1] if hit.length else path.root
    answer = checker.call(f"lock(match of {hit.length} units) → receipt {receipt}", "lock", hit.handle)
    checker.tokens[receipt] = answer
    checker.step(Lock(at, receipt), answer)


def unlock(checker: Checker, receipt: int) -> None:
    """Give a receipt back."""
    at = checker.receipts[receipt]
    checker.call(f"unlock(receipt {receipt})", "unlock", checker.tokens.pop(receipt))
    checker.step(Unlock(at, receipt), None)


def evict(checker: Checker, n: int) -> int:
    """Make room for ``n`` slots; returns what the cache reports."""
    before, tree, tiers = checker.before, checker.tree, checker.tiers
    facts: dict[str, Any] | None = None
    if tiers is not None:
        # Asked before the eviction: it may take the very pages of which it isn't known how recently they were used.
        facts = {"ordered": tiers.ordered(tree)}
        unlocked = sum(not page.locks for page in tree.pages.values())
        facts["unlocked_before"] = min(unlocked, tiers.evictable(tree)) * checker.size
    reported = checker.count(checker.call(f"evict({n})", "evict", n), "the number of slots freed")
    checker.history[-1] += f" → {reported}"

    def held_against_policy(after: Seen, facts: dict[str, Any]) -> None:
        vanished = before.cached.keys() - after.cached.keys()
        checker.victims.append(frozenset(vanished))
        if tiers is not None:
            facts["passed_over"] = (
                passed_over_by(tree, vanished, checker.config.policy, checker.profile.slru_hits)
                if facts.pop("ordered")
                else UNKNOWN
            )
            facts["demoted_lost"] = tiers.demoted_lost(before, after)

    checker.step(Evict(Tokens(n)), reported, facts, held_against_policy)
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
    tree = effects.lock(checker.tree, path[-1]) if path else checker.tree
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


def compare_victims(checker: Checker, other: Checker) -> None:
    """Judge whether a second cache, which got the same calls, evicted the same prefixes."""
    checker.history.append("the same calls again, on a fresh cache")
    victims, again = (
        [sorted(map(one.names.prefix, gone), key=repr) for gone in one.victims] for one in (checker, other)
    )
    checker.answered(PlayedAgain(victims, again), None)
