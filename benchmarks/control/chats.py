"""Trees that fork at every turn, and small prompts.

comb
    A dead end of one page before each page that goes on: the least that a fork at every turn can be.
stripped
    Chats whose thinking is left out of the next prompt, as chat templates do: what a turn has cached ends in a dead
    end, its thinking and what follows, and the next prompt goes on before it.
small
    Prompts of 64 to 1,024 tokens, one among many that have nothing in common.
tiers
    The first two again, each of three seeds, in hierarchies beside caches without tiers; and whole requests.

Each is matched, locked and unlocked, and goes on with something new: as often as it is timed, and all of that stays.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.control.rows import PAGE, K, Peers, Row, Scale
from benchmarks.control.tokens import SEED, Tokens, prompt
from benchmarks.timing import Action

USER, THINKING, ANSWER = (20, 120), (200, 800), (60, 260)
"""Tokens of each part of a turn, least and most."""

SYSTEM = 500
"""Tokens of the prompt that every chat begins with."""


MANY = 10_000_000
"""More prompts than one tree has: another seed of a tree has others."""

NEW_PAGES = 10
"""Pages that a further turn of such a chat caches."""

SMALL = (64, 128, 256, 512, K)
OTHERS = 200
"""Small prompts that are cached."""


class Chat(NamedTuple):
    """What is cached, in order; what is asked for; and how many new tokens are cached behind it in turn."""

    cached: list[Tokens]
    asked: Tokens
    fresh: int


def whole(tokens: Tokens) -> Tokens:
    """Its whole pages: SGLang takes no others."""
    return tokens[: len(tokens) // PAGE * PAGE]


def comb(turns: int, seed: int = 0) -> Chat:
    """A comb with so many teeth; all of what is asked for is cached."""
    path = prompt(turns * PAGE, 10 + MANY * seed)
    cached = []
    for turn in range(turns):
        cached.append(np.concatenate([path[: turn * PAGE], prompt(PAGE, 100_000 + turn + MANY * seed)]))
        cached.append(path[: (turn + 1) * PAGE])
    return Chat(cached, path, PAGE)


def stripped(turns: int, seed: int = 0, *, prompts: bool = False) -> Chat:
    """A chat of so many turns; asked for is the prompt of the turn that follows.

    prompts: each is cached when its prefill ends, too.
    """
    drawn = random.Random(SEED + seed)
    seeds = itertools.count(200_000 + MANY * seed)
    cached, history = [], prompt(SYSTEM, 11 + MANY * seed)
    for _ in range(turns):
        user, thinking, answer = (prompt(drawn.randint(*part), next(seeds)) for part in (USER, THINKING, ANSWER))
        if prompts:
            cached.append(whole(np.concatenate([history, user])))
        cached.append(whole(np.concatenate([history, user, thinking, answer])))
        history = np.concatenate([history, user, answer])
    asked = np.concatenate([history, prompt(drawn.randint(*USER), next(seeds))])
    return Chat(cached, whole(asked), NEW_PAGES * PAGE)


def tails(length: int) -> Iterator[Tokens]:
    """Something new each time."""
    return (prompt(length, seed) for seed in itertools.count(1_000_000))


def chat(peers: Peers, scale: Scale, make: Callable[[int], Chat], name: str) -> Row:
    """A tree that forks at every turn, after several numbers of turns."""
    row = Row(name)
    for turns in scale.turns:
        made = make(turns)
        caches = peers.make(PAGE, 2 * K * (turns + 1) + made.fresh * scale.grown)
        known = cached(caches, made, turns)
        three(row, f"{turns} turns", caches, made.asked, made.asked[:known], made.fresh, scale)
    return row


def small(peers: Peers, scale: Scale) -> Row:
    """Small prompts; one among many is matched and locked, and a new one is inserted."""
    row = Row("small")
    for length in SMALL:
        caches = peers.make(PAGE, (OTHERS + scale.grown) * length + K)
        for cache in caches:
            for number in range(OTHERS):
                cache.fill(prompt(length, 20_000 + number))
        asked = prompt(length, 20_000)
        assert all(cache.matched(asked) == length for cache in caches)
        three(row, f"{length:,} tokens", caches, asked, asked[:0], length, scale)
    return row


def with_tiers(peers: Peers, scale: Scale) -> Row:
    """Trees that fork in hierarchies, beside caches without tiers: match, lock and unlock, and a whole request."""
    row = Row("tiers")
    for make, turns, seed in itertools.product((comb, stripped), scale.turns, range(scale.seeds)):
        made = make(turns, seed)
        tokens = 2 * K * (turns + 1) + made.fresh * scale.grown
        caches = [build() for build in peers.hierarchies(PAGE, tokens)]
        known = cached(caches, made, turns)
        asked, head, variant = made.asked, made.asked[:known], f"{make.__name__} {seed}, {turns} turns"
        rounds, cpu = scale.slow_rounds, time.thread_time_ns
        matching = {one.name: Action(one.match(asked), clock=cpu) for one in caches}
        locking = {one.name: Action(one.lock_unlock(asked), clock=cpu) for one in caches}
        row.add(f"{variant}, match", matching, rounds)
        row.add(f"{variant}, lock and unlock", locking, rounds)
        whole_ones = {one.name: one.request(head, tails(made.fresh), scale.times) for one in caches}
        row.add(f"{variant}, whole request", whole_ones, rounds)
    return row


def cached(caches: list[Any], made: Chat, turns: int) -> int:
    """Have all of it cached; how much is found of what is asked for, which is the same for all."""
    for cache in caches:
        for tokens in made.cached:
            cache.add(tokens)
    found = {cache.name: cache.matched(made.asked) for cache in caches}
    known: int = found[caches[0].name]
    assert known >= turns * PAGE and set(found.values()) == {known}, f"not all find the same: {found}"
    return known


def three(row: Row, variant: str, caches: list[Any], asked: Tokens, head: Tokens, fresh: int, scale: Scale) -> None:
    """Match and lock what is asked for, and insert ``fresh`` new tokens behind ``head``, which is cached."""
    rounds = scale.slow_rounds
    row.add(f"{variant}, match", {one.name: Action(one.match(asked)) for one in caches}, rounds)
    row.add(f"{variant}, lock and unlock", {one.name: Action(one.lock_unlock(asked)) for one in caches}, rounds)
    row.add(f"{variant}, insert", {one.name: one.grow(head, tails(fresh), scale.times) for one in caches}, rounds)
