"""Levels and nodes: pieces of a branch stand for a number at each position, whatever is done to them."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from typing import Any

from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, every, implies, some
from tests.proofs.support.source import Slip, Source
from tests.proofs.support.terms import Whole

LEVELS = "kvlitmus.optimized.levels"


class Flat(list[Any]):
    """An array of unknown numbers; its type is not looked at, for nothing here calculates beyond what it was given."""

    def __init__(self, kind: str, numbers: Any = ()) -> None:
        super().__init__(numbers)
        self.kind = kind


def levels_of(source: Source) -> Any:
    """The module, on arrays of unknown numbers."""
    return source.module(LEVELS, array=Flat, int=Whole, bisect_left=bisect_left, bisect_right=bisect_right)


def level_of(run: Run, pieces: int) -> tuple[Any, Any]:
    """A level of so many pieces, and where its branch ends; of one piece it is a number."""
    ends, values = run.numbers_named("end", pieces, 1), run.numbers_named("value", pieces)
    for tipward, rootward in itertools.pairwise(ends):
        run.assume(tipward > rootward)
    if pieces == 1:
        return values[0], ends[0]
    return Flat("q", [number for piece in zip(ends, values, strict=True) for number in piece]), ends[0]


def at(level: Any, position: Any) -> Any:
    """The number at a position, looked for from the root on: what a level means."""
    if not isinstance(level, Flat):
        return level
    for one in range(len(level) - 2, 0, -2):
        if position < level[one]:
            return level[one + 1]
    return level[1]


def sound(level: Any, n: Any) -> object:
    """A number; or pieces, two at least, from the tip to the root, of which the first ends where the branch does."""
    if not isinstance(level, Flat):
        return True
    if len(level) < 4 or len(level) % 2:
        return False
    ends = level[::2]
    return every([ends[0] == n, ends[-1] > 0, *[a > b for a, b in itertools.pairwise(ends)]])


def copied(level: Any) -> Any:
    """What a level was, whatever becomes of it."""
    return Flat("q", level) if isinstance(level, Flat) else level


def becomes(run: Run, before: Any, after: Any, n: Any, start: Any, end: Any, value: Any) -> object:
    """Whether a level is sound, has a value from ``start`` on and before ``end``, and elsewhere what it had."""
    position = run.number("position", 0)
    run.assume(position < n)
    inside = bool(position >= start) and bool(position < end)
    return every([sound(after, n), at(after, position) == (value if inside else at(before, position))])


PIECES, MORE = (1, 2, 3), (4, 5)
BOUNDS = "every end, value and position; branches of at most three pieces before the call (five in the nightly run)"
RESTS = ("EVICT-05", "BACKUP-01")
"""What is decided by recency, age, priority and hits."""


@proof(
    *RESTS,
    bounds=BOUNDS,
    slips=[
        Slip(LEVELS, "if level[2] <= position:  # in", "if level[2] <= position + 1:  # in"),
        Slip(LEVELS, "if level[2 * middle] > position:", "if level[2 * middle] >= position:"),
    ],
    cases=PIECES,
    more=MORE,
)
def a_level_is_read_where_it_was_written(source: Source, run: Run, case: int) -> object:
    """The value at a position is that of the piece around it."""
    level, n = level_of(run, case)
    position = run.number("position", 0)
    run.assume(position < n)
    return levels_of(source).value_at(level, position) == at(level, position)


@proof(
    *RESTS,
    bounds=BOUNDS,
    slips=[
        Slip(LEVELS, "    while level[-2] <= end:", "    while level[-2] < end:"),
        Slip(LEVELS, "    if end >= n:\n        return value\n", "    if end > n:\n        return value\n"),
    ],
    cases=PIECES,
    more=MORE,
)
def a_prefix_of_a_level_is_set_and_nothing_else(source: Source, run: Run, case: int) -> object:
    """A use of a prefix changes the recency of its pages alone."""
    level, n = level_of(run, case)
    end, value = run.number("until", 1), run.number("new")
    run.assume(end <= n)
    before = copied(level)
    after = levels_of(source).set_prefix(level, end, value, n)
    return becomes(run, before, after, n, 0, end, value)


@proof(
    *RESTS,
    bounds=BOUNDS,
    slips=[
        Slip(LEVELS, "if piece[0] > end]\n    rootwards", "if piece[0] >= end]\n    rootwards"),
        Slip(LEVELS, "value_at(level, start - 1))", "value_at(level, start))"),
        Slip(LEVELS, "if piece[0] < start]", "if piece[0] <= start]"),
    ],
    cases=PIECES,
    more=MORE[:1],
)
def a_stretch_of_a_level_is_set_and_nothing_else(source: Source, run: Run, case: int) -> object:
    """A use of pages within a path changes theirs alone."""
    level, n = level_of(run, case)
    start, end, value = run.number("from", 0), run.number("until"), run.number("new")
    run.assume(start < end)
    run.assume(end <= n)
    before = copied(level)
    after = levels_of(source).set_range(level, start, end, value, n)
    return becomes(run, before, after, n, start, end, value)


@proof(
    "EVICT-05",
    bounds=BOUNDS,
    slips=[
        Slip(LEVELS, "if high and high[0][0] >= end:", "if high:"),
        Slip(LEVELS, "if piece[1] < value and piece[0] > end]", "if piece[1] < value]"),
        Slip(
            LEVELS,
            "high = [piece for piece in pieces if piece[1] >= value]",
            "high = [piece for piece in pieces if piece[1] > value]",
        ),
    ],
    cases=PIECES,
    more=MORE[:1],
)
def a_prefix_of_a_level_is_raised_and_never_lowered(source: Source, run: Run, case: int) -> object:
    """Priorities that never rise from root to tip stay so, and each is the larger one of before and now."""
    level, n = level_of(run, case)
    if case > 1:
        for tipward, rootward in zip(level[1::2], level[3::2], strict=False):
            run.assume(tipward <= rootward)
    end, value = run.number("until", 1), run.number("new")
    run.assume(end <= n)
    position = run.number("position", 0)
    run.assume(position < n)
    before = at(level, position)
    after = levels_of(source).raise_prefix(level, end, value, n)
    raised = bool(position < end) and bool(before < value)
    falling = every([a <= b for a, b in zip(after[1::2], after[3::2], strict=False)] if isinstance(after, Flat) else [])
    return every([sound(after, n), falling, at(after, position) == (value if raised else before)])


@proof(
    *RESTS,
    bounds=BOUNDS,
    slips=[
        Slip(LEVELS, "value if not old or level == value else", "value if old or level == value else"),
        Slip(LEVELS, "    level[:0] = array", "    level[2:2] = array"),
    ],
    cases=PIECES,
    more=MORE,
)
def a_branch_that_grows_keeps_its_level(source: Source, run: Run, case: int) -> object:
    """The new pages have the new value, the others what they had."""
    level, old = level_of(run, case)
    n, value = run.number("longer"), run.number("new")
    run.assume(n > old)
    before = copied(level)
    after = levels_of(source).grow(level, old, n, value)
    return becomes(run, before, after, n, old, n, value)


@proof(
    *RESTS,
    bounds=BOUNDS,
    slips=[
        Slip(LEVELS, "while len(level) > 2 and level[2] >= n:", "while len(level) > 2 and level[2] > n:"),
        Slip(LEVELS, "    level[0] = n\n    value: int = level[1]", "    value: int = level[1]"),
    ],
    cases=PIECES,
    more=MORE,
)
def a_branch_that_is_cut_keeps_its_level(source: Source, run: Run, case: int) -> object:
    """What is left has what it had."""
    level, old = level_of(run, case)
    n = run.number("shorter", 1)
    run.assume(n <= old)
    before = copied(level)
    return becomes(run, before, levels_of(source).trim(level, n), n, 0, 0, None)


# Nodes


def nodes_of(source: Source, run: Run, count: int) -> tuple[Any, Any]:
    """So many nodes with any hits, and where the branch ends."""
    nodes = levels_of(source).Nodes(0)
    starts = [0, *run.numbers_named("start", count - 1, 1)]
    n = run.number("n", 1)
    for one, other in zip(starts, [*starts[1:], n], strict=True):
        run.assume(one < other if not isinstance(one, int) else other > one)
    nodes.starts, nodes.counts = Flat("i", starts), Flat("i", run.numbers_named("count", count))
    return nodes, n


def hits(nodes: Any, position: Any) -> Any:
    """The hits of a page: what all nodes count from its own on."""
    node = max([one for one, start in enumerate(nodes.starts) if position >= start], default=0)
    return sum(nodes.counts[node:])


def ordered(nodes: Any, n: Any) -> object:
    """Nodes begin one after the other, the first at the root and each before the branch ends, each with a count."""
    starts = nodes.starts
    if not starts or len(starts) != len(nodes.counts):
        return False
    return every([starts[0] == 0, *[b > a for a, b in zip(starts, [*starts[1:], n], strict=True)]])


NODE_BOUNDS = "every position and count; branches of at most three nodes before the call (five in the nightly run)"


@proof(
    *RESTS,
    bounds=NODE_BOUNDS,
    slips=[
        Slip(LEVELS, "self.counts.insert(at - 1, 0)", "self.counts.insert(at, 0)"),
        Slip(
            LEVELS, "if at == len(starts) or starts[at] != position:", "if at < len(starts) and starts[at] != position:"
        ),
        Slip(LEVELS, "counts[-1] if at == len(counts) - 1 else sum(counts[at:])", "sum(counts[at + 1:])"),
    ],
    cases=PIECES,
    more=MORE,
)
def a_node_that_is_cut_keeps_its_hits(source: Source, run: Run, case: int) -> object:
    """Both halves have the hits that the whole had, and a node begins at the cut."""
    nodes, n = nodes_of(source, run, case)
    cut, position = run.number("cut", 1), run.number("position", 0)
    run.assume(cut < n)
    run.assume(position < n)
    before = hits(nodes, position)
    nodes.cut(cut)
    begins = some([start == cut for start in nodes.starts])
    told = nodes.hits(position)
    return every([begins, ordered(nodes, n), hits(nodes, position) == before, told == before])


@proof(
    *RESTS,
    bounds=NODE_BOUNDS,
    slips=[
        Slip(LEVELS, "            counts[-1] += last\n", ""),
        Slip(LEVELS, "starts[-1] >= n:", "starts[-1] > n:"),
        Slip(LEVELS, "        self.counts.append(0)\n", "        self.counts.append(1)\n"),
    ],
    cases=PIECES,
    more=MORE,
)
def nodes_grow_and_shrink_with_their_branch(source: Source, run: Run, case: int) -> object:
    """What goes on has no hits; what is left of a branch has those that it had."""
    nodes, n = nodes_of(source, run, case)
    position = run.number("position", 0)
    further, left = run.number("further", 1), run.number("left", 1)
    nodes.add(n)
    longer = n + further
    run.assume(position < longer)
    run.assume(left <= longer)
    grown = hits(nodes, position)
    new = implies(position >= n, grown == 0) if bool(position >= n) else True
    nodes.trim(left)
    kept = hits(nodes, position) == grown if bool(position < left) else True
    return every([new, ordered(nodes, left), kept])


@proof(
    *RESTS,
    bounds=NODE_BOUNDS,
    slips=[
        Slip(
            LEVELS,
            "self.counts[bisect_left(self.starts, end) - 1] += 1",
            "self.counts[bisect_right(self.starts, end) - 1] += 1",
        ),
        Slip(
            LEVELS,
            "        if start:\n            self.counts[bisect_left(self.starts, start) - 1] -= 1",
            "        pass",
        ),
    ],
    cases=PIECES,
    more=MORE,
)
def a_use_counts_once_for_each_of_its_pages(source: Source, run: Run, case: int) -> object:
    """One hit more from a node's begin on and before another one's, or the end; and none elsewhere."""
    nodes, n = nodes_of(source, run, case)
    borders = [*nodes.starts, n]
    start, end = (run.choose(run.number(name, 0, case + 1), case + 1) for name in ("from", "until"))
    run.assume(start < end)
    position = run.number("position", 0)
    run.assume(position < n)
    before = hits(nodes, position)
    inside = bool(position >= borders[start]) and bool(position < borders[end])
    nodes.count(borders[start], borders[end])
    return every([ordered(nodes, n), hits(nodes, position) == before + int(inside)])
