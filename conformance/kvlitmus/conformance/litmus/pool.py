"""Litmus tests on pools."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import pool
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.registry import litmus

STATE = ("POOL-11", "POOL-12", "POOL-13", "POOL-15")


@litmus(rules=("POOL-01", "POOL-02", "POOL-03", "POOL-06", *STATE), needs=("pool",))
def allocate_and_free(judge: Judge) -> None:
    """Pages that are allocated come whole, distinct and usable, and are available again once freed."""
    size = judge.size
    held = [pool.alloc(judge, pages * size) for pages in (1, 3, 2)]
    for slots in held:
        if slots:
            pool.free(judge, slots)


@litmus(rules=("POOL-04", "POOL-05", "POOL-06"), needs=("pool",))
def nothing_is_handed_out_twice(judge: Judge) -> None:
    """While the pool is drained page by page nobody's page is handed out again."""
    for _ in range(judge.config.pages):
        pool.alloc(judge, judge.size)


@litmus(rules=("POOL-07", "POOL-08"), needs=("pool",))
def the_last_page_is_handed_out_and_one_more_is_refused(judge: Judge) -> None:
    """Exactly the capacity can be allocated; one page more is refused and changes nothing."""
    slots = pool.alloc(judge, judge.capacity)
    pool.alloc(judge, judge.size)
    if slots:
        pool.free(judge, slots[: judge.size])
    pool.alloc(judge, 2 * judge.size)
    pool.alloc(judge, judge.size)


@litmus(rules=("POOL-09", "POOL-10", "POOL-13"), needs=("pool",))
def pages_come_back_in_any_order(judge: Judge) -> None:
    """Pages freed in another order than they were allocated in are all there again."""
    size = judge.size
    slots = pool.alloc(judge, 6 * size) or ()
    for page in (4, 0, 5, 2, 1, 3):
        pool.free(judge, slots[page * size : page * size + size])
    pool.alloc(judge, judge.capacity)


@litmus(rules=("POOL-03", "POOL-17", "POOL-18"), needs=("pool", "extend"))
def a_last_page_is_filled_before_another_is_opened(judge: Judge) -> None:
    """Slots for further tokens continue the last page, from every position within a page."""
    size = judge.size
    for used in range(1, size + 1):
        slots = pool.alloc(judge, size)
        if not slots:
            return
        row = slots[:used]
        for further in (1, size, 2 * size + 1):
            got = pool.extend(judge, row, further)
            if got is None:
                return
            row += got
        judge_free_all(judge)


@litmus(rules=("POOL-08", "POOL-17", "POOL-18"), needs=("pool", "extend"))
def one_token_opens_a_page_only_when_the_last_is_full(judge: Judge) -> None:
    """Decoding opens a page exactly when the last one is full, and is refused when there is none left."""
    size = judge.size
    pool.alloc(judge, judge.capacity - 2 * size)
    row = pool.extend(judge, (), max(1, size - 1)) or ()
    for further in (1, 1, size - 1, 1):
        got = pool.extend(judge, row, further, decode=further == 1) if row and further else ()
        if got is None:
            return
        row += got


@litmus(rules=("POOL-09", "POOL-10", "POOL-19"), needs=("pool", "group"))
def frees_in_a_group_take_effect_at_its_end(judge: Judge) -> None:
    """What is freed within a group is available at its end, all of it, and not before."""
    size = judge.size
    held = [pool.alloc(judge, size) or () for _ in range(3)]
    pool.free_grouped(judge, held[:2])
    pool.free_grouped(judge, held[2:])
    pool.alloc(judge, judge.capacity)


@litmus(rules=("POOL-12", "POOL-16"), needs=("pool", "reset"))
def a_reset_gives_everything_back(judge: Judge) -> None:
    """After a reset everything is free, whoever held it."""
    pool.alloc(judge, 5 * judge.size)
    pool.reset(judge)
    slots = pool.alloc(judge, judge.capacity)
    if slots:
        pool.free(judge, slots)


def judge_free_all(judge: Judge) -> None:
    """Free every page that the suite owns."""
    size = judge.size
    for page in list(judge.owners):
        pool.free(judge, tuple(range(page * size, page * size + size)))  # type: ignore[arg-type]
