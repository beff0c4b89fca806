"""Mutants of one rank of several: what it decides by itself, enters alone, or packs in another order."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kvlitmus.conformance.run.plan import RANK_CONFIGS
from kvlitmus.conformance.specimen.ranks import Deciding, Exchanging, RankCache, RankLink, Read
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.ranks import Ask, Decision, Exchange, Group, Local, Prefix, Receive, Send

_SGLANG = "https://github.com/sgl-project/sglang/"
SLOW = (RANK_CONFIGS[0],)
TIMED = (RANK_CONFIGS[1],)


# -- agreement left out ------------------------------------------------------------------------------


@mutant("rank-drains-its-own-acks", bugs=("S06",), links=(_SGLANG + "pull/4082",), kills=("RANKS-01",))
class DrainsItsOwnAcks(RankCache):
    """Each rank notes the copies that have ended on it, without asking the others: locks go at different times, and
    from then on the ranks evict different pages.
    """

    def count_acks(self) -> Exchanging:
        yield from ()
        return [self.run(self.writes, self.ended["wrote"]), self.run(self.loads, self.ended["loaded"])]


@mutant("rank-loads-are-noted-alone", bugs=("H-25",), kills=("RANKS-01",))
class LoadsAreNotedAlone(RankCache):
    """Writes are agreed on and loads are not, so the protection of a path that is loaded ends at different steps."""

    def count_acks(self) -> Exchanging:
        wrote = [self.run(self.writes, self.ended["wrote"])]
        agreed = yield from self.to_all.agree("min", ("writes",), wrote)
        return [*agreed, self.run(self.loads, self.ended["loaded"])]


@mutant("rank-skips-acks-when-idle", bugs=("H-31",), kills=("RANKS-04", "RANKS-06"))
class SkipsAcksWhenIdle(RankCache):
    """A rank of whose copies none has ended returns before the reduction, and the others wait there for it."""

    def count_acks(self) -> Exchanging:
        if not self.ended["wrote"] and not self.ended["loaded"]:
            return [0, 0]
        return (yield from super().count_acks())


@mutant("rank-checks-loads-on-its-own-event", bugs=("H-32",), kills=("RANKS-04", "RANKS-06"))
class ChecksLoadsOnItsOwnEvent(RankCache):
    """A second reduction is entered where a load of this rank has ended: by those ranks alone."""

    def count_acks(self) -> Exchanging:
        agreed = yield from super().count_acks()
        if self.ended["loaded"]:
            yield from self.to_all.agree("min", ("loads",), (len(self.ended["loaded"]),))
        return agreed


@mutant(
    "rank-skips-a-poll-it-need-not-make",
    bugs=("S63", "H-68"),
    links=(_SGLANG + "pull/38273", _SGLANG + "pull/36425"),
    kills=("RANKS-04", "RANKS-06"),
)
class SkipsAPollItNeedNotMake(RankCache):
    """A poll returns early where this rank has read nothing yet, to save a reduction that the others are in."""

    def ask_poll(self, ask: Ask) -> Deciding:
        if ask.rid in self.reads and ask.rid not in self.progress and ask.rid not in self.failed:
            return []
        return (yield from super().ask_poll(ask))


@mutant(
    "rank-polls-while-there-is-room", bugs=("S62",), links=(_SGLANG + "issues/30760",), kills=("RANKS-04", "RANKS-06")
)
class PollsWhileThereIsRoom(RankCache):
    """Waiting requests are checked in a loop that ends when this rank's own memory is full, a reduction for each."""

    def ask_acks(self, ask: Ask) -> Deciding:
        for _ in range(min(2, max(0, self.host_free - self.pinched))):
            yield from self.to_all.agree("min", ("waiting",), (len(self.reads),))
        return (yield from super().ask_acks(ask))


@mutant("rank-ends-a-prefetch-by-itself", kills=("RANKS-01",))
class EndsAPrefetchByItself(RankCache):
    """Whether a prefetch may end is asked of this rank alone, and only how much was read is agreed on with those
    that come.
    """

    def ask_poll(self, ask: Ask) -> Deciding:
        one = self.reads.get(ask.rid)
        read = yield from self.agree_progress(ask.rid)
        if one is None or not (self.may_stop(ask.rid, one) or ask.rid in self.failed):
            return []
        return self.commit(ask.rid, one, read)


