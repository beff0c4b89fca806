"""Hostile adapters: each is reported for what it is, and nothing that they hand out does harm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, ItemResult, Options, to_json
from kvlitmus.conformance.support.text import harmless, raised_text, shown, type_name
from tests.conformance.support import hostile, liars
from tests.support.night import by_turns

PAGE4 = Config(page_size=4)
OPTIONS = Options(reruns=0, shrink_trials=40, shrink_seconds=60.0)


@pytest.fixture(autouse=True)
def _as_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a worker nobody but the adapter raises ``KeyboardInterrupt``."""
    monkeypatch.setattr(Checker, "interruptible", False)


def judged(name: str, seeds: tuple[int, ...] = (1,), ops: int = 200) -> ItemResult:
    """What comes of a target: the first result that isn't clean."""
    for seed in seeds:
        result = run_item(hostile.TARGETS[name], Item(kind="random", config=PAGE4, seed=seed, ops=ops), OPTIONS)
        assert_harmless(result)
        if result.findings or result.error or result.unsupported:
            break
    return result


def texts(value: object) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from texts(key)
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def assert_harmless(result: ItemResult) -> None:
    plain = to_json(result)
    data = json.dumps(plain, ensure_ascii=False).encode()  # fails for lone surrogates
    assert len(data) < 200_000
    for text in texts(plain):
        assert text.isprintable(), text
        assert " at 0x" not in text
    assert json.loads(data) == plain


RAISING = {
    **{
        f"raises_{method}": "PORT-01"
        for method in hostile.PORT_METHODS
        if method not in ("page_hashes", "plan_prefetch")
    },
    "raises_stop": "PORT-01",
    "raises_recursion": "PORT-01",
    "raises_memory": "PORT-01",
    "raises_lying": "PORT-01",
    "raises_mute": "PORT-01",
    "raises_quitter": "PORT-01",
    "raises_huge_text": "PORT-01",
    "raises_base": "PORT-02",
    "raises_interrupt": "PORT-02",
    "raises_generator_exit": "PORT-02",
    "raises_exit": "PORT-02",
    "raises_exit_in_view": "PORT-02",
}


@pytest.mark.parametrize(("name", "rule"), by_turns(RAISING.items()), ids=RAISING)
def test_what_a_call_raises_is_a_violation_by_the_cache(name: str, rule: str) -> None:
    result = judged(name, seeds=tuple(range(12)))
    assert not result.error
    (finding,) = result.findings
    assert finding.rules == [rule]
    assert "raised" in finding.detail
    if name.removeprefix("raises_") in hostile.PORT_METHODS:
        said = finding.call if finding.detail.startswith("the call") else finding.detail
        assert said.startswith(name.removeprefix("raises_") + "(")
        assert re.search(r" \(hostile\.py, line \d+ in \w+\)$", finding.detail), "the line that raised"
        assert "→" not in said, "it answered nothing"


def test_integers_of_a_class_of_its_own_are_integers() -> None:
    result = judged("slots_fake_ints")
    assert (result.findings, result.error) == ([], "")
    assert result.evaluated["POOL-01"]


@pytest.mark.parametrize(("name", "pack"), [("raises_page_hashes", "HASH"), ("raises_plan_prefetch", "PREFETCH")])
def test_what_a_pure_call_raises_breaks_a_rule_about_it(name: str, pack: str) -> None:
    (finding,) = judged(name).findings
    assert all(rule.startswith((pack, "PORT-01")) for rule in finding.rules)


WRONG = {
    "slots_text": "a sequence of slots, got 'abc' of type str",
    "slots_bytes": "a sequence of slots, got b'abc' of type bytes",
    "slots_dict": "a sequence of slots, got {1: 2} of type dict",
    "slots_number": "a sequence of slots, got 7 of type int",
    "slots_floats": "got 4.0 of type float",
    "slots_bools": "got True of type bool",
    "slots_endless": "at most 128 slots, got",
    "slots_liar": "at most 128 slots, got",
    "slots_huge": "slots from 0 on",
    "slots_negative": "got -7 to -4",
    "slots_no_repr": "whose __repr__ raised SystemExit",
    "slots_long_repr": "expected integer slots, got xxx",
    "slots_fake_class": "raised LookupError",
    "hit_exiting_class": "expected Hit(length, slots, handle, host), got <",
    "view_units_exiting": "units of a node must be integers",
    "view_namespace_exiting": "a namespace must be text or None (got ExitingClass)",
    "hit_none": "expected Hit(length, slots, handle, host), got None",
    "hit_lying_tuple": "the length of the match, an integer from 0 on, got 'a' of type str",
    "hit_nan": "an integer from 0 on, got nan of type float",
    "hit_no_repr": "whose __repr__ raised",
    "stored_text": "cached already, an integer from 0 on",
    "stored_list": "expected Stored(already, to_free), got [",
    "evicted_none": "the number of slots freed, an integer from 0 on, got None",
    "evicted_bool": "an integer from 0 on, got True of type bool",
    "begun_text": "the cached slots of the row, an integer from 0 on",
    "view_parent_far": "parents must come before",
    "view_parent_nan": "must be integers",
    "view_parent_text": "must be integers",
    "view_slots_text": "a node must be a sequence (got str)",
    "view_units_unhashable": "unhashable",
    "view_units_nan": "units of a node must be integers",
    "view_namespace_object": "a namespace must be text or None (got NoRepr)",
    "view_locks_text": "must be integers",
    "hashes_text": "expected a sequence of texts, got 'abc'",
    "plan_none": "expected a PrefetchPlan, got None",
    "plan_exiting_class": "expected a PrefetchPlan, got <",
}
"""What a call answers."""

