"""Litmus tests on events."""

from __future__ import annotations

from kvlitmus.conformance.calls import tiers, tree
from kvlitmus.conformance.judge import Judge
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import READS, TIERS, backed, brought, emptied, letters, stored


@litmus(rules=("EVENT-01", "EVENT-02", "EVENT-03"), needs=(*TIERS, "events"))
def events_follow_a_page_through_the_tiers(judge: Judge) -> None:
    """Pages are inserted, backed up, demoted, loaded back and dropped; after each the events tell where they are."""
    key = letters(judge, 3)
    backed(judge, key)
    tiers.settle(judge)
    tree.evict(judge, 2 * judge.size)
    tiers.settle(judge)
    tiers.load_back(judge, key)
    tiers.settle(judge)
    emptied(judge)
    tiers.settle(judge)


@litmus(rules=("EVENT-03",), needs=(*READS, "events"))
def events_tell_what_a_prefetch_brought(judge: Judge) -> None:
    """What a prefetch brings is told, and told again when it is dropped."""
    key = letters(judge, 4)
    stored(judge, key)
    brought(judge, 1, key)
    tiers.settle(judge)
    emptied(judge)
    tiers.settle(judge)
