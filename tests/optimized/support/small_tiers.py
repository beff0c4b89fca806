"""All states of small hierarchies, with a second hierarchy that takes every step of the reference beside it.

As :mod:`tests.optimized.support.small_states`, for hierarchies: the states are those of
:mod:`tests.proofs.support.tier_explore`.  From each one every call of a lawful caller is made, and every job goes on
in every way that storage can make it go; after each step trees, tiers, pins, jobs, counters, free pages, events,
contents, and what storage was asked, are compared.

Storage has every page, and each step says how much of it is told, read or taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.ports import Config
from kvlitmus.reference.prefix.hierarchy import works_of
from kvlitmus.spec.interface.tiers import BACKUP, DONE, FETCH, LOAD, QUERY, Event, Job, Outcome
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.policies import TIMEOUT
from kvlitmus.spec.words.units import Key
from tests.optimized.support.small_states import Called, Log, Logged
from tests.proofs.support.tier_bench import Scope
from tests.proofs.support.tier_explore import Explorer, identity, within
from tests.support.differential import Difference, DifferentialAdapter, EventPaths
from tests.support.differential_store import Recorder, Replayer

HOLDER = 9
LATE = 1_000.0
UNLIMITED = 1_000_000
Move = tuple[str, Callable[[], Any]]


class LoggedTier(Logged):
    """A hierarchy that notes its calls; storage is scripted for each job as it was then."""

    def __init__(self, adapter: Any, store: HarnessStore, log: Log = ()) -> None:
        self.store = store
        self.recorder = Recorder(store)
        super().__init__(adapter)
        for called in log:
            self.call(called.method, *called.args, **dict(called.options))
        self.told: Sequence[Event] = adapter.events() if log else ()

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Make a call and note it; storage is that of this hierarchy."""
        if name == "advance":
            self.store.script(args[1])
        given = (self.recorder,) if name == "attach" else args
        answer = getattr(self.adapter, name)(*given, **options)
        self.store.script(DONE)
        self.log.append(Called(name, () if name == "attach" else args, tuple(options.items())))
        return answer


class Spot(NamedTuple):
    """Where both hierarchies are: the reference's state, contents and keys, and how the other one got there."""

    now: State
    pools: dict[str, list[int]]
    log: Log
    pages: dict[int, int]
    rows: dict[int, tuple[Sequence[int], Sequence[int]]]


class Report(NamedTuple):
    """What a search found."""

    states: int
    transitions: int
    depth: int
    seconds: float
    complete: bool

    def line(self) -> str:
        """The figures."""
        return f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}, {self.seconds:.1f} s"


