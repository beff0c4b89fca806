"""Sparse rows of the compiled core beside the reference's: each call on both, and all that there is after it.

The reference takes the pages that the core took, so all numbers of pages are equal.  Which slots of the device a buffer
has is nobody's promise: there must be as many, and each in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from kvlitmus.conformance.adapters.optimized.sparse import OptimizedSparse, SparseTarget
from kvlitmus.conformance.adapters.reference.sparse import ReferenceSparse
from kvlitmus.conformance.ports import Config
from kvlitmus.reference import sparse
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import PageNo

Answer = tuple[SparseState, Any]


class RowLook(NamedTuple):
    """All that is known of a row."""

    pages: list[int]
    does: str
    slots: int
    buffer: tuple[list[int], list[int]] | None
    backed: int
    reserved: int
    free_for: int


class Look(NamedTuple):
    """All that is known of the rows, and what is free."""

    rows: list[RowLook]
    free: list[int]
    device: int
    copying: list[int]
    transferring: list[int]


def look(rows: Any) -> Look:
    """The core's; raises ``AssertionError`` where a slot of the device is in two places, or in none."""
    slots = [slot for row in range(rows.rows) for slot in rows.device_slots(row).tolist()]
    free = rows.free_slots().tolist()
    assert sorted(slots + free) == list(range(len(slots) + len(free))), "slots of the device are in two places, or lost"
    return Look(
        [look_at(rows, row) for row in range(rows.rows)],
        sorted(rows.free_pages().tolist()),
        len(free),
        rows.copying().tolist(),
        rows.transferring().tolist(),
    )


def look_at(rows: Any, row: int) -> RowLook:
    """One of the core's rows."""
    does = rows.does(row)
    tokens, order = rows.buffer(row)
    backed, reserved, free_for = rows.counts(row)
    assert does == "decodes" or set(tokens.tolist()) == {-1}, "a buffer holds tokens of a row that is gone"
    return RowLook(
        rows.pages(row).tolist(),
        does,
        len(rows.device_slots(row)),
        (tokens.tolist(), order.tolist()) if does == "decodes" else None,
        backed,
        reserved,
        free_for,
    )


def expected(pool: SparseState, rows: int) -> Look:
    """The same of the reference."""
    return Look(
        [expected_of(pool, row) for row in range(rows)],
        list(sparse.free_pages(pool)),
        len(sparse.device_slots(pool)),
        sorted(pool.copies),
        sorted(pool.transfers),
    )


def expected_of(pool: SparseState, row: int) -> RowLook:
    """One of the reference's rows."""
    staged = any(one.row == row for one in pool.waiting)
    does = "staged" if staged else "receives" if row in pool.receiving else "nothing"
    buffer = pool.buffers.get(row)
    return RowLook(
        list(pool.of(row).pages),
        does if buffer is None else "decodes",
        len(pool.held.get(row, ())),
        None if buffer is None else (list(buffer.tokens), list(buffer.order)),
        pool.backed.get(row, 0),
        pool.reserved.get(row, 0),
        pool.free_for(row),
    )


def slot_of(pair: Pair, row: int, length: int) -> Answer:
    """The reference's buffer grows; its slot is another one, at the same place."""
    pool, slot = sparse.grow(pair.pool, row, length)
    place = min(pool.hosted(length) - 1, pool.room)
    return pool, None if slot is None else int(pair.rows.device_slots(row)[place])


def backed_up(pair: Pair, row: int, length: int) -> Answer:
    """The reference's backup takes no choice of pages, but the request that it is does."""
    then, slots = sparse.back_up(pair.pool, row, length)
    taken = pair.taken(row)
    if not slots or not taken:
        return then, slots
    granted, slots = sparse.request(pair.pool, row, (length - 1) // then.ratio - 1, 1, choice=taken)
    return then._replace(rows=granted.rows), slots


def swapped(pair: Pair, row: int, length: int, tokens: Sequence[int]) -> Answer:
    """What the reference refuses by an error is refused here."""
    try:
        return sparse.swap(pair.pool, row, length, tokens)
    except ValueError:
        return pair.pool, None


OTHERS: dict[str, Callable[..., Answer]] = {
    "sparse_request": lambda pair, row, *of: sparse.request(pair.pool, row, *of, choice=pair.taken(row)),
    "sparse_stage": lambda pair, row, *of: sparse.stage(pair.pool, row, *of, choice=pair.taken(row)),
    "sparse_prealloc": lambda pair, row, *of: sparse.prealloc(pair.pool, row, *of, choice=pair.taken(row)),
    "sparse_copied": lambda pair, copy: (sparse.copied(pair.pool, copy), None),
    "sparse_ready": lambda pair: sparse.ready(pair.pool),
    "sparse_transferred": lambda pair, one, arrived: (sparse.transferred(pair.pool, one, arrived=arrived), None),
    "sparse_reserve": lambda pair, *of: sparse.reserve(pair.pool, *of),
    "sparse_admit": lambda pair, *of: (sparse.admit(pair.pool, *of), True),
    "sparse_grow": slot_of,
    "sparse_back_up": backed_up,
    "sparse_swap": swapped,
    **dict.fromkeys(
        ("sparse_free", "sparse_abort", "sparse_retract"), lambda pair, row: (sparse.free(pair.pool, row), None)
    ),
}
"""What the reference does in each call that may change something."""


class Pair(OptimizedSparse):
    """The ports of the core; after each call the reference has done the same, or an assertion says what differs."""

    def __init__(self, config: Config, ratio: int) -> None:
        super().__init__(config, ratio)
        self.pool = ReferenceSparse(config, "empty", ratio).pool
        self.sparse_swap = self.swap
        for name, other in OTHERS.items():
            setattr(self, name, partial(self.both, getattr(self, name), other))

    def taken(self, row: int) -> list[PageNo]:
        """The pages that the core has in a row and the reference has not."""
        return [PageNo(page) for page in self.rows.pages(row).tolist()[len(self.pool.of(row).pages) :]]

    def both(self, call: Callable[..., Any], other: Callable[..., Answer], *given: Any) -> Any:
        """Make a call on both, and compare them; a refusal of the core may be an error, which is raised."""
        found = error = None
        try:
            found = call(*given)
        except ValueError as raised:
            error = raised
        self.pool, due = other(self, *given)
        due = list(due) if isinstance(due, tuple) else due
        assert found == due, f"the core answers {error or found!r}, the reference {due!r}"
        mine, theirs = look(self.rows), expected(self.pool, self.rows.rows)
        assert mine == theirs, f"the core has\n{mine}\nthe reference\n{theirs}"
        if error is not None:
            raise error
        return found

    def swap(self, row: int, length: int, tokens: Sequence[int]) -> list[int]:
        """A swap, which says what to copy: the slots of those tokens that come to places, in order."""
        before, _ = self.rows.buffer(row)
        places, slots, filled = self.rows.swap(row, length, tokens)
        after, own = self.rows.buffer(row)[0].tolist(), self.rows.read(row)
        new = [place for place in places.tolist() if place < self.rows.room and after[place] != before[place]]
        assert filled.tolist() == new, "other places are filled than those that hold other tokens"
        assert slots.tolist() == [own[after[place]] for place in new], "other slots are copied than those tokens have"
        found: list[int] = places.tolist()
        return found


class PairTarget(SparseTarget):
    """What makes such pairs."""

    def make(self, config: Config) -> Pair:
        """A fresh pair."""
        return Pair(config, self.profile.sparse_ratio)
