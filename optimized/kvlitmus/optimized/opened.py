"""A compiled tree as a Python one: the same branches, levels, nodes, locks and victims, to be looked at.

It costs what is cached, and is for audits, views and tests.
"""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import Any

import numpy as np

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.kernels import HEAP, WHERE
from kvlitmus.optimized.levels import Level, Nodes, value_at
from kvlitmus.optimized.tree import Tree


def python_tree(compiled: Any) -> Tree:
    """A tree with copies of all that the compiled one has."""
    branches, roots, free, heap, tree_clock, evictable, guarded = compiled.export()
    tree = Tree(compiled.page_size, compiled.policy, compiled.pool.opened(), dtype=compiled.dtype)
    tree.restored_counts = compiled.restored_counts
    tree.clock, tree.evictable, tree.protected = tree_clock, evictable, guarded
    made: dict[int, Branch] = {}
    for _, name, number, kids, digests in sorted(roots, key=itemgetter(0)):  # as they came
        tree.roots[name] = made[number] = Branch(name, None, 0, -1, 0, tree.no_units)
        made[number].resident_at = {0: kids} if kids else None
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
    for root in tree.roots.values():
        for branch in (root.children or {}).values():
            branch.namespace = root.namespace
    for branch in tree.branches():
        assert branch.parent is not None
        branch.namespace = branch.parent.namespace
    tree.free_uids.extend(free)
    _victims(tree, heap, {one[0]: one[10] for one in branches})
    return tree


def _fill(branch: Branch, one: Any, made: dict[int, Branch], tree: Tree) -> None:
    (_, parent, at, base, room, touched, created, priority, nodes, locks, _, kids_end, units, pages, digests) = one
    page = np.frombuffer(pages, np.int32)
    branch.parent, branch.at, branch.base = made[parent], at, base
    branch.n = branch.dev = len(page)
    branch.units = np.zeros(room * tree.page_size, tree.dtype)
    branch.units[: len(page) * tree.page_size] = np.frombuffer(units, tree.dtype)
    branch.dev_pages = np.zeros(room, np.int32)
    branch.dev_pages[: len(page)] = page
    branch.touched, branch.created, branch.priority = _level(touched), _level(created), _level(priority)
    kids = {branch.n: kids_end} if kids_end else {}
    if isinstance(nodes, int):
        branch.nodes = nodes
    else:
        branch.nodes = Nodes(0)
        branch.nodes.starts = array("i", [start for start, _, _ in nodes])
        branch.nodes.counts = array("i", [count for _, count, _ in nodes])
        kids.update({start: many for start, _, many in nodes if many})
    branch.resident_at = kids or None
    branch.locks = locks or None
    branch.digests = digests


def _level(exported: int | list[int]) -> Level:
    return exported if isinstance(exported, int) else array("q", exported)


def _victims(tree: Tree, heap: Any, places: dict[int, int]) -> None:
    victims = tree.victims
    victims.room(max([*tree.by_uid, 0]))
    victims.size = len(heap)
    for at, (first, second, uid) in enumerate(heap):
        victims.keys[uid] = first, second
        victims.places[HEAP, at] = uid
    for uid, place in places.items():
        victims.places[WHERE, uid] = place
