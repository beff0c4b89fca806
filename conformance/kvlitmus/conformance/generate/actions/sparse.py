"""Actions on a sparse host pool: few rows and little memory, so that rows are full and the pool is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.generate.actions.registry import action

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.generate.caller import Caller


def row_of(caller: Caller, a: int) -> int:
    """Often one of the first three rows, so that what belongs to one comes together, else one of the last."""
    rows = sparse.shape(caller.checker).rows
    return rows - 1 - a // 4 % max(1, rows - 3) if a % 4 == 3 else min(a % 4, rows - 1)


@action("sparse_request")
def request(caller: Caller, a: int, b: int, c: int) -> None:
    """The row's next tokens: one, some, or more than fit; the request of an empty row may have been admitted before."""
    checker, row = caller.checker, row_of(caller, a)
    allocated = sparse.state_of(checker).of(row).allocated
    may_be_admitted(caller, a, b, c)
    tokens = 1 if c < 96 else 1 + (b * 7 + c) % (3 * checker.size)
    start = allocated - b % (checker.size + 1) if allocated else 0
    sparse.request(checker, row, max(0, start), tokens)


@action("sparse_again")
def again(caller: Caller, a: int, b: int, c: int) -> None:
    """Tokens that the row has, or begins with."""
    checker, row = caller.checker, row_of(caller, a)
    allocated = sparse.state_of(checker).of(row).allocated
    start = b % (allocated + 1)
    sparse.request(checker, row, start, 1 + c % (2 * checker.size))


@action("sparse_edge")
def edge(caller: Caller, a: int, b: int, c: int) -> None:
    """A request at an edge: a hole, the end of the row, a negative start or count, none at all."""
    checker, row = caller.checker, row_of(caller, a)
    allocated, size = sparse.state_of(checker).of(row).allocated, checker.size
    width = sparse.shape(checker).width
    start, tokens = (
        (allocated + 1 + c % size, 1 + c % 3),
        (allocated, width - allocated + c % 3),
        (min(allocated, width - size), 1 + size + c % size),
        (-1 - c % size, 1 + c % (size + 2)),
        (allocated - c % 2, -c % 3 - 2),
        (allocated + c % 2, 0),
    )[b % 6]
    sparse.request(checker, row, start, tokens)


@action("sparse_read")
def read(caller: Caller, a: int, b: int, c: int) -> None:
    """Read a row back."""
    sparse.read(caller.checker, row_of(caller, a))


@action("sparse_free")
def free(caller: Caller, a: int, b: int, c: int) -> None:
    """Give a row back; the request of one that is staged can't have ended."""
    checker, row = caller.checker, row_of(caller, a)
    if not begins_only_now(checker, row):
        sparse.free(checker, row)


@action("sparse_abort")
def abort(caller: Caller, a: int, b: int, c: int) -> None:
    """Abort the request of a row."""
    sparse.abort(caller.checker, row_of(caller, a))


@action("sparse_decode")
def decode(caller: Caller, a: int, b: int, c: int) -> None:
    """A step of a row: its newest token but one gets a host slot, and some of its tokens are wanted on the device."""
    checker, row = caller.checker, row_of(caller, a)
    state = sparse.state_of(checker)
    buffer = state.buffers.get(row)
    if begins_only_now(checker, row):
        return
    if buffer is None:
        start_decoding(checker, row, c)
        return
    for turn in range(4 if b % 8 == 5 else 1):
        if row not in sparse.state_of(checker).buffers:
            return
        if step(checker, row, b + turn, c):
            step(checker, row, c, b)


def step(checker: Checker, row: int, b: int, c: int) -> bool:
    """A step of a row that decodes; whether its buffer found room only when others had ended.

    Where there is no slot for the token before the newest, or none for that one, the row is given back.
    """
    state = sparse.state_of(checker)
    length = state.lengths[row] + 1
    stored = sparse.back_up(checker, row, length) is not None
    at_once = stored and sparse.grow(checker, row, length)
    if not at_once and not (stored and b % 4 and grows_late(checker, row, length)):
        sparse.free(checker, row)
        return False
    hosted = state.hosted(length)
    wishes = wanted(hosted, state.room, b, c)
    if c % 8 == 7 and checker.profile.misuse != "undefined":  # else nobody could go on with the row
        sparse.misused_swap(checker, row, length, unwanted(hosted, state.room, wishes, b))
        ask_for_the_rest(checker, row)
    sparse.swap(checker, row, length, wishes)
    return not at_once


