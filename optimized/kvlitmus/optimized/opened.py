"""A compiled tree as a Python one: the same branches, levels, nodes, locks and victims, to be looked at.

It costs what is cached, and is for audits, views and tests.
"""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import Any

import numpy as np

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.evict import Victims
from kvlitmus.optimized.kernels import HEAP, WHERE
from kvlitmus.optimized.levels import Level, Nodes, value_at
from kvlitmus.optimized.residency import count
from kvlitmus.optimized.tree import Tree


def python_tree(compiled: Any) -> Tree:
    """A tree with copies of all that the compiled one has."""
    branches, roots, free, heap, host_heap, tree_clock, evictable, guarded = compiled.export()
    tree = Tree(
        compiled.page_size,
        compiled.policy,
        compiled.pool.opened(),
        host=None if compiled.host is None else compiled.host.opened(),
        write_back=compiled.write_back,
        restored_counts=compiled.restored_counts,
        dtype=compiled.dtype,
    )
    tree.clock, tree.evictable, tree.protected = tree_clock, evictable, guarded
    made: dict[int, Branch] = {}
    for _, name, number, kids, digests in sorted(roots, key=itemgetter(0)):  # as they came
        tree.roots[name] = made[number] = Branch(name, None, 0, -1, 0, tree.no_units)
        made[number].resident_at = {0: kids} if kids and tree.host is None else None
        made[number].digests = digests
    tree.by_uid.update({one[0]: Branch(None, None, 0, one[0], 0, tree.no_units) for one in branches})
    made.update(tree.by_uid)
    for one in branches:
        _fill(made[one[0]], one, made, tree)
    for branch in sorted(tree.by_uid.values(), key=lambda one: value_at(one.created, 0)):
        parent = branch.parent
        assert parent is not None
        parent.children = parent.children or {}
        parent.children[branch.key(tree.page_size)] = branch
        if tree.host is not None:
            parent.all_at = count(parent.all_at, branch.at)
            if parent.parent is None and branch.dev:
                parent.resident_at = count(parent.resident_at, 0)
    for root in tree.roots.values():
        for branch in (root.children or {}).values():
            branch.namespace = root.namespace
    for branch in tree.branches():
        assert branch.parent is not None
        branch.namespace = branch.parent.namespace
    tree.free_uids.extend(free)
    _victims(tree, tree.victims, heap, {one[0]: one[10] for one in branches})
    if tree.host is not None:
        _victims(tree, tree.host_victims, host_heap, {one[0]: one[15][1] for one in branches})
    return tree


def _fill(branch: Branch, one: Any, made: dict[int, Branch], tree: Tree) -> None:
    (_, parent, at, base, room, touched, created, priority, nodes, locks, _, kids_end, units, pages, digests, host) = (
        one
    )
    page = np.frombuffer(pages, np.int32)
    n = len(units) // (tree.page_size * tree.dtype.itemsize)
    branch.parent, branch.at, branch.base = made[parent], at, base
    branch.n, branch.dev = n, len(page)
    branch.units = np.zeros(room * tree.page_size, tree.dtype)
    branch.units[: n * tree.page_size] = np.frombuffer(units, tree.dtype)
    branch.dev_pages = np.zeros(room, np.int32)
    branch.dev_pages[: len(page)] = page
    branch.touched, branch.created, branch.priority = _level(touched), _level(created), _level(priority)
    live_end = kids_end if host is None else host[0]
    kids = {branch.n: live_end} if live_end else {}
    if isinstance(nodes, int):
        branch.nodes = nodes
    else:
        branch.nodes = Nodes(0)
        branch.nodes.starts = array("i", [start for start, *_ in nodes])
        branch.nodes.counts = array("i", [hits for _, hits, _, _ in nodes])
        live = 2 if host is None else 3
        kids.update({node[0]: node[live] for node in nodes if node[live]})
    branch.resident_at = kids or None
    branch.locks = locks or None
    branch.digests = digests
    if host is not None:
        branch.room_for_copies()
        assert branch.host_pages is not None and branch.pins is not None and branch.flags is not None
        branch.host_pages[:n] = np.frombuffer(host[2], np.int32)
        branch.pins[:n] = np.frombuffer(host[3], np.int32)
        branch.flags[:n] = np.frombuffer(host[4], np.uint8)


def _level(exported: int | list[int]) -> Level:
    return exported if isinstance(exported, int) else array("q", exported)


def _victims(tree: Tree, victims: Victims, heap: Any, places: dict[int, int]) -> None:
    victims.room(max([*tree.by_uid, 0]))
    victims.size = len(heap)
    for at, (first, second, uid) in enumerate(heap):
        victims.keys[uid] = first, second
        victims.places[HEAP, at] = uid
    for uid, place in places.items():
        victims.places[WHERE, uid] = place
