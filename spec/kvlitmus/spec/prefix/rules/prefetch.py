"""The prefetch plan: how much is fetched from storage, decided before anything is fetched.

When a request arrives whose prompt is longer than what the tree holds, the rest of its KV may
lie in storage, put there by another machine or an earlier run.  A **prefetch** brings it into
host memory while the request still waits.  Its **plan** is made first, in one go:

* the **gates**: storage is on, the key's whole pages reach the **threshold** (a short read isn't
  worth it), and the prefetches under way do not fill their quota.  A shut gate has no effect
  whatever;
* the **anchor**, the tree node under which the result will be attached, is protected;
* host memory for the **full length** (the key down to whole pages) is allocated; when there is
  too little, something is evicted, once, and the allocation is tried again;
* when that fails too, the plan is **truncated** to the whole pages that are available, never
  more than was wanted.  If these reach the threshold, they are allocated, without evicting;
* otherwise everything taken is given back and there is no prefetch.

Truncation keeps the *beginning* of the key, so that what describes the part before it (the
last page hash, the names of all pages before, the anchor) stays true; and everything later, the key
that is read, its hashes, the quota, follows the truncated length.  Upstream's first version forgot that in two places
(it is told at the rules).

All lengths are in units of the key (tokens, or bigrams), one host slot each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kvlitmus.spec.interface.plans import NO_MEMORY, RATE_LIMITED, STORAGE_OFF, TOO_SHORT
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.prefix import prefetch_plan as lengths
from kvlitmus.spec.prefix.prefetch_plan import HostCall, Planned, PlanPrefetch
from kvlitmus.spec.prefix.rules import hashing as _hashing  # noqa: F401 - its facts
from kvlitmus.spec.words.units import Slot, Tokens, same

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


# Rules

plan_rule = partial(rule, on=(On.PLAN_PREFETCH,))
gate_rule = partial(plan_rule, reference="prefix.prefetch.gate")
reserve_rule = partial(plan_rule, reference="prefix.prefetch.reserve")
start_rule = partial(plan_rule, reference="prefix.prefetch.start")


@gate_rule(
    "PREFETCH-01",
    source="R-PF-01, R-PF-03, R-PF-04, R-PF-12; sglang#16370",
    allowed="no prefetch and no effect, since storage is off, {full_length} is below {threshold}, or {occupied} fills the quota of {quota}",
    premise="not gates_open",
)
def nothing_happens_behind_a_shut_gate(gates_open: bool, started: bool, host_effects: int) -> bool:
    """While storage is off, the key's whole pages are fewer units than the threshold, or the prefetches under way account
    for the quota, a prefetch MUST NOT start nor touch the host's memory or the anchor.
    """
    return gates_open or (not started and host_effects == 0)


@gate_rule(
    "PREFETCH-04",
    source="R-PF-04, R-PF-12; sglang#26449",
    allowed="an attempt to get memory, since storage is on, {full_length} ≥ {threshold} and {occupied} < {quota}",
    premise="gates_open",
)
def open_gates_let_a_prefetch_through(gates_open: bool, memory_calls: int) -> bool:
    """When no gate is shut, a prefetch MUST try to get memory: a length of exactly the threshold passes, and so does the
    last free unit of the quota, however long the key.
    """
    return not gates_open or memory_calls > 0


@reserve_rule(
    "PREFETCH-05",
    source="R-PF-03, R-PF-06",
    allowed="allocations of whole pages, {full_length} at most",
    premise="alloc_sizes",
)
def a_prefetch_asks_for_whole_pages_of_its_key(
    alloc_sizes: Sequence[Tokens], full_length: Tokens, units_per_page: int
) -> bool:
    """A prefetch MUST allocate whole pages only, and never more than the whole pages of its key, whatever else has
    become available.
    """
    return all(0 < size <= full_length and size % units_per_page == 0 for size in alloc_sizes)


@reserve_rule(
    "PREFETCH-06",
    source="R-PF-08, R-PF-10; sglang#9927",
    allowed="the anchor protected before, and still protected",
    premise="memory_calls",
)
def the_anchor_is_protected_first(unpinned_calls: int) -> bool:
    """The anchor MUST be protected during every allocation and eviction, since these could take it away."""
    return unpinned_calls == 0


@reserve_rule(
    "PREFETCH-07",
    source="R-PF-06, R-PF-09; sglang#16370",
    allowed="the full length of {full_length} tried again after one eviction",
    premise="gates_open",
)
def a_prefetch_gives_way_only_after_evicting(
    gates_open: bool, reserved: Tokens, full_length: Tokens, eviction_sizes: Sequence[Tokens], full_refused: bool
) -> bool:
    """A prefetch MUST NOT settle for less than the full length, or for nothing, before it has evicted and the host
    still couldn't serve the full length.
    """
    return not gates_open or reserved >= full_length or (len(eviction_sizes) > 0 and full_refused)


@reserve_rule(
    "PREFETCH-08",
    source="R-PF-06, R-PF-12; sglang#16370, sglang#26945",
    allowed="an allocation of {truncated_length}, since {last_reading} are available (0: none)",
    premise="last_reading",
)
def a_truncated_prefetch_takes_the_whole_pages_that_are_available(
    gates_open: bool,
    reserved: Tokens,
    full_length: Tokens,
    last_reading: int | None,
    last_try: Tokens,
    truncated_length: Tokens,
) -> bool:
    """Where the full length can't be had, a prefetch MUST ask for the whole pages that the host says are available, at
    most the full length, if these reach the threshold, and for nothing otherwise.
    """
    if not gates_open or reserved >= full_length:
        return True
    return last_reading is not None and last_try == truncated_length


@reserve_rule(
    "PREFETCH-09",
    source="R-PF-09; sglang#26945",
    allowed="one eviction at most, and none for the truncated length",
    premise="eviction_sizes",
)
def a_prefetch_evicts_at_most_once(eviction_sizes: Sequence[Tokens]) -> bool:
    """A prefetch MUST evict at most once: the truncated allocation is made from what is available, without evicting."""
    return len(eviction_sizes) <= 1


@reserve_rule("PREFETCH-10", source="R-PF-06, R-PF-12", allowed="{threshold} slots at least", premise="started")
def a_started_prefetch_reaches_the_threshold(started: bool, reserved: Tokens, threshold: Tokens) -> bool:
    """A prefetch that starts MUST have reserved the threshold at least, after truncation too."""
    return not started or reserved >= threshold


@start_rule(
    "PREFETCH-11",
    source="R-PF-07; sglang#16370 (as released in 0.5.12 the key stayed untruncated)",
    allowed="a key of {reserved} units",
    premise="started",
)
def the_key_is_as_long_as_the_memory(started: bool, reserved: Tokens, planned_length: Tokens) -> bool:
    """A prefetch that starts MUST read exactly as many units of its key as it has slots reserved."""
    return not started or planned_length == reserved


@start_rule("PREFETCH-12", source="R-PF-07; sglang#16370", allowed="a read from unit 0 on", premise="started")
def truncation_keeps_the_beginning_of_the_key(started: bool, planned_start: int) -> bool:
    """Truncation MUST keep the first units of the key, so that the last page hash and the anchor, which describe what
    precedes them, stay valid.
    """
    return not started or planned_start == 0


@start_rule(
    "PREFETCH-13",
    source="R-PF-07; sglang#16370",
    allowed="hashes for {reserved} units, {units_per_page} a page",
    premise="started",
)
def the_hashes_cover_what_is_reserved(started: bool, reserved: Tokens, hashed_pages: int, units_per_page: int) -> bool:
    """A prefetch that starts MUST ask the storage for the hashes of exactly the pages that it has memory for."""
    return not started or hashed_pages * units_per_page == reserved


@start_rule(
    "PREFETCH-14", source="R-PF-05, R-PF-07; sglang#16370", allowed="{reserved} accounted for", premise="reserved"
)
def the_quota_counts_what_is_reserved(reserved: Tokens, accounted: Tokens) -> bool:
    """A prefetch MUST add to the quota exactly what it has reserved; one that doesn't start adds nothing."""
    return accounted == reserved


