"""A report in other forms: JUnit XML that readers accept, a summary for a CI job, and saved reports read back."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.report import document, drawn, junit, saved, summary
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.report.outcomes import of_rule, of_run
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.verdicts import main_rule
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.command_line import ONE
from tests.conformance.support.reports import VERDICTS, changed, report, save
from tests.conformance.support.schemas import fits
from tests.conformance.test_report import EVIL, KNOWN, evil_error, evil_result, make_run
from tests.test_layout import ROOT

Capture = pytest.CaptureFixture[str]

SUITE = {"tests", "failures", "errors"}
ATTRIBUTES: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"name", *SUITE},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
    ),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name"}, {"time", "classname", "group"}),
    "failure": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "skipped": (set(), {"type", "message"}),
    "system-out": (set(), set()),
    "system-err": (set(), set()),
}
"""The attributes that an element must and may have, by the schema that Jenkins' xUnit plugin reads (junit-10.xsd)."""

CHILDREN: dict[str, set[str]] = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
}
"""The elements that may be inside of an element, by the same schema; in others there is text."""


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(summary.STEP_SUMMARY, raising=False)


def complaints(element: ET.Element) -> list[str]:
    """What is wrong with an element by the schema, and with what is in it."""
    needed, allowed = ATTRIBUTES.get(element.tag, (set(), set()))
    found = [] if element.tag in ATTRIBUTES else [f"unknown element {element.tag}"]
    found += [f"{element.tag} lacks {name}" for name in needed - element.attrib.keys()]
    found += [f"{element.tag} has {name}" for name in element.attrib.keys() - needed - allowed]
    for name in {*SUITE, "skipped"} & element.attrib.keys():
        found += [] if element.attrib[name].isdigit() else [f"{name}={element.attrib[name]}"]
    if "time" in element.attrib and not re.fullmatch(r"\d{1,12}\.\d{3}", element.attrib["time"]):
        found.append(f"time={element.attrib['time']}")
    for child in element:
        if child.tag not in CHILDREN.get(element.tag, set()):
            found.append(f"{child.tag} inside of {element.tag}")
        found += complaints(child)
    return found


def parsed(text: str) -> ET.Element:
    """The document, held against the schema, its counters against what is there."""
    top = ET.fromstring(text.encode("utf-8"))
    assert complaints(top) == []
    tags = Counter(child.tag for case in top.iter("testcase") for child in case)
    suites = list(top)
    for one in [top, *suites]:
        cases = list(one.iter("testcase"))
        assert int(one.attrib["tests"]) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error")):
            assert int(one.attrib[name]) == sum(case.find(tag) is not None for case in cases)
    assert sum(int(one.attrib["skipped"]) for one in suites) == tags["skipped"]
    names = [(case.attrib["classname"], case.attrib["name"]) for case in top.iter("testcase")]
    assert len(set(names)) == len(names)
    return top


def said(top: ET.Element) -> dict[str, str]:
    """What is inside of each test case."""
    return {case.attrib["name"]: "".join(child.tag for child in case) for case in top.iter("testcase")}


def test_each_verdict_becomes_what_readers_know() -> None:
    top = parsed(junit.render(report()))
    assert said(top) == {
        "RUN": "",
        "POOL-01": "",
        "POOL-02": "failure",
        "POOL-03": "system-out",
        "TREE-01": "skipped",
        "TREE-02": "error",
        "TREE-03": "skipped",
        "LOCK-01": "error",
        "LOCK-02": "error",
    }
    assert [suite.attrib["name"] for suite in top] == ["run", "pool", "tree", "lock"]
    failure = top.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert "  >   2 free([1])" in failure.text
    assert "free after = {1}" in failure.text
    skipped = [one.attrib["message"] for one in top.iter("skipped")]
    assert skipped == ["not applicable: because of not_applicable", "blocked: because of blocked"]
    assert top.attrib["time"] == top[0].attrib["time"] == top[0].find("testcase").attrib["time"]  # type: ignore[union-attr]


