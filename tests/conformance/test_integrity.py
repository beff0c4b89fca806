"""The judge that shares a process with an adapter: one that was changed is noticed at the end of the run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.isolation import integrity
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.isolation.integrity import PLANTED, Fingerprint, JudgeChanged, differing, expected, planted
from kvlitmus.conformance.isolation.supervisor import run_items
from kvlitmus.conformance.isolation.worker_pool import Limits, WorkerPool
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.run.targets import KNOWN, resolve_target
from kvlitmus.mutants.registry import mutant_of
from kvlitmus.spec.parts import all_rules
from tests.conformance.conftest import LOOKED_AT
from tests.conformance.support.cheats import CHEATS
from tests.conformance.support.command_line import BROKEN, ONE, Capture
from tests.conformance.support.schemas import fits
from tests.support.night import by_turns

HERE = Path(__file__).parent / "support"
ITEMS = [Item(kind="litmus", config=Config(page_size=1), name="tree/what-was-inserted-is-matched")]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the targets all the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.mark.parametrize("name", by_turns(CHEATS))
def test_a_changed_judge_is_noticed(name: str, tmp_path: Path) -> None:
    with pytest.raises(JudgeChanged, match="the judge was changed: "):
        list(run_items(resolve_target(f"cheats:target_{name}"), ITEMS, Options(reruns=0), state=tmp_path / "s"))


@pytest.mark.parametrize("name", by_turns(CHEATS, every=4))
def test_what_it_says_of_planted_faults_gives_most_cheats_away_by_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two looks that are independent: the second one notices what is no change of code, or one that is hidden."""
    ref = resolve_target(f"cheats:target_{name}")
    with WorkerPool(ref, Limits(), tmp_path / "s") as pool:
        worker = pool.ready()
        worker.ask(60.0, do="make", config={"page_size": 1, "pages": 8})
        real = worker.ask
        monkeypatch.setattr(
            worker, "ask", lambda seconds, **what: {"changes": []} if what["do"] == "look" else real(seconds, **what)
        )
        if name in (
            "other_len",
            "name_in_front_of_a_builtin",
            "other_modules",
        ):  # they make no difference to any verdict
            integrity.look(worker)
        else:
            with pytest.raises(JudgeChanged, match="planted fault"):
                integrity.look(worker)


HONEST = [name for name, known in KNOWN.items() if not known.release and "cuda" not in name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * bool(place % 5)) for place, name in enumerate(HONEST)]
)
def test_an_honest_target_leaves_the_judge_as_it_is(name: str, tmp_path: Path) -> None:
    results = list(run_items(resolve_target(name), ITEMS, Options(reruns=0), state=tmp_path / "s"))
    assert len(results) == 1


def test_the_report_of_a_changed_judge_says_so_and_nothing_else(capsys: Capture) -> None:
    words = ["run", "cheats:target_make_another", *ONE, "--steps", "0", "--report", "r.json"]
    assert main(words) == 3
    data = json.loads(Path("r.json").read_text())
    assert fits(data, "report") == []
    assert data["exit_code"] == 3
    assert {rule["verdict"] for rule in data["rules"]} == {"harness_error"}
    (reason,) = {rule["reason"] for rule in data["rules"]}
    assert reason == "the judge was changed: kvlitmus.conformance.run.engine.make_adapter is not what it was"
    said = capsys.readouterr().out
    assert "the judge was changed" in said and "exit 3" in said
    assert main(["run", BROKEN, *ONE, "--steps", "0", "--rule", "LOCK-02"]) == 1, "the cache is broken"


def test_a_campaign_with_a_changed_judge_has_failed(capsys: Capture) -> None:
    words = ["fuzz", "cheats:target_make_another", *ONE[:2], "--workers", "1", "--steps", "200", "--no-canary"]
    assert main([*words, "--report", "r.json"]) == 3
    data = json.loads(Path("r.json").read_text())
    assert fits(data, "fuzz") == []
    assert data["broken_off"].startswith("the judge was changed: ")
    assert "exit 3" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["smoke", "replay"])
def test_other_commands_fail_too(word: str, capsys: Capture) -> None:
    main(["run", BROKEN, *ONE, "--steps", "0", "--rule", "LOCK-02"])
    file = next(Path(".kvlitmus/failures").iterdir())
    target = "cheats:target_blind_judge"
    assert main([word, target] if word == "smoke" else [word, str(file), "--target", target]) == 3
    assert "the judge was changed: " in capsys.readouterr().err


def test_a_fault_is_planted_for_each_pack_that_was_judged() -> None:
    rules = all_rules()

    def packs(judged: set[str] | None) -> set[str]:
        return {rules[id].pack for one in planted(judged) for id in mutant_of(one.module, one.mutant).kills}

    assert {rule.pack for rule in rules.values()} == packs(None)
    assert all(rule.pack in packs({id}) for id, rule in rules.items())
    assert packs(set()) == packs({"LOCK-02"}) < packs({"LOCK-02", "RANKS-01"}) < packs(None)


def test_a_worker_that_dies_before_it_is_looked_at_is_not_trusted(tmp_path: Path) -> None:
    with WorkerPool(resolve_target("specimen"), Limits(), tmp_path / "s") as pool:
        worker = pool.ready()
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(JudgeChanged, match="it can't be looked at, since the worker ended the process by SIGKILL"):
            integrity.look(worker)


def test_planted_faults_break_rules_of_all_packs() -> None:
    packs = set()
    for one in PLANTED:
        expected(one)  # fails if it isn't caught
        packs |= {all_rules()[rule].pack for rule in mutant_of(one.module, one.mutant).kills}
    assert packs == {rule.pack for rule in all_rules().values()}


def test_a_fingerprint_is_the_same_as_long_as_nothing_changes() -> None:
    before = Fingerprint()
    assert before.changes(CurrentRun()) == []
    assert len([*differing(before.noted, {})]) > 2_000


def test_each_test_by_which_the_judge_is_looked_at_is_there() -> None:
    for one in LOOKED_AT:
        file, _, name = one.partition("::")
        assert f"def {name}" in Path(__file__).with_name(file).read_text(encoding="utf-8"), one
