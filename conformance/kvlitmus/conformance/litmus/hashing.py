"""Litmus tests on page hashes: the vectors and pairs of :mod:`~.hash_vectors`, judged."""

from __future__ import annotations

from kvlitmus.conformance.calls import hashing
from kvlitmus.conformance.judge import Judge
from kvlitmus.conformance.litmus.hash_vectors import FOREIGN, LARGEST, PAIRS, REFUSED, VECTORS
from kvlitmus.conformance.litmus.registry import litmus


@litmus(rules=("HASH-01", "HASH-02", "HASH-03", "HASH-07", "HASH-08"), needs=("hashes",))
def known_keys_have_known_hashes(judge: Judge) -> None:
    """Keys with and without tail, bigrams and named namespaces are hashed as every other implementation hashes them."""
    for vector in VECTORS:
        hashing.hashes(judge, vector.key, vector.page_size, vector.prior)
    hashing.hashes(judge, LARGEST, 1)


@litmus(rules=("HASH-04",), needs=("hashes",))
def keys_agree_as_far_as_their_pages_do(judge: Judge) -> None:
    """Two keys share the hashes of their common whole pages, and none after the first page that differs."""
    for pair in PAIRS:
        hashing.pair(judge, pair.key, pair.other, pair.page_size)


@litmus(rules=("HASH-05",), needs=("hashes",))
def a_chain_goes_on_where_it_was_left(judge: Judge) -> None:
    """A key that is hashed in two calls has the hashes of the key that is hashed in one."""
    for vector in VECTORS:
        for pages in range(3):
            hashing.pieces(judge, vector.key, vector.page_size, pages)


@litmus(rules=("HASH-06",), needs=("hashes",))
def tenants_share_no_hash(judge: Judge) -> None:
    """The same tokens in two namespaces have no hash in common, also where the names are nearly alike."""
    for own, foreign in FOREIGN:
        hashing.namespaces(judge, LARGEST._replace(namespace=own), foreign, 1)


@litmus(rules=("HASH-08",), needs=("hashes",))
def tokens_that_do_not_fit_are_refused(judge: Judge) -> None:
    """A token that 4 bytes can't hold is an error, not another token."""
    for _, key, page_size in REFUSED:
        hashing.hashes(judge, key, page_size)
