"""The mover of tensors: pages as storage sees them, copies step by step, and copies by threads, with their races."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.optimized.data.layout import LAYOUTS, Layout
from kvlitmus.optimized.data.pages import read_page, write_page
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.mover import Mover, Ticket
from tests.optimized.support import paged
from tests.optimized.support.pausing import PausingMover
from tests.support.processes import LIMIT

SHAPE = KVShape(layers=4, heads=2, head_dim=8, dtype=torch.bfloat16, page_size=2)
PATIENCE = LIMIT
"""Seconds after which a thread that should have moved is taken for stuck."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def pools(layout: Layout = "page_first_direct", pages: int = 12) -> tuple[DevicePool, HostPool]:
    """A device pool and a host pool full of noise."""
    device, host = DevicePool(SHAPE, pages), HostPool(SHAPE, pages, layout=layout, pinned=False)
    paged.fill(device, 1)
    paged.fill(host, 2)
    return device, host


def numbers(*pages: int) -> npt.NDArray[np.int32]:
    return np.array(pages, np.int32)


# -- pages as storage sees them -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", paged.ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_page_in_storage_is_the_same_for_every_layout(layout: Layout, row: paged.Row) -> None:
    shape = paged.shape_of(row, row.dtypes[0], 4)
    pool = HostPool(shape, 5, layout=layout, pinned=False)
    paged.fill(pool, 3)
    expected = paged.contents(pool).copy()
    for page in range(5):
        found = read_page(pool, page)
        assert len(found) == shape.page_bytes and found.readonly
        assert bytes(found) == expected[page].tobytes()
    for contents in (bytes(range(256)) * (shape.page_bytes // 256 + 1), bytearray(b"\xa5") * shape.page_bytes):
        write_page(pool, 3, memoryview(contents)[: shape.page_bytes])
        expected[3] = np.frombuffer(contents, np.uint8)[: shape.page_bytes].reshape(expected[3].shape)
        assert np.array_equal(paged.contents(pool), expected), "that page, and no other, is what was written"


@pytest.mark.parametrize("pages", [1, 2, 9])
def test_pages_of_a_device_are_copied_piece_by_piece(pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvlitmus.optimized.data.pages.PIECE", pages * SHAPE.page_bytes)
    device, host = pools()
    expected = paged.contents(device).copy()
    sources, targets = numbers(7, 1, 9, 4, 2), numbers(3, 8, 0, 5, 11)
    expected[targets] = expected[sources]
    TorchMover(device, host).copy(sources, targets)
    assert np.array_equal(paged.contents(device), expected)


def test_a_page_of_the_canonical_layout_is_no_copy() -> None:
    _, host = pools()
    view = read_page(host, 4)
    write_page(host, 4, bytes(SHAPE.page_bytes))
    assert bytes(view) == bytes(SHAPE.page_bytes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_that_cannot_be_written(layout: Layout) -> None:
    _, host = pools(layout)
    before = host.buffer.clone()
    for size in (0, SHAPE.page_bytes - 1, SHAPE.page_bytes + 1):
        with pytest.raises(ValueError, match=f"a page has {SHAPE.page_bytes} bytes"):
            write_page(host, 1, bytes(size))
    for page in (-1, 12):
        with pytest.raises(IndexError, match="page must be from 0 to 11"):
            write_page(host, page, bytes(SHAPE.page_bytes))
        with pytest.raises(IndexError, match="page must be from 0 to 11"):
            read_page(host, page)
    assert torch.equal(host.buffer, before)


# -- step by step -------------------------------------------------------------------------------------------


def test_a_stepped_copy_goes_on_when_it_is_advanced() -> None:
    device, host = pools()
    mover: Mover = TorchMover(device, host)
    assert (mover.layers, mover.page_bytes) == (4, SHAPE.page_bytes)
    source, before = paged.contents(host).copy(), paged.contents(device).copy()
    ticket: Ticket = mover.load(numbers(3, 1), numbers(5, 6))
    for steps, ready in ((0, 0), (1, 1), (2, 3), (9, 4)):
        ticket.advance(steps)
        assert (ticket.layers_ready(), ticket.done()) == (ready, ready == 4)
        expected = before.copy()
        expected[[5, 6], :, :ready] = source[[3, 1], :, :ready]
        assert np.array_equal(paged.contents(device), expected)
        if ready:
            ticket.wait_layer(ready - 1)
        if ready < 4:
            with pytest.raises(RuntimeError, match="not copied yet"):
                ticket.wait_layer(ready)


def test_a_stepped_copy_is_made_by_waiting_and_dropped_by_cancelling() -> None:
    device, host = pools()
    mover = TorchMover(device, host)
    before = paged.contents(device).copy()
    dropped = mover.load(numbers(3), numbers(5))
    dropped.advance(1)
    dropped.cancel()
    assert dropped.done()
    dropped.wait()
    expected = before.copy()
    expected[5, :, :1] = paged.contents(host)[3, :, :1]
    assert np.array_equal(paged.contents(device), expected)
    mover.backup(numbers(1, 2), numbers(8, 7)).wait()
    assert np.array_equal(paged.contents(host)[[8, 7]], before[[1, 2]])


@pytest.mark.parametrize("stepped", [True, False])
def test_what_a_mover_refuses(stepped: bool) -> None:
    device, host = pools()
    with TorchMover(device, host, stepped=stepped) as mover:
        with pytest.raises(ValueError, match="2 pages can't be copied to 1"):
            mover.backup(numbers(1, 2), numbers(1))
        for pages in (numbers(12), numbers(-1)):
            with pytest.raises(IndexError, match="pages must be from 0 to 11"):
                mover.load(pages, numbers(1))
        nothing = mover.backup(numbers(), numbers())
        nothing.wait()
        assert nothing.done() and nothing.layers_ready() == 4
    with pytest.raises(ValueError, match="same shape"):
        TorchMover(device, HostPool(paged.shape_of(paged.ROWS[0], "fp32", 2), 3, pinned=False))


# -- by threads ---------------------------------------------------------------------------------------------


class Gate:
    """Lets the copying threads take one layer at a time."""

    def __init__(self) -> None:
        self.open = threading.Semaphore(0)
        self.reached: list[int] = []

    def __call__(self, layer: int) -> None:
        self.reached.append(layer)
        assert self.open.acquire(timeout=PATIENCE)


@pytest.fixture
def often() -> Iterator[None]:
    """Threads change as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def reaches(ticket: Any, layers: int) -> None:
    """Wait until so many layers are ready."""
    end = time.monotonic() + PATIENCE
    while ticket.layers_ready() < layers:
        assert time.monotonic() < end, f"{ticket.layers_ready()} layers of {layers}"
        time.sleep(0.001)


def test_a_free_copy_tells_how_far_it_is() -> None:
    device, host = pools()
    gate = Gate()
    source, before = paged.contents(host).copy(), paged.contents(device).copy()
    mover = PausingMover(device, host, stepped=False, pause=gate)
    ticket = mover.load(numbers(3, 1), numbers(5, 6))
    ticket.advance()  # nothing: it goes on by itself
    for ready in range(4):
        assert (ticket.layers_ready(), ticket.done()) == (ready, False)
        expected = before.copy()
        expected[[5, 6], :, :ready] = source[[3, 1], :, :ready]
        assert np.array_equal(paged.contents(device), expected)
        gate.open.release()
        ticket.wait_layer(ready)
    ticket.wait()
    assert ticket.done() and np.array_equal(paged.contents(device)[[5, 6]], source[[3, 1]])
    mover.close()


def test_a_cancelled_free_copy_is_done_only_when_its_thread_has_let_go() -> None:
    device, host = pools()
    gate = Gate()
    mover = PausingMover(device, host, stepped=False, pause=gate)
    ticket = mover.load(numbers(3), numbers(5))
    gate.open.release()
    reaches(ticket, 1)
    ticket.cancel()
    assert not ticket.done(), "the thread is at the next layer: the pages are not free"
    before = paged.contents(device).copy()
    gate.open.release()
    ticket.wait()
    assert ticket.done() and ticket.layers_ready() == 1
    assert np.array_equal(paged.contents(device), before), "no further layer was copied"
    with pytest.raises(RuntimeError, match="will not come"):
        ticket.wait_layer(2)
    mover.close()


def test_a_copy_that_fails_says_so_and_the_next_one_is_made() -> None:
    device, host = pools()
    broken = [True]

    def pause(layer: int) -> None:
        if layer == 2 and broken.pop():
            raise OSError("a planted error")

    mover = PausingMover(device, host, stepped=False, pause=pause)
    ticket = mover.backup(numbers(3), numbers(5))
    with pytest.raises(RuntimeError, match="a copy failed") as caught:
        ticket.wait()
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(RuntimeError, match="a copy failed"):
        ticket.done()
    with pytest.raises(RuntimeError, match="will not come"):
        ticket.wait_layer(3)
    broken.append(False)
    mover.backup(numbers(4), numbers(6)).wait()
    assert np.array_equal(paged.contents(host)[6], paged.contents(device)[4])
    mover.close()


def test_closing_waits_for_what_was_submitted() -> None:
    device, host = pools()
    mover = PausingMover(device, host, stepped=False, pause=lambda layer: time.sleep(0.005))
    tickets = [mover.backup(numbers(page), numbers(11 - page)) for page in range(8)]
    mover.close()
    assert all(ticket.done() for ticket in tickets)
    assert np.array_equal(paged.contents(host)[4:][::-1], paged.contents(device)[:8])
    with pytest.raises(RuntimeError, match="closed"):
        mover.backup(numbers(1), numbers(1))
    mover.close()


STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(0, 999)), min_size=4, max_size=24)


@settings(max_examples=60)
@given(steps=STEPS, layout=st.sampled_from(LAYOUTS))
@pytest.mark.usefixtures("often")
def test_both_directions_at_once(steps: list[tuple[bool, int, int]], layout: Layout) -> None:
    """Random backups and loads on both threads; a page waits for the copies that it has a part in, and for no other.

    A model is kept of what every page must hold; at the end every byte is compared.
    """
    device, host = pools(layout)
    models = [paged.contents(device).copy(), paged.contents(host).copy()]
    under_way: list[tuple[Any, set[tuple[int, int]]]] = []
    with TorchMover(device, host, stepped=False) as mover:
        for load, count, seed in steps:
            rng = np.random.default_rng(seed)
            on_device, on_host = (rng.permutation(12)[:count].astype(np.int32) for _ in range(2))
            mine = {(0, int(page)) for page in on_device} | {(1, int(page)) for page in on_host}
            for ticket, pages in under_way:
                if pages & mine:
                    ticket.wait()
            under_way = [(ticket, pages) for ticket, pages in under_way if not ticket.done()]
            if load:
                models[0][on_device] = models[1][on_host]
                under_way.append((mover.load(on_host, on_device), mine))
            else:
                models[1][on_host] = models[0][on_device]
                under_way.append((mover.backup(on_device, on_host), mine))
        for ticket, _ in under_way:
            ticket.wait()
    assert np.array_equal(paged.contents(device), models[0])
    assert np.array_equal(paged.contents(host), models[1])
