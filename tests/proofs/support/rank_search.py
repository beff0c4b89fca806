"""All states of two ranks with all delays: breadth first, each step judged by every rule of ranks.

The reference's ranks are values, so a state is put into the adapter, one call is made through the judge, and the
next state is taken out.  Completions are steps of their own, on one rank each, so every delay of one rank against
the other is a path.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvlitmus.conformance.adapters.reference.ranks import RankedReference
from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.ranks import Rank
from kvlitmus.spec.interface.ranks import Local
from kvlitmus.spec.ranks.state import RanksState

Make = Callable[[], RankedReference]


class Scope(NamedTuple):
    """What is tried: in a world of this shape and size these calls, and these events on each rank; ``reads``: so many
    prefetches, one after the other or together.
    """

    shape: str
    stop: str
    pages: int
    host_pages: int
    asks: tuple[str, ...]
    keys: tuple[tuple[int, ...], ...]
    window: int = 0
    states: int = 0
    reads: int = 1


SCOPES = {
    "copies": Scope("tp2", "wait_complete", 2, 2, ("insert", "match", "evict", "acks", "load"), ((1,), (1, 2), (2,))),
    "prefetch": Scope("tp2", "wait_complete", 1, 2, ("prefetch", "hit", "poll", "abort"), ((1, 2),), 1),
    "states": Scope("tp2", "wait_complete", 1, 2, ("prefetch", "hit", "poll", "abort"), ((1, 2),), states=1),
    "state room": Scope("pp2", "best_effort", 1, 2, ("prefetch", "hit", "poll"), ((1,), (2,)), states=1, reads=2),
    "timeout": Scope("pp2", "timeout", 1, 1, ("prefetch", "hit", "poll"), ((1,),)),
    "room": Scope("cp2", "best_effort", 2, 2, ("insert", "acks", "prefetch"), ((1, 2),)),
    "lost": Scope("tp2", "best_effort", 2, 2, ("insert", "acks", "match", "evict", "load", "rejoin"), ((1,), (2,))),
}
"""The searches, each to its fixpoint."""


class Node(NamedTuple):
    """One state: of the ranks, and what is known of them; ``asked``: how many prefetches were asked for."""

    ranks: tuple[Rank, ...]
    known: RanksState
    asked: int


class Report(NamedTuple):
    """What a search found: states, steps, how often each rule was evaluated, and the first broken rules."""

    states: int
    steps: int
    evaluated: Counter[str]
    broken: tuple[str, ...]
    path: tuple[str, ...]


Move = Callable[[Checker], object]


def moves(scope: Scope, node: Node) -> Iterator[tuple[str, Move]]:
    """Everything that can happen next: each call, and each event on each rank."""
    living = [rank for rank in node.known.world.ranks if node.known.own[rank].alive]
    if "rejoin" in scope.asks and not all(one.whole for one in node.known.own.values()) and len(living) == 2:
        yield "rejoin", functools.partial(ranks.ask, what="rejoin")
        return
    for what in scope.asks:
        if what in ("acks", "hit", "poll", "abort"):
            for rid in range(1, scope.reads + 1):
                yield what, functools.partial(ranks.ask, what=what, rid=rid)
        elif what == "evict":
            yield what, functools.partial(ranks.ask, what=what, pages=1)
        elif what != "prefetch" or node.asked < scope.reads:
            for key in scope.keys:
                yield what, functools.partial(ranks.ask, what=what, key=key, rid=node.asked + 1)
    for rank in node.known.world.ranks:
        for event in events(scope, node, rank):
            yield event.what, functools.partial(ranks.local, event=event)


def events(scope: Scope, node: Node, rank: int) -> Iterator[Local]:
    """What can happen to one rank alone."""
    own, agreed = node.known.own[rank], node.known.trees[0]
    if not own.alive:
        yield Local(rank, "restart")
        return
    if "rejoin" in scope.asks and rank and all(one.alive for one in node.known.own.values()):
        yield Local(rank, "die")
    for page in agreed.writing:
        if page not in own.wrote:
            yield Local(rank, "wrote", page)
    for page in agreed.loading:
        if page not in own.loaded:
            yield Local(rank, "loaded", page)
    for rid in agreed.fetches:
        yield from reading(scope, node, rank, rid)
    limit = node.known.world.limit
    if scope.stop == "timeout" and own.clock <= limit:
        yield Local(rank, "clock", pages=limit + 1 if own.clock else limit)
    if "insert" in scope.asks and "prefetch" in scope.asks:
        seen = node.known.seen[rank]
        assert seen is not None
        if rank and not own.pinched and seen.host_free:
            yield Local(rank, "pinch", pages=1)
        if not rank and own.attached:
            yield Local(rank, "attach")
    if scope.states and scope.reads > 1 and rank:
        seen = node.known.seen[rank]
        assert seen is not None and seen.states is not None
        if own.pinched_states or seen.states.free:
            yield Local(rank, "pinch", state=int(not own.pinched_states))


def reading(scope: Scope, node: Node, rank: int, rid: int) -> Iterator[Local]:
    """What can happen to a prefetch on one rank alone."""
    own, fetch = node.known.own[rank], node.known.trees[0].fetches[rid]
    if fetch.hit is None and rid not in own.found:
        some = ((), (1,), (2,), (1, 2)) if scope.reads == 1 else ((), (1,))
        for boundaries in some:
            for states in some if fetch.state else ((),):
                yield Local(rank, "found", rid=rid, boundaries=boundaries, states=states)
    if fetch.hit is not None and rid not in own.failed:
        (pages, window), state = own.read.get(rid, (0, 0)), int(rid in own.stated)
        if pages < fetch.hit:
            yield Local(rank, "read", rid=rid, pages=pages + 1, window=window, state=state)
        if window < scope.window:
            yield Local(rank, "read", rid=rid, pages=pages, window=window + 1, state=state)
        if fetch.state and not state:
            yield Local(rank, "read", rid=rid, pages=pages, window=window, state=1)
        yield Local(rank, "failed", rid=rid)


def search(scope: Scope, make: Make = RankedReference, most: int = 200_000) -> Report:
    """Try everything from an empty start on, until nothing is new or a rule is broken."""
    config = Config(pool="ranks", pages=scope.pages, stop=scope.stop)
    adapter = make()
    checker = Checker(adapter, config, Profile())
    sizes = {"host_pages": scope.host_pages, "window": scope.window, "window_pages": scope.window}
    ranks.start(checker, scope.shape, **sizes, state_slots=scope.states)
    first = Node(tuple(adapter.ranks.values()), checker.ranks_state, asked=0)
    paths: dict[str, tuple[str, ...]] = {repr(first): ()}
    frontier, steps = deque([first]), 0
    while frontier:
        node = frontier.popleft()
        path = paths[repr(node)]
        for what, move in moves(scope, node):
            adapter.ranks = dict(enumerate(node.ranks))
            checker.ranks_state = node.known
            checker.history.clear()
            steps += 1
            try:
                move(checker)
            except Violation as violation:
                return Report(len(paths), steps, checker.counted(), tuple(violation.rules), (*path, *checker.history))
            after = Node(tuple(adapter.ranks.values()), checker.ranks_state, node.asked + (what == "prefetch"))
            key = repr(after)
            if key not in paths:
                paths[key] = (*path, *checker.history)
                frontier.append(after)
                if len(paths) > most:
                    raise AssertionError("the scope is too large to be enumerated")
    return Report(len(paths), steps, checker.counted(), (), ())


@functools.cache
def found(name: str) -> Report:
    """The search of a scope on the reference, once per process."""
    return search(SCOPES[name])
