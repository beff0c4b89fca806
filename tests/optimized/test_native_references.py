"""What the compiled core keeps alive and lets go, and Python code that runs while it works: finalizers, collections."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("numba")

from kvlitmus.optimized import cores
from kvlitmus.optimized.arrays import CACHED
from kvlitmus.optimized.cache import CacheConfig, FlatCache

pytestmark = pytest.mark.skipif(bool(cores.lacking()), reason=cores.lacking() or "there is a native core")


class Tenant:
    """A namespace that may know the cache it is in."""

    known: Any


def fresh(core: str = "native", pages: int = 8) -> FlatCache:
    return FlatCache(CacheConfig(core=core, page_size=1, pages=pages))


def put(cache: FlatCache, tokens: list[int], namespace: Any) -> Any:
    """Cache these tokens; where."""
    pages = cache.pool.take(len(tokens))
    assert pages is not None
    return cache.insert(tokens, pages, namespace).place


KNOWN: dict[str, Callable[[FlatCache, Tenant], Any]] = {
    "nothing": lambda cache, tenant: None,
    "the cache": lambda cache, tenant: cache,
    "a place": lambda cache, tenant: cache.match([1], tenant).place,
    "the place of its root": lambda cache, tenant: cache.match([], tenant).place,
    "a receipt": lambda cache, tenant: cache.lock(cache.match([1], tenant).place),
    "a request": lambda cache, tenant: cache.begin("running", [1, 2], tenant),
    "its branch": lambda cache, tenant: cache.match([1], tenant).place.branch,
    "its root": lambda cache, tenant: cache.match([1], tenant).place.branch.parent,
    "a root that the tree does not know": lambda cache, tenant: fresh().match([], tenant).place.branch,
}


@pytest.mark.parametrize("core", ["native", "python"])
@pytest.mark.parametrize("what", KNOWN)
def test_a_cache_goes_with_its_namespaces(core: str, what: str) -> None:
    """A namespace that knows something of the cache it is in doesn't keep it, nor is it kept when the cache is gone."""
    tenant, cache = Tenant(), fresh(core)
    put(cache, [1], tenant)
    tenant.known = KNOWN[what](cache, tenant)
    watched = weakref.ref(tenant)
    del tenant, cache
    gc.collect()
    assert watched() is None


def test_a_namespace_goes_with_what_is_cached_of_it() -> None:
    tenant, cache = Tenant(), fresh()
    assert put(cache, [1], tenant).branch.parent.namespace is tenant
    watched = weakref.ref(tenant)
    del tenant
    gc.collect()
    assert watched() is not None
    cache.evict(1)
    assert watched() is None
    tenant = Tenant()
    put(cache, [1], tenant)
    watched = weakref.ref(tenant)
    del tenant
    cache.reset()
    gc.collect()
    assert watched() is None


class Last:
    """A namespace equal to others that have the same name, and that does something when it goes."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.work = work

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return getattr(other, "name", other) == self.name

    def __del__(self) -> None:
        self.work()


def test_a_namespace_may_cache_something_when_it_goes() -> None:
    """Even of its own name, and when the last that knew it was the root that is just being forgotten."""
    cache = fresh()
    done: list[Any] = []
    place = put(cache, [1], "name")
    asked = cache.match([], Last("name", lambda: done.append(put(cache, [2, 3], "name")))).place
    assert isinstance(asked.branch.namespace, Last)  # now the root knows it by this
    del asked
    assert not done and len(cache.evict(1)) == 1 and len(done) == 1
    del place
    assert cache.tree.opened().roots.keys() == {"name"}
    assert len(cache.match([2, 3], "name").pages) == 2
    receipt = cache.lock(cache.match([2, 3], "name").place)
    assert cache.sizes() == (0, 2)
    cache.unlock(receipt)
    assert put(cache, [7], "other") and len(cache.evict(8)) == 3
    assert not cache.tree.opened().roots


@pytest.fixture
def collected() -> Iterator[Callable[[int], None]]:
    """Lets the next collection be when so many more objects have been made."""
    before = gc.get_threshold()
    gc.freeze()  # what else there is takes no part, now or later
    yield lambda objects: gc.set_threshold(gc.get_count()[0] + objects, *before[1:])
    gc.set_threshold(*before)


class Loop:
    """Garbage that only a collection finds, and that does something then."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.self = self

    def __del__(self) -> None:
        self.work()


WHILE: dict[str, Callable[[FlatCache, Any], Any]] = {
    "export": lambda cache, place: cache.tree.opened(),
    "runs": lambda cache, place: [list(run.branch.dev_pages) for run in cache.tree.runs(place)],
    "a branch": lambda cache, place: place.branch.dev_pages,
    "its parents": lambda cache, place: place.branch.parent.parent.parent,
    "a match": lambda cache, place: cache.match([1, 2, 3, 4, 5, 6]),
    "an insert": lambda cache, place: cache.insert([1, 2, 9], cache.pool.take(3)),  # type: ignore[arg-type]
    "a request": lambda cache, place: cache.begin("one", [1, 2, 3, 4, 5, 8, 8]),
    "a publication": lambda cache, place: cache.begin("one", [1, 2, 4]) and cache.publish("one"),
    "an end": lambda cache, place: [cache.begin("one", [1, 2, 4]), cache.end("one", keep=True)],  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("what", WHILE)
def test_a_collection_may_evict_in_the_middle(what: str, collected: Callable[[int], None]) -> None:
    """Whatever is collected while a call makes its answer may use the cache: what is gone then is gone or stale."""
    for objects in range(1, 60):
        cache = fresh(pages=20)
        for tokens in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 7], [1, 2, 8]):
            pages = cache.pool.take(len(tokens))
            assert pages is not None
            cache.pool.give_back(pages[: cache.insert(tokens, pages).already])
        place = cache.match([1, 2, 3, 4, 7]).place
        evicted: list[int] = []

        def work(cache: FlatCache = cache, evicted: list[int] = evicted) -> None:
            evicted.append(len(cache.evict(20)))
            put(cache, [5, 5], "another")

        gc.collect()
        Loop(work)
        collected(objects)
        with contextlib.suppress(ValueError, AttributeError):  # what was asked for is gone
            WHILE[what](cache, place)
        gc.collect()
        opened = cache.tree.opened()
        assert evicted and cache.tree.opened().by_uid.keys() == opened.by_uid.keys()
        assert sum(cache.sizes()) == int((cache.pool.state == CACHED).sum())


class Liar:
    """A namespace that is another one when it is entered, and at no other time."""

    asked = 0

    def __hash__(self) -> int:
        return hash("name")

    def __eq__(self, other: object) -> bool:
        self.asked += 1
        return self.asked == 3


def test_a_namespace_that_lies_loses_what_is_cached_and_no_more() -> None:
    cache = fresh()
    put(cache, [1], "name")
    liar = Liar()
    put(cache, [2], liar)
    assert liar.asked == 3 and len(cache.tree.opened().by_uid) == 2  # of which one can't be found any more
    assert cache.sizes() == (2, 0)
    assert len(cache.evict(8)) == 2 and cache.available() == 8
    assert not len(cache.match([1], "name").pages)
    put(cache, [1], "name")
    assert len(cache.match([1], "name").pages) == 1
