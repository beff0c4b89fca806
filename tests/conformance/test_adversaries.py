"""Adversaries: made from the ledger, and named by the rules of their cell."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.mutants.adversaries import made, score
from kvlitmus.mutants.adversaries.acts import less, more, refusing
from kvlitmus.mutants.adversaries.made import BESIDE, LATE, REFUSES, adversaries, answers_nothing, of_line, played
from kvlitmus.mutants.adversaries.meddler import Asked, Undone, plain, says_nothing
from kvlitmus.mutants.adversaries.score import BAD, Fate, Outcome, play, table
from kvlitmus.spec.interface.ranks import Ask
from kvlitmus.spec.ledger.cells import Column, Family, Refusal, by
from kvlitmus.spec.ledger.read import LEDGER, saying
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.units import Key

HANDFUL = (
    "flat caches: alloc: refuses one in three by key",
    "flat caches: free: a call late",
    "flat caches: evict: a unit more",
    "hierarchies: load_back: a unit less",
    "sparse host pools: sparse_grow: refuses one in three by key",
    "caches of components: component_alloc: refuses one in three by key",
    "requests on components: component_start: refuses one in three by key",
    "ranks: ranks_ask: insert: victims in reverse, on one rank",
    "page stores: store_put: refuses one in three by key",
    "plans and names: plan_prefetch: refuses one in three by key",
)


@pytest.mark.parametrize("id", HANDFUL)
def test_an_adversary_of_each_family_is_named_by_a_rule_of_its_cell(id: str) -> None:
    one = adversaries()[id]

    found = play(one, 3, schedules=3)

    assert (found.fate, found.made > 0) == (Fate.NAMED, True), found
    assert found.by in saying(one.line.cells[one.column], all_rules(), 3)


def test_each_row_that_is_played_has_one_for_each_question_that_can_be_got_wrong() -> None:
    ids = adversaries()
    for line in filter(played, LEDGER):
        mine = [one for one in ids.values() if one.line == line]
        assert line.refusal is Refusal.NEVER or any(one.how.startswith(REFUSES) for one in mine), line.name
        assert (
            line.family is Family.PURE
            or any(one.how.startswith(BESIDE) for one in mine)
            or line.cells[Column.STAYS].without
        ), line.name
    assert {one.line.family for one in ids.values()} == set(Family)
    assert [one for one in LEDGER if played(one) and one.look] == []


def test_an_adversary_that_another_rule_notices_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    one = adversaries()["flat caches: evict: a unit more"]
    cells = {**one.line.cells, Column.MOST: by("TREE-05")}

    found = play(one._replace(line=one.line._replace(cells=cells)), 3, schedules=2)

    assert found.fate is Fate.NOTICED
    assert "EVICT-06" in found.broken


def test_a_silent_one_is_left_unless_its_cell_says_why() -> None:
    one = adversaries()["flat caches: evict: a unit more"]

    def of(cell: str, free: str = "", gap: str = "", made: int = 10) -> Fate:
        cells = {**one.line.cells, Column.MOST: by(cell, free=free, gap=gap)}
        return score.fate_of(one._replace(line=one.line._replace(cells=cells)), (), made)

    assert of("TREE-05") is Fate.LEFT
    assert of("TREE-05", made=9) is Fate.UNMADE
    assert of("TREE-05", gap="nobody says") is Fate.GAP
    assert of("", free="which page") is Fate.OWN
    assert of("TREE-05", free="which page") is Fate.LEFT  # the rule says what it leaves free
    assert of("TREE-05", free="own filter") is Fate.LEFT  # which the specimen doesn't declare


def test_calls_are_chosen_by_what_tells_them_apart() -> None:
    assert plain(Key(None, (1, 2))) == [None, [1, 2], False]
    assert says_nothing(plain((object(), "key"))) and not says_nothing(plain((object(), 3)))
    assert answers_nothing("unlock") and not answers_nothing("evict")


def test_what_cannot_be_done_is_not_done() -> None:
    line = next(one for one in LEDGER if one.name == "ranks_ask: evict")
    asked = Asked(None, Config(), (0, Ask("insert", ())), {}, lambda *_: None, [0])
    shorter = less(next(one for one in LEDGER if one.name == "ranks_ask: insert"))
    assert shorter is not None
    with pytest.raises(Undone):
        shorter(asked)
    assert asked.made == [0]
    assert refusing(line) is None and less(line) is not None and more(line) is not None
    assert not [one for one in of_line(line) if one.how.startswith(LATE)]


def test_the_command_prints_the_score_and_fails_for_one_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["mutants", "--adversaries", "free_group_end", "--depth", "3", "--json", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert [one["fate"] for one in json.loads(out)["outcomes"]] == ["named"]
    assert "flat caches" in err

    lost = Outcome(id="x", family=Family.FLAT, depth=3, fate=Fate.LEFT, made=10)
    monkeypatch.setattr(score, "play", lambda *_args, **_kwargs: lost)
    assert main(["mutants", "--adversaries", "free_group_end", "--jobs", "1"]) == 1
    assert "left         x (depth 3, made 10 times in 0 steps)" in capsys.readouterr().out
    assert main(["mutants", "--adversaries", "free_gruop_end"]) == 2
    assert "free_group_end" in capsys.readouterr().err


def test_the_table_counts_by_family_and_depth() -> None:
    outcomes = [Outcome(id="x", family=Family.FLAT, depth=depth, fate=Fate.NAMED) for depth in (3, 3, 0)]

    lines = list(table(outcomes))

    assert [line.split()[:4] for line in lines[1:]] == [["3", "flat", "caches", "2"], ["0", "flat", "caches", "1"]]


@pytest.mark.nightly
def test_at_depth_three_nothing_else_is_left() -> None:
    outcomes = [play(one, 3) for one in adversaries().values() if not one.how.startswith(BESIDE)]

    assert [one for one in outcomes if one.fate in BAD] == []
    assert Counter(one.fate for one in outcomes)[Fate.NAMED] > 100
    assert made.CONFIGS.keys() == set(Family)
