"""Comparing two reports: what counts as worse, what only looks better, and what must be known before either."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.report import saved
from kvlitmus.conformance.report.compare import CHANGES, LADDER, compare, document
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.run.results import Verdict
from tests.conformance.support.reports import changed, finding, report, save
from tests.conformance.support.schemas import fits
from tests.conformance.test_report import EVIL
from tests.test_layout import ROOT

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def known(data: Any, rule: str) -> Any:
    """The same report with a violation that the baseline knows."""
    at = [one["id"] for one in data["rules"]].index(rule)
    return changed(data, f"rules.{at}.known", {"reason": "r", "link": "https://x", "until": ""})


def became(a: str, b: str) -> tuple[str, bool] | None:
    """What a rule becomes that had verdict ``a`` and has verdict ``b``; empty for a rule that isn't there."""
    reports = []
    for verdict in (a, b):
        plain = {"known": "violated"}.get(verdict, verdict)
        data = report(POOL_01="passed", **({"POOL_02": plain} if verdict else {}))
        reports.append(known(data, "POOL-02") if verdict == "known" else data)
    found = compare(*reports)
    assert found.same == (2 if a == b else 1)
    assert len(found.changes) == (a != b)
    return (found.changes[0].change, found.changes[0].worse) if found.changes else None


EXPECTED: dict[tuple[str, str], tuple[str, bool] | None] = {
    ("passed", "passed"): None,
    ("violated", "violated"): None,
    ("passed", "violated"): ("newly violated", True),
    ("not_applicable", "violated"): ("newly violated", True),
    ("known", "violated"): ("newly violated", True),
    ("passed", "warned"): ("worse", True),
    ("passed", "known"): ("worse", True),
    ("passed", "not_applicable"): ("worse", True),
    ("passed", "blocked"): ("worse", True),
    ("passed", "not_exercised"): ("worse", True),
    ("not_applicable", "harness_error"): ("worse", True),
    ("passed", ""): ("vanished", True),
    ("violated", ""): ("vanished", False),
    ("", "violated"): ("newly violated", True),
    ("", "passed"): ("new", False),
    ("violated", "passed"): ("fixed", False),
    ("known", "passed"): ("fixed", False),
    ("violated", "not_applicable"): ("no longer shown", False),
    ("violated", "blocked"): ("no longer shown", False),
    ("warned", "not_exercised"): ("no longer shown", False),
    ("not_applicable", "passed"): ("better", False),
    ("harness_error", "passed"): ("better", False),
    ("violated", "known"): ("better", False),
    ("blocked", "inconclusive"): ("changed", False),
}


@pytest.mark.parametrize(("way", "expected"), EXPECTED.items(), ids=[f"{a}-{b}" for a, b in EXPECTED])
def test_what_a_rule_becomes(way: tuple[str, str], expected: tuple[str, bool] | None) -> None:
    assert became(*way) == expected


def test_between_any_two_verdicts_one_way_at_most_is_an_improvement() -> None:
    """And what got worse in one direction never is worse in the other; nothing passes for fixed that did not pass."""
    names = [*(one.value for one in Verdict), "known"]
    assert set(LADDER) == set(names)
    for a, b in product(names, repeat=2):
        there, back = became(a, b), became(b, a)
        if a == b:
            assert there is None
            continue
        assert there is not None
        assert back is not None
        assert there[0] in CHANGES
        assert not (there[1] and back[1]), (a, b)
        assert (there[0] == "fixed") <= (b == "passed")
        assert there[1] or LADDER[b] >= LADDER[a] or there[0] == "no longer shown", (a, b)
        assert a != "violated" or not there[1]


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [("passed", "passed", 0), ("violated", "passed", 0), ("passed", "violated", 1), ("violated", "violated", 0)],
)
def test_exit_codes(a: str, b: str, code: int) -> None:
    assert main(["diff", save(report(POOL_02=a), "a.json"), save(report(POOL_02=b), "b.json")]) == code


