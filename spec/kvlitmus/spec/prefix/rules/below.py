"""What is known and seen below the device: the pages of the host's pool and of its copies, and the work under way.

The rules that speak of it are those of :mod:`~kvlitmus.spec.prefix.rules.tier` and of the parts after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.prefix.seen import Got, Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo


@fact(0, ports=("tiers",), before="below_before")
def below(then: State) -> Tiers:
    """What is known below the device, after the call."""
    assert then.tiers is not None
    return then.tiers


@fact(0, ports=("tiers",), before="tiers_seen_before")
def tiers_seen(after: Seen) -> TierSeen:
    """What was seen of all tiers, after the call."""
    assert isinstance(after, TierSeen)
    return after


@fact(3)
def host_usable(setting: Setting) -> frozenset[PageNo]:
    """The pages of the host pool."""
    return setting.host_usable


@fact(3)
def host_free(tiers_seen: TierSeen) -> Sequence[PageNo]:
    """Pages on the host's free list as it stands, after the call."""
    return tiers_seen.host_free


@fact(3)
def host_taken(host_usable: frozenset[PageNo], host_free: Sequence[PageNo]) -> int:
    """How many pages of the host pool are not free."""
    return len(host_usable) - len(host_free)


@fact(3, before="hosted_before")
def hosted(tiers_seen: TierSeen) -> Mapping[Name, PageNo]:
    """Every page with a host copy, after the call: name to host page."""
    return tiers_seen.hosted


@fact(0)
def storage_reads(tiers_seen: TierSeen) -> Sequence[Got]:
    """What storage was asked to read during the call."""
    return tiers_seen.record.got


@fact(0)
def prefetches_made(then: State) -> int:
    """How many prefetches there were since the cache was empty."""
    return 0 if then.tiers is None else then.tiers.prefetches.serial
