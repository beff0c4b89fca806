"""What is proven of prefetches after their plan: how long they are waited for, what a query leads to, where slots go.

As in :mod:`tests.proofs.prefix.lemmas`: each function begins with its assumptions and ends with its claim about the
reference, every number is any number unless bounds say otherwise, and each claim has a planted slip beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.reference.prefix.hierarchy import empty_hierarchy, moving, works_of
from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.interface.tiers import FETCH, QUERY, Job, Outcome
from kvlitmus.spec.prefix.own_work import Operation
from kvlitmus.spec.prefix.seen import Asked, Record, TierSeen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Tiers, Work
from kvlitmus.spec.prefix.work_advance import follow_tiers
from kvlitmus.spec.prefix.work_calls import Advance
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.policies import BEST_EFFORT, TIMEOUT, WAIT_COMPLETE, may_stop
from kvlitmus.spec.words.prefetch_life import ANSWERED, ENDED, REVOKED
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, PageNo, Pages, RequestId, Tokens
from tests.proofs.prefix.lemmas import LEMMAS, lemma, plain
from tests.proofs.support.steps import claim, judged_by

__all__ = ["LEMMAS"]

STAGES = (QUERY, ANSWERED, REVOKED, FETCH, ENDED)
POLICIES = (BEST_EFFORT, WAIT_COMPLETE, TIMEOUT)
# -- the stop policies ------------------------------------------------------------------------------------


def _follows_the_table(
    decides: Callable[[str, str, int, int], bool], stage: int, policy: int, elapsed: int, limit: int
) -> bool:
    """The policy is the spec's, and judge and reference ask it; here is what it says, in words of its own."""
    at, stop = STAGES[plain(stage, 4)], POLICIES[plain(policy, 2)]
    late = elapsed > limit
    allowed = stop == BEST_EFFORT or at == ENDED or (stop == TIMEOUT and at != REVOKED and late)
    return decides(stop, at, elapsed, limit) == allowed


@lemma("FETCH-11", bounds="every stage and stop policy; any integer time and limit")
def a_request_waits_as_the_table_of_stop_policies_says(stage: int, policy: int, elapsed: int, limit: int) -> None:
    """Best effort never waits, nor does an ended read; a revoked one does until its tick; a limit is exceeded."""
    assert 0 <= stage <= 4 and 0 <= policy <= 2
    assert _follows_the_table(may_stop, stage, policy, elapsed, limit)


@lemma("FETCH-11", bounds="a prefetch at its limit is over")
def planted_stop_at_the_limit(stage: int, policy: int, elapsed: int, limit: int) -> None:
    """At exactly the limit the request goes on."""
    assert 0 <= stage <= 4 and 0 <= policy <= 2
    assert _follows_the_table(
        lambda stop, at, time, most: may_stop(stop, at, time + 1, most), stage, policy, elapsed, limit
    )


@lemma("FETCH-11", bounds="a revoked prefetch times out")
def planted_stop_of_the_revoked(stage: int, policy: int, elapsed: int, limit: int) -> None:
    """A revoked prefetch is let go of before the tick that gives its memory back."""
    assert 0 <= stage <= 4 and 0 <= policy <= 2

    def decides(stop: str, at: str, time: int, most: int) -> bool:
        return may_stop(stop, QUERY if at == REVOKED else at, time, most)

    assert _follows_the_table(decides, stage, policy, elapsed, limit)


# -- what a query leads to --------------------------------------------------------------------------------


JOB = 1
KEY = Key(None, (1, 2, 3))
TABLE = Names()
NAMES, ROOT = TABLE.of(None, KEY.units), TABLE.root(None)
TIERED = frozenset({"pool", "tree", "inspect", "tiers", "steps", "prefetching"})
ANSWERED_QUERY = claim("FETCH-08", "POOL-12", on=("query",), capabilities=TIERED)
BY_THRESHOLD = [
    Setting(Config(page_size=1, pages=4, host_pages=4, threshold=threshold), Profile(), SNAPSHOT, TIERED, TABLE)
    for threshold in range(5)
]


def queried(threshold: int) -> State:
    """A query for three pages of one slot is under way; nothing else is."""
    held = (PageNo(0), PageNo(1), PageNo(2))
    one = Operation(JOB, RequestId(1), QUERY, ROOT, NAMES, Tokens(3), held, None, Pages(0), True, 0.0)
    state = empty_hierarchy(BY_THRESHOLD[threshold])
    works = works_of(state)._replace(free=frozenset({PageNo(3)}), operations=(one,), serial=1)
    return state._replace(works=works, tiers=Tiers(attached=True))


