"""The calls on a page hasher, as values, and which prefix each hash stood for that it answered.

A hasher changes nothing, so these steps have no state but the suite's own **ledger**: all hashes that were answered so
far, each with the prefix that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.law.occasions import occasion, occasions_by_answer
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.words.names import Names, page_names
from kvlitmus.spec.words.schemes import TOKEN_LIMIT
from kvlitmus.spec.words.units import Key, Name


class PageHashes(NamedTuple):
    """Hash the pages of a key, after the page whose hash is ``prior``; answers the hashes, or :class:`Raised`."""

    key: Key
    page_size: int
    prior: str | None = None

    @property
    def hashable(self) -> bool:
        """Whether every token of the key's whole pages is in [0, 2**32)."""
        key = self.key
        whole = key.length - key.length % self.page_size
        return all(0 <= token < TOKEN_LIMIT for token in key.tokens[: whole + (key.bigram and whole > 0)])


class TwoHashes(NamedTuple):
    """What two ways of hashing answered."""

    first: tuple[str, ...]
    second: tuple[str, ...]


@occasion(On.HASH_PIECES)
class HashPieces(NamedTuple):
    """Hash a key whole, and again in two calls of which the first gets so many pages; answers :class:`TwoHashes`."""

    key: Key
    page_size: int
    first_pages: int


@occasion(On.HASH_PAIR)
class HashPair(NamedTuple):
    """Hash two keys of one namespace; answers :class:`TwoHashes`."""

    key: Key
    other: Key
    page_size: int

    @property
    def common_pages(self) -> int:
        """How many leading whole pages the two keys have in common."""
        common = 0
        for one, other in zip(self.key.units, self.other.units, strict=False):
            if one != other:
                break
            common += 1
        return common // self.page_size


@occasion(On.HASH_NAMESPACES)
class HashNamespaces(NamedTuple):
    """Hash a key in its own namespace and in another one; answers :class:`TwoHashes`."""

    key: Key
    foreign: str | None
    page_size: int


@occasion(On.HASHED)
class CompareHashes(NamedTuple):
    """No call: the hashes that were answered, beside all before them.

    ``prefixes``: the names of the prefixes that end with each whole page.
    """

    page_size: int
    bigram: bool
    prefixes: tuple[Name, ...]


HashTwoWays = HashPieces | HashPair | HashNamespaces
"""What hashes in two ways."""

HashCall = PageHashes | HashTwoWays
"""Every call on a page hasher."""


def split_key(key: Key, units: int) -> tuple[Key, Key]:
    """A key cut after so many units; a bigram at the cut needs the next token on both sides."""
    extra = 1 if key.bigram and units else 0
    return key._replace(tokens=key.tokens[: units + extra]), key._replace(tokens=key.tokens[units:])


Bearers = Mapping[str, Name]
"""Which prefix each page hash stands for."""


class HashLedger(NamedTuple):
    """Which prefix each page hash stood for that was answered so far; for each page size and kind of units (bigrams or not)."""

    bearers: Mapping[tuple[int, bool], Bearers]

    def of(self, page_size: int, bigram: bool) -> Bearers:
        """The hashes of this page size and kind of units."""
        return self.bearers.get((page_size, bigram), {})

    def held(self) -> Iterator[Name]:
        """The prefixes that the ledger speaks of."""
        for known in self.bearers.values():
            yield from known.values()


EMPTY_LEDGER = HashLedger({})
"""Nothing was hashed yet."""


def prefixes_of(ledger: HashLedger, names: Names, call: PageHashes) -> tuple[Name, ...] | None:
    """The prefixes that end with each whole page of the key; ``None`` where nobody can know what it continues."""
    start = names.root(call.key.namespace)
    if call.prior:
        own = ledger.of(call.page_size, call.key.bigram)
        if call.prior not in own or names.prefix(own[call.prior])[0] != call.key.namespace:
            return None
        start = own[call.prior]
    return page_names(names.extend(start, call.key.units), call.page_size)


def noted(ledger: HashLedger, call: CompareHashes, hashes: Sequence[str], most: int | None = None) -> HashLedger:
    """The ledger after these hashes were answered: each keeps the prefix that it stood for first.

    ``most``: how many hashes of one page size and kind of units are remembered, the latest ones; all, if ``None``.
    """
    own = dict(ledger.of(call.page_size, call.bigram))
    for one, prefix in zip(hashes, call.prefixes, strict=False):
        own.setdefault(one, prefix)
    while most is not None and len(own) > most:
        del own[next(iter(own))]
    return HashLedger({**ledger.bearers, (call.page_size, call.bigram): own})


@occasions_by_answer(PageHashes)
def hashes_occasions(call: PageHashes, answer: object) -> tuple[On, ...]:
    """Hashing is a refusal when it raised, and when it should have."""
    if not call.hashable:
        return (On.HASH_REFUSAL,)
    return (On.HASH_REFUSAL, On.RAISED) if isinstance(answer, Raised) else (On.PAGE_HASHES,)
