"""Storage behind the host of components: writes to it, and that it comes and goes.

What the boundary of a write needs is covered on the host as by a receipt.  Where several things are right, a write of
nothing isn't begun, and prefetches are given up in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from kvlitmus.reference.prefix.components import prefetch as component_prefetch
from kvlitmus.reference.prefix.components.host import COPIES
from kvlitmus.reference.prefix.components.prefetch import FETCHES
from kvlitmus.reference.prefix.components.tree import CALLS, Cache
from kvlitmus.spec.interface.tiers import PUT
from kvlitmus.spec.prefix.components.calls import Entries, JointCall, Reserved, Taken, Writing
from kvlitmus.spec.prefix.components.state import end_name, ends_at, landing_on_host, needed_by
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import Abandon, Attach, Detach, Prefetch, Write, Written
from kvlitmus.spec.words.setting import Setting


def attach(cache: Cache, setting: Setting, call: Attach) -> tuple[Cache, None]:  # noqa: ARG001
    """Storage is there."""
    return cache._replace(attached=True), None


def detach(cache: Cache, setting: Setting, call: Detach) -> tuple[Cache, Entries]:  # noqa: ARG001
    """Storage is away, and every prefetch that isn't over is aborted; writes go on."""
    returned: dict[str, tuple[int, ...]] = {}
    for number in [number for number, fetch in cache.fetches.items() if not fetch.over]:
        cache, given = component_prefetch.abort(cache, setting, Abandon(number))
        for name, places in given.items():
            returned[name] = (*returned.get(name, ()), *places)
    return cache._replace(attached=False), returned


def prefetch(cache: Cache, setting: Setting, call: Prefetch[int]) -> tuple[Cache, Reserved]:
    """As without storage that comes and goes, but that nothing is fetched while it is away."""
    if cache.attached is False:
        return cache, Taken(None)
    return component_prefetch.prefetch(cache, setting, call)


def write(cache: Cache, setting: Setting, call: Write) -> tuple[Cache, Writing]:
    """Write what the boundary needs and storage lacks, if all that it needs is on the host and has landed there."""
    needs = needed_by(setting, call.path, call.length)
    takes = needs - {(name, end_name(call.path, end)) for name, some in call.stored.items() for end in some}
    there = cache.host_held.keys() - landing_on_host(cache.copies.values())
    if cache.attached is False or not needs <= there or not takes:
        return cache, Taken(None)
    ends = {one.name: ends_at(call.path, one.name, takes) for one in setting.layout.components}
    one = Copy(PUT, {}, frozenset(), needs, landing=takes)
    return cache._replace(copies={**cache.copies, call.number: one}), Taken(ends)


def written(cache: Cache, setting: Setting, call: Written) -> tuple[Cache, None]:  # noqa: ARG001
    """What the write read is protected by it no more."""
    if call.number not in cache.copies:
        raise ValueError(f"write {call.number} is not under way")
    return cache._replace(copies={number: one for number, one in cache.copies.items() if number != call.number}), None


Perform = Callable[[Cache, Setting, object], tuple[Cache, object]]

STORING = {
    Attach: attach,
    Detach: detach,
    Prefetch: prefetch,
    Write: write,
    Written: written,
}
PERFORM = cast("Mapping[type, Perform]", {**CALLS, **FETCHES, **COPIES, **STORING})
"""Of each call how it is performed."""


def perform(cache: Cache, setting: Setting, call: JointCall) -> tuple[Cache, object]:
    """The cache after a call, and the answer."""
    return PERFORM[type(call)](cache._replace(ticks=cache.ticks + 1), setting, call)
