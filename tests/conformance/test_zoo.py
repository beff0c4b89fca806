"""Whole legal caches, each a program of its own: no alarm at any depth.  Of a block table with a bug there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from kvlitmus import zoo
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import OPS, configs_of, items
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.interface import Begun, Event
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.units import Key, Unit
from kvlitmus.zoo import both_ends, cost_host, page_map, partial_reuse, sparse_map
from kvlitmus.zoo.block_copies import CountedTable, HeadsFirst
from kvlitmus.zoo.block_requests import BlockRequests, BlockRequestsTarget
from kvlitmus.zoo.block_table import PROFILE, Block, BlockKey, BlockRequest, BlockTable, namespace_of
from kvlitmus.zoo.eager_host import PageObject
from kvlitmus.zoo.page_map import PageMap
from kvlitmus.zoo.partial_reuse import PartialReuse
from kvlitmus.zoo.sparse_map import END, Chain, SparseMap
from tests.support.night import by_turns

STEPS = 250
"""Of each cache at the full depth; the nightly command plays more."""

STEPS_BELOW = 200
"""Of each cache at each other depth."""

NULL_STEPS = 150
"""Of each null mutant at each depth below the full one: there are so many that more of each would take minutes."""

NULL = [one for one in all_mutants().values() if one.null]

EVERY, EVERY_BELOW = 9, 18
"""By day each cache plays every ninth litmus test at the full depth and half as many at others, the next one others."""


@pytest.mark.parametrize(
    ("name", "depth"),
    [(name, depth) for place, name in enumerate(zoo.ZOO) for depth in (place % 3, 3)],
)
def test_a_legal_cache_raises_no_alarm(name: str, depth: int) -> None:
    play_in_silence(name, depth, EVERY if depth == 3 else EVERY_BELOW)


@pytest.mark.nightly
@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("name", zoo.ZOO)
def test_a_legal_cache_raises_no_alarm_in_any_litmus_test(name: str, depth: int) -> None:
    play_in_silence(name, depth, 1)


def play_in_silence(name: str, depth: int, every: int) -> None:
    """Play schedules on a legal cache, and every so manieth litmus test in each configuration."""
    target, steps = zoo.target_of(name), 0
    wanted = STEPS if depth == 3 else STEPS_BELOW
    assert target.profile != Profile(), "what is different is declared"
    first = list(zoo.ZOO).index(name) % every
    for place, item in enumerate(items(configs_of(target), target.profile, steps=4 * wanted)):
        if item.kind != "random" and place % every != first:
            continue
        if item.kind == "random" and steps >= wanted:
            break
        steps += played_in_silence(target, item, depth)
    assert steps >= wanted, "every cache is played"


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_what_comes_back_with_others_may_be_one_node_with_them(depth: int) -> None:
    """A page is evicted unseen and cached again in one run with the page behind it: a match may end before both."""
    ops = [("begin", 0, 1), ("begin", 0, 2), ("finish", 0, 0), ("evict", 0, 0), ("finish", 0, 0), ("begin", 0, 1)]
    schedule = tuple(Op(kind, a, b) for kind, a, b in ops)
    item = Item(kind="vector", config=Config(page_size=1), name="one-node", schedule=schedule)

    result = run_item(zoo.target_of("node_ends"), item, Options(depth=depth))

    assert result.steps >= len(ops) and not result.findings and not result.error, result


def nulls(depth: int) -> Iterator[Any]:
    """The null mutants: one in 24 by day, another one for each depth; the others at night."""
    for place, one in enumerate(NULL):
        yield pytest.param(one, depth, id=f"{one.id}-{depth}", marks=[pytest.mark.nightly] * (place % 24 != depth))


@pytest.mark.parametrize(("one", "depth"), [case for depth in (0, 1, 2) for case in nulls(depth)])
def test_a_null_mutant_raises_no_alarm_however_little_is_seen(one: Mutant, depth: int) -> None:
    """In each of its configurations; at the full depth it is played in test_mutants.py."""
    steps, ops = 0, min(OPS, -(-NULL_STEPS // len(one.configs)))
    for seed in range(NULL_STEPS):
        for config in one.configs:
            steps += played_in_silence(one.target, Item(kind="random", config=config, seed=seed, ops=ops), depth)
        if steps >= NULL_STEPS:
            break
    assert steps >= NULL_STEPS


def played_in_silence(target: Any, item: Item, depth: int) -> int:
    """Play an item, in which nothing is found; returns how many steps it took."""
    result = run_item(target, item, Options(depth=depth))

    assert not result.findings, (item.id, result.findings)
    assert not result.error, (item.id, result.error)
    return result.steps


class Buggy:
    """Caches of one class."""

    def __init__(self, kind: Callable[[Config], object], profile: Profile = PROFILE) -> None:
        self.kind = kind
        self.profile = profile

    def make(self, config: Config) -> object:
        return self.kind(config)


class HitsStayInTheQueue(BlockTable):
    """A block that was hit is handed out to somebody else."""

    def acquire(self, block: Block) -> None:
        if block.key is None:
            super().acquire(block)
        else:
            block.references += 1


class KeysOutliveBlocks(BlockTable):
    """A block that was handed out is still found under its old key."""

    def forget(self, block: Block) -> None:
        block.key = None


class ReferencesLeak(BlockTable):
    """The blocks that a request began with are never let go."""

    def end(self, rid: int, *, keep: bool) -> None:
        self.running[rid].blocks = [block for block in self.running[rid].blocks if block.references < 2]
        super().end(rid, keep=keep)


class KeysOfOneBlock(BlockTable):
    """The key of a block is its own units, wherever they stand."""

    def keys(self, key: Key, length: int) -> list[BlockKey]:
        return [(key.namespace, units) for _, units in super().keys(key, length)]


class EntersTheTail(BlockTable):
    """The last block is entered before it is full."""

    def enter_full(self, request: BlockRequest) -> None:
        super().enter_full(request)
        for block in request.blocks[request.entered :]:
            if block.key is None and request.entered:
                self.enter(block, (request.blocks[request.entered - 1].key, (0,) * self.size))


class OnePlaceOnly(BlockTable):
    """A second block under one key takes the first one's place, and using it up takes the key away."""

    def enter_full(self, request: BlockRequest) -> None:
        for key in self.keys(request.key, request.key.length)[request.entered :]:
            for block in list(self.found.get(key, {}).values()):
                self.forget(block)
        super().enter_full(request)


