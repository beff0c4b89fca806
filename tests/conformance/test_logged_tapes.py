"""Tapes by the loggers that engines copy: of released engines (tools/released.py), and of the suite's own cache."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.history import again
from kvlitmus.conformance.ports import PORTS, Config, capabilities_in
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options, to_json
from kvlitmus.conformance.specimen.cache import target
from tests.support.pages import DOCS

ROOT = Path(__file__).resolve().parents[2]
TAPES = {
    "sglang-0.5.23-hicache": set[str](),
    "sglang-0.5.23-hicache-retried": {"FETCH-07"},  # sglang#36227, as published
    "vllm-0.33.0-states": set[str](),
}
"""What is broken in each tape, as judged without the engine."""

Line = dict[str, Any]


def path_of(name: str) -> Path:
    """The file of a tape."""
    return ROOT / "tests" / "data" / "tapes" / f"{name}.tape.gz"


def lines_of(name: str) -> list[Line]:
    """The lines of a tape."""
    return [json.loads(one) for one in gzip.decompress(path_of(name).read_bytes()).splitlines()]


def written(folder: Path, lines: Iterable[Line]) -> Path:
    """A tape of these lines."""
    path = folder / "changed.tape"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", TAPES)
def test_a_tape_of_a_released_engine_is_judged_without_it(name: str) -> None:
    outcome = again.judge(path_of(name))
    assert outcome.broken.keys() == TAPES[name] and outcome.ended == {}
    assert outcome.steps > 200 and outcome.evaluated.total() > 3_000
    if name.startswith("sglang"):
        packs = {id.partition("-")[0] for id, times in outcome.evaluated.items() if times}
        assert packs >= {"POOL", "TREE", "LOCK", "TIER", "BACKUP", "LOAD", "FETCH", "LIFE"}


def taken_twice(line: Line, before: list[Line]) -> bool:
    """An allocation hands out what the one before has handed out."""
    given = [one for one in before if one.get("call") == "alloc" and one["answer"]]
    if line.get("call") != "alloc" or not given or len(line["answer"] or ()) != len(given[-1]["answer"]):
        return False
    line["answer"] = given[-1]["answer"]
    return True


def matched_less(line: Line, before: list[Line]) -> bool:
    """A match finds a page less than is there."""
    if line.get("call") != "match" or line["answer"]["length"] < 8:
        return False
    line["answer"] |= {"length": line["answer"]["length"] - 4, "slots": line["answer"]["slots"][:-4]}
    return True


def backed_up_elsewhere(line: Line, before: list[Line]) -> bool:
    """The host has two pages in one place."""
    tiers = line.get("looks", {}).get("tiers", {})
    hosted = [one for one in tiers.get("nodes", ()) if one.get("host")]
    if line.get("call") != "tick" or len(hosted) < 2 or len(hosted[0]["host"]) != len(hosted[1]["host"]):
        return False
    hosted[1]["host"] = hosted[0]["host"]
    return True


def counted_wrong(line: Line, before: list[Line]) -> bool:
    """The host says that more is free than is."""
    if line.get("call") != "tick" or len(before) < 99 or "host_available" not in line["looks"]:
        return False
    line["looks"]["host_available"] = 95
    return True


def begun_too_far(line: Line, before: list[Line]) -> bool:
    """A request begins behind a hit that isn't there."""
    if line.get("call") != "component_start" or not line["answer"]:
        return False
    line["answer"][1] += 4
    return True


def cached_twice(line: Line, before: list[Line]) -> bool:
    """Two entries have one place."""
    entries = line.get("looks", {}).get("component_entries", [])
    if len(entries) < 2 or not isinstance(entries, list):
        return False
    entries[1][3] = entries[0][3]
    return True


