"""The compiled core does what the Python core does: every answer, every error, every part of the state.

The calls are in :mod:`tests.optimized.support.cores`; ``tests/optimized/side_by_side.py`` plays as many as wanted, and
its ``--sanitize`` with AddressSanitizer and UBSan.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized import __main__ as serve_once
from kvlitmus.optimized import cores, levels, residency, tree
from kvlitmus.optimized.cache import CacheConfig, FlatCache, Parts
from kvlitmus.optimized.inputs import StaleHandle
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.tree import Tree
from tests.optimized.support.cores import Cores, everything, play

needs_native = pytest.mark.skipif(bool(cores.lacking()), reason=cores.lacking() or "there is a native core")
SIZES = (1, 2, 4, 16)
PAGES = (5, 12, 40)


def drawn(source: random.Random, policy: str) -> Cores:
    return Cores(
        page_size=source.choice(SIZES),
        pages=source.choice(PAGES),
        policy=policy,
        bigram=source.random() < 0.25,
        dtype=source.choice(("int32", "int64")),
        events=source.random() < 0.5,
    )


@needs_native
@pytest.mark.parametrize("policy", POLICIES)
def test_both_cores_do_the_same(policy: str) -> None:
    for seed in range(6):
        source = random.Random(f"{policy} {seed}")
        assert play(drawn(source, policy), source, 60) > 60


@needs_native
@settings(max_examples=30)
@given(source=st.randoms(use_true_random=False), policy=st.sampled_from(list(POLICIES)))
def test_both_cores_do_the_same_whatever_is_called(source: random.Random, policy: str) -> None:
    play(drawn(source, policy), source, 25)


@needs_native
@pytest.mark.nightly
def test_both_cores_do_the_same_for_long() -> None:
    for seed in range(1_500):
        source = random.Random(seed)
        play(drawn(source, source.choice(list(POLICIES))), source, 400, every=20)


def _touches_too_little(level: levels.Level, end: int, value: int, n: int) -> levels.Level:
    """A use that leaves the first page out."""
    return levels.set_range(level, 1, end, value, n) if end > 1 else level


def _whole_node(self: Any, branch: Any, most: int) -> int:
    """An eviction that takes more than it is asked for."""
    return LEAVE(self, branch, most + 1)


def _no_offer(self: Tree, branch: Any, end: int) -> None:
    """A use after which nobody looks at what the tip is worth."""


LEAVE = residency.Residency.leave_device
PLANTED: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a use leaves a page out": (levels, "set_prefix", _touches_too_little),
    "an eviction takes a page more": (residency.Residency, "leave_device", _whole_node),
    "a use is not offered": (tree.Tree, "_offer_used", _no_offer),
}


def play_many() -> None:
    for seed in range(20):
        source = random.Random(seed)
        play(drawn(source, "lru"), source, 60)


@needs_native
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_seen(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, wrong = PLANTED[planted]
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises(AssertionError):
        play_many()


# -- memory that runs out ------------------------------------------------------------------------------------------


def prepared() -> FlatCache:
    """A cache with branches that fork, levels in pieces, locks and a running request."""
    cache = FlatCache(CacheConfig(core="native", page_size=2, pages=80, policy="priority"))
    for turn, tokens in enumerate(([1] * 12, [1] * 6 + [2] * 6, [1] * 6 + [2] * 2 + [3] * 8, [1] * 20)):
        pages = cache.pool.take(len(tokens) // 2)
        done = cache.insert(tokens, pages, priority=turn)  # type: ignore[arg-type]
        cache.pool.give_back(pages[: done.already])  # type: ignore[index]
        cache.match(tokens[:5])
    cache.lock(cache.match([1] * 6).place)
    assert cache.begin("running", [1] * 9 + [4] * 6) is not None
    return cache


def state_of(cache: Any) -> Any:
    """All that the cache is, but for the room that branches have."""
    opened = cache.tree.opened()
    state = everything(opened, opened.pool)
    for branch in state["branches"].values():
        del branch["room"]
    return state


def behind(cache: Any) -> Any:
    return cache.insert_behind(cache.requests.running["running"].place, [4] * 2 + [5] * 4, cache.pool.take(3))


STARVED: dict[str, Callable[[Any], Any]] = {
    "a match in the middle of a branch": lambda cache: cache.match([1] * 6 + [2] * 2 + [3] * 4),
    "an insert that hangs a branch": lambda cache: cache.insert([1] * 8 + [9] * 6, cache.pool.take(7), priority=9),
    "an insert that grows a branch": lambda cache: cache.insert([1] * 40, cache.pool.take(20), priority=2),
    "an insert in a new namespace": lambda cache: cache.insert([1] * 4, cache.pool.take(2), "new"),
    "an insert behind a place": behind,
    "a lock": lambda cache: cache.lock(cache.match([1] * 6 + [2] * 2 + [3] * 8).place),
}


def starved(what: str, allocations: int) -> bool:
    """Make a call after so many more allocations; whether it failed for want of memory, and has changed nothing."""
    from kvlitmus.optimized import _core

    cache = prepared()
    before = [state_of(cache)]
    taken = cache.pool.take

    def take(count: int) -> Any:
        """Pages are taken with memory enough."""
        _core.fail_after(-1)
        pages = taken(count)
        before.append(state_of(cache))
        _core.fail_after(allocations)
        return pages

    cache.pool.take = take  # type: ignore[method-assign]
    _core.fail_after(allocations)
    try:
        STARVED[what](cache)
    except MemoryError:
        _core.fail_after(-1)
        after = state_of(cache)
        if what != "a lock" or after["counters"][0] == before[-1]["counters"][0]:
            assert after == before[-1]
        else:  # it had been matched
            assert after["counters"][1:] == before[-1]["counters"][1:]
        return True
    finally:
        _core.fail_after(-1)
    return False


@needs_native
@pytest.mark.parametrize("what", STARVED)
def test_a_call_without_memory_changes_nothing(what: str) -> None:
    """Each allocation of the core is made to fail, one after the other; the call then has its effect after all."""
    failed = [starved(what, allocations) for allocations in range(40)]
    assert failed[0] and not failed[-1]
    assert failed == sorted(failed, reverse=True)


# -- what is handed in ---------------------------------------------------------------------------------------------

OTHERS = {"native": "python", "python": "native"}


def cached(core: str, tokens: int = 8) -> FlatCache:
    """A cache of pages of one token, with a prompt in it."""
    cache = FlatCache(CacheConfig(core=core, page_size=1, pages=16, reserved=0))
    cache.insert(range(tokens), cache.pool.take(tokens))  # type: ignore[arg-type]
    return cache


@needs_native
@pytest.mark.parametrize("core", OTHERS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_arrays_may_lie_anywhere(core: str, dtype: str) -> None:
    """As those do that are a part of a message, say."""
    cache = cached(core)
    tokens = np.frombuffer(b"x" + np.arange(8, dtype=dtype).tobytes(), dtype, offset=1)
    assert not tokens.flags.aligned
    found = cache.match(tokens)
    assert len(found.pages) == 8
    assert cache.insert(tokens, tokens).already == 8
    receipt = cache.lock(cache.match(tokens[:4]).place)
    assert receipt.place is not None and cache.resume(receipt.place, tokens[4:]).known == 8
    running = cache.begin("one", tokens)
    assert running is not None and running.cached == 8
    slots = cache.alloc(2)
    assert slots is not None and cache.available() == 6
    cache.free(np.frombuffer(b"x" + slots.astype(dtype).tobytes(), dtype, offset=1))
    assert cache.available() == 8


@needs_native
@pytest.mark.parametrize("core", OTHERS)
def test_numbers_are_python_s_whatever_was_given(core: str) -> None:
    for number in (np.int8(3), np.uint8(3), np.uint64(3), np.array(3)):
        cache = cached(core)
        slots = cache.alloc(number)  # type: ignore[arg-type]
        assert slots is not None and len(slots) == 3
        assert (len(cache.evict(number)), cache.sizes(), cache.available()) == (3, (5, 0), 8)  # type: ignore[arg-type]
        assert {type(one) for one in (*cache.sizes(), cache.available())} == {int}
    for everything_else in (2**31, 2**63, 10**30):
        cache = cached(core)
        assert cache.alloc(everything_else) is None
        assert (len(cache.evict(everything_else)), cache.sizes()) == (8, (0, 0))
    assert len(cached(core).evict(-(10**30))) == 0
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        cached(core).evict(2.0)  # type: ignore[arg-type]


@needs_native
@pytest.mark.parametrize("core", OTHERS)
def test_places_of_the_other_core_are_refused(core: str) -> None:
    cache, other = cached(core), cached(OTHERS[core])
    for tokens in (range(8), range(3), ()):
        place = other.match(tokens).place
        for call in (cache.lock, lambda place: cache.resume(place, [1]), lambda place: cache.unlock(other.lock(place))):
            with pytest.raises(StaleHandle, match="of another cache"):
                call(place)


@needs_native
@pytest.mark.parametrize("core", OTHERS)
def test_a_row_that_was_written_into_frees_no_page_of_others(core: str) -> None:
    cache = FlatCache(CacheConfig(core=core, page_size=4, pages=4, reserved=0))
    assert cache.alloc(4) is not None
    running = cache.begin("one", range(4))
    assert running is not None
    running.row[:] = -1
    with pytest.raises(ValueError, match="page -1 can't be freed: the pool has pages 0 to 3"):
        cache.end("one", keep=False)
    assert cache.available() == 8


# -- which core ----------------------------------------------------------------------------------------------------


def test_a_cache_says_which_core_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cores.VARIABLE, raising=False)
    assert FlatCache(CacheConfig()).core == ("python" if cores.lacking() else "native")
    assert FlatCache(CacheConfig(core="python")).core == "python"
    assert FlatCache(CacheConfig(), Parts()).core == "python"
    monkeypatch.setenv(cores.VARIABLE, "python")
    assert FlatCache(CacheConfig()).core == "python"
    assert cores.report() == "python: KVLITMUS_CORE says so"
    monkeypatch.setenv(cores.VARIABLE, "fast")
    with pytest.raises(ValueError, match="KVLITMUS_CORE must be one of auto, native, python"):
        FlatCache(CacheConfig())


def test_a_core_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="core must be one of auto, native, python"):
        CacheConfig(core="rust")
    with pytest.raises(ValueError, match="core must be auto or python: it has parts of its own"):
        FlatCache(CacheConfig(core="native"), Parts())
    monkeypatch.setattr(cores, "lacking", lambda: "nobody built it")
    with pytest.raises(ValueError, match="there is no native core: nobody built it"):
        FlatCache(CacheConfig(core="native"))
    monkeypatch.delenv(cores.VARIABLE, raising=False)
    assert FlatCache(CacheConfig()).core == "python"
    assert cores.report() == "python: there is no native core: nobody built it"
    monkeypatch.setenv(cores.VARIABLE, "native")
    assert cores.main() == 2


def test_an_installation_serves_with_the_core_that_is_named_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cores.VARIABLE, "python")
    assert serve_once.main([]) == serve_once.main(["python"]) == 0
    assert capsys.readouterr().out.count("hits [0, 8], core python: KVLITMUS_CORE says so\n") == 2
    assert serve_once.main(["native"]) == 1
    assert capsys.readouterr().err == "expected the core native (got python: KVLITMUS_CORE says so)\n"
    monkeypatch.setenv(cores.VARIABLE, "fast")
    assert serve_once.main([]) == 1
    assert "must be one of auto, native, python (got 'fast')" in capsys.readouterr().err


class Nosy:
    """A namespace that uses the tree while it is looked up."""

    def __init__(self, cache: FlatCache) -> None:
        self.cache = cache

    def __hash__(self) -> int:
        return hash("same")

    def __eq__(self, other: object) -> bool:
        self.cache.match([1, 2], "other")
        return False


@needs_native
def test_a_namespace_can_not_use_the_tree_that_looks_it_up() -> None:
    cache = FlatCache(CacheConfig(core="native", page_size=1, pages=8))
    cache.insert([1], cache.pool.take(1), "same")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="must not use the tree that looks it up"):
        cache.match([1], Nosy(cache))
    assert cache.match([1], "same").pages.tolist() == [1]


@needs_native
def test_namespaces_end_with_what_is_cached_of_them() -> None:
    cache = FlatCache(CacheConfig(core="native", page_size=1, pages=4))
    for salt in range(50):
        pages = cache.pool.take(1)
        assert pages is not None
        cache.insert([1], pages, f"salt {salt}")
        assert cache.match([1], f"salt {salt}").pages.tolist() == pages.tolist()
        assert len(cache.evict(1)) == 1
        assert not len(cache.match([1], f"salt {salt}").pages)
    assert not list(cache.tree.opened().roots)


@needs_native
def test_a_view_does_not_outlive_a_row() -> None:
    """What a cache hands out is the caller's own: later calls don't write into it."""
    cache = FlatCache(CacheConfig(core="native", page_size=1, pages=8))
    pages = cache.pool.take(3)
    assert pages is not None
    place = cache.insert([1, 2, 3], pages).place
    listed, units = cache.tree.path_pages(place), cache.tree.path_units(place)
    cache.evict(3)
    assert listed.tolist() == [1, 2, 3] and np.array_equal(units, [1, 2, 3])
