"""Sparse host pools judged alone: every rule is reached at every depth, correct ones pass, wrong answers are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.sparse import ReferenceSparse, compressing, rejecting, target
from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import ItemResult, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.reference.sparse import empty_pool
from kvlitmus.spec.interface.sparse import SparseShape, SparseView
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.units import Tokens
from tests.support.night import by_turns

RULES = {id: rule for id, rule in all_rules().items() if rule.pack == "sparse"}


SMALL = plan.SPARSE_CONFIGS[:3]
"""Without the pages of 128 slots, which take longer than all others."""


def judged(
    one: Any, depth: int = 3, steps: int = plan.OPS, configs: Sequence[Config] = plan.SPARSE_CONFIGS
) -> Iterator[ItemResult]:
    """A short run of a sparse host pool, item by item."""
    for item in plan.items(configs, one.profile, steps=steps):
        yield engine.run_item(one, item, Options(shrink_trials=0, depth=depth))


def broken(result: ItemResult) -> set[str]:
    """The rules that were broken."""
    assert not result.error
    return {rule for finding in result.findings for rule in finding.rules}


POOLS: dict[str, Any] = {"specimen": specimen, "reference": target, "rejecting": rejecting, "compressing": compressing}


BY_DAY = (
    ("specimen", 3, plan.SPARSE_CONFIGS),
    ("specimen", 0, SMALL),
    ("reference", 3, SMALL),
    ("rejecting", 3, SMALL),
    ("compressing", 0, SMALL),
)
AT_NIGHT = tuple([(name, depth, plan.SPARSE_CONFIGS) for name in POOLS for depth in range(4)])


@pytest.mark.parametrize(
    ("name", "depth", "configs"),
    [*BY_DAY, *[pytest.param(*one, marks=pytest.mark.nightly) for one in AT_NIGHT if one not in BY_DAY]],
)
def test_a_correct_pool_passes_and_every_rule_is_reached(name: str, depth: int, configs: Sequence[Config]) -> None:
    """By day at both ends of what is seen, or at one of them."""
    one, counts = POOLS[name], Counter[str]()
    for result in judged(one, depth, configs=configs):
        assert broken(result) == set()
        counts.update(result.evaluated)
    wanted = {id for id, rule in RULES.items() if rule.depth <= depth}
    lacking = {"SPARSE-14"} if one.profile.sparse_count == "reject" else set()
    assert {id for id in RULES if counts[id]} == wanted - lacking


class WithoutSwaps:
    """A pool that doesn't say where in a buffer tokens are."""

    def __init__(self, of: Any) -> None:
        self.of, self.profile = of, of.profile

    def make(self, config: Config) -> Any:
        adapter = self.of.make(config)
        adapter.sparse_swap = None
        return adapter


def test_growth_is_judged_where_swaps_are_not() -> None:
    counts: Counter[str] = Counter()
    for result in judged(WithoutSwaps(specimen), configs=SMALL):
        assert broken(result) == set()
        counts.update(result.evaluated)
    swaps = {*(f"SPARSE-{number}" for number in (23, 24, 25, 26, 27, 28)), "SPARSE-63"}
    assert {id for id in RULES if not counts[id]} == swaps
    early = all_mutants()["sparse-growth-takes-before-it-refuses"].target
    assert any("SPARSE-56" in broken(result) for result in judged(WithoutSwaps(early)))


def test_nothing_else_is_played_on_it_and_it_on_nothing_else() -> None:
    assert plan.configs_of(target) == plan.SPARSE_CONFIGS
    assert plan.with_pages(plan.SPARSE_CONFIGS, [8]) == (Config(page_size=8, pages=11, pool="sparse"),)
    with pytest.raises(Unsupported):
        target.make(Config())
    for config in (*plan.CONFIGS, *plan.STORE_CONFIGS, *plan.TIER_CONFIGS, *plan.SPARSE_CONFIGS):
        for test in all_litmus().values():
            fits = plan.suits(test, config, Profile(), force_misuse=True)
            assert not fits or ("sparse" in test.needs) == (config.pool == "sparse")


