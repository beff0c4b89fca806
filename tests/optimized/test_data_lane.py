"""Transfers on streams, without a GPU: whatever interleaving of the streams, every page is what it must be."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.optimized.data import driver, lane
from kvlitmus.optimized.data.copies import Engine
from kvlitmus.optimized.data.layout import LAYOUTS, Layout
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.transfer import TorchMover
from tests.optimized.support import paged, streams
from tests.support.processes import LIMIT, eventually

SHAPE = KVShape(layers=4, heads=2, head_dim=4, dtype=torch.bfloat16, page_size=2)
PAGES = 12


def mover_of(layout: Layout = "page_first_direct", **options: Any) -> TorchMover:
    """A free-running mover over noise."""
    device = streams.OnDevice(SHAPE, PAGES)
    host = streams.locked(HostPool(SHAPE, PAGES, layout=layout, pinned=False))
    paged.fill(device, 1)
    paged.fill(host, 2)
    return TorchMover(device, host, stepped=False, **options)


def numbers(*pages: int) -> npt.NDArray[np.int32]:
    return np.array(pages, np.int32)


def see(pool: Any) -> paged.Bytes:
    """A pool's bytes as they are now; its memory is here, whatever it says of its device."""
    return paged.contents(pool)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["backup", "load", "write", "read"]),
        st.integers(1, 5),
        st.integers(0, 9999),
        st.lists(st.integers(0, 9), max_size=12),
    ),
    min_size=5,
    max_size=40,
)


ENGINE: st.SearchStrategy[Engine] = st.sampled_from(["kernel", "dma", "staged"])


@settings(max_examples=100)
@given(steps=STEPS, layout=st.sampled_from(LAYOUTS), engines=st.tuples(ENGINE, ENGINE), seed=st.integers(0, 99))
def test_any_interleaving(
    steps: list[tuple[str, int, int, list[int]]], layout: Layout, engines: tuple[Engine, Engine], seed: int
) -> None:
    """Backups, loads and what attention does to the device pool on the caller's stream, in any interleaving.

    Nobody waits on the host: a backup must come after the writes that the caller's stream has still to make, a load
    after its reads, and what reads a layer waits for that layer's flag on its stream.  Only copies that share a page
    wait for each other, as the control plane makes them.
    """
    with streams.install(seed) as world:
        if layout == "layer_first":  # has no whole pages to stage
            engines = (_unstaged(engines[0]), _unstaged(engines[1]))
        mover = mover_of(layout, backup_engine=engines[0], load_engine=engines[1])
        models = [see(mover.device_pool).copy(), see(mover.host_pool).copy()]
        held: list[tuple[Any, set[tuple[int, int]]]] = []
        looked: list[tuple[paged.Bytes, paged.Bytes]] = []
        for what, count, number, moves in steps:
            rng = np.random.default_rng(number)
            on_device, on_host = (rng.permutation(PAGES)[:count].astype(np.int32) for _ in range(2))
            mine = {(0, int(page)) for page in on_device}
            mine |= {(1, int(page)) for page in on_host} if what in ("backup", "load") else set()
            for ticket, pages in held:
                if pages & mine:
                    ticket.wait()
            held = [(ticket, pages) for ticket, pages in held if not ticket.done()]
            if what == "write":
                noise = rng.integers(0, 256, models[0][on_device].shape, dtype=np.uint8)
                models[0][on_device] = noise
                _later(world, mover.device_pool, on_device, noise)
            elif what == "backup":
                models[1][on_host] = models[0][on_device]
                held.append((mover.backup(on_device, on_host), mine))
            else:
                _load(world, mover, models, (on_device, on_host), held, looked, wait_all=what == "load")
            for which in moves:
                world.step(which)
        for ticket, _ in held:
            ticket.wait()
        world.finish()
        assert np.array_equal(see(mover.device_pool), models[0])
        assert np.array_equal(see(mover.host_pool), models[1])
        assert all(np.array_equal(seen, expected) for seen, expected in looked)
        mover.close()


def _unstaged(engine: Engine) -> Engine:
    return "kernel" if engine == "staged" else engine


def _later(world: streams.World, pool: DevicePool, pages: npt.NDArray[np.int32], noise: paged.Bytes) -> None:
    """The caller's stream writes pages when it comes to it."""
    world.current.do(lambda: see(pool).__setitem__(pages, noise))