AT_ONCE = {
    "available_float": "an integer from 0 on, got 128.0 of type float",
    "sizes_none": "expected Sizes, got None",
    "sizes_endless": "sizes has more than",
    "view_none": "expected a View, got None",
    "view_cycle": "parents must come before",
    "view_not_tuple": "no attribute 'free'",
    "view_rows_short": "not enough values",
    "view_endless": "more than",
    "view_enormous": "more than",
    "view_free_text": "must consist of integers",
    "view_exiting_class": "no attribute 'free'",
}
"""What is seen of a fresh cache already."""


@pytest.mark.parametrize(("name", "text"), [*WRONG.items(), *AT_ONCE.items()], ids=[*WRONG, *AT_ONCE])
def test_an_answer_of_the_wrong_form_is_named(name: str, text: str) -> None:
    result = judged(name)
    assert not result.error
    (finding,) = result.findings
    assert finding.rules == ["PORT-03"]
    assert text in finding.detail
    assert (finding.calls == ["a look at the fresh cache"]) == (name in AT_ONCE)


UNMADE = {
    "view_changes_cache": "looking at the cache changes it",
    "everything": "answers to every name",
    "makes_the_same": "returned the object of the call before; each call must build a fresh cache",
    "makes_none": "make() returned None, which implements no port",
    "make_raises": "making the cache raised ValueError: \\x1b[2J",
    "make_exits": "making the cache raised SystemExit: 3",
    "dying_property": "raised KeyError: 'no match today'",
    "claims": "locks (lock, unlock); tree (match, insert)",
    "profile_wrong": "must be a Profile (got dict)",
    "not_implemented": "it isn't implemented",
    "not_implemented_view": "it isn't implemented",
    "not_implemented_hashes": "it isn't implemented",
}


@pytest.mark.parametrize(("name", "text"), UNMADE.items(), ids=UNMADE)
def test_what_cannot_be_judged_is_an_error_and_no_verdict(name: str, text: str) -> None:
    result = judged(name)
    assert text in result.error
    assert not result.findings


def test_an_error_of_making_says_its_line() -> None:
    assert re.search(r" \(hostile\.py, line \d+ in act\)$", judged("make_raises").error)


@pytest.mark.parametrize("name", ["slots_exiting_class", "hashes_exiting_class"])
def test_an_answer_whose_class_ends_the_process_is_the_caches_fault(name: str) -> None:
    result = judged(name, seeds=tuple(range(12)))
    assert not result.error
    (finding,) = result.findings
    assert finding.rules == ["PORT-02"]
    assert "tried to end the process: it raised SystemExit: 9" in finding.detail


@pytest.mark.parametrize("name", ["declines", "declines_mute"])
def test_a_target_may_decline_with_any_reason(name: str) -> None:
    result = judged(name)
    assert result.unsupported
    assert not result.error


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("changes_argument", "changed its argument"),
        ("changes_argument_for_good", "changed its argument"),
        ("changes_earlier", "returned earlier changed"),
    ],
)
def test_sequences_of_the_caller_must_stay_as_they_are(name: str, text: str) -> None:
    (finding,) = judged(name).findings
    assert finding.rules == ["PORT-04"]
    assert text in finding.detail


@pytest.mark.parametrize("name", ["slots_repeated", "sizes_huge", "view_namespace_text"])
def test_well_formed_nonsense_breaks_the_rules_that_speak_of_it(name: str) -> None:
    (finding,) = judged(name).findings
    assert finding.rules
    assert not any(rule.startswith("PORT-0") for rule in finding.rules)


def test_the_harmless_one_is_clean() -> None:
    result = judged("harmless")
    assert result.steps > 100
    assert not result.findings
    assert not result.error


def test_every_raising_and_wrong_target_is_used() -> None:
    rest = {name for name in hostile.TARGETS if re.match("slots_|hit_|stored_|evicted_|begun_|view_|raises_", name)}
    told = {*RAISING, *WRONG, *AT_ONCE, *UNMADE}
    assert rest - told == {
        "slots_exiting_class",
        "raises_page_hashes",
        "raises_plan_prefetch",
        "slots_repeated",
        "slots_fake_ints",
        "view_namespace_text",
    }


# -- texts -------------------------------------------------------------------------------------


def test_harmless_text_is_printable_short_and_one_line() -> None:
    assert harmless("plain – text ≤ 3") == "plain – text ≤ 3"
    assert harmless("\x1b[31mred\n") == "\\x1b[31mred\\x0a"
    assert harmless("\u202e\ud800\U000e0001") == "\\u202e\\ud800\\U000e0001"
    assert harmless("x" * 500, 10) == "x" * 9 + "…"
    assert len(harmless("\n" * 100, 100)) <= 400


def test_texts_of_objects_that_resist() -> None:
    class Text(str):
        def __getitem__(self, at: object) -> str:
            raise ValueError

        def __len__(self) -> int:
            raise OverflowError

    name = type_name(type("\x1b[31m", (), {})())
    assert name == "\\x1b[31m"
    assert harmless(Text("abc")) == "abc"
    assert "SystemExit" in shown(liars.NoRepr())
    assert raised_text(liars.Mute()) == "Mute: ‹no text: its __str__ raised RuntimeError›"
    assert shown(object()) == "<object object>"
