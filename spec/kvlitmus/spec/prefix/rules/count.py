"""What the host counts: how much of it is available, which says without a snapshot what a snapshot would show.

After a reset, and when everything has settled and the host was emptied, all of it is available.  Looking, locking and
landing copies change nothing of it.
"""

from __future__ import annotations

from kvlitmus.spec.law.facts import Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.calls import Reset
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.work import Tiers, more_available
from kvlitmus.spec.prefix.work_calls import EvictHost
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Tokens


@fact(1)
def host_capacity(setting: Setting) -> Tokens:
    """Slots of the host pool."""
    return Tokens(setting.config.host_pages * setting.size)


@fact(1)
def host_made_available(tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Tokens | Unknown:
    """How many slots more of the host are available after the call than before it."""
    return more_available(tiers_seen_before, tiers_seen)


@fact(1, ports=("counters",))
def host_emptied(
    setting: Setting, below: Tiers, tiers_seen: TierSeen, call: EvictHost[int] | Reset, host_capacity: Tokens
) -> bool:
    """Whether nothing can be on the host: after a reset, and when all of it was asked for in an empty cache at rest."""
    if isinstance(call, Reset):
        return True
    if setting.profile.host_duplicates == "reclaimed":
        return False  # what was on both tiers a moment ago is of no interest to such an eviction
    return below.rests and tiers_seen.sizes == (0, 0) and call.asked >= host_capacity


# Beside POOL-14 and POOL-16: these need the homes of pages, this the counters alone.
@rule(
    "TIER-32",
    on=(On.RESET, On.EVICT_HOST),
    needs=("host", "counters"),
    source="map §2.2, I1, R-LIFE-01, R-PFC-02; H-05",
    reference="prefix.tier.evict_host",
    allowed="{host_capacity} slots",
    premise="host_emptied",
)
def an_empty_host_is_all_available(host_emptied: bool, host_available: Tokens, host_capacity: Tokens) -> bool:
    """After a reset, and when in an empty cache at rest all of the host was asked for, the host pool MUST report all of it as available: nothing is lost, reserved or held."""
    return not host_emptied or host_available == host_capacity


# Beside TREE-22: that is of what nobody sees, and of no copies.
@rule(
    "TIER-33",
    on=(On.MATCH, On.LOCK, On.UNLOCK, On.COPIED),
    needs=("host",),
    source="R-TR-04, R-HT-03",
    reference="prefix.tier.match",
    allowed="as much available as before",
    premise="host_capacity",
)
def looking_locking_and_landing_leave_the_host_alone(host_made_available: Tokens) -> bool:
    """A match, a lock, an unlock and the landing of a copy between device and host MUST NOT change what is available on the host."""
    return host_made_available == 0
