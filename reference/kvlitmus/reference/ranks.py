"""One rank of several that hold a cache together, as pure functions over frozen values.

A call is three things, in this order: what this rank **has** (:func:`contribute`), what all ranks have in common of
that (:func:`agree`: the least, value by value), and what follows from what is **common** alone (:func:`settle`).
Only the first looks at anything that is this rank's own, and only the last changes anything.  So ranks that were
equal stay equal, and a call that is lost because a rank is gone has changed nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.ranks import (
    Ask,
    Collective,
    Decision,
    Exchange,
    Local,
    Prefix,
    RankView,
    Receive,
    Send,
    StatesView,
    World,
)
from kvlitmus.spec.ranks.state import Own, emptied, finished, forgotten, noted
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.prefetch_life import ENDED, FETCH

ROOM = ("attached", "device", "device evictable", "host", "host evictable", "window", "state", "state evictable")
"""What ranks compare before memory is granted."""


class Reading(NamedTuple):
    """A prefetch: the pages it holds memory for, whether it holds a window, when it began, what storage has of it, and
    whether it holds a state: that is for the last of its pages.
    """

    pages: tuple[Prefix, ...]
    window: bool
    began: int
    hit: int | None = None
    state: bool = False


class Rank(NamedTuple):
    """One rank."""

    world: World
    """All ranks, and what they are asked to be."""
    number: int
    """This one's."""
    device: tuple[Prefix, ...] = ()
    """The pages on the device, the least recently used first."""
    host: tuple[Prefix, ...] = ()
    """Those on the host, likewise."""
    writing: tuple[Prefix, ...] = ()
    """Copies to the host, in the order in which they began."""
    loading: tuple[Prefix, ...] = ()
    """Copies to the device, likewise."""
    reading: Mapping[int, Reading] = {}
    """By request the prefetches that are under way."""
    windows: tuple[Prefix, ...] = ()
    """The boundaries with a window, the oldest first."""
    own: Own = Own()
    """What only this rank knows."""
    states: tuple[Prefix, ...] = ()
    """The boundaries with a state, the oldest first."""

    @property
    def device_free(self) -> int:
        """Free pages of the device."""
        return self.world.pages - len(self.device) - len(self.loading)

    @property
    def host_free(self) -> int:
        """Free pages of the host."""
        read = sum(len(one.pages) for one in self.reading.values())
        return self.world.host_pages - len(self.host) - len(self.writing) - read

    @property
    def window_free(self) -> int:
        """Free pages of the window."""
        held = len(self.windows) + sum(one.window for one in self.reading.values())
        return self.world.window_pages - held * self.world.window

    @property
    def state_free(self) -> int:
        """Free entries for states."""
        return self.world.state_slots - len(self.states) - sum(one.state for one in self.reading.values())


def pages_of(key: Prefix) -> tuple[Prefix, ...]:
    """The pages of a key, from the first one on."""
    return tuple(key[:at] for at in range(1, len(key) + 1))


def leading(pages: Sequence[Prefix], there: Sequence[Prefix]) -> int:
    """How many of the pages are there, from the first one on without a gap."""
    return next((at for at, page in enumerate(pages) if page not in there), len(pages))


def view(rank: Rank) -> RankView:
    """What others may see of a rank."""
    held = tuple((rid, one.pages, rank.world.window * one.window) for rid, one in sorted(rank.reading.items()))
    return RankView(
        rank.device,
        rank.host,
        rank.writing,
        rank.loading,
        held,
        rank.windows,
        rank.device_free,
        rank.host_free,
        rank.window_free,
    )


def states_view(rank: Rank) -> StatesView:
    """What others may see of its states."""
    held = tuple((rid, one.pages[-1]) for rid, one in sorted(rank.reading.items()) if one.state)
    return StatesView(rank.states, held, rank.state_free)


# -- agreement ---------------------------------------------------------------------------------------


