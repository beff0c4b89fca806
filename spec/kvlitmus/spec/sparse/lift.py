"""Sparse host memory as the pool that it is: rows own its pages, and so do copies and peers that write on.

What a pool owes it owes too: whose a page is, what a grant may take, and that the count is that of the free list.  Rows
are listed by the slot, so each slot is a page of its own here.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator

from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix.calls import Alloc
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseRequest
from kvlitmus.spec.sparse.rows import undeclared
from kvlitmus.spec.sparse.state import SparseState, granted_pages
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Tokens, page_slots

HOST = "the host's pages"
"""What a finding says that a law of pools was broken of."""

LAWS = frozenset({"POOL-03", "POOL-04", "POOL-06", "POOL-11", "POOL-12", "POOL-13", "POOL-15"})
"""The laws of pools that it is judged by: the others speak of what a row is asked for, which rules of rows say, or of a tree."""


@functools.cache
def pool_of(setting: Setting) -> Setting:
    """The pool, each slot a page of its own."""
    config = Config(page_size=1, pages=setting.config.pages * setting.size, pool="host")
    return Setting(config, setting.profile, setting.depth, frozenset({"pool", "inspect"}))


def owned(state: SparseState) -> State:
    """Whose the slots are, as far as it is known."""
    pages = [*(page for row in state.rows.values() for page in row.pages), *state.left_pages]
    return empty_state()._replace(
        owners=Counter([PageNo(slot) for page in pages for slot in page_slots(page, state.page_size)])
    )


def lifted(
    setting: Setting, state: SparseState, call: SparseCall, answer: SparseDone, then: SparseState
) -> Iterator[Lifted[State, Seen]]:
    """A step to what is known then, as the allocation that it is, and as a look at the pool."""
    pool, size = pool_of(setting), state.page_size
    new = granted_pages(state, call, answer.slots or ()) if isinstance(call, SparseRequest) else ()
    if new:
        slots = tuple([slot for page in new for slot in page_slots(page, size)])
        yield Lifted(HOST, pool, owned(state), call=Alloc(Tokens(len(slots))), answer=slots, laws=LAWS)
    view, count = answer.seen.view, answer.seen.available
    if view is UNKNOWN or count is UNKNOWN or undeclared(call):
        return
    left = [slot for page in then.left_pages for slot in page_slots(page, size)]
    held = Counter(map(PageNo, [*left, *(slot for slots in view.rows.values() for slot in slots)]))
    free = tuple(map(PageNo, view.free))
    known, seen = empty_state()._replace(owners=held), Seen(count, None, True, free, frozenset(free))
    yield Lifted(HOST, pool, expected=known, then=known, after=seen, laws=LAWS)
