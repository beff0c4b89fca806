"""Schedules: a run as a finite list of operations, decoded from bytes.

An operation is a kind and three small numbers.  What the numbers mean is decided by the kind
and by what is alive when the operation is played: "the second of the running requests".  An
operation without a target is skipped, so every part of a schedule is a schedule, and shrinking
may drop and lower whatever it likes.

The same decoder serves plain seeds, Hypothesis (``st.binary``) and coverage-guided fuzzers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.spec.units import Key

OP_BYTES = 4
"""How many bytes one operation is decoded from."""

MAX_OPS = 100_000
"""The longest schedule that is accepted from a file."""


class Op(NamedTuple):
    """One operation: its kind, and three numbers from 0 to 255."""

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0


NEEDS: dict[str, frozenset[str]] = {
    "alloc": frozenset({"pool"}),
    "free": frozenset({"pool"}),
    "extend": frozenset({"pool", "extend"}),
    "decode": frozenset({"pool", "extend"}),
    "group": frozenset({"pool", "group"}),
    "match": frozenset({"tree"}),
    "insert": frozenset({"pool", "tree"}),
    "lock": frozenset({"tree", "locks"}),
    "unlock": frozenset({"tree", "locks"}),
    "evict": frozenset({"evict"}),
    "begin": frozenset({"requests"}),
    "grow": frozenset({"requests"}),
    "publish": frozenset({"requests"}),
    "begin_ahead": frozenset({"requests", "partial"}),
    "compute": frozenset({"requests", "partial"}),
    "finish": frozenset({"requests"}),
    "abort": frozenset({"requests"}),
    "retract": frozenset({"requests"}),
    "resume": frozenset({"requests"}),
    "reset": frozenset({"reset"}),
    "hashes": frozenset({"hashes"}),
    "plan": frozenset({"prefetch"}),
    "load_back": frozenset({"tiers", "host"}),
    "flush": frozenset({"tiers", "evict"}),
    "evict_host": frozenset({"tiers", "host"}),
    "prefetch": frozenset({"tiers", "prefetching"}),
    "poll": frozenset({"tiers", "prefetching"}),
    "abandon": frozenset({"tiers", "prefetching"}),
    "advance": frozenset({"tiers", "steps"}),
    "tick": frozenset({"tiers", "steps"}),
    "deliver": frozenset({"tiers", "steps"}),
    "attach": frozenset({"tiers", "reattach"}),
    "detach": frozenset({"tiers", "reattach"}),
    "spoil": frozenset({"tiers", "lifecycle"}),
    "fault": frozenset({"tiers", "faults"}),
    "clock": frozenset({"tiers", "clock"}),
    "fail": frozenset({"tiers", "steps", "requests", "copy_faults"}),
    "misfire": frozenset({"tiers", "copy_faults"}),
    "starve": frozenset({"tiers", "requests", "memory_faults"}),
    "store_put": frozenset({"store"}),
    "store_get": frozenset({"store"}),
    "store_lookup": frozenset({"store"}),
    "store_damage": frozenset({"store", "store_faults"}),
    "store_crash": frozenset({"store", "store_crash"}),
    "store_rank": frozenset({"store", "store_ranks"}),
    "store_odd": frozenset({"store"}),
    "store_clear": frozenset({"store"}),
}
"""Which capabilities an operation needs."""

WEIGHTS: dict[str, int] = {
    "alloc": 4,
    "free": 6,
    "extend": 3,
    "decode": 3,
    "group": 2,
    "match": 6,
    "insert": 14,
    "lock": 6,
    "unlock": 7,
    "evict": 10,
    "begin": 36,
    "grow": 18,
    "publish": 16,
    "begin_ahead": 6,
    "compute": 8,
    "finish": 14,
    "abort": 3,
    "retract": 3,
    "resume": 5,
    "reset": 2,
    "hashes": 1,
    "plan": 4,
    "load_back": 10,
    "flush": 4,
    "evict_host": 5,
    "prefetch": 18,
    "poll": 16,
    "abandon": 3,
    "advance": 44,
    "tick": 24,
    "deliver": 3,
    "attach": 4,
    "detach": 2,
    "spoil": 1,
    "fault": 2,
    "clock": 3,
    "fail": 5,
    "misfire": 3,
    "starve": 3,
    "store_put": 10,
    "store_get": 6,
    "store_lookup": 6,
    "store_damage": 3,
    "store_crash": 1,
    "store_rank": 2,
    "store_odd": 1,
    "store_clear": 1,
}
"""How often each kind is drawn, among those that the target can do."""


def table(capabilities: Iterable[str]) -> tuple[str, ...]:
    """The kinds that a target can do, each as often as its weight."""
    has = frozenset(capabilities)
    return tuple(kind for kind, weight in WEIGHTS.items() if NEEDS[kind] <= has for _ in range(weight))


def decode(data: bytes, kinds: Sequence[str]) -> list[Op]:
    """The operations that these bytes stand for; what is left over at the end is ignored."""
    many = len(kinds)
    return [
        Op(kinds[data[at] * many >> 8], data[at + 1], data[at + 2], data[at + 3])
        for at in range(0, len(data) - OP_BYTES + 1, OP_BYTES)
    ]


# Taken now: a schedule stays what it is, even if an adapter replaces parts of the module later.
_Random, _randbytes = random.Random, random.Random.randbytes


def draw(seed: int, ops: int, kinds: Sequence[str]) -> list[Op]:
    """The schedule of a seed."""
    return decode(_randbytes(_Random(seed), ops * OP_BYTES), kinds)


NAMESPACES = (None, None, None, None, None, None, "tenant-a", "tenant-b")


def make_key(config: Config, a: int, b: int, c: int) -> Key:
    """The key that three numbers stand for.

    ``a`` says which way each page goes (the first way three times as often as the other, so that
    prefixes are shared), ``b`` how long the key is, ``c`` the namespace and whether the last page
    differs from another one in its last token only.  The same page can follow any other, so a
    cache that mixes up positions is found out.
    """
    size = config.page_size
    pages = b % (max(1, min(8, config.pages // 4)) + 1)
    tail = (b // 9) % size
    tokens: list[int] = []
    for page in range(pages + 1):
        way = (a >> (page % 8)) & (a >> ((page + 3) % 8)) & 1
        run = [1 + way] + [1] * (size - 1)
        if page == pages - 1 and c & 8:
            run[-1] += 2
        tokens += run if page < pages else run[:tail]
    if config.bigram and tokens:
        tokens.append(1 + (c >> 6))
    return Key(NAMESPACES[c % 8], tuple(tokens), config.bigram)


def more_tokens(config: Config, a: int, b: int) -> list[int]:
    """Some further tokens, few enough that a request can grow often."""
    many = 1 + b % (config.page_size + 2)
    return [1 + ((a >> (at % 8)) & 1) for at in range(many)]


def evict_size(config: Config, a: int) -> int:
    """How much an eviction asks for: from one slot to more than there is."""
    return 1 + a % (config.page_size * 4) if a < 224 else config.pages * config.page_size


def describe(profile: Profile) -> dict[str, object]:
    """A profile as plain data."""
    return {name: getattr(profile, name) for name in profile.__dataclass_fields__}
