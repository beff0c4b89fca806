"""Moves on the prefix tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import pool, tree
from kvlitmus.conformance.generate.actions.pool import keep
from kvlitmus.conformance.generate.actions.registry import MAX_RECEIPTS, move, pick
from kvlitmus.conformance.generate.schedule import evict_size, make_key
from kvlitmus.spec.units import Slot, page_floor

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Player


@move("match")
def match(player: Player, a: int, b: int, c: int) -> None:
    """Match a key."""
    tree.match(player.judge, make_key(player.config, a, b, c))


@move("lock")
def lock(player: Player, a: int, b: int, c: int) -> None:
    """Match a key and lock what was found."""
    if len(player.judge.receipts) < MAX_RECEIPTS:
        key = make_key(player.config, a, b, c)
        player.serial += 1
        tree.lock(player.judge, tree.match(player.judge, key), key, player.serial)


@move("unlock")
def unlock(player: Player, a: int, b: int, c: int) -> None:
    """Give one of the receipts back."""
    receipt = pick(player.judge.receipts, a)
    if receipt is not None:
        tree.unlock(player.judge, receipt)


@move("evict")
def evict(player: Player, a: int, b: int, c: int) -> None:
    """Make room."""
    tree.evict(player.judge, evict_size(player.config, a))


@move("insert")
def insert(player: Player, a: int, b: int, c: int) -> None:
    """Insert a key, as a caller does who reuses the cached prefix, or as one who computed everything anew."""
    judge = player.judge
    key = make_key(player.config, a, b, c)
    whole = page_floor(key.length, player.config.page_size)
    reuse = c & 16 and "locks" in judge.capabilities
    shared: tuple[Slot, ...] = ()
    receipt = 0
    if reuse:
        hit = tree.match(judge, key)
        if hit.slots is not None:
            shared = tuple(map(Slot, hit.slots))
            player.serial += 1
            receipt = player.serial
            tree.lock(judge, hit, key, receipt)
    own = room(player, whole - len(shared))
    if own is not None:
        slots = (*shared, *own)
        vain = tree.insert(
            judge, key, slots, protected=len(shared), priority=(c >> 5) & 3 if c & 16 else 0, chunked=bool(c & 32)
        )
        if vain:
            pool.free(judge, vain)
    if receipt:
        tree.unlock(judge, receipt)


def room(player: Player, n: int) -> tuple[Slot, ...] | None:
    """Slots of the suite's own, making room first where needed; ``None`` when there is no room."""
    judge = player.judge
    if not n:
        return ()
    known = judge.before.available
    if known is not None and known < n and "evict" in judge.capabilities:
        tree.evict(judge, n - known)
    got = pool.alloc(judge, n)
    if got is None or len(got) == n:
        return got
    keep(player, got)  # another number than was asked for (POOL-01, muted) is of no use
    return None
