"""Several ranks: where they meet, what is said of one that never comes, and that both models agree step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.checker.rendezvous import OddAnswer, together
from kvlitmus.conformance.generate.actions import ranks as actions
from kvlitmus.conformance.generate.caller import Caller
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Options, Verdict
from kvlitmus.conformance.run.verdicts import Scope, conclude
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.specimen.ranks import Deciding, RankCache, RankedSpecimen
from kvlitmus.spec.interface.ranks import (
    Ask,
    Collective,
    Decision,
    Exchange,
    Group,
    Local,
    RankView,
    Receive,
    Send,
    StatesView,
    World,
    worlds,
)
from kvlitmus.spec.parts import rules_of
from kvlitmus.spec.ranks.calls import ABSENT, LOST, RETURNED, WAITING
from tests.conformance.support.gathering_ranks import PROFILE as GATHERING
from tests.conformance.support.gathering_ranks import GatheringRanks
from tests.support.night import by_turns

PAIR = Group("tp", (0, 1))
Turns = Generator[Exchange, tuple[int, ...], list[Decision]]


def reduces(*values: int, op: str = "min", layout: tuple[str, ...] = ("n",)) -> Turns:
    """A rank that reduces some values, one after the other, and commits what came out."""
    pages = []
    for value in values:
        pages += list((yield Collective(PAIR, op, layout, (value,))))
    return [Decision("commit", "kv", (tuple(pages),))]


def test_a_collective_happens_when_all_members_have_entered_it() -> None:
    traces, unread = together({0: reduces(3, 8), 1: reduces(5, 2)})
    assert [one.ended for one in traces] == [RETURNED, RETURNED]
    assert [one.decisions for one in traces] == [(Decision("commit", "kv", ((3, 2),)),)] * 2
    assert unread == []


@pytest.mark.parametrize(
    ("first", "second", "ends"),
    [
        (reduces(1, 2), reduces(1), [WAITING, RETURNED]),
        (reduces(1), reduces(1, op="max"), [WAITING, WAITING]),
        (reduces(), reduces(1), [RETURNED, WAITING]),
    ],
)
def test_a_collective_that_not_all_enter_is_said_at_once(first: Turns, second: Turns, ends: list[str]) -> None:
    traces, _ = together({0: first, 1: second})
    assert [one.ended for one in traces] == ends


def test_who_waits_for_a_rank_that_is_gone_is_told_and_so_are_those_that_wait_for_it() -> None:
    def waits() -> Turns:
        yield Receive(0)
        return []

    traces, _ = together({0: reduces(1), 2: waits()}, gone=[1])
    assert [one.ended for one in traces] == [LOST, ABSENT, LOST]


def test_a_message_that_nobody_reads_is_left() -> None:
    def sends() -> Turns:
        yield Send(1, ("n",), (4,))
        yield Send(1, ("n",), (5,))
        return []

    def receives() -> Turns:
        values = yield Receive(0)
        return [Decision("ack", "write", (values,))]

    traces, unread = together({0: sends(), 1: receives()})
    assert traces[1].decisions == (Decision("ack", "write", ((4,),)),)
    assert unread == [(0, 1)]


def test_what_is_no_exchange_and_no_decision_is_odd() -> None:
    def yields_a_number() -> Turns:
        yield 3  # type: ignore[misc]
        return []

    def returns_a_number() -> Turns:
        yield from ()
        return 3  # type: ignore[return-value]

    for odd in (yields_a_number, returns_a_number):
        with pytest.raises(OddAnswer, match="rank 0"):
            together({0: odd()})


def endless() -> Iterator[Decision]:
    """Decisions without end."""
    while True:
        yield Decision("grant", "read", ())


def enters(*entered: Any) -> Turns:
    """A rank that enters these, and decides nothing."""
    for one in entered:  # noqa: UP028 - what comes back of it goes nowhere
        yield one
    return []


def returns(value: Any) -> Turns:
    """A rank that returns this."""
    yield from ()
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (returns(endless()), "at most 1000 things, got more"),
        (returns([Decision([], {}, ())]), "expected a text, got list"),  # type: ignore[arg-type]
        (returns([Decision("grant", "read", ("ab",))]), "not a list of decisions"),  # type: ignore[arg-type]
        (enters(*[Collective(Group("tp", (0,)), "barrier")] * 1001), "entered more than 1000 things"),
        (enters(Collective(Group("tp", ()), "min")), "collective of nobody"),
        (enters(Collective(PAIR, "prod")), "operation 'prod'"),
        (enters(Collective(PAIR, "min", (), ("a",))), "fields of other types"),  # type: ignore[arg-type]
        (enters(Collective(PAIR, "min", (), (1.5,))), "fields of other types"),  # type: ignore[arg-type]
        (enters(Receive([])), "fields of other types"),  # type: ignore[arg-type]
    ],
)
def test_what_a_rank_says_is_looked_at_before_anybody_waits_for_it(odd: Turns, said: str) -> None:
    with pytest.raises(OddAnswer, match=said):
        together({0: odd})


def test_members_of_a_group_may_be_a_list() -> None:
    (trace,), _ = together({0: enters(Collective(Group("tp", [0]), "min", ("n",), (1,)))})  # type: ignore[arg-type]
    assert trace.ended == RETURNED


@pytest.mark.parametrize("answer", [None, [1], "text"])
def test_what_is_no_generator_breaks_the_port(answer: object) -> None:
    class Odd(RankedSpecimen):
        def ranks_ask(self, rank: int, ask: Ask) -> Any:
            return answer

    checker = Checker(Odd(), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp2")
    with pytest.raises(Violation, match="PORT-03"):
        ranks.ask(checker, "acks")


@pytest.mark.parametrize(
    "fields",
    [
        {"device_free": "a"},
        {"device_free": None},
        {"device": None},
        {"device": 5},
        {"host": (["a"],)},
        {"reading": (1,)},
    ],
)
def test_a_look_with_other_fields_breaks_the_port(fields: dict[str, Any]) -> None:
    class Odd(RankedSpecimen):
        def ranks_view(self, rank: int) -> RankView:
            return super().ranks_view(rank)._replace(**fields)

    with pytest.raises(Violation, match="PORT-03"):
        ranks.start(Checker(Odd(), plan.RANKS, specimen.profile), "tp2")


@pytest.mark.parametrize("many", [0, 2])
def test_a_match_names_one_prefix(many: int) -> None:
    class Odd(RankCache):
        def ask_match(self, ask: Ask) -> Deciding:
            yield from ()
            return [Decision("match", "device", ((),) * many)]

    checker = Checker(RankedSpecimen(Odd), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp2")
    with pytest.raises(Violation, match="PORT-03"):
        ranks.ask(checker, "match", (1,))


@pytest.mark.parametrize("shape", ranks.SHAPES)
def test_the_groups_of_a_tree_connect_all_its_ranks_and_no_others(shape: str) -> None:
    world = worlds()[shape]
    for tree in range(len(world.trees)):
        for stage in world.trees[tree]:
            joined = {stage[0]}
            for _ in stage:
                joined |= {one for rank in joined for group in world.dimensions(rank) for one in group.members}
            assert joined == set(stage)


@pytest.mark.parametrize("config", by_turns(plan.RANK_CONFIGS), ids=lambda config: config.label)
def test_specimen_and_reference_decide_the_same(config: Config) -> None:
    """Two programs that know nothing of each other, the same schedules: the same views and the same words."""
    said, counted = [], Counter[str]()
    for target in (specimen, reference):
        mine = []
        for seed in range(6):
            checker = Checker(target.make(config), config, target.profile)
            Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))
            mine.append((checker.history, checker.ranks_state.seen))
            counted += checker.counted()
        said.append(mine)
    for one, other in zip(*said, strict=True):
        assert one[1] == other[1]
        assert [line for line in one[0] if "prefetch" not in line] == [
            line for line in other[0] if "prefetch" not in line
        ]
    assert all(counted[rule] for rule in ("RANKS-16", "RANKS-26", "RANKS-31"))


def test_every_rule_of_ranks_is_evaluated_by_the_litmus_tests_that_name_it() -> None:
    """In some configuration: a stop policy that lets every prefetch end leaves RANKS-12 nothing to say, for one."""
    tests = [test for test in all_litmus().values() if "ranks" in test.needs]
    assert {rule for test in tests for rule in test.rules} >= {one.id for one in rules_of("ranks")}
    for test in tests:
        counted = Counter[str]()
        for config in plan.RANK_CONFIGS:
            lacks = any(not counted[rule] for rule in test.rules)
            if lacks and plan.suits(test, config, specimen.profile, force_misuse=False):
                checker = Checker(specimen.make(config), config, specimen.profile)
                test.program(checker)
                counted.update(checker.counted())
        assert [rule for rule in test.rules if not counted[rule]] == [], test.id


def test_the_step_is_named_in_which_the_ranks_first_parted() -> None:
    """A use that one rank notes alone changes no answer until much later, when they evict."""

    class Notes(RankCache):
        def ask_match(self, ask: Ask) -> Deciding:
            decisions = yield from super().ask_match(ask)
            if self.number:
                self.use(self.device, self.path(ask.key)[:1])
            return decisions

    def play(target: object) -> None:
        checker = Checker(target, plan.RANKS, specimen.profile)
        ranks.start(checker, "tp2")
        for key in ((1,), (2,), (3,)):
            ranks.cached(checker, key)
        ranks.ask(checker, "match", (1, 2))
        ranks.ask(checker, "insert", (4, 5, 6, 7, 8))
        ranks.ask(checker, "evict", pages=8)

    play(RankedSpecimen())

    class Hidden(Notes):
        def ask_match(self, ask: Ask) -> Deciding:
            yield from ()
            decisions = [Decision("match", "device", (ask.key[:1],))]
            self.use(self.device, self.path(ask.key)[: self.number])
            return decisions

    with pytest.raises(Violation) as found:
        play(RankedSpecimen(Hidden))
    assert "RANKS-03" in found.value.rules
    assert "match" in found.value.call


def test_a_rank_that_can_be_seen_by_nobody_is_judged_by_what_it_decides() -> None:
    class Unseen:
        def __init__(self) -> None:
            self.inner = RankedSpecimen()
            self.ranks_start, self.ranks_ask = self.inner.ranks_start, self.inner.ranks_ask
            self.ranks_local = self.inner.ranks_local

    checker = Checker(Unseen(), plan.RANKS, specimen.profile)
    Interpreter(checker).play(draw(1, 250, table(checker.capabilities)))
    assert checker.counted()["RANKS-01"] and not checker.counted()["RANKS-03"]


def test_what_nobody_can_look_at_does_not_pass() -> None:
    """A look that is never given says nothing, as a missing port does: no rule on looks counts as kept."""

    class Blind(RankedSpecimen):
        def ranks_view(self, rank: int) -> RankView:
            return None  # type: ignore[return-value]

    checker = Checker(Blind(), plan.RANKS, specimen.profile)
    Interpreter(checker).play(draw(1, 250, table(checker.capabilities)))
    all_litmus()["ranks/a-rank-that-is-gone-is-told"].program(checker)
    counted = checker.counted()
    assert counted["RANKS-01"] and counted["RANKS-24"]
    seen = ("RANKS-03", "POOL-12", "TREE-02", *(f"RANKS-{number}" for number in (25, *range(29, 33))))
    assert not any(counted[rule] for rule in seen)


@pytest.mark.parametrize("hidden", range(4))
def test_a_fault_that_is_seen_counts_whoever_else_can_not_be_seen(hidden: int) -> None:
    class Leaks(RankCache):
        def drop(self, rid: int) -> None:
            self.reads.pop(rid, None)

    class Partly(RankedSpecimen):
        def ranks_view(self, rank: int) -> RankView:
            return None if rank == hidden else super().ranks_view(rank)  # type: ignore[return-value]

    checker = Checker(Partly(Leaks), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp4")
    ranks.ask(checker, "prefetch", (1, 2), rid=1)
    with pytest.raises(Violation) as found:
        ranks.ask(checker, "abort", rid=1)
    assert found.value.rules == ("POOL-12",)


def test_a_shape_that_a_cache_has_not_is_passed_over() -> None:
    class Pairs(RankedSpecimen):
        def ranks_start(self, world: object) -> None:
            raise NotImplementedError

    checker = Checker(Pairs(), plan.RANKS, specimen.profile)
    assert not ranks.start(checker, "tp4")


def test_a_rank_that_raises_breaks_the_port() -> None:
    class Raises(RankCache):
        def ask_acks(self, ask: Ask) -> Deciding:
            raise KeyError("acks")

    checker = Checker(RankedSpecimen(Raises), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp2")
    with pytest.raises(Violation) as found:
        ranks.ask(checker, "acks")
    assert found.value.rules == ("PORT-01",)


def with_states(adapter: object, shape: str = "tp2", **sizes: int) -> Checker:
    """A checker of ranks that have begun in a world with states."""
    checker = Checker(adapter, plan.RANKS, specimen.profile)
    assert ranks.start(checker, shape, **{"state_slots": 2, **sizes})
    return checker


@pytest.mark.parametrize(("c", "slots"), [(0, 0), (1, 3), (2, 0), (3, 3)])
def test_every_other_world_has_states(c: int, slots: int) -> None:
    checker = Checker(RankedSpecimen(), plan.RANKS, specimen.profile)
    actions.start(Caller(checker), 0, 2, c)
    assert checker.ranks_state.world.state_slots == slots


@pytest.mark.nightly
def test_ranks_that_do_not_say_that_they_keep_states_are_never_asked_for_any() -> None:
    asked: list[World] = []

    class Plain:
        """Ranks as they were written before there was a port for states."""

        def __init__(self) -> None:
            self.inner = RankedSpecimen()
            self.ranks_ask, self.ranks_local = self.inner.ranks_ask, self.inner.ranks_local
            self.ranks_view = self.inner.ranks_view

        def ranks_start(self, world: World) -> None:
            asked.append(world)
            self.inner.ranks_start(world)

    for seed in range(4):
        checker = Checker(Plain(), plan.RANKS, specimen.profile)
        Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))
    for test in all_litmus().values():
        if test.needs <= checker.capabilities and plan.suits(test, plan.RANKS, specimen.profile, force_misuse=False):
            test.program(checker)
    assert len(asked) > 50
    assert {world.state_slots for world in asked} == {0}


@pytest.mark.parametrize(
    "view",
    [
        5,
        StatesView((("a",),), (), 2),  # type: ignore[arg-type]
        StatesView((), (1,), 2),  # type: ignore[arg-type]
        StatesView((), (), "a"),  # type: ignore[arg-type]
    ],
)
def test_a_look_at_states_with_other_fields_breaks_the_port(view: Any) -> None:
    class Odd(RankedSpecimen):
        def ranks_states(self, rank: int) -> StatesView:
            return view  # type: ignore[no-any-return]

    with pytest.raises(Violation, match="PORT-03"):
        with_states(Odd())


def test_states_that_nobody_can_look_at_do_not_pass() -> None:
    class Blind(RankedSpecimen):
        def ranks_states(self, rank: int) -> StatesView:
            return None  # type: ignore[return-value]

    checker = with_states(Blind())
    ranks.ask(checker, "prefetch", (1, 2, 3), rid=1)
    ranks.ask(checker, "abort", rid=1)
    counted = checker.counted()
    assert counted["RANKS-26"] and not counted["POOL-12"] and not counted["RANKS-31"]


def test_a_state_that_one_rank_has_and_another_not_is_seen() -> None:
    class Forgets(RankCache):
        def attach_state(self, one: Any, place: Any) -> None:
            super().attach_state(one, () if self.number else place)

    checker = with_states(RankedSpecimen(Forgets))
    ranks.ask(checker, "prefetch", (1, 2), rid=1)
    ranks.found(checker, 1, [(1, 2)] * 2)
    ranks.read(checker, 1, [(2, 2, 1)] * 2)
    with pytest.raises(Violation) as found:
        ranks.ask(checker, "poll", rid=1)
    assert found.value.rules == ("RANKS-03", "RANKS-29")


def test_a_state_that_was_there_from_the_beginning_comes_from_nothing() -> None:
    class Born(RankCache):
        def clear(self) -> None:
            super().clear()
            if self.state_free:
                self.states[(1,)] = None
                self.state_free -= 1

    with pytest.raises(Violation) as found:
        with_states(RankedSpecimen(Born))
    assert found.value.rules == ("RANKS-31",)


class InOrder(RankCache):
    """Storage is read component by component, the state last; what comes in another order can't happen there."""

    def local(self, event: Local) -> Any:
        one = self.reads.get(event.rid)
        if event.what == "read" and one is not None and event.state and event.pages < one.hit:
            raise NotImplementedError
        return super().local(event)


