"""Was that the right victim?  What an eviction took, held against the policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kvlitmus.spec.prefix.page import Tier
from kvlitmus.spec.words.policies import Order, Worth, later
from kvlitmus.spec.words.units import Name

ByTier = Mapping[str, AbstractSet[Name]]
"""Names of pages, by the tier that they are on, or were."""


class Choosing(NamedTuple):
    """What an eviction of a tier could choose from: the tree of its pages as it was then, and those that are ``gone``.

    ``ageless``: pages of which nobody knows what they are worth.  ``held``: pages that perhaps could not go.
    """

    tree: Tier
    gone: AbstractSet[Name] = frozenset()
    ageless: AbstractSet[Name] = frozenset()
    held: AbstractSet[Name] = frozenset()


def ageless(tree: Tier, policy: str) -> frozenset[Name]:
    """The pages whose place in the order of a policy nobody knows for certain."""
    return frozenset([name for name, page in tree.pages.items() if page.is_ageless(policy)])


def passed_over_by(choosing: Choosing, worth: Order, *, nodes: bool = False, ties: int = 0) -> frozenset[Name]:
    """The leaves that an order would have taken when the cache took another; empty when its order was kept.

    A page goes after everything below it.  So a page that stayed was passed over for a victim that is worth more, if
    that is also worth more than everything that had to go before the page was a leaf: all of this had its turn earlier.
    Pairs are excused in which one is ``ageless`` (nobody knows what it is worth), and those with a page that stayed because
    it was perhaps ``held``; and those whose ticks are no more than ``ties`` apart.  Where whole ``nodes`` go, a victim is worth what the last page of its node is.  Of the pages
    that were passed over, those that were due first are told.
    """
    pages, vanished, ageless = choosing.tree.pages, choosing.gone, choosing.ageless
    left = [*could_go(choosing)] if vanished else []
    if not left:
        return frozenset()
    most: Worth = ()
    waits: dict[Name, Worth | None] = {}  # for each page above victims what it waited for; nobody knows, where ``None``
    inner = {pages[name].parent for name in vanished if name in pages and not pages[name].first} if nodes else ()
    for name in vanished:
        page = pages.get(name)
        if page is None:
            continue
        own = None if name in ageless else worth(page)
        if own is not None and name not in inner:
            most = max(most, own)
        above = page.parent
        while above in pages:
            known = waits.get(above, ())
            waits[above] = None if own is None or known is None else max(known, own)
            above = pages[above].parent
    if not most:
        return frozenset()
    passed: dict[Name, Worth] = {}
    for name in left:
        page = pages[name]
        due = () if page.parent in vanished else waits.get(name, ())
        if due is not None and page.parent not in vanished:
            due = max(due, worth(page))
        if due is not None and later(due, ties) < most:
            passed[name] = due
    first = min(passed.values(), default=())
    return frozenset(name for name, due in passed.items() if due == first)


def could_go(choosing: Choosing) -> Iterator[Name]:
    """The leaves of known age that stayed, and could have gone."""
    tree, gone, ageless, held = choosing
    parents = {page.parent for name, page in tree.pages.items() if name not in gone}
    for name, page in tree.pages.items():
        if name not in parents and name not in gone and not page.locks and name not in ageless and name not in held:
            yield name


def had_a_choice(choosing: Choosing) -> bool:
    """Whether a page of known age was taken, and another leaf of known age that could go was left."""
    tree, gone, ageless, _ = choosing
    known = any(name in tree.pages and name not in ageless for name in gone)
    return known and any(True for _ in could_go(choosing))


def needless_victims(
    nodes: Iterable[tuple[Sequence[Name], Name]],
    vanished: Collection[Name],
    asked: int,
    page_size: int,
    granularity: str,
) -> frozenset[Name]:
    """The victims without which enough would have been freed; empty when the eviction stopped in time.

    ``nodes``: before the eviction, the names of the pages of each and of the page above it.  With page granularity
    each page counts by itself.  With node granularity the last victim is a whole node, or its end where it was cut: one
    whose parent stayed.
    """
    freed = len(vanished) * page_size
    if freed - max(0, asked) < page_size or not vanished:
        return frozenset()
    if granularity == "page":
        return frozenset(vanished)
    last = [ends for names, parent in nodes if (ends := _last_victim(names, parent, vanished))]
    if asked > 0 and any(freed - len(names) * page_size < asked for names in last):
        return frozenset()
    return frozenset(name for names in last for name in names)


def _last_victim(names: Sequence[Name], parent: Name, vanished: Collection[Name]) -> Sequence[Name]:
    """The victims of a node, all of it or its end, where what is above them stayed."""
    kept = next((at for at, name in enumerate(names) if name in vanished), len(names))
    above = names[kept - 1] if kept else parent
    return () if above in vanished else names[kept:]
