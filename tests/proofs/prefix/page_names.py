"""What is proven of page names, for any digest that is injective; no assumption about SHA-256 is made.

A name is the digest of a message.  Let the digest be injective.  If (1) no message of a seed is one of a page, (2)
different domains have different messages of seeds, and (3) different pages or different digests before them have
different messages of pages, then by induction over the chain different prefixes and different domains have different
names.

(1) is shown for any contents: a message is worked out from several fillings of everything that can be chosen, and a
byte that was ever different may be anything (:func:`shape`).  Two messages can meet if they are equally long and differ
in no byte that is fixed in both.  Lengths are enumerated.  (2) is shown for all short texts of letters that matter, (3)
byte by byte.  Then the reference is judged by all rules of the part for all short keys, with a digest that is nothing
but injective (:class:`Numbering`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from kvlitmus.conformance.checker.calls.prefix.hashing import Noting, run_hashes, run_two_ways
from kvlitmus.reference.prefix.hashing import page_hashes
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import verdicts
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.hash_calls import (
    EMPTY_LEDGER,
    CompareHashes,
    HashCall,
    HashLedger,
    HashNamespaces,
    HashPair,
    HashPieces,
    PageHashes,
    noted,
    prefixes_of,
)
from kvlitmus.spec.prefix.rules import hashing
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.schemes import Domain, HashFunction, Scheme
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Unit

Seed = Callable[[Domain], bytes]
"""What makes the message of a seed."""

Shape = tuple[int | None, ...]
"""The bytes of a message; ``None`` for one that may be anything."""

RULES = [rule for rule in all_rules().values() if rule.predicate.__module__ == hashing.__name__]

PAGES = (*range(1, 65), 128)
NAME_BYTES, SALTS = 300, (None, 0, 1, 29)
SEED_PAGES = (1, 2, 9, 16, 64, 128)
FILLINGS = (0x00, 0x01, 0x41, 0x7F)
"""What is filled in, byte by byte: a text of such bytes is as many letters."""


def shape(make: Callable[[int], bytes]) -> Shape:
    """A message whose changeable bytes are all filled with one byte, for several of these."""
    made = [make(filling) for filling in FILLINGS]
    assert len({len(one) for one in made}) == 1
    return tuple(bytes_at[0] if len(set(bytes_at)) == 1 else None for bytes_at in zip(*made, strict=True))


def meet(one: Shape, other: Shape) -> bool:
    """Whether there are contents with which both are the same message."""
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def text(length: int | None, filling: int) -> str | None:
    """A text of so many bytes."""
    return None if length is None else chr(filling) * length


def word(filling: int) -> int:
    """A token of such bytes."""
    return int.from_bytes(bytes([filling] * 4), "little")


def units(page_size: int, bigram: bool, filling: int) -> list[Unit]:
    """A page of such bytes."""
    return [(word(filling), word(filling)) if bigram else word(filling)] * page_size


def seeds(scheme: Scheme) -> Iterator[tuple[str, Shape]]:
    """The messages of seeds that there are, each with what it is for."""
    for page_size, bigram, salt in product(SEED_PAGES, (False, True), SALTS):
        for name in (None, *range(NAME_BYTES + 1)):

            def make(filling: int, of: tuple[int, bool] = (page_size, bigram), n: int | None = name) -> bytes:
                return scheme.seed_message(Domain(*of, text(n, filling), text(salt, filling)))  # noqa: B023

            yield f"page {page_size}, a name of {name} bytes, a salt of {salt}", shape(make)


def pages(scheme: Scheme) -> Iterator[tuple[str, Shape]]:
    """The messages of pages that there are: after a digest, and first where the default namespace has no seed."""
    for page_size, bigram in product(PAGES, (False, True)):
        starts = {32, len(scheme.seed(Domain(page_size, bigram)))}
        for start in starts:

            def make(filling: int, of: tuple[int, bool] = (page_size, bigram), n: int = start) -> bytes:
                return scheme.page_message(bytes([filling]) * n, units(*of, filling))

            yield f"page {page_size}{' of bigrams' * bigram} after {start} bytes", shape(make)


def no_message_of_a_seed_is_one_of_a_page(scheme: Scheme) -> list[str]:
    """Where the two meet: (1)."""
    found: defaultdict[int, list[tuple[str, Shape]]] = defaultdict(list)
    for what, one in seeds(scheme):
        if one:
            found[len(one)].append((what, one))
    return [f"{what}: {where}" for where, one in pages(scheme) for what, other in found[len(one)] if meet(one, other)]


ODD = ("\0", "\1", "a", "é")
TEXTS: tuple[str | None, ...] = (None, *("".join(one) for n in range(4) for one in product(ODD, repeat=n)))
"""All texts of up to three letters, among them those that a length begins with."""


def different_domains_have_different_seeds(scheme: Scheme) -> list[str]:
    """Domains whose seeds have the same message: (2)."""
    found: dict[bytes, Domain] = {}
    wrong = []
    for one in (Domain(*of) for of in product((1, 2, 12), (False, True), TEXTS, TEXTS)):
        message = scheme.seed_message(one)
        if found.setdefault(message, one) != one:
            wrong.append(f"{one} and {found[message]}")
    return wrong


def different_pages_have_different_messages(scheme: Scheme) -> list[str]:
    """Pages whose messages don't tell them apart: each byte that can be chosen has a place of its own: (3)."""
    wrong = []
    for page_size, bigram in product((1, 2, 3, 16), (False, True)):
        width = (8 if bigram else 4) * page_size

        def message(given: bytes, bigram: bool = bigram) -> bytes:
            words = [int.from_bytes(given[at : at + 4], "little") for at in range(32, len(given), 4)]
            page: list[Unit] = list(zip(words[::2], words[1::2], strict=True)) if bigram else [*words]
            return scheme.page_message(given[:32], page)

        given = bytes(32 + width)
        plain = message(given)
        places: set[int] = set()
        for at in range(len(given)):
            changed = [message(given[:at] + bytes([other]) + given[at + 1 :]) for other in range(1, 256)]
            moved = {place for one in changed for place in range(len(plain)) if one[place] != plain[place]}
            if len(moved) != 1 or len(set(changed)) != 255 or moved & places:
                wrong.append(f"page {page_size}{' of bigrams' * bigram}: byte {at}")
            places |= moved
    return wrong


