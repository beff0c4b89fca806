"""The optimized cache on several ranks, judged: it keeps every rule, and a rank that decides alone is found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the extra 'optimized' is not installed")

from kvlitmus.conformance.adapters.optimized.ranks import TARGETS, OptimizedRanks, RanksTarget
from kvlitmus.conformance.adapters.reference.ranks import RankedReference
from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.checker.rendezvous import together
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.optimized.agreement import Vector
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.ranks import RankedCache
from kvlitmus.reference.ranks import Rank
from kvlitmus.spec.interface.ranks import Ask, Local, Prefix, World, worlds
from kvlitmus.spec.parts import rules_of
from kvlitmus.spec.ranks.calls import RETURNED
from kvlitmus.spec.ranks.state import decided
from tests.support.night import by_turns

OF_PARTS = {"RANKS-16", "RANKS-26"}
"""What windows and states are needed for, which this cache has not."""
OWN = {one.id for one in rules_of("ranks")}


def broken(target: RanksTarget, config: Config, program: Callable[[Checker], object]) -> set[str]:
    """The rules that ranks break in a program of calls."""
    checker = Checker(target.make(config), config, target.profile)
    try:
        program(checker)
    except Violation as violation:
        return set(violation.rules)
    return set()


def drawn(seed: int, counted: Counter[str] | None = None) -> Callable[[Checker], None]:
    """A drawn schedule; how often each rule was evaluated is added to what was counted."""

    def program(checker: Checker) -> None:
        Interpreter(checker).play(draw(seed, plan.OPS, table(checker.capabilities)))
        if counted is not None:
            counted.update(checker.counted())

    return program


# -- every rule -------------------------------------------------------------------------------------------------------


def test_the_target_is_several_ranks_alone() -> None:
    assert load_target(resolve_target("optimized-ranks")) is TARGETS["target"]
    with pytest.raises(Unsupported, match="several ranks"):
        TARGETS["target"].make(Config())


@pytest.mark.parametrize("config", by_turns(plan.RANK_CONFIGS), ids=lambda config: config.label)
def test_ranks_keep_every_rule_in_drawn_schedules(config: Config) -> None:
    counted = Counter[str]()
    for seed in range(4):
        assert broken(TARGETS["target"], config, drawn(seed, counted)) == set()
    assert {id for id in OWN if counted[id]} >= OWN - OF_PARTS - {"RANKS-12", "RANKS-18"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("config", plan.RANK_CONFIGS, ids=lambda config: config.label)
def test_ranks_keep_every_rule_for_long(config: Config, policy: str, name: str) -> None:
    counted = Counter[str]()
    for item in plan.items((replace(config, policy=policy),), TARGETS[name].profile, steps=8_000):
        result = engine.run_item(TARGETS[name], item, Options(shrink_trials=0))
        assert not result.error and not result.findings, (result.error, result.findings)
        counted.update(result.evaluated)
    assert {id for id in OWN if counted[id]} == OWN - OF_PARTS


# -- slips that the suite finds ---------------------------------------------------------------------------------------


def by_itself(*wanted: str) -> type[RankedCache]:
    """A rank that goes by its own numbers of these names, and not by what all have in common."""

    class ByItself(RankedCache):
        """Such a rank."""

        def tick(self) -> Vector:  # type: ignore[override]
            vector = super().tick()
            self.mine = vector.copy()
            return vector

        def settle(self, vector: object) -> None:
            least = np.array(vector)
            for at, name in enumerate(self.layout.names):
                if name.endswith(wanted) and name.startswith("prefetch") == wanted[0].startswith(" "):
                    least[at] = self.mine[at]
            super().settle(least)

    return ByItself


class OtherLayout(RankedCache):
    """A rank that packs by an order of its own."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.rank:
            self.layout.names = (*self.layout.names[:6], *reversed(self.layout.names[6:]))


