"""The calls on a cache of components, as values, and what they answer.

An entry is a place of its component's pool, a plain integer.  Of each call the answer comes with what was seen of the
cache afterwards (:class:`After`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.law.occasions import jointly, look
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.calls import (
    Alloc,
    Begin,
    End,
    Evict,
    Free,
    Grow,
    Insert,
    Lock,
    Match,
    Path,
    Reset,
    Unlock,
)
from kvlitmus.spec.prefix.page import At

Entries = Mapping[str, tuple[int, ...]]
"""For each component some entries."""

Counts = Mapping[str, int]
"""For each component how many entries."""

Brought = Mapping[At, int]
"""Entries by where they belong, with their places."""


class View(NamedTuple):
    """A snapshot: the free places of each pool, and every cached entry by where it belongs.

    ``copies``: further places of what is cached more than once, where the profile says that this may be.  ``host_free``,
    ``host_held``: the same of the host's pools; ``None`` where nobody looked there.
    """

    free: Mapping[str, tuple[int, ...]]
    held: Mapping[At, int]
    copies: frozenset[tuple[At, int]] = frozenset()
    host_free: Mapping[str, tuple[int, ...]] = {}
    host_held: Mapping[At, int] | None = None


class Telling(NamedTuple):
    """An event: ``what`` became of the entry ``at`` on a ``tier``, ``stored`` or ``removed``; or all was ``cleared``."""

    what: str
    tier: str
    at: At | None


@look
class After(NamedTuple):
    """An answer, and what was seen after it: the free places of each pool, and a snapshot; ``None`` where nobody looked.

    ``host_available``: the free places of each pool of the host.  ``events``: what was told since the call before; ``None``
    where nobody has listened yet.  ``begun``: the backups that the cache has begun by itself.
    """

    answer: object
    available: Mapping[str, int] | None = None
    view: View | None = None
    host_available: Mapping[str, int] | None = None
    events: tuple[Telling, ...] | None = ()
    begun: tuple[Begun, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the call was refused, if it can be."""
        match self.answer:
            case Holding(granted=False) | Reserved(places=None) | Copying(places=None) | Writing(ends=None) | None:
                return True
            case _:
                return False


class ComponentHit(NamedTuple):
    """The ``length`` of a hit, in units, and of each component the entries that it needs, in the order of the prefix."""

    length: int
    entries: Entries


@jointly(On.COMPONENT_PREFETCH, On.REFUSED_COMPONENT_PREFETCH)
class ComponentPrefetch(NamedTuple):
    """Reserve memory to fetch what storage may have of a key behind a hit, the anchor; answers :class:`Reserved`.

    ``start``: where the anchor ends, in units.  ``threshold``: with fewer units than that nothing is fetched.
    ``number``: the suite's for this prefetch.
    """

    path: Path
    start: int
    threshold: int
    number: int


class Reserved(NamedTuple):
    """The places that a prefetch reserved, ``None`` where it is refused; and how many entries were evicted for it."""

    places: Entries | None
    freed: Mapping[str, int]


@jointly(On.COMPONENT_FOUND)
class ComponentFound(NamedTuple):
    """Of each component the ends, in units, of what storage has of the key; answers :class:`Reading`."""

    number: int
    stored: Mapping[str, frozenset[int]]


class Reading(NamedTuple):
    """Up to which ``boundary`` a prefetch reads, which entry into which place, and the places that it gives back already."""

    boundary: int
    reads: Mapping[str, Mapping[int, int]]
    returned: Entries


@jointly(On.COMPONENT_SETTLED)
class ComponentSettled(NamedTuple):
    """The I/O of a prefetch has ended and writes no more; answers the places that are given back now."""

    number: int


@jointly(On.COMPONENT_COMMIT)
class ComponentCommit(NamedTuple):
    """Cache what came: of each component the ends of the entries that were read; answers :class:`Committed`."""

    number: int
    came: Mapping[str, frozenset[int]]


