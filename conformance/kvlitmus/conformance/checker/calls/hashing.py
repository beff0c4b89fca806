"""What happened around page hashing, as facts.

Four calls are judged: ``page_hashes`` (one key), ``hash_pieces`` (the same key in two calls),
``hash_pair`` (two keys of one namespace) and ``hash_namespaces`` (one key in two namespaces).
The first of them is a ``hash_refusal`` when it raised or should have.  Besides, each answer is ``hashed``:
compared with every other one that the cache gave before (:class:`HashLedger`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvlitmus.conformance.ports import Hashes
from kvlitmus.spec.hashing import raw
from kvlitmus.spec.names import Names, page_names
from kvlitmus.spec.schemes import TOKEN_LIMIT, Domain, HashFunction, Scheme, sha256
from kvlitmus.spec.units import Key, Name, Unit

Facts = dict[str, object]


class Hashed(NamedTuple):
    """A call to ``page_hashes`` that was answered."""

    key: Key
    page_size: int
    prior: str | None
    hashes: tuple[str, ...]


class Noting:
    """A hasher that checks the form of its answers (``TypeError``, PORT-03) and notes them."""

    def __init__(self, hasher: Hashes) -> None:
        self.hasher = hasher
        self.answered: list[Hashed] = []

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> tuple[str, ...]:
        """See :class:`~kvlitmus.conformance.ports.Hashes`."""
        hashes = checked_hashes(self.hasher.page_hashes(key, page_size, prior))
        self.answered.append(Hashed(key, page_size, prior, hashes))
        return hashes


class HashLedger:
    """Which prefix each page hash stood for, of all that were answered so far; for each page size and kind of units.

    ``most``: how many hashes are remembered, the latest ones; all, if ``None``.
    """

    def __init__(self, names: Names, most: int | None = None) -> None:
        self.names = names
        self.most = most
        self.bearers: dict[tuple[int, bool], dict[str, Name]] = {}

    def facts(self, one: Hashed) -> Facts | None:
        """What is to be judged of an answer, which is noted; ``None`` where nobody can know what it continues."""
        kind = (one.page_size, one.key.bigram)
        own = self.bearers.setdefault(kind, {})
        prefixes = self._prefixes(one, own)
        if prefixes is None:
            return None
        facts: Facts = {
            "hashes": one.hashes,
            "hashed_prefixes": prefixes,
            "bearers": {name: own[name] for name in one.hashes if name in own},
            "hashes_elsewhere": frozenset(
                name for name in one.hashes if any(name in known for at, known in self.bearers.items() if at != kind)
            ),
        }
        for name, prefix in zip(one.hashes, prefixes, strict=False):
            own.setdefault(name, prefix)
        while self.most is not None and len(own) > self.most:
            del own[next(iter(own))]
        return facts

    def held(self) -> Iterator[Name]:
        """The prefixes that the ledger speaks of."""
        for known in self.bearers.values():
            yield from known.values()

    def _prefixes(self, one: Hashed, own: dict[str, Name]) -> tuple[Name, ...] | None:
        """The prefixes that end with each whole page of the key."""
        start = self.names.root(one.key.namespace)
        if one.prior:
            if one.prior not in own or self.names.prefix(own[one.prior])[0] != one.key.namespace:
                return None
            start = own[one.prior]
        return page_names(self.names.extend(start, one.key.units), one.page_size)


def run_hashes(
    hasher: Hashes,
    key: Key,
    page_size: int,
    prior: str | None = None,
    digest: HashFunction = sha256,
    scheme: Scheme | None = None,
) -> tuple[str, Facts, Exception | None]:
    """Hash one key: the name of the call, its facts, and what it raised where it should not have."""
    whole = key.length - key.length % page_size
    hashable = all(0 <= token < TOKEN_LIMIT for token in key.tokens[: whole + (key.bigram and whole > 0)])
    try:
        answer = checked_hashes(hasher.page_hashes(key, page_size, prior))
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        return "hash_refusal", {"hashable": hashable, "hashing_raised": True}, error if hashable else None
    if not hashable:
        return "hash_refusal", {"hashable": False, "hashing_raised": False}, None
    return "page_hashes", facts_of_hashes(key, page_size, prior, answer, digest, scheme), None


def run_pieces(hasher: Hashes, key: Key, page_size: int, first_pages: int) -> Facts:
    """Hash one key whole, and again in two calls of which the first gets ``first_pages`` pages."""
    whole = checked_hashes(hasher.page_hashes(key, page_size, None))
    head, tail = split_key(key, first_pages * page_size)
    pieces = list(checked_hashes(hasher.page_hashes(head, page_size, None)))
    pieces += checked_hashes(hasher.page_hashes(tail, page_size, pieces[-1] if pieces else None))
    return {"hashes": whole, "hashes_in_pieces": tuple(pieces)}


def run_pair(hasher: Hashes, key: Key, other: Key, page_size: int) -> Facts:
    """Hash two keys of one namespace."""
    return {
        "hashes": checked_hashes(hasher.page_hashes(key, page_size, None)),
        "other_hashes": checked_hashes(hasher.page_hashes(other, page_size, None)),
        "common_pages": common_pages(key.units, other.units, page_size),
    }


def run_namespaces(hasher: Hashes, key: Key, foreign: str | None, page_size: int) -> Facts:
    """Hash one key in its own namespace and in another one."""
    return {
        "hashes": checked_hashes(hasher.page_hashes(key, page_size, None)),
        "foreign_hashes": checked_hashes(hasher.page_hashes(key._replace(namespace=foreign), page_size, None)),
    }


def facts_of_hashes(
    key: Key,
    page_size: int,
    prior: str | None,
    hashes: Sequence[str],
    digest: HashFunction = sha256,
    scheme: Scheme | None = None,
) -> Facts:
    """The facts of one ``page_hashes`` call that answered; about its bytes only where the scheme is known."""
    units = key.units
    whole = len(units) - len(units) % page_size
    facts: Facts = {
        "key_length": len(units),
        "page_size": page_size,
        "hashes": hashes,
        "hashable": True,
        "hashing_raised": False,
    }
    if scheme is not None:
        seed = scheme.seed(Domain(page_size, key.bigram, key.namespace), digest)
        facts |= {
            "page_units": [units[start : start + page_size] for start in range(0, whole, page_size)],
            "scheme": scheme,
            "chain_start": raw(prior) if prior else seed,
            "seeded": not prior and key.namespace is not None,
            "hash_function": digest,
        }
    return facts


def checked_hashes(answer: object) -> tuple[str, ...]:
    """The answer as a tuple of texts; raises ``TypeError`` for anything else (PORT-03)."""
    if isinstance(answer, str) or not isinstance(answer, Sequence):
        raise TypeError(f"page_hashes must answer a sequence of texts (got {type(answer).__name__})")
    for one in answer:
        if not isinstance(one, str):
            raise TypeError(f"a page hash must be text (got {type(one).__name__})")
    return tuple(answer)


def common_pages(units: Sequence[Unit], others: Sequence[Unit], page_size: int) -> int:
    """How many leading whole pages two keys have in common."""
    common = 0
    for one, other in zip(units, others, strict=False):
        if one != other:
            break
        common += 1
    return common // page_size


def split_key(key: Key, units: int) -> tuple[Key, Key]:
    """A key cut after so many units; a bigram at the cut needs the next token on both sides."""
    extra = 1 if key.bigram and units else 0
    return key._replace(tokens=key.tokens[: units + extra]), key._replace(tokens=key.tokens[units:])
