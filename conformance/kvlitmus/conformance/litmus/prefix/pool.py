"""Litmus tests on pools."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pool
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus

STATE = ("POOL-11", "POOL-12", "POOL-13", "POOL-15")


@litmus(rules=("POOL-01", "POOL-02", "POOL-03", "POOL-06", *STATE), needs=("pool",))
def allocate_and_free(checker: Checker) -> None:
    """Pages that are allocated come whole, distinct and usable, and are available again once freed."""
    size = checker.size
    held = [pool.alloc(checker, pages * size) for pages in (1, 3, 2)]
    for slots in held:
        if slots:
            pool.free(checker, slots)


@litmus(rules=("POOL-04", "POOL-05", "POOL-06"), needs=("pool",))
def nothing_is_handed_out_twice(checker: Checker) -> None:
    """While the pool is drained page by page nobody's page is handed out again."""
    for _ in range(checker.config.pages):
        pool.alloc(checker, checker.size)


@litmus(rules=("POOL-07", "POOL-08"), needs=("pool",))
def the_last_page_is_handed_out_and_one_more_is_refused(checker: Checker) -> None:
    """Exactly the capacity can be allocated; one page more is refused and changes nothing."""
    slots = pool.alloc(checker, checker.capacity)
    pool.alloc(checker, checker.size)
    if slots:
        pool.free(checker, slots[: checker.size])
    pool.alloc(checker, 2 * checker.size)
    pool.alloc(checker, checker.size)


@litmus(rules=("POOL-09", "POOL-10", "POOL-13"), needs=("pool",))
def pages_come_back_in_any_order(checker: Checker) -> None:
    """Pages freed in another order than they were allocated in are all there again."""
    size = checker.size
    slots = pool.alloc(checker, 6 * size) or ()
    for page in (4, 0, 5, 2, 1, 3):
        pool.free(checker, slots[page * size : page * size + size])
    pool.alloc(checker, checker.capacity)


@litmus(rules=("POOL-03", "POOL-17", "POOL-18"), needs=("pool", "extend"))
def a_last_page_is_filled_before_another_is_opened(checker: Checker) -> None:
    """Slots for further tokens continue the last page, from every position within a page."""
    size = checker.size
    for used in range(1, size + 1):
        slots = pool.alloc(checker, size)
        if not slots:
            return
        row = slots[:used]
        for further in (1, size, 2 * size + 1):
            got = pool.extend(checker, row, further)
            if got is None:
                return
            row += got
        free_all(checker)


@litmus(rules=("POOL-08", "POOL-17", "POOL-18", "POOL-21"), needs=("pool", "extend"))
def one_token_opens_a_page_only_when_the_last_is_full(checker: Checker) -> None:
    """Decoding opens a page exactly when the last one is full, and is refused when there is none left."""
    size = checker.size
    pool.alloc(checker, checker.capacity - 2 * size)
    row = pool.extend(checker, (), max(1, size - 1)) or ()
    for further in (1, 1, size - 1, 1):
        got = pool.extend(checker, row, further, decode=further == 1) if row and further else ()
        if got is None:
            return
        row += got


@litmus(rules=("POOL-17", "POOL-18"), needs=("pool", "extend"))
def a_batch_continues_each_of_its_requests(checker: Checker) -> None:
    """Two requests of different lengths get slots in one call, several times: each goes on in its own last page."""
    size = checker.size
    rows = [pool.extend(checker, (), used) or () for used in (1, size + 1)]
    for further in ((1, 2 * size), (size, 1), (1, 1)):
        before = [len(row) for row in rows]
        if not all(before):
            return
        after = [old + more for old, more in zip(before, further, strict=True)]
        got = pool.extend_batch(checker, before, after, [row[-1] for row in rows], decode=further == (1, 1))
        if got is None:
            return
        rows = [rows[0] + got[: further[0]], rows[1] + got[further[0] :]]


@litmus(rules=("POOL-09", "POOL-10", "POOL-19"), needs=("pool", "group"))
def frees_in_a_group_take_effect_at_its_end(checker: Checker) -> None:
    """What is freed within a group is available at its end, all of it, and not before."""
    size = checker.size
    held = [pool.alloc(checker, size) or () for _ in range(3)]
    pool.free_grouped(checker, held[:2])
    pool.free_grouped(checker, held[2:])
    pool.alloc(checker, checker.capacity)


@litmus(rules=("POOL-12", "POOL-16", "POOL-22"), needs=("pool", "reset"))
def a_reset_gives_everything_back(checker: Checker) -> None:
    """After a reset everything is free, whoever held it."""
    pool.alloc(checker, 5 * checker.size)
    pool.reset(checker)
    slots = pool.alloc(checker, checker.capacity)
    if slots:
        pool.free(checker, slots)


def free_all(checker: Checker) -> None:
    """Free every page that the suite owns."""
    size = checker.size
    for page in list(checker.owners):
        pool.free(checker, tuple(range(page * size, page * size + size)))  # type: ignore[arg-type]
