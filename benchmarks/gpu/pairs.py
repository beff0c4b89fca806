"""Pools whose every byte is known: what the correctness checks copy between, and how they find a wrong byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from benchmarks.gpu.device import Machine
from benchmarks.gpu.movers import contents, differ
from kvlitmus.optimized.data.layout import LAYOUTS, Layout, Nest, nest, strides
from kvlitmus.optimized.data.pools import KVPool
from kvlitmus.optimized.data.shape import DTYPES, KVShape

GUARD = 4096
"""Bytes before and behind each pool that nothing may touch."""

Array = np.ndarray[Any, Any]


def shape(kind: Any, dtype: str, page: int, heads: int, width: int, layers: int = 3) -> KVShape:
    """A shape by the names of its parts."""
    return KVShape(kind=kind, layers=layers, heads=heads, head_dim=width, dtype=DTYPES[dtype], page_size=page)


Case: TypeAlias = tuple[str, str, int, int, int]

CASES: tuple[
    Case, ...
] = (  # kind, element type, page size, heads, elements of a head: every page size, element type and row length once
    ("mha", "bf16", 64, 8, 128),  # rows of 2,048 bytes
    ("mha", "bf16", 16, 2, 128),  # 512
    ("mha", "fp16", 1, 8, 128),  # 2,048, token by token
    ("mha", "fp8_e4m3", 32, 1, 128),  # 128
    ("mha", "fp8_e5m2", 128, 4, 64),  # 256
    ("mha", "fp32", 16, 3, 80),  # 960, in thirds
    ("mla", "bf16", 64, 1, 576),  # 1,152
    ("mla", "fp8_e4m3", 32, 1, 576),  # 576
    ("mla", "bytes", 64, 1, 656),  # packed rows with their scales
    ("mla", "bytes", 1, 1, 656),
    ("mla", "fp16", 128, 1, 576),
    ("mha", "fp8_e4m3", 16, 3, 5),  # 15: no access is wider than a byte
)
DRY_CASES: tuple[Case, ...] = (("mha", "bf16", 2, 2, 8), ("mla", "bytes", 1, 1, 41))


class Pair(NamedTuple):
    """One copy that is checked: from where to where, in which layouts."""

    source_host: bool
    target_host: bool
    source: Layout
    target: Layout

    @property
    def text(self) -> str:
        """The pair as a reader says it."""
        sides = ["host" if host else "device" for host in (self.source_host, self.target_host)]
        return f"{sides[0]} {self.source} to {sides[1]} {self.target}"


def pairs() -> list[Pair]:
    """Both directions over the link in every pair of layouts with a layer-first side, and every pair on the device."""
    made = [Pair(True, False, layout, "layer_first") for layout in LAYOUTS]
    made += [Pair(False, True, "layer_first", layout) for layout in LAYOUTS]
    made += [Pair(True, False, "page_head", "page_first"), Pair(False, True, "page_first", "page_first_direct")]
    made += [Pair(False, False, one, other) for one in LAYOUTS for other in LAYOUTS if one != other]
    return [*made, Pair(False, False, "layer_first", "layer_first")]


@dataclass
class Guarded:
    """A pool in the middle of a buffer, with the guards around it."""

    pool: KVPool
    whole: torch.Tensor

    @property
    def pages(self) -> torch.Tensor:
        """The contents by page, as bytes on the CPU, in one order for all layouts."""
        return contents(self.pool)

    @property
    def guards(self) -> torch.Tensor:
        """What is before and behind the pool."""
        return torch.cat([self.whole[:GUARD], self.whole[-GUARD:]]).cpu()


def guarded(machine: Machine, of: KVShape, pages: int, layout: Layout, *, host: bool) -> Guarded:
    """A pool with random contents, guards included."""
    size = pages * of.page_bytes + 2 * GUARD
    whole = machine.host_bytes(size) if host else machine.device_bytes(size)
    return Guarded(KVPool(of, pages, layout, whole[GUARD:-GUARD]), whole)


def wrong_bytes(target: Guarded, wanted: torch.Tensor, guards: torch.Tensor) -> str:
    """What is wrong in a pool after a copy, or nothing: bytes that differ, by page, and guards that were touched."""
    said = [differ(target.pages, wanted)]
    said.append("" if torch.equal(target.guards, guards) else "bytes beside the pool were written")
    return ", ".join(filter(None, said))


def loops(of: KVShape, pair: Pair, pages: tuple[int, int], *, by_layer: bool = False) -> Nest:
    """The loops of a pair; pages: of the source's and the target's pool."""
    return nest(of, strides(pair.source, of, pages[0]), strides(pair.target, of, pages[1]), by_layer=by_layer)
