"""Schemes of page names: which bytes are hashed, so that a page has a name that anybody can compute.

Storage that several machines share can't know their trees, so a page is stored under a name made from its tokens and
from everything before them.  The names of a key form a **chain**: the name of each page is a digest of the name before
it and of the page's own units.  What comes before the first page is the **seed** of the chain's **domain**: of
everything besides the tokens that decides whether the KV can be used.

A scheme says which **messages** are hashed.  The message of a page is the scheme's tag for pages, the digest before it
as raw bytes, and the page's units: 4 bytes per token, unsigned, little-endian; a bigram is its two tokens, one after the
other.  A name is the digest, SHA-256, in 64 lower-case hex digits.

Two schemes are known here:

``kvlitmus-2``
    Every chain begins with a seed of 32 bytes, the default namespace's too.  Messages of seeds begin with ``kvs``,
    messages of pages with ``kvp``: so no message of one kind is ever one of the other, whatever a prompt or the name of
    a namespace may say, and one name stands for one prefix of one domain as long as the digest has no collision
    (``tests/proofs/prefix/test_page_names.py``).  The seed covers the scheme's name, the page size, the kind of units, the
    namespace and the salt, each with its length.  Tags of three bytes cost SHA-256 no further block at any page
    size, and as upstream's messages of pages are whole words and these never are, no page of one scheme is one of the
    other.

``sglang-1``
    What SGLang 0.5.23 does (0.5.13 as well, without namespaces): no tags, and no seed in the default namespace.  A prompt
    of the default namespace can spell the message of another namespace's seed as its first page, and its further pages
    then have the names of that namespace's pages: HASH-09 is broken.

Whoever has a scheme of their own declares another name; its bytes aren't judged, its laws are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlitmus.spec.words.units import Unit

HASH_DIGITS = 64
"""The length of a page's name, in hex digits."""


def ordinary(name: str) -> bool:
    """Whether this is 64 lower-case hex digits, as a page's name is; every store must take such a key."""
    return len(name) == HASH_DIGITS and set(name) <= set("0123456789abcdef")


TOKEN_LIMIT = 2**32
"""Tokens are below this, so that each fits 4 bytes."""

HashFunction = Callable[[bytes], bytes]
"""From any bytes to a digest; SHA-256 outside proofs."""


class Domain(NamedTuple):
    """What besides the tokens decides whether the KV of a page can be used.

    ``namespace``: the tenant, a LoRA adapter; ``None`` is the default namespace.  ``salt``: further text that keeps
    requests apart.  Texts are any, an empty one is not an absent one.
    """

    page_size: int
    bigram: bool = False
    namespace: str | None = None
    salt: str | None = None


class Scheme(NamedTuple):
    """One scheme: its name, what messages of pages begin with, and the message of a seed (empty: there is no seed)."""

    name: str
    page_tag: bytes
    seed_message: Callable[[Domain], bytes]

    def page_message(self, before: bytes, units: Sequence[Unit]) -> bytes:
        """What is hashed for a page after the raw digest ``before``; see :func:`encode` for errors."""
        return self.page_tag + before + encode(units)

    def seed(self, domain: Domain, digest: HashFunction | None = None) -> bytes:
        """What the chain of a domain begins with, as raw bytes; none where the scheme has no seed."""
        message = self.seed_message(domain)
        return (digest or sha256)(message) if message else b""


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


def part(text: str | None, errors: str = "surrogatepass") -> bytes:
    """A text with its length: one byte 0 when absent; else one byte 1, the length of its UTF-8 form in 8 little-endian
    bytes, and that form.  So no two lists of texts have the same bytes.
    """
    if text is None:
        return b"\0"
    form = text.encode("utf-8", errors)
    return b"\1" + len(form).to_bytes(8, "little") + form


def _kvlitmus_seed(domain: Domain) -> bytes:
    """Every text can be a namespace: a lone surrogate is its three bytes."""
    units = "bigram" if domain.bigram else "token"
    texts = ("kvlitmus-2", str(domain.page_size), units, domain.namespace, domain.salt)
    return b"kvs" + b"".join([part(text) for text in texts])


def _sglang_seed(domain: Domain) -> bytes:
    """As upstream: raises ``UnicodeEncodeError`` for a lone surrogate."""
    if domain.namespace is None and domain.salt is None:
        return b""
    return b"sglang-cache-namespace-v1" + part(domain.namespace, "strict") + part(domain.salt, "strict")


KVLITMUS_2 = Scheme("kvlitmus-2", b"kvp", _kvlitmus_seed)
SGLANG_1 = Scheme("sglang-1", b"", _sglang_seed)

SCHEMES: dict[str, Scheme] = {one.name: one for one in (KVLITMUS_2, SGLANG_1)}
"""The schemes that are known, by name."""
