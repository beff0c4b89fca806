"""Copies and puts that begin in one call of the compiled core: what a mover does in its midst, and what is left.

The state machines step by step are the twin: each test is run with either core, and says the same of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.branch import BUSY, STORED, Run
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.calls import TornCache
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover, NullTicket, PageArray
from kvlitmus.optimized.work import BACKUP, Work

pytestmark = pytest.mark.usefixtures("each_core")

PAGES = HOST = 12
PROMPT = np.arange(6, dtype=np.int32)


class Asked(NullMover):
    """Moves nothing, and does something first whenever it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Callable[[], object] = int
        self.asked: list[tuple[str, list[int], list[int]]] = []

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> NullTicket:
        self.asked.append(("backup", device_pages.tolist(), host_pages.tolist()))
        self.first()
        return super().backup(device_pages, host_pages)

    def load(self, host_pages: PageArray, device_pages: PageArray) -> NullTicket:
        self.asked.append(("load", host_pages.tolist(), device_pages.tolist()))
        self.first()
        return super().load(host_pages, device_pages)


def cache_of(mover: Asked, **settings: Any) -> HierarchicalCache:
    return HierarchicalCache(CacheConfig(pages=PAGES, host_pages=HOST, **settings), mover)


def put_in(cache: HierarchicalCache, tokens: Any, namespace: Any = None, *, chunked: bool = False) -> None:
    pages = cache.pool.take(len(tokens))
    assert pages is not None
    cache.pool.give_back(pages[: cache.insert(tokens, pages, namespace, chunked=chunked).already])


def in_three_nodes(cache: HierarchicalCache) -> None:
    """A prompt in nodes of two pages, none of which is due for a backup yet."""
    for end in (2, 4, 6):
        put_in(cache, PROMPT[:end], chunked=True)
    assert not cache.jobs()


def settle(cache: HierarchicalCache) -> None:
    for work in cache.jobs():
        cache.advance(work.id)
    cache.tick()


def free(cache: HierarchicalCache) -> tuple[int, int]:
    audit(cache.tree.opened())
    return cache.available(), cache.host_available()


def on_the_host(mover: Asked) -> HierarchicalCache:
    """A prompt in three nodes on the host alone."""
    cache = cache_of(mover)
    in_three_nodes(cache)
    put_in(cache, PROMPT)
    settle(cache)
    assert len(cache.evict(6)) == 6
    mover.asked.clear()
    return cache


def test_one_insert_begins_the_backups_of_all_nodes_that_are_due() -> None:
    cache = cache_of(mover := Asked())
    in_three_nodes(cache)
    put_in(cache, PROMPT)
    assert [(work.kind, len(work.host_pages)) for work in cache.jobs()] == [(BACKUP, 2)] * 3
    assert [pages for _, pages, _ in mover.asked] == [work.device_pages.tolist() for work in cache.jobs()]
    assert free(cache) == (PAGES - 6, HOST - 6) and cache.sizes() == (0, 6)
    settle(cache)
    assert not cache.jobs() and cache.sizes() == (6, 0)


@pytest.mark.parametrize("good", range(3))
def test_where_a_mover_raises_the_backups_before_go_on_and_the_others_wait(good: int) -> None:
    cache = cache_of(mover := Asked())
    in_three_nodes(cache)

    def refuse() -> None:
        if len(mover.asked) == good + 1:
            raise OSError("no stream")

    mover.first = refuse
    put_in(cache, PROMPT)
    assert len(cache.jobs()) == good and [str(error) for error in cache.faults()] == ["no stream"]
    assert free(cache) == (PAGES - 6, HOST - 2 * good) and cache.sizes() == (6 - 2 * good, 2 * good)
    settle(cache)
    put_in(cache, PROMPT)
    assert len(cache.jobs()) == 3 - good
    settle(cache)
    assert cache.sizes() == (6, 0) and free(cache) == (PAGES - 6, HOST - 6)


def test_where_the_host_is_full_the_nodes_that_fit_are_backed_up() -> None:
    cache = cache_of(Asked())
    held = cache.host.pool.take(HOST - 3)
    assert held is not None
    in_three_nodes(cache)
    put_in(cache, PROMPT)
    assert len(cache.jobs()) == 1 and cache.host_available() == 1 and not cache.faults()
    settle(cache)
    cache.host.pool.give_back(held)
    put_in(cache, PROMPT)
    assert len(cache.jobs()) == 2


