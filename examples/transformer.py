"""A small real transformer whose keys and values lie wherever the caller says.

Root-mean-square norms, rotary positions, grouped-query attention, a gated MLP: the model of most engines, small enough
for a CPU, with fixed random weights.  What is special is only that it doesn't own its KV: it hands the rows of new
tokens to a :class:`KV` and asks it for the rows of a context, by slot, layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention, silu


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the model is.  ``heads`` are those of queries; each ``heads / kv_heads`` of them share a K and a V."""

    layers: int = 4
    width: int = 96
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    vocabulary: int = 101


class KV(Protocol):
    """Where the model keeps its keys and values: rows of ``[kv_heads, head_dim]`` per layer and slot."""

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keep the rows of these slots."""

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of these slots, each ``[slots, kv_heads, head_dim]``."""


class Rows:
    """Keys and values in two tensors of their own, for one request: what there is without a cache."""

    def __init__(self, sizes: Sizes, slots: int, device: torch.device | str = "cpu") -> None:
        shape = (sizes.layers, slots, sizes.kv_heads, sizes.head_dim)
        self.keys = torch.full(shape, torch.nan, device=device)
        self.values = torch.full(shape, torch.nan, device=device)

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """See :class:`KV`."""
        self.keys[layer][slots] = keys
        self.values[layer][slots] = values

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See :class:`KV`."""
        return self.keys[layer][slots], self.values[layer][slots]


class Transformer:
    """The model; ``seed`` decides the weights, whatever the device."""

    def __init__(self, sizes: Sizes | None = None, *, seed: int = 0, device: torch.device | str = "cpu") -> None:
        self.sizes = sizes or Sizes()
        self.device = torch.device(device)
        draw = torch.Generator().manual_seed(seed)

        def weight(*shape: int) -> torch.Tensor:
            return (torch.randn(*shape, generator=draw) / shape[-1] ** 0.5).to(self.device)

        size = self.sizes
        self.embedding = weight(size.vocabulary, size.width) * size.width**0.5
        self.queries = [weight(size.heads * size.head_dim, size.width) for _ in range(size.layers)]
        self.keys = [weight(size.kv_heads * size.head_dim, size.width) for _ in range(size.layers)]
        self.values = [weight(size.kv_heads * size.head_dim, size.width) for _ in range(size.layers)]
        self.outputs = [weight(size.width, size.heads * size.head_dim) for _ in range(size.layers)]
        self.gates = [weight(3 * size.width, size.width) for _ in range(size.layers)]
        self.ups = [weight(3 * size.width, size.width) for _ in range(size.layers)]
        self.downs = [weight(size.width, 3 * size.width) for _ in range(size.layers)]
        self.unembedding = weight(size.vocabulary, size.width) * 3
        self.frequencies = (10_000.0 ** -(torch.arange(0, size.head_dim, 2) / size.head_dim)).to(self.device)

    def forward(self, tokens: Sequence[int], slots: torch.Tensor, kv: KV) -> torch.Tensor:
        """Logits of the next token after each of ``tokens``, the last ones of a context whose slots are ``slots``.

        The rows of ``tokens`` are written to the last slots; those of what comes before must be there.  Returns
        ``[tokens, vocabulary]``.
        """
        with torch.inference_mode():
            return self._forward(tokens, slots, kv)

    def _forward(self, tokens: Sequence[int], slots: torch.Tensor, kv: KV) -> torch.Tensor:
        size, new, context = self.sizes, len(tokens), len(slots)
        positions = torch.arange(context - new, context, device=self.device)
        # A token sees the context up to itself.
        seen = torch.arange(context, device=self.device) <= positions[:, None]
        hidden = self.embedding[torch.tensor(tokens, device=self.device)]
        for layer in range(size.layers):
            normed = norm(hidden)
            queries = self.turned((normed @ self.queries[layer].T).view(new, size.heads, size.head_dim), positions)
            keys = self.turned((normed @ self.keys[layer].T).view(new, size.kv_heads, size.head_dim), positions)
            values = (normed @ self.values[layer].T).view(new, size.kv_heads, size.head_dim)
            kv.write(layer, slots[context - new :], keys, values)
            all_keys, all_values = kv.read(layer, slots)
            hidden = hidden + self.attended(queries, all_keys, all_values, seen) @ self.outputs[layer].T
            normed = norm(hidden)
            hidden = hidden + (silu(normed @ self.gates[layer].T) * (normed @ self.ups[layer].T)) @ self.downs[layer].T
        return norm(hidden) @ self.unembedding.T

    def attended(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """Grouped-query attention: ``[new, heads * head_dim]``."""
        group = self.sizes.heads // self.sizes.kv_heads
        mixed = scaled_dot_product_attention(
            queries.transpose(0, 1),
            keys.transpose(0, 1).repeat_interleave(group, 0),
            values.transpose(0, 1).repeat_interleave(group, 0),
            attn_mask=seen,
        )
        return mixed.transpose(0, 1).reshape(len(queries), -1)

    def turned(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Rotary positions: the pairs of each head, turned by an angle that grows with the position."""
        angles = positions[:, None, None] * self.frequencies
        even, odd = rows[..., ::2], rows[..., 1::2]
        pairs = (even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos())
        return torch.stack(pairs, -1).flatten(-2)


def norm(rows: torch.Tensor) -> torch.Tensor:
    """Root-mean-square norm."""
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6)
