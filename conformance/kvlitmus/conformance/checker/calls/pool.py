"""Calls on a pool: allocate, free, extend, decode, groups, reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker import partial
from kvlitmus.spec.units import Slot, page_slots, pages_needed, pages_of

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def alloc(checker: Checker, n: int) -> tuple[Slot, ...] | None:
    """Allocate ``n`` slots for the suite itself; ``None`` when the pool refuses."""
    held = frozenset(checker.owners).union(checker.locked_pages().values())
    answer = checker.call(f"alloc({n})", "alloc", n)
    facts: dict[str, object] = {"asked": n, "may_evict": checker.profile.evict_moment == "alloc"}
    if answer is None:
        checker.history[-1] += " → None"
        checker.finish("refused_alloc", facts, checker.tree)
        return None
    slots = checker.slots(answer)
    facts.update(granted=slots, granted_pages=pages_of(slots, checker.size), held_before=held)
    checker.own(slots)
    checker.finish("alloc", facts, partial.taken(checker, checker.tree, pages_of(slots, checker.size)))
    return slots


def free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Give slots back that the suite owns: whole pages."""
    checker.call(f"free({list(slots)})", "free", list(slots))
    checker.disown(slots)
    checker.finish("free", {"freed_pages": pages_of(slots, checker.size)}, checker.tree)


def free_grouped(checker: Checker, parts: Sequence[Sequence[Slot]]) -> None:
    """Give several lots of slots back in one group: they become available together, at its end."""
    before = checker.before
    checker.call("free_group_begin()", "free_group_begin")
    for slots in parts:
        checker.call(f"free({list(slots)})", "free", list(slots))
    checker.finish("group_open", {}, checker.tree)
    checker.before = before
    checker.call("free_group_end()", "free_group_end")
    freed = [slot for slots in parts for slot in slots]
    checker.disown(freed)
    checker.finish("free+group_end", {"freed_pages": pages_of(freed, checker.size)}, checker.tree)


def extend(checker: Checker, slots: Sequence[Slot], further: int, *, decode: bool = False) -> tuple[Slot, ...] | None:
    """Slots for ``further`` tokens after those in ``slots``, as an engine asks for them; ``None`` when refused.

    With ``decode`` the port for single tokens is used, and ``further`` must be 1.
    """
    old, new, last = len(slots), len(slots) + further, slots[-1] if slots else -1
    if decode:
        answer = checker.call(f"alloc_decode([{new}], [{last}])", "alloc_decode", [new], [last])
    else:
        answer = checker.call(f"alloc_extend([{old}], [{new}], [{last}])", "alloc_extend", [old], [new], [last])
    opened = pages_needed(new, checker.size) - pages_needed(old, checker.size)
    facts: dict[str, object] = {
        "asked": further,
        "opened_needed": opened,
        "may_evict": checker.profile.evict_moment == "alloc",
    }
    if answer is None:
        checker.history[-1] += " → None"
        checker.finish("refused_extend", facts, checker.tree)
        return None
    got = checker.slots(answer)
    opened_pages = pages_of(got, checker.size) - pages_of(slots, checker.size)
    facts.update(
        granted=got,
        granted_pages=opened_pages,
        new_slots=got,
        last_slot=last,
        row_before=tuple(slots),
        opened_pages=opened_pages,
        held_before=frozenset(checker.owners).union(checker.locked_pages().values()),
    )
    checker.own([slot for page in opened_pages for slot in page_slots(page, checker.size)])
    kinds = "alloc_decode" if decode else "alloc_extend"
    checker.finish(kinds, facts, partial.taken(checker, checker.tree, opened_pages))
    return got


def reset(checker: Checker) -> None:
    """Forget everything, in the cache and in the ledger.

    The suite's books are cleared *before* the cache is looked at, since nobody owns anything now.
    """
    had = len(checker.tiers.store.contents) if checker.tiers is not None else 0
    checker.call("reset()", "reset")
    before = checker.before
    checker.forget()
    checker.before, after = before, checker.before
    facts: dict[str, object] = {}
    if checker.tiers is not None:
        facts.update(
            store_before=had,
            store_after=len(checker.tiers.store.contents),
            work_left=[job.kind for job in getattr(after, "jobs", {}).values()],
            moving_left=getattr(after, "moving", ()),
        )
    checker.finish("reset", facts, checker.tree)
    checker.before = after
