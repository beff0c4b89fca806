"""Every step from a state of a small hierarchy: calls, completions in every way that storage allows, faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvlitmus.reference import fetch, life
from kvlitmus.reference.hierarchy import Hierarchy, Operation, Transfer, moving, occupied
from kvlitmus.spec import policies
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, QUERY, SPILL
from kvlitmus.spec.names import page_names
from kvlitmus.spec.policies import TIMEOUT, WRITE_BACK
from kvlitmus.spec.prefetch_plan import PrefetchAsk, full_length, least_length
from kvlitmus.spec.units import Name, RequestId
from tests.proofs import tier_laws
from tests.proofs.tier_bench import HOLDER, Bench, Step

Facts = dict[str, Any]
LONG = 1_000.0
"""Later than any limit."""
UNLIMITED = 1_000_000
"""A quota that is none."""
LIMITED = "load_back+refused_load_back+limited_load_back"


def moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """All steps."""
    yield from cache_moves(bench, state)
    yield from tier_moves(bench, state)
    yield from fetch_moves(bench, state)
    yield from job_moves(bench, state)
    yield from life_moves(bench, state)


def cache_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Match, compute and finish, compute and hold."""
    running = HOLDER in state.cache.requests

    def match(key: tuple[int, ...]) -> Facts:
        names = bench.paged[key]
        after, _, behind = bench.model.match(state, names)
        bench.go(after)
        there, then = known(state, names)
        return {"host_hit": behind, "host_hit_certain": then - there}

    def compute(key: tuple[int, ...]) -> Facts:
        if not bench.compute(key):
            return {}
        return insert_facts(bench, state, bench.paged[key])

    def hold(key: tuple[int, ...]) -> Facts:
        bench.compute(key, hold=True)
        return {}

    def end(keep: bool) -> Facts:
        names = page_names(state.cache.requests[HOLDER].path.names, bench.scope.page_size)
        bench.go(bench.model.end(state, keep))
        return insert_facts(bench, state, names) if keep else {}

    for key in bench.scope.keys:
        yield f"match {key}", "match", lambda key=key: match(key)  # type: ignore[misc]
        if not running:
            yield f"compute {key}", "finish", lambda key=key: compute(key)  # type: ignore[misc]
            if bench.scope.holds:
                yield f"compute {key} and hold it", "begin", lambda key=key: hold(key)  # type: ignore[misc]
    if running:
        yield "finish", "finish", lambda: end(True)
        yield "abort the running request", "end", lambda: end(False)


def insert_facts(bench: Bench, state: Hierarchy, names: tuple[Name, ...]) -> Facts:
    """What an insertion had to back up, and what it did, with storage and faults left out."""
    after, write = bench.now, state.choices.write
    begun = [name for one in after.transfers if one.kind == BACKUP and one.id > state.serial for name in one.names]
    resident = after.cache.tree.pages
    early = [name for name in begun if not policies.hot(write, resident[name].hits)]
    missed: list[Name] = []
    if write != WRITE_BACK and state.host.fault is None and BACKUP not in state.failing:
        bare = [name for name in names if name not in after.host.copies]
        lacking = len([name for name in names if name not in state.host.copies])
        room = len(state.host.pool.free) + len(tier_laws.droppable(state, names))
        hot = [policies.hot(write, resident[name].hits) for name in bare]
        missed = bare[: policies.due(hot, state.choices.backup_parent)] if lacking <= room else []
    return {"backed_early": early, "due_missed": missed}


