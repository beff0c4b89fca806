"""The page-hash chain: golden vectors, and the laws of a chain for any keys."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.conformance.litmus.prefix.hashing_table import (
    EVENT_NUMBERS,
    FOREIGN,
    LARGEST,
    PAIRS,
    REFUSED,
    VECTORS,
    KeyPair,
    Vector,
)
from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.reference.prefix.hashing import chain_start, event_number, page_hashes
from kvlitmus.spec.prefix.hash_calls import HashPair, split_key
from kvlitmus.spec.words.schemes import KVLITMUS_2, SCHEMES, SGLANG_1, Domain, Scheme, encode
from kvlitmus.spec.words.units import Key
from tests.reference.support import known_names

Hasher = Callable[[Key, int, str | None], Sequence[str]]
HASHERS: dict[str, Hasher] = {"reference": page_hashes, "specimen": PageHasher().page_hashes}

TOKENS = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=24).map(tuple)
KEYS = st.builds(Key, st.sampled_from((None, "", "lora-a", "ü")), TOKENS, st.booleans())
PAGES = st.sampled_from((1, 2, 3, 4, 16))


@pytest.mark.parametrize("hasher", HASHERS.values(), ids=HASHERS)
@pytest.mark.parametrize("vector", VECTORS["kvlitmus-2"], ids=lambda vector: vector.name)
def test_golden_vectors(vector: Vector, hasher: Hasher) -> None:
    assert tuple(hasher(vector.key, vector.page_size, vector.prior)) == vector.hashes


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_every_scheme_has_its_golden_vectors(scheme: Scheme) -> None:
    for vector in VECTORS[scheme.name]:
        assert page_hashes(vector.key, vector.page_size, vector.prior, scheme=scheme) == vector.hashes


@pytest.mark.parametrize("vector", VECTORS["kvlitmus-2"], ids=lambda vector: vector.name)
def test_the_vectors_are_those_of_a_few_lines_over_hashlib(vector: Vector) -> None:
    units = [[*unit] if isinstance(unit, tuple) else [unit] for unit in vector.key.units]
    kind = "bigram" if vector.key.bigram else "token"
    found = known_names.names(units, vector.page_size, vector.key.namespace, kind, vector.prior)
    assert tuple(found) == vector.hashes


def test_upstreams_seed_of_a_namespace() -> None:
    seed = SGLANG_1.seed(Domain(4, namespace="lora-a"))
    assert seed.hex() == "407c773a7c02b33bd4a62af6bf5fc77997c2c8067811ecf2b39e3839c3f4284b"
    assert SGLANG_1.seed(Domain(4)) == b""


@pytest.mark.parametrize("page_size", [*range(1, 65), 128, 256])
@pytest.mark.parametrize("width", [4, 8])
def test_the_tag_costs_no_block_of_sha_256(page_size: int, width: int) -> None:
    def blocks(tag: bytes) -> int:
        return (len(tag) + 32 + width * page_size + 9 + 63) // 64

    assert blocks(KVLITMUS_2.page_tag) == blocks(SGLANG_1.page_tag)


def test_every_text_can_be_a_namespace() -> None:
    names = {
        tuple(hasher(Key(one, (1, 2)), 1, None)) for one in ("\ud800", "\udfff", "") for hasher in HASHERS.values()
    }
    assert len(names) == 3


@pytest.mark.parametrize(("page_hash", "number"), EVENT_NUMBERS.items(), ids=["negative", "positive"])
def test_event_numbers(page_hash: str, number: int) -> None:
    assert event_number(page_hash) == number


def test_event_numbers_are_signed_64_bit() -> None:
    assert event_number("7f" + "ff" * 31) == 2**63 - 1
    assert event_number("80" + "00" * 31) == -(2**63)
    assert event_number("ff" * 32) == -1


@pytest.mark.parametrize("hasher", HASHERS.values(), ids=HASHERS)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_pairs_agree_on_their_common_pages_only(pair: KeyPair, hasher: Hasher) -> None:
    one, other = (tuple(hasher(key, pair.page_size, None)) for key in (pair.key, pair.other))
    common = HashPair(pair.key, pair.other, pair.page_size).common_pages
    assert one[:common] == other[:common]
    assert not set(one[common:]) & set(other[common:])


@pytest.mark.parametrize("hasher", HASHERS.values(), ids=HASHERS)
@pytest.mark.parametrize(("name", "key", "page_size"), REFUSED, ids=[case[0] for case in REFUSED])
def test_tokens_that_do_not_fit_are_refused(name: str, key: Key, page_size: int, hasher: Hasher) -> None:
    with pytest.raises((ValueError, struct.error)):
        hasher(key, page_size, None)
    assert len(tuple(hasher(LARGEST, 1, None))) == 2


def test_a_prior_hash_must_be_hex() -> None:
    for prior in ("no hex", "abcd", "x" * 64, "ab" * 33):
        with pytest.raises(ValueError, match="64 digits of hex text"):
            page_hashes(Key(None, (1,)), 1, prior)
    assert chain_start(Domain(1, namespace="lora-a"), "") == KVLITMUS_2.seed(Domain(1, namespace="lora-a"))


@given(KEYS, PAGES)
def test_reference_and_specimen_agree(key: Key, page_size: int) -> None:
    assert page_hashes(key, page_size) == tuple(PageHasher().page_hashes(key, page_size, None))


@given(KEYS, PAGES, st.integers(0, 24))
def test_a_chain_in_pieces_is_the_chain(key: Key, page_size: int, cut: int) -> None:
    whole = page_hashes(key, page_size)
    head, tail = split_key(key, min(cut, len(whole)) * page_size)
    first = page_hashes(head, page_size)
    assert first + page_hashes(tail, page_size, first[-1] if first else None) == whole


@given(KEYS, TOKENS, PAGES)
def test_a_longer_key_begins_with_the_same_hashes(key: Key, more: tuple[int, ...], page_size: int) -> None:
    hashes = page_hashes(key, page_size)
    assert page_hashes(key._replace(tokens=key.tokens + more), page_size)[: len(hashes)] == hashes


@given(KEYS, PAGES, st.integers(0, 23), st.integers(1, 2**32 - 1))
def test_one_other_token_changes_its_page_and_all_later_ones(key: Key, page_size: int, place: int, by: int) -> None:
    if place >= len(key.tokens):
        return
    tokens = [*key.tokens]
    tokens[place] = (tokens[place] + by) % 2**32
    hashes = page_hashes(key, page_size)
    others = page_hashes(key._replace(tokens=tuple(tokens)), page_size)
    common = max(0, place - key.bigram) // page_size
    assert hashes[:common] == others[:common]
    assert not set(hashes[common:]) & set(others[common:])


@given(TOKENS.filter(bool), PAGES)
def test_namespaces_share_nothing(tokens: tuple[int, ...], page_size: int) -> None:
    for own, foreign in FOREIGN:
        assert not set(page_hashes(Key(own, tokens), page_size)) & set(page_hashes(Key(foreign, tokens), page_size))


def test_namespace_and_salt_can_not_be_mistaken_for_each_other() -> None:
    pairs = [("a", None), (None, "a"), ("a", ""), ("", "a"), ("", None), (None, ""), ("a", "b"), ("ab", ""), ("", "")]
    for scheme in SCHEMES.values():
        assert len({scheme.seed(Domain(4, False, *pair)) for pair in pairs}) == len(pairs)


@given(KEYS, PAGES)
def test_the_chain_says_nothing_but_through_the_hash_function(key: Key, page_size: int) -> None:
    """With the identity in place of a hash function, a page's name is everything before it, spelt out."""
    seed = KVLITMUS_2.seed_message(Domain(page_size, key.bigram, key.namespace))
    spelt = page_hashes(key, page_size, digest=lambda data: data)
    for number, name in enumerate(spelt):
        expected = b"kvp" * (number + 1) + seed + encode(key.units[: (number + 1) * page_size])
        assert name == expected.hex()
