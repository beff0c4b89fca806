"""Which values the fields of ``Config`` and ``Profile`` (:mod:`~kvlitmus.conformance.ports`) may have.

A choice that nobody knows would decide nothing, and a correct cache that misspells its own would be accused; so what is
not in these tables is refused when the object is made, by field, expected and got.  Written adapters
(``kvlitmus init-adapter``) show the same tables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from math import isfinite
from typing import Any, TypeVar

from kvlitmus.conformance.text import closest, shown

Kind = TypeVar("Kind", bound=type)

POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru")
"""The eviction policies."""

CONFIG: dict[str, tuple[str, ...] | range] = {
    "page_size": range(1, 1025),
    "pages": range(1, (1 << 20) + 1),
    "policy": POLICIES,
    "pool": ("device", "host", "store"),
    "host_pages": range((1 << 20) + 1),
    "write": ("write_through", "write_through_selective", "write_back"),
    "storage": ("none", "attached", "later"),
    "stop": ("best_effort", "wait_complete", "timeout"),
    "threshold": range((1 << 30) + 1),
    "rate_limit": range((1 << 30) + 1),
}
"""What is legal in a configuration."""

PROFILE: dict[str, tuple[str, ...] | range] = {
    "reserved": range(2),
    "align": ("reject", "round_up"),
    "evict_granularity": ("page", "node"),
    "evict_moment": ("call", "alloc"),
    "match_cap": ("full", "len-1"),
    "duplicates": ("caller_frees", "cache_frees", "kept"),
    "publish": ("explicit", "at_alloc"),
    "hit_counts": ("insert", "match", "none"),
    "split_created": ("keeps", "renews"),
    "slru_hits": range(1, (1 << 20) + 1),
    "clock": ("counter", "wall"),
    "misuse": ("undefined", "reject", "ignore"),
    "attach": ("any_time", "at_start"),
    "reserve": ("submit", "hit"),
    "backup_parent": ("skip", "chain"),
    "load_threshold": range((1 << 30) + 1),
    "timeout_basis": ("hit", "requested"),
    "timeout_from": ("submit", "first_poll"),
    "commit": ("poll", "tick"),
    "host_duplicates": ("kept", "reclaimed"),
    "store_put": ("first", "last", "either"),
    "store_checks": ("bytes", "length"),
}
"""What is legal in a profile.  A field of text that isn't here may be any short text: it is somebody's own name."""

LONGEST_TEXT = 40
"""The longest text of a field whose words are free."""


def checked(name: str, legal: Mapping[str, tuple[str, ...] | range]) -> Callable[[Kind], Kind]:
    """A decorator for a dataclass: its objects refuse fields that there are none, and values that are not legal.

    ``name`` is how messages call an object.  The constructor raises ``TypeError`` for an unknown field, ``ValueError``
    for a value.
    """

    def decorate(kind: Kind) -> Kind:
        made: Any = kind
        plain = made.__init__

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


def verify(name: str, legal: Mapping[str, tuple[str, ...] | range], made: Any) -> None:
    """Raise ``ValueError`` for the first field of an object whose value is not legal."""
    for one in fields(made):
        wrong = fault(getattr(made, one.name), one.default, legal.get(one.name))
        if wrong:
            raise ValueError(f"{name}.{one.name} must be {wrong}")


def fault(value: Any, usual: Any, legal: tuple[str, ...] | range | None) -> str:
    """What a value must be, and what it is; empty for one that is legal.

    ``usual``: the value where none is given, which shows the type.
    """
    assert usual is not MISSING, "every field has a usual value"
    right = type(value) is type(usual)
    hint = ""
    if isinstance(legal, range):
        right = right and value in legal
        expected = f"a whole number from {legal[0]} to {legal[-1]}"
    elif legal is not None:
        right = right and value in legal
        expected = f"{', '.join(map(repr, legal[:-1]))} or {legal[-1]!r}"
        hint = closest(value, legal) if type(value) is str else ""
    elif type(usual) is bool:
        expected = "True or False"
    elif type(usual) is tuple:
        right = right and len(value) == len(usual) and all(map(is_seconds, value))
        expected = f"{len(usual)} numbers of seconds, none below 0"
    else:
        right = right and len(value) <= LONGEST_TEXT
        expected = f"a text of at most {LONGEST_TEXT} characters"
    return "" if right else f"{expected} (got {shown(value, 80)}){hint}"


def is_seconds(value: Any) -> bool:
    """Whether this is a time that can be waited for."""
    return type(value) in (int, float) and isfinite(value) and value >= 0
