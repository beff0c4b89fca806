"""Handles and receipts by the names that a trace gives them."""

from __future__ import annotations

from collections import OrderedDict
from types import NoneType
from typing import NamedTuple

from kvlitmus.conformance.ports import Hit
from kvlitmus.conformance.tape.operands import Thing
from kvlitmus.spec.words.units import Key

REMEMBERED = 10_000
"""Maximum number of handles of matches, and receipts given back, that are remembered."""


class Handle(NamedTuple):
    """What a match answered, for a lock: the key, the hit, the line, and how often the tree had changed by then."""

    key: Key
    hit: Hit
    line: int
    changes: int


class Places:
    """Handles and receipts by the names that the trace gives them, and how often the tree changed."""

    def __init__(self) -> None:
        self.handles: OrderedDict[object, Handle] = OrderedDict()
        # A cache may give one receipt for several locks, as where it is the path: each of them is given back by it.
        self.receipts: dict[object, list[int]] = {}
        self.returned: OrderedDict[object, int] = OrderedDict()
        self.changes = 0
        self.changed_at = 0
        self.serial = 0

    def changed(self, line: int) -> None:
        """The tree isn't what it was."""
        self.changes += 1
        self.changed_at = line

    def matched(self, name: object, handle: Handle) -> None:
        """A match answered this handle."""
        if type(name) in (str, int, Thing, NoneType):
            self.handles[name] = handle
            self.handles.move_to_end(name)
            if len(self.handles) > REMEMBERED:
                self.handles.popitem(last=False)
