"""What callers hand in, looked at before anything is done with it: settings, tokens, pages, handles.

Everything here raises ``ValueError`` with what was expected and what was got, and changes nothing.
"""

from __future__ import annotations

import difflib
import operator
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from kvlitmus.optimized.arrays import IntArray

MOST_PAGES = 2**31 - 1
"""Page numbers have 32 bits."""


class StaleHandle(ValueError):
    """A place or a receipt that names nothing here any more, or never did.

    What it named has been evicted (whatever is cached in its stead by now), or it is of another cache, or of the time
    before a reset.  Nothing has changed; match again.
    """


class WrongPage(ValueError):
    """A page that its caller can't give, for it is free, or somebody else's, or there is none; it stays what it is.

    Of a request's own page it says that somebody has freed it behind the request's back, or has written into its row.
    """


def whole(field: str, value: object, least: int, most: int = MOST_PAGES) -> int:
    """A setting that is a whole number within these limits."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        limits = f"at least {least}" if most == MOST_PAGES else f"from {least} to {most}"
        raise ValueError(f"{field} must be a whole number, {limits} (got {value!r})")
    return number


def flag(field: str, value: object) -> None:
    """A setting that is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be True or False (got {value!r})")


def one_of(field: str, value: object, choices: Iterable[str]) -> None:
    """A setting that is one of some words."""
    words = list(choices)
    if isinstance(value, str) and value in words:
        return
    near = difflib.get_close_matches(str(value).casefold(), words, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{field} must be one of {', '.join(words)} (got {value!r}){hint}")


def seconds(field: str, value: object, count: int) -> tuple[float, ...]:
    """A setting that is so many times, in seconds, none of them negative."""
    fits = isinstance(value, tuple | list) and len(value) == count
    numbers: Any = value if fits else ()
    fits = fits and all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers)
    if not fits or not all(0 <= one <= sys.float_info.max for one in numbers):
        raise ValueError(f"{field} must be {count} finite numbers of seconds, none negative (got {value!r})")
    return tuple(map(float, numbers))


MOST_PRIORITY = 2**62
"""No priority is further from 0."""


def priority(given: object) -> int:
    """A priority: a whole number of at most 62 bits."""
    number = given if given.__class__ is int else whole("priority", given, -MOST_PRIORITY, MOST_PRIORITY)
    assert isinstance(number, int)
    if not -MOST_PRIORITY <= number <= MOST_PRIORITY:
        raise ValueError(f"a priority must be within ±{MOST_PRIORITY} (got {number})")
    return number


def units(given: Any, dtype: np.dtype[Any]) -> IntArray:
    """Units in a tree's own type; raises ``ValueError`` for one that doesn't fit and would be another, too."""
    array = integers("units", given)
    own = np.ascontiguousarray(array, dtype=dtype)
    if array.dtype != dtype and len(own) and not np.array_equal(own, array):
        raise ValueError(f"units must fit {dtype} (got {array.min()} to {array.max()})")
    return own


def tokens(given: Any) -> IntArray:
    """Tokens that are to be cached: integers of 32 bits without a sign; others have no name in storage."""
    array = integers("tokens", given)
    if len(array) and not (array[array.argmin()] >= 0 and array[array.argmax()] < 1 << 32):
        raise ValueError(f"tokens must be within [0, 2**32) (got {array.min()} to {array.max()})")
    return array


def integers(what: str, given: Any) -> IntArray:
    """A sequence of integers as an array, in its own type where it is one already; empty ones may be of any type.

    The bytes of each are in the machine's own order: compiled code knows no other.
    """
    if given.__class__ is not np.ndarray:
        try:
            given = np.asarray(given)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ValueError(f"{what} must be a sequence of integers ({error})") from None
    array: IntArray = given
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.shape == (0,):
        return array.astype(np.int64)
    shape = f"{array.ndim} dimensions" if array.ndim != 1 else f"the type {array.dtype}"
    raise ValueError(f"{what} must be a sequence of integers in one dimension (got {shape})")