def test_the_validator_refuses_what_is_wrong() -> None:
    good = junit.render(report())
    for old, new in [
        ("<testcase ", "<case "),
        (' type="failed"', ' kind="failed"'),
        ('tests="9" ', ""),
        ('errors="3"', 'errors="2"'),
        ('errors="3"', 'errors="three"'),
        ("</testsuite>", "<failure /></testsuite>"),
        ('time="0.000"', 'time="1e-9"'),
        ("<skipped", "<skipped />\n<skipped"),
    ]:
        assert old in good
        with pytest.raises((AssertionError, KeyError, ET.ParseError)):
            parsed(good.replace(old, new, 1))


def test_a_shortened_run_need_not_exercise_every_rule() -> None:
    data = report(TREE_02="not_exercised")
    assert of_rule(data, data["rules"][0]).kind == "error"
    assert of_rule(changed(data, "options.full", False), data["rules"][0]).kind == "skipped"


def test_the_run_itself_is_a_test() -> None:
    good = report(POOL_01="passed")
    assert of_run(good).kind == "passed"
    failed = of_run(changed(good, "failed", [{"item": "a", "error": "out of \x1b[2J luck"}]))
    assert (failed.kind, failed.message) == ("error", "1 of 1 items failed")
    assert "out of \\x1b[2J luck" in failed.text
    assert of_run(changed(good, "partial", True)).message == "interrupted after 1 of 1 items"
    assert of_run(report(POOL_01="not_applicable", TREE_01="not_applicable")).kind == "error"
    assert said(parsed(junit.render(changed(good, "partial", True))))["RUN"] == "error"


def test_the_baseline_decides_what_fails() -> None:
    data = report(POOL_02="violated", POOL_03="warned", POOL_01="passed")
    data["rules"][0]["known"] = data["rules"][1]["known"] = {"reason": "r", "link": "https://x", "until": ""}
    known, warned, stale = ({"rule": f"POOL-0{n}", "cause": f"pool-0000000{n}"} for n in (2, 3, 1))
    data["baseline"] = {"known": [known, warned], "stale": [stale], "expired": []}
    kinds = [of_rule(data, rule).kind for rule in data["rules"]]
    assert kinds == ["known", "known", "failed"]
    assert said(parsed(junit.render(data)))["POOL-02"] == "skipped"
    data["baseline"] = {"known": [], "stale": [], "expired": [known]}
    assert [of_rule(data, rule).kind for rule in data["rules"]] == ["failed", "known", "passed"]


