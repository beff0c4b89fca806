"""The calls on a flat cache of any size, each as a case: on what it is called, and what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.state import RequestState, Retracted, State
from kvlitmus.spec.words.units import Slot, Tokens
from tests.proofs.prefix.any_size import RECEIPT, RID, Cache, Case, Situation
from tests.proofs.support.unknown import is_in, whole

PAGES = tuple("abc")
FORKED = 1


def alloc(pages: int) -> Callable[[Cache], Situation]:
    """Any free pages are handed out."""

    def make(cache: Cache) -> Situation:
        asked = calls.Alloc(Tokens(pages * cache.setting.size))
        return Situation(cache.state, asked, {"pages": cache.run.elements(*PAGES[:pages])})

    return make


def evicting_alloc(pages: int, victims: int) -> Callable[[Cache], Situation]:
    """Some may have been evicted for it."""

    def make(cache: Cache) -> Situation:
        now = alloc(pages)(cache)
        return now._replace(choice={**now.choice, "victims": chosen(cache, victims)})

    return make


def chosen(cache: Cache, victims: int) -> tuple[Any, ...]:
    """Any names, all different."""
    names = cache.run.elements(*[f"victim{at}" for at in range(victims)])
    if victims > 1:
        cache.run.law(z3.Distinct(*map(whole, names)))
    return names


def extend(pages: int, opened: int) -> Callable[[Cache], Situation]:
    """A row of so many pages goes on in others."""

    def make(cache: Cache) -> Situation:
        row, size = cache.slots(*[f"row{at}" for at in range(pages)]), cache.setting.size
        asked = calls.Extend(row, Tokens(opened * size))
        return Situation(cache.state, asked, {"pages": cache.run.elements(*PAGES[:opened])})

    return make


def free(kind: Any, pages: int) -> Callable[[Cache], Situation]:
    """Any slots are given back, whoever's they are."""

    def make(cache: Cache) -> Situation:
        names = PAGES[:pages]
        return Situation(cache.state, kind(cache.slots(*names)), given=cache.run.elements(*names))

    return make


def reset(cache: Cache) -> Situation:
    """Everything is forgotten, so no claim is made of what was."""
    return Situation(cache.state, calls.Reset())


def flush(cache: Cache) -> Situation:
    """What nobody protects goes; what is above something protected is protected, as LOCK-03 wants it."""
    run, forest = cache.run, cache.forest

    def held(at: Any) -> Any:
        return cache.locks(cache.state, at) > 0

    run.law(run.every(lambda at: z3.Implies(held(at), z3.Or(forest.root(forest.above(at)), held(forest.above(at))))))
    return Situation(cache.state, calls.Flush())


def match(pages: int) -> Callable[[Cache], Situation]:
    """Any key is looked for."""
    return lambda cache: Situation(cache.state, calls.Match(cache.path(pages)))


def insert(pages: int, **how: Any) -> Callable[[Cache], Situation]:
    """Any key is cached in any slots, which may be anybody's."""

    def make(cache: Cache) -> Situation:
        names = PAGES[:pages]
        call = calls.Insert(cache.path(pages), cache.slots(*names), **how)
        return Situation(cache.state, call, given=cache.run.elements(*names))

    return make


def lock(cache: Cache) -> Situation:
    """Any path that is cached is locked."""
    at = cache.run.element("at")
    cache.run.law(z3.Not(cache.given(z3.IntVal(RECEIPT))))
    cache.run.law(z3.Or(cache.forest.root(whole(at)), is_in(cache.state.device.pages, whole(at))))
    return Situation(cache.state, calls.Lock(at, RECEIPT), receipt=RECEIPT)


def unlock(cache: Cache) -> Situation:
    """Any receipt is given back, if it is one."""
    return Situation(cache.state, calls.Unlock(RECEIPT), receipt=RECEIPT)


