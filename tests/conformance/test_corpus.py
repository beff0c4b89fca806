"""The corpus: caches of every kind are recorded, and judged from the record as they were when they played."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.tape.played import Again
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law import rule
from kvlitmus.spec.law.rule import RULES, Rule
from kvlitmus.spec.parts import all_rules
from tests.support.night import by_turns
from tools import corpus, corpus_plays
from tools.corpus import ROOT, Allowed
from tools.corpus_plays import Broken, Change, Verdicts

FAMILIES = {
    "flat": ("mutant split-forgets-locks", "LOCK-01"),
    "tiers": ("mutant demotion-takes-both-copies", "POOL-12"),
    "stores": ("mutant store-written-in-place", "STORE-02"),
    "components": ("mutant component-state-ahead-of-its-node", "COMP-15"),
    "requests": ("mutant request-window-is-cut-short", "CREQ-01"),
    "ranks": ("mutant rank-commits-what-it-has-read", "RANKS-04"),
    "sparse": ("mutant sparse-keeps-what-it-took", "SPARSE-03"),
}
"""Of each kind of cache a mutant, and a rule that is judged in what it plays."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this tree plays of one mutant of each kind."""
    folder = tmp_path_factory.mktemp("corpus")
    corpus.play(folder, [name for name, _ in FAMILIES.values()], quick=True, jobs=1)
    return folder


