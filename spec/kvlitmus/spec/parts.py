"""The parts of the spec, in the order in which they are read, shown and blamed."""

from __future__ import annotations

import importlib

PARTS = ("pool", "tree", "lock", "evict", "request", "hashing", "prefetch", "port", "misuse")
"""One module each; a rule's declared order is this order, then the order within the module."""


def load() -> None:
    """Import every part, which registers its rules."""
    for part in PARTS:
        importlib.import_module(f"kvlitmus.spec.{part}")
