"""Write policies of components: the backups that the reference begins by itself.

With write-through what an insert leaves as the last boundary of its key is backed up at once, with the selective policy
when an insert goes through it again.  With write-back every boundary is backed up that an eviction would lose; which
ones these are, is found by performing the call: a cache is a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from kvlitmus.reference.prefix.components import host as component_host
from kvlitmus.reference.prefix.components import perform as one_call
from kvlitmus.spec.prefix.calls import Insert, Path, Reset
from kvlitmus.spec.prefix.components.calls import Begun, JointCall
from kvlitmus.spec.prefix.components.copies import largest_together, plan_for
from kvlitmus.spec.prefix.components.state import end_name, lacking_at, longest, path_to
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, LoadBack
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of
from kvlitmus.spec.words.units import Name


def perform(
    state: State, setting: Setting, call: JointCall, numbers: Iterator[int]
) -> tuple[State, object, Sequence[Begun]]:
    """The cache after a call and the backups that it has begun, the answer, and those, under the next ``numbers``."""
    if setting.config.tiered and setting.config.write == WRITE_BACK:
        return saved(state, setting, call, numbers)
    then, answer = one_call.perform(state, setting, call)
    path = due(state, then, setting, call) if setting.config.tiered else None
    if path is None:
        return then, answer, ()
    then, one = backed(then, setting, path, next(numbers))
    return then, answer, one


def due(state: State, then: State, setting: Setting, call: JointCall) -> Path | None:
    """The path to the boundary that a call has made due."""
    if not isinstance(call, Insert):
        return None
    path, boundary = call.path, longest(setting, call.path, then.places(DEVICE))
    again = (setting.layout.base.name, end_name(path, boundary)) in state.places(DEVICE)
    wanted = setting.config.write == WRITE_THROUGH or (setting.config.write == SELECTIVE and again)
    return path_to(setting, end_name(path, boundary)) if boundary and wanted else None


def backed(
    state: State, setting: Setting, path: Path, number: int, *, ended: bool = False
) -> tuple[State, Sequence[Begun]]:
    """Back up what a prefix needs and the host lacks, and wait for it if it is to have ended."""
    call = BackUp(path, len(path.names), number)
    then, answer = component_host.back_up(state, setting, call)
    if answer.places is None and not any(answer.freed.values()):
        return then, ()
    if ended and answer.places is not None:
        then, _ = component_host.copied(then, setting, Copied(number, ok=True))
    return then, (Begun(call, answer, ended and answer.places is not None),)


def saved(
    state: State, setting: Setting, call: JointCall, numbers: Iterator[int]
) -> tuple[State, object, Sequence[Begun]]:
    """Back up what a call would lose, and perform it: until it would lose nothing that wasn't tried."""
    begun: list[Begun] = []
    tried: set[Name] = set()
    while True:
        then, answer = one_call.perform(state, setting, call)
        lost = [one for one in losses(state, then, setting) if one not in tried]
        if not lost or isinstance(call, Reset):
            return then, answer, begun
        guarded = state._replace(under_way={**state.under_way, **guard(state, setting, call)})
        for name in lost:
            tried.add(name)
            guarded, some = backed(guarded, setting, path_to(setting, name), next(numbers), ended=True)
            begun += some
        state = guarded._replace(under_way=state.under_way)


def guard(state: State, setting: Setting, call: JointCall) -> Mapping[int, Copy]:
    """What a load back is about to need, as a copy that protects it: no backup makes room with it."""
    if not isinstance(call, LoadBack):
        return {}
    plan = plan_for(setting, state, call.path, largest_together(setting, state, call.path), load=True)
    return {call.number: component_host.guard(state, plan, DEVICE)}


def losses(state: State, then: State, setting: Setting) -> Sequence[Name]:
    """The boundaries of the device that neither tier makes valid any more, the shortest first."""
    there, left = state.places(DEVICE).keys(), then.places(DEVICE).keys()
    if there <= left:
        return []
    layout, both = setting.layout, left | then.places(HOST).keys()
    paths = [path_to(setting, name) for base, name in there if base == layout.base.name]
    lost = [
        (len(path.names), path.names[-1])
        for path in paths
        if len(path.names) % step_of(layout.components) == 0
        and whole(setting, path, there)
        and not whole(setting, path, both)
    ]
    return [name for _, name in sorted(lost)]


def whole(setting: Setting, path: Path, there: AbstractSet[At]) -> bool:
    """Whether every component can end where a path does, with what is there."""
    return not lacking_at(setting, path, len(path.names), there)
