"""Moves on the host tier, on what is under way, and on storage."""

from __future__ import annotations

import random
from collections.abc import Container
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import fetch, memory, request, tiers, tree
from kvlitmus.conformance.checker.tier_state import COPIES
from kvlitmus.conformance.generate.actions.registry import MAX_REQUESTS, move, pick
from kvlitmus.conformance.generate.schedule import evict_size, make_key
from kvlitmus.conformance.ports.tiers import BACKUP, DONE, FAILED, FETCH, LOAD, PUT, QUERY, SPILL, SPILLED, Outcome
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key, Name

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.interpreter import Player

MAX_WAITING = 4
"""So many requests wait for a prefetch at once."""

FAULTY = 40
"""Of 256 outcomes so many are faults."""


STEERED = 144
"""Of 256 keys that are wanted back so many are looked for where something has to move."""

AGAIN = 208
"""Above this a request waits that waited before, or that waits."""

AT_ONCE = 56
"""Below this a request that need not wait any more is queued again at once."""

LIMITED = 192
"""Above this a load back has a quota."""

STARTING = 96
"""Below this memory runs out for a request that begins; above, for one that runs."""

GIVES_UP = 160
"""Below this the requests that wait for a load that failed end before the next tick."""

ANEW = 176
"""Below this a key that is wanted back is drawn anew; above, it was computed before."""


def wanted(player: Player, a: int, b: int, c: int) -> Key:
    """A key that somebody wants back: mostly one that was computed before, whole, cut, or with more behind it."""
    past = player.past
    if not past or b < ANEW:
        return make_key(player.config, a, b | 1, c)
    key = past[a % len(past)]
    size = player.config.page_size
    if c < 32:
        return key._replace(tokens=key.tokens[: max(1, len(key.tokens) - 1 - c % (2 * size))])
    if c < 96:
        return key._replace(tokens=key.tokens + (1,) * (1 + c % (2 * size)))
    return key


