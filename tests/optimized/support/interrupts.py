"""Calls that are ended at one of their bytecodes, whichever, and what is left of the cache then.

A signal handler may raise before any bytecode of the cache's own code.  :func:`ended` does so at a chosen one, without
a signal: with a trace function, so that each is reached exactly.  A call of the compiled core is one bytecode here, as
it is for a signal.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from kvlitmus import optimized
from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.calls import TornCache
from tests.optimized.support.cores import everything, plain

HERE = str(Path(optimized.__file__).parent)
TESTING = str(Path(optimized.__file__).parent / "testing.py")
"""What tests plant; it is no part of the cache."""

SIZE, PAGES = 2, 22
ALL = SIZE * PAGES
FIRST, SECOND, LAST = [1] * 10, [1] * 4 + [2] * 6, [3] * 6


class Stop(BaseException):
    """What a signal handler raises."""


class Name:
    """An id or a namespace that is compared by code of its own: a signal may come there, and it may raise by itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and other.name == self.name


OWN = (Name.__hash__.__code__, Name.__eq__.__code__)


def ended(call: Callable[[], object], at: int, error: type[BaseException]) -> int:
    """Make a call, and raise at its bytecode with this number, from 0 on; how many it came to."""
    count = 0

    def enter(frame: FrameType, event: str, arg: object) -> Any:
        file = frame.f_code.co_filename
        if frame.f_code not in OWN and (not file.startswith(HERE) or file == TESTING):
            return None
        frame.f_trace = step  # first: Python 3.13 tells of no bytecode of a frame that nobody traces yet
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        if event == "opcode":
            count += 1
            if count > at:
                raise error(f"planted: at bytecode {at}, in {frame.f_code.co_qualname}:{frame.f_lineno}")
        return step

    tracing = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except error:
        pass
    finally:
        sys.settrace(tracing)
    return count


