"""What is proven of the prefetch plan, as functions that CrossHair reads.

Each function begins with its assumptions and ends with its claim.  Parameters are unbounded
integers: every length, threshold and quota, and every answer that a host could give, also those
that contradict each other.  The page size is unbounded too, except where a function says
``chosen``: there it is one of :data:`PAGE_SIZES` (``test_page_arithmetic_z3.py`` has the
arithmetic for all sizes).  Slots have no names here (a granted allocation is an amount), so the
one rule about names, PREFETCH-17, is left to the random runs.

The functions whose names begin with ``planted`` put a slip into the plan; for each of them a
counterexample must be found.
"""

from __future__ import annotations

from collections.abc import Callable

import kvlitmus.spec.prefix.rules.prefetch  # noqa: F401 - registers the rules
from kvlitmus.reference.prefix.prefetch import Answer, Call, Conversation, converse, gate, plan_prefetch, reserve, start
from kvlitmus.spec.interface.plans import NO_MEMORY, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.law.plan import verdicts
from kvlitmus.spec.law.rule import RULES
from kvlitmus.spec.prefix.prefetch_plan import (
    HostCall,
    Planned,
    PlanPrefetch,
    deficit,
    full_length,
    least_length,
    truncated_length,
)
from kvlitmus.spec.words.units import page_floor

PROVEN = tuple(rule for rule in RULES.values() if rule.pack == "prefetch" and rule.id != "PREFETCH-17")
"""The rules that the lemmas are about."""

PAGE_SIZES = (1, 4, 64, 100)
"""The page sizes of the lemmas that evaluate every rule."""


class Answers:
    """A host that answers as it was told: which allocations it grants, and what it says is available."""

    def __init__(self, granted: tuple[bool, bool, bool], available: tuple[int, int]) -> None:
        self.granted = list(granted)
        self.available = list(available)
        self.calls: list[HostCall] = []

    def reply(self, call: Call) -> Answer:
        """The next answer, and a note of it."""
        match call.name:
            case "alloc":
                granted = self.granted.pop(0)
                self.calls.append(HostCall("alloc", call.amount, call.amount if granted else None))
                return () if granted else None
            case "available":
                reading = self.available.pop(0)
                self.calls.append(HostCall("available", 0, reading, reading))
                return reading
            case "evict":
                self.calls.append(HostCall("evict", call.amount, 0, self.calls[-1].available))
                return 0
            case name:
                self.calls.append(HostCall(name))
                return None


def chosen(page_size: int) -> int:
    """The page size as a plain number, once it is known to be one of those that are tried."""
    for size in PAGE_SIZES:
        if page_size == size:
            return size
    raise ValueError(page_size)


def broken_rules(ask: PrefetchAsk, plan: Callable[[PrefetchAsk], Conversation], host: Answers) -> list[str]:
    """The ids of the rules that a plan breaks, of those that speak of lengths."""
    decided = converse(plan(ask), host.reply)
    inputs = {"call": PlanPrefetch(ask), "answer": Planned(decided, host.calls)}
    said = verdicts(PROVEN, ("plan_prefetch",), frozenset(), inputs, {})
    assert len(said) == len(PROVEN)
    return [id for id, kept in said.items() if not kept]


# What holds


def every_plan_keeps_every_rule(
    key_length: int,
    page_size: int,
    threshold: int,
    storage_on: bool,
    occupied: int,
    capacity: int,
    first: bool,
    second: bool,
    third: bool,
    before: int,
    after: int,
) -> None:
    """Whatever is asked and whatever the host answers, no rule is broken; the page size is chosen."""
    assert key_length >= 0 and page_size in PAGE_SIZES and threshold >= 0
    ask = PrefetchAsk(key_length, chosen(page_size), threshold, storage_on, occupied, capacity, ("before", "it"))
    assert broken_rules(ask, plan_prefetch, Answers((first, second, third), (before, after))) == []


def the_plan_follows_the_table(
    key_length: int,
    page_size: int,
    threshold: int,
    storage_on: bool,
    occupied: int,
    capacity: int,
    first: bool,
    second: bool,
    third: bool,
    before: int,
    after: int,
) -> None:
    """The outcome is the closed formula of the boundary table, for every page size."""
    assert key_length >= 0 and page_size >= 1 and threshold >= 0
    ask = PrefetchAsk(key_length, page_size, threshold, storage_on, occupied, capacity)
    host = Answers((first, second, third), (before, after))
    plan = converse(plan_prefetch(ask), host.reply)
    full = key_length - key_length % page_size
    least = max(threshold, page_size)
    if not storage_on or full < least or occupied >= capacity:
        assert plan.refusal not in (None, NO_MEMORY) and host.calls == []
        return
    rest = after - after % page_size
    short = min(full, rest)
    reserved = full if first or second else short if third and short >= least else 0
    assert plan.accounted == plan.key_length == reserved
    assert plan.hashed_pages == reserved // page_size
    assert plan.refusal == (None if reserved else NO_MEMORY)
    assert host.calls[0].name == "protect"
    assert (host.calls[-1].name == "release") == (not reserved)


