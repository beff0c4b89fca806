"""Actions on the prefix tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import pool, tree
from kvlitmus.conformance.generate.actions.prefix.pool import keep
from kvlitmus.conformance.generate.actions.registry import MAX_RECEIPTS, action
from kvlitmus.conformance.generate.schedule import evict_size
from kvlitmus.spec.words.units import Slot, page_floor

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller


@action("match")
def match(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key."""
    tree.match(caller.checker, caller.key(a, b, c))


@action("lock")
def lock(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key and lock what was found."""
    if len(caller.checker.receipts) < MAX_RECEIPTS:
        key = caller.key(a, b, c)
        caller.serial += 1
        tree.lock(caller.checker, tree.match(caller.checker, key), key, caller.serial)


@action("unlock")
def unlock(caller: Caller, a: int, b: int, c: int) -> None:
    """Give one of the receipts back."""
    receipt = caller.pick("receipt", caller.checker.receipts, a)
    if receipt is not None:
        tree.unlock(caller.checker, receipt)


@action("evict")
def evict(caller: Caller, a: int, b: int, c: int) -> None:
    """Make room."""
    tree.evict(caller.checker, evict_size(caller.config, a))


@action("insert")
def insert(caller: Caller, a: int, b: int, c: int) -> None:
    """Insert a key, as a caller does who reuses the cached prefix, or as one who computed everything anew."""
    checker = caller.checker
    key = caller.key(a, b, c)
    whole = page_floor(key.length, caller.config.page_size)
    reuse = c & 16 and "locks" in checker.capabilities
    shared: tuple[Slot, ...] = ()
    receipt = 0
    if reuse:
        hit = tree.match(checker, key)
        if hit.slots is not None:
            shared = tuple(map(Slot, hit.slots))[: page_floor(len(hit.slots), caller.config.page_size)]
            caller.serial += 1
            receipt = caller.serial
            tree.lock(checker, hit, key, receipt)
    own = room(caller, whole - len(shared))
    if own is not None:
        slots = (*shared, *own)
        duplicates = tree.insert(
            checker, key, slots, protected=len(shared), priority=(c >> 5) & 3 if c & 16 else 0, chunked=bool(c & 32)
        )
        if duplicates:
            pool.free(checker, duplicates)
    if receipt:
        tree.unlock(checker, receipt)


def room(caller: Caller, n: int) -> tuple[Slot, ...] | None:
    """Slots of the suite's own, making room first where needed; ``None`` when there is no room."""
    checker = caller.checker
    if not n:
        return ()
    known = checker.before.available
    if known is not None and known < n and "evict" in checker.capabilities:
        tree.evict(checker, n - known)
    got = pool.alloc(checker, n)
    if got is None or len(got) == n:
        return got
    keep(caller, got)  # another number than was asked for (POOL-01, muted) is of no use
    return None
