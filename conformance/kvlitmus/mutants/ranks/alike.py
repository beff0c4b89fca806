"""Mutants that do the same wrong thing on all ranks: they agree, and each of them breaks a law of a cache."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.ranks import Deciding, Exchanging, RankCache
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.ranks import Ask, Decision, Prefix


def unlucky(key: Prefix) -> bool:
    """Whether this is one of the keys, one in three, that are refused."""
    return (sum(key) + len(key)) % 3 == 0


# -- refused by key ----------------------------------------------------------------------------------


class Refusing(RankCache):
    """Takes some keys, in calls of one kind, for empty ones."""

    what = ""

    def ask(self, ask: Ask) -> Deciding:
        if ask.what == self.what and unlucky(ask.key):
            ask = ask._replace(key=())
        return (yield from super().ask(ask))


@mutant("ranks-refuse-to-insert-alike", kills=("POOL-07",))
class RefuseToInsertAlike(Refusing):
    """Some keys are not cached, on no rank, though all have room for them."""

    what = "insert"


@mutant("ranks-refuse-to-load-alike", kills=("LOAD-03",))
class RefuseToLoadAlike(Refusing):
    """Some keys are not loaded back, on no rank, though all have them on the host, and room on the device."""

    what = "load"


@mutant("ranks-refuse-to-prefetch-alike", kills=("FETCH-03",))
class RefuseToPrefetchAlike(Refusing):
    """Some keys are not read from storage, on no rank, though all have room for them on the host."""

    what = "prefetch"


@mutant("ranks-refuse-to-write-alike", kills=("BACKUP-01",))
class RefuseToWriteAlike(RankCache):
    """Some keys are cached and not copied to the host, on no rank, though all have room for them there."""

    def ask_insert(self, ask: Ask) -> Deciding:
        self.unlucky = unlucky(ask.key)
        return (yield from super().ask_insert(ask))

    def writable(self, wanted: int, host: int, host_more: int) -> int:
        return 0 if self.unlucky else super().writable(wanted, host, host_more)


@mutant("ranks-refuse-to-evict-alike", kills=("EVICT-01",))
class RefuseToEvictAlike(RankCache):
    """An eviction frees no more than two pages, however many are asked for."""

    def ask_evict(self, ask: Ask) -> Deciding:
        return (yield from super().ask_evict(ask._replace(pages=min(2, ask.pages))))


@mutant("ranks-refuse-to-abort-alike", kills=("POOL-12",))
class RefuseToAbortAlike(RankCache):
    """Every third request that is gone keeps the memory of its prefetch, on all ranks, and nobody asks for it again."""

    def ask_abort(self, ask: Ask) -> Deciding:
        if ask.rid % 3:
            return (yield from super().ask_abort(ask))
        yield from self.to_all.agree("min", ("here",), (1,))
        return []


# -- a page less or more -----------------------------------------------------------------------------


@mutant("ranks-insert-a-page-less-alike", kills=("POOL-01",))
class InsertAPageLessAlike(RankCache):
    """Where something has to go for a key, its last page is left out."""

    def room(self, pages: list[Prefix]) -> list[int]:
        free, more, *others = super().room(pages)
        return [free, max(0, more - 1), *others]


@mutant("ranks-prefetch-a-page-less-alike", kills=("FETCH-03",))
class PrefetchAPageLessAlike(RankCache):
    """Where not all ranks have room for all of a prefetch, it takes a page less than all have room for."""

    def agree_room(self, pages: list[Prefix]) -> Exchanging:
        free, more, *others = yield from super().agree_room(pages)
        short = free + more < len(self.missing(pages))
        return [free, max(0, more - short), *others]


@mutant("ranks-evict-a-page-more-alike", kills=("EVICT-06",))
class EvictAPageMoreAlike(RankCache):
    """An eviction of the device takes a page more than is asked for, or lacking."""

    def evict_device(self, many: int, kept: set[Prefix]) -> Decision:
        return super().evict_device(many + 1 if many > 0 else many, kept)


@mutant("ranks-drop-a-page-more-alike", kills=("EVICT-06",))
class DropAPageMoreAlike(RankCache):
    """Where the host is short of room, a page more is dropped than is lacking."""

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        return super().evict_host(many + 1 if many > 0 else many, kept)


# -- the wrong pages ---------------------------------------------------------------------------------


@mutant("ranks-evict-the-newest-alike", kills=("EVICT-05",))
class EvictTheNewestAlike(RankCache):
    """What was used last leaves the device first, in the same order on every rank."""

    def order(self, tier: str) -> list[Prefix]:
        return super().order(tier)[:: -1 if tier == "device" else 1]


@mutant("ranks-insert-is-no-use-alike", kills=("EVICT-05",))
class InsertIsNoUseAlike(RankCache):
    """What a match or an insert finds keeps its place: pages leave in the order in which they came."""

    def use(self, tier: dict[Prefix, None], pages: Sequence[Prefix]) -> None:
        for page in pages:
            tier.setdefault(page)


@mutant("ranks-drop-the-newest-alike", kills=("EVICT-05",))
class DropTheNewestAlike(RankCache):
    """What came last to the host is dropped first, in the same order on every rank."""

    def order(self, tier: str) -> list[Prefix]:
        return super().order(tier)[:: -1 if tier == "host" else 1]


@mutant("ranks-lose-the-host-copy-alike", kills=("TIER-13",))
class LoseTheHostCopyAlike(RankCache):
    """With a page of the device its copy on the host goes, and all ranks say so."""

    def ask_evict(self, ask: Ask) -> Deciding:
        [gone] = yield from super().ask_evict(ask)
        below = {page[:-1] for page in self.host}
        lost = [page for page in gone.prefixes if page in self.host and page not in below | self.windows.keys()]
        for page in lost:
            del self.host[page]
            self.drop_state(page)
        self.host_free += len(lost)
        return [gone, Decision("victims", "host", tuple(lost))]


@mutant("ranks-evict-what-is-copied-alike", kills=("EVICT-03", "LOCK-01"))
class EvictWhatIsCopiedAlike(RankCache):
    """A page may leave the device while it is copied to the host: what is copied then is what comes in its place."""

    def victims(self, tier: str, many: int, kept: set[Prefix]) -> list[Prefix]:
        writes, self.writes = self.writes, self.writes if tier == "host" else []
        chosen = super().victims(tier, many, kept)
        self.writes = writes
        return chosen