def tier_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Evict on either tier, load back."""
    scope = bench.scope

    def evict(slots: int) -> Facts:
        after, _ = bench.model.evict(state, slots)
        bench.go(after)
        both = state.host.copies.keys() & state.cache.tree.pages.keys()
        lost = [] if state.choices.write == WRITE_BACK else both - after.host.copies.keys()
        return {"demoted_lost": sorted(lost)}

    def evict_host(pages: int) -> Facts:
        can = tier_laws.droppable(state)
        after, freed = bench.model.evict_host(state, pages)
        bench.go(after)
        size = scope.page_size
        return {
            "host_asked": pages * size,
            "host_droppable": len(can) * size,
            "host_undroppable": state.host.copies.keys() - can,
            "host_reported": freed,
        }

    def load(key: tuple[int, ...], quota: int = UNLIMITED) -> Facts:
        names, size = bench.paged[key], scope.page_size
        there, then = known(state, names)
        if quota == UNLIMITED:
            after, before, pages = bench.model.load_back(state, bench.root, names)
        else:
            after, before, pages = bench.model.load_within(state, bench.root, names, quota)
        bench.go(after)
        resident, wanted = state.cache.tree.pages, (then - there) * size
        locked = sum(1 for name in names[:there] if not resident[name].locks)
        facts: Facts = {"load_wanted": wanted, "load_limit": quota - locked * size}
        if pages is not None:
            facts["load_slots"] = [page * size + at for page in pages for at in range(size)]
            facts["load_before"], facts["load_resident"] = before * size, there * size
            facts["load_names"] = names[there:then]
            return facts
        facts["load_struck"] = LOAD in state.failing and LOAD not in bench.now.failing
        keep = set(names[:there])
        free = len(state.free) + sum(1 for n, page in resident.items() if not page.locks and n not in keep)
        facts["load_threshold"] = state.choices.load_threshold
        facts["load_room"] = free * size if state.choices.write != WRITE_BACK else 0
        facts["appeared"] = after.cache.tree.pages.keys() - resident.keys()
        return facts

    for quota in scope.quotas:
        for key in scope.keys:
            yield f"load back {key} within {quota}", LIMITED, lambda k=key, q=quota: load(k, q)  # type: ignore[misc]
    for pages in sorted({1, scope.pages}):
        yield f"evict {pages} pages", "evict", lambda p=pages: evict(p * scope.page_size)  # type: ignore[misc]
    for pages in sorted({1, scope.host_pages}):
        yield f"evict {pages} pages of the host", "evict_host", lambda p=pages: evict_host(p)  # type: ignore[misc]
    for key in scope.keys:
        yield f"load back {key}", "load_back+refused_load_back", lambda key=key: load(key)  # type: ignore[misc]


def fetch_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Prefetch, poll, abort."""
    size, choices = bench.scope.page_size, state.choices

    def submit(rid: RequestId, key: tuple[int, ...]) -> Facts:
        names, units = bench.paged[key], len(key)
        _, matched = known(state, names)
        anchor = names[matched - 1] if matched else bench.root
        left = units - matched * size
        ask = PrefetchAsk(left, size, choices.threshold, True, occupied(state), choices.rate_limit)
        gate = shut(bench, state, rid, ask, anchor)
        can = 0 if gate else tier_laws.reservable(state, ask, anchor)
        after, told = bench.model.submit(state, rid, bench.root, names, units)
        bench.go(after)
        facts = {
            "gate": gate,
            "begun": told.started,
            "fetch_asked": told.asked,
            "fetch_matched": told.matched * size,
            "known_certain": matched * size,
            "known_possible": matched * size,
        }
        one = fetch.find(after, rid)
        if told.started and one is not None:
            facts["fetch_anchor"] = len(bench.table.prefix(one.anchor)[1])
        if state.host.fault is None and choices.reserve == "submit":
            facts["reservable"] = can
        if gate or choices.reserve == "submit":
            facts["taken"] = (len(moving(bench.now)) - len(moving(state))) * size
        return facts

    def abandon(rid: RequestId) -> Facts:
        own = fetch.find(state, rid) is not None
        bench.go(bench.model.abandon(state, rid))
        return {"own_prefetch": own}

    for rid in map(RequestId, range(1, bench.scope.prefetches + 1)):
        for key in bench.scope.keys:
            _, then = known(state, bench.paged[key])
            anchor = bench.paged[key][then - 1] if then else bench.root
            ask = PrefetchAsk(
                len(key) - then * size, size, choices.threshold, True, occupied(state), choices.rate_limit
            )
            kind = "gated_prefetch" if shut(bench, state, rid, ask, anchor) else "prefetch"
            yield f"prefetch {key} for {rid}", kind, lambda r=rid, k=key: submit(r, k)  # type: ignore[misc]
        yield f"poll {rid}", "poll+commit+loaded", lambda r=rid: poll(bench, state, r)  # type: ignore[misc]
        yield f"abort the waiting request {rid}", "abandon", lambda r=rid: abandon(r)  # type: ignore[misc]


