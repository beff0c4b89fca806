"""Ways to bring foreign effects about, on the specimen's own lists: each correct in itself, and nobody asked for it.

:data:`DISTURBANCES` has for each effect the ways to bring it about, :data:`WRONG_SUBJECTS` those in which it happens to
what no call may do it to on its own: what is locked, held, or of another tenant; another request's pages; a sibling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.prefix.tree import Node
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from kvlitmus.spec.law.actions import What
from kvlitmus.spec.words.units import Key

FOREIGN = 77_777
"""A token that no schedule draws."""

Disturb = Callable[[Any], bool]
"""Bring an effect about; whether that could be done."""


def nodes(cache: Any) -> Iterator[Any]:
    """All nodes of the tree, parents first; oldest use first within a parent."""
    stack = list(cache.tree.roots.values())
    while stack:
        node = stack.pop(0)
        children = sorted(node.children.values(), key=recency)
        yield from children
        stack += children


def recency(node: Node) -> tuple[int, int]:
    """What puts nodes into the order in which they were used."""
    return node.touched, node.serial


def works_of(node: Node) -> list[int]:
    """The host pages of a node; none in a flat cache."""
    return node.host if isinstance(node, TieredNode) else []


def path_units(node: Node) -> tuple[Any, ...]:
    """The units of the whole prefix that a node ends."""
    units: tuple[Any, ...] = ()
    at: Node | None = node
    while at is not None:
        units = at.key + units
        at = at.parent
    return units


def place(cache: Any) -> bool:
    """A page that nobody inserted is cached in a free page."""
    units = ((FOREIGN, FOREIGN) if cache.config.bigram else FOREIGN,) * cache.config.page_size
    root = cache.tree.root(None)
    pages = None if cache.tree.child_key(units) in root.children else cache.pool.take(1)
    if pages is None:
        return False
    cache.tree.add_leaf(root, units, pages)
    return True


def restore(cache: Any) -> bool:
    """A page on the host alone is copied to the device, without a job."""
    for node in nodes(cache):
        if works_of(node) and not node.pages and (node.parent.pages or node.parent.parent is None):
            pages = cache.pool.take(len(node.host))
            if pages is None:
                continue
            cache.copier.to_device(node.host, pages)
            cache.tree.restore(node, pages)
            return True
    return False


def evictable(cache: Any, *, hosted: bool) -> list[Any]:
    """Unlocked leaves of the device with or without a host copy, the least recently used first."""
    found = [leaf for leaf in cache.tree.leaves if leaf.pages and bool(works_of(leaf)) == hosted]
    return sorted(found, key=recency)


def trim(cache: Any, leaf: Any) -> None:
    """The last page of a leaf without a host copy is gone."""
    if isinstance(cache, TieredSpecimen):
        cache.tree.drop(leaf, 1)
    else:
        cache.tree.trim(leaf, 1)


def evict_oldest(cache: Any) -> bool:
    """The last page of the leaf that was used least recently is gone."""
    leaves = evictable(cache, hosted=False)
    if leaves:
        trim(cache, leaves[0])
    return bool(leaves)


def evict_newest(cache: Any) -> bool:
    """The last page of the leaf that was used most recently is gone."""
    leaves = evictable(cache, hosted=False)
    if leaves:
        trim(cache, leaves[-1])
    return bool(leaves)


def evict_all(cache: Any) -> bool:
    """Everything without a lock or a host copy leaves the device."""
    done = False
    while evict_oldest(cache):
        done = True
    return done


def demote_oldest(cache: Any) -> bool:
    """The last page of the backed leaf that was used least recently leaves the device."""
    leaves = evictable(cache, hosted=True)
    if leaves:
        cache.tree.demote(leaves[0], 1)
    return bool(leaves)


def demote_newest(cache: Any) -> bool:
    """The last page of the backed leaf that was used most recently leaves the device."""
    leaves = evictable(cache, hosted=True)
    if leaves:
        cache.tree.demote(leaves[-1], 1)
    return bool(leaves)


def demote_all(cache: Any) -> bool:
    """Everything that is backed and without a lock leaves the device."""
    done = False
    while demote_oldest(cache):
        done = True
    return done


def move(cache: Any) -> bool:
    """A cached page is copied to another page of the device."""
    for node in nodes(cache):
        pages = cache.pool.take(1) if node.pages else None
        if pages is not None:
            if isinstance(cache, TieredSpecimen):
                cache.copier.copy(cache.copier.device, node.pages[-1:], cache.copier.device, pages)
            cache.pool.give_back(node.pages[-1:])
            node.pages = [*node.pages[:-1], *pages]
            return True
    return False


def take(cache: Any) -> bool:
    """A free page of the device is nobody's."""
    return cache.pool.take(1) is not None


