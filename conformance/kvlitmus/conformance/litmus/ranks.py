"""Litmus tests on several ranks: equal calls, unequal delays, in every shape that ranks can have."""

from __future__ import annotations

from collections.abc import Iterator

from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.ranks import Local

RANKS = ("ranks",)
STOPS = ("wait_complete",)
STATED = (*RANKS, "ranks_view", "rank_states")
KEY = (1, 2, 3, 4)


@litmus(rules=("RANKS-01", "RANKS-06", "RANKS-10"), needs=RANKS)
def copies_that_end_apart_are_noted_together(checker: Checker) -> None:
    """The copies of one rank end first, and out of order; both note the ones that have ended on both, in order."""
    for shape in ranks.SHAPES:
        if not ranks.start(checker, shape):
            continue
        for tree in range(len(checker.ranks_state.world.trees)):
            first, *others = checker.ranks_state.world.tree(tree)
            ranks.ask(checker, "insert", KEY[:3], tree=tree)
            writing = ranks.agreed(checker, tree).writing
            ranks.ended_here(checker, first, "wrote", writing[1:])
            ranks.ask(checker, "acks", tree=tree)
            for rank in others:
                ranks.ended_here(checker, rank, "wrote", writing[:2])
            ranks.ask(checker, "acks", tree=tree)
            ranks.ended_here(checker, first, "wrote", ranks.agreed(checker, tree).writing[:1])
            ranks.ask(checker, "acks", tree=tree)
            ranks.finish_copies(checker, tree)


@litmus(rules=("RANKS-04", "RANKS-07", "RANKS-08", "RANKS-10"), needs=RANKS)
def nothing_under_way_is_agreed_on_too(checker: Checker) -> None:
    """Acknowledgements are asked for while nothing, or a copy that has ended on one rank alone, is under way: all
    ranks enter the same (sglang#38273).
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            ranks.ask(checker, "acks")
            ranks.ask(checker, "poll", rid=7)
            ranks.ask(checker, "hit", rid=7)
            ranks.ask(checker, "insert", (1,))
            last = checker.ranks_state.world.tree(0)[-1]
            ranks.ended_here(checker, last, "wrote", ranks.agreed(checker).writing)
            ranks.ask(checker, "acks")
            ranks.finish_copies(checker)
            ranks.ask(checker, "acks")


@litmus(rules=("RANKS-04", "RANKS-12", "RANKS-14", "RANKS-16"), needs=RANKS)
def reads_that_end_apart_are_committed_alike(checker: Checker) -> None:
    """Ranks have read unequally much when a prefetch ends: what all have read is cached, and the window where all
    have it whole (seed 004).
    """
    for shape in ranks.SHAPES:
        if not ranks.start(checker, shape):
            continue
        many = len(checker.ranks_state.world.tree(0))
        endings = [
            [(4, 2), *[(3, 2)] * (many - 1)],
            [*[(4, 2)] * (many - 1), (4, 1)],
            [(4, 0), *[(1, 2)] * (many - 1)],
            [(4, 2)] * many,
        ]
        for rid, progress in enumerate(endings, 1):
            start = (rid, 2, 3, 4)
            ranks.ask(checker, "prefetch", start, rid=rid)
            ranks.found(checker, rid, [range(1, 5)] * many)
            # One rank has read all, the others nothing.  Later ones are polled when all have read: a stop policy may
            # end this one here.
            if rid == 1:
                ranks.read(checker, rid, progress[:1])
                ranks.ask(checker, "poll", rid=rid)
            ranks.read(checker, rid, progress)
            ranks.ask(checker, "poll", rid=rid)
            ranks.failed(checker, checker.ranks_state.world.tree(0)[-1], rid)
            ranks.ask(checker, "poll", rid=rid)
            ranks.ask(checker, "match", start)


@litmus(rules=("RANKS-12",), needs=RANKS, stops=("timeout",))
def a_clock_that_runs_ahead_ends_nothing(checker: Checker) -> None:
    """One rank's clock is far ahead: the prefetch goes on until the time is up on all ranks, which it is when more than
    the limit has gone by, not when as much has.
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            members = checker.ranks_state.world.tree(0)
            ranks.ask(checker, "prefetch", KEY, rid=1)
            ranks.found(checker, 1, [range(1, 5)] * len(members))
            limit = checker.ranks_state.world.limit
            for seconds in (limit, limit + 1):
                for rank in members[1:]:
                    ranks.ask(checker, "poll", rid=1)
                    ranks.local(checker, Local(rank, "clock", pages=100 if seconds > limit else seconds))
                ranks.ask(checker, "poll", rid=1)
                ranks.local(checker, Local(members[0], "clock", pages=seconds))
                ranks.ask(checker, "poll", rid=1)