@mutant("rank-clock-ends-a-prefetch", kills=("RANKS-12",), configs=TIMED)
class ClockEndsAPrefetch(RankCache):
    """A prefetch ends on all ranks as soon as the time is up by one of their clocks."""

    def has_failed(self, rid: int) -> bool:
        one = self.reads.get(rid)
        return super().has_failed(rid) or (one is not None and self.clock - one.began > self.world.limit)


@mutant("rank-ends-at-the-limit", kills=("RANKS-12",), configs=TIMED)
class EndsAtTheLimit(RankCache):
    """The time of a prefetch is up as soon as the limit has gone by, and not when more than that has."""

    def may_stop(self, rid: int, one: Read | None) -> bool:
        over = one is not None and self.clock - one.began >= self.world.limit
        return over or super().may_stop(rid, one)


@mutant("rank-knows-the-request-before", kills=("RANKS-14", "RANKS-19"))
class KnowsTheRequestBefore(RankCache):
    """A request that was aborted is retried under its number, and takes for its own what storage answered and what was
    read before: pages that nobody has read are cached.
    """

    def forget(self, rid: int) -> None:
        return


@mutant("rank-that-failed-is-waited-for", kills=("RANKS-12",))
class RankThatFailedIsWaitedFor(RankCache):
    """A prefetch goes on although reading has ended early on one rank: it will never have read all, and all wait for
    it.
    """

    def has_failed(self, rid: int) -> bool:
        return False


@mutant("rank-commits-what-it-has-read", kills=("RANKS-01",))
class CommitsWhatItHasRead(RankCache):
    """Each rank caches what it has read itself: trees of different length."""

    def agree_progress(self, rid: int) -> Exchanging:
        yield from super().agree_progress(rid)
        return list(self.has_read(rid))


@mutant("rank-commits-what-one-has-read", kills=("RANKS-14",))
class CommitsWhatOneHasRead(RankCache):
    """The most that one rank has read is cached on all: on the others the end of it is what lay in the memory
    before.
    """

    def agree_progress(self, rid: int) -> Exchanging:
        return (yield from self.to_all.agree("max", self.PROGRESS, self.has_read(rid)))


@mutant("rank-commits-a-page-less", kills=("RANKS-14",))
class CommitsAPageLess(RankCache):
    """The last page that all ranks have read is dropped."""

    def agree_progress(self, rid: int) -> Exchanging:
        pages, *others = yield from super().agree_progress(rid)
        return [pages - 1, *others]


@mutant("rank-window-is-its-own", bugs=("H-26",), kills=("RANKS-01",))
class WindowIsItsOwn(RankCache):
    """Pages are agreed on, and whether there is a window is not: some ranks have one at the boundary, and others
    don't.
    """

    def agree_progress(self, rid: int) -> Exchanging:
        mine = self.has_read(rid)
        agreed = yield from self.to_all.agree("min", self.PROGRESS[::2], mine[::2])
        return [agreed[0], mine[1], agreed[1]]


@mutant("rank-window-in-part", kills=("RANKS-16",))
class WindowInPart(RankCache):
    """A window of which a part was read is committed all the same."""

    def window_commits(self, one: Read, many: int, window: int) -> bool:
        return one.window > 0 and window > 0 and many == one.hit > 0


@mutant("rank-window-behind-the-commit", kills=("RANKS-16",))
class WindowBehindTheCommit(RankCache):
    """The window of the end of what storage has is given to an earlier boundary, where less was committed
    (sglang#38815).
    """

    def window_commits(self, one: Read, many: int, window: int) -> bool:
        return 0 < one.window <= window and many > 0


# -- what is agreed on, and how it is laid out -------------------------------------------------------


@mutant("rank-packs-what-it-has", bugs=("H-21",), kills=("RANKS-04", "RANKS-06"))
class PacksWhatItHas(RankCache):
    """The window's place in the packed vector is there only on ranks that have read of the window."""

    def agree_progress(self, rid: int) -> Exchanging:
        mine = dict(zip(self.PROGRESS, self.has_read(rid), strict=True))
        names = [name for name in self.PROGRESS if mine[name] or name != "window pages"]
        agreed = yield from self.to_all.agree("min", names, [mine[name] for name in names])
        return [dict(zip(names, agreed, strict=True)).get(name, 0) for name in self.PROGRESS]


