"""Components: what a cache owes that keeps several kinds of state for a prefix.

A prefix is of use only as far as **every** component has what it needs there.  A cache that reports more lets a model
read what nobody wrote; one that reports less computes again what it has.  So a hit ends at the largest admitted
boundary that is valid for all components (TREE-02), and names exactly the entries that this boundary needs
(TREE-03).

Memory is granted for all components at once or for none (POOL-01, POOL-07, POOL-08).  An insert fills what is missing,
**tombstones** (prefixes whose KV is cached while another component's entry is gone) included, and leaves the rest to the
caller (TREE-08, TREE-09, TREE-11).  A receipt says of each component which entries it covers, and covers what its boundary needs
(COMP-10).  Components are evicted one by one; what goes with what is a choice of the profile (COMP-12, COMP-13).

What each pool of each tier owes as a plain cache, the rules of plain caches say (:mod:`~kvlitmus.spec.prefix.components.plain`):
that what is granted is nobody's, that a place has one home, that what is protected stays, that KV is closed towards the
root.  What is left is what several components owe together, on the device as on the host: COMP-15, COMP-16 and COMP-19, of
snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import tree_facts as _facts  # noqa: F401 - what the rules speak of
from kvlitmus.spec.prefix.components.request_facts import REQUEST_CALLS
from kvlitmus.spec.prefix.page import At

LOOKED_AT = ("component_view",)
HITS = (On.COMPONENT_MATCH, On.COMPONENT_START)
"""What finds a prefix: a match, and a request that begins."""
CALLS = (
    On.COMPONENT_ALLOC,
    On.REFUSED_COMPONENT_ALLOC,
    On.COMPONENT_FREE,
    On.COMPONENT_MATCH,
    On.COMPONENT_INSERT,
    On.COMPONENT_LOCK,
    On.COMPONENT_UNLOCK,
    On.COMPONENT_EVICT,
    On.COMPONENT_RESET,
    On.COMPONENT_PREFETCH,
    On.REFUSED_COMPONENT_PREFETCH,
    On.COMPONENT_FOUND,
    On.COMPONENT_SETTLED,
    On.COMPONENT_COMMIT,
    On.COMPONENT_ABORT,
    On.COMPONENT_BACK_UP,
    On.REFUSED_COMPONENT_BACK_UP,
    On.COMPONENT_LOAD,
    On.REFUSED_COMPONENT_LOAD,
    On.COMPONENT_COPIED,
    On.COMPONENT_EVICT_HOST,
    On.COMPONENT_ATTACH,
    On.COMPONENT_DETACH,
    On.COMPONENT_WRITE,
    On.REFUSED_COMPONENT_WRITE,
    On.COMPONENT_WRITTEN,
)
"""All calls on a cache of components but those of requests."""
EVERY = (*CALLS, *REQUEST_CALLS)
"""All of them."""


@rule(
    "COMP-10",
    on=On.COMPONENT_LOCK,
    source="R-SWA-01, R-MA-01, R-LK-07; design; sglang#28161",
    reference="prefix.components.tree.lock",
    allowed="at least {component_cover_due}, and nothing of {component_cover_beyond}",
)
def a_receipt_covers_what_its_boundary_needs(
    component_cover: Mapping[str, Collection[int]],
    component_cover_due: Mapping[str, Collection[int]],
    component_cover_beyond: Mapping[str, Collection[int]],
) -> bool:
    """A receipt MUST cover, of every component, exactly the entries that the locked boundary needs: what a window has left
    behind can be evicted while the path is locked. By node it may cover the rest of a node of which the boundary needs
    something.
    """
    covered = all(set(due) <= set(component_cover.get(name, ())) for name, due in component_cover_due.items())
    return covered and not component_cover_beyond


# EVICT-01 and EVICT-21 count what may be spared, and pools that several components share, as untold.
@rule(
    "COMP-12",
    on=(On.COMPONENT_EVICT, On.COMPONENT_EVICT_HOST),
    source="R-MA-03; design",
    reference="prefix.components.tree.evict",
    allowed="of each component what was asked for, as far as {component_evictable} are there unprotected",
)
def an_eviction_frees_what_is_asked_for(
    component_asked: Mapping[str, int],
    component_freed: Mapping[str, int],
    component_evictable: Mapping[str, int],
) -> bool:
    """An eviction MUST free of each component as many entries as were asked for, or all that are on the tier and that no
    receipt, prefetch, copy or write may protect. From the host it may spare, by the profile, what the device has too.
    """
    return all(
        component_freed.get(name, 0) >= min(many, component_evictable.get(name, 0))
        for name, many in component_asked.items()
    )


# EVICT-06 and EVICT-21 know nothing that goes with an entry of another component.
@rule(
    "COMP-13",
    on=(
        *(On.COMPONENT_EVICT, On.COMPONENT_EVICT_HOST, On.COMPONENT_PREFETCH, On.REFUSED_COMPONENT_PREFETCH),
        *(On.COMPONENT_BACK_UP, On.REFUSED_COMPONENT_BACK_UP, On.COMPONENT_LOAD, On.REFUSED_COMPONENT_LOAD),
    ),
    source="R-MA-03, R-EV-08, R-SWA-02, R-SC-02; sglang#26945",
    reference="prefix.components.tree.evict",
    allowed="no more than {component_freed_most}",
)
def no_more_is_evicted_than_is_asked_for(
    component_freed: Mapping[str, int], component_freed_most: Mapping[str, int]
) -> bool:
    """A call MUST NOT evict more of a component than it asks for and than is unprotected, or than it needs of a pool without room for that: there is no second eviction.
    A prefetch below its threshold, or while storage is away, needs nothing, and a backup by its path may evict for each boundary on it. What goes
    with an entry of another component by the profile comes on top; by node that is the rest of a node.
    """
    return all(freed <= component_freed_most.get(name, 0) for name, freed in component_freed.items())


# FRAME-01 has no call where a request gives back what its window has left behind.
@rule(
    "COMP-15",
    on=EVERY,
    needs=LOOKED_AT,
    source="R-SWA-04, R-MA-02, R-MA-06, R-WB-05",
    reference="prefix.components.tree.insert",
    allowed="only what an insert, a commit, a copy or a request brings, where it brings it",
)
def entries_appear_only_as_they_are_brought(component_appeared: Collection[At]) -> bool:
    """An entry MUST come to a tier only by an insert, a commit or a copy that brings it there for that very prefix, or by
    a request that holds it for that. A copy has landed by then, or begun where the profile says that this counts. An
    entry MUST NOT move.
    """
    return not component_appeared


# FRAME-01 knows nothing that goes with an entry of another component.
@rule(
    "COMP-16",
    on=EVERY,
    needs=LOOKED_AT,
    source="R-SWA-04, R-MA-02, R-EV-08",
    reference="prefix.components.tree.evict",
    allowed="entries leave by evictions that may take them, to requests that get their places, and by resets",
)
def entries_vanish_only_by_evictions(component_vanished: Collection[At]) -> bool:
    """An entry MUST leave a tier only by an eviction there of its component, by a request that gets its place, or by a
    reset. An eviction for a prefetch or a copy is one, too. It takes along what goes by the profile with an entry of
    the same prefix, and by node the rest of the node.
    """
    return not component_vanished


@rule(
    "COMP-19",
    on=EVERY,
    needs=LOOKED_AT,
    source="R-SWA-07, R-MA-03, R-DEV-10, R-EV-08, R-HT-02",
    reference="prefix.components.tree.evict",
    allowed="entries of other components only beside KV",
)
def other_components_go_with_the_kv(component_orphans: Collection[At]) -> bool:
    """Unless the profile says that components are evicted each alone, an entry MUST be on a tier only while the KV of its prefix is there."""
    return not component_orphans
