"""A target that declares another choice than its cache makes: the choice is found that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.cli.commands import smoke
from kvlitmus.conformance.ports import Profile
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.fitting import NOT_TRIED, Declaring, Fit, fits
from kvlitmus.conformance.run.plan import configs_of
from kvlitmus.conformance.run.results import Item, ItemResult, Options, choice_from_json, item_from_json, to_json
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.zoo import ZOO, target_of

OPTIONS = Options(reruns=0, shrink_trials=0, taped=False)
USUAL = Profile()
LEGAL = {
    **{one.id: (one.target, one.configs, one.profile) for one in all_mutants().values() if one.null},
    **{name: (target_of(name), configs_of(target_of(name)), target_of(name).profile) for name in ZOO},
}
"""Legal caches, each with its configurations and what it declares."""

BY_DAY = {
    ("batches", "evict_batch"),
    ("watermark", "watermark"),
    ("drafts", "spare_pages"),
    ("step_ahead", "unlock_delay"),
    ("node_ends", "match_ends"),
}


def play(target: Any, items: list[Item]) -> list[ItemResult]:
    """What came of the items, in this process."""
    return [engine.run_item(target, item, OPTIONS) for item in items]


def cases() -> Iterator[Any]:
    """Each field in which a legal cache differs from what is usual."""
    for id, (_, _, profile) in LEGAL.items():
        for one in fields(Profile):
            if getattr(profile, one.name) != getattr(USUAL, one.name) and one.name not in NOT_TRIED:
                yield pytest.param(id, one.name, marks=[pytest.mark.nightly] * ((id, one.name) not in BY_DAY))


@pytest.mark.parametrize(("id", "field"), [*cases()])
def test_the_choice_that_a_cache_makes_is_among_those_that_fit(id: str, field: str) -> None:
    """Or nothing is broken in so few steps, where the usual choice has nothing against what the cache did."""
    target, configs, profile = LEGAL[id]
    wrong = Declaring(target, ((field, getattr(USUAL, field)),))
    by_day = (id, field) in BY_DAY
    items = [Item(kind="random", config=config, seed=1, ops=40) for config in configs[: 4 if by_day else None]]
    results = play(wrong, items)
    found = {fit.field: fit for fit in fits(lambda asked: play(wrong, [*asked]), wrong.profile, items, results)}
    if any(result.findings for result in results):
        assert field in found, found
        assert type(found[field].value) is type(getattr(profile, field))
    assert found or not by_day


def test_a_bug_that_no_choice_allows_has_none() -> None:
    one = all_mutants()["lookup-pins"]
    items = [Item(kind="random", config=config, seed=1, ops=40) for config in one.configs]
    results = play(one.target, items)
    assert any(result.findings for result in results)
    assert fits(lambda asked: play(one.target, [*asked]), one.profile, items, results) == []


def test_without_a_finding_nothing_is_tried() -> None:
    target, configs, profile = LEGAL["batches"]
    items = [Item(kind="random", config=configs[0], seed=1, ops=40)]
    assert fits(lambda asked: pytest.fail("played"), profile, items, play(target, items)) == []


ADAPTER = """
from dataclasses import replace
from kvlitmus.zoo import target_of
class Target:
    profile = replace(target_of("{cache}").profile, {field}={value!r})
    configs = target_of("{cache}").configs
    def make(self, config):
        return target_of("{cache}").make(config)
target = Target()
"""


@pytest.fixture
def declares_no_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ``mine.py``, a cache that evicts in batches and doesn't say so."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(ADAPTER.format(cache="batches", field="evict_batch", value=1))


@pytest.mark.usefixtures("declares_no_batches")
def test_smoke_proposes_it(capsys: Any) -> None:
    assert main(["smoke", "mine.py", "--color", "never"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "profile: with evict_batch=2 (declared: 1) nothing is broken, and EVICT-06 judged" in out


@pytest.mark.usefixtures("declares_no_batches")
def test_what_a_choice_only_silences_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(smoke, "fits", lambda *_: [Fit("evict_order", "own", 0)])
    assert main(["smoke", "mine.py", "--color", "never"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "no choice allows what was seen; with evict_order='own' (declared: 'policy') EVICT-06 would not be judged"
        in out
    )


def test_a_block_table_that_inserts_is_no_block_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(ADAPTER.format(cache="batches", field="publish", value="at_alloc"))
    assert main(["smoke", "mine.py", "--color", "never"]) == 3
    assert "publish='at_alloc', of a block table, which has no insert" in capsys.readouterr().err


def test_what_is_taken_for_declared_goes_with_an_item_and_is_looked_at() -> None:
    item = Item(kind="random", config=configs_of(target_of("batches"))[0], declared=(("evict_batch", 2),))
    assert item_from_json(to_json(item)) == item
    assert Declaring(target_of("batches"), item.declared).profile == replace(
        target_of("batches").profile, evict_batch=2
    )
    for wrong, expected in (
        ([["evict_bach", 2]], "evict_bach"),
        ([["evict_batch", 0]], "whole number from 1"),
        (3, "must be a list"),
        ([["evict_batch"]], "not enough values"),
    ):
        with pytest.raises(ValueError, match=expected):
            choice_from_json(wrong)