def _load(
    world: streams.World,
    mover: TorchMover,
    models: list[paged.Bytes],
    pages: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]],
    held: list[tuple[Any, set[tuple[int, int]]]],
    looked: list[tuple[paged.Bytes, paged.Bytes]],
    *,
    wait_all: bool,
) -> None:
    """Load pages; then the caller's stream reads layer after layer, each when its copy is there."""
    on_device, on_host = pages
    mine = {(0, int(page)) for page in on_device} | {(1, int(page)) for page in on_host}
    for ticket, others in held:
        if others & mine:
            ticket.wait()
    models[0][on_device] = models[1][on_host]
    ticket = mover.load(on_host, on_device)
    held.append((ticket, mine))
    for layer in range(SHAPE.layers):
        ticket.wait_layer(SHAPE.layers - 1 if wait_all else layer)
        seen = np.zeros_like(models[0][on_device][:, :, layer])
        looked.append((seen, models[0][on_device][:, :, layer].copy()))

        def look(seen: paged.Bytes = seen, layer: int = layer) -> None:
            seen[:] = see(mover.device_pool)[on_device][:, :, layer]

        world.current.do(look)


def test_submitting_never_waits_and_layers_come_one_by_one() -> None:
    with streams.install() as world:
        mover = mover_of()
        world.blocked = 0
        expected = see(mover.host_pool)[[3, 1]]
        ticket = mover.load(numbers(3, 1), numbers(5, 6))
        for _ in range(3):
            mover.backup(numbers(7), numbers(8))
        assert world.blocked == 0
        assert (ticket.layers_ready(), ticket.done()) == (0, False)
        assert not world.step(2), "the stream of loads waits for the caller's"
        while world.step(0):
            pass
        seen = []
        while not ticket.done():
            assert world.step(2), "the stream of loads"
            seen.append(ticket.layers_ready())
        assert set(seen) == {0, 1, 2, 3, 4} and seen == sorted(seen)
        assert np.array_equal(see(mover.device_pool)[[5, 6]], expected)
        mover.close()


def test_tables_that_do_not_fit_make_the_ring_larger() -> None:
    with streams.install(entries=8) as world:
        mover = mover_of()
        expected = see(mover.host_pool).copy()
        first = mover.load(numbers(0, 1), numbers(1, 0))
        pages = np.arange(2, PAGES, dtype=np.int32)
        second = mover.load(pages, pages)
        world.finish()
        assert first.done() and second.done()
        assert np.array_equal(see(mover.device_pool)[[1, 0, *range(2, PAGES)]], expected)


def test_a_full_ring_waits_for_the_oldest_table_only() -> None:
    with streams.install(entries=8, slots=100) as world:
        mover = mover_of()
        world.blocked = 0
        tickets = [mover.load(numbers(page), numbers(page)) for page in range(4)]
        assert world.blocked == 0
        tickets.append(mover.load(numbers(4), numbers(4)))
        assert world.blocked == 1 and tickets[0].done() and not tickets[4].done()


def test_more_tickets_than_slots() -> None:
    with streams.install(entries=1024, slots=2) as world:
        mover = mover_of()
        tickets = [mover.load(numbers(page), numbers(page)) for page in range(5)]
        assert [ticket.done() for ticket in tickets] == [True] * 3 + [False] * 2
        assert [ticket.layers_ready() for ticket in tickets][:3] == [4] * 3
        for ticket in tickets:
            ticket.wait_layer(1)
            ticket.wait()
        world.finish()
        assert np.array_equal(see(mover.device_pool)[:5], see(mover.host_pool)[:5])


def test_many_descriptors_are_handed_to_a_thread_in_order() -> None:
    """96 chunks are more than a caller submits itself; a small copy submitted after them doesn't overtake them."""
    with streams.install() as world:
        mover = mover_of("page_head", backup_engine="dma")
        pages = numbers(1, 3, 5)
        large = mover.backup(pages, pages)
        small = mover.backup(numbers(), numbers())
        large.wait()
        small.wait()
        assert np.array_equal(see(mover.host_pool)[pages], see(mover.device_pool)[pages])
        assert world.of(2).queue == world.of(2).queue.__class__()
        mover.close()


