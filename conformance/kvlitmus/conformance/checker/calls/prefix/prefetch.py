"""One prefetch plan against a scripted host, as a value.

What is judged comes from what the suite asked and from what its scripted host saw; the plan's own
words count only where the rules are about its words.
"""

from __future__ import annotations

from kvlitmus.conformance.checker.scripted_host import HostScript, ScriptedHost
from kvlitmus.conformance.ports import Prefetch
from kvlitmus.conformance.support.integers import integer, integers, is_integer
from kvlitmus.spec.interface.plans import PrefetchPlan
from kvlitmus.spec.prefix.prefetch_plan import Planned, PlanPrefetch
from kvlitmus.spec.words.units import Slot


def run_plan(planner: Prefetch, call: PlanPrefetch, script: HostScript) -> tuple[Planned, Exception | None]:
    """Let a planner plan against a script: what came of it, and what it raised, if it did."""
    host = ScriptedHost(script)
    try:
        plan = checked_plan(planner.plan_prefetch(call.ask, host))
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        return planned(None, host), error
    return planned(plan, host), None


def planned(plan: PrefetchPlan | None, host: ScriptedHost) -> Planned:
    """What came of a plan, with what its host saw; ``plan`` is ``None`` where planning raised."""
    return Planned(plan, tuple(host.calls), tuple(map(Slot, host.held)), tuple(map(Slot, host.strays)))


def checked_plan(answer: object) -> PrefetchPlan:
    """The answer as a plan with plain integers; raises ``TypeError`` for anything that has not the promised form
    (PORT-03).
    """
    if not isinstance(answer, PrefetchPlan):
        raise TypeError(f"plan_prefetch must answer a PrefetchPlan (got {type(answer).__name__})")
    slots = tuple(answer.slots)
    counts = (answer.key_start, answer.key_length, answer.hashed_pages, answer.accounted)
    if not all(map(is_integer, (*slots, *counts))):
        raise TypeError("the slots, lengths and counts of a PrefetchPlan must be integers")
    if not (answer.refusal is None or isinstance(answer.refusal, str)):
        raise TypeError("the refusal of a PrefetchPlan must be text or None")
    before = answer.prefix_keys
    if before is not None and not (isinstance(before, list | tuple) and all(isinstance(one, str) for one in before)):
        raise TypeError("the prefix_keys of a PrefetchPlan must be a list or tuple of texts, or None")
    start, length, hashed, accounted = map(integer, counts)
    return answer._replace(
        slots=tuple(integers(slots)),
        key_start=start,
        key_length=length,
        hashed_pages=hashed,
        accounted=accounted,
        prefix_keys=None if before is None else tuple(before),
    )
