"""All states of a small hierarchy, breadth first: every interleaving of calls, completions and faults.

A **state** is the reference's (:mod:`kvlitmus.reference.prefix.hierarchy`), and what is in its slots.  From each state
every call of a lawful caller is made, every job under way goes on in every way that storage could make it go, and every
fault of the scope strikes; after each of these **steps** every rule that can be said of the model is evaluated, its
facts by the spec's own functions (:mod:`tests.proofs.support.tier_judge`), and every law of
:mod:`tests.proofs.support.tier_laws`.  From each state everything under way is also delivered, and nothing may be left.

What makes the space finite, and why nothing is lost:

* *Recency is a rank, hits saturate at the threshold of the write policy, jobs and pages are renumbered*, as in
  :mod:`tests.proofs.support.explore`.
* *Contents follow from the state.*  A slot holds what the laws say, or nothing that anybody may read; so a state is
  restored with exactly that, and a step that reads anything else is found out.
* *Time is early or late*: a prefetch is over its limit or not.
* *Storage is any storage.*  What it answers is a choice of the step, so no state of it is kept.
* *Work under way is bounded* by the scope.  Steps that lead beyond are judged, but not followed.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlitmus.reference.prefix.hierarchy import alone_of, host_pages, moving, under_way, works_of
from kvlitmus.spec.interface.tiers import BACKUP, LOAD, PUT
from kvlitmus.spec.prefix.calls import End
from kvlitmus.spec.prefix.page import copy_of
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.state import Page, RequestState, State, Tier
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.policies import TICKS_TO_REST, USES
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tick
from tests.proofs.support import tier_laws, tier_moves
from tests.proofs.support.tier_bench import HOLDER, Bench, Model, Scope
from tests.proofs.support.tier_judge import Broken


class Report(NamedTuple):
    """What a search found; ``complete``: whether it ended at a fixpoint."""

    states: int
    transitions: int
    depth: int
    seconds: float
    complete: bool
    evaluated: Counter[str]
    steps: Counter[str]

    def line(self) -> str:
        """The figures."""
        return (
            f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}, "
            f"{self.evaluated.total():,} evaluations of {len(self.evaluated)} rules and laws, {self.seconds:.1f} s"
            f"{', to the fixpoint' if self.complete else ''}"
        )


class Counterexample(AssertionError):
    """A step that breaks a rule or a law, and the steps that lead there."""

    def __init__(self, broken: str, detail: str, steps: list[str]) -> None:
        super().__init__(f"{broken} broken: {detail}\n  " + "\n  ".join(steps))
        self.broken = broken
        self.steps = steps


@dataclass
class Explorer:
    """One search."""

    scope: Scope
    model: Model = field(default_factory=Model)

    def __post_init__(self) -> None:
        self.bench = Bench(self.scope, self.model)
        self.judge = self.bench.judge
        self.evaluated: Counter[str] = Counter()
        self.came_from: dict[object, tuple[object, str]] = {}
        self.transitions = 0

    def run(self, most_states: int = 10_000_000) -> Report:
        """Search to the fixpoint or the depth of the scope; raises :class:`Counterexample` at the first broken."""
        started = time.process_time()
        first = self.canonical(self.bench.now)
        seen = {identity(first)}
        frontier, depth = [first], 0
        while frontier and depth < self.scope.depth and len(seen) <= most_states:
            depth += 1
            further: list[State] = []
            for state in frontier:
                self.drained(state)
                for label, follower in self.followers(state):
                    known = identity(follower)
                    if known not in seen:
                        self.obey(follower, state, label)
                        seen.add(known)
                        self.came_from[known] = (identity(state), label)
                        further.append(follower)
            frontier = further
        seconds = time.process_time() - started
        evaluated = self.evaluated + self.judge.evaluated()
        return Report(len(seen), self.transitions, depth, seconds, not frontier, evaluated, self.judge.reached())

    def followers(self, state: State) -> Iterator[tuple[str, State]]:
        """Every step from a state, judged, and the states it leads to that are within the scope."""
        self.bench.restore(state)
        self.judge.start(state, self.bench.contents)
        for label, step in tier_moves.moves(self.bench, state):
            self.bench.restore(state)
            self.judge.again()
            self.transitions += 1
            self.attempt(step, state, label)
            after = self.bench.now
            self.obey_after(after, state, label)
            after = after._replace(works=works_of(after)._replace(loaded={}, filled={}))
            if within(self.scope, after):
                yield label, self.canonical(after)
            else:
                self.obey(after, state, label)

    def drained(self, state: State) -> None:
        """From a state, everything is delivered until nothing changes: after so many ticks nothing may be left."""
        self.bench.restore(state)
        self.judge.start(state, self.bench.contents)
        self.attempt(self.deliver, state, "deliver all")
        self.obey(self.bench.now, state, "deliver all")

    def deliver(self) -> None:
        """Deliver everything, and judge what is left."""
        bench = self.bench
        if HOLDER in bench.now.requests:
            bench.go(End(HOLDER, False))
        for _ in range(TICKS_TO_REST):
            before = bench.now
            bench.deliver()
            if bench.now == before:
                break
        self.judge.settled(bench.now, bench.contents)

    def attempt(self, step: Callable[[], None], state: State, label: str) -> None:
        """Take a step, which judges itself; raises :class:`Counterexample` for what it breaks."""
        try:
            step()
        except Broken as broken:
            raise Counterexample(broken.id, str(broken.facts), [*self.path(state), label]) from broken
        except (ValueError, KeyError, IndexError, AssertionError) as error:
            raise Counterexample("a step", f"it raised {error!r}", [*self.path(state), label]) from error

    def obey_after(self, now: State, state: State, label: str) -> None:
        """Evaluate the laws of steps; raises :class:`Counterexample` for one that is broken."""
        for name, law in tier_laws.LAWS_OF_STEPS.items():
            self.evaluated[name] += 1
            wrong = law(now, self.bench.setting, self.bench.contents, self.judge.state)
            if wrong:
                raise Counterexample(name, wrong, [*self.path(state), label])

    def obey(self, now: State, state: State, label: str) -> None:
        """Evaluate the laws, which are about one state; raises :class:`Counterexample` for one that is broken."""
        for name, law in tier_laws.LAWS.items():
            self.evaluated[name] += 1
            wrong = law(now, self.bench.setting)
            if wrong:
                raise Counterexample(name, wrong, [*self.path(state), label])

    def path(self, state: State) -> list[str]:
        """The steps that first led to a state; jobs and pages are renumbered between them."""
        steps: list[str] = []
        at: object = identity(state)
        while at in self.came_from:
            at, label = self.came_from[at]
            steps.append(label)
        return steps[::-1]

    def canonical(self, now: State) -> State:
        """The same state with ranks, saturated counts, and other numbers for jobs and pages."""
        size, resident, alone, below = self.scope.page_size, now.device.pages, alone_of(now), works_of(now)
        ticks = sorted({page.touched for pages in (resident, alone) for page in pages.values()})
        rank = {tick: Tick(at) for at, tick in enumerate(ticks, 1)}
        most = USES.get(self.scope.asked.write, 1)
        device: dict[PageNo, PageNo] = {}
        host: dict[PageNo, PageNo] = {}
        for name in sorted(resident):
            device[resident[name].page] = PageNo(len(device) + 1)
        for request in now.requests.values():
            for slot in request.row[::size]:
                device.setdefault(PageNo(slot // size), PageNo(len(device) + 1))
        for name in sorted(now.host.pages):
            host[now.host.pages[name].page] = PageNo(len(host))
        for page in moving(now):
            host.setdefault(page, PageNo(len(host)))

        def ranked(page: Page, place: PageNo) -> Page:
            return page._replace(page=place, touched=rank[page.touched], created=Tick(0), hits=min(page.hits, most))

        def kept(name: Name, page: Page) -> Page:
            place = host[page.page]
            return ranked(page, place) if name in alone else copy_of(page.parent, place, page.locks)

        def moved(request: RequestState) -> RequestState:
            row = [Slot(device[PageNo(slot // size)] * size + slot % size) for slot in request.row]
            return request._replace(row=tuple(row))

        pages = {name: ranked(page, device[page.page]) for name, page in sorted(resident.items())}
        tree = Tier(pages, Tick(len(ticks)))
        copies = {name: kept(name, page) for name, page in sorted(now.host.pages.items())}
        operations = [one._replace(held=tuple([host[page] for page in one.held])) for one in below.operations]
        numbers = itertools.count(1)
        return now._replace(
            device=tree,
            requests={rid: moved(request) for rid, request in now.requests.items()},
            owners={device[page]: times for page, times in now.owners.items()},
            contents={},
            host=Tier(copies, tree.clock),
            works=below._replace(
                free=host_pages(self.bench.setting).difference(host.values()),
                settled=frozenset(sorted(below.settled)),
                stored=frozenset(sorted(below.stored)),
                transfers=tuple(
                    [one._replace(id=next(numbers)) for one in (*under_way(now, *COPIES), *under_way(now, PUT))]
                ),
                operations=tuple([one._replace(job=next(numbers)) for one in operations]),
                release=tuple(sorted(host[page] for page in below.release)),
                serial=next(numbers) - 1,
            ),
        )


def identity(now: State) -> tuple[object, ...]:
    """What tells canonical states apart: everything that is not the same in all of them."""
    works = works_of(now)
    return (
        tuple(now.device.pages.items()),
        tuple((rid, *without_held(one)) for rid, one in now.requests.items()),
        tuple(now.host.pages.items()),
        works.settled,
        works.stored,
        works.fault,
        tuple(sorted(works.failing.items())),
        works.transfers,
        works.operations,
        works.release,
        tiers_of(now).attached,
    )


def without_held(one: RequestState) -> tuple[object, ...]:
    """A request by everything but what it keeps beside its row: a hierarchy keeps nothing there."""
    assert not one.held
    return tuple(part for part in one if part is not one.held)


def within(scope: Scope, now: State) -> bool:
    """Whether no more is under way than the scope says."""
    works = works_of(now)
    kinds = Counter(transfer.kind for transfer in works.transfers)
    return (
        kinds[BACKUP] <= scope.backups
        and kinds[LOAD] <= scope.loads
        and kinds[PUT] <= scope.puts
        and len(works.operations) <= scope.prefetches
    )
