"""Facts and predicates where they turn from one value to another, on values made by hand.

Recorded and drawn steps seldom meet these places: an answer that lacks what most caches tell, a profile that no cache
of the tree declares beside another, a count that is just reached.  ``tests/spec/test_boundaries.py`` checks each row,
and ``tests/spec/mutation.py`` asks of each change that no step has told apart whether a row does.
"""

from __future__ import annotations

import functools
import hashlib
import pkgutil
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

from kvlitmus.spec.interface import Hit, Sizes, tiers
from kvlitmus.spec.interface.plans import PrefetchAsk, PrefetchPlan
from kvlitmus.spec.law.facts import FACTS, INPUTS, UNKNOWN
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import partial
from kvlitmus.spec.prefix.calls import Begin, Evict, Grow, Insert, Match, Publish, Raised, Reset, Within, path_of
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.late_events import Contents, Late
from kvlitmus.spec.prefix.page import Block, Page, Tier
from kvlitmus.spec.prefix.prefetch_plan import HostCall, Planned, PlanPrefetch
from kvlitmus.spec.prefix.rules.observed import NodeCounts
from kvlitmus.spec.prefix.rules.order import Choosing
from kvlitmus.spec.prefix.rules.prefetch import Fallback
from kvlitmus.spec.prefix.seen import Asked, Got, Named, NodeInfo, NodeSeen, Put, Record, Seen, TierNodeSeen, TierSeen
from kvlitmus.spec.prefix.state import Amiss, EventMirror, RequestState, State, empty_state
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Tiers, Work
from kvlitmus.spec.prefix.work_calls import Advance, EvictHost, LoadBack, OutOfMemory, Prefetch, Settled, TellLoaded
from kvlitmus.spec.stores.calls import Crashed, Filled, PutDone, Raced, StoreCrash, StoreExists, StoreGet, StorePut
from kvlitmus.spec.stores.facts import Read
from kvlitmus.spec.stores.state import EMPTY_STORE, Entry
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.schemes import SCHEMES
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Slot, Tick, Tokens


class Row(NamedTuple):
    """What a fact, the predicate of a rule, or a function that facts call, says of these values."""

    name: str
    says: Any
    values: dict[str, Any]

    @property
    def function(self) -> Callable[..., Any]:
        """The fact, the predicate, or the function of a module that facts call."""
        rules = all_rules()  # which defines the facts as well
        if "." in self.name:
            found: Callable[..., Any] = pkgutil.resolve_name(f"kvlitmus.spec.{self.name}")
            return found
        return FACTS[self.name].compute if self.name in FACTS else rules[self.name].predicate


def row(name: str, says: Any, **values: Any) -> Row:
    """A row of the table below."""
    return Row(name, says, values)


def looked(name: str, says: Any, **values: Any) -> Row:
    """The same where it asks a step, which has these values."""
    step: dict[str, Any] = {one.name: values.pop(one.name, None) for one in fields(Look) if one.name in INPUTS}
    return row(name, says, look=Look(**step), **values)


def setting(depth: int = 3, profile: dict[str, Any] | None = None, **config: Any) -> Setting:
    """Pages of four slots, unless the configuration says otherwise."""
    return Setting(Config(**{"page_size": 4, **config}), Profile(**(profile or {})), depth, frozenset({"steps"}))


def job(number: int, kind: str, rid: int = -1) -> tiers.Job:
    """A job."""
    return tiers.Job(number, kind, Key(None, ()), 0, rid)


def work(number: int, kind: str, *names: int, **more: Any) -> Work:
    """A job with the pages that it is about."""
    return Work(job(number, kind), tuple(map(Name, names)), Name(names[-1]), {}, **more)


def hurt(how: str, mended: tuple[bytes, ...] = ()) -> Read:
    """Of a damaged object something else is read."""
    return Read(b"b", Entry(puts=(b"a",), damage=how, mended=mended))


def page(**more: Any) -> Page:
    """A cached page."""
    return Page(Name(1), PageNo(3), Tick(0), Tick(0), **more)


def node(names: tuple[int, ...], pages: tuple[int, ...], locks: int | None, parent: int = -1, **more: Any) -> NodeSeen:
    """A node as it was seen."""
    named, places = tuple(map(Name, names)), tuple(map(PageNo, pages))
    info = NodeInfo(named, places, Name(1), Name(names[-1]), "", (), dict(zip(named, places, strict=True)))
    return NodeSeen(info, parent, locks, more.get("hits"), more.get("priority"))


def host_node(names: tuple[int, ...], slots: tuple[int, ...] | None, **more: Any) -> TierNodeSeen:
    """A node of a hierarchy with a host copy."""
    named = Named((), tuple(map(Name, names)), {})
    return TierNodeSeen(named, Name(1), slots, (0,), more.get("pins"), more.get("hits"), more.get("priority"))


EMPTY = empty_state()
PATH = path_of(Names(), Key(None, tuple(range(9))), 4)
"""Two whole pages and a token."""
MATCH, INSERT, PUBLISH = Match(PATH), Insert(PATH, tuple(map(Slot, range(9)))), Publish(0, 3)
RUNNING = RequestState(PATH, tuple(map(Slot, range(9))), 0, 9, PATH.root)
RUNS = EMPTY._replace(requests={0: RUNNING})
SHELTERED = EMPTY._replace(receipts={0: Name(5)})
HEX = "0" * 64
ASK = PlanPrefetch(PrefetchAsk(8, 4, 4))
ALLOC, REFUSED, READ = HostCall("alloc", 8, 8), HostCall("alloc", 4), HostCall("available", 0, 8)
LOADED = Advance(7, tiers.Outcome())
LOADING = LoadBack(PATH)


def resident(many: int, **more: Any) -> State:
    """So many pages of the path are on the device."""
    above = (PATH.root, *PATH.pages)
    pages = {name: page(**more)._replace(parent=above[at]) for at, name in enumerate(PATH.pages[:many])}
    return EMPTY._replace(device=Tier(pages, Tick(0)))


HELD = TierSeen(jobs={7: job(7, "load")})


def plan_of(*calls: HostCall, **more: Any) -> Planned:
    """A plan that made these calls to the host."""
    return Planned(None, calls, **more)


