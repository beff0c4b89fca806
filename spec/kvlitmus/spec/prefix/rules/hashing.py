"""Page hashes: under which name the KV of a page is stored outside the machine.

How names are made is the affair of a **scheme** (:mod:`kvlitmus.spec.words.schemes`), which a cache declares by name.  Where it
is known, its bytes are judged (HASH-01, HASH-03, HASH-07), so that stores can be shared.  Known or not, its laws are: one
name for each page (HASH-02), the same one for the same prefix however it is computed (HASH-04, HASH-05), and for no other
prefix, in no namespace, whatever the tokens (HASH-06, HASH-09, HASH-10).

Two tenants (LoRA adapters, cache salts) may send the same tokens and must not find each other's KV.  Nor may one of them
send tokens that spell what is hashed for another: who can compute the name of a foreign page reads it, and who can write
under that name poisons it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.prefix.hash_calls import CompareHashes, HashLedger, HashPair, PageHashes, TwoHashes
from kvlitmus.spec.prefix.prefetch_plan import PlanPrefetch
from kvlitmus.spec.words.schemes import SCHEMES, Domain, HashFunction, Scheme, ordinary, sha256
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens, Unit, page_floor, same


def event_number(page_hash: str) -> int:
    """The number that stands for a page hash in cache events: its first 16 hex digits as a signed 64-bit integer."""
    number = int(page_hash[:16], 16)
    return number - 2**64 if number >= 2**63 else number


# Facts


@fact(0)
def hashes(answer: tuple[str, ...] | TwoHashes) -> Sequence[str]:
    """The page hashes that were answered, in order."""
    return answer.first if isinstance(answer, TwoHashes) else answer


@fact(0)
def units_per_page(call: PageHashes | PlanPrefetch) -> int:
    """Units in a page, as the call says."""
    return call.page_size


@fact(0)
def hashed_length(call: PageHashes) -> Tokens:
    """Units of the hashed key."""
    return call.key.length


@fact(0)
def page_units(call: PageHashes) -> Sequence[Sequence[Unit]]:
    """The units of each whole page of the hashed key, in order."""
    units, size = call.key.units, call.page_size
    return [units[start : start + size] for start in range(0, page_floor(len(units), size), size)]


@fact(0, ports=("scheme",))
def scheme(setting: Setting) -> Scheme:
    """The scheme of page names that the profile declares."""
    return SCHEMES[setting.profile.hash_scheme]


@fact(0)
def hash_function() -> HashFunction:
    """The hash function: SHA-256 outside proofs."""
    return sha256


@fact(0)
def chain_start(call: PageHashes, scheme: Scheme, hash_function: HashFunction) -> bytes | None:
    """What precedes the first page, raw: the hash passed in (None where it is no hex text), or the seed of the domain."""
    if call.prior:
        return raw(call.prior)
    return scheme.seed(Domain(call.page_size, call.key.bigram, call.key.namespace), hash_function)


@fact(0)
def seeded(call: PageHashes) -> bool:
    """Whether the chain begins with the seed of a named namespace."""
    return not call.prior and call.key.namespace is not None


@fact(0)
def hashed_prefixes(call: CompareHashes) -> Sequence[Name]:
    """For each page hash: the name of the prefix that it stands for."""
    return call.prefixes


@fact(0)
def bearers(state: HashLedger, call: CompareHashes, hashes: Sequence[str]) -> Mapping[str, Name]:
    """For each page hash answered before, for this page size and kind of units: the prefix it stood for."""
    own = state.of(call.page_size, call.bigram)
    return {one: own[one] for one in hashes if one in own}


@fact(0)
def hashes_elsewhere(state: HashLedger, call: CompareHashes, hashes: Sequence[str]) -> frozenset[str]:
    """The page hashes answered before for other page sizes, or for the other kind of units."""
    others = [known for kind, known in state.bearers.items() if kind != (call.page_size, call.bigram)]
    return frozenset(one for one in hashes if any(one in known for known in others))


@fact(0)
def other_hashes(answer: TwoHashes) -> Sequence[str]:
    """The page hashes that these are compared with: of another key or namespace, or of two calls in a row."""
    return answer.second


@fact(0)
def common_pages(call: HashPair) -> int:
    """How many leading whole pages the two keys have in common."""
    return call.common_pages


@fact(0)
def hashable(call: PageHashes) -> bool:
    """Whether every token of the key's whole pages is in [0, 2**32)."""
    return call.hashable


@fact(0)
def hashing_raised(answer: tuple[str, ...] | Raised) -> bool:
    """Whether computing the hashes raised."""
    return isinstance(answer, Raised)


# Rules

hash_rule = partial(rule, reference="prefix.hashing.page_hashes")
scheme_rule = partial(hash_rule, on=(On.PAGE_HASHES,), needs=("scheme",), premise="hashes")


@scheme_rule(
    "HASH-01",
    source="R-HASH-01, R-HASH-02; vllm#12621, sglang#17193",
    allowed="SHA-256 of the scheme's tag, the page before (raw) and the units of {page_units}, 4 bytes per token",
)
def a_page_hash_covers_the_page_before_and_its_own_units(
    hashes: Sequence[str],
    page_units: Sequence[Sequence[Unit]],
    chain_start: bytes | None,
    seeded: bool,
    scheme: Scheme,
    hash_function: HashFunction,
) -> bool:
    """Under a known scheme the hash of a page MUST be the SHA-256 of the scheme's tag for pages, the raw hash of the
    page before it, and the page's units. For the first page the seed stands in the place of the hash before it. A token
    is 4 unsigned little-endian bytes, a bigram both its tokens.
    """
    before: bytes | None = None if seeded else chain_start
    for seen, units in zip(hashes, page_units, strict=False):
        if before is not None and seen.lower() != hash_function(scheme.page_message(before, units)).hex():
            return False
        before = raw(seen)
        if before is None:
            return False
    return True


