"""What is proven of compressed tokens: every rule in all states of small pools, and what steps back up for any length.

The search goes through all that two rows can do that stage prompts of any length, take steps and are given back.  The
arithmetic is that of :func:`~kvlitmus.spec.sparse_state.backup_place`, run on terms (``support/terms.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kvlitmus.reference import sparse as reference
from kvlitmus.spec import sparse_ratio
from kvlitmus.spec.config import Config
from kvlitmus.spec.occasions import occasions_of
from kvlitmus.spec.plan import verdicts
from kvlitmus.spec.profile import Profile
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.setting import SNAPSHOT, Setting
from kvlitmus.spec.sparse_calls import (
    SparseAdmit,
    SparseCall,
    SparseCopied,
    SparseDone,
    SparseFree,
    SparseReady,
    SparseRequest,
)
from kvlitmus.spec.sparse_state import SparseState, advance_sparse, backup
from kvlitmus.spec.units import Slot
from tests.proofs.sparse_rows import CAPABILITIES, seen

RULES = [rule for rule in all_rules().values() if rule.pack == "sparse"]
OF_RATIOS = [rule for rule in RULES if rule.predicate.__module__ == sparse_ratio.__name__]
ROWS, PAGES, ROW_PAGES, COPIES = (0, 1), 3, 2, 2
SCOPES = [(size, ratio) for size in (1, 2) for ratio in (1, 2, 3)]
"""Slots in a page, and tokens that are compressed to one."""
RATIOS = (1, 2, 4, 128)

Perform = Callable[[SparseState, SparseCall], tuple[SparseState, SparseDone]]
"""What a pool does with a call in a state."""


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference."""
    slots: tuple[Slot, ...] | None = ()
    rows: tuple[int, ...] = ()
    if isinstance(call, SparseRequest):
        if call.length:
            pool, slots = reference.back_up(pool, call.row, call.length)
        else:
            pool, slots = reference.stage(pool, call.row, call.prompt)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    elif isinstance(call, SparseAdmit):
        pool = reference.admit(pool, call.row, call.length)
    elif isinstance(call, SparseCopied):
        pool = reference.copied(pool, call.copy)
    elif isinstance(call, SparseReady):
        pool, rows = reference.ready(pool)
    return pool, SparseDone(slots, seen(pool), copying=tuple(pool.copies), ready=rows)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done, with copies that are waited for: prompts without a whole group begin at once."""
    most = (ROW_PAGES + 1) * pool.page_size * pool.ratio
    for row in ROWS:
        if row in pool.lengths:
            if pool.lengths[row] < most:
                yield backup(pool, row, pool.lengths[row] + 1)
        elif not pool.of(row).pages:
            for tokens in range(1, most):
                if not pool.hosted(tokens):
                    yield SparseAdmit(row, tokens)
                elif pool.begun < COPIES:
                    yield SparseRequest(row, 0, pool.hosted(tokens), staged=True, prompt=tokens)
        yield SparseFree(row, "retracted" if any(one.row == row for one in pool.waiting) else "finished")
    for copy in pool.copies:
        yield SparseCopied(copy)
    if not pool.copies:
        yield SparseReady()


def broken_in(size: int, ratio: int, performed: Perform = perform) -> tuple[Counter[str], int, list[str]]:
    """How often each rule was evaluated, how many states there are, and what was broken first, in words."""
    profile = Profile(sparse_ratio=ratio)
    setting = Setting(Config(page_size=size, pages=PAGES, pool="sparse"), profile, SNAPSHOT, CAPABILITIES)
    empty = reference.empty_pool(size, PAGES, ROW_PAGES * size, 1, ratio=ratio)
    found, todo, counts = {key(empty)}, [empty], Counter[str]()
    while todo:
        pool = todo.pop()
        for call in calls(pool):
            then, answer = performed(pool, call)
            inputs = {"setting": setting, "state": pool._replace(seen=seen(pool)), "call": call, "answer": answer}
            said = verdicts(RULES, occasions_of(call, answer), CAPABILITIES, inputs, {})
            counts.update(said)
            if wrong := [id for id, kept in said.items() if not kept]:
                return counts, len(found), [f"{', '.join(wrong)}: {call} in {key(pool)} → {answer.slots}"]
            then = advance_sparse(pool, call, answer)
            if key(then) not in found:
                found.add(key(then))
                todo.append(then)
    return counts, len(found), []


def key(pool: SparseState) -> Any:
    """What tells states apart."""
    rows = [(pool.of(row).pages, pool.lengths.get(row), pool.backed.get(row)) for row in ROWS]
    return tuple(rows), tuple(pool.copies), pool.waiting, pool.begun


BOUNDS = (
    f"{len(ROWS)} rows of {ROW_PAGES} pages, {PAGES} pages of 1 and 2 slots, {COPIES} prompts; 1, 2 and 3 tokens to one"
)

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_ratios_holds": ((*(rule.id for rule in OF_RATIOS), "SPARSE-38"), BOUNDS),
    "groups_are_backed_up_each_once_and_in_order": (
        ("SPARSE-43", "SPARSE-44", "SPARSE-45"),
        f"any lengths; pages of 1 to 128 slots, {', '.join(map(str, RATIOS))} tokens to one (z3)",
    ),
}
"""What is proven, for which rules, within which bounds."""
