"""Write policies of components: the backups that the reference begins by itself.

With write-through what an insert leaves as the last boundary of its key is backed up at once, with the selective policy
when an insert goes through it again.  With write-back every boundary is backed up that an eviction would lose; which
ones these are, is found by performing the call: a cache is a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvlitmus.reference.prefix.components import host as component_host
from kvlitmus.reference.prefix.components import storing as component_storing
from kvlitmus.reference.prefix.components.host import reach_of, together
from kvlitmus.reference.prefix.components.tree import Cache
from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.prefix.calls import Insert, Path, Reset
from kvlitmus.spec.prefix.components.calls import Begun, JointCall
from kvlitmus.spec.prefix.components.state import end_name, ends_at, lacking_at, path_to
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, LoadBack
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import largest, step_of
from kvlitmus.spec.words.units import Name


def perform(
    cache: Cache, setting: Setting, call: JointCall, numbers: Iterator[int]
) -> tuple[Cache, object, Sequence[Begun]]:
    """The cache after a call and the backups that it has begun, the answer, and those, under the next ``numbers``."""
    if setting.config.tiered and setting.config.write == WRITE_BACK:
        return saved(cache, setting, call, numbers)
    then, answer = component_storing.perform(cache, setting, call)
    path = due(cache, then, setting, call) if setting.config.tiered else None
    if path is None:
        return then, answer, ()
    then, one = backed(then, setting, path, next(numbers))
    return then, answer, one


def due(cache: Cache, then: Cache, setting: Setting, call: JointCall) -> Path | None:
    """The path to the boundary that a call has made due."""
    if not isinstance(call, Insert):
        return None
    components, path = setting.layout.components, call.path
    ends = {one.name: ends_at(path, one.name, then.held) for one in components}
    boundary = largest(components, len(path.names), ends.__getitem__, root=setting.profile.window_root)
    again = (setting.layout.base.name, end_name(path, boundary)) in cache.held
    wanted = setting.config.write == WRITE_THROUGH or (setting.config.write == SELECTIVE and again)
    return path_to(setting, end_name(path, boundary)) if boundary and wanted else None


def backed(
    cache: Cache, setting: Setting, path: Path, number: int, *, ended: bool = False
) -> tuple[Cache, Sequence[Begun]]:
    """Back up what a prefix needs and the host lacks, and wait for it if it is to have ended."""
    call = BackUp(path, len(path.names), number)
    then, answer = component_host.back_up(cache, setting, call)
    if answer.places is None and not any(answer.freed.values()):
        return then, ()
    if ended and answer.places is not None:
        then, _ = component_host.copied(then, setting, Copied(number, ok=True))
    return then, (Begun(call, answer, ended and answer.places is not None),)


def saved(
    cache: Cache, setting: Setting, call: JointCall, numbers: Iterator[int]
) -> tuple[Cache, object, Sequence[Begun]]:
    """Back up what a call would lose, and perform it: until it would lose nothing that wasn't tried."""
    begun: list[Begun] = []
    tried: set[Name] = set()
    while True:
        then, answer = component_storing.perform(cache, setting, call)
        lost = [one for one in losses(cache, then, setting) if one not in tried]
        if not lost or isinstance(call, Reset):
            return then, answer, begun
        guarded = cache._replace(copies={**cache.copies, **guard(cache, setting, call)})
        for name in lost:
            tried.add(name)
            guarded, some = backed(guarded, setting, path_to(setting, name), next(numbers), ended=True)
            begun += some
        cache = guarded._replace(copies=cache.copies)


def guard(cache: Cache, setting: Setting, call: JointCall) -> Mapping[int, Copy]:
    """What a load back is about to need, as a copy that protects it: no backup makes room with it."""
    if not isinstance(call, LoadBack):
        return {}
    needs = reach_of(cache, setting, call.path, together(cache, setting, call.path), load=True)
    return {call.number: Copy(LOAD, {}, needs & cache.held.keys(), needs & cache.host_held.keys())}


def losses(cache: Cache, then: Cache, setting: Setting) -> Sequence[Name]:
    """The boundaries of the device that neither tier makes valid any more, the shortest first."""
    if not cache.held.keys() - then.held.keys():
        return []
    layout, both = setting.layout, frozenset(then.held) | then.host_held.keys()
    lost = []
    for (base, name), entry in cache.held.items():
        if base == layout.base.name and entry.end % step_of(layout.components) == 0:
            path = path_to(setting, name)
            if whole(setting, path, frozenset(cache.held)) and not whole(setting, path, both):
                lost.append((entry.end, name))
    return [name for _, name in sorted(lost)]


def whole(setting: Setting, path: Path, there: frozenset[At]) -> bool:
    """Whether every component can end where a path does, with what is there."""
    return not lacking_at(setting, path, len(path.names), there)
