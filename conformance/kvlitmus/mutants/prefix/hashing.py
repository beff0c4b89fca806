"""Mutants of the page-hash chain, and legal variations of it.

One without ``bugs`` is a mistake that the form of the chain invites.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.units import Key

_GITHUB = "https://github.com/"


@mutant("hash-16-bits", bugs=("V04",), links=(_GITHUB + "vllm-project/vllm/pull/12621",), kills=("HASH-01", "HASH-03"))
class SixteenBits(PageHasher):
    """Only two bytes of the digest are kept: keys of strangers collide, and nothing compares the tokens."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return super().digest(before, page)[:2]


@mutant(
    "hash-tokens-for-bigrams",
    bugs=("S31", "H-61"),
    links=(_GITHUB + "sgl-project/sglang/pull/17193", _GITHUB + "sgl-project/sglang/pull/19570"),
    kills=("HASH-01", "HASH-02", "HASH-04"),
)
class TokensForBigrams(PageHasher):
    """With speculative decoding the reader hashes raw tokens while the writer hashes bigrams: storage is never hit."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return super().page_hashes(key._replace(bigram=False), page_size, prior)


@mutant(
    "hash-namespace-ignored",
    bugs=("V25", "H-13"),
    links=(_GITHUB + "vllm-project/vllm/pull/54342", _GITHUB + "sgl-project/sglang/issues/26747"),
    kills=("HASH-06",),
)
class NamespaceIgnored(PageHasher):
    """The hash is made of the tokens alone: one tenant is served the KV of another."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(None, page_size, bigram)


@mutant(
    "hash-16-bit-namespace",
    bugs=("L07",),
    links=(_GITHUB + "LMCache/LMCache/issues/3301",),
    kills=("HASH-06", "HASH-07"),
)
class SixteenBitNamespace(PageHasher):
    """The namespace is cut down to 16 bits before it is hashed: a few hundred tenants are enough for two to collide."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(None if namespace is None else namespace[-2:], page_size, bigram)


@mutant("hash-chain-restarted", bugs=("H-14",), kills=("HASH-01", "HASH-05"))
class ChainRestarted(PageHasher):
    """The hash of what precedes is dropped: a page is stored under the name of the same tokens at position 0.

    Upstream's 0.5.13 did it below nodes that were cached before storage was attached.
    """

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return super().page_hashes(key, page_size, None)


@mutant("hash-first-as-parent", links=(_GITHUB + "vllm-project/vllm/issues/58119",), kills=("HASH-01", "HASH-05"))
class FirstAsParent(PageHasher):
    """The chain follows the first page in place of the one before: pages after the second lose what lies between."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        hashes = [*super().page_hashes(key, page_size, prior)]
        for page in range(2, len(hashes)):
            start = page * page_size
            tokens = key.tokens[start : start + page_size + key.bigram]
            hashes[page] = super().page_hashes(key._replace(tokens=tokens), page_size, hashes[0])[0]
        return hashes


@mutant(
    "hash-pages-alone",
    bugs=("V25",),
    links=(_GITHUB + "vllm-project/vllm/issues/53194",),
    kills=("HASH-01", "HASH-04"),
)
class PagesAlone(PageHasher):
    """Each page is hashed by itself: the same tokens after another beginning get the same name."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return super().digest(b"", page)


@mutant("hash-hex-as-text", kills=("HASH-01",))
class HexAsText(PageHasher):
    """The hash before is fed in as hex text, not as raw bytes: no other implementation finds these pages."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return super().digest(before.hex().encode(), page)


@mutant("hash-upper-case", kills=("HASH-03",))
class UpperCase(PageHasher):
    """Hashes are written in upper case: stores compare names as text, and nothing is found."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return [one.upper() for one in super().page_hashes(key, page_size, prior)]


@mutant(
    "hash-finer-pages",
    bugs=("V26",),
    links=(_GITHUB + "ovg-project/kvcached/pull/451",),
    kills=("HASH-01", "HASH-02"),
)
class FinerPages(PageHasher):
    """Hashes are computed for smaller blocks than pages and then looked up by page number: pages get the name of half
    their prefix.
    """

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return super().page_hashes(key, max(1, page_size // 2), prior)


@mutant("hash-tail", bugs=("H-61",), links=(_GITHUB + "sgl-project/sglang/pull/19570",), kills=("HASH-02",))
class TailHashed(PageHasher):
    """The tail that fills no page is hashed as if it were one: the reader asks for a page that nobody ever wrote."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        hashes = [*super().page_hashes(key, page_size, prior)]
        tail = key.tokens[len(hashes) * page_size :]
        if len(tail) > key.bigram and len(tail) - key.bigram < page_size:
            before = bytes.fromhex(hashes[-1]) if hashes else self.seed(key.namespace, page_size, key.bigram)
            hashes.append(self.digest(before, struct.pack(f"<{len(tail)}I", *tail)).hex())
        return hashes


