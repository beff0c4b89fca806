"""What is on which tier: matching over both, evicting from each.

The pages of a path are, from the root on, first *resident* ones (on the device, with a host copy or without),
then pages on the host alone.  Matching sees all of them and uses all of them; only the resident ones have
slots to compute with.

**Evicting from the device** takes leaves among the resident pages.  A page with a host copy is *demoted*: its
device slots are free, and everything else about it lives on.  A page without one is deleted; under write-back
it is first copied to the host, within the call, and where the host has no room it stays.

**Evicting from the host** takes pages that are there alone, that nothing hangs below and nothing is pinned
to.  A page that is resident too keeps its host copy: dropping it would gain little and lose the backup.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kvlitmus.reference import cache as caches
from kvlitmus.reference import pool as pools
from kvlitmus.reference import tree as trees
from kvlitmus.reference.cache import Cache
from kvlitmus.reference.hierarchy import (
    DEVICE,
    NOWHERE,
    WRITE_BACK,
    Hierarchy,
    HostCopy,
    Moved,
)
from kvlitmus.reference.policy import POLICIES
from kvlitmus.reference.put import start_puts
from kvlitmus.reference.tree import Page
from kvlitmus.spec.prefetch_plan import deficit
from kvlitmus.spec.units import Name, PageNo, Pages, Tick, Tokens, pages_needed

# -- looking ----------------------------------------------------------------------------------------------


def known_prefix(now: Hierarchy, names: Sequence[Name]) -> tuple[Pages, Pages]:
    """How many of a key's pages are resident, and how many follow on the host alone."""
    resident, alone = now.cache.tree.pages, now.host.alone
    there = 0
    while there < len(names) and names[there] in resident:
        there += 1
    behind = there
    while behind < len(names) and names[behind] in alone:
        behind += 1
    return Pages(there), Pages(behind - there)


def match(now: Hierarchy, names: Sequence[Name], units: int) -> tuple[Hierarchy, tuple[PageNo, ...], Pages]:
    """The device pages of the longest resident prefix, and how many pages follow on the host alone.

    All of them were used now, at the same tick.
    """
    cache, pages = caches.match(now.cache, names, units)
    limit = caches.match_limit(cache.settings, units, cache.pool.page_size)
    _, behind = known_prefix(now, names[:limit])
    now = now._replace(cache=cache)
    if not behind:
        return now, pages, behind
    counts = int(cache.settings.hit_counts == "match")
    alone = dict(now.host.alone)
    for name in names[len(pages) : len(pages) + behind]:
        alone[name] = _used(alone[name], cache.tree.clock, counts)
    return now._replace(host=now.host._replace(alone=alone)), pages, behind


def adopt(now: Hierarchy, cache: Cache, names: Sequence[Name]) -> Hierarchy:
    """The hierarchy after an insert made its device side ``cache``: pages that were on the host alone are resident too.

    They have taken the caller's slots, and keep what was known of them; whether the insert that brings a page back
    is counted as a hit is a choice.
    """
    alone = now.host.alone
    back = [name for name in names if name in alone]
    if not back:
        return now._replace(cache=cache)
    pages = dict(cache.tree.pages)
    for name in back:
        new = pages[name]
        pages[name] = _remembered(new, alone[name], new.hits if now.choices.restored_counts else 0)
    left = {name: page for name, page in alone.items() if name not in pages}
    return now._replace(cache=cache._replace(tree=cache.tree._replace(pages=pages)), host=now.host._replace(alone=left))


def path(now: Hierarchy, name: Name) -> tuple[Name, ...]:
    """The pages from the root to this one, in order, on whichever tier."""
    resident, alone = now.cache.tree.pages, now.host.alone
    names: list[Name] = []
    page = resident.get(name) or alone.get(name)
    while page is not None:
        names.append(name)
        name = page.parent
        page = resident.get(name) or alone.get(name)
    return tuple(reversed(names))


def use(now: Hierarchy, names: Sequence[Name]) -> Hierarchy:
    """Note a use of these pages, on whichever tier, all at the same tick."""
    resident = now.cache.tree.pages
    tree = trees.touch(now.cache.tree, [name for name in names if name in resident])
    alone = dict(now.host.alone)
    for name in names:
        if name in alone:
            alone[name] = _used(alone[name], tree.clock, 0)
    return now._replace(cache=now.cache._replace(tree=tree), host=now.host._replace(alone=alone))


def _used(page: Page, tick: Tick, hits: int) -> Page:
    return page._replace(touched=tick, hits=page.hits + hits)


def _remembered(new: Page, old: Page, hits: int) -> Page:
    return new._replace(created=old.created, hits=old.hits + hits, priority=max(new.priority, old.priority))


# -- the host's memory ------------------------------------------------------------------------------------


