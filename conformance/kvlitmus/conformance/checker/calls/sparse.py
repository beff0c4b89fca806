"""Calls on a sparse host pool, and what is known of it afterwards.

A request may be refused by an error; that is an answer as good as ``None``, and whether it was due is a rule's
question.  The other calls have no reason to raise (PORT-01).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.support.text import raised_text, shown
from kvlitmus.spec.interface.sparse import SparseShape, SparseView
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.sparse.calls import (
    SparseAdmit,
    SparseCall,
    SparseConnect,
    SparseCopied,
    SparseDone,
    SparseFree,
    SparseGrow,
    SparseMisuse,
    SparseRead,
    SparseReady,
    SparseRequest,
    SparseReserve,
    SparseSeen,
    SparseSwap,
    SparseTransferred,
)
from kvlitmus.spec.sparse.lift import lifted
from kvlitmus.spec.sparse.state import SparseState, advance_sparse, as_seen, backup
from kvlitmus.spec.words.setting import SNAPSHOT
from kvlitmus.spec.words.units import Slot, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

MOST_ROWS, MOST_TOKENS, MOST_PLACES = 1 << 16, 1 << 30, 1 << 16


def shape(checker: Checker) -> SparseShape:
    """How many rows there are and how wide they are, as the pool says; at least one row with room for a page."""
    rows, width = checker.fields(checker.look("sparse_shape"), 2, "sparse_shape() → SparseShape(rows, width)")
    said = SparseShape(
        checker.count(rows, "how many rows there are"), checker.count(width, "the width of a row", MOST_TOKENS)
    )
    if not (0 < said.rows <= MOST_ROWS and checker.size <= said.width <= MOST_TOKENS):
        raise checker.broken("PORT-03", f"expected a row or more with room for a page or more, got {shown(said)}")
    return said


def buffer_room(checker: Checker) -> int:
    """How many tokens a row's buffer has room for, as the pool says; at least one."""
    room = checker.count(checker.look("sparse_buffer"), "the room of a buffer")
    if not 0 < room <= MOST_PLACES:
        raise checker.broken("PORT-03", f"expected room for 1 to {MOST_PLACES:,} tokens, got {shown(room)}")
    return room


def state_of(checker: Checker) -> SparseState:
    """What is known of the pool; of a fresh one that no row has a page."""
    if checker.sparse_state is None:
        width = shape(checker).width
        room = buffer_room(checker) if "sparse_buffers" in checker.capabilities else 0
        first = seen(checker)
        checker.sparse_state = SparseState(
            *(checker.size, checker.config.pages, width, {}, first, room),
            device=first.device,
            grows=checker.profile.sparse_grows,
            keeps=checker.profile.sparse_staged,
            ratio=checker.profile.sparse_ratio,
        )
    return checker.sparse_state


def seen(checker: Checker) -> SparseSeen:
    """What can be seen of the pool now, at the depth of this run."""
    available = (
        Tokens(checker.count(checker.look("sparse_available"), "sparse_available(), what is free"))
        if checker.depth >= 1
        else UNKNOWN
    )
    device, buffers = seen_of_device(checker)
    if checker.depth < SNAPSHOT or "sparse_inspect" not in checker.capabilities:
        return SparseSeen(available, device=device, buffers=buffers)
    free, rows = checker.fields(checker.look("sparse_view"), 2, "SparseView(free, rows)")
    if not issubclass(type(rows), Mapping):
        raise checker.broken("PORT-03", f"expected the slots of each row, by its number, got {shown(rows)}")
    with checker.reading("the slots of each row, by its number"):
        own = dict(rows)
    numbered = {checker.count(row, "the number of a row"): listed(checker, slots) for row, slots in own.items()}
    view = SparseView(listed(checker, free), numbered)
    return SparseSeen(available, view, device, buffers)


def grows(checker: Checker) -> bool:
    """Whether the device's slots behind the buffers are known, and how many tokens a buffer has room for."""
    return {"sparse_growth", "sparse_buffers"} <= checker.capabilities