def evict(victims: int) -> Callable[[Cache], Situation]:
    """Any victims."""

    def make(cache: Cache) -> Situation:
        asked = calls.Evict(Tokens(victims * cache.setting.size))
        return Situation(cache.state, asked, {"victims": chosen(cache, victims)})

    return make


def begin(pages: int, new: int, victims: int = 0, *, ahead: bool = False) -> Callable[[Cache], Situation]:
    """A request with any key, of whose pages some are new."""

    def make(cache: Cache) -> Situation:
        choice = {"victims": chosen(cache, victims), "pages": cache.run.elements(*PAGES[:new])}
        return Situation(cache.state, calls.Begin(RID, cache.path(pages), ahead), choice, request=RID)

    return make


def grow(pages: int, cached: int, victims: int = 0) -> Callable[[Cache], Situation]:
    """A request goes on in a page more."""

    def make(cache: Cache) -> Situation:
        state, _ = cache.running(pages, cached, further=1)
        size = cache.setting.size
        choice = {"victims": chosen(cache, victims), "pages": cache.run.elements("a")}
        call = calls.Grow(RID, Tokens(size), cache.path(pages + 1))
        return Situation(state, call, choice, request=RID)

    return make


def compute(pages: int, cached: int) -> Callable[[Cache], Situation]:
    """A request that took its slots ahead computes a page."""

    def make(cache: Cache) -> Situation:
        state, _ = cache.running(pages, cached, cached * cache.setting.size)
        return Situation(state, calls.Compute(RID, cache.setting.size), request=RID)

    return make


