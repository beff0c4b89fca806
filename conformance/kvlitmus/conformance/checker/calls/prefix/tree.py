"""Calls on the prefix tree: match, insert, lock, unlock, evict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.interface import Hit, Stored
from kvlitmus.spec.prefix.calls import Evict, Insert, Lock, Match, PlayedAgain, Slots, Unlock
from kvlitmus.spec.prefix.rules.tree import left_to_caller
from kvlitmus.spec.words.units import Key, Slot, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def match(checker: Checker, key: Key) -> Hit:
    """Match a key."""
    path = checker.path(key)
    hit = read_hit(checker, checker.call(f"match({key_text(key)})", "match", key))
    checker.step(Match(path), hit)
    return hit


def insert(
    checker: Checker, key: Key, slots: Sequence[Slot], *, protected: int = 0, priority: int = 0, chunked: bool = False
) -> tuple[Slot, ...]:
    """Insert a key with the suite's own slots beyond ``protected``; returns the slots that are still the suite's.

    The suite writes the KV of the key into its own slots first.  What the tree takes is the tree's
    afterwards; duplicates are the caller's to free, stay its own, or are the cache's, as the profile says.
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
    return inserted(checker, call, answer)


def inserted(checker: Checker, call: Insert[Slots], answer: object) -> tuple[Slot, ...]:
    """Judge an insert that was answered so; returns the slots that are still the suite's."""
    stored = _stored(checker, answer)
    left = left_to_caller(checker.setting, call, stored)
    if checker.profile.duplicates == "kept":
        left = tuple(dict.fromkeys((*left, *call.slots[call.protected : stored.already])))
    checker.step(call, stored)
    return left


def lock(checker: Checker, hit: Hit, key: Key, receipt: int) -> None:
    """Lock what a match found; ``receipt`` is the suite's number for it."""
    path = checker.path(key)
    # A match that is longer than its key is judged where it was made; whoever muted that may still lock what it found.
    at = path.end(min(hit.length // checker.size, len(path.pages)))
    answer = checker.call(f"lock(match of {hit.length} units)", "lock", hit.handle)
    checker.history[-1] += f" → receipt {receipt}"
    checker.tokens[receipt] = answer
    checker.step(Lock(at, receipt), answer)


def unlock(checker: Checker, receipt: int) -> None:
    """Give a receipt back."""
    checker.call(f"unlock(receipt {receipt})", "unlock", checker.tokens.pop(receipt))
    checker.step(Unlock(receipt), None)


def evict(checker: Checker, n: int) -> int:
    """Make room for ``n`` slots; returns what the cache reports."""
    before = checker.before
    reported = checker.count(checker.call(f"evict({n})", "evict", n), "the number of slots freed")
    checker.history[-1] += f" → {reported}"
    checker.step(Evict(Tokens(n)), reported)
    if before.seen and checker.before.seen:
        checker.victims.append([("", name) for name in before.cached.keys() - checker.before.cached.keys()])
    return reported


def read_hit(checker: Checker, answer: object) -> Hit:
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
        [sorted([(of, one.names.prefix(name)) for of, name in gone], key=repr) for gone in one.victims]
        for one in (checker, other)
    )
    checker.answered(PlayedAgain(victims, again), None)
