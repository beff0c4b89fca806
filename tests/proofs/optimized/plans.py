"""Decisions by numbers: what a prefetch does, how long it may take, when a node is backed up, which page goes first."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

from kvlitmus.reference.prefix.prefetch import Call
from kvlitmus.spec.interface.plans import PrefetchAsk, PrefetchPlan
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.prefetch_life import ENDED, REVOKED
from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, alike, every
from tests.proofs.support.source import Slip, Source
from tests.proofs.support.terms import Whole

PLAN = "kvlitmus.optimized.prefetch"
FETCH = "kvlitmus.optimized.fetch"
BACKUP = "kvlitmus.optimized.backup"
POLICY = "kvlitmus.optimized.policy"
PATHS = "kvlitmus.optimized.paths"

Said = list[tuple[str, Any]]
"""A conversation with a host: each call and its amount."""


class Host:
    """A host of which each answer is unknown: the same to the same call, whoever asks."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.said: Said = []

    def note(self, name: str, amount: Any = 0) -> int:
        """Note a call; how many of this kind there were before."""
        before = [one for one, _ in self.said].count(name)
        self.said.append((name, amount))
        return before

    def protect(self) -> None:
        self.note("protect")

    def release(self) -> None:
        self.note("release")

    def alloc(self, amount: Any) -> tuple[str, int] | None:
        """Its slots have no numbers: they are named after the call that granted them."""
        before = self.note("alloc", amount)
        return ("slots", before) if self.run.whether(f"granted{before}") else None

    def available(self) -> Any:
        """Any number, even a negative one: nothing is assumed of hosts."""
        return self.run.number(f"available{self.note('available')}")

    def evict(self, amount: Any) -> int:
        self.note("evict", amount)
        return 0

    def reply(self, call: Call) -> Any:
        """The same for the reference, which holds a conversation."""
        amounts = (call.amount,) if call.name in ("alloc", "evict") else ()
        return getattr(self, call.name)(*amounts)


def same_plan(one: PrefetchPlan, other: PrefetchPlan) -> object:
    """Whether two plans are equal, field by field."""
    lengths = [a == b for a, b in zip(one[2:], other[2:], strict=True)]
    return every([one.refusal == other.refusal, one.slots == other.slots, *lengths])


@proof(
    *[rule.id for rule in all_rules().values() if rule.pack == "prefetch"],
    bounds="every page size, length, threshold and quota, and every answer of a host",
    slips=[
        Slip(PLAN, "ask.occupied >= ask.capacity", "ask.occupied > ask.capacity"),
        Slip(PLAN, "full_length(ask) < least_length(ask)", "ask.key_length < least_length(ask)"),
        Slip(PLAN, "if length else None", "if length > ask.page_size else None"),
        Slip(PLAN, "length // ask.page_size,", "ask.key_length // ask.page_size,"),
        Slip(PLAN, "            host.release()\n", ""),
        Slip(PLAN, "prefix_keys=ask.prefix_keys", "prefix_keys=ask.prefix_keys[1:]"),
    ],
)
def a_prefetch_is_planned_as_the_reference_plans_it(source: Source, run: Run, case: None) -> object:
    """Both make the same calls with the same amounts to a host that answers both alike, and decide the same."""
    size, length = run.number("page_size", 1), run.number("key_length", 0)
    threshold, occupied, capacity = run.number("threshold", 0), run.number("occupied"), run.number("capacity")
    ask = PrefetchAsk(length, size, threshold, run.whether("storage_on"), occupied, capacity, ("before", "it"))
    mine, theirs = Host(run), Host(run)
    plan = source.module(PLAN).PrefetchPlanner().plan_prefetch(ask, mine)
    reference = source.module("kvlitmus.reference.prefix.prefetch", int=Whole)
    expected = reference.converse(reference.plan_prefetch(ask), theirs.reply)
    calls = [[name for name, _ in host.said] for host in (mine, theirs)]
    if calls[0] != calls[1]:
        return False
    amounts = [a == b for (_, a), (_, b) in zip(mine.said, theirs.said, strict=True)]
    return every([*amounts, same_plan(plan, expected)])


WAITS = tuple(product(policies.STOPS, ("query", "fetch", "ended", "revoked"), ("requested", "hit")))


