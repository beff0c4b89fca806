"""Every state of a small cache that serves requests on components, and every call in each, judged on the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.reference.prefix.components.perform import perform
from kvlitmus.reference.prefix.components.requests import own
from kvlitmus.spec.parts import rules_of
from kvlitmus.spec.prefix.calls import Begin, End, Grow, Match, Path, Reset, path_of
from kvlitmus.spec.prefix.components.calls import (
    ComponentHit,
    JointCall,
    PoolsSeen,
)
from kvlitmus.spec.prefix.components.steps import step
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of
from kvlitmus.spec.words.units import Key, Tokens
from tests.proofs.support.component_explore import free_of, heard, ranked, tellings
from tests.proofs.support.component_search import ComponentSearch, Report

CAPABILITIES = frozenset({"component_lookup", "component_requests", "component_events", "component_view"})
RULES = (*rules_of("comp"), *rules_of("creq"))
Perform = Callable[[State, Setting, JointCall], tuple[State, object]]


@dataclass(frozen=True)
class Scope:
    """What is enumerated: a layout with so few pages, keys of these tokens, at most so many requests at once."""

    layout: str
    pages: int
    keys: tuple[tuple[int, ...], ...]
    requests: int = 2


class Explorer(ComponentSearch[State, JointCall]):
    """Goes through all states of the reference's cache."""

    rules, capabilities = RULES, CAPABILITIES

    def __init__(self, scope: Scope, perform: Perform = perform) -> None:
        self.scope, self.perform = scope, perform
        config = Config(page_size=1, pages=scope.pages, components=scope.layout)
        self.setting = Setting(config, Profile(match_cap="len-1", component_order="policy"), 3, CAPABILITIES)
        self.paths = [path_of(self.setting.names, Key(None, key), 1) for key in scope.keys]
        self.unit = step_of(self.setting.layout.components)

    def run(self, most: int = 50_000) -> Report:
        """See :class:`ComponentSearch`."""
        return super().run(most)

    def empty(self) -> State:
        """See :class:`ComponentSearch`."""
        return model.empty(self.setting)

    def step(self, cache: State, call: JointCall, report: Report) -> tuple[State, tuple[str, ...]]:
        """See :class:`ComponentSearch`."""
        then, answer = self.perform(cache, self.setting, call)
        # What a request holds is protected by it: nobody who looks on is told of receipts.
        state = heard(cache._replace(covers={}))
        after = self.shown(then)._replace(events=tellings(cache, then, self.setting))
        self.look(state, self.shown(cache), report)
        return then, self.broken_by(step(state, self.setting, call, answer, after), report)

    def shown(self, cache: State) -> PoolsSeen:
        """What a cache shows of itself."""
        return PoolsSeen(None, free_of(cache, self.setting, DEVICE), cache.places(DEVICE))

    def calls(self, cache: State) -> Iterator[JointCall]:
        """Every call that a lawful caller may make."""
        yield Reset()
        number = max(cache.requests, default=-1) + 1
        for path in self.paths:
            yield Match(path)
            hit = model.match(cache, self.setting, Match(path))[1]
            if len(cache.requests) < self.scope.requests:
                for chunk in self.chunks(path, hit):
                    yield Begin(number, path, chunk=chunk)
        for number, one in cache.requests.items():
            yield End(number, keep=True)
            if one.computed < len(one.path.names):
                for chunk in self.chunks(one.path, ComponentHit(one.computed, {})):
                    yield Grow(number, Tokens(chunk))

    def chunks(self, path: Path, hit: ComponentHit) -> set[int]:
        """One boundary more, or all of them; what lies behind the last one by itself."""
        left = len(path.names) - hit.length
        whole = left - left % self.unit
        return {self.unit, whole} if whole else {left}

    def plain(self, cache: State) -> State:
        """The same cache, with ranks for ticks and requests counted from nought: two that act alike are equal."""
        order = sorted(cache.requests, key=lambda number: self.like(cache, cache.requests[number]))
        return ranked(cache)._replace(
            covers={new: cache.covers[old] for new, old in enumerate(order)},
            requests={new: cache.requests[old] for new, old in enumerate(order)},
        )

    def like(self, cache: State, request: RequestState) -> tuple[object, ...]:
        """What two requests have in common that act alike."""
        ends = tuple((name, tuple(sorted(some))) for name, some in sorted(request.held.items()))
        return request.path.names, request.computed, ends, tuple(sorted(own(cache, request)))

    def identity(self, cache: State) -> object:
        """What two caches have in common that act alike; which places they use is of no matter."""
        return (
            frozenset((at, page.touched) for at, page in model.cached(cache).items()),
            tuple((self.like(cache, one), cache.covers[number]) for number, one in cache.requests.items()),
            tuple(map(len, model.free_places(cache, self.setting).values())),
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
