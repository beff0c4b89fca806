"""Moves on a pool: what a caller does with slots of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import pool
from kvlitmus.conformance.checker.checker import Loan
from kvlitmus.conformance.generate.actions.registry import MAX_LOANS, move, pick
from kvlitmus.spec.units import PageNo, Slot, page_slots

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Interpreter


def keep(interpreter: Interpreter, slots: tuple[Slot, ...] | None) -> None:
    """Note slots as the suite's own."""
    if slots:
        interpreter.serial += 1
        interpreter.checker.loans[interpreter.serial] = Loan(slots)


@move("alloc")
def alloc(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Allocate one to four pages."""
    if len(interpreter.checker.loans) < MAX_LOANS:
        slots = pool.alloc(interpreter.checker, (1 + a % 4) * interpreter.config.page_size)
        keep(interpreter, slots)


@move("free")
def free(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Free one of the loans, or its first page only."""
    loan = pick(interpreter.checker.loans, a)
    if loan is None:
        return
    slots = interpreter.checker.loans.pop(loan).slots
    cut = interpreter.config.page_size if b % 4 == 0 else len(slots)
    pool.free(interpreter.checker, slots[:cut])
    keep(interpreter, slots[cut:])


@move("extend")
def extend(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Extend a loan as an engine extends a request, and trim it to whole pages of ownership."""
    continue_loan(interpreter, a, 1 + b % (2 * interpreter.config.page_size + 1), decode=False)


@move("decode")
def decode(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Extend a loan by one token."""
    continue_loan(interpreter, a, 1, decode=True)


@move("group")
def group(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Free up to two loans in one group."""
    checker = interpreter.checker
    chosen = list(checker.loans)[: 1 + a % 2]
    if chosen:
        pool.free_grouped(checker, [checker.loans.pop(loan).slots for loan in chosen])


@move("reset")
def reset(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Forget everything; rarely."""
    if a < 80:
        if interpreter.checker.tiers is not None:
            interpreter.give_back()
        pool.reset(interpreter.checker)
        interpreter.waiting.clear()
        interpreter.waits.clear()


def continue_loan(interpreter: Interpreter, a: int, further: int, *, decode: bool) -> None:
    """Continue part of a loan: its last page counts as partly used."""
    checker, size = interpreter.checker, interpreter.config.page_size
    loan = pick(checker.loans, a)
    if loan is None:
        return
    slots = checker.loans[loan].slots
    used = slots[: len(slots) - (a // 16) % size]
    got = pool.extend(checker, used, further, decode=decode)
    if got is not None:
        opened = dict.fromkeys(PageNo(slot // size) for slot in got if slot not in slots)
        checker.loans[loan] = Loan(slots + tuple(slot for page in opened for slot in page_slots(page, size)))
