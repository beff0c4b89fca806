"""Calls below the device of a hierarchy that shows no snapshot: what is under way goes on, and pages come back.

Nothing is judged of these calls by themselves.  They lead to what is: do pages that came
back hold what belongs there?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec import effects, partial
from kvlitmus.spec.interface.tiers import DONE, LOAD
from kvlitmus.spec.units import Key, pages_in_order, pages_of

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

CAPABILITY = "unseen_tiers"
"""That a hierarchy is played without a snapshot, and its jobs can be led on."""


def go_on(checker: Checker, which: int) -> None:
    """One of the jobs that can go on ends well."""
    ready = [job for job in checker.look("jobs") if job.ready and not job.landed]
    if ready:
        job = ready[which % len(ready)]
        checker.call(f"advance({job.kind} {job.id})", "advance", job.id, DONE)
        checker.before = checker.observe_now()


def tick(checker: Checker) -> None:
    """A tick of the scheduler."""
    checker.call("tick()", "tick")
    checker.before = checker.observe_now()


def restore(checker: Checker, key: Key) -> None:
    """Load back what of a key is on the host alone, and wait for it."""
    path, size = checker.path(key), checker.size
    answer = checker.call(f"load_back({key_text(key)})", "load_back", key)
    on_device, given = checker.fields(answer, 2, "Loaded(before, slots)")
    start = checker.count(on_device, "the units on the device before") // size
    slots = checker.slots_or_none(given) or ()
    state, setting = partial.tried(checker.state, checker.setting, len(slots) // size), checker.setting
    names, pages = path.pages[start : start + len(slots) // size], pages_in_order(slots, size)
    state = partial.gone(partial.taken(state, setting, pages_of(slots, size)), setting, names)
    if names:
        above = path.pages[start - 1] if start else path.root
        state = partial.certain(state, setting, path.pages[:start])
        state = state._replace(tree=effects.place(effects.touch(state.tree, ()), above, names, pages))
        state = partial.certain(state, setting, names)
        units = path.names[start * size : start * size + len(slots)]
        state = state._replace(contents=effects.write(state.contents, slots, units))
    checker.state = state
    while loads := [job for job in checker.look("jobs") if job.kind == LOAD and job.ready and not job.landed]:
        checker.call(f"advance({LOAD} {loads[0].id})", "advance", loads[0].id, DONE)
    tick(checker)
