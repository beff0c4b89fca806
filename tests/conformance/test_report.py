"""Reports: the document fits its schema, and nothing that a cache hands out does harm anywhere."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.report import document, form, junit, markdown, saved, summary, terminal
from kvlitmus.conformance.report.form import rows, spans
from kvlitmus.conformance.report.progress import Progress, left
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.run import baseline
from kvlitmus.conformance.run.cause import Cause, cause_of
from kvlitmus.conformance.run.results import Finding, ItemResult
from kvlitmus.conformance.run.verdicts import Scope, conclude, exit_code, group
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.schemas import fits

EVIL = "\x1b[31mred\x07 <script>alert(1)</script> | `x` ``` ![a](http://e.vil) @all \u202e\n# head\r\nnext \ud800"


def make_run(*results: ItemResult, known: tuple[baseline.Entry, ...] = (), partial: bool = False) -> document.Run:
    rules = all_rules()
    scope = Scope(capabilities=frozenset({"pool", "tree"}), partial=partial)
    run = document.Run(
        target=EVIL,
        target_name=EVIL,
        target_version=EVIL,
        python="",
        profile=Profile(),
        capabilities=scope.capabilities,
        configs=(Config(), Config(page_size=4)),
        rules=rules,
        options={
            "seed": 0,
            "steps": 1,
            "depth": 3,
            "force_misuse": False,
            "rule": [],
            "pack": [],
            "strength": None,
            "litmus": True,
            "first": False,
            "full": True,
        },
        scope=scope,
        version="0.1.0",
        date="2026-01-02T03:04:05Z",
        planned=len(results),
        results=list(results),
    )
    run.groups = group(run.results)
    run.verdicts = conclude(rules, run.results, run.groups, scope)
    run.baseline = baseline.compare(known, run.verdicts, run.groups, "0.1.0", partial=partial)
    run.exit_code = exit_code(run.verdicts, run.results, scope, accepted=run.baseline.accepted)
    return run


def evil_result() -> ItemResult:
    """What the engine would make of a cache that hands out hostile strings."""
    text = harmless(EVIL)
    finding = Finding(
        rules=["TREE-03", "TREE-02"],
        item="random:seed=0 [page=1 lru]",
        config=Config(),
        call=f"match({text})",
        calls=["alloc(1) → [1]", f"match({text})"],
        allowed=text,
        seen={"match_slots": text},
        schedule=[Op("alloc", 1, 2, 3)],
        drawn_steps=40,
        steps=2,
    )
    return ItemResult(
        item=finding.item,
        config="page=1 lru",
        steps=42,
        evaluated=Counter({"POOL-01": 7}),
        reached=Counter({"match": 1}),
        findings=[finding],
        capabilities=["pool", "tree"],
    )


def evil_error() -> ItemResult:
    return ItemResult(item="litmus:x [page=4 lru]", config="page=4 lru", error=EVIL, capabilities=["pool"])


EVIL_CAUSE = cause_of(evil_result().findings[0]).id
KNOWN = baseline.Entry(rule="TREE-02", cause=EVIL_CAUSE, reason="r", link="https://x", until="9")


@pytest.mark.parametrize(
    "run",
    [
        make_run(),
        make_run(evil_result()),
        make_run(evil_result(), evil_error(), known=(KNOWN,)),
        make_run(evil_result(), partial=True),
        make_run(ItemResult(item="a [page=1 lru]", config="page=1 lru", unsupported=EVIL)),
    ],
    ids=["empty", "violated", "all", "partial", "declined"],
)
def test_the_document_fits_its_schema(run: document.Run) -> None:
    assert fits(document.document(run), "report") == []


def test_the_schema_refuses_what_is_wrong() -> None:
    good = document.document(make_run(evil_result()))
    changes: list[dict[str, Any]] = [
        {"format": 2},
        {"exit_code": 7},
        {"partial": "no"},
        {"more": 1},
        {"stamps": {}},
        {"rules": [{**good["rules"][0], "verdict": "great"}]},
        {"rules": [{**good["rules"][0], "verdict": "not_applicable"}]},
        {"not_applicable": [{"reason": "r", "rules": ["TREE-1..x"]}]},
        {"findings": [{**good["findings"][0], "rules": []}]},
        {"findings": [{name: value for name, value in good["findings"][0].items() if name != "cause"}]},
        {"findings": [{**good["findings"][0], "cause": {"id": "TREE-03", "about": ""}}]},
    ]
    for change in changes:
        assert fits({**good, **change}, "report"), change
    assert fits({name: value for name, value in good.items() if name != "totals"}, "report")


def test_verdicts_and_totals_agree() -> None:
    data = document.document(make_run(evil_result(), known=(KNOWN,)))
    counted = Counter(rule["verdict"] for rule in rows(data) if rule.get("known") is None)
    assert [one["known"] for one in data["findings"]] == [True]
    assert {
        name: number for name, number in data["totals"]["verdicts"].items() if number and name != "known"
    } == counted
    assert data["totals"]["verdicts"]["known"] == 2, "both rules are broken by the cause that is known"
    for rule in data["rules"]:
        assert all(rule["id"] in data["findings"][at]["rules"] for at in rule["findings"])


def test_a_report_has_the_words_of_no_rule_and_every_verdict() -> None:
    run = make_run(evil_result())
    data = document.document(run)
    text = document.dump_report(data)
    assert json.loads(text) == json.loads(json.dumps(data))
    assert not [id for id, rule in all_rules().items() if rule.text in text or rule.source in text]
    said = {row["id"]: (row["verdict"], row["reason"]) for row in rows(data)}
    assert said == {one.rule: (one.verdict.value, one.reason) for one in run.verdicts}
    assert list(said) == list(all_rules())


def test_rules_in_a_row_are_named_by_the_first_and_the_last() -> None:
    ids = ["POOL-01", "POOL-02", "TREE-08", "TREE-09", "TREE-10", "LOCK-01"]
    assert spans(ids) == ["POOL-01", "POOL-02", "TREE-08..10", "LOCK-01"]
    assert [id for span in spans(ids) for id in form.in_span(span)] == ids
    for wrong in ("TREE", "TREE-01..", "tree-01", "TREE-01..99999"):
        with pytest.raises(ValueError, match="TREE-01"):
            form.in_span(wrong)


def control(text: str) -> list[str]:
    return [char for char in text if not char.isprintable() and char != "\n"]


def test_hostile_strings_are_harmless_everywhere() -> None:
    run = make_run(evil_result(), evil_error())
    page = markdown.render(run)
    plain = "\n".join([terminal.heading(run, Style()), *terminal.render(run, Style())])
    data = document.dump(document.document(run))
    assert not control(page)
    assert not control(plain)
    assert data.isascii()
    assert json.loads(data)["findings"][0]["rules"] == ["TREE-03", "TREE-02"]


def test_markdown_shows_hostile_strings_as_text() -> None:
    page = markdown.render(make_run(evil_result(), evil_error()))
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", page)
    assert "<" not in outside.replace("&lt;", "")
    assert "![a]" not in outside
    assert "http://" not in outside
    assert "@all" not in outside
    assert [line for line in page.split("\n") if line.startswith("# ")] == [page.split("\n")[0]]
    rows = [line for line in outside.split("\n") if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {6}
    assert len(rows) == len(all_rules()) + 2


def test_a_fence_outlasts_what_is_in_it() -> None:
    text = markdown.fenced(["a ```` b"])
    assert text.startswith("`````text\n")
    assert text.endswith("\n`````")


def test_the_terminal_names_rule_call_and_verdict() -> None:
    run = make_run(evil_result())
    lines = list(terminal.render(run, Style(width=80)))
    text = "\n".join(lines)
    assert "TREE-03 violated" in text or "TREE-02, TREE-03 violated" in text
    assert any(line.lstrip().startswith("▶   2 match(") for line in lines)
    assert "random:seed=0 [page=1 lru], shrunk from 40 steps to 2" in " ".join(text.split())
    assert lines[-1] == "exit 1: a rule is violated, or the baseline is out of date"
    assert max(map(len, lines)) <= 100


def test_colours_are_only_where_they_are_wanted() -> None:
    run = make_run(evil_result())
    assert "\x1b" not in "\n".join(terminal.render(run, Style()))
    assert "\x1b[31" in "\n".join(terminal.render(run, Style(color=True)))
    assert (
        "\n".join(terminal.render(run, Style(symbols=False)))
        .replace("…", "")
        .replace("×", "")
        .replace("→", "")
        .isascii()
    )


def test_a_known_violation_is_shown_as_known_and_not_explained_again() -> None:
    run = make_run(evil_result(), known=(KNOWN,))
    text = "\n".join(terminal.render(run, Style()))
    assert "2 known" in text
    assert "▶" not in text
    assert run.exit_code != 1


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("[4, 5, 6, 7] and [1, 2, 3]", "[4…7] and [1, 2, 3]"),
        ("[1, 1, 1, 1, 2, 3, 4, 5]", "[1 ×4, 2…5]"),
        ("[9, 8, 7, 6]", "[9, 8, 7, 6]"),
        ("{1, 2, 3, 4, 9, 9, 9, 9}", "{1…4, 9 ×4}"),
        ("no numbers", "no numbers"),
    ],
)
def test_sequences_are_told_briefly(text: str, short: str) -> None:
    assert brief(text) == short


class Stream:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_progress_moves_on_a_terminal_and_speaks_now_and_then_elsewhere() -> None:
    for live in (True, False):
        stream, time = Stream(), [0.0]
        progress = Progress(stream, Style(live=live, width=60), 100, clock=lambda time=time: time[0])  # type: ignore[arg-type,misc]
        for _ in range(100):
            time[0] += 0.2
            progress.add(ItemResult(item="a", config="c", steps=10))
        progress.clear()
        assert ("\r" in stream.text) is live
        assert (stream.text.count("\n") > 0) is not live
        assert stream.text.count("items") == (100 if live else 3)
        assert "50 steps/s" in stream.text


def test_progress_names_each_broken_rule_once() -> None:
    stream = Stream()
    progress = Progress(stream, Style(), 3)  # type: ignore[arg-type]
    for _ in range(3):
        progress.add(evil_result())
    assert stream.text.count("TREE-03 broken") == 1


def test_a_counterexample_that_may_not_be_the_shortest_says_so() -> None:
    result = evil_result()
    for why in ("", "shrinking stopped after 2,000 tries"):
        result.findings[0].not_minimal = why
        run = make_run(result)
        report = document.document(run)
        forms = [
            "\n".join(terminal.render(run, Style())),
            markdown.render(run),
            junit.render(report),
            summary.render(report),
        ]
        assert [why in form and "ot minimal" in form for form in forms] == [bool(why)] * 4, forms
        assert report["findings"][0]["not_minimal"] == why


def test_a_report_that_does_not_say_whether_it_is_minimal_can_be_read(tmp_path: Path) -> None:
    report = document.document(make_run(evil_result()))
    del report["findings"][0]["not_minimal"]
    path = tmp_path / "old.json"
    path.write_text(document.dump(report))
    assert "ot minimal" not in junit.render(saved.load(path))


def test_what_is_not_applicable_is_counted_and_told_if_asked() -> None:
    run = make_run(ItemResult(item="a [page=1 lru]", config="page=1 lru", steps=1, capabilities=["pool"]))
    assert run.tally()["not_applicable"] > 1
    brief_form = "\n".join(terminal.render(run, Style(width=80)))
    whole = "\n".join(terminal.render(run, Style(width=80, verbose=True)))
    assert "-v says of each rule why it is not applicable" in brief_form
    assert brief_form.count("not applicable") < whole.count("not applicable")
    assert all(len(line) <= 80 for line in brief_form.splitlines())


def leading(rules: list[str], many: int, call: str = "c") -> ItemResult:
    finding = replace(evil_result().findings[0], rules=rules, calls=[call] * many, call=call, allowed=",".join(rules))
    return replace(evil_result(), findings=[finding])


def test_what_breaks_the_same_rules_is_one_headline_and_lines() -> None:
    run = make_run(leading(["TREE-02", "TREE-08"], 4), leading(["TREE-08", "TREE-03"], 6), leading(["TREE-09"], 9, "d"))
    heads = terminal.headlines(run)
    assert [(run.groups[one.at].finding.rules, one.more) for one in heads] == [
        (["TREE-02", "TREE-08"], {1: ["TREE-03"]}),
        (["TREE-09"], {}),
    ]
    told = ["\n".join(terminal.render(run, Style(every=every))) for every in (False, True)]
    assert [text.count("\ncause tree-") for text in told] == [2, 3]
    assert "also broken, probably by the same cause" in told[0]
    assert [(one["headline"], one["follows"]) for one in document.document(run)["findings"]] == [
        (True, None),
        (False, 0),
        (True, None),
    ]


def test_an_estimate_of_what_is_left_is_given_once_it_is_one() -> None:
    assert left(1.0, 50, 100) == ""
    assert left(60.0, 1, 100) == ""
    assert left(60.0, 100, 100) == ""
    assert left(60.0, 50, 100) == "about 60 s left"
    assert left(60.0, 10, 100) == "about 9 min left"


def test_a_target_is_named_once_and_a_baseline_says_what_its_cause_breaks_now() -> None:
    named = SimpleNamespace(
        target_name="mine:target",
        target_version="target mine 3",
        configs=[1],
        rules={},
        planned=2,
        scope=Scope(depth=3),
    )
    assert terminal.heading(cast("Any", named), Style()).startswith("judging mine:target mine 3: ")
    group = SimpleNamespace(cause=Cause("evict-00000000", ""), finding=SimpleNamespace(rules=["EVICT-21"]))
    entry = cast("Any", SimpleNamespace(cause="evict-00000000"))
    assert "breaks now is EVICT-21" in terminal.met_otherwise(cast("Any", SimpleNamespace(groups=[group])), entry)
    assert terminal.met_otherwise(cast("Any", SimpleNamespace(groups=[])), entry) == ": take the entry out"


def test_what_was_skipped_is_folded_away_in_a_summary() -> None:
    page = summary.render(document.document(make_run()))
    _, _, folded = page.partition("<details><summary>")
    assert re.match(r"\d+ rules skipped, and why</summary>\n\n- ⏭️", folded) and folded.endswith("</details>\n")
