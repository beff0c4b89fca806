"""Actions on the host tier, on what is under way, and on storage."""

from __future__ import annotations

import random
from collections.abc import Container, Set
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import fetch, memory, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.generate.actions.registry import MAX_REQUESTS, action
from kvlitmus.conformance.generate.schedule import evict_size
from kvlitmus.spec.interface.tiers import BACKUP, DONE, FAILED, FETCH, LOAD, PUT, QUERY, SPILL, SPILLED, Outcome
from kvlitmus.spec.prefix.partial import surely
from kvlitmus.spec.prefix.prefetch_advance import time_of
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.policies import time_limit
from kvlitmus.spec.words.units import Key, Name

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller

MAX_WAITING = 4
"""Maximum number of requests that wait for a prefetch at once."""

FAULTY = 40
"""How many of 256 outcomes are faults."""


STEERED = 144
"""How many of 256 keys that are wanted back are looked for where something has to move."""

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

STORAGES = 3
"""So many storages are attached in turn."""

ANEW = 176
"""Below this a key that is wanted back is drawn anew; above, it was computed before."""


def wanted(caller: Caller, a: int, b: int, c: int) -> Key:
    """A key that somebody wants back: mostly one that was computed before, whole, cut, or with more behind it."""
    past = caller.past
    if not past or b < ANEW:
        return caller.key(a, b | 1, c)
    key = caller.again(a)
    size = caller.config.page_size
    if c < 32:
        return caller.fit(key._replace(tokens=key.tokens[: max(1, len(key.tokens) - 1 - c % (2 * size))]))
    if c < 96:
        return key._replace(tokens=key.tokens + (1,) * (1 + c % (2 * size)))
    return key


