"""Calls on prefetches: ask for one, poll, what it added, abandon; and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.calls.tiers import books_of, finish, seen
from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.spec import effects as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, page_floor

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def prefetch(checker: Checker, rid: int, key: Key) -> bool:
    """Ask for a prefetch; whether it has begun.

    A request that waits for one already may not ask for another, unless the profile says that the cache refuses it.
    """
    books, before, size = books_of(checker), seen(checker), checker.size
    fetches = books.fetches
    if rid in fetches.waiting and (checker.profile.second_prefetch != "refused" or rid not in fetches.running):
        return False
    names = checker.names_of(key)
    paged = page_names(names, size)
    known = 0
    while known < len(paged) and paged[known] in before.parent_names:
        known += 1
    full = page_floor(len(names) - known * size, size)
    occupied = checker.count(checker.look("occupied"), "what prefetches occupy")
    gate = fetches.gate(rid, full, occupied)
    most, least = (len(books.droppable(before, spared=paged[:known], nodes=nodes)) for nodes in (False, True))
    room = len(before.host_free) + least
    anchored = not known or paged[known - 1] in before.hosted
    answer = checker.call(f"prefetch({rid}, {key_text(key)})", "prefetch", rid, key)
    given, matched, asked, anchor = checker.fields(answer, 4, "Prefetched(started, matched, asked, anchor)")
    begun = checker.flag(given, "whether the prefetch has begun")
    checker.history[-1] += f" → {asked} units behind {matched}" if begun else " → refused"
    facts: dict[str, Any] = {
        "begun": begun,
        "fetch_matched": checker.count(matched, "the units matched"),
        "fetch_asked": checker.count(asked, "the units asked for"),
        "known_certain": known * size,
        "known_possible": known * size,
    }
    if gate is not None:
        facts["gate"] = gate
    if anchor is not None and begun:
        facts["fetch_anchor"] = checker.count(anchor, "where the anchor ends")
    certain = gate or (most == least and (anchored or begun) and books.fault is None)
    if gate is not None and certain and checker.profile.reserve == "submit":
        length = min(full, room * size)
        facts["reservable"] = 0 if gate or length < max(checker.config.threshold, size) else length
    kinds = "prefetch" if begun else "refused_prefetch"
    if gate and not begun:
        kinds += "+gated_prefetch"
    if checker.profile.reserve != "submit":
        del facts["fetch_asked"]
    if begun:
        fetches.submitted(rid, key, matched, asked)
        cached = trees.cached_prefix(checker.tree, paged)
        tree = trees.touch(checker.tree, paged[:cached])
        if cached:
            tree = trees.split(tree, paged[cached - 1], renews=checker.renews)
    else:
        books.blurred.update(paged[:known])
        tree = checker.tree
    if begun and checker.profile.reserve == "submit":
        books.allocated()
    finish(checker, kinds, facts, tree)
    return begun


def poll(checker: Checker, rid: int) -> bool:
    """Whether a request need not wait for its prefetch any more; if so, it asks at once what that has added."""
    books, before = books_of(checker), seen(checker)
    fetches = books.fetches
    one = fetches.running.get(rid)
    allowed = fetches.stop_allowed(rid)
    answer = checker.call(f"poll({rid})", "poll", rid)
    done = checker.flag(answer, "whether the request need not wait")
    checker.history[-1] += f" → {done}"
    facts: dict[str, Any] = {"poll_answer": done, "stop_allowed": allowed, "own_prefetch": one is not None}

    def committed(after: TierObservation, facts: dict[str, Any]) -> None:
        if one is not None and done:
            fetches.committed(one, facts, before, after)
        else:
            facts["commit_range"], facts["commit_missing"] = frozenset(), []

    if one is not None and done:
        fetches.over(one)  # it holds nothing and counts nothing from now on
    finish(checker, "poll", facts, checker.tree, committed)
    if done and rid in fetches.waiting:
        fetches.waiting.discard(rid)
        loaded(checker, rid)
    return done


def loaded(checker: Checker, rid: int) -> None:
    """How many units a prefetch has added, told once."""
    fetches = books_of(checker).fetches
    least, most = fetches.loaded.pop(rid, (0, 0))
    told = checker.count(checker.call(f"loaded({rid})", "loaded", rid), "the units added")
    checker.history[-1] += f" → {told}"
    finish(checker, "loaded", {"told_loaded": told, "loaded_least": least, "loaded_most": most}, checker.tree)


def abandon(checker: Checker, rid: int) -> None:
    """The request that waits is aborted."""
    fetches = books_of(checker).fetches
    one = fetches.running.get(rid)
    checker.call(f"abandon({rid})", "abandon", rid)
    if one is not None:
        fetches.over(one)
    fetches.waiting.discard(rid)
    fetches.loaded.pop(rid, None)
    finish(checker, "abandon", {"own_prefetch": one is not None}, checker.tree)


def fail_alloc(checker: Checker, after: int) -> None:
    """An allocation of host memory is going to fail."""
    books = books_of(checker)
    checker.call(f"fail_host_alloc({after})", "fail_host_alloc", after)
    books.fault = after
    checker.finish("fault", {}, checker.tree)


def set_clock(checker: Checker, seconds: float) -> None:
    """Time passes."""
    books = books_of(checker)
    books.clock = max(books.clock, seconds)
    checker.call(f"set_clock({books.clock:g})", "set_clock", books.clock)
    checker.finish("clock", {}, checker.tree)
