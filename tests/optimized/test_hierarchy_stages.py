"""What may happen to a prefetch, a backup, a load and a put in each of their stages, beside the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.words.units import Key
from tests.optimized.support.hierarchy_pair import Pair
from tests.optimized.support.hierarchy_sides import ScriptedStore

KEY = Key(None, (1, 2, 3, 4, 5, 6, 7, 8))
"""Four pages of two."""

STEP = Outcome("part", 1)


class Staged(Pair):
    """A pair in which some of :data:`KEY` is in storage and nowhere else."""

    def __init__(self, write: str = "write_through", stored: int = 4) -> None:
        super().__init__(Config(page_size=2, pages=8, host_pages=8, write=write, rate_limit=1000), 1)
        self.attach()
        self.cache(KEY._replace(tokens=KEY.tokens[: 2 * stored]))
        self.keys = [KEY]
        while self.one.jobs():
            self.settle()
        assert len(self.stores[0].contents) == (0 if write == "write_back" else stored)
        self.forget()
        self.two.events()
        self.one.events()

    def cache(self, key: Key) -> None:
        """Compute and insert a key."""
        mine, theirs = self.one.alloc(len(key.tokens)), self.two.pool.take(len(key.tokens) // 2)
        assert mine is not None and theirs is not None
        self.poke(key, 0, mine, self.two.pool.slots(theirs))
        stored, ours = self.one.insert(key, mine), self.two.insert(key.tokens, theirs, key.namespace)
        assert stored.already == ours.already * 2
        self.one.free(stored.to_free or ())
        self.two.pool.give_back(theirs[: ours.already])

    def settle(self) -> None:
        """Everything under way goes to its end, and the cache takes note."""
        for job in self.one.jobs():
            if job.ready:
                self.step(job.id, Outcome())
                self.compare()
        self.tick()
        self.compare()

    def ask(self, rid: int = 1) -> int:
        """Begin a prefetch; its job."""
        mine, theirs = self.one.prefetch(rid, KEY), self.two.prefetch(rid, KEY.tokens)
        assert mine.started and theirs.started
        return self.one.jobs()[-1].id


def nothing(pair: Staged) -> None:
    """Nobody has asked yet."""


def asked(pair: Staged) -> None:
    pair.ask()


def answered(pair: Staged) -> None:
    pair.step(pair.ask(), Outcome())


def revoked(pair: Staged) -> None:
    pair.step(pair.ask(), Outcome("short", 0))


def halfway(pair: Staged) -> None:
    answered(pair)
    pair.step(pair.one.jobs()[-1].id, Outcome("part", 2))


def cut_short(pair: Staged) -> None:
    answered(pair)
    pair.step(pair.one.jobs()[-1].id, Outcome("short", 1))


def complete(pair: Staged) -> None:
    answered(pair)
    pair.step(pair.one.jobs()[-1].id, Outcome())


def poll(pair: Staged) -> None:
    assert pair.one.poll(1) == pair.two.poll(1)


def abandon(pair: Staged) -> None:
    pair.one.abandon(1)
    pair.two.abandon(1)


def again(pair: Staged) -> None:
    """The request ends, and its id is used again at once."""
    abandon(pair)
    pair.compare()
    pair.ask()


def cached_meanwhile(pair: Staged) -> None:
    pair.cache(KEY._replace(tokens=KEY.tokens[:4]))


def bare_meanwhile(pair: Staged) -> None:
    """The first page is computed by somebody else, and the host has no room for it: it is full of resident pages."""
    pair.cache(Key("a", KEY.tokens[:8]))
    pair.cache(KEY._replace(tokens=KEY.tokens[:2]))


STAGES = (nothing, asked, answered, revoked, halfway, cut_short, complete)
ACTIONS: tuple[Callable[[Staged], None], ...] = (
    poll,
    abandon,
    again,
    cached_meanwhile,
    bare_meanwhile,
    Pair.tick,
    Pair.detach,
    Pair.reset,
    Pair.forget,
)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_prefetch_in_each_stage(stage: Callable[[Staged], None], action: Callable[[Staged], None]) -> None:
    pair = Staged()
    stage(pair)
    pair.compare()
    action(pair)
    pair.compare()
    for follow in (poll, Pair.tick, poll, Staged.settle, poll, Staged.settle):
        follow(pair)
        pair.compare()
    assert pair.two.occupied() == 0 and not pair.two.jobs()


def test_what_was_read_below_a_bare_page_is_released() -> None:
    pair = Staged()
    complete(pair)
    bare_meanwhile(pair)
    poll(pair)
    pair.compare()
    assert pair.two.loaded(1) == 0
    assert len(pair.two.moving()) == 3, "one page was known and is freed at once, the others wait for the tick"


@pytest.mark.parametrize("action", [Pair.detach, Pair.reset, Pair.forget, Pair.tick])
@pytest.mark.parametrize("steps", range(4))
def test_backups_loads_and_puts_in_each_stage(steps: int, action: Callable[[Staged], None]) -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    pair.compare()
    for _ in range(steps):
        for job in pair.one.jobs()[:1]:
            pair.step(job.id, STEP if job.kind == "put" else Outcome())
        pair.tick()
        pair.compare()
    action(pair)
    pair.compare()
    pair.attach()
    for _ in range(3):
        pair.settle()
    assert not pair.two.jobs()


@pytest.mark.parametrize("action", [Pair.detach, Pair.reset, Pair.forget, Pair.tick])
@pytest.mark.parametrize("layers", range(4))
def test_a_load_in_each_layer(layers: int, action: Callable[[Staged], None]) -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    pair.settle()
    pair.settle()
    pair.evict_all()
    mine, theirs = pair.one.load_back(KEY), pair.two.load_back(KEY.tokens)
    assert mine.before == 0 and theirs.pages is not None and len(theirs.pages) == 4
    assert theirs.work is not None
    for layer in range(layers):
        pair.step(theirs.work.id, STEP)
        assert pair.two.layers_ready(theirs.work.id) == layer + 1
        pair.two.wait_layer(theirs.work.id, layer)
        pair.compare()
    if layers < 3:
        with pytest.raises(RuntimeError, match="layer"):
            pair.two.wait_layer(theirs.work.id, layers)
    action(pair)
    pair.compare()
    pair.settle()
    pair.settle()
    assert not pair.two.jobs()


def test_a_close_puts_what_was_being_backed_up() -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    assert pair.two.close() == []
    assert len(pair.stores[1].pages) == 4 and not pair.two.jobs()


def test_a_close_puts_what_storage_has_refused() -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    pair.settle()
    for job in pair.one.jobs():
        pair.step(job.id, Outcome("short", 1))
    pair.tick()
    assert len(pair.stores[1].pages) == 1 and not pair.two.jobs()
    assert pair.two.close() == []
    assert len(pair.stores[1].pages) == 4


def test_a_close_tells_what_storage_has_not_got() -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    pair.stores[1].left = 2
    lost = pair.two.close()
    assert lost == list(pair.one.page_hashes(KEY, 2, None))[2:] and not pair.two.jobs()


def test_what_has_no_name_in_storage_is_not_put_nor_asked_for() -> None:
    pair = Staged(stored=0)
    tokens, tenant = [1, 2, 3, 4], 7
    pages = pair.two.pool.take(2)
    assert pages is not None
    pair.two.log = None  # events tell names, too
    pair.two.tree.tell = None
    pair.two.insert(tokens, pages, tenant)
    with pytest.raises(TypeError, match="must be a str or None"):
        pair.two.prefetch(1, [1, 2, 3, 4, 5, 6], tenant)
    assert pair.two.occupied() == 0 and not len(pair.two.fetches.holding())
    while pair.two.jobs():
        pair.two.advance(pair.two.jobs()[0].id)
        pair.two.tick()
    assert pair.two.close() == [] and not pair.stores[1].pages


@pytest.mark.parametrize("shared", [0, 1, 4])
def test_whoever_shares_a_load_waits_for_it_too(shared: int) -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    pair.settle()
    pair.evict_all()
    work = pair.two.load_back(KEY.tokens).work
    place = pair.two.match([*KEY.tokens[: 2 * shared], 9, 9]).place
    assert pair.two.loads_on(place) == ([work] if shared else [])


def test_what_is_inserted_behind_a_place_is_backed_up() -> None:
    pair = Staged(stored=0)
    pair.cache(KEY._replace(tokens=KEY.tokens[:4]))
    pages = pair.two.pool.take(2)
    assert pages is not None
    found = pair.two.match(KEY.tokens)
    receipt = pair.two.lock(found.place)
    pair.two.insert_behind(found.place, KEY.tokens[4:], pages)
    pair.two.unlock(receipt)
    kinds = [(work.kind, pair.two.span(work).start) for work in pair.two.jobs()]
    assert kinds == [("backup", 0), ("backup", 4)]


WRONG: tuple[dict[str, Any], ...] = (
    {"write": "write_never"},
    {"stop": "never"},
    {"host_pages": 0},
    {"timeout_basis": "sum"},
    {"timeout_from": "now"},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_configuration_that_can_not_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HierarchicalCache(CacheConfig(**{"pages": 8, "host_pages": 8, **wrong}))


def test_events_of_what_has_no_name_are_not_told() -> None:
    """Nothing is told of a namespace that is no text, and all that is to be told beside it."""
    cache = HierarchicalCache(CacheConfig(pages=8, host_pages=8), events=True)
    pages = cache.pool.take(4)
    assert pages is not None
    cache.insert([1, 2], pages[:2], 7)
    assert list(cache.events()) == []
    cache.insert([1, 2], pages[2:])
    (first, second) = cache.events()
    assert [list(one.units or ()) for one in (first, second)] == [[1], [2]] and second.parent == first.page
    for job in list(cache.jobs()):
        cache.advance(job.id)
    cache.tick()
    assert [(one.tier, one.page) for one in cache.events()] == [("host", first.page), ("host", second.page)]
    assert len(cache.evict(8)) == 4
    assert [(one.what, one.page) for one in cache.events()] == [("removed", second.page), ("removed", first.page)]


def test_a_job_that_is_over_or_unknown_can_not_go_on() -> None:
    pair = Staged(stored=0)
    pair.cache(KEY)
    (job,) = [work.id for work in pair.two.jobs()]
    pair.two.advance(job)
    for wrong in (job, job + 1):
        with pytest.raises(ValueError, match="can't go on"):
            pair.two.advance(wrong)


def test_more_prefetches_wait_below_one_page_than_16_bits_can_count() -> None:
    """A prompt that all users share is the anchor of as many prefetches as there are users."""
    many = 2**15 + 1
    config = CacheConfig(pages=8, host_pages=many + 8, rate_limit=2 * many, stop="wait_complete")
    cache = HierarchicalCache(config)
    cache.attach(ScriptedStore())
    cache.begin(-1, [1])
    cache.end(-1, keep=True)
    cache.finish(math.inf)
    for rid in range(many):
        assert cache.prefetch(rid, [1, 2 + rid]).started
    for rid in range(many):
        cache.abandon(rid)
    cache.finish(math.inf)
    assert cache.host_available() == many + 7 and len(cache.evict(1)) == 1 and cache.evict_host(1) == 1


def test_a_read_that_nobody_waits_for_is_of_its_namespace_when_all_else_is_gone() -> None:
    cache = HierarchicalCache(CacheConfig(pages=8, host_pages=16, rate_limit=100))
    cache.attach(ScriptedStore())
    cache.begin(-1, [1], "a")
    cache.end(-1, keep=True)
    for job in cache.jobs():
        cache.advance(job.id)
    cache.tick()
    for job in cache.jobs():
        cache.advance(job.id)
    cache.tick()
    assert cache.prefetch(1, [1, 2, 3], "a").started
    cache.abandon(1)
    assert (len(cache.evict(1)), cache.evict_host(1)) == (1, 1)
    (query,) = cache.jobs()
    assert cache.span(query).namespace == "a"
