"""One prefetch plan against a scripted host, as a value.

What is judged comes from what the suite asked and from what its scripted host saw; the plan's own
words count only where the rules are about its words.
"""

from __future__ import annotations

from typing import cast

from kvlitmus.conformance.checker.calls.prefix.hashing import checked_hashes
from kvlitmus.conformance.checker.scripted_host import HostScript, ScriptedHost
from kvlitmus.conformance.ports import Prefetch
from kvlitmus.conformance.support.integers import OddForm, integer, integers, is_integer, sequence
from kvlitmus.conformance.support.text import shown
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
    """The answer as a plan with plain integers and texts; raises :class:`OddForm` for anything that has not the
    promised form (PORT-03).
    """
    if not issubclass(type(answer), PrefetchPlan):
        raise OddForm(f"expected a PrefetchPlan, got {shown(answer)}")
    refusal, given, *counts, before = cast("PrefetchPlan", tuple.__getitem__(cast("PrefetchPlan", answer), slice(None)))
    slots = sequence(given, "slots")
    if not all(map(is_integer, (*slots, *counts))):
        raise OddForm("expected integers as the slots, lengths and counts of a PrefetchPlan")
    if not (refusal is None or type(refusal) is str):
        raise OddForm(f"expected text or None as the refusal of a PrefetchPlan, got {shown(refusal)}")
    names = None if before is None else checked_hashes(before)
    start, length, hashed, accounted = map(integer, counts)
    return PrefetchPlan(refusal, tuple(integers(slots)), start, length, hashed, accounted, names)
