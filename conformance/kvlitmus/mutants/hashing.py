"""Slips of the page-hash chain, and a legal variation of it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from kvlitmus.conformance.specimen.hashing import PageHasher
from kvlitmus.mutants.slip import Slip, register
from kvlitmus.spec.units import Key

_GITHUB = "https://github.com/"


class SixteenBits(PageHasher):
    """Only two bytes of the digest are kept: keys of strangers collide, and nothing compares the tokens."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return super().digest(before, page)[:2]


class TokensForBigrams(PageHasher):
    """With speculative decoding the reader hashes raw tokens while the writer hashes bigrams: storage is never hit."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return super().page_hashes(key._replace(bigram=False), page_size, prior)


class NamespaceIgnored(PageHasher):
    """The hash is made of the tokens alone: one tenant is served the KV of another."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(None, page_size, bigram)


class SixteenBitNamespace(PageHasher):
    """The namespace is cut down to 16 bits before it is hashed: a few hundred tenants are enough for two to collide."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(None if namespace is None else namespace[-2:], page_size, bigram)


class ChainRestarted(PageHasher):
    """The hash of what precedes is dropped: a page is stored under the name of the same tokens at position 0.

    Upstream's 0.5.13 did it below nodes that were cached before storage was attached.
    """

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return super().page_hashes(key, page_size, None)


class FirstAsParent(PageHasher):
    """The chain follows the first page in place of the one before: pages after the second lose what lies between."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        hashes = [*super().page_hashes(key, page_size, prior)]
        for page in range(2, len(hashes)):
            start = page * page_size
            tokens = key.tokens[start : start + page_size + key.bigram]
            hashes[page] = super().page_hashes(key._replace(tokens=tokens), page_size, hashes[0])[0]
        return hashes


class PagesAlone(PageHasher):
    """Each page is hashed by itself: the same tokens after another beginning get the same name."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return super().digest(b"", page)


class HexAsText(PageHasher):
    """The hash before is fed in as hex text, not as raw bytes: no other implementation finds these pages."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return super().digest(before.hex().encode(), page)


class UpperCase(PageHasher):
    """Hashes are written in upper case: stores compare names as text, and nothing is found."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return [one.upper() for one in super().page_hashes(key, page_size, prior)]


class FinerPages(PageHasher):
    """Hashes are computed for smaller blocks than pages and then looked up by page number: pages get the name of half
    their prefix.
    """

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return super().page_hashes(key, max(1, page_size // 2), prior)


class TailHashed(PageHasher):
    """The tail that fills no page is hashed as if it were one: the reader asks for a page that nobody ever wrote."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        hashes = [*super().page_hashes(key, page_size, prior)]
        tail = key.tokens[len(hashes) * page_size :]
        if len(tail) > key.bigram and len(tail) - key.bigram < page_size:
            before = bytes.fromhex(hashes[-1]) if hashes else self.seed(key.namespace, page_size, key.bigram)
            hashes.append(self.digest(before, struct.pack(f"<{len(tail)}I", *tail)).hex())
        return hashes


class LowBitsOnly(PageHasher):
    """Tokens are masked to 32 bits before they are packed: a wrong token is hashed as if it were another one."""

    def pack(self, key: Key, page_size: int) -> bytes:
        return super().pack(key._replace(tokens=tuple(token & 0xFFFFFFFF for token in key.tokens)), page_size)


class ShortTokens(PageHasher):
    """Tokens are masked to 16 bits: vocabularies have outgrown that, and different prompts share a name."""

    def pack(self, key: Key, page_size: int) -> bytes:
        super().pack(key, page_size)
        return super().pack(key._replace(tokens=tuple(token & 0xFFFF for token in key.tokens)), page_size)


class BigEndian(PageHasher):
    """Tokens are packed in the byte order of the network: right on one machine, lost between two."""

    def pack(self, key: Key, page_size: int) -> bytes:
        packed = super().pack(key, page_size)
        return b"".join(packed[place : place + 4][::-1] for place in range(0, len(packed), 4))


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


