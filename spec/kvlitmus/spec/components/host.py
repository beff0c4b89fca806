"""Host memory of components: what a cache owes that backs up KV, and what goes with it, and loads it back.

A **copy** goes from the device to the host, a backup, or from the host to the device, a load back.  It is for one boundary,
and takes what that needs of every component and the tier lacks that it goes to (COMP-32): a backup that forgets the window
has saved nothing, and a load back restores all of a window or isn't begun.  A load back is for the largest boundary that both tiers
can make valid together (COMP-33, COMP-34), wherever each entry is: a state alone is worth one, if it makes a longer prefix usable.

Memory is granted for all components at once or for none, after one eviction from that tier at most (COMP-35 to COMP-37).
While a copy is under way what its boundary needs stays where it is, on both tiers (COMP-14, COMP-44), and what it is written to is
neither cached nor free.  When it has ended, what it brought is cached, unless it failed or somebody else was first (COMP-40).
By the profile it may be cached from the beginning, and a copy may go by its path: take, and protect, what else there is of that.

On the host too KV is kept only with what is before it, and other components only beside KV (COMP-46, COMP-47): whatever
becomes of the device, what is on the host can be loaded.  It would not be enough for the entry before to be on the device, where it
may be evicted at any time.

The arithmetic is in :mod:`kvlitmus.spec.components.copies`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kvlitmus.spec.components import host_facts as _facts  # noqa: F401 - what the rules speak of
from kvlitmus.spec.components.calls import At
from kvlitmus.spec.components.state import Place
from kvlitmus.spec.components.tree import CALLS
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule

HOSTED = ("component_host",)
COUNTED = ("component_host", "component_host_counters")
BOTH_COUNTED = (*COUNTED, "component_counters")
LOOKED_AT = ("component_host", "component_host_view")
BEGUN = (On.COMPONENT_BACK_UP, On.COMPONENT_LOAD)
REFUSED = (On.REFUSED_COMPONENT_BACK_UP, On.REFUSED_COMPONENT_LOAD)


@rule(
    "COMP-32",
    on=BEGUN,
    needs=HOSTED,
    source="R-SWA-08, R-MA-07; design",
    reference="components.host.begun",
    allowed="at least {component_copy_least}, at most {component_copy_most}",
)
def a_copy_takes_what_its_boundary_needs_and_its_tier_lacks(
    component_copy_takes: Mapping[str, Collection[int]],
    component_copy_least: Mapping[str, Collection[int]],
    component_copy_most: Mapping[str, Collection[int]],
) -> bool:
    """A copy MUST take, of every component, exactly the entries that its boundary needs and the tier lacks that it goes
    to: of a window all that is missing, the state of the boundary itself, and nothing that is there. Where the profile
    says that copies go by their path, it takes also others on it that the other tier has. A backup that might have been
    refused may stop earlier then, with all that the last boundary needs of which it brings the KV.
    """
    if component_copy_takes.keys() - component_copy_least.keys():
        return False
    return all(
        set(least) <= set(component_copy_takes.get(name, ())) <= set(component_copy_most[name])
        for name, least in component_copy_least.items()
    )


@rule(
    "COMP-33",
    on=On.COMPONENT_LOAD,
    needs=HOSTED,
    source="R-SWA-08, R-MA-07, R-HT-03",
    reference="components.host.load",
    allowed="an admitted boundary behind the hit; at this one {component_load_lacking} lack what it needs",
)
def a_load_back_is_for_a_boundary_that_both_tiers_make_valid(
    component_load_admitted: bool, component_load_lacking: Sequence[str]
) -> bool:
    """A load back MUST be for an admitted boundary behind the hit at which device and host together have what every component needs."""
    return component_load_admitted and not component_load_lacking


@rule(
    "COMP-34",
    on=On.COMPONENT_LOAD,
    needs=HOSTED,
    source="R-SWA-08, R-MA-07",
    reference="components.host.load",
    allowed="no less than {component_load_least}",
)
def a_load_back_goes_as_far_as_it_can(component_copy_boundary: int, component_load_least: int) -> bool:
    """A load back MUST NOT be for a smaller boundary than the largest admitted one that is valid over both tiers."""
    return component_copy_boundary >= component_load_least


@rule(
    "COMP-35",
    on=BEGUN,
    needs=HOSTED,
    source="R-WB-04, R-SWA-05",
    reference="components.host.begun",
    allowed="places that are nobody's on that tier, each once",
)
def a_copy_is_written_to_what_is_nobodys(component_copy_in_use: Collection[Place]) -> bool:
    """The places that a copy is written to MUST be distinct, and neither cached on that tier nor the caller's, a prefetch's or another copy's."""
    return not component_copy_in_use


