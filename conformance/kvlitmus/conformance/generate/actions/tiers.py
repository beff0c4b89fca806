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
    from kvlitmus.conformance.generate.interpreter import Interpreter

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


def wanted(interpreter: Interpreter, a: int, b: int, c: int) -> Key:
    """A key that somebody wants back: mostly one that was computed before, whole, cut, or with more behind it."""
    past = interpreter.past
    if not past or b < ANEW:
        return make_key(interpreter.config, a, b | 1, c)
    key = past[a % len(past)]
    size = interpreter.config.page_size
    if c < 32:
        return key._replace(tokens=key.tokens[: max(1, len(key.tokens) - 1 - c % (2 * size))])
    if c < 96:
        return key._replace(tokens=key.tokens + (1,) * (1 + c % (2 * size)))
    return key


def below(interpreter: Interpreter, a: int, *, stored: bool) -> Key | None:
    """A key that was computed before and whose next page is further down: in storage, or on the host alone.

    Without such a preference most keys are still where they were, and nothing has to move.
    """
    checker, past = interpreter.checker, interpreter.past
    seen, books = tiers.seen(checker), tiers.books_of(checker)
    for at in range(len(past)):
        key = past[(a + at) % len(past)]
        paged = page_names(checker.names_of(key), checker.size)
        have: Container[Name] = seen.parent_names if stored else seen.cached
        known = next((at for at, name in enumerate(paged) if name not in have), len(paged))
        least = max(1, checker.config.threshold // checker.size) if stored else 1
        fresh = paged[known : known + least]
        if len(fresh) == least and all(name in (books.fetches.stored if stored else seen.hosted) for name in fresh):
            return key
    return None


@move("load_back")
def load_back(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Load a key back."""
    key = below(interpreter, a, stored=False) if b < STEERED else None
    quota = None
    if "quota" in interpreter.checker.capabilities and a >= LIMITED:
        quota = (c % 8) * interpreter.config.page_size
    tiers.load_back(interpreter.checker, key or wanted(interpreter, a, b, c), quota)


@move("flush")
def flush(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """The device is emptied of what nobody uses, sometimes the host too: what is wanted again must come from below."""
    tree.evict(interpreter.checker, interpreter.checker.capacity)
    if a < 160 and "host" in interpreter.checker.capabilities:
        tiers.evict_host(interpreter.checker, interpreter.config.host_pages * interpreter.config.page_size)


@move("evict_host")
def evict_host(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Make room on the host."""
    tiers.evict_host(interpreter.checker, evict_size(interpreter.config, a))


@move("prefetch")
def prefetch(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """A request begins to wait: mostly a new one, sometimes one that waited before, or that waits already."""
    longer = (below(interpreter, a, stored=True) if b < STEERED or b >= AGAIN else None) or wanted(interpreter, a, b, c)
    rid = interpreter.begun + 1
    if b >= AGAIN:
        again = pick(dict.fromkeys(interpreter.waited), b)
        rid = pick(interpreter.waits, b) or rid if b >= 240 or again is None else again
    if rid == interpreter.begun + 1:
        if len(interpreter.waits) >= MAX_WAITING:
            return
        interpreter.begun += 1
    if fetch.prefetch(interpreter.checker, rid, longer):
        interpreter.waits[rid] = longer


@move("poll")
def poll(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """A request asks whether it need not wait any more; then it is told what was added, sometimes more than once."""
    rid = pick(interpreter.waits, c)
    if rid is None:
        rid = interpreter.begun + 1000 if c < 32 else None
    if rid is not None and fetch.poll(interpreter.checker, rid):
        key = interpreter.waits.pop(rid, None)
        if key is not None and b < AT_ONCE and fetch.prefetch(interpreter.checker, rid, key):
            interpreter.waits[rid] = key  # retracted, and queued again
            return
        interpreter.waited.append(rid)
        del interpreter.waited[:-MAX_WAITING]
        for _ in range(a & 1 and 1 + (a >> 1 & 1)):
            fetch.loaded(interpreter.checker, rid)


@move("abandon")
def abandon(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """A request that waits is aborted."""
    rid = pick(interpreter.waits, c)
    if rid is not None:
        interpreter.waits.pop(rid)
        interpreter.waited.append(rid)
        fetch.abandon(interpreter.checker, rid)


@move("advance")
def advance(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """One of the jobs that are ready goes on."""
    ready = {
        number: job for number, job in tiers.seen(interpreter.checker).jobs.items() if job.ready and not job.landed
    }
    number = pick(ready, a)
    if number is not None:
        how = outcome(ready[number].kind, b, c)
        if ready[number].kind == LOAD and "layers" in interpreter.checker.capabilities and b < LIMITED:
            how = Outcome("part", 1 + c % 2)
        tiers.advance(interpreter.checker, number, how)


def outcome(kind: str, b: int, c: int) -> Outcome:
    """How a job goes on: mostly to its end."""
    if kind in (BACKUP, LOAD) or b >= 128 + FAULTY:
        return DONE
    if b < 128 - FAULTY or (kind == QUERY and b < 128):
        return Outcome("part", 1 + c % 3) if kind in (FETCH, PUT) else DONE
    return Outcome("fail" if b % 3 == 0 else "short", c % 4)


@move("tick")
def tick(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """The scheduler ticks."""
    tiers.tick(interpreter.checker)


@move("attach")
def attach(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Storage is attached if there is none; sometimes if there is one."""
    if not tiers.books_of(interpreter.checker).attached or b < 32:
        tiers.attach(interpreter.checker, on=True)


@move("detach")
def detach(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Storage is detached; rarely, since a prefetch needs time."""
    if a < 112:
        tiers.attach(interpreter.checker, on=False)


@move("spoil")
def spoil(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Storage loses a page, or cuts it short."""
    store = tiers.books_of(interpreter.checker).store
    if store.contents:
        name = random.Random(a << 8 | b).choice(sorted(store.contents))
        if c < 192:
            store.lose(name)
        else:
            store.shorten(name)
        tiers.spoiled(interpreter.checker, name, lost=c < 192)


@move("fault")
def fault(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """An allocation of host memory is going to fail."""
    if tiers.books_of(interpreter.checker).fault is None:
        fetch.fail_alloc(interpreter.checker, a % 3)


@move("fail")
def fail(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """A copy under way fails; the requests that wait for a load give up, or don't know yet."""
    checker = interpreter.checker
    ready = {
        number: job
        for number, job in tiers.seen(checker).jobs.items()
        if job.kind in COPIES and job.ready and not job.landed
    }
    number = pick(ready, a)
    if number is None:
        return
    waiting = tiers.dependents(checker, number) if ready[number].kind == LOAD and b < GIVES_UP else []
    tiers.advance(checker, number, FAILED)
    for rid in waiting:
        request.end(checker, rid, keep=False)


@move("misfire")
def misfire(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """A copy to come is going to fail."""
    checker = interpreter.checker
    kinds = (LOAD, SPILL, SPILLED) if checker.config.write == "write_back" else (LOAD, BACKUP)
    kind = kinds[a % len(kinds)]
    if kind not in tiers.books_of(checker).failures.coming:
        tiers.fail_copy(checker, kind, b % 3)


@move("starve")
def starve(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Memory runs out while a request begins, grows, is published or finished."""
    checker = interpreter.checker
    rid = pick(checker.requests, c)
    if rid is None or b < STARTING:
        if len(checker.requests) < MAX_REQUESTS:
            key, number = make_key(interpreter.config, a, b, c), interpreter.begun + 1
            interpreter.begun += 1
            memory.starved(checker, a % 3, key, lambda: request.begin(checker, number, key))
        return
    running = checker.requests[rid]
    if b & 1:
        memory.starved(
            checker, a % 6, running.path.key, lambda: request.publish(checker, rid, chunked=False, upto=running.upto)
        )
    elif not memory.starved(
        checker, a % 6, running.path.key, lambda: request.end(checker, rid, keep=True, upto=running.upto)
    ):
        interpreter.computed(running.path.key)


@move("clock")
def clock(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Time passes: a little, a second, or a minute."""
    books = tiers.books_of(interpreter.checker)
    fetch.set_clock(interpreter.checker, books.clock + (0.25, 1.0, 2.0, 60.0)[a % 4])


@move("deliver")
def deliver(interpreter: Interpreter, a: int, b: int, c: int) -> None:
    """Everything under way is delivered and noted: what is backed up gets into storage."""
    tiers.deliver(interpreter.checker)
