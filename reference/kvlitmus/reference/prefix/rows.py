"""What is done with the row of a running request, but for publishing it: its last tokens are taken back."""

from __future__ import annotations

from kvlitmus.reference.prefix.choose import Choice, Decision
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.advance import dropped_by
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting


def take_back(state: State, setting: Setting, call: calls.TakeBack, _: Choice) -> Decision:
    """The slots of the pages behind what is left come free (REQ-16, REQ-17).

    Raises ``ValueError`` when what is shared would be taken back.
    """
    running = state.requests[call.rid]
    if len(call.path.names) < running.cached:
        raise ValueError(f"{running.cached} units are shared (got {len(call.path.names)} that are left)", call.rid)
    return Decision(len(dropped_by(state, setting, call)) * setting.size)
