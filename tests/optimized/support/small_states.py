"""All states of small caches, with a second cache that takes every step of the reference beside it.

The states are those of :mod:`tests.proofs.support.explore`: a reference cache and what its callers hold, breadth first
to the fixpoint.  From each state every call is made on the reference *and* on another cache, which was brought there by
the same calls, and after each call everything that can be seen of both is compared.  The other cache can't be put into
a state, so it is made anew and the calls that lead there are made again (:class:`Logged`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.spec.words.units import Name
from tests.proofs.support.explore import Explorer, Report, Scope, State
from tests.support.differential import Difference, DifferentialAdapter

LOOKS = frozenset({"available", "sizes", "view", "tiers", "jobs", "events", "occupied", "host_available", "peek"})


class Called(NamedTuple):
    """One call on record; a handle or receipt among its arguments is the number of the call that gave it."""

    method: str
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()


Log = tuple[Called, ...]


class Logged:
    """An adapter that notes its calls, so that another one can be brought to where it is."""

    def __init__(self, adapter: Any, log: Log = ()) -> None:
        self.adapter = adapter
        self.log: list[Called] = []
        self.given: list[Any] = []
        for called in log:
            args = called.args
            if called.method == "lock":
                args = (self.given[args[0]].handle,)
            elif called.method == "unlock":
                args = (self.given[args[0]],)
            self.call(called.method, *args, **dict(called.options))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.adapter, name)
        if name in LOOKS or name.startswith("layers") or not callable(method):
            return method
        return lambda *args, **options: self.call(name, *args, **options)

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Make a call and note it."""
        noted = args
        if name == "lock":
            noted = (max(at for at, one in enumerate(self.log) if one.method == "match"),)
        elif name == "unlock":
            noted = (next(at for at, one in enumerate(self.given) if one is args[0] and self.log[at].method == "lock"),)
        answer = getattr(self.adapter, name)(*args, **options)
        self.log.append(Called(name, noted, tuple(options.items())))
        self.given.append(answer)
        return answer


class Spot(NamedTuple):
    """A state of the reference as it was reached, and how to bring the other cache and what holds both there."""

    state: State
    log: Log
    pages: dict[int, int]
    rows: dict[int, tuple[Sequence[int], Sequence[int]]]
    receipts: tuple[tuple[Name, int], ...]


class Beside(Explorer):
    """A search with another cache beside the reference; ``make`` makes a fresh one."""

    def __init__(self, scope: Scope, make: Callable[[], Any]) -> None:
        super().__init__(scope)
        self.make = make
        self.both = DifferentialAdapter(self.adapter, Logged(make()), scope.page_size)
        self.checker = Checker(self.both, scope.config, scope.profile, names=self.names)

    def search(self, most_states: int = 1_000_000) -> Report:
        """Search to the fixpoint; raises :class:`~tests.proofs.support.explore.Counterexample` where the two differ."""
        report = Report(self.scope)
        started = time.process_time()
        spot = Spot(State(self.adapter.state, ()), (), {}, {}, ())
        seen = {self.canonical(spot.state).identity()}
        frontier = [spot]
        while frontier and len(seen) <= most_states:
            report.depth += 1
            further: list[Spot] = []
            for spot in frontier:
                for label, follower in self.steps_from(spot, report):
                    identity = self.canonical(follower.state).identity()
                    if identity not in seen:
                        seen.add(identity)
                        self.came_from[identity] = (self.canonical(spot.state).identity(), label)
                        further.append(follower)
            frontier = further
        report.complete = not frontier
        report.states = len(seen)
        report.seconds = time.process_time() - started
        report.evaluated = self.checker.counted()
        return report

    def steps_from(self, spot: Spot, report: Report) -> Iterator[tuple[str, Spot]]:
        """Every call from this state, made on both, and where it leads; nothing is refused by choice."""
        self.bring(spot)
        seen = self.checker.observe_now()
        for label, move in self.moves(self, spot.state):
            if label.endswith("refused"):
                continue
            self.bring(spot)
            self.checker.before = seen
            report.transitions += 1
            try:
                loan = move()
            except Violation as violation:
                calls = [*self.path(self.canonical(spot.state)), label, *self.checker.history]
                raise self.broken(violation, calls) from violation
            if loan is not None:
                yield label, self.spot_now(self.state_now(loan))

    def broken(self, violation: Violation, calls: list[str]) -> AssertionError:
        """What to raise for a violation, which may be a difference."""
        cause = violation.__cause__
        why = str(cause) if isinstance(cause, Difference) else f"{violation.rules}: {violation.detail}"
        return Difference("\n  ".join([why, *calls]))

    def bring(self, spot: Spot) -> None:
        """Bring both to a state: the reference is put there, the other one walks."""
        second = Logged(self.make(), spot.log)
        both = self.both
        both.second = second
        both.told[1].net(second.events())  # they have been compared
        both.device.pages = dict(spot.pages)
        both.rows = dict(spot.rows)
        self.restore(spot.state, None)
        self.checker.tokens = {number: (number, second.given[at]) for number, (_, at) in enumerate(spot.receipts, 1)}

    def spot_now(self, state: State) -> Spot:
        """Where both are now."""
        second: Logged = self.both.second
        held = sorted(
            (name, next(at for at, one in enumerate(second.given) if one is token[1]))
            for number, name in self.checker.receipts.items()
            if isinstance(token := self.checker.tokens[number], tuple)
        )
        return Spot(state, tuple(second.log), dict(self.both.device.pages), dict(self.both.rows), tuple(held))
