"""What is known of a hierarchy beside its tiers: jobs, prefetches, storage.

The tiers, device and host, are in :mod:`kvlitmus.spec.prefix.state`.  Here is the rest: the work under way with the pages
that it reads from, prefetches from the request that asks to the commit, and under which names each prefix was asked for
and stored.  What a cache of several components has under way has entries of each, told by component and prefix (:class:`Fetch`,
:class:`Copy`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, PUT, QUERY, SPILL, SPILLED, Job
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.page import At, Page, Place, Tier
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens

COPIES = frozenset({BACKUP, LOAD})
"""Jobs that copy between device and host, and lock the device until they end."""

WITH_STORAGE = frozenset({QUERY, FETCH, PUT})
"""Jobs that go to storage."""


@lean
class Work(NamedTuple):
    """One job, and how far it has come."""

    job: Job
    """The job as it is listed."""
    names: tuple[Name, ...]
    """Its pages."""
    end: Name
    """Where its path ends."""
    sources: Mapping[Name, PageNo]
    """The host copies that it reads from."""
    landed: bool = False
    """Whether its copy has reached its end."""
    failed: bool = False
    """Whether its copy failed."""
    layers: int = 0
    """How many layers it has copied."""

    @property
    def over(self) -> bool:
        """Whether the cache may end it."""
        return self.landed or self.failed


@lean
class Prefetched(NamedTuple):
    """One prefetch that has begun."""

    rid: int
    """Its request."""
    names: tuple[Name, ...]
    """The pages that it set out to read."""
    asked: int
    """How many units these are."""
    anchor: Name | None
    """The page behind which they come."""
    begun: float
    """When it began, in seconds."""
    polled: float | None = None
    """When its request first asked."""
    hit: int | None = None
    """How many units storage told it."""
    got: int = 0
    """Units of whole pages that storage has given it."""
    counted: int = 0
    """Those that the cache counts by now."""
    told: tuple[str, ...] = ()
    """The names under which storage told it."""
    ended: bool = False
    """Whether its fetch has reached its end."""
    revoked: bool = False
    """Whether it isn't worth going on."""
    over: bool = False
    """Whether its request waits no more."""
    missed: bool = False
    """Whether storage has not given it a page whole."""


@lean
class Prefetches(NamedTuple):
    """All prefetches."""

    by_number: Mapping[int, Prefetched] = {}
    """Those that are under way, or have a job that is."""
    running: Mapping[int, int] = {}
    """The number of the one of each request."""
    of_job: Mapping[int, int] = {}
    """Which one a query or fetch is for."""
    waiting: frozenset[int] = frozenset()
    """The requests that were not told yet that they need not wait; a prefetch may be over before its request is told.
    """
    added: Mapping[int, tuple[int, int]] = {}
    """The fewest and the most units that the prefetch of a request can have added."""
    ended_lately: frozenset[int] = frozenset()
    """Requests of fetches that ended since the last tick."""
    serial: int = 0
    """How many there were."""

    def of(self, rid: int) -> Prefetched | None:
        """The prefetch of a request that is under way."""
        number = self.running.get(rid)
        return None if number is None else self.by_number[number]

    def under_way(self) -> Iterator[Prefetched]:
        """All that are under way."""
        return (self.by_number[number] for number in self.running.values())

    def anchors(self, *, revoked: bool = False) -> frozenset[Name]:
        """The pages behind which those under way began; with ``revoked`` those that are only just over, too."""
        if not self.running:
            return frozenset()
        return frozenset(
            one.anchor for one in self.under_way() if one.anchor is not None and (revoked or not one.revoked)
        )


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


class Misnamed(NamedTuple):
    """A prefix with two names in storage, or a name with two prefixes."""

    prefix: Name
    other: Name
    name: str
    other_name: str


