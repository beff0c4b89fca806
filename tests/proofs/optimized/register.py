"""All that is proven of the optimized cache: importing the modules of proofs is what registers these."""

from __future__ import annotations

from tests.proofs.optimized import (
    abandoned,
    addresses,
    contents,
    digests,
    jobs,
    loops,
    packing,
    pieces,
    plans,
    transfers,
)
from tests.proofs.optimized.claims import PROOFS

__all__ = ["MODULES", "PROOFS"]

MODULES = (abandoned, addresses, contents, digests, jobs, loops, packing, pieces, plans, transfers)

assert {one.claim.__module__ for one in PROOFS.values()} == {module.__name__ for module in MODULES}