class World:
    """A cache in which some prompts are cached, one request runs, and a caller has a lock and pages of its own."""

    def __init__(self, core: str) -> None:
        self.cache = self.make(core)
        for rid, tokens in enumerate((FIRST, SECOND, LAST)):
            self.cache.begin(rid, tokens)
            self.cache.end(rid, keep=True)
        self.receipt = self.cache.lock(self.cache.match(FIRST[:6]).place)
        self.cache.begin("runs", [*SECOND[:6], 5, 5, 5])
        self.cache.begin("vain", [*LAST, 6, 6, 6, 6])
        self.cache.begin(Name("named"), [4] * 3, Name("named"))
        self.cache.begin("waits", [7] * 3)
        self.cache.retract("waits")
        self.pages = self.taken(2)
        self.running = dict(self.cache.requests.running)

    def make(self, core: str) -> Any:
        """A fresh cache."""
        return FlatCache(CacheConfig(core=core, page_size=SIZE, pages=PAGES))

    def taken(self, count: int) -> list[int]:
        """Pages of a caller's own."""
        slots = self.cache.alloc(count * SIZE)
        assert slots is not None
        return [int(slot) // SIZE for slot in slots[::SIZE]]

    def state(self) -> Any:
        """All that the cache is, and what runs."""
        tree = self.cache.tree.opened()
        running = {rid: plain(one) for rid, one in self.cache.requests.running.items()}
        retracted = {rid: one.tokens.tolist() for rid, one in self.cache.requests.retracted.items()}
        return everything(tree, tree.pool), running, retracted, self.receipt.place is None

    def spare(self, number: int) -> list[int]:
        """The first pages of the caller's own."""
        return self.pages[:number]

    def check_told(self) -> None:
        """Nobody listens."""

    def check_homes(self) -> None:
        """Counters and links are right, and each page is cached, free, or in one's hands."""
        tree = self.cache.tree.opened()
        audit(tree)
        homes = [*self.cache.pool.free_pages().tolist(), *self.pages]
        homes += [page for branch in tree.branches() for page in branch.dev_pages[: branch.dev].tolist()]
        for one in self.cache.requests.running.values():
            homes += (one.row[one.cached :: SIZE] // SIZE).tolist()
        assert sorted(homes) == list(range(1, PAGES + 1)), "pages are lost, or have two owners"

    def check_empty(self) -> None:
        """When everybody has given back what is his, all pages become free."""
        for rid in list(self.cache.requests.running):
            self.cache.end(rid, keep=False)
        if self.receipt.place is not None:
            self.cache.unlock(self.receipt)
        self.cache.free(np.repeat(np.array(self.pages) * SIZE, SIZE) + np.tile(np.arange(SIZE), len(self.pages)))
        self.cache.evict(ALL)
        assert (self.cache.available(), self.cache.sizes()) == (ALL, (0, 0)), "pages are lost, or locked by nobody"

    def check_torn(self) -> None:
        """Everything is refused; after a reset everything is there, and serves."""
        cache, place = self.cache, self.running["runs"].place
        for refused in (
            lambda: cache.match(FIRST),
            lambda: cache.resume(place, [5]),
            lambda: cache.insert(FIRST, range(1, 6)),
            lambda: cache.insert_behind(place, [5, 5], [1]),
            lambda: cache.lock(place),
            lambda: cache.unlock(self.receipt),
            lambda: cache.evict(ALL),
            cache.flush,
            lambda: cache.alloc(SIZE),
            lambda: cache.free([SIZE, SIZE + 1]),
            lambda: cache.begin("other", FIRST),
            lambda: cache.fork("other", "runs"),
            lambda: cache.retract("runs"),
            lambda: cache.resume_request("waits"),
            lambda: cache.discard("waits"),
            lambda: cache.grow("runs", [1]),
            lambda: cache.take_back("runs", 1),
            lambda: cache.publish("runs"),
            lambda: cache.end("runs", keep=True),
            cache.available,
            cache.sizes,
            cache.events,
        ):
            with pytest.raises(TornCache, match="reset"):
                refused()
        cache.reset(abort=True)
        assert (cache.available(), cache.sizes()) == (ALL, (0, 0)), "a reset does not bring everything back"
        cache.begin("after", FIRST)
        cache.end("after", keep=True)
        assert len(cache.match(FIRST).pages) == len(FIRST) // SIZE


class ToldWorld(World):
    """The same, with a listener."""

    def make(self, core: str) -> Any:
        """A fresh cache that tells events."""
        self.there: set[str] = set()
        return FlatCache(CacheConfig(core=core, page_size=SIZE, pages=PAGES), events=True)

    def check_told(self) -> None:
        """Whoever replays the events has what is cached, but for a namespace that is no text."""
        for told in self.cache.events():
            if told.what in ("cleared", "overflow"):
                self.there.clear()
            elif told.what == "stored":
                assert told.page not in self.there and (told.parent is None or told.parent in self.there)
                self.there.add(told.page)
            else:
                self.there.remove(told.page)
        tree = self.cache.tree
        named = [one for one in tree.branches() if not isinstance(one.namespace, Name)]
        cached = [page for one in named for page in self.cache.names.names(tree.place(one, one.n), one.base)]
        assert sorted(self.there) == sorted(cached), "the events tell something else than there is"

    def check_torn(self) -> None:
        """And after a reset everything is told anew."""
        super().check_torn()
        self.check_told()


Call = Callable[[World], object]

FLAT: dict[str, Call] = {
    "a match within a branch": lambda world: world.cache.match([*FIRST[:8], 9, 9]),
    "a match of nothing": lambda world: world.cache.match([8, 8], "other"),
    "a match from a place on": lambda world: world.cache.resume(world.receipt.place, FIRST[6:]),
    "an insert that hangs a branch": lambda world: world.cache.insert([7] * 4, world.spare(2), "other"),
    "an insert that grows a branch": lambda world: world.cache.insert([*LAST, 9, 9, 9, 9], [1, 2, 3, *world.pages]),
    "an insert behind a place": lambda world: world.cache.insert_behind(world.receipt.place, [8] * 4, world.spare(2)),
    "a lock": lambda world: world.cache.lock(world.cache.match(SECOND).place),
    "an unlock": lambda world: world.cache.unlock(world.receipt),
    "an eviction": lambda world: world.cache.evict(3 * SIZE),
    "a flush, and a match": lambda world: (world.cache.flush(), world.cache.match(FIRST)),
    "an allocation": lambda world: world.cache.alloc(SIZE),
    "a free": lambda world: world.cache.free([slot + page * SIZE for page in world.pages for slot in range(SIZE)]),
    "a request that shares": lambda world: world.cache.begin("new", [*FIRST, 4]),
    "a request that evicts": lambda world: world.cache.begin("new", [9] * 11),
    "a request without room": lambda world: world.cache.begin("new", [9] * ALL),
    "a fork": lambda world: world.cache.fork("new", "runs"),
    "a fork that evicts": lambda world: [world.cache.fork(rid, "vain") for rid in ("new", "more")],
    "a fork without room": lambda world: (world.cache.grow("runs", [5] * 14), world.cache.fork("new", "runs")),
    "a fork of one that is named": lambda world: world.cache.fork(Name("new"), Name("named")),
    "a retraction": lambda world: world.cache.retract("vain"),
    "a retraction of one that is named": lambda world: world.cache.retract(Name("named")),
    "a resumption": lambda world: world.cache.resume_request("waits"),
    "a resumption without room": lambda world: [
        world.cache.begin("new", [8] * 16),
        world.cache.resume_request("waits"),
    ],
    "a discard": lambda world: [world.cache.discard("waits"), world.cache.match(LAST)],
    "a token within a page": lambda world: world.cache.grow("runs", [5]),
    "tokens that take pages": lambda world: world.cache.grow("runs", [5] * 8),
    "tokens without room": lambda world: world.cache.grow("runs", [5] * ALL),
    "tokens taken back": lambda world: world.cache.take_back("vain", 4),
    "a publication": lambda world: world.cache.publish("runs"),
    "a part of one": lambda world: world.cache.publish("vain", upto=8),
    "an end": lambda world: world.cache.end("runs", keep=True),
    "an end of a part": lambda world: world.cache.end("vain", keep=8),
    "an abort": lambda world: world.cache.end("vain", keep=False),
    "a match in a namespace like others": lambda world: world.cache.match([4] * 2, Name("new")),
    "a request that is named": lambda world: world.cache.begin(Name("new"), [*LAST, 4], Name("new")),
    "tokens of one that is named": lambda world: world.cache.grow(Name("named"), [4] * 3),
    "a publication of one that is named": lambda world: world.cache.publish(Name("named")),
    "an end of one that is named": lambda world: world.cache.end(Name("named"), keep=True),
    "a reset": lambda world: world.cache.reset(abort=True),
}
"""The calls of a scheduler, in the world as it is."""

TOLD: dict[str, Call] = {
    name: FLAT[name] for name in FLAT if name.startswith(("an insert", "a request", "a reset"))
} | {
    "a flush": lambda world: world.cache.flush(),
    "an eviction": FLAT["an eviction"],
    "tokens that take pages": FLAT["tokens that take pages"],
    "a publication": FLAT["a publication"],
    "an end of a part": FLAT["an end of a part"],
}
"""Those of which there is something to tell."""


def outcome(
    make: Callable[[], World], call: Call, at: int, error: type[BaseException], before: Any, after: Any
) -> str | None:
    """What has become of a call that was ended at a bytecode; ``None`` where it has no such."""
    world = make()
    if ended(lambda: call(world), at, error) <= at:
        return None
    if world.cache.calls.torn:
        world.check_torn()
        return "torn"
    world.check_told()
    state = world.state()
    if state == before:
        return "not begun"
    if state == after:
        return "finished"
    world.check_homes()
    world.check_empty()
    return "undone"


def sweep(make: Callable[[], World], call: Call, error: type[BaseException], start: int, step: int) -> Counter[str]:
    """End a call at each bytecode from the first on, so many apart; how often what became of it."""
    world = make()
    call(world)
    before, after = make().state(), world.state()
    found: Counter[str] = Counter()
    at = start
    while (became := said(make, call, at, error, before, after)) is not None:
        found[became] += 1
        at += step
    return found


def said(
    make: Callable[[], World], call: Call, at: int, error: type[BaseException], before: Any, after: Any
) -> str | None:
    """The outcome; what is wrong is said with the bytecode."""
    try:
        return outcome(make, call, at, error, before, after)
    except BaseException as wrong:
        wrong.add_note(f"the call was ended at its bytecode {at}")
        raise
