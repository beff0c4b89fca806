"""Tapes that name no item, as an engine writes them: their calls are made on the second cache."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kvlitmus.conformance.adapters.reference.components import ReferenceComponentTarget
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.checker.harness_store import StorageDownError
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.generate.schedule import GENERATION, Op, draw, table
from kvlitmus.conformance.history.compare.compared import FREEDOM, LAW, UNJUDGED, Compared, compared
from kvlitmus.conformance.history.compare.driven import OnLoan
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS, HOST_CONFIGS, TIER_CONFIGS
from kvlitmus.conformance.run.results import Item
from kvlitmus.conformance.specimen.cache import component_target as components
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.lines import TapeReader, encoded
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.played import records
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.words.units import Key
from tests.conformance.support.command_line import Capture
from tests.conformance.support.side_by_side import MUTED, OPTIONS, drawn, recorded
from tests.support.pages import DOCS

TAPES = Path(__file__).parents[1] / "data" / "tapes"

FLAT = Config(page_size=4)
PORTS = frozenset({"pool", "group", "tree", "lookup", "locks", "evict", "counters", "inspect", "requests", "extend"})
OF_HOSTS = PORTS | {"host", "tiers"}
OF_COMPONENTS = frozenset({"components", "component_lookup", "component_counters", "component_sizes", "component_view"})

Write = Callable[..., str]


def played(config: Config, seed: int = 0, ops: int = 60) -> Item:
    """A schedule of calls for which the suite lends nothing."""
    ports = OF_COMPONENTS if config.components else OF_HOSTS if config.host_pages else PORTS
    schedule = draw(seed, ops, table(ports, GENERATION), generation=GENERATION)
    return Item(kind="schedule", config=config, name=f"seed={seed}", schedule=tuple(schedule))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes what a target did in an item, as if nobody had asked for that item."""

    def write(target: Any, *items: Item) -> str:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.jsonl"
        with path.open("wb") as file:
            for item in items:
                (header, steps), *_ = recorded(target, item)[0].plays
                said = {name: told for name, told in header.data.items() if name != "item"}
                file.writelines(map(encoded, [said, *(one.data for one in steps)]))
        return str(path)

    return write


def driven(file: str, target: Any) -> Compared:
    """The calls of a tape on this cache."""
    with TapeReader(file) as reader:
        a = next(records(reader, others=True))
    item = Item(kind="tape", config=a.item.config, name=file)
    recording = recorder.Recording(target)
    result = engine.run_item(recording, item, MUTED)
    assert not result.error and not result.findings
    with TapeReader("record", data=recording.record(item)) as reader:
        b = next(records(reader, others=True))
    return compared(a, b, OPTIONS, cut=result.unsupported)


NIGHTLY = [pytest.param(one, marks=pytest.mark.nightly) for one in (Config(), HOST_CONFIGS[1], *COMPONENT_CONFIGS[:4])]


@pytest.mark.parametrize("config", [FLAT, HOST_CONFIGS[0], *NIGHTLY], ids=lambda one: one.label)
def test_a_cache_that_is_driven_by_its_own_tape_is_itself(config: Config, write: Write) -> None:
    outcome = driven(write(specimen, played(config)), specimen)
    assert (outcome.parting, outcome.apart) == (None, "")
    assert outcome.steps == outcome.of > 30


RANKS = Config(page_size=1, pages=8, pool="ranks")


def of_ranks(seed: int, ops: int = 60) -> Item:
    """A schedule of calls on ranks."""
    ports = frozenset({"ranks", "ranks_view", "rank_states"})
    schedule = draw(seed, ops, table(ports, GENERATION), generation=GENERATION)
    return Item(kind="schedule", config=RANKS, name=f"seed={seed}", schedule=tuple(schedule))


def test_ranks_are_driven_by_their_own_tape(write: Write) -> None:
    """They are asked together: each goes on with what comes out of what all have entered."""
    for seed in range(3):
        outcome = driven(write(specimen, of_ranks(seed)), specimen)
        assert (outcome.kind, outcome.apart, outcome.parting) == ("", "", None)
        assert outcome.steps == outcome.of > 20


@pytest.mark.parametrize(
    ("id", "rule"), [("rank-acks-what-one-has-ended", "RANKS-10"), ("rank-evicts-in-an-order-of-its-own", "RANKS-02")]
)
def test_ranks_that_decide_otherwise_part_from_the_tape(id: str, rule: str, write: Write) -> None:
    """How they agree is their own affair, what they decide is not."""
    bad = all_mutants()[id].target
    outcome = next(one for seed in range(20) if (one := driven(write(specimen, of_ranks(seed)), bad)).parting)
    assert outcome.kind == LAW and outcome.breach is not None and rule in outcome.breach.rules


def test_where_all_ranks_begin_anew_the_two_are_together_again(write: Write) -> None:
    bad, tape = all_mutants()["rank-acks-what-one-has-ended"].target, Path(write(specimen, of_ranks(4)))
    header, *steps = tape.read_bytes().splitlines(keepends=True)
    tape.write_bytes(b"".join([header, *steps, *steps]))
    outcome = driven(str(tape), bad)
    assert [one.kind for one in (outcome, *outcome.later)] == [LAW, LAW]
    assert outcome.later[0].parting is not None and outcome.later[0].parting.since > len(steps)