class Wrong(ReferenceSparse):
    """A pool whose answers have not the promised form, one at a time."""


class NoShape(Wrong):
    """It has no rows."""

    def sparse_shape(self) -> SparseShape:
        return SparseShape(0, 4)


class NegativeSlots(Wrong):
    """Slots that are none."""

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        return [-1] * tokens


class RowsInAList(Wrong):
    """A snapshot whose rows aren't numbered."""

    def sparse_view(self) -> SparseView:
        return SparseView([], [[]])  # type: ignore[arg-type]


class MaybeAccepted(Wrong):
    """A peer is neither accepted nor refused."""

    def sparse_connect(self, page_size: int) -> bool:
        return None  # type: ignore[return-value]


class HugeBuffer(Wrong):
    """A buffer that nobody has."""

    def sparse_buffer(self) -> int:
        return 1 << 30


class RowsInTwoPlaces(Wrong):
    """Eight rows, of which each has the pages of another one, too."""

    def sparse_shape(self) -> SparseShape:
        return super().sparse_shape()._replace(rows=8)

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        return super().sparse_request(row % 4, start, tokens)

    def sparse_read(self, row: int) -> Sequence[int]:
        return super().sparse_read(row % 4)

    def sparse_free(self, row: int) -> None:
        super().sparse_free(row % 4)


class RaisesOnFree(Wrong):
    """A row that was never used can't be given back."""

    def sparse_free(self, row: int) -> None:
        if row not in self.pool.rows:
            raise KeyError(row)
        super().sparse_free(row)


class ChangesItsAnswer(Wrong):
    """A list that was returned is used on."""

    kept: list[int] | None = None

    def sparse_read(self, row: int) -> Sequence[int]:
        if self.kept is None:
            self.kept = list(super().sparse_read(row))
            return self.kept
        self.kept.append(1)
        return super().sparse_read(row)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (NoShape, "PORT-03"),
        (NegativeSlots, "PORT-03"),
        (RowsInAList, "PORT-03"),
        (MaybeAccepted, "PORT-03"),
        (HugeBuffer, "PORT-03"),
        (RaisesOnFree, "PORT-01"),
        (ChangesItsAnswer, "PORT-04"),
    ],
)
def test_what_has_not_the_promised_form_is_found(kind: Callable[..., Any], rule: str) -> None:
    class Kind:
        profile = target.profile
        configs = plan.SPARSE_CONFIGS

        def make(self, config: Config) -> Any:
            return kind(config, "empty")

    assert any(rule in broken(result) for result in judged(Kind(), steps=0))


def test_rows_that_are_one_are_found_wherever_they_are() -> None:
    class Kind:
        profile = target.profile
        configs = plan.SPARSE_CONFIGS

        def make(self, config: Config) -> Any:
            return RowsInTwoPlaces(config, "empty")

    assert any("POOL-04" in broken(result) for result in judged(Kind()))  # no page is in two rows


@pytest.mark.parametrize("one", [specimen, target], ids=["specimen", "reference"])
def test_an_admitted_row_may_refuse_a_peer_with_other_pages(one: Any) -> None:
    config = plan.SPARSE_CONFIGS[0]
    checker = Checker(one.make(config), config, one.profile)
    assert sparse.reserve(checker, 0, 1)
    assert sparse.prealloc(checker, 0, 1, config.page_size + 1) is None
    assert sparse.prealloc(checker, 0, 1, config.page_size) is not None


