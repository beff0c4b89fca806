"""Transfers: a peer writes the KV of a prompt into sparse host memory, and its request decodes from there.

All slots of the prompt are had before the peer begins, as destinations of whole pages; pages are sent whole, so a peer with
pages of another size gets none.  A transfer is a copy from another machine: until it has ended, the pages that it writes to
are nobody else's, also when the request was aborted.  What is said of slots is what is said of every request for slots
(:mod:`~kvlitmus.spec.sparse.rows`), and of the first step what is said of backups: the host has all tokens already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse import transfer_facts as sparse_transfer_facts
from kvlitmus.spec.sparse.rows import alike
from kvlitmus.spec.words.units import PageNo, Pages, Slot, Tokens, same

__all__ = ["sparse_transfer_facts"]

_SEED = "R-SP-14; sglang#23606"


@rule(
    "SPARSE-46",
    on=(On.SPARSE_PREALLOC,),
    source="R-SP-14; sglang#23606",
    reference="sparse.prealloc",
    allowed="a refusal: the pool has pages of {sparse_page}",
)
def a_refused_peer_gets_no_destination(sparse_peer_page: int, sparse_page: int) -> bool:
    """A peer whose pages have another size than the pool's own MUST NOT be given slots to write to."""
    return sparse_peer_page == sparse_page


@rule(
    "SPARSE-47",
    on=(On.SPARSE_PREALLOC,),
    source=_SEED,
    reference="sparse.destinations",
    allowed="{sparse_destinations_due}",
    premise="sparse_destinations_due",
)
def a_peer_writes_to_whole_pages_of_the_row(
    sparse_destinations: Sequence[int], sparse_destinations_due: Sequence[PageNo]
) -> bool:
    """The destinations of a peer MUST be the pages of the prompt's slots, whole and in order: also the last one, which the
    prompt may fill in part.
    """
    return same(sparse_destinations, sparse_destinations_due)


@rule(
    "SPARSE-48",
    on=(On.SPARSE_PREALLOC, On.REFUSED_SPARSE_PREALLOC),
    source="R-SP-05",
    reference="sparse.prealloc",
    allowed="{sparse_sending_before} and {sparse_begun_transfers}",
)
def a_transfer_begins_where_slots_were_granted(
    sparse_sending_before: Sequence[int], sparse_sending_after: Sequence[int], sparse_begun_transfers: Sequence[int]
) -> bool:
    """A transfer MUST begin where the slots of a prompt were granted, and none where they were refused."""
    return same(sparse_sending_after, [*sparse_sending_before, *sparse_begun_transfers])


@rule(
    "SPARSE-49",
    on=(On.SPARSE_TRANSFERRED,),
    source=_SEED,
    reference="sparse.transferred",
    allowed="{sparse_sending_before} without {sparse_transfer_number}",
)
def a_transfer_ends_when_its_peer_ends_it(
    sparse_sending_before: Sequence[int], sparse_sending_after: Sequence[int], sparse_transfer_number: int
) -> bool:
    """A transfer that its peer has ended MUST be seen to have ended, and no other with it."""
    return same(sparse_sending_after, [one for one in sparse_sending_before if one != sparse_transfer_number])


@rule(
    "SPARSE-50",
    on=(On.SPARSE_TRANSFERRED,),
    source="R-SP-06, R-LIFE-05",
    reference="sparse.transferred",
    allowed="{sparse_returned} pages more than the {sparse_free_before} slots that were free",
)
def a_transfer_that_ends_frees_what_nobody_has(
    sparse_free_before: Tokens, sparse_free_after: Tokens, sparse_returned: Pages, sparse_page: int
) -> bool:
    """When a transfer fails, all pages of its row MUST be free, each once; when one ends whose row was given back before,
    the pages that it alone had; and when all KV has arrived for a row, none.
    """
    return sparse_free_after - sparse_free_before == sparse_returned * sparse_page


@rule(
    "SPARSE-51",
    on=(On.SPARSE_TRANSFERRED,),
    source="R-SP-06, R-SP-14",
    reference="sparse.transferred",
    allowed="{sparse_rows_due}",
)
def a_row_stays_when_its_tokens_arrive(
    sparse_rows: Mapping[int, Sequence[int]], sparse_rows_due: Mapping[int, Sequence[Slot]]
) -> bool:
    """The end of a transfer MUST leave every row as it was, but for the row of one that failed, which has nothing then."""
    return alike(sparse_rows, sparse_rows_due)
