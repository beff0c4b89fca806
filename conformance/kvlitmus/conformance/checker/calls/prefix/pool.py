"""Calls on a pool: allocate, free, extend, decode, groups, reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.spec.prefix.calls import Alloc, EndGroup, Extend, ExtendBatch, ExtendOne, Flush, Free, FreeInGroup, Reset
from kvlitmus.spec.words.units import Slot, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def alloc(checker: Checker, n: int) -> tuple[Slot, ...] | None:
    """Allocate ``n`` slots for the suite itself; ``None`` when the pool refuses."""
    answer = checker.call(f"alloc({n})", "alloc", n)
    slots = checker.slots_or_none(answer)
    checker.step(Alloc(Tokens(n)), slots)
    return slots


def free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Give slots back that the suite owns: whole pages."""
    checker.call(f"free({list(slots)})", "free", list(slots))
    checker.step(Free(tuple(slots)), None)


def free_grouped(checker: Checker, parts: Sequence[Sequence[Slot]]) -> None:
    """Give several lots of slots back in one group: they become available together, at its end."""
    before = checker.before
    freed = tuple(slot for slots in parts for slot in slots)
    checker.call("free_group_begin()", "free_group_begin")
    for slots in parts:
        checker.call(f"free({list(slots)})", "free", list(slots))
    checker.step(FreeInGroup(freed), None)
    checker.before = before
    checker.call("free_group_end()", "free_group_end")
    checker.step(EndGroup(freed), None)


def extend(checker: Checker, slots: Sequence[Slot], further: int, *, decode: bool = False) -> tuple[Slot, ...] | None:
    """Slots for ``further`` tokens after those in ``slots``, as an engine asks for them; ``None`` when refused.

    With ``decode`` the port for single tokens is used, and ``further`` must be 1.
    """
    old, new, last = len(slots), len(slots) + further, slots[-1] if slots else -1
    if decode:
        answer = checker.call(f"alloc_decode([{new}], [{last}])", "alloc_decode", [new], [last])
    else:
        answer = checker.call(f"alloc_extend([{old}], [{new}], [{last}])", "alloc_extend", [old], [new], [last])
    got = checker.slots_or_none(answer)
    checker.step(Extend(tuple(slots), Tokens(further), decode), got)
    return got


def extend_batch(
    checker: Checker, before: Sequence[int], after: Sequence[int], last: Sequence[int], *, decode: bool = False
) -> tuple[Slot, ...] | None:
    """Slots for several requests at once: together they are one allocation, one by one they continue a page each."""
    if decode:
        text = f"alloc_decode({list(after)}, {list(last)})"
        answer = checker.call(text, "alloc_decode", list(after), list(last))
    else:
        text = f"alloc_extend({list(before)}, {list(after)}, {list(last)})"
        answer = checker.call(text, "alloc_extend", list(before), list(after), list(last))
    batch = ExtendBatch(tuple(before), tuple(after), tuple(map(Slot, last)), decode)
    got = checker.slots_or_none(answer)
    checker.step(batch, got)
    if got is None:
        return None
    at = 0
    for old, new, slot in zip(*batch[:3], strict=True):
        checker.answered(ExtendOne(old, slot), got[at : at + new - old], checker.state)
        at += new - old
    return got


def flush(checker: Checker) -> bool:
    """Forget what nobody protects; ``False`` when refused."""
    flushed = checker.flag(checker.call("flush()", "flush"), "whether the cache was flushed")
    checker.history[-1] += f" → {flushed}"
    checker.step(Flush(), flushed)
    return flushed


def reset(checker: Checker) -> None:
    """Forget everything, in the cache and in what is known.

    What is known is cleared *before* the cache is looked at, since nobody owns anything now.
    """
    stored = None if checker.store is None else len(checker.store.contents)
    checker.call("reset()", "reset")
    before = checker.before
    checker.forget()
    checker.before, after = before, checker.before
    checker.step(Reset(stored), None)
    checker.before = after
