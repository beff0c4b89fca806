"""Write policies of components: which backups a cache begins by itself, and what it must not lose.

As for caches of KV, a boundary is backed up when it is inserted (write-through), when it is used a second time (selective), or
when something of it is evicted from the device (write-back).  A backup that the cache begins by itself owes what one owes that
it was asked for (COMP-32 and the rules after it): it takes the window and the state with the KV, and all or nothing.

What differs is who decides.  With write-back the copy is waited for, since what it saves is gone when the call returns; so
these backups are judged before the call, as having ended, and the others after it.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import policy_facts as _facts  # noqa: F401 - what the rules speak of
from kvlitmus.spec.prefix.components.tree import CALLS
from kvlitmus.spec.words.units import Name

WRITES = ("component_host", "component_writes")
EVICTS = (
    On.COMPONENT_EVICT,
    On.COMPONENT_LOAD,
    On.REFUSED_COMPONENT_LOAD,
    On.COMPONENT_PREFETCH,
    On.REFUSED_COMPONENT_PREFETCH,
)
"""The calls that may evict from the device."""


# BACKUP-02 speaks of pages of a path; a backup here is for a boundary, and each call may begin one.
@rule(
    "COMP-53",
    on=CALLS,
    needs=WRITES,
    source="R-WB-01, R-WB-02",
    reference="prefix.components.writes.perform",
    allowed="with {component_policy} none of other prefixes than it says",
)
def a_backup_begins_by_itself_when_the_policy_says(
    component_policy: str,  # noqa: ARG001 - the sentence names it
    component_begun_untimely: Collection[int],
) -> bool:
    """A cache MUST begin backups by itself only as its policy says, and none where it backs up what it is asked to.
    With write-through it backs up a prefix that the call inserts, finds, or goes on from. With the selective policy
    that prefix was cached before. With write-back the call evicts from the device.
    """
    return not component_begun_untimely


# New of components: a boundary is backed up whole.
@rule(
    "COMP-54",
    on=CALLS,
    needs=WRITES,
    source="R-WB-03, R-SWA-08, R-MA-07",
    reference="prefix.components.writes.perform",
    allowed="boundaries that the device can have for every component",
)
def a_backup_is_of_a_boundary_of_the_device(component_begun_of_nothing: Collection[int]) -> bool:
    """A backup that a cache begins by itself MUST be for a boundary at which the device has what every component needs: with write-back before the call, otherwise after it."""
    return not component_begun_of_nothing


# BACKUP-01 speaks of pages of a path; here the last boundary is due, of every component.
@rule(
    "COMP-55",
    on=On.COMPONENT_INSERT,
    needs=(*WRITES, "component_host_counters"),
    source="R-WB-01, R-SWA-08, R-MA-07",
    reference="prefix.components.writes.perform",
    allowed="a backup of the boundary that is due, or that it was refused",
)
def what_an_insert_makes_due_is_backed_up(component_due_missed: Collection[int]) -> bool:
    """After an insert the last boundary of its key MUST be on the host or on its way there for every component, if the
    policy makes it due. With write-through it always is, with the selective policy when an insert goes through it for
    the second time while it is whole on the device. It may be missing where there is no room for it after one eviction
    of what nothing protects.
    """
    return not component_due_missed


# New of components: what leaves the device may be what another component needs there.
@rule(
    "COMP-56",
    on=EVICTS,
    needs=(*WRITES, "component_view", "component_host_view"),
    source="R-WB-01, R-SWA-07, R-MA-03",
    reference="prefix.components.writes.perform",
    allowed="boundaries for which the host has no room",
)
def write_back_loses_no_boundary_that_the_host_has_room_for(component_lost: Collection[Name]) -> bool:
    """With write-back a call MUST NOT evict from the device what a boundary needs, of any component, without that boundary being valid over both tiers afterwards, if the host has had free places for all that it lacked."""
    return not component_lost
