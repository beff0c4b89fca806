"""Actions on a pool: what a caller does with slots of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import pool
from kvlitmus.conformance.checker.checker import Loan
from kvlitmus.conformance.generate.actions.registry import MAX_LOANS, action
from kvlitmus.spec.words.units import PageNo, Slot, page_slots

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller


def keep(caller: Caller, slots: tuple[Slot, ...] | None) -> None:
    """Note slots as the suite's own."""
    if slots:
        caller.serial += 1
        caller.checker.loans[caller.serial] = Loan(slots)


@action("alloc")
def alloc(caller: Caller, a: int, b: int, c: int) -> None:
    """Allocate one to four pages, or a part of the last one, where the cache rounds such sizes up."""
    if len(caller.checker.loans) < MAX_LOANS:
        size = caller.config.page_size
        part = c % size if caller.checker.profile.align == "round_up" else 0
        slots = pool.alloc(caller.checker, (1 + a % 4) * size - part)
        keep(caller, slots)


@action("free")
def free(caller: Caller, a: int, b: int, c: int) -> None:
    """Free one of the loans, or its first page only."""
    loan = caller.pick("loan", caller.checker.loans, a)
    if loan is None:
        return
    slots = caller.checker.loans.pop(loan).slots
    cut = caller.config.page_size if b % 4 == 0 else len(slots)
    pool.free(caller.checker, slots[:cut])
    keep(caller, slots[cut:])


@action("extend")
def extend(caller: Caller, a: int, b: int, c: int) -> None:
    """Extend a loan as an engine extends a request, and trim it to whole pages of ownership."""
    continue_loan(caller, a, 1 + b % (2 * caller.config.page_size + 1), decode=False)


@action("decode")
def decode(caller: Caller, a: int, b: int, c: int) -> None:
    """Extend a loan by one token."""
    continue_loan(caller, a, 1, decode=True)


@action("group")
def group(caller: Caller, a: int, b: int, c: int) -> None:
    """Free up to two loans in one group."""
    checker = caller.checker
    chosen = list(checker.loans)[: 1 + a % 2]
    if chosen:
        pool.free_grouped(checker, [checker.loans.pop(loan).slots for loan in chosen])


@action("reset")
def reset(caller: Caller, a: int, b: int, c: int) -> None:
    """Forget everything; rarely."""
    if a < 80:
        if caller.checker.store is not None:
            caller.give_back()
        pool.reset(caller.checker)
        caller.waiting.clear()
        caller.waits.clear()


def continue_loan(caller: Caller, a: int, further: int, *, decode: bool) -> None:
    """Continue part of a loan: its last page counts as partly used."""
    checker, size = caller.checker, caller.config.page_size
    loan = caller.pick("loan", checker.loans, a)
    if loan is None:
        return
    slots = checker.loans[loan].slots
    used = slots[: len(slots) - (a // 16) % size]
    got = pool.extend(checker, used, further, decode=decode)
    if got is not None:
        opened = dict.fromkeys(PageNo(slot // size) for slot in got if slot not in slots)
        checker.loans[loan] = Loan(slots + tuple(slot for page in opened for slot in page_slots(page, size)))


@action("flush_all")
def flush_all(caller: Caller, a: int, b: int, c: int) -> None:
    """Forget what nobody protects; all, where a cache can't do that while requests run."""
    if "flush" in caller.checker.capabilities:
        pool.flush(caller.checker)
    else:
        reset(caller, a, b, c)
