"""Requests of the optimized cache beside the reference's: rows, ownership, and what is cached of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.request import Running
from kvlitmus.optimized.view import nodes_of
from kvlitmus.reference.prefix.perform import Choice, free_pages, perform
from kvlitmus.spec.prefix.calls import (
    Begin,
    Discard,
    End,
    Evict,
    Fork,
    Grow,
    Path,
    Publish,
    Resume,
    Retract,
    TakeBack,
    path_of,
)
from kvlitmus.spec.prefix.state import empty_state
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, PageNo, Tokens, pages_in_order

pytestmark = pytest.mark.usefixtures("each_core")

WHATS = (
    *("begin", "begin", "fork", "grow", "take_back", "publish", "chunk", "part"),
    *("end", "ended_part", "abort", "evict", "retract", "resume", "discard"),
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(WHATS),
        st.integers(0, 2),
        st.integers(0, 11),
        st.integers(0, 2**12 - 1),
    ),
    max_size=30,
)


class Pair:
    """A flat cache and the reference, with the same requests."""

    def __init__(self, size: int, *, bigram: bool) -> None:
        self.size, self.bigram = size, bigram
        self.cache = FlatCache(CacheConfig(page_size=size, pages=12, bigram=bigram))
        config = Config(page_size=size, pages=12, bigram=bigram)
        self.setting = Setting(config, Profile(), SNAPSHOT, frozenset())
        self.now = empty_state()
        self.names = Names()
        self.tokens: dict[int, list[int]] = {}
        self.retracted: dict[int, list[int]] = {}

    def path(self, namespace: str | None, tokens: list[int]) -> Path:
        return path_of(self.names, Key(namespace, tuple(tokens), self.bigram), self.size, row=True)

    def perform(self, call: Any, pages: tuple[PageNo, ...] | None = None) -> Any:
        """The reference's answer to a call, with the pages that the other one took."""
        step = perform(self.now, self.setting, call, Choice(None, pages))
        self.now = step.after
        return step.answer

    def call(self, what: str, number: int, count: int, bits: int) -> None:
        rid = number
        namespace = (None, "lora")[number & 1]
        fresh = [bits >> (at // self.size) & 1 for at in range(count)]
        if what == "evict":
            asked = count * self.size
            assert len(self.cache.evict(asked)) * self.size == self.perform(Evict(Tokens(asked)))
        elif what == "begin":
            self.begin(rid, namespace, fresh)
        elif what == "fork":
            self.fork(rid, 2 - rid)  # in one namespace
        elif what in ("resume", "discard"):
            self.come_back(what, rid, namespace)
        elif rid in self.tokens:
            self.go_on(what, rid, namespace, fresh)

    def begin(self, rid: int, namespace: str | None, tokens: list[int]) -> None:
        if rid in self.tokens:
            with pytest.raises(ValueError, match="running already"):
                self.cache.begin(rid, np.array(tokens, np.int32), namespace)
            return
        running = self.cache.begin(rid, np.array(tokens, np.int32), namespace)
        row = [] if running is None else running.row[running.cached :].tolist()
        pages = None if running is None else pages_in_order(row, self.size)
        same = self.perform(Begin(rid, self.path(namespace, tokens)), pages)
        assert (running is None) == (same is None)
        if running is not None:
            self.tokens[rid] = tokens

    def fork(self, rid: int, of: int) -> None:
        if rid in self.tokens or of not in self.tokens:
            with pytest.raises((ValueError, KeyError)):
                self.cache.fork(rid, of)
            return
        self.copied(rid, self.cache.fork(rid, of), Fork(rid, of), self.tokens[of])

    def copied(self, rid: int, running: Running | None, call: Fork | Resume, tokens: list[int]) -> None:
        row = [] if running is None else running.row[running.cached :].tolist()
        same = self.perform(call, None if running is None else pages_in_order(row, self.size))
        assert (running is None) == (same is None)
        if running is not None:
            self.tokens[rid] = tokens

    def come_back(self, what: str, rid: int, namespace: str | None) -> None:
        if rid not in self.retracted or (what == "resume" and rid in self.tokens):
            with pytest.raises((ValueError, KeyError)):
                getattr(self.cache, "resume_request" if what == "resume" else what)(rid)
        elif what == "discard":
            self.cache.discard(rid)
            self.perform(Discard(rid))
            del self.retracted[rid]
        else:
            tokens = self.retracted[rid]
            self.copied(rid, self.cache.resume_request(rid), Resume(rid, self.path(namespace, tokens)), tokens)
            if rid in self.tokens:
                del self.retracted[rid]

    def go_on(self, what: str, rid: int, namespace: str | None, fresh: list[int]) -> None:
        if what == "grow":
            tokens = self.tokens[rid] + fresh
            slots = self.cache.grow(rid, np.array(fresh, np.int32))
            row = self.now.requests[rid].row
            opened: tuple[PageNo, ...] | None = None
            if slots is not None:
                full = -len(row) % self.size
                opened = pages_in_order(slots[full:].tolist(), self.size)
            new = self.perform(Grow(rid, Tokens(len(fresh)), self.path(namespace, tokens)), opened)
            assert (None if slots is None else tuple(slots.tolist())) == new
            self.tokens[rid] = tokens if new is not None else self.tokens[rid]
        elif what == "take_back":
            same = self.now.requests[rid]
            left = max(len(same.row) - len(fresh), same.cached + self.bigram)
            if 0 < left <= len(same.row):
                self.tokens[rid] = self.tokens[rid][:left]
                taken = len(same.row) - left
                told = self.perform(TakeBack(rid, Tokens(taken), self.path(namespace, self.tokens[rid])))
                assert self.cache.take_back(rid, taken) == told
        elif what == "retract" and rid in self.retracted:
            with pytest.raises(ValueError, match="retracted already"):
                self.cache.retract(rid)
        elif what == "retract":
            assert self.cache.retract(rid) and self.perform(Retract(rid))
            self.retracted[rid] = self.tokens.pop(rid)
        elif what in ("publish", "chunk"):
            self.cache.publish(rid, chunked=what == "chunk")
            self.perform(Publish(rid, None, what == "chunk"))
        elif what in ("part", "ended_part"):
            self.go_on_in_part(what, rid, len(fresh))
        else:
            self.cache.end(rid, keep=what == "end")
            self.perform(End(rid, what == "end"))
            del self.tokens[rid]

    def go_on_in_part(self, what: str, rid: int, upto: int) -> None:
        same = self.now.requests[rid]
        if not same.cached <= upto <= len(same.row):
            with pytest.raises(ValueError, match="computed are between"):
                self.perform(Publish(rid, upto, True))
            for call in (lambda: self.cache.publish(rid, upto=upto), lambda: self.cache.end(rid, keep=upto)):
                with pytest.raises(ValueError, match="computed are between"):
                    call()
        elif what == "part":
            self.cache.publish(rid, chunked=True, upto=upto)
            self.perform(Publish(rid, upto, True))
        else:
            self.cache.end(rid, keep=upto)
            self.perform(End(rid, True, upto))
            del self.tokens[rid]

    def compare(self) -> None:
        audit(self.cache.tree)
        assert set(self.cache.pool.free_pages().tolist()) == free_pages(self.now, self.setting)
        assert self.cache.requests.running.keys() == self.now.requests.keys()
        for rid, same in self.now.requests.items():
            running = self.cache.requests.running[rid]
            assert (tuple(running.row.tolist()), running.cached) == (same.row, same.cached)
            assert running.tokens.tolist() == self.tokens[rid]
        nodes = [node.pages for node in nodes_of(self.cache.tree) if node.pages is not None]
        cached = {int(page) for pages in nodes for page in pages}
        assert cached == {page.page for page in self.now.device.pages.values()}
        protected = sum(1 for page in self.now.device.pages.values() if page.locks)
        assert self.cache.sizes()[1] == protected * self.size
        assert self.cache.tree.clock == self.now.device.clock


@settings(max_examples=150)
@given(calls=CALLS, size=st.sampled_from((1, 2, 4)), bigram=st.booleans())
def test_requests_are_the_references(calls: list[tuple[str, int, int, int]], size: int, bigram: bool) -> None:
    pair = Pair(size, bigram=bigram)
    for call in calls:
        pair.call(*call)
        pair.compare()


def test_a_request_that_does_not_run_can_not_go_on() -> None:
    cache = FlatCache(CacheConfig())
    for call in (
        lambda: cache.grow(7, [1]),
        lambda: cache.take_back(7, 1),
        lambda: cache.publish(7),
        lambda: cache.end(7, keep=True),
    ):
        with pytest.raises(KeyError):
            call()


@pytest.mark.parametrize("host_pages", [0, 8])
def test_what_a_request_caches_has_its_priority(host_pages: int) -> None:
    config = CacheConfig(page_size=1, pages=8, host_pages=host_pages, policy="priority", write="write_back")
    cache: FlatCache = HierarchicalCache(config) if host_pages else FlatCache(config)
    assert cache.begin(1, [1, 1], priority=2) is not None
    assert cache.begin(2, [2, 2], priority=1) is not None
    assert cache.begin(3, [3]) is not None
    assert cache.fork(4, 1) is not None and cache.retract(4) and cache.resume_request(4) is not None
    with pytest.raises(ValueError, match="priority"):
        cache.begin(5, [5], priority=1 << 70)
    cache.publish(1)
    for rid in (4, 1, 2, 3):
        cache.end(rid, keep=rid != 4)
    for left in ([2, 2], [1, 2], [0, 2], [0, 1], [0, 0]):  # of the three the least first, then the second
        cache.evict(1)
        assert [len(cache.match([token] * 2).pages) for token in (2, 1)] == left


def test_no_more_is_taken_back_than_is_its_own() -> None:
    cache = FlatCache(CacheConfig(page_size=4))
    cache.begin(1, list(range(16)))
    cache.publish(1, chunked=True, upto=8)
    before = cache.available()
    for wrong in (9, 17, -1):
        with pytest.raises(ValueError, match="of 16 tokens 8 are the request's own"):
            cache.take_back(1, wrong)
    assert cache.take_back(1, 5) == 4 and cache.available() == before + 4
    row = cache.grow(1, [7, 7])
    assert row is not None and cache.take_back(1, 2) == 4
    assert cache.take_back(1, 3) == 4 and cache.take_back(1, 0) == 0
    cache.end(1, keep=True)
    assert cache.available() == 32 * 4 - 8


def test_what_is_not_computed_is_not_published() -> None:
    cache = FlatCache(CacheConfig(page_size=4))
    prompt = list(range(16))
    cache.begin(1, prompt)
    assert cache.publish(1, chunked=True, upto=9).cached == 8
    second = cache.begin(2, prompt)
    assert second is not None and second.cached == 8
    cache.end(2, keep=11)
    cache.end(1, keep=False)
    assert (cache.available(), cache.sizes()) == (32 * 4 - 8, (8, 0))
    cache.begin(3, prompt)
    with pytest.raises(TypeError):
        cache.publish(3, upto=8.5)  # type: ignore[arg-type]
    cache.end(3, keep=np.int64(12))  # type: ignore[arg-type]
    assert len(cache.match(prompt).pages) == 3


def test_a_token_that_does_not_fit_begins_nothing() -> None:
    cache = FlatCache(CacheConfig())
    for wrong in ([1, 2**31], np.array([2**40])):
        with pytest.raises(ValueError, match=r"(units|tokens) must (fit int32|be within)"):
            cache.begin(1, wrong)
    assert cache.begin(1, [1]) is not None
    with pytest.raises(ValueError, match="units must fit"):
        cache.grow(1, [2**31])
    assert cache.available() == 31
    cache.end(1, keep=True)
    assert cache.sizes() == (1, 0)


def test_receipts_are_worth_one_unlock() -> None:
    cache = FlatCache(CacheConfig())
    pages = cache.pool.take(2)
    assert pages is not None
    place = cache.insert([1, 2], pages).place
    first, second = cache.lock(place), cache.lock(place)
    cache.unlock(first)
    with pytest.raises(ValueError, match="given back already"):
        cache.unlock(first)
    assert cache.sizes() == (0, 2)
    cache.unlock(second)
    cache.reset()
    assert (cache.available(), cache.sizes()) == (32, (0, 0))


def test_a_kept_place_spares_the_prefix() -> None:
    cache = FlatCache(CacheConfig(page_size=2))
    pages = cache.pool.take(4)
    assert pages is not None
    place = cache.insert([1, 1, 2, 2], pages[:2]).place
    cache.lock(place)
    assert cache.insert_behind(place, [3, 3, 4, 4], pages[2:]).already == 2
    assert cache.resume(place, [3, 3, 5, 5]).known == 3
    assert cache.match([1, 1, 2, 2, 3, 3, 4, 4]).pages.tolist() == pages.tolist()


def test_running_requests_outlive_a_flush() -> None:
    cache = FlatCache(CacheConfig(page_size=4))
    for rid, prompt in enumerate((range(8), range(100, 112))):
        cache.begin(rid, list(prompt))
        cache.end(rid, keep=True)
    running = cache.begin("runs", [*range(4), 7, 7])
    receipt = cache.lock(cache.match(range(100, 108)).place)
    assert (cache.flush(), cache.sizes()) == (8, (0, 12))
    assert running is not None and cache.match(range(8)).pages.tolist() == [running.row[0] // 4]
    assert len(cache.match(range(100, 112)).pages) == 2
    cache.end("runs", keep=True)
    cache.unlock(receipt)
    assert (cache.flush(), cache.flush(), cache.available()) == (12, 0, 32 * 4)
