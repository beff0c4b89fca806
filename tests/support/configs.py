"""Configurations that only lock steps play: no verdict is concluded from them."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import OTHERS, TIERED

TIER_POLICY_CONFIGS: tuple[Config, ...] = (
    *(replace(TIERED, policy=policy) for policy in OTHERS),
    *(replace(TIERED, page_size=2, threshold=4, policy=policy, write="write_back") for policy in ("lfu", "fifo")),
    replace(TIERED, page_size=1, policy="slru", write="write_through_selective", threshold=1),
)
"""Hierarchies under the other policies."""

TIGHT_CONFIGS: tuple[Config, ...] = (Config(page_size=2, pages=6), Config(page_size=1, pages=10, policy="priority"))
"""Caches that are full at once."""