@reserve_rule(
    "PREFETCH-15",
    source="R-PF-08; sglang#16370, sglang#26945",
    allowed="nothing reserved and the anchor released",
    premise="not started",
)
def a_prefetch_that_does_not_start_leaves_nothing_behind(started: bool, reserved: Tokens, anchor_pins: int) -> bool:
    """A prefetch that doesn't start MUST keep no slot and leave the anchor unprotected, whichever allocation failed,
    the last one too.
    """
    return started or (reserved == 0 and anchor_pins == 0)


@reserve_rule("PREFETCH-16", source="R-PF-08, R-PF-10", allowed="the anchor protected once", premise="started")
def a_started_prefetch_protects_its_anchor(started: bool, anchor_pins: int) -> bool:
    """A prefetch that starts MUST leave its anchor protected exactly once."""
    return not started or anchor_pins == 1


@start_rule(
    "PREFETCH-17", source="R-PF-07, R-PF-08", allowed="the slots that the host granted, each once", premise="reserved"
)
def the_plan_names_the_slots_it_holds(stray_slots: Sequence[Slot]) -> bool:
    """A plan MUST name exactly the slots that it was granted and did not give back, each once."""
    return len(stray_slots) == 0


@reserve_rule(
    "PREFETCH-18",
    strength=Strength.SHOULD,
    source="R-PF-09; sglang#16370 (evicts the full length)",
    allowed="{eviction_deficit} evicted at most",
    premise="eviction_sizes",
)
def an_eviction_asks_for_the_deficit(eviction_sizes: Sequence[Tokens], eviction_deficit: Tokens) -> bool:
    """A prefetch SHOULD evict no more than it lacks for the full length, in whole pages, and one page where it lacks
    nothing: what is evicted and then not used was lost for nothing.
    """
    return sum(eviction_sizes) <= eviction_deficit


