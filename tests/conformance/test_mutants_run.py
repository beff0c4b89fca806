"""Running mutants: what counts as a kill, and the line that says so."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from kvlitmus.conformance.cli.commands import mutants
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report.style import style_of
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options
from kvlitmus.mutants import run as mutants_run
from kvlitmus.mutants.registry import all_mutants
from tests.conformance.support.schemas import fits


def finding(rules: list[str]) -> Finding:
    return Finding(rules=rules, item="i", config=Config(), call="c", calls=["c"], allowed="", seen={})


def test_a_mutant_is_killed_by_a_rule_that_it_names_and_the_list_fits_its_schema() -> None:
    effort = mutants_run.Effort(steps=500)
    fates = [mutants_run.run_mutant(id, effort) for id in ("lookup-pins", "any-order")]
    assert fates[0].killed_by in fates[0].kills
    assert 0 < fates[0].length <= 8
    assert (fates[1].null, fates[1].alarms) == (True, [])
    assert mutants_run.summary(fates) == "mutants: 1/1 killed, null: 0/1 alarms"
    assert fits(mutants_run.document(fates, effort, "0.1.0"), "mutants") == []


def test_a_crash_is_no_kill() -> None:
    mutant = replace(all_mutants()["lookup-pins"], kills=("PORT-01", "PORT-02", "TREE-03"))
    crash, rule = (finding(rules) for rules in (["PORT-01"], ["PORT-01", "TREE-03"]))
    assert mutant.killed_by(crash.rules) == ""
    assert mutant.killed_by(rule.rules) == "TREE-03"


def test_the_last_line_counts_survivors_and_alarms() -> None:
    fates = [
        mutants_run.Fate(id="a", null=False, killed_by="TREE-03"),
        mutants_run.Fate(id="b", null=False),
        mutants_run.Fate(id="c", null=False, killed_by="TREE-03", error="the judge failed"),
        mutants_run.Fate(id="d", null=True),
        mutants_run.Fate(id="e", null=True, alarms=["x"]),
    ]
    assert mutants_run.summary(fates) == "mutants: 1/3 killed, null: 1/2 alarms"


def test_lengths_are_told_of_flat_caches_and_of_hierarchies_apart() -> None:
    flat, tiered = "lookup-pins", "anchor-not-pinned"
    fates = [mutants_run.Fate(id=flat, null=False, killed_by="TREE-03", length=length) for length in (9, 2)]
    fates += [
        mutants_run.Fate(id=tiered, null=False, killed_by="TIER-12", length=length) for length in range(20, 0, -1)
    ]
    fates.append(mutants_run.Fate(id=tiered, null=False, length=99))
    assert mutants_run.lengths(fates, tiered=False) == [2, 9]
    assert mutants_run.lengths(fates, tiered=True) == list(range(1, 21))
    assert mutants_run.most_of(range(1, 21)) == 18
    assert [mutants_run.most_of([*range(1, many + 1)]) for many in (1, 2, 9, 10, 11)] == [1, 2, 9, 9, 10]
    told = [*mutants.figures(fates, style_of(io.StringIO(), "never"))]
    assert told[1:3] == [
        "counterexamples of 2 targets without tiers: median 5.5 calls, nine of ten at most 9, longest 9",
        "counterexamples of 20 hierarchies: median 10.5 calls, nine of ten at most 18, longest 20",
    ]


def test_whoever_watches_sees_each_play_of_a_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for a shorter counterexample takes longer than a call may: without a sign it would read as a hang."""
    current = CurrentRun()
    seen: list[tuple[str, CurrentRun | None]] = []
    play = engine.run_item

    def watched(target: object, item: Item, options: Options, run: CurrentRun | None = None) -> ItemResult:
        seen.append((item.kind, run))
        return play(target, item, options, run)

    monkeypatch.setattr(engine, "run_item", watched)
    for mutant in ("lookup-pins", "null-hash-blake2b"):  # one is shrunk, the other one is played to its end
        mutants_run.run_mutant(mutant, mutants_run.Effort(steps=250, shrink_trials=5), current)
    assert {kind for kind, _ in seen} >= {"litmus", "random"} and all(run is current for _, run in seen)
    assert current.plays >= len(seen)