@mutant("rank-packs-in-its-own-order", bugs=("H-21",), kills=("RANKS-04",))
class PacksInItsOwnOrder(RankCache):
    """The order of the packed vector is that in which this rank began to read its components."""

    def agree_progress(self, rid: int) -> Exchanging:
        mine = dict(zip(self.PROGRESS, self.has_read(rid), strict=True))
        names = sorted(mine, key=lambda name: -mine[name])
        agreed = dict(
            zip(names, (yield from self.to_all.agree("min", names, [mine[name] for name in names])), strict=True)
        )
        return [agreed[name] for name in self.PROGRESS]


@mutant("rank-hit-is-the-least-length", bugs=("H-19",), kills=("RANKS-19",))
class HitIsTheLeastLength(RankCache):
    """What storage has is the least of each rank's longest prefix, which on some rank can't be restored."""

    def count_hit(self, rid: int, one: Read) -> Generator[Exchange, tuple[int, ...], int | None]:
        mine = self.found.get(rid)
        longest = max((at for at in mine or () if at <= len(one.pages)), default=0)
        answered, hit = yield from self.to_all.agree("min", ("answered", "pages"), (int(mine is not None), longest))
        return hit if answered else None


@mutant(
    "rank-hit-is-its-own",
    bugs=("L08",),
    links=("https://github.com/LMCache/LMCache/issues/1467",),
    kills=("RANKS-01",),
)
class HitIsItsOwn(RankCache):
    """Each rank believes its own storage about how much there is."""

    def count_hit(self, rid: int, one: Read) -> Generator[Exchange, tuple[int, ...], int | None]:
        yield from super().count_hit(rid, one)
        mine = self.found.get(rid)
        return None if mine is None else max((at for at in mine if at <= len(one.pages)), default=0)


class _TensorParallelAlone(RankLink):
    """Reduces over the groups of tensor parallelism alone."""

    def groups(self) -> Sequence[Group]:
        """The groups of tensor parallelism."""
        return [group for group in super().groups() if group.kind == "tp"]


@mutant("rank-reduces-over-tp-alone", bugs=("S34",), links=(_SGLANG + "pull/20460",), kills=("RANKS-01", "RANKS-07"))
class ReducesOverTpAlone(RankCache):
    """With context parallelism some dimension that shares the tree is left out of every reduction."""

    link = _TensorParallelAlone


class _OnlyWhereTensorParallel(RankLink):
    """Reduces where there is more than one rank of tensor parallelism."""

    def groups(self) -> Sequence[Group]:
        """None, where this rank has no other one beside it in tensor parallelism."""
        groups = super().groups()
        return groups if any(group.kind in ("tp", "attn") for group in groups) else ()


@mutant("rank-reduces-only-with-tp", bugs=("H-22",), kills=("RANKS-01",))
class ReducesOnlyWithTp(RankCache):
    """Whether anything is reduced depends on the size of tensor parallelism: with context parallelism alone nothing
    is.
    """

    link = _OnlyWhereTensorParallel


class _EverybodyOfTp(RankLink):
    """Reduces over the whole group of tensor parallelism, whoever shares the tree."""

    def groups(self) -> Sequence[Group]:
        """Every group that this rank is in."""
        return [group for group in self.world.groups if self.number in group.members and len(group.members) > 1]


@mutant("rank-reduces-over-other-trees", kills=("RANKS-04", "RANKS-06"))
class ReducesOverOtherTrees(RankCache):
    """With attention of data parallelism the group of all ranks is reduced over, though each replica gets calls of
    its own.
    """

    link = _EverybodyOfTp


class _StagesApart(RankLink):
    """Each pipeline stage agrees by itself."""

    def along(self, op: str, layout: tuple[str, ...], values: tuple[int, ...]) -> Exchanging:
        """Nothing is exchanged."""
        yield from ()
        return list(values)


@mutant("rank-stages-apart", bugs=("H-67",), links=(_SGLANG + "pull/27010",), kills=("RANKS-01", "RANKS-07"))
class StagesApart(RankCache):
    """Pipeline stages note copies and reads each at their own time."""

    link = _StagesApart


