"""Facts of a prefetch plan: its gates, what it says, and its conversation with the host's memory.

What must hold of them is in :mod:`kvlitmus.spec.prefix.rules.prefetch`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.prefix import prefetch_plan as lengths
from kvlitmus.spec.prefix.prefetch_plan import HostCall, Planned, PlanPrefetch
from kvlitmus.spec.words.units import Slot, Tokens

# The gates


@fact(0)
def storage_on(call: PlanPrefetch) -> bool:
    """Whether the storage is switched on."""
    return call.ask.storage_on


@fact(0)
def threshold(call: PlanPrefetch) -> Tokens:
    """The least length worth a read, a page at least."""
    return lengths.least_length(call.ask)


@fact(0)
def full_length(call: PlanPrefetch) -> Tokens:
    """The key's length down to whole pages."""
    return lengths.full_length(call.ask)


@fact(0)
def occupied(call: PlanPrefetch) -> Tokens:
    """What the prefetches under way account for, before this one is added."""
    return Tokens(call.ask.occupied)


@fact(0)
def quota(call: PlanPrefetch) -> int:
    """How much the prefetches under way may account for."""
    return call.ask.capacity


@fact(0)
def gates_open(storage_on: bool, full_length: Tokens, threshold: Tokens, occupied: Tokens, quota: int) -> bool:
    """Whether no gate is shut: storage on, full length ≥ threshold, occupied < quota."""
    return storage_on and full_length >= threshold and occupied < quota


# What the plan says


@fact(0)
def started(answer: Planned) -> bool:
    """Whether the plan says that a prefetch starts."""
    return answer.plan is not None and answer.plan.refusal is None


@fact(0)
def refusal(answer: Planned) -> str | Unknown | None:
    """The reason that the plan gives for not starting; unknown where planning raised."""
    return UNKNOWN if answer.plan is None else answer.plan.refusal


@fact(0)
def planned_length(answer: Planned) -> Tokens:
    """Units of the key that the planned read covers."""
    return Tokens(answer.plan.key_length if answer.plan is not None else 0)


@fact(0)
def planned_start(answer: Planned) -> int:
    """The first unit of the key that the planned read covers."""
    return answer.plan.key_start if answer.plan is not None else 0


@fact(0)
def hashed_pages(answer: Planned) -> int:
    """Page hashes that the plan will ask the storage for."""
    return answer.plan.hashed_pages if answer.plan is not None else 0


@fact(0)
def accounted(answer: Planned) -> Tokens:
    """What the plan adds to the quota."""
    return Tokens(answer.plan.accounted if answer.plan is not None else 0)


@fact(0)
def prefix_due(call: PlanPrefetch, started: bool) -> Sequence[str]:
    """The names of the pages before the key, for a prefetch that starts; none for any other."""
    return call.ask.prefix_keys if started else ()


@fact(0)
def prefix_told(answer: Planned, started: bool) -> Sequence[str] | Unknown:
    """The names that storage will be given as those of the pages before the read; unknown where the plan leaves them out."""
    if not started or answer.plan is None:
        return ()
    return UNKNOWN if answer.plan.prefix_keys is None else answer.plan.prefix_keys


# What the host saw


@fact(0)
def host_effects(answer: Planned) -> int:
    """How many calls that change something the plan made to the host's memory."""
    return sum(call.name != "available" for call in answer.calls)


@fact(0)
def memory_calls(answer: Planned) -> int:
    """How many allocations and evictions the plan asked for."""
    return sum(call.name in ("alloc", "evict") for call in answer.calls)


@fact(0)
def reserved(answer: Planned) -> Tokens:
    """Host slots that the plan was granted and did not give back."""
    if answer.held is not None:
        return Tokens(len(answer.held))
    kept = 0
    for call in answer.calls:
        if call.name == "alloc" and call.answer is not None:
            kept += call.answer
        elif call.name == "free":
            kept -= call.amount
    return Tokens(kept)


