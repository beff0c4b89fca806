"""Every step from a state of a small hierarchy: calls, completions in every way that storage allows, faults."""

from __future__ import annotations

from collections.abc import Iterator

from kvlitmus.reference.prefix import fetch
from kvlitmus.reference.prefix.hierarchy import under_way, works_of
from kvlitmus.reference.prefix.load import LAYERS
from kvlitmus.spec.interface.tiers import BACKUP, DONE, FAILED, FETCH, LOAD, PUT, QUERY, SPILL, Outcome
from kvlitmus.spec.prefix.calls import End, Evict, Match, Reset
from kvlitmus.spec.prefix.own_work import Operation, Transfer
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.seen import Asked, Got, Record
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.prefix.work_calls import (
    Abandon,
    Advance,
    Attach,
    Detach,
    EvictHost,
    FailCopy,
    FailHostAlloc,
    LoadBack,
    Poll,
    Prefetch,
    SetClock,
    TellLoaded,
    Tick,
)
from kvlitmus.spec.words.policies import TIMEOUT, WRITE_BACK
from kvlitmus.spec.words.units import RequestId, Tokens
from tests.proofs.support.tier_bench import HOLDER, Bench, Step
from tests.proofs.support.tier_shown import in_storage

LONG = 1_000.0
"""Later than any limit."""


def moves(bench: Bench, state: State) -> Iterator[Step]:
    """All steps."""
    yield from cache_moves(bench, state)
    yield from tier_moves(bench, state)
    yield from fetch_moves(bench, state)
    yield from job_moves(bench, state)
    yield from life_moves(bench, state)


def cache_moves(bench: Bench, state: State) -> Iterator[Step]:
    """Match, compute and finish, compute and hold."""
    running = HOLDER in state.requests
    for key in bench.scope.keys:
        yield f"match {key}", lambda key=key: bench.did(Match(bench.paths[key]))  # type: ignore[misc]
        if not running:
            yield f"compute {key}", lambda key=key: bench.compute(key)  # type: ignore[misc]
            if bench.scope.holds:
                yield f"compute {key} and hold it", lambda key=key: bench.compute(key, hold=True)  # type: ignore[misc]
    if running:
        yield "finish", lambda: bench.did(End(HOLDER, True))
        yield "abort the running request", lambda: bench.did(End(HOLDER, False))


def tier_moves(bench: Bench, state: State) -> Iterator[Step]:
    """Evict on either tier, load back."""
    scope, size = bench.scope, bench.scope.page_size

    def load(key: tuple[int, ...], quota: int | None = None) -> None:
        bench.did(LoadBack(bench.paths[key], quota))

    for quota in scope.quotas:
        for key in scope.keys:
            yield f"load back {key} within {quota}", lambda k=key, q=quota: load(k, q)  # type: ignore[misc]
    for pages in sorted({1, scope.pages}):
        yield f"evict {pages} pages", lambda n=pages * size: bench.did(Evict(Tokens(n)))  # type: ignore[misc]
    for pages in sorted({1, scope.host_pages}):
        yield f"evict {pages} pages of the host", lambda n=pages * size: bench.did(EvictHost(n))  # type: ignore[misc]
    for key in scope.keys:
        yield f"load back {key}", lambda key=key: load(key)  # type: ignore[misc]


def fetch_moves(bench: Bench, state: State) -> Iterator[Step]:
    """Prefetch, poll, abort."""

    def poll(rid: RequestId) -> None:
        waits = fetch.find(state, rid) is not None
        if bench.did(Poll(rid)) and waits:
            bench.did(TellLoaded(rid))

    for rid in map(RequestId, range(1, bench.scope.prefetches + 1)):
        for key in bench.scope.keys:
            yield f"prefetch {key} for {rid}", lambda r=rid, k=key: bench.did(Prefetch(r, bench.paths[k], None))  # type: ignore[misc]
        yield f"poll {rid}", lambda r=rid: poll(r)  # type: ignore[misc]
        yield f"abort the waiting request {rid}", lambda r=rid: bench.did(Abandon(r))  # type: ignore[misc]


