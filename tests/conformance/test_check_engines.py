"""Tapes of engines: calls of every kind of cache, judged without anything that says what was played."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.history.arguments import SUITES
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.conformance.tape.recorder import Recording
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.zoo import target_of
from tests.conformance.support.recorder import check
from tests.conformance.test_logged_tapes import PLANTED, TAPES, Line, lines_of, path_of, written
from tests.support.night import by_turns

Capture = pytest.CaptureFixture[str]

WITHOUT = frozenset(method for port in SUITES | {"prefetch"} for method in PORTS[port])
"""What only the suite does to a cache, and a plan, which judges itself."""

CONFIGS = (
    *TIER_CONFIGS[:4],
    Config(page_size=4, pages=16, components="kv+swa+state"),
    Config(page_size=4, pages=20, components="groups", host_pages=24),
    Config(page_size=4, pages=12, components="kv+chunk", host_pages=12, storage="attached"),
    Config(page_size=4, pages=24, components="blocks+state"),
    Config(page_size=4, pages=11, pool="sparse"),
    Config(page_size=1, pool="store"),
    Config(page_size=1, pages=8, pool="ranks"),
)


def played(cache: Any, config: Config, seed: int = 0, ops: int = 60) -> tuple[ItemResult, list[list[Line]]]:
    """A schedule as an engine would record it: the plays, the longest first, without what was played."""
    recording = Recording(cache)
    item = Item(kind="random", config=config, seed=seed, ops=ops)
    result = engine.run_item(recording, item, Options(shrink_trials=0, reruns=0, without=WITHOUT))
    plays: list[list[Line]] = []
    for line in map(json.loads, (recording.record(item) or b"").splitlines()):
        if "kind" in line:
            del line["item"]
            plays.append([])
        plays[-1].append(line)
    return result, sorted(plays, key=len, reverse=True)


def same_rules(result: ItemResult) -> dict[str, int]:
    """How often rules were evaluated, but for those that need more than a tape tells, as what slots hold."""
    left_out = re.compile(r"PORT-|MISUSE-|STORE-0[48]|STORE-1[0-9]|TREE-03|REQ-02")
    return {id: times for id, times in result.evaluated.items() if not left_out.match(id)}


@pytest.mark.parametrize("config", by_turns(CONFIGS, every=2), ids=lambda config: config.label)
def test_a_tape_of_any_cache_is_judged_wholly_from_its_steps(config: Config, tmp_path: Path) -> None:
    result, (play, *_) = played(target, config)
    found = check(written(tmp_path, play))
    outcome = found.outcome
    assert (outcome.findings, outcome.stopped, outcome.error, outcome.lacking) == ([], "", "", "")
    # Of components a schedule ends with a call that the contract forbids, and the cache rejects.
    assert outcome.misuses <= 1 and all(one.harmless for one in outcome.misuse)
    assert outcome.judged + outcome.misuses == outcome.total == len([line for line in play if "call" in line]) > 50
    assert outcome.partly == 0 and result.findings == []
    expected, counted = same_rules(result), found.checker.counted()
    lost = {id: (times, counted[id]) for id, times in expected.items() if counted[id] < times}
    # No call says that all is delivered; which pages a request computes later is the engine's affair.
    assert not {id for id in lost if not expected[id] - counted[id] <= 2}, lost


SAME: Line = {"component_available": {"~": []}, "component_free_places": {"~": []}, "component_entries": {"~": []}}
KEY: Line = {"tokens": [1, 1, 1, 1], "namespace": None, "bigram": False}


@pytest.mark.parametrize(
    ("method", "args", "kind"),
    [
        ("component_free", lambda own, other: [{"kv": [own, own]}], "place twice"),
        ("component_free", lambda own, other: [{"kv": [other]}], "foreign place"),
        ("component_insert", lambda own, other: [KEY, {"kv": [[4, other]]}], "foreign place"),
        ("component_insert", lambda own, other: [KEY, {"kv": [[8, own]]}], "beyond the key"),
        ("component_alloc", lambda own, other: [{"kv": -1}], "size"),
        ("component_evict", lambda own, other: [{"kv": -1}], "size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_engine_must_not_ask_of_components_is_no_fault_of_the_cache(
    method: str, args: Callable[[int, int], list[object]], kind: str, tmp_path: Path
) -> None:
    _, (play, *_) = played(target, CONFIGS[4])
    at = next(at for at, line in enumerate(play) if line.get("call") == "component_alloc" and line["answer"]["kv"])
    own = play[at]["answer"]["kv"][0]
    wrong = {"call": method, "args": args(own, own - 8), "raised": "ValueError: that is not yours", "looks": SAME}
    outcome = check(written(tmp_path, [*play[: at + 1], wrong])).outcome
    assert (outcome.findings, outcome.stopped, outcome.error) == ([], "", "")
    assert [(one.kind, one.harmless) for one in outcome.misuse] == [(kind, True)]


def test_an_engine_may_attach_several_storages(tmp_path: Path) -> None:
    """What the first one has the second has not: what is put there is owed to each."""
    result, (play, *_) = played(target, TIER_CONFIGS[0], 2, 200)
    attached = [line["args"][0].get("of", 0) for line in play if line.get("call") == "attach"]
    outcome = check(written(tmp_path, play)).outcome
    assert {0, 1} == {*attached} and result.findings == [] == outcome.findings and outcome.judged == outcome.total > 250


def test_a_receipt_may_stand_for_several_locks(tmp_path: Path) -> None:
    """Where it is the locked path, two locks give the same one; given back once more, that says nothing."""
    _, (play, *_) = played(target_of("dedup"), Config(page_size=4))
    outcome = check(written(tmp_path, play)).outcome
    assert (outcome.findings, outcome.misuse, outcome.stopped) == ([], [], "") and outcome.judged == outcome.total
    last = max(at for at, line in enumerate(play) if line.get("call") == "unlock")
    again = check(written(tmp_path, [*play[: last + 1], play[last], *play[last + 1 :]])).outcome
    assert [one.kind for one in again.misuse] == ["unlock twice"]


@pytest.mark.parametrize(
    "id", ["demotion-takes-both-copies", "demoted-is-worth-nothing", "component-recovery-frees-twice"]
)
def test_what_a_run_finds_a_tape_without_its_schedule_shows(id: str, tmp_path: Path) -> None:
    mutant = all_mutants()[id]
    result, (play, *_) = played(mutant.target, mutant.configs[0], ops=120)
    found = check(written(tmp_path, play)).outcome.findings
    assert [one.finding.rules for one in found] == [one.rules for one in result.findings] != []


# -- released engines, through the command line ------------------------------------------------


def without_item(name: str) -> list[Line]:
    """A logger's tape as an engine in production writes it: nothing says what was played."""
    lines = lines_of(name)
    del lines[0]["item"]
    return lines


