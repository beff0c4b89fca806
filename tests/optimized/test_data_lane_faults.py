"""A lane whose driver fails in the middle: nobody waits for ever, and nobody gets pages that a copy still writes."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.copies import Engine
from kvlitmus.optimized.data.layout import Layout
from kvlitmus.optimized.data.transfer import TorchMover
from tests.optimized.support import libcuda, streams
from tests.optimized.test_data_lane import mover_of, numbers, see
from tests.support.processes import LIMIT, eventually

KINDS: list[tuple[Engine, Layout, int]] = [
    ("kernel", "page_first_direct", 3),
    ("dma", "layer_first", 1),
    ("dma", "page_head", 5),  # so many descriptors that a thread submits them
    ("staged", "page_head", 5),  # so many pieces
]
kinds = pytest.mark.parametrize(("engine", "layout", "count"), KINDS, ids=[f"{one[0]}-{one[2]}" for one in KINDS])


def test_a_small_copy_that_the_caller_submits_fails_under_way() -> None:
    with streams.install() as world:
        mover = mover_of("page_head", load_engine="dma")
        world.cuda.before = lambda name: 700 if name == "cuMemcpyBatchAsync_v2" else 0
        ticket = mover.load(numbers(1), numbers(5))
        world.cuda.before = lambda name: 0
        for ask in (ticket.wait, ticket.done, lambda: ticket.wait_layer(0)):
            with pytest.raises(RuntimeError, match="could not be submitted"):
                ask()
        assert mover.load(numbers(2), numbers(3)).wait()
        mover.close()


def everything(world: streams.World, mover: TorchMover, count: int, way: str) -> list[BaseException]:
    """Submit a copy, wait for each of its layers on the stream and then for its end; what was raised."""
    pages = np.arange(count, dtype=np.int32)
    raised: list[BaseException] = []
    try:
        ticket = getattr(mover, way)(pages, pages + 1)
    except RuntimeError as error:
        return [error]
    asks: list[Any] = [lambda layer=layer: ticket.wait_layer(layer) for layer in range(4)]
    for ask in (*asks, ticket.wait, ticket.done, world.finish):
        try:
            ask()
        except RuntimeError as error:
            raised.append(error)
    assert not ticket.pending
    return raised


def ended(work: Any) -> Any:
    """What ``work`` answers in a thread of its own: one that hangs is seen."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert found, "it hangs"
    return found[0]


@pytest.mark.parametrize("way", ["load", "backup"])
@kinds
def test_whichever_call_fails_whoever_waits_is_told(engine: Engine, layout: Layout, count: int, way: str) -> None:
    """Each call of the driver and the runtime in its turn, of a copy and what waits for it."""
    with streams.install() as world:
        mover = mover_of(layout, load_engine=engine, backup_engine=engine)
        world.cuda.calls.clear()
        assert ended(lambda: everything(world, mover, count, way)) == []
        calls = len(world.cuda.calls)
        mover.close()
        assert calls >= 8
    for failing in range(calls + 3):
        with streams.install() as world:
            mover = mover_of(layout, load_engine=engine, backup_engine=engine)
            failed: list[str] = []
            left = iter(range(failing, -1, -1))

            def fail(name: str, left: Iterator[int] = left, failed: list[str] = failed) -> int:
                if next(left, 1) != 0:
                    return 0
                failed.append(name)
                return 719

            world.cuda.before = fail
            raised = ended(lambda: everything(world, mover, count, way))  # noqa: B023  (it is over before the next)
            world.cuda.before = lambda name: 0
            # The thread whose context could not be set gets it from the runtime, of which it waits for an event.
            assert raised or failed in ([], ["cuCtxSetCurrent"]), f"{failed} failed, and nobody was told"
            world.finish()  # no stream waits for what will not come
            assert mover.load(numbers(2), numbers(3)).wait()
            assert np.array_equal(see(mover.device_pool)[3], see(mover.host_pool)[2])
            mover.close()


@kinds
def test_a_context_that_is_lost_hangs_nobody(engine: Engine, layout: Layout, count: int) -> None:
    """From some call on all fail, as after an illegal access: every wait ends, and says so."""
    for first in range(0, 24, 2):
        with streams.install() as world:
            mover = mover_of(layout, load_engine=engine, backup_engine=engine)
            left = iter(range(first, 0, -1))

            def lose(name: str, world: streams.World = world, left: Iterator[int] = left) -> int:
                if not next(left, 0):
                    world.cuda.poisoned = libcuda.ILLEGAL_ADDRESS
                return 0

            world.cuda.before = lose
            raised = ended(lambda: everything(world, mover, count, "load"))  # noqa: B023
            assert raised or not world.cuda.poisoned
            if world.cuda.poisoned:
                for ask in (lambda: mover.load(numbers(1), numbers(1)).wait(), mover.close):  # noqa: B023
                    with pytest.raises(RuntimeError):
                        ask()