def release_cached(cache: Any) -> bool:
    """A page that is cached is free, too."""
    for node in nodes(cache):
        if node.pages and cache.pool.group is None:
            cache.pool.give_back(node.pages[-1:])
            return True
    return False


def release_owned(cache: Any) -> bool:
    """A page that a request owns is free, too."""
    if cache.pool.group is not None:
        return False
    size = cache.config.page_size
    for running in cache.requests.running.values():
        own = [slot // size for slot in running.row[running.cached :: size]]
        if own and not cache.pool.is_free[own[0]]:
            cache.pool.give_back(own[:1])
            return True
    return False


def back(cache: Any) -> bool:
    """A page gets a host copy, without a job."""
    for node in nodes(cache):
        above = node.parent
        if node.pages and not node.host and (above.parent is None or above.host):
            pages = cache.host.take(len(node.pages))
            if pages is None:
                continue
            cache.copier.to_host(node.pages, pages)
            node.host = pages
            return True
    return False


def host_leaves(cache: Any) -> list[Any]:
    """What may leave the host, the least recently used first."""
    return sorted(cache.tree.host_leaves, key=recency)


def drop_oldest(cache: Any) -> bool:
    """The last page of what is on the host alone and was used least recently is gone."""
    leaves = host_leaves(cache)
    if leaves:
        cache.tree.trim_host(leaves[0], 1)
    return bool(leaves)


def drop_newest(cache: Any) -> bool:
    """The last page of what is on the host alone and was used most recently is gone."""
    leaves = host_leaves(cache)
    if leaves:
        cache.tree.trim_host(leaves[-1], 1)
    return bool(leaves)


def drop_all(cache: Any) -> bool:
    """Everything that is on the host alone is gone."""
    done = False
    while drop_oldest(cache):
        done = True
    return done


def drop_copy(cache: Any) -> bool:
    """A page that is on the device too loses its host copy."""
    for node in nodes(cache):
        below = any(child.host for child in node.children.values())
        if node.pages and node.host and not node.pins and not node.works and not below:
            pages, node.host = node.host, []
            cache.host.give_back(pages)
            return True
    return False


def move_copy(cache: Any) -> bool:
    """A host copy is copied to another page of the host."""
    for node in nodes(cache):
        pages = cache.host.take(1) if node.host and not node.works else None
        if pages is not None:
            cache.copier.copy(cache.copier.host, node.host[-1:], cache.copier.host, pages)
            cache.host.give_back(node.host[-1:])
            node.host = [*node.host[:-1], *pages]
            return True
    return False


def host_take(cache: Any) -> bool:
    """A free page of the host is nobody's."""
    return cache.host.take(1) is not None


def host_release(cache: Any) -> bool:
    """A page with a host copy in it is free, too."""
    for node in nodes(cache):
        if node.host:
            cache.host.give_back(node.host[-1:])
            return True
    return False


def host_release_early(cache: Any) -> bool:
    """What a prefetch holds is free, too."""
    pages = list(cache.fetches.holding())[:1]
    if pages and not cache.host.is_free[pages[0]]:
        cache.host.give_back(pages)
        return True
    return False


def pin(cache: Any) -> bool:
    """A host copy is protected once more."""
    for node in nodes(cache):
        if node.host:
            cache.tree.pin(node)
            return True
    return False


def unpin(cache: Any) -> bool:
    """A host copy is protected once less."""
    for node in nodes(cache):
        if node.pins:
            cache.tree.unpin(node)
            return True
    return False


def begin_job(kind: str) -> Disturb:
    """A job of this kind begins that nobody has asked for."""

    def begin(cache: Any) -> bool:
        for node in nodes(cache):
            if node.pages and node.host and not cache.config.bigram:
                units = path_units(node)
                cache.works.add(kind, Key(node.namespace, units), len(units) - len(node.key))
                return True
        return False

    begin.__doc__ = f"A {kind} begins that nobody has asked for."
    return begin


def go_on(cache: Any) -> bool:
    """A job that nobody advances goes on to its end."""
    for work in cache.works.works.values():
        if not work.landed:
            work.landed = True
            return True
    return False


def end_job(cache: Any) -> bool:
    """A job that is under way is listed no more."""
    for work in list(cache.works.works.values()):
        if not work.landed:
            cache.works.remove(work)
            return True
    return False


def ask(cache: Any) -> bool:
    """Storage is asked for a page."""
    if cache.store is None:
        return False
    cache.store.exists(["0" * 64])
    return True


def read(cache: Any) -> bool:
    """A page is read from storage."""
    if cache.store is None:
        return False
    cache.store.get("0" * 64)
    return True


def put(cache: Any) -> bool:
    """A page is put into storage under the name that it has there already."""
    for name, contents in list(getattr(cache.store, "contents", {}).items()):
        cache.store.put(name, contents)
        return True
    return False


FLAT: dict[What, tuple[Disturb, ...]] = {
    What.PLACE: (place,),
    What.EVICT: (evict_oldest, evict_newest, evict_all),
    What.MOVE: (move,),
    What.TAKE: (take,),
    What.RELEASE: (release_cached, release_owned),
}
"""Ways to bring about the effects that any cache can have."""

TIERED: dict[What, tuple[Disturb, ...]] = {
    What.RESTORE: (restore,),
    What.DEMOTE: (demote_oldest, demote_newest, demote_all),
    What.BACK: (back,),
    What.DROP: (drop_oldest, drop_newest, drop_all, drop_copy),
    What.MOVE_COPY: (move_copy,),
    What.HOST_TAKE: (host_take,),
    What.HOST_RELEASE: (host_release, host_release_early),
    What.PIN: (pin,),
    What.UNPIN: (unpin,),
    What.BEGIN_JOB: tuple(begin_job(kind) for kind in ("backup", "load", "query", "fetch", "put")),
    What.GO_ON: (go_on,),
    What.END_JOB: (end_job,),
    What.ASK: (ask,),
    What.READ: (read,),
    What.PUT: (put,),
}
"""Ways to bring about those that only a hierarchy can have."""

DISTURBANCES = {**FLAT, **TIERED}
"""Ways to bring about each effect."""

# -- on the wrong subject --------------------------------------------------------------------------


def leaves(cache: Any, *, hosted: bool) -> list[Any]:
    """Nodes on the device with nothing below them there, with or without a host copy, locked ones too."""
    return [
        node
        for node in nodes(cache)
        if node.pages and bool(works_of(node)) == hosted and not any(child.pages for child in node.children.values())
    ]


def take_off(cache: Any, leaf: Any) -> None:
    """The last page of a leaf leaves the device, locked or not; upkeep as if it had been unlocked."""
    if leaf.locks:
        cache.tree.protected -= len(leaf.key)
        cache.tree.evictable += len(leaf.key)
    locks, leaf.locks = leaf.locks, 0
    if works_of(leaf):
        cache.tree.demote(leaf, 1)
    else:
        trim(cache, leaf)
    leaf.locks = locks if leaf.pages else 0
    if leaf.locks:
        cache.tree.evictable -= len(leaf.key)
        cache.tree.protected += len(leaf.key)
        cache.tree.leaves.discard(leaf)


def take_off_one(*, hosted: bool, locked: bool) -> Disturb:
    """Take the last page of a leaf off the device: one that is locked, or one of another tenant."""

    def disturb(cache: Any) -> bool:
        for leaf in leaves(cache, hosted=hosted):
            if bool(leaf.locks) == locked and (locked or leaf.namespace is not None):
                if works_of(leaf) and leaf.works:
                    continue
                take_off(cache, leaf)
                return True
        return False

    whose = "A leaf that is locked" if locked else "A leaf of another tenant"
    disturb.__doc__ = f"{whose} loses its last page{', which has a host copy' if hosted else ''}."
    return disturb


def drop_held(cache: Any) -> bool:
    """A page on the host alone that work holds is gone."""
    for node in nodes(cache):
        if works_of(node) and not node.pages and node.pins and not node.children:
            cache.tree.trim_host(node, 1)
            return True
    return False


def drop_foreign(cache: Any) -> bool:
    """A page on the host alone of another tenant is gone."""
    for leaf in host_leaves(cache):
        if leaf.namespace is not None:
            cache.tree.trim_host(leaf, 1)
            return True
    return False


def swapped(contents: list[int], size: int, one: int, other: int) -> None:
    """Two pages have each other's contents."""
    mine, yours = slice(one * size, (one + 1) * size), slice(other * size, (other + 1) * size)
    contents[mine], contents[yours] = contents[yours], contents[mine]


def swap(cache: Any) -> bool:
    """Two cached prefixes have each other's page of the device, with its contents."""
    two = [node for node in nodes(cache) if node.pages and not getattr(node, "works", ())][:2]
    if len(two) < 2:
        return False
    one, other = (node.pages[-1] for node in two)
    for node, page in zip(two, (other, one), strict=True):
        node.pages = [*node.pages[:-1], page]
    if isinstance(cache, TieredSpecimen):
        swapped(cache.copier.device, cache.config.page_size, one, other)
    return True


def swap_copies(cache: Any) -> bool:
    """Two prefixes have each other's page of the host, with its contents."""
    two = [node for node in nodes(cache) if works_of(node) and not node.works][:2]
    if len(two) < 2:
        return False
    one, other = (node.host[-1] for node in two)
    for node, page in zip(two, (other, one), strict=True):
        node.host = [*node.host[:-1], page]
    swapped(cache.copier.host, cache.config.page_size, one, other)
    return True


def release_locked(cache: Any) -> bool:
    """A page that is cached and locked is free, too."""
    for node in nodes(cache):
        if node.pages and node.locks and cache.pool.group is None:
            cache.pool.give_back(node.pages[-1:])
            return True
    return False


def release_newest(cache: Any) -> bool:
    """A page of the request that began last is free, too."""
    if cache.pool.group is not None:
        return False
    size = cache.config.page_size
    for running in reversed(list(cache.requests.running.values())):
        own = [slot // size for slot in running.row[running.cached :: size]]
        if own and not cache.pool.is_free[own[-1]]:
            cache.pool.give_back(own[-1:])
            return True
    return False


def lock_sibling(cache: Any) -> bool:
    """A path that the call isn't about is locked."""
    for node in nodes(cache):
        if node.pages and not node.locks:
            cache.tree.lock(node)
            return True
    return False


def unlock_others(cache: Any) -> bool:
    """A path that somebody else holds is unlocked once."""
    for node in nodes(cache):
        if node.pages and node.locks:
            cache.tree.unlock(node)
            return True
    return False


def count_sibling(cache: Any) -> bool:
    """The node that was used least recently has a hit more."""
    found = min(nodes(cache), key=recency, default=None)
    if found is not None:
        found.hits += 1
    return found is not None


def raise_sibling(cache: Any) -> bool:
    """The node that was used least recently has a higher priority."""
    found = min(nodes(cache), key=recency, default=None)
    if found is not None:
        found.priority += 1
    return found is not None


def pin_last(cache: Any) -> bool:
    """The host copy that was used last is protected once more."""
    found = max(
        (node for node in nodes(cache) if node.host), key=lambda node: (node.touched, node.serial), default=None
    )
    if found is not None:
        cache.tree.pin(found)
    return found is not None


def unpin_last(cache: Any) -> bool:
    """The protected host copy that was used last is protected once less."""
    found = max(
        (node for node in nodes(cache) if node.pins), key=lambda node: (node.touched, node.serial), default=None
    )
    if found is not None:
        cache.tree.unpin(found)
    return found is not None


def last_work(kind: str, *, lands: bool) -> Disturb:
    """The job of a kind that began last and is under way lands, or is listed no more."""

    def disturb(cache: Any) -> bool:
        for work in reversed(list(cache.works.works.values())):
            if work.kind == kind and not work.landed:
                if lands:
                    work.landed = True
                else:
                    cache.works.remove(work)
                return True
        return False

    how = "goes on to its end, and nobody advances it" if lands else "is listed no more, and hasn't landed"
    disturb.__doc__ = f"The {kind} that began last {how}."
    return disturb


KINDS = ("backup", "load", "query", "fetch", "put")
"""The kinds of jobs."""

FLAT_WRONG: dict[What, tuple[Disturb, ...]] = {
    What.EVICT: tuple(take_off_one(hosted=False, locked=locked) for locked in (True, False)),
    What.MOVE: (swap,),
    What.RELEASE: (release_locked, release_newest),
    What.LOCK: (lock_sibling,),
    What.UNLOCK: (unlock_others,),
    What.COUNT: (count_sibling,),
    What.RAISE: (raise_sibling,),
}

WRONG_SUBJECTS: dict[What, tuple[Disturb, ...]] = {
    **FLAT_WRONG,
    What.DEMOTE: tuple(take_off_one(hosted=True, locked=locked) for locked in (True, False)),
    What.DROP: (drop_held, drop_foreign),
    What.MOVE_COPY: (swap_copies,),
    What.PIN: (pin_last,),
    What.UNPIN: (unpin_last,),
    What.GO_ON: tuple(last_work(kind, lands=True) for kind in KINDS),
    What.END_JOB: tuple(last_work(kind, lands=False) for kind in KINDS),
}
"""Ways to bring effects about on what the call isn't about, in any cache and in hierarchies."""

LEFT_OUT: dict[What, str] = {
    What.SPLIT: "how pages are grouped into nodes is the cache's own affair",
    What.USE: "how recently a page was used can't be seen; what goes first shows it (EVICT-05)",
    What.TELL: "what events must tell is said by EVENT-01 to EVENT-03",
}
"""Effects that are not brought about, each with the reason."""
