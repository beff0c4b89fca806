"""Schedules: a run as a finite list of operations, decoded from bytes.

An operation is a kind and three small numbers.  What the numbers mean is decided by the kind
and by what is alive when the operation is played: "the second of the running requests"; or an
operation names the one that made what it is about (:mod:`.naming`).  An
operation without a target is skipped, so every part of a schedule is a schedule, and shrinking
may drop and lower whatever it likes.

The same decoder serves plain seeds, Hypothesis (``st.binary``) and coverage-guided fuzzers.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence, Set
from typing import NamedTuple

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.spec.words.limits import unlimited
from kvlitmus.spec.words.units import Key

OP_BYTES = 4
"""How many bytes one operation is decoded from."""

MAX_OPS = 100_000
"""The longest schedule that is accepted from a file."""


HIGHEST = 255
"""The largest number of an operation."""


class Op(NamedTuple):
    """One operation: its kind, and three numbers from 0 to 255.

    ``of``: the place in the schedule of the operation that made what it is about; -1 where the numbers say that.
    """

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0
    of: int = -1

    def with_number(self, at: int, value: int) -> Op:
        """The same with another number in this place (0 to 2)."""
        a, b, c = (value if place == at else number for place, number in enumerate((self.a, self.b, self.c)))
        return Op(self.kind, a, b, c, self.of)


OPERATIONS: dict[str, tuple[int, Set[str]]] = {
    "alloc": (4, {"pool"}),
    "free": (6, {"pool"}),
    "extend": (3, {"pool", "extend"}),
    "decode": (3, {"pool", "extend"}),
    "group": (2, {"pool", "group"}),
    "match": (6, {"lookup"}),
    "insert": (14, {"pool", "tree"}),
    "lock": (6, {"tree", "locks"}),
    "unlock": (7, {"tree", "locks"}),
    "evict": (10, {"evict"}),
    "begin": (36, {"requests"}),
    "grow": (18, {"requests"}),
    "publish": (16, {"requests"}),
    "begin_ahead": (6, {"requests", "partial"}),
    "compute": (8, {"requests", "partial"}),
    "finish": (14, {"requests"}),
    "abort": (3, {"requests"}),
    "retract": (3, {"requests"}),
    "resume": (5, {"requests"}),
    "reset": (2, {"reset"}),
    "hashes": (1, {"hashes"}),
    "plan": (4, {"prefetch"}),
    "load_back": (10, {"tiers", "host"}),
    "flush": (4, {"tiers", "evict"}),
    "evict_host": (5, {"tiers", "host"}),
    "prefetch": (18, {"tiers", "prefetching"}),
    "poll": (16, {"tiers", "prefetching"}),
    "abandon": (3, {"tiers", "prefetching"}),
    "advance": (44, {"tiers", "steps"}),
    "tick": (24, {"tiers", "steps"}),
    "deliver": (3, {"tiers", "steps"}),
    "attach": (4, {"tiers", "reattach"}),
    "detach": (2, {"tiers", "reattach"}),
    "spoil": (1, {"tiers", "lifecycle"}),
    "fault": (2, {"tiers", "faults"}),
    "clock": (3, {"tiers", "clock"}),
    "fail": (5, {"tiers", "steps", "requests", "copy_faults"}),
    "misfire": (3, {"tiers", "copy_faults"}),
    "starve": (3, {"tiers", "requests", "memory_faults"}),
    "store_put": (10, {"store"}),
    "store_get": (6, {"store"}),
    "store_lookup": (6, {"store"}),
    "store_damage": (3, {"store", "store_faults"}),
    "store_crash": (1, {"store", "store_crash"}),
    "store_rank": (2, {"store", "store_ranks"}),
    "store_odd": (1, {"store"}),
    "store_clear": (1, {"store"}),
    "sparse_request": (16, {"sparse"}),
    "sparse_again": (5, {"sparse"}),
    "sparse_edge": (5, {"sparse"}),
    "sparse_read": (4, {"sparse"}),
    "sparse_free": (4, {"sparse"}),
    "sparse_abort": (1, {"sparse", "sparse_abort"}),
    "sparse_decode": (12, {"sparse", "sparse_buffers"}),
    "sparse_connect": (1, {"sparse", "sparse_peer"}),
    "sparse_stage": (8, {"sparse", "sparse_staging"}),
    "sparse_copied": (6, {"sparse", "sparse_staging"}),
    "sparse_ready": (6, {"sparse", "sparse_staging"}),
    "sparse_retract": (2, {"sparse", "sparse_staging"}),
    "sparse_back_up": (8, {"sparse", "sparse_staging", "sparse_backups"}),
    "sparse_reserve": (3, {"sparse", "sparse_admission"}),
    "sparse_prealloc": (6, {"sparse", "sparse_transfer"}),
    "sparse_transferred": (5, {"sparse", "sparse_transfer"}),
    "component_use": (16, {"components"}),
    "component_match": (6, {"components"}),
    "component_lock": (5, {"components"}),
    "component_unlock": (5, {"components"}),
    "component_alloc": (2, {"components"}),
    "component_free": (2, {"components"}),
    "component_evict": (9, {"components"}),
    "component_reset": (1, {"components"}),
    "component_prefetch": (10, {"components", "component_prefetch"}),
    "component_found": (12, {"components", "component_prefetch"}),
    "component_settled": (8, {"components", "component_prefetch"}),
    "component_commit": (9, {"components", "component_prefetch"}),
    "component_abort": (2, {"components", "component_prefetch"}),
    "component_back_up": (12, {"components", "component_host"}),
    "component_load": (14, {"components", "component_host"}),
    "component_copied": (20, {"components", "component_host"}),
    "component_evict_host": (6, {"components", "component_host"}),
    "component_attach": (6, {"components", "component_storage"}),
    "component_detach": (3, {"components", "component_storage"}),
    "component_write": (12, {"components", "component_storage"}),
    "component_written": (10, {"components", "component_storage"}),
    "component_serve": (10, {"component_requests"}),
    "component_start": (12, {"component_requests"}),
    "component_grow": (16, {"component_requests"}),
    "component_finish": (4, {"component_requests"}),
    "component_find": (4, {"component_requests"}),
    "component_forget": (1, {"component_requests"}),
    "ranks_start": (1, {"ranks"}),
    "ranks_insert": (12, {"ranks"}),
    "ranks_match": (5, {"ranks"}),
    "ranks_evict": (8, {"ranks"}),
    "ranks_copied": (24, {"ranks"}),
    "ranks_acks": (10, {"ranks"}),
    "ranks_prefetch": (14, {"ranks"}),
    "ranks_found": (18, {"ranks"}),
    "ranks_hit": (10, {"ranks"}),
    "ranks_read": (24, {"ranks"}),
    "ranks_poll": (12, {"ranks"}),
    "ranks_load": (8, {"ranks"}),
    "ranks_abort": (2, {"ranks"}),
    "ranks_clock": (5, {"ranks"}),
    "ranks_pinch": (4, {"ranks"}),
    "ranks_attach": (3, {"ranks"}),
    "ranks_lose": (1, {"ranks"}),
    "ranks_read_apart": (8, {"ranks", "rank_states"}),
    "misuse": (0, {"pool"}),
    "exchange": (2, {"tiers", "reattach"}),
    "deadline": (6, {"tiers", "prefetching", "clock"}),
    "call_back": (12, {"tiers", "prefetching", "steps", "evict", "host"}),
    "plan_behind": (0, {"prefetch"}),
    "last_call": (0, {"pool"}),
    "take_back": (0, {"requests"}),
    "fork": (0, {"requests"}),
    "save": (0, {"requests"}),
    "bring_back": (0, {"requests"}),
    "flush_all": (0, {"reset"}),
    "component_last_call": (0, {"component_lookup"}),
}
"""How often each kind of operation is drawn, among those that a target can do, and which capabilities it needs.

