"""Moves on the prefix tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import pool, tree
from kvlitmus.conformance.generate.actions.pool import keep
from kvlitmus.conformance.generate.actions.registry import MAX_RECEIPTS, move, pick
from kvlitmus.conformance.generate.schedule import evict_size, make_key
from kvlitmus.spec.units import Slot, page_floor

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Interpreter


@move("match")
def match(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Match a key."""
    tree.match(interpreter.checker, make_key(interpreter.config, a, b, c))


@move("lock")
def lock(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Match a key and lock what was found."""
    if len(interpreter.checker.receipts) < MAX_RECEIPTS:
        key = make_key(interpreter.config, a, b, c)
        interpreter.serial += 1
        tree.lock(interpreter.checker, tree.match(interpreter.checker, key), key, interpreter.serial)


@move("unlock")
def unlock(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Give one of the receipts back."""
    receipt = pick(interpreter.checker.receipts, a)
    if receipt is not None:
        tree.unlock(interpreter.checker, receipt)


@move("evict")
def evict(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Make room."""
    tree.evict(interpreter.checker, evict_size(interpreter.config, a))


@move("insert")
def insert(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Insert a key, as a caller does who reuses the cached prefix, or as one who computed everything anew."""
    checker = interpreter.checker
    key = make_key(interpreter.config, a, b, c)
    whole = page_floor(key.length, interpreter.config.page_size)
    reuse = c & 16 and "locks" in checker.capabilities
    shared: tuple[Slot, ...] = ()
    receipt = 0
    if reuse:
        hit = tree.match(checker, key)
        if hit.slots is not None:
            shared = tuple(map(Slot, hit.slots))
            interpreter.serial += 1
            receipt = interpreter.serial
            tree.lock(checker, hit, key, receipt)
    own = room(interpreter, whole - len(shared))
    if own is not None:
        slots = (*shared, *own)
        vain = tree.insert(
            checker, key, slots, protected=len(shared), priority=(c >> 5) & 3 if c & 16 else 0, chunked=bool(c & 32)
        )
        if vain:
            pool.free(checker, vain)
    if receipt:
        tree.unlock(checker, receipt)


def room(interpreter: Interpreter, n: int) -> tuple[Slot, ...] | None:
    """Slots of the suite's own, making room first where needed; ``None`` when there is no room."""
    checker = interpreter.checker
    if not n:
        return ()
    known = checker.before.available
    if known is not None and known < n and "evict" in checker.capabilities:
        tree.evict(checker, n - known)
    got = pool.alloc(checker, n)
    if got is None or len(got) == n:
        return got
    keep(interpreter, got)  # another number than was asked for (POOL-01, muted) is of no use
    return None
