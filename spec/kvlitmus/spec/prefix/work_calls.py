"""The calls on the tiers below the device, as values: the host, what is under way, storage, prefetches, faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.law.occasions import jointly, occasion
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.calls import Amount_co, Path
from kvlitmus.spec.words.units import Tokens

Start_co = TypeVar("Start_co", covariant=True)
"""Behind how many units a prefetch begins: where the caller doesn't say so, ``None``."""


@jointly(On.COMPONENT_EVICT_HOST)
@occasion(On.EVICT_HOST)
class EvictHost(NamedTuple, Generic[Amount_co]):
    """Make room for so much on the host; answers how much was dropped, or ``None`` where nobody counts."""

    asked: Amount_co


class Reach(NamedTuple):
    """Where other components of the cache have a say, where a load back ends, and where it has to, at least and at most.

    ``lacking``: of which of them both tiers together lack what its end needs.
    """

    end: Tokens
    least: Tokens
    most: Tokens
    lacking: tuple[str, ...] = ()


@jointly(On.COMPONENT_BACK_UP, On.REFUSED_COMPONENT_BACK_UP)
class BackUp(NamedTuple):
    """Copy to the host what a hit of this length needs and the host lacks; answers ``Copying``.  ``number``: the suite's for this copy."""

    path: Path
    length: int
    number: int


@jointly(On.COMPONENT_LOAD, On.REFUSED_COMPONENT_LOAD)
class LoadBack(NamedTuple):
    """Bring back what of a key is on the host alone, within a quota if there is one; answers ``Loaded``.

    Of components it is what the longest prefix needs that both tiers have together, behind a hit that ends at ``start``, in
    units; answers ``Copying``.  ``number``: the suite's for this copy.  ``reach``: of a part of such a cache, how far all go.
    """

    path: Path
    quota: int | None = None
    start: int = 0
    number: int = 0
    reach: Reach | None = None


@jointly(On.COMPONENT_COPIED)
class Copied(NamedTuple):
    """A copy has ended, ``ok`` or not; answers the places that it gave back."""

    number: int
    ok: bool


class Advance(NamedTuple):
    """Let a job go on.  ``layers``: how many layers a load has, where it is a load and they can be seen."""

    job: int
    outcome: Outcome
    layers: int | None = None


class Tick(NamedTuple):
    """A tick of the scheduler.  ``detached``: the first one after storage was detached."""

    detached: bool = False


@jointly(On.COMPONENT_ATTACH)
@occasion(On.ATTACH)
class Attach(NamedTuple):
    """Attach storage, which has so many pages (``stored``); answers whether that was done.

    ``storage``: which of the suite's, of those that it attaches.
    """

    stored: int = 0
    storage: int = 0


@jointly(On.COMPONENT_DETACH)
@occasion(On.DETACH)
class Detach(NamedTuple):
    """Detach storage, which has so many pages (``stored``); answers whether that was done.

    Running prefetches are given up: components answer the places that were given back.
    """

    stored: int = 0


@occasion(On.SETTLED)
class Settled(NamedTuple):
    """No call: everything was delivered, and a few ticks later these requests still have to wait."""

    waiting: tuple[int, ...]


@jointly(On.COMPONENT_PREFETCH, On.REFUSED_COMPONENT_PREFETCH)
class Prefetch(NamedTuple, Generic[Start_co]):
    """Ask for a prefetch of what of a key is in storage; answers ``Prefetched``.

    ``rid``: the request that it is for, and the suite's number for it where there are no requests.  ``start``: behind how
    many units, where the caller says so.  Components reserve memory for it behind a hit, the anchor, and answer ``Reserved``;
    with fewer units than the ``threshold`` nothing is fetched.
    """

    rid: int
    path: Path
    start: Start_co
    threshold: int = 0


@jointly(On.COMPONENT_FOUND)
class Found(NamedTuple):
    """Of each component the ends, in units, of what storage has of the key of a prefetch; answers ``Reading``."""

    rid: int
    stored: Mapping[str, frozenset[int]]


@jointly(On.COMPONENT_SETTLED)
class Fetched(NamedTuple):
    """The I/O of a prefetch has ended and writes no more; answers the places that are given back now."""

    rid: int


@jointly(On.COMPONENT_COMMIT)
class Commit(NamedTuple):
    """Cache what came: of each component the ends of the entries that were read; answers ``Reading``."""

    rid: int
    came: Mapping[str, frozenset[int]]


@occasion(On.POLL)
class Poll(NamedTuple):
    """Ask whether a request need not wait for its prefetch any more; answers yes or no."""

    rid: int


@occasion(On.LOADED)
class TellLoaded(NamedTuple):
    """Ask how many units the prefetch of a request has added; answers a count."""

    rid: int


@jointly(On.COMPONENT_ABORT)
@occasion(On.ABANDON)
class Abandon(NamedTuple):
    """The request that waits is aborted, and its prefetch given up; components answer the places that were given back."""

    rid: int


@jointly(On.COMPONENT_WRITE, On.REFUSED_COMPONENT_WRITE)
class Write(NamedTuple):
    """Write to storage what a hit of this length needs and storage lacks; answers ``Writing``.

    ``stored``: of each component the ends, in units, of what storage has of the key.  ``number``: the suite's for this write.
    """

    path: Path
    length: int
    stored: Mapping[str, frozenset[int]]
    number: int


@jointly(On.COMPONENT_WRITTEN)
class Written(NamedTuple):
    """A write has ended, ``ok`` or not; answers nothing."""

    number: int
    ok: bool


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


Amount = TypeVar("Amount")
Given = TypeVar("Given")
Brought = TypeVar("Brought")
Start = TypeVar("Start")

OfPools = calls.Alloc[Amount] | calls.Free[Given] | calls.Insert[Brought] | calls.Evict[Amount] | EvictHost[Amount]
"""What calls on a plain cache and on one of components ask of pools in words of their own."""

OfRows = calls.Extend | calls.ExtendBatch | calls.ExtendOne | calls.FreeInGroup | calls.EndGroup | calls.CloseGroup
OfTree = calls.Reset | calls.Flush | calls.Match | calls.Lock | calls.Unlock | calls.PlayedAgain
OfRequests = calls.Begin | calls.Grow | calls.TakeBack | calls.Fork | calls.Publish | calls.End | calls.Compute
OfRetracted = calls.Retract | calls.Resume | calls.Discard
OfCopies = BackUp | LoadBack | Copied | Write | Written | Advance | Tick | Settled
OfFetches = Found | Fetched | Commit | Poll | TellLoaded | Abandon | Attach | Detach
OfFaults = FailCopy | FailHostAlloc | FailMemory | OutOfMemory | SetClock

Call = (OfPools[Amount, Given, Brought] | Prefetch[Start]) | (
    OfRows | OfTree | OfRequests | OfRetracted | OfCopies | OfFetches | OfFaults
)
"""Every call on a cache of prefixes, by how much is asked for, given back or cached, and where a prefetch begins."""

PlainCall = Call[Tokens, calls.Slots, calls.Slots, int | None]
"""A call on a plain cache or a hierarchy."""
