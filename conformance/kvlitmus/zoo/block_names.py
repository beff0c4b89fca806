"""Requests on groups of blocks whose listeners go by names: a block is told if no other has its key.

Of equal blocks the first is told as stored, and the last as removed.  Everything else is that of
:mod:`kvlitmus.zoo.block_requests`.
"""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.zoo.block_requests import PROFILE, BlockRequests, BlockRequestsTarget


class NamedRequests(BlockRequests):
    """Equal blocks are told once."""

    def tell(self, event: ComponentEvent, others: int) -> None:
        """Where there are no others."""
        if not others:
            super().tell(event, others)


class BlockNamesTarget(BlockRequestsTarget):
    """The same layouts."""

    profile = replace(PROFILE, event_copies="one")
    kind = NamedRequests


target = BlockNamesTarget()
