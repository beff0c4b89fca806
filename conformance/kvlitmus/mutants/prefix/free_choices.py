"""Mutants that declare a freedom of the profile and take more than it gives."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.mutants.prefix.evict import childless
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Key

LITTLE = (Config(page_size=4, pages=16),)
OWN = replace(PROFILE, evict_order="own")


@mutant("own-order-forgets-locks", profile=OWN, kills=("EVICT-03", "LOCK-01"))
class OwnOrderForgetsLocks(RadixTree):
    """The KV of a running request is evicted under it.

    The cache has an order of its own, and who holds a leaf is no part of it.
    """

    def candidates(self, n: int) -> Collection[Node]:
        return childless(self)


@mutant("own-order-takes-one-more", profile=OWN, kills=("TIER-31",))
class OwnOrderTakesOneMore(TierTree):
    """Host memory loses a page more than is needed, each time that room is made.

    The cache has an order of its own; how much goes isn't a matter of order.
    """

    def evict_host(self, n: int) -> int:
        return super().evict_host(n + self.page_size)


@mutant("watermark-counts-in-tokens", profile=replace(PROFILE, watermark=2), kills=("REQ-14", "REQ-15"), configs=LITTLE)
class WatermarkCountsInTokens(RequestTable):
    """Requests wait though more than the reserve would be left.

    The reserve is declared in pages, and multiplied by the size of a page once more.
    """

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        size = self.pool.page_size
        if len(self.pool.free_list) - -(-len(key.tokens) // size) < 2 * size:
            return None
        return super().begin(rid, key)
