"""Each rank as a plain cache: what ranks are asked, seen as calls on one cache with a host.

A rank shows which pages it has on its device and its host, the least recently used first, and how many are free.  It
shows no places, nodes or counts of uses, so the facts that are read from these are :data:`HIDDEN`; for the rest it is
judged by the laws of a cache.  An insert is two calls of a plain cache: an allocation that makes room for itself, and an
insert of what that got.

Memory is granted by agreement, so what is free is the least that any rank of the tree has.  Of a call that did not
return on all of them nothing is said here, nor where one of them can't be seen, or has lost what it had.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvlitmus.spec.interface import Hit, Stored
from kvlitmus.spec.interface import tiers as answers
from kvlitmus.spec.interface.ranks import Ask, Decision, Prefix, RankView, World
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, Job
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix import tier_calls
from kvlitmus.spec.prefix.calls import Alloc, Evict, Insert, Match, Path, path_of
from kvlitmus.spec.prefix.page import Page, Tree
from kvlitmus.spec.prefix.partial import SOMEWHERE
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.tier_state import Prefetched, Prefetches, Tiers, Work, droppable
from kvlitmus.spec.ranks.calls import RETURNED, RankAsk, Together
from kvlitmus.spec.ranks.state import Agreed, RanksState, decided
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.policies import WRITE_THROUGH
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, Name, Slot, Tick, Tokens

Step = Lifted[State, Seen]

HAS = frozenset({"pool", "lookup", "tree", "inspect", "tiers", "steps", "host", "prefetching"})
"""What a rank can be judged by: its tree, its host, and what is under way there."""

ENDLESS = 1 << 30
"""A limit that nothing comes near: ranks declare none."""

PLACES = frozenset(
    {
        "available_after",
        "free_before",
        "free_after",
        "free_listed",
        "cached_listed",
        "cached_homes",
        "granted",
        "granted_pages",
        "host_available",
        "host_broken",
        "host_free",
        "host_free_before",
        "host_listed",
        "host_moving",
        "odd_in_pool",
        "owned_after",
        "owned_twice",
    }
)
"""The facts about places: a rank shows how many pages are free, and not which."""

COUNTS = frozenset({"node_counts", "host_counts", "broken_nodes", "broken_pages"})
"""The facts about nodes, and how often they were used."""

JOBS = frozenset(
    {
        "acked_unlanded",
        "held_sources",
        "illegal_job_steps",
        "occupied_now",
        "odd_in_host_pool",
        "odd_jobs",
        "odd_pins",
    }
)
"""The facts about jobs with numbers of their own."""

OWN_WAYS = frozenset(
    {"anchors", "copies_disturbed", "may_evict", "odd_on_host", "reported_already", "unbacked_parents"}
)
"""What ranks do otherwise than a hierarchy, or don't tell: a page of the host may go while the device has it, and a
prefetch may begin behind a page that the device alone has.
"""

HIDDEN = PLACES | COUNTS | JOBS | OWN_WAYS
"""The facts that such a view can't tell."""

ORDER = frozenset({"choosing", "choosing_on_the_host"})
"""The facts about which pages go first, hidden under policies that go by more than when a page was used."""

NODES = ORDER | {"needless", "host_needless", "reservable", "due_missed", "load_room"}
"""What can't be told either where whole nodes go: which pages one has isn't shown."""


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


class Moment(NamedTuple):
    """One rank at one moment.

    ``on_device``, ``on_host``: what counts as there, the least recently used first.  ``free``, ``host_free``,
    ``window_free``, ``state_free``: what every rank of the tree has free, what others occupy there left out.
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


# -- one rank at one moment --------------------------------------------------------------------------


def name_of(setting: Setting, page: Prefix) -> Name:
    """The name of a page, or the root's."""
    return setting.names.of(None, page)[-1] if page else setting.names.root(None)


def names_of(setting: Setting, pages: Sequence[Prefix]) -> list[Name]:
    """The names of pages."""
    return [name_of(setting, page) for page in pages]


