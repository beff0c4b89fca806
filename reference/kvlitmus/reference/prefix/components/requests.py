"""Requests on components: one correct cache that serves them, over :mod:`~kvlitmus.reference.prefix.components.tree`.

A request keeps what it holds in two parts: what is cached, which a receipt of its own covers, and what is its own.
Where there is no room, what is worth least is evicted, one entry at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from kvlitmus.reference.prefix.components import tree as components
from kvlitmus.reference.prefix.components.tree import Cache
from kvlitmus.spec.prefix.calls import Alloc, Begin, End, Evict, Grow, Insert, Match, Path, Reset
from kvlitmus.spec.prefix.components.calls import ComponentHit, Holding, JointCall
from kvlitmus.spec.prefix.components.state import end_name, needed_at
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Need, fits, working

Held = Mapping[str, Mapping[int, int]]
"""Of each component places, by where they end."""


class Request(NamedTuple):
    """A running request: its key, how many units of it are computed, and its places; ``own``: not cached."""

    path: Path
    units: int
    held: Held
    own: frozenset[tuple[str, int]]


class Server(NamedTuple):
    """A cache and its requests, by number."""

    cache: Cache
    requests: Mapping[int, Request]


def empty(setting: Setting) -> Server:
    """Nothing is cached, and nothing runs."""
    return Server(components.empty(setting), {})


def room(cache: Cache, setting: Setting, wants: Mapping[str, int]) -> tuple[Cache, Held | None]:
    """So many places of each component, for which others are evicted; ``None``: there is no room."""
    loose: dict[str, int] = {pool: len(free) for pool, free in cache.free.items()}
    for name, at in cache.held:
        loose[setting.layout.named(name).pool] += (name, at) not in cache.covered
    if not fits([Need(setting.layout.named(name), many) for name, many in wants.items()], loose):
        return cache, None
    while True:
        after, granted = components.alloc(cache, setting, Alloc(wants))
        if granted is not None:
            return after, {name: dict(enumerate(some)) for name, some in granted.items()}
        cache = evict_one(cache, setting, wants)


def evict_one(cache: Cache, setting: Setting, wants: Mapping[str, int]) -> Cache:
    """Evict the entry that is worth least, of a pool that is short."""
    asked = dict.fromkeys(cache.free, 0)
    for name, many in wants.items():
        asked[setting.layout.named(name).pool] += many
    short = {pool for pool, many in asked.items() if many > len(cache.free[pool])}
    names = [one.name for one in setting.layout.components if one.pool in short]
    choices = [at for name in names for at in components.evictable(cache, setting, name)]
    victim = components.next_to_go(cache, setting, choices)
    # The victim is the first of its component, too.
    return components.evict(cache, setting, Evict({victim[0]: 1}))[0]


def start(server: Server, setting: Setting, call: Begin) -> tuple[Server, Holding | None]:
    """Find the hit, protect it, get places for the chunk, and cache what is whole."""
    cache, hit = components.match(server.cache, setting, Match(call.path))
    held = {
        one.name: {cache.held[at].end: cache.held[at].place for at in needed_at(call.path, one, hit.length, "shorter")}
        for one in setting.layout.components
    }
    request = Request(call.path, hit.length, held, frozenset())
    then, granted = go_on(server._replace(cache=cache), setting, call.rid, request, call.at_once(hit.length))
    if not granted:
        return server, None
    return then, Holding(hit.length, then.requests[call.rid].held)


def grow(server: Server, setting: Setting, call: Grow) -> tuple[Server, Holding]:
    """Give back what is not needed any more, get places for the chunk, and cache what is whole."""
    request = server.requests[call.rid]
    then, granted = go_on(server, setting, call.rid, request, min(request.units + call.tokens, len(request.path.names)))
    return then, Holding(0, then.requests[call.rid].held, granted)


def go_on(server: Server, setting: Setting, receipt: int, request: Request, after: int) -> tuple[Server, bool]:
    """A request of which so much is computed, or, where there is no room, without what it needs no more."""
    need = {one.name: working(one, request.units, after) for one in setting.layout.components}
    request, cache = without(request, server.cache, setting, need)
    cache = cover(cache, setting, receipt, request)
    missing = {name: [end for end in ends if end not in request.held[name]] for name, ends in need.items()}
    cache, granted = room(cache, setting, {name: len(ends) for name, ends in missing.items() if ends})
    if granted is not None:
        new = {name: dict(zip(missing[name], some.values(), strict=True)) for name, some in granted.items()}
        held = {name: {**some, **new.get(name, {})} for name, some in request.held.items()}
        own = request.own | {(name, end) for name, some in new.items() for end in some}
        request, cache = publish(request._replace(units=after, held=held, own=own), cache, setting)
    cache = cover(cache, setting, receipt, request)
    return Server(cache, {**server.requests, receipt: request}), granted is not None


def without(
    request: Request, cache: Cache, setting: Setting, need: Mapping[str, tuple[int, ...]]
) -> tuple[Request, Cache]:
    """A request without what it needs no more: what is its own alone is free again."""
    gone = {(name, end) for name, some in request.held.items() for end in some if end not in need[name]}
    cache = components.give(cache, setting, [(name, request.held[name][end]) for name, end in gone & request.own])
    held = {
        name: {end: at for end, at in some.items() if (name, end) not in gone} for name, some in request.held.items()
    }
    return request._replace(held=held, own=request.own - gone), cache


def publish(request: Request, cache: Cache, setting: Setting) -> tuple[Request, Cache]:
    """Cache what is whole and a request's own; what is cached already stays its own."""
    whole = sorted(one for one in request.own if one[1] <= request.units)
    brought = {(name, end_name(request.path, end)): request.held[name][end] for name, end in whole}
    cache, left = components.insert(cache, setting, Insert(request.path, brought))
    kept = {(name, end) for name, end in whole if request.held[name][end] in left.get(name, ())}
    return request._replace(own=frozenset(one for one in request.own if one not in whole or one in kept)), cache