@litmus(rules=("RANKS-19",), needs=RANKS)
def boundaries_are_those_that_all_ranks_have(checker: Checker) -> None:
    """One rank can restore two pages or four, the other three alone or two: two is what both can, though the least
    of the longest is three (hazard H-19 of the map).
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            others = len(checker.ranks_state.world.tree(0)) - 1
            for rid, mine, theirs in ((1, (2, 4), (2, 3)), (2, (1, 2, 3, 4), (1, 2)), (3, (4,), (1, 2, 3))):
                ranks.ask(checker, "prefetch", (rid, *KEY[1:]), rid=rid)
                ranks.found(checker, rid, [mine, *[theirs] * others])
                ranks.ask(checker, "abort", rid=rid)


@litmus(rules=("FETCH-06", "RANKS-18"), needs=RANKS)
def a_prefetch_fits_the_rank_with_least_room(checker: Checker) -> None:
    """Others occupy most of the host of one rank, or storage is detached there alone: all take the same prefix, or
    nothing.
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            last, room = checker.ranks_state.world.tree(0)[-1], checker.ranks_state.world.host_pages
            for rid, left in enumerate((3, 1, 0, room), 1):
                ranks.pinch(checker, last, left)
                ranks.ask(checker, "prefetch", KEY, rid=rid)
                ranks.ask(checker, "abort", rid=rid)
            ranks.local(checker, Local(last, "attach", pages=0))
            ranks.ask(checker, "prefetch", KEY, rid=9)
            ranks.local(checker, Local(last, "attach", pages=1))
            ranks.ask(checker, "prefetch", KEY, rid=10)


@litmus(rules=("RANKS-02", "RANKS-03", "RANKS-29", "RANKS-30"), needs=(*RANKS, "ranks_view"))
def histories_that_are_equal_choose_equal_victims(checker: Checker) -> None:
    """Pages that were used alike, though their copies ended in another order on each rank, are evicted alike."""
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            for first in (1, 2, 3, 4):
                ranks.ask(checker, "insert", (first, 5))
            writing = ranks.agreed(checker).writing
            for at, rank in enumerate(checker.ranks_state.world.tree(0)):
                ranks.ended_here(checker, rank, "wrote", writing[at % 2 :: 2])
            ranks.finish_copies(checker)
            ranks.ask(checker, "match", (2, 5))
            ranks.ask(checker, "evict", pages=3)
            ranks.ask(checker, "insert", (6, 5, 5, 5))


@litmus(rules=("LOAD-01", "TREE-02", "POOL-12"), needs=(*RANKS, "ranks_view"))
def what_is_loaded_back_is_on_every_rank(checker: Checker) -> None:
    """A key is evicted from the device and loaded back, while the loads of one rank end late."""
    for shape in ranks.SHAPES:
        if not ranks.start(checker, shape):
            continue
        ranks.cached(checker, KEY)
        ranks.ask(checker, "evict", pages=3)
        ranks.ask(checker, "match", KEY)
        ranks.ask(checker, "load", KEY)
        for rank in checker.ranks_state.world.tree(0)[1:]:
            ranks.ended_here(checker, rank, "loaded", ranks.agreed(checker).loading)
        ranks.ask(checker, "acks")
        ranks.ask(checker, "match", KEY)
        ranks.finish_copies(checker)
        ranks.ask(checker, "match", KEY)
        ranks.ask(checker, "load", KEY)


@litmus(rules=("RANKS-29", "RANKS-30"), needs=(*RANKS, "ranks_view"))
def what_goes_for_a_load_is_a_victim(checker: Checker) -> None:
    """A key that is on the host is loaded back to a device that others fill; what goes for it is named."""
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape, pages=len(KEY)):
            ranks.cached(checker, KEY)
            ranks.cached(checker, (5, 6, 7, 8))
            ranks.ask(checker, "load", KEY)
            ranks.finish_copies(checker)
            ranks.ask(checker, "match", KEY)


