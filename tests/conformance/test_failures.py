"""Saved failures: read back as they were written, and refused, by the name of the field, when they are not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli.commands.replay import occurs
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.run.results import Finding, ItemResult
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.schemas import fits

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
        ({"litmus": "x"}, "'litmus' and 'schedule' must not both"),
        ({"calls": [1]}, "'calls' must be"),
        ({"target": 1}, "'target' must be str"),
    ],
)
def test_a_wrong_field_of_a_failure_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = saved(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(failures.FailureError, match=complaint):
        failures.load(path)


def test_a_schedule_may_be_empty(tmp_path: Path) -> None:
    """What ends every schedule may break a rule by itself, and shrinking then leaves nothing else."""
    path = saved(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schedule": []}))
    assert failures.load(path).schedule == ()


@pytest.mark.parametrize("field", list(failures.KINDS))
def test_a_missing_field_of_a_failure_is_named(tmp_path: Path, field: str) -> None:
    path = saved(tmp_path)
    data = json.loads(path.read_text())
    del data[field]
    path.write_text(json.dumps(data))
    with pytest.raises(failures.FailureError, match=f"'{field}' is missing"):
        failures.load(path)


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
        (b"", "not JSON"),
        (b"\x80\x04\x95pickle", "not JSON"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b"[]", "no saved failure"),
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
