"""Serves two requests with the installed cache, and says with which core: whether an installation works.

    python -m kvlitmus.optimized            with whichever core runs
    python -m kvlitmus.optimized native     with its compiled core
    python -m kvlitmus.optimized python     with its tree in Python

Exit codes: 0 served, 1 not, or not by the core that is named.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from kvlitmus.optimized import cores
from kvlitmus.optimized.cache import CacheConfig, FlatCache


def main(arguments: Sequence[str]) -> int:
    """Serve, and say by whom; returns the exit code."""
    try:
        cache = FlatCache(CacheConfig(page_size=4, pages=8))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments and [*arguments] != [cache.core]:
        sys.stderr.write(f"expected the core {' '.join(arguments)} (got {cores.report()})\n")
        return 1
    prompt = np.arange(10, dtype=np.int32)
    hits = []
    for rid in range(2):
        running = cache.begin(rid, prompt)
        hits.append(None if running is None else running.cached)
        cache.end(rid, keep=True)
    sys.stdout.write(f"{cores.__file__}: hits {hits}, core {cores.report()}\n")
    return 0 if hits == [0, 8] else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