def below(caller: Caller, a: int, *, stored: bool) -> Key | None:
    """A key that was computed before and whose next page is further down: in storage, or on the host alone.

    Without such a preference most keys are still where they were, and nothing has to move.
    """
    checker, past = caller.checker, caller.past
    seen, in_storage = tiers.seen(checker), checker.below.stored.pages
    device: Set[Name] = seen.cached.keys()
    hosted: Set[Name] = seen.hosted.keys()
    both: Set[Name] = seen.parent_names.keys()
    if not seen.seen:
        device, hosted = surely(checker.state.device), surely(checker.state.host)
        both = device | hosted
    first = caller.pick("past", past, a)
    keys = list(past.items())
    start = next((at for at, (number, _) in enumerate(keys) if number == first), 0)
    for number, key in keys[start:] + keys[:start]:
        paged = page_names(checker.names_of(key), checker.size)
        have: Container[Name] = both if stored else device
        known = next((at for at, name in enumerate(paged) if name not in have), len(paged))
        least = max(1, checker.config.threshold // checker.size) if stored else 1
        fresh = paged[known : known + least]
        if len(fresh) == least and all(name in (in_storage if stored else hosted) for name in fresh):
            if caller.naming is not None:
                caller.naming.chose("past", list(past), a, number)
            return key
    return None


@action("load_back")
def load_back(caller: Caller, a: int, b: int, c: int) -> None:
    """Load a key back."""
    key = below(caller, a, stored=False) if b < STEERED else None
    quota = None
    if "quota" in caller.checker.capabilities and a >= LIMITED:
        quota = (c % 8) * caller.config.page_size
    tiers.load_back(caller.checker, key or wanted(caller, a, b, c), quota)


@action("flush")
def flush(caller: Caller, a: int, b: int, c: int) -> None:
    """The device is emptied of what nobody uses, sometimes the host too: what is wanted again must come from below."""
    tree.evict(caller.checker, caller.checker.capacity)
    if a < 160 and "host" in caller.checker.capabilities:
        tiers.evict_host(caller.checker, caller.config.host_pages * caller.config.page_size)


@action("evict_host")
def evict_host(caller: Caller, a: int, b: int, c: int) -> None:
    """Make room on the host."""
    tiers.evict_host(caller.checker, evict_size(caller.config, a))


@action("prefetch")
def prefetch(caller: Caller, a: int, b: int, c: int) -> None:
    """A request begins to wait: mostly a new one, sometimes one that waited before, or that waits already."""
    longer = (below(caller, a, stored=True) if b < STEERED or b >= AGAIN else None) or wanted(caller, a, b, c)
    rid = caller.begun + 1
    if b >= AGAIN:
        again = caller.pick("waited", dict.fromkeys(caller.waited), b)
        rid = caller.pick("wait", caller.waits, b) or rid if b >= 240 or again is None else again
    if rid == caller.begun + 1:
        if len(caller.waits) >= MAX_WAITING:
            return
        caller.begun += 1
    if fetch.prefetch(caller.checker, rid, longer):
        caller.waits[rid] = longer


@action("call_back")
def call_back(caller: Caller, a: int, b: int, c: int) -> None:
    """What is in storage alone is wanted: all is delivered, both tiers are emptied, a request waits for it.

    Mostly storage says what it has, sometimes the fetch has begun.  By single operations a fetch hardly ever gets as
    far as its second page.
    """
    tiers.deliver(caller.checker)
    flush(caller, 0, b, c)
    prefetch(caller, a, STEERED - 1, c)
    for kind, how in ((QUERY, DONE), (FETCH, Outcome("part", 1 + c % 2)))[: min(2, b % 4)]:
        jobs = tiers.seen(caller.checker).jobs
        number = next(
            (number for number, job in jobs.items() if job.kind == kind and job.ready and not job.landed), None
        )
        if number is not None:
            tiers.advance(caller.checker, number, how)


@action("poll")
def poll(caller: Caller, a: int, b: int, c: int) -> None:
    """A request asks whether it need not wait any more; then it is told what was added, sometimes more than once."""
    rid = caller.pick("wait", caller.waits, c)
    if rid is None:
        rid = caller.begun + 1000 if c < 32 else None
    if rid is not None and fetch.poll(caller.checker, rid):
        key = caller.waits.pop(rid, None)
        if key is not None and b < AT_ONCE and fetch.prefetch(caller.checker, rid, key):
            caller.waits[rid] = key  # retracted, and queued again
            return
        caller.waited.append(rid)
        del caller.waited[:-MAX_WAITING]
        for _ in range(a & 1 and 1 + (a >> 1 & 1)):
            fetch.loaded(caller.checker, rid)


@action("abandon")
def abandon(caller: Caller, a: int, b: int, c: int) -> None:
    """A request that waits is aborted."""
    rid = caller.pick("wait", caller.waits, c)
    if rid is not None:
        caller.waits.pop(rid)
        caller.waited.append(rid)
        fetch.abandon(caller.checker, rid)


@action("advance")
def advance(caller: Caller, a: int, b: int, c: int) -> None:
    """One of the jobs that are ready goes on."""
    ready = {number: job for number, job in tiers.seen(caller.checker).jobs.items() if job.ready and not job.landed}
    number = caller.pick("job", ready, a)
    if number is not None:
        how = outcome(ready[number].kind, b, c)
        if ready[number].kind == LOAD and "layers" in caller.checker.capabilities and b < LIMITED:
            how = Outcome("part", 1 + c % 2)
        tiers.advance(caller.checker, number, how)


def outcome(kind: str, b: int, c: int) -> Outcome:
    """How a job goes on: mostly to its end."""
    if kind in (BACKUP, LOAD) or b >= 128 + FAULTY:
        return DONE
    if b < 128 - FAULTY or (kind == QUERY and b < 128):
        return Outcome("part", 1 + c % 3) if kind in (FETCH, PUT) else DONE
    return Outcome("fail" if b % 3 == 0 else "short", c % 4)


@action("tick")
def tick(caller: Caller, a: int, b: int, c: int) -> None:
    """The scheduler ticks."""
    tiers.tick(caller.checker)


@action("attach")
def attach(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage is attached if there is none; sometimes if there is one."""
    if not caller.checker.below.attached or b < 32:
        tiers.attach(caller.checker, on=True)


@action("detach")
def detach(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage is detached; rarely, since a prefetch needs time."""
    if a < 112:
        tiers.attach(caller.checker, on=False)


@action("exchange")
def exchange(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage is detached, and another one is attached: one that is empty, or that was attached before."""
    checker = caller.checker
    if checker.below.attached:
        tiers.attach(checker, on=False)
    tiers.attach(checker, on=True, storage=a % STORAGES)


@action("spoil")
def spoil(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage loses a page, or cuts it short."""
    store = tiers.store_of(caller.checker)
    if store.contents:
        name = random.Random(a << 8 | b).choice(sorted(store.contents))
        if c < 192:
            store.lose(name)
        else:
            store.shorten(name)
        tiers.spoiled(caller.checker, name, lost=c < 192)


@action("fault")
def fault(caller: Caller, a: int, b: int, c: int) -> None:
    """An allocation of host memory is going to fail."""
    if caller.checker.below.fault is None:
        fetch.fail_alloc(caller.checker, a % 3)


@action("fail")
def fail(caller: Caller, a: int, b: int, c: int) -> None:
    """A copy under way fails; the requests that wait for a load give up, or don't know yet."""
    checker = caller.checker
    ready = {
        number: job
        for number, job in tiers.seen(checker).jobs.items()
        if job.kind in COPIES and job.ready and not job.landed
    }
    number = caller.pick("job", ready, a)
    if number is None:
        return
    waiting = tiers.dependents(checker, number) if ready[number].kind == LOAD and b < GIVES_UP else []
    tiers.advance(checker, number, FAILED)
    for rid in waiting:
        request.end(checker, rid, keep=False)


@action("misfire")
def misfire(caller: Caller, a: int, b: int, c: int) -> None:
    """A copy to come is going to fail."""
    checker = caller.checker
    kinds = (LOAD, SPILL, SPILLED) if checker.config.write == "write_back" else (LOAD, BACKUP)
    kind = kinds[a % len(kinds)]
    if kind not in checker.below.failing:
        tiers.fail_copy(checker, kind, b % 3)


@action("starve")
def starve(caller: Caller, a: int, b: int, c: int) -> None:
    """Memory runs out while a request begins, grows, is published or finished."""
    checker = caller.checker
    rid = caller.pick("request", checker.requests, c)
    if rid is None or b < STARTING:
        if len(checker.requests) < MAX_REQUESTS:
            key, number = caller.key(a, b, c), caller.begun + 1
            caller.begun += 1
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
        caller.computed(running.path.key)


@action("clock")
def clock(caller: Caller, a: int, b: int, c: int) -> None:
    """Time passes: a little, a second, or a minute."""
    fetch.set_clock(caller.checker, caller.checker.below.clock + (0.25, 1.0, 2.0, 60.0)[a % 4])


@action("deadline")
def deadline(caller: Caller, a: int, b: int, c: int) -> None:
    """It gets just as late as a request may wait for its prefetch, or a little later; then it asks.

    What each unit adds to the time may be less than any step of the clock: half of that is how near it gets.
    """
    checker = caller.checker
    clock, fetches = checker.below.clock, checker.below.prefetches
    under_way = {rid: one for rid in caller.waits if (one := fetches.of(rid)) is not None and not one.ended}
    times = {rid: time_of(one, checker.setting, clock) for rid, one in under_way.items()}
    rid = caller.pick("wait", {rid: begun for rid, (begun, limit) in times.items() if begun + limit > clock}, c)
    if rid is None:
        return
    begun, limit = times[rid]
    added = limit - time_limit(checker.profile.timeout, 0)
    fetch.set_clock(checker, begun + limit + (added or 0.25) * (0.5 if a < 64 else -0.5))
    if fetch.poll(checker, rid):
        caller.waits.pop(rid)
        caller.waited.append(rid)


@action("deliver")
def deliver(caller: Caller, a: int, b: int, c: int) -> None:
    """Everything under way is delivered and noted: what is backed up gets into storage."""
    tiers.deliver(caller.checker)
