"""Integers from strangers: whatever Python takes for an index is one, a truth value is not."""

from __future__ import annotations

import operator
from collections.abc import Collection
from itertools import islice
from typing import Any

from kvlitmus.conformance.support.bounds import MAX_COUNT, UNORDERED
from kvlitmus.conformance.support.text import raised_text, shown


class OddForm(TypeError):
    """An answer has not the form that its port promises (PORT-03)."""


EXACT = frozenset({int})
"""The type of what is taken as it is."""


def integer(value: Any) -> int:
    """The plain integer that this is; raises ``TypeError`` for anything that isn't one."""
    if type(value) is int:
        return value
    if type(value) is bool:
        raise TypeError("a truth value is no integer")
    try:
        return int.__pos__(operator.index(value))  # of an integer of a class of its own only the number is taken
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TypeError("no integer") from error


def is_integer(value: Any) -> bool:
    """Whether this is an integer, of whatever class."""
    try:
        integer(value)
    except TypeError:
        return False
    return True


def sequence(answer: Any, what: str, most: int = MAX_COUNT) -> tuple[Any, ...]:
    """Whatever iterates in an order, as a tuple; raises :class:`OddForm` for anything else, and what is longer."""
    try:
        if not isinstance(answer, UNORDERED):
            found = tuple(islice(answer, most + 1))
            if len(found) <= most:
                return found
    except Exception as error:
        raise OddForm(f"expected a sequence of {what}, got {shown(answer)}: {raised_text(error)}") from error
    raise OddForm(f"expected a sequence of {what}, got {shown(answer)}")


def integers(values: Collection[Any]) -> Collection[int]:
    """The same for each of these; as they are where they are plain integers already."""
    return values if {*map(type, values)} <= EXACT else tuple(map(integer, values))


def whether(value: Any) -> bool:
    """The plain truth value that this is, also where it is one of numpy's; raises ``TypeError`` for anything else."""
    if type(value) is bool:
        return value
    try:
        kind = type(value)
        if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
            return bool(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TypeError("no truth value") from error
    raise TypeError("no truth value")
