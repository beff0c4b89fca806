"""A rule counts for another, at a lesser depth, only where the same calls break that one when they are seen whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.prefix.stand_ins import SAID
from tests.conformance import power

STRANDED = all_mutants()["tail-page-stranded"]
"""A leak: with counters its pages are missed, and seen whole they are nobody's."""


SHOWN_BY = {
    ("POOL-04", "POOL-05"): ("page-number-as-slot", 0),
    ("POOL-04", "LOCK-01"): ("pinned-is-evicted", 0),
    ("POOL-04", "EVICT-03"): ("pinned-is-evicted", 0),
    ("POOL-14", "POOL-12"): ("memory-runs-out-too-late", 1),
    ("POOL-14", "LOCK-02"): ("evictable-by-raw-length", 1),
    ("POOL-14", "FRAME-02"): ("freeing-sets-aside", 1),
    ("POOL-15", "POOL-12"): ("null-slot-is-freed", 0),
    ("TREE-02", "FRAME-01"): ("unlocking-flushes", 0),
    ("LOCK-07", "TREE-04"): ("last-unlock-frees", 1),
    ("TREE-19", "POOL-11"): ("overlap-slot-freed-twice", 1),
    ("TREE-19", "POOL-12"): ("parent-stays-among-the-leaves", 1),
    ("TREE-19", "FRAME-02"): ("freeing-sets-aside", 1),
    ("TREE-19", "TREE-08"): ("salt-cut-short", 1),
    ("TREE-19", "REQ-07"): ("abort-releases-nothing", 1),
    ("TREE-19", "REQ-09"): ("aborted-yet-cached", 1),
    ("TREE-19", "REQ-11"): ("chunk-matched-again", 1),
    ("TREE-20", "LOCK-01"): ("two-ideas-of-evictable", 0),
    ("TREE-20", "EVICT-03"): ("pinned-is-evicted", 0),
    ("TREE-22", "TREE-04"): ("slot-forked-in-match", 1),
    ("TREE-23", "REQ-10"): ("refused-keeps-its-slot", 1),
    ("TREE-24", "LOCK-02"): ("ack-keeps-the-lock", 1),
    ("TREE-24", "LOCK-04"): ("ack-keeps-the-lock", 1),
    ("EVICT-20", "EVICT-05"): ("hits-never-counted", 0),
    ("EVICT-20", "EVICT-06"): ("room-for-one-more", 0),
    ("EVICT-20", "EVICT-02"): ("evicted-never-counted", 0),
    ("EVICT-20", "EVICT-04"): ("parent-stays-among-the-leaves", 0),
    ("EVICT-20", "TREE-13"): ("hits-never-counted", 0),
    ("EVICT-20", "TREE-14"): ("split-forgets-priority", 0),
    ("EVICT-20", "POOL-20"): ("allocation-evicts-unasked", 1),
    ("EVICT-20", "FRAME-01"): ("unlocking-flushes", 0),
    ("EVICT-21", "EVICT-01"): ("mirrors-are-skipped", 0),
    ("EVICT-21", "EVICT-02"): ("evicted-never-counted", 0),
    ("EVICT-21", "EVICT-06"): ("evicted-never-counted", 0),
    ("EVICT-21", "LOCK-04"): ("lock-before-capacity", 0),
    ("EVICT-21", "LOCK-06"): ("lookup-pins", 0),
    ("EVICT-23", "EVICT-06"): ("room-for-one-more", 1),
    ("EVICT-24", "POOL-20"): ("allocation-evicts-unasked", 1),
    ("BACKUP-06", "TIER-08"): ("failed-backup-counts-as-landed", 0),
    ("TIER-10", "TIER-11"): ("host-eviction-ignores-pins", 0),
    ("TIER-10", "TIER-13"): ("demotion-takes-both-copies", 0),
    ("TIER-10", "EVICT-03"): ("host-eviction-ignores-pins", 0),
    ("TIER-10", "EVICT-06"): ("backups-flush-the-host", 1),
    ("TIER-10", "LOAD-09"): ("failed-load-drops-the-host-copy", 0),
    ("EVENT-03", "TIER-13"): ("demotion-takes-both-copies", 2),
    ("EVENT-03", "EVICT-06"): ("backups-flush-the-host", 2),
    ("EVENT-03", "TIER-41"): ("beginning-frees-host-copies", 2),
    ("EVENT-03", "TIER-42"): ("evictions-write-back-whatever-the-policy", 2),
    ("EVENT-03", "FETCH-14"): ("landing-flushes-the-tiers", 2),
    ("EVENT-03", "FRAME-03"): ("landing-flushes-both-tiers", 2),
    ("EVENT-03", "FETCH-12"): ("failed-page-counts", 2),
    ("FETCH-16", "FETCH-12"): ("commit-of-the-hit", 0),
    ("TIER-15", "LIFE-08"): ("revoked-keeps-its-anchor", 1),
    ("TIER-15", "EVICT-06"): ("host-gives-one-more", 1),
    ("TIER-17", "EVICT-04"): ("host-eviction-loses-what-it-cuts-off", 1),
    ("TIER-32", "POOL-12"): ("reset-keeps-a-host-page", 1),
    ("TIER-32", "LIFE-01"): ("reset-keeps-a-host-page", 1),
    ("TIER-32", "LIFE-08"): ("revoked-keeps-its-anchor", 1),
    ("TIER-32", "LIFE-16"): ("release-queue-keeps-a-page", 1),
    ("TIER-33", "FETCH-14"): ("landing-flushes-the-tiers", 1),
    ("TIER-33", "FRAME-03"): ("locking-flushes-the-host", 1),
    ("TIER-33", "FRAME-04"): ("matching-reserves-host-memory", 1),
    ("FETCH-19", "FRAME-07"): ("matching-asks-storage", 0),
}
"""For each pair of the spec's table a mutant that shows it, and the depth at which it does."""

