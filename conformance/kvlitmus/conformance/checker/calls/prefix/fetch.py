"""Calls on prefetches: ask for one, poll, what it added, abandon; and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.interface.tiers import Prefetched
from kvlitmus.spec.prefix.work_calls import Abandon, FailHostAlloc, Poll, Prefetch, SetClock, TellLoaded
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def prefetch(checker: Checker, rid: int, key: Key) -> bool:
    """Ask for a prefetch; whether it has begun.

    A request that waits for one already may not ask for another, unless the profile says that the cache refuses it.
    """
    fetches = checker.below.prefetches
    if rid in fetches.waiting and (checker.profile.second_prefetch != "refused" or rid not in fetches.running):
        return False
    return asked_for(checker, rid, key, checker.call(f"prefetch({rid}, {key_text(key)})", "prefetch", rid, key))


def asked_for(checker: Checker, rid: int, key: Key, answer: object) -> bool:
    """Judge a prefetch that was answered so; whether it has begun."""
    path = checker.path(key)
    given, matched, asked, anchor = checker.fields(answer, 4, "Prefetched(started, matched, asked, anchor)")
    begun = checker.flag(given, "whether the prefetch has begun")
    told = Prefetched(
        begun,
        checker.count(matched, "the units matched"),
        checker.count(asked, "the units asked for"),
        checker.count(anchor, "where the anchor ends") if anchor is not None and begun else None,
    )
    checker.history[-1] += f" → {told.asked} units behind {told.matched}" if begun else " → refused"
    checker.step(Prefetch(rid, path, None), told)
    return begun


def poll(checker: Checker, rid: int, *, asks: bool = True) -> bool:
    """Whether a request need not wait for its prefetch any more; if so, it ``asks`` at once what that has added."""
    waited = asks and rid in checker.below.prefetches.waiting
    answer = checker.call(f"poll({rid})", "poll", rid)
    done = checker.flag(answer, "whether the request need not wait")
    checker.history[-1] += f" → {done}"
    checker.step(Poll(rid), done)
    if done and waited:
        loaded(checker, rid)
    return done


def loaded(checker: Checker, rid: int) -> None:
    """How many units a prefetch has added, told once."""
    told = checker.count(checker.call(f"loaded({rid})", "loaded", rid), "the units added")
    checker.history[-1] += f" → {told}"
    checker.step(TellLoaded(rid), told)


def abandon(checker: Checker, rid: int) -> None:
    """The request that waits is aborted."""
    checker.call(f"abandon({rid})", "abandon", rid)
    checker.step(Abandon(rid), None)


def fail_alloc(checker: Checker, after: int) -> None:
    """An allocation of host memory is going to fail."""
    checker.call(f"fail_host_alloc({after})", "fail_host_alloc", after)
    checker.step(FailHostAlloc(after), None)


def set_clock(checker: Checker, seconds: float) -> None:
    """Time passes."""
    seconds = max(checker.below.clock, seconds)
    checker.call(f"set_clock({seconds:g})", "set_clock", seconds)
    checker.step(SetClock(seconds), None)
