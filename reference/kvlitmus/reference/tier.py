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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kvlitmus.reference import pool as pools
from kvlitmus.reference.hierarchy import DEVICE, NOWHERE, Hierarchy, HostCopy, Moved, Transfer, begins
from kvlitmus.reference.put import start_puts
from kvlitmus.spec import effects
from kvlitmus.spec.advance import matched
from kvlitmus.spec.interface.tiers import SPILL, SPILLED
from kvlitmus.spec.policies import WRITE_BACK, Worth, worth
from kvlitmus.spec.state import Page, State
from kvlitmus.spec.units import Name, PageNo, Pages, Tokens, pages_needed

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

    All of them were used now, at the same tick.  Where a match leaves a unit to compute it covers fewer pages than are
    cached; see :func:`match_all`.
    """
    setting, resident = now.setting, now.cache.tree.pages
    there, behind = known_prefix(now, names[: setting.cap(units) // setting.size])
    pages = tuple([resident[name].page for name in names[:there]])
    tree = matched(now.cache.tree, setting, names[:there])
    now = now._replace(cache=now.cache._replace(tree=tree))
    if not behind:
        return now, pages, behind
    counts = int(setting.profile.hit_counts == "match")
    now = use_alone(now, names[len(pages) : len(pages) + behind], counts)
    return cut(now, names[len(pages) + behind - 1]), pages, behind


def match_all(now: Hierarchy, names: Sequence[Name]) -> tuple[Hierarchy, tuple[PageNo, ...], Pages]:
    """As :func:`match`, and everything that is cached: what is moved between tiers need not be computed."""
    return match(now, names, len(names) * now.setting.size + 1)


def use_alone(now: Hierarchy, names: Iterable[Name], hits: int = 0) -> Hierarchy:
    """Note a use of these pages, all on the host alone, at the present tick."""
    alone, tick = dict(now.host.alone), now.cache.tree.clock
    for name in names:
        alone[name] = alone[name]._replace(touched=tick, hits=alone[name].hits + hits)
    return now._replace(host=now.host._replace(alone=alone))


def cut(now: Hierarchy, name: Name) -> Hierarchy:
    """End a node at this page, on whichever tier it is: see :func:`kvlitmus.spec.effects.split`."""
    marks = {
        child: page._replace(first=True)
        for child, page in now.host.alone.items()
        if page.parent == name and not page.first
    }
    if marks:
        now = now._replace(host=now.host._replace(alone={**now.host.alone, **marks}))
    if name not in now.cache.tree.pages:
        return now
    return now._replace(cache=now.cache._replace(tree=effects.split(now.cache.tree, name)))


def adopt(now: Hierarchy, cache: State, names: Sequence[Name]) -> Hierarchy:
    """The hierarchy after an insert made its device side ``cache``: pages that were on the host alone are resident too.

    They have taken the caller's slots, and keep what was known of them; whether the insert that brings a page back
    is counted as a hit is a choice.
    """
    alone = now.host.alone
    back = [name for name in names if name in alone]
    if not back:
        return now._replace(cache=cache)
    now = cut(now, back[-1])
    pages, left = dict(cache.tree.pages), dict(now.host.alone)
    for name in back:
        new, old = pages[name], left.pop(name)
        hits = old.hits + (new.hits if now.choices.restored_counts else 0)
        priority = max(new.priority, old.priority)
        pages[name] = new._replace(created=old.created, hits=hits, priority=priority, first=old.first)
    for name in names[names.index(back[-1]) + 1 :][:1]:
        pages[name] = pages[name]._replace(first=True)
    tree = cache.tree._replace(pages=pages)
    return now._replace(cache=cache._replace(tree=tree), host=now.host._replace(alone=left))


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
    now, _ = evict_host(now, Pages(pages - len(now.host.pool.free)))
    return allocate(now, pages)


def free(now: Hierarchy, pages: Sequence[PageNo]) -> Hierarchy:
    """Take host pages back."""
    return now._replace(host=now.host._replace(pool=pools.release(now.host.pool, pages))) if pages else now


def back(now: Hierarchy, names: Sequence[Name], pages: Sequence[PageNo], *, settled: bool, stored: bool) -> Hierarchy:
    """Give these pages host copies in these host pages."""
    copies = {name: HostCopy(page, 0, settled, stored) for name, page in zip(names, pages, strict=True)}
    return now._replace(host=now.host._replace(copies={**now.host.copies, **copies}))


def unback(now: Hierarchy, names: Sequence[Name]) -> Hierarchy:
    """Take the host copies of these pages, all resident, away."""
    gone = [now.host.copies[name].page for name in names]
    copies = {name: copy for name, copy in now.host.copies.items() if name not in names}
    return free(now._replace(host=now.host._replace(copies=copies)), gone)


def again(now: Hierarchy, failed: Transfer) -> Hierarchy:
    """Begin a copy that failed once more, behind all others; where it can't begin it is left for the next tick."""
    now, can = begins(now, failed.kind)
    if can:
        now = now._replace(serial=now.serial + 1)
        failed = Transfer(now.serial, failed.kind, failed.names)
    return now._replace(transfers=(*now.transfers, failed))