def cover(cache: Cache, setting: Setting, receipt: int, request: Request) -> Cache:
    """A receipt covers what a request holds that is cached, and the cached KV of all that it has computed."""
    covered = frozenset[At](
        (name, end_name(request.path, end))
        for name, some in request.held.items()
        for end in some
        if end <= request.units and ((name, end) not in request.own or name == setting.layout.base.name)
    )
    return cache._replace(receipts={**cache.receipts, receipt: covered})


def finish(server: Server, setting: Setting, call: End) -> tuple[Server, None]:
    """What is cached stays, unprotected; what was the request's own is free."""
    request = server.requests[call.rid]
    cache = components.give(server.cache, setting, [(name, request.held[name][end]) for name, end in request.own])
    receipts = {number: at for number, at in cache.receipts.items() if number != call.rid}
    requests = {number: one for number, one in server.requests.items() if number != call.rid}
    return Server(cache._replace(receipts=receipts), requests), None


def match(server: Server, setting: Setting, call: Match) -> tuple[Server, ComponentHit]:
    """As of a cache without requests."""
    cache, hit = components.match(server.cache, setting, call)
    return server._replace(cache=cache), hit


def reset(server: Server, setting: Setting, call: Reset) -> tuple[Server, None]:  # noqa: ARG001
    """Everything is forgotten."""
    return empty(setting), None


Perform = Callable[[Server, Setting, object], tuple[Server, object]]

PERFORM = cast(
    "Mapping[type, Perform]",
    {
        Begin: start,
        Grow: grow,
        End: finish,
        Match: match,
        Reset: reset,
    },
)
"""Of each call how it is performed."""


def perform(server: Server, setting: Setting, call: JointCall) -> tuple[Server, object]:
    """The cache after a call, and the answer."""
    cache = server.cache._replace(ticks=server.cache.ticks + 1)
    return PERFORM[type(call)](server._replace(cache=cache), setting, call)
