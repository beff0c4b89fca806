"""The specimen's hierarchy, situation by situation, at the ports."""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.spec.interface.tiers import DONE, Outcome
from kvlitmus.spec.words.units import Key
from tests.conformance.support.tier_storage import CheckedStore, mark

CONFIG = Config(page_size=2, pages=8, host_pages=8, storage="attached", threshold=2, rate_limit=64)
STAGES = ("query", "revoked", "fetch", "part", "ended")


def key(pages: int, namespace: str | None = None) -> Key:
    """A key of so many pages; the shorter ones are the prefixes of the longer ones."""
    return Key(namespace, tuple(range(10, 10 + 2 * pages)))


class Bench:
    """A specimen, its storage, and the calls that every situation needs."""

    def __init__(self, **changes: Any) -> None:
        self.config = Config(**{name: getattr(CONFIG, name) for name in CONFIG.__dataclass_fields__} | changes)
        self.cache = target.make(self.config)
        self.store = CheckedStore(self.config.page_size)
        if self.config.storage == "attached":
            assert self.cache.attach(self.store)

    def compute(self, wanted: Key) -> None:
        """A request computes a key and caches it."""
        begun = self.cache.begin(0, wanted)
        assert begun is not None
        for at, slot in enumerate(begun.row):
            if at >= begun.cached:
                self.cache.poke([slot], [mark((wanted.namespace, wanted.units[: at + 1]))])
        self.cache.end(0, keep=True)

    def go(self, kind: str, outcome: Outcome = DONE) -> None:
        """The first job of this kind that can goes on."""
        self.store.script(outcome)
        self.cache.advance(next(job.id for job in self.cache.jobs() if job.kind == kind and job.ready), outcome)
        self.store.script(DONE)

    def rest(self) -> None:
        """Everything is delivered and noted."""
        for _ in range(5):
            for job in self.cache.jobs():
                if job.ready:
                    self.cache.advance(job.id, DONE)
            self.cache.tick()

    def stored(self, wanted: Key) -> None:
        """The key is in storage, and nowhere else."""
        self.compute(wanted)
        self.rest()
        assert self.cache.evict(16) and self.cache.evict_host(16)
        assert not self.cache.tiers().nodes

    def at_stage(self, stage: str, wanted: Key) -> None:
        """A prefetch of the key for request 7 is as far as that; storage has all of it, or nothing if it is revoked."""
        if stage == "revoked":
            self.store.contents.clear()
        assert self.cache.prefetch(7, wanted) == (True, 0, wanted.length, 0)
        if stage != "query":
            self.go("query")
        if stage == "part":
            self.go("fetch", Outcome("part", 1))
        if stage == "ended":
            self.go("fetch")

    def kinds(self) -> list[str]:
        """The jobs under way."""
        return [job.kind for job in self.cache.jobs()]

    def read(self, wanted: Key) -> list[int]:
        """What a request would find for this key on the device."""
        return list(self.cache.peek("device", self.cache.match(wanted).slots))

    def whole(self) -> None:
        """Nothing is held by anybody, and no page is lost or has two homes."""
        view = self.cache.tiers()
        assert not view.moving and not self.cache.jobs() and self.cache.occupied() == 0
        assert not any(node.pins or node.locks for node in view.nodes)
        host = sorted([*view.host_free, *[slot // 2 for node in view.nodes for slot in (node.host or ())[::2]]])
        assert host == list(range(self.config.host_pages))


def marks(wanted: Key) -> list[int]:
    """What belongs in the slots of a key."""
    return [mark((wanted.namespace, wanted.units[: at + 1])) for at in range(wanted.length)]


def test_a_backup_is_on_the_host_at_once_and_right_when_it_has_landed() -> None:
    """Its path is locked until the tick that takes note; then it goes to storage."""
    bench = Bench()
    bench.compute(key(3))
    (node,) = bench.cache.tiers().nodes
    assert node.host is not None and node.locks == 1 and bench.kinds() == ["backup"]
    assert bench.cache.evict(16) == 0
    bench.cache.tick()
    assert bench.kinds() == ["backup"]
    bench.go("backup")
    assert bench.cache.peek("host", node.host) == marks(key(3))
    assert bench.cache.tiers().nodes[0].locks == 1
    bench.cache.tick()
    assert bench.cache.tiers().nodes[0].locks == 0 and bench.kinds() == ["put"]
    bench.rest()
    assert len(bench.store.contents) == 3
    bench.whole()


def test_acks_come_in_order() -> None:
    """A copy that landed waits for one before it that has not."""
    bench = Bench(storage="none")
    bench.compute(key(1))
    bench.compute(key(1, "other"))
    first, second = bench.cache.jobs()
    bench.cache.advance(second.id, DONE)
    bench.cache.tick()
    assert len(bench.cache.jobs()) == 2
    bench.cache.advance(first.id, DONE)
    bench.cache.tick()
    bench.whole()


def test_a_split_during_a_backup_leaves_both_halves_in_it() -> None:
    """Locks, and later pins of the put, are on both halves; all of it is stored."""
    bench = Bench()
    bench.compute(key(3))
    assert bench.cache.match(key(1)).length == 2
    upper, lower = bench.cache.tiers().nodes
    assert (upper.locks, lower.locks) == (1, 1) and (len(upper.host or ()), len(lower.host or ())) == (2, 4)
    bench.go("backup")
    bench.cache.tick()
    assert [node.pins for node in bench.cache.tiers().nodes] == [1, 1]
    assert bench.cache.match(key(2)).length == 4
    assert [node.pins for node in bench.cache.tiers().nodes] == [1, 1, 1]
    bench.rest()
    assert len(bench.store.contents) == 3
    bench.whole()


def test_selective_backs_up_at_the_second_use() -> None:
    """And in full once a request comes along all of it."""
    bench = Bench(write="write_through_selective")
    bench.compute(key(2))
    assert not bench.kinds()
    bench.compute(key(3))
    assert bench.kinds() == ["backup"]
    first, second = bench.cache.tiers().nodes
    assert first.host is not None and second.host is None
    bench.compute(key(3))
    assert bench.kinds() == ["backup", "backup"]


def test_demotion_and_load_back_bring_the_same_kv() -> None:
    """The host copy survives; the path is locked and the source pinned until the tick after the copy."""
    bench = Bench(storage="none")
    bench.compute(key(3))
    bench.rest()
    assert bench.cache.evict(4) == 4
    hit = bench.cache.match(key(3))
    assert (hit.length, hit.host) == (2, 4)
    loaded = bench.cache.load_back(key(3))
    assert loaded.before == 2 and len(loaded.slots or ()) == 4
    assert [(node.locks, node.pins) for node in bench.cache.tiers().nodes] == [(1, 0), (1, 1)]
    assert bench.cache.evict(16) == 0
    bench.go("load")
    bench.cache.tick()
    assert bench.read(key(3)) == marks(key(3))
    assert all(node.host for node in bench.cache.tiers().nodes)
    bench.whole()


def test_a_load_back_without_room_changes_nothing() -> None:
    """All or nothing; what a request holds stays."""
    bench = Bench(storage="none")
    bench.compute(key(3))
    bench.rest()
    bench.cache.evict(16)
    assert bench.cache.begin(1, key(6, "other")) is not None
    assert bench.cache.load_back(key(3)).slots is None
    assert bench.cache.match(key(3)).host == 6
    bench.cache.end(1, keep=False)
    assert len(bench.cache.load_back(key(3)).slots or ()) == 6


def test_sources_of_a_load_are_not_evicted_to_make_room_for_it() -> None:
    """Under write-back, making room on the device takes room on the host: not that of what is being loaded."""
    bench = Bench(write="write_back", pages=4, host_pages=4, storage="none")
    bench.compute(key(3))
    assert bench.cache.evict(6) == 6
    bench.compute(key(4, "other"))
    assert len(bench.cache.load_back(key(3)).slots or ()) == 6
    bench.rest()
    assert bench.read(key(3)) == marks(key(3))
    assert bench.cache.match(key(4, "other")).length == 2
    bench.whole()


def test_host_eviction_drops_leaves_that_are_nowhere_else() -> None:
    """What is on the device too keeps its host copy; anchors and sources stay."""
    bench = Bench(storage="none")
    bench.compute(key(3))
    bench.rest()
    assert bench.cache.evict_host(16) == 0
    bench.cache.evict(4)
    assert bench.cache.evict_host(2) == 2
    assert (bench.cache.match(key(3)).length, bench.cache.match(key(3)).host) == (2, 2)
    assert bench.cache.evict_host(16) == 2
    bench.whole()


def test_write_back_writes_what_it_evicts() -> None:
    """At once, as much as there is room for; where nothing can go, nothing does."""
    bench = Bench(write="write_back", host_pages=2, storage="none")
    bench.compute(key(3))
    assert not bench.kinds() and bench.cache.evict(4) == 4
    hit = bench.cache.match(key(3))
    assert (hit.length, hit.host) == (2, 4) and not bench.kinds()
    assert bench.cache.load_back(key(3)).slots is not None
    bench.compute(key(2, "other"))
    bench.cache.fail_host_alloc(0)
    assert bench.cache.evict(2) == 0
    bench.rest()
    assert bench.read(key(3)) == marks(key(3))


def test_what_is_brought_back_by_an_insert_is_on_both_tiers() -> None:
    """The request's pages become the device copy."""
    bench = Bench(storage="none")
    bench.compute(key(3))
    bench.rest()
    bench.cache.evict(16)
    bench.compute(key(3))
    (node,) = bench.cache.tiers().nodes
    assert node.slots and node.host and bench.cache.match(key(3)).host == 0
    assert bench.read(key(3)) == marks(key(3))
    bench.whole()


def test_a_prefetch_reads_what_was_stored() -> None:
    """Query, fetch, commit: the pages are on the host, told once, and load back as they were."""
    bench = Bench()
    bench.stored(key(3))
    bench.at_stage("ended", key(3))
    assert bench.cache.poll(7) and bench.cache.loaded(7) == 6 and bench.cache.loaded(7) == 0
    assert bench.cache.match(key(3)).host == 6
    assert bench.cache.load_back(key(3)).slots is not None
    bench.rest()
    bench.compute(key(3))
    assert not bench.kinds(), "storage has what came from it"
    assert bench.read(key(3)) == marks(key(3))
    bench.whole()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("end", ["poll", "abandon", "detach", "reset"])
def test_a_prefetch_can_end_at_every_stage(stage: str, end: str) -> None:
    """Whatever was reserved comes back; only a poll caches what has arrived."""
    bench = Bench()
    bench.stored(key(3))
    bench.at_stage(stage, key(3))
    if end == "poll":
        assert bench.cache.poll(7)
    elif end == "abandon":
        bench.cache.abandon(7)
    elif end == "detach":
        assert bench.cache.detach()
        bench.cache.tick()
        bench.whole()
    else:
        bench.cache.reset()
        bench.whole()
    arrived = {"part": 2, "ended": 6}.get(stage, 0) if end == "poll" else 0
    assert bench.cache.loaded(7) == arrived
    bench.rest()
    assert bench.cache.match(key(3)).host == arrived and bench.cache.poll(7)
    bench.whole()


@pytest.mark.parametrize(("stop", "waits"), [("best_effort", ""), ("wait_complete", "qrfp"), ("timeout", "qrfp")])
def test_a_poll_goes_by_the_stop_policy(stop: str, waits: str) -> None:
    """What waits at query, revocation, fetch and part of it, before any time has passed."""
    for stage in STAGES:
        bench = Bench(stop=stop)
        bench.stored(key(3))
        bench.at_stage(stage, key(3))
        assert bench.cache.poll(7) == (stage[0] not in waits)


def test_a_timeout_grows_with_what_was_found() -> None:
    """Base before the query's answer, then a little per unit."""
    bench = Bench(stop="timeout")
    bench.stored(key(3))
    bench.at_stage("fetch", key(3))
    bench.cache.set_clock(2.0)
    assert not bench.cache.poll(7)
    bench.cache.set_clock(2.01)
    assert bench.cache.poll(7)
    bench.rest()
    bench.whole()


def test_a_stale_revocation_leaves_the_next_prefetch_alone() -> None:
    """The number of the request is used again before the tick that takes note."""
    bench = Bench()
    bench.stored(key(3))
    kept = dict(bench.store.contents)
    bench.at_stage("revoked", key(3))
    assert bench.cache.poll(7)
    bench.store.contents.update(kept)
    bench.at_stage("query", key(3))
    bench.cache.tick()
    assert bench.cache.occupied() == 6
    bench.go("query")
    bench.go("fetch")
    assert bench.cache.poll(7) and bench.cache.loaded(7) == 6
    bench.rest()
    bench.whole()


def test_a_short_or_failing_fetch_keeps_what_has_arrived() -> None:
    """A short page counts as none; what storage raises ends the prefetch and nothing else."""
    for outcome in (Outcome("short", 1), Outcome("fail", 1)):
        bench = Bench(stop="wait_complete")
        bench.stored(key(3))
        bench.at_stage("fetch", key(3))
        bench.go("fetch", outcome)
        assert bench.cache.poll(7) and bench.cache.loaded(7) == 2
        bench.cache.tick()
        bench.whole()


def test_a_put_stops_at_a_refusal_and_is_tried_again() -> None:
    """At the next insert that uses the pages, for those that are missing."""
    bench = Bench()
    bench.compute(key(3))
    bench.go("backup")
    bench.cache.tick()
    bench.go("put", Outcome("fail", 1))
    bench.cache.tick()
    assert len(bench.store.contents) == 1 and not bench.kinds()
    bench.compute(key(3))
    (job,) = bench.cache.jobs()
    assert (job.kind, job.start) == ("put", 2)
    bench.rest()
    assert len(bench.store.contents) == 3
    bench.whole()


def test_a_split_between_what_is_stored_and_what_is_put_pins_one_half() -> None:
    """A put that goes on after a refusal reads the pages that are missing: of the others it needs nothing."""
    bench = Bench()
    bench.compute(key(3))
    bench.go("backup")
    bench.cache.tick()
    bench.go("put", Outcome("fail", 1))
    bench.cache.tick()
    bench.compute(key(3))
    assert bench.cache.match(key(1)).length == 2
    assert [node.pins for node in bench.cache.tiers().nodes] == [0, 1]
    assert bench.cache.match(key(2)).length == 4
    assert [node.pins for node in bench.cache.tiers().nodes] == [0, 1, 1]
    bench.rest()
    assert len(bench.store.contents) == 3
    bench.whole()


def test_pages_from_before_an_attach_get_their_true_names() -> None:
    """They are put at their next use, chained from the beginning of the prompt."""
    bench = Bench(storage="later")
    bench.compute(key(2))
    bench.rest()
    assert bench.cache.attach(bench.store) and not bench.cache.attach(bench.store)
    bench.compute(key(3))
    bench.rest()
    names = bench.cache.page_hashes(key(3), 2, None)
    assert sorted(bench.store.contents) == sorted(names)
    bench.whole()


def test_a_prefetch_is_not_begun_below_a_page_that_is_not_backed() -> None:
    """And a commit below one is dropped."""
    bench = Bench(write="write_through_selective")
    other = Bench()
    other.stored(key(4))
    bench.store.contents.update(other.store.contents)
    bench.at_stage("ended", key(4))
    bench.compute(key(2))
    assert not bench.cache.prefetch(8, key(4)).started
    assert bench.cache.poll(7) and bench.cache.loaded(7) == 0
    bench.rest()
    assert bench.cache.match(key(4)).host == 0
    bench.whole()


def test_a_failing_allocation_makes_a_prefetch_shorter_or_none_and_leaks_nothing() -> None:
    """Of three allocations the third may fail too."""
    for after, started in ((0, True), (1, True)):
        bench = Bench()
        bench.cache.fail_host_alloc(after)
        assert bench.cache.prefetch(7, key(3)).started == started
        bench.cache.abandon(7)
        bench.rest()
        bench.whole()