Nine are never drawn among the others: a schedule ends with ``misuse`` (of the first generations) or ``last_call``, one
of a cache of components with ``component_last_call``,
``plan_behind`` takes the place of half of the plans, ``take_back`` of a quarter of the growth, ``fork`` of a fifth of
the beginnings, ``save`` and ``bring_back`` of most of what retracts and resumes, ``flush_all`` of half of the resets
(:func:`draw`)."""

WEIGHTS = {kind: weight for kind, (weight, _) in OPERATIONS.items()}
NEEDS = {kind: frozenset(needs) for kind, (_, needs) in OPERATIONS.items()}


SINCE = {
    "exchange": 2,
    "deadline": 2,
    "call_back": 2,
    "plan_behind": 3,
    "last_call": 3,
    "take_back": 4,
    "fork": 5,
    "save": 5,
    "bring_back": 5,
    "flush_all": 5,
    "component_last_call": 6,
}
"""From which generation on an operation is drawn; all others are from the first."""

ENDINGS = ("misuse", "last_call", "component_last_call")
"""The kinds with which schedules end."""

GENERATION = 6
"""The generation of schedules that are drawn now.

A new kind of operation begins a new one: what was recorded under a seed is drawn from the operations that there were.
"""


OF_COMPONENTS = ("component_use", "component_serve")
"""Of these kinds a cache of components has one, and no other cache."""


def table(capabilities: Iterable[str], generation: int = GENERATION) -> tuple[str, ...]:
    """The kinds that a target can do, each as often as its weight; ``generation``: those that there were then."""
    has = frozenset(capabilities)
    kinds = [kind for kind in OPERATIONS if NEEDS[kind] <= has and SINCE.get(kind, 1) <= generation]
    return tuple(kind for kind in kinds for _ in range(WEIGHTS[kind]))


def decode(data: bytes, kinds: Sequence[str]) -> list[Op]:
    """The operations that these bytes stand for; what is left over at the end is ignored."""
    many = len(kinds)
    return [
        Op(kinds[data[at] * many >> 8], data[at + 1], data[at + 2], data[at + 3])
        for at in range(0, len(data) - OP_BYTES + 1, OP_BYTES)
    ]


# Taken now: a schedule stays what it is, even if an adapter replaces parts of the module later.
_Random, _randbytes = random.Random, random.Random.randbytes


def draw(seed: int, ops: int, kinds: Sequence[str], *, misuse: bool = False, generation: int = GENERATION) -> list[Op]:
    """The schedule of a seed; where the target says what ``misuse`` does, that is its last operation.

    From the third generation on there are plans of what follows a prefix, from the fourth on tokens are taken back,
    from the fifth on requests are forked, and retracted with a copy, and caches are flushed.
    These are drawn from sources of their own, so that all else is as it was.
    """
    source = _Random(seed)
    drawn = decode(_randbytes(source, ops * OP_BYTES), kinds)
    last = _randbytes(source, 3)
    if generation >= SINCE["plan_behind"]:
        beside = _Random(f"prefixes of {seed}")
        drawn = [op._replace(kind="plan_behind") if op.kind == "plan" and beside.random() < 0.5 else op for op in drawn]
    if generation >= SINCE["take_back"]:
        back = _Random(f"tokens taken back of {seed}")
        drawn = [op._replace(kind="take_back") if op.kind == "grow" and back.random() < 0.25 else op for op in drawn]
    if generation >= SINCE["fork"]:
        again = _Random(f"requests forked of {seed}")
        others = {
            "begin": ("fork", 0.2),
            "retract": ("save", 0.7),
            "resume": ("bring_back", 0.7),
            "reset": ("flush_all", 0.5),
        }
        drawn = [
            op._replace(kind=others[op.kind][0]) if op.kind in others and again.random() < others[op.kind][1] else op
            for op in drawn
        ]
    return [*drawn, Op(ending(kinds, generation), *last)] if misuse else drawn


def ending(kinds: Sequence[str], generation: int) -> str:
    """The kind of operation with which a schedule of these kinds ends."""
    if any(one in kinds for one in OF_COMPONENTS):
        return "component_last_call"
    return "last_call" if generation >= SINCE["last_call"] else "misuse"


def may_misuse(profile: Profile, capabilities: Collection[str], generation: int) -> bool:
    """Whether a schedule ends with a call that the contract forbids."""
    parts = "component_lookup" in capabilities and generation >= SINCE["component_last_call"]
    return profile.misuse != "undefined" and (parts or "pool" in capabilities)


NAMESPACES = (None, None, None, None, None, None, "tenant-a", "tenant-b")


STRUCTURED = {"tenant-a": "adapter/salt-a", "tenant-b": "adapter/salt-b"}
"""The same namespaces in two parts, of which one is equal."""


def length_of(config: Config, b: int) -> tuple[int, int]:
    """How long a key of this second number is: its whole pages, and the tokens behind them."""
    return b % (max(1, min(8, config.pages // 4)) + 1), (b // 9) % config.page_size


def as_long(b: int, there: Config, here: Config) -> int:
    """The number of a key that is as long here as one is there, of the same number if there is none."""
    if length_of(there, b) == length_of(here, b):
        return b
    return next((one for one in range(HIGHEST + 1) if length_of(here, one) == length_of(there, b)), b)


def make_key(config: Config, a: int, b: int, c: int) -> Key:
    """The key that three numbers stand for.

    ``a`` says which way each page goes (the first way three times as often as the other, so that
    prefixes are shared), ``b`` how long the key is, ``c`` the namespace and whether the last page
    differs from another one in its last token only.  The same page can follow any other, so a
    cache that mixes up positions is found out.
    """
    size = config.page_size
    pages, tail = length_of(config, b)
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


def fitted(profile: Profile, key: Key) -> Key:
    """The key within the limits of a profile, as like it as they allow (:mod:`kvlitmus.spec.words.limits`)."""
    if unlimited(profile):
        return key
    tokens = tuple([token % profile.vocabulary for token in key.tokens])
    tokens += (1,) * (profile.least_key - len(tokens))
    namespace = key.namespace
    if namespace is not None:
        namespace = {"text": namespace, "none": None}.get(profile.namespaces, STRUCTURED.get(namespace, "a/b"))
    return Key(namespace, tokens, key.bigram)


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


def choices_of(profile: Profile) -> dict[str, object]:
    """What of a profile isn't as usual, as plain data."""
    usual = Profile()
    return {name: value for name, value in describe(profile).items() if value != getattr(usual, name)}
