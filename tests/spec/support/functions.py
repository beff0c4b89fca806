"""Functions that facts call, and by which the state is folded, on values made by hand.

``tests/spec/mutation.py`` asks of each change to them whether a row says otherwise: most show in a play many steps
later, or only in a cache that is wrong.
"""

from __future__ import annotations

from typing import Any

from kvlitmus.spec.interface import Hit, tiers
from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.law.actions import What
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.frame.explain import Effect
from kvlitmus.spec.prefix.late_events import Late
from kvlitmus.spec.prefix.page import Page, Tier
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Stored, Tiers
from kvlitmus.spec.prefix.work_calls import EvictHost, LoadBack, Prefetch
from kvlitmus.spec.stores.state import VAGUE, Entry, StoreState
from kvlitmus.spec.words.units import Name, PageNo, Tick
from tests.spec.support.boundaries import (
    CACHED,
    EMPTY,
    LONG,
    MATCH,
    ONE,
    PATH,
    TIERED,
    Row,
    host_node,
    job,
    plan_of,
    row,
    setting,
    waiting,
    work,
)
from tests.spec.support.edges import CHAINED, PROTECTED, A, B, C, matched

TREE = CHAINED.tree
TORN_OFF = Tier({B: TREE.pages[B]}, Tick(5))
"""The end of a node is left, and what was above it is gone."""


def followed(says: Late, *, forgets: bool) -> Row:
    """What is remembered where events may lag by two calls, and page 5 was found in the last one."""
    late = Late(found=(frozenset({A}),))
    return row(
        "prefix.late_events.followed", says, late=late, delay=2, after=Seen(), busy=False, found=(B,), forgets=forgets
    )


EFFECTS = (
    row("prefix.effects.take", {PageNo(3): 2, PageNo(4): 1}, owners={PageNo(3): 1}, pages=[PageNo(3), PageNo(4)]),
    row("prefix.effects.release", {PageNo(3): 1}, owners={PageNo(3): 2, PageNo(4): 1}, pages=[PageNo(3), PageNo(4)]),
    row("prefix.effects.release", {PageNo(3): 1}, owners={PageNo(3): 1}, pages=[PageNo(5)]),
    row("prefix.effects.cached_prefix", 1, tree=TREE, names=(A, Name(9), B)),
    row("prefix.effects.whole_nodes", 2, tree=TREE, names=(A, B)),
    row("prefix.effects.whole_nodes", 0, tree=TREE, names=(A,)),
    Row("prefix.effects.path", (A, B), {"tree": TREE, "name": B}),
    row("prefix.effects.leaves", [B, C], tree=TREE),
    row("prefix.effects.node_of", (B, A), tree=TREE, leaf=B),
    row("prefix.effects.nodes", [((A, B), Name(1)), ((C,), Name(1))], tree=TREE),
    row("prefix.effects.nodes", [((B,), A)], tree=TORN_OFF),
    row("prefix.effects.below", {A, B}, tree=TREE, names=[A]),
    row("prefix.effects.below", {C}, tree=TREE, names=[C]),
    row("words.policies.later", (3, 7), worth=(3, 5), ticks=2),
    row("words.policies.later", (3, 5), worth=(3, 5), ticks=0),
    row("words.policies.later", (), worth=(), ticks=2),
    followed(Late(found=(frozenset({B}),)), forgets=True),
    followed(Late(found=(frozenset({B}),), due=frozenset({A})), forgets=False),
    row("prefix.prefetch_plan.plan_occasions", (On.PLAN_PREFETCH, On.RAISED), _=None, answer=plan_of()),
)

# -- tiers -------------------------------------------------------------------------------------------------

READING = Prefetched(1, (A, B), 8, None, 0.0, got=8, counted=8)
FETCHING = Tiers(
    work={7: work(7, "fetch", 5, 6)}, prefetches=Prefetches(by_number={0: READING}, running={1: 0}, of_job={7: 0})
)


def commits(missing: list[Name], after: TierSeen) -> Row:
    """What is missing of two pages that were read, by what the fetch says."""
    state = EMPTY._replace(tiers=FETCHING)
    values = {"state": state, "setting": setting(3, host_pages=4), "number": 0, "one": READING, "before": TierSeen()}
    return row("prefix.prefetch_advance.committed", (frozenset({A, B}), missing), after=after, **values)


def gate(says: Any, units: int = 8, below: Tiers | None = None, occupied: int | None = None, **config: Any) -> Row:
    """Why a prefetch must be refused."""
    return row(
        "prefix.prefetch_advance.gate_of",
        says,
        tiers=Tiers(attached=True) if below is None else below,
        before=TierSeen(occupied=occupied),
        setting=setting(3, **{"host_pages": 4, "threshold": 4, "rate_limit": 8, **config}),
        rid=1,
        units=units,
        known=0,
    )