@lean
class Stored(NamedTuple):
    """What storage was asked for and given, and what went wrong."""

    names_of: Mapping[Name, frozenset[str]] = {}
    """Under which names storage was asked for or given each prefix."""
    prefixes_of: Mapping[str, frozenset[Name]] = {}
    """Which prefixes under each name."""
    units_of: Mapping[Name, tuple[Name, ...]] = {}
    """The units of each page that was seen in the tree."""
    pages: frozenset[Name] = frozenset()
    """The prefixes that the storage which is attached, or was last, has accepted."""
    told: frozenset[Name] = frozenset()
    """Those that it said it has."""
    refused: frozenset[Name] = frozenset()
    """Those that it refused, or that were to follow one, and that it has not accepted since."""
    lost: frozenset[Name] = frozenset()
    """Those that it lost, or that were cut short, while it was attached."""
    gone: frozenset[Name] = frozenset()
    """Those that were lost before it was attached again."""
    many_names: tuple[Misnamed, ...] = ()
    """Prefixes with several names."""
    many_prefixes: tuple[Misnamed, ...] = ()
    """Names of several prefixes."""
    disorder: tuple[tuple[str, int], ...] = ()
    """Reads out of order."""
    put_behind: tuple[str, ...] = ()
    """Pages that were put behind one that was refused."""
    put_wrong: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Pages that were put with wrong contents."""
    put_missing: tuple[Name, ...] = ()
    """Pages that were due and not put."""


@lean
class Tiers(NamedTuple):
    """What is known of the tiers below the device."""

    work: Mapping[int, Work] = {}
    """The jobs under way."""
    backed: frozenset[Name] = frozenset()
    """Pages whose backup was acknowledged with this storage attached, but for those that it refused since."""
    used: frozenset[Name] = frozenset()
    """Pages on the host that an insertion has used since the last tick, with storage attached."""
    owed: frozenset[Name] = frozenset()
    """The pages that such an insertion found missing in storage, and not on their way there."""
    paths: tuple[Sequence[Name], ...] = ()
    """The paths that insertions used since the last tick, where backups may wait for it."""
    left: frozenset[Name] = frozenset()
    """Of these paths the pages that have left the device since: what comes again without an insertion isn't due."""
    prefetches: Prefetches = Prefetches()
    """The prefetches."""
    stored: Stored = Stored()
    """What storage was asked for and given."""
    attached: bool = False
    """Whether storage is attached."""
    storage: int = 0
    """Which storage is attached, or was last."""
    shelves: Mapping[int, frozenset[Name]] = {}
    """What each storage is known to have from before the last reset or exchange."""
    clock: float = 0.0
    """The time, in seconds."""
    fault: int | None = None
    """After how many allocations of host memory one is to fail."""
    failing: frozenset[str] = frozenset()
    """The kinds of which a copy is to fail."""
    starved: bool = False
    """Whether memory is to run out."""
    stale: Mapping[int, int] = {}
    """What prefetches had added before a reset and nobody was told, in units at most, by request."""
    below_once: frozenset[Name] = frozenset()
    """Without a snapshot: the pages that ever were copied, or asked for, further down."""
    rests: bool = False
    """Whether everything has settled, and nothing was asked for since but room on the host."""
    ended: tuple[Work, ...] = ()
    """The jobs that ended with the last step."""
    begun: tuple[Work, ...] = ()
    """Those that began with it."""

    @property
    def spills_succeed(self) -> bool:
        """Whether nothing was asked to fail that an eviction under write-back needs."""
        return self.fault is None and not self.starved and self.failing.isdisjoint((SPILL, SPILLED))

    @property
    def copying(self) -> bool:
        """Whether a copy that locks the device is under way."""
        return any(work.job.kind in COPIES for work in self.work.values())

    def held_sources(self) -> dict[Name, PageNo]:
        """The host copies that work under way reads from, as they were when it began."""
        return {name: page for work in self.work.values() for name, page in work.sources.items()}

    @property
    def shelf(self) -> frozenset[Name]:
        """The pages that this storage accepted or said it has, but for those that it had lost when it was attached."""
        stored = self.stored
        return (self.shelves.get(self.storage, frozenset()) | stored.pages | stored.told) - stored.gone

    def forgotten(self) -> Tiers:
        """The same after a reset: the cache is empty; storage, time and the faults that were asked for stay."""
        return Tiers(
            attached=self.attached,
            storage=self.storage,
            shelves={**self.shelves, self.storage: self.shelf},
            clock=self.clock,
            fault=self.fault,
            failing=self.failing,
            starved=self.starved,
            stale={**self.stale, **{rid: most for rid, (_, most) in self.prefetches.added.items() if most}},
        )


def counted_tree(tree: Tier, tiers: Tiers | None, setting: Setting) -> Tier:
    """The tree with the locks that nodes show and counters tell: without those of copies, where these protect apart (``copy_locks``)."""
    if tiers is None or setting.profile.copy_locks == "counted":
        return tree
    for work in tiers.work.values():
        if work.job.kind in COPIES:
            tree = effects.lock(tree, work.end, -1)
    return tree


def more_available(before: TierSeen, after: TierSeen) -> Tokens | Unknown:
    """How many slots more of the host are available; unknown where nobody looked."""
    was, now = before.host_available, after.host_available
    return UNKNOWN if was is None or now is None else Tokens(now - was)


def path_to(name: Name, seen: TierSeen) -> list[Name]:
    """A page and everything above it."""
    found = []
    while name in seen.parent_names:
        found.append(name)
        name = seen.parent_names[name]
    return found


def orphaned(before: TierSeen, now: Collection[Name]) -> set[Name]:
    """The pages below those that left the device without a host copy and are in the tree (``now``) no more.

    Nothing can be reached below them: what is there goes with them, whatever it is worth.
    """
    lost = {name for name in before.cached if name not in now and name not in before.hosted}
    return {name for name in before.hosted if lost and not lost.isdisjoint(path_to(name, before))}