PLANS = (
    row("PREFETCH-07", False, gates_open=True, reserved=4, full_length=8, eviction_sizes=(), full_refused=True),
    row("reserved", 0, answer=plan_of()),
    row("reserved", 4, answer=plan_of(ALLOC, REFUSED, READ, HostCall("evict", 3, 2), HostCall("free", 4))),
    row("reserved", 1, answer=plan_of(ALLOC, held=(Slot(3),))),
    row("stray_slots", UNKNOWN, answer=plan_of(strays=(Slot(3),))),
    row("stray_slots", UNKNOWN, answer=plan_of(held=(Slot(3),))),
    row("stray_slots", (Slot(3),), answer=plan_of(held=(), strays=(Slot(3),))),
    row("stray_slots", [], answer=Planned(PrefetchPlan(None, (3,)), (), (Slot(3),), ())),
    row("refusal", UNKNOWN, answer=plan_of()),
    row("planned_length", 0, answer=plan_of()),
    row("planned_start", 0, answer=plan_of()),
    row("hashed_pages", 0, answer=plan_of()),
    row("truncated_length", 0, call=ASK, last_reading=None),
    row("eviction_deficit", 0, call=ASK, answer=plan_of(), first_eviction=None, full_length=8),
    row("fallback", Fallback(None, False, 0), answer=plan_of(), first_eviction=None, full_length=8),  # type: ignore[arg-type]
    row("fallback", Fallback(None, False, 0), answer=plan_of(ALLOC), first_eviction=None, full_length=8),  # type: ignore[arg-type]
    row("fallback", Fallback(8, False, 0), answer=plan_of(READ), first_eviction=None, full_length=8),  # type: ignore[arg-type]
    row(
        "fallback",
        Fallback(8, True, 4),  # type: ignore[arg-type]
        answer=plan_of(ALLOC, READ, REFUSED, HostCall("alloc", 2, 2), HostCall("alloc", 8)),
        first_eviction=None,
        full_length=8,
    ),
)
"""What came of prefetch plans: those that raised, and conversations of amounts alone, too."""

SETTLED = (
    row("protected_left", 0, then=SHELTERED, tiers_seen=TierSeen(sizes=Sizes(0, 8)), page_size=4),
    row("protected_left", 0, then=RUNS, tiers_seen=TierSeen(sizes=Sizes(0, 8)), page_size=4),
    row("protected_left", 8, then=EMPTY, tiers_seen=TierSeen(sizes=Sizes(0, 8)), page_size=4),
    row("protected_left", 0, then=EMPTY, tiers_seen=TierSeen(), page_size=4),
    row("protected_left", UNKNOWN, then=EMPTY, tiers_seen=TierSeen(nodes=[node((5,), (3,), None)]), page_size=4),
    row(
        "protected_left",
        8,
        then=EMPTY,
        tiers_seen=TierSeen(nodes=[node((5, 6), (3, 4), 1), node((7,), (5,), 0), node((8,), (6,), None)]),
        page_size=4,
    ),
    row("pins_left", UNKNOWN, tiers_seen=TierSeen(tier_nodes=[host_node((5,), None)])),
    row("work_left", ["load"], below=Tiers(), tiers_seen=HELD, call=Reset()),
    row("work_left", [], below=Tiers(), tiers_seen=HELD, call=Settled(())),
    row("work_left", ["put 3"], below=Tiers(work={3: work(3, "put", 5)}), tiers_seen=TierSeen(), call=Settled(())),
    row("store_before", UNKNOWN, call=Reset()),
    row("told_before_reset", False, below_before=Tiers(stale={1: 4}), call=TellLoaded(2)),
    row(
        "told_before_reset",
        False,
        below_before=Tiers(stale={1: 4}, prefetches=Prefetches(added={1: (0, 4)})),
        call=TellLoaded(1),
    ),
    row("told_before_reset", True, below_before=Tiers(stale={1: 4}), call=TellLoaded(1)),
    row("unstored", [5], below=Tiers(backed=frozenset({Name(5)})), call=Settled(())),
    row("unstored", [], below=Tiers(backed=frozenset({Name(5)})), call=Settled((1,))),
    row("LOAD-04", False, appeared=frozenset(), jobs_begun=["load"]),
    row("LOAD-04", False, appeared=frozenset(), jobs_begun=["backup"]),
    row("LOAD-04", False, appeared=frozenset({Name(5)}), jobs_begun=[]),
    row("LOAD-04", True, appeared=frozenset(), jobs_begun=["put"]),
)
"""What is left when everything has settled, after a reset, and when there was no memory."""

LENGTHS = (
    row("certain_length", 8, setting=setting(), call=INSERT, cached_pages_before=(2, 2), match_cap=4),
    row("certain_length", 8, setting=setting(), call=PUBLISH, cached_pages_before=(2, 2), match_cap=4),
    row("certain_length", 4, setting=setting(), call=MATCH, cached_pages_before=(2, 2), match_cap=4),
    row("possible_length", 8, setting=setting(), call=INSERT, cached_pages_before=(2, 2), match_cap=4),
    row("possible_length", 8, setting=setting(), call=PUBLISH, cached_pages_before=(2, 2), match_cap=4),
    row("possible_length", 4, setting=setting(), call=MATCH, cached_pages_before=(2, 2), match_cap=4),
    row("match_slots", UNKNOWN, answer=Hit(4)),
    row("last_slot", -1, row_before=()),
    row("last_slot", 5, row_before=(Slot(4), Slot(5))),
    row("due_slots", 8, asked=5, setting=setting(profile={"align": "round_up"})),
    row("due_slots", 5, asked=5, setting=setting()),
    row("computed_length", 9, request_before=RUNNING, call=Publish(0)),
    row("computed_length", 3, request_before=RUNNING, call=Publish(0, 3)),
    row("computed_slots", 3, state=RUNS, call=PUBLISH, request_after=RUNNING),
    row("cached_pages_before", (1, 1), state=RUNS, then=RUNS, setting=setting(), call=Publish(0, 5)),
    row(
        "told_length",
        4,
        state=EMPTY._replace(told=EventMirror(dict.fromkeys(PATH.pages, 1))),
        setting=setting(2),
        call=MATCH,
        match_cap=4,
    ),
    row("told_length", UNKNOWN, state=EMPTY, setting=setting(profile={"event_delay": 2}), call=MATCH, match_cap=8),
    row("told_length", UNKNOWN, state=EMPTY, setting=setting(host_pages=4), call=MATCH, match_cap=8),
    row("told_least", UNKNOWN, setting=setting(profile={"match_ends": "node"}), told_length=4),
    row("told_least", 4, setting=setting(), told_length=4),
    row(
        "told_again",
        UNKNOWN,
        told=EventMirror(twice=(Amiss("", "x"),)),
        setting=setting(profile={"event_copies": "one"}),
        then=EMPTY,
    ),
    row("told_again", ["x"], told=EventMirror(twice=(Amiss("", "x"),)), setting=setting(), then=EMPTY),
    *(
        row(
            "told_again",
            found,
            told=EventMirror({Name(5): told}),
            setting=setting(profile={"publish": "at_alloc", "event_delay": late}),
            then=EMPTY._replace(table={PageNo(page): Block(Name(5), 0) for page in (1, 2)}),
        )
        for told, late, found in ((2, 0, []), (3, 0, ["told 3 times: page 5"]), (3, 1, []))
    ),
    row("found_lately", PATH.pages[:1], then=EMPTY, setting=setting(), call=MATCH, answer=Hit(4)),
    row("protected_length", UNKNOWN, setting=setting(1, {"match_ends": "node"}), state=EMPTY, call=MATCH, match_cap=8),
)
"""Lengths of keys, of requests and of what is cached of them."""

