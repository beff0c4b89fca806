"""The corpus: recorded steps of many caches are judged as they were when the corpus was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.run.plan import CONFIGS, TIER_CONFIGS
from kvlitmus.conformance.run.results import Item
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.rule import RULES, Kind, all_rules
from tools import corpus, corpus_items, corpus_verdicts
from tools.corpus import Allowed
from tools.corpus_items import Part, Work
from tools.corpus_verdicts import Change, Kept, Verdicts

SPECIMEN = "tests/corpus/specimen.steps.xz"
MUTANT = "mutant free-twice-in-one-call"


def said(outcome: corpus.Outcome) -> str:
    """What is wrong, to be read in a failing test."""
    return "\n".join(outcome.wrong)


def test_a_share_of_the_corpus_is_judged_as_it_was() -> None:
    outcome = corpus.check(quick=True, wanted=corpus.allowed())
    assert not outcome.wrong, said(outcome)
    assert sum(outcome.steps.values()) > 25_000
    assert {depth for _, depth in outcome.steps} == {0, 1, 2, 3}
    assert {group for group, _ in outcome.steps} >= {"specimen", "nulls", "mutants", "sglang-0.5.23-hicache"}


@pytest.mark.nightly
def test_the_whole_corpus_is_judged_as_it_was() -> None:
    outcome = corpus.check(quick=False, wanted=corpus.allowed())
    assert not outcome.wrong, said(outcome)


def test_the_corpus_is_large_and_reaches_the_rules() -> None:
    _, kept = corpus_verdicts.load(corpus.VERDICTS)
    assert sum(len(one.verdicts.steps) for one in kept) > 200_000
    quick, whole = reached([one for one in kept if one.quick]), reached(kept)
    assert quick == whole
    judged = {rule for rule, _ in whole}
    broken = {rule for rule, verdict in whole if verdict == corpus_verdicts.FALSE}
    expected = {
        one.id for one in all_rules().values() if one.kind is not Kind.PROCEDURE and one.pack not in NOT_RECORDED
    }
    assert expected - judged == set()
    assert {RULES[rule].pack for rule in broken} >= {RULES[rule].pack for rule in expected}


NOT_RECORDED = ("sparse", "ranks", "comp", "creq")
"""Packs of caches that are not in the corpus: their own tests play them."""

OF_TWO_PLAYS = {"MISUSE-09", "MISUSE-12"}
"""Broken where a play breaks something that the same calls without the misuse don't: one recorded play can't say so."""


def test_every_mutant_is_caught_by_a_rule_that_it_names_and_no_legal_variation_is() -> None:
    _, kept = corpus_verdicts.load(corpus.VERDICTS)
    broken: dict[str, set[str]] = {one.target: set() for one in kept if one.target.startswith("mutant ")}
    for one in kept:
        if one.target in broken:
            broken[one.target].update(rule for _, rules in one.verdicts.broken for rule in rules)
        elif not one.target.startswith("sglang"):
            assert not one.verdicts.broken, one.item
    for mutant in all_mutants().values():
        if not any(corpus_items.configs_in(group, mutant) for group in corpus_items.GROUPS):
            continue
        if not mutant.null and set(mutant.kills) <= OF_TWO_PLAYS:
            continue
        found = broken[f"mutant {mutant.id}"]
        assert not found if mutant.null else found & set(mutant.kills), mutant.id


def reached(kept: list[Kept]) -> set[tuple[str, str]]:
    """Each rule with each verdict that it has somewhere."""
    true = {(rule, corpus_verdicts.TRUE) for one in kept for _, rules in set(one.verdicts.steps) for rule in rules}
    false = {(rule, corpus_verdicts.FALSE) for one in kept for _, rules in one.verdicts.broken for rule in rules}
    return true | false


# -- a changed verdict is seen -----------------------------------------------------------------------------------------


def changed(monkeypatch: pytest.MonkeyPatch, rule: str, predicate: Callable[..., bool]) -> None:
    """The register with another predicate for a rule."""
    all_rules()
    predicate.__module__ = RULES[rule].predicate.__module__  # or the register would be put into another order
    monkeypatch.setitem(RULES, rule, replace(RULES[rule], predicate=predicate))


def checked(rule: str, names: list[str]) -> tuple[corpus.Outcome, Counter[tuple[str, str, str]]]:
    """What a check of the quick share of these files says, and how often each change of this rule."""
    outcome = corpus.check(quick=True, names=names)
    listed = {(one.change.rule, one.change.then, one.change.now) for one in corpus.allowed()}
    changes = [(one.rule, one.then, one.now) for one in outcome.differences]
    counts = Counter(change for change in changes if change not in listed)
    assert {one for one, *_ in counts} == {rule} and len(outcome.wrong) >= 1
    return outcome, counts


def test_a_weakened_rule_differs_where_it_was_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept = corpus_verdicts.load(corpus.VERDICTS)
    broken = sum(
        "POOL-03" in rules for one in kept if one.quick and "/mutants." in one.file for _, rules in one.verdicts.broken
    )
    changed(monkeypatch, "POOL-03", lambda granted: True)
    outcome, counts = checked("POOL-03", ["mutants"])
    assert counts == {("POOL-03", "false", "true"): broken} and broken > 0
    first = next(one for one in outcome.differences if one.rule == "POOL-03")
    assert first.target.startswith("mutant ") and "POOL-03: false → true" in first.text and first.call in first.text


def test_a_rule_that_is_broken_now_differs_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept = corpus_verdicts.load(corpus.VERDICTS)
    judged = sum(
        "POOL-03" in rules for one in kept if one.quick and one.file == SPECIMEN for _, rules in one.verdicts.steps
    )
    changed(monkeypatch, "POOL-03", lambda granted: False)
    outcome, counts = checked("POOL-03", ["specimen"])
    assert counts == {("POOL-03", "true", "false"): judged} and judged > 100
    assert "… and" in said(outcome)


def test_a_rule_that_is_not_judged_any_more_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, "POOL-03", lambda granted: True)  # or the judge would use the plan that it has already
    monkeypatch.setitem(RULES, "POOL-03", replace(RULES["POOL-03"], needs=frozenset({"nobody has this"})))
    _, counts = checked("POOL-03", ["optimized"])
    assert set(counts) == {("POOL-03", "true", "not judged")}


def test_a_call_that_was_not_recorded_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlitmus.conformance.generate.interpreter import Interpreter

    monkeypatch.setattr(Interpreter, "give_back", lambda self: None)
    outcome = corpus.check(quick=True, names=["specimen"])
    assert {one.rule for one in outcome.differences} >= {corpus_verdicts.END}
    assert "the recorded play is not this one" in said(outcome)


# -- what may differ ---------------------------------------------------------------------------------------------------


def test_a_listed_difference_is_allowed_and_a_stale_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, "POOL-03", lambda granted: False)
    change = Change("POOL-03", "true", "false")
    differences = corpus.check(quick=True, names=["reference"]).differences
    found = [one for one in differences if Change(one.rule, one.then, one.now) == change]
    for steps, whole, complaints in ((len(found), True, 0), (len(found) + 1, False, 0), (len(found) + 1, True, 1)):
        assert len(corpus.complaints(found, [Allowed(change, steps, "why")], whole=whole)) == complaints
    (stale,) = corpus.complaints([], [Allowed(change, 3, "why")], whole=True)
    assert stale == "differences.toml: POOL-03: true → false: listed for 3 steps, but seen at 0"


def test_an_entry_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text('[[difference]]\nrule = "POOL-03"\nthen = "true"\nnow = "false"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"difference 1: expected rule, then, now, steps, reason"):
        corpus.allowed(path)


# -- recording ---------------------------------------------------------------------------------------------------------


def some_works() -> list[Work]:
    """A few items of a cache, flat and with a hierarchy, and of a mutant."""
    chosen = [one for one in corpus_items.works(Part("specimen", "specimen")) if one.item.kind == "schedule"]
    flat = [one for one in chosen if one.item.config == CONFIGS[1]]
    tiered = [one for one in chosen if one.item.config == TIER_CONFIGS[1]]
    mutant = corpus_items.works(Part("mutants", "mutant split-forgets-locks"))
    return [*flat[:1], *tiered[:1], *mutant[:1]]


def test_recording_twice_gives_the_same(tmp_path: Path) -> None:
    works = some_works()
    assert [len(work.depths) for work in works] == [4, 1, 4]
    first, second = [[corpus_items.record(work) for work in works] for _ in range(2)]
    assert first == second
    kept = [
        Kept("x.steps.xz", at, one.target, one.item, depth, depth == 3, verdicts)
        for at, one in enumerate(first)
        for depth, verdicts in one.verdicts.items()
    ]
    for name in ("a.xz", "b.xz"):
        corpus_verdicts.save(tmp_path / name, kept, {"x.steps.xz": "0"})
    assert (tmp_path / "a.xz").read_bytes() == (tmp_path / "b.xz").read_bytes()
    assert corpus_verdicts.load(tmp_path / "a.xz") == ({"x.steps.xz": "0"}, kept)


def test_a_mutant_is_recorded_until_its_violation() -> None:
    (work, *_) = corpus_items.works(Part("mutants", "mutant split-forgets-locks"))
    found = corpus_items.record(work)
    deepest = found.verdicts[3]
    assert deepest.broken[-1].step == len(deepest.steps) - 1
    assert set(deepest.broken[0].rules) & set(all_mutants()["split-forgets-locks"].kills)


def test_what_the_cache_declines_has_no_record() -> None:
    test = next(one for one in all_litmus().values() if "tiers" in one.needs)
    item = Item(kind="litmus", config=CONFIGS[0], name=test.id)
    assert not corpus_items.record(Work("specimen", item, (3,))).line


def test_steps_recorded_anew_need_verdicts(tmp_path: Path) -> None:
    digests, kept = corpus_verdicts.load(corpus.VERDICTS)
    path = tmp_path / "verdicts.xz"
    corpus_verdicts.save(path, kept[:5], {**digests, SPECIMEN: "another"})
    outcome = corpus.check(quick=False, path=path)
    assert outcome.wrong == [f"{SPECIMEN} was recorded anew: --judge keeps this tree's verdicts on it"]
    assert not outcome.steps


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.xz"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"verdicts\.xz: these are no verdicts"):
        corpus_verdicts.load(path)


def test_a_play_that_goes_another_way_is_said_once() -> None:
    alloc, free = ("alloc", ("POOL-03",)), ("free", ("POOL-04",))
    notes = corpus_verdicts.Notes(Verdicts([alloc, free]))
    for signature in (free, free, alloc):
        assert notes.step("a call", signature, ()) == ()
    notes.end("", (), "")
    assert [change for *_, change in notes.changes][-1] == Change(corpus_verdicts.END, "ended", "goes on")
    assert notes.lost
