"""Mutants of one rank of several that keep states beside KV: how many, whose, where, and what becomes of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kvlitmus.conformance.specimen.ranks import Deciding, Exchanging, RankCache, Read
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.ranks import Ask, Decision, Exchange, Prefix

_SGLANG = "https://github.com/sgl-project/sglang/"

# -- what a commit makes of a state --------------------------------------------------------------------


@mutant("rank-state-of-a-longer-prefix", bugs=("H-26",), links=(_SGLANG + "pull/38815",), kills=("RANKS-16",))
class StateOfALongerPrefix(RankCache):
    """Ranks commit fewer pages than storage has, and hang the state of all of them on the shorter prefix: a request
    that goes on from there has the state of a longer one.
    """

    def state_commits(self, one: Read, many: int, states: int) -> bool:
        return 0 < len(one.states) <= states and many > 0


@mutant("rank-state-where-it-was-read", bugs=("H-26",), kills=("RANKS-01",))
class StateWhereItWasRead(RankCache):
    """Pages are agreed on, and whether there is a state is not: ranks that have read it hang it on what all have."""

    def agree_progress(self, rid: int) -> Exchanging:
        *agreed, _ = yield from super().agree_progress(rid)
        return [*agreed, self.has_read(rid)[2]]


@mutant("rank-state-that-nobody-has-read", kills=("RANKS-16",))
class StateThatNobodyHasRead(RankCache):
    """A commit of all pages gives its boundary a state, whether it was read or not: what lay in its memory before."""

    def state_commits(self, one: Read, many: int, states: int) -> bool:
        return bool(one.states) and many == one.hit > 0


@mutant("rank-state-needs-a-window", kills=("RANKS-16",))
class StateNeedsAWindow(RankCache):
    """A state that all ranks have read is given back where the window wasn't read whole."""

    def state_commits(self, one: Read, many: int, states: int) -> bool:
        window = self.has_window(one)
        return window and super().state_commits(one, many, states)

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        self.window_read = read[1]
        return super().commit(rid, one, read)

    def has_window(self, one: Read) -> bool:
        """Whether the window was read whole."""
        return 0 < one.window <= self.window_read


@mutant("rank-ends-before-the-state", bugs=("H-42",), kills=("RANKS-12",))
class EndsBeforeTheState(RankCache):
    """A prefetch that is to be waited for ends when pages and window are there, while the state is being read."""

    def may_stop(self, rid: int, one: Read | None) -> bool:
        pages, window, _ = self.has_read(rid)
        whole = one is not None and 0 <= one.hit <= pages and window >= one.window
        return whole or super().may_stop(rid, one)


# -- how many, and for which boundary -------------------------------------------------------------------


@mutant("rank-states-by-the-length", links=(_SGLANG + "pull/26945",), kills=("RANKS-26",))
class StatesByTheLength(RankCache):
    """A state is counted like the KV: as many entries are taken as there are pages left after the truncation."""

    def places(self, missing: list[Prefix]) -> list[Prefix]:
        return missing if self.world.state_slots else []


@mutant("rank-no-state-when-cut-short", links=(_SGLANG + "pull/26945",), kills=("RANKS-26",))
class NoStateWhenCutShort(RankCache):
    """A prefetch that is cut short takes no state, as if the boundary at which it ends now could do without."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        self.asked = len(self.missing(self.path(ask.key)))
        return (yield from super().ask_prefetch(ask))

    def places(self, missing: list[Prefix]) -> list[Prefix]:
        return super().places(missing) if len(missing) == self.asked else []


@mutant("rank-state-of-the-key", kills=("RANKS-26",))
class StateOfTheKey(RankCache):
    """A prefetch that is cut short asks storage for the state of the whole key."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        self.asked = tuple(ask.key)
        return (yield from super().ask_prefetch(ask))

    def places(self, missing: list[Prefix]) -> list[Prefix]:
        return [self.asked for _ in super().places(missing)]


@mutant("rank-state-stays-where-it-was", kills=("RANKS-26",))
class StateStaysWhereItWas(RankCache):
    """Storage has less than was asked for, and the state that is read is still that of what was asked for."""

    def move_states(self, one: Read) -> None:
        if not one.pages:
            super().move_states(one)


# -- what is agreed on -------------------------------------------------------------------------------


@mutant("rank-hit-is-the-least-of-components", bugs=("H-19",), kills=("RANKS-19",))
class HitIsTheLeastOfComponents(RankCache):
    """What storage has is the least of what each component has longest, on each rank: what all may have only apart."""

    def count_hit(self, rid: int, one: Read) -> Generator[Exchange, tuple[int, ...], int | None]:
        mine = self.found.get(rid)
        sets = [mine or (), self.found_states.get(rid, ())] if one.states else [mine or ()]
        longest = [max((at for at in there if at <= len(one.pages)), default=0) for there in sets]
        names = ("answered", "pages", "states")[: 1 + len(sets)]
        answered, *hits = yield from self.to_all.agree("min", names, (int(mine is not None), *longest))
        return min(hits) if answered else None


@mutant("rank-hit-without-states", kills=("RANKS-19",))
class HitWithoutStates(RankCache):
    """What storage has is agreed on for KV and window alone: the prefetch ends where nobody has a state."""

    def count_hit(self, rid: int, one: Read) -> Generator[Exchange, tuple[int, ...], int | None]:
        self.found_states[rid] = frozenset(range(1, len(one.pages) + 1))
        return (yield from super().count_hit(rid, one))


