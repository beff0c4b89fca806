"""Tokens that can't be wanted on the device: what a sparse host pool does when its caller asks for them.

A step wants distinct tokens of its sequence, and no more than the buffer has room for.  A kernel that doesn't look fills one
place for two wishes, or reads what lies before the row.  What happens then is what the profile's ``misuse`` declares, as of
every call that the contract forbids.  Where that is *undefined* it is not tried, and where it is tried all the same,
nothing is known of the buffer afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec import sparse_facts
from kvlitmus.spec.on import On
from kvlitmus.spec.rule import rule
from kvlitmus.spec.sparse import alike
from kvlitmus.spec.units import Slot, Tokens

__all__ = ["sparse_facts"]

_HAZARD = "R-SP-12"


@rule(
    "SPARSE-63",
    on=(On.SPARSE_MISUSE,),
    source=_HAZARD,
    reference="sparse.swap",
    allowed="an error where misuse is rejected, and none where it is ignored",
)
def what_cannot_be_wanted_is_treated_as_declared(sparse_accepted: bool, sparse_misuse: str) -> bool:
    """A step that wants a token twice, one that its sequence doesn't have, or more than the buffer has room for, MUST raise
    where the profile says *reject* and MUST NOT raise where it says *ignore*.
    """
    return sparse_accepted == (sparse_misuse == "ignore")


@rule(
    "SPARSE-64",
    on=(On.SPARSE_MISUSE,),
    source=_HAZARD,
    reference="sparse.swap",
    allowed="{sparse_free_before} free slots, and the rows {sparse_rows_due}",
)
def what_cannot_be_wanted_changes_nothing(
    sparse_misuse: str,
    sparse_free_before: Tokens,
    sparse_free_after: Tokens,
    sparse_rows: Mapping[int, Sequence[int]],
    sparse_rows_due: Mapping[int, Sequence[Slot]],
) -> bool:
    """A step that wants what can't be wanted MUST change neither rows nor what is free on the host, where the profile says
    *reject* or *ignore*.  That it leaves the buffer as it was, the next step shows.
    """
    declared = sparse_misuse in ("reject", "ignore")
    return declared and sparse_free_before == sparse_free_after and alike(sparse_rows, sparse_rows_due)
