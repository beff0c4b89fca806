"""Prompts that spell what is hashed: derived from a scheme, and noticed whatever the scheme is called."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.checker.calls.prefix import pure
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.litmus.prefix import spelling
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.mutants.prefix.hashing import Personal, Upstreams
from kvlitmus.reference.prefix.hashing import page_hashes
from kvlitmus.spec.law.plan import value_of
from kvlitmus.spec.prefix.hash_calls import EMPTY_LEDGER, CompareHashes, PageHashes, noted, prefixes_of
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.schemes import KVLITMUS_2, SGLANG_1, Domain
from kvlitmus.spec.words.units import Key

UPSTREAMS = SpecimenTarget(Parts(hashing=Upstreams), replace(PROFILE, hash_scheme="sglang-1"))
UNDECLARED = SpecimenTarget(Parts(hashing=Upstreams), replace(PROFILE, hash_scheme="another"))
ANOTHER = SpecimenTarget(Parts(hashing=Personal), replace(PROFILE, hash_scheme="another"))


def test_the_prompt_of_the_finding_is_among_those_that_are_derived() -> None:
    """Pages of 16, a tenant's name of 29 bytes: 64 bytes both."""
    found = [one for one in spelling.within() if one.page == 16 and len(one.victim.namespace or "") == 29]
    assert len(found) == 1
    spelt = found[0].prompt.tokens[:16]
    text = b"".join(token.to_bytes(4, "little") for token in spelt)
    assert text.startswith(b"sglang-cache-namespace-v1")
    victim = page_hashes(found[0].victim, 16, scheme=SGLANG_1)
    assert page_hashes(found[0].prompt, 16, scheme=SGLANG_1) == (hashlib.sha256(text).hexdigest(), *victim)


@pytest.mark.parametrize("spelt", spelling.within(), ids=lambda one: f"{one.page}-{len(one.victim.namespace)}")
def test_no_prompt_has_a_name_of_ours(spelt: spelling.Spelt) -> None:
    assert not set(page_hashes(spelt.prompt, spelt.page)) & set(page_hashes(spelt.victim, spelt.page))


def test_what_is_in_front_of_the_tokens_can_not_be_spelt() -> None:
    domain = Domain(2)
    for scheme in (KVLITMUS_2, SGLANG_1):
        message = scheme.page_message(scheme.seed(domain), (5, 6))
        assert spelling.prompt(message, spelling.fronts(scheme, domain)[0], domain) == (5, 6)
    assert spelling.prompt(b"kvs" + bytes(8), b"kvp", domain) is None


def test_bigrams_spell_what_repeats_its_words() -> None:
    domain = Domain(2, bigram=True)
    words = b"aaaabbbb" + b"bbbbcccc"
    tokens = spelling.prompt(words, b"", domain)
    assert tokens is not None
    assert SGLANG_1.page_message(b"", Key(None, tokens, bigram=True).units) == words
    assert spelling.prompt(b"aaaabbbb" + b"ccccdddd", b"", domain) is None
    assert not [one for one in spelling.within() if one.prompt.bigram], "no seed's text repeats its words"


@pytest.mark.parametrize("target", [UPSTREAMS, UNDECLARED], ids=["declared", "undeclared"])
def test_upstreams_scheme_breaks_the_rule_whatever_it_is_called(target: SpecimenTarget) -> None:
    checker = Checker(target.make(Config()), Config(), target.profile)
    spelt = spelling.within()[0]
    pure.hashes(checker, spelt.victim, spelt.page)
    with pytest.raises(Violation) as caught:
        pure.hashes(checker, spelt.prompt, spelt.page)
    assert [*caught.value.rules] == ["HASH-09"]


@pytest.mark.parametrize(
    ("target", "broken"),
    [(UPSTREAMS, {"BACKUP-05", "TIER-08"}), (ANOTHER, set()), (SpecimenTarget(), set())],
    ids=["upstreams", "another", "ours"],
)
def test_a_crafted_prompt_reads_and_poisons_through_storage(target: SpecimenTarget, broken: set[str]) -> None:
    played = [one for one in items(TIER_CONFIGS, target.profile, steps=0) if "spells-its-way" in one.name]
    assert len(played) == 2, "once each, in the first hierarchy with storage"
    for item in played:
        result = run_item(target, item, Options())
        assert not result.error and not result.unsupported and not result.unexercised
        assert {rule for finding in result.findings for rule in finding.rules} == broken
        assert all(finding.config.page_size == 16 for finding in result.findings)


def test_a_ledger_knows_what_a_hash_stood_for() -> None:
    names, ledger = Names(), EMPTY_LEDGER
    whole = Key(None, (1, 2, 3))

    def compared(call: PageHashes, hashes: tuple[str, ...]) -> dict[str, Any] | None:
        """The facts of hashes that were answered, which are noted; none where nobody knows what they continue."""
        nonlocal ledger
        prefixes = prefixes_of(ledger, names, call)
        if prefixes is None:
            return None
        compare = CompareHashes(call.page_size, call.key.bigram, prefixes)
        inputs = {"state": ledger, "call": compare, "answer": hashes}
        facts = {name: value_of(name, inputs, {}) for name in ("hashed_prefixes", "bearers", "hashes_elsewhere")}
        ledger = noted(ledger, compare, hashes, most=3)
        return facts

    assert compared(PageHashes(whole, 1), ("a", "b", "c")) is not None
    going_on = compared(PageHashes(Key(None, (3,)), 1, "b"), ("c",))
    assert going_on is not None
    assert [*going_on["hashed_prefixes"]] == [going_on["bearers"]["c"]]
    assert compared(PageHashes(Key(None, (3,)), 1, "unknown"), ("x",)) is None, "nobody knows what it continues"
    assert compared(PageHashes(Key("tenant", (3,)), 1, "b"), ("x",)) is None, "the hash of another namespace"
    elsewhere = compared(PageHashes(whole, 2), ("b",))
    assert elsewhere is not None
    assert elsewhere["hashes_elsewhere"] == {"b"}
    compared(PageHashes(Key(None, (4,)), 1), ("d",))
    assert [*ledger.of(1, False)] == ["b", "c", "d"]