class CountsHeldBlocks(BlockTable):
    """What requests hold counts as available."""

    def available(self) -> int:
        return self.count * self.size


class FlushesOnEnd(BlockTable):
    """The end of a request takes all keys away of which nobody holds the block."""

    def end(self, rid: int, *, keep: bool) -> None:
        super().end(rid, keep=keep)
        for block in self.queue.values():
            self.forget(block)


class RemovedWithTheFirst(CountedTable):
    """Each block is told, to listeners who go by keys: the first that is used up takes the key away from them."""


class HitsAreCopies(CountedTable):
    """A block that is hit is told as one more, to listeners who count."""

    def acquire(self, block: Block) -> None:
        super().acquire(block)
        if block.key is not None:
            above, units = block.key
            before = above if isinstance(above, tuple) else None
            self.tell(Event("stored", "device", block.key, before, units, namespace_of(block.key)), 1)


COUNTED = replace(PROFILE, event_copies="each")


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize(
    ("kind", "profile", "rules"),
    by_turns(
        [
            (RemovedWithTheFirst, PROFILE, {2: {"EVENT-02"}, 3: {"EVENT-02"}}),
            (HitsAreCopies, COUNTED, {2: {"EVENT-04"}, 3: {"EVENT-04"}}),
        ],
        every=2,
    ),
)
def test_a_block_table_tells_as_its_listeners_read(
    kind: type[BlockTable], profile: Profile, rules: dict[int, set[str]], depth: int
) -> None:
    assert found(Buggy(kind, profile), depth, until=rules[depth]) & rules[depth]
    assert not found(Buggy(CountedTable, COUNTED), depth, seeds=FEW)


