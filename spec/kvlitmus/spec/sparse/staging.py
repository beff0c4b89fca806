"""Staging: the KV of a prompt goes from the device to sparse host memory before its request decodes.

The copies end later.  A request decodes only when its copy is acknowledged, and acknowledgements come in the order of
staging, whichever copy ended first: where several ranks agree on how many there are, they must mean the same requests.
Until a copy has ended, the pages that it writes to are nobody else's, also when the request was aborted or retracted.  What
is said of the slots themselves is what is said of every request for slots (:mod:`~kvlitmus.spec.sparse.rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse.calls import SparseCall, SparseCopied, SparseDone
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import same


@fact(0)
def sparse_ready_rows(answer: SparseDone) -> Sequence[int]:
    """The rows that were acknowledged, in order."""
    return answer.ready


@fact(0)
def sparse_waiting(state: SparseState) -> Sequence[int]:
    """The rows that waited to be acknowledged, in the order in which they were staged."""
    return [one.row for one in state.waiting]


@fact(0)
def sparse_order(setting: Setting, sparse_waiting: Sequence[int]) -> Sequence[int] | Unknown:
    """The order in which these rows are acknowledged; unknown where the profile says that it may be any."""
    return UNKNOWN if setting.profile.copy_acks == "any_order" else sparse_waiting


@fact(0)
def sparse_copied_rows(state: SparseState) -> Sequence[int]:
    """Of the rows that waited, those whose copies had ended."""
    return [one.row for one in state.waiting if one.copy not in state.copies]


@fact(0)
def sparse_copies_after(answer: SparseDone) -> Sequence[int]:
    """The copies that have not ended after the call."""
    return sorted(answer.copying)


@fact(0)
def sparse_copies_due(state: SparseState, call: SparseCall, answer: SparseDone) -> Sequence[int]:
    """The copies that may go on: those before the call, without one that the device has done; and the next, where slots were granted."""
    done = call.copy if isinstance(call, SparseCopied) else None
    return [*sorted(number for number in state.copies if number != done), *([state.begun] if answer.slots else [])]


# Rules

ready_rule = partial(rule, on=(On.SPARSE_READY,), source="R-SP-07", reference="sparse.ready")


@ready_rule("SPARSE-30", allowed="rows out of {sparse_copied_rows}", premise="sparse_ready_rows")
def only_what_was_copied_is_acknowledged(sparse_ready_rows: Sequence[int], sparse_copied_rows: Sequence[int]) -> bool:
    """A row MUST NOT be acknowledged before its copy has ended, twice, or after it was given back: its request would decode
    from slots that nothing was written to.
    """
    return len(set(sparse_ready_rows)) == len(sparse_ready_rows) and all(
        row in sparse_copied_rows for row in sparse_ready_rows
    )


@ready_rule("SPARSE-31", allowed="the first of {sparse_order}, by the profile's copy_acks", premise="sparse_ready_rows")
def rows_are_acknowledged_in_order(sparse_ready_rows: Sequence[int], sparse_order: Sequence[int]) -> bool:
    """Rows MUST be acknowledged in the order in which they were staged, also where a later copy ended first, unless the profile says that copies are acknowledged in any order."""
    return same(sparse_ready_rows, sparse_order[: len(sparse_ready_rows)])


@ready_rule(
    "SPARSE-32",
    allowed="the first of {sparse_waiting}, if it is one of {sparse_copied_rows}",
    premise="sparse_copied_rows",
)
def what_was_copied_is_acknowledged(
    sparse_ready_rows: Sequence[int], sparse_waiting: Sequence[int], sparse_copied_rows: Sequence[int]
) -> bool:
    """Where the row that was staged first is copied, asking MUST acknowledge a row or more."""
    return bool(sparse_ready_rows) or all(row not in sparse_copied_rows for row in sparse_waiting[:1])


@rule(
    "SPARSE-34",
    on=(On.REFUSED_SPARSE_STAGE, On.SPARSE_COPIED),
    source="R-SP-05, R-SP-07",
    reference="sparse.copied",
    allowed="no copies but {sparse_copies_due}",
)
def a_copy_lasts_from_its_grant_to_its_end(
    sparse_copies_after: Sequence[int], sparse_copies_due: Sequence[int]
) -> bool:
    """The copies that have not ended after a call MUST be some of those before it, without one that the device has done
    now, and one more where the slots for a prompt were granted.
    """
    return set(sparse_copies_after) <= set(sparse_copies_due)
