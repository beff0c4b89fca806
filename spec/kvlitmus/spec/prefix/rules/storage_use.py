"""The use of storage: who goes to it, and until when.

Prefetches ask storage and read from it to the end, what is backed up is put there, and a detach ends all of that.  Nothing else that a
cache does has to do with storage.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.rules import fetch as _fetch  # noqa: F401 - its facts, and those of tiers
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import WITH_STORAGE, Tiers
from kvlitmus.spec.prefix.work_calls import Advance
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Tokens


@fact(0)
def attached_before(below_before: Tiers) -> bool:
    """Whether storage was attached, before the call."""
    return below_before.attached


@fact(0)
def storage_work(below: Tiers) -> Sequence[str]:
    """Work to and from storage that is still under way, as kinds."""
    return [work.job.kind for work in below.work.values() if work.job.kind in WITH_STORAGE]


@fact(0)
def calls_on_storage(tiers_seen: TierSeen) -> int:
    """How many queries, reads and writes storage saw during the call."""
    record = tiers_seen.record
    return len(record.asked) + len(record.got) + len(record.puts)


@fact(0)
def fetch_over(tiers_seen: TierSeen, call: Advance) -> bool:
    """Whether the fetch has reached its end."""
    job = tiers_seen.jobs.get(call.job)
    return job is None or job.landed


@fact(0)
def fetch_due(below_before: Tiers, setting: Setting, call: Advance) -> Tokens:
    """Units that the fetch is for, as far as the suite has told its storage to be good for them."""
    fetches, size = below_before.prefetches, setting.size
    wanted = len(below_before.work[call.job].names) * size
    if call.outcome.how not in ("short", "fail"):
        return Tokens(wanted)
    return Tokens(min(wanted, fetches.by_number[fetches.of_job[call.job]].got + call.outcome.pages * size))


@fact(0)
def fetch_missed(expected: State, call: Advance) -> bool:
    """Whether storage has not given the fetch a page whole, in this step or before."""
    assert expected.tiers is not None
    fetches = expected.tiers.prefetches
    return fetches.by_number[fetches.of_job[call.job]].missed


@rule(
    "FETCH-19",
    on=(On.MATCH, On.LOCK, On.UNLOCK, On.EVICT_HOST, On.COPIED),
    needs=("lifecycle",),
    source="R-HT-03",
    reference="prefix.tier.match",
    premise="attached_before",
)
def looking_and_copying_leave_storage_alone(calls_on_storage: int) -> bool:
    """A match, a lock, an unlock, an eviction of the host or a copy between device and host MUST NOT ask storage for anything, nor put anything there."""
    return calls_on_storage == 0


@rule(
    "FETCH-20",
    on=(On.FETCH,),
    needs=("lifecycle",),
    source="R-PFT-03",
    reference="prefix.fetch.read",
    allowed="an end after {fetch_due} units, or after a page that storage doesn't give whole",
    premise="fetch_over",
)
def a_fetch_goes_on_while_storage_has_more(
    fetch_over: bool, fetch_got: Tokens, fetch_due: Tokens, fetch_missed: bool
) -> bool:
    """A fetch that a request waits for MUST NOT end before it has read all that it is for, unless storage didn't give it a page whole."""
    return not fetch_over or fetch_missed or fetch_got >= fetch_due