def seen_of_device(checker: Checker) -> tuple[Tokens | Unknown, Mapping[int, tuple[int, ...]] | Unknown]:
    """What can be seen of the device's slots behind the buffers: how many are free, and which each row has."""
    if checker.depth < 1 or not grows(checker):
        return UNKNOWN, UNKNOWN
    device = Tokens(checker.count(checker.look("sparse_device_available"), "what is free on the device"))
    if checker.depth < SNAPSHOT:
        return device, UNKNOWN
    rows = range(shape(checker).rows) if checker.sparse_state else ()
    found = {row: listed(checker, checker.look("sparse_device_buffer", row)) for row in rows}
    return device, {row: slots for row, slots in found.items() if slots}


def listed(checker: Checker, slots: object) -> tuple[int, ...]:
    """A sequence of slots in a snapshot; of a row that is filled up with something else, all of it."""
    return tuple(checker.plain(checker.listed(slots, "slots")))


def request(checker: Checker, row: int, start: int, tokens: int) -> tuple[Slot, ...] | None:
    """Ask for the slots of some tokens; ``None`` where that was refused, in whatever way."""
    before, text = state_of(checker), f"request(row {row}, start {start}, {tokens} tokens)"
    slots = asked(checker, text, "sparse_request", row, start, tokens)
    follow(checker, before, SparseRequest(row, start, tokens), slots)
    return slots


def stage(checker: Checker, row: int, tokens: int) -> tuple[Slot, ...] | None:
    """Stage the first tokens of a row that has none; ``None`` where that was refused, in whatever way.

    Nothing is done where the device has no room to compute them.
    """
    before = state_of(checker)
    if not checker.flag(checker.look("sparse_prefills", tokens), "whether a prompt can be computed"):
        return None
    slots = asked(checker, f"stage(row {row}, {tokens} tokens)", "sparse_stage", row, tokens)
    follow(checker, before, SparseRequest(row, 0, before.hosted(tokens), staged=True, prompt=tokens), slots)
    return slots


def prealloc(checker: Checker, row: int, tokens: int, page_size: int) -> tuple[Slot, ...] | None:
    """A peer with such pages is to write a prompt to an empty row; ``None`` where that was refused, in whatever way.

    Nothing is done where the device has no room to decode it.
    """
    before = state_of(checker)
    if not checker.flag(checker.look("sparse_receives", tokens), "whether a prompt can be received"):
        return None
    text = f"prealloc(row {row}, {tokens} tokens, a peer with pages of {page_size})"
    slots = asked(checker, text, "sparse_prealloc", row, tokens, page_size)
    pages = listed(checker, checker.look("sparse_destinations", row)) if slots else ()
    call = SparseRequest(row, 0, before.hosted(tokens), prompt=tokens, peer=page_size)
    follow(checker, before, call, slots, pages=pages)
    return slots


def transferred(checker: Checker, transfer: int, *, arrived: bool) -> None:
    """A peer has ended a transfer that had begun."""
    before = state_of(checker)
    text = f"transfer {transfer} {'arrives' if arrived else 'fails'}"
    checker.call(text, "sparse_transferred", transfer, arrived)
    follow(checker, before, SparseTransferred(transfer, arrived), ())


def back_up(checker: Checker, row: int, length: int) -> tuple[Slot, ...] | None:
    """A step of a row that decodes: the token before the newest goes to the host; ``None`` where that was refused.

    Pools that make no backups themselves are asked for the slot.
    """
    before = state_of(checker)
    call = backup(before, row, length)
    if "sparse_backups" not in checker.capabilities:
        lacks = call.tokens and before.of(row).allocated <= call.start
        return request(checker, row, call.start, 1) if lacks else ()
    slots = asked(checker, f"back_up(row {row}, length {length})", "sparse_back_up", row, length)
    follow(checker, before, call, slots)
    return slots


def reserve(checker: Checker, row: int, tokens: int) -> bool:
    """Ask for a request to be admitted to an empty row, with no more than so many tokens."""
    before = state_of(checker)
    answer = checker.call(f"reserve(row {row}, {tokens} tokens)", "sparse_reserve", row, tokens)
    admitted = checker.flag(answer, "whether a request is admitted")
    checker.history[-1] += f" → {admitted}"
    follow(checker, before, SparseReserve(row, tokens), (), accepted=admitted)
    return admitted