@gate_rule(
    "PREFETCH-19",
    strength=Strength.SHOULD,
    source="R-PF-01; sglang#26886, sglang#25520",
    allowed="a reason that is true of this prefetch",
    premise="not started",
)
def a_refusal_gives_its_reason(
    started: bool,
    refusal: str | None,
    storage_on: bool,
    full_length: Tokens,
    threshold: Tokens,
    occupied: Tokens,
    quota: int,
    gates_open: bool,
) -> bool:
    """A prefetch that doesn't start SHOULD say why, truly: silent refusals have kept storage unread for weeks."""
    if started:
        return refusal is None
    return (
        (refusal == STORAGE_OFF and not storage_on)
        or (refusal == TOO_SHORT and full_length < threshold)
        or (refusal == RATE_LIMITED and occupied >= quota)
        or (refusal == NO_MEMORY and gates_open)
    )


@reserve_rule(
    "PREFETCH-20",
    source="R-PF-06, R-PF-08; sglang#16370",
    allowed="a start with the {last_granted} slots that were granted",
)
def what_is_granted_last_is_what_a_prefetch_starts_with(started: bool, reserved: Tokens, last_granted: Tokens) -> bool:
    """A prefetch whose last allocation was granted MUST start with exactly what it was granted: there is nothing left
    for which it could give up.
    """
    return last_granted == 0 or (started and reserved == last_granted)


@start_rule(
    "PREFETCH-21",
    source="R-PF-07; sglang#16370 (asked in its review), H-15",
    allowed="{prefix_due}",
    premise="prefix_due",
)
def what_precedes_the_key_survives_truncation(prefix_due: Sequence[str], prefix_told: Sequence[str]) -> bool:
    """A prefetch that starts MUST give storage exactly the names of the pages before its key, in their order: truncation
    takes from the end of the key and changes nothing of what precedes it.
    """
    return same(prefix_due, prefix_told)