@pytest.mark.parametrize("text", [EVIL, "\x00\x08\ufffe\uffff\ud800]]>&<\"'", "]]>" * 400])
def test_hostile_texts_stay_texts(text: str) -> None:
    data = changed(report(), "failed", [{"item": "", "error": ""}])
    for path in (
        "stamps.target.name", "stamps.target.version", "stamps.platform", "stamps.date", "exit_meaning",
        "rules.3.reason", "not_applicable.0.reason", "findings.0.call", "findings.0.allowed", "findings.0.item",
        "findings.0.replay", "failed.0.error", "failed.0.item",
    ):  # fmt: skip
        data = changed(data, path, text)
    data["findings"][0]["calls"] = [text, text]
    data["findings"][0]["seen"] = {text: text}
    read = saved.checked(json.loads(json.dumps(data)))
    xml, page = junit.render(read), summary.render(read)
    top = parsed(xml)
    assert said(top)["POOL-02"] == "failure"
    for made in (xml, page):
        assert not [char for char in made if not char.isprintable() and char != "\n"]
    outside = re.sub(r"^`{3,}text$.*?^`{3,}$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"<[^>]*>", outside)) <= {"<details>", "</details>", "<summary>", "</summary>"}
    assert not re.search(r"(?<!\\)!\[|(?<![&#;\w])@all|^# head", outside, re.MULTILINE)


def test_a_real_report_becomes_both() -> None:
    for name in ("0.5.13.post1", "0.5.13.post1-requests", "0.5.23-host-pool", "0.5.23-rust"):
        data = saved.load(ROOT / f"docs/results/sglang-{name}.json")
        top = parsed(junit.render(data))
        assert len(list(top.iter("testcase"))) == len(rows(data)) + 1
        failing = {case.attrib["name"] for case in top.iter("testcase") if case.find("failure") is not None}
        violated = {rule["id"] for rule in data["rules"] if rule["verdict"] == "violated"}
        heads = [one for one in data["findings"] if one["headline"]]
        assert set() != failing <= violated and failing == {main_rule(one["rules"]) for one in heads}
        skipped = {case.attrib["name"]: case.find("skipped") for case in top.iter("testcase")}
        for id in violated - failing:
            element = skipped[id]
            assert element is not None and "probably by the cause" in element.attrib["message"]
        page = summary.render(data)
        assert all(f"| {id} | " in page for id in failing)
        shown = sum(f"<summary>{id}: " in page for id in failing)
        assert shown == min(len(failing), summary.MOST_EXAMPLES)
        assert shown == len(failing) or f"{len(failing) - shown} more counterexamples are in the report" in page


def test_a_run_fails_where_a_test_case_fails_and_nowhere_else() -> None:
    """Whatever leads, follows and is known: MUST and SHOULD, other causes of a known rule, what came after one."""
    rng = random.Random(31)
    rules = [
        "EVICT-05",
        "TREE-02",
        "LOCK-02",
        *(id for id, rule in all_rules().items() if rule.strength.value == "SHOULD"),
    ]
    seen: Counter[tuple[bool, bool]] = Counter()
    for _ in range(60):
        found = [
            replace(
                evil_result().findings[0],
                rules=rng.sample(rules, rng.randint(1, 3)),
                call=f"{(call := rng.choice(['match', 'evict', 'insert']))}(1)",
                calls=["alloc(1)", "match(1)", f"{call}(1)"],
                parted=rng.choice([[], ["call 2: what is locked"]]),
                after=rng.sample(rules, rng.randint(0, 1)),
                litmus=f"x/{rng.random()}",
            )
            for _ in range(rng.randint(1, 5))
        ]
        results = [replace(evil_result(), item=f"litmus:{at}", findings=found[at:]) for at in range(len(found))]
        known = [
            replace(KNOWN, rule=rng.choice(one.rules), cause=cause_of(one).id) for one in found if rng.random() < 0.5
        ]
        data = document.document(make_run(*results, known=tuple(dict.fromkeys(known))))
        kinds = [of_rule(data, rule).kind for rule in data["rules"]]
        said_of = data["baseline"]
        assert said_of is not None
        stale = bool(said_of["stale"])
        assert ("failed" in kinds) == (data["exit_code"] == 1 or stale), data["findings"]
        seen[data["exit_code"] == 1, "known" in kinds] += 1
    assert len(seen) == 4, "runs that fail and that don't, with what is known and without"


def test_a_run_is_read_back_as_it_was_saved() -> None:
    run = make_run(evil_result(), evil_error(), known=(KNOWN,), partial=True)
    data = document.document(run)
    Path("r.json").write_text(document.dump(data))
    assert saved.load(Path("r.json")) == json.loads(document.dump(data))


def test_the_reports_of_these_tests_are_reports() -> None:
    assert fits(report(), "report") == []
    assert {rule["verdict"] for rule in rows(report())} == set(VERDICTS.values())


def test_a_rule_that_this_version_lacks_is_told_by_its_id() -> None:
    data = report(POOL_02="violated")
    data["rules"][0]["id"], data["findings"][0]["rules"] = "GONE-07", ["GONE-07"]
    read = saved.checked(data)
    failure = parsed(junit.render(read)).find(".//testsuite[@name='gone']/testcase/failure")
    assert failure is not None and failure.text is not None and "GONE-07" in failure.text
    assert "This version has no such rule" in failure.text and "This version has no such rule" in summary.render(read)


def test_a_summary_is_short_whatever_was_found() -> None:
    data = report(POOL_02="violated")
    one = data["findings"][0]
    one["calls"] = [f"alloc({number}) {'x' * 300}" for number in range(50_000)]
    assert "49940 calls, in the saved file" in summary.render(data)
    rules = {f"POOL_{number:02}": "violated" for number in range(1, 21)} | dict.fromkeys(
        ["TREE_01", "TREE_02", "TREE_03"], "violated"
    )
    many = report(**rules)
    for one in many["findings"]:
        one["calls"] = [f"alloc({number}) {'x' * 390}" for number in range(1_000)]
    text = summary.render(many)
    assert "3 more counterexamples" in text
    assert len(text.encode()) < 1_000_000, "GitHub takes no more"


def test_the_step_summary_is_appended_to_and_any_other_file_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Path("step.md"), Path("other.md")
    first.write_text("what an earlier step said\n")
    second.write_text("old\n")
    monkeypatch.setenv(summary.STEP_SUMMARY, str(first.absolute()))
    for _ in range(2):
        summary.write(Path("step.md"), "# new\n")
        summary.write(second, "# new\n")
    assert first.read_text() == "what an earlier step said\n\n# new\n\n# new\n"
    assert second.read_text() == "# new\n"
    first.write_text("")
    summary.write(first, "# new\n")
    assert first.read_text() == "# new\n"


def test_a_row_of_a_list_or_of_a_table_is_a_line() -> None:
    text = document.dump_report(
        {"rows": [{"a": 1}, {"a": 2}], "cells": {"x": {"a": 1}, "y": {}}, "none": {}, "one": [3]}
    )
    assert text.splitlines() == [
        "{",
        ' "rows": [',
        '  {"a":1},',
        '  {"a":2}',
        " ],",
        ' "cells": {',
        '  "x": {"a":1},',
        '  "y": {}',
        " },",
        ' "none": {},',
        ' "one": [3]',
        "}",
    ]


def test_run_and_report_write_the_same(capsys: Capture) -> None:
    few = [*ONE, "--steps", "250", "--pack", "pool"]
    target = "kvlitmus.mutants.run:by_name.lookup_pins"
    options = ["--report", "r.json", "--junit", "a.xml", "--markdown", "a.md"]
    code = main(["run", target, *few, "--pack", "lock", *options])
    assert code == 1
    assert main(["report", "r.json", "--junit", "b.xml", "--markdown", "b.md"]) == 0
    for name in ("xml", "md"):
        assert Path(f"a.{name}").read_text() == Path(f"b.{name}").read_text()
    top = parsed(Path("a.xml").read_text())
    assert said(top)["LOCK-02"] == "failure"
    capsys.readouterr()
    assert main(["report", "r.json"]) == 0
    out = capsys.readouterr().out
    assert "LOCK-02 the tree counts what is protected" in out
    assert "the run ended with exit 1: a rule is violated" in out


@pytest.mark.parametrize("partial", [True, False])
def test_a_report_says_whether_the_run_came_to_its_end(partial: bool, capsys: Capture) -> None:
    Path("r.json").write_text(json.dumps(changed(report(), "partial", partial)))
    assert main(["report", "r.json"]) == 0
    assert ("interrupted after" in capsys.readouterr().out) == partial


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_form_that_can_not_be_written_is_refused_before_anything_runs(option: str, capsys: Capture) -> None:
    Path("folder").mkdir()
    assert main(["run", option, "folder"]) == 2
    seen = capsys.readouterr()
    assert f"{option} folder: can't be written" in seen.err
    assert not seen.out


BAD: dict[str, tuple[Any, str]] = {
    "failure": ({"kind": "kvlitmus failure"}, "this is no report: its 'kind' is 'kvlitmus failure'"),
    "foreign": ({"rules": []}, "this is no report: it has no 'kind'"),
    "list": ([1], "this is no report"),
    "old": ({**report(), "format": 0}, "a report of another form: 'format' is 0, this kvlitmus reads 3"),
    "truth": ({**report(), "format": True}, "a report of another form: 'format' is True"),
    "formless": (changed(report(), "format", ...), "a report of another form: 'format' is None"),
    "lacking": (changed(report(), "totals.steps", ...), "'totals.steps' is missing"),
    "stamps": (changed(report(), "stamps.target", "me"), "'stamps.target' must be an object (got str)"),
    "verdict": (changed(report(), "rules.2.verdict", "great"), "'rules[2].verdict' must be a verdict (got 'great')"),
    "type": (
        changed(report(), "rules.0.evaluations", True),
        "'rules[0].evaluations' must be a whole number (got bool)",
    ),
    "twice": (changed(report(), "rules.1.id", "POOL-01"), "'rules[1].id': 'POOL-01' is listed twice"),
    "beyond": (changed(report(), "rules.1.findings", [9]), "'rules[1].findings' names a finding that is not there"),
    "below": (changed(report(), "rules.1.findings", [-1]), "must not be negative"),
    "others": (changed(report(), "rules.1.findings", [1]), "names findings that are about other rules"),
    "known": (changed(report(), "rules.1.known", {"reason": 1}), "'rules[1].known' must be null or an object of texts"),
    "span": (changed(report(), "not_applicable.0.rules", ["TREE-1-2"]), "'not_applicable[0].rules': ids of rules"),
    "both": (changed(report(), "not_applicable.0.rules", ["POOL-01..03"]), "'POOL-01..03' is listed twice"),
    "causeless": (changed(report(), "findings.0.cause", ...), "'findings[0].cause' is missing"),
    "baseline": (changed(report(), "baseline", {"known": 1}), "'baseline.known' must be a list (got int)"),
    "full": (changed(report(), "options.full", "no"), "'options.full' must be true or false"),
    "endless": (changed(report(), "totals.seconds", float("inf")), "'totals.seconds' must not be negative, nor beyond"),
}


@pytest.mark.parametrize(("data", "complaint"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("command", ["report", "diff"])
def test_what_is_no_report_is_told_in_one_line(data: Any, complaint: str, command: str, capsys: Capture) -> None:
    save(data, "bad.json")
    words = ["report", "bad.json"] if command == "report" else ["diff", save(report(), "good.json"), "bad.json"]
    assert main(words) == 2
    seen = capsys.readouterr()
    assert complaint in seen.err
    assert "bad.json" in seen.err
    assert seen.err.count("\n") == 1
    assert not seen.out


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (json.dumps(report())[:700].encode(), "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
    ids=["torn", "empty", "binary", "deep"],
)
def test_a_torn_file_is_told_in_one_line(raw: bytes, complaint: str, capsys: Capture) -> None:
    Path("bad.json").write_bytes(raw)
    assert main(["report", "bad.json"]) == 2
    assert re.fullmatch(rf"kvlitmus: bad\.json: .*{complaint}.*\n", capsys.readouterr().err)
    assert main(["report", "gone.json"]) == 2
    assert "gone.json: expected a file that can be read, got No such file" in capsys.readouterr().err


def test_a_page_tells_every_verdict_what_is_broken_first_and_draws_each_finding() -> None:
    run = make_run(evil_result(), evil_error())
    page = drawn.render(run)
    page.encode()  # half of a surrogate pair could not be written
    rows = re.findall(r"<tr><td>([A-Z0-9-]+)</td><td>([^<]*)</td><td>([^<]*)</td><td>([^<]*)</td></tr>", page)
    assert rows[:2] == [(id, "violated", "0", run.rules[id].title) for id in ("TREE-02", "TREE-03")]
    assert rows[-1] == ("POOL-01", "passed", "7", run.rules["POOL-01"].title)
    told = {one.rule: one.reason for one in run.verdicts}
    assert len(rows) == len(told) and ("POOL-05", "not applicable", "0", told["POOL-05"]) in rows
    assert page.count('class="finding play"') == 1 and "<script>alert" not in page