PLANTED: dict[Callable[[Line, list[Line]], bool], tuple[str, str]] = {
    taken_twice: ("sglang-0.5.23-hicache", "POOL-"),
    matched_less: ("sglang-0.5.23-hicache", "REQ-"),
    backed_up_elsewhere: ("sglang-0.5.23-hicache", "TIER-|FRAME-"),
    counted_wrong: ("sglang-0.5.23-hicache", "TIER-"),
    begun_too_far: ("vllm-0.33.0-states", "TREE-"),
    cached_twice: ("vllm-0.33.0-states", "CREQ-|COMP-"),
}
"""A fault, the tape in which it is planted, and the rules that tell it."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda one: one.__name__)
def test_a_fault_that_is_planted_in_a_tape_is_found(plant: Callable[[Line, list[Line]], bool], tmp_path: Path) -> None:
    name, rules = PLANTED[plant]
    lines = lines_of(name)
    assert any(plant(line, lines[:at]) for at, line in enumerate(lines)), "nowhere to plant it"
    broken = again.judge(written(tmp_path, lines)).broken
    assert any(re.match(rules, id) for id in broken), broken


# -- the loggers themselves --------------------------------------------------------------------

LOGGERS = ("tree_logger", "table_logger")


@pytest.mark.parametrize("name", LOGGERS)
def test_a_logger_is_short_and_needs_the_standard_library_alone(name: str) -> None:
    lines = [one for one in (DOCS / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines() if one.strip()]
    imported = {line.split()[1].partition(".")[0] for line in lines if re.match(r"(?:import|from) ", line)}
    assert imported <= sys.stdlib_module_names
    assert len(lines) <= 100


class Logged:
    """A target whose caches are logged, with the ports that an engine has and the looks that there are of these."""

    plays_once = True

    def __init__(self, logger: Any, folder: Path, item: Item, without: set[str], looks: tuple[str, ...]) -> None:
        self.logger, self.folder, self.item, self.without, self.looks = logger, folder, item, without, looks
        self.profile = target.profile
        self.made: list[Path] = []
        self.logs: list[Any] = []

    def make(self, config: Config) -> Any:
        """A fresh cache, on a tape of its own."""
        cache = target.make(config)
        ports = sorted((capabilities_in(cache, config) & PORTS.keys()) - self.without)
        self.made.append(self.folder / f"{len(self.made)}.tape")
        header = {
            "config": to_json(config),
            "profile": to_json(describe(self.profile)),
            "ports": ports,
            "item": {
                "kind": "random",
                "seed": self.item.seed,
                "ops": self.item.ops,
                "generation": self.item.generation,
            },
        }
        methods = {name: getattr(cache, name) for port in ports for name in PORTS[port]}
        self.logs.append(self.logger(SimpleNamespace(**methods), str(self.made[-1]), header, self.looks))
        return self.logs[-1]


FAULTS = {"data", "clock", "faults", "copy_faults", "memory_faults", "layers", "quota", "events", "raw", "hashes"}


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_with_tiers_is_logged_so_that_all_of_it_is_judged(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "examples"))
    from tree_logger import TreeLogger  # type: ignore[import-not-found]

    config = Config(page_size=4, pages=16, host_pages=24, storage="attached", threshold=8, rate_limit=64)
    item = Item(kind="random", config=config, seed=seed, ops=80)
    looks = ("available", "sizes", "host_available", "tiers", "jobs", "occupied")
    logged = Logged(TreeLogger, tmp_path, item, FAULTS, looks)
    result = engine.run_item(logged, item, Options(shrink_trials=0))
    for one in logged.logs:
        one.file.close()
    assert result.findings == [] and not result.error
    outcome = again.judge(max(logged.made, key=lambda one: one.stat().st_size))
    assert outcome.ended == {} == outcome.broken and outcome.steps == result.steps
    assert outcome.evaluated == result.evaluated


@pytest.mark.nightly
@pytest.mark.parametrize("name", TAPES)
def test_released_engines_are_logged_the_same_again(name: str, tmp_path: Path) -> None:
    peer = "-".join(name.split("-")[:2])
    if not (ROOT / ".peers" / peer / "bin" / "python").exists():
        pytest.skip(f"run tools/peers {peer} first")
    command = [sys.executable, str(ROOT / "tools" / "released.py"), "tapes", "--into", str(tmp_path), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert gzip.decompress((tmp_path / path_of(name).name).read_bytes()) == gzip.decompress(path_of(name).read_bytes())