def test_another_cache_is_asked_for_its_own_places(write: Write) -> None:
    file = write(specimen, played(FLAT))
    outcome = driven(file, reference)
    assert outcome.kind in ("", FREEDOM) and outcome.steps == outcome.of > 30


def test_a_handle_that_is_none_means_the_step_that_gave_it(write: Write) -> None:
    """The specimen finds nothing where the reference has a handle for that; each is asked by its own."""
    outcome = driven(write(components, drawn(COMPONENT_CONFIGS[0])), ReferenceComponentTarget(components.profile))
    assert outcome.parting is not None and outcome.parting.call.startswith("component_insert")
    assert "raised" not in outcome.parting.b


@pytest.mark.parametrize("id", ["page-number-as-slot", "evicted-but-still-indexed"])
def test_a_planted_fault_parts_from_the_tape_and_is_explained(id: str, write: Write) -> None:
    outcome = driven(write(specimen, played(FLAT, 0, 100)), all_mutants()[id].target)
    assert outcome.parting is not None and outcome.breach is not None
    assert (outcome.kind, outcome.breach.side) == (LAW, "B")
    assert outcome.breach.step == outcome.parting.step < outcome.of and outcome.apart


def test_after_a_parting_a_reset_brings_the_two_together(write: Write) -> None:
    once = played(FLAT, 0, 100)
    twice = replace(once, schedule=(*once.schedule, Op("reset", 0, 0, 0), *once.schedule))
    outcome = driven(write(specimen, twice), all_mutants()["evicted-but-still-indexed"].target)
    assert outcome.parting is not None and outcome.later
    first, later = outcome.parting, outcome.later[0].parting
    assert later is not None and first.step < first.until == later.since < later.step
    assert (first.until_b, later.since_b) == (first.step_b + 1, first.until_b)
    assert (later.what, outcome.later[0].why) == (first.what, outcome.why)


def lending(config: Config, seed: int) -> Item:
    """A schedule of all calls, those for which the suite lends something included, but for arrays of the caller's."""
    ports = frozenset(port for port in capabilities_of(specimen.make(config)) if not port.startswith("raw"))
    schedule = draw(seed, 100, table(ports, GENERATION), generation=GENERATION)
    return Item(kind="schedule", config=config, name=f"seed={seed}", schedule=tuple(schedule))


def done_with(file: str) -> Counter[str]:
    """What was done with what the suite had lent, how often."""
    return Counter(did[0] for line in Path(file).read_bytes().splitlines() for did in json.loads(line).get("did", ()))


STORED = next(one for one in TIER_CONFIGS if one.storage == "attached")


def test_what_was_lent_answers_as_it_did_on_the_tape(write: Write) -> None:
    """Storage, which raises and refuses on demand, and the host's memory of a plan."""
    file = write(specimen, lending(STORED, 2))
    assert done_with(file).keys() >= {"exists", "get", "put", "available", "alloc"}
    outcome = driven(file, specimen)
    assert (outcome.parting, outcome.apart) == (None, "") and outcome.steps == outcome.of > 100


@pytest.mark.parametrize(
    ("id", "config", "seed"), [("put-leaves-out-the-last-page", STORED, 2), ("prefetch-evicts-full-length", FLAT, 3)]
)
def test_a_fault_with_what_was_lent_parts_from_the_tape(id: str, config: Config, seed: int, write: Write) -> None:
    outcome = driven(write(specimen, lending(config, seed)), all_mutants()[id].target)
    assert outcome.parting is not None and outcome.parting.what in ("did", "answer")
    assert outcome.parting.step < outcome.of and outcome.parting.a != outcome.parting.b


def test_to_a_question_that_nobody_asked_on_the_tape_there_is_nothing() -> None:
    store = OnLoan(Operands())
    store.told([["exists", [["a"]], 1], ["get", ["a"], {"raised": "StorageDownError: down"}]])
    assert store.exists(["b"]) == 1 and store.exists(["b"]) == 0, "each answer once; which page it is has another name"
    with pytest.raises(StorageDownError, match="down"):
        store.get("b")
    assert (store.get("b"), store.put("b", (1,)), store.alloc(4), store.available()) == (None, False, None, 0)
    did = [cast("list[Json]", one)[:2] for one in store.did]
    assert did[:3] == [["exists", [["b"]]], ["exists", [["b"]]], ["get", ["b"]]]
    with pytest.raises(AttributeError):
        store.lose("b")


def test_what_a_tape_does_not_tell_ends_it_and_is_said(write: Write) -> None:
    item = Item(kind="random", config=HOST_CONFIGS[0], seed=0, ops=100)
    outcome = driven(write(specimen, item), specimen)
    assert outcome.parting is None and 0 < outcome.steps < outcome.of
    assert "raw_array" in outcome.apart and "such a call can't be made from a tape" in outcome.apart


