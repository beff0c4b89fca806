"""A sparse host pool that is correct: each row a tuple of pages, and every call a function of the state.

The state is that of the spec (:mod:`kvlitmus.spec.sparse.state`); what was seen of the pool is no part of it here.  A
request is looked at as a whole first (:func:`refusal`), so that there is nothing to undo when it can't be granted.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.sparse.buffer import admitted, may_be_wanted, swapped
from kvlitmus.spec.sparse.state import (
    SparseCopy,
    SparseRow,
    SparseState,
    Staged,
    backup,
    first_buffer,
    missing_pages,
)
from kvlitmus.spec.words.units import PageNo, Pages, Slot, Tokens


def empty_pool(
    page_size: int, pages: int, width: int, room: int = 0, *, ratio: int = 1, device: int = 0
) -> SparseState:
    """A pool of so many pages and no rows yet; they have room for ``width`` slots, and buffers for ``room`` tokens.

    ``ratio``: so many tokens of the model are compressed to one.  ``device``: so many slots are for buffers.
    """
    return SparseState(page_size, pages, width, {}, room=room, ratio=ratio, device=Tokens(device))


def allocated(pool: SparseState, row: int) -> Tokens:
    """For how many tokens a row has slots."""
    return pool.of(row).allocated


def missing(pool: SparseState, row: int, start: int, tokens: int) -> Pages:
    """How many pages a row lacks for these tokens."""
    return missing_pages(allocated(pool, row), start, tokens, pool.page_size)


def free_pages(pool: SparseState) -> tuple[PageNo, ...]:
    """The pages of no row that no copy and no peer writes to, the lowest first."""
    taken = {page for row in pool.rows.values() for page in row.pages}.union(pool.left_pages)
    return tuple([PageNo(page) for page in range(pool.pages) if page not in taken])


def available(pool: SparseState) -> Tokens:
    """How many slots are free (POOL-13)."""
    return Tokens(pool.free_pages * pool.page_size)


def refusal(pool: SparseState, row: int, start: int, tokens: int, *, count: str = "empty") -> str:
    """Why a request must be refused, in words; empty where it must be granted (SPARSE-09, SPARSE-12).

    ``count``: what a request for no tokens or fewer is, as the profile's ``sparse_count`` says.
    """
    if tokens <= 0 and count == "empty":
        return ""
    if start < 0 or tokens < 0:
        return "a negative start or count"
    if start > allocated(pool, row):
        return "it would leave a hole"
    lacking = missing(pool, row, start, tokens)
    if allocated(pool, row) + lacking * pool.page_size > pool.width:
        return "the row is not wide enough"
    return "too few pages are free" if lacking > pool.free_for(row) else ""


def request(
    pool: SparseState,
    row: int,
    start: int,
    tokens: int,
    *,
    count: str = "empty",
    choice: Sequence[PageNo] | None = None,
) -> tuple[SparseState, tuple[Slot, ...] | None]:
    """The pool with the missing pages in the row, and the slots of the tokens; the same pool and ``None`` if refused.

    ``choice``: the pages that are taken; left out, the lowest free ones.  Raises ``ValueError`` for pages that are not
    free, or not as many as the row lacks.
    """
    if refusal(pool, row, start, tokens, count=count):
        return pool, None
    free, lacking = free_pages(pool), missing(pool, row, start, tokens)
    taken = tuple(free[:lacking] if choice is None else choice)
    if len(set(taken)) != lacking or len(taken) != lacking or not set(taken) <= set(free):
        raise ValueError(f"{lacking} free pages are missing (got {taken})", lacking, taken)
    mine = SparseRow(row, pool.of(row).pages + taken, pool.page_size)
    rows = {**pool.rows, row: mine} if mine.pages else pool.rows
    return pool._replace(rows=rows), tuple([mine.slot(token) for token in range(start, start + tokens)])


def read(pool: SparseState, row: int) -> tuple[Slot, ...]:
    """All slots of a row, its last page whole (SPARSE-07)."""
    return pool.of(row).slots


def free(pool: SparseState, row: int) -> SparseState:
    """The pool without any page in the row, and without its buffer (SPARSE-06).

    A row that waits to be acknowledged waits no more; its pages are free when its copy has ended, or its transfer.
    """
    rows = {number: one for number, one in pool.rows.items() if number != row}
    return pool._replace(
        rows=rows,
        buffers={number: one for number, one in pool.buffers.items() if number != row},
        copies={n: copy._replace(left=copy.left or copy.row == row) for n, copy in pool.copies.items()},
        waiting=tuple([one for one in pool.waiting if one.row != row]),
        backed={number: many for number, many in pool.backed.items() if number != row},
        reserved={number: many for number, many in pool.reserved.items() if number != row},
        lengths={number: many for number, many in pool.lengths.items() if number != row},
        places={number: many for number, many in pool.places.items() if number != row},
        held={number: own for number, own in pool.held.items() if number != row},
        transfers={n: one._replace(left=one.left or one.row == row) for n, one in pool.transfers.items()},
    )


def reserve(pool: SparseState, row: int, tokens: int) -> tuple[SparseState, bool]:
    """The pool with so many tokens promised to an empty row, and whether they were (SPARSE-39, SPARSE-40)."""
    wanted = missing_pages(0, 0, pool.hosted(tokens), pool.page_size)
    if wanted > min(pool.free_for(row), pool.width // pool.page_size):
        return pool, False
    return pool._replace(reserved={**pool.reserved, row: wanted}), True


def back_up(
    pool: SparseState, row: int, length: int, *, count: str = "empty"
) -> tuple[SparseState, tuple[Slot, ...] | None]:
    """The pool with a slot for the token before the newest, and the slot; none where the host has it (SPARSE-38).

    Of tokens that are compressed to one, the last makes it whole (SPARSE-43, SPARSE-44).
    """
    due = backup(pool, row, length)
    then, slots = request(pool, row, due.start, due.tokens, count=count)
    if slots is None:
        return pool, None
    backed, lengths = {**then.backed, row: pool.hosted(length - 1)}, {**then.lengths, row: length}
    return then._replace(backed=backed, lengths=lengths), slots


def stage(
    pool: SparseState, row: int, tokens: int, *, count: str = "empty", choice: Sequence[PageNo] | None = None
) -> tuple[SparseState, tuple[Slot, ...] | None]:
    """The pool with slots for the first tokens of a row and a copy to them; unchanged if refused (SPARSE-34).

    Tokens that are compressed to one have one slot (SPARSE-45).
    """
    then, slots = request(pool, row, 0, pool.hosted(tokens), count=count, choice=choice)
    if not slots:
        return then, slots
    copies = {**then.copies, then.begun: SparseCopy(row, then.of(row).pages, tokens)}
    waiting = (*then.waiting, Staged(then.begun, row, tokens))
    return widened(then._replace(copies=copies, waiting=waiting, begun=then.begun + 1), row, tokens), slots


def copied(pool: SparseState, copy: int) -> SparseState:
    """The pool without this copy; what it alone had is free (SPARSE-34, SPARSE-06)."""
    return pool._replace(copies={number: one for number, one in pool.copies.items() if number != copy})


def ready(pool: SparseState) -> tuple[SparseState, tuple[int, ...]]:
    """The pool with buffers for the rows that are acknowledged, and these rows: as many of those that were staged first
    as are copied (SPARSE-30 … SPARSE-32).
    """
    many = 0
    while many < len(pool.waiting) and pool.waiting[many].copy not in pool.copies:
        many += 1
    done = pool.waiting[:many]
    then = pool._replace(
        buffers={**pool.buffers, **{one.row: first_buffer(pool, one) for one in done}},
        places={**pool.places, **{one.row: pool.hosted(one.length) for one in done}},
        waiting=pool.waiting[many:],
        backed={**pool.backed, **{one.row: pool.hosted(one.length) for one in done}},
        lengths={**pool.lengths, **{one.row: one.length for one in done}},
    )
    return then, tuple([one.row for one in done])


def prealloc(
    pool: SparseState,
    row: int,
    tokens: int,
    page_size: int,
    *,
    count: str = "empty",
    choice: Sequence[PageNo] | None = None,
) -> tuple[SparseState, tuple[Slot, ...] | None]:
    """The pool with slots for a prompt that a peer writes there, and its transfer; unchanged if refused (SPARSE-12)."""
    if not connects(pool, page_size):
        return pool, None
    then, slots = request(pool, row, 0, pool.hosted(tokens), count=count, choice=choice)
    if not slots:
        return then, slots
    transfers = {**then.transfers, then.sent: SparseCopy(row, then.of(row).pages, tokens)}
    return widened(then._replace(transfers=transfers, sent=then.sent + 1), row, tokens), slots


def destinations(pool: SparseState, row: int) -> tuple[PageNo, ...]:
    """The pages that a peer writes to, whole and in order (SPARSE-47)."""
    return pool.of(row).pages


def transferred(pool: SparseState, transfer: int, *, arrived: bool) -> SparseState:
    """The pool when a peer has ended its transfer: its row decodes, or has nothing any more (SPARSE-48, SPARSE-06)."""
    one = pool.transfers[transfer]
    then = pool._replace(transfers={number: other for number, other in pool.transfers.items() if number != transfer})
    if one.left:
        return then
    return admit(then, one.row, one.length) if arrived else free(then, one.row)


def admit(pool: SparseState, row: int, length: int) -> SparseState:
    """The pool with a buffer for a row that begins to decode with so many tokens (SPARSE-25, SPARSE-28)."""
    hosted = pool.hosted(length)
    return widened(pool, row, length)._replace(
        places={**pool.places, row: max(pool.places.get(row, 0), hosted)},
        buffers={**pool.buffers, row: admitted(pool.room, hosted)},
        backed={**pool.backed, row: hosted},
        lengths={**pool.lengths, row: length},
    )


def swap(pool: SparseState, row: int, length: int, wanted: Sequence[int]) -> tuple[SparseState, tuple[int, ...]]:
    """The pool with these tokens in the row's buffer, and their places (SPARSE-23 … SPARSE-28).

    Raises ``ValueError`` for what can't be wanted (SPARSE-63).
    """
    if not may_be_wanted(pool.buffers[row], pool.hosted(length), wanted):
        raise ValueError(f"tokens {list(wanted)} can't be wanted of {pool.hosted(length)}, with room for {pool.room}")
    buffer, places = swapped(pool.buffers[row], pool.hosted(length), wanted)
    lengths = {**pool.lengths, row: length}
    return pool._replace(buffers={**pool.buffers, row: buffer}, lengths=lengths), places


def device_slots(pool: SparseState) -> tuple[int, ...]:
    """The device slots of no buffer, the lowest first."""
    taken = {slot for own in pool.held.values() for slot in own}
    return tuple([slot for slot in range(pool.device) if slot not in taken]) if isinstance(pool.device, int) else ()


def device_lacks(pool: SparseState, row: int, length: int) -> int:
    """How many device slots a row's buffer lacks for so many tokens of the model; none where nobody counts them."""
    most = pool.buffer_bounds(pool.hosted(length))[1]
    return max(0, most - len(pool.held.get(row, ()))) if pool.device else 0


