"""What calls that are not about transfers owe to them: a transfer ends by its peer, or with its row.

An abort that stopped every peer would leave rows whose KV never comes, and that nobody knows of.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse import transfer_facts as sparse_transfer_facts

__all__ = ["sparse_transfer_facts"]

OTHERS = (
    *(On.SPARSE_REQUEST, On.REFUSED_SPARSE_REQUEST, On.SPARSE_READ, On.SPARSE_FREE, On.SPARSE_ADMIT, On.SPARSE_SWAP),
    *(On.SPARSE_CONNECT, On.SPARSE_STAGE, On.REFUSED_SPARSE_STAGE, On.SPARSE_COPIED, On.SPARSE_READY, On.SPARSE_BACKUP),
    *(On.SPARSE_RESERVE, On.SPARSE_GROW, On.REFUSED_SPARSE_GROW),
)
"""All that is neither the beginning of a transfer nor the end of one."""


@rule(
    "SPARSE-62",
    on=OTHERS,
    needs=("sparse_transfer",),
    source="R-SP-06",
    reference="sparse.free",
    allowed="{sparse_sending_elsewhere} still",
    premise="sparse_sending_elsewhere",
)
def transfers_go_on_until_their_own_end(
    sparse_sending_elsewhere: Sequence[int], sparse_sending_after: Sequence[int]
) -> bool:
    """A transfer MUST NOT end by a call that is neither its peer's end of it nor gives its own row back."""
    return set(sparse_sending_elsewhere) <= set(sparse_sending_after)
