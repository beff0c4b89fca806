"""Tapes that don't tell all: no cache is accused of what isn't there, and what is there is still seen."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference import target as reference
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.specimen import cache as specimen
from kvlitmus.conformance.tape.changes import SEVERAL, Looks
from kvlitmus.conformance.tape.operands import GIVES, at
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.zoo import target_of
from tests.conformance.support.recorder import check
from tests.conformance.test_check_engines import played
from tests.conformance.test_logged_tapes import PLANTED, Line, cached_twice, lines_of, written
from tests.support.night import by_turns

CONFIGS = {
    "flat": Config(page_size=4),
    "tiers": TIER_CONFIGS[0],
    "write back": TIER_CONFIGS[3],
    "through": Config(page_size=4, pages=20, host_pages=16),
    "back": Config(page_size=4, pages=20, host_pages=16, write="write_back"),
    "components": Config(page_size=4, pages=16, components="kv+swa+state"),
    "groups": Config(page_size=4, pages=20, components="groups", host_pages=24),
    "blocks": Config(page_size=4, pages=24, components="blocks+state"),
    "ranks": Config(page_size=1, pages=8, pool="ranks"),
}

CACHES = [
    *[("specimen", config) for config in ("flat", "tiers", "write back", "components", "groups", "blocks", "ranks")],
    *[("reference", config) for config in ("flat", "tiers", "write back")],
    *[(name, "flat") for name in ("both_ends", "dedup", "node_ends", "block_table")],
    *[("eager_host", "through"), ("spill", "back")],
    *[(name, "groups") for name in ("block_groups", "block_offload", "block_requests")],
]
"""Legal caches, and what they are tried as."""


@cache
def whole(name: str, config: str) -> list[Line]:
    """A legal play, in which every look is told in full and every name is a text."""
    own = {"specimen": specimen.target, "reference": reference.target}
    result, plays = played(own[name] if name in own else target_of(name), CONFIGS[config], ops=60)
    assert result.findings == []
    return in_full(plays[0])


def in_full(play: list[Line]) -> list[Line]:
    """A play of which any line can be left out."""
    looks, number = Looks(), 0
    names: dict[str, str] = {}
    found = [play[0]]
    for line in play[1:]:
        number += "call" in line
        seen = looks.read(line.get("looks", {}))
        note_names(line, number, names)
        told = {key: one[0] if len(one) == 1 else {SEVERAL: one} for key, one in seen.items()}
        if "raised" not in line and not strange(line.get("args")):
            found.append(named({**line, "looks": told} if seen else line, names))
            found[-1].update({"answer": named(line["answer"], names)} if "answer" in line else {})
    return found


def strange(told: Any) -> bool:
    """Whether there are tokens that no cache need take: no engine asks for them."""
    if isinstance(told, dict):
        return any(type(one) is int and one < 0 for one in told.get("tokens", ()))
    return isinstance(told, list) and any(map(strange, told))


def note_names(line: Line, number: int, names: dict[str, str]) -> None:
    """What a step gives has a text; what is equal to something that was given before has the same one."""
    method = line.get("call", "")
    if method in GIVES:
        where = GIVES[method]
        own = json.dumps(number if where is None else [number, where])
        given = at(line.get("answer"), where, written=True)
        names[own] = named(given, names) if given != {"@": json.loads(own)} else f"given by {number}"


def named(told: Any, names: dict[str, str]) -> Any:
    """The same with texts in the place of what steps gave: their numbers mean nothing when lines are gone."""
    if isinstance(told, list):
        return [named(one, names) for one in told]
    if isinstance(told, dict) and "@" in told:
        return names[json.dumps(told["@"])]
    return {key: named(one, names) for key, one in told.items()} if isinstance(told, dict) else told


def cut(play: list[Line], chance: random.Random) -> list[Line]:
    """A play that begins in the middle, and may end before its end."""
    at = chance.randrange(1, len(play) - 1)
    first = [{"looks": play[at].get("looks", {})}] * bool(play[at].get("looks") and chance.random() < 0.7)
    end = chance.choice([len(play), chance.randrange(at + 1, len(play) + 1)])
    return [{**play[0], "begins": "middle"}, *first, *play[at + 1 : end]]


def blinking(play: list[Line], chance: random.Random) -> list[Line]:
    """A play of which some looks are left out."""
    part = chance.choice([0.05, 0.3, 0.8])
    keys = sorted({key for line in play for key in line.get("looks", ())})
    never = {key for key in keys if chance.random() < 0.1}

    def seen(line: Line) -> Line:
        looks = {key: one for key, one in line.get("looks", {}).items() if key not in never and chance.random() >= part}
        return {key: one for key, one in {**line, "looks": looks}.items() if key != "looks" or one}

    return [play[0], *[line for line in map(seen, play[1:]) if line]]


def deaf(play: list[Line], chance: random.Random) -> list[Line]:
    """A play that lacks all calls of one kind, or of two."""
    calls = sorted({line["call"] for line in play if "call" in line})
    lacking = chance.sample(calls, min(len(calls), chance.choice([1, 2])))
    return [{**play[0], "without": lacking}, *[line for line in play[1:] if line.get("call") not in lacking]]


WAYS = (cut, blinking, deaf, lambda play, chance: deaf(blinking(cut(play, chance), chance), chance))


def judged(play: list[Line], folder: Path) -> TraceChecker:
    """What is said of a play, all of it."""
    return check(written(folder, play), keep_going=True)


def silent(name: str, config: str, seeds: range, folder: Path) -> int:
    """Nothing is said of what is left of a legal play; how often rules were evaluated."""
    play, evaluated = whole(name, config), 0
    for seed in seeds:
        for way in WAYS:
            part = way(play, random.Random(seed))
            found = judged(part, folder)
            outcome = found.outcome
            said = [(one.finding.rules, one.line, one.finding.detail) for one in outcome.findings]
            assert (said, outcome.misuse, outcome.error) == ([], [], ""), (seed, WAYS.index(way))
            assert outcome.judged <= outcome.total
            evaluated += found.checker.counted().total()
    return evaluated


@pytest.mark.parametrize(("name", "config"), by_turns(CACHES))
def test_nobody_is_accused_of_what_is_not_on_the_tape(name: str, config: str, tmp_path: Path) -> None:
    assert silent(name, config, range(1), tmp_path) > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "config"), CACHES)
def test_nobody_is_accused_however_much_is_missing(name: str, config: str, tmp_path: Path) -> None:
    assert silent(name, config, range(1, 60), tmp_path) > 0


# -- what is there is still seen ---------------------------------------------------------------

FOUND = {plant: rules for plant, rules in PLANTED.items() if plant is not cached_twice}
"""Faults that show in one call and the looks around it; that a place is cached twice may be the caller's doing."""