@litmus(rules=("LOAD-01", "TREE-02", "POOL-12"), needs=(*RANKS, "ranks_view"))
def what_is_missing_behind_a_load_may_be_loaded(checker: Checker) -> None:
    """While the first page of a key is being loaded, the rest of it is asked for: all of it is loaded, or nothing."""
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            ranks.cached(checker, KEY)
            ranks.ask(checker, "evict", pages=checker.ranks_state.world.pages)
            ranks.ask(checker, "load", KEY[:1])
            ranks.ask(checker, "load", KEY)
            ranks.ask(checker, "match", KEY)
            ranks.finish_copies(checker)
            ranks.ask(checker, "match", KEY)


@litmus(rules=("RANKS-14", "RANKS-19"), needs=RANKS)
def a_request_that_is_aborted_is_retried(checker: Checker) -> None:
    """A request's number comes again after an abort, for another key: what storage answered, what was read and what
    failed before says nothing of it.
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            many = len(checker.ranks_state.world.tree(0))
            ranks.ask(checker, "prefetch", KEY, rid=1)
            ranks.found(checker, 1, [range(1, 5)] * many)
            ranks.read(checker, 1, [(4, 2)] * many)
            ranks.ask(checker, "abort", rid=1)
            ranks.ask(checker, "prefetch", (5, *KEY[1:]), rid=1)
            ranks.ask(checker, "hit", rid=1)
            ranks.found(checker, 1, [range(1, 3)] * many)
            ranks.ask(checker, "poll", rid=1)
            ranks.ask(checker, "abort", rid=1)
            ranks.ask(checker, "prefetch", (6, *KEY[1:]), rid=1)
            ranks.found(checker, 1, [range(1, 3)] * many)
            ranks.read(checker, 1, [(2, 2)] * many)
            ranks.ask(checker, "poll", rid=1)


@litmus(rules=("FETCH-06",), needs=(*RANKS, "ranks_view"))
def what_the_host_has_is_not_read_again(checker: Checker) -> None:
    """The first pages of a key are on every host when the rest of it is to be read."""
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            ranks.cached(checker, KEY[:2])
            ranks.ask(checker, "prefetch", KEY, rid=1)
            ranks.ask(checker, "abort", rid=1)


@litmus(rules=("POOL-12",), needs=(*RANKS, "ranks_view"))
def a_backup_fits_the_rank_with_least_room(checker: Checker) -> None:
    """Others occupy the host of one rank when pages are to be written there: all write as many as fit on it
    (sglang#28429).
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            last = checker.ranks_state.world.tree(0)[-1]
            ranks.pinch(checker, last, 2)
            ranks.cached(checker, KEY)
            ranks.cached(checker, (5, 6, 7))
            ranks.local(checker, Local(last, "pinch"))
            ranks.cached(checker, KEY)


@litmus(rules=("RANKS-29", "RANKS-31"), needs=(*RANKS, "ranks_view"))
def what_is_cached_is_named_and_what_is_named_is_cached(checker: Checker) -> None:
    """A key that is longer than the device is inserted, backed up, evicted and loaded back: what comes is named, page
    by page, and no more is named than comes.
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape, pages=2):
            last = checker.ranks_state.world.tree(0)[-1]
            ranks.pinch(checker, last, 0)
            ranks.ask(checker, "insert", (9,))
            ranks.local(checker, Local(last, "pinch"))
            ranks.ask(checker, "match", (9,))
            ranks.ask(checker, "insert", KEY)
            ranks.ask(checker, "match", KEY)
            ranks.finish_copies(checker)
            ranks.ask(checker, "match", KEY)
            ranks.ask(checker, "evict", pages=2)
            ranks.ask(checker, "load", KEY[:1])
            ranks.finish_copies(checker)
            ranks.ask(checker, "match", KEY)


@litmus(rules=("RANKS-32",), needs=(*RANKS, "ranks_view"))
def what_a_prefetch_took_stays_its_own(checker: Checker) -> None:
    """A prefetch goes on while copies are noted, other keys are cached, read, evicted and loaded, and it is polled too
    early: it has its memory, before storage has answered and afterwards.
    """
    for shape in ranks.SHAPES:
        if not ranks.start(checker, shape):
            continue
        many = len(checker.ranks_state.world.tree(0))
        ranks.ask(checker, "prefetch", KEY, rid=1)
        ranks.ask(checker, "insert", (9, 6, 7, 8))
        for rid in (2, 3):
            ranks.ask(checker, "insert", (rid, 6, 7))
            ranks.ask(checker, "acks")
            ranks.ask(checker, "poll", rid=1)
            ranks.ask(checker, "prefetch", (rid + 4, 5), rid=rid)
            ranks.finish_copies(checker)
            ranks.ask(checker, "evict", pages=8)
            ranks.ask(checker, "load", (rid, 6, 7))
            ranks.ask(checker, "match", (rid, 6, 7))
            ranks.ask(checker, "abort", rid=rid)
            ranks.found(checker, 1, [range(1, 5)] * many)
        ranks.read(checker, 1, [(4, 2)] * many)
        ranks.ask(checker, "poll", rid=1)


@litmus(rules=("RANKS-30", "RANKS-31"), needs=(*RANKS, "ranks_view"))
def what_happens_to_one_rank_alone_moves_nothing(checker: Checker) -> None:
    """Copies end, time goes by, others occupy memory and storage goes, on one rank alone: what is cached stays."""
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            last = checker.ranks_state.world.tree(0)[-1]
            ranks.cached(checker, KEY[:3])
            ranks.ask(checker, "insert", (5, 6))
            ranks.ended_here(checker, last, "wrote", ranks.agreed(checker).writing)
            ranks.local(checker, Local(last, "clock", pages=9))
            ranks.pinch(checker, last, 2)
            ranks.local(checker, Local(last, "attach", pages=0))
            ranks.local(checker, Local(last, "attach", pages=1))
            ranks.ask(checker, "match", KEY)


@litmus(rules=("RANKS-24", "RANKS-25"), needs=(*RANKS, "ranks_view"))
def a_rank_that_is_gone_is_told(checker: Checker) -> None:
    """A rank is gone while the others are asked one thing after the other; then it is back, empty, and all go on
    together.
    """
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape):
            for rank in (checker.ranks_state.world.tree(0)[-1], checker.ranks_state.world.tree(0)[0]):
                for what in ("insert", "prefetch", "load", "acks", "match", "evict", "abort"):
                    ranks.cached(checker, KEY)
                    ranks.ask(checker, "evict", pages=2)
                    if what == "abort":
                        ranks.ask(checker, "prefetch", (7, 8))
                    ranks.lose(checker, rank, what, (1, 2, 3, 4, 5, 6), 1)
                    ranks.ask(checker, "abort")


# -- states ------------------------------------------------------------------------------------------


def with_states(checker: Checker, slots: int = 2) -> Iterator[tuple[int, ...]]:
    """Every shape, its hosts with room for so many states; the ranks of its first tree."""
    for shape in ranks.SHAPES:
        if ranks.start(checker, shape, state_slots=slots):
            yield checker.ranks_state.world.tree(0)


@litmus(rules=("RANKS-04", "RANKS-12", "RANKS-16", "RANKS-26", "RANKS-31"), needs=STATED)
def a_state_is_of_its_own_boundary(checker: Checker) -> None:
    """One rank has read fewer pages than storage has, or has no state yet, when a prefetch ends: no rank hangs the
    state of a longer prefix on a shorter one, and each has it where all have read everything (hazard H-26 of the map).
    """
    for members in with_states(checker):
        many = len(members)
        endings: list[list[tuple[int, ...]]] = [
            [(4, 2, 1), *[(3, 2, 1)] * (many - 1)],
            [*[(4, 2, 1)] * (many - 1), (4, 2, 0)],
            [(4, 0, 1)] * many,
            [(4, 2, 1)] * many,
        ]
        for rid, progress in enumerate(endings, 1):
            ranks.ask(checker, "prefetch", (rid, *KEY[1:]), rid=rid)
            ranks.found(checker, rid, [range(1, 5)] * many)
            ranks.read(checker, rid, progress)
            ranks.ask(checker, "poll", rid=rid)
            ranks.failed(checker, members[-1], rid)
            ranks.ask(checker, "poll", rid=rid)


@litmus(rules=("FETCH-06", "RANKS-26"), needs=STATED)
def a_state_is_one_however_short_a_prefetch_is_cut(checker: Checker) -> None:
    """Others occupy most of the host of one rank, then storage has less than was asked for: there is one state all the
    same, for the last page that is left (sglang#26945).
    """
    for members in with_states(checker):
        for rid, left in enumerate((3, 1, 0, 8), 1):
            ranks.pinch(checker, members[-1], left)
            ranks.ask(checker, "prefetch", KEY, rid=rid)
            ranks.found(checker, rid, [range(1, min(left, 2) + 1)] * len(members))
            ranks.ask(checker, "abort", rid=rid)


@litmus(rules=("RANKS-01", "RANKS-02", "POOL-12", "RANKS-29", "RANKS-30"), needs=STATED)
def a_state_fits_the_rank_with_least_room(checker: Checker) -> None:
    """Others occupy all entries for states on one rank, then all but one: all ranks begin the prefetch, or none does;
    and all drop a cached state for it, or none does.
    """
    for members in with_states(checker):
        many = len(members)
        for rid, left in enumerate((0, 1, 0, 2, 2), 1):
            ranks.pinch(checker, members[-1], 8, left)
            ranks.ask(checker, "prefetch", (rid, 2), rid=rid)
            ranks.found(checker, rid, [(1, 2)] * many)
            ranks.read(checker, rid, [(2, 2, 1)] * many)
            ranks.ask(checker, "poll", rid=rid)
        ranks.pinch(checker, members[-1], 8, 0)
        for rid in (6, 7, 8):
            ranks.ask(checker, "prefetch", (rid, 2), rid=rid)
        ranks.pinch(checker, members[-1], 8, 2)


@litmus(rules=("RANKS-19", "RANKS-26"), needs=STATED)
def boundaries_are_those_where_all_ranks_have_a_state(checker: Checker) -> None:
    """The KV of all pages is there, and states are stored for some boundaries, other ones on each rank: what counts is
    where all have everything, not the least of what each has longest, of one component or of both.
    """
    whole = (1, 2, 3, 4)
    for members in with_states(checker):
        others = len(members) - 1
        answers: list[tuple[tuple[int, ...], ...]] = [
            (whole, (2, 4), whole, (2, 3)),
            (whole, (4,), whole, (1, 2, 3)),
            ((1, 2, 3), whole, whole, (4,)),
            ((1, 3), (1, 2, 4), whole, (1, 2)),
            (whole, whole, whole, whole),
        ]
        for rid, (mine, my_states, theirs, their_states) in enumerate(answers, 1):
            ranks.ask(checker, "prefetch", (rid, *KEY[1:]), rid=rid)
            ranks.found(checker, rid, [mine, *[theirs] * others], [my_states, *[their_states] * others])
            ranks.ask(checker, "abort", rid=rid)


@litmus(rules=("POOL-12", "RANKS-16"), needs=STATED)
def what_a_prefetch_holds_of_a_state_is_given_back(checker: Checker) -> None:
    """A request is aborted before and after storage has answered, and when everything was read; storage has nothing;
    its number comes again, and the state that was read before is not that of the new prefetch.
    """
    for members in with_states(checker):
        many = len(members)
        ranks.ask(checker, "prefetch", KEY, rid=1)
        ranks.ask(checker, "abort", rid=1)
        for there in (range(1, 5), ()):
            ranks.ask(checker, "prefetch", KEY, rid=1)
            ranks.found(checker, 1, [there] * many)
            ranks.read(checker, 1, [(4, 2, 1)] * many)
            ranks.ask(checker, "abort", rid=1)
        ranks.ask(checker, "prefetch", (5, *KEY[1:]), rid=1)
        ranks.found(checker, 1, [range(1, 5)] * many)
        ranks.read(checker, 1, [(4, 2)] * many)
        ranks.ask(checker, "poll", rid=1)
        ranks.failed(checker, members[0], 1)
        ranks.ask(checker, "poll", rid=1)


@litmus(rules=("POOL-12", "RANKS-16", "RANKS-26"), needs=STATED)
def a_boundary_that_is_read_twice_has_one_state(checker: Checker) -> None:
    """Two prefetches read the same key, and both are committed: one state is cached, the memory of the other free."""
    for members in with_states(checker):
        for rid in (1, 2):
            ranks.ask(checker, "prefetch", KEY[:3], rid=rid)
            ranks.found(checker, rid, [range(1, 4)] * len(members))
        for rid in (2, 1):
            ranks.read(checker, rid, [(3, 2, 1)] * len(members))
            ranks.ask(checker, "poll", rid=rid)
        ranks.ask(checker, "prefetch", (5, 6), rid=3)


@litmus(rules=("RANKS-16", "RANKS-30"), needs=STATED)
def a_state_stays_where_another_one_was_not_read(checker: Checker) -> None:
    """Two prefetches read the same key, and the one that ends last has read no state: that of the first stays."""
    for members in with_states(checker):
        for rid in (1, 2):
            ranks.ask(checker, "prefetch", KEY[:3], rid=rid)
            ranks.found(checker, rid, [range(1, 4)] * len(members))
        for rid, state in ((1, 1), (2, 0)):
            ranks.read(checker, rid, [(3, 2, state)] * len(members))
            ranks.failed(checker, members[0], rid)
            ranks.ask(checker, "poll", rid=rid)


@litmus(rules=("RANKS-32",), needs=STATED)
def a_prefetch_keeps_its_state(checker: Checker) -> None:
    """Copies are noted, and another prefetch wants a state, while one goes on that has the only entry."""
    for members in with_states(checker, 1):
        ranks.ask(checker, "prefetch", KEY, rid=1)
        ranks.cached(checker, (5, 6))
        ranks.ask(checker, "prefetch", (7, 8), rid=2)
        ranks.found(checker, 1, [range(1, 5)] * len(members))
        ranks.ask(checker, "acks")
        ranks.ask(checker, "prefetch", (7, 8), rid=2)
        ranks.read(checker, 1, [(4, 2, 1)] * len(members))
        ranks.ask(checker, "poll", rid=1)


@litmus(rules=("POOL-12",), needs=STATED)
def what_finds_room_for_one_component_alone_takes_nothing(checker: Checker) -> None:
    """There is room for a state and none for a window, or for a window and none for a state: what was found for the one
    is free again where the other is refused.
    """
    for slots in (3, 1):
        for _ in with_states(checker, slots):
            for rid in (1, 2, 3):
                ranks.ask(checker, "prefetch", (rid, 2), rid=rid)
            for rid in (1, 2, 3):
                ranks.ask(checker, "abort", rid=rid)


@litmus(rules=("RANKS-02", "POOL-12", "RANKS-31", "RANKS-29", "RANKS-30"), needs=STATED)
def a_state_goes_with_its_page(checker: Checker) -> None:
    """Pages with a state are evicted from the host, one after the other, for prefetches and for backups: their states
    go, and no page before them gets one.
    """
    for members in with_states(checker):
        many = len(members)
        for rid, key in ((1, KEY), (2, (5, *KEY[1:])), (3, (9,)), (4, (6, 2)), (5, (6, 2, 3, 4))):
            ranks.ask(checker, "prefetch", key, rid=rid)
            ranks.found(checker, rid, [range(1, 5)] * many)
            ranks.read(checker, rid, [(4, 2, 1)] * many)
            ranks.ask(checker, "poll", rid=rid)
        ranks.cached(checker, (7, 2, 3))
        ranks.cached(checker, (8, 2, 3, 4, 5))


@litmus(rules=("RANKS-24", "RANKS-25"), needs=STATED)
def a_rank_that_is_gone_costs_no_state(checker: Checker) -> None:
    """A rank is gone while a prefetch is asked for, one is looked at, and one is given up; then it is back, empty."""
    for members in with_states(checker):
        for what in ("prefetch", "hit", "poll", "abort"):
            if what != "prefetch":
                ranks.ask(checker, "prefetch", KEY)
                ranks.found(checker, 0, [range(1, 5)] * len(members))
            ranks.lose(checker, members[-1], what, KEY)
