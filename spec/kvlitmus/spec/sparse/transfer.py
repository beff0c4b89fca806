"""Transfers: a peer writes the KV of a prompt into sparse host memory, and its request decodes from there.

All slots of the prompt are had before the peer begins, as destinations of whole pages; pages are sent whole, so a peer with
pages of another size gets none.  A transfer is a copy from another machine: until it has ended, the pages that it writes to
are nobody else's, also when the request was aborted.  What is said of slots is what is said of every request for slots
(:mod:`~kvlitmus.spec.sparse.rows`), and of the first step what is said of backups: the host has all tokens already.
An abort that stopped every peer would leave rows whose KV never comes, and that nobody knows of.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseRequest, SparseTransferred
from kvlitmus.spec.sparse.rows import CALLS
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import PageNo, same


@fact(0)
def sparse_destinations(answer: SparseDone) -> Sequence[int]:
    """The pages that a peer was told to write to, in order."""
    return answer.pages


@fact(0)
def sparse_destinations_due(state: SparseState, answer: SparseDone) -> Sequence[PageNo]:
    """The pages in which the slots of a prompt lie, each once and in order."""
    return list(dict.fromkeys([PageNo(slot // state.page_size) for slot in answer.slots or ()]))


@fact(0)
def sparse_sending_after(answer: SparseDone) -> Sequence[int]:
    """The transfers that have not ended after the call."""
    return sorted(answer.sending)


@fact(0)
def sparse_sending_due(state: SparseState, call: SparseCall, answer: SparseDone) -> Sequence[int]:
    """The transfers that may go on: those before the call, without one that its peer has ended; and the next, where slots were granted to a peer."""
    ended = call.transfer if isinstance(call, SparseTransferred) else None
    begun = [state.sent] if isinstance(call, SparseRequest) and call.peer and answer.slots else []
    return [*sorted(number for number in state.transfers if number != ended), *begun]


@fact(0)
def sparse_sending_lasts(sparse_sending_due: Sequence[int], state: SparseState, call: SparseCall) -> Sequence[int]:
    """Those of them that must go on: whose rows the call doesn't give back."""
    given_back = call.row if isinstance(call, SparseFree) else None
    return [one for one in sparse_sending_due if one not in state.transfers or state.transfers[one].row != given_back]


# Rules


_SEED = "R-SP-14; sglang#23606"


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
    on=tuple([on for on in CALLS if on != On.SPARSE_MISUSE]),
    needs=("sparse_transfer",),
    source="R-SP-05, R-SP-06, R-SP-14",
    reference="sparse.transferred",
    allowed="{sparse_sending_lasts}, and no others but {sparse_sending_due}",
    premise="sparse_sending_due",
)
def a_transfer_lasts_from_its_grant_to_its_end(
    sparse_sending_after: Sequence[int], sparse_sending_due: Sequence[int], sparse_sending_lasts: Sequence[int]
) -> bool:
    """A transfer MUST begin where the slots of a prompt were granted, and nowhere else. It goes on until its peer ends it,
    or its row is given back.
    """
    return set(sparse_sending_lasts) <= set(sparse_sending_after) <= set(sparse_sending_due)
