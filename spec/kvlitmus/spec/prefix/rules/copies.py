"""Host copies: they come by a copy, and stay where they are.

Whoever reads from a host page must be able to rely on it, and copying takes time on the device and on the host.  So a
copy is made by work that can be seen, once, and a good one is left alone: it isn't moved, made again, or given up
because the device has the page, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.law.actions import What
from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.calls import Reset
from kvlitmus.spec.prefix.evictable import reclaimable
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.prefix.work_calls import PlainCall, Tick
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo


@fact(3)
def host_appeared(hosted_before: Mapping[Name, PageNo], hosted: Mapping[Name, PageNo]) -> frozenset[Name]:
    """Names without a host copy before the call and with one after it."""
    return frozenset(hosted.keys() - hosted_before.keys())


@fact(3)
def host_committed(below: Tiers, host_appeared: frozenset[Name]) -> frozenset[Name]:
    """Names without a host copy before the call and with one after it, but for those that a backup began to make."""
    return host_appeared.difference(*[work.names for work in below.begun if work.job.kind == BACKUP])


@fact(3)
def copies_disturbed(
    setting: Setting,
    state: State,
    call: PlainCall,
    below_before: Tiers,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
    failed_backups: frozenset[Name],
) -> Sequence[Name]:
    """Pages whose host copy is elsewhere on the host, or gone though they stayed on the device; where nothing allows it."""
    was, now = tiers_seen_before.hosted, tiers_seen.hosted
    if was == now or isinstance(call, Reset):
        return []
    here_before, here = tiers_seen_before.cached, tiers_seen.cached
    spare = reclaimable(state, setting)
    back = setting.config.write == WRITE_BACK
    moved = {name for name, page in was.items() if now.get(name, page) != page}
    if back:  # what leaves the device is copied, whether there is a copy or not
        moved -= here_before.keys() - here.keys()
    gone = {name for name in was if name not in now and name in here_before and name in here} - spare
    if isinstance(call, Tick) and setting.profile.commit == "tick" and _makes_room_at_ticks(setting):
        # what went to make room may come again with a commit of the same tick
        moved -= {name for one in below_before.prefetches.under_way() if one.ended for name in one.names}
    return sorted((moved | gone) - failed_backups)


def _makes_room_at_ticks(setting: Setting) -> bool:
    """Whether a tick may evict from the host: for backups, or for what storage has told."""
    return setting.profile.backup_moment == "tick" or setting.profile.reserve == "hit"


@fact(3)
def copies_of_nothing(
    setting: Setting,
    below_before: Tiers,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
    host_committed: frozenset[Name],
) -> Sequence[Name]:
    """Pages with a new host copy that no backup began to make, no prefetch asked for, and that were not written back."""
    if not host_committed:
        return []
    left = host_committed.difference(*[one.names for one in below_before.prefetches.by_number.values()])
    if setting.config.write == WRITE_BACK:
        left -= tiers_seen_before.cached.keys() - tiers_seen.cached.keys()
    return sorted(left)


# Rules


@rule(
    "TIER-41",
    on=(What.DROP, What.MOVE_COPY),
    needs=("tiers",),
    source="R-EV-05; map §4.6",
    reference="prefix.tier.leave_device",
    allowed="the host copies of {copies_disturbed} where they were",
    premise="hosted_before",
)
def a_host_copy_stays_where_it_is(copies_disturbed: Sequence[Name]) -> bool:
    """A host copy MUST stay, in its page of the host, as long as its page is on the device. It may go where its backup
    failed, where the page is written back anew when it leaves the device, and where the profile lets the host reclaim
    what the device has, too.
    """
    return not copies_disturbed


@rule(
    "TIER-42",
    on=What.BACK,
    needs=("tiers", "steps"),
    source="R-WB-01",
    reference="prefix.tier.back",
    allowed="no host copy of {copies_of_nothing}",
    premise="host_appeared",
)
def a_host_copy_comes_by_a_copy(copies_of_nothing: Sequence[Name]) -> bool:
    """A page MUST get a host copy only by a backup that begins, by being written back when it leaves the device, or from a prefetch that has asked for it."""
    return not copies_of_nothing
