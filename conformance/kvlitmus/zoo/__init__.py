"""The zoo: whole legal caches, each a program of its own, on which the suite must stay silent.

A null mutant is the specimen with one part replaced, so all null mutants think alike.  These don't: each is written
from nothing, in the way of somebody who knows the ports and has other ideas about everything behind them.  A rule that
is too strict, or an oracle that takes one design for granted, shows here.

Each module has a ``target`` (``kvlitmus run kvlitmus.zoo.NAME:target``), whose profile declares what is different.
"""

from __future__ import annotations

from importlib import import_module

from kvlitmus.conformance.ports import Target

ZOO: tuple[str, ...] = (
    "block_table",
    "page_map",
    "both_ends",
    "dedup",
    "persistent",
    "batch",
    "desk",
    "slab",
    "arrays",
    "node_ends",
    "eager_host",
    "spill",
    "generations",
    "sparse_map",
    "block_groups",
    "block_offload",
    "block_writes",
    "block_store",
    "block_requests",
    "block_copies",
    "block_names",
    "s3_fifo",
    "cost_host",
    "watermark",
    "leftovers",
    "two_bits",
    "batches",
    "doorkeeper",
    "perishable",
    "lazy_pool",
    "step_ahead",
    "drafts",
    "partial_reuse",
)
"""The names of all caches."""


def target_of(name: str) -> Target:
    """The target of a cache of the zoo."""
    target: Target = import_module(f"kvlitmus.zoo.{name}").target
    return target
