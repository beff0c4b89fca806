"""Requests on components: what a cache owes that serves them by itself, as vLLM's KV cache manager does.

Such a cache has no call that evicts or inserts.  A request begins with the longest prefix that it can use, gets places for
what it is about to compute, and goes on in chunks; whatever nobody holds makes room for it.  What it has computed can be
found by others at once.  Hits are judged as those of a match (TREE-02, TREE-03), what is cached by COMP-15 to
COMP-19; here stands what is owed to the request itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import tree_facts as _facts  # noqa: F401 - what the rules speak of
from kvlitmus.spec.prefix.components.request_facts import GRANTED, REFUSED
from kvlitmus.spec.prefix.page import At


# New of components: what a chunk reads goes by the shape, and a window leaves something behind while its request
# runs; of the KV it is the row (REQ-01).
@rule(
    "CREQ-01",
    on=GRANTED,
    source="R-SC-02, R-SWA-01, R-SWA-07, R-MA-01; design",
    reference="prefix.components.requests.start",
    allowed="{request_working}",
)
def a_request_holds_what_it_computes_with(
    request_held: Mapping[str, Mapping[int, int]], request_working: Mapping[str, Collection[int]]
) -> bool:
    """A request that is granted a chunk MUST hold, of every component, exactly what this chunk or a later one reads, and
    what the chunk is written to. It holds neither what its window has left behind, nor a state that was gone on from.
    """
    names = request_working.keys() | request_held.keys()
    return all(request_held.get(name, {}).keys() == set(request_working.get(name, ())) for name in names)


# REQ-14 and REQ-15 know one pool; here any of them may be the one that is short.
@rule(
    "CREQ-03",
    on=REFUSED,
    source="R-SC-02; design",
    reference="prefix.components.requests.start",
    allowed="room: what no running request holds is enough",
)
def a_refusal_means_that_requests_hold_the_rest(request_fits: bool) -> bool:
    """A request MUST be refused only if some pool has fewer places that no running request holds, cached ones among them, than it needs more."""
    return not request_fits


# REQ-02 goes by what slots hold, which is followed of the KV alone.
@rule(
    "CREQ-05",
    on=(On.COMPONENT_GROW, On.REFUSED_COMPONENT_GROW),
    source="design",
    reference="prefix.components.requests.grow",
    allowed="what it held, where it was",
)
def what_a_request_holds_stays_where_it_is(request_moved: Collection[tuple[str, int]]) -> bool:
    """What a request goes on holding MUST stay in its place."""
    return not request_moved


# REQ-03 speaks of a beginning; here each chunk has to be found, of every component.
@rule(
    "CREQ-06",
    on=GRANTED,
    needs=("component_view",),
    source="R-SWA-04, R-MA-02; design",
    reference="prefix.components.requests.grow",
    allowed="everything that the largest boundary needs that was computed",
)
def what_a_request_has_computed_can_be_found(request_unpublished: Collection[At]) -> bool:
    """What the largest boundary needs that a running request has computed MUST be cached."""
    return not request_unpublished
