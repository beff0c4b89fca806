"""Actions on several ranks: few pages, so that evictions, truncations and delays meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import ranks
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.spec.interface.ranks import Local, Prefix

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller

LONGEST = 5
MOST_READS = 3
"""So many prefetches of one tree are under way at most."""


def begun(caller: Caller) -> Checker:
    """The checker, with ranks: two of tensor parallelism where none have begun, with states where there can be some."""
    if not caller.checker.history and not starts(caller.checker, "tp2", 2):
        ranks.start(caller.checker, "tp2")
    return caller.checker


def starts(checker: Checker, shape: str, states: int) -> bool:
    """Begin anew with ranks of this shape, their hosts with room for so many states; whether the cache has that."""
    return "rank_states" in checker.capabilities and ranks.start(checker, shape, state_slots=states)


def key_of(a: int) -> Prefix:
    """One to five pages, each of two, the first of these three times as often, so that prefixes are shared."""
    return tuple(1 + (a >> at & a >> (at + 2) & 1) for at in range(1 + a % LONGEST))


def tree_of(checker: Checker, b: int) -> int:
    """One of the trees."""
    return b % len(checker.ranks_state.world.trees)


def rank_of(checker: Checker, b: int) -> int:
    """One of the ranks."""
    return checker.ranks_state.world.ranks[b % len(checker.ranks_state.world.ranks)]


@action("ranks_start")
def start(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin anew with ranks of another shape, every other time with states, where the cache keeps some."""
    checker, shape = begun(caller), ranks.SHAPES[a % len(ranks.SHAPES)]
    if not (c & 1 and starts(checker, shape, 1 + b % 3)):
        ranks.start(checker, shape)


@action("ranks_insert")
def insert(caller: Caller, a: int, b: int, c: int) -> None:
    """Cache a key."""
    checker = begun(caller)
    ranks.ask(checker, "insert", key_of(a), tree=tree_of(checker, b))