def job_moves(bench: Bench, state: State) -> Iterator[Step]:
    """Each job goes on in each way."""
    scope, works = bench.scope, works_of(state)

    def answer(one: Operation, hit: int) -> None:
        record = Record(asked=(Asked(in_storage(one.names), hit),))
        bench.did(Advance(one.job, Outcome("short", hit)), record)

    def read(one: Operation, pages: int, over: bool) -> None:
        got = in_storage(one.names[one.completed : one.completed + pages])
        record = Record(got=tuple([Got(name, True) for name in got]))
        bench.write(one, pages)
        bench.did(Advance(one.job, Outcome("short" if over else "part", pages)), record)

    def taken(job: int, pages: int, over: bool) -> None:
        bench.did(Advance(job, Outcome("short" if over else "part", pages)))

    def layer(one: Transfer) -> None:
        bench.did(Advance(one.id, Outcome("part", 1), LAYERS))

    def fails(one: Transfer) -> None:
        layers = 0 if scope.layers and one.kind == LOAD else None
        bench.did(Advance(one.id, FAILED, layers))

    for copy in under_way(state, *COPIES):
        if scope.failures and not copy.landed:
            yield f"{copy.kind} {copy.id} fails", lambda one=copy: fails(one)  # type: ignore[misc]
        if scope.layers and copy.kind == LOAD and not copy.landed:
            yield f"{copy.id} copies a layer", lambda one=copy: layer(one)  # type: ignore[misc]
        elif not copy.landed:
            yield f"{copy.kind} {copy.id} lands", lambda job=copy.id: bench.did(Advance(job, DONE))  # type: ignore[misc]
    for one in works.operations:
        if one.stage == QUERY:
            for hit in range(len(one.names) + 1) if one.live else (0,):
                yield f"storage has {hit} pages for {one.job}", lambda o=one, h=hit: answer(o, h)  # type: ignore[misc]
        elif one.stage == FETCH:
            yield f"a read ends {one.job}", lambda o=one: read(o, 0, True)  # type: ignore[misc]
            if one.live:
                yield f"{one.job} reads a page", lambda o=one: read(o, 1, False)  # type: ignore[misc]
    for waiting in under_way(state, PUT):
        if not waiting.landed:
            yield f"put {waiting.id} is refused", lambda job=waiting.id: taken(job, 0, True)  # type: ignore[misc]
            yield f"put {waiting.id} stores a page", lambda job=waiting.id: taken(job, 1, False)  # type: ignore[misc]


def life_moves(bench: Bench, state: State) -> Iterator[Step]:
    """Tick, attach, detach, reset, the clock, faults."""
    works = works_of(state)

    def detach_and_tick() -> None:
        bench.did(Detach())
        bench.did(Tick(detached=True))

    def late() -> None:
        live = [one._replace(since=one.since - LONG) if one.since == 0.0 else one for one in works.operations]
        bench.now = state._replace(works=works._replace(operations=tuple(live)))
        bench.judge.observe(bench.now, bench.contents, SetClock(LONG), None, Record())

    yield "tick", lambda: bench.did(Tick())
    if bench.scope.lives:
        yield "detach", lambda: bench.did(Detach())
        yield "attach", lambda: bench.did(Attach())
        if tiers_of(state).attached:
            yield "detach, tick", detach_and_tick
        if HOLDER not in state.requests:
            yield "reset", lambda: bench.did(Reset())
    if bench.scope.asked.stop == TIMEOUT and any(one.since == 0.0 for one in works.operations):
        yield "time passes", late
    if bench.scope.faults and works.fault is None:
        yield "the next allocation fails", lambda: bench.did(FailHostAlloc(0))
    if bench.scope.failures and not works.failing:
        for kind in (LOAD, SPILL) if bench.scope.asked.write == WRITE_BACK else (LOAD, BACKUP):
            yield f"the next {kind} can't begin", lambda kind=kind: bench.did(FailCopy(kind, 0))  # type: ignore[misc]