def truncation_stays_within_its_bounds(key_length: int, page_size: int, threshold: int, available: int) -> None:
    """A truncated length is whole pages, at most the full length and what is available, and worth a read, or 0; page
    chosen.
    """
    assert key_length >= 0 and page_size in PAGE_SIZES and threshold >= 0
    page = chosen(page_size)
    ask = PrefetchAsk(key_length, page, threshold)
    length = truncated_length(ask, available)
    assert 0 <= length <= full_length(ask) <= key_length
    assert length % page == 0
    assert length == 0 or (length <= available and length >= threshold)


def truncation_gives_up_no_page(key_length: int, page_size: int, threshold: int, available: int) -> None:
    """Where truncation gives up, whatever it could have taken is below the threshold or no page at all."""
    assert key_length >= 0 and page_size >= 1 and threshold >= 0
    ask = PrefetchAsk(key_length, page_size, threshold)
    possible = page_floor(min(key_length, available), page_size)
    assert truncated_length(ask, available) == (possible if possible >= max(threshold, page_size) else 0)


def an_eviction_covers_the_deficit_and_less_than_a_page_more(wanted: int, page_size: int, available: int) -> None:
    """What is asked to be evicted is enough, in whole pages, and never a whole page too much; the page is chosen."""
    assert wanted >= page_size and page_size in PAGE_SIZES and wanted % page_size == 0
    page = chosen(page_size)
    lacking = deficit(wanted, available, page)
    assert lacking % page == 0 and lacking >= page
    assert available + lacking >= wanted
    assert lacking == page or available + lacking < wanted + page


# What does not hold: each slip must be found


def _planned(
    slip: Callable[[PrefetchAsk], Conversation],
    key_length: int,
    threshold: int,
    capacity: int,
    granted: tuple[bool, bool, bool],
    after: int,
) -> list[str]:
    return broken_rules(PrefetchAsk(key_length, 4, threshold, True, 0, capacity), slip, Answers(granted, (0, after)))


def _untruncated_key(ask: PrefetchAsk) -> Conversation:
    refusal = gate(ask)
    if refusal is not None:
        return PrefetchPlan(refusal)
    yield Call("protect")
    _, slots = yield from reserve(ask)
    if slots is None:
        yield Call("release")
        return PrefetchPlan(NO_MEMORY)
    return start(ask, full_length(ask), slots)


def _unchecked_allocation(ask: PrefetchAsk) -> Conversation:
    refusal = gate(ask)
    if refusal is not None:
        return PrefetchPlan(refusal)
    yield Call("protect")
    length, slots = yield from reserve(ask)
    if not length:
        yield Call("release")
        return PrefetchPlan(NO_MEMORY)
    return start(ask, length, slots or ())


def _uncapped(ask: PrefetchAsk) -> Conversation:
    refusal = gate(ask)
    if refusal is not None:
        return PrefetchPlan(refusal)
    yield Call("protect")
    yield Call("alloc", full_length(ask))
    yield Call("available")
    yield Call("evict", ask.page_size)
    yield Call("alloc", full_length(ask))
    available = yield Call("available")
    assert isinstance(available, int)
    length = page_floor(available, ask.page_size)
    slots = (yield Call("alloc", length)) if length >= least_length(ask) else None
    if slots is None:
        yield Call("release")
        return PrefetchPlan(NO_MEMORY)
    return start(ask, length, ())


def _quota_after_adding(ask: PrefetchAsk) -> Conversation:
    if ask.occupied + full_length(ask) > ask.capacity:
        return PrefetchPlan("rate limited")
    return (yield from plan_prefetch(ask))


def planted_untruncated_key(key_length: int, threshold: int, third: bool, after: int) -> None:
    """The key, the hashes and the quota keep the full length after truncation."""
    assert key_length >= 0 and threshold >= 0
    assert _planned(_untruncated_key, key_length, threshold, 9, (False, False, third), after) == []


def planted_unchecked_allocation(key_length: int, threshold: int, third: bool, after: int) -> None:
    """The last allocation is not checked."""
    assert key_length >= 0 and threshold >= 0
    assert _planned(_unchecked_allocation, key_length, threshold, 9, (False, False, third), after) == []


def planted_uncapped(key_length: int, threshold: int, third: bool, after: int) -> None:
    """The truncated length follows what is available, however much that is."""
    assert key_length >= 0 and threshold >= 0
    assert _planned(_uncapped, key_length, threshold, 9, (False, False, third), after) == []


def planted_quota_after_adding(key_length: int, threshold: int, capacity: int) -> None:
    """The quota is looked at as if this prefetch were added already."""
    assert key_length >= 0 and threshold >= 0
    assert _planned(_quota_after_adding, key_length, threshold, capacity, (True, True, True), 0) == []


def planted_unaligned_truncation(key_length: int, page_size: int, available: int) -> None:
    """Truncation to what is available, without rounding down to whole pages."""
    assert key_length >= 0 and page_size >= 1
    length = min(page_floor(key_length, page_size), max(0, available))
    assert length % page_size == 0


def planted_eviction_rounded_down(wanted: int, page_size: int, available: int) -> None:
    """What is lacking, rounded down to whole pages."""
    assert wanted >= page_size >= 1 and wanted % page_size == 0
    assert available + max(page_size, page_floor(wanted - available, page_size)) >= wanted
