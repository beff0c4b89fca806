"""Two caches side by side: where they part, and whether by a rule, by a profile or by what rules leave open."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.components import target as reference_of_components
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.beside.facts import facts_of
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.history.compare.compared import CHOICE, FREEDOM, LAW, Compared, compared
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS, TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, ItemResult
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.conformance.tape.played import Record, records
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from tests.conformance.support.command_line import ONE, Capture
from tests.conformance.support.side_by_side import MUTED, OPS, OPTIONS, drawn, recorded, side_by_side

RECORDED = Path(__file__).parents[2] / "docs/results/recorded"

SAMPLE = [one for one in all_mutants().values() if not one.null and one.profile == specimen.profile]


@cache
def of_specimen(item: Item) -> Record:
    """What the specimen does in an item."""
    return recorded(specimen, item)[0]


def test_work_that_has_not_landed_is_compared() -> None:
    """When what has landed is noted is a cache's to choose."""
    loads: list[Json] = [{"kind": "load", "key": [1], "start": 4, "landed": landed} for landed in (False, True)]
    under_way, done = [facts_of({"jobs": jobs}, Config(), table=False) for jobs in (loads, loads[1:])]

    assert done.firm["jobs"] == "none"
    assert under_way.firm["jobs"] == "load of [1] from unit 4 under way"
    assert under_way.beside(done) == [("jobs", under_way.firm["jobs"], "none")]


NIGHTLY = [pytest.param(one, marks=pytest.mark.nightly) for one in (TIER_CONFIGS[0], COMPONENT_CONFIGS[2])]


@pytest.mark.parametrize("config", [Config(page_size=4), *NIGHTLY], ids=lambda one: one.label)
def test_specimen_and_reference_are_alike_or_part_by_a_freedom(config: Config) -> None:
    other = reference_of_components if config.components else reference
    outcome = side_by_side(specimen, other, drawn(config))
    # Of components they part sooner, where one names those of which an insert leaves nothing.
    assert outcome.steps > OPS / (4 if config.components else 2)
    assert outcome.kind in ("", FREEDOM) and (not outcome.kind or outcome.freedom)


def killed(one: Mutant) -> tuple[Compared, ItemResult] | None:
    """The first schedule in which a mutant breaks a rule, beside what the specimen does there."""
    for seed in range(3):
        item = drawn(one.configs[0], seed)
        b, result = recorded(one.target, item)
        if result.findings:
            return compared(of_specimen(item), b, OPTIONS, ([], result.findings[0].rules)), result
    return None