@hash_rule(
    "HASH-02",
    on=(On.PAGE_HASHES,),
    source="R-HASH-02; kvcached#451",
    allowed="{hashed_length} // {units_per_page} hashes",
)
def there_is_one_hash_for_each_whole_page(hashes: Sequence[str], hashed_length: Tokens, units_per_page: int) -> bool:
    """A key MUST have exactly one hash for each of its whole pages, and none for a tail that fills no page."""
    return len(hashes) == hashed_length // units_per_page


@scheme_rule("HASH-03", source="R-HASH-01; vllm#12621, LMCache#3301", allowed="64 lower-case hex digits each")
def a_page_hash_is_64_lower_case_hex_digits(hashes: Sequence[str]) -> bool:
    """Under a scheme that is known, a page hash MUST be written as 64 lower-case hex digits: nothing of the digest is cut
    off, and names are compared as text.
    """
    return all(ordinary(one) for one in hashes)


@hash_rule(
    "HASH-04",
    on=(On.HASH_PAIR,),
    source="R-HASH-03; sglang#17265",
    allowed="the same hashes for the first {common_pages} pages, and different ones after them",
    premise="common_pages",
)
def two_keys_share_the_hashes_of_their_common_pages(
    hashes: Sequence[str], other_hashes: Sequence[str], common_pages: int
) -> bool:
    """The hashes of two keys MUST be equal on their common leading whole pages and on no page after them."""
    alike = [seen == other for seen, other in zip(hashes, other_hashes, strict=False)]
    return same(hashes[:common_pages], other_hashes[:common_pages]) and not any(alike[common_pages:])


@hash_rule(
    "HASH-05",
    on=(On.HASH_PIECES,),
    source="R-HASH-02; vllm#58119",
    allowed="the hashes of the key in one piece: {hashes}",
    premise="hashes",
)
def a_chain_can_be_computed_in_pieces(hashes: Sequence[str], other_hashes: Sequence[str]) -> bool:
    """The hashes of a key MUST NOT depend on how its pages are split over nodes or calls: going on from the last hash
    gives the same chain.
    """
    return same(hashes, other_hashes)


@rule(
    "HASH-06",
    on=(On.HASH_NAMESPACES,),
    source="R-HASH-04; sglang#26747, vllm#54342",
    reference="prefix.hashing.chain_start",
    allowed="no hash in common with another namespace",
    premise="hashes",
)
def namespaces_share_no_hash(hashes: Sequence[str], other_hashes: Sequence[str]) -> bool:
    """The same units in two namespaces MUST NOT have a hash in common."""
    return set(hashes).isdisjoint(other_hashes)


@scheme_rule(
    "HASH-07",
    source="R-HASH-04",
    reference="prefix.hashing.chain_start",
    allowed="a first page that follows the seed of the namespace",
)
def a_named_namespace_begins_with_its_seed(
    hashes: Sequence[str],
    page_units: Sequence[Sequence[Unit]],
    chain_start: bytes | None,
    seeded: bool,
    scheme: Scheme,
    hash_function: HashFunction,
) -> bool:
    """Under a scheme that is known, the chain of a named namespace MUST begin with the seed that the scheme has for it,
    so that stores can be shared.
    """
    if not (seeded and hashes and page_units) or chain_start is None:
        return True
    return hashes[0].lower() == hash_function(scheme.page_message(chain_start, page_units[0])).hex()


@hash_rule(
    "HASH-08",
    on=(On.PAGE_HASHES, On.HASH_REFUSAL),
    source="R-HASH-07",
    allowed="an error if and only if a token is outside [0, 2**32)",
)
def only_tokens_of_32_bits_are_hashed(hashable: bool, hashing_raised: bool) -> bool:
    """A page with a token outside [0, 2**32) MUST be refused with an error, and no other page may be."""
    return hashing_raised == (not hashable)


@hash_rule(
    "HASH-09",
    on=(On.HASHED,),
    source="R-HASH-03, R-HASH-04; sglang#26747",
    allowed="names that no other prefix has, in any namespace",
    premise="hashes",
)
def a_name_stands_for_one_prefix(
    hashes: Sequence[str], hashed_prefixes: Sequence[Name], bearers: Mapping[str, Name]
) -> bool:
    """For one page size and one kind of units, a page hash MUST stand for one prefix of one namespace. No prompt,
    whatever its tokens spell, has a page named like a page of another namespace, of another place or of other tokens.
    """
    known = dict(bearers)
    return all(known.setdefault(name, prefix) == prefix for name, prefix in zip(hashes, hashed_prefixes, strict=False))


@hash_rule(
    "HASH-10",
    on=(On.HASHED,),
    strength=Strength.SHOULD,
    source="R-HASH-03; sglang#17193, kvcached#451",
    allowed="names that no page of another size, or of the other kind of units, has",
)
def a_name_stands_for_one_page_size_and_kind_of_units(hashes: Sequence[str], hashes_elsewhere: frozenset[str]) -> bool:
    """Page hashes for different page sizes, and those of tokens and of bigrams, SHOULD have nothing in common, so that a
    store doesn't depend on being told apart otherwise.
    """
    return not any(name in hashes_elsewhere for name in hashes)


def raw(page_hash: str | None) -> bytes | None:
    """A hash as raw bytes; none for no hash (``None`` or empty); ``None`` where it is no hex text."""
    try:
        return bytes.fromhex(page_hash or "")
    except ValueError:
        return None