@mutant("rank-packs-states-that-it-has", bugs=("H-21",), kills=("RANKS-04", "RANKS-06"))
class PacksStatesThatItHas(RankCache):
    """The state's place in the packed vector is there only on ranks that have read it."""

    def agree_progress(self, rid: int) -> Exchanging:
        mine = self.has_read(rid)
        many = 2 + bool(mine[2])
        agreed = yield from self.to_all.agree("min", self.PROGRESS[:many], mine[:many])
        return [*agreed, 0][:3]


@mutant("rank-refuses-for-want-of-its-own-state", bugs=("H-68",), kills=("RANKS-01",))
class RefusesForWantOfItsOwnState(RankCache):
    """Whether there is an entry for a state is asked of this rank alone: where none is left on one, that one begins
    nothing and the others do.
    """

    def agree_states(self) -> Generator[Exchange, tuple[int, ...], int]:
        yield from super().agree_states()
        return self.state_room()


@mutant("rank-asks-for-states-where-it-has-none", kills=("RANKS-04", "RANKS-06"))
class AsksForStatesWhereItHasNone(RankCache):
    """Ranks agree on room for a state only where this one has none: the others don't come."""

    def agree_states(self) -> Generator[Exchange, tuple[int, ...], int]:
        if self.state_room():
            return self.state_room()
        return (yield from super().agree_states())


@mutant("rank-drops-a-state-by-its-own-room", kills=("RANKS-02",))
class DropsAStateByItsOwnRoom(RankCache):
    """That all ranks have room is agreed on, and how many cached states go for it is not."""

    def evict_states(self, many: int) -> Decision:
        return super().evict_states(min(many, 1 - self.state_room()))


@mutant("rank-takes-a-state-that-others-have", kills=("POOL-12",))
class TakesAStateThatOthersHave(RankCache):
    """Entries for states that others occupy are counted as free."""

    def state_room(self) -> int:
        return self.state_free


# -- what is given back ------------------------------------------------------------------------------


@mutant("rank-abort-keeps-the-state", bugs=("H-40",), kills=("POOL-12",))
class AbortKeepsTheState(RankCache):
    """An abort gives back pages and window, and the memory for the state is never given back."""

    def drop(self, rid: int) -> None:
        kept = len(self.reads[rid].states) if rid in self.reads else 0
        super().drop(rid)
        self.state_free -= kept


@mutant("rank-keeps-the-state-it-did-not-commit", kills=("POOL-12",))
class KeepsTheStateItDidNotCommit(RankCache):
    """The memory for a state that is not committed is never given back."""

    def attach_state(self, one: Read, place: Sequence[Prefix]) -> None:
        free = self.state_free
        super().attach_state(one, place)
        if not place:
            self.state_free = free


@mutant("rank-keeps-the-state-of-nothing", kills=("POOL-12",))
class KeepsTheStateOfNothing(RankCache):
    """Storage has nothing of a prefetch: its pages are given back, and its state is forgotten."""

    def move_states(self, one: Read) -> None:
        if one.pages:
            super().move_states(one)


@mutant("rank-second-state-is-lost", kills=("POOL-12",))
class SecondStateIsLost(RankCache):
    """A state is committed to a boundary that has one by then, and the memory of one of the two is lost."""

    def attach_state(self, one: Read, place: Sequence[Prefix]) -> None:
        twice = sum(page in self.states for page in place)
        super().attach_state(one, place)
        self.state_free -= twice


@mutant("rank-half-of-a-grant-is-lost", bugs=("H-43",), kills=("POOL-12",))
class HalfOfAGrantIsLost(RankCache):
    """A prefetch that finds room for its state and none for its window isn't begun, and the state is not given back."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        room, known = self.state_room(), ask.rid in self.reads
        decisions = yield from super().ask_prefetch(ask)
        if room and not known and ask.rid not in self.reads and self.missing(self.path(ask.key)):
            self.state_free -= 1
        return decisions


@mutant("rank-page-goes-without-its-state", kills=("POOL-12",))
class PageGoesWithoutItsState(RankCache):
    """A page is evicted from the host, and the memory of its state is lost with it."""

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        free = self.state_free
        victims = super().evict_host(many, kept)
        self.state_free = free
        return victims


@mutant("rank-state-moves-up", kills=("RANKS-31",))
class StateMovesUp(RankCache):
    """A page is evicted, and its state is kept for the page before it, whose state is another one."""

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        stated = set(self.states)
        victims = super().evict_host(many, kept)
        for page in victims.prefixes:
            if page in stated and page[:-1] in self.host and page[:-1] not in self.states and self.state_free:
                self.states[page[:-1]] = None
                self.state_free -= 1
        return victims


@mutant("rank-reserves-a-state-before-all-agree", kills=("RANKS-25",))
class ReservesAStateBeforeAllAgree(RankCache):
    """A prefetch takes an entry for its state first and asks the others then: where one is gone, it is lost."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        held = min(1, self.state_free)
        self.state_free -= held
        agreed = yield from self.to_all.agree("min", ("held",), (held,))
        self.state_free += held
        assert agreed
        return (yield from super().ask_prefetch(ask))
