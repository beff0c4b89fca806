"""The optimized hierarchy and the reference's, given the same drawn calls, and compared after each."""

from __future__ import annotations

import random

from kvlitmus.conformance.ports import Config
from tests.optimized.support.hierarchy_pair import CALLS, Pair

WRITES = ("write_through", "write_through_selective", "write_back")
STOPS = ("best_effort", "wait_complete", "timeout")
POLICIES = ("lru", "lfu", "mru", "fifo", "filo", "priority", "slru")


def config_of(seed: int, write: str, stop: str) -> Config:
    rng = random.Random(seed)
    return Config(
        page_size=rng.choice([1, 2, 3]),
        pages=rng.choice([9, 14, 24]),
        policy=rng.choice(POLICIES),
        bigram=rng.random() < 0.25,
        host_pages=rng.choice([5, 10, 20]),
        write=write,
        stop=stop,
        threshold=rng.choice([0, 0, 3, 6]),
        rate_limit=rng.choice([8, 1000, 1000]),
    )


def play(config: Config, seed: int, steps: int) -> None:
    pair = Pair(config, seed)
    calls, weights = zip(*CALLS, strict=True)
    for step in range(steps):
        call = pair.rng.choices(calls, weights)[0]
        if call is Pair.advance:
            call = pair.rng.choice((Pair.advance, Pair.advance, Pair.tick))
        if pair.rng.random() < 0.002:
            call = Pair.reset
        try:
            call(pair)
            pair.compare()
        except Exception as error:
            raise AssertionError(f"step {step} of seed {seed} ({config.label}): {call.__name__}: {error}") from error