class FindsBehindGaps(HeadsFirst):
    """A look-up goes on behind a block that is gone: the next prompt reads that one's place as if it were there."""

    def prefix(self, key: Key) -> list[Block]:
        hit = [self.found[one] for one in self.keys(key, max(0, key.length - 1)) if one in self.found]
        return [next(iter(places.values())) for places in hit]


def test_a_block_table_may_leave_gaps_if_it_says_so_and_may_not_find_what_is_behind() -> None:
    left = zoo.target_of("block_copies").profile
    assert "TREE-05" in found(Buggy(HeadsFirst, replace(left, table_gaps="none")), until={"TREE-05"})
    behind = {"TREE-02", "TREE-03"}
    assert behind & found(Buggy(FindsBehindGaps, left), until=behind)
    assert behind & found(Buggy(FindsBehindGaps, left), 0, until=behind)


def test_components_tell_as_their_listeners_read() -> None:
    """Of equal blocks each is told to listeners who go by names, or one of them twice to listeners who count."""
    counted, named = BlockRequestsTarget(), zoo.target_of("block_names")
    unlike = {"EVENT-02", "EVENT-08"}
    assert unlike & found(Buggy(counted.make, named.profile), configs=counted.configs, until=unlike)

    class ToldTwice(BlockRequests):
        def tell(self, event: ComponentEvent, others: int) -> None:
            self.events += [event, event] if others and event.what == "stored" else [event]

    class Twice(BlockRequestsTarget):
        kind = ToldTwice

    assert "EVENT-04" in found(Buggy(Twice().make, counted.profile), configs=counted.configs, until={"EVENT-04"})


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (HitsStayInTheQueue, {"POOL-12"}),
            (KeysOutliveBlocks, {"TREE-02", "TREE-03", "TREE-07"}),
            (ReferencesLeak, {"POOL-12", "LOCK-04"}),
            (KeysOfOneBlock, {"TREE-02", "TREE-03", "REQ-03"}),
            (EntersTheTail, {"TREE-02", "POOL-12"}),
            (OnePlaceOnly, {"LOCK-01"}),
            (CountsHeldBlocks, {"POOL-13"}),
            (FlushesOnEnd, {"TREE-08", "REQ-09"}),
        ]
    ),
)
def test_a_bug_of_a_block_table_is_found(kind: type[BlockTable], rules: set[str]) -> None:
    broken = found(Buggy(kind), until=rules)
    assert broken & rules, broken


class LateMap(PageMap):
    """A map of pages that ends locks as the third call after begins; its requests are composed."""

    def reset(self) -> None:
        super().reset()
        self.due: list[list[tuple[Any, ...]]] = [[], [], []]

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("alloc", "free", "match", "insert", "lock", "unlock", "evict"):
            for receipt in self.due.pop(0):
                super().unlock(receipt)
            self.due.append([])
        return found

    def unlock(self, receipt: object) -> None:
        assert isinstance(receipt, tuple)
        self.due[-1].append(receipt)


@pytest.mark.parametrize("depth", by_turns([0, 1, 3], every=2))
def test_locks_of_composed_requests_may_end_late(depth: int) -> None:
    profile = replace(page_map.target.profile, unlock_delay=3)
    assert found(Buggy(LateMap, profile), depth, seeds=FEW) == set()
    late = {"LOCK-02", "LOCK-04"}
    assert found(Buggy(LateMap, replace(profile, unlock_delay=1)), 3, until=late) & late


class CopiesNothing(PartialReuse):
    """What is alike counts as computed, and is copied nowhere."""

    def copy(self, kv: Sequence[int], slots: Sequence[int]) -> None:
        pass