class NoSmallWorlds(RankedSpecimen):
    """It keeps states, but not so few."""

    def ranks_start(self, world: World) -> None:
        if 0 < world.state_slots < 3:
            raise NotImplementedError
        super().ranks_start(world)


@pytest.mark.parametrize("make", by_turns([lambda: RankedSpecimen(InOrder), NoSmallWorlds], every=2))
def test_what_can_not_happen_to_states_is_passed_over(make: Any) -> None:
    for seed in range(2):
        checker = Checker(make(), plan.RANKS, specimen.profile)
        Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))
    for test in all_litmus().values():
        if plan.suits(test, plan.RANKS, specimen.profile, force_misuse=False):
            test.program(Checker(make(), plan.RANKS, specimen.profile))


@pytest.mark.parametrize("config", by_turns(plan.RANK_CONFIGS), ids=lambda config: config.label)
def test_a_legal_cache_of_another_design_is_not_accused(config: Config) -> None:
    counted = Counter[str]()
    for seed in range(5):
        checker = Checker(GatheringRanks(), config, GATHERING)
        Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))
        counted += checker.counted()
    for test in all_litmus().values():
        if plan.suits(test, config, specimen.profile, force_misuse=False):
            test.program(Checker(GatheringRanks(), config, GATHERING))
    assert all(counted[rule] for rule in ("RANKS-04", "RANKS-19", "POOL-12", "RANKS-16", "RANKS-26", "RANKS-31"))


