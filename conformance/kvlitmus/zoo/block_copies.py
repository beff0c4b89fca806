"""A block table that lets go of heads first, and whose listeners count.

A request that ends lets go of its first block first.  That is used up before those behind it, which stay in the table
where nobody finds them, until somebody computes that prefix again (``table_gaps``).  Each block is told as it is
entered under its key, and as it is used up, whatever others have the same (``event_copies``).  Everything else is that
of :mod:`kvlitmus.zoo.block_table`.
"""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.spec.interface import Event
from kvlitmus.zoo.block_table import PROFILE, BlockTable, BlockTableTarget


class CountedTable(BlockTable):
    """Blocks of one key are told one by one."""

    def tell(self, event: Event, others: int) -> None:
        """Whatever others there are."""
        self.told.append(event)


class HeadsFirst(CountedTable):
    """Blocks are let go in the order in which they were computed."""

    def end(self, rid: int, *, keep: bool) -> None:
        """The first one first."""
        self.running[rid].blocks.reverse()
        super().end(rid, keep=keep)


class HeadsFirstTarget(BlockTableTarget):
    """Makes them."""

    profile = replace(PROFILE, event_copies="each", table_gaps="left")
    kind: type[BlockTable] = HeadsFirst


target = HeadsFirstTarget()
