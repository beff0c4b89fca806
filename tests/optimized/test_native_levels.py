"""The levels and nodes of the compiled core beside the Python ones, which are proven, after every few changes.

A few lines of C++ around ``native/levels.h`` play the same lists; branches have up to six pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
from kvlitmus.optimized import levels
from tests.optimized.support.driver import driver, said
from tests.support.night import by_turns

START, MOST = 3, 6
"""Pages of a branch at the beginning, and at most."""

SET, RAISE, GROW, TRIM, CUT, COUNT, RANGE = range(7)
Change = tuple[int, int, int]
"""What, and two numbers: an end and a value; or where the branch ends then, and the value; or two positions."""

DRIVER = r"""
#include <cstdio>
#include "levels.h"
using namespace kvlitmus;
int main() {
    int changes, what, a, b;
    while (std::scanf("%d", &changes) == 1) {
        changes /= 3;
        Level level;
        Nodes nodes;
        int n = START;
        level.one = 2;
        nodes.hits = 1;
        while (changes--) {
            if (std::scanf("%d %d %d", &what, &a, &b) != 3) return 1;
            level.room(3);
            nodes.room();
            if (what == SET) level.set_prefix(a, b, n);
            if (what == RANGE) level.set_range(a / 10, a % 10, b, n);
            if (what == RAISE) level.raise_prefix(a, b, n);
            if (what == GROW) { level.grow(n, a, b); nodes.add(n, {0, 0}); n = a; }
            if (what == TRIM) { level.trim(a); nodes.trim(a); n = a; }
            if (what == CUT) nodes.cut(a);
            if (what == COUNT) nodes.count(a, b);
        }
        for (int at = 0; at < n; ++at)
            std::printf("%ld %ld %d ", (long)level.at(at), (long)nodes.hits_at(at), (int)nodes.begins(at));
        std::printf("\n");
    }
}
"""


class Beside:
    """A branch with the levels of Python."""

    def __init__(self) -> None:
        self.n = START
        self.level: Any = 2
        self.nodes: levels.Nodes | int = 1

    def begins(self) -> list[int]:
        """Where its nodes begin."""
        return [0] if isinstance(self.nodes, int) else list(self.nodes.starts)

    def many(self) -> levels.Nodes:
        """Its nodes, once there may be several."""
        if isinstance(self.nodes, int):
            self.nodes = levels.Nodes(self.nodes)
        return self.nodes

    def change(self, what: int, a: int, b: int) -> None:
        """Make a change, as :class:`kvlitmus.optimized.branch.Branch` does."""
        if what == SET:
            self.level = levels.set_prefix(self.level, a, b, self.n)
        elif what == RANGE:
            self.level = levels.set_range(self.level, a // 10, a % 10, b, self.n)
        elif what == RAISE:
            self.level = levels.raise_prefix(self.level, a, b, self.n)
        elif what == GROW:
            self.many().add(self.n)
            self.level, self.n = levels.grow(self.level, self.n, a, b), a
        elif what == TRIM:
            self.level, self.n = levels.trim(self.level, a), a
            if not isinstance(self.nodes, int):
                self.nodes.trim(a)
        elif what == CUT:
            self.many().cut(a)
        elif isinstance(self.nodes, int):
            self.nodes += 1
        else:
            self.nodes.count(a, b)

    def line(self) -> str:
        """What the driver says of it."""
        hits = (lambda _: self.nodes) if isinstance(self.nodes, int) else self.nodes.hits
        begins = self.begins()
        of = [(levels.value_at(self.level, at), hits(at), int(at in begins)) for at in range(self.n)]
        return " ".join([f"{value} {hit} {begin}" for value, hit, begin in of])


def played(changes: list[Change]) -> Beside:
    """A branch after these changes."""
    branch = Beside()
    for one in changes:
        branch.change(*one)
    return branch


def further(branch: Beside, *, priorities: bool) -> Iterator[Change]:
    """What can be done next; priorities are raised and never rise from root to tip, ticks are set."""
    n = branch.n
    tip = levels.value_at(branch.level, n - 1)
    for end in range(1, n + 1):
        for value in (1, 2, 3) if priorities else (2, 3):
            yield RAISE if priorities else SET, end, value
        yield TRIM, end, 0
        if not priorities:
            yield from ((RANGE, 10 * start + end, 4) for start in range(end))
    for end in range(n + 1, min(n + 2, MOST) + 1):
        for value in (tip, tip - 1) if priorities else (tip, tip + 1):
            yield GROW, end, value
    for at in range(1, n):
        yield CUT, at, 0
    borders = [*branch.begins(), n]
    yield from ((COUNT, start, end) for start in borders for end in borders if start < end)


def lists(length: int, *, priorities: bool) -> Iterator[list[Change]]:
    """Every list of so many changes."""
    open_: list[list[Change]] = [[]]
    while open_:
        changes = open_.pop()
        if len(changes) == length:
            yield changes
        else:
            open_ += [[*changes, one] for one in further(played(changes), priorities=priorities)]


NAMES = {
    "START": START,
    "SET": SET,
    "RAISE": RAISE,
    "GROW": GROW,
    "TRIM": TRIM,
    "CUT": CUT,
    "COUNT": COUNT,
    "RANGE": RANGE,
}


def levels_driver(folder: Path, slip: tuple[str, str] = ("", "")) -> Path:
    """The driver, with a slip in its levels."""
    return driver(folder, "levels.h", DRIVER, NAMES, slip)


def differences(program: Path, length: int, *, priorities: bool) -> tuple[int, int]:
    """How many lists were played, and after how many the two differ."""
    every = list(lists(length, priorities=priorities))
    lines = said(program, [[number for change in one for number in change] for one in every])
    unlike = [one for one, line in zip(every, lines, strict=True) if played(one).line() != line.strip()]
    return len(every), len(unlike)


@pytest.mark.proof
@pytest.mark.parametrize("priorities", [False, True], ids=["ticks", "priorities"])
def test_the_native_levels_are_the_python_ones(tmp_path: Path, priorities: bool) -> None:
    many, unlike = differences(levels_driver(tmp_path), 3, priorities=priorities)
    assert many > 3_000 and unlike == 0


@pytest.mark.nightly
@pytest.mark.parametrize("priorities", [False, True], ids=["ticks", "priorities"])
def test_the_native_levels_are_the_python_ones_for_longer(tmp_path: Path, priorities: bool) -> None:
    many, unlike = differences(levels_driver(tmp_path), 4, priorities=priorities)
    assert many > 50_000 and unlike == 0


@pytest.mark.proof
@pytest.mark.parametrize(
    ("slip", "priorities"),
    by_turns(
        [
            (("while (pieces_->back().end <= end)", "while (pieces_->size() > 1)"), False),
            (("if (all[1].end <= position) return", "if (all[1].end <= position + 1) return"), False),
            (("while (low < high && all[low].end > end) ++low;", ""), True),
            (("before.count = 0;", ""), False),
            (("int64_t before = at(start - 1);", "int64_t before = at(start);"), False),
        ],
        every=2,
    ),
)
def test_a_slip_is_found(tmp_path: Path, slip: tuple[str, str], priorities: bool) -> None:
    assert differences(levels_driver(tmp_path, slip), 3, priorities=priorities)[1]