class Few(RankedSpecimen):
    """It hasn't some of the calls, and some things can't happen to its ranks."""

    def __init__(self, *lacks: str, since: int = 0) -> None:
        super().__init__()
        self.lacks, self.since = lacks, since

    def ranks_ask(self, rank: int, ask: Ask) -> Any:
        self.since -= ask.what in self.lacks
        if ask.what in self.lacks and self.since < 0:
            raise NotImplementedError
        return super().ranks_ask(rank, ask)

    def ranks_local(self, event: Local) -> Any:
        if event.what in self.lacks:
            raise NotImplementedError
        return super().ranks_local(event)


class FewTarget:
    """A target of such caches."""

    profile, capabilities = specimen.profile, ("ranks", "ranks_view")

    def __init__(self, *lacks: str) -> None:
        self.lacks = lacks

    def make(self, config: Config) -> Few:
        return Few(*self.lacks)


READS = ("prefetch", "hit", "poll", "abort")


@pytest.mark.parametrize(
    ("lacks", "ids"),
    [
        (READS, [f"RANKS-{number}" for number in (12, 14, 16, 18, 19, 26, 32)]),
        pytest.param(("die",), ["RANKS-24", "RANKS-25"], marks=pytest.mark.nightly),
        pytest.param(("attach",), ["RANKS-18"], marks=pytest.mark.nightly),
        pytest.param((), [], marks=pytest.mark.nightly),
    ],
)
def test_what_ranks_say_that_they_have_not_is_not_applicable(lacks: tuple[str, ...], ids: list[str]) -> None:
    """And nothing else of them is: all the rest is judged, and holds."""
    config = plan.RANK_CONFIGS[0]
    chosen = plan.items([config], specimen.profile, steps=0)
    results = [run_item(FewTarget(*lacks), item, Options()) for item in chosen]
    assert not any(result.findings or result.error for result in results)
    told = {one.rule: one for one in conclude({one.id: one for one in rules_of("ranks")}, results, [], Scope())}
    assert [id for id, one in told.items() if one.verdict is not Verdict.PASSED] == ids
    assert {one.verdict for one in told.values()} <= {Verdict.PASSED, Verdict.NOT_APPLICABLE}
    assert {told[id].reason.partition("has no ")[0] for id in ids} <= {"the target says that it "}


