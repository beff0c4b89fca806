"""Baselines: what is known is accepted, what is stale, expired or wrong fails, and is named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.run.baseline import BaselineError, Entry, compare, load, text_of, version_parts
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.results import RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import Group
from kvlitmus.spec.parts import all_rules
from tests.conformance.test_verdicts import finding

RULES = list(all_rules())
GOOD = '[[known]]\nrule = "TREE-02"\ncause = "tree-1a2b3c4d"\nreason = "rounded down twice"\nlink = "https://example.org/1"\n'


CAUSE = "tree-1a2b3c4d"


def write(folder: Path, text: str) -> Path:
    path = folder / "known.toml"
    path.write_text(text, encoding="utf-8")
    return path


def said(rule: str, verdict: Verdict) -> RuleVerdict:
    return RuleVerdict(rule=rule, verdict=verdict)


def test_a_baseline_is_read(tmp_path: Path) -> None:
    entries = load(write(tmp_path, GOOD + 'until = "0.3"\n'), RULES)
    wanted = {"rule": "TREE-02", "cause": CAUSE, "reason": "rounded down twice", "link": "https://example.org/1"}
    assert entries == (Entry(**wanted, until="0.3"),)


def test_an_empty_baseline_is_a_baseline(tmp_path: Path) -> None:
    assert load(write(tmp_path, "# nothing is known yet\n"), RULES) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD.replace("TREE-02", "TREE-2"), r"entry 1 \(TREE-2\): there is no such rule; did you mean 'TREE-02'"),
        (GOOD + GOOD.replace("TREE-02", "LOCK-99"), r"entry 2 \(LOCK-99\): there is no such rule"),
        (GOOD.replace("cause", "case"), r"'cause' is missing: expected one such as .*--write-baseline FILE"),
        (GOOD.replace(CAUSE, "TREE-02"), r"'cause' is 'TREE-02': expected one such as"),
        (GOOD.replace("reason", "why"), r"entry 1 \(TREE-02\): 'reason' is missing"),
        (GOOD.replace("link", "url"), r"entry 1 \(TREE-02\): 'link' is missing"),
        ('[[known]]\nreason = "x"\nlink = "https://x"\n', "entry 1: 'rule' is missing"),
        (GOOD + 'comment = "x"\n', r"entry 1 \(TREE-02\): unknown field 'comment'"),
        (GOOD.replace('"rounded down twice"', '"  "'), r"entry 1 \(TREE-02\): 'reason' must be a text"),
        (GOOD.replace('"rounded down twice"', "7"), r"entry 1 \(TREE-02\): 'reason' must be a text"),
        (GOOD.replace("https://example.org/1", "see the wiki"), "'link' must begin with https://"),
        (GOOD + 'until = "soon"\n', "'until' must be a version"),
        (GOOD + "until = 3\n", "'until' must be a text"),
        (GOOD + GOOD, "entry 2 .*listed twice"),
        ('[[knwon]]\nrule = "x"\n', r"expected \[\[known\]\] entries only \(got 'knwon'\)"),
        ('known = "TREE-02"\n', "'known' must be a list"),
        ("known = [1]\n", "entry 1: expected a table"),
        ("[[known]\n", "not TOML"),
        ("a = " + "[" * 5_000, "not TOML"),
        ("a = " + "1" * 5_000, "not TOML"),
        (".".join(["a"] * 50_000) + " = 1\n", "a key of more than 32 parts"),
        ("[" + " . ".join(['"a"'] * 50_000) + "]\n", "a key of more than 32 parts"),
        ("known = [{" + ".".join(["a"] * 50_000) + " = 1}]\n", "a key of more than 32 parts"),
        (GOOD.replace("TREE-02", "\\u001b[31mTREE"), "entry 1"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BaselineError, match=complaint) as caught:
        load(write(tmp_path, text), RULES)
    assert "\x1b" not in str(caught.value)


def test_a_long_word_takes_no_longer_than_it_is(tmp_path: Path) -> None:
    text = GOOD.replace("rounded down twice", f"{'a' * 500_000}{'.b' * 20}")
    assert len(load(write(tmp_path, text), RULES)) == 1


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "known.toml")
    with pytest.raises(BaselineError, match="expected a regular file, got a pipe"):
        load(tmp_path / "known.toml", RULES)


def test_files_that_are_no_text_or_too_large_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BaselineError, match="not TOML"):
        load(path, RULES)
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(BaselineError, match="larger than"):
        load(path, RULES)
    with pytest.raises(BaselineError, match="No such file"):
        load(tmp_path / "nowhere.toml", RULES)


ENTRY = Entry(rule="TREE-02", cause=CAUSE, reason="r", link="https://x", until="")


def met(*rules: str, cause: str = "", leads: bool = True, after: Sequence[str] = ()) -> Group:
    """What a run met: rules that one call broke, by its own cause."""
    found = replace(finding(*rules), after=list(after))
    return Group(finding=found, cause=cause_of(found), leads=leads)


def entry_of(one: Group, **more: str) -> Entry:
    return replace(ENTRY, rule=one.finding.rules[0], cause=one.cause.id, **more)


def test_what_was_met_is_known_whatever_else_is_said_of_its_rule() -> None:
    one = met("TREE-02", "TREE-03")
    said_of = [said("TREE-02", Verdict.VIOLATED), said("TREE-03", Verdict.VIOLATED)]
    outcome = compare([entry_of(one)], said_of, [one], "0.1.0")
    assert (outcome.known, outcome.stale, outcome.fails) == ([entry_of(one)], [], False)
    assert outcome.accepted == {"TREE-02", "TREE-03"}, "the same call broke both"


def test_another_cause_of_a_known_rule_is_news() -> None:
    """A known bug in the order of victims, and a release in which uses are never counted: both break EVICT-05."""
    known = met("EVICT-05")
    other = replace(known.finding, config=replace(known.finding.config, policy="lfu"))
    new = Group(finding=other, cause=cause_of(other))
    said_of = [said("EVICT-05", Verdict.VIOLATED)]
    assert compare([entry_of(known)], said_of, [known], "0.1.0").accepted == {"EVICT-05"}
    outcome = compare([entry_of(known)], said_of, [known, new], "0.1.0")
    assert (outcome.known, outcome.accepted) == ([entry_of(known)], frozenset())
    assert compare([entry_of(known)], said_of, [new], "0.1.0").stale == [entry_of(known)]


def test_what_broke_only_after_something_known_is_no_news() -> None:
    known = met("TREE-02")
    said_of = [said("TREE-02", Verdict.VIOLATED), said("LOCK-02", Verdict.VIOLATED)]
    for later, accepted in (
        (met("LOCK-02", after=["TREE-02"], leads=False), True),
        (met("LOCK-02", leads=False), False),
        (met("LOCK-02", after=["POOL-01"], leads=False), False),
        (met("LOCK-02"), False),
    ):
        outcome = compare([entry_of(known)], said_of, [known, later], "0.1.0")
        assert ("LOCK-02" in outcome.accepted) is accepted


@pytest.mark.parametrize(
    ("verdict", "stale"),
    [
        (Verdict.VIOLATED, True),
        (Verdict.WARNED, True),
        (Verdict.PASSED, True),
        (Verdict.NOT_APPLICABLE, True),
        (Verdict.BLOCKED, False),
        (Verdict.INCONCLUSIVE, False),
        (Verdict.NOT_EXERCISED, False),
        (Verdict.HARNESS_ERROR, False),
    ],
)
def test_only_a_decided_rule_makes_an_entry_stale(verdict: Verdict, stale: bool) -> None:
    outcome = compare([ENTRY], [said("TREE-02", verdict)], [], "0.1.0")
    assert (outcome.known, bool(outcome.stale)) == ([], stale)
    assert outcome.fails is stale


def test_an_interrupted_run_makes_nothing_stale() -> None:
    assert not compare([ENTRY], [said("TREE-02", Verdict.PASSED)], [], "0.1.0", partial=True).fails


def test_a_rule_that_was_not_asked_for_makes_nothing_stale() -> None:
    assert not compare([ENTRY], [said("TREE-03", Verdict.PASSED)], [], "0.1.0").fails


@pytest.mark.parametrize(
    ("until", "now", "expired"),
    [("0.2.0", "0.1.9", False), ("0.2.0", "0.2.0", True), ("0.2", "0.10.0", True), ("0.10", "0.9.3.dev1+g1", False)],
)
def test_an_entry_expires_with_the_version_it_names(until: str, now: str, expired: bool) -> None:
    one = met("TREE-02")
    outcome = compare([entry_of(one, until=until)], [said("TREE-02", Verdict.VIOLATED)], [one], now)
    assert bool(outcome.expired) is expired
    assert outcome.fails is expired
    assert bool(outcome.known) is not expired
    assert bool(outcome.accepted) is not expired


def test_a_baseline_is_written_that_knows_what_was_met(tmp_path: Path) -> None:
    """What nobody else can know is left empty, and has to be filled in."""
    kept, new = met("TREE-02"), met("LOCK-02", "TREE-03")
    text = text_of([kept, new, new], [entry_of(kept, until="9")])
    with pytest.raises(BaselineError, match=r"entry 2 \(LOCK-02\): 'reason' must be a text that says something"):
        load(write(tmp_path, text), RULES)
    filled = text.replace('reason = ""', 'reason = "b"').replace('link = ""', 'link = "https://y"')
    entries = load(write(tmp_path, filled), RULES)
    assert entries == (entry_of(kept, until="9"), entry_of(new, reason="b", link="https://y"))


def test_versions_compare_as_numbers() -> None:
    assert version_parts("0.10") > version_parts("0.9.9")
    assert version_parts("1") == version_parts("1.0.0")
    with pytest.raises(ValueError, match="1\\.x"):
        version_parts("1.x")
