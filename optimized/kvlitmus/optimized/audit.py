"""An audit: whether the counters, sets and heaps of a tree say what counting everything again says.

The rules of upkeep of :mod:`~kvlitmus.optimized.branch`, :mod:`~kvlitmus.optimized.residency`,
:mod:`~kvlitmus.optimized.tree` and :mod:`~kvlitmus.optimized.evict`, written a second time, slowly.  For tests and for
stress runs: it costs what is cached.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from kvlitmus.optimized.arrays import IntArray
from kvlitmus.optimized.branch import DIGEST_BYTES, Branch
from kvlitmus.optimized.evict import Victims
from kvlitmus.optimized.kernels import HEAP, WHERE
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.residency import Residency


def complaints(tree: Residency) -> list[str]:
    """What is wrong with a tree; nothing, if it is well."""
    tree = tree.opened()
    branches = [*tree.roots.values(), *tree.branches()]
    if tree.by_uid != {branch.uid: branch for branch in tree.branches()}:
        return ["by_uid does not have the branches of the tree"]
    if sorted([*tree.by_uid, *tree.free_uids]) != list(range(len(tree.by_uid) + len(tree.free_uids))):
        return ["the numbers of branches are not those in use and those that are free"]
    found = [f"branch {branch.uid}: {wrong}" for branch in branches for wrong in _branch(tree, branch)]
    resident = sum([branch.dev for branch in branches])
    protected = sum([branch.protected() for branch in branches])
    if (tree.evictable, tree.protected) != (resident - protected, protected):
        found.append(f"sizes {tree.evictable, tree.protected}, counted {resident - protected, protected}")
    found += _victims("device", tree.victims, branches)
    found += _homes("device", tree.pool, [branch.dev_pages[: branch.dev] for branch in branches])
    if tree.host is not None:
        found += _victims("host", tree.host_victims, branches)
        copies = [branch.host_pages[: branch.n] for branch in branches if branch.host_pages is not None]
        found += _homes("host", tree.host, [pages[pages >= 0] for pages in copies])
    return found


def audit(tree: Residency) -> None:
    """Raise ``AssertionError`` with all that is wrong with a tree."""
    found = complaints(tree)
    if found:
        raise AssertionError("; ".join(found))


def _branch(tree: Residency, branch: Branch) -> Iterator[str]:
    size, n, parent = tree.page_size, branch.n, branch.parent
    if parent is not None:
        if not n:
            yield "it has no pages"
        if parent.children is None or parent.children.get(branch.key(size)) is not branch:
            yield "its parent does not find it"
        if not (0 < branch.at <= parent.n or parent.parent is None) or branch.base != parent.base + branch.at:
            yield f"it hangs at {branch.at} of {parent.n}"
        if branch.dev and branch.at > parent.dev:
            yield "it is resident below what is not"
        if branch.at and branch.at != parent.n and branch.at not in parent.node_starts():
            yield f"it hangs at {branch.at}, where no node begins"
        yield from _levels(branch)
    elif n or not branch.children:
        yield "a root has pages, or nothing below it"
    if not branch.dev <= n <= len(branch.dev_pages) or len(branch.units) != len(branch.dev_pages) * size:
        yield f"{branch.dev} resident pages of {n}, room for {len(branch.dev_pages)}"
    children = list((branch.children or {}).values())
    if Counter([child.at for child in children if child.dev]) != Counter(branch.resident_at or {}):
        yield f"resident_at is {branch.resident_at}"
    if tree.host is not None and Counter([child.at for child in children]) != Counter(branch.all_at or {}):
        yield f"all_at is {branch.all_at}"
    if branch.dev < n and (branch.host_pages is None or (branch.host_pages[branch.dev : n] < 0).any()):
        yield "a page is nowhere"
    if parent is not None:
        yield from _locks(branch, children)


def _levels(branch: Branch) -> Iterator[str]:
    starts = list(branch.node_starts())
    if starts[0] != 0 or any(low >= high for low, high in zip(starts, [*starts[1:], branch.n], strict=True)):
        yield f"nodes begin at {starts} of {branch.n}"
    if not isinstance(branch.nodes, int) and len(starts) != len(branch.nodes.counts):
        yield "counts don't go with starts"
    for name, level in (("touched", branch.touched), ("created", branch.created), ("priority", branch.priority)):
        if not isinstance(level, int) and not _falls(level, branch.n):
            yield f"{name} is {list(level)} of {branch.n}"
    if branch.digests is not None and len(branch.digests) > branch.n * DIGEST_BYTES:
        yield "it has digests of pages that are gone"


def _falls(level: array[int], n: int) -> bool:
    ends = list(level[::2])
    return ends[0] == n and ends[-1] > 0 and all(high > low for high, low in pairwise(ends))


def _locks(branch: Branch, children: Iterable[Branch]) -> Iterator[str]:
    locks = branch.locks
    if locks is not None and (not locks or locks != sorted(locks)):
        yield f"locks are {locks}"
    below = sorted([2 * child.at for child in children if child.locks])
    if [entry for entry in locks or () if not entry & 1] != below:
        yield f"locks are {locks}, those of its children {below}"
    if branch.protected() > branch.dev:
        yield f"{branch.protected()} pages are locked, {branch.dev} resident"


def _victims(tier: str, victims: Victims, branches: Iterable[Branch]) -> Iterator[str]:
    size, keys = victims.size, victims.keys
    entries = victims.places[HEAP, :size].tolist()
    there = {entry: at for at, entry in enumerate(victims.places[WHERE].tolist()) if entry >= 0}
    if dict(enumerate(entries)) != there or not victims.branches.keys() >= set(entries):
        yield f"the {tier} heap and its places differ"
        return
    if any(tuple(keys[entries[(at - 1) // 2]]) > tuple(keys[entries[at]]) for at in range(1, size)):
        yield f"the {tier} heap is out of order"
    for branch in branches:
        position = victims.tip(branch)
        if position >= 0 and not victims.holds(branch):
            yield f"the {tier} tip of branch {branch.uid} is not offered"
        elif position >= 0 and tuple(keys[branch.uid]) != victims.worth(branch, position):
            yield f"the {tier} tip of branch {branch.uid} is not offered for what it is worth"


def _homes(tier: str, pool: PagePool, cached: list[IntArray]) -> Iterator[str]:
    pages = np.concatenate([pool.free_pages(), *cached])
    numbers, many = np.unique(pages, return_counts=True)
    if (many > 1).any():
        yield f"{tier} pages with two homes: {numbers[many > 1].tolist()}"
    if len(pages) and not (pool.reserved <= pages.min() and pages.max() < pool.reserved + pool.pages):
        yield f"{tier} pages that are not the pool's"
    if len(pool.free_pages()) != pool.free_count or int((pool.state == 0).sum()) != pool.free_count:
        yield f"the {tier} pool counts {pool.free_count} free pages"