def test_what_was_judged_differently_comes_first(capsys: Capture) -> None:
    a = report(POOL_01="passed", POOL_02="violated")
    b = report(POOL_01="violated", POOL_02="passed")
    for path, value in {
        "stamps.target.version": "2",
        "stamps.kvlitmus": "9.9.9",
        "profile.evict_granularity": "node",
        "options.steps": 250,
        "options.more": 1,
        "capabilities": ["pool"],
        "configs": b["configs"][1:],
        "stamps.build": "0123456789ab",
        "totals.steps": 1_234_567,
        "reached": ["evict", "match"],
    }.items():
        b = changed(b, path, value)
    assert main(["diff", save(a, "a.json"), save(b, "b.json")]) == 1
    out = capsys.readouterr().out
    before, sign, after = out.partition("newly violated (1)")
    assert sign
    for text in (
        "target: cache 1 → cache 2",
        "kvlitmus: 0.1.0 → 9.9.9",
        "profile evict_granularity: page → node",
        "options steps: 1 → 250",
        "options more: (not stated) → 1",
        "capabilities: only: tree → (nothing)",
        f"configurations: only: {a['configs'][0]['label']} → (nothing)",
        "build of the judge and the target: (nothing) → 0123456789ab",
    ):
        assert text in before, text
        assert text not in after
    assert "POOL-01     passed → violated: an allocation hands out what was asked for" in after
    assert "  >   2 free([1])" in after
    assert "POOL-02     violated → passed" in after
    assert after.index("fixed (1)") < after.index("figures")
    assert "steps: 4 → 1,234,567" in after
    assert "kinds of calls reached: (nothing) → only: evict" in after
    assert out.splitlines()[-1] == "exit 1: 1 got worse, 1 fixed, 2 changed, 0 the same"


def test_numbers_decide_nothing() -> None:
    a = report(POOL_01="passed", POOL_02="violated")
    b = changed(changed(a, "totals.seconds", 999.0), "rules.0.evaluations", 1)
    b["findings"].append(finding("POOL-02", calls=9))
    b["rules"][1]["findings"] = [0, 1]
    found = compare(a, b)
    assert (found.exit_code, found.changes, found.same) == (0, [], 2)
    assert [one.what for one in found.figures] == ["seconds", "evaluations of rules", "counterexamples"]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("partial", True, "the second run: interrupted after 1 of 1 items"),
        (
            "failed",
            [{"item": "litmus:x [page=1 lru]", "error": "no\x07 luck"}],
            "items fail that did not: litmus:x [page=1 lru]: no\\x07 luck",
        ),
        (
            "baseline",
            {"known": [], "stale": [{"rule": "POOL-09", "cause": "pool-00000009"}], "expired": []},
            "entries of the baseline are stale",
        ),
    ],
)
def test_what_the_verdicts_do_not_show_is_worse_too(path: str, value: Any, text: str, capsys: Capture) -> None:
    good = report(POOL_01="passed")
    bad = changed(good, path, value)
    assert main(["diff", save(good, "a.json"), save(bad, "b.json")]) == 1
    assert text in capsys.readouterr().out
    assert main(["diff", "b.json", "b.json"]) == 0
    assert main(["diff", "b.json", "a.json"]) == 0


def test_as_json_it_fits_its_schema(capsys: Capture) -> None:
    a = report()
    b = changed(changed(report(POOL_01="violated", POOL_04="passed"), "stamps.target.name", EVIL), "partial", True)
    assert main(["diff", save(a, "a.json"), save(b, "b.json"), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert fits(data, "diff") == []
    assert data["totals"] == {"same": 0, "worse": 2, "changed": 9}
    assert {one["change"] for one in data["changes"]} == {"newly violated", "vanished", "new"}
    assert [one["worse"] for one in data["changes"]].count(True) == 1
    (broken,) = (one for one in data["changes"] if one["text"])
    assert (broken["rule"], broken["a"], broken["b"]) == ("POOL-01", "passed", "violated")
    for wrong in ({"format": 2}, {"more": 1}, {"exit_code": 2}, {"changes": [{**broken, "change": "great"}]}):
        assert fits({**data, **wrong}, "diff"), wrong


def test_hostile_texts_do_no_harm(capsys: Capture) -> None:
    b = report(POOL_01="violated")
    for path in ("stamps.target.name", "stamps.date", "rules.0.reason", "findings.0.call", "profile.align"):
        b = changed(b, path, EVIL)
    b["findings"][0]["calls"] = [EVIL]
    assert main(["diff", save(report(POOL_01="passed"), "a.json"), save(b, "b.json"), "--color", "never"]) == 1
    assert all(char.isprintable() or char == "\n" for char in capsys.readouterr().out)


def test_two_releases_are_compared() -> None:
    """The committed reports of SGLang's host pool."""
    folder = ROOT / "docs/results"
    old, new = (saved.load(folder / f"sglang-{name}.json") for name in ("0.5.13.post1-host-pool", "0.5.23-host-pool"))
    there, back = compare(old, new), compare(new, old)
    assert there.setup[0].what == "target"
    assert document(there)["a"]["target"].startswith("sglang-0.5.13.post1-host-pool")
    verdicts = [{rule["id"]: rule["verdict"] for rule in rows(one)} for one in (old, new)]
    assert {one.rule for one in there.changes if one.change == "fixed"} == {
        id for id in verdicts[0] if (verdicts[0][id], verdicts[1][id]) == ("violated", "passed")
    }
    assert {one.rule for one in there.changes if one.change == "newly violated"} == {
        one.rule for one in back.changes if one.a == "violated"
    }