def storage_has_less_on_one(checker: Checker) -> None:
    """Storage has four pages on one rank, and two on the other."""
    ranks.start(checker, "tp2")
    ranks.ask(checker, "prefetch", (1, 2, 3, 4), rid=1)
    ranks.found(checker, 1, [range(1, 5), range(1, 3)])


def litmus(name: str) -> Callable[[Checker], object]:
    """The litmus test of ranks with this name."""
    return all_litmus()[f"ranks/{name}"].program


SLIPS: dict[str, tuple[type[RankedCache], str, Callable[[Checker], object], set[str]]] = {
    "backups are noted alone": (
        by_itself("backups over", "backups well"),
        "wait_complete",
        litmus("copies-that-end-apart-are-noted-together"),
        {"RANKS-01", "RANKS-10"},
    ),
    "loads are noted alone": (
        by_itself("loads over", "loads well"),
        "wait_complete",
        litmus("what-is-loaded-back-is-on-every-rank"),
        {"RANKS-01", "RANKS-10"},
    ),
    "memory is granted alone": (
        by_itself("host pages"),
        "wait_complete",
        litmus("a-prefetch-fits-the-rank-with-least-room"),
        {"RANKS-01"},
    ),
    "storage is gone for one": (
        by_itself("attached"),
        "wait_complete",
        litmus("a-prefetch-fits-the-rank-with-least-room"),
        {"RANKS-01"},
    ),
    "storage has it alone": (by_itself(" pages", " over"), "wait_complete", storage_has_less_on_one, {"RANKS-01"}),
    "a prefetch ends alone": (
        by_itself(" may end"),
        "timeout",
        litmus("a-clock-that-runs-ahead-ends-nothing"),
        {"PORT-01"},
    ),
    "a failure is one's own": (
        by_itself(" unbroken"),
        "wait_complete",
        litmus("reads-that-end-apart-are-committed-alike"),
        {"PORT-01"},
    ),
    "a layout of one's own": (
        OtherLayout,
        "wait_complete",
        litmus("copies-that-end-apart-are-noted-together"),
        {"RANKS-04"},
    ),
}


@pytest.mark.parametrize("slip", by_turns([(one,) for one in SLIPS], ids=SLIPS))
def test_a_rank_that_decides_alone_is_found(slip: str) -> None:
    kind, stop, program, rules = SLIPS[slip]
    config = replace(plan.RANKS, stop=stop)
    assert broken(RanksTarget(cache=kind), config, program) & rules
    assert broken(TARGETS["target"], config, program) == set()


# -- beside the reference ---------------------------------------------------------------------------------------------


SAID = (
    *(("match", "device"), ("commit", "device"), ("grant", "write"), ("ack", "write"), ("ack", "load")),
    *(("grant", "load"), ("grant", "read"), ("grant", "hit"), ("commit", "kv")),
)
"""What both decide alike where there is room for all."""


class Beside:
    """The optimized ranks and the reference's, with room for all: each call on both, with the same decisions.

    What is a choice of a cache is not asked: whether a page counts as cached while it is being copied.
    """

    def __init__(self, world: World) -> None:
        self.world, self.sides = world, (OptimizedRanks(TARGETS["target"], "lru"), RankedReference())
        for side in self.sides:
            side.ranks_start(world)

    @property
    def known(self) -> Rank:
        """The first of the reference's ranks."""
        return self.sides[1].ranks[0]

    def ask(self, what: str, key: Prefix = (), rid: int = 0, pages: int = 0) -> None:
        """Ask both the same, which decide the same; in which order pages of the device go is not said here."""
        said = []
        for side in self.sides:
            traces, _ = together({one: side.ranks_ask(one, Ask(what, key, rid, pages)) for one in self.world.ranks})
            assert all(trace.ended == RETURNED for trace in traces), traces
            assert len({tuple(trace.decisions) for trace in traces}) == 1
            told = [decided(traces[0].decisions, *of) or () for of in SAID]
            said.append([*told, tuple(sorted(decided(traces[0].decisions, "victims", "device") or ()))])
        assert said[0] == said[1], (what, key, rid, said)

    def local(self, event: Local) -> None:
        """Something happens to one rank: of copies all that end with it."""
        try:
            ended = self.sides[0].ranks_local(event) or (event.key,)
        except NotImplementedError:
            return
        for page in ended:
            self.sides[1].ranks_local(event._replace(key=page))

    def copied(self, chance: random.Random, *, finish: bool = False) -> None:
        """Copies end on some ranks, or all of them, and what has ended on all is noted."""
        for number in self.world.ranks:
            for what, queue in (("wrote", self.known.writing), ("loaded", self.known.loading)):
                for page in queue:
                    there = page in getattr(self.sides[1].ranks[number].own, what)
                    if not there and (finish or chance.random() < 0.3):
                        self.local(Local(number, what, page))
        self.ask("acks")