def known(
    setting: Setting, one: Moment, kept: Prefix = (), begun: Sequence[Work] = (), over: Collection[Prefix] = ()
) -> State:
    """What is known of a rank; ``kept``: a path that a call itself uses, ``begun``: the copies that it began.

    A page is protected that is copied from, or below which one is loaded, with the path to it; but for those ``over``.
    """
    held = {kept[:at] for at in range(1, len(kept) + 1)}
    # A page whose load is shown beside what is cached has memory of its own there: one that was computed meanwhile may go.
    loaded = [page if page not in one.view.loading else page[:-1] for page in one.loading]
    for page in (page for page in (*one.writing, *loaded) if page not in over):
        held.update(page[:at] for at in range(1, len(page) + 1))
    used = {page: Tick(at) for at, page in enumerate(one.agreed.used)}
    pages = {
        name_of(setting, page): Page(
            name_of(setting, page[:-1]),
            SOMEWHERE,
            used.get(page, Tick(0)),
            used.get(page, Tick(0)),
            locks=int(page in held),
        )
        for page in one.on_device
    }
    alone = {
        name: Page(name_of(setting, page[:-1]), SOMEWHERE, Tick(at), Tick(at))
        for at, page in enumerate(one.on_host)
        if (name := name_of(setting, page)) not in pages
    }
    below = Tiers(
        work=_work(setting, one),
        alone=alone,
        unsure=frozenset(names_of(setting, [*one.new, *[page for page in one.on_device if page not in used]])),
        prefetches=_prefetches(setting, one.agreed),
        attached=one.attached,
        begun=tuple(begun),
    )
    return empty_state()._replace(tree=Tree(pages, Tick(len(one.on_device) + len(one.on_host))), tiers=below)


def copy_of(setting: Setting, kind: str, page: Prefix, number: int = 0, sources: Collection[Name] = ()) -> Work:
    """One copy, of one page."""
    name = name_of(setting, page)
    job = Job(number, kind, Key(None, page), len(page) - 1)
    return Work(job, (name,), name, dict.fromkeys(sources, SOMEWHERE))


def _work(setting: Setting, one: Moment) -> Mapping[int, Work]:
    """What is under way, and holds pages of the host: what is loaded from, and what pages are read or written below."""
    reads = [page for _, pages, _ in one.view.reading for page in pages]
    held = (
        *((LOAD, page, page) for page in one.loading),
        *((BACKUP, page, page[:-1]) for page in one.writing),
        *((FETCH, page, page[:-1]) for page in reads if page),
    )
    return {
        at: copy_of(setting, kind, page, at, [name_of(setting, source)]) for at, (kind, page, source) in enumerate(held)
    }


def _prefetches(setting: Setting, agreed: Agreed) -> Prefetches:
    """The prefetches that all agreed on."""
    under_way = {
        at: Prefetched(
            rid=rid,
            names=tuple(names_of(setting, fetch.granted)),
            asked=len(fetch.granted),
            anchor=name_of(setting, fetch.granted[0][:-1]) if fetch.granted[0][1:] else None,
            begun=0.0,
        )
        for at, (rid, fetch) in enumerate(agreed.fetches.items())
    }
    return Prefetches(by_number=under_way, running={one.rid: at for at, one in under_way.items()})


def seen(setting: Setting, one: Moment, available: int | None = None, rid: int | None = None) -> RankSeen:
    """What was seen of a rank; ``available``: what it can hand out, where it makes room; ``rid``: of which prefetch one
    asks what it holds.
    """
    device, host = (names_of(setting, pages) for pages in (one.on_device, one.on_host))
    cached, hosted = dict.fromkeys(device, SOMEWHERE), dict.fromkeys(host, SOMEWHERE)
    above = {name_of(setting, page): name_of(setting, page[:-1]) for page in (*one.on_host, *one.on_device)}
    root = name_of(setting, ())
    parents = {above[name] for name in device} - {root}
    return RankSeen(
        available=one.free if available is None else available,
        seen=True,
        cached=cached,
        parents=parents,
        hosted=hosted,
        moving=[SOMEWHERE for number, pages, _ in one.view.reading if number == rid for _ in pages],
        homeless=[name for name, over in above.items() if over != root and over not in above],
        gaps=[name for name in device if above[name] != root and above[name] not in cached],
        parent_names=above,
        free_pages=one.free,
        host_free_pages=one.host_free,
    )


