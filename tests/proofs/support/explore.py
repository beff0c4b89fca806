"""All states of a small cache, breadth first, and every rule on every transition between them.

A **state** is what is known of a reference cache, which is all that there is, and which pages are the caller's own.
From each state every call of a lawful caller is made, through the judge, so that the very same
code that works out facts for real caches works them out here.  The search ends at a fixpoint: no
call leads to a state that wasn't seen.

What makes the space finite, and why nothing is lost:

* *Recency is a rank.*  Policies compare ticks and do nothing else with them.
* *Counts that the policy doesn't look at are set to nought; those that it looks at saturate.*
  Rules compare a count with the same count one call later, from whatever value.
* *Pages are renumbered* (cached ones by name, then those of requests, of the caller, free ones).
  Rules and reference compare pages for equality only; which free page is taken, is the one thing
  that depends on numbers, and any renumbering of it is legal (``test_choices.py`` tries all).
* *Requests are renumbered* likewise.
* *Slots that nobody owns hold nothing.*  That is stricter than what stale KV would be.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvlitmus.conformance.adapters.reference.flat import PROFILE, ReferenceCache
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.perform import free_pages
from kvlitmus.spec.prefix.effects import path
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import EventMirror, Page, RequestState, Tier
from kvlitmus.spec.prefix.state import State as Known
from kvlitmus.spec.words.names import NO_NAME, Names
from kvlitmus.spec.words.units import Key, Name, PageNo, Pages, Slot, Tick, page_slots

BY_RECENCY = ("lru", "mru", "lfu", "priority", "slru")
BY_AGE = ("fifo", "filo")
HITS_THAT_MATTER = {"lfu": 3, "slru": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How small the cache is, and what its callers do.

    ``units``: how long keys get at most.  ``alphabet``: the tokens.  ``loans``, ``receipts``,
    ``requests``: how much the callers hold at once.  ``misuse``: whether forbidden calls are tried
    in every state, too.  ``retracts``: whether requests are retracted with a copy on the host.
    """

    pages: int = 3
    page_size: int = 1
    units: int = 2
    alphabet: tuple[int, ...] = (1, 2)
    namespaces: tuple[str | None, ...] = (None,)
    policy: str = "lru"
    bigram: bool = False
    loans: int = 2
    receipts: int = 1
    requests: int = 1
    misuse: bool = True
    retracts: bool = False
    profile: Profile = PROFILE

    @property
    def config(self) -> Config:
        """What the target is asked to build."""
        return Config(page_size=self.page_size, pages=self.pages, policy=self.policy, bigram=self.bigram)

    @property
    def keys(self) -> list[Key]:
        """All keys: every sequence over the alphabet, in every namespace."""
        longest = self.units + self.bigram
        runs: list[tuple[int, ...]] = [()]
        for run in runs:
            if len(run) < longest:
                runs += [(*run, token) for token in self.alphabet]
        return [Key(namespace, run, self.bigram) for namespace in self.namespaces for run in runs]


class State(NamedTuple):
    """What is known of a cache, of which everything is known, and the pages that are the caller's own."""

    known: Known
    loan: tuple[PageNo, ...]

    @property
    def receipts(self) -> tuple[Name, ...]:
        """Where the paths end that receipts protect."""
        return tuple(self.known.receipts.values())

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the running requests."""
        return tuple(one.path.key for one in self.known.requests.values())

    def identity(self) -> tuple[object, ...]:
        """What tells states apart: everything, save what follows from the rest (contents, and what is owned)."""
        known = self.known
        requests = tuple((one.path.key, one.row, one.cached, one.locked) for one in known.requests.values())
        parked = (tuple(one.path.key for one in known.retracted.requests.values()), known.retracted.most)
        return (tuple(known.device.pages.items()), requests, parked, self.loan, self.receipts)


Loan = tuple[PageNo, ...]
Move = tuple[str, Callable[[], Loan | None]]
"""What a call is called, and the call: it returns the caller's pages afterwards, ``None`` where nothing follows."""


