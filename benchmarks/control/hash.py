"""SHA-256 page chains: the optimized cache's, hashlib over whole pages, and a loop over tokens."""

from __future__ import annotations

import hashlib

from benchmarks.control.ours import native
from benchmarks.control.tokens import Tokens
from benchmarks.timing import Call


def chains(tokens: Tokens, page: int) -> dict[str, Call]:
    """Three ways to the same names; each call answers the list of hex digests."""
    from kvlitmus.optimized import hashing
    from kvlitmus.spec.words.schemes import KVLITMUS_2, Domain

    seed, tag = KVLITMUS_2.seed(Domain(page)), KVLITMUS_2.page_tag
    units, numbers = native(tokens), tokens.tolist()
    whole = memoryview(units.tobytes())
    size = 4 * page

    def by_page() -> list[str]:
        names, last, sha256 = [], seed, hashlib.sha256
        for at in range(0, len(whole), size):
            digest = sha256(tag + last)
            digest.update(whole[at : at + size])
            last = digest.digest()
            names.append(last.hex())
        return names

    def by_token() -> list[str]:
        names, last = [], seed
        for at in range(0, len(numbers), page):
            digest = hashlib.sha256(tag + last)
            for token in numbers[at : at + page]:
                digest.update(token.to_bytes(4, "little"))
            last = digest.digest()
            names.append(last.hex())
        return names

    return {"ours": lambda: hashing.page_hashes(units, page), "hashlib": by_page, "per token": by_token}