ROOM = (
    row("quiet", UNKNOWN, setting=setting(1, host_pages=4), then=EMPTY),
    row("quiet", True, setting=setting(1), then=EMPTY),
    row("quiet", True, setting=setting(1, host_pages=4), then=EMPTY._replace(tiers=Tiers())),
    row("quiet", True, setting=setting(3, host_pages=4), then=EMPTY),
    row("counted_protected", UNKNOWN, setting=setting(1, host_pages=4), then=EMPTY),
    row("counted_protected", 0, setting=setting(1), then=EMPTY),
    row("counted_protected", 0, setting=setting(1, host_pages=4), then=EMPTY._replace(tiers=Tiers())),
    row(
        "made_available",
        UNKNOWN,
        setting=setting(1, {"evict_moment": "alloc"}),
        available_before=4,
        available_after=8,
    ),
    row("host_reported", UNKNOWN, answer=None),
    row("host_reported", 4, answer=4),
    row("owned_twice", {3}, then=EMPTY._replace(owners={PageNo(3): 2, PageNo(4): 1})),
    row(
        "cached_places",
        {(5, 3), (5, 4)},
        after=Seen(nodes=[node((5,), (3,), 0), node((5,), (4,), 0)]),
        setting=setting(profile={"publish": "at_alloc"}),
    ),
    row("load_slots", UNKNOWN, answer=tiers.Loaded(4, None)),
    row("load_slots", (3,), answer=tiers.Loaded(4, (3,))),
    row(
        "load_room",
        24,
        state=resident(2)._replace(owners={PageNo(3): 1}),
        setting=setting(0, host_pages=4, pages=9),
        call=LOADING,
        tiers_seen_before=TierSeen(),
    ),
    row(
        "load_room",
        8,
        state=EMPTY,
        setting=setting(1, host_pages=4, write="write_back"),
        call=LOADING,
        tiers_seen_before=TierSeen(available=8, sizes=Sizes(16, 0)),
    ),
    row(
        "load_room",
        20,
        state=resident(1),
        setting=setting(1, host_pages=4),
        call=LOADING,
        tiers_seen_before=TierSeen(available=8, sizes=Sizes(16, 0)),
    ),
    row(
        "load_room",
        8,
        state=resident(2),
        setting=setting(1, host_pages=4),
        call=LOADING,
        tiers_seen_before=TierSeen(available=8, sizes=Sizes(4, 0)),
    ),
    row("layers_copied", 0, expected=EMPTY._replace(tiers=Tiers()), call=LOADED),
    row("layers_copied", 2, expected=EMPTY._replace(tiers=Tiers(work={7: work(7, "load", 5, layers=2)})), call=LOADED),
    row("layers_told", 2, tiers_seen=HELD, call=LOADED, layers_copied=2),
    row("layers_told", 2, tiers_seen=TierSeen(layers_ready=1), call=LOADED, layers_copied=2),
    row("layers_told", 1, tiers_seen=TierSeen(layers_ready=1, jobs=HELD.jobs), call=LOADED, layers_copied=2),
    row(
        "calls_on_storage",
        4,
        tiers_seen=TierSeen(
            record=Record((Asked((), 0),), (Got("a", True), Got("b", True)), (Put("c", (), True),)),
        ),
    ),
    row("loaded_least", 0, below_before=Tiers(), call=TellLoaded(1)),
    row("loaded_most", 0, below_before=Tiers(), call=TellLoaded(1)),
    row("loaded_most", 8, below_before=Tiers(stale={1: 8}), call=TellLoaded(1)),
    row("fetch_anchor", UNKNOWN, answer=tiers.Prefetched(False, 0, 0, 4)),
    row("fetch_anchor", UNKNOWN, answer=tiers.Prefetched(True, 0, 0)),
    row("fetch_anchor", 4, answer=tiers.Prefetched(True, 0, 0, 4)),
)
"""What there is room for, and what came of loads and prefetches."""

SPLIT = Tier({Name(5): page(locks=2), Name(6): page(locks=1), Name(7): page(hits=3, priority=4)}, Tick(0))
TABLE = {PageNo(3): Block(Name(7), 2)}


def counts(locks: Any = (), hits: Any = (), priorities: Any = (), inversions: Any = ()) -> NodeCounts:
    """What nodes show, in pairs."""
    both = (one if one is UNKNOWN else [*one] for one in (locks, hits, priorities, inversions))
    return NodeCounts(*both)


def seen(*nodes: NodeSeen) -> Seen:
    """A flat cache with these nodes."""
    return Seen(nodes=[*nodes])


def waiting(hit: int | None, *, revoked: bool = False) -> Tiers:
    """A prefetch of eight units is under way."""
    one = Prefetched(1, (), 8, None, 0.0, hit=hit, revoked=revoked)
    return Tiers(prefetches=Prefetches(by_number={0: one}, running={1: 0}))


def hosted(*nodes: TierNodeSeen) -> dict[str, Any]:
    """Nodes of a hierarchy, of whose pages number 7 is on the host alone."""
    then = EMPTY._replace(tiers=Tiers(), host=Tier({Name(7): page(hits=3, priority=4)}, Tick(0)))
    return {"then": then, "setting": setting(), "after": TierSeen(tier_nodes=[*nodes])}