class Upstreams(NoTags):
    """SGLang's scheme: a prompt of no tenant spells the seed of a tenant, reads the tenant's pages and poisons them."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        if namespace is None:
            return b""
        return hashlib.sha256(b"sglang-cache-namespace-v1" + self.text(namespace) + b"\0").digest()


class AnyPageSize(PageHasher):
    """Neither page size nor kind of units is in the name: in a store that two servers share, a page of two tokens has
    the name of a bigram.
    """

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(namespace, 0, False)


class TokenByToken(PageHasher):
    """Feeds the hash token by token: slower, and the same."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        running = hashlib.sha256(b"kvp" + before)
        for place in range(0, len(page), 4):
            running.update(page[place : place + 4])
        return running.digest()


class Personal(PageHasher):
    """Another scheme: BLAKE2b, which takes a purpose besides the message, names of 160 bits, numbers as text."""

    def digest(self, before: bytes, page: bytes) -> bytes:
        return hashlib.blake2b(before + page, digest_size=20, person=b"page").digest()

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        text = repr((namespace, page_size, bigram)).encode()
        return hashlib.blake2b(text, digest_size=20, person=b"seed").digest()


SLIPS: tuple[Slip[PageHasher], ...] = (
    Slip("hash-16-bits", SixteenBits, ("V04",), (_GITHUB + "vllm-project/vllm/pull/12621",), ("HASH-01", "HASH-03")),
    Slip(
        "hash-tokens-for-bigrams",
        TokensForBigrams,
        ("S31", "H-61"),
        (_GITHUB + "sgl-project/sglang/pull/17193", _GITHUB + "sgl-project/sglang/pull/19570"),
        ("HASH-01", "HASH-02", "HASH-04"),
    ),
    Slip(
        "hash-namespace-ignored",
        NamespaceIgnored,
        ("V25", "H-13"),
        (_GITHUB + "vllm-project/vllm/pull/54342", _GITHUB + "sgl-project/sglang/issues/26747"),
        ("HASH-06",),
    ),
    Slip(
        "hash-16-bit-namespace",
        SixteenBitNamespace,
        ("L07",),
        (_GITHUB + "LMCache/LMCache/issues/3301",),
        ("HASH-06", "HASH-07"),
    ),
    Slip(
        "hash-chain-restarted",
        ChainRestarted,
        ("H-14",),
        (),
        ("HASH-01", "HASH-05"),
    ),
    Slip(
        "hash-first-as-parent",
        FirstAsParent,
        (),
        (_GITHUB + "vllm-project/vllm/issues/58119",),
        ("HASH-01", "HASH-05"),
    ),
    Slip(
        "hash-pages-alone", PagesAlone, ("V25",), (_GITHUB + "vllm-project/vllm/issues/53194",), ("HASH-01", "HASH-04")
    ),
    Slip("hash-hex-as-text", HexAsText, (), (), ("HASH-01",)),
    Slip("hash-upper-case", UpperCase, (), (), ("HASH-03",)),
    Slip(
        "hash-finer-pages", FinerPages, ("V26",), (_GITHUB + "ovg-project/kvcached/pull/451",), ("HASH-01", "HASH-02")
    ),
    Slip("hash-tail", TailHashed, ("H-61",), (_GITHUB + "sgl-project/sglang/pull/19570",), ("HASH-02",)),
    Slip("hash-low-bits-only", LowBitsOnly, (), (_GITHUB + "LMCache/LMCache/issues/3301",), ("HASH-08",)),
    Slip(
        "hash-short-tokens",
        ShortTokens,
        (),
        (_GITHUB + "LMCache/LMCache/issues/3301",),
        ("HASH-01", "HASH-04"),
    ),
    Slip("hash-big-endian", BigEndian, (), (), ("HASH-01",)),
    Slip("hash-no-tags", NoTags, (), (), ("HASH-09",)),
    Slip("hash-upstreams", Upstreams, (), (), ("HASH-09",), scheme="sglang-1"),
    Slip("hash-upstreams-undeclared", Upstreams, (), (), ("HASH-09",), scheme="one's own"),
    Slip("hash-any-page-size", AnyPageSize, (), (_GITHUB + "ovg-project/kvcached/pull/451",), ("HASH-10",)),
)
"""Every slip of the chain; one without ``bugs`` is a mistake that the form of the chain invites."""

VARIATIONS: tuple[Slip[PageHasher], ...] = (
    Slip("null-hash-token-by-token", TokenByToken),
    Slip("null-hash-blake2b", Personal, scheme="one's own"),
)
"""Legal variations: no rule may object."""

register(SLIPS, VARIATIONS, slot="hashing")
