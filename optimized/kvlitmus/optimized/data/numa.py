"""Which memory node a device is on, and host memory on that node.

A page of memory lies on the node of the thread that touches it first, and a copy between a device and the other
socket's memory is slower.  ``Tensor.zero_`` of a large buffer runs on many threads, so it would spread a pool over all
nodes.
"""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path
from typing import Any

import torch

NODES = Path("/sys/devices/system/node")
DEVICES = Path("/sys/bus/pci/devices")
_MBIND = {"x86_64": 237, "aarch64": 235}
_PREFERRED = 1  # MPOL_PREFERRED: another node, where this one is full
_LARGEST = 1024  # nodes that a mask has room for


def nodes() -> int:
    """How many memory nodes this machine has; 1 where it doesn't say."""
    return max(1, sum(bool(re.fullmatch(r"node\d+", path.name)) for path in NODES.glob("node*")))


def node_of(device: torch.device) -> int | None:
    """The node that a CUDA device is attached to, or ``None`` where nobody says."""
    facts = torch.cuda.get_device_properties(device)
    try:
        address = f"{facts.pci_domain_id:04x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"
        node = int((DEVICES / address / "numa_node").read_text())
    except (AttributeError, OSError, ValueError):
        return None
    return node if node >= 0 else None


def zero(memory: torch.Tensor, node: int | None = None) -> None:
    """Touch fresh memory, so that it lies on a node: on the one given, or on that of the calling thread.

    The kernel is told first (``mbind``), so that many threads may touch it.  Where that is refused, as in some
    containers, or no node is given, this thread alone touches it; with one node there is nothing to choose.
    """
    if nodes() == 1 or (node is not None and prefer(memory.data_ptr(), memory.numel(), node)):
        memory.zero_()
    else:
        ctypes.memset(memory.data_ptr(), 0, memory.numel())


def prefer(address: int, size: int, node: int) -> bool:
    """Ask the kernel to take untouched memory, from a page border on, from a node; whether it will."""
    number = _MBIND.get(platform.machine())
    if number is None or not 0 <= node < _LARGEST:
        return False
    width = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (_LARGEST // width))()
    mask[node // width] = 1 << node % width
    given: list[Any] = [ctypes.c_long(number), ctypes.c_void_p(address), ctypes.c_ulong(size)]
    given += [ctypes.c_long(_PREFERRED), mask, ctypes.c_ulong(_LARGEST + 1), ctypes.c_ulong(0)]
    return bool(_libc().syscall(*given) == 0)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