class BesideTiers:
    """A search; ``make`` makes a fresh hierarchy of this configuration."""

    def __init__(self, scope: Scope, make: Callable[[Config], Any]) -> None:
        self.scope = scope
        self.config = scope.config
        self.make = make
        self.explorer = Explorer(scope)
        self.reference = TieredReference(self.config, PROFILE)
        self.both = DifferentialAdapter(LoggedTier(make(self.config), self.storage()), self.reference, scope.page_size)
        self.both.attach(HarnessStore(scope.page_size))  # type: ignore[attr-defined]
        self.came_from: dict[object, tuple[object, str]] = {}
        self.transitions = 0

    def storage(self) -> HarnessStore:
        """A storage that has everything."""
        store = HarnessStore(self.scope.page_size)
        for key in self.scope.keys:
            names = self.explorer.bench.names[key]
            size = self.scope.page_size
            for at, name in enumerate(self.hashes(key)):
                store.contents[name] = tuple(map(int, names[at * size : (at + 1) * size]))
        return store

    def hashes(self, key: tuple[int, ...]) -> Sequence[str]:
        """What the pages of a key are called in storage."""
        return self.reference.page_hashes(Key(None, key), self.scope.page_size, None)

    # -- the search ----------------------------------------------------------------------------

    def search(self, most_states: int = 1_000_000) -> Report:
        """Search to the fixpoint or the depth of the scope; raises :class:`Difference` where the two differ."""
        started = time.process_time()
        spot = self.spot_now()
        seen = {self.known(spot.now)}
        frontier, depth = [spot], 0
        while frontier and depth < self.scope.depth and len(seen) <= most_states:
            depth += 1
            further: list[Spot] = []
            for spot in frontier:
                for label, follower in self.steps_from(spot):
                    known = self.known(follower.now)
                    if known not in seen:
                        seen.add(known)
                        self.came_from[known] = (self.known(spot.now), label)
                        further.append(follower)
            frontier = further
        return Report(len(seen), self.transitions, depth, time.process_time() - started, not frontier)

    def known(self, now: State) -> object:
        """What tells states apart: time is early or late, the rest as in the reference's own enumeration."""
        works, clock = works_of(now), tiers_of(now).clock
        timed = [
            one if one.since is None else one._replace(since=-LATE if clock - one.since >= LATE else 0.0)
            for one in works.operations
        ]
        return identity(self.explorer.canonical(now._replace(works=works._replace(operations=tuple(timed)))))

    def steps_from(self, spot: Spot) -> Iterator[tuple[str, Spot]]:
        """Every step from a state, made on both, and where it leads if that is within the scope."""
        for label, move in self.moves(spot.now):
            self.bring(spot)
            self.transitions += 1
            try:
                move()
                self.compare()
            except Exception as error:
                steps = "\n  ".join([*self.path(spot.now), label])
                raise Difference(f"{error!r} after\n  {steps}") from error
            if within(self.scope, self.reference.state):
                yield label, self.spot_now()

    def path(self, now: State) -> list[str]:
        """The steps that first led to a state."""
        steps: list[str] = []
        at = self.known(now)
        while at in self.came_from:
            at, label = self.came_from[at]
            steps.append(label)
        return steps[::-1]

    def spot_now(self) -> Spot:
        """Where both are now."""
        reference, both = self.reference, self.both
        pools = {tier: list(slots) for tier, slots in reference.contents.pools.items()}
        now = reference.state._replace(works=works_of(reference.state)._replace(loaded={}))
        log: Log = tuple(both.first.log)
        return Spot(now, pools, log, dict(both.device.pages), dict(both.rows))

    def bring(self, spot: Spot) -> None:
        """Bring both to a state: the reference is put there, the other one walks."""
        reference, both = self.reference, self.both
        first = both.first = LoggedTier(self.make(self.config), self.storage(), spot.log)
        both.told = EventPaths(), both.told[1]
        both.told[0].net(first.told)
        both.recorder = first.recorder
        both.device.pages = dict(spot.pages)
        both.rows = dict(spot.rows)
        reference.state = spot.now
        reference.contents.pools.update({tier: list(slots) for tier, slots in spot.pools.items()})
        reference.told = []
        reference.store = Replayer(first.recorder) if tiers_of(spot.now).attached else None
        both.jobs()  # type: ignore[attr-defined]

    def compare(self) -> None:
        """Look at everything."""
        both: Any = self.both
        view = both.tiers()
        jobs = both.jobs()
        both.sizes(), both.available(), both.host_available(), both.occupied(), both.events()
        ends: list[tuple[int, ...]] = []
        for node in view.nodes:
            ends.append((*(ends[node.parent] if node.parent >= 0 else ()), *node.units))
            for tier, slots, kind in (("device", node.slots, LOAD), ("host", node.host, BACKUP)):
                if slots is not None and not any(self.moves_in(job, kind, ends[-1]) for job in jobs):
                    names = self.reference.path(Key(None, ends[-1])).names[-len(node.units) :]
                    found = list(both.peek(tier, slots))
                    if found != list(names):
                        raise Difference(f"{found} is on the {tier} where {list(names)} belongs")

    def moves_in(self, job: Job, kind: str, units: tuple[int, ...]) -> bool:
        """Whether a copy that is under way concerns the node that ends with these units."""
        return job.kind == kind and not job.landed and job.key.units[: len(units)] == units and job.start < len(units)

    # -- the steps -----------------------------------------------------------------------------

    def moves(self, now: State) -> Iterator[Move]:
        """All steps from a state."""
        yield from self.cache_moves(now)
        yield from self.tier_moves()
        yield from self.fetch_moves()
        yield from self.job_moves(now)
        yield from self.life_moves(now)

    def compute(self, tokens: tuple[int, ...], hold: bool) -> None:
        """A request computes a key's KV, if there is memory, and finishes or goes on."""
        both: Any = self.both
        key = Key(None, tokens)
        begun = both.begin(HOLDER, key)
        if begun is not None:
            names = self.reference.path(key).names
            both.poke(list(begun.row[begun.cached :]), list(names[begun.cached :]))
            if not hold:
                both.end(HOLDER, keep=True)

    def cache_moves(self, now: State) -> Iterator[Move]:
        """Match, compute, hold, end."""
        both: Any = self.both
        running = HOLDER in now.requests
        for key in self.scope.keys:
            yield f"match {key}", lambda key=key: both.match(Key(None, key))  # type: ignore[misc]
            if not running:
                yield f"compute {key}", lambda key=key: self.compute(key, False)  # type: ignore[misc]
                if self.scope.holds:
                    yield f"compute {key} and hold it", lambda key=key: self.compute(key, True)  # type: ignore[misc]
        if running:
            yield "finish", lambda: both.end(HOLDER, keep=True)
            yield "abort the running request", lambda: both.end(HOLDER, keep=False)
            yield "publish", lambda: both.publish(HOLDER, chunked=False)
            yield "publish a chunk", lambda: both.publish(HOLDER, chunked=True)

    def tier_moves(self) -> Iterator[Move]:
        """Evict on either tier, load back."""
        both: Any = self.both
        scope, size = self.scope, self.scope.page_size
        for pages in sorted({1, scope.pages}):
            yield f"evict {pages} pages", lambda n=pages: both.evict(n * size)  # type: ignore[misc]
        for pages in sorted({1, scope.host_pages}):
            yield f"evict {pages} pages of the host", lambda n=pages: both.evict_host(n * size)  # type: ignore[misc]
        for key in scope.keys:
            yield f"load back {key}", lambda k=key: both.load_back(Key(None, k))  # type: ignore[misc]
            for quota in scope.quotas:
                yield (
                    f"load back {key} within {quota}",
                    lambda k=key, q=quota: both.load_back_within(Key(None, k), q),  # type: ignore[misc]
                )

    def fetch_moves(self) -> Iterator[Move]:
        """Prefetch, poll and be told, abort."""
        both: Any = self.both

        def poll(rid: int) -> None:
            both.poll(rid)
            both.loaded(rid)

        for rid in range(1, self.scope.prefetches + 1):
            for key in self.scope.keys:
                yield f"prefetch {key} for {rid}", lambda r=rid, k=key: both.prefetch(r, Key(None, k))  # type: ignore[misc]
            yield f"poll {rid}", lambda r=rid: poll(r)  # type: ignore[misc]
            yield f"abort the waiting request {rid}", lambda r=rid: both.abandon(r)  # type: ignore[misc]

    def job_moves(self, now: State) -> Iterator[Move]:
        """Each job goes on in each way."""
        reference = self.reference
        reference.state = now
        for at, job in enumerate(reference.jobs()):
            for outcome in () if job.landed else self.outcomes(job):
                yield (
                    f"{job.kind} {job.key.tokens} goes on: {outcome.how} {outcome.pages}",
                    lambda at=at, outcome=outcome: self.advance(at, outcome),  # type: ignore[misc]
                )

    def advance(self, at: int, outcome: Outcome) -> None:
        """The job at this place goes on."""
        both: Any = self.both
        both.advance(both.jobs()[at].id, outcome)

    def outcomes(self, job: Job) -> list[Outcome]:
        """How a job can go on."""
        pages = (job.key.length - job.start) // self.scope.page_size
        if job.kind == QUERY:
            return [Outcome("short", hit) for hit in range(pages + 1)]
        if job.kind == FETCH:
            return [Outcome("short", 0), Outcome("part", 1), Outcome("fail", 0)]
        if job.kind == LOAD and self.scope.layers:
            return [Outcome("part", 1)]
        return [DONE] if job.kind in (BACKUP, LOAD) else [Outcome("short", 0), Outcome("part", 1)]

    def life_moves(self, now: State) -> Iterator[Move]:
        """Tick, attach, detach, reset, the clock, faults."""
        both: Any = self.both
        yield "tick", both.tick
        if self.scope.lives:
            yield "detach", both.detach
            yield "attach", self.attach
            if HOLDER not in now.requests:
                yield "reset", both.reset
        works, clock = works_of(now), tiers_of(now).clock
        if self.config.stop == TIMEOUT and any(
            one.since is not None and clock - one.since < LATE for one in works.operations
        ):
            yield "time passes", lambda: both.set_clock(clock + LATE)
        if self.scope.faults and works.fault is None:
            yield "the next allocation fails", lambda: both.fail_host_alloc(0)

    def attach(self) -> None:
        """Attach the storage, on both sides the one of the first."""
        both: Any = self.both
        first: LoggedTier = both.first
        one, other = first.attach(None), self.reference.attach(Replayer(first.recorder))
        if one != other:
            raise Difference(f"attach: {one} is not {other}")


def supported(scope: Scope) -> Scope:
    """The scope with the choices that the optimized cache makes."""
    return replace(scope, profile=replace(scope.profile, reserve="submit", fill_matched=False))