@pytest.mark.parametrize(("what", "since"), [("load", 2), ("match", 0)])
def test_what_was_answered_before_or_is_owed_is_no_call_that_ranks_have_not(what: str, since: int) -> None:
    checker = Checker(Few(what, since=since), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp2")
    if since:
        ranks.ask(checker, what, (1,))
        with pytest.raises(Violation) as found:
            ranks.ask(checker, what, (1,))
        assert found.value.rules == ("PORT-01",)
    else:
        with pytest.raises(NotImplementedError):
            ranks.ask(checker, what, (1,))


def test_one_rank_alone_can_not_lack_a_call() -> None:
    class One(RankedSpecimen):
        def ranks_ask(self, rank: int, ask: Ask) -> Any:
            if rank and ask.what == "load":
                raise NotImplementedError
            return (yield from super().ranks_ask(rank, ask))

    checker = Checker(One(), plan.RANKS, specimen.profile)
    ranks.start(checker, "tp2")
    with pytest.raises(Violation) as found:
        ranks.ask(checker, "load", (1,))
    assert found.value.rules == ("PORT-01",)


def test_the_clock_of_a_rank_only_goes_on() -> None:
    """By one to a second more than a prefetch may take."""
    checker = with_states(RankedSpecimen())
    limit, clocks = checker.ranks_state.world.limit, [0]
    for a in range(2 * limit + 2):
        actions.clock(Caller(checker), a, 0, 0)
        clocks.append(checker.ranks_state.own[0].clock)
    assert {after - before for before, after in pairwise(clocks)} == set(range(1, limit + 2))
