"""The scheduler's step, and the lives of cache and storage.

A scheduler calls :func:`tick` once per step.  What has landed since takes effect there and nowhere else, so that
between two ticks nothing changes behind the scheduler's back.
"""

from __future__ import annotations

from kvlitmus.reference.prefix import backup, fetch, load, put, tier
from kvlitmus.reference.prefix.choose import Choice
from kvlitmus.reference.prefix.hierarchy import empty_hierarchy, works_of
from kvlitmus.spec.prefix.calls import Reset
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Attach, Detach, Tick
from kvlitmus.spec.words.setting import Setting


def tick(state: State, setting: Setting, call: Tick, choice: Choice) -> tuple[State, None]:
    """Take note of what has landed, and let go of what is over."""
    state = backup.begin_postponed(backup.acknowledge_backups(state, setting, choice), setting, choice)
    state = load.acknowledge_loads(state, setting, choice)
    works = works_of(state)
    freed = len(works.release) if choice.released is None else choice.released
    state = tier.free(state._replace(works=works._replace(release=works.release[freed:])), works.release[:freed])
    state = put.acknowledge_puts(fetch.settle(state, setting, choice), choice)
    for names in choice.puts:
        state = put.start_puts(state, names)
    return state, None


def attach(state: State, setting: Setting, call: Attach, _: Choice) -> tuple[State, bool]:
    """Use a storage from now on; refused while there is one."""
    tiers = tiers_of(state)
    return (state, False) if tiers.attached else (state._replace(tiers=tiers._replace(attached=True)), True)


def detach(state: State, setting: Setting, call: Detach, _: Choice) -> tuple[State, bool]:
    """Use no storage any more: prefetches and puts end here; what is cached on device and host stays."""
    if not tiers_of(state).attached:
        return state, False
    state = put.drop_puts(fetch.end_all(state))
    return state._replace(tiers=tiers_of(state)._replace(attached=False)), True


def reset(state: State, setting: Setting, call: Reset, _: Choice) -> tuple[State, None]:
    """Everything fresh, whatever is under way; what stays is the time, the attached storage, and that no job's number
    comes again.
    """
    fresh, tiers = empty_hierarchy(setting), tiers_of(state)
    fresh = fresh._replace(
        tiers=tiers_of(fresh)._replace(attached=tiers.attached, clock=tiers.clock),
        works=works_of(fresh)._replace(serial=works_of(state).serial),
    )
    return fresh, None
