"""The facts that rules of storage behind the host speak of."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.prefix.components import copy_facts as _facts  # noqa: F401 - what these are worked out from
from kvlitmus.spec.prefix.components.calls import Reserved, Writing
from kvlitmus.spec.prefix.components.state import end_name, ends_at, landing_on_host, needed_by, written_from
from kvlitmus.spec.prefix.listener import HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Write
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting


def due(setting: Setting, call: Write) -> frozenset[At]:
    """What the boundary of a write needs and storage lacks."""
    units = len(call.path.names)
    stored = {(name, end_name(call.path, end)) for name, some in call.stored.items() for end in some if end <= units}
    return needed_by(setting, call.path, call.length) - stored


@fact(0)
def component_write_takes(answer: Writing) -> Mapping[str, Collection[int]]:
    """Where the entries end that a write takes, by component."""
    return {name: some for name, some in (answer.places or {}).items() if some}


@fact(0)
def component_write_due(setting: Setting, layout: Layout, call: Write) -> Mapping[str, Collection[int]]:
    """Where the entries end that its boundary needs and storage lacks, by component."""
    takes = due(setting, call)
    ends = {one.name: ends_at(call.path, one.name, takes) for one in layout.components}
    return {name: some for name, some in ends.items() if some}


@fact(0)
def component_detached(state: State) -> bool:
    """Whether storage is away."""
    return state.attached is False


@fact(0)
def component_write_unread(state: State, call: Write, answer: Writing) -> Collection[At]:
    """What a write takes though the host certainly doesn't have it, or a running backup still writes it there."""
    return written_from(call.path, answer) - (state.places(HOST).keys() - landing_on_host(state.under_way.values()))


@fact(0)
def component_write_refusable(setting: Setting, state: State, call: Write) -> bool:
    """Whether a write may be refused: storage is away or lacks nothing, or the host may not have all that the boundary needs, or not yet."""
    whole = needed_by(setting, call.path, call.length) <= state.certain(HOST) - landing_on_host(
        state.under_way.values()
    )
    return state.attached is False or not whole or not due(setting, call)


@fact(0)
def component_fetch_began(answer: Reserved) -> bool:
    """Whether a prefetch has begun, or has evicted something in vain."""
    return not answer.refused or any(answer.freed.values())
