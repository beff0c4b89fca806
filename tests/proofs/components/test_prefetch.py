"""Prefetches of several components: every small commit, the tables of sizes, and planted slips in the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product

import pytest

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.components import prefetch as model
from kvlitmus.reference.prefix.components.perform import perform
from kvlitmus.reference.prefix.components.tree import empty, free_places
from kvlitmus.spec.prefix.calls import Match, path_of
from kvlitmus.spec.prefix.components.calls import JointCall, Reading, Taken
from kvlitmus.spec.prefix.components.entries import placed
from kvlitmus.spec.prefix.components.fetch import Origin, asked, boundaries, fetched, reserved_length, restored
from kvlitmus.spec.prefix.components.state import end_name
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.layouts import LAYOUTS, layout_of
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import fits, step_of
from kvlitmus.spec.words.units import Key
from tests.proofs.components.boundaries import counterexamples
from tests.proofs.support.component_explore import Explorer, Scope, with_slip
from tests.proofs.support.component_fetch_calls import subsets
from tests.support.night import by_turns

PAGE = 4
ROOT = Origin(0)
AS_SGLANG = Profile(component_extent="path", component_shortfall="dropped", component_fetch_window="root")


class Bench:
    """A cache of KV and windows of six tokens, at pages of four: a window takes two pages."""

    def __init__(self, pages: int, layout: str = "kv+swa", profile: Profile | None = None) -> None:
        config = Config(page_size=PAGE, pages=16, components=layout)
        self.setting = Setting(config, profile or Profile(), 3, frozenset())
        self.key = Key(None, tuple(range(1, pages * PAGE + 1)))
        self.path = path_of(self.setting.names, self.key, PAGE)
        self.cache = empty(self.setting)

    def do(self, call: JointCall) -> object:
        """Perform a call."""
        self.cache, answer = perform(self.cache, self.setting, call)
        return answer

    def cached(self, component: str, pages: tuple[int, ...]) -> None:
        """These pages of a component are cached."""
        brought = {(component, end_name(self.path, page * PAGE)) for page in pages}
        places = dict(zip(sorted(brought), free_places(self.cache, self.setting)[component], strict=False))
        self.cache = placed(self.cache, self.setting, DEVICE, places)

    def free(self) -> dict[str, int]:
        """How many places of each pool are free."""
        return {pool: len(some) for pool, some in free_places(self.cache, self.setting).items()}

    def begun(self, anchor: int = 0) -> Mapping[str, tuple[int, ...]]:
        """Begin a prefetch behind so many pages; the places that were reserved."""
        answer = self.do(Prefetch(0, self.path, anchor * PAGE))
        assert isinstance(answer, Taken) and answer.places is not None
        return answer.places

    def found(self, kv: int, swa: tuple[int, ...]) -> Reading:
        """Storage has so many pages of KV, and these of the window."""
        stored = {"kv": frozenset(ends(range(1, kv + 1))), "swa": frozenset(ends(swa))}
        answer = self.do(Found(0, stored))
        assert isinstance(answer, Taken)
        return answer

    def committed(self, kv: frozenset[int], swa: frozenset[int]) -> Reading:
        """The I/O ends, and these pages came."""
        self.do(Fetched(0))
        came = {"kv": frozenset(ends(kv)), "swa": frozenset(ends(swa))}
        answer = self.do(Commit(0, came))
        assert isinstance(answer, Taken)
        return answer

    def pages(self, component: str) -> dict[int, int]:
        """The pages of a component that are cached, and where."""
        there = self.cache.tier(DEVICE, component).pages.items()
        return {len(self.setting.names.prefix(at)[1]) // PAGE: page.page for at, page in there}


def ends(pages: range | tuple[int, ...] | frozenset[int]) -> list[int]:
    """Where pages end."""
    return [page * PAGE for page in pages]


# The table of window commits: a window of six tokens, pages of four, so two pages are reserved.


def test_a_window_is_attached_to_the_last_pages_of_a_new_key() -> None:
    bench = Bench(4)
    places = bench.begun()["swa"]
    assert len(places) == 2 and (bench.found(4, (1, 2, 3, 4)).places or {})["swa"].keys() == {12, 16}
    done = bench.committed(frozenset((1, 2, 3, 4)), frozenset((3, 4)))
    assert done.boundary == 16 and not done.returned
    assert bench.pages("swa") == {3: places[0], 4: places[1]} and bench.pages("kv").keys() == {1, 2, 3, 4}


def test_half_a_window_is_given_back_whole() -> None:
    bench = Bench(4)
    places = bench.begun()["swa"]
    bench.found(4, (1, 2, 3, 4))
    done = bench.committed(frozenset((1, 2, 3, 4)), frozenset((4,)))
    assert done.boundary == 16 and done.returned == {"swa": places} and not bench.pages("swa")
    assert bench.do(Match(bench.path)).length == 0  # type: ignore[attr-defined]


def test_what_is_there_is_spared_and_the_tombstone_filled() -> None:
    bench = Bench(4)
    bench.cached("kv", (1, 2, 3, 4))
    bench.cached("swa", (4,))
    before = bench.pages("swa")[4]
    first, second = bench.begun()["swa"]
    bench.found(4, (1, 2, 3, 4))
    done = bench.committed(frozenset((1, 2, 3, 4)), frozenset((3, 4)))
    assert bench.pages("swa") == {3: first, 4: before}
    assert done.returned["swa"] == (second,) and len(done.returned["kv"]) == 4


def test_a_window_beyond_the_kv_is_given_back() -> None:
    bench = Bench(4)
    bench.begun()
    bench.found(4, (1, 2, 3, 4))
    done = bench.committed(frozenset((1,)), frozenset((3, 4)))
    assert done.boundary == 4 and len(done.returned["swa"]) == 2 and len(done.returned["kv"]) == 3
    assert bench.pages("kv").keys() == {1} and not bench.pages("swa")


def test_a_window_of_a_tail_that_has_come_meanwhile_is_given_back() -> None:
    bench = Bench(2)
    places = bench.begun()
    bench.found(2, (1, 2))
    bench.cached("kv", (1, 2))
    bench.cached("swa", (1, 2))
    before = bench.pages("swa")
    done = bench.committed(frozenset((1, 2)), frozenset((1, 2)))
    assert {name: set(some) for name, some in done.returned.items()} == {name: {*some} for name, some in places.items()}
    assert bench.pages("swa") == before


def test_a_prefetch_of_one_page_takes_no_window() -> None:
    bench = Bench(1)
    assert {name: len(some) for name, some in bench.begun().items()} == {"kv": 1, "swa": 0}
    assert bench.found(1, ()).boundary == PAGE
    assert bench.committed(frozenset((1,)), frozenset()).boundary == PAGE


def test_a_prefetch_of_one_page_takes_the_window_that_it_has() -> None:
    bench = Bench(1, profile=AS_SGLANG)
    assert {name: len(some) for name, some in bench.begun().items()} == {"kv": 1, "swa": 1}
    assert bench.found(1, ()).boundary == 0
    bench = Bench(1, profile=AS_SGLANG)
    bench.begun()
    assert bench.found(1, (1,)).boundary == PAGE
    assert bench.committed(frozenset((1,)), frozenset((1,))).boundary == PAGE and bench.pages("swa").keys() == {1}


def test_with_half_a_window_the_kv_is_given_back() -> None:
    bench = Bench(4, profile=AS_SGLANG)
    bench.begun()
    bench.found(4, (1, 2, 3, 4))
    done = bench.committed(frozenset((1, 2, 3, 4)), frozenset((4,)))
    assert done.boundary == 0 and {name: len(some) for name, some in done.returned.items()} == {"kv": 4, "swa": 2}
    assert not bench.pages("kv") and not bench.pages("swa")


def test_every_window_commit_on_every_small_tree() -> None:
    """Four pages: all tombstones, all that storage may have, all that may come; each page ends where it should.

    It begins at the largest hit that there is, so behind every anchor and at the root.
    """
    tried = Counter[int]()
    for cached, tombstones in ((many, one) for many in range(5) for one in subsets(range(1, many + 1))):
        for kv, lost in product(range(5), subsets((1, 2, 3, 4))):
            bench = Bench(4)
            bench.cached("kv", tuple(range(1, cached + 1)))
            bench.cached("swa", tuple(page for page in range(1, cached + 1) if page not in tombstones))
            old, size = bench.pages("swa"), bench.free()
            hit = bench.do(Match(bench.path)).length // PAGE  # type: ignore[attr-defined]
            if hit + kv > 4 or hit == 4:
                continue  # storage can't have more than the key, and there is nothing left to read
            places = bench.begun(hit)["swa"]
            reading = bench.found(hit + kv, (1, 2, 3, 4))
            pages = [end // PAGE for end in (reading.places or {})["swa"]]
            came = frozenset(pages) - lost
            done = bench.committed(frozenset(range(hit + 1, hit + kv + 1)), came)
            missing = {page for page in range(1, max(hit + kv, cached) + 1) if page not in old}
            last = {reading.boundary // PAGE - 1, reading.boundary // PAGE} if len(came) == 2 else set()
            wanted = last & missing
            assert {page for page in bench.pages("swa") if page not in old} == wanted
            assert len(done.returned.get("swa", ())) == len(places) - len(wanted)
            assert all(bench.pages("swa")[page] == place for page, place in old.items())
            new = max(0, done.boundary // PAGE - cached)
            assert bench.free() == {"kv": size["kv"] - new, "swa": size["swa"] - len(wanted)}
            tried[hit] += 1
    assert tried.keys() == {0, 1, 2, 3} and tried.total() > 600


# What is reserved


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_a_reservation_is_the_largest_that_fits(name: str) -> None:
    """For all lengths and rooms: what is granted fits, is worth it, and only the KV's own pool has cut it short."""
    layout = layout_of(name, 2, 8)
    step, pools = step_of(layout.components), list(layout.places)
    for length in range(0, 6 * step + 1, step):
        for least in (step, 2 * step + 1):
            for room in product(range(0, 11, 2 if len(pools) > 2 else 1), repeat=len(pools)):
                available = dict(zip(pools, room, strict=True))
                got = reserved_length(layout, ROOT, length, least, available)
                if got:
                    assert got % step == 0 and least <= got <= length and fits(asked(layout, ROOT, got), available)
                base = {pool: many if pool == layout.base.pool else 1000 for pool, many in available.items()}
                longest = max(
                    (one for one in range(0, length + 1, step) if fits(asked(layout, ROOT, one), base)), default=0
                )
                due = longest if longest >= least and fits(asked(layout, ROOT, longest), available) else 0
                assert got == due


