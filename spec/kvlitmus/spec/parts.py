"""The parts of the spec, in the order in which they are read, shown and blamed."""

from __future__ import annotations

import functools
import importlib

PARTS = (
    "observed",
    "pool",
    "tree",
    "lock",
    "evict",
    "request",
    "unseen",
    "hashing",
    "prefetch",
    "tier",
    "backup",
    "host_room",
    "host_count",
    "job",
    "host_copies",
    "load",
    "fetch",
    "storage_use",
    "life",
    "event",
    "frame",
    "store",
    "sparse",
    "sparse_staging",
    "sparse_admission",
    "sparse_ratio",
    "sparse_transfer",
    "sparse_growth",
    "sparse_transfer_others",
    "sparse_misuse",
    "components",
    "component_prefetch",
    "component_host",
    "component_events",
    "component_policies",
    "component_storing",
    "component_order",
    "component_requests",
    "ranks",
    "port",
    "misuse",
)
"""One module each; a rule's declared order is this order, then the order within the module."""


@functools.cache
def load() -> None:
    """Import every part, which registers its rules."""
    for part in PARTS:
        importlib.import_module(f"kvlitmus.spec.{part}")


@functools.cache
def place(module: str) -> int:
    """Where a module stands in the order of the parts; modules that are none come last."""
    part = module.rpartition(".")[2]
    return PARTS.index(part) if part in PARTS else len(PARTS)
