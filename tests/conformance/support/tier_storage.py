"""Storage for tests of hierarchies, and what belongs in a slot."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.spec.words.units import Unit

Path = tuple[str | None, tuple[Unit, ...]]
"""A namespace, and all units from the root to the end of a node."""


class CheckedStore(HarnessStore):
    """The suite's storage, which checks for itself that one name has one content."""

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """Keep a page."""
        kept = self.contents.get(name)
        assert kept is None or kept == tuple(contents)[: len(kept)], "two contents under one name"
        return super().put(name, contents)


def mark(path: Path) -> int:
    """What belongs in the slot of the last unit of a path."""
    return hash(path) & 0xFFFFFF
