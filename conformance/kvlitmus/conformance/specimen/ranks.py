"""Several ranks that hold one cache, written as engines write them: each with mutable state of its own.

A :class:`RankCache` is one rank: pages by tier in order of use, queues of copies, prefetches, counters of free pages.
It reserves nothing before all ranks have agreed.  :class:`RankLink` is how it agrees; :class:`RankedSpecimen` is all
ranks behind the ports.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.spec.interface.ranks import (
    Ask,
    Collective,
    Decision,
    Exchange,
    Group,
    Local,
    Prefix,
    RankView,
    Receive,
    Send,
    StatesView,
    Turns,
    World,
)

Exchanging = Generator[Exchange, tuple[int, ...], list[int]]
Deciding = Generator[Exchange, tuple[int, ...], list[Decision]]

ALL = 1 << 30
"""More pages than there are."""


@dataclass(slots=True)
class Read:
    """A prefetch: its pages, the pages of a window, when it began, how much storage has of it (-1: not known yet), and
    for each state that it has memory for the boundary that the state is for.
    """

    pages: list[Prefix]
    window: int
    began: int
    hit: int = -1
    states: list[Prefix] = field(default_factory=list)


class RankLink:
    """How one rank agrees with the others of its tree."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.stages = world.stages(number)
        self.stage = next(at for at, one in enumerate(self.stages) if number in one)
        self.place = self.stages[self.stage].index(number)

    def groups(self) -> Sequence[Group]:
        """The groups to reduce over, one after the other."""
        return self.world.dimensions(self.number)

    def agree(self, op: str, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """Reduce over all ranks of the tree."""
        now = tuple(values)
        for group in self.groups():
            now = yield Collective(group, op, tuple(layout), now)
        if len(self.stages) > 1:
            now = tuple((yield from self.along(op, tuple(layout), now)))
        return list(now)

    def along(self, op: str, layout: tuple[str, ...], values: tuple[int, ...]) -> Exchanging:
        """Reduce along the pipeline: to the last stage, and back."""
        combine = min if op == "min" else max
        if self.stage:
            got = yield Receive(self.stages[self.stage - 1][self.place])
            values = tuple(map(combine, values, got))
        if self.stage + 1 < len(self.stages):
            after = self.stages[self.stage + 1][self.place]
            yield Send(after, layout, values)
            values = yield Receive(after)
        if self.stage:
            yield Send(self.stages[self.stage - 1][self.place], layout, values)
        return list(values)


class RankCache:
    """One rank."""

    link = RankLink

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.to_all = self.link(world, number)
        self.attached, self.whole = True, True
        self.clock = self.pinched = self.pinched_states = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything that is cached or under way."""
        self.device: dict[Prefix, None] = {}
        self.host: dict[Prefix, None] = {}
        self.windows: dict[Prefix, None] = {}
        self.states: dict[Prefix, None] = {}
        self.writes: list[Prefix] = []
        self.loads: list[Prefix] = []
        self.reads: dict[int, Read] = {}
        self.ended: dict[str, set[Prefix]] = {"wrote": set(), "loaded": set()}
        self.found: dict[int, frozenset[int]] = {}
        self.found_states: dict[int, frozenset[int]] = {}
        self.progress: dict[int, tuple[int, int, int]] = {}
        self.failed: set[int] = set()
        self.device_free, self.host_free = self.world.pages, self.world.host_pages
        self.window_free, self.state_free = self.world.window_pages, self.world.state_slots

    # -- what happens to this rank alone --------------------------------------------------------

    def local(self, event: Local) -> Sequence[Prefix] | None:
        """Something happens to this rank alone; the pages whose copies have ended, where they are several."""
        if event.what in self.ended:
            self.ended[event.what].add(event.key)
        elif event.what == "found":
            self.found[event.rid] = frozenset(event.boundaries)
            self.found_states[event.rid] = frozenset(event.states)
        elif event.what == "read":
            self.progress[event.rid] = (event.pages, event.window, event.state)
        elif event.what == "failed":
            self.failed.add(event.rid)
        elif event.what == "clock":
            self.clock = event.pages
        elif event.what == "pinch":
            self.pinched, self.pinched_states = event.pages, event.state
        elif event.what == "attach":
            self.attached = bool(event.pages)
        elif event.what == "restart":
            self.whole, self.attached, self.pinched, self.pinched_states = False, True, 0, 0
            self.clear()
        return None

    # -- calls -----------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> Deciding:
        """Make a call."""
        call: Callable[[Ask], Deciding] = getattr(self, f"ask_{ask.what}")
        return (yield from call(ask))

    def ask_match(self, ask: Ask) -> Deciding:
        """The longest prefix on the device."""
        pages = self.path(ask.key)
        pages = pages[: self.run(pages, self.device)]
        self.use(self.device, pages)
        yield from ()
        return [Decision("match", "device", (pages[-1] if pages else (),))]

    def ask_evict(self, ask: Ask) -> Deciding:
        """Free pages of the device."""
        yield from ()
        return [self.evict_device(ask.pages, set())]

    def ask_insert(self, ask: Ask) -> Deciding:
        """Cache a key, and begin to write what the host lacks."""
        pages = self.path(ask.key)
        device, more, host, host_more = yield from self.to_all.agree("min", self.ROOM[:4], self.room(pages)[:4])
        missing = pages[self.run(pages, self.device) :][: device + more]
        victims = self.evict_device(len(missing) - device, set(pages))
        self.device_free -= len(missing)
        path = pages[: self.run(pages, {*self.device, *missing})]
        self.use(self.device, path)
        due = path[self.run(path, {*self.host, *self.writes}) :]
        due = due[: self.writable(len(due), host, host_more)]
        others = self.evict_host(len(due) - host, set(pages))
        self.host_free -= len(due)
        self.writes += due
        return [
            victims,
            Decision("commit", "device", tuple(missing)),
            others,
            Decision("grant", "write", tuple(due)),
        ]

    def writable(self, wanted: int, host: int, host_more: int) -> int:
        """How many pages the host is to take, of those wanted, where all ranks have so many free and evictable."""
        return host + host_more

    def ask_acks(self, ask: Ask) -> Deciding:
        """Note the copies that have ended on all ranks."""
        wrote, loaded = yield from self.count_acks()
        return [self.wrote(self.writes[:wrote]), self.loaded(self.loads[:loaded])]

    def count_acks(self) -> Exchanging:
        """How many of the first writes and loads are over."""
        mine = [self.run(self.writes, self.ended["wrote"]), self.run(self.loads, self.ended["loaded"])]
        return (yield from self.to_all.agree("min", ("writes", "loads"), mine))

    def wrote(self, pages: list[Prefix]) -> Decision:
        """These pages are on the host now."""
        for page in pages:
            self.writes.remove(page)
            self.ended["wrote"].discard(page)
            self.host_free += page in self.host
            self.host.setdefault(page)
        return Decision("ack", "write", tuple(pages))

    def loaded(self, pages: list[Prefix]) -> Decision:
        """These pages are on the device now."""
        for page in pages:
            self.loads.remove(page)
            self.ended["loaded"].discard(page)
            self.device_free += page in self.device
            self.device.setdefault(page)
        return Decision("ack", "load", tuple(pages))

    def ask_prefetch(self, ask: Ask) -> Deciding:
        """Take memory for what the host lacks of a key: all of it, or a prefix of it."""
        pages = self.path(ask.key)
        missing = self.missing(pages)
        free, more, window_free, attached = yield from self.agree_room(pages)
        states = yield from self.agree_states()
        missing = missing[: free + more]
        places = self.places(missing)
        size = self.world.window
        window = size if 0 < size <= len(missing) else 0
        if not attached or not missing or ask.rid in self.reads or window > window_free:
            return [Decision("grant", "read", ())]
        if len(places) > states + len(self.states):
            return [Decision("grant", "read", ())]
        had = len(self.states)
        victims = self.evict_host(len(missing) - free, set(pages))
        dropped = self.evict_windows(window)
        self.host_free -= len(missing)
        self.window_free -= window
        gone = self.evict_states(len(places) - states - (had - len(self.states)))
        self.state_free -= len(places)
        self.forget(ask.rid)
        self.reads[ask.rid] = Read(missing, window, self.clock, states=places)
        return [
            victims,
            dropped,
            Decision("grant", "read", tuple(missing)),
            Decision("grant", "window", tuple(missing[-1:]) if window else ()),
            *self.if_stated(gone, Decision("grant", "state", tuple(places))),
        ]

    def places(self, missing: list[Prefix]) -> list[Prefix]:
        """The boundaries that a prefetch of these pages reads a state for: one, its last, however long it is."""
        return missing[-1:] if self.world.state_slots else []

    def if_stated(self, *decisions: Decision) -> Sequence[Decision]:
        """What is said of states, where there are any."""
        return decisions if self.world.state_slots else ()

    def missing(self, pages: list[Prefix]) -> list[Prefix]:
        """What the host lacks of a path."""
        return pages[self.run(pages, self.host) :]

    def agree_room(self, pages: list[Prefix]) -> Exchanging:
        """What is free and evictable on the host, free for a window, and whether storage is attached, on all ranks."""
        return (yield from self.to_all.agree("min", self.ROOM[2:], self.room(pages)[2:]))

    def agree_states(self) -> Generator[Exchange, tuple[int, ...], int]:
        """How many states all ranks have room for without dropping one; nobody asks where there are none."""
        if not self.world.state_slots:
            return 0
        return (yield from self.to_all.agree("min", ("state",), (self.state_room(),)))[0]

    def state_room(self) -> int:
        """How many states this rank has room for."""
        return max(0, self.state_free - self.pinched_states)

    def ask_hit(self, ask: Ask) -> Deciding:
        """Note how much of a prefetch can be restored on all ranks."""
        one = self.reads.get(ask.rid)
        if one is None or one.hit >= 0:
            yield from self.to_all.agree("min", ("answered",), (int(ask.rid in self.found),))
            return []
        hit = yield from self.count_hit(ask.rid, one)
        if hit is None:
            return []
        self.trim(one, hit)
        if not hit:
            del self.reads[ask.rid]
            self.forget(ask.rid)
        place = self.if_stated(Decision("grant", "state", tuple(one.states))) if hit else ()
        return [Decision("grant", "hit", tuple(one.pages)), *place]

    def count_hit(self, rid: int, one: Read) -> Generator[Exchange, tuple[int, ...], int | None]:
        """The largest boundary that all ranks can restore; ``None`` while one of them has no answer."""
        mine, lengths = self.found.get(rid), range(1, len(one.pages) + 1)
        sets = {"boundary": mine or frozenset()}
        if self.world.state_slots:
            sets["state"] = self.found_states.get(rid, frozenset())
        names = ("answered", *[f"{what} {at}" for what in sets for at in lengths])
        flags = [int(at in there) for there in sets.values() for at in lengths]
        answered, *common = yield from self.to_all.agree("min", names, (int(mine is not None), *flags))
        # What all have in common of each component, at equal lengths: only where every one of them is there.
        rows = [common[at : at + len(lengths)] for at in range(0, len(common), len(lengths))]
        whole = [at for at, *there in zip(lengths, *rows, strict=True) if all(there)]
        return max(whole, default=0) if answered else None

    def trim(self, one: Read, hit: int) -> None:
        """Storage has so many pages: the memory for the others is given back."""
        self.host_free += len(one.pages) - hit
        del one.pages[hit:]
        one.hit = hit
        if hit < self.world.window:
            self.window_free += one.window
            one.window = 0
        self.move_states(one)

    def move_states(self, one: Read) -> None:
        """The state is that of the last page now; where no page is left its memory is given back."""
        if one.pages:
            one.states = [one.pages[-1] for _ in one.states]
        else:
            self.state_free += len(one.states)
            one.states = []

    def ask_poll(self, ask: Ask) -> Deciding:
        """End a prefetch where all may, or one has failed, and cache what all have read."""
        one = self.reads.get(ask.rid)
        waits = int(not self.may_stop(ask.rid, one))
        failed = int(self.has_failed(ask.rid))
        someone_waits, someone_failed = yield from self.to_all.agree("max", ("waits", "failed"), (waits, failed))
        if someone_waits and not someone_failed:
            return []
        read = yield from self.agree_progress(ask.rid)
        return [] if one is None else self.commit(ask.rid, one, read)

    def has_failed(self, rid: int) -> bool:
        """Whether reading has ended early on this rank."""
        return rid in self.failed

    def may_stop(self, rid: int, one: Read | None) -> bool:
        """Whether the stop policy lets this rank end a prefetch; one that isn't known doesn't hold up anybody."""
        if one is None or self.world.stop == "best_effort":
            return True
        pages, window, states = self.has_read(rid)
        if 0 <= one.hit <= pages and window >= one.window and states >= len(one.states):
            return True
        return self.world.stop == "timeout" and self.clock - one.began > self.world.limit

    PROGRESS = ("pages", "window pages", "states")

    def has_read(self, rid: int) -> tuple[int, int, int]:
        """How many pages of a prefetch, pages of the window and states this rank has read; see :data:`PROGRESS`."""
        return self.progress.get(rid, (0, 0, 0))

    def agree_progress(self, rid: int) -> Exchanging:
        """How much of each component all ranks have read: one packed reduction."""
        return (yield from self.to_all.agree("min", self.PROGRESS, self.has_read(rid)))

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        """Cache what was read (:data:`PROGRESS`): pages, a whole window and a state; the rest is given back."""
        pages, window, states = read
        del self.reads[rid]
        self.forget(rid)
        many = max(0, min(one.hit, pages))
        kept = one.pages[:many]
        self.host_free += len(one.pages) - many
        for page in kept:
            self.host_free += page in self.host
        self.use(self.host, kept)
        boundary = tuple(kept[-1:]) if self.window_commits(one, many, window) else ()
        if not boundary or boundary[0] in self.windows:
            self.window_free += one.window
        for page in boundary:
            self.windows.pop(page, None)
            self.windows[page] = None
        place = tuple(kept[-1:]) if self.state_commits(one, many, states) else ()
        self.attach_state(one, place)
        return [
            Decision("commit", "kv", tuple(kept)),
            Decision("commit", "window", boundary),
            *self.if_stated(Decision("commit", "state", place)),
        ]

    def window_commits(self, one: Read, many: int, window: int) -> bool:
        """Whether the window gets into the cache: all of it was read, and all pages before it."""
        return 0 < one.window <= window and many == one.hit > 0

    def state_commits(self, one: Read, many: int, states: int) -> bool:
        """Whether the state gets into the cache: it was read, and all pages before the boundary that it is for."""
        return 0 < len(one.states) <= states and many == one.hit > 0

    def attach_state(self, one: Read, place: Sequence[Prefix]) -> None:
        """A prefetch is over: its state is cached at this boundary, or its memory given back."""
        self.state_free += len(one.states)
        for page in place:
            self.state_free -= page not in self.states
        self.use(self.states, place)

    def ask_load(self, ask: Ask) -> Deciding:
        """Begin to copy to the device what is on the host, all of it or nothing."""
        pages = self.path(ask.key)
        missing = self.loadable(pages)
        device, more = yield from self.to_all.agree("min", self.ROOM[:2], self.room(pages)[:2])
        if len(missing) > device + more:
            missing = []
        victims = self.evict_device(len(missing) - device, set(pages))
        self.device_free -= len(missing)
        self.loads += missing
        return [victims, Decision("grant", "load", tuple(missing))]

    def loadable(self, pages: list[Prefix]) -> list[Prefix]:
        """What of a path the device lacks and the host has; nothing behind a page that is being loaded."""
        missing = pages[self.run(pages, self.device) :]
        return missing[: self.run(missing, {page for page in self.host if page not in self.loads})]

    def ask_abort(self, ask: Ask) -> Deciding:
        """The request is gone: after all have come here, its memory is given back."""
        yield from self.to_all.agree("min", ("here",), (1,))
        self.drop(ask.rid)
        return []

    def drop(self, rid: int) -> None:
        """Give back what a prefetch holds."""
        one = self.reads.pop(rid, None)
        self.forget(rid)
        if one is not None:
            self.host_free += len(one.pages)
            self.window_free += one.window
            self.state_free += len(one.states)

    def forget(self, rid: int) -> None:
        """What was found and read for a prefetch is of no use when it is over: the request's number may come again."""
        self.found.pop(rid, None)
        self.found_states.pop(rid, None)
        self.progress.pop(rid, None)
        self.failed.discard(rid)

    def ask_rejoin(self, ask: Ask) -> Deciding:
        """Where a rank has lost everything, all begin anew."""
        (whole,) = yield from self.to_all.agree("min", ("whole",), (int(self.whole),))
        if whole:
            return []
        self.whole = True
        self.clear()
        return [Decision("commit", "reset", ())]

    # -- room --------------------------------------------------------------------------------------

    ROOM = ("device", "device evictable", "host", "host evictable", "window", "attached")

    def room(self, pages: list[Prefix]) -> list[int]:
        """What is free, and what evictions that leave this path alone can free; see :data:`ROOM`."""
        return [
            self.device_free,
            len(self.victims("device", ALL, set(pages))),
            max(0, self.host_free - self.pinched),
            len(self.victims("host", ALL, set(pages))),
            self.window_free + self.world.window * len(self.windows),
            int(self.attached),
        ]

    def victims(self, tier: str, many: int, kept: set[Prefix]) -> list[Prefix]:
        """The pages to evict, in order: the least recently used leaf first."""
        order = self.order(tier)
        read = [page for one in self.reads.values() for page in one.pages]
        above = self.loads if tier == "device" else [*self.writes, *read]
        busy = {*kept, *(self.writes if tier == "device" else self.loads)}
        children: dict[Prefix, int] = {}
        for page in (*order, *above):
            children[page[:-1]] = children.get(page[:-1], 0) + 1
        chosen: list[Prefix] = []
        while len(chosen) < many:
            leaves = [one for one in order if not children.get(one) and one not in busy]
            if not leaves:
                break
            order.remove(leaves[0])
            children[leaves[0][:-1]] -= 1
            chosen.append(leaves[0])
        return chosen

    def order(self, tier: str) -> list[Prefix]:
        """The pages of a tier, the least recently used first."""
        return list(self.device if tier == "device" else self.host)

    def evict_device(self, many: int, kept: set[Prefix]) -> Decision:
        """Evict so many pages of the device."""
        chosen = self.victims("device", many, kept)
        for page in chosen:
            del self.device[page]
        self.device_free += len(chosen)
        return Decision("victims", "device", tuple(chosen))

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        """Evict so many pages of the host; a window and a state go with their boundary."""
        chosen = self.victims("host", many, kept)
        for page in chosen:
            del self.host[page]
            if page in self.windows:
                del self.windows[page]
                self.window_free += self.world.window
            self.drop_state(page)
        self.host_free += len(chosen)
        return Decision("victims", "host", tuple(chosen))

    def evict_windows(self, wanted: int) -> Decision:
        """Drop the oldest windows until there is room for another one."""
        chosen: list[Prefix] = []
        for page in list(self.windows):
            if self.window_free >= wanted:
                break
            del self.windows[page]
            self.window_free += self.world.window
            chosen.append(page)
        return Decision("victims", "window", tuple(chosen))

    def evict_states(self, many: int) -> Decision:
        """Drop so many states, the oldest first."""
        chosen = list(self.states)[: max(0, many)]
        for page in chosen:
            self.drop_state(page)
        return Decision("victims", "state", tuple(chosen))

    def drop_state(self, page: Prefix) -> None:
        """The state of a boundary goes, if it has one."""
        if page in self.states:
            del self.states[page]
            self.state_free += 1

    # -- pages -------------------------------------------------------------------------------------

    def path(self, key: Prefix) -> list[Prefix]:
        """The pages of a key."""
        return [key[:at] for at in range(1, len(key) + 1)]

    def run(self, pages: Sequence[Prefix], there: Any) -> int:
        """How many of the pages are there, from the first one on without a gap."""
        for at, page in enumerate(pages):
            if page not in there:
                return at
        return len(pages)

    def use(self, tier: dict[Prefix, None], pages: Sequence[Prefix]) -> None:
        """These pages are the last used."""
        for page in pages:
            tier.pop(page, None)
            tier[page] = None

    def view(self) -> RankView:
        """A look at this rank."""
        held = tuple((rid, tuple(one.pages), one.window) for rid, one in sorted(self.reads.items()))
        return RankView(
            tuple(self.device),
            tuple(self.host),
            tuple(self.writes),
            tuple(self.loads),
            held,
            tuple(self.windows),
            self.device_free,
            self.host_free,
            self.window_free,
        )

    def states_view(self) -> StatesView:
        """A look at its states."""
        held = tuple((rid, place) for rid, one in sorted(self.reads.items()) for place in one.states)
        return StatesView(tuple(self.states), held, self.state_free)


class RankedSpecimen:
    """All ranks, behind the ports."""

    def __init__(self, part: type[RankCache] = RankCache) -> None:
        self.part = part
        self.ranks: dict[int, RankCache] = {}

    def ranks_start(self, world: World) -> None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        self.ranks = {number: self.part(world, number) for number in world.ranks}

    def ranks_ask(self, rank: int, ask: Ask) -> Turns:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        return self.ranks[rank].ask(ask)

    def ranks_local(self, event: Local) -> Sequence[Prefix] | None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        return self.ranks[event.rank].local(event)

    def ranks_view(self, rank: int) -> RankView:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksView`."""
        return self.ranks[rank].view()

    def ranks_states(self, rank: int) -> StatesView:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksStates`."""
        return self.ranks[rank].states_view()
