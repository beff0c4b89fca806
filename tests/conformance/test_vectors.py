"""Vectors: findings that every run plays, and the command that makes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.failures import save
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.vectors import FOLDER, Vector, VectorError, all_vectors, line_of, load, load_all
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules

Capture = pytest.CaptureFixture[str]

MUTANT = "kvlitmus.mutants.run:by_name."


def item_of(vector: Vector) -> Item:
    return Item(kind="vector", config=vector.config, name=vector.id, schedule=vector.schedule)


def mutant_of(vector: Vector) -> str:
    return dict(vector.origin)["target"].removeprefix(MUTANT).replace("_", "-")


@pytest.mark.parametrize("id", all_vectors())
def test_reference_and_specimen_pass_a_vector_and_it_leads_to_its_rules(id: str) -> None:
    vector = all_vectors()[id]
    assert set(vector.rules) <= all_rules().keys()
    for target in (reference, specimen):
        result = run_item(target, item_of(vector), Options())
        assert (result.findings, result.error, result.unsupported) == ([], "", "")
        assert all(result.evaluated[rule] for rule in vector.rules)


@pytest.mark.parametrize("id", [one.id for one in all_vectors().values() if mutant_of(one) in all_mutants()])
def test_a_mutant_is_killed_by_its_vector_alone(id: str) -> None:
    vector = all_vectors()[id]
    mutant = all_mutants()[mutant_of(vector)]
    (found, *_) = run_item(mutant.target, item_of(vector), Options(reruns=0, shrink_trials=0)).findings
    assert set(found.rules) & set(mutant.kills), "by a rule that it names"
    assert set(vector.rules) <= set(found.rules)


def test_the_set_is_not_empty_and_is_part_of_every_run_that_has_the_configuration() -> None:
    assert len(all_vectors()) >= 2
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == sorted(all_vectors())
    planned = {item.name for item in plan.items(plan.CONFIGS, PROFILE, steps=0) if item.kind == "vector"}
    assert planned == all_vectors().keys()
    assert not [item for item in plan.items([Config(page_size=2)], PROFILE, steps=0) if item.kind == "vector"]
    assert not [item for item in plan.items(plan.CONFIGS, PROFILE, litmus=False) if item.kind == "vector"]
    assert len({item.id for item in plan.items(plan.CONFIGS, PROFILE, steps=250)}) == len(
        plan.items(plan.CONFIGS, PROFILE, steps=250)
    )


def test_a_target_without_the_ports_declines_a_vector() -> None:
    class Pool:
        def alloc(self, n: int) -> None:
            return None

        def free(self, slots: list[int]) -> None: ...

        def available(self) -> int:
            return 0

    class Target:
        profile = PROFILE

        def make(self, config: Config) -> Pool:
            return Pool()

    vector = next(one for one in all_vectors().values() if "requests" in one.needs)
    result = run_item(Target(), item_of(vector), Options())
    assert "needs" in result.unsupported and "requests" in result.unsupported and result.steps == 0


def test_a_vector_that_is_broken_on_a_target_is_shrunk_like_any_schedule() -> None:
    vector = next(one for one in all_vectors().values() if mutant_of(one) == "memo-of-matches")
    long = replace(vector, schedule=(Op("match"), *vector.schedule, Op("match")))
    (found, *_) = run_item(
        all_mutants()["memo-of-matches"].target, item_of(long), Options(reruns=0, shrink_trials=100)
    ).findings
    assert len(found.schedule) <= len(vector.schedule)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "other"}, "expected a header"),
        ({"format": 2}, "expected format 1"),
        ({"vector": 3}, "no vector"),
        ({"item": {"kind": "random"}}, "no vector"),
        ({"vector": {"sentence": "x", "origin": {}}}, "'rules' of 'vector' is missing"),
        ({"vector": {"rules": [], "sentence": "x", "origin": {}}}, "rules"),
        ({"vector": {"rules": ["A"], "sentence": " ", "origin": {}}}, "sentence"),
        ({"vector": {"rules": ["A"], "sentence": "x", "origin": {"who": "me"}}}, "origin"),
        ({"item": {"kind": "vector"}}, "empty"),
        ({"item": {"kind": "vector", "schedule": [["steal", 0, 0, 0]]}}, "operation 0"),
        ({"config": {"page_size": 0}}, "page_size"),
    ],
)
def test_a_file_that_is_no_vector_is_refused_by_name(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    plain = {**json.loads(line_of(next(iter(all_vectors().values())))), **change}
    path = tmp_path / "POOL-01-00000000.jsonl"
    path.write_text(json.dumps(plain))
    with pytest.raises(VectorError, match=complaint) as caught:
        load(path)
    assert path.name in str(caught.value)


def test_a_configuration_is_written_without_what_it_leaves_as_it_is() -> None:
    """So that a field which a later version adds does not change what a vector is."""
    vector = next(iter(all_vectors().values()))
    one, two = (
        json.loads(line_of(replace(vector, config=config)))["config"]
        for config in (Config(page_size=4), Config(policy="lfu"))
    )
    assert one == {"page_size": 4, "pages": Config().pages} and two["policy"] == "lfu"


# -- promote ---------------------------------------------------------------------------------------


def saved(folder: Path, **change: Any) -> str:
    """A counterexample of a mutant, as a campaign saves it."""
    vector = next(one for one in all_vectors().values() if mutant_of(one) == "memo-of-matches")
    finding = Finding(
        rules=["TREE-02"],
        item="schedule",
        config=vector.config,
        call="match",
        calls=["match"],
        allowed="",
        seen={},
        schedule=list(vector.schedule),
    )
    for name, value in change.items():
        setattr(finding, name, value)
    target = f"{MUTANT}memo_of_matches"
    return str(save(folder, finding, target=target, depth=3, force_misuse=False, version="0"))


def test_a_finding_becomes_a_vector_and_kills_the_mutant_in_a_run(tmp_path: Path, capsys: Capture) -> None:
    path = saved(tmp_path, schedule=[Op("begin", 0, 5, 7), *all_vectors_schedule()])
    into = tmp_path / "mine"
    assert main(["promote", path, "--into", str(into), "--why", "A match is not remembered too long."]) == 0
    (vector,) = load_all(into).values()
    assert vector.sentence == "A match is not remembered too long." and dict(vector.origin)["target"].startswith(MUTANT)
    run = ["run", f"{MUTANT}memo_of_matches", "--rule", "TREE-02", "--page-size", "1", "--steps", "0", "--jobs", "1"]
    assert main([*run, "--vectors", str(into), "--list"]) == 0
    assert f"vector:{vector.id} [page=1 lru]  TREE-02" in capsys.readouterr().out
    assert main(["promote", path, "--into", str(into)]) == 0
    assert "already" in capsys.readouterr().out and len(load_all(into)) == 1


def all_vectors_schedule() -> tuple[Op, ...]:
    return next(one for one in all_vectors().values() if mutant_of(one) == "memo-of-matches").schedule


def test_what_never_leads_to_the_rule_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = saved(tmp_path, schedule=[Op("match", 1, 1, 1)], rules=["PREFETCH-01"])
    assert main(["promote", path, "--into", str(tmp_path / "mine")]) == 1
    assert "never leads to PREFETCH-01" in capsys.readouterr().out
    assert not (tmp_path / "mine").exists()


def test_what_the_reference_breaks_is_refused(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """No schedule does that today, so a mutant takes the place of the specimen."""
    monkeypatch.setattr(
        "kvlitmus.conformance.cli.commands.promote.MUST_PASS", ("reference", f"{MUTANT}memo_of_matches")
    )
    assert main(["promote", saved(tmp_path), "--into", str(tmp_path / "mine")]) == 1
    assert "breaks TREE-02" in capsys.readouterr().out
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "change", [{"schedule": [], "litmus": "pool/no-such-test"}, {"schedule": [Op("match")] * 101}, {"rules": ["NO-01"]}]
)
def test_what_can_be_no_vector_is_the_users_to_see(tmp_path: Path, capsys: Capture, change: dict[str, Any]) -> None:
    assert main(["promote", saved(tmp_path, **change), "--into", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr().err.startswith("kvlitmus: ")
