"""Page hashes in bulk: one encoding per key, one hash call per page.

Written the way engines write it, and independently of the reference: all tokens are packed at
once, and pages are slices of that buffer.  (Feeding a hash token by token costs twelve times as
much.)  The scheme is ``kvlitmus-2`` (:mod:`kvlitmus.spec.words.schemes`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from kvlitmus.spec.words.units import Key


class PageHasher:
    """Computes page hashes; mutants replace one of its methods."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        """The hashes of the whole pages of a key; raises ``struct.error`` for a token that is not of 32 bits."""
        packed = self.pack(key, page_size)
        width = page_size * (8 if key.bigram else 4)
        before = bytes.fromhex(prior) if prior else self.seed(key.namespace, page_size, key.bigram)
        hashes: list[str] = []
        for start in range(0, len(packed), width):
            before = self.digest(before, packed[start : start + width])
            hashes.append(before.hex())
        return hashes

    def pack(self, key: Key, page_size: int) -> bytes:
        """The units of the key's whole pages, 4 bytes per token."""
        tokens = key.tokens
        whole = self.whole(key, page_size)
        if not key.bigram:
            return struct.pack(f"<{whole}I", *tokens[:whole])
        pairs = [token for place in range(whole) for token in tokens[place : place + 2]]
        return struct.pack(f"<{2 * whole}I", *pairs)

    def whole(self, key: Key, page_size: int) -> int:
        """How many units the whole pages have."""
        units = max(0, len(key.tokens) - key.bigram)
        return units - units % page_size

    def digest(self, before: bytes, page: bytes) -> bytes:
        """The hash of one packed page."""
        return hashlib.sha256(b"kvp" + before + page).digest()

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        """What the chain of a namespace begins with."""
        packed = [self.text("kvlitmus-2"), self.text(str(page_size)), self.text("bigram" if bigram else "token")]
        packed += [b"\0" if namespace is None else self.text(namespace), b"\0"]
        return hashlib.sha256(b"kvs" + b"".join(packed)).digest()

    def text(self, text: str) -> bytes:
        """A text that is there, with its length."""
        form = text.encode("utf-8", "surrogatepass")
        return struct.pack("<BQ", 1, len(form)) + form
