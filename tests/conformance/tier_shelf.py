"""Storage for tests of hierarchies, and what belongs in a slot."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports.tiers import DONE, Outcome
from kvlitmus.spec.units import Unit

Path = tuple[str | None, tuple[Unit, ...]]
"""A namespace, and all units from the root to the end of a node."""


class Shelf:
    """Storage that keeps what it is given, checks that it is right, and fails when it is told to."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, ...]] = {}
        self.script(DONE)

    def script(self, outcome: Outcome) -> None:
        """Be good for so many pages; then have no more, or raise."""
        self.left = outcome.pages if outcome.how in ("short", "fail") else 1_000_000
        self.raises = outcome.how == "fail"

    def good(self) -> bool:
        """Whether one more page is served."""
        self.left -= 1
        if self.left < 0 and self.raises:
            raise OSError("the shelf is out of reach")
        return self.left >= 0

    def exists(self, names: Sequence[str]) -> int:
        """The leading run."""
        found = 0
        while found < len(names) and names[found] in self.pages and self.good():
            found += 1
        return found

    def get(self, name: str) -> tuple[int, ...] | None:
        """A page."""
        return self.pages.get(name) if self.good() else None

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """Keep a page; one name has one content."""
        if not self.good():
            return False
        whole = tuple(contents)
        kept = self.pages.get(name)
        assert kept is None or kept == whole[: len(kept)], "two contents under one name"
        self.pages[name] = whole
        return True


def mark(path: Path) -> int:
    """What belongs in the slot of the last unit of a path."""
    return hash(path) & 0xFFFFFF
