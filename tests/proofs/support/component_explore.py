"""Every state of a small cache of components, and every call in each: rules judged on the reference."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from kvlitmus.conformance.adapters.reference.components import target
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.components import events as component_events
from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.reference.prefix.components import writes as component_writes
from kvlitmus.reference.prefix.components.perform import perform, ticked
from kvlitmus.spec.parts import rules_of
from kvlitmus.spec.prefix.calls import Alloc, Evict, Free, Insert, Lock, Match, Path, Reset, Unlock, path_of
from kvlitmus.spec.prefix.components.calls import (
    Begun,
    Brought,
    ComponentHit,
    JointCall,
    PoolsSeen,
    Telling,
)
from kvlitmus.spec.prefix.components.replay import with_told
from kvlitmus.spec.prefix.components.state import (
    end_name,
)
from kvlitmus.spec.prefix.components.steps import component_steps, step
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import EventMirror, State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Tick, Unit
from tests.proofs.support.component_copy_calls import copy_calls, copy_identity
from tests.proofs.support.component_fetch_calls import fetch_calls, fetch_identity
from tests.proofs.support.component_search import ComponentSearch, Report
from tests.proofs.support.component_write_calls import write_calls

CAPABILITIES = frozenset(target.capabilities)
HOSTED = CAPABILITIES | {"component_host", "component_host_counters", "component_host_view"}
RULES = tuple(rules_of("comp"))
Perform = Callable[[State, Setting, JointCall], tuple[State, object]]


@dataclass(frozen=True)
class Scope:
    """What is enumerated: a layout with so few pages, keys of these tokens, at most so many receipts and prefetches.

    ``host``: so many pages of host memory; then at most ``copies`` backups run at once, and as many loads back.
    ``evicts``: how many entries an eviction from the device is asked for.  ``writes``: with storage that comes and
    goes, and at most so many writes to it.  ``policy``: by which the cache backs up by itself.
    """

    layout: str
    pages: int
    keys: tuple[tuple[int, ...], ...]
    receipts: int = 1
    profile: Profile = field(default_factory=lambda: Profile(component_order="policy"))
    fetches: int = 0
    host: int = 0
    copies: int = 1
    evicts: tuple[int, ...] = (1, 2)
    writes: int = 0
    policy: str = "asked"


def tellings(before: State, then: State, setting: Setting) -> tuple[Telling, ...]:
    """The events of a step, as a judge reads them."""
    found = []
    for one in component_events.changes(before, then, setting):
        prefix = setting.names.of(one.namespace, cast("Sequence[Unit]", one.units))[-1]
        found.append(Telling(one.what, one.tier, (one.component, prefix)))
    return tuple(found)


def with_slip(kind: type, slip: Callable[..., tuple[State, object]]) -> Perform:
    """The reference, but for calls of one kind, which are answered with a slip."""

    def slipped(cache: State, setting: Setting, call: JointCall) -> tuple[State, object]:
        return slip(ticked(cache), setting, call) if type(call) is kind else perform(cache, setting, call)

    return slipped


def heard(cache: State) -> State:
    """What somebody knows who has heard all events: everything that is cached."""
    device, host = ({name: dict.fromkeys(one.pages, 1) for name, one in cache.on(tier)} for tier in (DEVICE, HOST))
    return with_told(cache, {name: EventMirror(some, host[name]) for name, some in device.items()})


def free_of(cache: State, setting: Setting, tier: str) -> dict[str, tuple[int, ...]]:
    """The free places of a tier, as a look shows them."""
    return {pool: tuple(some) for pool, some in model.free_places(cache, setting, tier).items()}


def ranked(cache: State) -> State:
    """The same cache, with ranks for the ticks of uses: two that act alike are equal."""
    pages = {tier: model.cached(cache, tier) for tier in (DEVICE, HOST)}
    ticks = sorted({page.touched for some in pages.values() for page in some.values()})
    ranks = {tick: Tick(at) for at, tick in enumerate(ticks)}
    for tier, some in pages.items():
        used = {at: page._replace(touched=ranks[page.touched]) for at, page in some.items()}
        cache = model.noted(cache, tier, used)
    return cache._replace(device=cache.device._replace(clock=Tick(len(ranks))), longest=0)


class Explorer(ComponentSearch[State, JointCall]):
    """Goes through all states of the reference's cache."""

    rules = RULES

    def __init__(self, scope: Scope, perform: Perform = perform) -> None:
        self.scope = scope
        self.perform = perform if scope.policy == "asked" else self.perform_by_policy
        self.begun: tuple[Begun, ...] = ()
        storage = "later" if scope.writes else "none"
        config = Config(
            page_size=1,
            pages=scope.pages,
            components=scope.layout,
            host_pages=scope.host,
            write=scope.policy,
            storage=storage,
        )
        self.capabilities = HOSTED if scope.host else CAPABILITIES
        if scope.writes:
            self.capabilities |= {"component_storage"}
        if scope.policy != "asked":
            self.capabilities |= {"component_writes"}
        self.setting = Setting(config, scope.profile, 3, self.capabilities)
        self.paths = [path_of(self.setting.names, Key(None, key), 1) for key in scope.keys]
        if scope.profile.component_cascade == "none":  # nothing goes with what it stands on: there are many states
            self.every = 5

    def empty(self) -> State:
        """See :class:`ComponentSearch`."""
        return model.empty(self.setting)

    def perform_by_policy(self, cache: State, setting: Setting, call: JointCall) -> tuple[State, object]:
        """Perform a call, and note what it has begun by itself; its copies are counted from beyond all others."""
        then, answer, begun = component_writes.perform(cache, setting, call, itertools.count(100))
        self.begun = tuple(begun)
        return then, answer

    def step(self, cache: State, call: JointCall, report: Report) -> tuple[State, tuple[str, ...]]:
        """Perform and judge a call; a caller that brings entries allocates them first and gives back what is left."""
        if isinstance(call, Insert):
            return self.brought(cache, call, report)
        state = self.known(cache)
        then, answer = self.perform(cache, self.setting, call)
        broken = self.judged(cache, state, call, then, answer, report)
        if broken or not isinstance(call, Alloc) or not isinstance(answer, dict):
            return then, broken
        state, back = self.after(cache, state, call, then, answer), Free(answer)
        last, _ = self.perform(then, self.setting, back)
        return last, self.judged(then, state, back, last, None, report)

    def brought(self, cache: State, call: Insert[Brought], report: Report) -> tuple[State, tuple[str, ...]]:
        """An insert, with the allocation before it and the return of what is left."""
        wants = Counter(name for name, _ in call.slots)
        asked = Alloc(dict(wants))
        state = self.known(cache)
        then, granted = self.perform(cache, self.setting, asked)
        broken = self.judged(cache, state, asked, then, granted, report)
        if broken or not isinstance(granted, dict):
            return then, broken
        state = self.after(cache, state, asked, then, granted)
        places = {name: iter(some) for name, some in granted.items()}
        made = call._replace(slots={at: next(places[at[0]]) for at in call.slots})
        last, left = self.perform(then, self.setting, made)
        broken = self.judged(then, state, made, last, left, report)
        assert isinstance(left, Mapping)
        return last._replace(owned=frozenset()), broken

    def judged(
        self,
        before: State,
        state: State,
        call: JointCall,
        then: State,
        answer: object,
        report: Report,
    ) -> tuple[str, ...]:
        """The rules that a step breaks, with those that it has begun by itself."""
        self.look(state, self.shown(before)._replace(host_available=state.free.get(HOST)), report)
        for one in component_steps(state, self.setting, call, answer, self.seen(before, then)):
            broken = self.broken_by(one, report)
            if broken:
                return broken
        return ()

    def after(self, before: State, state: State, call: JointCall, then: State, answer: object) -> State:
        """What is known after a call."""
        return step(state, self.setting, call, answer, self.seen(before, then)).then

    def seen(self, before: State, then: State) -> PoolsSeen:
        """What is seen and told after a call."""
        host = {pool: len(free) for pool, free in free_of(then, self.setting, HOST).items()}
        told = tellings(before, then, self.setting)
        return self.shown(then)._replace(host_available=host, events=told, begun=self.begun)

    def known(self, cache: State) -> State:
        """What somebody knows who has seen this cache: everything."""
        free = {tier: free_of(cache, self.setting, tier) for tier in (DEVICE, HOST)}
        counts = {tier: {pool: len(places) for pool, places in some.items()} for tier, some in free.items()}
        return heard(cache._replace(free=counts))

    def shown(self, cache: State) -> PoolsSeen:
        """What a cache shows of itself."""
        free = free_of(cache, self.setting, DEVICE)
        return PoolsSeen(
            {pool: len(places) for pool, places in free.items()},
            free,
            cache.places(DEVICE),
            host_free=free_of(cache, self.setting, HOST),
            host_held=cache.places(HOST),
        )

    def calls(self, cache: State) -> Iterator[JointCall]:
        """Every call that a lawful caller may make."""
        layout = self.setting.layout
        if not cache.fetches:
            yield Reset()
        yield from copy_calls(cache, self.setting, self.paths, self.scope.copies)
        yield from write_calls(cache, self.setting, self.paths, self.scope.writes)
        yield from fetch_calls(cache, self.setting, self.paths, self.scope.fetches)
        for one in layout.components:
            for many in self.scope.evicts:
                yield Evict({one.name: many})
        for many in (1, 2):
            yield Alloc({one.name: many for one in layout.components})
        for path in self.paths:
            yield Match(path)
            hit = model.match(cache, self.setting, Match(path))[1]
            if len(cache.covers) < self.scope.receipts:
                yield Lock(end_name(path, hit.length), len(cache.covers))
            yield from self.inserts(path, hit)
        for receipt in cache.covers:
            yield Unlock(receipt)

    def inserts(self, path: Path, hit: ComponentHit) -> Iterator[Insert[Brought]]:
        """What an engine may bring: all KV behind the hit, and of each other component all, the end, or none."""
        layout = self.setting.layout
        ends = range(hit.length + 1, len(path.names) + 1)
        kv: dict[At, int] = {(layout.base.name, end_name(path, end)): 0 for end in ends}
        choices = [kv]
        for one in layout.components[1:]:
            mine = [(one.name, end_name(path, end)) for end in ends if end % one.unit == 0]
            choices = [{**old, **dict.fromkeys(more, 0)} for old in choices for more in ([], mine[-1:], mine)]
        for brought in choices:
            if brought:
                yield Insert(path, brought)

    def plain(self, cache: State) -> State:
        """The same cache, with ranks for ticks and receipts counted from nought: two that act alike are equal."""
        return ranked(cache)._replace(
            covers=dict(enumerate(cache.covers.values())),
            fetches=dict(enumerate(cache.fetches.values())),
            under_way=dict(enumerate(cache.under_way.values())),
        )

    def identity(self, cache: State) -> object:
        """What two caches have in common that act alike; which places they use is of no matter."""
        tiers = [
            (
                frozenset((at, page.touched) for at, page in model.cached(cache, tier).items()),
                tuple(map(len, free_of(cache, self.setting, tier).values())),
            )
            for tier in (DEVICE, HOST)
        ]
        return (
            *tiers,
            tuple(sorted(tuple(sorted(one)) for one in cache.covers.values())),
            tuple(sorted(map(fetch_identity, cache.fetches.values()))),
            tuple(sorted(map(copy_identity, cache.under_way.values()))),
            cache.attached,
        )


