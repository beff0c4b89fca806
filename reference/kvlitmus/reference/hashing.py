"""The page-hash chain, as one would write it to be read.

``page_hashes`` walks over the whole pages of a key and hashes each with what precedes it.  The
hash function is a parameter: proofs pass one of which nothing is known but that it is a
function.
"""

from __future__ import annotations

from kvlitmus.spec.hashing import HashFunction, encode, event_number, namespace_seed, raw, sha256
from kvlitmus.spec.units import Key, Unit, page_floor

__all__ = ["chain_start", "event_number", "page_hash", "page_hashes", "pages_of_key"]


def page_hash(units: tuple[Unit, ...], before: bytes, digest: HashFunction = sha256) -> bytes:
    """The raw hash of one page after the raw hash ``before`` (empty: nothing precedes it).

    Raises ``ValueError`` for a token outside ``[0, 2**32)``.
    """
    return digest(before + encode(units))


def chain_start(namespace: str | None, prior: str | None, digest: HashFunction = sha256) -> bytes:
    """What precedes the first page: the hash ``prior`` if there is one, else the seed of the namespace.

    ``prior=None`` and ``prior=""`` both say that nothing precedes.  Raises ``ValueError`` when ``prior`` is
    no hex text.
    """
    if not prior:
        return namespace_seed(namespace, digest=digest)
    before = raw(prior)
    if before is None:
        raise ValueError(f"a prior hash must be hex text (got {prior!r})", prior)
    return before


def pages_of_key(key: Key, page_size: int) -> tuple[tuple[Unit, ...], ...]:
    """The units of each whole page of the key, in order; a tail that fills no page is left out."""
    units = key.units
    whole = page_floor(len(units), page_size)
    return tuple(units[start : start + page_size] for start in range(0, whole, page_size))


def page_hashes(
    key: Key, page_size: int, prior: str | None = None, *, digest: HashFunction = sha256
) -> tuple[str, ...]:
    """The hashes of the whole pages of a key (HASH-01 … HASH-08), in lower-case hex.

    ``prior`` is the hash of the page before the key's first one, for a key that continues
    another.  Raises ``ValueError`` for a token outside ``[0, 2**32)`` in a whole page.
    """
    hashes = []
    before = chain_start(key.namespace, prior, digest)
    for units in pages_of_key(key, page_size):
        before = page_hash(units, before, digest)
        hashes.append(before.hex())
    return tuple(hashes)