def asked(checker: Checker, text: str, method: str, *args: int) -> tuple[Slot, ...] | None:
    """The slots that a call answers; ``None`` where it refuses them, by that or by an error."""
    raised, answer = attempt(checker, text, method, *args)
    return None if raised else checker.slots_or_none(answer)


def attempt(checker: Checker, text: str, method: str, *args: object) -> tuple[bool, object]:
    """Make a call that may refuse by an error, whichever it has: whether it raised, and what it answered."""
    checker.announce(text, method)
    answer, error = checker.attempt(lambda: getattr(checker.adapter, method)(*args))
    if isinstance(error, NotImplementedError):
        raise error
    if error is not None:
        checker.history[-1] += f" → raised {raised_text(error)}"
    return error is not None, answer


def read(checker: Checker, row: int) -> tuple[Slot, ...]:
    """Read back all slots of a row."""
    before = state_of(checker)
    slots = checker.slots(checker.call(f"read(row {row})", "sparse_read", row))
    follow(checker, before, SparseRead(row), slots)
    return slots


def free(checker: Checker, row: int) -> None:
    """Give a row back."""
    before = state_of(checker)
    checker.call(f"free(row {row})", "sparse_free", row)
    follow(checker, before, SparseFree(row), ())


def abort(checker: Checker, row: int) -> None:
    """Abort the request of a row: the row is given back."""
    before = state_of(checker)
    checker.call(f"abort(row {row})", "sparse_abort", row)
    follow(checker, before, SparseFree(row, "aborted"), ())


def retract(checker: Checker, row: int) -> None:
    """Retract the request of a row: the row is given back."""
    before = state_of(checker)
    checker.call(f"retract(row {row})", "sparse_retract", row)
    follow(checker, before, SparseFree(row, "retracted"), ())


def end(checker: Checker, row: int) -> None:
    """Give a row back, in the way that it can be: a staged one is retracted, and one fails that a peer writes to."""
    state = state_of(checker)
    if row in state.receiving:
        transferred(checker, state.receiving[row], arrived=False)
    else:
        staged = any(one.row == row for one in state.waiting)
        (retract if staged else free)(checker, row)


def copied(checker: Checker, copy: int) -> None:
    """The device has done a copy that had begun."""
    before = state_of(checker)
    checker.call(f"copy {copy} ends", "sparse_copied", copy)
    follow(checker, before, SparseCopied(copy), ())


def ready(checker: Checker) -> None:
    """Ask which staged rows are acknowledged."""
    before = state_of(checker)
    rows = checker.slots(checker.call("ready()", "sparse_ready"))
    follow(checker, before, SparseReady(), (), ready=rows)


def admit(checker: Checker, row: int, length: int) -> None:
    """The request of a row, which has host slots for so many tokens, begins to decode.

    Nothing is done where the device has no room for its buffer.
    """
    before = state_of(checker)
    if grows(checker):
        room = checker.count(checker.look("sparse_device_available"), "what is free on the device")
        if before.buffer_bounds(before.hosted(length))[1] > room:
            return
    checker.call(f"admit(row {row}, {length} tokens)", "sparse_admit", row, length)
    follow(checker, before, SparseAdmit(row, length), ())


def grow(checker: Checker, row: int, length: int) -> bool:
    """A step makes room on the device for the newest token; whether it has. Of pools that don't say, all have."""
    before = state_of(checker)
    if not grows(checker) or row not in before.places or not before.hosted(length):
        return True
    _, answer = attempt(checker, f"grow(row {row}, length {length})", "sparse_grow", row, length)
    places = () if answer is None else (checker.count(answer, "a device slot"),)
    follow(checker, before, SparseGrow(row, length), (), accepted=bool(places), places=places)
    return bool(places)