class Committed(NamedTuple):
    """Where the KV ends that a prefetch has cached, in units, and the places that it gave back."""

    end: int
    returned: Entries


@jointly(On.COMPONENT_ABORT)
class ComponentAbort(NamedTuple):
    """Give a prefetch up; answers the places that were given back."""

    number: int


@jointly(On.COMPONENT_BACK_UP, On.REFUSED_COMPONENT_BACK_UP)
class ComponentBackUp(NamedTuple):
    """Copy to the host what a hit of this length needs and the host lacks; answers :class:`Copying`."""

    path: Path
    length: int
    number: int


@jointly(On.COMPONENT_LOAD, On.REFUSED_COMPONENT_LOAD)
class ComponentLoad(NamedTuple):
    """Copy to the device what the longest prefix needs that both tiers have together, behind a hit; answers :class:`Copying`.

    ``start``: where the hit ends, in units.
    """

    path: Path
    start: int
    number: int


class Copying(NamedTuple):
    """What a copy takes: of each component the places that it is written to, by where the entries end.

    ``places``: ``None`` where the copy is refused.  ``boundary``: the one that it is for, in units.  ``freed``: how many
    entries were evicted for it, on the tier that it goes to.
    """

    places: Mapping[str, Mapping[int, int]] | None
    boundary: int
    freed: Mapping[str, int]


class Begun(NamedTuple):
    """A backup that the cache has begun by itself.  ``ended``: it was waited for, so that it has ended too."""

    call: ComponentBackUp
    answer: Copying
    ended: bool


@jointly(On.COMPONENT_COPIED)
class ComponentCopied(NamedTuple):
    """A copy has ended, ``ok`` or not; answers the places that it gave back."""

    number: int
    ok: bool


@jointly(On.COMPONENT_EVICT_HOST)
class ComponentEvictHost(NamedTuple):
    """Free so many entries of each of these components on the host; answers how many were freed of each component."""

    asked: Counts


@jointly(On.COMPONENT_ATTACH)
class ComponentAttach(NamedTuple):
    """Storage is there from now on; answers nothing."""


@jointly(On.COMPONENT_DETACH)
class ComponentDetach(NamedTuple):
    """Storage goes away, and running prefetches are given up; answers the places that were given back."""


@jointly(On.COMPONENT_WRITE, On.REFUSED_COMPONENT_WRITE)
class ComponentWrite(NamedTuple):
    """Write to storage what a hit of this length needs and storage lacks; answers :class:`Writing`.

    ``stored``: of each component the ends, in units, of what storage has of the key.
    """

    path: Path
    length: int
    stored: Mapping[str, frozenset[int]]
    number: int


class Writing(NamedTuple):
    """Of each component where the entries end that are written; ``None`` where the write is refused."""

    ends: Mapping[str, frozenset[int]] | None


@jointly(On.COMPONENT_WRITTEN)
class ComponentWritten(NamedTuple):
    """A write has ended, ``ok`` or not; answers nothing."""

    number: int
    ok: bool


class Holding(NamedTuple):
    """What a request has after a call: the ``length`` of its hit, and of each component its places by where they end.

    ``granted``: whether it got what it asked for.
    """

    length: int
    held: Mapping[str, Mapping[int, int]]
    granted: bool = True


ComponentCall = (
    Alloc[Counts]
    | Free[Entries]
    | Match
    | Insert[Brought]
    | Lock
    | Unlock
    | Evict[Counts]
    | Reset
    | ComponentPrefetch
    | ComponentFound
    | ComponentSettled
    | ComponentCommit
    | ComponentAbort
    | ComponentBackUp
    | ComponentLoad
    | ComponentCopied
    | ComponentEvictHost
    | ComponentAttach
    | ComponentDetach
    | ComponentWrite
    | ComponentWritten
    | Begin
    | Grow
    | End
)
