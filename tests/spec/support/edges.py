"""More rows: places of which one-operator changes to the specification showed that nobody had looked there.

Made of the same values as those of :mod:`tests.spec.support.boundaries`.  A name with a dot is that of a function that
facts call, with its module: ``backup._has_room``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.law.actions import What
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.prefix import work_calls
from kvlitmus.spec.prefix.calls import Begin, Evict, Reset
from kvlitmus.spec.prefix.frame.explain import Effect
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.page import Block, Doubt, Page, Rank, Tier, Window
from kvlitmus.spec.prefix.partial import doubting
from kvlitmus.spec.prefix.rules.order import Choosing
from kvlitmus.spec.prefix.seen import Asked, Got, Put, Record, Seen, TierSeen
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Tiers
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tick, Tokens
from tests.spec.support.boundaries import (
    CACHED,
    EMPTY,
    LOADING,
    LONG,
    MATCH,
    ONE,
    PUBLISH,
    ROWS,
    SHORT,
    SPLIT,
    TIERED,
    TWO,
    Row,
    choosing,
    counts,
    fits,
    job,
    looked,
    node,
    row,
    seen,
    setting,
    wanted,
    work,
)

A, B, C = map(Name, (5, 6, 7))
TABLE: dict[str, Any] = {"publish": "at_alloc"}
RECLAIMS: dict[str, Any] = {"profile": {"host_duplicates": "reclaimed"}, "host_pages": 4, "write": "write_back"}
DOUBTED = doubting(CACHED, Doubt(frozenset({TWO}), (Window(0, 1, {TWO: Rank(1, 1, (0,), (0,))}),)))
"""Two pages were cached, of which the second may have been evicted."""

# -- backups -----------------------------------------------------------------------------------------------


def tier_of(pages: Mapping[Name, int]) -> Tier:
    """A tier with these pages at its root, each where it says."""
    return Tier({name: Page(Name(1), PageNo(at), Tick(0), Tick(0)) for name, at in pages.items()}, Tick(0))


def has_room(says: bool, names: tuple[Name, ...], free: int) -> Row:
    """Whether the host has room for these pages, with so many free ones and one that can be dropped."""
    return row(
        "prefix.rules.backup._has_room",
        says,
        state=TIERED._replace(host=tier_of({C: 3})),
        names=names,
        before=TierSeen(host_free=tuple(map(PageNo, range(free))), hosted={C: PageNo(3)}, parent_names={C: Name(1)}),
    )


def acked(says: list[Any], under_way: Any) -> Row:
    """Backup 8 has landed and ended, while another job is under way."""
    ended = (work(8, "backup", 5, landed=True),)
    return row("acked_unlanded", says, setting=setting(), below=Tiers(ended=ended, work={under_way.job.id: under_way}))


WAITS = {"backup_moment": "tick"}
USED = EMPTY._replace(device=Tier({A: Page(Name(1), PageNo(3), Tick(0), Tick(0), hits=1)}, Tick(0)))
HOSTED = USED._replace(tiers=Tiers())


WAITING, QUIET = Tiers(paths=((A,),)), Tiers()


def ticks(name: str, says: Any, below: Tiers, **values: Any) -> Row:
    """What a tick makes of these paths."""
    path = [name for path in below.paths for name in path]
    return row(name, says, call=work_calls.Tick(), inserted_path=path, below_before=below, **values)


def at_the_tick(says: Any, free: int = 1, below: Tiers = WAITING, **profile: Any) -> Row:
    """What a tick left of page 5, which an insertion had made due, of a host with so many free pages."""
    of = setting(3, {**WAITS, **profile}, host_pages=4)
    before, after = TierSeen(host_free=tuple(map(PageNo, range(free)))), TierSeen(cached={A: PageNo(3)})
    values = {"setting": of, "state": TIERED, "tiers_seen_before": before, "tiers_seen": after}
    return ticks("due_missed", says, below, hot_pages={A: True}, **values)


def begun_at_the_tick(says: Any, *begun: Name, depth: int = 3, below: Tiers = QUIET, **profile: Any) -> Row:
    """Which of these backups a tick began though nothing had made them due."""
    of = setting(depth, {**WAITS, **profile}, host_pages=4)
    return ticks("backed_early", says, below, setting=of, state=EMPTY, then=USED, backups_begun=[*begun])


def early(says: Any, *begun: Name, state: State = EMPTY, write: str = "write_through_selective", **profile: Any) -> Row:
    """Which of these backups an insertion of pages 5 and 6 began too early, whatever counts as a hit."""
    counted = {"hit_counts": "none", **profile}
    return row(
        "backed_early",
        says,
        setting=setting(3, counted, host_pages=4, write=write),
        state=state._replace(host=Tier({C: USED.device.pages[A]}, Tick(0))),
        then=EMPTY._replace(device=Tier({at: USED.device.pages[A]._replace(hits=0) for at in (A, B)}, Tick(1))),
        call=PUBLISH,
        inserted_path=(A, B),
        below_before=Tiers(),
        backups_begun=[*begun],
    )


BACKUPS = (
    *[early([], A, write="write_through", hit_counts=counts) for counts in ("none", "match")],
    early([A], A, write="write_through", hit_counts="insert"),
    *[early([A], A, write="write_back", hit_counts=counts) for counts in ("none", "match")],
    early([A, B], A, B),
    early([B], A, B, state=USED),
    early([], C),
    early([], A, B, backup_parent="chain"),
    at_the_tick([A], hit_counts="none"),
    at_the_tick([A]),
    at_the_tick([], free=0),
    at_the_tick([], below=Tiers(paths=((A,),), left=frozenset({A})), hit_counts="none"),
    at_the_tick([A], below=Tiers(paths=((A,),), left=frozenset({B})), hit_counts="none"),
    at_the_tick([], below=Tiers()),
    at_the_tick(UNKNOWN, below=Tiers(), backup_moment="insert"),
    at_the_tick(UNKNOWN, below=Tiers(paths=((A,),), work={1: work(1, "backup", 9, failed=True)})),
    at_the_tick([A], below=Tiers(paths=((A,),), work={1: work(1, "backup", 9)})),
    at_the_tick(UNKNOWN, reserve="hit"),
    at_the_tick(UNKNOWN, hit_counts="match"),
    begun_at_the_tick(UNKNOWN, A, backup_parent="chain"),
    begun_at_the_tick(UNKNOWN, A, backup_moment="insert"),
    begun_at_the_tick([A], A),
    begun_at_the_tick([], A, below=Tiers(paths=((A,),))),
    begun_at_the_tick([], A, below=Tiers(paths=((A,),), left=frozenset({A})), hit_counts="none"),
    begun_at_the_tick([B], B),
    begun_at_the_tick([], B, below=Tiers(paths=((B,),))),
    begun_at_the_tick([A], A, below=Tiers(work={1: work(1, "backup", 5)})),
    begun_at_the_tick([], A, below=Tiers(work={1: work(1, "backup", 5, failed=True)})),
    begun_at_the_tick([], A, depth=1, below=Tiers(below_once=frozenset({A}))),
    begun_at_the_tick([A], A, below=Tiers(below_once=frozenset({A}))),
    has_room(True, (A, B), 1),
    has_room(False, (A, B), 0),
    has_room(False, (A, C), 0),
    has_room(True, (A,), 0),
    has_room(True, (A, C), 1),
    *(
        row("prefix.work_unseen.protected", says, state=USED, then=HOSTED, setting=setting(**how))
        for says, how in (({A}, {**RECLAIMS, "write": "write_through"}), (set(), RECLAIMS))
    ),
    acked([job(8, "backup")], work(7, "backup", 6)),
    acked([], work(7, "backup", 6, landed=True)),
    acked([], work(7, "put", 6)),
    acked([], work(9, "backup", 6)),
    row("acked_unlanded", [job(8, "backup")], setting=setting(), below=Tiers(ended=(work(8, "backup", 5),))),
    row("acked_unlanded", [], setting=setting(), below=Tiers(ended=(work(8, "backup", 5, failed=True),))),
    *(
        row(
            "acked_unlanded",
            [] if landed else [job(8, "backup")],
            setting=setting(profile={"copy_acks": "any_order"}),
            below=Tiers(ended=(work(8, "backup", 5, landed=landed),), work={7: work(7, "backup", 6)}),
        )
        for landed in (True, False)
    ),
)

# -- what was evicted --------------------------------------------------------------------------------------

CHAINED = Choosing(
    Tier(
        {
            A: Page(Name(1), PageNo(0), Tick(5), Tick(0), first=True),
            B: Page(A, PageNo(1), Tick(1), Tick(0)),
            C: Page(Name(1), PageNo(2), Tick(3), Tick(0), first=True),
        },
        Tick(5),
    ),
    frozenset({A, B}),
)
"""A node of two pages, the first of which was used last, and a node that was used between the two."""


def whose_turn(says: set[Name], granularity: str) -> tuple[Row, ...]:
    """What was passed over when both pages of the first node went, on one tier or on the second of two."""
    asked = setting(3, {"evict_granularity": granularity}, host_pages=4)
    return tuple(
        row("passed_over", says, choosing=[*others, CHAINED], had_choice=True, setting=asked)
        for others in ((), (Choosing(EMPTY.device),))
    )


def gone_from_the_host(says: set[Name], write: str, below: Tiers, before: TierSeen) -> Row:
    """What the host forgot to make room, of a cache that is empty afterwards."""
    return looked(
        "prefix.rules.room.dropped_for_room",
        says,
        setting=setting(3, host_pages=4, write=write),
        state=EMPTY._replace(tiers=below),
        before=before,
        after=TierSeen(),
    )


def needless(says: Any, **more: Any) -> Row:
    """Which victims were needless, of an eviction of one page."""
    return looked(
        "needless",
        says,
        **{
            "state": EMPTY,
            "setting": setting(),
            "call": Evict(Tokens(4)),
            "answer": 4,
            "then": EMPTY,
            "before": Seen(nodes=[node((5,), (3,), 0)]),
            "after": Seen(),
            "room_made": {"device": frozenset({A})},
            **more,
        },
    )


def copied_already(says: Any, write: str, hosted: dict[Name, PageNo], **profile: Any) -> Row:
    """What a full host dropped needlessly that dropped page 7 when page 5 left the device; a fault was asked for."""
    return looked(
        "needless",
        says,
        state=EMPTY._replace(tiers=Tiers(fault=0)),
        setting=setting(3, profile, host_pages=4, write=write),
        then=TIERED,
        call=Evict(Tokens(4)),
        answer=4,
        before=TierSeen(cached={A: PageNo(3)}, hosted=hosted, parent_names={A: Name(1), C: Name(1)}),
        after=TierSeen(hosted={A: PageNo(1)}, parent_names={A: Name(1)}),
        room_made={"host": frozenset({C})},
    )


RESIDENT = TierSeen(cached={A: PageNo(3)}, parent_names={A: Name(1)})
ABOVE = TierSeen(cached={A: PageNo(3)}, hosted={B: PageNo(2)}, parent_names={A: Name(1), B: A})
"""A page on the device, and one with a copy on the host below it."""

EVICTED = (
    choosing(UNKNOWN, setting=setting(3, TABLE)),
    looked(
        "room_made",
        {},
        setting=setting(3),
        state=EMPTY,
        call=Reset(),
        before=Seen(),
        after=Seen(),
        vanished=frozenset({A}),
    ),
    choosing(UNKNOWN, expected=TIERED, setting=replace(setting(3), capabilities=frozenset())),
    *whose_turn(set(), "node"),
    *whose_turn({C}, "page"),
    needless(UNKNOWN, setting=setting(3, TABLE)),
    needless(frozenset(), room_made={}),
    needless({A}, call=Evict(Tokens(0))),
    gone_from_the_host({A}, "write_back", Tiers(), RESIDENT),
    gone_from_the_host(set(), "write_through", Tiers(), RESIDENT),
    gone_from_the_host(set(), "write_through", Tiers(), ABOVE),
    gone_from_the_host(set(), "write_back", Tiers(fault=0), ABOVE),
    gone_from_the_host({A, B}, "write_back", Tiers(), ABOVE),
    copied_already({C}, "write_back", {A: PageNo(1), C: PageNo(2)}),
    copied_already(frozenset(), "write_back", {C: PageNo(2)}),
    copied_already({C}, "write_through", {C: PageNo(2)}),
    copied_already(UNKNOWN, "write_back", {C: PageNo(2)}, evict_granularity="node"),
    row(
        "spared",
        set(),
        state=TIERED._replace(device=tier_of({B: 0}), host=tier_of({B: 2})),
        call=work_calls.EvictHost(4),
        locked_names=frozenset({C}),
        before=TierSeen(hosted={B: PageNo(2)}, cached={B: PageNo(0)}, parent_names={B: Name(1)}),
        setting=setting(3, **RECLAIMS),
    ),
    row(
        "spared",
        {B},
        state=TIERED._replace(device=tier_of({B: 0}), host=tier_of({B: 2})),
        call=work_calls.EvictHost(4),
        locked_names=frozenset({C}),
        before=TierSeen(hosted={B: PageNo(2)}, cached={B: PageNo(0)}, parent_names={B: Name(1)}),
        setting=setting(3, host_pages=4, write="write_back"),
    ),
)

# -- what can be had ---------------------------------------------------------------------------------------


def reclaimable(says: Any, *names: Name) -> Row:
    """What a prefetch can reserve, where the copies of these pages may be reclaimed, and there is room for two."""
    return row(
        "reservable",
        says,
        state=TIERED._replace(device=tier_of(dict.fromkeys(names, 0)), host=tier_of(dict.fromkeys(names, 2))),
        below_before=Tiers(),
        tiers_seen_before=TierSeen(
            hosted=dict.fromkeys(names, PageNo(2)),
            cached=dict.fromkeys(names, PageNo(0)),
            host_free=(PageNo(0), PageNo(1)),
        ),
        setting=setting(3, threshold=8, **RECLAIMS),
        gate="",
        begun=False,
        known_before=(A, B),
        fetchable=8,
    )


def declined(
    says: bool, wanted: int, most: int | None = None, threshold: int = 0, room: int = 8, limit: int = 8
) -> Row:
    """Whether a load back of so much, at least and at most, was declined for a reason."""
    return row(
        "LOAD-03",
        says,
        load_least=wanted,
        load_most=wanted if most is None else most,
        load_threshold=threshold,
        load_room=room,
        load_limit=limit,
        load_struck=False,
    )


def room_for_a_load(says: int, available: int | None, sizes: Sizes | None) -> Row:
    """The room for a load that counters tell."""
    return row(
        "load_room",
        says,
        state=EMPTY,
        setting=setting(1, host_pages=4),
        call=LOADING,
        tiers_seen_before=TierSeen(available=available, sizes=sizes),
    )


PROTECTED = EMPTY._replace(device=Tier({A: Page(Name(1), PageNo(3), Tick(0), Tick(0), locks=1)}, Tick(0)))
"""A cached page is protected, whoever does it."""
AT_ALLOC: dict[str, Any] = {**TABLE, "evict_moment": "alloc"}


ROOM = (
    reclaimable(8, B),
    reclaimable(UNKNOWN, A, B),
    declined(False, 8),
    declined(False, 8, threshold=8),
    declined(False, 1),
    declined(False, 1, most=8),
    declined(True, 0, most=8),
    declined(True, 8, most=9),
    declined(True, 8, threshold=9),
    declined(True, 8, room=7),
    declined(True, 8, limit=7),
    room_for_a_load(128, None, Sizes(4, 0)),
    room_for_a_load(8, 8, None),
    row(
        "load_room",
        12,
        state=CACHED,
        setting=setting(3, host_pages=4),
        call=work_calls.LoadBack(SHORT),
        tiers_seen_before=TierSeen(free=frozenset({PageNo(4), PageNo(5)})),
    ),
    row("claimable", 4, unlocked_count=4, may_evict=True),
    row("claimable", 0, unlocked_count=4, may_evict=False),
    wanted(4, DOUBTED),
    fits(True, PROTECTED, **AT_ALLOC),
    fits(False, EMPTY._replace(receipts={0: A}), **AT_ALLOC),
    fits(True, CACHED, **AT_ALLOC),
    fits(False, CACHED, **TABLE),
    fits(True, CACHED, evict_moment="alloc"),
    fits(True, PROTECTED, pages=4, evict_moment="alloc"),
    fits(False, PROTECTED, evict_moment="alloc"),
    fits(UNKNOWN, EMPTY, host=4),
    row("cached_least", 1, then=DOUBTED),
    row("cached_most", 2, then=DOUBTED),
    row("odd_is_rejected", UNKNOWN, setting=setting(profile={"align": "round_up"})),
    row("odd_is_rejected", True, setting=setting()),
)

# -- block tables ------------------------------------------------------------------------------------------

HELD = EMPTY._replace(
    owners={PageNo(4): 1},
    table={PageNo(3): Block(C, 2), PageNo(4): Block(Name(8), 0), PageNo(5): Block(Name(9), 0)},
)
"""Of three entered pages one is held, and one is owned."""

TWO_PLACES = PROTECTED._replace(table={PageNo(3): Block(A, 1), PageNo(4): Block(A, 1)})
"""A name has two places, and both are held."""

TABLES = (
    row(
        "locked_count",
        4,
        expected=TWO_PLACES,
        setting=setting(),
        then=TWO_PLACES,
        page_size=4,
        locked_pages=frozenset({(A, PageNo(3)), (A, PageNo(4))}),
    ),
    row(
        "node_counts",
        counts([(1, 1)], UNKNOWN, UNKNOWN),
        after=seen(node((5, 6), (3, 4), 1)),
        setting=setting(),
        then=EMPTY._replace(
            device=Tier({name: Page(Name(1), PageNo(3), Tick(0), Tick(0), locks=1) for name in (A, B)}, Tick(0))
        ),
        late_after={},
    ),
    row("MISUSE-01", True, available_after=8, capacity=8, later_sound=True),
    row("MISUSE-03", True, available_after=8, capacity=8, later_sound=True),
    row("MISUSE-03", False, available_after=9, capacity=8, later_sound=True),
    row("MISUSE-11", True, raised=True, found_oddly=None, found_lawfully=(4,)),
    row("MISUSE-11", False, raised=False, found_oddly=None, found_lawfully=(4,)),
    row("MISUSE-13", True, raised=True, units_found_oddly=4),
    row("MISUSE-13", False, raised=False, units_found_oddly=4),
    row("locked_pages", {(C, PageNo(3))}, expected=HELD),
    row("locked_pages", {(A, PageNo(3)), (B, PageNo(3))}, expected=EMPTY._replace(device=SPLIT)),
    row("locked_before", frozenset({PageNo(3)}), state=HELD),
    row(
        "cached_homes",
        [3, 4],
        after=Seen(cached_listed=[PageNo(3), PageNo(4), PageNo(5)]),
        then=HELD,
        setting=setting(3, TABLE),
    ),
    row(
        "unreachable_names",
        [ONE, TWO],
        request_after=RequestState(LONG, tuple(map(Slot, (4, 5, 6, 7, 0, 1, 2, 3))), 8, 8, TWO),
        setting=setting(3, TABLE),
        call=Begin(0, LONG),
        after=Seen(nodes=[node((ONE,), (0,), 0), node((TWO,), (1,), 0)]),
    ),
    row(
        "unreachable_names",
        [],
        request_after=RequestState(LONG, tuple(map(Slot, (16, 17, 18, 19, 4, 5, 6, 7))), 8, 8, TWO),
        setting=setting(3, TABLE),
        call=Begin(0, LONG),
        after=Seen(
            cached={ONE: PageNo(0), TWO: PageNo(1)},
            nodes=[node((ONE,), (0,), 0), node((ONE,), (4,), 0), node((TWO,), (1,), 0)],
        ),
    ),
)

# -- the frame ---------------------------------------------------------------------------------------------


def matched(before: Seen, after: Seen, **more: Any) -> Look:
    """A match, with these before and after it."""
    state = TIERED if isinstance(after, TierSeen) else EMPTY
    return Look(setting(3, **more), state, state, state, MATCH, None, before, after)


def told(says: list[Effect], record: Record) -> Row:
    """What storage was asked and given without a cause while a key was looked up."""
    after = TierSeen(record=record)
    return row("odd_with_storage", says, look=matched(TierSeen(), after, host_pages=4), tiers_seen=after)


TWICE = Seen(cached={A: PageNo(3)}, nodes=[node((5,), (3,), 0), node((5,), (4,), 0)])
ONCE = Seen(cached=TWICE.cached, nodes=[node((5,), (3,), 0)])

FRAME = (
    row(
        "odd_on_device",
        [Effect(What.EVICT, None, ((A, PageNo(4)),))],
        look=matched(TWICE, ONCE, profile=TABLE),
    ),
    told([Effect(What.ASK, None, ("x",))], Record(asked=(Asked(("x",), 0),))),
    told([Effect(What.READ, None, ("x",))], Record(got=(Got("x", True),))),
    told([Effect(What.PUT, None, ("x",))], Record(puts=(Put("x", (), True),))),
)


# -- host copies -------------------------------------------------------------------------------------------


def disturbed(
    says: list[Name],
    before: dict[Name, int],
    after: dict[Name, int],
    here_before: tuple[Name, ...] = (A,),
    here_after: tuple[Name, ...] = (A,),
    *,
    call: Any = MATCH,
    below: Tiers | None = None,
    failed: frozenset[Name] = frozenset(),
    **config: Any,
) -> Row:
    """Which host copies were disturbed, of pages that were in these places on the host, and are in others."""

    def shown(hosted: dict[Name, int], here: tuple[Name, ...]) -> TierSeen:
        return TierSeen(hosted={name: PageNo(at) for name, at in hosted.items()}, cached=dict.fromkeys(here, PageNo(0)))

    return row(
        "copies_disturbed",
        says,
        setting=setting(3, **{"host_pages": 4, **config}),
        call=call,
        state=TIERED._replace(
            device=tier_of(dict.fromkeys(here_before, 0)),
            host=tier_of(before),
            tiers=Tiers() if below is None else below,
        ),
        below_before=Tiers() if below is None else below,
        tiers_seen_before=shown(before, here_before),
        tiers_seen=shown(after, here_after),
        failed_backups=failed,
    )


def appeared(says: list[Name], write: str = "write_through", here: tuple[Name, ...] = ()) -> Row:
    """Which of two new host copies, which no backup began to make, came from nowhere."""
    return row(
        "copies_of_nothing",
        says,
        setting=setting(3, host_pages=4, write=write),
        below_before=Tiers(),
        tiers_seen_before=TierSeen(cached=dict.fromkeys((A, B, C), PageNo(0))),
        tiers_seen=TierSeen(cached=dict.fromkeys(here, PageNo(0))),
        host_committed=frozenset({B, C}),
    )


FETCHED = Prefetched(7, (A,), 4, None, 0.0, hit=4, got=4, ended=True)
"""A prefetch of page 5 that has been read to its end."""


def at_tick(says: list[Name], *, ended: bool = True, **profile: Any) -> Row:
    """Whether a page that a tick finds elsewhere on the host was disturbed, where a prefetch of it has ended or not."""
    running = Tiers(prefetches=Prefetches({1: FETCHED._replace(ended=ended)}, {7: 1}))
    return disturbed(says, {A: 1}, {A: 2}, (), (), call=work_calls.Tick(), profile=profile, below=running)


COPIES = (
    row(
        "host_committed",
        frozenset({B, C}),
        below=Tiers(begun=(work(1, "backup", 5), work(2, "load", 6))),
        host_appeared=frozenset({A, B, C}),
    ),
    at_tick([], commit="tick", backup_moment="tick"),
    at_tick([], commit="tick", reserve="hit"),
    at_tick([A], commit="tick"),
    at_tick([A], backup_moment="tick"),
    at_tick([A], ended=False, commit="tick", backup_moment="tick"),
    disturbed([], {A: 1}, {A: 1}),
    disturbed([A], {A: 1}, {}),
    disturbed([A], {A: 1}, {A: 2}),
    disturbed([A], {A: 1}, {A: 2}, here_before=(), here_after=()),
    disturbed([], {A: 1}, {}, here_before=()),
    disturbed([], {A: 1}, {}, here_after=()),
    disturbed([], {A: 1}, {}, call=Reset()),
    disturbed([], {A: 1}, {A: 2}, failed=frozenset({A})),
    disturbed([], {A: 1}, {}, failed=frozenset({A})),
    disturbed([], {A: 1}, {}, **RECLAIMS),
    disturbed([A], {A: 1}, {A: 2}, **RECLAIMS),
    disturbed([A], {A: 1}, {A: 2}, here_after=()),
    disturbed([], {A: 1}, {A: 2}, here_after=(), write="write_back"),
    disturbed([A], {A: 1}, {A: 2}, here_before=(), here_after=(), write="write_back"),
    appeared([B, C]),
    appeared([B, C], "write_back", (A, B, C)),
    appeared([C], "write_back", (C,)),
)

EDGES: tuple[Row, ...] = (*BACKUPS, *EVICTED, *ROOM, *TABLES, *FRAME, *COPIES)
"""All of them."""

ALL_ROWS: tuple[Row, ...] = (*ROWS, *EDGES)
"""And those of :mod:`tests.spec.support.boundaries`."""
