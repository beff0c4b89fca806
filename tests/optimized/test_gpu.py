"""The optimized cache on a CUDA device; what can be tried on CPU tensors as well, is.

The checks of transfers are those of ``benchmarks/gpu.py``, here with the caller on a stream of its own; beside them
what is particular to CUDA: more tickets than a lane has slots for, tables longer than its ring, batches of the copy
engine, cancelled copies, and the hierarchy in lock step with the reference.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.gpu import movers, pairs
from benchmarks.gpu.device import Machine
from benchmarks.gpu.movers import World, contents
from kvlitmus.conformance.adapters.optimized.contents import VARIANTS
from kvlitmus.conformance.adapters.optimized.flat import PROFILE
from kvlitmus.conformance.adapters.optimized.target import OptimizedTarget
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.generate.schedule import draw
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.optimized.data import numa, pools
from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.layout import LAYOUTS, Layout
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.transfer import TorchMover
from tests.support.lockstep import kinds_of, lockstep

CUDA = torch.cuda.is_available()
GPU = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="not run: no CUDA device")]
on_gpu = pytest.mark.parametrize("device", [pytest.param("cuda", marks=GPU)])
anywhere = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])

TINY = KVShape(layers=3, heads=2, head_dim=8, dtype=torch.bfloat16, page_size=2)
ONE_UNIT = KVShape(kind="mla", layers=1, head_dim=8, dtype=torch.bfloat16, page_size=1)


@contextlib.contextmanager
def streams_of(machine: Machine) -> Iterator[None]:
    """The caller computes on a stream of its own, as engines do."""
    with torch.cuda.stream(torch.cuda.Stream() if machine.cuda else None):
        yield
        machine.sync()


@anywhere
@pytest.mark.parametrize(
    "attempt", ["round_trip", "layer_by_layer", "late_producer", "late_reader", "dropped", "cancelled", "crowded"]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_transfers_are_exact_and_in_order(device: str, layout: Layout, attempt: str) -> None:
    machine = Machine(device, 1)
    with streams_of(machine):
        world = World.make(machine, TINY if device == "cpu" else movers.SHAPES[0][0](), layout, pages=30)
        try:
            for _ in range(3):
                assert getattr(world, attempt)(machine) == ""
        finally:
            world.close()


@anywhere
@pytest.mark.parametrize("fault", ["a byte", "a page", "beside the pool"])
def test_a_wrong_byte_is_seen(device: str, fault: str) -> None:
    """What the checks above would say, if a copy were wrong."""
    machine = Machine(device, 2)
    pool = pairs.guarded(machine, TINY, 5, "page_first", host=False)
    wanted, guards = pool.pages, pool.guards
    assert pairs.wrong_bytes(pool, wanted, guards) == ""
    if fault == "a byte":
        pool.pool.buffer[17] ^= 1
    elif fault == "a page":
        pool.pool.buffer[TINY.page_bytes : 2 * TINY.page_bytes] ^= 255
    else:
        pool.whole[pairs.GUARD - 1] ^= 1
    said = pairs.wrong_bytes(pool, wanted, guards)
    assert said.startswith(
        {"a byte": "1 wrong bytes in pages [0]", "a page": f"{TINY.page_bytes} wrong"}.get(fault, "bytes")
    )


@on_gpu
@pytest.mark.parametrize("engine", ["kernel", "dma", "torch"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_engines_agree(device: str, layout: Layout, engine: Any) -> None:
    """Neighbouring pages among the random ones: the copy engine joins them to longer runs."""
    machine = Machine(device, 3)
    world = World.make(machine, TINY, layout, pages=24)
    here, there = machine.pages(24)[:15], machine.pages(24)[:15]
    here[5:12], there[5:12] = np.sort(here[5:12]), np.sort(there[5:12])
    side = torch.cuda.Stream()
    for source, target in ((world.host, world.device), (world.device, world.host)):
        for by_layer in (False, True):
            world.scramble(machine)
            wanted = contents(target)
            wanted[torch.from_numpy(there).long()] = contents(source)[torch.from_numpy(here).long()]
            with torch.cuda.stream(side):
                copy = PageCopy(source, target, engine=engine, by_layer=by_layer)
                copy.now(here, there)
            machine.sync()
            assert torch.equal(contents(target), wanted), (layout, engine, by_layer)


@anywhere
def test_more_tickets_than_slots(device: str) -> None:
    """Some hundred transfers of a page each, all submitted before any is waited for."""
    machine = Machine(device, 4)
    world = World.make(machine, TINY, "layer_first", pages=701)
    there, here = machine.pages(701), machine.pages(701)
    wanted = contents(world.device)
    wanted[torch.from_numpy(here).long()] = contents(world.host)[torch.from_numpy(there).long()]
    movers.doze(machine)
    tickets = [world.mover.load(there[at : at + 1], here[at : at + 1]) for at in range(700)]
    tickets[-1].wait_layer(0)
    for ticket in tickets:
        ticket.wait()
        assert ticket.layers_ready() == TINY.layers
    machine.sync()
    assert torch.equal(contents(world.device), wanted)
    world.close()


@anywhere
def test_tables_longer_than_the_ring(device: str) -> None:
    """A transfer of more pages than a lane's ring of page tables holds at first, between small ones."""
    pages = 160_000 if device == "cuda" else 2_000
    machine = Machine(device, 5)
    world = World.make(machine, ONE_UNIT, "page_first_direct", pages=pages)
    there, here = machine.pages(pages), machine.pages(pages)
    host = contents(world.host)
    for count in (10, 70_000, pages - 1, 70_000, 10):
        world.device.buffer.zero_()
        world.mover.load(there[:count], here[:count]).wait()
        machine.sync()
        wanted = torch.zeros_like(host)
        wanted[torch.from_numpy(here[:count]).long()] = host[torch.from_numpy(there[:count]).long()]
        assert torch.equal(contents(world.device), wanted)
    world.close()