STEPS = (2_500, 40_000)
"""So many random steps show a pair; more are tried where these have not: each new call changes what is drawn."""


def test_each_pair_has_a_mutant() -> None:
    assert SHOWN_BY.keys() == {(one.rule, id) for one in SAID for id in one.of}


@pytest.mark.nightly
@pytest.mark.parametrize(("rule", "meant"), SHOWN_BY)
def test_a_rule_is_broken_by_calls_that_break_what_it_stands_for(
    monkeypatch: pytest.MonkeyPatch, rule: str, meant: str
) -> None:
    id, depth = SHOWN_BY[rule, meant]
    one = all_mutants()[id]
    assert meant in one.kills
    monkeypatch.setattr(power, "MEANT", {rule: {meant}})

    shown = (power.power(replace(one, kills=(meant,)), depth, steps).says for steps in STEPS)
    assert next(filter(None, shown), ()) == ((rule, meant),)


def test_the_same_calls_show_what_is_meant() -> None:
    found = power.power(STRANDED, 1, 200)

    assert found.fires == ""
    assert ("POOL-14", "POOL-12") in found.says
    assert ("TREE-19", "REQ-07") in found.says
    assert found.differs


def test_what_only_follows_from_a_fault_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "MEANT", {"TREE-19": {"LOCK-04"}})

    found = power.power(replace(STRANDED, kills=("LOCK-04",)), 1, 200)

    assert (found.fires, found.says) == ("", ())
    assert found.consequences == ("TREE-19",)
    assert "TREE-19" in found.broken


def test_both_counts_have_both_denominators() -> None:
    named = power.Power("a", 1, "POOL-14", (), (), ("POOL-14",), "a rule is broken")
    said = power.Power("b", 1, "", (("TREE-19", "POOL-12"),), (), ("TREE-19",), "a rule is broken")
    hidden = power.Power("c", 1, "", (), (), (), "")

    *_, line = power.table([named, said, hidden, replace(hidden, id="d")])

    assert line == "| 1 | 4 | 1 = 25% | 2 = 50% | 2 | 1 = 50% | 2 = 100% |"
