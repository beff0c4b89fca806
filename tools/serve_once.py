#!/usr/bin/env python3
"""Serve requests with an installed kvlitmus, of which nothing is taken from a checkout.

    python tools/serve_once.py            with whichever core runs
    python tools/serve_once.py native     with its compiled core
    python tools/serve_once.py python     with its tree in Python, where that core was not built

It needs numpy and numba.  Exit codes: 0 served, 1 not, or with another core than the one that is named.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Serve two requests, and say with which core."""
    import numpy as np

    from kvlitmus.optimized import cores
    from kvlitmus.optimized.cache import CacheConfig, FlatCache

    cache = FlatCache(CacheConfig(page_size=4, pages=8))
    if sys.argv[1:] not in ([], [cache.core]):
        print(f"serve_once: expected the core {sys.argv[1]} (got {cores.report()})", file=sys.stderr)
        return 1
    prompt = np.arange(10, dtype=np.int32)
    hits = []
    for rid in range(2):
        running = cache.begin(rid, prompt)
        hits.append(None if running is None else running.cached)
        cache.end(rid, keep=True)
    print(f"{sys.modules['kvlitmus.optimized.cache'].__file__}: hits {hits}, core {cores.report()}")
    return 0 if hits == [0, 8] else 1


if __name__ == "__main__":
    sys.exit(main())
