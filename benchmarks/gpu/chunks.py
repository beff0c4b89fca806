"""What the other ways of moving chunks move: two layer-first pools, and which pages go where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.device import Machine


@dataclass
class Chunks:
    """Two layer-first pools of ``[parts, pages, chunk]`` bytes, and which pages go where."""

    host: torch.Tensor
    device: torch.Tensor
    host_pages: np.ndarray[Any, np.dtype[np.int32]]
    device_pages: np.ndarray[Any, np.dtype[np.int32]]

    @property
    def payload(self) -> int:
        """Bytes that one transfer moves."""
        return len(self.host_pages) * int(self.host.shape[0]) * int(self.host.shape[2])

    def sides(self, direction: str) -> tuple[torch.Tensor, torch.Tensor, Any, Any]:
        """Source, target, and their pages."""
        if direction == "h2d":
            return self.host, self.device, self.host_pages, self.device_pages
        return self.device, self.host, self.device_pages, self.host_pages


def made(machine: Machine, parts: int, pages: int, chunk: int) -> Chunks:
    """Pools with random contents, and a random order of the pages on both sides."""
    host = machine.host_bytes(parts * pages * chunk).view(parts, pages, chunk)
    device = machine.device_bytes(parts * pages * chunk).view(parts, pages, chunk)
    return Chunks(host, device, machine.pages(pages, 0), machine.pages(pages, 0))