def beside(shape: str, stop: str, seed: int, steps: int) -> Counter[str]:
    """Play a schedule on both; how often what was asked."""
    chance, asked = random.Random(f"{shape} {stop} {seed}"), Counter[str]()
    world = worlds(pages=400, host_pages=400, window=0, stop=stop)[shape]
    both = Beside(world)
    for step in range(1, steps):
        key = tuple(chance.randrange(3) for _ in range(chance.randrange(1, 6)))
        rank, reading = chance.choice(world.ranks), both.known.reading
        what = chance.choice(["insert", "evict", "match", "load", "prefetch", "acks", "found", "read", "poll", "clock"])
        if what in ("match", "load", "prefetch", "insert") and (both.known.loading or what == "prefetch"):
            both.copied(chance, finish=True)
        asked[what] += 1
        if what in ("insert", "match", "load"):
            both.ask(what, key)
        elif what == "evict":
            both.ask(what, pages=400)
        elif what == "prefetch" and len(reading) < 4:
            both.ask(what, key, rid=step)
        elif what == "acks":
            both.copied(chance)
        elif what == "clock":
            both.local(Local(rank, "clock", pages=step // 8))
        elif reading:
            rid = chance.choice(list(reading))
            one = reading[rid]
            if what == "found" and one.hit is None and rid not in both.sides[1].ranks[rank].own.found:
                both.local(Local(rank, what, rid=rid, boundaries=tuple(range(1, chance.randrange(len(one.pages)) + 2))))
                both.ask("hit", rid=rid)
            elif what == "read" and one.hit is not None:
                done = both.sides[1].ranks[rank].own.read.get(rid, (0, 0))[0]
                pages = chance.randrange(done, one.hit + 1)
                both.local(Local(rank, "failed" if chance.random() < 0.1 else "read", rid=rid, pages=pages))
            elif what == "poll":
                both.ask("abort" if chance.random() < 0.1 else "poll", rid=rid)
    both.copied(chance, finish=True)
    ends = [side.ranks_view(number) for side in both.sides for number in world.ranks]
    assert all((set(one.device), set(one.host)) == (set(ends[0].device), set(ends[0].host)) for one in ends)
    return asked


@pytest.mark.parametrize("stop", by_turns(("wait_complete", "timeout", "best_effort")))
def test_ranks_decide_as_the_reference_does(stop: str) -> None:
    assert beside("tp2", stop, 0, 300).keys() >= {"insert", "load", "prefetch", "poll", "read"}


@pytest.mark.nightly
@pytest.mark.parametrize("shape", worlds())
@pytest.mark.parametrize("stop", ["wait_complete", "timeout", "best_effort"])
def test_ranks_decide_as_the_reference_does_for_long(shape: str, stop: str) -> None:
    if shape == "attn2":
        pytest.skip("two trees, of which each is asked by itself")
    for seed in range(10):
        beside(shape, stop, seed, 800)