@anywhere
def test_nothing_is_moved_for_no_pages_and_nothing_past_the_pools(device: str) -> None:
    machine = Machine(device, 6)
    world = World.make(machine, TINY, "layer_first", pages=9)
    before = contents(world.device), contents(world.host)
    nothing = np.zeros(0, np.int32)
    for call in (world.mover.load, world.mover.backup):
        ticket = call(nothing, nothing)
        ticket.wait()
        assert ticket.done() and ticket.layers_ready() == TINY.layers
        for wrong in (-1, 9, 1 << 30):
            with pytest.raises(IndexError):
                call(np.array([1, wrong], np.int32), np.array([2, 3], np.int32))
        with pytest.raises(ValueError, match="copied to 0"):
            call(np.array([1], np.int32), nothing)
    world.mover.load(nothing, nothing).wait()
    machine.sync()
    assert torch.equal(contents(world.device), before[0]) and torch.equal(contents(world.host), before[1])
    world.close()


@anywhere
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_cancelled_copy_writes_no_more(device: str, steps: int) -> None:
    """Stepped: what was advanced is there, what was not never comes."""
    machine = Machine(device, 7)
    device_pool, host_pool = DevicePool(TINY, 8, device=device), HostPool(TINY, 8, layout="page_head")
    machine.fill(device_pool.buffer)
    machine.fill(host_pool.buffer)
    mover = TorchMover(device_pool, host_pool, stepped=True)
    before, source = contents(device_pool).view(8, 2, 3, -1), contents(host_pool).view(8, 2, 3, -1)
    ticket = mover.load(np.array([1, 5], np.int32), np.array([2, 3], np.int32))
    if steps:
        ticket.advance(steps)
    ticket.cancel()
    ticket.advance()
    assert ticket.done()
    machine.sync()
    wanted = before.clone()
    wanted[[2, 3], :, :steps] = source[[1, 5], :, :steps]
    assert torch.equal(contents(device_pool).view(8, 2, 3, -1), wanted)
    mover.close()


@anywhere
def test_cancelled_transfers_leave_no_page_half_written_when_done(device: str) -> None:
    """Free-running: after ``done`` nothing of a cancelled copy is written any more, and its layers are whole or old."""
    machine = Machine(device, 8)
    world = World.make(machine, TINY, "layer_first", pages=40)
    for _ in range(10):
        world.scramble(machine)
        old, source = contents(world.device).view(40, 2, 3, -1), contents(world.host).view(40, 2, 3, -1)
        there, here = machine.pages(40), machine.pages(40)
        ticket = world.mover.load(there, here)
        ticket.cancel()
        ticket.wait()
        machine.sync()
        found = contents(world.device).view(40, 2, 3, -1)
        rows, froms = torch.from_numpy(here).long(), torch.from_numpy(there).long()
        for layer in range(3):
            new = torch.equal(found[rows][:, :, layer], source[froms][:, :, layer])
            assert new or torch.equal(found[rows][:, :, layer], old[rows][:, :, layer])
        world.device.buffer.zero_()
        machine.sync()
        assert not contents(world.device).any()
    world.close()


@pytest.mark.parametrize("refused", [False, True])
def test_memory_that_cannot_be_locked_afterwards_is_torchs(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    """Where ``cudaHostRegister`` is refused, the pool is memory that torch has locked; nothing is unlocked twice."""
    calls: list[str] = []

    def register(address: int, size: int, flags: int) -> int:
        calls.append("register")
        return 801 if refused else 0

    def unregister(address: int) -> None:
        calls.append("unregister")

    runtime = SimpleNamespace(cudaHostRegister=register, cudaHostUnregister=unregister)
    by_torch = torch.zeros(8 * TINY.page_bytes, dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(numa, "node_of", lambda device: 0)
    monkeypatch.setattr(pools, "_runtime", lambda: runtime)
    monkeypatch.setattr(pools, "_pinned_by_torch", lambda size: by_torch[:size])
    pool = HostPool(TINY, 8)
    assert pool.pinned and (pool.address == by_torch.data_ptr()) == refused
    assert pool.rows(1, 2).shape == (8, 2, 2, 8)
    del pool
    gc.collect()
    assert calls == (["register"] if refused else ["register", "unregister"])


REFERENCE = ReferenceTarget(PROFILE)


@on_gpu
@pytest.mark.parametrize("config", TIER_CONFIGS, ids=lambda config: config.label)
def test_the_hierarchy_agrees_with_the_reference_step_by_step(device: str, config: Config) -> None:
    target = OptimizedTarget(device=device)
    kinds = kinds_of(target, REFERENCE, config)
    steps = sum(lockstep(target, REFERENCE, config, draw(seed, 200, kinds)) for seed in range(3))
    assert steps > 400


@on_gpu
@pytest.mark.parametrize("variant", VARIANTS[::3], ids="-".join)
def test_every_kind_of_pool_agrees_with_the_reference(device: str, variant: Any) -> None:
    config = TIER_CONFIGS[0]
    target = OptimizedTarget(device=device, variant=variant)
    ops = draw(11, 200, kinds_of(target, REFERENCE, config))
    assert lockstep(target, REFERENCE, config, ops) > 150