@rule(
    "COMP-36",
    on=REFUSED,
    needs=BOTH_COUNTED,
    source="R-SC-02, R-MA-07, R-HOST-10",
    reference="components.host.begun",
    allowed="a copy: there is something to take, and room for it",
)
def a_refused_copy_has_nothing_to_take_or_no_room(component_copy_refusable: bool) -> bool:
    """A copy MUST be refused only if there is nothing to take, or some pool is too small for what all components
    together need. One eviction makes room first, of what nothing protects and the hit that is gone on from doesn't
    need. How much there is to take is no reason. Where the profile says that copies go by their path, what they take
    and protect is that of all of it. A backup may then make room for each boundary on it in turn, or be refused while
    another one runs on a path through its boundary.
    """
    return component_copy_refusable


@rule(
    "COMP-37",
    on=(*BEGUN, *REFUSED),
    needs=BOTH_COUNTED,
    source="R-SC-02; design",
    reference="components.host.make_room",
    allowed="at most {component_copy_freed_most}",
)
def a_copy_evicts_once_what_it_needs(
    component_copy_freed: Mapping[str, int], component_copy_freed_most: Mapping[str, int]
) -> bool:
    """A copy MUST NOT evict anything from pools that have room for it. From others it MUST NOT evict more than one
    eviction of what it takes. Where the profile says that copies go by their path, a backup may evict so much for each
    boundary on it.
    """
    return all(many <= component_copy_freed_most.get(name, 0) for name, many in component_copy_freed.items())


@rule(
    "COMP-38",
    on=On.COMPONENT_EVICT_HOST,
    needs=HOSTED,
    source="R-MA-03; design",
    reference="components.host.evict_host",
    allowed="of each component what was asked for, as far as {component_host_evictable} are there unprotected",
)
def an_eviction_from_the_host_frees_what_is_asked_for(
    component_host_asked: Mapping[str, int],
    component_host_freed: Mapping[str, int],
    component_host_evictable: Mapping[str, int],
) -> bool:
    """An eviction from the host MUST free of each component as many entries as were asked for, or all that no running copy or write needs and, where the profile spares what is on the device too, that isn't there."""
    return all(
        component_host_freed.get(name, 0) >= min(many, component_host_evictable.get(name, 0))
        for name, many in component_host_asked.items()
    )


@rule(
    "COMP-39",
    on=On.COMPONENT_EVICT_HOST,
    needs=HOSTED,
    source="R-MA-03; design",
    reference="components.host.evict_host",
    allowed="no more than {component_host_most}",
)
def an_eviction_from_the_host_frees_no_more(
    component_host_freed: Mapping[str, int], component_host_most: Mapping[str, int]
) -> bool:
    """An eviction from the host MUST free of each component no more than was asked for and goes with that by the profile, and no more than is there unprotected."""
    return all(freed <= component_host_most.get(name, 0) for name, freed in component_host_freed.items())


@rule(
    "COMP-40",
    on=On.COMPONENT_COPIED,
    needs=HOSTED,
    source="R-WB-04, R-SWA-05; design",
    reference="components.host.copied",
    allowed="at least {component_copy_left}, at most {component_copy_left_most}",
)
def a_copy_gives_back_what_it_does_not_leave(
    component_copy_returned: Collection[Place],
    component_copy_left: Collection[Place],
    component_copy_left_most: Collection[Place],
) -> bool:
    """A copy that has failed MUST give back everything that it was written to. Any other MUST give back exactly what it
    brought for entries that are cached on its tier by then; where the profile says that copies count from their
    beginning, nothing.
    """
    return set(component_copy_left) <= set(component_copy_returned) <= set(component_copy_left_most)