def test_a_plan_whose_host_is_told_otherwise_ends_it_and_is_said(write: Write, tmp_path: Path) -> None:
    text = Path(write(specimen, lending(FLAT, 3))).read_text()
    (tmp_path / "told.jsonl").write_text(text.replace('{"lent":"plan_prefetch"}', "8"))
    outcome = driven(str(tmp_path / "told.jsonl"), specimen)
    assert "plan_prefetch" in outcome.apart and "what was lent to it is not on the tape" in outcome.apart


def test_what_was_never_given_is_said(write: Write, tmp_path: Path) -> None:
    lines = Path(write(specimen, played(FLAT))).read_bytes().splitlines(keepends=True)
    taken = next(at for at, line in enumerate(lines) if b'"alloc"' in line)
    (tmp_path / "less.jsonl").write_bytes(b"".join(lines[:taken] + lines[taken + 1 :]))
    outcome = driven(str(tmp_path / "less.jsonl"), specimen)
    assert "that a step before gave both" in outcome.apart and outcome.steps < outcome.of


def test_two_tapes_without_items_are_compared_play_by_play(write: Write, tmp_path: Path, capsys: Capture) -> None:
    items = [played(FLAT, seed, 100) for seed in (0, 3)]
    a, same = write(specimen, *items), write(specimen, *items)
    assert main(["compare", a, same, "--color", "never"]) == 0
    told = capsys.readouterr().out
    assert "compared: 2 of 2 items in 2 plays" in told and "alike to their end in 2 of 2 items" in told
    b = write(all_mutants()["page-number-as-slot"].target, *items)
    assert main(["compare", a, b, "--color", "never"]) == 1
    assert f"{LAW}: B breaks POOL-02" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_target_is_driven_by_a_tape_in_its_worker(write: Write, capsys: Capture) -> None:
    file = write(specimen, played(FLAT), played(HOST_CONFIGS[0]))
    assert main(["compare", file, "specimen", "--jobs", "1", "--color", "never"]) == 0
    assert "alike to their end in 2 of 2 items" in capsys.readouterr().out
    assert main(["compare", "specimen", "specimen", "--tape", file, "--jobs", "1", "--color", "never"]) == 0
    assert "alike to their end in 2 of 2 items" in capsys.readouterr().out


def test_the_two_cores_of_a_release_part_where_rust_has_no_such_text_or_number(tmp_path: Path, capsys: Capture) -> None:
    """Recorded from SGLang 0.5.23: ``kvlitmus compare …/sglang-0.5.23-core-python.jsonl sglang-0.5.23-rust``."""
    names = [str(TAPES / f"sglang-0.5.23-core-{core}.jsonl") for core in ("python", "rust")]
    assert main(["compare", *names, "--color", "never", "--json", str(tmp_path / "out.json")]) == 1
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["items"], found["alike"], found["failed"], found["not_compared"]) == (3, 1, {}, {})
    law, unjudged = found["partings"]
    assert law["item"].startswith("tape:play-1.jsonl") and unjudged["item"].startswith("tape:play-3.jsonl")
    assert (law["kind"], law["breach"]["side"], law["breach"]["rules"]) == (LAW, "B", ["PORT-01"])
    assert "UnicodeEncodeError" in law["parting"]["b"]
    assert unjudged["kind"] == UNJUDGED and "at most 62 bits" in unjudged["why"]
    assert "OverflowError" in unjudged["parting"]["b"]


def logged(cache: Any, path: Path) -> str:
    """A little engine over a cache, with the logger that engines copy."""
    logger = runpy.run_path(str(DOCS / "examples" / "trace_logger.py"))["TraceLogger"]
    header = {"config": {"page_size": 4, "pages": 16}, "ports": ["pool", "tree", "locks", "evict", "inspect"]}
    engine = logger(cache, str(path), header, looks=("available", "view"))
    for turn in range(24):
        key = Key(None, (*range(8), *([turn % 7] * 4 * (turn % 3 + 1))))
        hit = engine.match(key)
        receipt = engine.lock(hit.handle)
        missing = len(key.tokens) - hit.length
        slots = engine.alloc(missing) if missing else []
        if slots is None:
            engine.evict(missing)
            slots = engine.alloc(missing)
        if slots:
            stored = engine.insert(key, [*hit.slots, *slots], protected=hit.length)
            if stored.to_free:
                engine.free(stored.to_free)
        engine.unlock(receipt)
    vars(engine)["_file"].close()
    return str(path)


def test_what_an_engine_has_logged_is_compared(tmp_path: Path) -> None:
    file = logged(specimen.make(Config(page_size=4, pages=16)), tmp_path / "engine.jsonl")
    for cache in (specimen, reference):
        outcome = driven(file, cache)
        assert (outcome.parting, outcome.apart) == (None, "") and outcome.steps == outcome.of > 60
    outcome = driven(file, all_mutants()["evicted-but-still-indexed"].target)
    assert outcome.breach is not None and (outcome.kind, outcome.breach.side) == (LAW, "B")
