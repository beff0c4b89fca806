"""The work that is measured: prompts, made from a seed.  Each cache gets them as it likes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

VOCABULARY = 128_000
SEED = 20_261_121


def prompt(length: int, seed: int = 0) -> Tokens:
    """A prompt of random tokens."""
    return np.random.default_rng([SEED, seed]).integers(0, VOCABULARY, length, dtype=np.int64)


def leaves(count: int, shared: int, page: int) -> Any:
    """``count`` prompts that share their first ``shared`` tokens and have one page of their own; made one by one."""
    head = prompt(shared, 1)
    generator = np.random.default_rng([SEED, 2])
    for number in range(count):
        tail = generator.integers(0, VOCABULARY, page, dtype=np.int64)
        tail[0] = number  # no two leaves begin with the same page
        yield np.concatenate([head, tail])