@rule(
    "COMP-41",
    on=CALLS,
    needs=COUNTED,
    source="R-SC-02, R-HT-02, R-HOST-10",
    reference="components.host.perform",
    allowed="{component_host_available_due} free places",
)
def every_pool_of_the_host_counts_what_is_free(
    component_host_available: Mapping[str, int], component_host_available_due: Mapping[str, int]
) -> bool:
    """After each call every pool of the host MUST have as many free places as before it, less what a backup took, plus what it gave back or was evicted there; no other call changes it."""
    return component_host_available == component_host_available_due


@rule(
    "COMP-42",
    on=CALLS,
    needs=LOOKED_AT,
    source="R-MA-06, R-WB-05",
    reference="components.host.copied",
    allowed="only what a backup has brought for that very prefix",
)
def host_entries_appear_only_as_backups_land(component_host_appeared: Collection[At]) -> bool:
    """An entry MUST come to the host only when a backup that brought it for that very prefix has ended well, or has
    begun where the profile says that copies count from their beginning. It MUST NOT move.
    """
    return not component_host_appeared


@rule(
    "COMP-43",
    on=CALLS,
    needs=LOOKED_AT,
    source="R-SWA-07; design",
    reference="components.host.evict_host",
    allowed="entries leave the host by evictions there, and by resets",
    premise="component_host_held",
)
def host_entries_vanish_only_by_evictions_there(component_host_vanished: Collection[At]) -> bool:
    """An entry MUST leave the host only by an eviction there of its component, with an evicted entry of its own prefix
    that it goes with by the profile, or by a reset. An eviction for a backup is one, too. An eviction from the device,
    a load back, and a copy that failed are none.
    """
    return not component_host_vanished


@rule(
    "COMP-44",
    on=(On.COMPONENT_EVICT_HOST, On.COMPONENT_BACK_UP, On.REFUSED_COMPONENT_BACK_UP),
    needs=LOOKED_AT,
    source="R-LK-08, R-SWA-08",
    reference="components.host.evict_host",
    allowed="entries that the boundary of no copy or write needs",
    premise="component_host_held",
)
def an_eviction_from_the_host_spares_what_a_copy_needs(component_host_unprotected: Collection[At]) -> bool:
    """An eviction from the host MUST NOT take an entry that the boundary of a running copy or write needs and that was
    there when it began. It MUST NOT take what the copy reads, or has brought where that counts from its beginning. One
    for a backup MUST NOT take what its own boundary needs.
    """
    return not component_host_unprotected


@rule(
    "COMP-45",
    on=CALLS,
    needs=LOOKED_AT,
    source="R-SWA-05, R-MA-04",
    reference="components.host.perform",
    allowed="each place of a pool of the host free, cached, or a backup's: one of these",
    premise="component_host_held",
)
def every_place_of_the_host_has_one_home(component_host_homes: Mapping[str, Sequence[int]]) -> bool:
    """Each place of a pool of the host MUST be free, cached for one prefix of one component, or a running backup's: exactly one of these."""
    return not component_host_homes


@rule(
    "COMP-46",
    on=CALLS,
    needs=LOOKED_AT,
    source="R-WB-03, R-SWA-01",
    reference="components.host.evict_host",
    allowed="KV whose prefix is on the host too",
    premise="component_host_held",
)
def a_run_on_the_host_is_closed_towards_the_root(component_host_gaps: Collection[At]) -> bool:
    """An entry of a run MUST be on the host only while the entry before it is there: that it is on the device is not enough, where it can be evicted."""
    return not component_host_gaps


@rule(
    "COMP-47",
    on=CALLS,
    needs=LOOKED_AT,
    source="R-SWA-07, R-HT-02",
    reference="components.host.evict_host",
    allowed="entries of other components only beside KV",
    premise="component_host_held",
)
def other_components_go_with_the_kv_on_the_host(component_host_orphans: Collection[At]) -> bool:
    """Unless the profile says that components are evicted each alone, an entry MUST be on the host only while the KV of its prefix is there."""
    return not component_host_orphans
