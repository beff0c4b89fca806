"""What is under way in a cache of components.

Each of these has entries of several components, told by component and prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.page import At, Page, Place
from kvlitmus.spec.words.quick_replace import lean


@lean
class Fetch(NamedTuple):
    """A prefetch that is under way."""

    path: Path
    """The key."""
    start: int
    """Where its anchor ends."""
    length: int
    """For how many units behind it there is memory."""
    threshold: int
    """With how many it is worth it."""
    anchor: frozenset[At]
    """What it protects, the KV of the anchor, until it is over."""
    reserved: frozenset[Place]
    """The places that it still has."""
    taken: frozenset[str]
    """The components of which it got some."""
    boundary: int
    """Up to where it reads."""
    reads: Mapping[str, Mapping[int, int]] = {}
    """Of each component what is read into which place."""
    answered: bool = False
    """Whether storage has said what it has."""
    running: bool = False
    """Whether its I/O may still write."""
    over: bool = False
    """Whether it was committed or aborted, and has places that I/O may write."""
    needs: frozenset[At] = frozenset()
    """What may be protected besides, until it is over."""


@lean
class Copy(NamedTuple):
    """A copy that is under way between the tiers, or to storage."""

    kind: str
    """Whether it goes to the device (``LOAD``), to the host (``BACKUP``), or from there to storage (``PUT``)."""
    places: Mapping[At, int]
    """What it is written to, by what it brings there, unless that is cached from the beginning."""
    device: frozenset[At]
    """What its boundary needs and the device had when it began, and what it reads there; protected until the copy has
    ended.
    """
    host: frozenset[At]
    """The same of the host."""
    needs: frozenset[At] = frozenset()
    """What may be protected besides: all that its boundary needs, also what comes to a tier only later, or all that
    belongs to its path.
    """
    landing: frozenset[At] = frozenset()
    """What it brings that is cached from the beginning, and is written until the copy has ended; all that it brings to
    storage.
    """
    uses: Mapping[At, Page] = {}
    """How what it reads was used for certain, as that was known when it began."""

    @property
    def load(self) -> bool:
        """Whether it goes to the device."""
        return self.kind == LOAD
