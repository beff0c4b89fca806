"""Every call on storage behind host memory that a lawful caller may make in a state of a small cache of components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvlitmus.reference.prefix.components.tree import match
from kvlitmus.spec.interface.tiers import PUT
from kvlitmus.spec.prefix.calls import Match, Path
from kvlitmus.spec.prefix.components.calls import JointCall
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Attach, Detach, Write, Written
from kvlitmus.spec.words.setting import Setting


def write_calls(cache: State, setting: Setting, paths: Sequence[Path], most: int) -> Iterator[JointCall]:
    """Storage comes or goes; a write begins, of which storage has nothing, the KV, or all; one ends."""
    if cache.attached is None:
        return
    yield Detach() if cache.attached else Attach()
    number = max(cache.under_way, default=-1) + 1
    writes = [number for number, one in cache.under_way.items() if one.kind == PUT]
    for path in paths if len(writes) < most else ():
        hit = match(cache, setting, Match(path))[1]
        ends = frozenset(range(1, len(path.names) + 1))
        names = [one.name for one in setting.layout.components]
        for many in (0, 1, len(names)):
            yield Write(path, hit.length, dict.fromkeys(names[:many], ends), number)
    for one in writes:
        for ok in (True, False):
            yield Written(one, ok)
