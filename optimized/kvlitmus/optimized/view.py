"""A snapshot of the tree, as the nodes that a radix tree would have.

For tests, adapters and whoever wants to look: it costs what is cached, and no hot path uses it.  Branches are cut where
nodes begin; all that differs along a branch is the same for the pages of one node, but for pins.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.branch import Branch, Place, Run
from kvlitmus.optimized.levels import value_at
from kvlitmus.optimized.paths import Paths
from kvlitmus.optimized.tree import Units


class Node(NamedTuple):
    """One node.

    ``parent``: the index of the node above, -1 for none.  ``pages``, ``host_pages``: where its pages are, ``None``
    where they are not.  ``locks``: how many locks cover it; ``pins``: the most that one of its host copies has.
    ``touched``, ``created``: ticks.  ``run``: the pages of the branch that it is.
    """

    parent: int
    namespace: Hashable
    units: Units
    pages: PageArray | None
    host_pages: PageArray | None
    locks: int
    hits: int
    priority: int
    pins: int
    touched: int
    created: int
    run: Run


def nodes_of(paths: Paths) -> list[Node]:
    """All nodes of a tree, parents first."""
    paths = paths.opened()
    nodes: list[Node] = []
    ending: dict[tuple[Branch, int], int] = {}
    locks = locks_of(paths)
    for branch in paths.branches():
        parent = ending[branch.parent, branch.at] if branch.parent is not None and branch.at else -1
        for run in paths.nodes(Place(branch, branch.n), branch.base):
            covering = sum([many for end, many in locks[branch].items() if end > run.lo])
            nodes.append(_node(paths, parent, run, covering))
            parent = ending[branch, run.hi] = len(nodes) - 1
    return nodes


def locks_of(paths: Paths) -> dict[Branch, dict[int, int]]:
    """For each branch, how many locks end where: its own, and at the places of its children those below."""
    found: dict[Branch, dict[int, int]] = {}
    for branch in reversed([*paths.roots.values(), *paths.branches()]):
        ends: dict[int, int] = {}
        for entry in branch.locks or ():
            if entry & 1:
                ends[entry >> 1] = ends.get(entry >> 1, 0) + 1
        for child in (branch.children or {}).values():
            many = sum(found[child].values())
            if many:
                ends[child.at] = ends.get(child.at, 0) + many
        found[branch] = ends
    return found


def _node(paths: Paths, parent: int, run: Run, locks: int) -> Node:
    branch, lo, hi = run
    size = paths.page_size
    backed = branch.has_copy(lo)
    return Node(
        parent,
        branch.namespace,
        branch.units[lo * size : hi * size].copy(),
        paths.device_run(run) if hi <= branch.dev else None,
        paths.host_run(run) if backed else None,
        locks,
        branch.hits_at(lo),
        value_at(branch.priority, lo),
        int(branch.pins[lo:hi].max()) if backed and branch.pins is not None else 0,
        value_at(branch.touched, lo),
        value_at(branch.created, lo),
        run,
    )
