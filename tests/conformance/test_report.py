"""Reports: the document fits its schema, and nothing that a cache hands out does harm anywhere."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance import baseline, mutants_run
from kvlitmus.conformance.mutants.registry import all_mutants
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.report import document, failures, markdown, terminal
from kvlitmus.conformance.report.brief import brief
from kvlitmus.conformance.report.progress import Progress
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.results import Finding, ItemResult
from kvlitmus.conformance.schedule import Op
from kvlitmus.conformance.text import harmless
from kvlitmus.conformance.verdicts import Scope, conclude, exit_code, group
from kvlitmus.spec.rule import all_rules

EVIL = "\x1b[31mred\x07 <script>alert(1)</script> | `x` ``` ![a](http://e.vil) @all \u202e\n# head\r\nnext \ud800"
SCHEMA_WORDS = {
    "$schema", "$id", "$defs", "$ref", "title", "description", "type", "const", "enum", "properties", "required",
    "additionalProperties", "items", "minItems", "maxItems", "minimum", "pattern", "anyOf",
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    text = resources.files("kvlitmus.conformance").joinpath("schema", f"{name}.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def complaints(value: Any, rule: Any, top: Any, at: str = "$") -> list[str]:
    """What a value lacks to fit a JSON Schema, for the words of it that the project's schemas use."""
    unknown = rule.keys() - SCHEMA_WORDS
    assert not unknown, f"the validator of this test does not know {unknown}"
    if "$ref" in rule:
        return complaints(value, top["$defs"][rule["$ref"].rpartition("/")[2]], top, at)
    if "anyOf" in rule and all(complaints(value, one, top, at) for one in rule["anyOf"]):
        return [f"{at}: fits none"]
    if "const" in rule and value != rule["const"]:
        return [f"{at}: {value!r} is not {rule['const']!r}"]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{at}: {value!r} is not in {rule['enum']}"]
    types: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
        "null": type(None),
    }
    kind = rule.get("type")
    if kind and (not isinstance(value, types[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{at}: {type(value).__name__} is no {kind}"]
    found: list[str] = []
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        found.append(f"{at}: {value!r} does not match")
    if isinstance(value, int | float) and value < rule.get("minimum", value):
        found.append(f"{at}: {value} is too small")
    if isinstance(value, list):
        if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
            found.append(f"{at}: {len(value)} items")
        for number, one in enumerate(value):
            found += complaints(one, rule.get("items", {}), top, f"{at}[{number}]")
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in rule.get("required", []) if name not in value]
        more = rule.get("additionalProperties", True)
        for name, one in value.items():
            known = rule.get("properties", {}).get(name, more)
            if known is False:
                found.append(f"{at}: unknown field {name}")
            elif isinstance(known, dict):
                found += complaints(one, known, top, f"{at}.{name}")
    return found


def fits(value: Any, name: str) -> list[str]:
    loaded = schema(name)
    return complaints(json.loads(json.dumps(value)), loaded, loaded)


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
    run.baseline = baseline.compare(known, run.verdicts, "0.1.0", partial=partial)
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


KNOWN = baseline.Entry(rule="TREE-02", reason="r", link="https://x", until="9")


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
        {"findings": [{**good["findings"][0], "rules": []}]},
    ]
    for change in changes:
        assert fits({**good, **change}, "report"), change
    assert fits({name: value for name, value in good.items() if name != "totals"}, "report")


def test_verdicts_and_totals_agree() -> None:
    data = document.document(make_run(evil_result(), known=(KNOWN,)))
    counted = Counter(rule["verdict"] for rule in data["rules"] if rule["known"] is None)
    assert {
        name: number for name, number in data["totals"]["verdicts"].items() if number and name != "known"
    } == counted
    assert data["totals"]["verdicts"]["known"] == 1
    for rule in data["rules"]:
        assert all(rule["id"] in data["findings"][at]["rules"] for at in rule["findings"])


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
    both = tuple(replace(KNOWN, rule=rule) for rule in ("TREE-02", "TREE-03"))
    run = make_run(evil_result(), known=both)
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


def saved(folder: Path) -> Path:
    return failures.save(
        folder, evil_result().findings[0], target="specimen", depth=3, force_misuse=False, version="0.1.0"
    )


def test_a_saved_failure_is_read_back_and_fits_its_schema(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert path == saved(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert fits(json.loads(path.read_text()), "failure") == []
    failure = failures.load(path)
    assert (failure.target, failure.rules, failure.schedule) == (
        "specimen",
        ("TREE-03", "TREE-02"),
        (Op("alloc", 1, 2, 3),),
    )
    assert failures.replay_line(Path("a b.json"), "/x y") == "kvlitmus replay 'a b.json' --python '/x y'"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "other"}, "no saved failure"),
        ({"format": 2}, "'format' must be 1"),
        ({"format": True}, "'format' must be 1"),
        ({"depth": 4}, "'depth' must be 0 to 3"),
        ({"depth": True}, "'depth' must be int"),
        ({"depth": None}, "'depth' must be int"),
        ({"config": {"page_size": 0}}, "page_size"),
        ({"config": {"page": 1}}, "config has no field 'page'"),
        ({"config": []}, "'config' must be dict"),
        ({"rules": []}, "'rules' must name"),
        ({"rules": [1]}, "'rules' must name"),
        ({"schedule": [["alloc", 1, 2]]}, "operation 0"),
        ({"schedule": [["alloc", 1, 2, 256]]}, "operation 0"),
        ({"schedule": [["rm", 1, 2, 3]]}, "operation 0"),
        ({"schedule": []}, "exactly one of 'litmus' and 'schedule'"),
        ({"litmus": "x"}, "exactly one of 'litmus' and 'schedule'"),
        ({"calls": [1]}, "'calls' must be"),
        ({"target": 1}, "'target' must be str"),
    ],
)
def test_a_wrong_field_of_a_failure_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = saved(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(failures.FailureError, match=complaint):
        failures.load(path)


@pytest.mark.parametrize("field", list(failures.KINDS))
def test_a_missing_field_of_a_failure_is_named(tmp_path: Path, field: str) -> None:
    path = saved(tmp_path)
    data = json.loads(path.read_text())
    del data[field]
    path.write_text(json.dumps(data))
    with pytest.raises(failures.FailureError, match=f"'{field}' is missing"):
        failures.load(path)


def test_files_that_are_no_failures_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for raw, complaint in (
        (b"", "not JSON"),
        (b"\x80\x04\x95pickle", "not JSON"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b"[]", "no saved failure"),
        (b" " * ((16 << 20) + 1), "larger than"),
    ):
        path.write_bytes(raw)
        with pytest.raises(failures.FailureError, match=complaint):
            failures.load(path)
    with pytest.raises(failures.FailureError, match="Is a directory"):
        failures.load(tmp_path)


def test_a_mutant_is_killed_by_a_rule_that_it_names_and_the_list_fits_its_schema() -> None:
    effort = mutants_run.Effort(steps=2_000)
    fates = [mutants_run.run_mutant(id, effort) for id in ("lookup-pins", "any-order")]
    assert fates[0].killed_by in fates[0].kills
    assert 0 < fates[0].length <= 8
    assert (fates[1].null, fates[1].alarms) == (True, [])
    assert mutants_run.summary(fates) == "mutants: 1/1 killed, null: 0/1 alarms"
    assert fits(mutants_run.document(fates, effort, "0.1.0"), "mutants") == []


def test_a_crash_is_no_kill() -> None:
    mutant = replace(all_mutants()["lookup-pins"], kills=("PORT-01", "PORT-02", "TREE-03"))
    crash, rule = (replace(evil_result().findings[0], rules=rules) for rules in (["PORT-01"], ["PORT-01", "TREE-03"]))
    assert mutants_run.named(mutant, crash) == ""
    assert mutants_run.named(mutant, rule) == "TREE-03"


def test_the_last_line_counts_survivors_and_alarms() -> None:
    fates = [
        mutants_run.Fate(id="a", null=False, killed_by="TREE-03"),
        mutants_run.Fate(id="b", null=False),
        mutants_run.Fate(id="c", null=False, killed_by="TREE-03", error="the judge failed"),
        mutants_run.Fate(id="d", null=True),
        mutants_run.Fate(id="e", null=True, alarms=["x"]),
    ]
    assert mutants_run.summary(fates) == "mutants: 1/3 killed, null: 1/2 alarms"
