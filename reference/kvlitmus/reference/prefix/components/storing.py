"""Storage behind the host of components: writes to it, and that it comes and goes.

What the boundary of a write needs is covered on the host as by a receipt.  Where several things are right, a write of
nothing isn't begun, and prefetches are given up in the order in which they began.
"""

from __future__ import annotations

from kvlitmus.reference.prefix.components.prefetch import abort
from kvlitmus.reference.prefix.components.tree import folded
from kvlitmus.spec.prefix.components.calls import Entries, Taken, Writing
from kvlitmus.spec.prefix.components.copies import due_in_storage
from kvlitmus.spec.prefix.components.state import ends_of, landing_on_host, needed_by
from kvlitmus.spec.prefix.listener import HOST
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Abandon, Attach, Detach, Write, Written
from kvlitmus.spec.words.setting import Setting


def attach(state: State, setting: Setting, call: Attach) -> tuple[State, None]:
    """Storage is there."""
    return folded(state, setting, call, None), None


def detach(state: State, setting: Setting, call: Detach) -> tuple[State, Entries]:
    """Storage is away, and every prefetch that isn't over is aborted; writes go on."""
    returned: dict[str, tuple[int, ...]] = {}
    for number in [number for number, fetch in state.fetches.items() if not fetch.over]:
        state, given = abort(state, setting, Abandon(number))
        for name, places in given.items():
            returned[name] = (*returned.get(name, ()), *places)
    return folded(state, setting, call, returned), returned


def write(state: State, setting: Setting, call: Write) -> tuple[State, Writing]:
    """Write what the boundary needs and storage lacks, if all that it needs is on the host and has landed there."""
    needs = needed_by(setting, call.path, call.length)
    takes = due_in_storage(setting, call)
    there = state.places(HOST).keys() - landing_on_host(state.under_way.values())
    if state.attached is False or not needs <= there or not takes:
        return state, Taken(None)
    answer = Taken(ends_of(setting, call.path, takes))
    return folded(state, setting, call, answer), answer


def written(state: State, setting: Setting, call: Written) -> tuple[State, None]:
    """What the write read is protected by it no more."""
    if call.number not in state.under_way:
        raise ValueError(f"write {call.number} is not under way")
    return folded(state, setting, call, None), None


STORING = {
    Attach: attach,
    Detach: detach,
    Write: write,
    Written: written,
}
"""How these calls are performed."""
