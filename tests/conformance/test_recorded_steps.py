"""Recorded steps are judged again without the cache, by the rules as they are now."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.generate.schedule import draw
from kvlitmus.conformance.history import again
from kvlitmus.conformance.litmus.registry import litmus_of
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.plan import TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.lines import TapeError
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.rule import RULES
from tests.conformance.support.schemas import fits

JUDGED = r"^tape: ([\d,]+) of ([\d,]+) steps judged"

CONFIGS = (Config(page_size=4), Config(page_size=1), TIER_CONFIGS[2])


def recorded(folder: Path, cache: Any, chosen: list[Item]) -> tuple[Path, list[ItemResult]]:
    """A file with the steps of these items, and what was said of them."""
    options = Options(shrink_trials=0, force_misuse=True, record=str(folder))
    results = [engine.run_item(cache, item, options) for item in chosen]
    path = folder / "cache.jsonl.xz"
    assert recorder.pack(folder, path, {"target": "cache", "force_misuse": True}, [item.id for item in chosen]) > 0
    return path, results


def some_items() -> list[Item]:
    """Litmus tests, misuse among them, and a schedule for each configuration."""
    found = items(CONFIGS, PROFILE, steps=250, force_misuse=True)
    return [item for item in found if recorder.wanted(item)]


def about(rules: Collection[str], tiered: bool) -> list[Item]:
    """Those that are about these rules, and the schedules."""
    found = [one for one in some_items() if one.config.tiered == tiered]
    return [one for one in found if one.kind != "litmus" or not {*rules}.isdisjoint(litmus_of(one.name).rules)]


def test_steps_are_judged_again_as_they_were(tmp_path: Path) -> None:
    path, results = recorded(tmp_path, target, some_items()[::4])
    outcome = again.judge(path)
    declined = [one for one in results if one.unsupported]
    assert outcome.items == len(results) and len(declined) < len(results) / 2
    assert outcome.steps == sum(one.steps for one in results) > 700
    assert outcome.broken == {} == outcome.ended
    assert dict(outcome.evaluated) == dict(sum((one.evaluated for one in results), start=type(outcome.evaluated)()))


def test_storage_is_still_lent_when_something_else_was(tmp_path: Path) -> None:
    """Of two things that are lent each does what it did: a plan of a prefetch, and the storage from the beginning."""
    item = Item(kind="random", config=TIER_CONFIGS[0], seed=0, ops=120)
    path, (result,) = recorded(tmp_path, target, [item])
    outcome = again.judge(path)
    assert outcome.broken == {} == outcome.ended and outcome.evaluated["BACKUP-08"] > 0
    assert outcome.steps == result.steps


@pytest.mark.parametrize("id", ["split-forgets-locks", "added-is-told-twice", "prefetch-unchecked-allocation"])
def test_what_was_broken_is_broken_again(tmp_path: Path, id: str) -> None:
    mutant = all_mutants()[id]
    chosen = about(mutant.kills, mutant.configs[0].tiered)
    path, results = recorded(tmp_path, mutant.target, chosen)
    broken = {rule for one in results for finding in one.findings for rule in finding.rules}
    assert again.judge(path).broken.keys() == broken and broken & set(mutant.kills)


def test_a_changed_rule_is_judged_without_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = recorded(tmp_path, target, some_items()[:40])

    def never(*facts: object) -> bool:
        return False

    never.__module__ = RULES["POOL-01"].predicate.__module__  # or the register would be put into another order
    monkeypatch.setitem(RULES, "POOL-01", replace(RULES["POOL-01"], predicate=never))
    assert set(again.judge(path).broken) == {"POOL-01"}


def test_a_changed_move_ends_the_item_and_blames_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item(kind="random", config=CONFIGS[0], seed=0, ops=200)
    path, _ = recorded(tmp_path, target, [item])
    monkeypatch.setattr(engine, "draw", lambda seed, *given, **named: draw(seed + 1, *given, **named))
    outcome = again.judge(path)
    assert outcome.broken == {} and "is not this call" in outcome.ended[item.id].why


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.xz"
    header = (
        b'{"kind": "kvlitmus tape", "format": 1, "config": {"page_size": 4, "pages": 8}, "item": {"kind": "vector"}}'
    )
    header += b"\n"
    for content, expected in (
        (b"nothing", "line 1: expected the header of a tape"),
        (lzma.compress(b"{}\n"), 'line 1: expected a header with "kind"'),
        (lzma.compress(b"["), "line 1: expected the header of a tape"),
        (header.replace(b"item", b"cache").replace(b'{"kind": "vector"}', b'""'), "line 1: expected an item"),
        (header + b'{"call": "dance", "answer": 1}\n', "line 2: expected a call of the ports"),
        (header + b'{"call": "alloc", "ans', "line 2: expected a whole line"),
    ):
        path.write_bytes(content)
        with pytest.raises(TapeError, match=rf"x\.jsonl\.xz, {expected}"):
            again.judge(path)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.xz"])
def test_of_a_record_that_breaks_off_what_stands_before_is_judged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [Item(kind="random", config=CONFIGS[0], seed=seed, ops=60) for seed in range(2)]
    whole, _ = recorded(tmp_path, target, chosen)
    data = whole.read_bytes() if name.endswith("xz") else lzma.decompress(whole.read_bytes())
    path = tmp_path / name
    path.write_bytes(data[: len(data) * 2 // 3])
    assert main(["check", str(path)]) == 4
    out = capsys.readouterr().out
    assert re.search(r"the tape is torn: line \d+: .*; what stands before was judged", out)
    assert int(re.findall(r"rules: 0 violated, (\d+) of", out)[0]) > 20
    assert "the tape doesn't fit" in " ".join(out.split())
    judged, total = re.findall(JUDGED, out, re.MULTILINE)[0]
    assert int(judged) > 30 and judged == total


def test_a_run_records_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "specimen.jsonl.xz"
    asked = ["run", "specimen", "--config", "page_size=4,pages=8", "--steps", "250", "--rule", "POOL-12"]
    assert main([*asked, "--record", str(path), "--failures", str(tmp_path)]) == 0, capsys.readouterr().out
    outcome = again.judge(path)
    assert outcome.items >= 1 and outcome.evaluated["POOL-12"] and not outcome.broken
    assert outcome.header.target == "specimen"


@pytest.mark.parametrize("id", ["", "added-is-told-twice"])
def test_check_judges_what_a_run_has_recorded_of_any_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], id: str
) -> None:
    chosen = [item for item in some_items() if item.config.tiered and item.kind == "litmus"][::8]
    cache = target
    if id:
        mutant = all_mutants()[id]
        cache, chosen = mutant.target, about(mutant.kills, mutant.configs[0].tiered)[:4]
    path, results = recorded(tmp_path, cache, chosen)
    broken = {rule for one in results for finding in one.findings for rule in finding.rules}
    assert main(["check", str(path), "--keep-going"]) == bool(broken) == bool(id)
    out = capsys.readouterr().out
    assert f"\nrules: {len(broken)} violated, " in out and all(f"{rule} " in out for rule in broken)
    judged, total = re.findall(JUDGED, out, re.MULTILINE)[0]
    assert judged == total
    calls = sum(one.steps for one in results)
    assert f"\ncalls: {calls:,} judged, which 'kvlitmus run' counts as steps\n" in out
    assert id or calls < int(total.replace(",", "")), "a composed request takes several steps of the tape"


def test_steps_that_are_not_made_again_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    item = Item(kind="random", config=CONFIGS[0], seed=0, ops=60)
    path, _ = recorded(tmp_path, target, [item])
    lines = lzma.decompress(path.read_bytes()).splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if at > 20 and b'"args":' in line)
    lines[at] = lines[at].replace(b'"args":[', b'"args":[12345,')
    path.write_bytes(b"".join(lines))
    assert main(["check", path.name, "--json"]) == 4
    data = json.loads(capsys.readouterr().out)
    assert fits(data, "report") == [] and not data["findings"]
    told = data["record"]
    assert 10 < told["judged"] < told["total"] and [one["item"] for one in told["ended"]] == [item.id]
    assert told["ended"][0]["line"] == at + 1
    assert main(["check", path.name, "--color", "never"]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert f"{path.name}:{at + 1}, {item.id}: " in out and "the tape doesn't fit: step" in out
    assert data["totals"]["steps"] > 5 and f"calls: {data['totals']['steps']} judged" in out


def test_a_broken_rule_of_a_record_is_told_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mutant = all_mutants()["added-is-told-twice"]
    path, results = recorded(tmp_path, mutant.target, about(mutant.kills, mutant.configs[0].tiered))
    lines = [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
    assert main(["check", path.name, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert fits(data, "report") == []
    assert data["totals"]["items"] == len(results) and data["totals"]["steps"] < data["record"]["total"]
    verdicts = {one["id"]: one["verdict"] for one in rows(data)}
    assert verdicts[next(iter(mutant.kills))] == "violated" and verdicts["POOL-01"] == "passed"
    assert len(data["findings"]) == len(data["record"]["findings"]) > 0
    for finding, place in zip(data["findings"], data["record"]["findings"], strict=True):
        assert len(place["lines"]) == len(finding["calls"]) and place["lines"] == sorted(place["lines"])
        line = lines[place["line"] - 1]
        assert finding["call"].startswith((line["call"], "tick")) and place["lines"][-1] <= place["line"]
    assert main(["check", path.name, "--color", "never"]) == 1
    out = capsys.readouterr().out
    for finding, place in zip(data["findings"], data["record"]["findings"], strict=True):
        assert f"found in   {path.name}:{place['line']}, {finding['item']}" in " ".join(out.split()).replace(
            "found in ", "found in   "
        )
        assert f"▶ line {place['lines'][-1]}: " in out