def planted_faults_part(many: int) -> None:
    """Look at so many, from all over the list."""
    found = 0
    for one in SAMPLE[7 :: len(SAMPLE) // (3 * many)]:
        if found >= many or (came := killed(one)) is None:
            continue
        found += 1
        outcome, result = came
        assert outcome.parting is not None and outcome.breach is not None, one.id
        assert outcome.kind == LAW and outcome.breach.side == "B", one.id
        assert outcome.breach.rules == result.findings[0].rules, one.id
        assert outcome.parting.step <= outcome.breach.step, one.id
    assert found >= many


def test_planted_faults_part_where_their_rule_breaks_or_before() -> None:
    planted_faults_part(2)


@pytest.mark.nightly
def test_twenty_planted_faults_part_where_their_rule_breaks_or_before() -> None:
    planted_faults_part(20)


@pytest.mark.parametrize("id", ["cache-frees-duplicates", "matches-count-as-hits", "what-is-freed-waits", "events-lag"])
def test_a_legal_variation_parts_by_the_field_that_it_declares(id: str) -> None:
    one, usual = all_mutants()[id], specimen.profile
    (declared,) = [each.name for each in fields(usual) if getattr(one.profile, each.name) != getattr(usual, each.name)]
    outcome = side_by_side(specimen, one.target, drawn(one.configs[0], 0, 80))
    assert outcome.kind == CHOICE
    assert [text.partition(":")[0] for text in outcome.fields] == [declared]


def changed(record: Record, *numbers: int) -> Record:
    """A record in which the cache says something else of what is available after these steps."""
    header, steps = record.plays[0]
    looks, lines = Looks(), list[dict[str, Json]]()
    for one in steps:
        seen = {name: told[-1] for name, told in looks.read(one.looks).items() if name == "available"}
        lines.append(
            {**one.data, "looks": {**one.looks, **seen, **({"available": 1} if one.number in numbers else {})}}
        )
    told = json.dumps(header.data) + "".join(f"\n{json.dumps(one)}" for one in lines) + "\n"
    with TapeReader("changed", data=told.encode()) as reader:
        return next(records(reader))


def test_what_both_break_is_no_parting_and_ends_no_comparison() -> None:
    mutant = all_mutants()["hits-never-counted"]
    item = drawn(mutant.configs[0])
    broken, result = recorded(mutant.target, item)
    whole = recorded(mutant.target, item, MUTED)[0]
    assert result.findings and len(whole.plays[0][1]) > len(broken.plays[0][1])
    assert compared(whole, whole, OPTIONS).parting is None
    last = [one.number for one in whole.plays[0][1] if "available" in one.looks][-1]
    outcome = compared(whole, changed(whole, last), OPTIONS)
    assert outcome.parting is not None and outcome.parting.step == last
    assert set(result.findings[0].rules) <= set(outcome.both)
    assert outcome.breach is not None and outcome.breach.side == "B" and outcome.breach.step == last


def test_what_parted_is_compared_again_after_a_reset() -> None:
    record = of_specimen(drawn(Config(page_size=4), 23, 120))
    steps = record.plays[0][1]
    (reset,) = [one.number for one in steps if one.call == "reset"]
    looked_at = [one.number for one in steps if "available" in one.looks]
    first, second = looked_at[5], next(number for number in looked_at if number > reset + 3)
    outcome = compared(record, changed(record, first, second), OPTIONS)
    assert outcome.parting is not None and outcome.parting.step == first
    (later,) = outcome.later
    assert later.parting is not None
    assert (later.parting.step, later.parting.since) == (second, reset)
    assert (outcome.kind, later.kind) == (LAW, LAW) and outcome.apart
    assert outcome.steps == first + second - reset < outcome.of
    alone = compared(record, changed(record, second), OPTIONS)
    assert alone.parting is not None and (alone.parting.step, alone.later) == (second, [])


def test_every_play_of_an_item_is_compared(tmp_path: Path) -> None:
    item = Item(kind="litmus", config=Config(page_size=4), name="misuse/a-receipt-is-given-back-twice")
    (header, steps), *others = of_specimen(drawn(Config(page_size=4))).plays
    assert not others
    plays = [(header, steps[: len(steps) // 2]), (header, steps)]
    record = Record(item, plays)
    whole = compared(record, Record(item, plays[::-1]), OPTIONS)
    assert (whole.parting, whole.plays, whole.steps) == (None, 2, whole.of)
    for one, other in ((record, Record(item, plays[1:])), (Record(item, plays[1:]), record)):
        less = compared(one, other, OPTIONS)  # nothing of the other is as short
        assert less.parting is not None and (less.parting.what, less.plays) == ("end", 2)
    twice = Record(item, [plays[1], plays[1]])
    once = compared(twice, Record(item, plays[1:]), OPTIONS)
    assert (once.parting, once.plays) == (None, 2)


def tape(path: Path, target: Any, items: list[Item]) -> str:
    """A file with what a target did."""
    path.write_bytes(b"".join(recorded(target, item)[0].tape for item in items))
    return str(path)


def test_two_tapes_are_compared_by_the_command(tmp_path: Path, capsys: Capture) -> None:
    mutant = next(one for one in SAMPLE if killed(one) is not None)
    items = [drawn(mutant.configs[0], seed, 60) for seed in range(3)]
    a, b = tape(tmp_path / "a.jsonl", specimen, items), tape(tmp_path / "b.jsonl", mutant.target, items)
    assert main(["compare", a, a, "--color", "never"]) == 0
    assert "alike to their end in 3 of 3 items" in capsys.readouterr().out
    assert main(["compare", a, b, "--color", "never", "--json", str(tmp_path / "out.json")]) == 1
    out = capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())
    first = found["partings"][0]
    assert found["kind"] == "kvlitmus comparison" and first["kind"] == LAW and first["breach"]["side"] == "B"
    assert f"{LAW}: B breaks {', '.join(first['breach']['rules'])}" in out and f"step {first['parting']['step']}" in out


PARTS = """
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.engine import MethodMask
from kvlitmus.conformance.specimen import cache

class Target:
    profile = cache.target.profile
    configs = (Config(page_size=4, pages=8),)

    def make(self, config):
        return MethodMask(cache.target.make(config), frozenset(PORTS["requests"]))

target = Target()
"""
"""A cache whose requests are composed of its parts."""


def test_a_record_is_like_the_cache_that_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parts.py").write_text(PARTS)
    words = ["--steps", "40", "--no-litmus", "--jobs", "1"]
    assert main(["run", "parts.py", *words, "--record", "r.jsonl"]) == 0
    assert main(["compare", "r.jsonl", "parts.py", *words]) == 0
    out = capsys.readouterr().out
    assert "exit 0: alike to their end in 1 of 1 items" in out and "not compared" not in out


def test_a_file_that_is_no_tape_is_a_mistake_of_the_user(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "odd.jsonl").write_text('{"kind": "shopping list"}\n')
    assert main(["compare", str(tmp_path / "odd.jsonl"), "specimen"]) == 2
    assert "line 1: expected a header" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "none.jsonl"), "specimen"]) == 2
    assert "expected a file that can be read" in capsys.readouterr().err


@pytest.mark.nightly
def test_two_targets_are_played_in_their_workers(capsys: Capture) -> None:
    assert main(["compare", "specimen", "specimen", *ONE, "--steps", "250", "--no-litmus"]) == 0
    assert "alike to their end in 4 of 4 items" in capsys.readouterr().out


@pytest.mark.nightly
def test_the_cores_of_a_release_are_compared_by_their_records(tmp_path: Path, capsys: Capture) -> None:
    """Nobody needs the release: what both did is on tape."""
    names = [str(RECORDED / f"sglang-0.5.23-{core}.jsonl.xz") for core in ("python", "rust")]
    words = ["--config", "page_size=16,policy=lru", "--json", str(tmp_path / "out.json")]
    code = main(["compare", *names, *words, "--color", "never"])
    found = json.loads((tmp_path / "out.json").read_text())
    assert code == found["exit_code"] == (1 if found["partings"] else 0)
    assert found["items"] > 50 and found["failed"] == {}
    assert all(one["kind"] and one["why"] for one in found["partings"])


DYING = """
import os

from kvlitmus.conformance.specimen.cache import target as specimen


class Dying:
    profile = specimen.profile

    def make(self, config):
        cache, left = specimen.make(config), [5]
        insert = cache.insert

        def dies(*args, **kwargs):
            left[0] -= 1
            if not left[0]:
                os._exit(7)
            return insert(*args, **kwargs)

        cache.insert = dies
        return cache


target = Dying()
"""


@pytest.mark.nightly
def test_a_cache_that_ends_its_process_parts_in_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["compare", "specimen", "dying:target", *ONE, "--steps", "100", "--no-litmus"]) == 1
    out = capsys.readouterr().out
    assert f"{LAW}: B breaks PORT-02" in out and "insert(" in out