def swap(checker: Checker, row: int, length: int, wanted: Sequence[int]) -> None:
    """A step of decoding: ask where some tokens of a row are.

    The row was admitted, and has host slots for all tokens but the newest.  Where a swap broke a rule before, what the
    buffer holds isn't known, and nothing is asked; nor is it of a pool that doesn't say where tokens are.
    """
    before = state_of(checker)
    if row not in before.buffers or "sparse_swaps" not in checker.capabilities:
        return
    text = swap_text(row, length, wanted)
    places = checker.slots(checker.call(text, "sparse_swap", row, length, list(wanted)))
    follow(checker, before, SparseSwap(row, length, tuple(wanted)), (), places=places)


def swap_text(row: int, length: int, wanted: Sequence[int]) -> str:
    """A swap, as a reader sees it."""
    named = ", ".join(map(str, wanted[:8])) + (", …" if len(wanted) > 8 else "")
    return f"swap(row {row}, length {length}, tokens {named})"


def misused_swap(checker: Checker, row: int, length: int, wanted: Sequence[int]) -> None:
    """A step that asks for tokens that can't be wanted; nothing is asked where misuse is undefined.

    The row is one as for :func:`swap`.
    """
    before = state_of(checker)
    declared = checker.profile.misuse != "undefined"
    swaps = row in before.buffers and "sparse_swaps" in checker.capabilities
    if not (swaps and (declared or checker.force_misuse)):
        return
    text = f"{swap_text(row, length, wanted)}, which can't be wanted"
    raised, _ = attempt(checker, text, "sparse_swap", row, length, list(wanted))
    follow(checker, before, SparseMisuse(row, length, tuple(wanted), declared), (), accepted=not raised)


def connect(checker: Checker, page_size: int) -> None:
    """A peer with such pages asks whether it may write into the rows."""
    before = state_of(checker)
    answer = checker.call(f"connect(a peer with pages of {page_size})", "sparse_connect", page_size)
    accepted = checker.flag(answer, "whether a peer is accepted")
    checker.history[-1] += f" → {accepted}"
    follow(checker, before, SparseConnect(page_size), (), accepted=accepted)


def copying(checker: Checker, before: SparseState, call: SparseCall) -> tuple[int, ...]:
    """The copies that have not ended, as the pool says: out of those from before, and of one that may have begun."""
    if "sparse_staging" not in checker.capabilities:
        return ()
    numbers = listed(checker, checker.look("sparse_copying"))
    begins = isinstance(call, SparseRequest) and call.staged
    if len(set(numbers)) != len(numbers) or not {*numbers} <= {*before.copies, *([before.begun] if begins else ())}:
        raise checker.broken("PORT-03", f"expected copies that had not ended, each once, got {shown(numbers)}")
    return numbers


def sending(checker: Checker, before: SparseState, call: SparseCall) -> tuple[int, ...]:
    """The transfers that have not ended, as the pool says: out of those from before, and of one that may have begun."""
    if "sparse_transfer" not in checker.capabilities:
        return ()
    numbers = listed(checker, checker.look("sparse_transferring"))
    begins = isinstance(call, SparseRequest) and call.peer
    if len(set(numbers)) != len(numbers) or not {*numbers} <= {*before.transfers, *([before.sent] if begins else ())}:
        raise checker.broken("PORT-03", f"expected transfers that had not ended, each once, got {shown(numbers)}")
    return numbers


def follow(
    checker: Checker,
    before: SparseState,
    call: SparseCall,
    slots: tuple[Slot, ...] | None,
    *,
    accepted: bool = True,
    places: tuple[int, ...] = (),
    ready: tuple[int, ...] = (),
    pages: tuple[int, ...] = (),
) -> None:
    """A call was answered: the pool is seen, what is known of it follows, and the step is judged."""
    going, coming = copying(checker, before, call), sending(checker, before, call)
    answer = SparseDone(slots, seen(checker), accepted, places, going, ready, coming, pages)
    checker.watch_kept()
    then = advance_sparse(before, call, answer)
    checker.sparse_state = as_seen(then)
    checker.answered(call, answer, before)
    for one in lifted(checker.setting, before, call, answer, then):
        checker.lifted(one)
