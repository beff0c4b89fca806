"""Every call on the host memory of components that a lawful caller may make in a state of a small cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kvlitmus.reference.prefix.components.tree import match
from kvlitmus.spec.interface.tiers import BACKUP, LOAD, PUT
from kvlitmus.spec.prefix.calls import Match, Path
from kvlitmus.spec.prefix.components.calls import JointCall
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, EvictHost, LoadBack
from kvlitmus.spec.words.setting import Setting


def copy_calls(cache: State, setting: Setting, paths: Sequence[Path], most: int) -> Iterator[JointCall]:
    """To begin a backup and a load, if fewer of that kind than ``most`` run; to end each; to evict from the host."""
    if not setting.layout.host:
        return
    number = max(cache.under_way, default=-1) + 1
    running = Counter(one.kind for one in cache.under_way.values())
    for path in paths:
        hit = match(cache, setting, Match(path))[1]
        if running[BACKUP] < most:
            yield BackUp(path, hit.length, number)
        if running[LOAD] < most:
            yield LoadBack(path, start=hit.length, number=number)
    for one in [number for number, copy in cache.under_way.items() if copy.kind != PUT]:
        for ok in (True, False) if setting.profile.component_landing == "ended" else (True,):
            yield Copied(one, ok)
    for component in setting.layout.components:
        yield EvictHost({component.name: 1})


def copy_identity(copy: Copy) -> tuple[object, ...]:
    """What two copies have in common that act alike; which places they have is of no matter."""
    return (copy.kind, tuple(sorted(copy.places)), tuple(sorted(copy.device)), tuple(sorted(copy.host)))