QUICK = {
    "windows": Scope("kv+swa", 2, ((1, 1), (1, 2))),
    "states": Scope("kv+state", 2, ((1, 1), (1, 2))),
    "overlaps": Scope("kv+swa", 4, ((1, 1),)),
    "chunks": Scope("kv+chunk", 3, ((1, 1, 1),)),
    "groups": Scope("groups", 3, ((1, 1),)),
    "fetched windows": Scope("kv+swa", 3, ((1, 1),), receipts=0, fetches=1),
    "copied windows": Scope("kv+swa", 2, ((1, 1),), receipts=0, host=1, evicts=(1,)),
    "copied states": Scope("kv+state", 2, ((1, 1),), receipts=0, host=1, evicts=(1,)),
    "written states": Scope("kv+state", 2, ((1, 1),), receipts=0, host=1, evicts=(1,), writes=1),
    "detached states": Scope("kv+state", 2, ((1, 1),), receipts=0, fetches=1, host=1, copies=0, evicts=(1,), writes=1),
    "inserted states": Scope("kv+state", 2, ((1, 1),), receipts=0, host=1, evicts=(1,), policy="write_through"),
    "saved states": Scope("kv+state", 2, ((1, 1),), receipts=0, host=2, copies=0, evicts=(1,), policy="write_back"),
    "saved windows": Scope("kv+swa", 2, ((1, 1),), receipts=0, host=1, copies=0, evicts=(1, 2), policy="write_back"),
    "fetched index keys": Scope("kv+index", 2, ((1, 1),), receipts=0, fetches=1),
}
"""What every run enumerates."""

NIGHTLY = {
    "fetched states": Scope("kv+state", 3, ((1, 1), (1, 2)), receipts=0, fetches=1),
    "fetched windows, two paths": Scope("kv+swa", 3, ((1, 1), (1, 2)), receipts=0, fetches=1),
}


@functools.cache
def quick(name: str) -> Report:
    """The report of one of these, made once."""
    explorer = Explorer(QUICK[name])
    explorer.every = 5
    return explorer.run()
