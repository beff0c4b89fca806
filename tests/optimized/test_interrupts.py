"""An exception in the middle of a call: the call was made, or not begun, or all is refused until a reset.

What is done is in :mod:`tests.optimized.support.interrupts`.  By day each call of the compiled core is ended at each of
its bytecodes, each of the Python core at one of eleven, and scenarios of a hierarchy at some; at night all of them.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from kvlitmus.conformance.adapters.optimized.target import OptimizedTarget
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.generate.schedule import draw
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import CONFIGS
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.optimized import cores, testing
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.calls import Calls, TornCache
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.tree import Tree
from tests.optimized.support.fault_desk import Desk
from tests.optimized.support.fault_scenes import KEY, SCENARIOS, WRITES, Scenario, loads_under_a_request
from tests.optimized.support.interrupts import (
    ALL,
    FLAT,
    LAST,
    SIZE,
    TOLD,
    Call,
    Name,
    Stop,
    ToldWorld,
    World,
    ended,
    sweep,
)
from tests.support.lockstep import kinds_of, lockstep
from tests.support.night import by_turns

needs_native = pytest.mark.skipif(bool(cores.lacking()), reason=cores.lacking() or "there is a native core")
CORES = ("python", pytest.param("native", marks=needs_native))
ERRORS = (Stop, KeyboardInterrupt)


def name_and_call(name: str, call: Call) -> Any:
    return pytest.param(call, id=name)


each_call = pytest.mark.parametrize("call", [name_and_call(*item) for item in FLAT.items()])


@pytest.mark.parametrize(
    ("core", "call"),
    [
        pytest.param(core, call, id=f"{name}-{core}", marks=marks + [pytest.mark.nightly] * ((at + turn) % 2))
        for at, (name, call) in enumerate(FLAT.items())
        for turn, (core, marks) in enumerate((("native", [needs_native]), ("python", [])))
    ],
)
def test_a_call_is_made_or_not_begun_or_the_cache_is_torn(core: str, call: Call, request: Any) -> None:
    step = 1 if core == "native" else 11
    number = zlib.crc32(request.node.name.encode())
    found = sweep(partial(World, core), call, ERRORS[number % 2], number % step, step)
    if not found["not begun"]:  # a short call, which one of eleven may miss before it has begun
        found, step = sweep(partial(World, core), call, ERRORS[number % 2], 0, 1), 1
    assert found["not begun"] and sum(found.values()) * step >= 20, found


@pytest.mark.nightly
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, TimeoutError, ValueError])
@pytest.mark.parametrize("core", CORES)
@each_call
def test_the_same_at_every_bytecode(core: str, call: Call, error: type[BaseException]) -> None:
    assert sum(sweep(partial(World, core), call, error, 0, 1).values()) >= 20


@pytest.mark.parametrize(
    ("core", "call"),
    by_turns([(core, call) for call in TOLD for core in ("native", "python")]),
)
def test_what_an_ended_call_has_changed_is_told_or_the_cache_is_torn(core: str, call: str, request: Any) -> None:
    step = 13
    if core == "native" and cores.lacking():
        pytest.skip("there is no native core")
    start = zlib.crc32(request.node.name.encode()) % step
    assert sweep(partial(ToldWorld, core), TOLD[call], Stop, start, step).total() >= 2


@pytest.mark.nightly
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("call", TOLD)
def test_the_same_wherever_it_is_ended(core: str, call: str) -> None:
    sweep(partial(ToldWorld, core), TOLD[call], Stop, 0, 1)


def test_interrupts_of_all_kinds_are_met() -> None:
    """A sweep in which nothing was torn, undone or finished would show nothing."""
    found: Counter[str] = Counter()
    for call in ("a free", "a request that is named", "an allocation"):
        found += sweep(partial(World, "python"), FLAT[call], Stop, 0, 7)
    assert set(found) == {"not begun", "undone", "torn", "finished"}


# -- the sweep itself ------------------------------------------------------------------------------------------------


def _unmarked_take(self: PagePool, count: int) -> Any:
    """Pages are handed out, and nobody says that anything has begun."""
    pages = TAKE(self, count)
    self.calls.changed = False
    return pages


TAKE = PagePool.take


def _whole_or_not(where: Any, name: str) -> tuple[Any, str, Any]:
    """A call that nobody notices the middle of."""
    return where, name, getattr(where, name).__wrapped__


def _never(self: Calls, error: BaseException, outer: bool) -> None:
    """A call that ends by an error has not begun."""
    self.torn = outer


PLANTED: dict[str, tuple[tuple[Any, str, Any], str, str]] = {
    "pages are given back, whole or not": (_whole_or_not(PagePool, "_take_back"), "python", "a free"),
    "an eviction is whole or not": (_whole_or_not(Tree, "evict"), "python", "an eviction"),
    "pages are taken unsaid": ((PagePool, "take", _unmarked_take), "python", "tokens that take pages"),
    "a request that grows has not begun": ((Calls, "ended", _never), "native", "tokens that take pages"),
    "a publication has not begun": ((Calls, "ended", _never), "native", "a publication"),
    "an end has not begun": ((Calls, "ended", _never), "native", "an end"),
    "an unlock has not begun": ((Calls, "ended", _never), "native", "an unlock"),
}


@needs_native
@pytest.mark.parametrize("planted", PLANTED)
def test_a_call_that_is_not_whole_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slip, core, call = PLANTED[planted]
    monkeypatch.setattr(*slip)
    with pytest.raises((AssertionError, ValueError)) as found:
        sweep(partial(World, core), FLAT[call], Stop, 0, 1 if core == "native" else 3)
    assert "bytecode" in " ".join(found.value.__notes__)


# -- and then --------------------------------------------------------------------------------------------------------


class Interrupted(OptimizedTarget):
    """A target whose caches have been interrupted and reset before they are judged."""

    at = 0
    call = FLAT["a reset"]

    def make(self, config: Config) -> Any:
        """A cache that was torn once."""
        adapter = super().make(config)
        cache = adapter.cache
        tokens = list(range(3 * config.page_size))
        cache.begin("before", tokens)
        cache.end("before", keep=True)
        cache.begin("runs", tokens)

        def call() -> None:
            cache.grow("runs", tokens)
            cache.publish("runs")
            cache.evict(config.page_size)
            cache.end("runs", keep=True)

        ended(call, self.at, Stop)
        with suppress(TornCache):
            cache.match(tokens)
        cache.reset(abort=True)
        cache.events()  # a fresh one has nothing to tell
        return adapter


@pytest.mark.parametrize("core", CORES)
def test_after_a_reset_it_is_judged_like_a_fresh_one(core: str) -> None:
    config, reference = CONFIGS[0], ReferenceTarget(PROFILE)
    kinds = kinds_of(SpecimenTarget(), reference, config)
    for seed, at in enumerate((40, 333, 555, 777, 1500, 2500)):
        target = Interrupted(core=core, audited=True)
        target.at = at
        assert lockstep(target, reference, config, draw(seed, 40, kinds)) > 20


class Strange(Name):
    """An id whose hash can be had so often only."""

    def __init__(self, name: str, times: int) -> None:
        super().__init__(name)
        self.times = times

    def __hash__(self) -> int:
        self.times -= 1
        if self.times < 0:
            raise RuntimeError("planted: no hash any more")
        return 7


@pytest.mark.parametrize("core", CORES)
def test_an_id_that_can_not_be_looked_up_any_more_begins_nothing(core: str) -> None:
    world = World(core)
    free, running = world.cache.available(), len(world.cache.requests.running)
    for times in range(2):
        with pytest.raises(RuntimeError, match="no hash any more"):
            world.cache.begin(Strange("new", times), [*LAST, 9, 9])
        assert (world.cache.available(), len(world.cache.requests.running)) == (free, running)
    world.check_homes()
    world.check_empty()


@pytest.mark.parametrize("core", CORES)
def test_an_id_that_can_not_be_looked_up_at_its_end_leaves_nothing_half_done(core: str) -> None:
    for times in range(2):
        world = World(core)
        with pytest.raises(RuntimeError, match="no hash any more"):
            world.cache.end(Strange("named", times), keep=True)
        if world.cache.calls.torn:
            world.check_torn()
        else:
            world.check_homes()
            world.check_empty()


# -- handles ---------------------------------------------------------------------------------------------------------


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda handle: pickle.loads(pickle.dumps(handle)),
    "copy.replace": lambda handle: handle.__replace__(),
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("way", COPIES)
def test_a_receipt_is_worth_one_unlock_however_it_is_copied(core: str, way: str) -> None:
    cache = FlatCache(CacheConfig(core=core, page_size=SIZE, pages=4))
    tokens = [1] * 4
    cache.begin("first", tokens)
    cache.end("first", keep=True)
    receipt = cache.lock(cache.match(tokens).place)
    cache.begin("other", tokens)
    with pytest.raises((TypeError, AttributeError)):
        cache.unlock(COPIES[way](receipt))
    cache.unlock(receipt)
    assert len(cache.evict(ALL)) == 0, "the lock of another's was given back"


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("way", [way for way in COPIES if way != "copy.replace"])
def test_a_copied_place_or_row_is_of_no_other_pages(core: str, way: str) -> None:
    """A place may be copied: it names the same pages, or is refused; what is written into a copied row is not read."""
    world = World(core)
    place, running = world.cache.match(LAST).place, world.cache.requests.running["runs"]
    for handle in (place, running):
        try:
            made = COPIES[way](handle)
        except TypeError:
            continue
        if handle is place:
            with suppress(ValueError):
                world.cache.unlock(world.cache.lock(made))
        elif way != "copy":
            made.row[:] = 0
    world.check_homes()
    world.check_empty()


# -- with tiers ------------------------------------------------------------------------------------------------------


SCENES = [one for one in SCENARIOS if one is not loads_under_a_request]  # whose lock nobody else could give back


def goes_on(desk: Desk) -> bool:
    """What a caller does after an interrupt: it resets a cache that is torn, and ends what it doesn't know of.

    Then everything must be in order, and serve; whether it was torn.
    """
    cache = desk.cache
    torn = cache.calls.torn
    if torn:
        for refused in (cache.tick, cache.events, cache.host_available, lambda: cache.begin(1, [1]), cache.close):
            with pytest.raises(TornCache):
                refused()
        cache.reset(abort=True)
        desk.rows.clear()
        desk.mirror.clear()
        cache.events()
        config = cache.config
        assert cache.available() == config.pages * config.page_size
        assert cache.host_available() == config.host_pages * config.page_size
    for rid in set(cache.requests.running) - set(desk.rows):  # its beginning was made, and nobody was told
        cache.end(rid, keep=False)
    for rid in set(desk.rows) - set(cache.requests.running):
        del desk.rows[rid]
    desk.still_works((6, 6, 6, 5, 5, 5))
    return torn


def sweep_scene(scenario: Scenario, write: str, start: int, step: int) -> Counter[bool]:
    """End a scenario at its bytecodes, so many apart, and go on; how often the cache was torn, and how often not."""
    found: Counter[bool] = Counter()
    at = start
    while True:
        desk = Desk(write)
        if ended(lambda desk=desk: scenario(desk), at, Stop) <= at:  # type: ignore[misc]
            return found
        try:
            found[goes_on(desk)] += 1
        except BaseException as wrong:
            wrong.add_note(f"the scenario was ended at its bytecode {at}")
            raise
        at += step


@pytest.mark.parametrize(
    ("scenario", "write"), by_turns([(scenario, write) for scenario in SCENES for write in WRITES], every=2)
)
def test_a_hierarchy_goes_on_or_is_torn(scenario: Scenario, write: str, request: Any) -> None:
    step = 1001
    assert sweep_scene(scenario, write, zlib.crc32(request.node.name.encode()) % step, step).total() >= 4


@pytest.mark.nightly
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("scenario", SCENES)
def test_a_hierarchy_goes_on_or_is_torn_wherever_it_is_ended(scenario: Scenario, write: str) -> None:
    found = sweep_scene(scenario, write, 0, 4)
    assert found[True] > 500 and found[False] > 300


def sweep_callbacks(scenario: Scenario, write: str) -> Counter[str]:
    """Let each operation of mover and store raise what no handler of errors contains; which they were.

    A ticket that has failed fails for good, which no interrupt does, but where an eviction waits for it.
    """
    found: Counter[str] = Counter()
    while True:
        desk = Desk(write)
        desk.faults.fail_number(found.total())
        with suppress(Stop, MemoryError, TornCache):
            scenario(desk)
        if not desk.faults.struck:
            return found
        found[desk.faults.struck[0]] += 1
        desk.faults.clear()
        if desk.faults.struck[0] in (testing.BACKUP_LATE, testing.LOAD_LATE):
            continue
        try:
            goes_on(desk)
        except BaseException as wrong:
            wrong.add_note(f"operation {found.total()} was interrupted: {desk.faults.struck[0]}")
            raise


@pytest.mark.parametrize(
    "write", [pytest.param(one, marks=[pytest.mark.nightly] * (one != "write_back")) for one in WRITES]
)
def test_an_interrupt_within_a_callback_loses_no_page(write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C within a copy to the host that an eviction waits for, within a load, a backup, a read, a write."""
    monkeypatch.setattr(testing, "FaultError", Stop)
    monkeypatch.setattr(testing.Faults.raises, "__defaults__", (Stop,))
    found: Counter[str] = Counter()
    for scenario in SCENES:
        found += sweep_callbacks(scenario, write)
    back = (testing.SPILL, testing.SPILLED) if write == "write_back" else (testing.BACKUP, testing.WRITE)
    kinds = (testing.LOAD, testing.READ, *back)
    assert [kind for kind in kinds if not found[kind]] == []


