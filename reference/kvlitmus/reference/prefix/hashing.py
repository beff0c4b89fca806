"""The page-hash chain, as one would write it to be read.

``page_hashes`` walks over the whole pages of a key and hashes each with what precedes it.  Which bytes are hashed is
the affair of a scheme, ``kvlitmus-2`` if nothing else is said.  The hash function is a parameter: proofs pass one of
which nothing is known but that it is a function, and injective.
"""

from __future__ import annotations

from kvlitmus.spec.prefix.rules.hashing import event_number, raw
from kvlitmus.spec.words.schemes import HASH_DIGITS, KVLITMUS_2, Domain, HashFunction, Scheme, sha256
from kvlitmus.spec.words.units import Key, Unit, page_floor

__all__ = ["chain_start", "event_number", "page_hash", "page_hashes", "pages_of_key"]


def page_hash(
    units: tuple[Unit, ...], before: bytes, digest: HashFunction = sha256, scheme: Scheme = KVLITMUS_2
) -> bytes:
    """The raw hash of one page after the raw hash or seed ``before``.

    Raises ``ValueError`` for a token outside ``[0, 2**32)``.
    """
    return digest(scheme.page_message(before, units))


def chain_start(domain: Domain, prior: str | None, digest: HashFunction = sha256, scheme: Scheme = KVLITMUS_2) -> bytes:
    """What precedes the first page: the hash ``prior`` if there is one, else the seed of the domain.

    ``prior=None`` and ``prior=""`` both say that nothing precedes.  Raises ``ValueError`` when ``prior`` is not
    64 hex digits.
    """
    if not prior:
        return scheme.seed(domain, digest)
    before = raw(prior)
    if before is None or len(prior) != HASH_DIGITS:
        raise ValueError(f"a prior hash must be 64 digits of hex text (got {prior!r})", prior)
    return before


def pages_of_key(key: Key, page_size: int) -> tuple[tuple[Unit, ...], ...]:
    """The units of each whole page of the key, in order; a tail that fills no page is left out."""
    units = key.units
    whole = page_floor(len(units), page_size)
    return tuple(units[start : start + page_size] for start in range(0, whole, page_size))


def page_hashes(
    key: Key,
    page_size: int,
    prior: str | None = None,
    *,
    digest: HashFunction = sha256,
    scheme: Scheme = KVLITMUS_2,
) -> tuple[str, ...]:
    """The hashes of the whole pages of a key (HASH-01 … HASH-10), in lower-case hex.

    ``prior`` is the hash of the page before the key's first one, for a key that continues
    another.  Raises ``ValueError`` for a token outside ``[0, 2**32)`` in a whole page.
    """
    hashes = []
    before = chain_start(Domain(page_size, key.bigram, key.namespace), prior, digest, scheme)
    for units in pages_of_key(key, page_size):
        before = page_hash(units, before, digest, scheme)
        hashes.append(before.hex())
    return tuple(hashes)
