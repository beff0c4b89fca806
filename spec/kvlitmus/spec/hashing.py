"""Page hashes: under which name the KV of a page is stored outside the machine.

Storage that several machines share can't know their trees, so a page is stored under a name
that anybody can compute: a **page hash**.  The KV of a page depends on its tokens and on
everything before them; so the hash of a page covers its own tokens and the hash of the page
before it, and through that one the whole prefix.  These hashes form a **chain**: equal prefixes
have equal hashes, and the first page that differs makes all later ones differ.

The hash of one page is ``SHA-256(previous ‖ units)``, written as 64 lower-case hex digits.
*previous* is the hash of the page before as 32 raw bytes, nothing for the first page.  A token
is 4 bytes, unsigned, little-endian; a bigram is its two tokens, one after the other.

Two tenants (LoRA adapters, cache salts) may send the same tokens and must not find each other's
KV: the chain of a named namespace begins with a **seed** in place of a previous hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from kvlitmus.spec.facts import define
from kvlitmus.spec.rule import Kind, Strength, rule
from kvlitmus.spec.units import Tokens, Unit, same

HASH_DIGITS = 64
"""The length of a page hash, in hex digits."""

TOKEN_LIMIT = 2**32
"""Tokens are below this, so that each fits 4 bytes."""

SEED_PREFIX = b"sglang-cache-namespace-v1"
"""What the seed of a namespace begins with; the same as upstream, so that stores can be shared."""

HashFunction = Callable[[bytes], bytes]
"""From any bytes to a digest; SHA-256 outside proofs."""


def sha256(data: bytes) -> bytes:
    """The SHA-256 digest, 32 raw bytes."""
    return hashlib.sha256(data).digest()


def encode(units: Sequence[Unit]) -> bytes:
    """The bytes of some units: 4 little-endian bytes per token, both tokens of a bigram.

    Raises ``ValueError`` for a token outside ``[0, 2**32)``: cut down to 4 bytes it would collide with another.
    """
    tokens = [token for unit in units for token in (unit if isinstance(unit, tuple) else (unit,))]
    for token in tokens:
        if not 0 <= token < TOKEN_LIMIT:
            raise ValueError(f"a token must be in [0, 2**32) to be hashed (got {token})", token)
    return b"".join([token.to_bytes(4, "little") for token in tokens])


def namespace_seed(namespace: str | None, salt: str | None = None, digest: HashFunction = sha256) -> bytes:
    """What the chain of a namespace begins with: 32 raw bytes, none for the default namespace.

    Each of the two parts is one byte 0 when absent; else one byte 1, the length of its UTF-8
    form in 8 little-endian bytes, and that form.  So no two pairs have the same bytes.
    """
    if namespace is None and salt is None:
        return b""
    data = SEED_PREFIX
    for part in (namespace, salt):
        text = b"" if part is None else part.encode()
        data += b"\0" if part is None else b"\1" + len(text).to_bytes(8, "little") + text
    return digest(data)


def event_number(page_hash: str) -> int:
    """The number that stands for a page hash in cache events: its first 16 hex digits as a signed 64-bit integer."""
    number = int(page_hash[:16], 16)
    return number - 2**64 if number >= 2**63 else number


define(
    0,
    {
        "hashes": "the page hashes that were answered, in order",
        "page_units": "the units of each whole page of the hashed key, in order",
        "chain_start": "what precedes the first page, raw: the hash passed in, or the seed of the namespace",
        "seeded": "whether the chain begins with the seed of a named namespace",
        "hash_function": "the hash function: SHA-256 outside proofs",
        "hashes_in_pieces": "the page hashes of the same key from two calls, the second going on from the first",
        "other_hashes": "the page hashes of another key of the same namespace",
        "common_pages": "how many leading whole pages the two keys have in common",
        "foreign_hashes": "the page hashes of the same units in another namespace",
        "hashable": "whether every token of the key's whole pages is in [0, 2**32)",
        "hashing_raised": "whether computing the hashes raised",
    },
)


@rule(
    "HASH-01",
    kind=Kind.STEP,
    on=("page_hashes",),
    source="R-HASH-01, R-HASH-02; vllm#12621, sglang#17193",
    reference="hashing.page_hashes",
    allowed="SHA-256 of the page before (raw) and the units of {page_units}, each token in 4 little-endian bytes",
)
def a_page_hash_covers_the_page_before_and_its_own_units(
    hashes: Sequence[str],
    page_units: Sequence[Sequence[Unit]],
    chain_start: bytes,
    seeded: bool,
    hash_function: HashFunction,
) -> bool:
    """The hash of a page MUST be the SHA-256 of the raw hash of the page before it and of the page's units, 4 unsigned
    little-endian bytes per token, both tokens of a bigram.
    """
    before: bytes | None = None if seeded else chain_start
    for seen, units in zip(hashes, page_units, strict=False):
        if before is not None and seen.lower() != hash_function(before + encode(units)).hex():
            return False
        before = raw(seen)
        if before is None:
            return False
    return True


@rule(
    "HASH-02",
    kind=Kind.STEP,
    on=("page_hashes",),
    source="R-HASH-02; kvcached#451",
    reference="hashing.page_hashes",
    allowed="{key_length} // {page_size} hashes",
)
def there_is_one_hash_for_each_whole_page(hashes: Sequence[str], key_length: Tokens, page_size: int) -> bool:
    """A key MUST have exactly one hash for each of its whole pages, and none for a tail that fills no page."""
    return len(hashes) == key_length // page_size


@rule(
    "HASH-03",
    kind=Kind.STEP,
    on=("page_hashes",),
    source="R-HASH-01; vllm#12621, LMCache#3301",
    reference="hashing.page_hashes",
    allowed="64 lower-case hex digits each",
)
def a_page_hash_is_64_lower_case_hex_digits(hashes: Sequence[str]) -> bool:
    """A page hash MUST be written as 64 lower-case hex digits: nothing of the digest is cut off, and names are
    compared as text.
    """
    return all(len(one) == HASH_DIGITS and set(one) <= set("0123456789abcdef") for one in hashes)


@rule(
    "HASH-04",
    kind=Kind.STEP,
    on=("hash_pair",),
    source="R-HASH-03; sglang#17265",
    reference="hashing.page_hashes",
    allowed="the same hashes for the first {common_pages} pages, and different ones after them",
)
def two_keys_share_the_hashes_of_their_common_pages(
    hashes: Sequence[str], other_hashes: Sequence[str], common_pages: int
) -> bool:
    """The hashes of two keys MUST be equal on their common leading whole pages and on no page after them."""
    alike = [seen == other for seen, other in zip(hashes, other_hashes, strict=False)]
    return same(hashes[:common_pages], other_hashes[:common_pages]) and not any(alike[common_pages:])


@rule(
    "HASH-05",
    kind=Kind.STEP,
    on=("hash_pieces",),
    source="R-HASH-02; vllm#58119",
    reference="hashing.page_hashes",
    allowed="the hashes of the key in one piece: {hashes}",
)
def a_chain_can_be_computed_in_pieces(hashes: Sequence[str], hashes_in_pieces: Sequence[str]) -> bool:
    """The hashes of a key MUST NOT depend on how its pages are split over nodes or calls: going on from the last hash
    gives the same chain.
    """
    return same(hashes, hashes_in_pieces)


@rule(
    "HASH-06",
    kind=Kind.STEP,
    on=("hash_namespaces",),
    source="R-HASH-04; sglang#26747, vllm#54342",
    reference="hashing.chain_start",
    allowed="no hash in common with another namespace",
)
def namespaces_share_no_hash(hashes: Sequence[str], foreign_hashes: Sequence[str]) -> bool:
    """The same units in two namespaces MUST NOT have a hash in common."""
    return set(hashes).isdisjoint(foreign_hashes)


@rule(
    "HASH-07",
    kind=Kind.STEP,
    on=("page_hashes",),
    strength=Strength.SHOULD,
    source="R-HASH-04",
    reference="hashing.chain_start",
    allowed="a first page that follows the seed of the namespace",
)
def a_named_namespace_begins_with_its_seed(
    hashes: Sequence[str],
    page_units: Sequence[Sequence[Unit]],
    chain_start: bytes,
    seeded: bool,
    hash_function: HashFunction,
) -> bool:
    """The chain of a named namespace SHOULD begin with the seed of version 1, so that stores can be shared; the
    default namespace has none.
    """
    if not (seeded and hashes and page_units):
        return True
    return hashes[0].lower() == hash_function(chain_start + encode(page_units[0])).hex()


@rule(
    "HASH-08",
    kind=Kind.STEP,
    on=("page_hashes", "hash_refusal"),
    source="R-HASH-07",
    reference="hashing.page_hashes",
    allowed="an error if and only if a token is outside [0, 2**32)",
)
def only_tokens_of_32_bits_are_hashed(hashable: bool, hashing_raised: bool) -> bool:
    """A page with a token outside [0, 2**32) MUST be refused with an error, and no other page may be."""
    return hashing_raised == (not hashable)


def raw(page_hash: str | None) -> bytes | None:
    """A hash as raw bytes; none for no hash (``None`` or empty); ``None`` where it is no hex text."""
    try:
        return bytes.fromhex(page_hash or "")
    except ValueError:
        return None