@pytest.mark.parametrize("begins", ["fresh", "middle"])
@pytest.mark.parametrize("plant", by_turns(FOUND), ids=lambda one: one.__name__)
def test_a_fault_in_a_part_of_a_released_engines_tape_is_found(
    plant: Callable[[Line, list[Line]], bool], begins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = in_full(lines_of(FOUND[plant][0]))
    del play[0]["item"]
    at = len(play) // 4
    if begins == "middle":
        play = [{**play[0], "begins": begins}, {"looks": play[at]["looks"]}, *play[at + 1 :]]
    else:
        del play[at]["looks"]
    legal = judged(play, tmp_path).outcome
    assert legal.findings == [] == legal.misuse and legal.judged > len(play) / 3 and legal.partly > 0
    start = 2 if begins == "middle" else at + 1
    assert any(plant(line, play[:number]) for number, line in enumerate(play) if number >= start), "nowhere to plant it"
    assert main(["check", str(written(tmp_path, play))]) == 1
    assert "exit 1: a rule is violated" in capsys.readouterr().out


OF_POOLS = {
    "component-hit-of-the-main-pool": "TREE-02",
    "component-pool-refuses-its-last": "POOL-07",
    "component-refusal-keeps-a-part": "POOL-08",
}
"""Faults of components that one call and the looks around it show, and the rule of plain caches that says so."""


@pytest.mark.parametrize("id", OF_POOLS)
def test_a_fault_in_a_part_of_a_tape_of_components_is_found(id: str, tmp_path: Path) -> None:
    """Pool by pool, as in a plain cache: of what was before the tape begins nothing is known."""
    result, plays = played(all_mutants()[id].target, CONFIGS["components"], ops=60)
    assert result.findings
    play = in_full(plays[0])
    outcome = judged([{**play[0], "begins": "middle"}, *play[1:]], tmp_path).outcome
    assert OF_POOLS[id] in [rule for one in outcome.findings for rule in one.finding.rules]


@pytest.mark.parametrize("config", ["components", "groups", "blocks"])
def test_of_a_part_of_a_legal_tape_of_components_much_is_judged(config: str, tmp_path: Path) -> None:
    """Where several components share a pool, a call on them is one after another on that pool."""
    play = whole("specimen", config)
    found = judged([{**play[0], "begins": "middle"}, *play[1:]], tmp_path)
    assert (found.outcome.findings, found.outcome.error) == ([], "")
    assert found.outcome.judged > found.outcome.total / 2
    assert {"POOL-01", "TREE-02", "FRAME-01", "FRAME-02"} <= {*+found.checker.counted()}


def test_who_begins_backups_that_nobody_saw_is_not_accused_of_them(tmp_path: Path) -> None:
    """Its port stays, though no look tells of it: what they protect and where they go isn't known."""
    play = whole("specimen", "groups")
    unseen = [{**line, "looks": {**line.get("looks", {})}} for line in play[1:]]
    begun = [bool(line["looks"].pop("component_begun", ())) for line in unseen]
    outcome = judged([play[0], *[line for line in unseen if len(line) > 1 or line["looks"]]], tmp_path).outcome
    assert any(begun) and (outcome.findings, outcome.error) == ([], "")
    assert outcome.lacking == "not all looks were made that it takes" and outcome.judged > 0


OF_RANKS = {
    "rank-window-is-its-own": "RANKS-01",
    "rank-evicts-in-an-order-of-its-own": "RANKS-02",
    "rank-packs-in-its-own-order": "RANKS-04",
    "rank-skips-a-poll-it-need-not-make": "RANKS-04",
    "rank-sends-twice": "RANKS-08",
    "rank-keeps-the-window": "POOL-12",
}
"""Faults of ranks that one call and the looks after it show."""


def ranks_that_break(id: str, rule: str) -> list[Line]:
    """A play of such a bug that breaks this rule."""
    for seed in range(40):
        result, plays = played(all_mutants()[id].target, CONFIGS["ranks"], seed, ops=100)
        if any(rule in one.rules for one in result.findings):
            return in_full(plays[0])
    raise AssertionError(f"no schedule shows {id}")


@pytest.mark.parametrize("id", by_turns(OF_RANKS, every=2))
def test_a_fault_of_ranks_is_found_where_nobody_tells_what_happened_to_each(id: str, tmp_path: Path) -> None:
    """Nor is it told how each looked before a call: what they answer and how each looks then is judged all the same."""
    play = ranks_that_break(id, OF_RANKS[id])
    part = [line for line in play[1:] if line.get("call") != "ranks_local"]
    outcome = judged([{**play[0], "without": ["ranks_local"]}, *part], tmp_path).outcome
    assert OF_RANKS[id] in [rule for one in outcome.findings for rule in one.finding.rules]
    assert outcome.judged > outcome.total / 2 and outcome.partly == outcome.judged


def test_ranks_of_which_one_was_never_looked_at_are_judged_by_the_others(tmp_path: Path) -> None:
    """All that is no look is known: who has noted what, and what was read."""
    play = ranks_that_break("rank-acks-what-one-has-ended", "RANKS-10")
    unseen = [
        {**line, "looks": {key: one for key, one in line.get("looks", {}).items() if "(1)" not in key}}
        for line in play[1:]
    ]
    outcome = judged([play[0], *unseen], tmp_path).outcome
    assert "RANKS-10" in [rule for one in outcome.findings for rule in one.finding.rules]
    assert outcome.judged == outcome.total and outcome.partly > 0
    assert re.fullmatch(r"line \d+: nobody looked at ranks_view\(1\) after it", outcome.lacking)


def test_where_all_ranks_begin_anew_all_is_known_again(tmp_path: Path) -> None:
    play = whole("specimen", "ranks")
    outcome = judged([{**play[0], "begins": "middle"}, play[3], *play[1:]], tmp_path).outcome
    before_and_start = 2  # the beginning itself is the last call of which not all is known
    assert (outcome.findings, outcome.judged, outcome.partly) == ([], outcome.total - before_and_start, 0)
    bad = ranks_that_break("rank-acks-what-one-has-ended", "RANKS-10")
    outcome = judged([{**bad[0], "begins": "middle"}, *bad[1:]], tmp_path).outcome
    assert "RANKS-10" in [rule for one in outcome.findings for rule in one.finding.rules]


def test_a_call_that_not_all_ranks_are_told_to_be_asked_says_nothing(tmp_path: Path) -> None:
    play = whole("specimen", "ranks")
    one = [line for line in play[1:] if line.get("call") != "ranks_ask" or line["args"][0] == 0]
    found = judged([{**play[0], "without": ["ranks_ask"]}, *one], tmp_path)
    assert found.outcome.findings == [] == found.outcome.misuse and not found.outcome.error
    assert not [id for id in +found.checker.counted() if id in ("RANKS-01", "RANKS-06")]


def test_after_a_reset_of_a_flat_cache_all_is_known_again(tmp_path: Path) -> None:
    """Whose pages an allocation takes is known only where all calls are; of the reset itself nothing is certain."""
    header = {"kind": "kvlitmus tape", "format": 1, "config": {"page_size": 4, "pages": 8}, "begins": "middle"}
    taken = {"call": "alloc", "args": [4], "answer": [4, 5, 6, 7]}
    reset = {"call": "reset", "answer": None}
    play: list[Line] = [{**header, "ports": ["pool", "reset"]}, taken, taken, reset, taken]
    outcome = judged(play, tmp_path).outcome
    assert (outcome.findings, outcome.partly, outcome.judged, outcome.total) == ([], 2, 3, 4)
    outcome = judged([*play, taken], tmp_path).outcome
    assert [(one.line, one.finding.rules[0]) for one in outcome.findings] == [(6, "POOL-04")]


def test_what_is_lacking_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play = whole("specimen", "flat")
    for header, why in (
        ({"begins": "middle"}, "the tape begins in the middle"),
        ({"without": ["match"]}, "the tape lacks calls of match"),
    ):
        part = [{**play[0], **header}, *[line for line in play[1:] if line.get("call") != "match"]]
        assert main(["check", str(written(tmp_path, part)), "--color", "never"]) == 4
        shown = capsys.readouterr().out
        assert why in shown and " by what is certain, up to line " in shown
        assert "exit 4: what could be judged holds, but the trace doesn't tell all" in shown
    assert main(["check", str(written(tmp_path, [{**play[0], "begins": "late"}, *play[1:]]))]) == 2
    assert "line 1: expected begins to be one of fresh, middle, got 'late'" in capsys.readouterr().err
