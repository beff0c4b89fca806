"""Host memory on the device's node: what the kernel is asked for, and what is done where it refuses."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvlitmus.optimized.data import numa
from kvlitmus.optimized.data.pools import HostPool
from tests.optimized.test_data_transfer import SHAPE


@pytest.mark.parametrize(("said", "node"), [("1\n", 1), ("0", 0), ("-1\n", None), ("", None), (None, None)])
def test_the_node_of_a_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None, node: int | None
) -> None:
    """By its address on the bus; -1 is what a machine of one node says."""
    facts = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xC4, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    monkeypatch.setattr(numa, "DEVICES", tmp_path)
    if said is not None:
        (tmp_path / "0000:c4:00.0").mkdir()
        (tmp_path / "0000:c4:00.0" / "numa_node").write_text(said)
    assert numa.node_of(torch.device("cuda:0")) == node
    facts.__dict__.clear()  # an older torch says nothing of the bus
    assert numa.node_of(torch.device("cuda:0")) is None


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="a kernel without memory nodes")
def test_the_kernel_is_asked_for_memory_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's own memory, in the kernel's own words."""
    answers: list[bool] = []
    prefer = numa.prefer

    def asked(address: int, size: int, node: int) -> bool:
        answers.append(prefer(address, size, node))
        return answers[-1]

    monkeypatch.setattr(numa, "nodes", lambda: 2)
    monkeypatch.setattr(numa, "prefer", asked)
    pool = HostPool(SHAPE, 4096, pinned=False, node=0)
    if answers == [False]:
        pytest.skip("this machine refuses mbind")
    lines = Path("/proc/self/numa_maps").read_text().splitlines()
    assert any(line.startswith(f"{pool.address:x} prefer") for line in lines)
    assert not pool.buffer.any()
    assert not prefer(pool.address, pool.buffer.numel(), 4000), "there is no such node"


@pytest.mark.parametrize(
    ("nodes", "node", "granted", "alone"),
    [(1, None, False, False), (2, 1, True, False), (2, 1, False, True), (2, None, True, True)],
)
def test_only_one_thread_touches_memory_that_the_kernel_would_spread(
    monkeypatch: pytest.MonkeyPatch, nodes: int, node: int | None, granted: bool, alone: bool
) -> None:
    touched: list[int] = []
    memset = ctypes.memset

    def touch(address: int, value: int, size: int) -> Any:
        touched.append(size)
        return memset(address, value, size)

    monkeypatch.setattr(numa, "nodes", lambda: nodes)
    monkeypatch.setattr(numa, "prefer", lambda *given: granted)
    monkeypatch.setattr(ctypes, "memset", touch)
    memory = torch.full((5000,), 7, dtype=torch.uint8)
    numa.zero(memory, node)
    assert not memory.any() and touched == ([5000] if alone else [])


def test_a_machine_that_nobody_knows_prefers_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    monkeypatch.setattr(numa, "NODES", tmp_path / "none")
    assert not numa.prefer(0, 1, 0) and numa.nodes() == 1
