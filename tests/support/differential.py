"""Two caches as one adapter: whatever the first one does, the second one has to do, too.

A :class:`DifferentialAdapter` has the ports that both have.  It hands every call to both, compares what they answer and
what they raise, compares whatever is looked at, and answers as the first one does.  Under a checker, which looks at
everything after every call, that makes a lock step: tree, nodes, locks, hits, priorities, pins, both free lists, what
is under way and how far, counters, events, and what is asked of storage.

**Slots are compared by what they stand for.**  Which free page is taken is nobody's promise, so the two may number
their pages differently: after every call there must be a one-to-one relation between the pages in use on either side
(:class:`Relation`).  Everything else must be equal.

**Memory for a cache's own records runs out in neither**: when it is taken is nobody's promise either.

What differs raises :class:`Difference`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kvlitmus.conformance.ports import PORTS, Begun, Hit, Stored
from kvlitmus.spec.interface.plans import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.interface.tiers import Event, Job, Loaded, Outcome, PageStore, Prefetched
from kvlitmus.spec.words.units import Key
from tests.support.differential_store import Recorder, Replayer

DEVICE, HOST = "device", "host"
MEMORY = "memory_faults"


class Difference(AssertionError):
    """The two caches differ; the text says in what."""


class Relation:
    """Which page of the first cache is which of the second, on one tier."""

    def __init__(self, tier: str, size: int) -> None:
        self.tier = tier
        self.size = size
        self.pages: dict[int, int] = {}

    def pairs(self, one: Sequence[int], other: Sequence[int]) -> dict[int, int]:
        """The pages of two sequences of slots that stand for the same; raises :class:`Difference`."""
        if len(one) != len(other):
            raise Difference(f"{len(one)} slots on the {self.tier}, and {len(other)}: {list(one)}, {list(other)}")
        found: dict[int, int] = {}
        size = self.size
        for left, right in zip(one, other, strict=True):
            if left % size != right % size or found.setdefault(left // size, right // size) != right // size:
                raise Difference(f"slot {left} is at another place of its page than {right}, or of another page")
        return found

    def whole(self, one: Sequence[int], other: Sequence[int]) -> dict[int, int]:
        """The same for the slots of whole pages in order, as they are in snapshots."""
        if len(one) != len(other):
            raise Difference(f"{len(one)} slots on the {self.tier}, and {len(other)}: {list(one)}, {list(other)}")
        size = self.size
        return {left // size: right // size for left, right in zip(one[::size], other[::size], strict=True)}

    def renew(self, pairs: dict[int, int], free: Sequence[int], other_free: Sequence[int]) -> None:
        """After a call: ``pairs`` are the pages that trees and requests use; others in use are still the same."""
        if len(free) != len(other_free):
            raise Difference(f"{len(free)} pages are free on the {self.tier}, and {len(other_free)}")
        gone, other_gone = frozenset(free), frozenset(other_free)
        new = {left: right for left, right in self.pages.items() if left not in gone and right not in other_gone}
        taken = frozenset(pairs.values())
        new = {left: right for left, right in new.items() if left not in pairs and right not in taken} | pairs
        if len(frozenset(new.values())) < len(new) or not gone.isdisjoint(new) or not other_gone.isdisjoint(taken):
            raise Difference(
                f"pages in use on the {self.tier} are no pairs: {new}, free {list(free)}, {list(other_free)}"
            )
        self.pages = new

    def other(self, slots: Iterable[int]) -> list[int]:
        """The second cache's slots for these of the first one; what the first one never gave stays what it is."""
        size, pages = self.size, self.pages
        return [pages.get(slot // size, slot // size) * size + slot % size for slot in slots]


class EventPaths:
    """What one of the two calls its pages in events; here a page is its path, whatever it is called."""

    def __init__(self) -> None:
        self.paths: dict[object, tuple[object, ...]] = {}

    def net(self, events: Sequence[Event]) -> set[tuple[object, ...]]:
        """What is different after these events: who tells of a page that came and went again says no more than who
        does not.
        """
        told: dict[tuple[object, ...], list[str]] = {}
        for event in events:
            if event.what == "cleared":
                told = {("everything",): [event.what]}
                continue
            if event.what == "stored":
                above = None if event.parent is None else self.paths.get(event.parent, ("nowhere",))
                self.paths[event.page] = (event.namespace, above, tuple(event.units))
            told.setdefault((event.tier, self.paths.get(event.page)), []).append(event.what)
        return {(whats[-1], *page) for page, whats in told.items() if whats[0] == whats[-1]}


class DifferentialAdapter:
    """The ports of two caches at once; ``first`` answers, ``second`` is compared with it."""

    def __init__(self, first: Any, second: Any, page_size: int) -> None:
        self.first = first
        self.second = second
        self.device = Relation(DEVICE, page_size)
        self.host = Relation(HOST, page_size)
        self.rows: dict[int, tuple[Sequence[int], Sequence[int]]] = {}
        self.numbers: dict[int, int] = {}
        self.recorder: Recorder | None = None
        self.paths: dict[object, int] = {}
        self.told = EventPaths(), EventPaths()
        for port, methods in PORTS.items():
            if port != "memory_faults" and all(
                callable(getattr(side, name, None)) for side in (first, second) for name in methods
            ):
                for name in methods:
                    setattr(self, name, getattr(self, f"_{name}", None) or self.plain(name))

    # -- calling both ----------------------------------------------------------------------------

    def plain(self, name: str) -> Callable[..., Any]:
        """A call whose arguments and answer mean the same to both."""

        def call(*args: Any) -> Any:
            one, other = self.both(name, args, args)
            return self.equal(name, one, other)

        return call

    def both(
        self, name: str, args: Sequence[Any], others: Sequence[Any], options: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Make a call on both sides; what one of them raises, the other one has to raise, and it is raised here."""
        raised: Exception | None = None
        one = other = None
        options = options or {}
        try:
            one = getattr(self.first, name)(*args, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other one must do it, too
            raised = error
        try:
            other = getattr(self.second, name)(*others, **options)
        except Exception as error:
            if raised is None:
                raise Difference(f"{name}: the first answers {one!r}, the second raises {error!r}") from error
        else:
            if raised is not None:
                raise Difference(f"{name}: the first raises {raised!r}, the second answers {other!r}") from raised
        if raised is not None:
            raise raised
        return one, other

    def equal(self, name: str, one: Any, other: Any) -> Any:
        """Both answers, which must be equal; raises :class:`Difference`."""
        if one != other:
            raise Difference(f"{name}: {one!r} is not {other!r}")
        return one

    def slots(self, name: str, one: Sequence[int] | None, other: Sequence[int] | None) -> None:
        """Both answers, as slots; they become pairs until the next look."""
        if one is None or other is None:
            self.equal(name, one, other)
        else:
            self.device.pages.update(self.device.pairs(one, other))

    # -- pool ------------------------------------------------------------------------------------

    def _alloc(self, n: int) -> Sequence[int] | None:
        one, other = self.both("alloc", (n,), (n,))
        self.slots("alloc", one, other)
        return one  # type: ignore[no-any-return]

    def _free(self, slots: Sequence[int]) -> None:
        self.both("free", (slots,), (self.device.other(slots),))

    def _alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        last_too = [slot if slot < 0 else self.device.other([slot])[0] for slot in last]
        one, other = self.both("alloc_extend", (before, after, last), (before, after, last_too))
        self.slots("alloc_extend", one, other)
        return one  # type: ignore[no-any-return]

    def _alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        last_too = [slot if slot < 0 else self.device.other([slot])[0] for slot in last]
        one, other = self.both("alloc_decode", (after, last), (after, last_too))
        self.slots("alloc_decode", one, other)
        return one  # type: ignore[no-any-return]

    # -- tree and requests -----------------------------------------------------------------------

    def _match(self, key: Key) -> Hit:
        one, other = self.both("match", (key,), (key,))
        self.equal("match", (one.length, one.host), (other.length, other.host))
        if self.device.other(one.slots) != list(other.slots):
            raise Difference(f"match: {list(one.slots)} are not {list(other.slots)}")
        return Hit(one.length, one.slots, (one.handle, other.handle), one.host)

    def _insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        how = {"protected": protected, "priority": priority, "chunked": chunked}
        one, other = self.both("insert", (key, slots), (key, self.device.other(slots)), how)
        self.equal("insert", one.already, other.already)
        if one.to_free is not None and other.to_free is not None:
            self.equal("insert: to free", self.device.other(one.to_free), list(other.to_free))
        return one  # type: ignore[no-any-return]

    def _lock(self, handle: object) -> object:
        assert isinstance(handle, tuple)
        return self.both("lock", handle[:1], handle[1:])

    def _unlock(self, receipt: object) -> None:
        assert isinstance(receipt, tuple)
        self.both("unlock", receipt[:1], receipt[1:])

    def _begin(self, rid: int, key: Key) -> Begun | None:
        one, other = self.both("begin", (rid, key), (rid, key))
        return self.begun("begin", rid, one, other)

    def _publish(self, rid: int, *, chunked: bool) -> Begun | None:
        one, other = self.both("publish", (rid,), (rid,), {"chunked": chunked})
        return self.begun("publish", rid, one, other)

    def begun(self, name: str, rid: int, one: Begun | None, other: Begun | None) -> Begun | None:
        """Both rows of a request, which must come to the same."""
        if one is None or other is None:
            return self.equal(name, one, other)  # type: ignore[no-any-return]
        self.equal(name, one.cached, other.cached)
        self.rows[rid] = one.row, other.row
        self.slots(name, one.row, other.row)
        return one

    def _grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        one, other = self.both("grow", (rid, tokens), (rid, tokens))
        self.slots("grow", one, other)
        if one is not None:
            row, row_too = self.rows[rid]
            self.rows[rid] = [*row, *one], [*row_too, *other]
        return one  # type: ignore[no-any-return]

    def _take_back(self, rid: int, n: int) -> Any:
        freed = self.equal("take_back", *self.both("take_back", (rid, n), (rid, n)))
        self.rows[rid] = tuple(row[: len(row) - n] for row in self.rows[rid])  # type: ignore[assignment]
        return freed

    def _fork(self, rid: int, of: int) -> Begun | None:
        return self.begun("fork", rid, *self.both("fork", (rid, of), (rid, of)))

    def _retract(self, rid: int) -> Any:
        done = self.equal("retract", *self.both("retract", (rid,), (rid,)))
        if done:
            self.rows.pop(rid, None)
        return done

    def _resume(self, rid: int) -> Begun | None:
        return self.begun("resume", rid, *self.both("resume", (rid,), (rid,)))

    def _flush(self) -> Any:
        return self.equal("flush", *self.both("flush", (), ()))

    def _discard(self, rid: int) -> None:
        self.both("discard", (rid,), (rid,))

    def _end(self, rid: int, *, keep: bool) -> None:
        self.both("end", (rid,), (rid,), {"keep": keep})
        self.rows.pop(rid, None)

    def _publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun | None:
        one, other = self.both("publish_upto", (rid, upto), (rid, upto), {"chunked": chunked})
        return self.begun("publish_upto", rid, one, other)

    def _end_upto(self, rid: int, upto: int) -> None:
        self.both("end_upto", (rid, upto), (rid, upto))
        self.rows.pop(rid, None)

    def _reset(self) -> None:
        self.both("reset", (), ())
        self.rows.clear()
        self.device.pages.clear()
        self.host.pages.clear()

    def _plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        same: Any = copy.deepcopy(host)
        one, other = self.both("plan_prefetch", (ask, host), (ask, same))
        self.equal("what a plan did to its host", getattr(host, "calls", None), getattr(same, "calls", None))
        return self.equal("plan_prefetch", one, other)  # type: ignore[no-any-return]

    def _page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        one, other = self.both("page_hashes", (key, page_size, prior), (key, page_size, prior))
        return self.equal("page_hashes", list(one), list(other))  # type: ignore[no-any-return]

    # -- tiers -----------------------------------------------------------------------------------

    def _load_back(self, key: Key) -> Loaded:
        return self.loaded_back(*self.both("load_back", (key,), (key,)))

    def _load_back_within(self, key: Key, quota: int) -> Loaded:
        return self.loaded_back(*self.both("load_back_within", (key, quota), (key, quota)))

    def loaded_back(self, one: Loaded, other: Loaded) -> Loaded:
        """Both answers to a load back."""
        self.equal("load_back", one.before, other.before)
        self.slots("load_back", one.slots, other.slots)
        return one

    def _layers_ready(self, job: int) -> int:
        one, other = self.both("layers_ready", (job,), (self.numbers.get(job, job),))
        return self.equal("layers_ready", one, other)  # type: ignore[no-any-return]

    def _prefetch(self, rid: int, key: Key) -> Prefetched:
        one, other = self.both("prefetch", (rid, key), (rid, key))
        fields = 4 if one.started else 3
        self.equal("prefetch", one[:fields], other[:fields])
        return one  # type: ignore[no-any-return]

    def _advance(self, job: int, outcome: Outcome) -> None:
        if self.recorder is not None:
            self.recorder.record.clear()
        self.both("advance", (job, outcome), (self.numbers.get(job, job), outcome))
        left = self.recorder.left() if self.recorder is not None else ()
        if left:
            raise Difference(f"advance: the second did not ask storage for {left}")

    def _attach(self, store: PageStore) -> bool:
        recorder = Recorder(store)
        one, other = self.both("attach", (recorder,), (Replayer(recorder),))
        if one:
            self.recorder = recorder
        return self.equal("attach", one, other)  # type: ignore[no-any-return]

    def _poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        self.first.poke(slots, values)
        self.second.poke(self.device.other(slots), values)

    def _peek(self, tier: str, slots: Sequence[int]) -> Sequence[int]:
        return self.first.peek(tier, slots)  # type: ignore[no-any-return]

    # -- looking ---------------------------------------------------------------------------------

    def _available(self) -> int:
        return self.equal("available", self.first.available(), self.second.available())  # type: ignore[no-any-return]

    def _sizes(self) -> Any:
        return self.equal("sizes", self.first.sizes(), self.second.sizes())

    def _jobs(self) -> Sequence[Job]:
        mine: Sequence[Job] = self.first.jobs()
        other: Sequence[Job] = self.second.jobs()
        self.equal("jobs", [job._replace(id=0) for job in mine], [job._replace(id=0) for job in other])
        self.numbers = {one.id: two.id for one, two in zip(mine, other, strict=True)}
        return mine

    def _events(self) -> Sequence[Event]:
        mine: Sequence[Event] = self.first.events()
        self.equal("events", self.told[0].net(mine), self.told[1].net(self.second.events()))
        return mine

    def _view(self) -> Any:
        mine, other = self.first.view(), self.second.view()
        pairs = self.nodes(mine.nodes, other.nodes, 4)[0]
        self.device.renew({**pairs, **self.owned()}, mine.free, other.free)
        return mine

    def _tiers(self) -> Any:
        mine, other = self.first.tiers(), self.second.tiers()
        pairs, host = self.nodes(mine.nodes, other.nodes, 5)
        self.device.renew({**pairs, **self.owned()}, mine.free, other.free)
        self.equal("what is moving", len(mine.moving), len(other.moving))
        self.host.pages.clear()
        self.host.renew(host, mine.host_free, other.host_free)
        return mine

    def owned(self) -> dict[int, int]:
        """The pairs in the rows of requests."""
        found: dict[int, int] = {}
        for row, row_too in self.rows.values():
            found.update(self.device.pairs(row, row_too))
        return found

    def nodes(self, mine: Sequence[Any], other: Sequence[Any], end: int) -> list[dict[int, int]]:
        """Both trees, which must be alike but for their slots; the pairs on device and host.

        ``end``: where in a node its slots end, which begin at 3.
        """
        one, two = dict(self.placed(mine)), dict(self.placed(other))
        if one.keys() != two.keys():
            alone = [[left[path] for path in left.keys() - right.keys()] for left, right in ((one, two), (two, one))]
            raise Difference(f"nodes differ: only the first has {alone[0]}, only the second has {alone[1]}")
        found: list[dict[int, int]] = [{}, {}]
        relations = (self.device, self.host)
        for path, node in one.items():
            same = two[path]
            if node[end:] != same[end:]:
                raise Difference(f"a node differs: {node} is not {same}")
            for at in range(end - 3):
                left, right = node[3 + at], same[3 + at]
                if left is not None and right is not None:
                    found[at].update(relations[at].whole(left, right))
                elif left is not right:
                    raise Difference(f"a node is on other tiers: {node} is not {same}")
        return found

    def placed(self, nodes: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Each node under a number that stands for its namespace and all units down to its end, cut as they are."""
        numbers: list[int] = []
        paths = self.paths
        for node in nodes:
            above = numbers[node[0]] if node[0] >= 0 else node[1]
            number = paths.setdefault((above, node[0] >= 0, node[2]), len(paths))
            numbers.append(number)
            yield number, node
