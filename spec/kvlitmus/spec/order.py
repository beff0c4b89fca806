"""Was that the right victim?  What an eviction took, held against the policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from kvlitmus.spec import policies
from kvlitmus.spec.policies import Worth
from kvlitmus.spec.state import Page, Tree
from kvlitmus.spec.units import Name


def worths(pages: Mapping[Name, Page], policy: str, slru_hits: int) -> Mapping[Name, Worth]:
    """What the policy compares, for each page."""
    worth = policies.worth(policy, slru_hits)
    return {name: worth(page) for name, page in pages.items()}


def passed_over_by(tree: Tree, vanished: Collection[Name], policy: str, slru_hits: int) -> frozenset[Name]:
    """The leaves that the policy would have taken when the cache took another; empty when its order was kept.

    The victims are removed one by one, always a least valuable leaf; among equals any may go, and
    that one of them that went is taken first.
    """
    if not vanished:
        return frozenset()
    pages = tree.pages
    worth = worths(pages, policy, slru_hits)
    children = Counter([page.parent for page in pages.values()])
    heap = [
        (worth[name], name not in vanished, name)
        for name, page in pages.items()
        if not page.locks and name not in children
    ]
    heapify(heap)
    left = len(vanished)
    while heap and left:
        least, stayed, name = heappop(heap)
        if stayed:
            return frozenset([name, *[other for value, _, other in heap if value == least]])
        left -= 1
        parent = pages[name].parent
        children[parent] -= 1
        if not children[parent] and parent in pages and not pages[parent].locks:
            heappush(heap, (worth[parent], parent not in vanished, parent))
    return frozenset()


def needless_victims(
    nodes: Iterable[tuple[Sequence[Name], Name]],
    vanished: Collection[Name],
    asked: int,
    page_size: int,
    granularity: str,
) -> frozenset[Name]:
    """The victims without which enough would have been freed; empty when the eviction stopped in time.

    ``nodes``: before the eviction, the names of the pages of each and of the page above it.  With page granularity
    each page counts by itself.  With node granularity the last victim is a whole node, one whose parent stayed.
    """
    freed = len(vanished) * page_size
    if freed - asked < page_size or not vanished:
        return frozenset()
    if granularity == "page":
        return frozenset(vanished)
    last = [names for names, parent in nodes if names and names[0] in vanished and parent not in vanished]
    if any(freed - len(names) * page_size < asked for names in last):
        return frozenset()
    return frozenset(name for names in last for name in names)
