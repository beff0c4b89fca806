"""Lists and arrays of the standard library as a cache's callers have them: a helper for adapters in plain Python."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

from kvlitmus.spec.interface import Begun, Hit, Pool, PrefixTree, Requests, Stored
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.units import Key


def whole_numbers(given: object) -> tuple[int, ...]:
    """A copy of a list or array of integers; raises ``ValueError`` for anything else."""
    found = tuple(given) if isinstance(given, list | tuple | array) else None
    if found is None or any(type(number) is not int for number in found):
        raise ValueError(f"expected a list of integers (got {given!r})")
    return found


class Ports(PrefixTree, Pool, Requests, Protocol):
    """What such an adapter has itself."""

    config: Config


def key_of_array(adapter: Ports, tokens: object, namespace: str | None) -> Key:
    """The key that these tokens are to an adapter."""
    return Key(namespace, whole_numbers(tokens), adapter.config.bigram)


class PlainArrays:
    """The ports ``raw`` and ``raw_requests`` of an adapter whose cache takes lists of integers.

    What is no such list is refused; of the others the other ports get a copy.
    """

    def raw_array(self, values: Sequence[int], form: str) -> object:
        """See :class:`~kvlitmus.spec.interface.Raw`."""
        whole = list(values)
        if form == "narrow" and whole and not -(1 << 31) <= min(whole) <= max(whole) < 1 << 31:
            return None
        made: dict[str, Callable[[], object]] = {
            "own": lambda: whole,
            "narrow": lambda: array("i", whole),
            "floats": lambda: array("d", whole),
            "flags": lambda: [bool(value) for value in whole],
            "rows": lambda: [whole],
            "single": lambda: whole[0] if whole else 0,
        }
        return made[form]()

    def raw_match(self: Ports, tokens: object, namespace: str | None) -> Hit:
        """See :class:`~kvlitmus.spec.interface.Raw`."""
        return self.match(key_of_array(self, tokens, namespace))

    def raw_insert(self: Ports, tokens: object, slots: object, namespace: str | None) -> Stored:
        """See :class:`~kvlitmus.spec.interface.Raw`."""
        return self.insert(key_of_array(self, tokens, namespace), whole_numbers(slots))

    def raw_free(self: Ports, slots: object) -> None:
        """See :class:`~kvlitmus.spec.interface.Raw`."""
        self.free(whole_numbers(slots))

    def raw_begin(self: Ports, rid: int, tokens: object, namespace: str | None) -> Begun | None:
        """See :class:`~kvlitmus.spec.interface.RawRequests`."""
        return self.begin(rid, key_of_array(self, tokens, namespace))
