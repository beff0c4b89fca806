"""Mutants of requests on components, and legal variations of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import REQUEST_CONFIGS
from kvlitmus.conformance.specimen.components.requests import ComponentRequestTable, RequestState, Rows
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.legal.components.tree import NodeTree
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.shapes import Component, Point, Window
from kvlitmus.spec.words.units import Key

_SGLANG = "https://github.com/sgl-project/sglang/"
_VLLM = "https://github.com/vllm-project/vllm/"
CAPPED = replace(PROFILE, match_cap="len-1")

GROUPS = (Config(page_size=4, pages=24, components="groups"),)
WINDOWED = (Config(page_size=4, pages=24, components="blocks+swa"),)
STATED = (Config(page_size=4, pages=24, components="blocks+state"),)


@mutant(
    "request-touches-before-it-asks",
    bugs=("V03",),
    links=(f"{_VLLM}issues/11562", f"{_VLLM}pull/11565"),
    kills=("CREQ-03",),
    profile=CAPPED,
    configs=WINDOWED,
)
class TouchesBeforeItAsks(ComponentRequestTable):
    """What a request hits is protected before room is looked for, and stays so when there is none.

    Nobody can evict it any more, so less and less room is left, until nothing is.
    """

    asking = False

    def start(self, key: Key, chunk: int) -> tuple[RequestState, int] | None:
        self.asking = True
        begun = super().start(key, chunk)
        self.asking = False
        return begun

    def finish(self, request: RequestState) -> None:
        if not self.asking:
            super().finish(request)


@mutant("request-hits-are-held-late", kills=("POOL-04", "TREE-03", "LOCK-01"), profile=CAPPED, configs=GROUPS)
class HitsAreHeldLate(ComponentRequestTable):
    """A request's hit is protected only after room was made for the rest: it may be evicted for the request itself."""

    asking = False

    def start(self, key: Key, chunk: int) -> tuple[RequestState, int] | None:
        self.asking, self.hits = True, list[tuple[str, ComponentNode]]()
        return super().start(key, chunk)

    def hold(self, request: RequestState, name: str, node: ComponentNode) -> None:
        super().hold(request, name, node)
        if self.asking:
            self.hits.append((name, node))

    def room(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        late = self.hits if self.asking else []
        self.asking = False
        for name, node in late:
            node.locks[name] -= 1
        granted = super().room(wants)
        for name, node in late:
            node.locks[name] += 1
        return granted


@mutant("request-cached-is-no-room", kills=("CREQ-03",), profile=CAPPED, configs=GROUPS)
class CachedIsNoRoom(ComponentRequestTable):
    """Only what is free counts as room: as soon as everything is cached, every request is refused for good."""

    def room(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        return self.pools.alloc(wants)


@mutant("request-makes-room-to-spare", kills=("COMP-16",), profile=CAPPED, configs=REQUEST_CONFIGS)
class MakesRoomToSpare(ComponentRequestTable):
    """Where a request has to evict, it goes on until there is a place more than it asked for."""

    def room(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        evicts = not self.pools.enough(wants)
        granted = super().room(wants)
        if evicts and granted is not None:
            for one in self.components:
                if not any(self.pools.free.values()):
                    self.tree.evict({one.name: 1})
        return granted


@mutant("request-makes-room-that-there-is", kills=("COMP-16",), profile=CAPPED, configs=REQUEST_CONFIGS)
class MakesRoomThatThereIs(ComponentRequestTable):
    """A request evicts as much as it asks for, whatever is free."""

    def room(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        granted = super().room(wants)
        if granted is not None:
            self.tree.evict(wants)
        return granted


@mutant("request-keeps-its-window", kills=("CREQ-01",), profile=CAPPED, configs=WINDOWED)
class KeepsItsWindow(ComponentRequestTable):
    """What a window has left behind is held until the request ends: long requests need as much of it as of the KV."""

    def working(self, component: Component, before: int, after: int) -> list[int]:
        found = super().working(component, before, after)
        if isinstance(component.shape, Window) and found and before:
            found = [*range(component.unit, found[0], component.unit), *found]
        return found


@mutant("request-window-is-cut-short", bugs=("H-18",), kills=("CREQ-01",), profile=CAPPED, configs=WINDOWED)
class WindowIsCutShort(ComponentRequestTable):
    """The window of a chunk is counted from its end: what its first tokens read is given back."""

    def working(self, component: Component, before: int, after: int) -> list[int]:
        if isinstance(component.shape, Window):
            return super().working(component, max(before, after - component.unit), after)
        return super().working(component, before, after)


@mutant("request-state-is-gone-on-from-in-place", kills=("CREQ-01",), profile=CAPPED, configs=STATED)
class StateIsGoneOnFromInPlace(ComponentRequestTable):
    """The state that a chunk goes on from is given back before the chunk has read it."""

    def working(self, component: Component, before: int, after: int) -> list[int]:
        found = super().working(component, before, after)
        return found[-1:] if isinstance(component.shape, Point) else found


@mutant("request-writes-into-its-cached-state", kills=("POOL-04", "POOL-12", "COMP-15"), profile=CAPPED, configs=STATED)
class WritesIntoItsCachedState(ComponentRequestTable):
    """A request goes on from a cached state in its own place: whoever hits that prefix next finds a later state."""

    asking: RequestState

    def grow(self, request: RequestState, chunk: int) -> bool:
        self.asking = request
        return super().grow(request, chunk)

    def room(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        granted = super().room(wants)
        source = self.asking.rows["state"].get(self.asking.units)
        if granted is None or source is None or "state" not in granted:
            return granted
        self.pools.give("state", granted["state"])
        return {**granted, "state": [source]}


@mutant(
    "request-caches-again-what-it-left",
    bugs=("S79",),
    links=(f"{_SGLANG}pull/31486",),
    kills=("COMP-15", "POOL-12"),
    profile=CAPPED,
    configs=WINDOWED,
)
class CachesAgainWhatItLeft(ComponentRequestTable):
    """A request that ends caches its whole row, also what its window left behind and others have got since."""

    def __init__(self, tree: ComponentTree, pools: ComponentPools) -> None:
        super().__init__(tree, pools)
        self.behind: dict[RequestState, Rows] = {}

    def let_go(self, request: RequestState, name: str, end: int) -> None:
        if name != self.components[0].name:
            self.behind.setdefault(request, {}).setdefault(name, {})[end] = request.rows[name][end]
        super().let_go(request, name, end)

    def finish(self, request: RequestState) -> None:
        self.tree.insert(request.key, self.behind.pop(request, {}))
        super().finish(request)
        self.behind.pop(request, None)


@mutant("request-moves-its-tail", kills=("CREQ-05",), profile=CAPPED, configs=GROUPS)
class MovesItsTail(ComponentRequestTable):
    """What isn't cached of a request gets other places when it goes on, and what was computed stays behind."""

    def grow(self, request: RequestState, chunk: int) -> bool:
        for name, end in [*request.own]:
            other = self.pools.alloc({name: 1})
            if other is not None:
                self.pools.give(name, [request.rows[name][end]])
                request.rows[name][end] = other[name][0]
        return super().grow(request, chunk)


@mutant(
    "request-counts-padding-as-cached",
    bugs=("V08",),
    links=(f"{_VLLM}pull/42547",),
    kills=("CREQ-06", "TREE-02"),
    profile=CAPPED,
    configs=STATED,
)
class CountsPaddingAsCached(ComponentRequestTable):
    """What was skipped in front of a state counts as cached already, so the state behind it never is."""

    def whole(self, request: RequestState) -> dict[str, dict[int, int]]:
        found = super().whole(request)
        return {name: {} if name == "state" and min(row, default=0) > 4 else row for name, row in found.items()}


@mutant("request-caches-its-state-too-early", kills=("COMP-15", "CREQ-06"), profile=CAPPED, configs=STATED)
class CachesItsStateTooEarly(ComponentRequestTable):
    """The state behind a chunk is cached for the prefix that is a page shorter."""

    def whole(self, request: RequestState) -> dict[str, dict[int, int]]:
        found = super().whole(request)
        return found | {"state": {end - 4: place for end, place in found["state"].items() if end > 4}}


@mutant("request-ends-and-frees-the-shared", kills=("POOL-12", "COMP-16"), profile=CAPPED, configs=GROUPS)
class EndsAndFreesTheShared(ComponentRequestTable):
    """A request that ends frees its states though they are cached: they are handed out while others find them."""

    def finish(self, request: RequestState) -> None:
        for (name, _), node in request.locked.items():
            if name == "state" and node.locks[name] == 1 and name in node.places:
                self.pools.give(name, [node.places[name]])
        super().finish(request)


@null_mutant("requests-share-every-layout", profile=CAPPED, configs=REQUEST_CONFIGS)
class ShareEveryLayout(ComponentRequestTable):
    """A page that was computed twice stays its request's own until that ends."""


@null_mutant("requests-evict-one-by-one", profile=replace(CAPPED, component_cascade="none"), configs=REQUEST_CONFIGS)
class EvictOneByOne(ComponentRequestTable):
    """Nothing goes with what is evicted for a request, as in caches of block groups; the profile says so."""


@null_mutant(
    "requests-evict-by-node",
    beside=(NodeTree,),
    profile=replace(CAPPED, evict_granularity="node", component_cascade="leaf"),
    configs=REQUEST_CONFIGS,
)
class EvictByNode(ComponentRequestTable):
    """What was cached in a row goes in a row, as the profile declares."""
