"""Litmus tests on page hashes: golden vectors, pairs of keys that must or must not agree, and crafted prompts."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pure
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.prefix.hashing_table import FOREIGN, LARGEST, PAIRS, REFUSED, VECTORS, Vector
from kvlitmus.conformance.litmus.prefix.spelling import across, within
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.schemes import KVLITMUS_2
from kvlitmus.spec.words.units import Key

HASHES = ("hashes",)
EIGHT = Key(None, tuple(range(1, 9)))


def vectors(checker: Checker) -> tuple[Vector, ...]:
    """Those of the declared scheme; of a scheme that isn't known, keys alone matter, and only hashes of its own."""
    known = VECTORS.get(checker.profile.hash_scheme)
    return known or tuple([one for one in VECTORS[KVLITMUS_2.name] if not one.prior])


@litmus(rules=("HASH-01", "HASH-02", "HASH-03", "HASH-07", "HASH-09"), needs=HASHES, once=True)
def keys_with_known_hashes(checker: Checker) -> None:
    """The golden vectors of the declared scheme come out as they are written."""
    for vector in vectors(checker):
        pure.hashes(checker, vector.key, vector.page_size, vector.prior)


@litmus(rules=("HASH-04",), needs=HASHES, once=True)
def keys_agree_on_their_common_pages(checker: Checker) -> None:
    """The hashes of two keys agree exactly on the pages that both have in common from the beginning."""
    for pair in PAIRS:
        pure.hash_pair(checker, pair.key, pair.other, pair.page_size)


@litmus(rules=("HASH-05",), needs=HASHES, once=True)
def hashing_goes_on_where_it_was_left(checker: Checker) -> None:
    """A key that is hashed in two calls gets the hashes that it gets in one."""
    for vector in vectors(checker):
        for pages in (0, 1, 2):
            if not vector.prior:
                pure.hash_pieces(checker, vector.key, vector.page_size, pages)


@litmus(rules=("HASH-06",), needs=HASHES, once=True)
def namespaces_share_no_hash(checker: Checker) -> None:
    """The same tokens in another namespace have other hashes."""
    for namespace, foreign in FOREIGN:
        pure.hash_namespaces(checker, EIGHT._replace(namespace=namespace), foreign, 4)


@litmus(rules=("HASH-08",), needs=HASHES, once=True)
def tokens_of_more_than_32_bits_are_refused(checker: Checker) -> None:
    """A token that does not fit is an error, and the largest that fits is none."""
    for _, key, page_size in REFUSED:
        pure.hashes(checker, key, page_size)
    pure.hashes(checker, LARGEST, 2)


@litmus(rules=("HASH-09",), needs=HASHES, once=True)
def a_prompt_spells_what_is_hashed_for_another_tenant(checker: Checker) -> None:
    """A prompt begins with the very bytes that are hashed for a tenant's seed, and goes on with the tenant's tokens."""
    for spelt in within():
        pure.hashes(checker, spelt.victim, spelt.victim_page)
        pure.hashes(checker, spelt.prompt, spelt.page)


@litmus(rules=("HASH-10",), needs=HASHES, once=True)
def a_page_spells_what_is_hashed_for_a_page_of_another_size(checker: Checker) -> None:
    """Pages of other sizes or of bigrams with the same bytes, and with those of a smaller page and what precedes it."""
    for page_size in (1, 2, 4):
        pure.hashes(checker, EIGHT, page_size)
    for page_size in (1, 2):
        pure.hashes(checker, EIGHT._replace(bigram=True), page_size)
    for spelt in across():
        pure.hashes(checker, spelt.victim, spelt.victim_page)
        pure.hashes(checker, spelt.prompt, spelt.page)
