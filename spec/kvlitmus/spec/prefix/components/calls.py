"""What calls on a cache of components ask for, and what they answer.

An entry is a place of its component's pool, a plain integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from kvlitmus.spec.interface.cache import Sizes
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.work_calls import BackUp, Call

Held_co = TypeVar("Held_co", covariant=True)
"""What is said of the entries of one component: their places, where they end, or both."""

Entries = Mapping[str, tuple[int, ...]]
"""For each component some entries."""

Counts = Mapping[str, int]
"""For each component how many entries."""

Brought = Mapping[At, int]
"""Entries by where they belong, with their places."""


class Telling(NamedTuple):
    """An event: ``what`` became of the entry ``at`` on a ``tier``, ``stored`` or ``removed``; or all was ``cleared``."""

    what: str
    tier: str
    at: At | None


class PoolsSeen(NamedTuple):
    """A cache of components as it was seen: how many places of each pool are free; and by a snapshot which, and every cached
    entry by where it belongs.  What is ``None`` nobody looked at.

    ``copies``: further places of what is cached more than once, where the profile says that this may be.  ``host_…``: the same
    of the host's pools.  ``events``: what was told since the call before; ``None`` where nobody has listened yet.  ``begun``:
    the backups that the cache has begun by itself.  ``sizes``: of each component how many entries of the device could be
    evicted, and how many are protected, as the cache counts them.
    """

    available: Mapping[str, int] | None = None
    free: Mapping[str, tuple[int, ...]] = {}
    held: Mapping[At, int] | None = None
    copies: frozenset[tuple[At, int]] = frozenset()
    host_available: Mapping[str, int] | None = None
    host_free: Mapping[str, tuple[int, ...]] = {}
    host_held: Mapping[At, int] | None = None
    events: tuple[Telling, ...] | None = ()
    begun: tuple[Begun, ...] = ()
    sizes: Mapping[str, Sizes] | None = None


class ComponentHit(NamedTuple):
    """The ``length`` of a hit, in units, and of each component the entries that it needs, in the order of the prefix."""

    length: int
    entries: Entries


class Taken(NamedTuple, Generic[Held_co]):
    """What a prefetch, a copy or a write takes of each component, when it begins or goes on; ``places``: ``None`` where it is refused.

    ``freed``: how many entries were evicted for it, on the tier that it goes to.  ``boundary``: the one that a copy is for, up
    to which a prefetch reads, or where the KV ends that it has cached, in units.  ``returned``: the places given back.
    """

    places: Mapping[str, Held_co] | None
    freed: Mapping[str, int] = {}
    boundary: int = 0
    returned: Mapping[str, tuple[int, ...]] = {}

    @property
    def refused(self) -> bool:
        """Whether it was refused."""
        return self.places is None


Reserved = Taken[tuple[int, ...]]
"""The places that a prefetch reserved."""

Copying = Taken[Mapping[int, int]]
"""The places that a copy is written to, by where the entries end."""

Reading = Taken[Mapping[int, int]]
"""Into which place a prefetch reads each entry, by where it ends; nothing any more when it has cached what came."""

Writing = Taken[frozenset[int]]
"""Where the entries end that are written."""


class Begun(NamedTuple):
    """A backup that the cache has begun by itself.  ``ended``: it was waited for, so that it has ended too."""

    call: BackUp
    answer: Copying
    ended: bool


class Holding(NamedTuple):
    """What a request has after a call: the ``length`` of its hit, and of each component its places by where they end.

    ``granted``: whether it got what it asked for.
    """

    length: int
    held: Mapping[str, Mapping[int, int]]
    granted: bool = True

    @property
    def refused(self) -> bool:
        """Whether it was refused."""
        return not self.granted


JointCall = Call[Counts, Entries, Brought, int]
"""A call on a cache of components."""
