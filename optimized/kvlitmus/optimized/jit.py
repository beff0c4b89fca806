"""How Python functions become machine code: compiled when they are first called, and kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def jitted(function: F) -> F:
    """The function, compiled; it runs without the interpreter's lock.

    The code is kept beside the source, else in the user's folder of caches, or where ``NUMBA_CACHE_DIR`` says.  Where
    none of these can be written to, as in a read-only image without a home, every process compiles it anew.
    """
    try:
        return cast("F", njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast("F", njit(nogil=True)(function))