class Strict(ReferenceSparse):
    """A pool of any shape that raises where its caller does what the port rules out."""

    def __init__(self, config: Config, ratio: int, shape: SparseShape, room: int) -> None:
        super().__init__(config, "empty", ratio)
        size = config.page_size
        device = (shape.rows + 1) * (room + size) // 2 + size
        self.shape = shape
        self.pool = empty_pool(size, config.pages, shape.width, room, ratio=ratio, device=device)

    def sparse_shape(self) -> SparseShape:
        return self.shape

    def must(self, legal: bool) -> None:
        assert legal, "the caller may not"

    def must_be_empty(self, row: int) -> None:
        self.must(row < self.shape.rows and not self.pool.of(row).pages)

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        self.must(row < self.shape.rows)
        return super().sparse_request(row, start, tokens)

    def sparse_read(self, row: int) -> Sequence[int]:
        self.must(row < self.shape.rows)
        return super().sparse_read(row)

    def sparse_free(self, row: int) -> None:
        waits = row in self.pool.receiving or any(one.row == row for one in self.pool.waiting)
        self.must(row < self.shape.rows and not waits)
        super().sparse_free(row)

    def sparse_stage(self, row: int, tokens: int) -> Sequence[int] | None:
        self.must_be_empty(row)
        return super().sparse_stage(row, tokens)

    def sparse_copied(self, copy: int) -> None:
        self.must(copy in self.pool.copies)
        super().sparse_copied(copy)

    def sparse_prealloc(self, row: int, tokens: int, page_size: int) -> Sequence[int] | None:
        self.must_be_empty(row)
        return super().sparse_prealloc(row, tokens, page_size)

    def sparse_reserve(self, row: int, tokens: int) -> bool:
        self.must_be_empty(row)
        self.must(row not in self.pool.reserved)
        return super().sparse_reserve(row, tokens)

    def sparse_admit(self, row: int, length: int) -> None:
        self.must(self.pool.hosted(length) <= self.pool.of(row).allocated)
        super().sparse_admit(row, length)

    def sparse_back_up(self, row: int, length: int) -> Sequence[int] | None:
        self.must(row in self.pool.lengths)
        return super().sparse_back_up(row, length)

    def sparse_swap(self, row: int, length: int, tokens: Sequence[int]) -> Sequence[int]:
        self.must(self.pool.hosted(length) - 1 <= self.pool.of(row).allocated)
        return super().sparse_swap(row, length, tokens)


@pytest.mark.parametrize("ratio", by_turns([1, 2, 3, 4]))
@pytest.mark.parametrize(("rows", "row_pages", "room"), [(1, 1, 1), (2, 2, 5), (3, 3, 14), (4, 5, 3)])
def test_litmus_tests_count_with_any_shape_and_ratio(ratio: int, rows: int, row_pages: int, room: int) -> None:
    """Nothing that a pool may choose leads a litmus test to a call that the port rules out."""

    class Kind:
        profile = Profile(sparse_ratio=ratio)

        def make(self, config: Config) -> Any:
            return Strict(config, ratio, SparseShape(rows, row_pages * config.page_size), room)

    configs = [Config(page_size=size, pages=11, pool="sparse") for size in (1, 4)]
    results = [
        engine.run_item(Kind(), item, Options(shrink_trials=0)) for item in plan.items(configs, Kind.profile, steps=0)
    ]
    assert set().union(*map(broken, results)) == set()


def test_a_buffer_that_takes_all_of_the_device_has_room() -> None:
    pool = ReferenceSparse(Config(page_size=4, pages=11, pool="sparse"), "")
    least, most = pool.pool.buffer_bounds(pool.pool.hosted(5))
    assert least <= most
    for device, fits in ((most, True), (most - 1, False)):
        pool.pool = pool.pool._replace(device=Tokens(device))
        assert pool.has_room(5) is fits, device


@pytest.mark.parametrize(("ratio", "at_once"), [(1, 2), (2, 3), (4, 3)])
def test_either_the_device_or_the_host_has_too_little_for_long_sequences(ratio: int, at_once: int) -> None:
    """The device has buffers for two at once; where tokens are compressed for three, and the host pages for fewer."""
    pool = ReferenceSparse(Config(page_size=4, pages=11, pool="sparse"), "", ratio).pool
    _, buffer = pool.buffer_bounds(pool.hosted(pool.width))
    assert isinstance(pool.device, int) and pool.device // buffer == at_once
