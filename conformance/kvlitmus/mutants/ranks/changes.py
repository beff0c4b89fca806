"""Mutants of ranks that change alike what nobody asked for: pages come or go unsaid, and prefetches are cut."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.ranks import Deciding, RankCache, Read
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.ranks import Ask, Decision, Local, Prefix

# -- what comes ----------------------------------------------------------------------------------------


@mutant("rank-loads-a-page-more", kills=("RANKS-31",))
class LoadsAPageMore(RankCache):
    """When loads have ended, a page of the host behind the last of them is cached on the device, too: memory is taken
    for what nobody has copied.
    """

    def loaded(self, pages: list[Prefix]) -> Decision:
        decision = super().loaded(pages)
        behind = [page for page in self.host if page[:-1] in pages and page not in {*self.device, *self.loads}]
        for page in behind[: self.device_free][:1]:
            self.device[page] = None
            self.device_free -= 1
        return decision


@mutant("rank-caches-a-page-more-than-was-read", kills=("RANKS-31",))
class CachesAPageMoreThanWasRead(RankCache):
    """Ranks agree on what all have read, and cache the page behind that as well, rounded up to what was asked for."""

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        many = max(0, min(one.hit, read[0]))
        decisions = super().commit(rid, one, read)
        for page in one.pages[many : many + 1]:
            if page not in self.host and self.host_free:
                self.host[page] = None
                self.host_free -= 1
        return decisions


@mutant("rank-backs-up-unsaid", kills=("RANKS-31",))
class BacksUpUnsaid(RankCache):
    """A match of what the host lacks puts the first page of it there, and says nothing of a copy."""

    def ask_match(self, ask: Ask) -> Deciding:
        decisions = yield from super().ask_match(ask)
        held = {*self.host, *self.writes, *[page for one in self.reads.values() for page in one.pages]}
        for page in self.path(ask.key)[:1]:
            if page in self.device and page not in held and self.host_free:
                self.host[page] = None
                self.host_free -= 1
        return decisions


@mutant("rank-window-goes-to-the-page-before", kills=("RANKS-31",))
class WindowGoesToThePageBefore(RankCache):
    """When a page of the host goes, its window is left to the page before, of whose boundary it is none."""

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        had = set(self.windows)
        decision = super().evict_host(many, kept)
        for page in decision.prefixes:
            above = page[:-1]
            room = self.window_free >= self.world.window
            if page in had and above in self.host and above not in self.windows and room:
                self.windows[above] = None
                self.window_free -= self.world.window
        return decision


@mutant("rank-window-of-a-longer-prefix", kills=("RANKS-31",))
class WindowOfALongerPrefix(RankCache):
    """A window that was read for a boundary that the KV doesn't reach is cached at the KV's end, and not named."""

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        decisions = super().commit(rid, one, read)
        kept, windows = decisions[0].prefixes, decisions[1].prefixes
        if one.window and kept and not windows and kept[-1] in self.host and kept[-1] not in self.windows:
            self.windows[kept[-1]] = None
            self.window_free -= self.world.window
        return decisions


# -- what prefetches hold ------------------------------------------------------------------------------


@mutant("rank-poll-cuts-a-prefetch", kills=("RANKS-32",))
class PollCutsAPrefetch(RankCache):
    """A poll that doesn't end a prefetch gives back what no rank has read yet, and reading goes on into it."""

    def ask_poll(self, ask: Ask) -> Deciding:
        decisions = yield from super().ask_poll(ask)
        one = self.reads.get(ask.rid)
        if one is not None and one.hit < 0 and len(one.pages) > 1:
            self.host_free += 1
            one.pages = one.pages[:-1]
            one.states = [one.pages[-1] for _ in one.states]
        return decisions


@mutant("rank-insert-takes-from-a-prefetch", kills=("RANKS-32",))
class InsertTakesFromAPrefetch(RankCache):
    """A backup that finds no free page on the host takes the last page of a prefetch, as if it were a cached one."""

    def ask_insert(self, ask: Ask) -> Deciding:
        for one in self.reads.values():
            if not self.host_free and len(one.pages) > 1 and one.hit < 0:
                one.pages = one.pages[:-1]
                one.states = [one.pages[-1] for _ in one.states]
                self.host_free += 1
        return (yield from super().ask_insert(ask))


@mutant("rank-second-prefetch-takes-the-window", kills=("RANKS-32",))
class SecondPrefetchTakesTheWindow(RankCache):
    """A prefetch that needs a window takes it from another one that reads by then."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        for one in self.reads.values():
            if self.window_free < self.world.window and one.window:
                self.window_free += one.window
                one.window = 0
        return (yield from super().ask_prefetch(ask))


@mutant("rank-states-go-while-they-are-read", kills=("RANKS-32",))
class StatesGoWhileTheyAreRead(RankCache):
    """Where copies are noted, entries for states that nobody has read into yet count as idle, and are free again."""

    def ask_acks(self, ask: Ask) -> Deciding:
        decisions = yield from super().ask_acks(ask)
        for one in self.reads.values():
            self.state_free += len(one.states)
            one.states = []
        return decisions


# -- what is named as cached ---------------------------------------------------------------------------


@mutant("rank-commit-names-what-found-no-room", kills=("RANKS-29",))
class CommitNamesWhatFoundNoRoom(RankCache):
    """An insert that is cut to what all ranks have room for names all that was missing."""

    def ask_insert(self, ask: Ask) -> Deciding:
        pages = self.path(ask.key)
        missing = pages[self.run(pages, self.device) :]
        decisions = yield from super().ask_insert(ask)
        return [
            Decision("commit", "device", tuple(missing)) if one[:2] == ("commit", "device") else one
            for one in decisions
        ]


@mutant("rank-commit-names-pages-that-go", kills=("RANKS-29",))
class CommitNamesPagesThatGo(RankCache):
    """The last page that a prefetch has read goes for its window, and is named as cached all the same."""

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        had = set(self.host)
        decisions = super().commit(rid, one, read)
        kept = [page for name in decisions if name[:2] == ("commit", "kv") for page in name.prefixes]
        for page in kept[-1:]:
            if page not in had and page not in self.windows and page not in self.states:
                del self.host[page]
                self.host_free += 1
        return decisions


# -- what goes without a call --------------------------------------------------------------------------


@mutant("rank-frees-what-it-has-written", kills=("RANKS-30",))
class FreesWhatItHasWritten(RankCache):
    """A page leaves the device where its copy to the host has ended, on each rank as soon as it has ended there."""

    def local(self, event: Local) -> Sequence[Prefix] | None:
        ended = super().local(event)
        for page in ended or (event.key,):
            if event.what == "wrote" and page in self.device:
                del self.device[page]
                self.device_free += 1
        return ended


@mutant("rank-detach-clears-the-host", kills=("RANKS-30",))
class DetachClearsTheHost(RankCache):
    """Where storage is detached, what was cached below the device goes on that rank, with its windows and states."""

    def local(self, event: Local) -> Sequence[Prefix] | None:
        ended = super().local(event)
        if event.what == "attach" and not event.pages:
            self.evict_host(len(self.host), set())
        return ended