# -- calls -------------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A call on one rank: what it was asked, what it decided, and the rank before and after it."""

    setting: Setting
    world: World
    ask: Ask
    decisions: tuple[Decision, ...]
    was: Moment
    now: Moment

    def named(self, kind: str, of: str) -> tuple[Prefix, ...]:
        """What was decided of this kind."""
        return decided(self.decisions, kind, of) or ()

    @property
    def pages(self) -> list[Prefix]:
        """The pages of the key, from the first one on."""
        return [self.ask.key[:at] for at in range(1, len(self.ask.key) + 1)]

    def path(self, pages: int) -> Path:
        """So many pages of the key, named."""
        return path_of(self.setting.names, Key(None, self.ask.key[:pages]), 1)

    def has_parts(self, pages: int) -> bool:
        """Whether enough is free for the window and the state of a prefetch of so many pages, and nothing has to go for them."""
        window = self.world.window if pages >= self.world.window else 0
        return self.was.window_free >= window and self.was.state_free >= min(1, self.world.state_slots)

    def step(self, call: object, answer: object, kept: Prefix = ()) -> Step:
        """This call, or a part of it, as a step of a plain cache; ``kept``: the path that it uses.

        Whether a page may go whose copy has ended on every rank, and was not noted, is not said here.
        """
        begun = [
            copy_of(self.setting, kind, page, at)
            for kind, of in ((BACKUP, "write"), (LOAD, "load"))
            for at, page in enumerate(self.named("grant", of))
        ]
        before, after = (seen(self.setting, one, rid=self.ask.rid) for one in (self.was, self.now))
        state, then = known(self.setting, self.was, kept), known(self.setting, self.now, begun=begun)
        expected = known(self.setting, self.was, kept, over=self.was.over) if self.was.over else state
        hides = hidden(self.setting)
        released = [name for name, page in state.tree.pages.items() if page.locks > expected.tree.pages[name].locks]
        if any(name not in after.cached for name in released):
            hides |= {"locked_names"}
        return Lifted("", self.setting, state, expected, then, call, answer, before, after, hides)


def hidden(setting: Setting) -> frozenset[str]:
    """The facts that can't be told of ranks with this profile."""
    if setting.profile.evict_granularity == "node":
        return HIDDEN | NODES
    return HIDDEN if setting.config.policy == "lru" else HIDDEN | ORDER


def _match(told: Told) -> Iterator[Step]:
    """What is found on the device."""
    found = told.named("match", "device")[0]
    call = Match(told.path(len(told.ask.key)))
    yield told.step(call, Hit(len(found)))


def _evict(told: Told) -> Iterator[Step]:
    """Pages of the device go."""
    freed = len(told.named("victims", "device"))
    yield told.step(Evict(Tokens(told.ask.pages)), freed)


def _insert(told: Told) -> Iterator[Step]:
    """An allocation for what is missing, and an insert of what that got.

    Whether anything goes for it is a choice.  Where there is not room for all of it on every rank, the first pages are
    cached that there is room for, or none.
    """
    setting, (was, now) = told.setting, map(_with_copies, (told.was, told.now))
    there = run_of(told.pages, was.on_device)
    missing = told.pages[there:]
    got = run_of(missing, now.on_device)
    kept = told.ask.key[:there]
    stayed = tuple([page for page in was.on_device if page in now.on_device])
    gone = len(was.on_device) - len(stayed)
    room = was.free + (_evictable(known(setting, was, kept)) if gone else 0)
    between = was._replace(on_device=stayed, free=was.free + gone - got)
    if missing or gone:
        asked = min(len(missing), room) if got else len(missing)
        slots = (Slot(SOMEWHERE),) * got if got or not missing else None
        alloc = told._replace(was=was, now=between).step(Alloc(Tokens(asked)), slots, kept)
        yield alloc._replace(before=seen(setting, was, room))
    insert = Insert(told.path(there + got), (Slot(SOMEWHERE),) * (there + got), there)
    yield told._replace(was=between, now=now).step(insert, Stored(there), kept)


def _evictable(state: State) -> int:
    """How many pages of the device may go."""
    return sum(not page.locks for page in state.tree.pages.values())


def _with_copies(one: Moment) -> Moment:
    """A moment at which a page has a host copy as soon as that is begun."""
    begun = [page for page in one.writing if page not in one.on_host]
    return one._replace(on_host=(*one.on_host, *dict.fromkeys(begun)))


def _load(told: Told) -> Iterator[Step]:
    """What is on the host alone comes back; nothing is said of a key of which something is coming back already."""
    if any(page in told.was.loading for page in told.pages):
        return
    came = told.named("grant", "load")
    on_device = (*told.now.on_device, *[page for page in came if page not in told.now.on_device])
    call = tier_calls.LoadBack(told.path(len(told.ask.key)))
    before = run_of(told.pages, told.was.on_device)
    answer = answers.Loaded(before, (SOMEWHERE,) * len(came) if came else None)
    told = told._replace(now=told.now._replace(on_device=on_device))
    yield told.step(call, answer)


