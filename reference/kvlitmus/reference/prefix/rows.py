"""What is done with the row of a running request, but for publishing it: tokens are taken back, it is forked, or
copied to the host and back.  And a flush, which leaves such rows alone.
"""

from __future__ import annotations

from kvlitmus.reference.prefix.choose import Choice, Decision, free_pages, freed_by, hand_out, room_for
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.interface import Begun
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.advance import copied_from, copied_pages, dropped_by
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


def copied(state: State, setting: Setting, call: calls.Fork | calls.Resume, choice: Choice) -> Decision:
    """What a forked request shares, and own pages for the rest of its row (REQ-18); without memory nothing (REQ-10).

    What it shares is locked already, so that making room can't take it.  A resumed request shares nothing.
    """
    if call.rid in state.requests:
        raise ValueError(f"request {call.rid} is running already", call.rid)
    one, unused = copied_from(state, call), free_pages(state, setting)
    wanted = copied_pages(state, setting, call)
    victims = room_for(wanted, state.device, unused, setting, choice)
    unused |= freed_by(state.device, victims)
    own = hand_out(unused, wanted, choice.pages)
    if own is None or (choice.declined and len(unused) < wanted + setting.spare_pages):
        return Decision(None, victims)
    row = one.row[: one.cached] + slots_of(own, setting.size)
    return Decision(Begun(row[: len(one.row)], one.cached), victims)


def retract(_: State, __: Setting, ___: calls.Retract, choice: Choice) -> Decision:
    """The host has room for every row, unless another cache was seen to have none (REQ-19)."""
    return Decision(not choice.declined)


def discard(state: State, _: Setting, call: calls.Discard, __: Choice) -> Decision:
    """A request that is on the host, and no other."""
    if call.rid not in state.retracted.requests:
        raise ValueError(f"request {call.rid} is not on the host", call.rid)
    return Decision(None)


def flush(_: State, __: Setting, ___: calls.Flush, choice: Choice) -> Decision:
    """What nobody protects goes, whatever runs, unless another cache was seen to refuse (EVICT-25, EVICT-26)."""
    return Decision(not choice.declined)
