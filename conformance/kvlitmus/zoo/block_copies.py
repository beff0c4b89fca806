"""A block table whose listeners count: each block is told as it is entered under its key, and as it is used up.

As vLLM tells of its blocks.  Everything else is that of :mod:`kvlitmus.zoo.block_table`.
"""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.spec.interface import Event
from kvlitmus.zoo.block_table import PROFILE, BlockTable


class CountedTable(BlockTable):
    """Blocks of one key are told one by one."""

    def tell(self, event: Event, others: int) -> None:
        """Whatever others there are."""
        self.told.append(event)


class CountedTarget:
    """Makes them."""

    profile = replace(PROFILE, event_copies="each")

    def make(self, config: Config) -> CountedTable:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("blocks are used up in the order in which they were let go, on the device")
        return CountedTable(config)


target = CountedTarget()
