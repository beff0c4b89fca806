"""The register of rules keeps its own house."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from kvlitmus.spec.law import facts
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import RETIRED, RULES, Kind, Rule, Strength, rule
from kvlitmus.spec.parts import all_rules, rules_of

EVERY = list(all_rules().values())

LONGEST = 40
"""So many words a normative sentence may have."""


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.id)
def test_a_rule_says_what_its_strength_is(one: Rule) -> None:
    says = "SHOULD" if one.strength is Strength.SHOULD else "MUST"

    assert says in one.text, one.text
    assert one.text.endswith("."), one.text
    for sentence in re.split(r"(?<=\.)\s", one.text):
        assert len(sentence.split()) <= LONGEST, sentence
        assert len(re.findall(r"\b(?:MUST|SHOULD)\b", sentence)) <= 1, sentence


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.id)
def test_a_rule_names_facts_and_calls_as_its_kind_wants(one: Rule) -> None:
    assert (one.kind is Kind.PROCEDURE) == (not one.facts)
    assert (one.kind in (Kind.STEP, Kind.HISTORY)) == bool(one.on)
    assert set(re.findall(r"{(\w+)}", one.allowed)) <= facts.FACTS.keys()
    assert one.source


NEVER_GIVEN: dict[str, tuple[range, ...]] = {
    "TREE": (range(15, 19), range(21, 22)),
    "EVICT": (range(8, 20),),
    "TIER": (range(18, 25), range(27, 30), range(32, 40)),
    "LIFE": (range(11, 15),),
}
"""Numbers that were set aside and that no rule ever had; a rule may still get one of them."""


def numbers_of(ids: Iterable[str]) -> dict[str, list[int]]:
    """The numbers of ids by prefix, in the order of the ids."""
    numbers: dict[str, list[int]] = {}
    for id in ids:
        prefix, _, number = id.partition("-")
        numbers.setdefault(prefix, []).append(int(number))
    return numbers


def test_ids_count_up_within_their_pack() -> None:
    numbers = numbers_of(RULES)

    assert all(found == sorted(set(found)) for found in numbers.values()), numbers
    assert RETIRED.keys().isdisjoint(RULES)


def test_a_number_without_a_rule_is_retired_or_was_never_given() -> None:
    """A rule that is taken out leaves its number in ``RETIRED``, so that nobody takes it for a new one."""
    for prefix, found in numbers_of([*RULES, *RETIRED]).items():
        never = {number for numbers in NEVER_GIVEN.get(prefix, ()) for number in numbers}

        assert set(range(1, max(found))) - set(found) <= never, prefix
    assert not [id for id in RETIRED if int(id.partition("-")[2]) in set().union(*NEVER_GIVEN.get(id[:-3], ()))]


def test_every_fact_is_spoken_of_by_some_rule() -> None:
    used = {name for one in EVERY for name in one.facts}
    used |= {name for one in EVERY for name in re.findall(r"{(\w+)}", one.allowed)}
    used |= {one.premise_fact for one in EVERY if one.premise}

    assert facts.FACTS.keys() - set(facts.worked_out_from(used)) == set()


def test_packs_are_the_parts_of_the_spec() -> None:
    assert [one.id for one in rules_of("lock")] == [id for id in RULES if id.startswith("LOCK-")]
    assert {one.pack for one in EVERY} == {
        "pool",
        "tree",
        "lock",
        "evict",
        "req",
        "hash",
        "prefetch",
        "tier",
        "backup",
        "load",
        "fetch",
        "life",
        "event",
        "frame",
        "store",
        "sparse",
        "comp",
        "creq",
        "ranks",
        "port",
        "misuse",
    }


def a_sentence(page_size: int) -> bool:
    """A page MUST be."""
    return page_size > 0


def no_sentence(page_size: int) -> bool:
    return page_size > 0


def an_unknown_fact(moon: int) -> bool:
    """The moon MUST be."""
    return moon > 0


@pytest.mark.parametrize(
    ("id", "predicate", "says"),
    [
        ("POOL-01", a_sentence, "never reused"),
        ("pool-99", a_sentence, "must look like"),
        ("POOL-x", a_sentence, "must look like"),
        ("POOL-99", no_sentence, "no sentence"),
        ("POOL-99", an_unknown_fact, "unknown facts"),
    ],
)
def test_a_bad_registration_is_refused_with_its_reason(id: str, predicate: Callable[[int], bool], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rule(id, kind=Kind.STATE, source="a test")(predicate)

    assert "POOL-99" not in RULES


def test_the_digest_of_a_rule_follows_its_text_and_its_logic() -> None:
    digests = {one.digest for one in EVERY}

    assert len(digests) == len(EVERY)
    assert all(re.fullmatch(r"[0-9a-f]{12}", digest) for digest in digests)


def test_the_digest_of_a_rule_follows_when_it_is_judged_and_what_its_facts_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = all_rules()["FETCH-16"]
    others = [
        replace(one, on=(On.POLL,)),
        replace(one, needs=frozenset({"tiers"})),
        replace(one, strength=Strength.SHOULD),
        replace(one, kind=Kind.STATE),
    ]
    monkeypatch.setitem(facts.FACTS, "told_units", facts.FACTS["told_units"]._replace(depth=3))
    deeper = one.digest
    monkeypatch.undo()
    assert len({one.digest, deeper, *(other.digest for other in others)}) == 6
