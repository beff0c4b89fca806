"""What is proven of a request of sparse rows, as functions that CrossHair reads: starts and counts are any integers.

They are about the reference's own request; the algebra of the pages that a row lacks is in ``test_sparse_rows.py``, of
:func:`~kvlitmus.spec.sparse.state.missing_pages` itself and for all rows.
"""

from __future__ import annotations

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse import state as sparse_state
from kvlitmus.spec.sparse.state import SparseRow, SparseState
from kvlitmus.spec.words.units import PageNo, page_floor
from tests.proofs.components.fetch_lemmas import plain, slip
from tests.proofs.components.lemmas import SIZES, sized

WIDTH = 3
"""How many pages a row has room for, which the pool has too."""


def pool_of(size: int, pages: int) -> SparseState:
    """A pool with one row of so many pages."""
    row = SparseRow(0, tuple([PageNo(page) for page in range(pages)]), size)
    return reference.empty_pool(size, WIDTH, WIDTH * size)._replace(rows={0: row} if pages else {})


def a_row_grows_as_far_as_it_must(pages: int, start: int, tokens: int, page_size: int) -> None:
    """A request makes a row as long as it says and less than a page longer, and one that is refused changes nothing."""
    assert page_size in SIZES and 0 <= pages <= 2 and start >= 0 and tokens >= 1
    size = sized(page_size)
    pool = pool_of(size, plain(pages))
    before, end = reference.allocated(pool, 0), start + tokens
    then, slots = reference.request(pool, 0, start, tokens)
    after = reference.allocated(then, 0)
    assert (slots is None) == (start > before or end > WIDTH * size)
    assert after == before if slots is None else after >= end and (after == before or after < end + size)
    assert slots is None or (len(slots) == tokens and reference.missing(then, 0, start, tokens) == 0)


def planted_a_last_page_is_left_out(pages: int, start: int, tokens: int, page_size: int) -> None:
    """A slip: a page that is only begun is not counted."""
    assert page_size in SIZES and 0 <= pages <= 2 and start >= 0 and tokens >= 1
    with slip(sparse_state, "page_ceil", page_floor):
        try:
            a_row_grows_as_far_as_it_must(pages, start, tokens, page_size)
        except IndexError:
            raise AssertionError("a token has no slot") from None
