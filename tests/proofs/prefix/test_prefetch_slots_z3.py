"""Where the slots of a prefetch go, what the boundary table says, how long is waited: by z3, page size symbolic.

As in ``test_page_arithmetic_z3.py``: a claim is proven when its negation is unsatisfiable, ``unknown`` fails, and there
are slips of which z3 must produce a model.  The formulas of lengths and times are the spec's functions
(``support/terms.py``); those of slots are held against the reference, which runs through all small cases.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest

from kvlitmus.reference.prefix.hierarchy import empty_hierarchy, host_homes, moving, works_of
from kvlitmus.reference.prefix.perform import perform
from kvlitmus.reference.prefix.prefetch import converse, plan_prefetch
from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.interface.tiers import BACKUP, DONE, Outcome
from kvlitmus.spec.prefix.calls import Begin, End, path_of
from kvlitmus.spec.prefix.prefetch_plan import truncated_length
from kvlitmus.spec.prefix.work_calls import Abandon, Advance, Attach, Poll, Prefetch, Tick
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.policies import time_limit
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, PageNo
from tests.proofs.prefix.fetch_lemmas import ways
from tests.proofs.prefix.prefetch_lemmas import Answers

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import model_of  # noqa: E402 - needs z3
from tests.proofs.support.terms import formula_of  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

Formula = Any
p, slot = z3.Ints("p slot")
x, m, c, hit, n = z3.Ints("x m c hit n")
ORDER = [p >= 1, x >= 0, m >= x, c >= m, hit >= c, n >= hit]
"""Pages: x cached already, m committed, c completed, hit in storage, n reserved."""


def shares(at: Formula) -> list[Formula]:
    """The five ways back of a slot, by boundaries that are whole pages."""
    bounds = [0 * p, x * p, m * p, c * p, hit * p, n * p]
    return [z3.And(low <= at, at < high) for low, high in itertools.pairwise(bounds)]


def exactly_one(claims: list[Formula]) -> Formula:
    return z3.PbEq([(claim, 1) for claim in claims], 1)


def refuted(assumed: list[Formula], claim: Formula) -> Any:
    """``None`` when the claim follows from what is assumed, else a model that refutes it; fails on ``unknown``."""
    return model_of(*assumed, z3.Not(claim))


# -- the slots --------------------------------------------------------------------------------------------


def test_each_slot_has_exactly_one_way_back() -> None:
    assert refuted([*ORDER, slot >= 0, slot < n * p], exactly_one(shares(slot))) is None


def test_what_was_not_reserved_has_none() -> None:
    assert refuted([*ORDER, z3.Or(slot < 0, slot >= n * p)], z3.Not(z3.Or(shares(slot)))) is None


def test_the_slots_of_one_page_go_the_same_way() -> None:
    page, bound, some = z3.Ints("page bound some")
    assert refuted([p >= 1, some >= 0], some * p >= 0) is None
    products = [z3.Implies(left >= 0, left * p >= 0) for left in (page - bound, bound - page - 1)]
    within = [page * p <= slot, slot < (page + 1) * p]
    assert refuted([p >= 1, *within, *products], (bound * p <= slot) == (bound <= page)) is None
    assert refuted([p >= 1, *within], (bound * p + 1 <= slot) == (bound <= page)) is not None


def test_a_whole_buffer_returned_beside_the_queue_is_refuted() -> None:
    twice = [*shares(slot)[:2], z3.And(m * p <= slot, slot < n * p), shares(slot)[4]]
    model = refuted([*ORDER, slot >= 0, slot < n * p], exactly_one(twice))
    assert model is not None


def test_a_commit_that_is_longer_than_what_was_read_is_refuted() -> None:
    loose = [bound for bound in ORDER if bound is not ORDER[3]]
    model = refuted([*loose, c >= 0, slot >= 0, slot < n * p], exactly_one(shares(slot)))
    assert model is not None


class Ended(NamedTuple):
    """Where the pages of a prefetch were after it had ended for its request, and after everything was delivered."""

    freed: set[PageNo]
    cached: set[PageNo]
    released: list[set[PageNo]]


def setting_of(size: int) -> Setting:
    """Eight pages on the device, twelve on the host."""
    config = Config(page_size=size, pages=8, host_pages=12, threshold=0, rate_limit=1_000)
    return Setting(config, Profile(), SNAPSHOT, frozenset({"tiers"}))


def driven(reserved: int, found: int, completed: int, already: int, *, size: int, commits: bool) -> tuple[Any, Ended]:
    """A prefetch of the reference with these numbers: the pages that it reserved, and where they went."""
    setting, names = setting_of(size), Names()
    units = tuple(range(reserved * size))
    now = empty_hierarchy(setting)
    released: list[set[PageNo]] = []

    def make(call: Any) -> Any:
        nonlocal now
        step = perform(now, setting, call)
        now = step.after
        host_homes(now, setting)
        released.append({*works_of(now).release} - {page for before in released for page in before})
        return step.answer

    make(Attach())
    assert make(Prefetch(1, path_of(names, Key(None, units), size), None)).asked == reserved * size
    held = works_of(now).operations[0].held
    if already:
        cut = path_of(names, Key(None, units[: already * size]), size, row=True)
        assert make(Begin(2, cut)) is not None
        make(End(2, keep=True))
        assert [transfer.kind for transfer in works_of(now).transfers] == [BACKUP]
    released = [set(works_of(now).release)]
    make(Advance(works_of(now).operations[0].job, Outcome("short", found)))
    for _ in range(completed):
        make(Advance(works_of(now).operations[0].job, Outcome("part", 1)))
    free = works_of(now).free
    make(Poll(1) if commits else Abandon(1))
    freed = set(works_of(now).free - free)
    cached = {copy.page for copy in now.host.pages.values()}
    for one in works_of(now).operations:
        make(Advance(one.job, DONE))
    make(Tick())
    assert not moving(now)
    return held, Ended(freed, cached, released)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_reference_sends_every_page_that_way(size: int) -> None:
    cases = 0
    for reserved, found, completed, already in itertools.product(range(1, 5), range(1, 5), range(5), range(5)):
        if not reserved >= found >= completed >= already:
            continue
        cases += 1
        held, ended = driven(reserved, found, completed, already, size=size, commits=True)
        for at, page in enumerate(held):
            freed, cached, _, after_read, after_query = ways(at, already, completed, completed, found, reserved)
            assert (page in ended.freed) == freed
            assert (page in ended.cached) == cached
            assert (page in ended.released[1]) == (after_query or (after_read and completed == found))
            assert any(page in more for more in ended.released) == (after_read or after_query)
    assert cases > 50


@pytest.mark.parametrize("size", [1, 2])
def test_an_abort_sends_every_page_back(size: int) -> None:
    for reserved, found, completed in itertools.product(range(1, 5), range(1, 5), range(5)):
        if reserved >= found >= completed:
            held, ended = driven(reserved, found, completed, 0, size=size, commits=False)
            assert not ended.cached and not ended.freed
            assert sorted(page for more in ended.released for page in more) == sorted(held)


# -- the boundary table -----------------------------------------------------------------------------------

j, k = z3.Ints("j k")
TRUNCATED = z3.If(z3.And(j >= 2, k >= 2), z3.If(j <= k, j, k), 0)
"""Pages that are reserved of k wanted where j are available, at a threshold of two pages."""


def reserved(pages: int, at_hand: int, page_size: int) -> int:
    """The units that are reserved of so many pages where others are available, at a threshold of two pages."""
    return truncated_length(PrefetchAsk(pages * page_size, page_size, 2 * page_size), at_hand * page_size)


WHOLE = [(of * p) % p == 0 for of in (j, k)]
"""What z3 doesn't see by itself: a multiple of a page is whole pages."""
FLOORED = formula_of(reserved, k, j, p)


