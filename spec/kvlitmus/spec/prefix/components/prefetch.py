"""Prefetches of several components: what a cache owes that fetches KV, and what goes with it, from storage.

A prefetch starts at a boundary that is cached, its **anchor**, and fetches what storage has of the key behind it, in five steps: it
reserves memory for all components at once or is refused (COMP-20 to COMP-23, and COMP-13 of what is evicted for it); it is told what storage has, and says up to
which boundary it reads, what into which place (COMP-26, COMP-27); the I/O ends; what came is committed (COMP-28),
or the prefetch is aborted.  I/O may go on after a commit or an abort; what it may write is given back when it has
ended, and not before (POOL-04, COMP-29).

The anchor is protected as what a receipt covers is: COMP-12, COMP-13 and LOCK-01 say it.  It is the KV that is protected, so that what is
committed goes on from it; a state or a window at the same prefix may be evicted meanwhile, unless the cache protects its paths.  What was committed is judged as all that
is cached: where a window was lost the KV stays, and no hit may end there (TREE-02, COMP-16).

The arithmetic is in :mod:`kvlitmus.spec.prefix.components.fetch`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import fetch_facts as _facts  # noqa: F401 - what the rules speak of
from kvlitmus.spec.prefix.page import Place

PREFETCHES = ("component_prefetch",)
COUNTED = ("component_prefetch", "component_counters")
ASKED = (On.COMPONENT_PREFETCH, On.REFUSED_COMPONENT_PREFETCH)


# FETCH-03 counts pages of one pool; a length here goes by the steps between boundaries of all components.
@rule(
    "COMP-20",
    on=On.COMPONENT_PREFETCH,
    needs=PREFETCHES,
    source="R-MA-05; sglang#26945",
    reference="prefix.components.prefetch.prefetch",
    allowed="a multiple of {component_fetch_step} units, from {component_fetch_least} to {component_fetch_full}",
)
def a_prefetch_takes_whole_steps_behind_its_anchor(
    component_fetch_length: int, component_fetch_step: int, component_fetch_least: int, component_fetch_full: int
) -> bool:
    """A prefetch MUST reserve KV for whole steps between boundaries, for no more than the key has behind the anchor, and for no less than the threshold. While storage is away it MUST NOT begin."""
    return (
        component_fetch_length % component_fetch_step == 0
        and component_fetch_least <= component_fetch_length <= component_fetch_full
    )


# New of components: by its shape each needs another amount for the same length.
@rule(
    "COMP-21",
    on=On.COMPONENT_PREFETCH,
    needs=PREFETCHES,
    source="R-SC-02, R-SWA-02, R-MA-05; sglang#26945, sglang#27264",
    reference="prefix.components.prefetch.prefetch",
    allowed="{component_fetch_needs}",
)
def a_prefetch_reserves_what_each_component_needs(
    component_fetch_reserved: Mapping[str, int], component_fetch_needs: Mapping[str, int]
) -> bool:
    """A prefetch that starts MUST have of every component exactly what its length needs: of a window all entries, or none where it is shorter; one state; index keys as many as KV.

    From the root a shorter window is taken as far as it goes, where the profile says so.  Only the KV is cut short.  How many states are reserved does not depend on that.
    """
    return all(component_fetch_reserved.get(name, 0) == many for name, many in component_fetch_needs.items()) and (
        component_fetch_reserved.keys() <= component_fetch_needs.keys()
    )


# FETCH-03 knows one pool; here all of them grant, or none, and the KV alone is cut short.
@rule(
    "COMP-22",
    on=ASKED,
    needs=COUNTED,
    source="R-SC-02, R-MA-05, R-SWA-02; sglang#26945",
    reference="prefix.components.prefetch.prefetch",
    allowed="{component_fetch_length_due} units; 0: a refusal",
)
def a_prefetch_is_admitted_as_a_whole(component_fetch_length: int, component_fetch_length_due: int) -> bool:
    """A prefetch MUST be granted its full length where all pools have room for it. Else it MUST be granted the largest
    length that the pool of the KV has room for, if this reaches the threshold and all other pools have what it needs.
    It MUST be refused otherwise, and while storage is away. What several components need of one pool is summed.
    """
    return component_fetch_length == component_fetch_length_due


# FETCH-03 knows one pool; room is made here in each, for what each shape needs.
@rule(
    "COMP-23",
    on=ASKED,
    needs=COUNTED,
    source="R-SWA-02, R-MA-05; sglang#26945",
    reference="prefix.components.prefetch.prefetch",
    allowed="an eviction first; in {component_fetch_spared} there was more to be had",
)
def a_prefetch_makes_room_before_it_takes_less(component_fetch_spared: Sequence[str]) -> bool:
    """A prefetch MUST NOT be cut short or refused for want of room that one eviction of what it needs can make."""
    return not component_fetch_spared


# FETCH-08 knows one run; the intersection of what several components can restore is new.
@rule(
    "COMP-26",
    on=On.COMPONENT_FOUND,
    needs=PREFETCHES,
    source="R-L3-05, R-L3-06, R-SC-03, R-L3-04, R-BK-06; sglang#27264",
    reference="prefix.components.prefetch.found",
    allowed="{component_fetch_boundary_due}",
)
def a_prefetch_reads_up_to_what_all_can_restore(component_boundary: int, component_fetch_boundary_due: int) -> bool:
    """A prefetch MUST read up to the largest boundary that all components can restore for which it has memory, and nothing where that is below the threshold.

    That is the intersection of what they can restore; the least of what each could do alone may be restorable by none.
    A component of which storage says nothing has nothing there.
    """
    return component_boundary == component_fetch_boundary_due


# FETCH-09 reads from the first page on; a window reads its last entries, a state one.
@rule(
    "COMP-27",
    on=On.COMPONENT_FOUND,
    needs=PREFETCHES,
    source="R-SC-04, R-SWA-04, R-MA-06; sglang#26945",
    reference="prefix.components.prefetch.found",
    allowed="{component_fetch_reads_due}, each into a place of its own that the prefetch keeps",
)
def a_prefetch_reads_what_its_boundary_needs(
    component_fetch_reads: Mapping[str, Mapping[int, int]],
    component_fetch_reads_due: Mapping[str, Sequence[int]],
    component_fetch_strangers: Collection[Place],
) -> bool:
    """A prefetch MUST read of each component exactly the entries that its boundary needs, a window's last ones and the state of the boundary itself, each into a place of its own that it keeps."""
    if component_fetch_strangers or component_fetch_reads.keys() - component_fetch_reads_due.keys():
        return False
    return all(
        sorted(component_fetch_reads.get(name, ())) == list(ends) for name, ends in component_fetch_reads_due.items()
    )


# FETCH-12 and FETCH-13 know one run; what is derived from the KV ends it too.
@rule(
    "COMP-28",
    on=On.COMPONENT_COMMIT,
    needs=PREFETCHES,
    source="R-SC-01, R-SC-03, R-SC-06, R-PFT-08",
    reference="prefix.components.prefetch.commit",
    allowed="{component_fetch_end_due}",
)
def a_commit_ends_before_what_is_missing(component_boundary: int, component_fetch_end_due: int) -> bool:
    """A commit MUST cache the KV up to the first entry that did not come, of it or of what is derived from it, whatever
    became of the other components. Where the profile drops all then, it caches nothing if anything that is read did not
    come. A component of which nothing is said has no entries that came.
    """
    return component_boundary == component_fetch_end_due
