"""Text from strangers, made harmless.

Whatever an adapter hands out may end up in a terminal, a JSON file or a Markdown page: error
messages, names of types, representations of objects.  It may hold escape sequences or be a
hundred megabytes long, and asking for it may raise.  These functions always return a short
printable text on one line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST = 400
"""The usual bound on a text, in characters."""

_TYPE_NAME = type.__dict__["__name__"]


def harmless(text: object, limit: int = LONGEST) -> str:
    """A text without control characters, cut to a bearable length; never raises for what the text is."""
    try:
        plain = str(text)
        if type(plain) is not str:
            plain = str.__str__(plain)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a hostile __str__ may raise SystemExit
        return f"‹no text: its __str__ raised {type_name(error)}›"
    plain = str.__getitem__(plain, slice(0, limit + 1))
    if not plain.isprintable():
        plain = "".join(char if char.isprintable() else _escaped(char) for char in plain)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def shown(value: object, limit: int = 200) -> str:
    """The representation of anything, made harmless."""
    try:
        text = repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a hostile __repr__ may raise SystemExit
        return f"‹{type_name(value)} whose __repr__ raised {type_name(error)}›"
    text = harmless(text, limit)
    return re.sub(" at 0x[0-9a-f]+", "", text) if " at 0x" in text else text


def closest(word: str, among: Iterable[str]) -> str:
    """A hint such as ``; did you mean 'tree'?``, or nothing.  ``TREE-3`` is exactly ``TREE-03``."""
    folded = {one.casefold(): one for one in among}
    bare = re.sub(r"\b0+(?=\d)", "", word.casefold())
    near = [one for one in folded if re.sub(r"\b0+(?=\d)", "", one) == bare]
    near = near or difflib.get_close_matches(word.casefold(), list(folded), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(folded[one]) for one in near)}?" if near else ""


def type_name(value: object) -> str:
    """The name of an object's type, whatever the type says of itself."""
    return harmless(_TYPE_NAME.__get__(type(value)), 80)


def raised_text(error: BaseException, limit: int = LONGEST) -> str:
    """An exception as ``Type: message``."""
    return f"{type_name(error)}: {harmless(error, limit)}"


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