@pytest.mark.parametrize("name", TAPES)
def test_a_released_engine_is_judged_by_the_command_line(name: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", str(path_of(name)), "--keep-going"]) == bool(TAPES[name])
    shown = capsys.readouterr().out
    assert all(rule in shown for rule in TAPES[name])
    assert main(["check", str(written(tmp_path, without_item(name))), "--keep-going", "--json"]) == bool(TAPES[name])
    told = json.loads(capsys.readouterr().out)
    assert {rule for one in told["findings"] for rule in one["rules"]} == TAPES[name]
    trace = told["trace"]
    assert trace["judged"] == trace["calls"] > 200 and not (trace["partly"] or trace["misuses"] or trace["stopped"])


@pytest.mark.parametrize("item", [True, False], ids=["run", "engine"])
@pytest.mark.parametrize("plant", by_turns(PLANTED, every=2), ids=lambda one: one.__name__)
def test_the_command_line_finds_what_is_planted_in_a_released_engine(
    plant: Callable[[Line, list[Line]], bool], item: bool, tmp_path: Path, capsys: Capture
) -> None:
    name, rules = PLANTED[plant]
    rules = rules if item else rules.replace("REQ-", "REQ-|TREE-")  # an engine's requests are calls of its own
    lines = lines_of(name) if item else without_item(name)
    assert any(plant(line, lines[:at]) for at, line in enumerate(lines)), "nowhere to plant it"
    assert main(["check", str(written(tmp_path, lines)), "--color", "never"]) == 1
    shown = capsys.readouterr().out
    assert re.search(rf"^(?:{rules})\d+ ", shown, re.MULTILINE) and "exit 1: a rule is violated" in shown
