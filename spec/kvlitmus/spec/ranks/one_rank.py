"""One rank as a plain cache: what is known and seen of it at one moment, and which facts such a view can't tell."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvlitmus.spec.interface.ranks import Decision, Prefix, RankView, World
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, Job
from kvlitmus.spec.prefix.page import Page, Tier
from kvlitmus.spec.prefix.partial import SOMEWHERE
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Tiers, Work
from kvlitmus.spec.ranks.state import Agreed, RanksState, decided
from kvlitmus.spec.words.config import ENDLESS, Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.policies import WRITE_THROUGH
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Tick

HAS = frozenset({"pool", "lookup", "tree", "inspect", "tiers", "steps", "host", "prefetching"})
"""What a rank can be judged by: its tree, its host, and what is under way there."""

INSPECT = frozenset({"inspect"})
"""What a pool of windows or of states can be judged by: what it holds is seen."""

PLACES = frozenset(
    {"available_after", "cached_listed", "free_before", "granted", "granted_pages", "host_available", "odd_in_pool"}
)
"""The facts that compare places: a rank shows how many pages are held and free, and not which (:func:`homes`)."""

COUNTS = frozenset({"node_counts", "broken_nodes", "broken_pages"})
"""The facts about nodes, and how often they were used."""

JOBS = frozenset(
    {"acked_unlanded", "held_sources", "illegal_job_steps", "occupied_now", "odd_in_host_pool", "odd_jobs", "odd_pins"}
)
"""The facts about jobs with numbers of their own."""

OWN_WAYS = frozenset({"copies_disturbed", "may_evict", "odd_on_host", "reported_already"})
"""What ranks do otherwise than a hierarchy, or don't tell: a page of the host may go while the device has it.
"""

HIDDEN = PLACES | COUNTS | JOBS | OWN_WAYS
"""The facts that such a view can't tell."""

ORDER = frozenset({"choosing"})
"""The fact about which pages go first, hidden under policies that go by more than when a page was used."""

NODES = ORDER | {"needless", "reservable", "due_missed", "load_room"}
"""What can't be told either where whole nodes go: which pages one has isn't shown."""


def hidden(setting: Setting) -> frozenset[str]:
    """The facts that can't be told of ranks with this profile."""
    if setting.profile.evict_granularity == "node":
        return HIDDEN | NODES
    return HIDDEN if setting.config.policy == "lru" else HIDDEN | ORDER


def setting_of(world: World, config: Config, profile: Profile, names: Names) -> Setting:
    """What one rank was asked to be, as a plain cache: it makes room in its allocations, and writes through.

    What a profile says of calls that ranks haven't is left out.
    """
    config = replace(
        config,
        pool="device",
        pages=world.pages,
        host_pages=world.host_pages,
        write=WRITE_THROUGH,
        storage="attached",
        threshold=0,
        rate_limit=ENDLESS,
    )
    own = replace(
        profile,
        reserved=0,
        evict_moment="alloc",
        match_cap="full",
        match_ends="page",
        duplicates="caller_frees",
        publish="explicit",
        release_delay=0,
        hit_counts="none",
        reserve="submit",
    )
    return Setting(config, own, SNAPSHOT, HAS, names)


