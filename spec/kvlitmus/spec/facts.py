"""The facts that rules speak of.

A fact has a name, a meaning and a **depth**: the least depth of observation at which a judge
can know it.  Depth 0 is what the suite itself passed in, got back, wrote into slots or can
conclude from that; 1 adds counters (``available``, the tree's sizes); 2 adds events; 3 adds a
full snapshot (free list, nodes).

Facts named ``…_before`` and ``…_after`` are taken around one call.  Facts of one part only are
defined in the module of that part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Fact(NamedTuple):
    """What a fact means and from which depth on it is known."""

    depth: int
    meaning: str


FACTS: dict[str, Fact] = {}
"""All facts by name."""


def define(depth: int, meanings: Mapping[str, str]) -> None:
    """Define facts of one depth; a fact can't be defined twice."""
    for name, meaning in meanings.items():
        if name in FACTS:
            raise ValueError(f"fact {name!r} is already defined", name)
        FACTS[name] = Fact(depth, meaning)


define(
    0,
    {
        "page_size": "slots in a page",
        "usable": "the pages that the pool may hand out",
        "asked": "how much the call asked for, in slots",
        "granted": "the slots that the allocation handed out, in order",
        "granted_pages": "the pages that the granted slots lie in",
        "may_evict": "whether the profile lets an allocation evict",
        "held_before": "pages known to be owned by a request or a caller, or cached under a lock, before the call",
        "freed_pages": "the pages that the call gave back",
        "owned_after": "pages owned by requests and callers, after the call",
        "owned_twice": "pages that two requests or callers own at once",
        "key_length": "units of the key that was passed",
        "key_names": "the names of the key's prefixes, shortest first",
        "match_length": "units that the match or the request's beginning reports as cached",
        "match_slots": "the slots of the match",
        "found_names": "what was written last into each of the returned slots: the name of a prefix",
        "match_cap": "the longest match that the profile allows for this key",
        "certain_length": "units of the key that are certainly cached, before the call",
        "possible_length": "units of the key that are possibly cached, before the call",
        "reported_already": "units that the insert reports as cached before",
        "to_free": "the slots that the insert hands back to the caller",
        "expected_to_free": "the slots that were brought in vain and are the caller's to free, as the profile declares",
        "locked_names": "the names of cached pages that receipts or running requests protect",
        "locked_pages": "where the protected pages were when they were locked: name to page",
        "reported_evicted": "how many slots the eviction says it freed",
        "row": "the slots of the request, one per token, after the call",
        "row_names": "what is written in the row's computed slots, in order",
        "request_names": "the names of all prefixes of the request's tokens",
        "computed_names": "the names of the prefixes of the request's computed tokens",
        "computed_length": "units of the request up to which the call says that it is computed",
        "uncomputed_pages": "the request's own pages in which not every slot is computed, by what the call says",
        "row_cached": "how many leading slots of the row are the tree's",
        "row_before": "the slots of the request before the call",
        "last_slot": "the slot of the request's last token before it grew",
        "new_slots": "the slots that the request got for further tokens",
        "opened_pages": "the pages that an extending allocation opened",
        "opened_needed": "how many pages the further tokens need beyond the last page",
        "request_pages": "pages that the request owned alone before it ended",
        "quiet": "whether no lock is held and no request runs",
    },
)
define(
    1,
    {
        "available_before": "slots that the pool says it could hand out, before the call",
        "available_after": "slots that the pool says it could hand out, after the call",
        "capacity": "slots of all usable pages",
        "owned_slots": "slots of all pages owned by requests and callers, after the call",
        "evictable": "units that the tree says could be evicted, after the call",
        "protected": "units that the tree says are protected, after the call",
        "evictable_before": "units that the tree says could be evicted, before the call",
        "protected_before": "units that the tree says are protected, before the call",
    },
)
define(
    3,
    {
        "free_before": "pages on the free list, before the call",
        "free_after": "pages on the free list, after the call",
        "free_listed": "the free list as it stands, repetitions included",
        "cached_before": "every cached page, before the call: name to page",
        "cached_after": "every cached page, after the call: name to page",
        "cached_listed": "the pages that the nodes of the tree refer to, repetitions included",
        "parents": "the names of the parents of all cached pages, roots left out",
        "broken_nodes": "nodes that are empty, not made of whole pages, or share their first page with a sibling",
        "broken_pages": "cached pages whose slots are not one whole page in order",
        "missing_before": "names of the key's whole pages that were not cached, before the call, in order",
        "offered": "what the insert offered for each whole page of the key: name to page",
        "duplicates": "pages that the insert was offered in vain and that the cache is to free, as the profile declares",
        "vanished": "names that were cached before the call and are not after it",
        "unlocked_before": "slots of all cached pages that nothing protects, before the call",
        "passed_over": "names that the policy would have evicted before one that was evicted",
        "needless": "names that were evicted although enough was free without them",
        "victims": "what each eviction of a schedule removed, in order: the prefixes",
        "victims_again": "the same for a second, fresh cache that got the same calls",
        "unlocked_count": "units of cached pages that nothing protects, after the call",
        "locked_count": "units of cached pages that something protects, after the call",
        "node_locks": "the lock count of each node, beside the number of receipts that cover it",
        "lock_inversions": "for each node with more locks than its parent: the parent's locks and its own",
        "node_hits": "the hit count of each node, beside the count that its use amounts to",
        "node_priorities": "the priority of each node, beside the highest it was given",
        "unreachable_names": "names of the request's cached part that are not cached, or elsewhere, after the call",
    },
)
