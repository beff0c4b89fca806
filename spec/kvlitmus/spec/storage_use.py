"""The use of storage: who goes to it, and until when.

Prefetches ask storage and read from it, what is backed up is put there, and a detach ends all of that.  Nothing else that a
cache does has to do with storage.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec import fetch as _fetch  # noqa: F401 - its facts, and those of tiers
from kvlitmus.spec.facts import fact
from kvlitmus.spec.on import On
from kvlitmus.spec.rule import rule
from kvlitmus.spec.seen import TierSeen
from kvlitmus.spec.tier_state import WITH_STORAGE, Tiers


@fact(0)
def storage_work(below: Tiers) -> Sequence[str]:
    """Work to and from storage that is still under way, as kinds."""
    return [work.job.kind for work in below.work.values() if work.job.kind in WITH_STORAGE]


@fact(0)
def calls_on_storage(tiers_seen: TierSeen) -> int:
    """How many queries, reads and writes storage saw during the call."""
    record = tiers_seen.record
    return len(record.asked) + len(record.got) + len(record.puts)


@rule(
    "FETCH-18",
    on=(On.DETACHED,),
    needs=("reattach", "steps"),
    source="R-LIFE-04; H-06",
    reference="life.detach",
)
def no_work_with_storage_outlives_a_detach(storage_work: Sequence[str]) -> bool:
    """One tick after a detach work MUST NOT be under way to or from storage."""
    return not storage_work


@rule(
    "FETCH-19",
    on=(On.MATCH, On.LOCK, On.UNLOCK, On.EVICT_HOST, On.COPIED),
    needs=("lifecycle",),
    source="R-HT-03",
    reference="tier.match",
)
def looking_and_copying_leave_storage_alone(calls_on_storage: int) -> bool:
    """A match, a lock, an unlock, an eviction of the host or a copy between device and host MUST NOT ask storage for anything, nor put anything there."""
    return calls_on_storage == 0
