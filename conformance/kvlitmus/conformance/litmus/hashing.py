"""Litmus tests on page hashes: golden vectors, and pairs of keys that must or must not agree."""

from __future__ import annotations

from kvlitmus.conformance.calls import pure
from kvlitmus.conformance.judge import Judge
from kvlitmus.conformance.litmus.hashing_table import FOREIGN, LARGEST, PAIRS, REFUSED, VECTORS
from kvlitmus.conformance.litmus.registry import litmus

HASHES = ("hashes",)


@litmus(rules=("HASH-01", "HASH-02", "HASH-03", "HASH-07"), needs=HASHES, once=True)
def keys_with_known_hashes(judge: Judge) -> None:
    """The golden vectors come out as they are written."""
    for vector in VECTORS:
        pure.hashes(judge, vector.key, vector.page_size, vector.prior)


@litmus(rules=("HASH-04",), needs=HASHES, once=True)
def keys_agree_on_their_common_pages(judge: Judge) -> None:
    """The hashes of two keys agree exactly on the pages that both have in common from the beginning."""
    for pair in PAIRS:
        pure.hash_pair(judge, pair.key, pair.other, pair.page_size)


@litmus(rules=("HASH-05",), needs=HASHES, once=True)
def hashing_goes_on_where_it_was_left(judge: Judge) -> None:
    """A key that is hashed in two calls gets the hashes that it gets in one."""
    for vector in VECTORS:
        for pages in (0, 1, 2):
            if not vector.prior:
                pure.hash_pieces(judge, vector.key, vector.page_size, pages)


@litmus(rules=("HASH-06",), needs=HASHES, once=True)
def namespaces_share_no_hash(judge: Judge) -> None:
    """The same tokens in another namespace have other hashes."""
    for namespace, foreign in FOREIGN:
        pure.hash_namespaces(judge, VECTORS[1].key._replace(namespace=namespace), foreign, 4)


@litmus(rules=("HASH-08",), needs=HASHES, once=True)
def tokens_of_more_than_32_bits_are_refused(judge: Judge) -> None:
    """A token that does not fit is an error, and the largest that fits is none."""
    for _, key, page_size in REFUSED:
        pure.hashes(judge, key, page_size)
    pure.hashes(judge, LARGEST, 2)
