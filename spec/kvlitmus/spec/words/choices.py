"""Values that are refused when an object is made: what the fields of :class:`~kvlitmus.spec.words.config.Config` and
:class:`~kvlitmus.spec.words.profile.Profile` have in common.

A choice that nobody knows would decide nothing, and a correct cache that misspells its own would be accused; so what is
not in the tables of legal values is refused by field, expected and got.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from math import isfinite
from typing import Any, TypeVar

from kvlitmus.spec.words.text import closest, shown

Kind = TypeVar("Kind", bound=type)

Values = tuple[str, ...] | range
"""The legal values of a field: these words, or whole numbers of this range."""

LONGEST_TEXT = 40
"""The longest text of a field whose words are free."""


def one_of(*words: str, usual: str = "") -> str:
    """A field that is one of these words, the first of them where none is given and none is ``usual``."""
    return field(default=usual or words[0], metadata={"legal": words})


def within(least: int, most: int, *, usual: int | None = None) -> int:
    """A field that is a whole number from the least to the most, the least where none is given and none is ``usual``."""
    return field(default=least if usual is None else usual, metadata={"legal": range(least, most + 1)})


def legal_values(kind: type[Any]) -> Mapping[str, Values]:
    """The legal values of the fields of a dataclass that say them, by field."""
    return {one.name: one.metadata["legal"] for one in fields(kind) if one.metadata}


def checked(name: str) -> Callable[[Kind], Kind]:
    """A decorator for a dataclass: its objects refuse unknown fields, and values that are not legal.

    ``name`` is how messages call an object.  The constructor raises ``TypeError`` for an unknown field, ``ValueError``
    for a value.
    """

    def decorate(kind: Kind) -> Kind:
        made: Any = kind
        plain, legal = made.__init__, legal_values(kind)

        @functools.wraps(plain)
        def init(self: Any, **values: Any) -> None:
            known = [one.name for one in fields(kind)]
            for given in values:
                if given not in known:
                    raise TypeError(f"a {name} has no field {given!r}{closest(given, known)}")
            plain(self, **values)
            verify(name, legal, self)

        made.__init__ = init
        return kind

    return decorate


def verify(name: str, legal: Mapping[str, Values], made: Any) -> None:
    """Raise ``ValueError`` for the first field of an object whose value is not legal."""
    for one in fields(made):
        wrong = fault(getattr(made, one.name), one.default, legal.get(one.name))
        if wrong:
            raise ValueError(f"{name}.{one.name} must be {wrong}")


def fault(value: Any, usual: Any, legal: Values | None) -> str:
    """What a value must be, and what it is; empty for one that is legal.

    ``usual``: the value where none is given, which shows the type.
    """
    assert usual is not MISSING, "every field has a usual value"
    right = type(value) is type(usual)
    if isinstance(legal, range):
        right = right and value in legal
        expected = f"a whole number from {legal[0]} to {legal[-1]}"
    elif legal is not None:
        right = right and value in legal
        expected = f"{', '.join(map(repr, legal[:-1]))} or {legal[-1]!r}"
    elif type(usual) is bool:
        expected = "True or False"
    elif type(usual) is tuple:
        right = right and len(value) == len(usual) and all(map(is_seconds, value))
        expected = f"{len(usual)} numbers of seconds, none below 0"
    else:
        right = right and len(value) <= LONGEST_TEXT
        expected = f"a text of at most {LONGEST_TEXT} characters"
    if right:
        return ""
    hint = closest(value, legal) if isinstance(legal, tuple) and type(value) is str else ""
    return f"{expected} (got {shown(value, 80)}){hint}"


def is_seconds(value: Any) -> bool:
    """Whether this is a time that can be waited for."""
    return type(value) in (int, float) and isfinite(value) and value >= 0