def doubtful(says: set[Name], policy: str, **flags: bool) -> Row:
    """Whether the place of page 5 in the order of a policy is known."""
    tree = Tier({A: Page(Name(1), PageNo(3), Tick(1), Tick(0), **flags)}, Tick(1))
    return row("prefix.rules.order.ageless", frozenset(says), tree=tree, policy=policy)


FAILED = CACHED._replace(tiers=Tiers(ended=(work(1, "backup", 5, failed=True),)))

HOSTING = EMPTY._replace(host=Tier({ONE: TREE.pages[A]}, Tick(0)))

BELOW = (
    commits([], TierSeen(jobs={7: job(7, "fetch")})),
    commits([A, B], TierSeen()),
    commits([B], TierSeen(parent_names={A: Name(1)}, hosted={A: PageNo(0)})),
    commits([], TierSeen(parent_names={A: Name(1)}, cached={A: PageNo(0)})),
    gate(""),
    gate("", rate_limit=1),
    gate("8 units are occupied, and the limit is 8", occupied=8),
    gate("", occupied=7),
    gate("0 units are below the threshold of 4", units=3),
    gate("0 units are below the threshold of 0", units=3, threshold=0),
    gate("", units=4),
    gate("no storage is attached", below=Tiers()),
    gate("one of this request is under way", below=waiting(4)._replace(attached=True)),
    gate(None, below=waiting(4, revoked=True)._replace(attached=True)),
    row("prefix.prefetch_plan.truncated_length", 8, ask=PrefetchAsk(8, 4, 4), available=9),
    row("prefix.prefetch_plan.truncated_length", 4, ask=PrefetchAsk(8, 4, 4), available=7),
    row("prefix.prefetch_plan.truncated_length", 0, ask=PrefetchAsk(8, 4, 4), available=3),
    row("prefix.prefetch_plan.truncated_length", 0, ask=PrefetchAsk(8, 4, 8), available=7),
    doubtful(set(), "lru"),
    doubtful({A}, "lru", unsure=True),
    doubtful(set(), "fifo", unsure=True),
    doubtful({A}, "filo", undated=True),
    row("prefix.work_unseen.failed", FAILED, state=FAILED, setting=setting(1, host_pages=4)),
    row(
        "prefix.storage_advance.cut_off",
        Tiers(backed=frozenset({A, C}), stored=Stored(pages=frozenset({A}), refused=frozenset({B}))),
        tiers=Tiers(backed=frozenset({A, B, C}), stored=Stored(pages=frozenset({A}))),
        names=(A, B),
    ),
    row(
        "prefix.storage_advance.owing",
        Tiers(attached=True, used=frozenset({A}), owed=frozenset({A})),
        tiers=Tiers(attached=True),
        path=(A, B),
        after=TierSeen(hosted={A: PageNo(0)}),
    ),
    row(
        "prefix.storage_advance.owing",
        Tiers(attached=True, used=frozenset({A}), starved=True),
        tiers=Tiers(attached=True, starved=True),
        path=(A, B),
        after=TierSeen(hosted={A: PageNo(0)}),
    ),
    row("prefix.storage_advance.owing", Tiers(), tiers=Tiers(), path=(A,), after=TierSeen(hosted={A: PageNo(0)})),
    row(
        "prefix.rules.room.used_by",
        (ONE,),
        call=Prefetch(1, LONG, None),
        state=HOSTING,
    ),
    row("prefix.rules.room.used_by", (), call=MATCH, state=EMPTY),
    row(
        "prefix.work_unseen.host_then",
        EMPTY.host,
        state=TIERED,
        then=TIERED,
        setting=setting(1, host_pages=4),
        call=MATCH,
        answer=Hit(4),
        before=TierSeen(),
        after=TierSeen(),
    ),
)

# -- page stores -------------------------------------------------------------------------------------------

OLD, NEW, MENDED = b"a", b"b", b"c"
HAS = Entry(True, (OLD,), OLD)
BROKEN = Entry(None, (OLD,), damage="flip")


def put(says: Entry, entry: Entry, policy: str = "last", value: bytes = NEW, *, accepted: bool = True) -> Row:
    """What is known of an object after a put."""
    return row("stores.state.Entry.put", says, self=entry, value=value, accepted=accepted, policy=policy)


STORES = (
    put(Entry(True, (OLD, NEW), OLD), HAS, "first"),
    put(Entry(True, (OLD, NEW), NEW), HAS),
    put(Entry(True, (OLD, NEW)), HAS, accepted=False),
    put(Entry(True, (OLD, NEW)), HAS, "either"),
    put(HAS, HAS, value=OLD),
    put(Entry(True, (NEW,), NEW), Entry()),
    put(Entry(None, (NEW,)), Entry(), accepted=False),
    put(Entry(True, (OLD, NEW)), Entry(None, (OLD,)), "either"),
    put(Entry(None, (OLD, NEW)), Entry(None, (OLD,)), "either", accepted=False),
    put(Entry(None, (OLD, NEW), damage="flip", mended=(NEW,)), BROKEN),
    put(Entry(None, (OLD, NEW), damage=VAGUE), BROKEN, accepted=False),
    put(
        Entry(None, (OLD, NEW), damage="flip", mended=(MENDED,)),
        Entry(None, (OLD,), damage="flip", mended=(MENDED,)),
        "first",
    ),
    put(
        Entry(None, (OLD, NEW), damage="flip", mended=(MENDED, NEW)),
        Entry(None, (OLD,), damage="flip", mended=(MENDED,)),
        "either",
    ),
    row(
        "stores.state.StoreState.known",
        ["x", "u"],
        self=StoreState(
            0, {(0, "x"): HAS, (1, "y"): HAS, (0, "z"): Entry(), (0, "u"): Entry(None, (OLD,))}, frozenset()
        ),
    ),
)