def test_a_small_copy_does_not_overtake_what_a_thread_has_still_to_submit() -> None:
    with streams.install() as world:
        mover = mover_of("page_head", backup_engine="dma")
        submit, may = driver.copy_batch, threading.Event()

        def slowly(targets: Any, *others: Any) -> None:
            assert len(targets) < 96 or may.wait(LIMIT)
            submit(targets, *others)

        world.patch.setattr(driver, "copy_batch", slowly)
        large = mover.backup(numbers(1, 3, 5), numbers(1, 3, 5))
        small = mover.backup(numbers(7), numbers(5))
        assert not large.done() and not small.done() and small.layers_ready() == 0
        may.set()
        small.wait()
        assert large.done()
        world.finish()
        assert np.array_equal(see(mover.host_pool)[[1, 3, 5]], see(mover.device_pool)[[1, 3, 7]])
        mover.close()


def test_a_staged_copy_uses_its_stage_again_and_again() -> None:
    """Twelve pages by pieces of two over a stage of six, both ways, and a copy of one page behind it."""
    with streams.install() as world:
        mover = mover_of("page_head", backup_engine="staged", load_engine="staged")
        pages = np.arange(PAGES, dtype=np.int32)
        expected = see(mover.device_pool).copy()
        out = mover.backup(pages, pages[::-1].copy())
        out.wait()
        assert np.array_equal(see(mover.host_pool)[::-1], expected)
        home = mover.load(pages, pages)
        again = mover.load(numbers(0), numbers(1))
        again.wait()
        world.finish()
        assert home.done() and home.layers_ready() == 4
        expected = expected[::-1].copy()
        expected[1] = expected[0]
        assert np.array_equal(see(mover.device_pool), expected)
        mover.close()


def test_a_copy_that_could_not_be_submitted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with streams.install():
        mover = mover_of("page_head", backup_engine="dma")

        def refuse(*_: Any) -> None:
            raise driver.DriverError("cuMemcpyBatchAsync failed with CUDA error 700", "cuMemcpyBatchAsync", 700)

        with monkeypatch.context() as patch:
            patch.setattr(driver, "copy_batch", refuse)
            ticket = mover.backup(numbers(1, 3, 5), numbers(1, 3, 5))
            for ask in (ticket.wait, lambda: ticket.wait_layer(1), ticket.done):
                with pytest.raises(RuntimeError, match="could not be submitted") as caught:
                    ask()
                assert isinstance(caught.value.__cause__, driver.DriverError)
        mover.backup(numbers(1), numbers(2)).wait()
        assert np.array_equal(see(mover.host_pool)[2], see(mover.device_pool)[1])
        mover.close()


@pytest.mark.parametrize("engine", ["kernel", "dma"])
@pytest.mark.parametrize("missing", ["cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2"])
def test_without_values_in_streams_a_layer_is_there_with_the_last(engine: Engine, missing: str) -> None:
    with streams.install() as world:
        world.cuda.before = lambda name: 801 if name == missing else 0
        mover = mover_of(load_engine=engine)
        ticket = mover.load(numbers(3, 1, 7), numbers(5, 6, 8))
        ticket.wait_layer(0)
        seen: list[bool] = []
        world.current.do(lambda: seen.append(ticket.done()))
        world.finish()
        assert seen == [True] and ticket.layers_ready() == 4
        mover.close()


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_small_load_has_all_layers_at_once(small: int) -> None:
    """No barrier per layer where all layers are there before a barrier would be."""
    with streams.install(small=small) as world:
        mover = mover_of()
        expected = see(mover.host_pool)[[3, 1]]
        ticket = mover.load(numbers(3, 1), numbers(5, 6))
        ticket.wait_layer(0)
        seen = {0}
        while not ticket.done():
            assert any([world.step(0), world.step(2)])
            seen.add(ticket.layers_ready())
        assert seen == ({0, 4} if small else {0, 1, 2, 3, 4})
        assert np.array_equal(see(mover.device_pool)[[5, 6]], expected)
        mover.close()


@pytest.mark.parametrize("engine", ["kernel", "dma"])
def test_numbers_of_tickets_may_wrap(engine: Engine) -> None:
    """Epochs are numbers in 32 bits; what a slot was told half a range ago is not taken for reached."""
    with streams.install() as world:
        mover = mover_of("layer_first", load_engine=engine)
        assert mover._lanes is not None
        for first in ((1 << 31) - 6, (1 << 32) - 6):
            mover._lanes[1]._number = first
            for page in range(12):
                mover.device_pool.buffer.zero_()
                ticket = mover.load(numbers(page, (page + 1) % PAGES, (page + 2) % PAGES), numbers(1, 2, 3))
                ticket.wait_layer(2)
                assert ticket.layers_ready() == 0
                world.finish()
                assert ticket.done() and np.array_equal(see(mover.device_pool)[1], see(mover.host_pool)[page])
        mover.close()


