"""Allocation for several requests at once, in lock step with the reference: schedules ask for one at a time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvlitmus.conformance.adapters.optimized.target import target
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.parts import PROFILE
from tests.support.differential import DifferentialAdapter

CALLS = 25


def play(seed: int) -> None:
    """Rows of some requests grow together, by any number of tokens or by one each, and are freed one by one."""
    dice = random.Random(seed)
    size = dice.choice((1, 2, 4, 16))
    config = Config(page_size=size, pages=dice.choice((6, 12, 40)))
    both: Any = DifferentialAdapter(target.make(config), ReferenceTarget(PROFILE).make(config), size)
    rows: list[list[int]] = [[] for _ in range(dice.randint(1, 5))]
    for _ in range(CALLS):
        some = [rows[at] for at in dice.sample(range(len(rows)), dice.randint(1, len(rows)))]
        before = [len(row) for row in some]
        last = [row[-1] if row else -1 for row in some]
        more = [1] * len(some) if dice.random() < 0.4 else [dice.randint(0, 2 * size + 1) for _ in some]
        if dice.random() < 0.2:
            pages = sorted({slot // size for slot in some[0]})
            both.free([page * size + at for page in pages for at in range(size)])
            some[0].clear()
        else:
            after = [old + new for old, new in zip(before, more, strict=True)]
            decoding = set(more) == {1}
            slots = both.alloc_decode(after, last) if decoding else both.alloc_extend(before, after, last)
            for row, new in zip(some, more, strict=True) if slots is not None else ():
                row += slots[:new]
                del slots[:new]
            assert not slots
        both.rows = {at: (row, both.device.other(row)) for at, row in enumerate(rows)}
        both.view(), both.available()


@pytest.mark.parametrize("seed", range(60))
def test_rows_grow_alike(seed: int) -> None:
    play(seed)