def allocate(now: Hierarchy, pages: int) -> tuple[Hierarchy, tuple[PageNo, ...] | None]:
    """Host pages, or ``None`` when too few are free or when a fault says so."""
    host = now.host
    if host.fault is not None:
        now = now._replace(host=host._replace(fault=host.fault - 1 if host.fault else None))
        if not host.fault:
            return now, None
    taken = pools.allocate(host.pool, Tokens(pages * host.pool.page_size))
    if taken is None:
        return now, None
    return now._replace(host=now.host._replace(pool=taken[0])), taken[1]


def allocate_or_evict(now: Hierarchy, pages: int) -> tuple[Hierarchy, tuple[PageNo, ...] | None]:
    """Host pages; where there are too few, what lacks is evicted, once, and the allocation tried again."""
    now, got = allocate(now, pages)
    if got is not None:
        return now, got
    size = now.host.pool.page_size
    lacking = deficit(pages * size, pools.available(now.host.pool), size)
    now, _ = evict_host(now, Pages(lacking // size))
    return allocate(now, pages)


def free(now: Hierarchy, pages: Sequence[PageNo]) -> Hierarchy:
    """Take host pages back."""
    return now._replace(host=now.host._replace(pool=pools.release(now.host.pool, pages))) if pages else now


def back(now: Hierarchy, names: Sequence[Name], pages: Sequence[PageNo], *, settled: bool, stored: bool) -> Hierarchy:
    """Give these pages host copies in these host pages."""
    copies = {name: HostCopy(page, 0, settled, stored) for name, page in zip(names, pages, strict=True)}
    return now._replace(host=now.host._replace(copies={**now.host.copies, **copies}))


# -- eviction ---------------------------------------------------------------------------------------------


def least_valuable(pages: Mapping[Name, Page], policy: str, spared: Collection[Name] = ()) -> Name | None:
    """The leaf that the policy would evict first, the name breaking ties; ``None`` when all are spared or locked."""
    worth = POLICIES[policy]
    inner = {page.parent for page in pages.values()}
    ranked = [
        (*worth(page), name)
        for name, page in pages.items()
        if not page.locks and name not in inner and name not in spared
    ]
    return Name(min(ranked)[-1]) if ranked else None


def evict(
    now: Hierarchy, asked: Tokens, choice: Sequence[Name] | None = None
) -> tuple[Hierarchy, Tokens, tuple[Name, ...]]:
    """Make room for ``asked`` device slots; how many became free, and the pages that left the device, in order.

    Backed leaves are demoted, others deleted; under write-back these are copied to the host first, and where that
    fails they stay and are passed over.  The choice is which pages go, all of which must be able to.
    """
    size = now.cache.pool.page_size
    victims: list[Name] = []
    passed: set[Name] = set()
    wanted = pages_needed(asked, size) if choice is None else Pages(len(choice))
    policy = now.cache.settings.eviction.policy
    while len(victims) < wanted:
        leaf = least_valuable(now.cache.tree.pages, policy, passed) if choice is None else choice[len(victims)]
        if leaf is None:
            break
        if leaf not in now.host.copies and now.choices.write == WRITE_BACK:
            now = write_back(now, leaf)
            if leaf not in now.host.copies:
                if choice is not None:
                    raise ValueError(f"page {leaf} can't leave the device: the host has no room for it", leaf)
                passed.add(leaf)
                continue
        now = leave_device(now, leaf)
        victims.append(leaf)
    return now, Tokens(len(victims) * size), tuple(victims)


def leave_device(now: Hierarchy, name: Name) -> Hierarchy:
    """Free a leaf's device slots: it is demoted if it has a host copy, else gone."""
    page = now.cache.tree.pages[name]
    cache, _ = caches.evict(now.cache, Tokens(now.cache.pool.page_size), (name,))
    host = now.host
    if name in host.copies:
        host = host._replace(alone={**host.alone, name: page._replace(page=NOWHERE)})
    return now._replace(cache=cache, host=host)


def write_back(now: Hierarchy, name: Name) -> Hierarchy:
    """Copy a page to the host within this call; nothing happens when the host has no room for it."""
    now, pages = allocate_or_evict(now, 1)
    if pages is None:
        return now
    move = Moved(DEVICE, now.cache.tree.pages[name].page, pages[0])
    now = back(now, [name], pages, settled=True, stored=False)
    return start_puts(now._replace(moved=(*now.moved, move)), [name])


def evict_host(now: Hierarchy, wanted: Pages) -> tuple[Hierarchy, Tokens]:
    """Delete pages that are on the host alone, childless and unpinned, until ``wanted`` host pages became free.

    Returns how many slots became free; fewer where there is no more.
    """
    host = now.host
    alone, copies, freed = dict(host.alone), dict(host.copies), list[PageNo]()
    policy = now.cache.settings.eviction.policy
    while len(freed) < wanted:
        pinned = [name for name in alone if copies[name].pins]
        name = least_valuable(alone, policy, pinned)
        if name is None:
            break
        del alone[name]
        freed.append(copies.pop(name).page)
    now = now._replace(host=host._replace(alone=alone, copies=copies))
    return free(now, freed), Tokens(len(freed) * host.pool.page_size)
