"""z3 decides what is claimed of the optimized cache, on all paths of its real source; each planted slip is found."""

from __future__ import annotations

import pytest

from tests.support.night import by_turns

z3 = pytest.importorskip("z3")
pytest.importorskip("numba")
from tests.proofs.optimized.claims import Proof  # noqa: E402 - needs z3
from tests.proofs.optimized.register import PROOFS  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof


LONG = {
    "a_compiled_chain_hashes_what_the_plain_one_does",
    "a_job_reports_each_page_once_and_its_end_last",
    "a_page_is_written_from_its_canonical_bytes",
    "a_page_is_read_as_its_canonical_bytes",
    "no_number_of_a_kernel_overflows",
    "requests_grow_into_their_last_page_and_open_others_in_order",
    "pages_of_abandoned_work_and_no_others_are_withheld",
    "the_copy_engine_is_told_of_every_byte_once",
    "what_has_not_ended_in_time_is_abandoned",
}
"""By day the slips that are planted in them are found, and that the code has none is left to the tests of copies.

Of the others every second one is proven by day.
"""


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, id=name, marks=[pytest.mark.nightly] * (name in LONG or place % 4 > 0))
        for place, (name, one) in enumerate(PROOFS.items())
    ],
)
def test_it_holds_on_all_paths(one: Proof) -> None:
    for case in one.cases:
        found, paths = one.refuted(case)
        assert found is None, (case, found)
        assert paths


@pytest.mark.nightly
@pytest.mark.parametrize("one", [one for one in PROOFS.values() if one.more], ids=lambda one: one.name)
def test_it_holds_within_wider_bounds(one: Proof) -> None:
    for case in one.more:
        found, _ = one.refuted(case)
        assert found is None, (case, found)


@pytest.mark.parametrize("one", by_turns(PROOFS.values(), PROOFS, every=5))
def test_each_slip_is_found_and_real(one: Proof) -> None:
    assert one.slips
    for slip in one.slips:
        assert one.finds(slip) is not None, slip