def least(values: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What all have in common: value by value the least."""
    return tuple(min(column) for column in zip(*values, strict=True))


def agree(
    world: World, rank: int, layout: tuple[str, ...], values: tuple[int, ...]
) -> Generator[Exchange, tuple[int, ...], tuple[int, ...]]:
    """Reduce to the least over all ranks of a tree: over every dimension of the stage, then along the stages and
    back.
    """
    for group in world.dimensions(rank):
        values = yield Collective(group, "min", layout, values)
    stages = world.stages(rank)
    stage = next(at for at, one in enumerate(stages) if rank in one)
    place = stages[stage].index(rank)
    if stage > 0:
        values = least([values, (yield Receive(stages[stage - 1][place]))])
    if stage < len(stages) - 1:
        yield Send(stages[stage + 1][place], layout, values)
        values = yield Receive(stages[stage + 1][place])
    if stage > 0:
        yield Send(stages[stage - 1][place], layout, values)
    return values


def rounds(ask: Ask) -> int:
    """How often ranks agree in a call: equal trees find and evict equally without it; all else is agreed on once."""
    return 0 if ask.what in ("match", "evict") else 1


def layout(rank: Rank, ask: Ask) -> tuple[str, ...]:
    """What the values are about that ranks bring to a call: it follows from the call and what was agreed on before."""
    if ask.what == "acks":
        return ("writes", "loads")
    if ask.what == "poll":
        return ("may stop", "has not failed", "pages", "window pages", "states")
    if ask.what == "hit":
        one = rank.reading.get(ask.rid)
        pages = range(1, len(one.pages) + 1) if one is not None and one.hit is None else ()
        return ("answered", *[f"boundary {at}" for at in pages])
    return {"abort": ("here",), "rejoin": ("whole",)}.get(ask.what, ROOM)


def contribute(rank: Rank, ask: Ask) -> tuple[int, ...]:
    """What this rank has, of what a call is about; a zero for what it has not."""
    own, one = rank.own, rank.reading.get(ask.rid)
    if ask.what == "acks":
        return (finished(rank.writing, own.wrote), finished(rank.loading, own.loaded))
    if ask.what == "poll":
        pages, window = own.read.get(ask.rid, (0, 0))
        may = one is not None and may_stop(rank, ask.rid, one)
        return (int(may), int(ask.rid not in own.failed), pages, window, int(ask.rid in own.stated))
    if ask.what == "hit":
        found = own.found.get(ask.rid)
        if found is not None and one is not None and one.state:
            found &= own.states[ask.rid]
        places = range(1, len(layout(rank, ask)))
        return (int(found is not None), *[int(at in (found or ())) for at in places])
    if ask.what in ("abort", "rejoin"):
        return (int(own.whole or ask.what == "abort"),)
    return room(rank, ask.key)


def room(rank: Rank, key: Prefix) -> tuple[int, ...]:
    """How much room this rank has, now and by evictions that leave the path of the key alone."""
    kept = frozenset(pages_of(key))
    everything = rank.world.pages + rank.world.host_pages
    return (
        int(rank.own.attached),
        rank.device_free,
        len(evicted(rank, "device", everything, kept)[1]),
        max(0, rank.host_free - rank.own.pinched),
        len(evicted(rank, "host", everything, kept)[1]),
        rank.window_free + rank.world.window * len(rank.windows),
        max(0, rank.state_free - rank.own.pinched_states),
        len(rank.states),
    )


def may_stop(rank: Rank, rid: int, one: Reading) -> bool:
    """Whether, to this rank alone, the stop policy lets a prefetch end."""
    pages, window = rank.own.read.get(rid, (0, 0))
    whole = one.hit is not None and pages >= one.hit and (not one.window or window >= rank.world.window)
    whole = whole and (not one.state or rid in rank.own.stated)
    elapsed = rank.own.clock - one.began
    return policies.may_stop(rank.world.stop, ENDED if whole else FETCH, elapsed, rank.world.limit)


# -- evictions ---------------------------------------------------------------------------------------


def evicted(rank: Rank, tier: str, many: int, kept: frozenset[Prefix]) -> tuple[Rank, tuple[Prefix, ...]]:
    """Evict so many pages of a tier, or as many as can be, the least recently used leaf first; and which, in order.

    On the device a page stays that is copied from, or below which one is being loaded; on the host one that is loaded
    from, or below which one is being written or read.
    """
    read = [page for one in rank.reading.values() for page in one.pages]
    pages = list(rank.device if tier == "device" else rank.host)
    busy = [*rank.loading] if tier == "device" else [*rank.writing, *read]
    still = frozenset(rank.writing if tier == "device" else rank.loading) | kept
    victims: list[Prefix] = []
    while len(victims) < many:
        parents = {page[:-1] for page in (*pages, *busy)}
        victim = next((page for page in pages if page not in parents and page not in still), None)
        if victim is None:
            break
        pages.remove(victim)
        victims.append(victim)
    if tier == "device":
        return rank._replace(device=tuple(pages)), tuple(victims)
    windows, states = (tuple(page for page in had if page not in victims) for had in (rank.windows, rank.states))
    return rank._replace(host=tuple(pages), windows=windows, states=states), tuple(victims)


def used(order: tuple[Prefix, ...], pages: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """The order of use after these pages were used; new ones are added."""
    return (*[page for page in order if page not in pages], *pages)


# -- decisions ---------------------------------------------------------------------------------------


def settle(rank: Rank, ask: Ask, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """What follows from what all ranks have in common; what this rank has by itself is not looked at."""
    if ask.what == "match":
        return found(rank, ask.key)
    if ask.what == "evict":
        rank, victims = evicted(rank, "device", ask.pages, frozenset())
        return rank, (Decision("victims", "device", victims),)
    if ask.what == "insert":
        return inserted(rank, ask.key, common)
    if ask.what == "acks":
        return acked(rank, common)
    if ask.what == "prefetch":
        return truncated(rank, ask, common)
    if ask.what == "hit":
        return restorable(rank, ask.rid, common)
    if ask.what == "poll":
        return ended(rank, ask.rid, common)
    if ask.what == "load":
        return loads(rank, ask.key, common)
    if ask.what == "rejoin" and not common[0]:
        return Rank(rank.world, rank.number, own=emptied(rank.own)), (Decision("commit", "reset", ()),)
    if ask.what == "abort":
        return without(rank, ask.rid), ()
    return rank, ()


def found(rank: Rank, key: Prefix) -> tuple[Rank, tuple[Decision, ...]]:
    """The longest prefix on the device; it is used."""
    pages = pages_of(key)
    pages = pages[: leading(pages, rank.device)]
    return rank._replace(device=used(rank.device, pages)), (Decision("match", "device", (pages[-1] if pages else (),)),)


def inserted(rank: Rank, key: Prefix, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """Cache as much of a key as fits, and begin to copy to the host what is not there, as much as fits there."""
    _, device, device_more, host, host_more, *_ = common
    pages, kept = pages_of(key), frozenset(pages_of(key))
    missing = pages[leading(pages, rank.device) :][: device + device_more]
    rank, victims = evicted(rank, "device", max(0, len(missing) - device), kept)
    path = pages[: leading(pages, (*rank.device, *missing))]
    rank = rank._replace(device=used(rank.device, path))
    due = path[leading(path, (*rank.host, *rank.writing)) :][: host + host_more]
    rank, others = evicted(rank, "host", max(0, len(due) - host), kept)
    return rank._replace(writing=rank.writing + due), (
        Decision("victims", "device", victims),
        Decision("commit", "device", missing),
        Decision("victims", "host", others),
        Decision("grant", "write", due),
    )


def acked(rank: Rank, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """The first copies of each queue, as many as have ended on all ranks, are over."""
    wrote, loaded = rank.writing[: common[0]], rank.loading[: common[1]]
    own = rank.own._replace(wrote=rank.own.wrote - set(wrote), loaded=rank.own.loaded - set(loaded))
    rank = rank._replace(
        writing=rank.writing[common[0] :],
        loading=rank.loading[common[1] :],
        host=rank.host + tuple(page for page in wrote if page not in rank.host),
        device=rank.device + tuple(page for page in loaded if page not in rank.device),
        own=own,
    )
    return rank, (Decision("ack", "write", wrote), Decision("ack", "load", loaded))


def truncated(rank: Rank, ask: Ask, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """Take memory for what is missing on the host: all of it, else as much of its beginning as all ranks have room for.

    A window comes with it where the pages are enough for one, and one state where there are states, however few the
    pages are; where one of these finds no room, nothing is taken at all.
    """
    attached, _, _, host, host_more, window_room, states, states_more = common
    pages, size, state = pages_of(ask.key), rank.world.window, rank.world.state_slots > 0
    missing = pages[leading(pages, rank.host) :][: host + host_more]
    window = 0 < size <= len(missing)
    if not attached or not missing or ask.rid in rank.reading or (window and window_room < size):
        return rank, (Decision("grant", "read", ()),)
    if state and not states + states_more:
        return rank, (Decision("grant", "read", ()),)
    had = len(rank.states)
    rank, victims = evicted(rank, "host", max(0, len(missing) - host), frozenset(pages))
    # What was evicted may have had windows, on all ranks alike.
    dropped = rank.windows[: -(-max(0, size - rank.window_free) // size)] if window else ()
    rank = rank._replace(windows=rank.windows[len(dropped) :])
    gone = rank.states[: max(0, state - states - (had - len(rank.states)))]
    rank = rank._replace(states=rank.states[len(gone) :])
    reading = {**rank.reading, ask.rid: Reading(missing, window, rank.own.clock, state=state)}
    return rank._replace(reading=reading, own=forgotten(rank.own, ask.rid)), (
        Decision("victims", "host", victims),
        Decision("victims", "window", dropped),
        Decision("grant", "read", missing),
        Decision("grant", "window", missing[-1:] if window else ()),
        *about_states(rank, Decision("victims", "state", gone), Decision("grant", "state", missing[-1:])),
    )


def about_states(rank: Rank, *decisions: Decision) -> tuple[Decision, ...]:
    """These decisions, where there are states."""
    return decisions if rank.world.state_slots else ()


def restorable(rank: Rank, rid: int, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """Storage has the longest prefix that all ranks can restore; the rest of the memory is given back."""
    one = rank.reading.get(rid)
    if one is None or one.hit is not None or not common[0]:
        return rank, ()
    hit = max((at for at, there in enumerate(common) if at and there), default=0)
    granted = Decision("grant", "hit", one.pages[:hit])
    if not hit:
        return without(rank, rid), (granted,)
    kept = Reading(one.pages[:hit], one.window and hit >= rank.world.window, one.began, hit, one.state)
    place = about_states(rank, Decision("grant", "state", kept.pages[-1:]))
    return rank._replace(reading={**rank.reading, rid: kept}), (granted, *place)


def without(rank: Rank, rid: int) -> Rank:
    """The rank after a prefetch has given back all that it held; what was found and read for it goes with it."""
    reading = {other: one for other, one in rank.reading.items() if other != rid}
    return rank._replace(reading=reading, own=forgotten(rank.own, rid))


def common_part(hit: int, pages: int, window: bool, window_pages: int, size: int) -> tuple[int, bool]:
    """How many pages are committed, and whether with a window: of what all ranks have read at least."""
    many = max(0, min(hit, pages))
    return many, window and window_pages >= size and many == hit > 0


def attaches(hit: int, many: int, read: bool) -> bool:
    """Whether a state gets into the cache: all ranks have read it, and every page before the boundary that it is of."""
    return read and many == hit > 0


def ended(rank: Rank, rid: int, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """End a prefetch where all ranks may, or one has failed: what all have read is cached, the rest is given back."""
    one = rank.reading.get(rid)
    may, unbroken, pages, window_pages, stated = common
    if one is None or not terminates(bool(may), not unbroken):
        return rank, ()
    many, window = common_part(one.hit or 0, pages, one.window, window_pages, rank.world.window)
    rank, read = without(rank, rid), one.pages[:many]
    rank = rank._replace(host=used(rank.host, read))
    boundary = read[-1:] if window else ()
    place = read[-1:] if one.state and attaches(one.hit or 0, many, bool(stated)) else ()
    rank = rank._replace(windows=used(rank.windows, boundary), states=used(rank.states, place))
    return rank, (
        Decision("commit", "kv", read),
        Decision("commit", "window", boundary),
        *about_states(rank, Decision("commit", "state", place)),
    )


def terminates(all_may: bool, one_failed: bool) -> bool:
    """Whether a prefetch ends: every rank lets it, or its reading has ended early on one."""
    return all_may or one_failed


def loads(rank: Rank, key: Prefix, common: tuple[int, ...]) -> tuple[Rank, tuple[Decision, ...]]:
    """Begin to copy to the device what is missing there and on the host, all of it or nothing."""
    _, device, device_more, *_ = common
    pages = pages_of(key)
    missing = pages[leading(pages, rank.device) :]
    missing = missing[: leading(missing, tuple(page for page in rank.host if page not in rank.loading))]
    if len(missing) > device + device_more:
        missing = ()
    rank, victims = evicted(rank, "device", max(0, len(missing) - device), frozenset(pages))
    return rank._replace(loading=rank.loading + missing), (
        Decision("victims", "device", victims),
        Decision("grant", "load", missing),
    )


def happened(rank: Rank, event: Local) -> Rank:
    """The rank after something happened to it alone."""
    if event.what in ("die", "restart"):
        return Rank(rank.world, rank.number, own=Own(whole=False, clock=rank.own.clock))
    return rank._replace(own=noted(rank.own, event))


def call(rank: Rank, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Rank, tuple[Decision, ...]]]:
    """A whole call on one rank: bring what it has, agree, settle."""
    common: tuple[int, ...] = ()
    for _ in range(rounds(ask)):
        common = yield from agree(rank.world, rank.number, layout(rank, ask), contribute(rank, ask))
    return settle(rank, ask, common)
