"""Ranks in processes of their own: the same schedules over real groups, and what is said of one that never comes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvlitmus.conformance.adapters.process_groups import target as processes
from kvlitmus.conformance.adapters.process_groups.target import OtherValues, ProcessRanks, ProcessTarget
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.specimen.ranks import Deciding, RankCache, RankedSpecimen
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.interface.ranks import Ask, Collective, Group, Local, Prefix, World
from tests.support.processes import LIMIT

pytestmark = pytest.mark.slow

SIZES = (2, 4)


class Simulated(RankedSpecimen):
    """The specimen in one process, in the shapes of one size, whose ranks can't be lost either."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self.many = many

    def ranks_start(self, world: World) -> None:
        if len(world.ranks) != self.many:
            raise NotImplementedError
        super().ranks_start(world)

    def ranks_local(self, event: Local) -> Sequence[Prefix] | None:
        if event.what == "die":
            raise NotImplementedError
        return super().ranks_local(event)


def play(checker: Checker, seed: int) -> Checker:
    """All litmus tests of ranks, or a drawn schedule."""
    if seed:
        ops = draw(seed, 120, table(checker.capabilities))
        assert any(ranks.start(checker, shape) for shape in ranks.SHAPES)
        Interpreter(checker).play(ops)
        return checker
    for test in all_litmus().values():
        if plan.suits(test, checker.config, specimen.profile, force_misuse=False):
            test.program(checker)
    return checker


@pytest.mark.parametrize(
    ("many", "inner", "seeds"),
    [
        pytest.param(2, specimen, 1, id="2-specimen", marks=pytest.mark.nightly),
        *(
            pytest.param(many, inner, 4, id=f"{many}-{name}-longer", marks=pytest.mark.nightly)
            for many in SIZES
            for name, inner in (("specimen", specimen), ("reference", reference))
        ),
    ],
)
def test_over_real_groups_everything_is_as_in_one_process(many: int, inner: object, seeds: int) -> None:
    """The litmus tests, then drawn schedules, of both models, which agree step by step; what takes too long hangs."""
    with ProcessTarget(many, inner, silent=LIMIT) as target:
        for seed in range(seeds):
            config = replace(plan.RANKS, stop=("wait_complete", "timeout", "best_effort")[seed % 3])
            real = play(Checker(target.make(config), config, specimen.profile), seed)
            simulated = play(Checker(Simulated(many), config, specimen.profile), seed)
            assert real.history == simulated.history
            assert real.ranks_state == simulated.ranks_state
            assert real.counted()["RANKS-04"]
            assert real.counted()["RANKS-03"]
            assert seed or real.counted()["RANKS-26"], "worlds with states"


@pytest.mark.parametrize("many", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_a_collective_that_not_all_enter_is_named_and_not_waited_for(many: int) -> None:
    """Were it waited for, this would take as long as a test may."""
    one = all_mutants()["rank-skips-acks-when-idle"]
    with ProcessTarget(many, one.target, silent=LIMIT) as target:
        checker = Checker(target.make(plan.RANKS), plan.RANKS, one.profile)
        began = time.monotonic()
        with pytest.raises(Violation) as found:
            all_litmus()["ranks/nothing-under-way-is-agreed-on-too"].program(checker)
        print(f"named after {time.monotonic() - began:.2f} s: {found.value.rules}")
        assert one.killed_by(found.value.rules)
        assert "acks" in found.value.call


def test_nccl_wants_a_gpu_for_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "gpus", lambda: 1)
    with pytest.raises(Unsupported, match="NCCL wants a GPU for each of 2 ranks; 1 are here"):
        processes.two_nccl.make(plan.RANKS)


@pytest.mark.gpu
def test_over_groups_of_nccl_everything_is_as_in_one_process() -> None:
    if processes.gpus() < 2:
        pytest.skip("not run: NCCL wants a GPU for each of two ranks")
    with ProcessTarget(2, silent=LIMIT, backend="nccl") as target:
        for seed in range(2):
            real = play(Checker(target.make(plan.RANKS), plan.RANKS, specimen.profile), seed)
            simulated = play(Checker(Simulated(2), plan.RANKS, specimen.profile), seed)
            assert real.history == simulated.history


class Stuck(RankCache):
    """Its second rank says nothing any more when acknowledgements are asked for."""

    def ask_acks(self, ask: Ask) -> Deciding:
        while self.number:
            time.sleep(1)
        return (yield from super().ask_acks(ask))


class StuckSpecimen(RankedSpecimen):
    """Ranks of which the second one hangs."""

    def __init__(self) -> None:
        super().__init__(Stuck)


class StuckTarget:
    """A target of these."""

    profile = specimen.profile

    def make(self, config: Config) -> StuckSpecimen:
        """Fresh ranks."""
        return StuckSpecimen()


@pytest.mark.nightly
def test_a_rank_that_says_nothing_is_reported_when_its_time_is_up() -> None:
    with ProcessTarget(2, StuckTarget(), silent=1.0) as target:
        checker = Checker(target.make(plan.RANKS), plan.RANKS, specimen.profile)
        ranks.start(checker, "tp2")
        with pytest.raises(Violation) as found:
            ranks.ask(checker, "acks")
    assert found.value.rules == ("PORT-01",)
    assert re.search(r"rank \d said nothing for 1 s", found.value.detail)


class Wrong:
    """A process in which a collective comes out wrong."""

    def __init__(self) -> None:
        self.mine = self
        self.says: list[tuple[str, object]] = [("enters", ALONE), ("out", (4,))]

    def send(self, what: object) -> None:
        """Nothing is done."""

    def hear(self, seconds: float) -> tuple[str, object]:
        """What it says next."""
        return self.says.pop(0)


ALONE = Collective(Group("tp", (0,)), "min", ("n",), (3,))


def test_a_real_collective_that_yields_other_values_is_noticed() -> None:
    asking = ProcessRanks([Wrong()], 1.0).ranks_ask(0, Ask("acks"))  # type: ignore[list-item]
    assert next(asking) == ALONE
    with pytest.raises(OtherValues, match=r"rank 0 got \(4,\)"):
        asking.send((3,))


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("many", SIZES)
def test_a_process_that_is_killed_is_told_to_the_others(many: int) -> None:
    """Their groups tell them, within the limit; the call has changed nothing, and all begin anew."""
    with ProcessTarget(many, silent=LIMIT, mortal=True) as target:
        checker = Checker(target.make(plan.RANKS), plan.RANKS, specimen.profile)
        lost = (("tp2", 1, "insert"), ("pp2", 0, "acks"), ("tp2cp2", 3, "insert"), ("tp2pp2", 0, "load"))
        for shape, rank, what in lost:
            if ranks.start(checker, shape):
                ranks.cached(checker, (1, 2, 3))
                began = time.monotonic()
                assert ranks.lose(checker, rank, what, (1, 2, 4), 1)
                print(f"{shape}: told, and begun anew, after {time.monotonic() - began:.1f} s")
                ranks.cached(checker, (1, 2, 3))
        assert checker.counted()["RANKS-24"] and checker.counted()["RANKS-25"]
        text = "\n".join(checker.history)
        assert "lost" in text


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_rank_that_took_memory_before_a_process_was_killed_is_noticed() -> None:
    one = all_mutants()["rank-reserves-before-all-agree"]
    with ProcessTarget(2, one.target, silent=LIMIT, mortal=True) as target:
        checker = Checker(target.make(plan.RANKS), plan.RANKS, one.profile)
        with pytest.raises(Violation) as found:
            all_litmus()["ranks/a-rank-that-is-gone-is-told"].program(checker)
        assert "RANKS-25" in found.value.rules
