"""The life of the whole: storage that comes and goes, a fresh start, and rest.

Whatever was begun ends: after every piece of work in flight was delivered, a few ticks later
(``TICKS_TO_REST`` and ``TICKS_AFTER_POLLS`` of :mod:`kvlitmus.spec.words.policies`) nothing is in flight, protected, reserved
or counted any more, and every request that waited can go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.prefix.calls import Reset
from kvlitmus.spec.prefix.rules import fetch as _fetch  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import storage_use as _storage_use  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.prefix.work_calls import Attach, Detach, Settled, TellLoaded
from kvlitmus.spec.words.units import Name, PageNo, Tokens


@fact(0)
def store_before(call: Attach | Detach | Reset) -> int | Unknown:
    """How many pages storage has, before the call."""
    return UNKNOWN if call.stored is None else call.stored


@fact(0)
def store_after(tiers_seen: TierSeen) -> int:
    """How many pages storage has, after the call."""
    return tiers_seen.record.pages


@fact(0)
def attaching(call: Attach | Detach) -> bool:
    """Whether the call was to attach storage, not to detach it."""
    return isinstance(call, Attach)


@fact(0)
def still_waiting(call: Settled) -> Sequence[int]:
    """Requests that still have to wait after everything in flight was delivered."""
    return call.waiting


@fact(0)
def work_left(below: Tiers, tiers_seen: TierSeen, call: Settled | Reset) -> Sequence[str]:
    """Work that never ended although everything was delivered."""
    if isinstance(call, Reset):
        return [job.kind for job in tiers_seen.jobs.values()]
    return [f"{work.job.kind} {number}" for number, work in below.work.items()]


@fact(3)
def moving_left(tiers_seen: TierSeen) -> Sequence[PageNo]:
    """Host pages that work in flight still holds."""
    return tiers_seen.moving


@fact(3)
def protected_left(then: State, tiers_seen: TierSeen, page_size: int) -> Tokens | Unknown:
    """Units on the device that are protected though nobody holds a lock, by the counters; without them, by the nodes."""
    if then.requests or then.receipts:
        return Tokens(0)
    if tiers_seen.sizes is not None:
        return Tokens(tiers_seen.sizes.protected)
    if tiers_seen.nodes and all(node.locks is None for node in tiers_seen.nodes):
        return UNKNOWN
    return Tokens(sum([len(node.info.names) * page_size for node in tiers_seen.nodes if node.locks]))


@fact(3)
def pins_left(tiers_seen: TierSeen) -> Sequence[Name] | Unknown:
    """Pages that are still protected on the host."""
    return UNKNOWN if tiers_seen.hides_pins else list(tiers_seen.pins())


@fact(0)
def without_storage(below_before: Tiers, below: Tiers) -> bool:
    """Whether no storage was attached, neither before the call nor after it."""
    return not below_before.attached and not below.attached


@fact(0)
def told_before_reset(below_before: Tiers, call: TellLoaded) -> bool:
    """Whether a prefetch of the request had added something before a reset that nobody was told, and none since."""
    return call.rid in below_before.stale and call.rid not in below_before.prefetches.added


# Rules

settled_rule = partial(rule, on=(On.SETTLED,), reference="prefix.life.tick")


@rule("LIFE-01", on=(On.RESET,), needs=("tiers",), source="R-LIFE-01; H-04", reference="prefix.life.reset")
def a_reset_hierarchy_is_as_new(
    in_tree: frozenset[Name],
    host_free: Sequence[PageNo],
    host_usable: frozenset[PageNo],
    moving_left: Sequence[PageNo],
    work_left: Sequence[str],
) -> bool:
    """After a reset the tree MUST be empty on both tiers, every host page free, and nothing under way."""
    return not in_tree and frozenset(host_free) == host_usable and not moving_left and not work_left


@rule(
    "LIFE-02",
    on=(On.RESET, On.ATTACH, On.DETACH),
    needs=("lifecycle",),
    source="R-LIFE-02, R-LIFE-04",
    reference="prefix.life.reset",
    premise="store_before",
)
def storage_outlives_the_cache(store_before: int, store_after: int) -> bool:
    """After a reset, an attach or a detach storage MUST have at least as many pages as before."""
    return store_after >= store_before


@rule("LIFE-03", on=(On.ATTACH, On.DETACH), needs=("reattach",), source="R-LIFE-03", reference="prefix.life.attach")
def storage_is_attached_once(said_yes: bool, attached_before: bool, attaching: bool) -> bool:
    """An attach MUST succeed when no storage is attached and be refused when one is; a detach the other way round."""
    return said_yes == (attaching != attached_before)


@rule(
    "LIFE-04",
    on=(On.ATTACH, On.DETACH),
    needs=("reattach",),
    source="R-LIFE-03, R-LIFE-04",
    reference="prefix.life.detach",
)
def what_is_cached_survives_a_change_of_storage(tree_changed: bool) -> bool:
    """Attaching and detaching MUST leave what is cached on the device and the host as it is."""
    return not tree_changed


@rule("LIFE-05", on=(On.DETACHED,), source="R-LIFE-04; H-06", reference="prefix.life.detach")
def a_detach_ends_all_work_with_storage(storage_work: Sequence[str]) -> bool:
    """One tick after a detach work MUST NOT be under way to or from storage."""
    return not storage_work


@settled_rule("LIFE-06", source="R-L3-09, R-PFT-06, R-LIFE-05; H-07, H-40")
def what_was_begun_ends(work_left: Sequence[str]) -> bool:
    """Fourteen ticks after everything in flight was delivered, whatever storage raised, work MUST NOT be under way any more."""
    return not work_left


@rule(
    "LIFE-07",
    on=(On.SETTLED,),
    needs=("prefetching",),
    source="R-PFT-06, R-LIFE-05; H-07",
    reference="prefix.fetch.may_stop",
    premise="prefetches_made",
)
def every_request_can_go_on_in_the_end(still_waiting: Sequence[int]) -> bool:
    """After everything in flight was delivered, a request MUST NOT have to wait for its prefetch beyond two ticks without work under way, nor beyond twelve ticks."""
    return not still_waiting


@settled_rule("LIFE-08", source="R-PFC-05, R-LIFE-05, R-LK-08, I9; H-05, H-40", premise="in_tree")
def nothing_is_held_when_nothing_is_under_way(
    moving_left: Sequence[PageNo], pins_left: Sequence[Name], protected_left: Tokens
) -> bool:
    """When everything has settled, host pages MUST NOT be held or protected, nor pages of the device be locked."""
    return not moving_left and not pins_left and not protected_left


@rule(
    "LIFE-09",
    on=(On.SETTLED, On.DETACHED),
    needs=("prefetching",),
    source="R-PF-05, R-LIFE-04, R-LIFE-05; H-06, H-40",
    reference="prefix.hierarchy.occupied",
    premise="prefetches_made",
)
def no_quota_is_used_when_nothing_is_under_way(occupied_now: Tokens) -> bool:
    """When everything has settled, and one tick after a detach, prefetches MUST NOT count against their rate limit any more."""
    return occupied_now == 0


@rule(
    "LIFE-15",
    on=(On.LOADED,),
    strength=Strength.SHOULD,
    source="R-LIFE-01; H-04",
    reference="prefix.life.reset",
    allowed="0 units",
    premise="told_before_reset",
)
def a_reset_forgets_what_was_added(told_before_reset: bool, told_units: Tokens) -> bool:
    """What a prefetch had added before a reset SHOULD NOT be told after it: it isn't there any more."""
    return not told_before_reset or told_units == 0


# LIFE-08 says this too, but isn't judged where a cache doesn't show how often its host copies are protected.
@rule(
    "LIFE-16",
    on=(On.SETTLED, On.DETACHED),
    source="R-PFC-05, R-LIFE-04, R-LIFE-05, I9; H-05, H-06, H-40",
    reference="prefix.life.tick",
    allowed="none of the host's pages in flight",
    premise="host_taken",
)
def no_host_page_is_in_flight_when_nothing_is_under_way(moving_left: Sequence[PageNo]) -> bool:
    """When everything has settled, and one tick after a detach, work in flight MUST NOT hold a page of the host."""
    return not moving_left


@rule(
    "LIFE-17",
    needs=("tiers", "reattach"),
    source="R-LIFE-03, R-LIFE-04; H-06",
    reference="prefix.life.detach",
    allowed="no call on storage",
    premise="without_storage",
)
def storage_that_is_gone_is_left_alone(without_storage: bool, calls_on_storage: int) -> bool:
    """Storage that is detached, or not yet attached, MUST NOT be asked, read or written."""
    return not (without_storage and calls_on_storage)