def widened(pool: SparseState, row: int, length: int) -> SparseState:
    """The pool with device slots for so many tokens in the row's buffer (SPARSE-52, SPARSE-53).

    Raises ``ValueError`` where there are too few: whoever begins to decode is asked about before.
    """
    lacking, free_slots = device_lacks(pool, row, length), device_slots(pool)
    if lacking > len(free_slots):
        raise ValueError(f"the buffer lacks {lacking} device slots, and {len(free_slots)} are free")
    held = {**pool.held, row: pool.held.get(row, ()) + free_slots[:lacking]}
    return pool._replace(held=held) if lacking else pool


def grow(pool: SparseState, row: int, length: int) -> tuple[SparseState, int | None]:
    """The pool with room on the device for the row's newest token, and its slot; unchanged if refused (SPARSE-54 …
    SPARSE-58).
    """
    if device_lacks(pool, row, length) > len(device_slots(pool)):
        return pool, None
    then, hosted = widened(pool, row, length), pool.hosted(length)
    places = {**then.places, row: max(then.places[row], hosted)}
    return then._replace(places=places), then.held[row][min(hosted - 1, pool.room)]


def connects(pool: SparseState, page_size: int) -> bool:
    """Whether a peer with pages of so many tokens is accepted (SPARSE-22)."""
    return page_size == pool.page_size
