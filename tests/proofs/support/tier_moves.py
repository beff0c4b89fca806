"""Every step from a state of a small hierarchy: calls, completions in every way that storage allows, faults."""

from __future__ import annotations

from collections.abc import Iterator

from kvlitmus.reference import fetch, life
from kvlitmus.reference.hierarchy import Hierarchy, Operation, Transfer
from kvlitmus.reference.load import LAYERS
from kvlitmus.spec.calls import Evict, Match, Reset
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.interface.tiers import BACKUP, DONE, FAILED, FETCH, LOAD, QUERY, SPILL, Loaded, Outcome, Prefetched
from kvlitmus.spec.policies import TIMEOUT, WRITE_BACK
from kvlitmus.spec.seen import Asked, Got, Record
from kvlitmus.spec.tier_calls import (
    Abandon,
    Advance,
    Attach,
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
from kvlitmus.spec.units import RequestId, Tokens, page_slots
from tests.proofs.support.tier_bench import HOLDER, Bench, Step
from tests.proofs.tier_shown import in_storage

LONG = 1_000.0
"""Later than any limit."""


def moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """All steps."""
    yield from cache_moves(bench, state)
    yield from tier_moves(bench, state)
    yield from fetch_moves(bench, state)
    yield from job_moves(bench, state)
    yield from life_moves(bench, state)


def cache_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Match, compute and finish, compute and hold."""
    running, size = HOLDER in state.cache.requests, bench.scope.page_size

    def match(key: tuple[int, ...]) -> None:
        path = bench.paths[key]
        after, pages, behind = bench.model.match(state, path.pages)
        bench.did(Match(path), Hit(pages * size, host=behind * size), after)

    for key in bench.scope.keys:
        yield f"match {key}", lambda key=key: match(key)  # type: ignore[misc]
        if not running:
            yield f"compute {key}", lambda key=key: bench.compute(key)  # type: ignore[misc]
            if bench.scope.holds:
                yield f"compute {key} and hold it", lambda key=key: bench.compute(key, hold=True)  # type: ignore[misc]
    if running:
        yield "finish", lambda: bench.end(True)
        yield "abort the running request", lambda: bench.end(False)


def tier_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Evict on either tier, load back."""
    scope, size = bench.scope, bench.scope.page_size

    def evict(slots: int) -> None:
        after, freed = bench.model.evict(state, slots)
        bench.did(Evict(Tokens(slots)), freed, after)

    def evict_host(pages: int) -> None:
        after, freed = bench.model.evict_host(state, pages)
        bench.did(EvictHost(pages * size), freed, after)

    def load(key: tuple[int, ...], quota: int | None = None) -> None:
        path = bench.paths[key]
        if quota is None:
            after, before, pages = bench.model.load_back(state, bench.root, path.pages)
        else:
            after, before, pages = bench.model.load_within(state, bench.root, path.pages, quota)
        slots = None if pages is None else [slot for page in pages for slot in page_slots(page, size)]
        bench.did(LoadBack(path, quota), Loaded(before * size, slots), after)

    for quota in scope.quotas:
        for key in scope.keys:
            yield f"load back {key} within {quota}", lambda k=key, q=quota: load(k, q)  # type: ignore[misc]
    for pages in sorted({1, scope.pages}):
        yield f"evict {pages} pages", lambda p=pages: evict(p * size)  # type: ignore[misc]
    for pages in sorted({1, scope.host_pages}):
        yield f"evict {pages} pages of the host", lambda p=pages: evict_host(p)  # type: ignore[misc]
    for key in scope.keys:
        yield f"load back {key}", lambda key=key: load(key)  # type: ignore[misc]


def fetch_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Prefetch, poll, abort."""
    size = bench.scope.page_size

    def submit(rid: RequestId, key: tuple[int, ...]) -> None:
        path = bench.paths[key]
        after, told = bench.model.submit(state, rid, bench.root, path.pages, len(key))
        one = fetch.find(after, rid) if told.started else None
        anchor = None if one is None else len(bench.table.prefix(one.anchor)[1])
        bench.did(Prefetch(rid, path), Prefetched(told.started, told.matched * size, told.asked, anchor), after)

    def poll(rid: RequestId) -> None:
        after, over = bench.model.poll(state, rid)
        bench.did(Poll(rid), over, after)
        if over and fetch.find(state, rid) is not None:
            after, units = fetch.told(bench.now, rid)
            bench.did(TellLoaded(rid), units, after)

    def abandon(rid: RequestId) -> None:
        bench.did(Abandon(rid), None, bench.model.abandon(state, rid))

    for rid in map(RequestId, range(1, bench.scope.prefetches + 1)):
        for key in bench.scope.keys:
            yield f"prefetch {key} for {rid}", lambda r=rid, k=key: submit(r, k)  # type: ignore[misc]
        yield f"poll {rid}", lambda r=rid: poll(r)  # type: ignore[misc]
        yield f"abort the waiting request {rid}", lambda r=rid: abandon(r)  # type: ignore[misc]


def job_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Each job goes on in each way."""
    model, scope = bench.model, bench.scope

    def land(job: int) -> None:
        bench.did(Advance(job, DONE), None, model.land(state, job))

    def answer(one: Operation, hit: int) -> None:
        record = Record(asked=(Asked(in_storage(one.names), hit),))
        bench.did(Advance(one.job, Outcome("short", hit)), None, model.answer(state, one.job, hit), record)

    def read(one: Operation, pages: int, over: bool) -> None:
        got = in_storage(one.names[one.completed : one.completed + pages])
        record = Record(got=tuple([Got(name, True) for name in got]))
        bench.write(one, pages)
        outcome = Outcome("short" if over else "part", pages)
        bench.did(Advance(one.job, outcome), None, model.read(state, one.job, pages, over), record)

    def taken(job: int, pages: int, over: bool) -> None:
        outcome = Outcome("short" if over else "part", pages)
        bench.did(Advance(job, outcome), None, model.accepted(state, job, pages, over))

    def layer(one: Transfer) -> None:
        bench.did(Advance(one.id, Outcome("part", 1), LAYERS), None, model.copy_layers(state, one.id, 1))

    def fails(one: Transfer) -> None:
        layers = 0 if scope.layers and one.kind == LOAD else None
        bench.did(Advance(one.id, FAILED, layers), None, model.fail(state, one.id))

    for copy in state.transfers:
        if scope.failures and not copy.landed:
            yield f"{copy.kind} {copy.id} fails", lambda one=copy: fails(one)  # type: ignore[misc]
        if scope.layers and copy.kind == LOAD and not copy.landed:
            yield f"{copy.id} copies a layer", lambda one=copy: layer(one)  # type: ignore[misc]
        elif not copy.landed:
            yield f"{copy.kind} {copy.id} lands", lambda job=copy.id: land(job)  # type: ignore[misc]
    for one in state.operations:
        if one.stage == QUERY:
            for hit in range(len(one.names) + 1) if one.live else (0,):
                yield f"storage has {hit} pages for {one.job}", lambda o=one, h=hit: answer(o, h)  # type: ignore[misc]
        elif one.stage == FETCH:
            yield f"a read ends {one.job}", lambda o=one: read(o, 0, True)  # type: ignore[misc]
            if one.live:
                yield f"{one.job} reads a page", lambda o=one: read(o, 1, False)  # type: ignore[misc]
    for waiting in state.puts:
        if not waiting.landed:
            yield f"put {waiting.id} is refused", lambda job=waiting.id: taken(job, 0, True)  # type: ignore[misc]
            yield f"put {waiting.id} stores a page", lambda job=waiting.id: taken(job, 1, False)  # type: ignore[misc]


def life_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Tick, attach, detach, reset, the clock, faults."""
    model = bench.model

    def tick(detached: bool = False) -> None:
        bench.did(Tick(detached), None, model.tick(bench.now))

    def detach() -> None:
        after, accepted = model.detach(state)
        bench.did(Attach(False, 0), accepted, after)

    def detach_and_tick() -> None:
        detach()
        tick(detached=True)

    def attach() -> None:
        after, accepted = life.attach(state)
        bench.did(Attach(True, 0), accepted, after)

    def reset() -> None:
        bench.did(Reset(), None, model.reset(state))

    def late() -> None:
        live = [one._replace(since=one.since - LONG) if one.since == 0.0 else one for one in state.operations]
        bench.did(SetClock(LONG), None, state._replace(operations=tuple(live)))

    def fault() -> None:
        bench.did(FailHostAlloc(0), None, state._replace(host=state.host._replace(fault=0)))

    def misfire(kind: str) -> None:
        bench.did(FailCopy(kind, 0), None, state._replace(failing={kind: 0}))

    yield "tick", tick
    if bench.scope.lives:
        yield "detach", detach
        yield "attach", attach
        if state.storage:
            yield "detach, tick", detach_and_tick
        if HOLDER not in state.cache.requests:
            yield "reset", reset
    if state.choices.stop == TIMEOUT and any(one.since == 0.0 for one in state.operations):
        yield "time passes", late
    if bench.scope.faults and state.host.fault is None:
        yield "the next allocation fails", fault
    if bench.scope.failures and not state.failing:
        for kind in (LOAD, SPILL) if state.choices.write == WRITE_BACK else (LOAD, BACKUP):
            yield f"the next {kind} can't begin", lambda kind=kind: misfire(kind)  # type: ignore[misc]