def grows_late(checker: Checker, row: int, length: int) -> bool:
    """Others that decode end, one after the other, until a buffer has the room that was refused; whether it has."""
    ask_for_the_rest(checker, row)
    for other in [other for other in sparse.state_of(checker).places if other != row]:
        sparse.free(checker, other)
        if sparse.grow(checker, row, length):
            return True
    return False


def ask_for_the_rest(checker: Checker, row: int) -> None:
    """After a call on a row others ask for all pages that are free for them, and for one more, which they can't have.

    Rows that are empty take pages, and give them back in the end; one that isn't asks for too many at once.
    """
    known, size = sparse.state_of(checker), checker.size
    most = sparse.shape(checker).width // size
    others = [one for one in range(sparse.shape(checker).rows) if one != row and not waits(checker, one)]
    takers = [one for one in others if one not in known.reserved and not known.of(one).allocated]
    for one in (*takers, *(one for one in others if one not in takers)):
        held = known.of(one).allocated // size
        free = max(0, sparse.state_of(checker).free_for(one))
        if one in takers and free:
            sparse.request(checker, one, 0, min(free, most) * size)
            held, free = sparse.state_of(checker).of(one).allocated // size, max(0, free - most)
        if held + free < most:
            sparse.request(checker, one, held * size, (free + 1) * size)
            break
    for one in takers:
        if one in sparse.state_of(checker).rows:
            sparse.free(checker, one)


def unwanted(hosted: int, room: int, wishes: list[int], b: int) -> list[int]:
    """What can't be wanted: a token twice, one before or behind the sequence, or more than there is room for."""
    kind = b // 4 % 4
    if kind == 3:
        return list(range(room + 1))
    return [*wishes[: max(kind == 0, room - 1)], (wishes[0], -1, hosted)[kind]]


def wanted(hosted: int, room: int, b: int, c: int) -> list[int]:
    """Some of so many tokens, each once, and no more than there is room for."""
    count = min(1 + b % room, hosted)
    step = 1 + c % max(1, hosted)
    while math.gcd(step, hosted) > 1:
        step += 1  # so that the tokens are distinct
    return [(hosted - 1 - c % 3 + at * step) % hosted for at in range(count)]


def of_model(checker: Checker, tokens: int, b: int) -> int:
    """So many tokens of the model as take as many slots as this, or one less: of the last group some may be missing."""
    ratio = sparse.state_of(checker).ratio
    return tokens * ratio - b % ratio


def prompt_of(checker: Checker, row: int, b: int, c: int) -> int:
    """How many slots a prompt takes: few, some pages, or more than are free for a row that was admitted."""
    state, size = sparse.state_of(checker), checker.size
    most = sparse.shape(checker).width // size
    if row in state.reserved and b % 4 == 2 and 0 <= state.free_for(row) < most:
        return (state.free_for(row) + 1) * size
    return 1 + (b * 7 + c) % (3 * size)


@action("sparse_stage")
def stage(caller: Caller, a: int, b: int, c: int) -> None:
    """Stage a prompt in a row that is empty: short, of some pages, or longer than the buffer."""
    checker, row = caller.checker, row_of(caller, a)
    if is_staged(checker, row) or sparse.state_of(checker).of(row).allocated:
        return
    may_be_admitted(caller, a, b, c)
    before = sparse.state_of(checker)
    slots = sparse.stage(checker, row, of_model(checker, prompt_of(checker, row, b, c), b))
    if (
        slots is None and sparse.state_of(checker) is not before and b % 2 == 0
    ):  # else the device had no room to compute it
        ask_for_the_rest(checker, row)
        left = sparse.state_of(checker).free_for(row) * checker.size
        if left > 0 and b % 4 == 2:
            sparse.stage(checker, row, of_model(checker, min(left, checker.size), b))


@action("sparse_copied")
def copied(caller: Caller, a: int, b: int, c: int) -> None:
    """A copy ends, the oldest or another one."""
    going = sorted(sparse.state_of(caller.checker).copies)
    copy = caller.pick("sparse copy", going, a if c < 128 else 0)
    if copy is not None:
        sparse.copied(caller.checker, copy)


@action("sparse_ready")
def ready(caller: Caller, a: int, b: int, c: int) -> None:
    """Ask which rows are acknowledged."""
    sparse.ready(caller.checker)


@action("sparse_retract")
def retract(caller: Caller, a: int, b: int, c: int) -> None:
    """Retract the request of a row, of one that is staged if there is one."""
    waiting = sparse.state_of(caller.checker).waiting
    row = waiting[b % len(waiting)].row if waiting and c < 192 else row_of(caller, a)
    sparse.retract(caller.checker, row)


