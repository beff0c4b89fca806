"""One call on the reference's cache of components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kvlitmus.reference.prefix.components.host import COPIES
from kvlitmus.reference.prefix.components.prefetch import FETCHES
from kvlitmus.reference.prefix.components.requests import REQUESTS
from kvlitmus.reference.prefix.components.storing import STORING
from kvlitmus.reference.prefix.components.tree import CALLS, Perform
from kvlitmus.spec.prefix.components.calls import JointCall
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Tick

PERFORM = cast("Mapping[type, Perform]", {**CALLS, **FETCHES, **COPIES, **STORING, **REQUESTS})
"""Of each call how it is performed."""


def ticked(state: State) -> State:
    """The cache is asked something once more."""
    return state._replace(device=state.device._replace(clock=Tick(state.device.clock + 1)))


def perform(state: State, setting: Setting, call: JointCall) -> tuple[State, object]:
    """The cache after a call, and the answer."""
    return PERFORM[type(call)](ticked(state), setting, call)