def test_a_load_that_is_refused_leaves_nothing_behind() -> None:
    cache = on_the_host(mover := Asked())

    def refuse() -> None:
        raise OSError("no stream")

    mover.first = refuse
    loaded = cache.load_back(PROMPT)
    assert (loaded.before, loaded.pages, loaded.work) == (0, None, None)
    assert [str(error) for error in cache.faults()] == ["no stream"] and not cache.jobs()
    assert free(cache) == (PAGES, HOST - 6) and cache.evict_host(6) == 6, "nothing stays pinned"


def test_a_load_brings_the_nodes_of_a_path_at_once() -> None:
    cache = on_the_host(mover := Asked())
    loaded = cache.load_back(PROMPT)
    assert loaded.pages is not None and loaded.work is not None and len(cache.jobs()) == 1
    ((kind, hosted, resident),) = mover.asked
    assert (kind, len(hosted), resident) == ("load", 6, loaded.pages.tolist())
    assert cache.sizes() == (0, 6) and cache.evict_host(6) == 0
    cache.advance(loaded.work.id)
    cache.tick()
    assert cache.sizes() == (6, 0) and free(cache) == (PAGES - 6, HOST - 6)


@pytest.mark.parametrize(
    ("quota", "threshold", "pages"),
    [(5, 0, None), (6, 0, 6), (None, 7, None), (None, 6, 6), (6, 7, None), (1 << 80, 6, 6)],
)
def test_a_load_beyond_its_quota_or_below_the_threshold_is_declined(
    quota: int | None, threshold: int, pages: int | None
) -> None:
    cache = on_the_host(Asked())
    cache.loads.threshold = threshold
    loaded = cache.load_back(PROMPT, quota=quota)
    assert (loaded.pages is None, loaded.work is None) == (pages is None,) * 2
    assert not cache.faults() and cache.available() == PAGES - (pages or 0)


def test_an_exception_that_ends_a_mover_ends_the_call_and_a_reset_is_what_is_left() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for mover, cache in ((one := Asked(), on_the_host(one)), (two := Asked(), cache_of(two))):
        given = cache.pool.take(6)
        assert given is not None
        mover.first = interrupt
        with pytest.raises(KeyboardInterrupt):
            cache.load_back(PROMPT) if cache.match(PROMPT).behind else cache.insert(PROMPT, given)
        with pytest.raises(TornCache):
            cache.match(PROMPT)
        cache.reset()
        mover.first = int
        put_in(cache, PROMPT)
        settle(cache)
        assert len(cache.evict(6)) == 6 and cache.load_back(PROMPT).work is not None


CALLS: dict[str, Callable[[HierarchicalCache], object]] = {
    "evict": lambda cache: cache.tree.evict(PAGES),
    "evict_host": lambda cache: cache.tree.evict_host(HOST),
    "match": lambda cache: cache.match(PROMPT),
    "read the tree": lambda cache: [run.branch.n for run in cache.tree.runs(cache.tree.match(None, PROMPT).place)],
}


@pytest.mark.parametrize("call", CALLS)
def test_what_a_mover_is_given_stays_what_it_is_whatever_it_calls(call: str, each_core: str) -> None:
    """A mover is the scheduler's own code: it may ask the cache, and the cache is in the midst of a call.

    Step by step the path is locked once the copy is submitted, so nothing may be evicted before.
    """
    if (call, each_core) == ("evict", "python"):
        call = "match"
    cache = cache_of(mover := Asked())
    in_three_nodes(cache)
    mover.first = lambda: CALLS[call](cache)
    put_in(cache, PROMPT)
    settle(cache)
    put_in(cache, PROMPT)
    settle(cache)
    assert free(cache)[1] == HOST - 6
    mover.first = int
    cache.evict(PAGES)
    mover.first = lambda: CALLS[call](cache)
    loaded = cache.load_back(PROMPT)
    assert loaded.pages is not None and len(loaded.pages) == 6
    settle(cache)
    assert cache.match(PROMPT).pages.tolist() == loaded.pages.tolist() and free(cache) == (PAGES - 6, HOST - 6)


# -- puts ------------------------------------------------------------------------------------------------------------


FORK = np.array([0, 1, 7, 8], np.int32)


class Shelf:
    """Storage that takes everything."""

    def put(self, names: list[str], contents: list[bytes]) -> list[bool]:
        return [True] * len(names)