class Hanging:
    """A copy that is not over until it is said to be, and whose first waiter is interrupted."""

    error = None

    def __init__(self) -> None:
        self.over = False
        self.waited = False

    def done(self) -> bool:
        """See :class:`Ticket`."""
        return self.over

    def wait(self, timeout: float | None = None) -> bool:
        """See :class:`Ticket`."""
        first, self.waited = not self.waited, True
        if first:
            raise KeyboardInterrupt
        return self.over


@pytest.mark.parametrize("times", range(2))
def test_an_id_that_can_not_be_looked_up_any_more_prefetches_nothing(times: int) -> None:
    desk = Desk()
    desk.keep(KEY)
    desk.cache.evict(ALL)
    desk.cache.evict_host(ALL)
    before = desk.cache.host_available()
    with pytest.raises(RuntimeError, match="no hash any more"):
        desk.cache.prefetch(Strange("ahead", times), list(KEY))
    assert (desk.cache.host_available(), desk.cache.occupied(), desk.cache.jobs()) == (before, 0, [])
    assert not goes_on(desk)


def test_a_copy_whose_eviction_was_interrupted_keeps_its_pages_over_a_reset() -> None:
    """A free-running copy writes to its host page after the reset, too: nobody may have that page until it is over."""
    mover, ticket = NullMover(stepped=False), Hanging()
    config = CacheConfig(page_size=4, pages=4, host_pages=4, write="write_back")
    cache = HierarchicalCache(config, mover, Threads(mover, threads=1))
    cache.begin(1, range(16))
    cache.end(1, keep=True)
    mover.backup = lambda device_pages, host_pages: ticket  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(KeyboardInterrupt):
        cache.evict(16)
    with pytest.raises(TornCache):
        cache.host_available()
    (late,) = cache.reset(0.01, abort=True)
    held = 4 * len(late.host_pages)
    assert held and (cache.available(), cache.host_available()) == (16 - held, 16 - held)
    ticket.over = True
    cache.tick()
    assert (cache.available(), cache.host_available()) == (16, 16)
    cache.close()