class PrefixNames(dict[Prefix, Name]):
    """The names of pages, each looked up once."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, page: Prefix) -> Name:
        found = self[page] = self.names.of(None, page)[-1] if page else self.names.root(None)
        return found


class Lift:
    """How ranks of a world are seen as plain caches.

    ``setting``: of the pages of one rank.  ``parts``: of its windows and its states, each a pool of its own.  ``hidden``:
    the facts that can't be told of the pages.  ``names``: of pages.
    """

    def __init__(self, world: World, config: Config, profile: Profile, names: Names) -> None:
        self.world = world
        self.setting = setting_of(world, config, profile, names)
        own, pools = self.setting, {"windows": world.window_pages, "states": world.state_slots}
        self.parts = {
            part: Setting(own.config, own.profile, SNAPSHOT, INSPECT, names, frozenset(map(PageNo, range(places))))
            for part, places in pools.items()
        }
        self.hidden = hidden(self.setting)
        self.names = PrefixNames(names)
        self.copies: dict[tuple[int, str, Prefix, Prefix], Work] = {}
        self.last: tuple[object, State] | None = None


class Moment(NamedTuple):
    """One rank at one moment.

    ``on_device``, ``on_host``: what counts as there, the least recently used first.  ``free``, ``host_free``,
    ``window_free``, ``state_free``: what every rank of the tree has free, what others occupy there left out.
    ``counts``: whether a prefetch counts as over that is not among those ``agreed`` on.
    ``over``: the pages whose copy has ended on every rank, noted or not.  ``new``: those of which nobody knows when they were used.
    """

    view: RankView
    agreed: Agreed
    on_device: tuple[Prefix, ...]
    on_host: tuple[Prefix, ...]
    free: int
    host_free: int
    window_free: int
    state_free: int
    attached: bool
    counts: bool = True
    over: frozenset[Prefix] = frozenset()
    new: frozenset[Prefix] = frozenset()

    @property
    def writing(self) -> tuple[Prefix, ...]:
        """The pages that are being copied to the host."""
        return (*self.agreed.writing, *self.view.writing)

    @property
    def loading(self) -> tuple[Prefix, ...]:
        """The pages that are being copied to the device."""
        return (*self.agreed.loading, *self.view.loading)

    def holds(self, rid: int) -> bool:
        """Whether a prefetch may hold memory: it is under way, or what it had waits to be given back."""
        return rid < 0 or not self.counts or rid in self.agreed.fetches


@dataclass(slots=True, eq=False, repr=False)
class RankSeen(TierSeen):
    """A rank as it was seen: how many pages are free, and not which."""

    free_pages: int = 0
    host_free_pages: int = 0

    @property
    def free_count(self) -> int:
        """The pages that are free on every rank."""
        return self.free_pages

    @property
    def host_free_count(self) -> int:
        """Those of the host, what others occupy left out."""
        return self.host_free_pages

    @property
    def unbacked(self) -> list[Name]:
        """Nothing is said of these: a page of the host may go while the device has it."""
        return []


# -- one rank at one moment --------------------------------------------------------------------------


@functools.cache
def homes(pages: int, held: int, free: int) -> tuple[tuple[PageNo, ...], tuple[PageNo, ...], frozenset[PageNo]]:
    """The places of a pool of so many that are held, and those that are free, as a list and as a set.

    Which they are is each rank's own affair, so these are numbered as they are counted.  Where they don't add up, a place
    has two homes, or none, or is beyond the pool's end; so is what was taken where less than nothing is free.
    """
    held = min(held - min(0, free), pages + 1)
    listed = tuple(map(PageNo, range(pages - max(0, min(free, pages + 1)), pages)))
    return tuple(map(PageNo, range(held))), listed, frozenset(listed)


def names_of(lift: Lift, pages: Sequence[Prefix]) -> list[Name]:
    """The names of pages."""
    return [lift.names[page] for page in pages]


def known(
    lift: Lift, one: Moment, kept: Prefix = (), begun: Sequence[Work] = (), over: Collection[Prefix] = ()
) -> State:
    """What is known of a rank; ``kept``: a path that a call itself uses, ``begun``: the copies that it began.

    A page is protected that is copied from, or below which one is loaded, with the path to it; but for those ``over``.
    """
    alike = (one.view, one.agreed, one.on_device, one.on_host, one.attached, one.new, over)
    if lift.last is None or lift.last[0] != alike:  # mostly a rank is before a call as it was after the last one
        lift.last = (alike, _known(lift, one, over))
    state = lift.last[1]
    if begun:
        assert state.tiers is not None
        state = state._replace(tiers=state.tiers._replace(begun=tuple(begun)))
    pages = state.device.pages
    path = names_of(lift, [kept[:at] for at in range(1, len(kept) + 1)])
    free = {name: pages[name]._replace(locks=1) for name in path if name in pages and not pages[name].locks}
    return state._replace(device=state.device._replace(pages={**pages, **free})) if free else state


def _known(lift: Lift, one: Moment, over: Collection[Prefix]) -> State:
    """The same without what a call uses or begins."""
    held: set[Prefix] = set()
    # A page whose load is shown beside what is cached has memory of its own there: one that was computed meanwhile may go.
    loaded = [page if page not in one.view.loading else page[:-1] for page in one.loading]
    for page in (page for page in (*one.writing, *loaded) if page not in over):
        held.update(page[:at] for at in range(1, len(page) + 1))
    new = frozenset(one.new)
    used = {page: Tick(at) for at, page in enumerate(one.agreed.used)}
    pages = {
        lift.names[page]: Page(
            lift.names[page[:-1]],
            SOMEWHERE,
            used.get(page, Tick(0)),
            used.get(page, Tick(0)),
            locks=int(page in held),
            unsure=page not in used or page in new,
        )
        for page in one.on_device
    }
    host = {
        lift.names[page]: Page(lift.names[page[:-1]], SOMEWHERE, Tick(at), Tick(at), unsure=page in new)
        for at, page in enumerate(one.on_host)
    }
    below = Tiers(work=_work(lift, one), prefetches=_prefetches(lift, one.agreed), attached=one.attached)
    now = Tick(len(one.on_device) + len(one.on_host))
    return empty_state()._replace(device=Tier(pages, now), host=Tier(host, now), tiers=below)


def copy_of(lift: Lift, kind: str, page: Prefix, number: int, source: Prefix | None = None) -> Work:
    """One copy, of one page; ``source``: the page of the host that it reads from, or reads below."""
    key = (number, kind, page, page if source is None else source)
    found = lift.copies.get(key)
    if found is None:
        name = lift.names[page]
        sources = () if source is None else (lift.names[source],)
        job = Job(number, kind, Key(None, page), len(page) - 1)
        found = lift.copies[key] = Work(job, (name,), name, dict.fromkeys(sources, SOMEWHERE))
    return found


def _work(lift: Lift, one: Moment) -> Mapping[int, Work]:
    """What is under way, and holds pages of the host: what is loaded from, and what pages are read or written below."""
    reads = [page for _, pages, _ in one.view.reading for page in pages]
    held = (
        *((LOAD, page, page) for page in one.loading),
        *((BACKUP, page, page[:-1]) for page in one.writing),
        *((FETCH, page, page[:-1]) for page in reads if page),
    )
    return {at: copy_of(lift, kind, page, at, source) for at, (kind, page, source) in enumerate(held)}


def _prefetches(lift: Lift, agreed: Agreed) -> Prefetches:
    """The prefetches that all agreed on."""
    under_way = {
        at: Prefetched(
            rid=rid,
            names=tuple(names_of(lift, fetch.granted)),
            asked=len(fetch.granted),
            anchor=lift.names[fetch.granted[0][:-1]] if fetch.granted[0][1:] else None,
            begun=0.0,
        )
        for at, (rid, fetch) in enumerate(agreed.fetches.items())
    }
    return Prefetches(by_number=under_way, running={one.rid: at for at, one in under_way.items()})


def seen(lift: Lift, one: Moment, available: int | None = None, rid: int | None = None) -> RankSeen:
    """What was seen of a rank; ``available``: what it can hand out, where it makes room; ``rid``: of which prefetch one
    asks what it holds: that is in flight, and what all others hold is not told apart from host copies.
    """
    world, view = lift.world, one.view
    device, host = (names_of(lift, pages) for pages in (one.on_device, one.on_host))
    cached, hosted = dict.fromkeys(device, SOMEWHERE), dict.fromkeys(host, SOMEWHERE)
    above = {lift.names[page]: lift.names[page[:-1]] for page in (*one.on_host, *one.on_device)}
    root = lift.names[()]
    read = {number: len(pages) for number, pages, _ in view.reading if one.holds(number)}
    others = view.host_free - one.host_free
    held, free, free_set = homes(world.pages, len(view.device) + len(view.loading), view.device_free)
    host_held, host_free, _ = homes(
        world.host_pages, len(view.host) + len(view.writing) + sum(read.values()) + others, one.host_free
    )
    own = read.get(rid, 0) if rid is not None else 0
    return RankSeen(
        available=one.free if available is None else available,
        seen=True,
        listed=free,
        free=free_set,
        cached=cached,
        cached_listed=[*held],
        parents={above[name] for name in device} - {root},
        hosted=hosted,
        host_listed=[*host_held[own:]],
        host_free=host_free,
        moving=[*host_held[:own]],
        homeless=[name for name, over in above.items() if over != root and over not in above],
        gaps=[name for name in device if above[name] != root and above[name] not in cached],
        parent_names=above,
        free_pages=one.free,
        host_free_pages=one.host_free,
    )


def moment(ranks: RanksState, members: Sequence[int]) -> Moment:
    """The first of these ranks that was seen, at one moment; of the others the view is another one (:func:`of_view`)."""
    own = [ranks.own[one] for one in members]
    looks = [(view, one) for rank, one in zip(members, own, strict=True) if (view := ranks.seen[rank]) is not None]
    view = looks[0][0]
    states = [view.states.free - one.pinched_states for view, one in looks if view.states is not None]
    return Moment(
        view,
        ranks.trees[ranks.tree_of(members[0])],
        view.device,
        view.host,
        min([view.device_free for view, _ in looks]),
        min([view.host_free - one.pinched for view, one in looks]),
        min([view.window_free for view, _ in looks]),
        min(states, default=0),
        all(one.attached for one in own),
        over=frozenset.intersection(*[one.wrote | one.loaded for one in own]),
    )


def of_view(one: Moment, view: RankView | None) -> Moment:
    """The same of a rank that looks so."""
    assert view is not None
    return one if view is one.view else one._replace(view=view, on_device=view.device, on_host=view.host)


def in_common(ranks: RanksState, members: Sequence[int]) -> Moment:
    """What all of these ranks have, as one."""
    one = moment(ranks, members)
    views = [view for rank in members if (view := ranks.seen[rank]) is not None]
    device = tuple([page for page in one.on_device if all(page in view.device for view in views)])
    host = tuple([page for page in one.on_host if all(page in view.host for view in views)])
    loading = tuple([page for page in one.view.loading if all(page in {*view.device, *view.loading} for view in views)])
    return one._replace(view=one.view._replace(loading=loading), on_device=device, on_host=host)


def noted(one: Moment, decisions: Sequence[Decision]) -> Moment:
    """A moment after the copies have been noted that the call notes before it does anything else."""
    wrote, loaded = (decided(decisions, "ack", kind) or () for kind in ("write", "load"))
    if not (wrote or loaded):
        return one
    device = tuple([page for page in loaded if page not in one.on_device])
    host = tuple([page for page in wrote if page not in one.on_host])

    def left(queue: tuple[Prefix, ...], ended: Collection[Prefix]) -> tuple[Prefix, ...]:
        return tuple([page for page in queue if page not in ended])

    view, agreed = one.view, one.agreed
    view = view._replace(writing=left(view.writing, wrote), loading=left(view.loading, loaded))
    agreed = agreed._replace(writing=left(agreed.writing, wrote), loading=left(agreed.loading, loaded))
    return one._replace(
        view=view,
        agreed=agreed,
        on_device=(*one.on_device, *device),
        on_host=(*one.on_host, *host),
        # What was brought beside a page that is there by now has had memory of its own, which is free again.
        free=one.free + sum(page in one.on_device for page in one.view.loading if page in loaded),
        host_free=one.host_free + sum(page in one.on_host for page in one.view.writing if page in wrote),
        new=frozenset((*device, *host)),
    )