def _prefetch(told: Told) -> Iterator[Step]:
    """Memory of the host is taken for what is not cached: all of it, or what there is room for.

    Where a prefetch begins is a choice, behind what the host has or behind what either tier has.  Nothing is said of one
    that is declined where by one of these there is nothing to read, or too little is free for a window or a state.
    """
    setting, was = told.setting, told.was
    granted, pages = told.named("grant", "read"), told.pages
    hosted, either = run_of(pages, was.on_host), run_of(pages, {*was.on_host, *was.on_device})
    start = len(granted[0]) - 1 if granted else hosted
    if start not in (hosted, either) or not (granted or (either < len(pages) and told.has_parts(len(pages) - start))):
        return
    own = was if start == either else was._replace(on_device=())  # it looks at the host alone
    now = told.now if start == either else told.now._replace(on_device=())
    below = known(setting, was).tiers
    assert below is not None
    spare = droppable(below, seen(setting, was), names_of(setting, pages))
    step = told._replace(was=own, now=now).step(
        tier_calls.Prefetch(told.ask.rid, told.path(len(pages))),
        answers.Prefetched(bool(granted), start, len(granted)),
    )
    if was.host_free + len(spare) < len(pages) - start and (was.on_device or not granted):
        # Whether the host lets go of what the device has, too, is a choice, and so is to begin a prefetch cut short.
        step = step._replace(hidden=step.hidden | {"reservable"})
    if start == either:
        yield step
        return
    # Where the device is left out, a page of the host may hang from one that is left out, too.
    yield step._replace(hidden=step.hidden | {"homeless"})
    yield from _other(told)


def _other(told: Told) -> Iterator[Step]:
    """No call of a plain cache that a rank shows enough of: what holds at any time holds after it, unless all begin anew."""
    if decided(told.decisions, "commit", "reset") is None:
        yield told.step(UNKNOWN, UNKNOWN)


SEEN_AS: Mapping[str, Callable[[Told], Iterator[Step]]] = {
    "match": _match,
    "evict": _evict,
    "insert": _insert,
    "load": _load,
    "prefetch": _prefetch,
}
"""What ranks are asked, as calls on a plain cache; the rest is :func:`_other`."""


# -- all ranks ---------------------------------------------------------------------------------------


def lifted(setting: Setting, state: RanksState, call: RankAsk, answer: Together, then: RanksState) -> Iterator[Step]:
    """A call on ranks, rank by rank, as steps of plain caches; of ranks that are alike in everything once for all."""
    look = SEEN_AS.get(call.ask.what, _other)
    if not _comparable(state, call, answer, then):
        return
    alike: list[tuple[Told, list[int]]] = []
    for one in answer.traces:
        before, after = (_moment(known, call.ranks, one.rank) for known in (state, then))
        told = Told(setting, state.world, call.ask, one.decisions, _noted(before, one.decisions), after)
        ranks = next((ranks for other, ranks in alike if other == told), None)
        if ranks is None:
            alike.append((told, [one.rank]))
        else:
            ranks.append(one.rank)
    for told, ranks in alike:
        where = "every rank" if len(ranks) == len(call.ranks) else f"rank {' and '.join(map(str, ranks))}"
        for step in look(told):
            yield step._replace(where=where)


def _comparable(state: RanksState, call: RankAsk, answer: Together, then: RanksState) -> bool:
    """Whether the call returned on all ranks, and all were seen before and after it and have lost nothing."""
    if len(answer.traces) != len(call.ranks) or any(one.ended != RETURNED for one in answer.traces):
        return False
    return all(
        rank < len(known.seen) and known.seen[rank] is not None and known.own[rank].whole
        for known in (state, then)
        for rank in call.ranks
    )


def _moment(ranks: RanksState, members: Sequence[int], rank: int) -> Moment:
    """One rank at one moment."""
    views, own = [ranks.seen[one] for one in members], [ranks.own[one] for one in members]
    looks = [(view, one) for view, one in zip(views, own, strict=True) if view is not None]
    view = ranks.seen[rank]
    assert view is not None
    states = [view.states.free - one.pinched_states for view, one in looks if view.states is not None]
    return Moment(
        view,
        ranks.trees[ranks.tree_of(rank)],
        view.device,
        view.host,
        min(view.device_free for view, _ in looks),
        min(view.host_free - one.pinched for view, one in looks),
        min(view.window_free for view, _ in looks),
        min(states, default=0),
        all(one.attached for one in own),
        frozenset.intersection(*[one.wrote | one.loaded for one in own]),
    )


def _noted(one: Moment, decisions: Sequence[Decision]) -> Moment:
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
        new=frozenset((*device, *host)),
    )


def run_of(pages: Sequence[Prefix], there: Collection[Prefix]) -> int:
    """How many of the pages are there, from the first one on without a gap."""
    return next((at for at, page in enumerate(pages) if page not in there), len(pages))
