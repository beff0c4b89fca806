"""What a page holds: how many bytes, of which part of which layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

Kind: TypeAlias = Literal["mha", "mla"]

DTYPES: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "bytes": torch.uint8,
}
"""Element types by name; ``bytes`` is for packed rows, such as 656-byte fp8 latents with their scales."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KVShape:
    """The KV of one model on one rank.

    kind: ``mha`` (also GQA and MQA) keeps a K and a V row per token and layer, ``mla`` one latent row.
    layers, heads: of this rank; with ``mla`` there is one head.  head_dim: elements per head; with ``mla`` the width
    of the row.  dtype: element type.  page_size: tokens per page.

    >>> KVShape(layers=32, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64).token_bytes
    131072
    """

    layers: int
    heads: int = 1
    head_dim: int
    dtype: torch.dtype
    page_size: int
    kind: Kind = "mha"

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a shape that can't be."""
        for name in ("layers", "heads", "head_dim", "page_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1 (got {getattr(self, name)})", name)
        if self.kind not in ("mha", "mla"):
            raise ValueError(f"kind must be 'mha' or 'mla' (got {self.kind!r})", "kind")
        if self.kind == "mla" and self.heads != 1:
            raise ValueError(f"heads must be 1 with kind='mla', whose row all heads share (got {self.heads})", "heads")

    @property
    def components(self) -> int:
        """Rows per token and layer: K and V, or the latent alone."""
        return 2 if self.kind == "mha" else 1

    @property
    def head_bytes(self) -> int:
        """Bytes of one head of one row: the smallest piece that any layout keeps together."""
        size: int = self.dtype.itemsize
        return self.head_dim * size

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: all heads of one token in one layer, K or V."""
        return self.heads * self.head_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of one token over all layers, K and V."""
        return self.components * self.layers * self.row_bytes

    @property
    def layer_bytes(self) -> int:
        """Bytes of one layer of one page, K and V."""
        return self.components * self.page_size * self.row_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of one page over all layers, K and V."""
        return self.page_size * self.token_bytes

    @property
    def text(self) -> str:
        """The order of the canonical bytes of a page, for the identity of a page store."""
        dtype = str(self.dtype).removeprefix("torch.")
        return (
            f"canonical 1: {self.kind} {dtype} [component {self.components}][layer {self.layers}]"
            f"[token {self.page_size}][head {self.heads}][element {self.head_dim}]"
        )
