"""What no call does to a buffer on the device: one that asks for what can't be wanted, and one that isn't growth.

A step wants distinct tokens of its sequence, and no more than the buffer has room for.  A kernel that doesn't look fills one
place for two wishes, or reads what lies before the row.  What happens then is what the profile's ``misuse`` declares, as of
every call that the contract forbids.  Where that is *undefined* it is not tried, and where it is tried all the same,
nothing is known of the buffer afterwards.

While a row decodes, no call but growth moves a slot whose place keeps its token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse.growth import GROWTH_SOURCE
from kvlitmus.spec.sparse.rows import CALLS
from kvlitmus.spec.words.units import same

_HAZARD = "R-SP-12"
OTHERS = tuple([on for on in CALLS if on not in (On.SPARSE_GROW, On.REFUSED_SPARSE_GROW)])
"""All calls but growth; staging, backups and prompts from peers are requests."""


@rule(
    "SPARSE-63",
    on=(On.SPARSE_MISUSE,),
    source=_HAZARD,
    reference="sparse.swap",
    allowed="an error where misuse is rejected, and none where it is ignored",
)
def what_cannot_be_wanted_is_treated_as_declared(sparse_accepted: bool, sparse_misuse: str) -> bool:
    """A step that wants a token twice, one that its sequence doesn't have, or more than the buffer has room for, MUST
    raise where the profile says *reject*. It MUST NOT raise where it says *ignore*.
    """
    return sparse_accepted == (sparse_misuse == "ignore")


@rule(
    "SPARSE-65",
    on=OTHERS,
    source=GROWTH_SOURCE,
    reference="sparse.grow",
    allowed="{sparse_buffers_before}, at the places {sparse_places_left}",
    premise="sparse_places_left",
)
def a_place_that_keeps_its_token_keeps_its_slot(
    sparse_places_left: Mapping[int, Sequence[int]],
    sparse_buffers_before: Mapping[int, Sequence[int]],
    sparse_buffers_after: Mapping[int, Sequence[int]],
) -> bool:
    """In all rows that decode, a call other than growth MUST leave its device slot to each place that holds the same
    token before and after it. The token's KV is there, and a step that is under way reads it. Places that a swap fills
    anew, and those that hold nothing, may have other slots.
    """
    for row, places in sparse_places_left.items():
        before, after = sparse_buffers_before.get(row, ()), sparse_buffers_after.get(row, ())
        if any(not same(after[at : at + 1], before[at : at + 1]) for at in places if at < len(before)):
            return False
    return True
