"""Saved failures: read back as they were written, and refused, by the name of the field, when they are not."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kvlitmus.conformance.beside.moments import filled
from kvlitmus.conformance.checker.explain import PLACE, WHERE, fact_text, seen_texts
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.cli.commands import replay
from kvlitmus.conformance.cli.commands.replay import occurs
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine, failures
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.tape.recorder import Taping
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.names import Names

FINDING = Finding(
    rules=["TREE-03", "TREE-02"],
    item="random:seed=0 [page=1 lru]",
    config=Config(),
    call="match([1])",
    calls=["alloc(1) → [1]", "match([1])"],
    allowed="something else",
    seen={"match_slots": "[1]"},
    schedule=[Op("alloc", 1, 2, 3)],
    steps=2,
)


def saved(folder: Path) -> Path:
    return failures.save(folder, FINDING, target="specimen", depth=3, force_misuse=False, version="0.1.0")


def test_a_saved_failure_is_read_back(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert path == saved(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    failure = failures.load(path)
    assert (failure.target, failure.rules, failure.schedule) == (
        "specimen",
        ("TREE-03", "TREE-02"),
        (Op("alloc", 1, 2, 3),),
    )
    assert failure.finding["seen"] == {"match_slots": "[1]"} and failure.tape == []
    assert failures.replay_line(Path("a b.json"), "/x y") == "kvlitmus replay 'a b.json' --python '/x y'"
    assert failures.replay_line(Path("a"), target="exec:b c") == "kvlitmus replay a --target 'exec:b c'"


@pytest.mark.parametrize("said", [{"minimal": "2-minimal"}, {"not_minimal": "the time was up"}])
def test_what_is_drawn_of_a_failure_says_how_short_it_is_as_its_file_does(tmp_path: Path, said: dict[str, str]) -> None:
    target, item = all_mutants()["lookup-pins"].target, Item(kind="random", config=Config(), seed=0, ops=60)
    (finding, *_) = engine.run_item(target, item, Options(reruns=0)).findings
    assert finding.schedule and finding.minimal == "minimal"
    finding = replace(finding, minimal=said.get("minimal", ""), not_minimal=said.get("not_minimal", ""))
    path = failures.save(tmp_path, finding, target="a cache", depth=3, force_misuse=False, version="0.1.0")
    failure, rules = replay.read(str(path))
    result = engine.run_item(target, replay.item_of(failure), replay.options_of(failure, rules))
    assert [one.not_minimal for one in result.findings] == ["it was not shrunk"], "this time"
    play = replay.drawn(failure, rules, result, argparse.Namespace(target=None), "")
    told = cast("dict[str, str]", play.header["finding"])
    assert {name: told[name] for name in ("minimal", "not_minimal")} == {"minimal": "", "not_minimal": "", **said}


def test_a_litmus_test_is_replayed_as_it_is_written_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "lock/a-reset-forgets-receipts"
    finding = replace(FINDING, litmus=name, schedule=[])
    assert finding.shortness == "not shrunk: these are the calls of the litmus test"
    path = failures.save(tmp_path, finding, target="nowhere:target", depth=3, force_misuse=False, version="0.1.0")
    monkeypatch.chdir(tmp_path)
    assert main(["replay", str(path)]) == 2
    said = capsys.readouterr()
    assert f"by the litmus test {name} as it is written" in said.out
    assert "there is no module 'nowhere' here" in said.err and "in the folder in which it was found" in said.err


FOUND = {"rules": ["TREE-03"]}
SCHEDULE = {"kind": "schedule", "schedule": [["alloc", 1, 2, 3]]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "other"}, 'line 1: expected a header with "kind"'),
        ({"format": 2}, "line 1: expected format 1"),
        ({"format": True}, "line 1: expected format 1"),
        ({"depth": 4}, "line 1: expected depth to be 0 to 3"),
        ({"depth": True}, "line 1: expected depth to be 0 to 3"),
        ({"depth": None}, "line 1: expected depth to be 0 to 3"),
        ({"config": {"page_size": 0, "pages": 4}}, "page_size"),
        ({"config": {"page_size": 1, "pages": 4, "page": 1}}, "config has no field 'page'"),
        ({"config": []}, "line 1: expected a config"),
        ({"finding": 1}, "'finding' must be an object"),
        ({"finding": {"rules": []}}, "'rules' of 'finding' must name"),
        ({"finding": {"rules": [1]}}, "'rules' of 'finding' must name"),
        ({"finding": {**FOUND, "calls": [1]}}, "'calls' of 'finding' must be"),
        ({"item": {**SCHEDULE, "schedule": [["alloc", 1, 2]]}}, "operation 0"),
        ({"item": {**SCHEDULE, "schedule": [["alloc", 1, 2, 256]]}}, "operation 0"),
        ({"item": {**SCHEDULE, "schedule": [["rm", 1, 2, 3]]}}, "operation 0"),
        ({"item": {**SCHEDULE, "kind": "litmus", "name": "x"}}, "'item' must be a schedule, or a litmus test"),
        ({"item": {"kind": "random", "seed": 1}}, "'item' must be a schedule, or a litmus test"),
        ({"item": {"kind": "dance"}}, "a kind among litmus"),
        ({"item": {"kind": "litmus", "name": 3}}, "name of an item must be str"),
        ({"target": 1}, "line 1: expected target to be a text"),
    ],
)
def test_a_wrong_field_of_a_failure_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = saved(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}) + "\n")
    with pytest.raises(failures.FailureError, match=complaint):
        failures.load(path)


def test_a_schedule_may_be_empty(tmp_path: Path) -> None:
    """What ends every schedule may break a rule by itself, and shrinking then leaves nothing else."""
    path = saved(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "item": {"kind": "schedule"}}) + "\n")
    assert failures.load(path).schedule == ()


@pytest.mark.parametrize("field", ["target", "depth", "force_misuse", "item"])
def test_a_missing_field_of_a_failure_is_named(tmp_path: Path, field: str) -> None:
    path = saved(tmp_path)
    data = json.loads(path.read_text())
    del data[field]
    path.write_text(json.dumps(data) + "\n")
    with pytest.raises(failures.FailureError, match=f"'{field}' is missing"):
        failures.load(path)


def test_a_finding_keeps_its_steps_with_what_the_judge_says(tmp_path: Path) -> None:
    mutant = all_mutants()["split-forgets-locks"]
    item = Item(kind="random", config=Config(page_size=4), seed=0, ops=400)
    first, *_ = engine.run_item(mutant.target, item, Options(reruns=0)).findings
    path = failures.save(tmp_path, first, target="x", depth=3, force_misuse=False, version="0", fill=filled)
    failure = failures.load(path)
    bare = [{name: one for name, one in step.items() if name != "expected"} for step in failure.tape]
    assert bare == json.loads(json.dumps(first.tape)) and failure.header.ports >= {"tree", "locks", "inspect"}
    fresh, *calls = failure.steps
    assert not fresh.call and fresh.looks["available"] == 128
    assert [step.data["text"] for step in calls if "text" in step.data] == first.calls
    ops = [op for step in calls if type(op := step.data.get("op")) is int]
    assert ops and sorted(ops) == ops and ops[-1] < len(first.schedule)
    assert [one for step in calls[:-1] for one in step.data if one == "verdicts"] == []
    assert "expected" in calls[-1].data
    (told,) = [one for one in calls[-1].data["verdicts"] if one["rule"] == first.rules[0]]  # type: ignore[union-attr, index, call-overload]
    assert told["sentence"] == all_rules()[first.rules[0]].text  # type: ignore[index, call-overload]
    assert (told["allowed"], told["seen"]) == (first.allowed, first.seen)  # type: ignore[index, call-overload]
    assert path.stat().st_size < 20_000
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(failures.FailureError, match=r"line \d+: expected a whole line, got half a line: it breaks off"):
        failures.load(path)


@pytest.mark.parametrize(
    "item",
    [
        Item(kind="random", config=Config(page_size=4), seed=0, ops=400),
        Item(kind="litmus", config=Config(page_size=4), name="lock/a-split-keeps-both-halves-locked"),
    ],
    ids=["random", "litmus"],
)
def test_a_finding_is_played_once_more_and_that_play_is_its_tape(item: Item, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[type] = []
    play = engine.play

    def noted(target: Any, *args: Any, watches: bool = False, **kwargs: Any) -> Any:
        watched.extend([type(target)] if watches or type(target) is Taping else [])
        return play(target, *args, watches=watches, **kwargs)

    monkeypatch.setattr(engine, "play", noted)
    (found,) = engine.run_item(all_mutants()["split-forgets-locks"].target, item, Options(reruns=0)).findings
    assert watched == [Taping]
    assert found.tape and found.parted


class Unwritten(dict[str, int]):
    """A mapping that nobody can read."""

    def items(self) -> Any:
        raise RuntimeError("not for you")


class AnswersUnwritten(SpecimenTarget):
    def make(self, config: Config) -> Any:
        made = super().make(config)
        made.alloc = lambda _: Unwritten()  # type: ignore[method-assign, assignment, return-value, unused-ignore]
        return made


@pytest.mark.parametrize("trials", [0, 20])
def test_an_answer_that_cannot_be_written_is_found_all_the_same_and_has_no_tape(trials: int) -> None:
    item = Item(kind="schedule", config=Config(), schedule=(Op("alloc", 1, 0, 0), Op("alloc", 2, 0, 0)))
    (found,) = engine.run_item(AnswersUnwritten(), item, Options(reruns=0, shrink_trials=trials)).findings
    assert (found.rules, found.call.partition("(")[0], found.tape) == (["PORT-03"], "alloc", [])
    assert "not for you" not in found.detail


@pytest.mark.parametrize(
    "name", ["plain.json", "two words.json", "\x1b[2J'\\é.json", "line\nbreak.json", "\udcff.json"]
)
def test_the_line_that_replays_a_failure_is_printable_and_names_the_file(name: str) -> None:
    line = failures.replay_line(Path(name))
    assert line.isprintable()
    shell = subprocess.run(
        ["bash", "-c", f"printf %s {line.removeprefix('kvlitmus replay ')}"], capture_output=True, check=True
    )
    assert shell.stdout == os.fsencode(name)


def test_files_that_are_no_failures_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for raw, complaint in (
        (b"", "line 1: expected the header of a tape, got nothing"),
        (b"\x80\x04\x95pickle\n", "line 1: expected a JSON object"),
        (b"[" * 1_000_000 + b"\n", "line 1: expected a JSON object"),
        (b"[]\n", "line 1: expected a JSON object"),
        (b" " * ((16 << 20) + 1), "larger than"),
    ):
        path.write_bytes(raw)
        with pytest.raises(failures.FailureError, match=complaint):
            failures.load(path)
    with pytest.raises(failures.FailureError, match="expected a regular file, got a folder"):
        failures.load(tmp_path)


def test_what_breaks_another_rule_is_not_what_was_saved() -> None:
    rules = all_rules()
    found = Finding(rules=["POOL-02"], item="i", config=Config(), call="c", calls=["c"], allowed="", seen={})
    result = ItemResult(item="i", config="page=1 lru", findings=[found])
    assert occurs(result, {"POOL-02": rules["POOL-02"]}) is found
    assert occurs(result, {"POOL-01": rules["POOL-01"]}) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"kv": 1, "swa": 0}, "kv 1, swa 0"),
        ({"device": {"kv": 11, "swa": 3}, "host": {}}, "device (kv 11, swa 3), host {}"),
    ],
)
def test_counts_by_name_are_told_in_words(value: dict[str, Any], text: str) -> None:
    assert fact_text(Names(), "component_available", value) == text


@pytest.mark.parametrize(
    ("part", "granted"), [({WHERE: "component kv", PLACE: 4}, "(15, 3)"), ({}, "(60, 61, 62, 63, 12)")]
)
def test_slots_of_a_pool_of_components_are_told_as_its_places(part: dict[str, object], granted: str) -> None:
    facts = {**part, "granted": (60, 61, 62, 63, 12)}
    assert seen_texts(all_rules()["POOL-03"], Names(), facts) == {"granted": granted}


def test_how_short_a_finding_is_reads_without_the_name_of_the_algorithm() -> None:
    assert "two of its calls" in replace(FINDING, minimal="2-minimal").shortness
    assert replace(FINDING, minimal="minimal").shortness == "minimal"
    assert FINDING.shortness == ""