def backed(namespace: Any = None) -> HierarchicalCache:
    """Two branches on both tiers, of which storage knows nothing yet."""
    cache = cache_of(Asked())
    for tokens in (PROMPT, FORK):
        put_in(cache, tokens, namespace)
        settle(cache)
    cache.attach(Shelf())  # type: ignore[arg-type]
    return cache


def begun(cache: HierarchicalCache, tokens: Any, namespace: Any = None) -> list[int]:
    """How many pages the puts have that begin where what is cached is used once more."""
    before = {work.id for work in cache.jobs()}
    cache.insert(tokens, cache.match(tokens, namespace).pages, namespace)
    return [len(work.host_pages) for work in cache.jobs() if work.id not in before]


def ends(cache: HierarchicalCache) -> None:
    """All puts end, and then no page is kept."""
    settle(cache)
    cache.tick()
    assert not any((cache.tree.flags(run) & BUSY).any() for run in cache.puts.findable())
    cache.evict(PAGES)
    cache.evict_host(HOST)
    assert not cache.jobs() and free(cache) == (PAGES, HOST)


@pytest.mark.parametrize("n", [1, 2])
def test_a_put_has_what_is_not_stored_across_branches_and_keeps_it(n: int) -> None:
    cache = backed()
    assert (begun(cache, PROMPT[:n]), begun(cache, FORK), begun(cache, FORK)) == ([n], [4 - n], [])
    place = cache.match(FORK).place
    assert [name for work in cache.jobs() for name in work.names] == cache.names.names(place)
    pages = [page for work in cache.jobs() for page in work.host_pages.tolist()]
    assert pages == cache.tree.path_host_pages(place).tolist()
    assert len(cache.evict(PAGES)) == 8 and cache.evict_host(HOST) == 4
    ends(cache)


def test_pages_without_names_stay_out_of_storage() -> None:
    cache = backed(("no", "text"))
    assert not begun(cache, PROMPT, ("no", "text"))
    ends(cache)


def named(cache: HierarchicalCache, good: int, error: type[BaseException]) -> None:
    """A page in the midst is stored, so there are two parts to put; so many are named, and the next one raises this."""
    cache.tree.set_flags([Run(cache.match(PROMPT).place.branch, 2, 3)], STORED)
    names, left = cache.puts.names, iter(range(good))

    def some(place: Any, lo: int) -> Sequence[str]:
        if next(left, None) is None:
            cache.puts.names = names
            raise error
        return names(place, lo)

    cache.puts.names = some


@pytest.mark.parametrize("good", range(3))
def test_where_memory_is_short_the_puts_before_go_on_and_the_others_wait(good: int) -> None:
    named(cache := backed(), good, MemoryError)
    assert begun(cache, PROMPT) == [2, 3][:good]
    cache.puts.names = cache.names.names
    assert begun(cache, PROMPT) == [2, 3][good:]
    ends(cache)


@pytest.mark.parametrize("good", range(2))
def test_an_interrupt_while_a_close_names_pages_keeps_none_from_the_next_close(good: int) -> None:
    named(cache := backed(), good, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.close()
    assert cache.close() == []
    ends(cache)


def test_whatever_is_done_while_pages_are_named_each_is_put_once_or_not_at_all(each_core: str) -> None:
    cache = backed()
    names = cache.puts.names

    def interrupted(place: Any, lo: int) -> Sequence[str]:
        raise KeyboardInterrupt

    def put_meanwhile(place: Any, lo: int) -> Sequence[str]:
        cache.puts.names = names
        assert begun(cache, PROMPT) == [6]
        return names(place, lo)

    cache.puts.names = interrupted
    with pytest.raises(KeyboardInterrupt):
        cache.puts.outstanding(cache.tree.runs(cache.match(PROMPT).place))
    cache.puts.names = put_meanwhile if each_core == "native" else names  # step by step it is taken for waiting
    assert not cache.jobs() and begun(cache, PROMPT) == [6]
    ends(cache)


@pytest.mark.parametrize("kind", ["copy", "put"])
def test_what_has_begun_and_finds_no_memory_to_be_followed_tears_the_cache(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = backed() if kind == "put" else cache_of(Asked())
    given = cache.match(PROMPT).pages if kind == "put" else cache.pool.take(len(PROMPT))
    assert given is not None

    def short(*given: Any) -> Work:
        raise MemoryError

    monkeypatch.setattr("kvlitmus.optimized.work.Work", short)
    with pytest.raises(TornCache):
        cache.insert(PROMPT, given)
    with pytest.raises(TornCache):
        cache.tick()
