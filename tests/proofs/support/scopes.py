"""The small caches whose states are all enumerated: those of every run, and the larger ones of the night."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from tests.proofs.support.explore import Scope

NODES = replace(PROFILE, evict_granularity="node")
CAPPED = replace(PROFILE, match_cap="len-1")

QUICK: dict[str, Scope] = {
    "tails": Scope(page_size=2, units=3, pages=2),
    "bigrams": Scope(page_size=2, units=2, bigram=True, pages=2, loans=1, receipts=0),
    "retracted": Scope(page_size=2, units=3, pages=2, loans=1, receipts=0, alphabet=(1,), misuse=False, retracts=True),
}
"""A few seconds together; they reach every rule that the enumeration can reach."""

EVERY_RUN: dict[str, Scope] = {
    **QUICK,
    "nodes": Scope(units=3, profile=NODES, misuse=False, receipts=0),
    "capped": Scope(profile=CAPPED, misuse=False, receipts=0),
    "tenants": Scope(alphabet=(1,), namespaces=(None, "a"), misuse=False, receipts=0),
    **{policy: Scope(policy=policy, loans=1, requests=0) for policy in ("mru", "fifo", "filo")},
    **{policy: Scope(policy=policy, loans=1, requests=0, alphabet=(1,)) for policy in ("lfu", "slru", "priority")},
    "pages of two": Scope(page_size=2, units=4, alphabet=(1,), requests=2, loans=1, receipts=0),
}
"""What CI enumerates."""

NIGHTLY: dict[str, Scope] = {
    "length three": Scope(units=3, receipts=2, loans=1, requests=0),
    "capped, a receipt": Scope(profile=CAPPED, misuse=False),
    "tenants, a receipt": Scope(alphabet=(1,), namespaces=(None, "a"), misuse=False),
    "two requests": Scope(requests=2),
    "three pages": Scope(units=3, receipts=2, requests=2),
    "four pages": Scope(pages=4, requests=2, receipts=2),
    "four pages, length three": Scope(pages=4, units=3),
    "four pages, nodes": Scope(pages=4, units=3, profile=NODES),
    "three pages of two": Scope(page_size=2, units=5, requests=1),
    "slru": Scope(policy="slru"),
    "lfu": Scope(policy="lfu"),
    "priority": Scope(policy="priority"),
}
"""What a night has time for."""