@action("ranks_match")
def match(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key."""
    checker = begun(caller)
    ranks.ask(checker, "match", key_of(a), tree=tree_of(checker, b))


@action("ranks_evict")
def evict(caller: Caller, a: int, b: int, c: int) -> None:
    """Evict some pages."""
    checker = begun(caller)
    ranks.ask(checker, "evict", pages=1 + a % 4, tree=tree_of(checker, b))


@action("ranks_copied")
def copied(caller: Caller, a: int, b: int, c: int) -> None:
    """Some copies end, on one rank or on all: any one of them, or all."""
    checker = begun(caller)
    one = rank_of(checker, b)
    tree = checker.ranks_state.tree_of(one)
    known = ranks.agreed(checker, tree)
    for rank in checker.ranks_state.world.tree(tree) if c & 1 else (one,):
        own = checker.ranks_state.own[rank]
        left = [("wrote", page) for page in known.writing if page not in own.wrote]
        left += [("loaded", page) for page in known.loading if page not in own.loaded]
        for what, page in left if c < 160 else left[a % len(left) :][:1] if left else []:
            ranks.ended_here(checker, rank, what, [page])


@action("ranks_acks")
def acks(caller: Caller, a: int, b: int, c: int) -> None:
    """Note what has ended."""
    checker = begun(caller)
    ranks.ask(checker, "acks", tree=tree_of(checker, b))


@action("ranks_prefetch")
def prefetch(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin to read a key."""
    checker = begun(caller)
    tree = tree_of(checker, b)
    if len(ranks.agreed(checker, tree).fetches) < MOST_READS:
        caller.serial += 1
        ranks.ask(checker, "prefetch", key_of(a), rid=caller.serial, tree=tree)


@action("ranks_found")
def found(caller: Caller, a: int, b: int, c: int) -> None:
    """The storage of one rank answers, or that of all: mostly all boundaries, else some of them."""
    checker = begun(caller)
    one = rank_of(checker, b)
    tree = checker.ranks_state.tree_of(one)
    fetches = ranks.agreed(checker, tree).fetches
    for rank in checker.ranks_state.world.tree(tree) if c & 1 else (one,):
        own = checker.ranks_state.own[rank]
        rid = next((rid for rid, fetch in fetches.items() if fetch.hit is None and rid not in own.found), None)
        if rid is not None:
            kept = 255 if c < 160 else a >> rank
            pages = range(1, len(fetches[rid].granted) + 1)
            there = tuple(page for page in pages if kept >> (page - 1) & 1)
            stated = (b | a >> rank) if c & 2 else 255
            states = tuple(page for page in pages if fetches[rid].state and stated >> (page - 1) & 1)
            ranks.local(checker, Local(rank, "found", rid=rid, boundaries=there, states=states))


@action("ranks_hit")
def hit(caller: Caller, a: int, b: int, c: int) -> None:
    """Note what storage has."""
    checker = begun(caller)
    tree = tree_of(checker, b)
    rids = [rid for rid, one in ranks.agreed(checker, tree).fetches.items() if one.hit is None]
    rid = caller.pick("rank fetch", rids, a)
    if rid is not None:
        ranks.ask(checker, "hit", rid=rid, tree=tree)


@action("ranks_read")
def read(caller: Caller, a: int, b: int, c: int) -> None:
    """One rank has read more, or all have read all of it, or the reading of one ends early."""
    checker = begun(caller)
    one, state = rank_of(checker, b), checker.ranks_state
    tree = state.tree_of(one)
    fetches = ranks.agreed(checker, tree).fetches
    rids = [rid for rid, fetch in fetches.items() if fetch.hit is not None and rid not in state.own[one].failed]
    rid = caller.pick("rank fetch", rids, a)
    if rid is None:
        return
    whole, widest = fetches[rid].hit or 0, state.world.window if fetches[rid].window else 0
    if c < 8:
        ranks.local(checker, Local(one, "failed", rid=rid))
        return
    for rank in state.world.tree(tree) if c < 96 else (one,):
        pages, window = state.own[rank].read.get(rid, (0, 0))
        more, wider = (whole, state.world.window) if c < 160 else (c % 3, c % 2)
        pages, window = min(whole, pages + more), min(widest, window + wider)
        read = rid in state.own[rank].stated or (fetches[rid].state and (c < 160 or c & 2 > 0))
        ranks.local(checker, Local(rank, "read", rid=rid, pages=pages, window=window, state=int(read)))


@action("ranks_poll")
def poll(caller: Caller, a: int, b: int, c: int) -> None:
    """Ask whether a prefetch ends; of one that is over, now and then."""
    checker = begun(caller)
    tree = tree_of(checker, b)
    rids = list(ranks.agreed(checker, tree).fetches) or ([caller.serial] if c < 64 else [])
    rid = caller.pick("rank fetch", rids, a)
    if rid is not None:
        ranks.ask(checker, "poll", rid=rid, tree=tree)


@action("ranks_load")
def load(caller: Caller, a: int, b: int, c: int) -> None:
    """Load a key back: one that is on the host of some rank, now and then any."""
    checker = begun(caller)
    tree = tree_of(checker, b)
    view = checker.ranks_state.seen[checker.ranks_state.world.tree(tree)[0]]
    hosted = () if view is None or c < 32 else view.host
    ranks.ask(checker, "load", hosted[a % len(hosted)] if hosted else key_of(a), tree=tree)


@action("ranks_abort")
def abort(caller: Caller, a: int, b: int, c: int) -> None:
    """A request is gone."""
    checker = begun(caller)
    tree = tree_of(checker, b)
    rid = caller.pick("rank fetch", ranks.agreed(checker, tree).fetches, a)
    if rid is not None:
        ranks.ask(checker, "abort", rid=rid, tree=tree)


@action("ranks_clock")
def clock(caller: Caller, a: int, b: int, c: int) -> None:
    """Time goes by on one rank."""
    checker = begun(caller)
    rank = rank_of(checker, b)
    now = checker.ranks_state.own[rank].clock
    ranks.local(checker, Local(rank, "clock", pages=now + 1 + a % (checker.ranks_state.world.limit + 1)))


@action("ranks_pinch")
def pinch(caller: Caller, a: int, b: int, c: int) -> None:
    """Others occupy some of the host of one rank, no more than is free there."""
    checker = begun(caller)
    rank = rank_of(checker, b)
    seen = checker.ranks_state.seen[rank]
    if seen is not None:
        state = 0 if seen.states is None else min(c % 3, seen.states.free)
        ranks.local(checker, Local(rank, "pinch", pages=min(a % 7, seen.host_free), state=state))


@action("ranks_attach")
def attach(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage comes or goes on one rank alone; mostly it comes."""
    checker = begun(caller)
    ranks.local(checker, Local(rank_of(checker, b), "attach", pages=int(c < 224)))


@action("ranks_lose")
def lose(caller: Caller, a: int, b: int, c: int) -> None:
    """A rank is gone for a while."""
    checker = begun(caller)
    what = ("match", "insert", "acks", "prefetch", "load", "evict", "poll", "abort", "hit")[a % 9]
    ranks.lose(checker, rank_of(checker, b), what, key_of(c), 1)


@action("ranks_read_apart")
def read_apart(caller: Caller, a: int, b: int, c: int) -> None:
    """A prefetch from its beginning to its end, of which one rank has read less than the others: a page, of the window,
    or no state.
    """
    checker = begun(caller)
    tree = tree_of(checker, b)
    if len(ranks.agreed(checker, tree).fetches) >= MOST_READS:
        return
    caller.serial += 1
    rid, world = caller.serial, checker.ranks_state.world
    members = world.tree(tree)
    ranks.ask(checker, "prefetch", key_of(a), rid=rid, tree=tree)
    ranks.found(checker, rid, [range(1, LONGEST + 1)] * len(members), tree=tree)
    fetch = ranks.agreed(checker, tree).fetches.get(rid)
    if fetch is None or fetch.hit is None:
        return
    whole = (fetch.hit, world.window, 1)
    less = tuple(max(0, many - (at == c % 4)) for at, many in enumerate(whole))
    slow = members[(b >> 2) % len(members)]
    ranks.read(checker, rid, [less if rank == slow else whole for rank in members], tree=tree)
    ranks.ask(checker, "poll", rid=rid, tree=tree)
    ranks.failed(checker, slow, rid)
    ranks.ask(checker, "poll", rid=rid, tree=tree)
