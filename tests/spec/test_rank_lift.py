"""Ranks as plain caches: which step each of them makes, and what such a view leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvlitmus.spec.interface import Hit, tiers
from kvlitmus.spec.interface.ranks import Ask, Decision, Prefix, RankView, worlds
from kvlitmus.spec.law.facts import INPUTS, UNKNOWN, Facts
from kvlitmus.spec.law.plan import value_of
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.calls import Alloc, Evict, Insert, Match
from kvlitmus.spec.prefix.work_calls import LoadBack, Prefetch
from kvlitmus.spec.ranks.calls import ABSENT, RankAsk, Together, Trace
from kvlitmus.spec.ranks.lift import Step, lifted
from kvlitmus.spec.ranks.one_rank import Lift, RankSeen
from kvlitmus.spec.ranks.state import Agreed, advance_ranks, begun
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.profile import Profile

WORLD = worlds(pages=4, host_pages=4)["tp2"]
all_rules()  # and their facts
NOTHING = Agreed()
USUAL = Profile()
ONE, TWO, LONG = (1,), (2,), (1, 1)


def view(device: Sequence[Prefix] = (), host: Sequence[Prefix] = (), **more: object) -> RankView:
    """A rank that has these pages, and nothing under way."""
    free = (4 - len(device), 4 - len(host), 4)
    return RankView(tuple(device), tuple(host), (), (), (), (), *free)._replace(**more)  # type: ignore[arg-type]


def steps(
    ask: Ask,
    before: RankView | tuple[RankView, ...],
    after: RankView | tuple[RankView, ...],
    *decisions: Decision,
    profile: Profile = USUAL,
    pinched: int = 0,
    agreed: Agreed = NOTHING,
    ended: str = "returned",
) -> list[Step]:
    """What a call on two ranks is for each of them; so much of the second one's host is occupied."""
    was, now = (one if not isinstance(one, RankView) else (one, one) for one in (before, after))
    state = begun(WORLD, was)
    own = {**state.own, 1: state.own[1]._replace(pinched=pinched)}
    state = state._replace(own=own, trees=(agreed,))
    call, traces = RankAsk(ask, (0, 1)), (Trace(0, (), decisions), Trace(1, (), decisions, ended))
    answer = Together(traces, now)
    lift = Lift(WORLD, Config(pool="ranks"), profile, Names())
    made = lifted(lift, state, call, answer, advance_ranks(state, call, answer))
    return [one for one in made if not one.where.startswith(("windows", "states"))]


def fact(step: Step, name: str) -> object:
    """A fact of a step; unknown where such a view can't tell it."""
    known: Facts = dict.fromkeys(step.unknown, UNKNOWN)
    return value_of(name, dict(zip(INPUTS, step.inputs, strict=True)), known)


def test_ranks_that_are_alike_make_one_step_and_others_one_each() -> None:
    found = Decision("match", "device", (ONE,))
    (step,) = steps(Ask("match", LONG), view([ONE]), view([ONE]), found)
    assert (step.where, step.answer) == ("every rank", Hit(1)) and isinstance(step.call, Match)
    assert fact(step, "certain_length") == fact(step, "possible_length") == 1
    apart = steps(Ask("match", LONG), (view([ONE]), view([ONE, LONG])), (view([ONE]), view([ONE, LONG])), found)
    assert [(one.where, fact(one, "certain_length")) for one in apart] == [("rank 0", 1), ("rank 1", 2)]


def test_of_a_call_that_did_not_return_everywhere_it_is_said_how_ranks_look_then() -> None:
    (step,) = steps(Ask("evict", pages=1), view([ONE]), view(), ended=ABSENT)
    assert (step.call, step.before, step.state) == (UNKNOWN, UNKNOWN, UNKNOWN) and fact(step, "cached_homes") == []


def test_an_insert_is_an_allocation_and_an_insert_of_what_it_got() -> None:
    came = Decision("commit", "device", (ONE, LONG)), Decision("grant", "write", (ONE, LONG))
    alloc, insert = steps(Ask("insert", LONG), view(), view([ONE, LONG], writing=(ONE, LONG)), *came)
    assert isinstance(alloc.call, Alloc) and isinstance(insert.call, Insert)
    assert fact(alloc, "due_slots") == fact(alloc, "granted_count") == 2
    assert len(insert.call.path.pages) == 2 and fact(insert, "due_missed") == []


def test_an_insert_that_nobody_has_room_for_owes_what_there_is_room_for() -> None:
    full = [(2,), (2, 1), (2, 1, 1)]
    alloc, _ = steps(Ask("insert", LONG), view(full), view([*full, ONE]), Decision("commit", "device", (ONE,)))
    assert fact(alloc, "due_slots") == fact(alloc, "granted_count") == 1
    refused, _ = steps(Ask("insert", LONG), view(full), view(full))
    assert refused.answer is None and fact(refused, "asked") == 2 > fact(refused, "available_before") == 1  # type: ignore[operator]


def test_what_is_not_copied_though_the_host_of_every_rank_has_room_is_missed() -> None:
    came = Decision("commit", "device", (ONE,))
    _, insert = steps(Ask("insert", ONE), view(), view([ONE]), came, pinched=3)
    assert fact(insert, "due_missed") == [fact(insert, "inserted_path")[0]]  # type: ignore[index]
    _, insert = steps(Ask("insert", ONE), view(), view([ONE]), came, pinched=4)
    assert fact(insert, "due_missed") == []


def test_an_eviction_is_judged_by_how_many_pages_are_free() -> None:
    (step,) = steps(Ask("evict", pages=2), view([ONE, TWO]), view([TWO]), Decision("victims", "device", (ONE,)))
    assert isinstance(step.call, Evict)
    assert (fact(step, "asked"), fact(step, "unlocked_before"), fact(step, "freed_slots")) == (2, 2, 1)


