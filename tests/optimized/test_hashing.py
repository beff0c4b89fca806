"""Storage names are the spec's, bit by bit, however they are asked for."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import numpy as np

from kvlitmus.conformance.litmus.prefix.hashing_table import LARGEST, REFUSED, VECTORS, Vector
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.hashing import pack_bigrams, page_hashes
from kvlitmus.reference.prefix import hashing as reference
from kvlitmus.spec.words.units import Key


def hashes(key: Key, page_size: int, prior: str | None) -> tuple[str, ...]:
    tokens = np.array(key.tokens, np.int64)
    units = pack_bigrams(tokens) if key.bigram else tokens
    return tuple(page_hashes(units, page_size, key.namespace, prior, bigram=key.bigram))


@pytest.mark.parametrize("vector", VECTORS["kvlitmus-2"], ids=lambda vector: vector.name)
def test_golden_vectors(vector: Vector) -> None:
    assert hashes(vector.key, vector.page_size, vector.prior) == vector.hashes


@pytest.mark.parametrize(("name", "key", "page_size"), REFUSED, ids=[case[0] for case in REFUSED])
def test_tokens_that_do_not_fit_are_refused(name: str, key: Key, page_size: int) -> None:
    with pytest.raises(ValueError, match="a token must be in"):
        hashes(key, page_size, None)
    assert len(hashes(LARGEST, 1, None)) == 2


@given(
    tokens=st.lists(st.integers(0, 2**31 - 1), max_size=40),
    size=st.sampled_from((1, 2, 4)),
    kind=st.sampled_from((np.int32, np.int64, np.uint32)),
    namespace=st.sampled_from((None, "", "lora")),
)
def test_every_type_of_tokens_has_the_same_names(
    tokens: list[int], size: int, kind: type[np.generic], namespace: str | None
) -> None:
    expected = reference.page_hashes(Key(namespace, tuple(tokens)), size)
    assert tuple(page_hashes(np.array(tokens, kind), size, namespace)) == expected


def test_a_prior_must_be_hex() -> None:
    for prior in ("xyz", "abcd", "ab" * 33):
        with pytest.raises(ValueError, match="64 digits of hex text"):
            page_hashes(np.arange(2), 1, None, prior)


def test_a_stored_namespace_is_text() -> None:
    with pytest.raises(TypeError, match="namespace"):
        page_hashes(np.arange(2), 1, 7)


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=8),
    bits=st.integers(0, 2**40),
    size=st.sampled_from((1, 2)),
    bigram=st.booleans(),
    asked=st.integers(0, 2**40),
)
def test_the_names_of_paths_survive_growth_and_eviction(
    lengths: list[int], bits: int, size: int, bigram: bool, asked: int
) -> None:
    """Branches keep their digests, and lose those of pages that go."""
    cache = FlatCache(CacheConfig(page_size=size, pages=120, bigram=bigram))
    for number, length in enumerate(lengths):
        namespace = (None, "lora")[bits >> number & 1]
        tokens = [bits >> (at // size) & 1 for at in range(number, number + length * size)]
        expected = reference.page_hashes(Key(namespace, tuple(tokens), bigram), size)
        whole = len(expected)
        pages = cache.pool.take(whole)
        assert pages is not None
        cache.pool.give_back(pages[: cache.insert(tokens, pages, namespace).already])
        match = cache.match(tokens, namespace)
        start = (asked >> (3 * number)) % (whole + 1)
        assert tuple(cache.names.names(match.place, start)) == expected[start:]
        above = cache.tree.ascend(match.place, start)
        assert tuple(cache.names.names_behind(above, cache.units(tokens)[start * size :])) == expected[start:]
        if number % 2:
            cache.evict((asked >> number) % 6 * size)
            assert (
                tuple(cache.names.names(cache.match(tokens, namespace).place))
                == expected[: known(cache, tokens, namespace)]
            )


def known(cache: FlatCache, tokens: list[int], namespace: str | None) -> int:
    return len(cache.match(tokens, namespace).pages)


NAMESPACES = 50_000


def test_nothing_of_a_namespace_is_left_when_it_ends() -> None:
    """As many tenants as there are prompts: each is cached, named and evicted, and another is only asked for."""
    cache = FlatCache(CacheConfig(page_size=4, pages=4))
    tokens = np.arange(8, dtype=np.int32)
    names: set[str] = set()
    held = 0
    for number in range(NAMESPACES):
        if number == NAMESPACES // 10:
            held = sys.getallocatedblocks()
        namespace = f"tenant {number}"
        pages = cache.pool.take(2)
        assert pages is not None
        cache.insert(tokens, pages, namespace)
        found = cache.names.names(cache.match(tokens, namespace).place)
        cache.evict(8)
        asked = cache.names.names_behind(cache.match(tokens, f"stranger {number}").place, cache.units(tokens))
        if number < 100:
            names.update(found, asked)
    grown = sys.getallocatedblocks() - held
    assert len(names) == 400
    assert not cache.tree.opened().roots
    assert grown < NAMESPACES // 100, "objects that are kept"


def test_a_name_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for a path again, or for a longer one, hashes what is new."""
    from kvlitmus.optimized import hashing, sha

    hashed: list[int] = []
    digests = sha.digests

    def counted(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
        hashed.append(len(data) // width)
        return digests(data, width, before, tag)

    monkeypatch.setattr(hashing, "digests", counted)
    cache = FlatCache(CacheConfig(page_size=4, pages=64))
    tokens = np.arange(128, dtype=np.int32)
    pages = cache.pool.take(32)
    assert pages is not None
    cache.insert(tokens[:64], pages[:16])
    first = cache.names.names(cache.match(tokens).place)
    cache.insert(tokens, pages)
    place = cache.match(tokens).place
    assert cache.names.names(place)[:16] == first == cache.names.names(cache.tree.ascend(place, 16))
    assert hashed == [16, 16]