class TakesTheTailToo(PartialReuse):
    """A page that begins like the key is reused up to its end, whoever's tokens these are."""

    def alike(self, mine: Sequence[Unit], theirs: Sequence[Unit]) -> int:
        return min(len(mine), len(theirs)) if super().alike(mine, theirs) else 0


class MeetsEverybodysPages(PartialReuse):
    """A source is looked for in the pages of all tenants."""

    def source(self, key: Key) -> list[int]:
        return next((slots for slots in map(super().source, self.in_all_spaces(key)) if slots), [])

    def in_all_spaces(self, key: Key) -> Iterator[Key]:
        yield from [key._replace(namespace=space) for space, _ in [(key.namespace, ()), *self.shared]]


class LendsTheSource(PartialReuse):
    """A request goes on in the very page that it was to copy."""

    def begin(self, rid: int, key: Key) -> Begun | None:
        source, begun = self.source(key), super().begin(rid, key)
        if begun is None or not source:
            return begun
        row = list(begun.row)
        row[begun.cached - len(source) : begun.cached] = source
        return begun._replace(row=row)


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (CopiesNothing, {"TREE-03", "REQ-02"}),
            (TakesTheTailToo, {"TREE-01", "TREE-03"}),
            (MeetsEverybodysPages, {"TREE-01", "TREE-03"}),
            (LendsTheSource, {"POOL-12", "POOL-17", "POOL-05", "REQ-02"}),
        ]
    ),
)
def test_a_bug_of_hits_inside_a_page_is_found(kind: type[PartialReuse], rules: set[str], depth: int) -> None:
    declared = partial_reuse.target
    broken = found(Buggy(kind, declared.profile), depth, declared.configs, until=rules)
    assert broken & rules, broken


FEW = 3
"""So many seeds of what has no bug: without one they are all played."""

LITTLE = (Config(page_size=1, pages=8), Config(page_size=4, pages=8))


def found(
    target: Buggy,
    depth: int = 3,
    configs: Sequence[Config] = LITTLE,
    *,
    until: Iterable[str] = all_rules(),
    seeds: int = 8,
) -> set[str]:
    """The rules that a few schedules find broken first, up to one of these."""
    broken: set[str] = set()
    for seed, config in product(range(seeds), configs):
        item = Item(kind="random", config=config, seed=seed, ops=250)
        result = run_item(target, item, Options(depth=depth, reruns=0, shrink_trials=0))
        broken.update(*(finding.rules for finding in result.findings))
        if broken.intersection(until):
            break
    return broken


class LosesASlot(Chain):
    """The first slot of a buffer isn't given back."""

    def hang_back(self, row: int) -> None:
        first, last = self.ends.get(row, (END, END))
        if first not in (END, last):
            self.ends[row] = self.behind[first], last
        super().hang_back(row)


class LengthensTheWrongEnd(Chain):
    """What is added to a buffer comes in front of what it has."""

    def lengthen(self, row: int, slots: int) -> bool:
        had = self.ends.pop(row, None)
        done = super().lengthen(row, slots)
        if had and row in self.ends:
            first, last = self.ends[row]
            self.behind[last] = had[0]
            self.ends[row] = first, had[1]
        elif had:
            self.ends[row] = had
        return done


class TakesWhatThereIs(Chain):
    """A growth that finds too little takes it all the same, and is refused then."""

    def lengthen(self, row: int, slots: int) -> bool:
        enough = slots <= self.count
        super().lengthen(row, min(slots, self.count))
        return enough


class CountsTheNewest(SparseMap):
    """The newest group's own slot is forgotten, and it has the last of the others."""

    def size_of(self, groups: int) -> int:
        return min(super().size_of(groups), self.sparse_buffer())


class BacksUpEarly(SparseMap):
    """A group is backed up by the step that computes its last token."""

    def sparse_back_up(self, row: int, length: int) -> Sequence[int] | None:
        return super().sparse_back_up(row, length + 1)