# -- eviction ---------------------------------------------------------------------------------------------


def value_of(now: Hierarchy) -> Callable[[Page], Worth]:
    """What a page is worth to this hierarchy."""
    return worth(now.setting.config.policy, now.setting.profile.slru_hits)


def first_to_go(
    pages: Mapping[Name, Page], value: Callable[[Page], Worth], spared: Collection[Name] = ()
) -> Name | None:
    """The leaf that the policy would evict first, the name breaking ties; ``None`` when all are spared or locked."""
    inner = {page.parent for page in pages.values()}
    ranked = [
        (*value(page), name)
        for name, page in pages.items()
        if not page.locks and name not in inner and name not in spared
    ]
    return Name(min(ranked)[-1]) if ranked else None


def tail(pages: Mapping[Name, Page], leaf: Name, most: int, granularity: str) -> tuple[Name, ...]:
    """The pages that go together when this leaf goes, last page first: of its node, ``most`` pages or all of them."""
    names = [leaf]
    while not pages[names[-1]].first and (granularity == "node" or len(names) < most):
        names.append(pages[names[-1]].parent)
    return tuple(names)


def evict(
    now: Hierarchy, asked: Tokens, choice: Sequence[Name] | None = None
) -> tuple[Hierarchy, Tokens, tuple[Name, ...]]:
    """Make room for ``asked`` device slots; how many became free, and the pages that left the device, in order.

    Backed leaves are demoted, others deleted; under write-back these are copied to the host first, and where that
    fails they stay and are passed over.  The choice is which pages go, all of which must be able to.
    """
    size, granularity, value = now.setting.size, now.setting.profile.evict_granularity, value_of(now)
    victims: list[Name] = []
    passed: set[Name] = set()
    wanted = pages_needed(asked, size) if choice is None else Pages(len(choice))
    while len(victims) < wanted:
        resident = now.cache.tree.pages
        leaf = first_to_go(resident, value, passed) if choice is None else choice[len(victims)]
        if leaf is None:
            break
        run = (leaf,) if choice is not None else tail(resident, leaf, wanted - len(victims), granularity)
        if leaf not in now.host.copies and now.choices.write == WRITE_BACK:
            now, run = write_back(now, run)
            if not run:
                passed.add(leaf)
                if choice is not None:
                    raise ValueError(f"page {leaf} can't leave the device: the host has no room for it", leaf)
                continue
        now = leave_device(now, run)
        victims += run
    return now, Tokens(len(victims) * size), tuple(victims)


def leave_device(now: Hierarchy, run: Sequence[Name]) -> Hierarchy:
    """Free the device slots of the end of a branch, last page first: it is demoted if it has host copies, else gone."""
    resident, host = now.cache.tree.pages, now.host
    cache = now.cache._replace(tree=effects.remove(now.cache.tree, run))
    if run[0] in host.copies:
        demoted = {name: resident[name]._replace(page=NOWHERE) for name in run}
        demoted[run[-1]] = demoted[run[-1]]._replace(first=True)
        host = host._replace(alone={**host.alone, **demoted})
    return now._replace(cache=cache, host=host)


def write_back(now: Hierarchy, run: Sequence[Name]) -> tuple[Hierarchy, tuple[Name, ...]]:
    """Copy the end of a branch, last page first, to the host within this call; which of it there was room for.

    Where there isn't room for all of it, the last pages go; of a node that must go as one, none do.  Where the copy
    fails, nothing of it is on the host, and all of it stays.
    """
    now, pages = allocate_or_evict(now, len(run))
    if pages is None and now.setting.profile.evict_granularity == "page":
        now, pages = allocate(now, min(len(run), len(now.host.pool.free)))
    if not pages:
        return now, ()
    for stage in (SPILL, SPILLED):
        now, can = begins(now, stage)
        if not can:
            return free(now, pages), ()
    names = tuple(reversed(run[: len(pages)]))
    resident = now.cache.tree.pages
    moved = [Moved(DEVICE, resident[name].page, page) for name, page in zip(names, pages, strict=True)]
    now = back(now, names, pages, settled=True, stored=False)
    return start_puts(now._replace(moved=(*now.moved, *moved)), names), tuple(reversed(names))


def evict_host(now: Hierarchy, wanted: Pages) -> tuple[Hierarchy, Tokens]:
    """Delete pages that are on the host alone, childless and unpinned, until ``wanted`` host pages became free.

    Returns how many slots became free; fewer where there is no more.
    """
    host, value = now.host, value_of(now)
    alone, copies, freed = dict(host.alone), dict(host.copies), list[PageNo]()
    pinned = {name for name in alone if copies[name].pins}
    while len(freed) < wanted:
        leaf = first_to_go(alone, value, pinned)
        if leaf is None:
            break
        for name in tail(alone, leaf, wanted - len(freed), now.setting.profile.evict_granularity):
            if name in pinned:
                break
            del alone[name]
            freed.append(copies.pop(name).page)
    if not freed:
        return now, Tokens(0)
    now = now._replace(host=host._replace(alone=alone, copies=copies))
    return free(now, freed), Tokens(len(freed) * host.pool.page_size)
