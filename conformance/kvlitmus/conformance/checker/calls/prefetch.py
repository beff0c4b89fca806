"""What happened around one prefetch plan, as facts.

The facts come from what the suite asked and from what its scripted host saw; the plan's own
words count only where the rules are about its words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvlitmus.conformance.checker.scripted_host import HostScript, ScriptedHost
from kvlitmus.conformance.ports import Prefetch
from kvlitmus.spec.prefetch_plan import (
    HostCall,
    PrefetchAsk,
    PrefetchPlan,
    deficit,
    full_length,
    least_length,
    truncated_length,
)


def run_plan(planner: Prefetch, ask: PrefetchAsk, script: HostScript) -> tuple[dict[str, object], Exception | None]:
    """Let a planner plan against a script: the facts, and what it raised, if it did."""
    host = ScriptedHost(script)
    try:
        plan = checked_plan(planner.plan_prefetch(ask, host))
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        return facts_of_plan(ask, None, host), error
    return facts_of_plan(ask, plan, host), None


def checked_plan(answer: object) -> PrefetchPlan:
    """The answer as a plan with plain integers; raises ``TypeError`` for anything that has not the promised form
    (PORT-03).
    """
    if not isinstance(answer, PrefetchPlan):
        raise TypeError(f"plan_prefetch must answer a PrefetchPlan (got {type(answer).__name__})")
    slots = tuple(answer.slots)
    counts = (answer.key_start, answer.key_length, answer.hashed_pages, answer.accounted)
    if any(type(number) is not int for number in (*slots, *counts)):
        raise TypeError("the slots, lengths and counts of a PrefetchPlan must be integers")
    if not (answer.refusal is None or isinstance(answer.refusal, str)):
        raise TypeError("the refusal of a PrefetchPlan must be text or None")
    return answer._replace(slots=slots)


def facts_of_plan(ask: PrefetchAsk, plan: PrefetchPlan | None, host: ScriptedHost) -> dict[str, object]:
    """All facts of one plan; ``plan`` is ``None`` where planning raised."""
    named = Counter(() if plan is None else plan.slots)
    held = Counter(dict.fromkeys(host.held, 1))
    strays = [*(named - held), *(held - named), *host.strays]
    facts = facts_of_conversation(ask, plan, host.calls)
    facts["reserved"] = len(host.held)
    facts["stray_slots"] = strays if plan is not None else list(host.strays)
    return facts


def facts_of_conversation(ask: PrefetchAsk, plan: PrefetchPlan | None, calls: Sequence[HostCall]) -> dict[str, object]:
    """The facts that follow from lengths and answers alone; nothing here looks at a slot."""
    full = full_length(ask)
    least = least_length(ask)
    started = plan is not None and plan.refusal is None
    reason = {} if plan is None else {"refusal": plan.refusal}
    return {
        **reason,
        "key_length": ask.key_length,
        "page_size": ask.page_size,
        "storage_on": ask.storage_on,
        "threshold": least,
        "full_length": full,
        "occupied": ask.occupied,
        "quota": ask.capacity,
        "gates_open": ask.storage_on and full >= least and ask.occupied < ask.capacity,
        "host_effects": sum(call.name != "available" for call in calls),
        "memory_calls": sum(call.name in ("alloc", "evict") for call in calls),
        "started": started,
        "planned_length": plan.key_length if plan is not None else 0,
        "planned_start": plan.key_start if plan is not None else 0,
        "hashed_pages": plan.hashed_pages if plan is not None else 0,
        "accounted": plan.accounted if plan is not None else 0,
        "reserved": _kept(calls),
        "alloc_sizes": [call.amount for call in calls if call.name == "alloc"],
        "anchor_pins": _pins(calls),
        "unpinned_calls": _unpinned(calls),
        **_facts_of_eviction(ask, calls),
    }


def _facts_of_eviction(ask: PrefetchAsk, calls: Sequence[HostCall]) -> dict[str, object]:
    """What was evicted, and what the host said and was asked for afterwards."""
    full = full_length(ask)
    sizes = [call.amount for call in calls if call.name == "evict"]
    first = next((place for place, call in enumerate(calls) if call.name == "evict"), None)
    later = calls if first is None else calls[first + 1 :]
    reading, last_try, refused = None, 0, False
    for call in later:
        if call.name == "available":
            reading, last_try = call.answer, 0
            refused = refused or (reading is not None and reading < full)
        elif call.name == "alloc":
            refused = refused or (call.amount >= full and call.answer is None)
            if reading is not None and last_try == 0:
                last_try = call.amount
    return {
        "eviction_sizes": sizes,
        "eviction_deficit": 0 if first is None else deficit(full, calls[first].available, ask.page_size),
        "last_reading": reading,
        "full_refused": refused,
        "last_try": last_try,
        "truncated_length": 0 if reading is None else truncated_length(ask, reading),
    }


def _kept(calls: Sequence[HostCall]) -> int:
    kept = 0
    for call in calls:
        if call.name == "alloc" and call.answer is not None:
            kept += call.answer
        elif call.name == "free":
            kept -= call.amount
    return kept


def _pins(calls: Sequence[HostCall]) -> int:
    return sum(call.name == "protect" for call in calls) - sum(call.name == "release" for call in calls)


def _unpinned(calls: Sequence[HostCall]) -> int:
    pins, unpinned = 0, 0
    for call in calls:
        pins += (call.name == "protect") - (call.name == "release")
        unpinned += call.name in ("alloc", "evict") and pins <= 0
    return unpinned