def shown(state: State, hit: int) -> TierSeen:
    """What is seen of it: the host's free list, what is under way, and what storage was asked."""
    works, made = works_of(state), TierSeen()
    made.seen = True
    made.free = BY_THRESHOLD[0].usable
    made.host_free = tuple(sorted(works.free))
    made.moving = list(moving(state))
    made.jobs = {
        one.job: Job(one.job, one.stage, KEY._replace(tokens=KEY.tokens[: len(one.names)]), 0, 1)
        for one in works.operations
    }
    made.record = Record(asked=(Asked(("a", "b", "c"), hit),))
    return made


def waiting(job: Job) -> State:
    """What is known while the query is under way."""
    one = Prefetched(1, NAMES, 3, None, 0.0)
    fetches = Prefetches({1: one}, {1: 1}, {JOB: 1}, frozenset({1}), serial=1)
    tiers = Tiers(work={JOB: Work(job, NAMES, NAMES[-1], {})}, prefetches=fetches, attached=True)
    return empty_state()._replace(tiers=tiers)


Answers = Callable[[State, Setting, Advance], State]
"""What a query becomes when storage has answered."""


def answered(state: State, setting: Setting, call: Advance) -> State:
    """As the reference has it."""
    return perform(state, setting, call).after


def _leads_to_a_fetch(answer: Answers, threshold: int, hit: int) -> bool:
    hit, threshold = plain(hit, 3), plain(threshold, 4)
    setting, now = BY_THRESHOLD[threshold], queried(threshold)
    call = Advance(JOB, Outcome("short", hit))
    before, after = shown(now, 0), shown(answer(now, setting, call), hit)
    state = waiting(before.jobs[JOB])
    expected, then = follow_tiers(state, state, setting, call, None, before, after)
    return judged_by(ANSWERED_QUERY, setting, state, expected, then, call, None, before, after)


@lemma(
    "FETCH-08",
    "POOL-12",
    bounds="a query for 3 pages of one slot; thresholds from 0 to 4 (no hit is longer than 3)",
)
def a_query_leads_to_a_fetch_of_what_was_found_or_returns_everything(threshold: int, hit: int) -> None:
    """A hit of the threshold is fetched, one below it revoked; no page is lost or owned twice."""
    assert 0 <= threshold <= 4 and 0 <= hit <= 3
    assert _leads_to_a_fetch(answered, threshold, hit)


@lemma("FETCH-08", "POOL-12", bounds="the pages beyond the hit are forgotten, and so is the threshold")
def planted_query_that_keeps_its_tail(threshold: int, hit: int) -> None:
    """Whatever was found is fetched, and the rest isn't returned."""
    assert 0 <= threshold <= 4 and 0 <= hit <= 3

    def answer(state: State, setting: Setting, call: Advance) -> State:
        after = answered(state, BY_THRESHOLD[0], call)
        return after._replace(works=works_of(after)._replace(release=()))

    assert _leads_to_a_fetch(answer, threshold, hit)


# -- where the slots of a prefetch go ---------------------------------------------------------------------


def ways(slot: int, already: int, committed: int, completed: int, hit: int, reserved: int) -> list[bool]:
    """Which ways back a slot takes: freed, the tree's, released at the commit, after the read, after the query."""
    return [
        0 <= slot < already,
        already <= slot < committed,
        committed <= slot < completed,
        completed <= slot < hit,
        hit <= slot < reserved,
    ]


@lemma("POOL-12", bounds="any integers; the formulas, tied to the reference by test_prefetch_slots_z3.py")
def each_slot_of_a_prefetch_has_one_way_back(
    slot: int, already: int, committed: int, completed: int, hit: int, reserved: int
) -> None:
    """The five ways are a partition of what was reserved."""
    assert 0 <= already <= committed <= completed <= hit <= reserved
    assert sum(ways(slot, already, committed, completed, hit, reserved)) == (1 if 0 <= slot < reserved else 0)


@lemma("POOL-12", bounds="what was completed is released together with what was read but not committed")
def planted_release_of_everything(slot: int, already: int, committed: int, hit: int, reserved: int) -> None:
    """A detach that returns the whole buffer, though its tail is in the release queue already."""
    assert 0 <= already <= committed <= hit <= reserved and 0 <= slot < reserved
    taken = [0 <= slot < already, already <= slot < committed, committed <= slot < reserved, hit <= slot < reserved]
    assert sum(taken) == 1
