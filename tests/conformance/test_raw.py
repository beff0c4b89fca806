"""Arrays as a cache's own callers have them: which caches are handed them, and how schedules end with them."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np
import pytest

from kvlitmus.conformance.adapters.optimized.flat import SlotsOfPages
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.checker.calls import raw
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Kept
from kvlitmus.conformance.generate.actions import misuse
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import Op, draw, table
from kvlitmus.conformance.litmus.prefix.prefetch_table import ODD_NAMES, names_before
from kvlitmus.conformance.ports import Begun, Config, Hit, capabilities_of
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS, configs_of
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.tape.calls import CALLS
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.interface.cache import FORMS
from kvlitmus.spec.words.limits import unlimited

FLAT = Config(page_size=4)
TIERED = next(one for one in TIER_CONFIGS if one.storage == "attached" and one.write == "write_through")
TARGETS: dict[str, Any] = {"specimen": SpecimenTarget(), "reference": reference}


def optimized() -> Any:
    """The optimized cache; where it can't be made, the test is not for this machine."""
    for name in ("numba", "torch"):
        pytest.importorskip(name)
    from kvlitmus.conformance.adapters.optimized.target import target

    return target


@pytest.mark.parametrize("name", [*TARGETS, "optimized"])
def test_every_cache_of_our_own_is_handed_arrays(name: str) -> None:
    target = TARGETS.get(name) or optimized()
    assert capabilities_of(target.make(FLAT)) >= {"raw", "raw_requests"}
    assert capabilities_of(target.make(TIERED)) >= {"raw", "raw_requests", "raw_prefetching"}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_list_of_integers_is_refused(name: str, form: str) -> None:
    cache = TARGETS[name].make(FLAT)
    tokens = cache.raw_array([1] * 8, form)
    if form in FORMS[:2]:
        assert cache.raw_match(tokens, None).length == 0
    else:
        with pytest.raises(ValueError, match="expected a list of integers"):
            cache.raw_match(tokens, None)


def ended(name: str, config: Config, which: int, many: int) -> Counter[str]:
    """How schedules ended that end with the calls of one kind."""
    said: Counter[str] = Counter()
    for seed in range(many):
        target = TARGETS[name]
        checker = Checker(target.make(config), config, target.profile)
        interpreter = Interpreter(checker)
        ops = draw(seed, 60, table(checker.capabilities))
        interpreter.play([*ops, Op("last_call", seed, which, 2 * seed)])
        said[interpreter.misused] += 1
        said.update(call.partition("(")[0].partition(" the ")[0] for call in checker.history[-40:])
    return said


@pytest.mark.parametrize("name", TARGETS)
def test_a_schedule_of_a_hierarchy_ends_with_each_kind_of_call(name: str) -> None:
    kinds = misuse.BELOW + misuse.OVERWRITTEN
    found = {kind.__name__: ended(name, TIERED, which, 3) for which, (_, kind) in enumerate(kinds)}
    for kind in ("prefetch_long", "raw_prefetch_wrong", "raw_prefetch_narrow"):
        assert found[kind]["MISUSE-09"], kind
    assert found["raw_prefetch_overwritten"]["MISUSE-12"]
    assert bool(found["raw_hit_overwritten"]["MISUSE-12"]) == (name == "specimen"), "the reference hands out tuples"


@pytest.mark.parametrize("name", TARGETS)
def test_a_schedule_of_a_flat_cache_ends_with_slots_that_are_overwritten(name: str) -> None:
    found = ended(name, FLAT, len(misuse.KINDS), 4)
    assert bool(found["MISUSE-12"]) == (name == "specimen"), "the reference hands out tuples"


def test_the_schedules_of_the_second_generation_are_as_they_were() -> None:
    kinds = ("plan", "match", "insert")
    now = draw(7, 200, kinds, misuse=True)
    then = draw(7, 200, kinds, misuse=True, generation=2)
    assert then[-1] == now[-1]._replace(kind="misuse")
    assert [op._replace(kind="plan") if op.kind == "plan_behind" else op for op in now[:-1]] == then[:-1]
    many = Counter(op.kind for op in now)
    assert many["plan"] > 10 and many["plan_behind"] > 10