class _FirstStageDecides(RankLink):
    """Later stages take what the first one says."""

    def along(self, op: str, layout: tuple[str, ...], values: tuple[int, ...]) -> Exchanging:
        """The first stage's values go from stage to stage."""
        if self.stage:
            values = yield Receive(self.stages[self.stage - 1][self.place])
        if self.stage + 1 < len(self.stages):
            yield Send(self.stages[self.stage + 1][self.place], layout, values)
        return list(values)


@mutant(
    "rank-first-stage-decides",
    bugs=("S64",),
    links=(_SGLANG + "issues/22607",),
    kills=("RANKS-10", "RANKS-14", "RANKS-12", "RANKS-19", "POOL-12"),
)
class FirstStageDecides(RankCache):
    """The count of the first pipeline stage is applied on the next one, whose own copies have not ended."""

    link = _FirstStageDecides


class _SendsTwice(RankLink):
    """The first stage sends its values twice."""

    def along(self, op: str, layout: tuple[str, ...], values: tuple[int, ...]) -> Exchanging:
        """A second message follows the first one, and nobody receives it."""
        if not self.stage:
            yield Send(self.stages[1][self.place], layout, values)
        return (yield from super().along(op, layout, values))


@mutant("rank-sends-twice", kills=("RANKS-08",))
class SendsTwice(RankCache):
    """A stage sends what it found, and then what all found, and only one of these is received: the other is taken
    for the answer of the next call.
    """

    link = _SendsTwice


# -- grants ------------------------------------------------------------------------------------------


@mutant("rank-grants-by-its-own-room", bugs=("S60", "H-68"), links=(_SGLANG + "issues/28429",), kills=("RANKS-01",))
class GrantsByItsOwnRoom(RankCache):
    """Each rank begins the prefetch, or as much of it, as its own host has room for."""

    def agree_room(self, pages: list[Prefix]) -> Exchanging:
        yield from super().agree_room(pages)
        return self.room(pages)[2:]


@mutant("rank-writes-by-its-own-room", bugs=("S60",), links=(_SGLANG + "pull/31425",), kills=("RANKS-01",))
class WritesByItsOwnRoom(RankCache):
    """Each rank begins to write as many pages as its own host takes."""

    def writable(self, wanted: int, host: int, host_more: int) -> int:
        free = max(0, self.host_free - self.pinched)
        return free + min(host_more, wanted)


@mutant("rank-writes-what-nobody-has-room-for", kills=("POOL-12",))
class WritesWhatNobodyHasRoomFor(RankCache):
    """All ranks begin to write all pages, whatever room there is."""

    def writable(self, wanted: int, host: int, host_more: int) -> int:
        return wanted


@mutant("rank-begins-without-storage", kills=("RANKS-18",))
class BeginsWithoutStorage(RankCache):
    """A prefetch begins while storage is detached on some rank, which will never have read anything."""

    def agree_room(self, pages: list[Prefix]) -> Exchanging:
        *room, _ = yield from super().agree_room(pages)
        return [*room, 1]


@mutant("rank-asks-its-own-storage", kills=("RANKS-01",))
class AsksItsOwnStorage(RankCache):
    """Whether storage is attached is asked of this rank alone."""

    def agree_room(self, pages: list[Prefix]) -> Exchanging:
        *room, _ = yield from super().agree_room(pages)
        return [*room, int(self.attached)]