def test_the_table_of_truncations() -> None:
    """Pages of four, a threshold of eight: how much is reserved for a length, with so much room for KV."""
    layout = layout_of("kv+state", 4, 16)
    for length, room, wanted in (
        (4, 64, 0),
        (8, 8, 8),
        (8, 4, 0),
        (16, 16, 16),
        (12, 40, 12),
        (16, 11, 8),
        (16, 7, 0),
        (16, 15, 12),
        (16, 0, 0),
    ):
        for states in (0, 1, 2):
            available = {"kv": room // 4, "state": states}
            assert reserved_length(layout, ROOT, length, 8, available) == (wanted if states else 0)


def test_the_number_of_states_and_window_pages_is_that_of_any_length() -> None:
    layout = layout_of("kv+swa+state", 4, 16)
    for length in range(8, 65, 4):
        needs = {need.component.name: need.entries for need in asked(layout, ROOT, length)}
        assert needs == {"kv": length // 4, "swa": 2, "state": 1}


# What is read


def test_what_is_read_is_the_intersection_and_never_the_least() -> None:
    """The smallest pair of sets of which MIN is wrong, as what storage has of two kinds of states."""
    layout = layout_of("kv+swa+state", 4, 16)
    left, right = next(counterexamples(3))
    assert (left, right) == (frozenset({0, 1}), frozenset({0, 2}))
    stored = {"kv": range(4, 13, 4), "swa": (12, 8), "state": (4,)}
    assert restored(layout, ROOT, 12, 4, {"kv", "swa", "state"}, stored) == 0
    assert boundaries(layout.named("swa"), ROOT, (4, 8, 12), stored["swa"]) == {0, 12}
    assert boundaries(layout.named("state"), ROOT, (4, 8, 12), stored["state"]) == {0, 4}
    assert restored(layout, ROOT, 12, 4, {"kv", "swa", "state"}, {**stored, "state": (4, 12)}) == 12


@pytest.mark.parametrize("name", sorted(LAYOUTS))
@pytest.mark.parametrize("window", by_turns(["whole", "root", "anchor"]))
def test_what_is_read_is_what_was_reserved_at_most(name: str, window: str) -> None:
    """For all boundaries of all lengths: of each component no more entries are read than there are places for."""
    layout = layout_of(name, 2, 8)
    step = step_of(layout.components)
    for start in range(0, 3 * step, step):
        origin = Origin(start, window == "anchor" or (window == "root" and not start))
        for length in range(step, 6 * step, step):
            for need in asked(layout, origin, length):
                for boundary in range(start, start + length + 1, step):
                    read = fetched(need.component, origin, boundary)
                    assert len(read) <= max(need.entries, 0) or not need.entries
                    assert all(start < end <= boundary for end in read)


# Planted slips


def commit_of_a_part(cache: State, setting: Setting, call: Commit) -> tuple[State, object]:
    """A slip: everything that is read counts as come, once some of it has."""
    fetch = cache.fetches[call.rid]
    came = {name: frozenset(some) if call.came.get(name) else frozenset[int]() for name, some in fetch.reads.items()}
    return model.commit(cache, setting, call._replace(came=came))


def commit_over_a_hole(cache: State, setting: Setting, call: Commit) -> tuple[State, object]:
    """A slip: the last page that came counts, and not the first that did not."""
    came = {name: frozenset(range(max(some, default=0) + 1)) for name, some in call.came.items()}
    return model.commit(cache, setting, call._replace(came=came))


def abort_while_it_is_written(cache: State, setting: Setting, call: object) -> tuple[State, object]:
    """A slip: an abort gives back what I/O may still write."""
    number = call.rid  # type: ignore[attr-defined]
    fetch = cache.fetches[number]._replace(running=False)
    return model.abort(cache._replace(fetches={**cache.fetches, number: fetch}), setting, call)  # type: ignore[arg-type]


def found_of_the_kv(cache: State, setting: Setting, call: Found) -> tuple[State, object]:
    """A slip: how much is read is what storage has of the KV."""
    fetch = cache.fetches[call.rid]
    stored = dict.fromkeys(fetch.taken, frozenset(range(fetch.start + fetch.length + 1)))
    return model.found(cache, setting, call._replace(stored=stored | {"kv": call.stored.get("kv", frozenset())}))


def prefetch_without_room(cache: State, setting: Setting, call: Prefetch[int]) -> tuple[State, object]:
    """A slip: nothing is evicted for a prefetch."""
    locked = {**cache.covers, -1: frozenset(cache.places(DEVICE))}
    then, answer = model.prefetch(cache._replace(covers=locked), setting, call)
    return then._replace(covers=cache.covers), answer


SLIPS: tuple[tuple[type, Callable[..., tuple[State, object]], str, set[str]], ...] = (
    (Commit, commit_of_a_part, "kv+swa", {"COMP-28", "COMP-29"}),
    (Commit, commit_over_a_hole, "kv+swa", {"COMP-28", "COMP-29"}),
    (Abandon, abort_while_it_is_written, "kv+state", {"COMP-29"}),
    (Found, found_of_the_kv, "kv+state", {"COMP-26"}),
    (Prefetch, prefetch_without_room, "kv+state", {"COMP-23"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "slip", "layout", "rules"), by_turns(SLIPS), ids=lambda one: getattr(one, "__name__", None)
)
def test_a_slip_in_the_reference_is_found(
    kind: type, slip: Callable[..., tuple[State, object]], layout: str, rules: set[str]
) -> None:
    report = Explorer(Scope(layout, 3, ((1, 1), (1, 2)), receipts=0, fetches=1), with_slip(kind, slip)).run()
    assert rules & set(report.broken)


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state", "kv+index", "kv+chunk"])
@pytest.mark.parametrize("cascade", ["base", "none", "leaf"])
def test_no_interleaving_of_a_prefetch_breaks_a_rule(layout: str, cascade: str) -> None:
    """One prefetch, evictions, locks, inserts and splits in all orders, with three keys that part from each other."""
    scope = Scope(
        layout, 3, ((1, 1), (1, 2), (1, 1, 1)), profile=Profile(component_cascade=cascade), fetches=1, receipts=0
    )
    report = Explorer(scope).run(most=400_000)
    print(f"{layout}, {cascade}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 1000


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state"])
def test_no_interleaving_of_one_that_drops_all_breaks_a_rule(layout: str) -> None:
    """The same where a prefetch holds its hit, is committed whole or not at all, and takes short windows there."""
    scope = Scope(layout, 3, ((1, 1), (1, 2), (1, 1, 1)), profile=AS_SGLANG, fetches=1, receipts=0)
    report = Explorer(scope).run(most=400_000)
    print(f"{layout}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 1000
