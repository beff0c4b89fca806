"""Elementary effects: the ways in which a state can change, each by itself.

Every call amounts to a few of these (:mod:`kvlitmus.spec.prefix.advance`), and the reference chooses among them.  They are pure
functions from a value to the value after it.  On the tree: :func:`touch`, :func:`split`, :func:`place`, :func:`remove`,
:func:`move`, :func:`lock`, and :func:`insert`, which is made of them.  On two tiers:
:func:`demote`, :func:`promote`.  Of what nobody says: :func:`blur`.  On what is owned: :func:`take`, :func:`release`.  On what slots hold:
:func:`write`.

A bug here is invisible to a comparison of two caches that share it.  What shows it instead; each of these is given
mutants in ``tests/spec/prefix/test_effects.py``:

* ``touch``, ``split``, ``place``, ``insert``, ``lock``, ``cached_prefix``: the specimen keeps its own counts and nodes;
  under the judge TREE-02, TREE-08, TREE-09, TREE-13, TREE-14, LOCK-02, LOCK-04 and EVICT-05 hold them against these, and
  beside the reference its nodes are compared with the reference's;
* ``demote``, ``promote``: the specimen's nodes live on through the tiers; under the judge TREE-13, TREE-14,
  TREE-13 and TREE-14 hold them against these, and beside the reference they are compared with the reference's;
* ``take``, ``release``: what is free, cached and owned must add up on the specimen (POOL-12, POOL-14);
* ``write``: the specimen's slots hold what was written there by the caller's own account (TREE-03, REQ-01);
* ``remove``, ``leaves``: the reference evicts with these, the specimen doesn't, and their victims are compared; without
  snapshots ``remove`` is what keeps the judge from accusing the specimen;
* ``move``, ``blur``, ``path``, ``node_of``, ``nodes``, ``whole_nodes``, ``below``: a law that is stated in that test once more, on small trees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kvlitmus.spec.prefix.page import Page, Tier, copy_of
from kvlitmus.spec.words.units import Name, PageNo, Pages, Slot, Tick


def touch(
    tree: Tier, names: Iterable[Name], *, hits: int = 0, priority: int | None = None, now: Tick | None = None
) -> Tier:
    """Note a use of these cached pages: all at the same tick, so that a parent is never older than its child.

    ``now``: the tick, where they were used together with what is on another tier.
    """
    now = Tick(tree.clock + 1) if now is None else now
    pages = dict(tree.pages)
    for name in names:
        old = pages[name]
        worth = old.priority if priority is None or priority <= old.priority else priority
        pages[name] = Page(
            old.parent, old.page, now, old.created, old.hits + hits, worth, old.locks, old.first, old.undated
        )
    return Tier(pages, now, tree.doubt)


def split(tree: Tier, name: Name, *, renews: bool = False) -> Tier:
    """End a node at this page: the pages after it begin nodes of their own (TREE-04).

    Nothing else changes, except that in some caches the upper half counts as created now (``renews``).
    """
    cut = {
        child: page._replace(first=True) for child, page in tree.pages.items() if page.parent == name and not page.first
    }
    if cut and renews:
        cut |= {upper: tree.pages[upper]._replace(created=tree.clock) for upper in node_of(tree, name)}
    return Tier({**tree.pages, **cut}, tree.clock, tree.doubt) if cut else tree


def place(
    tree: Tier, parent: Name, names: Sequence[Name], pages: Sequence[PageNo], *, hits: int = 0, priority: int = 0
) -> Tier:
    """Cache these pages below ``parent``, in order, as one node that was created now."""
    placed = dict(tree.pages)
    first = True
    for name, page in zip(names, pages, strict=True):
        placed[name] = Page(parent, page, tree.clock, tree.clock, hits, priority, 0, first)
        parent, first = name, False
    return Tier(placed, tree.clock, tree.doubt)


def remove(tree: Tier, names: Collection[Name]) -> Tier:
    """These pages are not cached any more."""
    return Tier({name: page for name, page in tree.pages.items() if name not in names}, tree.clock, tree.doubt)


def move(tree: Tier, places: Mapping[Name, PageNo]) -> Tier:
    """These cached pages are elsewhere."""
    pages = dict(tree.pages)
    for name, page in places.items():
        pages[name] = pages[name]._replace(page=page)
    return Tier(pages, tree.clock, tree.doubt)


def demote(device: Tier, host: Tier, names: Collection[Name]) -> tuple[Tier, Tier]:
    """These pages leave the device; on the host, where their copies are, everything else about them lives on (TREE-05).

    They are the ends of branches.  A node begins where they were cut off.
    """
    pages = dict(host.pages)
    for name in names:
        old, copy = device.pages[name], pages[name]
        first = old.first or old.parent not in names
        pages[name] = old._replace(page=copy.page, locks=copy.locks, first=first)
    return remove(device, names), Tier(pages, host.clock, host.doubt)


def promote(device: Tier, host: Tier, names: Collection[Name], *, counts: bool = True) -> tuple[Tier, Tier]:
    """These pages, which the host has, were just placed on the device: what was known of them is known of them there.

    They were created when they were, and begin nodes where they did; their hits add up, unless coming back doesn't
    count, and priority never falls (TREE-14).
    """
    pages, copies = dict(device.pages), dict(host.pages)
    for name in names:
        new, old = pages[name], copies[name]
        hits, priority = old.hits + new.hits * counts, max(old.priority, new.priority)
        unsure = old.unsure and old.touched == new.touched
        pages[name] = new._replace(
            created=old.created, hits=hits, priority=priority, first=old.first, undated=old.undated, unsure=unsure
        )
        copies[name] = copy_of(old.parent, old.page, old.locks)
    return Tier(pages, device.clock, device.doubt), Tier(copies, host.clock, host.doubt)


def blur(tree: Tier, names: Iterable[Name]) -> Tier:
    """These pages, those of them that are cached, were used or not: nobody says."""
    unsure = {name: tree.pages[name]._replace(unsure=True) for name in names if name in tree.pages}
    return Tier({**tree.pages, **unsure}, tree.clock, tree.doubt) if unsure else tree


def lock(tree: Tier, name: Name, by: int = 1) -> Tier:
    """Protect the path from the root to this page once more, or once less (LOCK-01, LOCK-03, LOCK-04)."""
    pages = dict(tree.pages)
    while name in pages:
        old = pages[name]
        locks = old.locks + by
        pages[name] = Page(
            old.parent,
            old.page,
            old.touched,
            old.created,
            old.hits,
            old.priority,
            locks,
            old.first,
            old.undated,
            old.unsure,
        )
        name = old.parent
    return Tier(pages, tree.clock, tree.doubt)


def insert(
    tree: Tier,
    root: Name,
    names: Sequence[Name],
    offered: Sequence[PageNo],
    *,
    counts: bool = True,
    priority: int = 0,
    renews: bool = False,
) -> tuple[Tier, Pages]:
    """Cache the missing pages of a key in the pages offered; returns how many were cached before (TREE-08, TREE-09).

    ``root`` is the name of the key's namespace.  Existing pages win over offered ones.  A use is
    counted on the whole path where ``counts`` says so, which a chunk of the same request does not
    (TREE-13): new pages begin with one hit then, else with none.  Priority never falls (TREE-14); see :func:`split` for
    ``renews``.
    """
    already = cached_prefix(tree, names)
    tree = touch(tree, names[:already], hits=int(counts), priority=priority)
    if already:
        tree = split(tree, names[already - 1], renews=renews)
    if already == len(names):
        return tree, already
    parent = names[already - 1] if already else root
    return place(tree, parent, names[already:], offered[already:], hits=int(counts), priority=priority), already


def take(owners: Mapping[PageNo, int], pages: Iterable[PageNo]) -> Mapping[PageNo, int]:
    """Somebody owns these pages from now on; the mapping says how many do, and leaves out those that nobody does."""
    taken = dict(owners)
    for page in pages:
        taken[page] = taken.get(page, 0) + 1
    return taken


def release(owners: Mapping[PageNo, int], pages: Iterable[PageNo]) -> Mapping[PageNo, int]:
    """One that owned these pages does not any more."""
    left = dict(owners)
    for page in pages:
        if left.get(page, 0) > 1:
            left[page] -= 1
        else:
            left.pop(page, None)
    return left


def write(contents: Mapping[Slot, Name], slots: Sequence[Slot], names: Sequence[Name]) -> Mapping[Slot, Name]:
    """KV was written into these slots; raises ``ValueError`` when there isn't one name for each."""
    written = dict(contents)
    written.update(zip(slots, names, strict=True))
    return written