@mutant("rank-truncates-to-the-end", kills=("FETCH-06",))
class TruncatesToTheEnd(RankCache):
    """Where there is no room for all pages the last ones are read, which are of no use without the first."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        decisions = yield from super().ask_prefetch(ask)
        one = self.reads.get(ask.rid)
        pages = self.path(ask.key)
        if one is not None and len(one.pages) < len(pages) - self.run(pages, self.host):
            one.pages = pages[-len(one.pages) :]
            return [*decisions[:2], Decision("grant", "read", tuple(one.pages)), *decisions[3:]]
        return decisions


@mutant("rank-reads-what-it-has", kills=("FETCH-06",))
class ReadsWhatItHas(RankCache):
    """A prefetch reads a key from its first page on, whatever the host has of it."""

    def missing(self, pages: list[Prefix]) -> list[Prefix]:
        return pages


@mutant("rank-loads-in-part", kills=("LOAD-01",))
class LoadsInPart(RankCache):
    """A load back leaves out its last page, on all ranks: the request computes what is being loaded for others."""

    def ask_load(self, ask: Ask) -> Deciding:
        decisions = yield from super().ask_load(ask)
        loads = decisions[-1].prefixes
        if len(loads) < 2:
            return decisions
        self.loads.remove(loads[-1])
        self.device_free += 1
        return [*decisions[:-1], Decision("grant", "load", loads[:-1])]


@mutant("rank-keeps-the-tail", kills=("POOL-12",))
class KeepsTheTail(RankCache):
    """What was not read by all ranks is cut off the prefetch, and its memory never given back."""

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        lost = len(one.pages) - max(0, min(one.hit, read[0]))
        decisions = super().commit(rid, one, read)
        self.host_free -= lost
        return decisions


@mutant("rank-keeps-the-window", kills=("POOL-12",))
class KeepsTheWindow(RankCache):
    """The memory for a window that is not committed is never given back."""

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        free = self.window_free
        decisions = super().commit(rid, one, read)
        self.window_free = free
        return decisions


@mutant("rank-abort-gives-back-nothing", bugs=("H-40",), kills=("POOL-12",))
class AbortGivesBackNothing(RankCache):
    """The prefetch of a request that is gone is forgotten, and its memory with it."""

    def drop(self, rid: int) -> None:
        self.reads.pop(rid, None)


# -- order, and matches --------------------------------------------------------------------------------


@mutant("rank-evicts-in-an-order-of-its-own", bugs=("H-35",), kills=("RANKS-02",))
class EvictsInAnOrderOfItsOwn(RankCache):
    """Pages of equal worth are evicted in the order of a set, which depends on where its members lie in memory."""

    def order(self, tier: str) -> list[Prefix]:
        order = super().order(tier)
        return order if self.number % 2 else sorted(order, reverse=True)


@mutant("rank-order-follows-its-copies", kills=("RANKS-03",))
class OrderFollowsItsCopies(RankCache):
    """That a copy has ended is taken for a use of its page, on each rank when it ends there: nothing shows until
    they evict.
    """

    def local(self, event: Local) -> Sequence[Prefix] | None:
        if event.what == "wrote" and event.key in self.device:
            self.use(self.device, [event.key])
        return super().local(event)


@mutant("rank-acks-the-last-first", kills=("RANKS-10",))
class AcksTheLastFirst(RankCache):
    """As many copies as have ended on all ranks are noted, but those that began last."""

    def ask_acks(self, ask: Ask) -> Deciding:
        wrote, loaded = yield from self.count_acks()
        return [self.wrote(self.writes[len(self.writes) - wrote :]), self.loaded(self.loads[:loaded])]


@mutant("rank-acks-what-one-has-ended", kills=("RANKS-10",))
class AcksWhatOneHasEnded(RankCache):
    """A copy is noted as soon as it has ended on one rank, and its memory reused while another one still reads it."""

    def count_acks(self) -> Exchanging:
        mine = [self.run(self.writes, self.ended["wrote"]), self.run(self.loads, self.ended["loaded"])]
        return (yield from self.to_all.agree("max", ("writes", "loads"), mine))


@mutant("rank-acks-one-at-a-time", kills=("RANKS-10",))
class AcksOneAtATime(RankCache):
    """One copy is noted when acknowledgements are asked for, however many have ended."""

    def count_acks(self) -> Exchanging:
        wrote, loaded = yield from super().count_acks()
        return [min(1, wrote), min(1, loaded)]


@mutant("rank-matches-what-is-loading", kills=("TREE-02",))
class MatchesWhatIsLoading(RankCache):
    """A match finds pages whose load has not ended on every rank."""

    def ask_match(self, ask: Ask) -> Deciding:
        yield from ()
        pages = self.path(ask.key)
        many = self.run(pages, {*self.device, *self.loads})
        self.use(self.device, pages[: self.run(pages, self.device)])
        return [Decision("match", "device", (pages[many - 1] if many else (),))]
