"""JSON in the fewest characters: what goes over a pipe, and onto a tape."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import NoReturn


def refuse(value: object) -> NoReturn:
    """Raise ``TypeError`` for what JSON hasn't."""
    raise TypeError(f"no JSON: {type(value).__name__}")


def compact_writer() -> Callable[[object], str]:
    """A function from a value to its text; raises as :func:`json.dumps` does, but for what holds itself.

    An encoder of the standard library is a new one for each value.  Most values are small: to make it costs as much as
    to write them, so it is made once where the interpreter has one in C.
    """
    made = getattr(json.encoder, "c_make_encoder", None)
    if made is None:
        return json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
    parts: Callable[[object, int], Iterable[str]] = made(
        None, refuse, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
    )
    return lambda value: "".join(parts(value, 0))


compact = compact_writer()
"""A value as JSON without a space; what is in it may not hold itself."""
