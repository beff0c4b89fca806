"""What was said of a rule that is retired by now is said of the one that took its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.cli.commands.common import UsageError, pick_rules
from kvlitmus.conformance.report.compare import compare
from kvlitmus.conformance.run import baseline, failures
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.results import Verdict
from kvlitmus.conformance.run.verdicts import Group
from kvlitmus.spec.law.rule import RETIRED, Retired, in_force, said_before
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.reports import report
from tests.conformance.test_baseline import said
from tests.conformance.test_failures import saved
from tests.conformance.test_verdicts import finding
from tools import results, site


@pytest.fixture(autouse=True)
def _old_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rules were retired, one after the other, for LOCK-06; what a third one said nobody says."""
    for id, by in (("OLDER-01", "OLD-01"), ("OLD-01", "LOCK-06"), ("GONE-01", "")):
        monkeypatch.setitem(RETIRED, id, Retired("it was said twice", by))


def test_an_id_leads_to_the_rule_in_force() -> None:
    assert (in_force("OLDER-01"), in_force("LOCK-06"), in_force("GONE-01")) == ("LOCK-06", "LOCK-06", "GONE-01")
    assert set(said_before("LOCK-06")) == {"OLD-01", "OLDER-01"} and said_before("LOCK-04") == ()


def test_whoever_asks_for_it_gets_its_successor_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(pick_rules(["older-01"], [])) == ["LOCK-06"]
    assert capsys.readouterr().err == "rule OLDER-01 is retired: it was said twice; LOCK-06 is taken instead\n"
    with pytest.raises(UsageError, match="GONE-01 is retired"):
        pick_rules(["GONE-01"], [])
    assert main(["rules", "OLD-01"]) == 0
    assert "LOCK-06" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("old", ["OLD-01", "OLDER-01"])
def test_a_baseline_knows_what_it_knew_by_the_old_rule(old: str) -> None:
    one = finding("LOCK-06", "LOCK-02")
    cause = cause_of(replace(one, rules=[old])).id
    assert cause != cause_of(one).id, "the family is part of the cause"
    row = {"rule": old, "cause": cause, "reason": "r", "link": "https://x"}
    entries = baseline.parse({"known": [row]}, all_rules())
    verdicts = [said("LOCK-06", Verdict.VIOLATED), said("LOCK-02", Verdict.VIOLATED)]
    met = baseline.compare(entries, verdicts, [Group(finding=one, cause=cause_of(one))], "0.1.0")
    assert met.known == [*entries] and not met.stale and met.accepted == {"LOCK-06", "LOCK-02"}
    other = replace(one, call="evict(4) → 4")
    news = baseline.compare(entries, verdicts, [Group(finding=other, cause=cause_of(other))], "0.1.0")
    assert (news.stale, news.accepted) == ([*entries], frozenset())
    with pytest.raises(baseline.BaselineError, match="no such rule"):
        baseline.parse({"known": [row | {"rule": "GONE-01"}]}, all_rules())


def test_a_saved_failure_names_the_rule_in_force(tmp_path: Path) -> None:
    path = saved(tmp_path)
    header, *steps = path.read_text(encoding="utf-8").splitlines()
    data = json.loads(header)
    data["finding"]["rules"] = ["OLDER-01", "OLD-01"]
    path.write_text("\n".join([json.dumps(data), *steps]) + "\n", encoding="utf-8")
    assert failures.load(path).rules == ("LOCK-06",)


def test_reports_are_compared_by_the_rules_in_force() -> None:
    a, b = report(OLD_01="violated", OLDER_01="passed"), report(LOCK_06="passed")
    found = compare(a, b)
    assert [(one.rule, one.change, one.a, one.b) for one in found.changes if one.rule in ("LOCK-06", "OLD-01")] == [
        ("LOCK-06", "fixed", "violated", "passed")
    ]


def test_results_and_pages_lead_on(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = results.classification()[0]
    monkeypatch.setitem(RETIRED, entry.rules[0], Retired("it was said twice", "TREE-01"))
    assert results.classification()[0].rules[0] == "TREE-01"
    assert "- OLDER-01: it was said twice; see [LOCK-06](lock.md#lock-06)" in site.rules_index({})
    assert "- GONE-01: it was said twice\n" in site.rules_index({})
