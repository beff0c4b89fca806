"""Calls on a page hasher: each as a value, with its answer.

Four are made: ``page_hashes`` (one key), the same key in two calls, two keys of one namespace, and one key in two
namespaces.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.conformance.ports import Hashes
from kvlitmus.conformance.support.integers import OddForm, sequence
from kvlitmus.conformance.support.text import raised_text, shown
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.prefix.hash_calls import HashPair, HashPieces, HashTwoWays, PageHashes, TwoHashes, split_key
from kvlitmus.spec.words.units import Key


class Answered(NamedTuple):
    """A call to ``page_hashes`` that was answered."""

    call: PageHashes
    hashes: tuple[str, ...]


class Noting:
    """A hasher that checks the form of its answers (:class:`OddForm`, PORT-03) and notes them."""

    def __init__(self, hasher: Hashes) -> None:
        self.hasher = hasher
        self.answered: list[Answered] = []

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> tuple[str, ...]:
        """See :class:`~kvlitmus.conformance.ports.Hashes`."""
        hashes = checked_hashes(self.hasher.page_hashes(key, page_size, prior))
        self.answered.append(Answered(PageHashes(key, page_size, prior), hashes))
        return hashes


def run_hashes(hasher: Hashes, call: PageHashes) -> tuple[tuple[str, ...] | Raised, Exception | None]:
    """Hash one key: the answer, and what was raised where it should not have been."""
    try:
        return checked_hashes(hasher.page_hashes(*call)), None
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        return Raised(raised_text(error)), error if call.hashable else None


def run_two_ways(hasher: Hashes, call: HashTwoWays) -> TwoHashes:
    """Hash in two ways; raises what the hasher raises."""
    size = call.page_size
    first = checked_hashes(hasher.page_hashes(call.key, size, None))
    if isinstance(call, HashPieces):
        head, tail = split_key(call.key, call.first_pages * size)
        pieces = checked_hashes(hasher.page_hashes(head, size, None))
        return TwoHashes(first, pieces + checked_hashes(hasher.page_hashes(tail, size, pieces[-1] if pieces else None)))
    other = call.other if isinstance(call, HashPair) else call.key._replace(namespace=call.foreign)
    return TwoHashes(first, checked_hashes(hasher.page_hashes(other, size, None)))


def checked_hashes(answer: object) -> tuple[str, ...]:
    """The answer as a tuple of texts; raises :class:`OddForm` for anything else (PORT-03)."""
    found = sequence(answer, "texts")
    for one in found:
        if not issubclass(type(one), str):
            raise OddForm(f"expected a text as the hash of a page, got {shown(one)}")
    return tuple(map(str.__str__, found))