def below(player: Player, a: int, *, stored: bool) -> Key | None:
    """A key that was computed before and whose next page is further down: in storage, or on the host alone.

    Without such a preference most keys are still where they were, and nothing has to move.
    """
    judge, past = player.judge, player.past
    seen, books = tiers.seen(judge), tiers.books_of(judge)
    for at in range(len(past)):
        key = past[(a + at) % len(past)]
        paged = page_names(judge.names_of(key), judge.size)
        have: Container[Name] = seen.parent_names if stored else seen.cached
        known = next((at for at, name in enumerate(paged) if name not in have), len(paged))
        least = max(1, judge.config.threshold // judge.size) if stored else 1
        fresh = paged[known : known + least]
        if len(fresh) == least and all(name in (books.fetches.stored if stored else seen.hosted) for name in fresh):
            return key
    return None


@move("load_back")
def load_back(player: Player, a: int, b: int, c: int) -> None:
    """Load a key back."""
    key = below(player, a, stored=False) if b < STEERED else None
    quota = None
    if "quota" in player.judge.capabilities and a >= LIMITED:
        quota = (c % 8) * player.config.page_size
    tiers.load_back(player.judge, key or wanted(player, a, b, c), quota)


@move("flush")
def flush(player: Player, a: int, b: int, c: int) -> None:
    """The device is emptied of what nobody uses, sometimes the host too: what is wanted again must come from below."""
    tree.evict(player.judge, player.judge.capacity)
    if a < 160 and "host" in player.judge.capabilities:
        tiers.evict_host(player.judge, player.config.host_pages * player.config.page_size)


@move("evict_host")
def evict_host(player: Player, a: int, b: int, c: int) -> None:
    """Make room on the host."""
    tiers.evict_host(player.judge, evict_size(player.config, a))


@move("prefetch")
def prefetch(player: Player, a: int, b: int, c: int) -> None:
    """A request begins to wait: mostly a new one, sometimes one that waited before, or that waits already."""
    longer = (below(player, a, stored=True) if b < STEERED or b >= AGAIN else None) or wanted(player, a, b, c)
    rid = player.begun + 1
    if b >= AGAIN:
        again = pick(dict.fromkeys(player.waited), b)
        rid = pick(player.waits, b) or rid if b >= 240 or again is None else again
    if rid == player.begun + 1:
        if len(player.waits) >= MAX_WAITING:
            return
        player.begun += 1
    if fetch.prefetch(player.judge, rid, longer):
        player.waits[rid] = longer


@move("poll")
def poll(player: Player, a: int, b: int, c: int) -> None:
    """A request asks whether it need not wait any more; then it is told what was added, sometimes more than once."""
    rid = pick(player.waits, c)
    if rid is None:
        rid = player.begun + 1000 if c < 32 else None
    if rid is not None and fetch.poll(player.judge, rid):
        key = player.waits.pop(rid, None)
        if key is not None and b < AT_ONCE and fetch.prefetch(player.judge, rid, key):
            player.waits[rid] = key  # retracted, and queued again
            return
        player.waited.append(rid)
        del player.waited[:-MAX_WAITING]
        for _ in range(a & 1 and 1 + (a >> 1 & 1)):
            fetch.loaded(player.judge, rid)


@move("abandon")
def abandon(player: Player, a: int, b: int, c: int) -> None:
    """A request that waits is aborted."""
    rid = pick(player.waits, c)
    if rid is not None:
        player.waits.pop(rid)
        player.waited.append(rid)
        fetch.abandon(player.judge, rid)


@move("advance")
def advance(player: Player, a: int, b: int, c: int) -> None:
    """One of the jobs that are ready goes on."""
    ready = {number: job for number, job in tiers.seen(player.judge).jobs.items() if job.ready and not job.landed}
    number = pick(ready, a)
    if number is not None:
        how = outcome(ready[number].kind, b, c)
        if ready[number].kind == LOAD and "layers" in player.judge.capabilities and b < LIMITED:
            how = Outcome("part", 1 + c % 2)
        tiers.advance(player.judge, number, how)


def outcome(kind: str, b: int, c: int) -> Outcome:
    """How a job goes on: mostly to its end."""
    if kind in (BACKUP, LOAD) or b >= 128 + FAULTY:
        return DONE
    if b < 128 - FAULTY or (kind == QUERY and b < 128):
        return Outcome("part", 1 + c % 3) if kind in (FETCH, PUT) else DONE
    return Outcome("fail" if b % 3 == 0 else "short", c % 4)


@move("tick")
def tick(player: Player, a: int, b: int, c: int) -> None:
    """The scheduler ticks."""
    tiers.tick(player.judge)


@move("attach")
def attach(player: Player, a: int, b: int, c: int) -> None:
    """Storage is attached if there is none; sometimes if there is one."""
    if not tiers.books_of(player.judge).attached or b < 32:
        tiers.attach(player.judge, on=True)


@move("detach")
def detach(player: Player, a: int, b: int, c: int) -> None:
    """Storage is detached; rarely, since a prefetch needs time."""
    if a < 112:
        tiers.attach(player.judge, on=False)


@move("spoil")
def spoil(player: Player, a: int, b: int, c: int) -> None:
    """Storage loses a page, or cuts it short."""
    store = tiers.books_of(player.judge).store
    if store.contents:
        name = random.Random(a << 8 | b).choice(sorted(store.contents))
        if c < 192:
            store.lose(name)
        else:
            store.shorten(name)
        tiers.spoiled(player.judge, name, lost=c < 192)


@move("fault")
def fault(player: Player, a: int, b: int, c: int) -> None:
    """An allocation of host memory is going to fail."""
    if tiers.books_of(player.judge).fault is None:
        fetch.fail_alloc(player.judge, a % 3)


@move("fail")
def fail(player: Player, a: int, b: int, c: int) -> None:
    """A copy under way fails; the requests that wait for a load give up, or don't know yet."""
    judge = player.judge
    ready = {
        number: job
        for number, job in tiers.seen(judge).jobs.items()
        if job.kind in COPIES and job.ready and not job.landed
    }
    number = pick(ready, a)
    if number is None:
        return
    waiting = tiers.dependents(judge, number) if ready[number].kind == LOAD and b < GIVES_UP else []
    tiers.advance(judge, number, FAILED)
    for rid in waiting:
        request.end(judge, rid, keep=False)


@move("misfire")
def misfire(player: Player, a: int, b: int, c: int) -> None:
    """A copy to come is going to fail."""
    judge = player.judge
    kinds = (LOAD, SPILL, SPILLED) if judge.config.write == "write_back" else (LOAD, BACKUP)
    kind = kinds[a % len(kinds)]
    if kind not in tiers.books_of(judge).failures.coming:
        tiers.fail_copy(judge, kind, b % 3)


@move("starve")
def starve(player: Player, a: int, b: int, c: int) -> None:
    """Memory runs out while a request begins, grows, is published or finished."""
    judge = player.judge
    rid = pick(judge.requests, c)
    if rid is None or b < STARTING:
        if len(judge.requests) < MAX_REQUESTS:
            key, number = make_key(player.config, a, b, c), player.begun + 1
            player.begun += 1
            memory.starved(judge, a % 3, key, lambda: request.begin(judge, number, key))
        return
    running = judge.requests[rid]
    if b & 1:
        memory.starved(judge, a % 6, running.key, lambda: request.publish(judge, rid, chunked=False, upto=running.upto))
    elif not memory.starved(judge, a % 6, running.key, lambda: request.end(judge, rid, keep=True, upto=running.upto)):
        player.computed(running.key)


@move("clock")
def clock(player: Player, a: int, b: int, c: int) -> None:
    """Time passes: a little, a second, or a minute."""
    books = tiers.books_of(player.judge)
    fetch.set_clock(player.judge, books.clock + (0.25, 1.0, 2.0, 60.0)[a % 4])


@move("deliver")
def deliver(player: Player, a: int, b: int, c: int) -> None:
    """Everything under way is delivered and noted: what is backed up gets into storage."""
    tiers.deliver(player.judge)