@fact(0)
def stray_slots(answer: Planned) -> Sequence[Slot] | Unknown:
    """Slots that the plan names but does not hold, or holds but does not name, or names twice; unknown without numbers."""
    if answer.held is None or answer.strays is None:
        return UNKNOWN
    if answer.plan is None:
        return answer.strays
    named, held = Counter(map(Slot, answer.plan.slots)), Counter(answer.held)
    return [*(named - held), *(held - named), *answer.strays]


@fact(0)
def alloc_sizes(answer: Planned) -> Sequence[Tokens]:
    """The sizes of the plan's allocations, in order."""
    return [Tokens(call.amount) for call in answer.calls if call.name == "alloc"]


def pins_after(pins: int, call: HostCall) -> int:
    """How often the anchor is protected after a call."""
    return pins + (call.name == "protect") - (call.name == "release")


@fact(0)
def anchor_pins(answer: Planned) -> int:
    """How often the anchor was protected and not released."""
    pins = 0
    for call in answer.calls:
        pins = pins_after(pins, call)
    return pins


@fact(0)
def unpinned_calls(answer: Planned) -> int:
    """Allocations and evictions that happened while the anchor was not protected."""
    pins, unpinned = 0, 0
    for call in answer.calls:
        pins = pins_after(pins, call)
        unpinned += call.name in ("alloc", "evict") and pins <= 0
    return unpinned


@fact(0)
def eviction_sizes(answer: Planned) -> Sequence[Tokens]:
    """How much the plan asked to evict, call by call."""
    return [Tokens(call.amount) for call in answer.calls if call.name == "evict"]


@fact(0)
def first_eviction(answer: Planned) -> int | None:
    """Which of the calls was the first eviction, counted from 0; none where nothing was evicted."""
    return next((place for place, call in enumerate(answer.calls) if call.name == "evict"), None)


@fact(0)
def eviction_deficit(call: PlanPrefetch, answer: Planned, first_eviction: int | None, full_length: Tokens) -> Tokens:
    """How much was lacking for the full length when the eviction was asked for, in whole pages."""
    if first_eviction is None:
        return Tokens(0)
    return lengths.deficit(full_length, answer.calls[first_eviction].available, call.ask.page_size)


class Fallback(NamedTuple):
    """What the host said, and was asked for, after the eviction; see the facts that take it apart."""

    reading: int | None
    refused: bool
    last_try: Tokens


@fact(0)
def fallback(answer: Planned, first_eviction: int | None, full_length: Tokens) -> Fallback:
    """What the host said, and was asked for, after the eviction; of all calls where nothing was evicted."""
    reading, last_try, refused = None, 0, False
    for call in answer.calls if first_eviction is None else answer.calls[first_eviction + 1 :]:
        if call.name == "available":
            reading, last_try = call.answer, 0
            refused = refused or (reading is not None and reading < full_length)
        elif call.name == "alloc":
            refused = refused or (call.amount >= full_length and call.answer is None)
            if reading is not None and last_try == 0:
                last_try = call.amount
    return Fallback(reading, refused, Tokens(last_try))


@fact(0)
def last_reading(fallback: Fallback) -> int | None:
    """The last reading of what is available, none older than the eviction."""
    return fallback.reading


@fact(0)
def full_refused(fallback: Fallback) -> bool:
    """Whether, after the eviction, the host refused the full length or said that it has less."""
    return fallback.refused


@fact(0)
def last_try(fallback: Fallback) -> Tokens:
    """The size of the allocation that followed the last reading; 0 for none."""
    return fallback.last_try


@fact(0)
def last_granted(answer: Planned) -> Tokens:
    """How much the last allocation was granted; 0 where it was refused, or nothing was asked for."""
    last = next((call for call in reversed(answer.calls) if call.name == "alloc"), None)
    return Tokens(0 if last is None or last.answer is None else last.answer)


@fact(0)
def truncated_length(call: PlanPrefetch, last_reading: int | None) -> Tokens:
    """The whole pages of the last reading, at most the full length; 0 below the threshold."""
    return Tokens(0) if last_reading is None else lengths.truncated_length(call.ask, last_reading)