@mutant("hash-low-bits-only", links=(_GITHUB + "LMCache/LMCache/issues/3301",), kills=("HASH-08",))
class LowBitsOnly(PageHasher):
    """Tokens are masked to 32 bits before they are packed: a wrong token is hashed as if it were another one."""

    def pack(self, key: Key, page_size: int) -> bytes:
        return super().pack(key._replace(tokens=tuple(token & 0xFFFFFFFF for token in key.tokens)), page_size)


@mutant("hash-short-tokens", links=(_GITHUB + "LMCache/LMCache/issues/3301",), kills=("HASH-01", "HASH-04"))
class ShortTokens(PageHasher):
    """Tokens are masked to 16 bits: vocabularies have outgrown that, and different prompts share a name."""

    def pack(self, key: Key, page_size: int) -> bytes:
        super().pack(key, page_size)
        return super().pack(key._replace(tokens=tuple(token & 0xFFFF for token in key.tokens)), page_size)


@mutant("hash-big-endian", kills=("HASH-01",))
class BigEndian(PageHasher):
    """Tokens are packed in the byte order of the network: right on one machine, lost between two."""

    def pack(self, key: Key, page_size: int) -> bytes:
        packed = super().pack(key, page_size)
        return b"".join(packed[place : place + 4][::-1] for place in range(0, len(packed), 4))


@mutant("hash-no-tags", kills=("HASH-09",))
class NoTags(PageHasher):
    """Seeds and pages are hashed alike, and the default namespace has no seed: a prompt whose first page spells what
    another tenant's seed is made of has pages named like that tenant's.
    """

    def digest(self, before: bytes, page: bytes) -> bytes:
        return hashlib.sha256(before + page).digest()

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        if namespace is None:
            return b""
        texts = map(self.text, ("kvlitmus-2", str(page_size), "bigram" if bigram else "token", namespace))
        return hashlib.sha256(b"".join(texts) + b"\0").digest()


@mutant("hash-upstreams-undeclared", kills=("HASH-09",), profile=replace(PROFILE, hash_scheme="one's own"))
@mutant("hash-upstreams", kills=("HASH-09",), profile=replace(PROFILE, hash_scheme="sglang-1"))
class Upstreams(NoTags):
    """SGLang's scheme: a prompt of no tenant spells the seed of a tenant, reads the tenant's pages and poisons them."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        if namespace is None:
            return b""
        return hashlib.sha256(b"sglang-cache-namespace-v1" + self.text(namespace) + b"\0").digest()


@mutant("hash-any-page-size", links=(_GITHUB + "ovg-project/kvcached/pull/451",), kills=("HASH-10",))
class AnyPageSize(PageHasher):
    """Neither page size nor kind of units is in the name: in a store that two servers share, a page of two tokens has
    the name of a bigram.
    """

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(namespace, 0, False)


@null_mutant("null-hash-token-by-token")
class TokenByToken(PageHasher):
    """Feeds the hash token by token: slower, and the same."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        running = hashlib.sha256(b"kvp" + before)
        for place in range(0, len(page), 4):
            running.update(page[place : place + 4])
        return running.digest()


@null_mutant("null-hash-blake2b", profile=replace(PROFILE, hash_scheme="one's own"))
class Personal(PageHasher):
    """Another scheme: BLAKE2b, which takes a purpose besides the message, names of 160 bits, numbers as text."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return hashlib.blake2b(before + page, digest_size=20, person=b"page").digest()

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        text = repr((namespace, page_size, bigram)).encode()
        return hashlib.blake2b(text, digest_size=20, person=b"seed").digest()
