"""Both cores of the optimized cache, side by side: the same calls, the same answers, errors and state.

Everything that a flat cache can be asked is asked of both: with lawful arguments, with stale and foreign places, with
pages that can't be cached or freed.  Answers are compared value by value, errors by type and text, and after a call the
compiled tree, opened, is compared with the Python one in every part that it has (:func:`everything`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.branch import Branch, Found, Inserted, Match
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.event import CacheEvent
from kvlitmus.optimized.kernels import HEAP
from kvlitmus.optimized.levels import Level
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.request import Running
from kvlitmus.optimized.tree import Tree

NAMESPACES = (None, "lora", 7, ("a", 1))
REACH = 9
"""Pages of the longest key."""


def _level(level: Level) -> Any:
    return level if isinstance(level, int) else list(level)


def _branch(branch: Branch, size: int) -> Any:
    nodes = branch.nodes if isinstance(branch.nodes, int) else (list(branch.nodes.starts), list(branch.nodes.counts))
    return {
        "namespace": branch.namespace,
        "parent": branch.parent.uid if branch.parent is not None else None,
        "at": branch.at,
        "base": branch.base,
        "units": branch.units[: branch.n * size].tolist(),
        "pages": branch.dev_pages[: branch.n].tolist(),
        "room": len(branch.dev_pages),
        "levels": [_level(branch.touched), _level(branch.created), _level(branch.priority)],
        "nodes": nodes,
        "locks": branch.locks,
        "children": [(child.at, child.uid) for child in (branch.children or {}).values()],
        "resident_at": branch.resident_at or None,
        "digests": None if branch.digests is None else bytes(branch.digests),
    }


def everything(tree: Tree, pool: PagePool) -> dict[str, Any]:
    """All that a tree and its pool are, in plain values."""
    victims = tree.victims
    entries = victims.places[HEAP, : victims.size].tolist()
    return {
        "counters": (tree.clock, tree.evictable, tree.protected),
        "roots": list(tree.roots),
        "order": [branch.uid for branch in tree.branches()],
        "branches": {uid: _branch(branch, tree.page_size) for uid, branch in sorted(tree.by_uid.items())},
        "free numbers": list(tree.free_uids),
        "heap": [(uid, tuple(victims.keys[uid].tolist())) for uid in entries],
        "free": pool.stack[: pool.free_count].tolist(),
        "states": pool.state.tolist(),
    }


def plain(answer: Any) -> Any:
    """An answer in values that can be compared; a place is where it is, and when it was named."""
    if isinstance(answer, Found):
        return ("found", plain_place(answer.place), answer.resident, answer.known)
    if isinstance(answer, Inserted):
        return ("inserted", answer.already, plain_place(answer.place))
    if isinstance(answer, Match):
        return ("match", answer.pages.tolist(), plain_place(answer.place), answer.behind, plain_place(answer.known))
    if isinstance(answer, Running):
        return ("running", answer.row.tolist(), answer.tokens.tolist(), answer.cached, plain_place(answer.place))
    if isinstance(answer, np.ndarray):
        return (str(answer.dtype), answer.tolist())
    if isinstance(answer, list):
        return [plain(one) for one in answer]
    if isinstance(answer, CacheEvent):
        return (*answer[:4], plain(answer.units), answer.namespace)
    return answer


def plain_place(place: Any) -> Any:
    """A place in plain values."""
    return (place.branch.uid, place.branch.namespace, place.end, place.tick)


class Cores:
    """A flat cache with each core, and what their callers hold."""

    def __init__(
        self,
        *,
        page_size: int,
        pages: int,
        policy: str,
        bigram: bool = False,
        dtype: str = "int32",
        events: bool = False,
    ) -> None:
        self.config = {"page_size": page_size, "pages": pages, "policy": policy, "bigram": bigram, "dtype": dtype}
        self.size = page_size
        self.caches = [FlatCache(CacheConfig(core=core, **self.config), events=events) for core in ("native", "python")]  # type: ignore[arg-type]
        self.foreign = [FlatCache(CacheConfig(core=core, **self.config)) for core in ("native", "python")]  # type: ignore[arg-type]
        self.places: list[list[Any]] = [[cache.match([1]).place for cache in self.foreign]]
        self.receipts: list[list[Any]] = []
        self.held: list[Any] = []
        self.rids: list[int] = []
        self.retracted: list[int] = []
        self.next_rid = 0
        self.steps = 0

    # -- calls -----------------------------------------------------------------------------------

    def both(self, call: Callable[[Any, int], Any]) -> list[Any]:
        """Call both; returns what they answered, or the errors that they raised, once these are the same."""
        answers: list[Any] = []
        for which, cache in enumerate(self.caches):
            try:
                answers.append(call(cache, which))
            except (ValueError, KeyError, TypeError) as error:
                answers.append(error)
        mine, other = answers
        if isinstance(other, Exception):
            assert type(mine) is type(other) and str(mine) == str(other), (mine, other)
        else:
            assert plain(mine) == plain(other), (plain(mine), plain(other))
        self.steps += 1
        return answers

    def compare(self) -> None:
        """Both have the same state, and it is in order, and have told the same."""
        native, python = self.caches
        self.both(lambda cache, _: cache.events())
        opened = native.tree.opened()
        mine, other = everything(opened, opened.pool), everything(python.tree, python.pool)
        for part in other:
            assert mine[part] == other[part], (part, mine[part], other[part])
        audit(opened)

    def key(self, source: random.Random) -> tuple[Any, list[int]]:
        """A namespace, and tokens that share much with others'."""
        pages, size = source.randrange(REACH + 1), self.size
        tokens = [source.randrange(2) if at % size == size - 1 else 5 for at in range(pages * size)]
        tokens += [3] * source.randrange(size + 1)
        if source.random() < 0.3 and tokens:
            tokens = [0] * (len(tokens) // 2) + tokens[len(tokens) // 2 :]
        return source.choice(NAMESPACES[: 2 if source.random() < 0.9 else 4]), tokens

    def keep(self, answers: list[Any], part: str) -> None:
        """Keep the places of answers."""
        if not isinstance(answers[0], Exception):
            self.places.append([getattr(answer, part) for answer in answers])
            del self.places[1:-40]

    def pages(self, source: random.Random, count: int) -> list[Any]:
        """Pages to offer: fresh ones, mostly."""
        taken = self.both(lambda cache, _: cache.pool.take(count))
        if taken[0] is None:
            self.both(lambda cache, _: cache.evict(count * self.size))
            taken = self.both(lambda cache, _: cache.pool.take(count))
        if taken[0] is None:
            return [np.arange(count, dtype=np.int64), np.arange(count, dtype=np.int64)]
        pages = [taken[0].copy(), taken[1].copy()]
        self.held += taken[0].tolist()
        if count and source.random() < 0.12:
            at, wrong = source.randrange(count), source.randrange(-1, self.caches[0].config.pages + 3)
            for one in pages:
                one[at] = wrong
        kind = source.choice(("int32", "int64", "list", "uint16", "strided"))
        if kind == "list":
            return [one.tolist() for one in pages]
        if kind == "strided":
            return [np.repeat(one, 2)[::2] for one in pages]
        return [one.astype(kind) for one in pages]

    def match(self, source: random.Random) -> None:
        namespace, tokens = self.key(source)
        given = np.array(tokens, source.choice(("int32", "int64", "int16"))) if source.random() < 0.8 else tokens
        self.both(lambda cache, _: cache.tree.find(namespace, cache.units(given)))
        answers = self.both(lambda cache, _: cache.match(given, namespace))
        self.keep(answers, "place")
        self.both(lambda cache, which: cache.tree.path_units(answers[which].place, len(tokens) % 3))
        self.both(lambda cache, which: [run[1:] for run in cache.tree.runs(answers[which].place, len(tokens) % 3)])
        self.both(lambda cache, which: cache.tree.hits(answers[which].place))
        depth = source.randrange(REACH + 1)
        self.both(lambda cache, which: plain_place(cache.tree.ascend(answers[which].place, depth)))

    def insert(self, source: random.Random) -> None:
        namespace, tokens = self.key(source)
        pages = self.pages(source, max(0, len(tokens) - self.caches[0].config.bigram) // self.size)
        priority, chunked = source.choice((0, 0, 1, -2, 2**62, 2**62 + 1, True)), source.random() < 0.3
        answers = self.both(
            lambda cache, which: cache.insert(tokens, pages[which], namespace, priority=priority, chunked=chunked)
        )
        self.settle(answers, pages)

    def settle(self, answers: list[Any], pages: list[Any]) -> None:
        """Free duplicates, with the call in which the tree says whose pages these are."""
        self.keep(answers, "place")
        kept = set() if isinstance(answers[0], Exception) else {int(page) for page in pages[0]}
        for page in sorted({int(page) for page in self.held}):
            if page in kept or len(self.held) > 8:
                self.both(lambda cache, _, page=page: cache.pool.give_back([page]))  # type: ignore[misc]
        self.held = []

    def insert_behind(self, source: random.Random) -> None:
        places = source.choice(self.places)
        _, tokens = self.key(source)
        pages = self.pages(source, source.randrange(4))
        answers = self.both(lambda cache, which: cache.insert_behind(places[which], tokens, pages[which]))
        self.settle(answers, pages)

    def resume(self, source: random.Random) -> None:
        locked = [places for places, _ in self.receipts]
        places = source.choice(locked if locked and source.random() < 0.7 else self.places)
        _, tokens = self.key(source)
        self.keep(self.both(lambda cache, which: cache.resume(places[which], tokens)), "place")

    def lock(self, source: random.Random) -> None:
        places = source.choice(self.places)
        answers: list[Any] = []

        def lock(cache: Any, which: int) -> None:
            answers.append(cache.lock(places[which]))

        self.both(lock)
        if len(answers) == 2:
            self.receipts.append([places, answers])

    def unlock(self, source: random.Random) -> None:
        if not self.receipts:
            return
        at = source.randrange(len(self.receipts))
        _, receipts = self.receipts[at] if source.random() < 0.1 else self.receipts.pop(at)
        self.both(lambda cache, which: cache.unlock(receipts[which]))

    def unlock_place(self, source: random.Random) -> None:
        places = source.choice(self.places)
        held = [one[0] for one in self.receipts]
        if not any(one is places for one in held):
            names = {plain_place(one[0])[:3] for one in held if one[0].branch.n}
            if plain_place(places[0])[:3] not in names and self.safe(places):
                self.both(lambda cache, which: cache.tree.unlock(places[which]))

    def safe(self, places: list[Any]) -> bool:
        """Whether no request holds a lock of this place, which would be taken from it."""
        return all(plain_place(run.place)[:3] != plain_place(places[0])[:3] for run in self.running())

    def running(self) -> list[Any]:
        return list(self.caches[0].requests.running.values())

    def evict(self, source: random.Random) -> None:
        wanted = source.choice((0, 1, 1, 2, 3, 100)) * self.size
        self.both(lambda cache, _: cache.evict(wanted))

    def flush(self, source: random.Random) -> None:
        self.both(lambda cache, _: cache.flush())

    def group(self, source: random.Random) -> None:
        begin = source.random() < 0.5
        self.both(lambda cache, _: cache.pool.group_begin() if begin else cache.pool.group_end())

    def free(self, source: random.Random) -> None:
        """Free pages that may be anybody's but a request's: of a tree, free, none at all, part of one."""
        own = {int(slot) // self.size for run in self.running() for slot in run.row}
        page = source.randrange(-2, self.caches[0].config.pages + 3)
        if page not in own:
            slots = [page * self.size + at for at in range(self.size - (source.random() < 0.2))]
            self.both(lambda cache, _: cache.free(slots))

    def alloc(self, source: random.Random) -> None:
        wanted = source.randrange(-1, 3) * self.size + (source.random() < 0.1)
        got = self.both(lambda cache, _: cache.alloc(wanted))
        if isinstance(got[0], np.ndarray):
            self.both(lambda cache, which: cache.free(got[which]))

    # -- requests --------------------------------------------------------------------------------

    def begin(self, source: random.Random) -> None:
        namespace, tokens = self.key(source)
        rid = self.next_rid if source.random() < 0.9 else source.choice(self.rids or [0])
        self.next_rid += 1
        priority = source.choice((0, 0, 1, -1))
        answers = self.both(lambda cache, _: cache.begin(rid, tokens, namespace, priority=priority))
        if isinstance(answers[0], Running):
            self.rids.append(rid)
            self.keep(answers, "place")

    def fork(self, source: random.Random) -> None:
        of = source.choice(self.rids or [99])
        rid = self.next_rid if source.random() < 0.9 else of
        self.next_rid += 1
        answers = self.both(lambda cache, _: cache.fork(rid, of))
        if isinstance(answers[0], Running):
            self.rids.append(rid)
            self.keep(answers, "place")

    def retract(self, source: random.Random) -> None:
        rid = source.choice([*self.rids, *self.retracted, 99])
        if not isinstance(self.both(lambda cache, _: cache.retract(rid))[0], Exception):
            self.rids.remove(rid)
            self.retracted.append(rid)

    def resume_request(self, source: random.Random) -> None:
        rid = source.choice(self.retracted or [99])
        if source.random() < 0.2:
            self.both(lambda cache, _: cache.discard(rid))
            self.retracted = [one for one in self.retracted if one != rid]
        elif isinstance(self.both(lambda cache, _: cache.resume_request(rid))[0], Running):
            self.retracted.remove(rid)
            self.rids.append(rid)

    def grow(self, source: random.Random) -> None:
        rid = source.choice(self.rids or [99])
        tokens = self.key(source)[1][: source.randrange(2 * self.size + 1)]
        self.both(lambda cache, _: cache.grow(rid, tokens))

    def publish(self, source: random.Random) -> None:
        rid, upto = source.choice(self.rids or [99]), source.choice((None, source.randrange(3 * self.size)))
        chunked = source.random() < 0.5
        self.both(lambda cache, _: cache.publish(rid, chunked=chunked, upto=upto))

    def end(self, source: random.Random) -> None:
        rid = source.choice(self.rids or [99])
        keep = source.choice((True, False, source.randrange(3 * self.size)))
        answers = self.both(lambda cache, _: cache.end(rid, keep=keep))
        if not isinstance(answers[0], Exception):
            self.rids.remove(rid)

    def reset(self, source: random.Random) -> None:
        if source.random() < 0.1:
            self.both(lambda cache, _: cache.reset(abort=True))
            self.rids.clear()
            self.retracted.clear()
            self.receipts.clear()


CALLS: dict[str, int] = {
    "match": 5,
    "insert": 6,
    "insert_behind": 2,
    "resume": 2,
    "lock": 3,
    "unlock": 3,
    "unlock_place": 1,
    "evict": 2,
    "flush": 1,
    "group": 1,
    "free": 1,
    "alloc": 1,
    "begin": 3,
    "fork": 2,
    "retract": 2,
    "resume_request": 2,
    "grow": 2,
    "publish": 2,
    "end": 3,
    "reset": 1,
}
"""What is called, and how often."""


def play(cores: Cores, source: random.Random, calls: int, every: int = 1) -> int:
    """So many calls of both, compared after each ``every``-th; returns how many steps these were."""
    names = source.choices(list(CALLS), list(CALLS.values()), k=calls)
    for at, name in enumerate(names):
        getattr(cores, name)(source)
        if at % every == 0:
            cores.compare()
    cores.compare()
    return cores.steps
