"""The facts that rules of staging speak of."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.sparse.calls import SparseCall, SparseCopied, SparseDone
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.setting import Setting


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
