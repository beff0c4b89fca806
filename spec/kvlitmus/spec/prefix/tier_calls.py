"""The calls on the tiers below the device, as values: the host, what is under way, storage, prefetches, faults."""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.law.occasions import occasion
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.calls import Path


@occasion(On.EVICT_HOST)
class EvictHost(NamedTuple):
    """Make room for so many slots of the host; answers how many were dropped, or ``None`` where nobody counts."""

    asked: int


class LoadBack(NamedTuple):
    """Bring back what of a key is on the host alone, within a quota if there is one; answers ``Loaded``."""

    path: Path
    quota: int | None = None


class Advance(NamedTuple):
    """Let a job go on.  ``layers``: how many layers a load has, where it is a load and they can be seen."""

    job: int
    outcome: Outcome
    layers: int | None = None


class Tick(NamedTuple):
    """A tick of the scheduler.  ``detached``: the first one after storage was detached."""

    detached: bool = False


class Attach(NamedTuple):
    """Attach storage (``on``) or detach it; answers whether that was done.

    ``stored``: the pages that storage has.  ``storage``: which of the suite's, of those that it attaches.
    """

    on: bool
    stored: int
    storage: int = 0


@occasion(On.SETTLED)
class Settled(NamedTuple):
    """No call: everything was delivered, and a few ticks later these requests still have to wait."""

    waiting: tuple[int, ...]


class Prefetch(NamedTuple):
    """Ask for a prefetch of what of a key is in storage; answers ``Prefetched``.

    ``start``: behind how many units, where the caller says so.
    """

    rid: int
    path: Path
    start: int | None = None


@occasion(On.POLL)
class Poll(NamedTuple):
    """Ask whether a request need not wait for its prefetch any more; answers yes or no."""

    rid: int


@occasion(On.LOADED)
class TellLoaded(NamedTuple):
    """Ask how many units the prefetch of a request has added; answers a count."""

    rid: int


@occasion(On.ABANDON)
class Abandon(NamedTuple):
    """The request that waits is aborted."""

    rid: int


@occasion(On.FAULT)
class FailCopy(NamedTuple):
    """Ask for a copy of this kind to fail, after so many that do not."""

    kind: str
    after: int


@occasion(On.FAULT)
class FailHostAlloc(NamedTuple):
    """Ask for an allocation of host memory to fail, after so many that do not."""

    after: int


@occasion(On.FAULT)
class FailMemory(NamedTuple):
    """Ask for the next call to find no memory, after so many allocations; ``None``: no more."""

    after: int | None


@occasion(On.OUT_OF_MEMORY)
class OutOfMemory(NamedTuple):
    """A call about this key ended for want of memory, as the suite had asked for."""

    path: Path


@occasion(On.CLOCK)
class SetClock(NamedTuple):
    """Time passes."""

    seconds: float
