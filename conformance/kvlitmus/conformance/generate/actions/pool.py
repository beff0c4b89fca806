"""Moves on a pool: what a caller does with slots of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import pool
from kvlitmus.conformance.checker.checker import Loan
from kvlitmus.conformance.generate.actions.registry import MAX_LOANS, move, pick
from kvlitmus.spec.units import PageNo, Slot, page_slots

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Player


def keep(player: Player, slots: tuple[Slot, ...] | None) -> None:
    """Note slots as the suite's own."""
    if slots:
        player.serial += 1
        player.judge.loans[player.serial] = Loan(slots)


@move("alloc")
def alloc(player: Player, a: int, b: int, c: int) -> None:
    """Allocate one to four pages."""
    if len(player.judge.loans) < MAX_LOANS:
        slots = pool.alloc(player.judge, (1 + a % 4) * player.config.page_size)
        keep(player, slots)


@move("free")
def free(player: Player, a: int, b: int, c: int) -> None:
    """Free one of the loans, or its first page only."""
    loan = pick(player.judge.loans, a)
    if loan is None:
        return
    slots = player.judge.loans.pop(loan).slots
    cut = player.config.page_size if b % 4 == 0 else len(slots)
    pool.free(player.judge, slots[:cut])
    keep(player, slots[cut:])


@move("extend")
def extend(player: Player, a: int, b: int, c: int) -> None:
    """Extend a loan as an engine extends a request, and trim it to whole pages of ownership."""
    continue_loan(player, a, 1 + b % (2 * player.config.page_size + 1), decode=False)


@move("decode")
def decode(player: Player, a: int, b: int, c: int) -> None:
    """Extend a loan by one token."""
    continue_loan(player, a, 1, decode=True)


@move("group")
def group(player: Player, a: int, b: int, c: int) -> None:
    """Free up to two loans in one group."""
    judge = player.judge
    chosen = list(judge.loans)[: 1 + a % 2]
    if chosen:
        pool.free_grouped(judge, [judge.loans.pop(loan).slots for loan in chosen])


@move("reset")
def reset(player: Player, a: int, b: int, c: int) -> None:
    """Forget everything; rarely."""
    if a < 80:
        if player.judge.tiers is not None:
            player.give_back()
        pool.reset(player.judge)
        player.waiting.clear()
        player.waits.clear()


def continue_loan(player: Player, a: int, further: int, *, decode: bool) -> None:
    """Continue part of a loan: its last page counts as partly used."""
    judge, size = player.judge, player.config.page_size
    loan = pick(judge.loans, a)
    if loan is None:
        return
    slots = judge.loans[loan].slots
    used = slots[: len(slots) - (a // 16) % size]
    got = pool.extend(judge, used, further, decode=decode)
    if got is not None:
        opened = dict.fromkeys(PageNo(slot // size) for slot in got if slot not in slots)
        judge.loans[loan] = Loan(slots + tuple(slot for page in opened for slot in page_slots(page, size)))