def poll(bench: Bench, state: Hierarchy, rid: RequestId) -> Facts:
    """Ask whether a request need not wait any more, and what its prefetch has added."""
    size, choices = bench.scope.page_size, state.choices
    one = fetch.find(state, rid)
    after, over = bench.model.poll(state, rid)
    bench.go(after)
    facts: Facts = {
        "poll_answer": over,
        "stop_allowed": [one is None or stops(state, one, size)],
        "own_prefetch": one is not None,
        "commit_range": frozenset(one.names[: one.completed]) if one else frozenset(),
        "commit_missing": [],
    }
    if one and over:
        _, then = known(state, one.names[: one.completed])
        read = one.names[: one.completed]
        above = read[then - 1] if then else one.anchor
        hangs = above == bench.root or above in state.host.copies or choices.write == WRITE_BACK
        if hangs or choices.fill_matched:
            facts["commit_missing"] = [name for name in read if name not in everything(after)]
        added = len(read) - then if hangs or choices.fill_matched else 0
        told, units = fetch.told(after, rid)
        facts["told_loaded"], facts["loaded_least"], facts["loaded_most"] = units, added * size, added * size
        bench.go(told)
    return facts


def shut(bench: Bench, state: Hierarchy, rid: RequestId, ask: PrefetchAsk, anchor: Name) -> str:
    """Why a prefetch has to be refused, whatever memory there is; nothing if it has not."""
    if not state.storage:
        return "no storage"
    if fetch.find(state, rid) is not None:
        return "one is under way"
    if anchor != bench.root and anchor not in state.host.copies:
        return "no host copy to begin at"
    if full_length(ask) < least_length(ask):
        return "too short"
    return "at the rate limit" if ask.occupied >= ask.capacity else ""


def stops(state: Hierarchy, one: Operation, size: int) -> bool:
    """Whether the stop policy lets the request go on."""
    choices = state.choices
    units = policies.counted_units(choices.timeout_basis, one.asked, (one.hit or 0) * size)
    elapsed = state.now - one.since if one.since is not None else 0.0
    return policies.may_stop(choices.stop, one.stage, elapsed, policies.time_limit(choices.timeout, units))


