"""Sparse rows of the compiled core where calls are refused, find no memory, or are interrupted: nothing has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("kvlitmus.optimized._core", reason="no core")

from kvlitmus.optimized import _core as core
from kvlitmus.optimized.sparse import SparseConfig, sparse_rows
from tests.optimized.support.sparse_pair import look
from tests.optimized.support.type_faults import Faults, plain, refused

PAGE, PAGES, ROWS, ROOM, DEVICE = 4, 12, 5, 6, 27
Rows = Any
Call = Callable[[Rows], object]


def world() -> Rows:
    """Rows that decode, wait for a copy, wait for a peer and are admitted, and a copy to a row that is gone."""
    config = SparseConfig(page_size=PAGE, pages=PAGES, rows=ROWS, width=26, room=ROOM, device_slots=DEVICE)
    rows = sparse_rows(config)
    rows.stage(0, 5)
    rows.free(0)
    rows.request(0, 0, 8)
    rows.admit(0, 8)
    rows.stage(1, 3)
    rows.prealloc(2, 2, PAGE)
    rows.reserve(3, 5)
    return rows


def exactly(rows: Rows) -> object:
    """All that there is, and in which order it is handed out."""
    return look(rows), rows.free_pages().tolist(), rows.free_slots().tolist()


REFUSED: dict[str, tuple[Call, str]] = {
    "a hole": (lambda rows: rows.request(0, 9, 1), "leaves a hole"),
    "a row too short": (lambda rows: rows.request(0, 4, 21), "not wide enough"),
    "a prompt for a row that has slots": (lambda rows: rows.stage(0, 1), "empty row"),
    "a peer with other pages": (lambda rows: rows.prealloc(4, 1, PAGE + 1), "as many tokens"),
    "a copy that has not begun": (lambda rows: rows.copied(2), "has ended, or never began"),
    "a row that waits begins to decode": (lambda rows: rows.admit(1, 1), "waits for its prompt"),
    "a negative length": (lambda rows: rows.admit(4, -1), "not be negative"),
    "a backup of no token": (lambda rows: rows.back_up(0, 0), "has a newest token"),
    "a backup beyond a hole": (lambda rows: rows.back_up(0, 11), "leaves a hole"),
    "a buffer that nobody has grows": (lambda rows: rows.grow(4, 1), "does not decode"),
    "a swap beyond what is on the host": (lambda rows: rows.swap(0, 10, [0]), "leaves a hole"),
    "a token twice": (lambda rows: rows.swap(0, 9, [1, 2, 1]), "distinct tokens"),
    "a token behind the last": (lambda rows: rows.swap(0, 9, np.array([9])), "distinct tokens"),
    "too many tokens": (lambda rows: rows.swap(0, 9, range(ROOM + 1)), "no more than the buffer"),
    "a token of another kind": (lambda rows: rows.swap(0, 9, [1.5]), "sequence of integers"),
    "a row that there isn't": (lambda rows: rows.free(ROWS), "rows 0 to 4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_never_be_is_refused_and_nothing_changes(name: str) -> None:
    call, why = REFUSED[name]
    rows = world()
    before = exactly(rows)
    with pytest.raises(ValueError, match=why):
        call(rows)
    assert exactly(rows) == before


@pytest.mark.parametrize("field", ["page_size", "pages", "rows", "width", "room", "device_slots", "ratio"])
def test_what_no_engine_has_is_refused(field: str) -> None:
    for wrong in (-1, 2**31, "many"):
        with pytest.raises(ValueError, match=field):
            SparseConfig(**{field: wrong})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="room for a page of 4"):
        SparseConfig(page_size=4, width=3)
    with pytest.raises(ValueError, match="no sparse rows of these sizes"):
        core.SparseRows(4, 1, 1, 3, 1, 1, 1)


SCARCE: dict[str, Call] = {
    "pages": lambda rows: rows.request(4, 0, 20),
    "pages that are promised": lambda rows: rows.request(4, 0, 12),
    "pages for a prompt": lambda rows: rows.stage(4, 12),
    "slots for a prompt": lambda rows: rows.stage(4, 8),
    "slots for a peer's prompt": lambda rows: rows.prealloc(4, 8, PAGE),
}


@pytest.mark.parametrize("name", SCARCE)
def test_for_what_there_is_too_little_now_none_is_answered(name: str) -> None:
    rows = world()
    rows.request(0, 8, 8)
    before = exactly(rows)
    assert SCARCE[name](rows) is None and exactly(rows) == before


def test_a_buffer_grows_as_far_as_the_device_goes() -> None:
    rows = world()
    rows.request(4, 0, 4)
    assert rows.admit(4, 4)
    rows.request(3, 0, 8)
    before = exactly(rows)
    assert rows.grow(4, 7) is None and rows.admit(3, 8) is False and exactly(rows) == before
    rows.free(0)
    assert rows.grow(4, 7) == rows.device_slots(4)[ROOM]


@pytest.mark.parametrize(("slots", "fits"), [(ROOM + PAGE, True), (ROOM + PAGE - 1, False)])
def test_a_buffer_that_takes_all_of_the_device_has_room(slots: int, fits: bool) -> None:
    rows = sparse_rows(SparseConfig(page_size=PAGE, room=ROOM, device_slots=slots))
    rows.request(0, 0, ROOM)
    assert (rows.has_room(ROOM), rows.admit(0, ROOM)) == (fits, fits)


ROW, NUMBER = st.integers(-1, ROWS), st.integers(-2, 14) | st.integers()
GIVEN: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    **dict.fromkeys(("request", "prealloc"), (ROW, NUMBER, NUMBER)),
    **dict.fromkeys(("stage", "back_up", "grow", "admit", "reserve"), (ROW, NUMBER)),
    **dict.fromkeys(("ready", "reset"), ()),
    "free": (ROW,),
    "copied": (NUMBER,),
    "transferred": (NUMBER, st.booleans()),
    "swap": (ROW, NUMBER, st.lists(NUMBER)),
}


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_called_nothing_is_lost(data: st.DataObject) -> None:
    rows = world()
    for name in data.draw(st.lists(st.sampled_from(list(GIVEN)), max_size=20)):
        before = exactly(rows)
        try:
            answer = getattr(rows, name)(*[data.draw(one) for one in GIVEN[name]])
        except ValueError:
            assert exactly(rows) == before
        else:
            if answer is None and name in ("request", "stage", "prealloc", "back_up", "grow"):
                assert exactly(rows) == before
    assert_all_comes_back(rows)


def assert_all_comes_back(rows: Rows) -> None:
    """After a reset, and when all that is written has ended, everything is free, and serves."""
    rows.reset()
    left = PAGES - len(rows.free_pages())
    assert (left > 0) == bool(len(rows.copying()) + len(rows.transferring())), (
        "pages are kept for nobody, or given away"
    )
    for copy in rows.copying().tolist():
        rows.copied(copy)
    for transfer in rows.transferring().tolist():
        rows.transferred(transfer, False)
    assert sorted(rows.free_pages()) == list(range(PAGES)) and sorted(rows.free_slots()) == list(range(DEVICE))
    assert len(rows.request(0, 0, 24)) == 24 and rows.counts(1) == (0, 0, PAGES - 6)


FAULTS = Faults(world, exactly, assert_all_comes_back)

# -- what fails, and what is interrupted -----------------------------------------------------------

CALLS: dict[str, Call] = {
    "a request": lambda rows: rows.request(0, 8, 2),
    "a read": lambda rows: rows.read(0),
    "a backup": lambda rows: rows.back_up(0, 10),
    "a prompt is staged": lambda rows: rows.stage(4, 4),
    "a prompt comes": lambda rows: rows.prealloc(3, 4, PAGE),
    "copies": lambda rows: rows.copying(),
    "a copy that nobody waits for ends": lambda rows: rows.copied(0),
    "a copy ends": lambda rows: rows.copied(1),
    "acknowledgements": lambda rows: rows.ready(),
    "transfers": lambda rows: rows.transferring(),
    "a transfer arrives": lambda rows: rows.transferred(0, True),
    "an admission": lambda rows: rows.reserve(4, 4),
    "a buffer grows": lambda rows: rows.grow(2, 4),
    "a swap": lambda rows: rows.swap(0, 8, [7, 1, 6]),
    "a swap of an array": lambda rows: rows.swap(0, 8, np.array([0, 1], np.int32)),
    "an abort": lambda rows: rows.free(1),
    "a reset": lambda rows: rows.reset(),
}
"""One after the other in the world as it is."""


def test_whenever_memory_is_short_nothing_has_changed() -> None:
    rows, other = world(), world()
    failed: Counter[str] = Counter()
    for name, call in CALLS.items():
        failed[name], answer = FAULTS.failing(rows, call, most=20)
        assert answer == plain(call(other)) and exactly(rows) == exactly(other), name
    answered = {name for name, many in failed.items() if many}
    changing = {
        "an abort",
        "a reset",
        "a copy ends",
        "a copy that nobody waits for ends",
        "a transfer arrives",
        "an admission",
    }
    assert answered == CALLS.keys() - changing and failed["a swap"] == 4 and failed["a prompt is staged"] >= 2
    assert_all_comes_back(rows)


def test_rows_for_which_there_is_no_memory_are_not_made() -> None:
    assert refused(world) > 12


def test_an_interrupted_call_was_made_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list(CALLS.values())
    assert len(FAULTS.sweep(monkeypatch, calls)) >= len(CALLS) - 6, "reads change nothing"


def test_a_call_of_two_steps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    two: Call = lambda rows: (rows.request(0, 8, 2), rows.admit(0, 10))  # noqa: E731
    with pytest.raises(AssertionError, match="half a call"):
        FAULTS.sweep(monkeypatch, [two])