def test_a_sparse_map_without_a_bug_breaks_nothing() -> None:
    assert broken_by(SparseMap) == set()


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (LosesASlot, {"SPARSE-59"}),
            (LengthensTheWrongEnd, {"SPARSE-54"}),
            (TakesWhatThereIs, {"SPARSE-56", "SPARSE-57"}),
            (CountsTheNewest, {"SPARSE-52", "SPARSE-58", "PORT-01"}),
            (BacksUpEarly, {"SPARSE-43"}),
        ]
    ),
)
def test_a_bug_of_a_sparse_map_is_found(kind: type[Chain] | type[SparseMap], rules: set[str]) -> None:
    broken = broken_by(kind, rules)
    assert broken & rules, broken


def broken_by(kind: type[Chain] | type[SparseMap], until: Iterable[str] = ()) -> set[str]:
    """The rules that a sparse map of this kind, or over such a device, is found to break, up to one of these."""

    def make(config: Config) -> SparseMap:
        if issubclass(kind, SparseMap):
            return kind(config)
        cache = SparseMap(config)
        cache.device = kind(cache.device.count)
        return cache

    declared, broken = sparse_map.target, set[str]()
    target = Buggy(make, declared.profile)
    for item in items(declared.configs[:2], declared.profile, steps=STEPS):
        result = run_item(target, item, Options(reruns=0, shrink_trials=0))
        assert not result.error, result.error
        broken.update(*(finding.rules for finding in result.findings))
        if broken.intersection(until):
            break
    return broken


class Undeclared(BlockTable):
    """A correct block table."""


@pytest.mark.parametrize("depth", [0, 3])
def test_a_block_table_must_be_declared(depth: int) -> None:
    assert found(Buggy(Undeclared), depth, seeds=FEW) == set()
    assert found(Buggy(Undeclared, Profile(match_cap="len-1", evict_moment="alloc", hit_counts="none")), depth)


@pytest.mark.parametrize(
    ("name", "field", "other"),
    by_turns(
        [
            ("node_ends", "match_ends", "page"),
            ("node_ends", "evict_granularity", "page"),
            ("batch", "evict_granularity", "page"),
            ("dedup", "duplicates", "caller_frees"),
            ("dedup", "match_cap", "full"),
        ]
    ),
)
def test_what_a_cache_declares_decides(name: str, field: str, other: object) -> None:
    target = zoo.target_of(name)
    changed = replace(target.profile, **{field: other})  # type: ignore[arg-type]
    assert found(Buggy(target.make, target.profile), seeds=FEW) == set()
    assert found(Buggy(target.make, changed))


@pytest.mark.nightly
def test_sixty_rules_have_something_to_say_of_a_block_table() -> None:
    target, said = zoo.target_of("block_table"), Counter[str]()
    for depth in (0, 3):
        for item in items(configs_of(target), target.profile, steps=4_000):
            said += run_item(target, item, Options(depth=depth)).evaluated  # where the premise was true
    assert len([rule for rule, times in said.items() if times >= 100]) >= 60, said


def test_the_free_pages_of_both_ends_are_taken_from_both() -> None:
    bits = both_ends.Bits(1, 5)
    assert [bits.take(1), bits.take(2), bits.take(1), bits.take(2), bits.take(1)] == [[1], [4, 5], [2], None, [3]]


def test_what_a_page_saves_is_above_the_floor_of_the_tier_that_it_would_leave() -> None:
    cache = cost_host.CostHost(Config(pages=4, host_pages=4))
    pages = [PageObject(None, None, (1,), device=1, host=1), PageObject(None, None, (2,), host=2)]
    cache.credit = {id(page): (1, 5, 100) for page in pages}
    assert [cache.worth(page) - cost_host.COST for page in pages] == [5, 100]
    assert cache.victim(pages) is pages[0]
    assert (cache.floor["device"] > 0, cache.floor["host"]) == (True, 0)