@pytest.mark.parametrize("short", [0, 1 << 30])
def test_what_a_lane_refuses(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "_SHORT", short)
    with streams.install():
        mover = mover_of()
        with pytest.raises(ValueError, match="2 pages can't be copied to 1"):
            mover.load(numbers(1, 2), numbers(1))
        wraps: Any = np.array([(1 << 32) + 1], np.int64)  # as an int32 this is page 1
        wrong: Any
        for wrong in (numbers(PAGES), numbers(-1), wraps, -wraps, wraps.astype(np.uint64)):
            with pytest.raises(IndexError, match="pages must be from 0 to 11"):
                mover.load(wrong, numbers(1))
            with pytest.raises(IndexError, match="pages must be from 0 to 11"):
                mover.load(numbers(1), wrong)
            with pytest.raises(IndexError, match="pages must be from 0 to 11"):
                mover.backup(wrong, numbers(1))
        nothing = mover.load(numbers(), numbers())
        nothing.wait_layer(0)
        nothing.wait()
        assert nothing.done() and nothing.layers_ready() == 4
        with pytest.raises(IndexError, match="layer must be"):
            nothing.wait_layer(4)
        mover.close()


@pytest.mark.parametrize(("few", "groups"), [(1, {0, 1, 2, 3, 4}), (8, {0, 2, 4}), (32, {0, 4})])
def test_loads_by_the_copy_engine_come_layer_by_layer(
    monkeypatch: pytest.MonkeyPatch, few: int, groups: set[int]
) -> None:
    """A layer is ready as soon as its batch is copied; with few descriptors, several layers are in one batch."""
    monkeypatch.setattr(lane, "_FEW", few)
    with streams.install() as world:
        mover = mover_of("layer_first", load_engine="dma")
        expected = see(mover.host_pool)[[3, 1]]
        ticket: Any = mover.load(numbers(3, 1), numbers(5, 6))  # two pages, K and V: four descriptors a layer
        ticket.wait_layer(3)
        eventually(lambda: not ticket.pending)
        while world.step(0):
            pass
        assert not ticket.done()
        seen = []
        while not ticket.done():
            assert world.step(2), "the stream of loads"
            seen.append(ticket.layers_ready())
        assert set(seen) == groups and seen == sorted(seen)
        assert np.array_equal(see(mover.device_pool)[[5, 6]], expected)
        mover.close()


def test_no_stream_waits_for_what_is_not_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a layer blocks until a thread has submitted it, and no longer; a later copy doesn't overtake it.

    That no stream is told to wait for what nobody has submitted, these tests' driver sees to (``libcuda``).
    """
    monkeypatch.setattr(lane, "_FEW", 1)
    may = [threading.Event() for _ in range(4)]
    with streams.install() as world:
        mover = mover_of("layer_first", load_engine="dma")
        batches = iter(may)

        def held_up(name: str) -> int:
            if name == "cuMemcpyBatchAsync_v2":
                assert next(batches, may[-1]).wait(LIMIT)
            return 0

        world.cuda.before = held_up
        expected = see(mover.host_pool)[[3, 1]]
        first: Any = mover.load(numbers(3, 1), numbers(5, 6))
        second = mover.load(numbers(4), numbers(5))
        looked: list[bool] = []

        def look(layer: int) -> None:
            found = see(mover.device_pool)[[5, 6]][:, :, layer]
            looked.append(np.array_equal(found, expected[:, :, layer]))

        def compute() -> None:
            for layer in range(4):
                first.wait_layer(layer)
                world.current.do(lambda: look(layer))  # noqa: B023  (each is waited for before the next is asked for)
                asked.append(layer)
                assert went_on[layer].wait(LIMIT)

        asked: list[int] = []
        went_on = [threading.Event() for _ in range(4)]
        caller = threading.Thread(target=compute, daemon=True)
        caller.start()
        for layer in range(4):
            assert asked == list(range(layer)), "a layer that is not submitted is waited for by the host"
            may[layer].set()
            eventually(lambda: len(asked) == layer + 1)  # noqa: B023
            world.until(lambda: len(looked) == layer + 1)  # noqa: B023
            went_on[layer].set()
        caller.join(LIMIT)
        second.wait_layer(1)
        first.wait()
        second.wait()
        world.finish()
        assert looked == [True] * 4 and first.layers_ready() == second.layers_ready() == 4
        assert np.array_equal(see(mover.device_pool)[5], see(mover.host_pool)[4])
        mover.close()
