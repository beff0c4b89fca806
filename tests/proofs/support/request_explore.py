"""Every state of a small cache that serves requests on components, and every call in each, judged on the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.components import requests as model
from kvlitmus.spec.parts import rules_of
from kvlitmus.spec.prefix.calls import Begin, End, Grow, Match, Path, Reset, path_of
from kvlitmus.spec.prefix.components.calls import (
    ComponentHit,
    JointCall,
    PoolsSeen,
)
from kvlitmus.spec.prefix.components.replay import with_told
from kvlitmus.spec.prefix.components.state import serving
from kvlitmus.spec.prefix.components.steps import step
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.state import empty_state
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of
from kvlitmus.spec.words.units import Key, Tokens
from tests.proofs.support.component_explore import tellings, tiers_of, told_by
from tests.proofs.support.component_search import ComponentSearch, Report

CAPABILITIES = frozenset({"component_lookup", "component_requests", "component_events", "component_view"})
RULES = (*rules_of("comp"), *rules_of("creq"))
Perform = Callable[[model.Server, Setting, JointCall], tuple[model.Server, object]]


@dataclass(frozen=True)
class Scope:
    """What is enumerated: a layout with so few pages, keys of these tokens, at most so many requests at once."""

    layout: str
    pages: int
    keys: tuple[tuple[int, ...], ...]
    requests: int = 2


class Explorer(ComponentSearch[model.Server, JointCall]):
    """Goes through all states of the reference's server."""

    rules, capabilities = RULES, CAPABILITIES

    def __init__(self, scope: Scope, perform: Perform = model.perform) -> None:
        self.scope, self.perform = scope, perform
        config = Config(page_size=1, pages=scope.pages, components=scope.layout)
        self.setting = Setting(config, Profile(match_cap="len-1", component_order="policy"), 3, CAPABILITIES)
        self.paths = [path_of(self.setting.names, Key(None, key), 1) for key in scope.keys]
        self.unit = step_of(self.setting.layout.components)

    def run(self, most: int = 50_000) -> Report:
        """See :class:`ComponentSearch`."""
        return super().run(most)

    def empty(self) -> model.Server:
        """See :class:`ComponentSearch`."""
        return model.empty(self.setting)

    def step(self, server: model.Server, call: JointCall, report: Report) -> tuple[model.Server, tuple[str, ...]]:
        """See :class:`ComponentSearch`."""
        then, answer = self.perform(server, self.setting, call)
        running = {number: serving(one.path, one.units, one.held) for number, one in server.requests.items()}
        cached = tiers_of(server.cache.held, self.setting)
        state = with_told(empty_state()._replace(requests=running).put(DEVICE, cached), told_by(cached, {}))
        after = self.shown(then)._replace(events=tellings(server.cache, then.cache, self.setting))
        self.look(state, self.shown(server), report)
        return then, self.broken_by(step(state, self.setting, call, answer, after), report)

    def shown(self, server: model.Server) -> PoolsSeen:
        """What a cache shows of itself."""
        held = {at: entry.place for at, entry in server.cache.held.items()}
        return PoolsSeen(None, {pool: tuple(sorted(places)) for pool, places in server.cache.free.items()}, held)

    def calls(self, server: model.Server) -> Iterator[JointCall]:
        """Every call that a lawful caller may make."""
        yield Reset()
        number = max(server.requests, default=-1) + 1
        for path in self.paths:
            yield Match(path)
            hit = model.match(server, self.setting, Match(path))[1]
            if len(server.requests) < self.scope.requests:
                for chunk in self.chunks(path, hit):
                    yield Begin(number, path, chunk=chunk)
        for number, one in server.requests.items():
            yield End(number, keep=True)
            if one.units < len(one.path.names):
                for chunk in self.chunks(one.path, ComponentHit(one.units, {})):
                    yield Grow(number, Tokens(chunk))

    def chunks(self, path: Path, hit: ComponentHit) -> set[int]:
        """One boundary more, or all of them; what lies behind the last one by itself."""
        left = len(path.names) - hit.length
        whole = left - left % self.unit
        return {self.unit, whole} if whole else {left}

    def plain(self, server: model.Server) -> model.Server:
        """The same cache, with ranks for ticks and requests counted from nought: two that act alike are equal."""
        held = server.cache.held
        ranks = {tick: at for at, tick in enumerate(sorted({entry.touched for entry in held.values()}))}
        order = sorted(server.requests, key=lambda number: self.like(server.requests[number]))
        return model.Server(
            server.cache._replace(
                held={at: entry._replace(touched=ranks[entry.touched]) for at, entry in held.items()},
                receipts={new: server.cache.receipts[old] for new, old in enumerate(order)},
                ticks=len(ranks),
            ),
            {new: server.requests[old] for new, old in enumerate(order)},
        )

    def like(self, request: model.Request) -> tuple[object, ...]:
        """What two requests have in common that act alike."""
        ends = tuple((name, tuple(sorted(some))) for name, some in sorted(request.held.items()))
        return request.path.names, request.units, ends, tuple(sorted(request.own))

    def identity(self, server: model.Server) -> object:
        """What two caches have in common that act alike; which places they use is of no matter."""
        cache = server.cache
        return (
            frozenset((at, entry.touched) for at, entry in cache.held.items()),
            tuple((self.like(one), cache.receipts[number]) for number, one in server.requests.items()),
            tuple(map(len, cache.free.values())),
        )


QUICK = {
    "windows": Scope("blocks+swa", 6, ((1, 1, 1), (1, 2))),
    "states": Scope("blocks+state", 5, ((1, 1, 1),)),
    "chunks": Scope("blocks+chunk", 6, ((1, 1, 1),)),
    "groups": Scope("groups", 10, ((1, 1, 1, 1, 1),)),
}
"""What every run enumerates."""


@functools.cache
def quick(name: str) -> Report:
    """The report of one of these, made once."""
    explorer = Explorer(QUICK[name])
    explorer.every = 5
    return explorer.run()