COUNTS = (
    row(
        "node_hits",
        [(2, 2), (1, 1)],
        node_counts=counts([], [(2, 5), (1, 1)]),
        setting=setting(profile={"most_hits": 2}),
    ),
    row("node_hits", [(2, 5)], node_counts=counts([], [(2, 5)]), setting=setting()),
    row("node_hits", UNKNOWN, node_counts=counts([], UNKNOWN), setting=setting(profile={"most_hits": 2})),
    row(
        "node_counts",
        counts(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
        after=seen(node((7,), (3,), None)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        late_after={},
    ),
    row(
        "node_counts",
        counts([(2, 1), (2, 2)], UNKNOWN, UNKNOWN),
        after=seen(node((5, 6), (3, 4), 2)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        late_after={},
    ),
    row(
        "node_counts",
        counts([(0, 0)], [(1, 3)], [(2, 4)]),
        after=seen(node((7,), (3,), 0, hits=1, priority=2), node((8,), (4,), 0), node((7, 9), (3, 4), 1)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        late_after={},
    ),
    row(
        "node_counts",
        counts([(1, 1)], UNKNOWN, UNKNOWN),
        after=seen(node((5,), (3,), None), node((6,), (4,), 1, 0)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        late_after={},
    ),
    row(
        "node_counts",
        counts([(0, 2), (1, 1)], UNKNOWN, UNKNOWN, [(0, 1)]),
        after=seen(node((5,), (3,), 0), node((6,), (4,), 1, 0)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        late_after={},
    ),
    row(
        "node_counts",
        counts([(1, 2)], UNKNOWN, UNKNOWN),
        after=seen(node((7, 7), (3, 9), 1)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT, table=TABLE),
        late_after={},
    ),
    row(
        "node_counts",
        counts((), [(1, 3)], [(2, 4)]),
        **hosted(host_node((7,), None, hits=1, priority=2)),
        late_after={},
    ),
    row("node_counts", counts((), UNKNOWN, UNKNOWN), **hosted(host_node((7,), None)), late_after={}),
    row(
        "node_counts",
        counts(),
        **hosted(host_node((7,), (0, 1)), host_node((), None), host_node((8,), None)),
        late_after={},
    ),
    *(
        row(
            "node_counts",
            counts([(2, shown)], UNKNOWN, UNKNOWN),
            setting=setting(profile={"copy_locks": locks}),
            after=seen(node((6,), (4,), 2)),
            then=EMPTY._replace(device=SPLIT, tiers=Tiers(work={1: work(1, kind, 6)})),
            late_after={},
        )
        for locks, kind, shown in (("counted", "load", 1), ("apart", "load", 0), ("apart", "put", 1))
    ),
    row("parents", {Name(5)}, setting=setting(profile={"table_gaps": "left"}), after=Seen(parents={Name(5)})),
    row(
        "parents",
        UNKNOWN,
        setting=setting(profile={"table_gaps": "left", "publish": "at_alloc"}),
        after=Seen(parents={Name(5)}),
    ),
    *(
        row(
            "cut_off",
            says,
            setting=setting(host_pages=4, write=write),
            after=TierSeen(
                cached={Name(5): PageNo(0)},
                hosted=dict.fromkeys(map(Name, hosted), PageNo(0)),
                parent_names={Name(5): Name(1), Name(6): Name(5)},
            ),
            parents={Name(5)},
            cached_after={Name(5): PageNo(0)},
        )
        for says, write, hosted in (
            ([5], "write_through", (6,)),
            ([], "write_back", (6,)),
            ([], "write_through", (5, 6)),
            ([], "write_through", (5,)),
        )
    ),
    row("sparse_order", [2, 1], setting=setting(), sparse_waiting=[2, 1]),
    row("sparse_order", UNKNOWN, setting=setting(profile={"copy_acks": "any_order"}), sparse_waiting=[2, 1]),
    row("copies_failed", False, failed_backups=frozenset(), failed_loads=frozenset()),
    row("copies_failed", True, failed_backups=frozenset({Name(5)}), failed_loads=frozenset()),
    row("copies_failed", True, failed_backups=frozenset(), failed_loads=frozenset({Name(5)})),
    row(
        "failed_there",
        [5, 8],
        below=Tiers(work={1: work(1, "put", 5), 2: work(2, "backup", 6), 3: work(3, "load", 9)}),
        hosted={Name(5): PageNo(0), Name(6): PageNo(1), Name(8): PageNo(2)},
        cached_after={Name(7): PageNo(0), Name(8): PageNo(1), Name(9): PageNo(2)},
        failed_backups=frozenset({Name(5), Name(6), Name(7)}),
        failed_loads=frozenset({Name(5), Name(8), Name(9)}),
    ),
    row(
        "owed_missed",
        [5],
        below_before=Tiers(
            owed=frozenset(map(Name, (5, 6, 7, 8, 9))), work={1: work(1, "put", 6), 2: work(2, "load", 5)}
        ),
        below=Tiers(work={3: work(3, "backup", 7)}, shelves={0: frozenset({Name(8)})}),
        tiers_seen=TierSeen(hosted={Name(5): PageNo(0), Name(6): PageNo(1), Name(7): PageNo(2), Name(8): PageNo(3)}),
    ),
    row(
        "backed_early",
        [6],
        setting=setting(1, host_pages=4, write="write_through_selective"),
        state=EMPTY._replace(device=SPLIT),
        then=EMPTY._replace(device=SPLIT),
        call=PUBLISH,
        inserted_path=(Name(5), Name(6)),
        below_before=Tiers(below_once=frozenset({Name(5)})),
        backups_begun=[Name(5), Name(6)],
    ),
    row(
        "backed_early",
        [5, 6],
        setting=setting(3, host_pages=4, write="write_through_selective"),
        state=EMPTY._replace(device=SPLIT),
        then=EMPTY._replace(device=SPLIT),
        call=PUBLISH,
        inserted_path=(Name(5), Name(6)),
        below_before=Tiers(below_once=frozenset({Name(5)})),
        backups_begun=[Name(5), Name(6)],
    ),
    row(
        "backed_early",
        [],
        setting=setting(3, {"backup_parent": "chain"}, host_pages=4, write="write_through_selective"),
        state=EMPTY._replace(device=SPLIT),
        then=EMPTY._replace(device=SPLIT),
        call=PUBLISH,
        inserted_path=(Name(5),),
        below_before=Tiers(),
        backups_begun=[Name(5)],
    ),
    row("occupied_least", 8, below=waiting(None), setting=setting(profile={"reserve": "hit"})),
    row("occupied_least", 4, below=waiting(4), setting=setting(profile={"reserve": "hit"})),
    row("occupied_least", 8, below=waiting(4), setting=setting()),
    row("occupied_least", 0, below=waiting(4, revoked=True), setting=setting()),
    row("occupied_least", 0, below=waiting(4, revoked=True), setting=setting(profile={"reserve": "hit"})),
)
"""What nodes and jobs show, beside what it should be."""

HERE = Entry(there=True, puts=(b"a",))
STORES = (
    row("odd_positions", frozenset(), state=EMPTY_STORE, call=StoreExists(("x",)), answer=(b"a",)),
    row("odd_positions", frozenset(), state=EMPTY_STORE, call=StoreGet(("x",), 1), answer=Raised("gone")),
    row("odd_positions", frozenset(), state=EMPTY_STORE, call=StoreGet(("x",), 1), answer=7),
    row("odd_positions", {0}, state=EMPTY_STORE, call=StoreGet(("x", HEX), 1), answer=(b"a", b"a")),
    row("STORE-19", True, store_reads=[Read(None, Entry(damage="folder"))], store_checks="content"),
    row("store_counted", UNKNOWN, answer=Raised("gone")),
    row("store_filled", UNKNOWN, answer=Raised("gone")),
    row("buffers_after", UNKNOWN, answer=Raised("gone")),
    row("store_leading", 0, call=StoreGet((HEX,), 1), answer=(b"a",)),
    row("store_leading", 2, call=StoreGet((HEX,), 1, 2), answer=(b"a",)),
    row("store_leading", 1, call=StoreCrash(HEX, b"a"), answer=Crashed(1, (b"a",), True)),
    row("store_leading", 0, call=StoreCrash(HEX, b"a"), answer=Crashed(0, (None,), True)),
    row("store_leading", 0, call=StoreCrash(HEX, b"a"), answer=Raised("gone")),
    row("store_raised", True, answer=Raised("gone")),
    row("store_raised", True, answer=Raced((), True)),
    row("store_raised", False, answer=Raced((), False)),
    row("store_raised", True, answer=PutDone(None)),
    row("store_raised", True, answer=Crashed(0, (), False)),
    row("store_raised", False, answer=Filled((), ())),
    row("store_strays", UNKNOWN, answer=PutDone((True,))),
    row(
        "store_ordinary",
        [True, False, False],
        state=EMPTY_STORE,
        setting=setting(),
        call=StorePut((HEX, HEX, "x"), (b"a", b"a", b"a")),
        store_entries=[HERE, Entry(damage="folder"), HERE],
    ),
    *(
        row(
            "store_ordinary",
            [taken, False],
            state=EMPTY_STORE._replace(entries={(0, "k"): Entry(there)}),
            setting=setting(profile={"store_room": "refuses"}),
            call=StorePut((HEX, HEX), (b"a", b"a")),
            store_entries=[HERE, HERE],
        )
        for there, taken in ((False, True), (None, False), (True, False))
    ),
    row("STORE-04", False, store_reads=[Read(None, Entry(True))]),
    row("STORE-04", True, store_reads=[Read(None, Entry(True, damage="flip"))]),
    row("STORE-12", True, store_reads=[Read(None, Entry(), [b"a"]), Read(b"a", HERE, [b"a"]), Read(b"b", Entry())]),
    row("STORE-12", False, store_reads=[Read(b"a", Entry(), [b"a"])]),
    row(
        "STORE-13",
        False,
        store_filled=[True],
        plain_entries=[Entry(False, (b"a",))],
        buffers_before=[b"a"],
        buffers_after=[b"a"],
    ),
    row("STORE-19", False, store_reads=[hurt("link")], store_checks="bytes"),
    row("STORE-19", True, store_reads=[hurt("link")], store_checks="length"),
    row("STORE-19", False, store_reads=[hurt("pipe")], store_checks="length"),
)
"""What page stores answer, those that raise, crash or are damaged."""

MISUSE = (
    row(
        "MISUSE-08",
        True,
        cached_before={},
        cached_after={},
        free_before=frozenset(),
        free_after=frozenset({PageNo(3)}),
        declared_misuse="undefined",
    ),
    row("MISUSE-02", True, raised=True, declared_misuse="undefined"),
    row("MISUSE-02", True, raised=False, declared_misuse="undefined"),
    row("MISUSE-02", False, raised=True, declared_misuse="ignore"),
)
"""Misuse where nobody says what comes of it."""

NAMES = Names()
LONG, SHORT = (path_of(NAMES, Key(None, tuple(range(units))), 4) for units in (8, 4))
ONE, TWO = LONG.pages
"""The pages of a key of two, of which the first is a key as well."""

CHAIN = Tier(
    {
        ONE: Page(LONG.root, PageNo(0), Tick(0), Tick(0), first=True),
        TWO: Page(ONE, PageNo(1), Tick(0), Tick(0)),
    },
    Tick(0),
)
CACHED = EMPTY._replace(device=CHAIN)
TIERED = EMPTY._replace(tiers=Tiers())
RENEWS = {"split_created": "renews"}
BEGIN = Begin(0, PATH)
FETCHING = {
    "below_before": Tiers(
        work={7: work(7, "fetch", 5, 6, 7)},
        prefetches=Prefetches(by_number={0: Prefetched(1, (), 12, None, 0.0, got=4)}, of_job={7: 0}),
    ),
    "setting": setting(),
}
MOVED = TierSeen(hosted={ONE: PageNo(0)}, cached={ONE: PageNo(0)}, parent_names={ONE: LONG.root})


def choosing(says: Any, **more: Any) -> Row:
    """What an eviction of page 5 could choose from."""
    usual = {"state": EMPTY, "setting": setting(), "expected": EMPTY, "call": Evict(Tokens(4)), "answer": 4}
    seen = {"then": EMPTY, "before": TierSeen(), "after": TierSeen(), "room_made": {"device": {Name(5)}}}
    return looked("choosing", says, **{**usual, **seen, **more})


def due_missed(says: Any, hot: dict[Name, bool], hosted_before: dict[Name, PageNo]) -> Row:
    """Page 5 is cached, and was to be backed up if it is hot; the host has one free page."""
    return row(
        "due_missed",
        says,
        setting=setting(host_pages=4),
        state=TIERED,
        call=PUBLISH,
        inserted_path=(Name(5), Name(6)),
        hot_pages=hot,
        below_before=Tiers(),
        tiers_seen_before=TierSeen(host_free=(PageNo(0),), hosted=hosted_before),
        tiers_seen=TierSeen(cached={Name(5): PageNo(3)}),
    )


def wanted(says: int, state: State = CACHED, **profile: Any) -> Row:
    """What a request for two cached pages needs."""
    return row("request_wanted", says, state=state, setting=setting(profile=profile), call=Begin(0, LONG))


def fits(says: Any, state: State = EMPTY, pages: int = 3, host: int = 0, **profile: Any) -> Row:
    """Whether a request of three pages fits."""
    configured = setting(3, profile, pages=pages, host_pages=host)
    return row("fits_alone", says, setting=configured, state=state, call=BEGIN)


def unreachable(says: list[Name], publish: str, slots: int) -> Row:
    """What of a request of two cached pages can't be reached, whose row has so many slots."""
    running = RequestState(LONG, tuple(map(Slot, range(slots))), 8, 8, TWO)
    places = [node((ONE,), (0,), 0), node((TWO,), (1,), 0)]
    after = Seen(cached={ONE: PageNo(0), TWO: PageNo(1)}, nodes=places)
    return row(
        "unreachable_names",
        says,
        request_after=running,
        setting=setting(profile={"publish": publish}),
        call=Begin(0, LONG),
        after=after,
    )


def locked(protected: int, late: int) -> dict[str, Any]:
    """What a tree of twelve units says of which four are locked."""
    counted = {"locked_count": Tokens(4), "unlocked_count": Tokens(8), "late_count": Tokens(late)}
    return {"protected": Tokens(protected), "evictable": Tokens(12 - protected), **counted}


def adds_up(available: int, spares_unseen: int) -> dict[str, Any]:
    """Counters of a pool of sixteen slots, of which so many are available."""
    nothing = {"evictable": Tokens(0), "protected": Tokens(0), "owned_slots": Tokens(0), "waiting_after": frozenset()}
    told = {"available_after": Tokens(available), "capacity": Tokens(16), "may_evict": False, "page_size": 4}
    return {**nothing, **told, "spares_unseen": spares_unseen}


def inside(ends: str) -> Setting:
    """A setting whose matches end so."""
    return replace(setting(profile={"match_ends": ends}), names=NAMES)


BESIDE, ELSEWHERE = (path_of(NAMES, Key(space, (0, 1, 2, 3, 4, 5, 9, 9)), 4) for space in (None, "another"))
"""A key that is like a page of another one for two units; and one of another namespace."""
UNSEEN = EMPTY._replace(requests={0: RUNNING._replace(unseen=2), 1: RUNNING._replace(unseen=1)})
SPARED = EMPTY._replace(requests={0: RUNNING._replace(spare=frozenset({PageNo(5)}))})
"""A request of two pages and a token, with a page beside them."""
UNLOCKED = CACHED._replace(unlocking=((ONE, TWO), ()))
"""A path of two pages whose lock was given back by the call before the last one."""

LATE = (
    row("late_after", {}, then=CACHED),
    row("late_after", {ONE: 1, TWO: 1}, then=UNLOCKED),
    row("late_after", {ONE: 2, TWO: 1}, then=UNLOCKED._replace(unlocking=((ONE, TWO), (ONE,)))),
    row("late_count", 8, then=UNLOCKED, setting=setting(), late_after={ONE: 1, TWO: 1}),
    *[row("LOCK-02", 4 <= protected <= 8, **locked(protected, late=4)) for protected in (0, 4, 8, 12)],
    row("LOCK-02", False, **{**locked(8, late=4), "evictable": Tokens(8)}),
    *[
        row("TREE-24", 4 <= protected <= 8, protected=protected, counted_protected=4, late_count=4)
        for protected in (3, 4, 8, 9)
    ],
    *[
        row("prefix.rules.observed.held_by", says, shown=shown, locks=1, late=2)
        for shown, says in ((0, 1), (2, 2), (4, 3))
    ],
    row("evictable_pages", (0, 2), setting=setting(0), state=UNLOCKED, late_before={ONE: 1, TWO: 1}),
    row("quiet", False, setting=setting(), then=UNLOCKED),
)
"""Locks that end late."""

SPARE = (
    row("spares_unseen", 0, then=SPARED, setting=setting(profile={"spare_pages": 2})),
    row("spares_unseen", 3, then=UNSEEN, setting=setting(profile={"spare_pages": 2})),
    row("spares_unseen", 0, then=UNSEEN, setting=setting()),
    row("POOL-14", True, **adds_up(8, spares_unseen=2)),
    row("POOL-14", False, **adds_up(4, spares_unseen=2)),
)
"""Pages beside a row."""

INSIDE = (
    *[
        row("inside_length", says, state=CACHED, setting=inside(ends), call=Match(path), match_length=length)
        for ends, path, length, says in (
            ("inside", BESIDE, 6, 2),
            ("page", BESIDE, 6, 0),
            ("inside", BESIDE, 4, 0),
            ("inside", ELSEWHERE, 2, 0),
            ("inside", SHORT, 2, 4),
        )
    ],
    *[
        row("TREE-01", says, match_length=6, page_size=4, inside_length=length)
        for length, says in ((1, False), (2, True))
    ],
    row("match_cap", 6, setting=inside("inside"), key_length=6),
    row("match_cap", 4, setting=inside("page"), key_length=6),
    row("certain_length", 4, setting=inside("inside"), call=MATCH, cached_pages_before=(2, 2), match_cap=7),
    row("possible_length", 7, setting=inside("inside"), call=MATCH, cached_pages_before=(1, 1), match_cap=8),
    row("possible_length", 6, setting=inside("inside"), call=MATCH, cached_pages_before=(1, 1), match_cap=6),
)
"""Matches that end inside a page."""

CHOICES = (
    *LATE,
    *SPARE,
    *INSIDE,
    choosing(UNKNOWN, expected=TIERED, setting=setting(3, RENEWS, policy="fifo")),
    choosing([Choosing(EMPTY.device, {Name(5)}, frozenset(), set())], expected=TIERED, setting=setting(3, RENEWS)),
    choosing(
        [Choosing(EMPTY.device, {Name(5)}, frozenset(), set())], expected=TIERED, setting=setting(3, policy="fifo")
    ),
    choosing([Choosing(EMPTY.device, {Name(5)}, set(PATH.pages), set(PATH.pages))], call=LoadBack(PATH)),
    choosing([Choosing(EMPTY.device, {Name(5)}, set(PATH.pages), set(PATH.pages))], call=OutOfMemory(PATH)),
    choosing(
        [Choosing(SPLIT, {Name(5)}, frozenset(), {Name(7)})],
        state=EMPTY._replace(device=Tier({Name(7): page(locks=1), Name(6): page(locks=1)}, Tick(0))),
        expected=TIERED._replace(device=SPLIT),
    ),
    choosing([Choosing(SPLIT, {Name(5)}, frozenset(), set())], expected=TIERED._replace(device=SPLIT)),
    due_missed([], {}, {Name(6): PageNo(1)}),
    due_missed([5], {Name(5): True}, {Name(6): PageNo(1)}),
    due_missed([], {Name(5): True}, {}),
    wanted(0),
    wanted(8, publish="at_alloc"),
    wanted(8, evict_moment="alloc"),
    wanted(8, match_ends="node"),
    wanted(4, match_cap="len-1"),
    wanted(8, watermark=2),
    wanted(8, spare_pages=2),
    row("request_wanted", 12, state=SPARED, setting=setting(profile={"spare_pages": 2}), call=Grow(0, Tokens(8))),
    fits(True),
    fits(False, spare_pages=1),
    fits(False, EMPTY._replace(requests={0: RUNNING._replace(unseen=1)}), 4, spare_pages=1),
    fits(True, EMPTY._replace(requests={0: RUNNING._replace(unseen=1)}), 5, spare_pages=1),
    fits(False, UNLOCKED, 4, evict_moment="alloc", unlock_delay=2),
    fits(True, UNLOCKED, 5, evict_moment="alloc", unlock_delay=2),
    fits(False, evict_slack=1),
    fits(False, watermark=1),
    fits(False, EMPTY._replace(owners={PageNo(1): 1})),
    fits(True, EMPTY._replace(owners={PageNo(1): 1}), 4),
    fits(False, EMPTY._replace(leaving=(frozenset({PageNo(1)}),))),
    fits(False, EMPTY._replace(tiers=Tiers(fault=0)), host=4),
    fits(False, EMPTY._replace(tiers=Tiers(failing=frozenset({"load"}))), host=4),
    unreachable([], "explicit", 8),
    unreachable([TWO], "explicit", 4),
    unreachable([], "at_alloc", 8),
    unreachable([TWO], "at_alloc", 4),
    row(
        "cached_pages_before",
        (0, 1),
        state=CACHED,
        then=CACHED,
        setting=setting(profile={"match_ends": "node"}),
        call=Match(SHORT),
    ),
    row(
        "cached_pages_before",
        (0, 1),
        state=CACHED,
        then=CACHED,
        setting=setting(profile={"match_ends": "node"}),
        call=Begin(0, SHORT),
    ),
    row(
        "cached_pages_before",
        (1, 1),
        state=CACHED,
        then=CACHED,
        setting=setting(profile={"match_ends": "node"}),
        call=Insert(SHORT, ()),
    ),
    row("cached_pages_before", (1, 1), state=CACHED, then=CACHED, setting=setting(), call=Match(SHORT)),
    *[
        row(
            "cached_pages_before",
            (1, 2),
            state=CACHED,
            then=CACHED,
            setting=setting(),
            call=call(within=Within(Tokens(4), Tokens(8))),
        )
        for call in (functools.partial(Match, LONG), functools.partial(Begin, 0, LONG))
    ],
    row(
        "evicted_most",
        0,
        setting=setting(1, {"evict_granularity": "node"}),
        state=CACHED,
        call=Evict(Tokens(0)),
        evictable_pages=(2, 2),
    ),
    row("fetch_due", 12, call=Advance(7, tiers.Outcome()), **FETCHING),
    row("fetch_due", 8, call=Advance(7, tiers.Outcome("short", 1)), **FETCHING),
    row("fetch_due", 12, call=Advance(7, tiers.Outcome("fail", 9)), **FETCHING),
    row(
        "gate",
        UNKNOWN,
        state=EMPTY,
        below_before=waiting(4, revoked=True)._replace(attached=True),
        tiers_seen_before=TierSeen(),
        setting=setting(),
        call=Prefetch(1, PATH, None),
    ),
    row("tree_changed", False, tiers_seen_before=MOVED, tiers_seen=MOVED),
    row("tree_changed", True, tiers_seen_before=MOVED, tiers_seen=replace(MOVED, hosted={})),
    row("tree_changed", True, tiers_seen_before=MOVED, tiers_seen=replace(MOVED, cached={})),
    row("tree_changed", True, tiers_seen_before=MOVED, tiers_seen=replace(MOVED, parent_names={})),
    row("pins_changed", UNKNOWN, tiers_seen_before=TierSeen(), tiers_seen=TierSeen(tier_nodes=[host_node((5,), None)])),
    row(
        "pins_changed",
        [5],
        tiers_seen_before=TierSeen(tier_nodes=[host_node((), None, pins=0), host_node((5,), None, pins=0)]),
        tiers_seen=TierSeen(tier_nodes=[host_node((), None, pins=1), host_node((5,), None, pins=1)]),
    ),
    row(
        "odd_pins",
        UNKNOWN,
        look=None,
        tiers_seen_before=TierSeen(pinned={(ONE,): 1}),
        tiers_seen=TierSeen(tier_nodes=[host_node((5,), None)]),
    ),
    row(
        "device_lately",
        (frozenset({ONE}),),
        then=EMPTY,
        setting=setting(),
        after=Seen(cached={ONE: PageNo(0)}, seen=True),
        told_device=frozenset(),
    ),
    row(
        "device_lately",
        UNKNOWN,
        then=EMPTY._replace(late=Late((Contents(busy=True),))),
        setting=setting(profile={"event_delay": 2}),
        after=Seen(),
        told_device=frozenset(),
    ),
    row(
        "host_emptied",
        False,
        setting=setting(1, host_pages=4),
        below=Tiers(rests=True),
        tiers_seen=TierSeen(sizes=Sizes(0, 0)),
        call=EvictHost(4),
        host_capacity=16,
    ),
    row(
        "host_emptied",
        False,
        setting=setting(1, {"host_duplicates": "reclaimed"}, host_pages=4),
        below=Tiers(rests=True),
        tiers_seen=TierSeen(sizes=Sizes(0, 0)),
        call=EvictHost(16),
        host_capacity=16,
    ),
    row(
        "host_droppable",
        0,
        state=TIERED,
        below_before=Tiers(rests=True),
        tiers_seen_before=TierSeen(sizes=Sizes(0, 0)),
        setting=setting(1, host_pages=4),
    ),
    row(
        "wrong_pages",
        UNKNOWN,
        setting=setting(1, host_pages=4),
        below=Tiers(),
        tiers_seen=TierSeen(),
        call=MATCH,
        answer=Hit(4),
        found=None,
    ),
    row("accounted", 0, answer=plan_of()),
    row("started", False, answer=plan_of()),
    row("prefix_told", (), answer=plan_of(), started=True),
    row("fallback", Fallback(None, False, 0), answer=plan_of(HostCall("free", 9)), first_eviction=None, full_length=8),  # type: ignore[arg-type]
    row(
        "fallback",
        Fallback(None, False, 0),  # type: ignore[arg-type]
        answer=plan_of(HostCall("available")),
        first_eviction=None,
        full_length=8,
    ),
    row("STORE-09", False, store_reads=[hurt("short", mended=(b"a",))], store_checks="length"),
    row(
        "MISUSE-10",
        True,
        odd_is_rejected=False,
        raised=False,
        available_before=4,
        available_after=4,
    ),
    row(
        "TREE-12",
        True,
        free_before=frozenset({PageNo(1)}),
        free_after=frozenset(map(PageNo, (1, 2, 3))),
        duplicates=frozenset({PageNo(3)}),
        waiting_before=frozenset({PageNo(2)}),
        waiting_after=frozenset(),
    ),
    row(
        "TREE-12",
        False,
        free_before=frozenset({PageNo(1)}),
        free_after=frozenset(map(PageNo, (1, 2))),
        duplicates=frozenset(),
        waiting_before=frozenset({PageNo(2)}),
        waiting_after=frozenset(),
    ),
)
"""What evictions could choose from, what requests need, and what else depends on what is declared."""


def on_host(
    says: Any,
    steps: bool = True,
    profile: dict[str, Any] | None = None,
    lost: frozenset[Name] = frozenset(),
    **config: Any,
) -> Row:
    """What an eviction of the host could choose from: it took page 5, of which nobody knows more, and ``lost`` went."""
    asked = setting(3, profile, host_pages=4, **config)
    return looked(
        "choosing",
        says,
        state=TIERED,
        setting=asked if steps else replace(asked, capabilities=frozenset()),
        expected=TIERED,
        then=TIERED,
        call=EvictHost(4),
        answer=4,
        before=TierSeen(parent_names={Name(5): Name(1)}, hosted=dict.fromkeys(lost, PageNo(0))),
        after=TierSeen(),
        room_made={"host": {Name(5)}},
    )


def on_tier(*names: Name) -> Tier:
    """A tier on which these pages are."""
    return Tier(dict.fromkeys(names, UNKNOWN_PAGE), Tick(0))


def reservable(says: Any, depth: int, fetchable: int, gate: str = "", threshold: int = 8, **more: Any) -> Row:
    """What a prefetch can reserve behind two pages, of which the host has the second one, and room for two."""
    return row(
        "reservable",
        says,
        state=TIERED._replace(host=on_tier(Name(6))),
        below_before=Tiers(),
        tiers_seen_before=TierSeen(hosted={Name(6): PageNo(2)}, host_free=(PageNo(0), PageNo(1)), host_available=8),
        setting=setting(depth, more, host_pages=4, threshold=threshold),
        gate=gate,
        begun=False,
        known_before=(Name(5), Name(6)),
        fetchable=fetchable,
    )


def sha(message: bytes) -> bytes:
    """The hash function of the schemes."""
    return hashlib.sha256(message).digest()


UNKNOWN_PAGE = Page(Name(1), partial.SOMEWHERE, Tick(0), Tick(0), undated=True, unsure=True)
ALONE = Choosing(Tier({Name(5): UNKNOWN_PAGE}, Tick(0)), {Name(5)}, {Name(5)}, {Name(5)})
SCHEME = {"scheme": SCHEMES["kvlitmus-2"], "hash_function": sha}
CAPPED = {"match_cap": "len-1"}

LAST = (
    on_host([ALONE]),
    on_host(UNKNOWN, steps=False),
    on_host(UNKNOWN, True, RENEWS, policy="fifo"),
    on_host([ALONE], True, RENEWS),
    on_host([ALONE], policy="fifo"),
    on_host([ALONE._replace(held={Name(5), Name(6)})], lost=frozenset({Name(6)})),
    reservable(UNKNOWN, 1, 8, reserve="hit"),
    reservable(0, 1, 8, "shut"),
    reservable(0, 1, 4),
    reservable(8, 1, 8),
    reservable(4, 1, 4, threshold=0),
    reservable(0, 3, 4),
    reservable(8, 3, 12),
    reservable(4, 3, 4, threshold=0),
    looked(
        "needless",
        UNKNOWN,
        state=TIERED,
        setting=setting(3, {"evict_granularity": "node"}, host_pages=4, write="write_back"),
        then=TIERED,
        call=Evict(Tokens(4)),
        answer=4,
        before=TierSeen(cached={Name(6): PageNo(0)}, tier_nodes=[host_node((5,), None)]),
        after=TierSeen(),
        room_made={"host": {Name(5)}},
    ),
    row(
        "host_hit_certain",
        4,
        state=EMPTY._replace(tiers=Tiers(), host=on_tier(ONE, TWO)),
        setting=setting(3, CAPPED, host_pages=4),
        call=Match(LONG),
        answer=Hit(0),
    ),
    row(
        "host_hit_certain",
        4,
        state=EMPTY._replace(tiers=Tiers(), host=on_tier(ONE, TWO)),
        setting=setting(1, CAPPED, host_pages=4),
        call=Match(LONG),
        answer=Hit(0),
    ),
    looked(
        "choosing",
        (),
        state=TIERED,
        setting=setting(3, RENEWS, policy="fifo", host_pages=4),
        expected=TIERED,
        then=TIERED,
        call=EvictHost(4),
        answer=4,
        before=TierSeen(),
        after=TierSeen(),
        room_made={},
    ),
    looked(
        "needless",
        frozenset(),
        state=TIERED,
        setting=setting(3, {"evict_granularity": "node"}, host_pages=4, write="write_back"),
        then=TIERED,
        call=Evict(Tokens(4)),
        answer=4,
        before=TierSeen(),
        after=TierSeen(),
        room_made={},
    ),
    row("loaded_least", 2, below_before=Tiers(prefetches=Prefetches(added={1: (2, 4)})), call=TellLoaded(1)),
    row("loaded_most", 4, below_before=Tiers(prefetches=Prefetches(added={1: (2, 4)})), call=TellLoaded(1)),
    row("LOAD-03", False, load_least=8, load_most=8, load_threshold=0, load_room=8, load_limit=8, load_struck=False),
    row("load_least", 0, state=resident(1), setting=setting(), call=LOADING),
    row("load_most", 4, state=resident(1)._replace(host=resident(2).device), setting=setting(), call=LOADING),
    row(
        "locked_count",
        8,
        expected=EMPTY,
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        page_size=4,
        locked_pages=frozenset(),
    ),
    row(
        "locked_count",
        4,
        expected=EMPTY,
        setting=setting(),
        then=EMPTY,
        page_size=4,
        locked_pages=frozenset({(Name(1), PageNo(3))}),
    ),
    row(
        "load_room",
        8,
        state=EMPTY,
        setting=setting(3, host_pages=4),
        call=LOADING,
        tiers_seen_before=TierSeen(free=frozenset({PageNo(0), PageNo(1)})),
    ),
    row(
        "node_counts",
        counts(),
        after=seen(node((9, 7), (3, 4), 1)),
        setting=setting(),
        then=EMPTY._replace(device=SPLIT),
        late_after={},
    ),
    row("POOL-08", True, available_before=4, available_after=4, may_evict=False),
    row("POOL-08", True, available_before=4, available_after=8, may_evict=True),
    row("POOL-08", False, available_before=4, available_after=8, may_evict=False),
    row("POOL-08", False, available_before=8, available_after=4, may_evict=True),
    row(
        "REQ-11",
        True,
        request_pages={PageNo(3)},
        owned_after=frozenset({PageNo(3)}),
        free_after=frozenset(),
        cached_listed=[],
        waiting_after=frozenset(),
    ),
    row("HASH-01", False, hashes=["zz"], page_units=[(1,)], chain_start=None, seeded=False, **SCHEME),
    row("HASH-01", False, hashes=[HEX], page_units=[(1,)], chain_start=b"", seeded=False, **SCHEME),
    row("HASH-07", True, hashes=[HEX], page_units=[(1,)], chain_start=None, seeded=True, **SCHEME),
)
"""What is left of the host, of hashes and of refusals."""

ROWS: tuple[Row, ...] = (*PLANS, *SETTLED, *LENGTHS, *ROOM, *COUNTS, *STORES, *MISUSE, *CHOICES, *LAST)
"""All of them."""