def test_a_copy_whose_end_cannot_be_recorded_says_so() -> None:
    with streams.install() as world:
        mover = mover_of("page_head", backup_engine="dma")

        def before(name: str) -> int:
            return 700 if name == "event.record" and threading.current_thread().name == "kv-backup" else 0

        world.cuda.before = before
        ticket: Any = mover.backup(numbers(1, 3, 5), numbers(1, 3, 5))
        ended(lambda: [ticket.forget()])
        with pytest.raises(RuntimeError, match="could not be submitted"):
            ticket.wait()
        world.cuda.before = lambda name: 0
        mover.close()


def test_a_thread_whose_device_cannot_be_set_tells_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with streams.install() as world:
        mover = mover_of("page_head", backup_engine="dma")

        def refuse(_: Any) -> Any:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        world.patch.setattr(torch.cuda, "device", refuse)
        ticket: Any = mover.backup(numbers(1, 3, 5), numbers(1, 3, 5))
        ended(lambda: [ticket.forget()])
        with pytest.raises(RuntimeError, match="could not be submitted"):
            ticket.wait()
        mover.close()


@kinds
def test_a_thread_that_submits_needs_no_context_of_its_own(engine: Engine, layout: Layout, count: int) -> None:
    """The first call of CUDA on a thread is the driver's: the lane's own thread, and any that a caller comes from."""
    with streams.install() as world:
        mover = mover_of(layout, load_engine=engine, backup_engine=engine)
        pages = np.arange(count, dtype=np.int32)
        ended(lambda: mover.load(pages, pages).wait())
        ticket = mover.load(pages, pages)

        def look() -> str:
            try:
                ticket.wait_layer(1)
            except RuntimeError as error:
                return str(error)
            return "nothing was raised"

        assert ended(look) == "nothing was raised"
        ticket.wait()
        world.finish()
        assert "cuCtxSetCurrent" in world.cuda.calls
        assert np.array_equal(see(mover.device_pool)[pages], see(mover.host_pool)[pages])
        mover.close()


@pytest.mark.parametrize("way", ["load", "backup"])
@pytest.mark.parametrize("count", [1, 5])
def test_a_staged_copy_that_failed_is_over_when_it_says_so(way: str, count: int) -> None:
    """On neither of its two streams anything is left that touches a page or the stage."""
    with streams.install() as world:
        mover = mover_of("page_head", load_engine="staged", backup_engine="staged")
        pages = np.arange(count, dtype=np.int32)
        for name in ("cuMemcpyBatchAsync_v2", "cuLaunchKernel"):
            for which in range(2):
                left = iter([0] * which)
                world.cuda.before = lambda call, name=name, left=left: (  # type: ignore[misc]
                    next(left, 719) if call == name else 0
                )
                ticket: Any = getattr(mover, way)(pages, pages)
                ended(lambda: [ticket.forget()])  # noqa: B023  (it is over before the next)
                assert not any(stream.queue for stream in world.streams), (name, which)
                world.cuda.before = lambda call: 0
        mover.close()


def test_a_call_without_a_context_is_refused() -> None:
    """What the driver of these tests is as strict in as the real one."""
    with streams.install() as world:
        byte = np.zeros(2, np.uint8)
        source = byte.ctypes.data

        def copy() -> int:
            with pytest.raises(driver.DriverError) as caught:
                driver.copy_async(source, source + 1, 1, world.current.cuda_stream)
            return int(caught.value.args[2])

        assert ended(copy) == libcuda.INVALID_CONTEXT


@kinds
def test_a_lane_that_nobody_closed_keeps_what_its_copies_use(engine: Engine, layout: Layout, count: int) -> None:
    """Its flags, tables and pools are nobody else's memory before its stream is through; then they are let go."""
    with streams.install() as world:
        mover = mover_of(layout, load_engine=engine, backup_engine=engine)
        pages = np.arange(count, dtype=np.int32)
        ticket: Any = mover.load(pages, pages)
        while ticket.pending:
            world.step(2)
        assert mover._lanes is not None
        kept: list[Any] = [weakref.ref(mover.device_pool), weakref.ref(mover._lanes[1]._flags)]
        del mover, ticket
        gc.collect()
        assert all(one() is not None for one in kept), "a copy under way writes to it"
        world.finish()
        mover_of(layout)
        gc.collect()
        world.finish()
        mover_of(layout)
        eventually(lambda: gc.collect() >= 0 and all(one() is None for one in kept))
        assert all(one() is None for one in kept)