class Numbering:
    """A digest that is injective and nothing else: messages are numbered in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def __call__(self, message: bytes) -> bytes:
        """The number of a message."""
        return self.numbers.setdefault(message, len(self.numbers)).to_bytes(32, "big")


class Reference(NamedTuple):
    """The reference as a hasher."""

    scheme: Scheme
    digest: HashFunction

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        return page_hashes(key, page_size, prior, digest=self.digest, scheme=self.scheme)


LETTERS = (0, 2**32 - 1)
LONGEST = 4
NAMESPACES = (None, "", "a")


def keys(namespace: str | None, bigram: bool, letters: Sequence[int] = LETTERS) -> list[Key]:
    """All keys of up to :data:`LONGEST` tokens."""
    return [Key(namespace, of, bigram) for n in range(LONGEST + 1) for of in product(letters, repeat=n)]


def every_rule_holds(scheme: Scheme) -> dict[str, int]:
    """How often each rule was evaluated on the reference; raises ``AssertionError`` for one that is broken."""
    digest = Numbering()
    hasher = Noting(Reference(scheme, digest))
    capabilities = frozenset({"scheme"})
    setting = Setting(Config(), Profile(hash_scheme=scheme.name), 0, capabilities)
    judged: dict[str, int] = defaultdict(int)

    def judge(call: HashCall | CompareHashes, answer: object, state: HashLedger = EMPTY_LEDGER) -> None:
        inputs = {"setting": setting, "state": state, "call": call, "answer": answer}
        said = verdicts(
            RULES, occasions_of(call, answer), capabilities, inputs, {"scheme": scheme, "hash_function": digest}
        )
        assert said and all(said.values()), (said, call, answer)
        for id in said:
            judged[id] += 1

    for call in calls_on_short_keys():
        judge(call, run_hashes(hasher, call)[0] if isinstance(call, PageHashes) else run_two_ways(hasher, call))
    names, ledger = Names(), EMPTY_LEDGER
    for asked, answer in hasher.answered:
        prefixes = prefixes_of(ledger, names, asked)
        if prefixes is not None:
            compared = CompareHashes(asked.page_size, asked.key.bigram, prefixes)
            judge(compared, answer, ledger)
            ledger = noted(ledger, compared, answer)
    return judged


def calls_on_short_keys() -> Iterator[HashCall]:
    """All short keys are hashed: whole, in pieces, in pairs, in other namespaces."""
    for page_size, bigram, namespace in product((1, 2), (False, True), NAMESPACES):
        some = keys(namespace, bigram)
        for key in some:
            yield PageHashes(key, page_size)
            for cut in range(LONGEST // page_size + 1):
                yield HashPieces(key, page_size, min(cut, key.length // page_size))
            for foreign in NAMESPACES:
                if foreign != namespace:
                    yield HashNamespaces(key, foreign, page_size)
        for key, other in product(some, some):
            yield HashPair(key, other, page_size)
        for key in keys(namespace, bigram, (0, -1, 2**32)):
            yield PageHashes(key, page_size)


SMALL = f"all keys of up to {LONGEST} tokens of two values, pages of 1 and 2, three namespaces; any injective digest"
ANY = f"any contents; pages of 1 to 64 and 128 units, names of up to {NAME_BYTES} bytes; any injective digest"

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_holds": (tuple(rule.id for rule in RULES), SMALL),
    "no_message_of_a_seed_is_one_of_a_page": (("HASH-06", "HASH-09"), ANY),
    "different_domains_have_different_seeds": (
        ("HASH-06", "HASH-09", "HASH-10"),
        "all texts of up to three letters of four kinds, three page sizes; any injective digest",
    ),
    "different_pages_have_different_messages": (
        ("HASH-04", "HASH-09"),
        "any byte of any unit or digest; pages of 1, 2, 3 and 16 units; any injective digest",
    ),
}
"""What is proven, for which rules, within which bounds."""
