"""What a round of the stress is like, and the requests in it."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import NamedTuple

from tests.optimized.support.stress_world import Prints, prints_of


class Setting(NamedTuple):
    """What a round is like."""

    seed: int
    page_size: int
    pages: int
    host_pages: int
    write: str
    stop: str
    policy: str
    layout: str
    kind: str
    threads: int
    rate: float
    lag: float
    failures: float
    planted: str = ""
    device: str = "cpu"


def drawn(seed: int, planted: str, device: str = "cpu") -> Setting:
    """A setting; pools hold two requests at least, and far from all that is going on."""
    draw = random.Random(seed)
    return Setting(
        seed=seed,
        page_size=draw.choice((1, 2, 4)),
        pages=draw.choice((40, 56, 80)),
        host_pages=draw.choice((24, 48, 96)),
        write=draw.choice(("write_through", "write_through", "write_through_selective", "write_back")),
        stop=draw.choice(("best_effort", "wait_complete", "timeout")),
        policy=draw.choice(("lru", "lru", "lfu", "fifo", "slru", "priority")),
        layout=draw.choice(("layer_first", "page_first", "page_first_direct", "page_head")),
        kind=draw.choice(("mha", "mha", "mla")),
        threads=draw.choice((1, 2, 4)),
        rate=draw.choice((0.0, 0.05, 0.2)),
        lag=draw.choice((0.0, 0.002, 0.01)),
        failures=draw.choice((0.0, 0.03, 0.15)),
        planted=planted,
        device=device,
    )


class Stream:
    """A request: what it asks for, and how far it is."""

    def __init__(self, rid: int, namespace: Hashable, tokens: list[int]) -> None:
        self.rid = rid
        self.namespace = namespace
        self.tokens = tokens
        self.prints: Prints = prints_of(namespace, tokens)
        self.running = False
        self.patience = 0
        self.polls = 0
        self.refused = 0
