"""Slips in the compiled core's sparse rows are found where the reference is played beside them.

The rows are built alone and played in a process of their own (``support/alone.py``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("kvlitmus.optimized._core", reason="no core")

from tests.optimized.support.alone import built, played
from tests.support.night import by_turns


@pytest.mark.nightly
def test_rows_by_themselves_are_the_reference_s(tmp_path: Path) -> None:
    done = played("sparse", built("sparse", tmp_path), 4_000)
    assert done.returncode == 0 and "0 differences" in done.stdout, done.stderr


SLIPS = {
    "a page too few": ("tokens % shape.page_size > 0", "tokens % shape.page_size > 1"),
    "promises are not counted": ("- promised_ + due(number)", "+ due(number)"),
    "what was given is promised still": ("row.reserved > row.pages ? row.reserved - row.pages : 0", "row.reserved"),
    "a hole is filled": ("if (start > have)", "if (start > have + shape.page_size)"),
    "a copy's pages are free": ("take_back(mine + left, row.pages - left, USED)", "take_back(mine, row.pages, USED)"),
    "a chain loses a page": ("k < one->count; ++k", "k + 1 < one->count; ++k"),
    "a chain leads elsewhere": ("if (k) chain_[pages[k]] = pages[k - 1];", ""),
    "a prompt is not waited for": (" && !rows_[waiting_[many]].written", ""),
    "a row that is gone waits": ("if (waiting_[at] == number) waiting_.erase(at--);", ""),
    "a backup twice": ("place >= rows_[number].backed", "place + 1 >= rows_[number].backed"),
    "a buffer keeps its slots": ("device_.take_back(slots(number), row.slots, USED);", ""),
    "no page behind the room": ("return paged < shape.room", "return paged <= shape.room"),
    "too much is in a buffer": ("hosted(length) <= shape.room", "hosted(length) <= shape.room + 1"),
}
"""In ``sparse.h``: what is right, and the slip."""

SLIPS_OF_BUFFERS = {
    "hits are used first": ("if (token && seen_[token - 1] == look_)", "if (token && seen_[token - 1] != look_)"),
    "what is filled is idle": ("int64_t at = taken; at < idle", "int64_t at = 0; at < idle"),
    "an old token keeps its place": ("held - 1] = 0;\n        held = static", "held - 1] = 1;\n        held = static"),
    "a token twice": (" || seen_[wanted[k]] == look_", ""),
    "the newest has a place": ("if (wanted[k] == length - 1) {", "if (wanted[k] == length) {"),
}
"""The same in ``buffers.h``."""

SLIPS_OF_THE_TYPE = {
    "a backup that is not noted": ("if (length) rows.back_up(one.row, length);", ""),
    "a transfer that failed keeps its row": ("if (row != LEFT && !of[1]) rows.free(row);", ""),
    "another slot is copied": ("rows.slot(row, slots_in(slots)[k])", "rows.slot(row, k)"),
}
"""And in ``sparse_type.cpp``."""

ALL = [
    *(("sparse.h", slip) for slip in SLIPS.values()),
    *(("buffers.h", slip) for slip in SLIPS_OF_BUFFERS.values()),
    *(("sparse_type.cpp", slip) for slip in SLIPS_OF_THE_TYPE.values()),
]


@pytest.mark.parametrize(("file", "slip"), by_turns(ALL, [*SLIPS, *SLIPS_OF_BUFFERS, *SLIPS_OF_THE_TYPE], every=7))
def test_a_slip_is_found(tmp_path: Path, file: str, slip: tuple[str, str]) -> None:
    done = played("sparse", built("sparse", tmp_path, file, slip), 20_000)
    assert done.returncode < 0 or (done.returncode == 1 and " sparse]" in done.stdout), done.stderr
