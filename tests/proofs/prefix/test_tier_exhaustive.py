"""Every state of small hierarchies, every step from every state, every rule and law after every step."""

from __future__ import annotations

import pytest

from kvlitmus.reference.prefix import event
from kvlitmus.spec.law.rule import Kind
from kvlitmus.spec.parts import all_rules
from tests.proofs.support.searches import tiered as explore
from tests.proofs.support.tier_explore import Counterexample, Explorer
from tests.proofs.support.tier_judge import ON_BOTH_TIERS, PACKS
from tests.proofs.support.tier_laws import LAWS, LAWS_OF_STEPS
from tests.proofs.support.tier_planted import PLANTED, Planted
from tests.proofs.support.tier_scopes import EVERY_RUN, NIGHTLY, ONE
from tests.support.mutants import assert_killed
from tests.support.night import by_turns

pytestmark = pytest.mark.proof

ELSEWHERE = {
    "BACKUP-04": "names in storage are hashes of prefixes: lemmas of the hash chain, random schedules",
    "BACKUP-05": "the same",
    "BACKUP-06": "what is put is read from the pools by the adapter: random schedules",
    "BACKUP-07": "storage is whatever its answers are: what is asked of it is the adapter's, random schedules",
    "BACKUP-08": "the same",
    "BACKUP-09": "the same",
    "BACKUP-11": "the same",
    "FETCH-09": "what is asked of storage is the adapter's: random schedules",
    "FETCH-19": "the same",
    "FETCH-20": "the same",
    "EVENT-08": "of flat caches: test_exhaustive.py",
    "EVENT-11": "of what was published: test_event_streams.py",
    "EVENT-12": "the same",
    "EVENT-09": "the same",
    "EVENT-10": "the same",
    "FRAME-07": "what is asked of storage is the adapter's: random schedules, and disturbances",
    "LIFE-02": "the model has no store to remove anything from",
    "LIFE-07": "judged, not counted: states forget how many prefetches there were: random schedules",
    "LIFE-09": "the same",
    "LIFE-15": "no reset comes between the poll that lets a request go and its question: a litmus test",
}
"""Rules of hierarchies that the enumeration can't evaluate, and what establishes them instead."""


@pytest.mark.parametrize("name", by_turns(EVERY_RUN, every=len(EVERY_RUN)))
def test_no_step_breaks_a_rule_or_a_law(name: str) -> None:
    report = explore(name)
    print(f"{name}: {report.line()}")
    assert report.complete
    assert report.states > 100 and report.transitions > 10 * report.states


@pytest.mark.nightly
def test_every_rule_of_hierarchies_is_evaluated_in_some_step() -> None:
    counts = {
        id: sum(explore(name).evaluated[id] for name in EVERY_RUN) for id in (*all_rules(), *LAWS, *LAWS_OF_STEPS)
    }
    silent = [id for id, rule in all_rules().items() if (rule.pack in PACKS or id in ON_BOTH_TIERS) and not counts[id]]
    assert set(silent) == ELSEWHERE.keys()
    assert all(counts[law] for law in (*LAWS, *LAWS_OF_STEPS))


@pytest.mark.nightly
def test_every_kind_of_step_is_taken() -> None:
    taken = {kind for name in EVERY_RUN for kind in explore(name).steps}
    wanted = {
        kind
        for rule in all_rules().values()
        if rule.pack in PACKS and rule.kind is Kind.STEP and rule.id not in ELSEWHERE and rule.pack != "frame"
        for kind in rule.on
    }
    elsewhere = {"insert", "publish", "commit", "flat_call", "flush", "refused_flush"}
    allocations = {"alloc", "refused_alloc", "alloc_extend", "alloc_decode", "refused_extend", "grow", "refused_grow"}
    shortened = {
        "take_back",
        "fork",
        "refused_fork",
        "retract",
        "refused_retract",
        "resume",
        "refused_resume",
        "discard",
    }
    by_requests = {"lock", "unlock", "free", "group_open", "group_closed"}
    # Requests insert, lock and free here, polls commit, nothing is flat; the frame is about every call that there is.
    # Only requests that begin allocate, none grows, shrinks, is forked or retracted; a batch is of traces alone.
    # No memory fails (LOAD-04).
    assert wanted - taken == elsewhere | allocations | shortened | by_requests | {"extend_batch", "out_of_memory"}


def search(one: Planted) -> tuple[str, ...]:
    """The rule or law that a mutant of the reference breaks, in the first step that breaks any."""
    try:
        Explorer(one.scope, one.target()).run(most_states=20_000)
    except Counterexample as found:
        return (found.broken,)
    return ()


@pytest.mark.parametrize("one", by_turns(PLANTED, every=5), ids=lambda one: one.id)
def test_a_mutant_of_the_reference_is_found(one: Planted) -> None:
    assert_killed(one, lambda _: search(one))


def test_events_that_are_not_told_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = event.changes
    monkeypatch.setattr(
        event, "changes", lambda before, after: [one for one in told(before, after) if one.what == event.STORED]
    )
    with pytest.raises(Counterexample) as caught:
        Explorer(ONE).run(most_states=20_000)
    assert caught.value.broken == "events tell what there is"


@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
def test_no_step_of_a_larger_hierarchy_breaks_a_rule_or_a_law(name: str) -> None:
    report = Explorer(NIGHTLY[name]).run()
    print(f"{name}: {report.line()}")
    assert report.complete or report.depth == NIGHTLY[name].depth