# -- the frame ---------------------------------------------------------------------------------------------

LOADING = job(7, "load")
FREE = TierSeen(free=frozenset({PageNo(1)}), host_free=(PageNo(1),))
NONE_FREE = TierSeen()
HOSTED = TierSeen(hosted={A: PageNo(1)})
MOVED = TierSeen(hosted={A: PageNo(2)})
PINNED = TierSeen(pinned={(A,): 1}, tier_nodes=[host_node((5,), (0,), pins=1)])
UNPINNED = TierSeen(tier_nodes=[host_node((5,), (0,), pins=0)])
LISTED, LANDED = (TierSeen(jobs={7: one}) for one in (LOADING, LOADING._replace(landed=True)))


def odd(fact: str, what: What, subject: Any, before: TierSeen, after: TierSeen) -> Row:
    """An effect without a cause, while a key was looked up."""
    values: dict[str, Any] = {"tiers_seen_before": before, "tiers_seen": after} if fact != "odd_in_pool" else {}
    look = matched(before, after, host_pages=4)
    return row(fact, [Effect(what, None, (subject,))], look=look, **values)


FRAME = (
    odd("odd_in_pool", What.TAKE, PageNo(1), FREE, NONE_FREE),
    odd("odd_in_pool", What.RELEASE, PageNo(1), NONE_FREE, FREE),
    odd("odd_in_host_pool", What.HOST_TAKE, PageNo(1), FREE, NONE_FREE),
    odd("odd_in_host_pool", What.HOST_RELEASE, PageNo(1), NONE_FREE, FREE),
    odd("odd_on_host", What.BACK, A, NONE_FREE, HOSTED),
    odd("odd_on_host", What.DROP, A, HOSTED, NONE_FREE),
    odd("odd_on_host", What.MOVE_COPY, A, HOSTED, MOVED),
    odd("odd_pins", What.PIN, A, UNPINNED, PINNED),
    odd("odd_pins", What.UNPIN, A, PINNED, UNPINNED),
    odd("odd_jobs", What.BEGIN_JOB, LOADING, NONE_FREE, LISTED),
    odd("odd_jobs", What.END_JOB, LOADING, LISTED, NONE_FREE),
    odd("odd_jobs", What.GO_ON, LOADING._replace(landed=True), LISTED, LANDED),
)


def host_gave(says: bool, freed: int, evicted: int) -> Row:
    """Whether an eviction of the host that was asked for two pages, and could drop three, has dropped so much."""
    return row(
        "TIER-15", says, host_asked=8, host_droppable=12, host_freed=freed, host_evicted=evicted, host_evicted_most=8
    )


def limit_of(says: int, state: State, answer: Any) -> Row:
    """What a quota of twelve units lets a load bring."""
    return row("load_limit", says, state=state, setting=setting(0), call=LoadBack(PATH, 12), answer=answer)


AMOUNTS = (
    host_gave(True, 8, 8),
    host_gave(False, 4, 4),
    host_gave(False, 12, 12),
    host_gave(True, 12, 8),
    *[row("host_evicted", 4, answer=told, host_dropped=gone) for told, gone in ((None, 4), (8, 4), (4, 8))],
    row("host_evicted_most", 8, setting=setting(1), call=EvictHost(5)),
    row(
        "host_evicted_most",
        16,
        setting=setting(1, {"evict_granularity": "node"}, host_pages=4),
        call=EvictHost(5),
    ),
    limit_of(4, CACHED, tiers.Loaded(0, None)),
    limit_of(12, PROTECTED, tiers.Loaded(0, None)),
    limit_of(12, EMPTY, tiers.Loaded(8, (1, 2, 3, 4))),
    row("available_least", 8, before=Seen(available=8), state=EMPTY, setting=setting(1), call=MATCH),
    row("available_least", 128, before=Seen(), state=EMPTY, setting=setting(0), call=MATCH),
    row(
        "available_least",
        116,
        before=Seen(),
        state=CACHED._replace(owners={PageNo(3): 1}),
        setting=setting(0),
        call=MATCH,
    ),
    row("available_least", UNKNOWN, before=Seen(), state=EMPTY, setting=setting(0, host_pages=4), call=MATCH),
)

FUNCTIONS: tuple[Row, ...] = (*EFFECTS, *BELOW, *STORES, *FRAME, *AMOUNTS)
"""All of them."""
