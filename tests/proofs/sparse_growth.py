"""What is proven of the device's slots behind buffers: every rule in all states of a small device.

The search goes through all that two rows can do that begin to decode, grow token by token, are refused and are given
back; once with buffers that grow by the page, and once with whole ones.  The sizes are those of
:func:`~kvlitmus.spec.sparse_buffer.grown`, run on terms (``support/terms.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kvlitmus.reference import sparse as reference
from kvlitmus.spec import sparse_growth
from kvlitmus.spec.config import Config
from kvlitmus.spec.occasions import occasions_of
from kvlitmus.spec.plan import verdicts
from kvlitmus.spec.profile import Profile
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.setting import SNAPSHOT, Setting
from kvlitmus.spec.sparse_calls import (
    SparseAdmit,
    SparseCall,
    SparseDone,
    SparseFree,
    SparseGrow,
    SparseRequest,
    SparseSeen,
)
from kvlitmus.spec.sparse_state import SparseState
from kvlitmus.spec.units import Slot, Tokens
from tests.proofs import sparse_rows
from tests.proofs.sparse_rows import CAPABILITIES

RULES = [rule for rule in all_rules().values() if rule.pack == "sparse"]
OF_GROWTH = [rule for rule in RULES if rule.predicate.__module__ == sparse_growth.__name__]
ROWS = (0, 1)
SCOPES = [(1, 2, 5, "page"), (2, 3, 7, "page"), (2, 4, 9, "page"), (1, 2, 7, "whole"), (2, 3, 9, "whole")]
"""Slots in a page, the room of a buffer, slots of the device, and how buffers grow."""

Perform = Callable[[SparseState, SparseCall], tuple[SparseState, SparseDone]]
"""What a pool does with a call in a state."""


def seen(pool: SparseState) -> SparseSeen:
    """All that can be seen of the reference, the device included."""
    free = Tokens(len(reference.device_slots(pool)))
    return sparse_rows.seen(pool)._replace(device=free, buffers=dict(pool.held))


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference."""
    slots: tuple[Slot, ...] | None = ()
    places: tuple[int, ...] = ()
    granted = True
    if isinstance(call, SparseRequest):
        pool, slots = reference.request(pool, call.row, call.start, call.tokens)
    elif isinstance(call, SparseAdmit):
        pool = reference.admit(pool, call.row, call.length)
    elif isinstance(call, SparseGrow):
        pool, slot = reference.grow(pool, call.row, call.length)
        granted, places = slot is not None, () if slot is None else (slot,)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    return pool, SparseDone(slots, seen(pool), granted, places)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done with sequences of up to two tokens more than there is room for."""
    longest = pool.room + 2
    for row in ROWS:
        if row in pool.places:
            yield SparseGrow(row, pool.places[row])
            if pool.places[row] < longest:
                yield SparseGrow(row, pool.places[row] + 1)
        elif not pool.of(row).pages:
            yield SparseRequest(row, 0, longest)
        else:
            for length in range(1, longest + 1):
                if reference.device_lacks(pool, row, length) <= len(reference.device_slots(pool)):
                    yield SparseAdmit(row, length)
        yield SparseFree(row)


def broken_in(scope: tuple[int, int, int, str], performed: Perform = perform) -> tuple[Counter[str], int, list[str]]:
    """How often each rule was evaluated, how many states there are, and what was broken first, in words."""
    size, room, device, grows = scope
    pages = 2 * (room + 2)
    setting = Setting(
        Config(page_size=size, pages=pages, pool="sparse"), Profile(sparse_grows=grows), SNAPSHOT, CAPABILITIES
    )
    empty = reference.empty_pool(size, pages, pages * size, room, device=device)._replace(grows=grows)
    found, todo, counts = {key(empty)}, [empty], Counter[str]()
    while todo:
        pool = todo.pop()
        for call in calls(pool):
            then, answer = performed(pool, call)
            inputs = {"setting": setting, "state": pool._replace(seen=seen(pool)), "call": call, "answer": answer}
            said = verdicts(RULES, occasions_of(call, answer), CAPABILITIES, inputs, {})
            counts.update(said)
            if wrong := [id for id, kept in said.items() if not kept]:
                return counts, len(found), [f"{', '.join(wrong)}: {call} in {key(pool)} → {answer}"]
            if key(then) not in found:
                found.add(key(then))
                todo.append(then)
    return counts, len(found), []


def key(pool: SparseState) -> Any:
    """What tells states apart."""
    return tuple([(bool(pool.of(row).pages), pool.places.get(row), pool.held.get(row)) for row in ROWS])


BOUNDS = (
    f"{len(ROWS)} rows, buffers of 2 to 4 places and pages of 1 and 2, devices of 5 to 9 slots; by the page and whole"
)

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_growth_holds": (tuple(rule.id for rule in OF_GROWTH), BOUNDS),
    "buffers_grow_and_have_the_newest_place": (
        ("SPARSE-52", "SPARSE-55", "SPARSE-58"),
        "any room and any number of tokens; pages of 1 to 128 slots (z3)",
    ),
}
"""What is proven, for which rules, within which bounds."""