def of_request(
    call: Any, pages: int, cached: int, computed: int | None = None, **choice: Any
) -> Callable[[Cache], Situation]:
    """A request publishes or ends."""

    def make(cache: Cache) -> Situation:
        size = cache.setting.size
        state, one = cache.running(pages, cached, None if computed is None else computed * size)
        made = call if computed is None else call._replace(upto=computed * size)
        own = tuple([slot // size for slot in one.row[one.cached :: size]])
        return Situation(state, made, choice, request=RID, given=own)

    return make


def take_back(pages: int, cached: int, left: int) -> Callable[[Cache], Situation]:
    """A request gives its last pages back."""

    def make(cache: Cache) -> Situation:
        state, one = cache.running(pages, cached)
        size, path = cache.setting.size, one.path
        kept = path._replace(
            names=path.names[: left * size], pages=path.pages[:left], tokens=path.tokens[: left * size]
        )
        own = tuple([slot // size for slot in one.row[left * size :: size]])
        return Situation(state, calls.TakeBack(RID, Tokens((pages - left) * size), kept), request=RID, given=own)

    return make


def fork(pages: int, cached: int, victims: int = 0) -> Callable[[Cache], Situation]:
    """A second request over a row."""

    def make(cache: Cache) -> Situation:
        state, _ = cache.running(pages, cached)
        choice = {"victims": chosen(cache, victims), "pages": cache.run.elements(*PAGES[: pages - cached])}
        return Situation(state, calls.Fork(FORKED, RID), choice, request=FORKED)

    return make


def on_the_host(cache: Cache, pages: int) -> State:
    """The state with a request on the host."""
    path = cache.path(pages)
    one = RequestState(path, tuple(map(Slot, range(len(path.tokens)))), 0, len(path.tokens), path.root)
    return cache.state._replace(retracted=Retracted({RID: one}, pages))


def resume(pages: int, victims: int = 0) -> Callable[[Cache], Situation]:
    """A request comes back from the host."""

    def make(cache: Cache) -> Situation:
        state = on_the_host(cache, pages)
        choice = {"victims": chosen(cache, victims), "pages": cache.run.elements(*PAGES[:pages])}
        return Situation(state, calls.Resume(RID, state.retracted.requests[RID].path), choice, request=RID)

    return make


SHARES = [(pages, cached) for pages in (1, 2) for cached in range(pages + 1)]

CASES = [
    *[Case(f"alloc of {pages} pages", alloc(pages)) for pages in (1, 2)],
    *[
        Case(f"alloc of 1 page that evicts {many}", evicting_alloc(1, many), profile={"evict_moment": "alloc"})
        for many in (0, 1)
    ],
    *[Case(f"extension of {pages} pages by 1", extend(pages, 1)) for pages in (0, 1)],
    *[
        Case(f"{kind.__name__} of {pages} pages", free(kind, pages))
        for kind in (calls.Free, calls.FreeInGroup, calls.EndGroup)
        for pages in (1, 2, 3)
    ],
    Case("reset", reset, keeps=("sound",)),
    Case("flush", flush),
    *[Case(f"match of {pages} pages", match(pages)) for pages in (1, 2)],
    Case("match of 2 pages that counts", match(2), profile={"hit_counts": "match", "match_cap": "len-1"}),
    Case("match of 2 pages that ends at nodes", match(2), profile={"match_ends": "node"}),
    *[Case(f"insert of {pages} pages", insert(pages)) for pages in (1, 2)],
    Case("insert of 2 pages whose duplicates the cache frees", insert(2), profile={"duplicates": "cache_frees"}),
    Case("lock", lock),
    Case("unlock", unlock),
    *[Case(f"evict of {many}", evict(many)) for many in (1, 2)],
    *[Case(f"begin of {pages} pages, {new} new", begin(pages, new)) for pages in (1, 2) for new in range(pages + 1)],
    Case("begin of 1 page that evicts 1", begin(1, 1, 1)),
    Case("begin of 1 page, ahead", begin(1, 1, ahead=True)),
    *[Case(f"grow of {pages} pages, {cached} cached", grow(pages, cached)) for pages, cached in SHARES[:2]],
    Case("grow of 1 page that evicts 1", grow(1, 0, 1)),
    *[
        Case(f"take back of {pages} pages, {cached} cached, up to {left}", take_back(pages, cached, left))
        for pages, cached in SHARES
        for left in range(cached, pages)
    ],
    *[Case(f"fork of {pages} pages, {cached} cached", fork(pages, cached)) for pages, cached in SHARES],
    Case("fork of 1 page that evicts 1", fork(1, 0, 1)),
    *[Case(f"resume of {pages} pages", resume(pages)) for pages in (1, 2)],
    Case("resume of 1 page that evicts 1", resume(1, 1)),
    Case("discard", lambda cache: Situation(on_the_host(cache, 1), calls.Discard(RID))),
    *[Case(f"compute of {pages} pages, {cached} cached", compute(pages, cached)) for pages, cached in SHARES],
    *[
        Case(
            f"{call.__class__.__name__}{tuple(call)[1:]} of {pages} pages, {cached} cached",
            of_request(call, pages, cached),
        )
        for call in (calls.Publish(RID), calls.End(RID, True), calls.End(RID, False), calls.Retract(RID))
        for pages, cached in SHARES
    ],
    *[
        Case(f"{call.__class__.__name__} of 2 pages up to the first", of_request(call, 2, 0, 1))
        for call in (calls.Publish(RID), calls.End(RID, True))
    ],
    *[
        Case(
            f"{call.__class__.__name__} of 2 pages that a filter ends",
            of_request(call, 2, 0, kept=1),
            profile={"admission": "own"},
        )
        for call in (calls.Publish(RID), calls.End(RID, True))
    ],
    *[
        Case(f"{name}, of two slots", make, size=2)
        for name, make in (
            ("alloc of 1 page", alloc(1)),
            ("Free of 2 pages", free(calls.Free, 2)),
            ("insert of 1 page", insert(1)),
            ("begin of 2 pages, 1 new", begin(2, 1)),
            ("grow of 1 page", grow(1, 0)),
            ("publish of 1 page", of_request(calls.Publish(RID), 1, 0)),
            ("end of 1 page", of_request(calls.End(RID, True), 1, 0)),
        )
    ],
]
