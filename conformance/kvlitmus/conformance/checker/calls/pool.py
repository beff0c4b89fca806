"""Calls on a pool: allocate, free, extend, decode, groups, reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker import partial as unseen
from kvlitmus.spec.units import Slot, page_slots, pages_needed, pages_of

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Judge


def alloc(judge: Judge, n: int) -> tuple[Slot, ...] | None:
    """Allocate ``n`` slots for the suite itself; ``None`` when the pool refuses."""
    held = frozenset(judge.owners).union(judge.locked_pages().values())
    answer = judge.call(f"alloc({n})", "alloc", n)
    facts: dict[str, object] = {"asked": n, "may_evict": judge.profile.evict_moment == "alloc"}
    if answer is None:
        judge.trail[-1] += " → None"
        judge.finish("refused_alloc", facts, judge.tree)
        return None
    slots = judge.slots(answer)
    facts.update(granted=slots, granted_pages=pages_of(slots, judge.size), held_before=held)
    judge.own(slots)
    judge.finish("alloc", facts, unseen.taken(judge, judge.tree, pages_of(slots, judge.size)))
    return slots


def free(judge: Judge, slots: Sequence[Slot]) -> None:
    """Give slots back that the suite owns: whole pages."""
    judge.call(f"free({list(slots)})", "free", list(slots))
    judge.disown(slots)
    judge.finish("free", {"freed_pages": pages_of(slots, judge.size)}, judge.tree)


def free_grouped(judge: Judge, parts: Sequence[Sequence[Slot]]) -> None:
    """Give several lots of slots back in one group: they become available together, at its end."""
    before = judge.before
    judge.call("free_group_begin()", "free_group_begin")
    for slots in parts:
        judge.call(f"free({list(slots)})", "free", list(slots))
    judge.finish("group_open", {}, judge.tree)
    judge.before = before
    judge.call("free_group_end()", "free_group_end")
    freed = [slot for slots in parts for slot in slots]
    judge.disown(freed)
    judge.finish("free+group_end", {"freed_pages": pages_of(freed, judge.size)}, judge.tree)


def extend(judge: Judge, slots: Sequence[Slot], further: int, *, decode: bool = False) -> tuple[Slot, ...] | None:
    """Slots for ``further`` tokens after those in ``slots``, as an engine asks for them; ``None`` when refused.

    With ``decode`` the port for single tokens is used, and ``further`` must be 1.
    """
    old, new, last = len(slots), len(slots) + further, slots[-1] if slots else -1
    if decode:
        answer = judge.call(f"alloc_decode([{new}], [{last}])", "alloc_decode", [new], [last])
    else:
        answer = judge.call(f"alloc_extend([{old}], [{new}], [{last}])", "alloc_extend", [old], [new], [last])
    opened = pages_needed(new, judge.size) - pages_needed(old, judge.size)
    facts: dict[str, object] = {
        "asked": further,
        "opened_needed": opened,
        "may_evict": judge.profile.evict_moment == "alloc",
    }
    if answer is None:
        judge.trail[-1] += " → None"
        judge.finish("refused_extend", facts, judge.tree)
        return None
    got = judge.slots(answer)
    opened_pages = pages_of(got, judge.size) - pages_of(slots, judge.size)
    facts.update(
        granted=got,
        granted_pages=opened_pages,
        new_slots=got,
        last_slot=last,
        row_before=tuple(slots),
        opened_pages=opened_pages,
        held_before=frozenset(judge.owners).union(judge.locked_pages().values()),
    )
    judge.own([slot for page in opened_pages for slot in page_slots(page, judge.size)])
    kinds = "alloc_decode" if decode else "alloc_extend"
    judge.finish(kinds, facts, unseen.taken(judge, judge.tree, opened_pages))
    return got


def reset(judge: Judge) -> None:
    """Forget everything, in the cache and in the ledger.

    The suite's books are cleared *before* the cache is looked at, since nobody owns anything now.
    """
    had = len(judge.tiers.store.contents) if judge.tiers is not None else 0
    judge.call("reset()", "reset")
    before = judge.before
    judge.forget()
    judge.before, after = before, judge.before
    facts: dict[str, object] = {}
    if judge.tiers is not None:
        facts.update(
            store_before=had,
            store_after=len(judge.tiers.store.contents),
            work_left=[job.kind for job in getattr(after, "jobs", {}).values()],
            moving_left=getattr(after, "moving", ()),
        )
    judge.finish("reset", facts, judge.tree)
    judge.before = after