# What effects ask of the tree


def cached_prefix(tree: Tier, names: Sequence[Name]) -> Pages:
    """How many of a key's pages are cached, from the first one on (TREE-02)."""
    length = 0
    for name in names:
        if name not in tree.pages:
            break
        length += 1
    return Pages(length)


def whole_nodes(tree: Tier, names: Sequence[Name]) -> Pages:
    """How many of these cached pages of one path are in nodes that the path covers to their end."""
    inside = {page.parent for page in tree.pages.values() if not page.first}
    return Pages(max((at for at, name in enumerate(names, 1) if name not in inside), default=0))


def path(tree: Tier, name: Name) -> tuple[Name, ...]:
    """The cached pages from the root to this one, in order."""
    names: list[Name] = []
    while name in tree.pages:
        names.append(name)
        name = tree.pages[name].parent
    return tuple(reversed(names))


def leaves(tree: Tier) -> list[Name]:
    """The cached pages without a cached child."""
    parents = {page.parent for page in tree.pages.values()}
    return [name for name in tree.pages if name not in parents]


def node_of(tree: Tier, leaf: Name) -> tuple[Name, ...]:
    """The pages of the node that ends with this leaf, last page first."""
    names = [leaf]
    while not tree.pages[names[-1]].first:
        names.append(tree.pages[names[-1]].parent)
    return tuple(names)


def nodes(tree: Tier) -> list[tuple[tuple[Name, ...], Name]]:
    """All nodes: the names of their pages in order, and the name of the page (or root) above the first."""
    follows: dict[Name, Name] = {}
    heads: list[Name] = []
    for name, page in tree.pages.items():
        if page.first or page.parent not in tree.pages:
            heads.append(name)
        else:
            follows[page.parent] = name
    found = []
    for head in heads:
        names = [head]
        while names[-1] in follows:
            names.append(follows[names[-1]])
        found.append((tuple(names), tree.pages[head].parent))
    return found


def below(tree: Tier, names: Collection[Name]) -> set[Name]:
    """These pages and everything cached below them."""
    lost = set(names)
    while True:
        more = {name for name, page in tree.pages.items() if page.parent in lost and name not in lost}
        if not more:
            return lost
        lost |= more