def test_the_boundary_table_is_the_same_for_every_page_size() -> None:
    assert refuted([p >= 1, j >= 0, k >= 0, *WHOLE], TRUNCATED * p == FLOORED) is None


def test_a_threshold_that_must_be_exceeded_is_refuted() -> None:
    strict = z3.If(z3.If(j * p <= k * p, j * p, k * p) > 2 * p, z3.If(j * p <= k * p, j * p, k * p), 0)
    assert refuted([p >= 1, j >= 0, k >= 0], strict == TRUNCATED * p) is not None


TABLE = (
    (7, range(41), 0),
    (8, range(8), 0),
    (8, range(8, 41), 8),
    (12, range(12, 41), 12),
    (12, range(8, 12), 8),
    (16, range(16, 41), 16),
    (16, range(12, 16), 12),
    (16, range(8, 12), 8),
    (16, range(8), 0),
)
"""Pages of 4, a threshold of 8: units of the key, units available after the eviction, units reserved."""


@pytest.mark.parametrize("page", [1, 4, 16])
def test_every_row_of_the_boundary_table(page: int) -> None:
    for key, readings, expected in TABLE:
        for reading in readings:
            scaled = [number * page // 4 for number in (key // 4 * 4, reading // 4 * 4, expected)]
            ask = PrefetchAsk(scaled[0] + key % 4 * page // 4, page, 2 * page)
            granted = (scaled[1] >= scaled[0], scaled[1] >= scaled[0], True)
            host = Answers(granted, (0, scaled[1]))
            plan = converse(plan_prefetch(ask), host.reply)
            assert plan.accounted == plan.key_length == scaled[2]
            assert (plan.refusal is None) == (scaled[2] > 0)
    host = Answers((False, False, False), (0, 8))
    refused = converse(plan_prefetch(PrefetchAsk(16, 4, 8)), host.reply)
    assert refused.refusal and refused.accounted == 0 and host.calls[-1].name == "release"


# -- the timeout ------------------------------------------------------------------------------------------

base, rate, most, units, more, elapsed = z3.Reals("base rate most units more elapsed")
TIMES = [base >= 0, rate >= 0, most >= 0, units >= 0, more >= units]


def limit(length: Formula) -> Formula:
    return formula_of(lambda base, rate, most, length: time_limit((base, rate, most), length), base, rate, most, length)


CLAIMS = {
    "more units never have less time": limit(units) <= limit(more),
    "a maximum, if any, is never exceeded": z3.Or(most == 0, limit(units) <= most),
    "there is never less time than the base or the maximum": z3.Or(limit(units) >= base, limit(units) == most),
    "no units have the base, as far as the maximum goes": z3.Implies(
        units == 0, limit(units) == z3.If(z3.And(most > 0, most < base), most, base)
    ),
    "who is over the limit is so with fewer units too": z3.Implies(elapsed > limit(more), elapsed > limit(units)),
}
SLIPS = {
    "without a maximum": z3.Or(most == 0, base + rate * units / 1024 <= most),
    "the units of the whole request": limit(units) == limit(more),
    "at the limit": z3.Implies(elapsed >= limit(units), elapsed > limit(units)),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_the_time_limit(name: str) -> None:
    assert refuted(TIMES, CLAIMS[name]) is None


@pytest.mark.parametrize("name", SLIPS)
def test_a_wrong_time_limit_is_refuted(name: str) -> None:
    assert refuted(TIMES, SLIPS[name]) is not None


def test_the_formula_is_the_function() -> None:
    for numbers in itertools.product((0, 1, 2), (0, 256, 1024), (0, 1, 30), (0, 4, 1024, 4096)):
        values = dict(zip(("base", "rate", "most", "units"), numbers, strict=True))
        pairs = [(z3.Real(name), z3.RealVal(value)) for name, value in values.items()]
        exact = z3.simplify(z3.substitute(limit(units), *pairs)).as_fraction()
        assert time_limit(numbers[:3], numbers[3]) == float(exact)