@dataclass
class Report:
    """What a search found."""

    scope: Scope
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    complete: bool = False
    evaluated: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """The figures."""
        scope = self.scope
        return (
            f"{scope.config.label} units={scope.units} {scope.profile.evict_granularity}: "
            f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}, "
            f"{self.evaluated.total():,} evaluations of {len(+self.evaluated)} rules, {self.seconds:.1f} s"
            f"{'' if self.complete else ', NOT A FIXPOINT'}"
        )


class Counterexample(AssertionError):
    """A transition that breaks rules, and the calls that lead there."""

    def __init__(self, violation: Violation, calls: list[str]) -> None:
        super().__init__(f"{', '.join(violation.rules)} broken: {violation.detail}\n  " + "\n  ".join(calls))
        self.rules = violation.rules
        self.calls = calls


class Explorer:
    """One search: a judge over a reference adapter that is put into each state and tried with each call."""

    def __init__(self, scope: Scope, make: type[ReferenceCache] = ReferenceCache) -> None:
        from tests.proofs.support.moves import moves

        self.scope = scope
        self.names = Names()
        self.adapter = make(scope.config, scope.profile, self.names)
        self.checker = Checker(self.adapter, scope.config, scope.profile, names=self.names)
        self.moves = moves
        self.keys = scope.keys
        self.came_from: dict[object, tuple[object, str]] = {}
        self.states: list[State] = []

    def run(self, most_states: int = 1_000_000) -> Report:
        """Search to the fixpoint; raises :class:`Counterexample` at the first broken rule."""
        report = Report(self.scope)
        started = time.process_time()
        first = self.canonical(State(self.adapter.state, ()))
        seen = {first.identity()}
        frontier = [first]
        self.states.append(first)
        while frontier and len(seen) <= most_states:
            report.depth += 1
            further: list[State] = []
            for state in frontier:
                for label, follower in self.followers(state, report):
                    identity = follower.identity()
                    if identity not in seen:
                        seen.add(identity)
                        self.came_from[identity] = (state.identity(), label)
                        further.append(follower)
            self.states += further
            frontier = further
        report.complete = not frontier
        report.states = len(seen)
        report.seconds = time.process_time() - started
        report.reached = self.checker.reached
        report.evaluated = self.checker.counted()
        return report

    def followers(self, state: State, report: Report) -> Iterator[tuple[str, State]]:
        """Every call from this state, judged, and the states it leads to."""
        self.restore(state, None)
        seen = self.checker.observe_now()
        for label, move in self.moves(self, state):
            self.restore(state, seen)
            report.transitions += 1
            try:
                loan = move()
            except Violation as violation:
                raise Counterexample(violation, [*self.path(state), label, *self.checker.history]) from violation
            if loan is not None:
                yield label, self.canonical(self.state_now(loan))

    def path(self, state: State) -> list[str]:
        """The calls that first led to a state; pages are renumbered between them."""
        calls: list[str] = []
        at: object = state.identity()
        while at in self.came_from:
            at, label = self.came_from[at]
            calls.append(label)
        return calls[::-1]

    # -- from state to judge and back ----------------------------------------------------------

    def restore(self, state: State, seen: Seen | None) -> None:
        """Put adapter and judge into a state: what the one is, is what the other one knows, and was told by events."""
        checker, adapter, tree = self.checker, self.adapter, state.known.device
        adapter.state, adapter.told, adapter.cleared = state.known, tree, False
        roots = {name: tree.pages[path(tree, name)[0]].parent for name in tree.pages}
        told = EventMirror(device=dict.fromkeys(tree.pages, 1), pages={name: name for name in tree.pages}, roots=roots)
        checker.state = state.known._replace(told=told)
        adapter.group = None
        adapter.choice = type(adapter.choice)()
        adapter.serial = len(state.receipts)
        checker.kept.clear()
        checker.history = []
        checker.tokens = {number: number for number in state.known.receipts}
        if seen is not None:
            checker.before = seen

    def decline(self, refused: bool) -> None:
        """Let the next call be refused that may be."""
        self.adapter.choice = self.adapter.choice._replace(declined=refused)

    def contents(self, tree: Tier, requests: Iterable[RequestState]) -> dict[Slot, Name]:
        """What slots hold that somebody owns or that are cached; the others hold nothing."""
        contents = dict[Slot, Name]()
        for one in requests:
            contents.update(zip(one.row, one.path.tokens, strict=True))
        for name, page in tree.pages.items():
            contents.update(zip(page_slots(page.page, self.scope.page_size), self.run_of(name), strict=True))
        return contents

    def run_of(self, name: Name) -> tuple[Name, ...]:
        """The names of a page's prefixes, unit by unit."""
        run = [name]
        while len(run) < self.scope.page_size:
            run.append(self.names.parent(run[-1]))
        assert NO_NAME not in run
        return tuple(reversed(run))

    def state_now(self, loan: Loan) -> State:
        """The state that the adapter is in, with the caller's pages."""
        return State(self.adapter.state, loan)

    def free(self, state: State) -> frozenset[PageNo]:
        """The free pages of a state."""
        return free_pages(state.known, self.checker.setting)

    def canonical(self, state: State) -> State:
        """The same state with ranks, saturated counts, renumbered requests and renumbered pages."""
        known, size = state.known, self.scope.page_size
        running = sorted(known.requests.values(), key=lambda one: (one.path.key.tokens, one.cached))
        number: dict[PageNo, PageNo] = {}

        def renumber(pages: Any) -> None:
            for page in pages:
                number.setdefault(page, PageNo(len(number) + 1))

        names = sorted(known.device.pages)
        renumber(known.device.pages[name].page for name in names)
        for one in running:
            renumber(slot // size for slot in one.row)
        renumber(state.loan)
        renumber(sorted(known.owners))
        renumber(sorted(self.free(state)))

        def moved(slot: Slot) -> Slot:
            return Slot(number[PageNo(slot // size)] * size + slot % size)

        requests = {at: one._replace(row=tuple(map(moved, one.row))) for at, one in enumerate(running, 1)}
        parked = sorted(known.retracted.requests.values(), key=lambda one: one.path.key.tokens)
        waiting = {at: one._replace(row=(Slot(0),) * len(one.row)) for at, one in enumerate(parked, len(running) + 1)}
        tree = self.ranked(known.device, number)
        return State(
            Known(
                tree,
                {number[page]: times for page, times in known.owners.items()},
                requests,
                dict(enumerate(sorted(known.receipts.values()), 1)),
                self.contents(tree, requests.values()),
                retracted=known.retracted._replace(requests=waiting),
            ),
            tuple(sorted(number[page] for page in state.loan)),
        )

    def ranked(self, tree: Tier, number: dict[PageNo, PageNo]) -> Tier:
        """The tree with ranks for ticks, the counts that matter, and other page numbers; parents first."""
        policy = self.scope.policy
        most = HITS_THAT_MATTER.get(policy, 0)
        ticks = sorted({page.touched if policy in BY_RECENCY else page.created for page in tree.pages.values()})
        rank = {tick: Tick(at) for at, tick in enumerate(ticks, 1)}
        pages = {
            name: Page(
                page.parent,
                number[page.page],
                rank[page.touched] if policy in BY_RECENCY else Tick(0),
                rank[page.created] if policy in BY_AGE else Tick(0),
                min(page.hits, most),
                page.priority,
                page.locks,
                page.first,
            )
            for name, page in sorted(tree.pages.items(), key=lambda item: (self.level(item[0]), item[0]))
        }
        return Tier(pages, Tick(len(ticks)))

    def level(self, name: Name) -> int:
        """How long the prefix is."""
        return len(self.names.prefix(name)[1])

    def page_count(self, key: Key) -> Pages:
        """The whole pages of a key."""
        return Pages(key.length // self.scope.page_size)