def test_names_before_a_key_are_drawn_and_some_are_odd() -> None:
    import random

    drawn = [names_before(random.Random(seed).randrange) for seed in range(60)]
    assert {len(names) for names in drawn} == {1, 2, 3, 4, 5, 6}
    assert {name for names in drawn for name in names} >= set(ODD_NAMES)
    assert drawn[7] == names_before(random.Random(7).randrange)


def test_what_is_written_into_slots_of_pages_is_written_into_the_pages() -> None:
    pages = np.array([3, 5], np.int32)
    slots = SlotsOfPages([12, 13, 14, 15, 20, 21, 22, 23], pages, 4)
    slots[5] = 8
    assert slots == [12, 13, 14, 15, 20, 8, 22, 23]
    assert pages.tolist() == [3, 2]


class Handed:
    """As much of a checker as an overwritten answer needs."""

    overwrites = True

    def __init__(self) -> None:
        self.history: list[str] = []
        self.kept = Kept()


def test_an_answer_that_cannot_be_written_into_is_told_apart() -> None:
    fixed = np.arange(4)
    fixed.flags.writeable = False
    checker: Any = Handed()
    odd: tuple[Any, ...] = ((1, 2), fixed, None, [], range(3))
    for slots in odd:
        assert not raw.overwrite_answer(checker, slots)
    own, other = [1, 2], [7]
    checker.kept.add(own)
    checker.kept.add(other)
    assert raw.overwrite_answer(checker, own) and own == [raw.WRITTEN] * 2
    assert checker.kept.changed() is None
    other[0] = 8
    assert checker.kept.changed() == ([8], [7])
    assert len(checker.history) == 1


def test_what_is_written_into_a_recorded_answer_stays_there() -> None:
    told: Json = {"length": 2, "slots": [4, 5]}
    for _ in range(2):
        hit = CALLS["raw_match"].told(told, Operands())
        assert isinstance(hit, Hit) and hit == Hit(2, [4, 5])
        cast("list[int]", hit.slots)[0] = raw.WRITTEN


class ArraysAreBegunBadly(Specimen):
    """A request that was begun with an array can't be published, whatever becomes of the array."""

    def raw_begin(self, rid: int, tokens: object, namespace: str | None) -> Begun | None:
        """Note it."""
        self.badly = rid
        return super().raw_begin(rid, tokens, namespace)

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """Raise."""
        if rid == getattr(self, "badly", None):
            raise KeyError(rid)
        return super().publish(rid, chunked=chunked)


def test_what_breaks_with_no_array_overwritten_is_no_matter_of_arrays() -> None:
    which = next(at for at, (_, kind) in enumerate(misuse.KINDS) if kind is misuse.raw_begin_overwritten)
    item = Item(kind="schedule", config=FLAT, schedule=(Op("last_call", 0, which, 1),))
    kept = all_mutants()["running-requests-share-their-prompt"].target
    told = {
        name: [rule for finding in run_item(target, item, Options()).findings for rule in finding.rules]
        for name, target in (("badly", SpecimenTarget(Parts(cache=ArraysAreBegunBadly))), ("kept", kept))
    }
    assert told["badly"] == ["PORT-01"]
    assert told["kept"][0] == "MISUSE-12"


LIMITED = [name for name, one in all_mutants().items() if one.null and not unlimited(one.target.profile)]


@pytest.mark.parametrize(
    ("name", "every"),
    [
        pytest.param(name, every, marks=marks)
        for name in LIMITED
        for every, marks in ((4, ()), (1, pytest.mark.nightly))
    ],
)
def test_whatever_a_schedule_ends_with_is_within_the_keys_that_a_cache_takes(name: str, every: int) -> None:
    """By day in every fourth configuration, of each cache in others."""
    target = all_mutants()[name].target
    for config in configs_of(target)[LIMITED.index(name) % every :: every]:
        for which in range(len(misuse.KINDS + misuse.OVERWRITTEN)):
            item = Item(kind="schedule", config=config, schedule=(Op("last_call", 0, which, 0),))
            assert run_item(target, item, Options()).findings == []
