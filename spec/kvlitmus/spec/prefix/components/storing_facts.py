"""The facts that rules of storage behind the host speak of."""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.prefix.components import copy_facts as _facts  # noqa: F401 - what these are worked out from
from kvlitmus.spec.prefix.components.calls import Writing
from kvlitmus.spec.prefix.components.copies import due_in_storage
from kvlitmus.spec.prefix.components.state import landing_on_host, needed_by, written_from
from kvlitmus.spec.prefix.listener import HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Write
from kvlitmus.spec.words.setting import Setting


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
    return state.attached is False or not whole or not due_in_storage(setting, call)
