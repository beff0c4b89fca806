"""Staging: the KV of a prompt goes from the device to sparse host memory before its request decodes.

The copies end later.  A request decodes only when its copy is acknowledged, and acknowledgements come in the order of
staging, whichever copy ended first: where several ranks agree on how many there are, they must mean the same requests.
Until a copy has ended, the pages that it writes to are nobody else's, also when the request was aborted or retracted.  What
is said of the slots themselves is what is said of every request for slots (:mod:`~kvlitmus.spec.sparse.rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse import staging_facts as sparse_staging_facts
from kvlitmus.spec.sparse.rows import alike
from kvlitmus.spec.words.units import Pages, Slot, Tokens, same

__all__ = ["sparse_staging_facts"]


@rule(
    "SPARSE-30",
    on=(On.SPARSE_READY,),
    source="R-SP-07",
    reference="sparse.ready",
    allowed="rows out of {sparse_copied_rows}",
    premise="sparse_ready_rows",
)
def only_what_was_copied_is_acknowledged(sparse_ready_rows: Sequence[int], sparse_copied_rows: Sequence[int]) -> bool:
    """A row MUST NOT be acknowledged before its copy has ended, twice, or after it was given back: its request would decode
    from slots that nothing was written to.
    """
    return len(set(sparse_ready_rows)) == len(sparse_ready_rows) and all(
        row in sparse_copied_rows for row in sparse_ready_rows
    )


@rule(
    "SPARSE-31",
    on=(On.SPARSE_READY,),
    source="R-SP-07",
    reference="sparse.ready",
    allowed="the first of {sparse_order}, by the profile's copy_acks",
    premise="sparse_ready_rows",
)
def rows_are_acknowledged_in_order(sparse_ready_rows: Sequence[int], sparse_order: Sequence[int]) -> bool:
    """Rows MUST be acknowledged in the order in which they were staged, also where a later copy ended first, unless the profile says that copies are acknowledged in any order."""
    return same(sparse_ready_rows, sparse_order[: len(sparse_ready_rows)])


@rule(
    "SPARSE-32",
    on=(On.SPARSE_READY,),
    source="R-SP-07",
    reference="sparse.ready",
    allowed="the first of {sparse_waiting}, if it is one of {sparse_copied_rows}",
    premise="sparse_copied_rows",
)
def what_was_copied_is_acknowledged(
    sparse_ready_rows: Sequence[int], sparse_waiting: Sequence[int], sparse_copied_rows: Sequence[int]
) -> bool:
    """Where the row that was staged first is copied, asking MUST acknowledge a row or more."""
    return bool(sparse_ready_rows) or all(row not in sparse_copied_rows for row in sparse_waiting[:1])


@rule(
    "SPARSE-33",
    on=(On.REFUSED_SPARSE_STAGE,),
    source="R-SP-05",
    reference="sparse.stage",
    allowed="no copies but {sparse_copies_before}",
)
def a_refused_staging_copies_nothing(sparse_copies_before: Sequence[int], sparse_copies_after: Sequence[int]) -> bool:
    """Where the slots for a prompt are refused, no copy of it MUST begin."""
    return all(copy in sparse_copies_before for copy in sparse_copies_after)


@rule(
    "SPARSE-34",
    on=(On.SPARSE_COPIED,),
    source="R-SP-07",
    reference="sparse.copied",
    allowed="copy {sparse_copy} among those that have ended",
)
def a_copy_that_was_done_has_ended(sparse_copy: int, sparse_copies_after: Sequence[int]) -> bool:
    """A copy that the device has done MUST be seen to have ended."""
    return sparse_copy not in sparse_copies_after


@rule(
    "SPARSE-35",
    on=(On.SPARSE_COPIED,),
    source="R-SP-06",
    reference="sparse.copied",
    allowed="{sparse_released} pages more than the {sparse_free_before} slots that were free",
)
def what_a_copy_held_is_free_when_it_ends(
    sparse_free_before: Tokens, sparse_free_after: Tokens, sparse_released: Pages, sparse_page: int
) -> bool:
    """When a copy ends, the pages that it wrote to MUST be free, each once, if their row was given back meanwhile, and no
    others.
    """
    return sparse_free_after - sparse_free_before == sparse_released * sparse_page


@rule(
    "SPARSE-36",
    on=(On.SPARSE_READY, On.SPARSE_COPIED),
    source="R-SP-06, R-SP-07",
    reference="sparse.ready",
    allowed="{sparse_rows_due}",
)
def copies_and_acknowledgements_leave_the_rows(
    sparse_rows: Mapping[int, Sequence[int]], sparse_rows_due: Mapping[int, Sequence[Slot]]
) -> bool:
    """The end of a copy, and an acknowledgement, MUST leave every row as it was."""
    return alike(sparse_rows, sparse_rows_due)


@rule(
    "SPARSE-37",
    on=(On.SPARSE_READY,),
    source="R-SP-06, R-SP-07",
    reference="sparse.ready",
    allowed="{sparse_free_before} free slots as before",
)
def an_acknowledgement_takes_no_host_memory(sparse_free_before: Tokens, sparse_free_after: Tokens) -> bool:
    """An acknowledgement MUST leave as much free on the host as there was: a request that begins to decode has its slots."""
    return sparse_free_before == sparse_free_after