@action("sparse_prealloc")
def prealloc(caller: Caller, a: int, b: int, c: int) -> None:
    """A peer is to write a prompt to a row that is empty, seldom one whose pages have another size."""
    checker, row = caller.checker, row_of(caller, a)
    state, size = sparse.state_of(checker), caller.checker.size
    if row not in state.receiving and not is_staged(checker, row) and not state.of(row).allocated:
        other = (1, 2 * size, size + 1)[c % 3]
        may_be_admitted(caller, a, b, c)
        before, tokens = sparse.state_of(checker), of_model(checker, prompt_of(checker, row, b, c), b)
        slots = sparse.prealloc(checker, row, tokens, size if a < 208 else other)
        if slots is None and sparse.state_of(checker) is not before and b % 2 == 0:
            ask_for_the_rest(checker, row)
            if sparse.state_of(checker).free_for(row) > 0 and b % 4 == 2:
                sparse.prealloc(checker, row, of_model(checker, 1 + c % size, b), size)


@action("sparse_transferred")
def transferred(caller: Caller, a: int, b: int, c: int) -> None:
    """A peer ends a transfer, the oldest or another one; some fail."""
    going = sorted(sparse.state_of(caller.checker).transfers)
    transfer = caller.pick("sparse transfer", going, a if c < 128 else 0)
    if transfer is not None:
        sparse.transferred(caller.checker, transfer, arrived=b % 4 > 0)


@action("sparse_back_up")
def back_up(caller: Caller, a: int, b: int, c: int) -> None:
    """Some steps of a row that decodes, without a look at its buffer."""
    checker, row = caller.checker, row_of(caller, a)
    if "sparse_buffers" in checker.capabilities:
        return  # there a step is more than that
    for _ in range(1 + b % 3):
        length = sparse.state_of(checker).lengths.get(row)
        if length and (sparse.back_up(checker, row, length + 1) is None or not sparse.grow(checker, row, length + 1)):
            sparse.end(checker, row)


@action("sparse_reserve")
def reserve(caller: Caller, a: int, b: int, c: int) -> None:
    """Admit a request to a row that is empty, short or as long as can be; who is promised nothing may still come."""
    checker, row = caller.checker, row_of(caller, a)
    state = sparse.state_of(checker)
    if row not in state.reserved and not is_staged(checker, row) and not state.of(row).allocated:
        sparse.reserve(checker, row, of_model(checker, 1 + (b * 7 + c) % (5 * checker.size), b))


def may_be_admitted(caller: Caller, a: int, b: int, c: int) -> None:
    """Of the requests that come to an empty row, some were admitted just before, where there is admission."""
    if c % 4 == 3 and "sparse_admission" in caller.checker.capabilities:
        reserve(caller, a, b, c)


def is_staged(checker: Checker, row: int) -> bool:
    """Whether a row waits to be acknowledged: its request neither decodes nor ends by itself before.

    A row that a pool has kept though its request was aborted then still does, as long as its pages are copied to.
    """
    state = sparse.state_of(checker)
    left = {page for one in state.copies.values() if one.left and one.row == row for page in one.pages}
    return any(one.row == row for one in state.waiting) or not left.isdisjoint(state.of(row).pages)


def waits(checker: Checker, row: int) -> bool:
    """Whether the request of a row waits for its KV, from the device or from a peer."""
    return is_staged(checker, row) or row in sparse.state_of(checker).receiving


def begins_only_now(checker: Checker, row: int) -> bool:
    """Whether the request of a row waited for its KV until now: it is on the host then, and the request decodes."""
    state = sparse.state_of(checker)
    if is_staged(checker, row):
        end_staging(checker, row)
    elif row in state.receiving:
        sparse.transferred(checker, state.receiving[row], arrived=True)
    else:
        return False
    return True


def end_staging(checker: Checker, row: int) -> None:
    """The copies of a staged row and of those before it end, and whoever is ready begins to decode."""
    for one in sparse.state_of(checker).waiting:
        if one.copy in sparse.state_of(checker).copies:
            sparse.copied(checker, one.copy)
        if one.row == row:
            break
    sparse.ready(checker)


def start_decoding(checker: Checker, row: int, c: int) -> None:
    """Admit a row with as many tokens as it has slots for, or fewer."""
    allocated = sparse.state_of(checker).of(row).allocated
    if allocated:
        ratio = sparse.state_of(checker).ratio
        sparse.admit(checker, row, max(1, allocated - c % checker.size) * ratio + c % ratio)


@action("sparse_connect")
def connect(caller: Caller, a: int, b: int, c: int) -> None:
    """A peer comes, with equal pages or others."""
    size = caller.checker.size
    sparse.connect(caller.checker, (size, size, 1, 2 * size, max(1, size // 2), size + 1)[a % 6])