def job_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Each job goes on in each way."""

    def land(job: int) -> Facts:
        bench.go(bench.model.land(state, job))
        return {}

    def answer(one: Operation, hit: int) -> Facts:
        size = bench.scope.page_size
        bench.go(bench.model.answer(state, one.job, hit))
        if not one.live or state.choices.reserve == "hit":
            return {}
        read = [len(new.names) for new in bench.now.operations if new.stage == FETCH and new.job > state.serial]
        least = max(state.choices.threshold, size)
        return {"query_hit": hit * size, "query_least": least, "fetch_length": sum(read) * size}

    def read(one: Operation, pages: int, over: bool) -> Facts:
        bench.read(one.job, pages, over)
        found = [new for new in bench.now.operations if new.job == one.job]
        if not one.live or not found:
            return {}
        return {"fetch_done": found[0].completed, "fetch_got": one.completed + pages}

    def taken(job: int, pages: int, over: bool) -> Facts:
        bench.go(bench.model.accepted(state, job, pages, over))
        return {}

    def layer(one: Transfer) -> Facts:
        bench.go(bench.model.copy_layers(state, one.id, 1))
        copied = [new.layers for new in bench.now.transfers if new.id == one.id]
        return {"layers_told": copied[0], "layers_copied": one.layers + 1}

    def fails(job: int) -> Facts:
        bench.go(bench.model.fail(state, job))
        return {"told_failed": [one.failed for one in bench.now.transfers if one.id == job] == [True]}

    for copy in state.transfers:
        if bench.scope.failures and not copy.landed:
            yield f"{copy.kind} {copy.id} fails", "failed_copy", lambda job=copy.id: fails(job)  # type: ignore[misc]
        if bench.scope.layers and copy.kind == LOAD and not copy.landed:
            yield f"{copy.id} copies a layer", "layered", lambda one=copy: layer(one)  # type: ignore[misc]
        elif not copy.landed:
            yield f"{copy.kind} {copy.id} lands", copy.kind, lambda job=copy.id: land(job)  # type: ignore[misc]
    for one in state.operations:
        if one.stage == QUERY:
            for hit in range(len(one.names) + 1) if one.live else (0,):
                yield f"storage has {hit} pages for {one.job}", "query", lambda o=one, h=hit: answer(o, h)  # type: ignore[misc]
        elif one.stage == FETCH:
            yield f"a read ends {one.job}", "fetch", lambda o=one: read(o, 0, True)  # type: ignore[misc]
            if one.live:
                yield f"{one.job} reads a page", "fetch", lambda o=one: read(o, 1, False)  # type: ignore[misc]
    for waiting in state.puts:
        if not waiting.landed:
            yield f"put {waiting.id} is refused", "put", lambda job=waiting.id: taken(job, 0, True)  # type: ignore[misc]
            yield f"put {waiting.id} stores a page", "put", lambda job=waiting.id: taken(job, 1, False)  # type: ignore[misc]


def life_moves(bench: Bench, state: Hierarchy) -> Iterator[Step]:
    """Tick, attach, detach, reset, the clock, faults."""

    def tick() -> Facts:
        bench.go(bench.model.tick(state))
        return {}

    def detach() -> Facts:
        after, accepted = bench.model.detach(state)
        bench.go(after)
        return {"accepted": accepted, "attached_before": state.storage, "attaching": False}

    def detach_and_tick() -> Facts:
        bench.go(bench.model.tick(bench.model.detach(state)[0]))
        after = bench.now
        work = [*after.operations, *after.puts]
        return {"storage_work": work, "moving_left": moving(after)}

    def attach() -> Facts:
        after, accepted = life.attach(state)
        bench.go(after)
        return {"accepted": accepted, "attached_before": state.storage, "attaching": True}

    def reset() -> Facts:
        bench.go(bench.model.reset(state))
        return {**tier_laws.settled_facts(bench.now), "acked_unlanded": []}

    def late() -> Facts:
        live = [one._replace(since=one.since - LONG) if one.since == 0.0 else one for one in state.operations]
        bench.go(state._replace(operations=tuple(live)))
        return {}

    def fault() -> Facts:
        bench.go(state._replace(host=state.host._replace(fault=0)))
        return {}

    def misfire(kind: str) -> Facts:
        bench.go(state._replace(failing={kind: 0}))
        return {}

    yield "tick", "prefetch_tick" if state.choices.reserve == "submit" else "tick", tick
    if bench.scope.lives:
        yield "detach", "detach", detach
        yield "attach", "attach", attach
        if state.storage:
            yield "detach, tick", "detached", detach_and_tick
        if HOLDER not in state.cache.requests:
            yield "reset", "reset", reset
    if state.choices.stop == TIMEOUT and any(one.since == 0.0 for one in state.operations):
        yield "time passes", "clock", late
    if bench.scope.faults and state.host.fault is None:
        yield "the next allocation fails", "fault", fault
    if bench.scope.failures and not state.failing:
        for kind in (LOAD, SPILL) if state.choices.write == WRITE_BACK else (LOAD, BACKUP):
            yield f"the next {kind} can't begin", "fault", lambda kind=kind: misfire(kind)  # type: ignore[misc]


def known(now: Hierarchy, names: tuple[Name, ...]) -> tuple[int, int]:
    """How many leading pages of a key are resident, and how many are known on either tier."""
    there = then = 0
    while there < len(names) and names[there] in now.cache.tree.pages:
        there += 1
    while then < len(names) and names[then] in everything(now):
        then += 1
    return there, then


def everything(now: Hierarchy) -> set[Name]:
    """Every page on either tier."""
    return {*now.cache.tree.pages, *now.host.alone}
