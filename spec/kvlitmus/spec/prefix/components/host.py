"""Host memory of components: what a cache owes that backs up KV, and what goes with it, and loads it back.

A **copy** goes from the device to the host, a backup, or from the host to the device, a load back.  It is for one boundary,
and takes what that needs of every component and the tier lacks that it goes to (COMP-32): a backup that forgets the window
has saved nothing, and a load back restores all of a window or isn't begun.  A load back is for the largest boundary that both tiers
can make valid together (LOAD-11), wherever each entry is: a state alone is worth one, if it makes a longer prefix usable.

Memory is granted for all components at once or for none, after one eviction from that tier at most (COMP-36, COMP-13).
While a copy is under way what its boundary needs stays where it is, on both tiers (LOCK-01), and what it is written to is
neither cached nor free.  When it has ended, what it brought is cached, unless it failed or somebody else was first (COMP-29).
By the profile it may be cached from the beginning, and a copy may go by its path: take, and protect, what else there is of that.

On the host too KV is kept only with what is before it, and other components only beside KV (TREE-05, COMP-19): whatever
becomes of the device, what is on the host can be loaded.  It would not be enough for the entry before to be on the device, where it
may be evicted at any time.

The arithmetic is in :mod:`kvlitmus.spec.prefix.components.copies`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import copy_facts as _facts  # noqa: F401 - what the rules speak of

HOSTED = ("component_host",)
COUNTED = ("component_host", "component_host_counters")
BOTH_COUNTED = (*COUNTED, "component_counters")
BEGUN = (On.COMPONENT_BACK_UP, On.COMPONENT_LOAD)
REFUSED = (On.REFUSED_COMPONENT_BACK_UP, On.REFUSED_COMPONENT_LOAD)


# LOAD-01 and BACKUP-01 know one run, and BACKUP-07 puts page by page; by its shape each component takes something else.
@rule(
    "COMP-32",
    on=(*BEGUN, On.COMPONENT_WRITE),
    needs=HOSTED,
    source="R-SWA-08, R-MA-07; design",
    reference="prefix.components.host.begun",
    allowed="at least {component_copy_least}, at most {component_copy_most}",
)
def a_copy_takes_what_its_boundary_needs_and_is_lacking_where_it_goes(
    component_copy_takes: Mapping[str, Collection[int]],
    component_copy_least: Mapping[str, Collection[int]],
    component_copy_most: Mapping[str, Collection[int]],
) -> bool:
    """A copy or a write MUST take, of every component, exactly the entries that its boundary needs and that are lacking where
    it goes. Of a window that is all that is missing, and of states the boundary's own. Where the profile says that copies
    go by their path, a copy takes also others on it that the other tier has. A backup that might have been refused may stop
    earlier then, with all that the last boundary needs of which it brings the KV.
    """
    if component_copy_takes.keys() - component_copy_least.keys():
        return False
    return all(
        set(least) <= set(component_copy_takes.get(name, ())) <= set(component_copy_most[name])
        for name, least in component_copy_least.items()
    )


# LOAD-03 knows one pool; here any of them may be the one that is short.
@rule(
    "COMP-36",
    on=REFUSED,
    needs=BOTH_COUNTED,
    source="R-SC-02, R-MA-07, R-HOST-10",
    reference="prefix.components.host.begun",
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
