"""Reports in brief: they leave out what is said elsewhere, and nothing is lost by that."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.report import brief, document, saved
from kvlitmus.conformance.report.form import by_reason, by_rule
from kvlitmus.conformance.run import failures
from tests.conformance.support.schemas import fits
from tests.conformance.test_report import evil_result, make_run

TAPE = {"rules", "item", "config", "call", "calls", "allowed", "seen", "detail", "schedule", "litmus", "minimal",
        "not_minimal", "after", "parted", "replay"}  # fmt: skip
"""What a tape says of its finding."""


def kept(folder: Path) -> Any:
    """A report with two findings, the first with its counterexample in a folder."""
    finding = evil_result().findings[0]
    run = make_run(evil_result())
    path = failures.save(folder / "c", finding, target="x", depth=3, force_misuse=False, version="0.1.0")
    run.saved[0] = path.relative_to(folder)
    run.replay[0] = failures.replay_line(run.saved[0])
    report: Any = json.loads(document.dump(document.document(run)))
    return {**report, "findings": [*report["findings"], {**report["findings"][0], "saved": "", "call": "match()"}]}


def written(folder: Path, data: Any) -> Path:
    """A file with this report, in a folder of that of the counterexamples."""
    (folder / "r").mkdir(exist_ok=True)
    path = folder / "r/x.json"
    path.write_text(document.dump_report(data), encoding="utf-8")
    return path


def test_what_a_report_in_brief_leaves_out_its_counterexamples_say(tmp_path: Path) -> None:
    report = kept(tmp_path)
    short = brief.brief(report, tmp_path / "r")
    first, second = short["findings"]
    assert report["findings"][0].keys() - first.keys() == TAPE and second == report["findings"][1]
    read = saved.load(written(tmp_path, short))
    assert read == report and fits(read, "report") == []


@pytest.mark.parametrize("name", sorted(TAPE - {"rules"}))
def test_what_a_counterexample_says_otherwise_stays(tmp_path: Path, name: str) -> None:
    report = kept(tmp_path)
    value = report["findings"][0][name]
    others: dict[type, Any] = {list: ["x"], dict: {"x": "y"}, str: f"{value}!"}
    report["findings"][0][name] = others[type(value)]
    short = brief.brief(report, tmp_path)
    assert report["findings"][0].keys() - short["findings"][0].keys() == TAPE - {name}
    assert brief.whole(short, tmp_path) == report


def test_a_reason_is_left_out_that_follows_from_what_the_target_offers(tmp_path: Path) -> None:
    report = kept(tmp_path)
    reasons = by_rule(report["not_applicable"])
    other, gone = "the target offers no store, or so it says", "NOSUCH-01"
    assert reasons["STORE-02"] == "the target offers no store"
    why: Any = {**reasons, "STORE-02": other, gone: "the target offers no store"}
    report["not_applicable"] = by_reason(why)
    short = brief.brief(report, tmp_path)
    left = by_rule(short["not_applicable"])
    assert left.keys() == why.keys()
    assert {id: reason for id, reason in left.items() if reason} == {"STORE-02": other, gone: why[gone]}
    assert by_rule(brief.whole(short, tmp_path)["not_applicable"]) == why


def test_a_profile_in_words_of_another_version_gives_no_reasons(tmp_path: Path) -> None:
    report = kept(tmp_path)
    short = brief.brief(report, tmp_path)
    report["profile"] = short["profile"] = {"nosuch": "word"}
    assert set(by_rule(brief.whole(short, tmp_path)["not_applicable"]).values()) == {""}
    assert brief.whole(brief.brief(report, tmp_path), tmp_path) == report


def test_without_its_counterexamples_a_report_in_brief_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, brief.brief(kept(tmp_path), tmp_path))
    one = next((tmp_path / "c").iterdir())
    text = one.read_text(encoding="utf-8")
    for spoil in (one.unlink, lambda: one.write_text(text[:-9], encoding="utf-8")):
        spoil()
        with pytest.raises(saved.ReportError, match=one.name):
            saved.load(path)


def without(*way: Any) -> Callable[[Any], None]:
    """Takes something away from a report."""

    def take(data: Any) -> None:
        for name in way[:-1]:
            data = data[name]
        del data[way[-1]]

    return take


@pytest.mark.parametrize(
    "spoil",
    [
        without("findings"),
        without("findings", 0, "saved"),
        without("not_applicable", 0, "rules"),
        without("capabilities"),
        without("configs", 0, "label"),
        lambda data: data.update(findings=[1]),
        lambda data: data.update(profile=[]),
        lambda data: data.update(not_applicable=[{"reason": "", "rules": ["x"]}]),
        lambda data: data["findings"][0].update(saved=7),
        lambda data: data["findings"][0].update(saved="x" * 5_000),
        lambda data: data["findings"][0].update(saved="r\0"),
    ],
)
def test_what_has_not_the_form_is_told_in_one_line(tmp_path: Path, spoil: Callable[[Any], None]) -> None:
    data = copy.deepcopy(brief.brief(kept(tmp_path), tmp_path))
    spoil(data)
    with pytest.raises(saved.ReportError) as told:
        saved.load(written(tmp_path, data))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("data", [None, [], {}, {"kind": "kvlitmus report"}, {"kind": ["x"]}])
def test_anything_else_stays_as_it_is(tmp_path: Path, data: Any) -> None:
    assert brief.whole(data, tmp_path) is data
