"""What is proven of the device's slots behind buffers: every rule in all states of a small device.

The search goes through all that two rows can do that begin to decode, grow token by token, are refused and are given
back; once with buffers that grow by the page, and once with whole ones.  The sizes are those of
:func:`~kvlitmus.spec.sparse.buffer.grown`, run on terms (``support/terms.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse import growth as sparse_growth
from kvlitmus.spec.sparse.calls import (
    SparseAdmit,
    SparseCall,
    SparseDone,
    SparseFree,
    SparseGrow,
    SparseRequest,
    SparseSeen,
)
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Slot, Tokens
from tests.proofs.support import sparse_search
from tests.proofs.support.sparse_search import RULES, Found, Perform, SparseSearch

OF_GROWTH = [rule for rule in RULES if rule.predicate.__module__ == sparse_growth.__name__ or rule.id == "SPARSE-65"]
ROWS = (0, 1)
SCOPES = [(1, 2, 5, "page"), (2, 3, 7, "page"), (2, 4, 9, "page"), (1, 2, 7, "whole"), (2, 3, 9, "whole")]
"""Slots in a page, the room of a buffer, slots of the device, and how buffers grow."""


def seen(pool: SparseState) -> SparseSeen:
    """All that can be seen of the reference, the device included."""
    free = Tokens(len(reference.device_slots(pool)))
    return sparse_search.seen(pool)._replace(device=free, buffers=dict(pool.held))


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


def key(pool: SparseState) -> Hashable:
    """What tells states apart."""
    return tuple([(bool(pool.of(row).pages), pool.places.get(row), pool.held.get(row)) for row in ROWS])


SEARCH = SparseSearch(calls, key, seen, follows=False)


def broken_in(scope: tuple[int, int, int, str], performed: Perform = perform) -> Found:
    """What is found with a device and buffers like these."""
    size, room, device, grows = scope
    pages = 2 * (room + 2)
    empty = reference.empty_pool(size, pages, pages * size, room, device=device)._replace(grows=grows)
    return SEARCH.broken_in(empty, performed, Profile(sparse_grows=grows))


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