@proof(
    "FETCH-11",
    bounds="all times and lengths that are not negative, as real numbers; every policy, stage and basis",
    slips=[
        Slip(FETCH, "per_1024 * units / 1024", "per_1024 * units / 1000", case=16),
        Slip(FETCH, "return min(most, limit) if most else limit", "return min(most, limit)", case=16),
        Slip(FETCH, "elapsed > self.limit(operation)", "elapsed >= self.limit(operation)", case=16),
        Slip(FETCH, "operation.stage != REVOKED and elapsed", "elapsed", case=22),
        Slip(FETCH, "operation.asked if requested else operation.hit * self.size", "operation.asked", case=17),
    ],
    cases=WAITS,
)
def a_request_waits_for_its_prefetch_as_the_policy_says(source: Source, run: Run, case: tuple[str, str, str]) -> object:
    """The same answer, whatever the limit: rounding is left out."""
    stop, stage, basis = case
    fetch = source.module(FETCH)
    stages = {"query": fetch.QUERYING, "fetch": fetch.FETCHING, "ended": fetch.ENDED, "revoked": fetch.REVOKED}
    timeout = (run.real("base"), run.real("per_kilo"), run.real("most"))
    asked, hit, elapsed = run.real("asked"), run.real("hit"), run.real("elapsed")
    settings = fetch.FetchSettings(stop=stop, timeout=timeout, timeout_basis=basis)
    operation = SimpleNamespace(stage=stages[stage], asked=asked, hit=hit)
    fetches = SimpleNamespace(settings=settings, size=16)
    fetches.limit = lambda one: fetch.Fetches.limit(fetches, one)
    units = asked if basis == "requested" else hit * 16
    expected = policies.may_stop(stop, SPOKEN[stage], elapsed, policies.time_limit(timeout, units))
    return alike(fetch.Fetches.may_stop(fetches, operation, elapsed), expected)


SPOKEN = {"query": "query", "fetch": "fetch", "ended": ENDED, "revoked": REVOKED}
"""The stages as the spec calls them."""


@proof(
    "BACKUP-01",
    bounds="every number of hits; every write policy",
    slips=[Slip(BACKUP, "SELECTIVE: 2", "SELECTIVE: 3"), Slip(PATHS, ">= uses, nodes", "> uses, nodes")],
    cases=policies.WRITES,
)
def a_node_is_backed_up_when_it_was_used_often_enough(source: Source, run: Run, case: str) -> object:
    """Where a write policy ever finds a node due, it is the same one."""
    backup = source.module(BACKUP)
    hits = run.number("hits", 0)
    uses = backup.USES[case]
    node = SimpleNamespace(branch=SimpleNamespace(hits_at=lambda _: hits), lo=0)
    side = SimpleNamespace(nodes=lambda place, lo: [node])
    is_due = bool(uses) and bool(source.module(PATHS).Paths.due(side, None, 0, uses))
    return alike(is_due, policies.hot(case, hits))


@proof(
    "EVICT-05",
    bounds="every recency, age, number of hits and priority of two pages; every policy",
    slips=[
        Slip(POLICY, "-value_at(branch.touched, position), 0", "value_at(branch.touched, position), 0"),
        Slip(POLICY, ">= SLRU_HITS)", "> SLRU_HITS)"),
        Slip(POLICY, "return value_at(branch.priority, position),", "return -value_at(branch.priority, position),"),
        Slip(
            POLICY,
            "    return value_at(branch.created, position), 0",
            "    return value_at(branch.touched, position), 0",
        ),
        Slip(
            POLICY,
            "return branch.hits_at(position), value_at(branch.touched",
            "return branch.hits_at(position), value_at(branch.created",
        ),
    ],
    cases=policies.POLICIES,
)
def two_pages_go_in_the_order_of_the_policy(source: Source, run: Run, case: str) -> object:
    """One page is worth less than another exactly where the spec says so; then it goes first."""
    worth = source.module(POLICY, value_at=lambda level, position: level).POLICIES[case]
    pages = [page_of(run, name) for name in ("one", "other")]
    mine = [worth(page, 0) for page in pages]
    theirs = [policies.POLICIES[case](page) for page in pages]
    return alike(bool(mine[0] < mine[1]), bool(theirs[0] < theirs[1]))


def page_of(run: Run, name: str) -> Any:
    """A page of which nothing is known; to :mod:`kvlitmus.optimized` a branch of one page, whose levels are numbers."""
    found = {what: run.number(f"{name}_{what}") for what in ("touched", "created", "hits", "priority")}
    return SimpleNamespace(**found, hits_at=lambda _: found["hits"])