def test_a_page_that_is_copied_is_protected() -> None:
    busy, agreed = view([ONE], writing=(ONE,)), Agreed(writing=(ONE,))
    (step,) = steps(Ask("evict", pages=1), busy, busy, agreed=agreed)
    assert fact(step, "unlocked_before") == 0 and len(fact(step, "locked_pages")) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("profile", "told"),
    [(USUAL, 1), (Profile(evict_order="own"), UNKNOWN), (Profile(evict_granularity="node"), UNKNOWN)],
)
def test_an_order_of_victims_is_judged_where_one_is_declared_and_pages_go_one_by_one(
    profile: Profile, told: object
) -> None:
    gone, agreed = Decision("victims", "device", (TWO,)), Agreed(used=(ONE, TWO))
    (step,) = steps(Ask("evict", pages=1), view([ONE, TWO]), view([ONE]), gone, profile=profile, agreed=agreed)
    passed = fact(step, "passed_over")
    assert (passed if passed is UNKNOWN else len(passed)) == told  # type: ignore[arg-type]


def test_what_matches_and_inserts_find_was_used_and_of_what_was_loaded_nobody_knows_when() -> None:
    used, found = Agreed(used=(ONE, LONG, TWO)), Decision("match", "device", (ONE,))
    here = view([TWO, ONE, LONG, (3,)])

    def after(ask: Ask, *decisions: Decision) -> tuple[Prefix, ...]:
        (step, *_) = steps(ask, here, here, *decisions, agreed=used)
        pages = step.then.device.pages.items()  # type: ignore[union-attr]
        known = [(page.touched, name) for name, page in pages if not page.unsure]
        return tuple(step.setting.names.prefix(name)[1] for _, name in sorted(known))  # type: ignore[misc]

    assert after(Ask("match", ONE), found) == (LONG, TWO, ONE)
    assert after(Ask("insert", LONG)) == (TWO, ONE, LONG)
    assert after(Ask("load", ONE)) == (LONG, TWO)
    assert after(Ask("evict")) == (ONE, LONG, TWO)


def test_a_load_that_is_declined_owes_a_reason() -> None:
    (step,) = steps(Ask("load", ONE), view(host=[ONE]), view(host=[ONE]))
    assert isinstance(step.call, LoadBack) and step.answer == tiers.Loaded(0, None)
    assert (fact(step, "load_wanted"), fact(step, "load_room")) == (1, 4)
    coming = view(host=[ONE], loading=(ONE,))
    assert steps(Ask("load", ONE), coming, coming) == []


def test_a_prefetch_owes_all_that_the_host_of_every_rank_has_room_for() -> None:
    refused = Decision("grant", "read", ())
    (step,) = steps(Ask("prefetch", LONG, 7), view(), view(), refused, pinched=2)
    assert isinstance(step.call, Prefetch) and fact(step, "reservable") == 2 != fact(step, "fetch_asked")
    (step,) = steps(Ask("prefetch", LONG, 7), view(), view(), refused, pinched=3)
    assert fact(step, "reservable") is UNKNOWN
    reads = view(reading=((7, (ONE,), 0),), host_free=3)
    (step,) = steps(Ask("prefetch", LONG, 7), view(), reads, Decision("grant", "read", (ONE,)), pinched=2)
    assert (fact(step, "reservable"), fact(step, "fetch_asked"), fact(step, "taken")) == (2, 1, 1)


@pytest.mark.parametrize("writing", [(), (TWO,)])
def test_memory_of_a_copy_that_a_call_notes_is_free_again_where_it_was_beside_the_page(
    writing: tuple[Prefix, ...],
) -> None:
    here = view([TWO], [TWO], writing=writing, host_free=3 - len(writing))
    noted, refused = Decision("ack", "write", (TWO,)), Decision("grant", "read", ())
    (step,) = steps(
        Ask("prefetch", LONG, 7),
        here,
        here._replace(writing=(), host_free=3),
        noted,
        refused,
        agreed=Agreed(writing=(TWO,)),
    )
    assert isinstance(step.before, RankSeen) and step.before.host_free_count == 3


def test_a_prefetch_that_no_window_is_free_for_owes_nothing() -> None:
    taken = view(window=(TWO,), window_free=1)
    assert steps(Ask("prefetch", LONG, 7), taken, taken, Decision("grant", "read", ())) == []


def test_a_page_of_the_host_below_one_of_the_device_alone_is_in_the_tree() -> None:
    here, refused = view([ONE], [LONG], host_free=0), Decision("grant", "read", ())
    (asked,) = steps(Ask("prefetch", (1, 2), 7), here, here, refused)
    assert fact(asked, "homeless") is UNKNOWN  # and what has not changed was judged before
    _, rest = steps(Ask("prefetch", (1, 2), 7), here, view([ONE], [LONG, TWO], host_free=0), refused)
    assert fact(rest, "homeless") == []
    lost = view([], [LONG], host_free=0)
    _, rest = steps(Ask("prefetch", (1, 2), 7), here, lost, refused)
    assert fact(rest, "homeless") == [rest.setting.names.of(None, LONG)[-1]]


def test_after_any_other_call_what_holds_at_any_time_is_judged() -> None:
    (step,) = steps(Ask("acks"), view([ONE]), view(host=[LONG]))
    assert step.call is UNKNOWN and fact(step, "asked") is UNKNOWN
    assert fact(step, "homeless") == [step.setting.names.of(None, LONG)[-1]]
    assert steps(Ask("rejoin"), view([ONE]), view(), Decision("commit", "reset", ())) == []