def judged(folder: Path, family: str) -> corpus.CorpusCheck:
    """What this tree says of it now."""
    return corpus.check([folder / corpus.file_of(FAMILIES[family][0])], jobs=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_recorded_is_judged_as_it_was_played(played: Path, family: str) -> None:
    outcome = judged(played, family)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert sum(outcome.steps.values()) > 5


@pytest.mark.parametrize("family", FAMILIES)
def test_an_inverted_rule_differs(played: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, id = FAMILIES[family]
    right = all_rules()[id]
    changed(monkeypatch, right, lambda *facts: not right.predicate(*facts))
    outcome = judged(played, family)
    counts = Counter((one.rule, one.then, one.now) for one in outcome.differences)
    assert counts[id, "true", "false"] + counts[id, "false", "true"] > 0
    first = next(one for one in outcome.differences if one.rule == id)
    assert first.text in outcome.wrong and first.call and f"{id}: " in first.text


def changed(monkeypatch: pytest.MonkeyPatch, right: Rule, predicate: Callable[..., bool]) -> None:
    """The register with another predicate for a rule."""
    predicate.__module__ = right.predicate.__module__  # or the register would be put into another order
    monkeypatch.setitem(RULES, right.id, replace(right, predicate=predicate))


def copied(predicate: Callable[..., bool]) -> Callable[..., bool]:
    """Another predicate that says the same."""

    def copy(*facts: object) -> bool:
        return predicate(*facts)

    return copy


def test_a_rule_that_is_not_judged_any_more_differs(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = all_rules()["LOCK-01"]
    changed(monkeypatch, right, copied(right.predicate))  # or the plan that is there would be used
    monkeypatch.setitem(RULES, "LOCK-01", replace(RULES["LOCK-01"], needs=frozenset({"nobody has this"})))
    found = {(one.rule, one.then, one.now) for one in judged(played, "flat").differences}
    assert found <= {("LOCK-01", "true", "not judged"), ("LOCK-01", "false", "not judged")} and found


def test_a_call_that_was_not_recorded_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlitmus.conformance.generate.interpreter import Interpreter

    corpus.play(tmp_path, ["zoo batch"], quick=True, jobs=1)
    monkeypatch.setattr(Interpreter, "give_back", lambda self: None)
    outcome = corpus.check([tmp_path / corpus.file_of("zoo batch")], jobs=1)
    assert {one.rule for one in outcome.differences} >= {corpus_plays.END}
    assert any("the recorded play is not this call" in one for one in outcome.wrong)


def test_a_judge_that_raises_is_a_difference(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*facts: object) -> bool:
        raise ZeroDivisionError("nothing to divide")

    changed(monkeypatch, all_rules()["LOCK-01"], raises)
    outcome = judged(played, "flat")
    assert {one.rule for one in outcome.differences} == {corpus_plays.END}
    assert "the judge raised ZeroDivisionError: nothing to divide" in outcome.wrong[0]


def test_rules_are_compared_by_the_ids_that_they_have_now(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base has LOCK-01 under another id."""
    name = corpus.file_of(FAMILIES["flat"][0])
    (tmp_path / name).write_text((played / name).read_text(encoding="utf-8").replace("LOCK-01", "OLD-01"))
    lost = {one.rule for one in corpus.check([tmp_path / name], jobs=1).differences}
    assert lost == {"LOCK-01", "OLD-01"}
    monkeypatch.setitem(rule.RETIRED, "OLD-01", rule.Retired("it was said twice", "LOCK-01"))
    assert not corpus.check([tmp_path / name], jobs=1).differences


def test_every_rule_and_every_target_has_a_place_in_the_corpus() -> None:
    whole = corpus_plays.targets(quick=False)
    assert {one.removeprefix("mutant ") for one in whole if one.startswith("mutant ")} == (
        all_mutants().keys() - corpus_plays.LEFT_OUT.keys()
    )
    assert set(corpus_plays.targets(quick=True)) <= set(whole)


OF_STREAMS = {"EVENT-11", "EVENT-12"}
"""Rules of what was published, which no cache is played for: test_event_streams.py."""


@pytest.mark.nightly
def test_the_quick_share_judges_every_rule(tmp_path: Path) -> None:
    corpus.play(tmp_path, corpus_plays.targets(quick=True), quick=True, jobs=2)
    true, false = set(), set()
    for line in lines_of(tmp_path):
        data = json.loads(line)
        for kept in data["verdicts"].values():
            verdicts = corpus_plays.verdicts_from(kept)
            true |= {id for _, rules in verdicts.steps for id in rules}
            broken = {id for _, rules in verdicts.broken for id in rules}
            false |= broken
            # Misuse is forced on caches that promise nothing of it.
            legal = not data["target"].startswith("mutant ")
            assert not legal or {RULES[id].pack for id in broken} <= {"misuse"}, data["item"]
    expected = {one.id for one in all_rules().values() if one.kind is not rule.Kind.PROCEDURE} - OF_STREAMS
    assert expected <= true | false
    assert {RULES[id].pack for id in false} >= {RULES[id].pack for id in expected}


def lines_of(folder: Path) -> Iterator[str]:
    """All that was played."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from lines


# -- recording ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", by_turns(FAMILIES, every=4))
def test_recording_twice_gives_the_same(played: Path, tmp_path: Path, family: str) -> None:
    name, _ = FAMILIES[family]
    corpus.play(tmp_path, [name], quick=True, jobs=1)
    first, second = [(folder / corpus.file_of(name)).read_bytes() for folder in (played, tmp_path)]
    assert first == second and first


def test_a_mutant_is_caught_in_its_record_by_a_rule_that_it_names(played: Path) -> None:
    for line in lines_of(played):
        data = json.loads(line)
        mutant = all_mutants()[data["target"].removeprefix("mutant ")]
        verdicts = corpus_plays.verdicts_from(data["verdicts"]["3"])
        assert any(mutant.killed_by(rules) for _, rules in verdicts.broken), mutant.id


def test_operands_are_references_to_the_answers_that_gave_them(played: Path) -> None:
    path = played / corpus.file_of(FAMILIES["flat"][0])
    record = corpus_plays.record_in(json.loads(path.read_text(encoding="utf-8").splitlines()[0]))
    _, steps = record.plays[0]
    gave = {step.number: step.call for step in steps}
    given = [step.args[0] for step in steps if step.call == "unlock"]
    assert given and all(type(one) is dict and gave[one["@"]] == "lock" for one in given)  # type: ignore[index]
    result = engine.run_item(Again(record), record.item, Options(shrink_trials=0))
    assert result.findings and not result.error


@pytest.mark.parametrize("name", ["reference", "specimen"])
def test_what_can_not_be_written_into_can_not_when_it_is_judged_again(name: str) -> None:
    """The reference hands out tuples, so that this program makes fewer calls there."""
    item = Item(kind="litmus", config=Config(page_size=1), name="misuse/slots-overwritten-after-a-match")
    assert corpus_plays.record(corpus_plays.Work(name, item, (3, 0)))


def test_what_the_cache_declines_has_no_record() -> None:
    (work, *_) = [one for one in corpus_plays.works("specimen", quick=True) if one.item.config.tiered]
    flat = replace(work.item, config=replace(work.item.config, host_pages=0, storage="none"))
    assert not corpus_plays.record(work._replace(item=flat, depths=(3,)))


# -- what may differ ---------------------------------------------------------------------------------------------------


def test_a_listed_difference_is_allowed_and_a_stale_one_is_not(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, all_rules()["LOCK-01"], lambda *facts: False)
    change = Change("LOCK-01", "true", "false")
    found = [one for one in judged(played, "flat").differences if Change(one.rule, one.then, one.now) == change]
    for steps, whole, complaints in ((len(found), True, 0), (len(found) + 1, False, 0), (len(found) + 1, True, 1)):
        assert len(corpus.complaints(found, [Allowed(change, steps, "why")], whole=whole)) == complaints
    (stale,) = corpus.complaints([], [Allowed(change, 3, "why")], whole=True)
    assert stale == "differences.toml: LOCK-01: true → false: listed for 3 steps, but seen at 0"


def test_an_entry_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text('[[difference]]\nrule = "POOL-03"\nthen = "true"\nnow = "false"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"difference 1: expected rule, then, now, steps, reason"):
        corpus.allowed(path)


def test_a_play_that_goes_another_way_is_said_once() -> None:
    alloc, free = ("alloc", ("POOL-03",)), ("free", ("POOL-04",))
    notes = corpus_plays.Notes(Verdicts([alloc, free]))
    for signature in (free, free, alloc):
        assert notes.step("a call", signature, ()) == ()
    notes.end("", (), "")
    assert [change for *_, change in notes.changes][-1] == Change(corpus_plays.END, "ended", "goes on")
    assert notes.lost


def test_verdicts_go_through_plain_data() -> None:
    verdicts = Verdicts([("alloc", ("POOL-03",)), ("free", ()), ("alloc", ("POOL-03",))], [Broken(2, ("POOL-03",))])
    assert corpus_plays.verdicts_from(json.loads(json.dumps(verdicts.plain()))) == verdicts


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no git checkout")
def test_this_tree_is_compared_with_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = [sys.executable, "tools/corpus.py", "--quick", "--jobs", "1", "mutant rank-commits-what-it-has-read"]
    for _ in range(2):  # the second time nothing is played
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ": 0 differences, 0 complaints" in done.stdout


def test_a_name_that_stands_for_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no target nobody"):
        corpus.play(tmp_path, ["nobody"], quick=True, jobs=1)
    with pytest.raises(ValueError, match="rev-parse"):
        corpus.base_of("no-such-revision")