# -- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("core", CORES)
def test_a_signal_at_any_moment_serves_nobody_another_s_pages(core: str) -> None:
    source = random.Random(5)

    def stop(*_: object) -> None:
        raise Stop

    prompts = [np.arange(40, dtype=np.int32) + 100 * number for number in range(4)]
    before = signal.signal(signal.SIGALRM, stop)
    torn = 0
    # Numba loads its code at a first call, and bears no interrupt meanwhile.
    use(FlatCache(CacheConfig(page_size=4, pages=24, core=core)), prompts, source, range(500))
    try:
        for _ in range(500):
            cache = FlatCache(CacheConfig(page_size=4, pages=24, core=core))
            torn += interrupted_run(cache, prompts, source)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert torn


def use(cache: FlatCache, prompts: list[Any], source: random.Random, rids: Iterable[int]) -> None:
    """Requests, one after the other."""
    for rid in rids:
        cache.begin(rid, prompts[rid % 4][: source.randrange(4, 40)])
        cache.grow(rid, [1, 2, 3, 4, 5])
        cache.publish(rid)
        cache.end(rid, keep=True)
        cache.evict(source.choice([8, 40]))


def interrupted_run(cache: FlatCache, prompts: list[Any], source: random.Random) -> bool:
    """Requests until a signal comes, and whether that tore the cache; if not, no page is both free and cached."""
    with suppress(Stop):
        signal.setitimer(signal.ITIMER_REAL, source.uniform(1e-4, 8e-3))
        use(cache, prompts, source, itertools.count())  # whatever the machine, the signal comes amid them
    try:
        for left in list(cache.requests.running):
            cache.end(left, keep=False)
        free = set(cache.pool.free_pages().tolist())
        assert not [page for prompt in prompts for page in cache.match(prompt).pages.tolist() if page in free]
    except TornCache:
        cache.reset(abort=True)
        assert cache.available() == 24 * 4
        return True
    return False
