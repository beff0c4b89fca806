"""What is proven of admission and backups: every rule, in all states of a small pool.

The search goes through all that two rows can do that are admitted or not, ask for pages one by one, begin to decode,
take steps, and are given back.  Each step is judged by every rule of sparse pools, with a snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kvlitmus.reference import sparse as reference
from kvlitmus.spec import sparse_admission
from kvlitmus.spec.config import Config
from kvlitmus.spec.occasions import occasions_of
from kvlitmus.spec.plan import verdicts
from kvlitmus.spec.profile import Profile
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.setting import SNAPSHOT, Setting
from kvlitmus.spec.sparse_calls import SparseAdmit, SparseCall, SparseDone, SparseFree, SparseRequest, SparseReserve
from kvlitmus.spec.sparse_state import SparseState, advance_sparse, backup
from tests.proofs.sparse_rows import CAPABILITIES, seen

RULES = [rule for rule in all_rules().values() if rule.pack == "sparse"]
OF_ADMISSION = [rule for rule in RULES if rule.predicate.__module__ == sparse_admission.__name__]
ROWS, PAGES, ROW_PAGES = (0, 1), 3, 2
SIZES = (1, 2)

Perform = Callable[[SparseState, SparseCall], tuple[SparseState, SparseDone]]
"""What a pool does with a call in a state."""


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference."""
    accepted = True
    if isinstance(call, SparseReserve):
        pool, accepted = reference.reserve(pool, call.row, call.tokens)
    elif isinstance(call, SparseRequest):
        if call.length:
            pool, granted = reference.back_up(pool, call.row, call.length)
        else:
            pool, granted = reference.request(pool, call.row, call.start, call.tokens)
        return pool, SparseDone(granted, seen(pool))
    elif isinstance(call, SparseAdmit):
        pool = reference.admit(pool, call.row, call.length)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    return pool, SparseDone((), seen(pool), accepted)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done."""
    size = pool.page_size
    for row in ROWS:
        own = pool.of(row)
        if not own.pages and row not in pool.reserved:
            for tokens in range(1, (ROW_PAGES + 1) * size + 1):
                yield SparseReserve(row, tokens)
        if row in pool.backed:
            length = pool.buffers[row].length + 1
            if length <= (ROW_PAGES + 1) * size:
                yield backup(pool, row, length)
        else:
            yield SparseRequest(row, own.allocated, 1)
            for length in range(1, own.allocated + 1):
                yield SparseAdmit(row, length)
        yield SparseFree(row)


def broken_in(size: int, performed: Perform = perform) -> tuple[Counter[str], int, list[str]]:
    """How often each rule was evaluated, how many states there are, and what was broken first, in words."""
    setting = Setting(Config(page_size=size, pages=PAGES, pool="sparse"), Profile(), SNAPSHOT, CAPABILITIES)
    empty = reference.empty_pool(size, PAGES, ROW_PAGES * size, 1)
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
    rows = [(pool.of(row).pages, pool.reserved.get(row), pool.backed.get(row)) for row in ROWS]
    return tuple(rows), tuple([pool.buffers[row].length if row in pool.buffers else 0 for row in ROWS])


BOUNDS = f"{len(ROWS)} rows of {ROW_PAGES} pages, {PAGES} pages of 1 and 2 slots, admitted or not, all lengths"

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_admission_holds": ((*(rule.id for rule in OF_ADMISSION), "SPARSE-09", "SPARSE-13"), BOUNDS),
}
"""What is proven, for which rules, within which bounds."""
