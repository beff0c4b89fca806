"""What is proven of pool, tree, locks, eviction and requests, as functions that CrossHair reads.

Each function begins with its assumptions and ends with its claim: that the rules it declares hold
of a transition of the reference, with facts worked out as for any cache (``support/steps.py``).
The trees and pools are small, and every number in them (ticks, hit counts, priorities, lock
counts, sizes asked for) is any integer, so that what the exhaustive enumeration must take as ranks
and saturated counts is proven here for all values.

A lemma of the table :data:`LEMMAS` declares the rules it establishes and its bounds.  Each has
a planted slip beside it, which must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.law import step as performed
from kvlitmus.spec.misuse.calls import Aftermath, DoubleFree, RepeatedFree
from kvlitmus.spec.prefix.calls import Alloc, EndGroup, Extend, Free, FreeInGroup, Match, Path
from kvlitmus.spec.prefix.state import State, empty_tier
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Slot, Tokens, key_length, pages_needed, pages_of
from tests.proofs.support.steps import NO_KEY, ROOT, Acting, Step, claim, keeps, seen, setting_of, state_of, step_of

Function = TypeVar("Function", bound=Callable[..., None])


class Lemma(NamedTuple):
    """Which rules a lemma establishes, and within which bounds; or the slip that a planted one has."""

    name: str
    rules: tuple[str, ...]
    bounds: str
    planted: bool


LEMMAS: dict[str, Lemma] = {}


def lemma(*rules: str, bounds: str) -> Callable[[Function], Function]:
    """Note a lemma; the function itself is left as it is, for CrossHair reads its source."""

    def note(function: Function) -> Function:
        name = function.__name__
        LEMMAS[name] = Lemma(name, rules, bounds, name.startswith("planted_"))
        return function

    return note


# Pool: three pages, any of them free; the page size is 1 or 2; the size asked for is any integer

SIZES = (1, 2)


def small_state(free: tuple[bool, bool, bool]) -> State:
    """Nothing is cached; of pages 1 to 3 these are free, and the others owned."""
    return state_of(empty_tier(), [PageNo(at) for at, there in enumerate(free, 1) if not there])


def plain(number: int, most: int) -> int:
    """The number as a plain one: it is one of 0 to ``most``, and each is a case of its own."""
    for one in range(most + 1):
        if number == one:
            return one
    raise ValueError(number)


ALLOCATED = claim(
    "POOL-01",
    "POOL-02",
    "POOL-03",
    "POOL-04",
    "POOL-05",
    "POOL-06",
    "POOL-11",
    "POOL-12",
    "POOL-13",
    "POOL-15",
    "POOL-20",
    on=("alloc",),
)
REFUSED = claim("POOL-07", "POOL-08", "POOL-12", "POOL-20", on=("refused_alloc",))
SETTINGS = {size: setting_of(size) for size in SIZES}


def _allocates(act: Acting, free: tuple[bool, bool, bool], size: int, asked: int) -> bool:
    step = step_of(act, small_state(free), SETTINGS[size], Alloc(Tokens(asked)))
    if step.answer is None:
        return keeps(step, REFUSED)
    return keeps(step, ALLOCATED) and step.after.free == step.before.free - pages_of(step.answer, size)


@lemma(*ALLOCATED.rules, *REFUSED.rules[:2], bounds="3 pages, any free; page size 1 or 2; any size asked for")
def an_allocation_keeps_every_rule(first: bool, second: bool, third: bool, large: bool, asked: int) -> None:
    """Whatever is free and however much is asked for."""
    assert asked >= 0 and asked % (2 if large else 1) == 0
    assert _allocates(perform, (first, second, third), 2 if large else 1, asked)


@lemma("POOL-04", "POOL-05", bounds="a page of somebody else's is handed out when one is missing")
def planted_allocation_from_elsewhere(first: bool, second: bool, third: bool, large: bool, asked: int) -> None:
    """The third page counts as free when the first isn't."""
    assert asked >= 0 and asked % (2 if large else 1) == 0

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        owners = {page: times for page, times in state.owners.items() if page != 3 or 1 not in state.owners}
        return perform(state._replace(owners=owners), setting, call)

    assert _allocates(act, (first, second, third), 2 if large else 1, asked)


@lemma("POOL-01", bounds="3 pages, any free; page size 2; sizes from -3 to 7")
def an_allocation_refuses_to_round(first: bool, second: bool, third: bool, asked: int) -> None:
    """A size that is negative or no multiple of the page size is an error."""
    assert -3 <= asked <= 7 and (asked < 0 or asked % 2 == 1)
    try:
        perform(small_state((first, second, third)), SETTINGS[2], Alloc(Tokens(plain(asked + 3, 10) - 3)))
    except ValueError:
        return
    raise AssertionError(asked)


@lemma("POOL-01", bounds="a size is rounded down")
def planted_rounding(first: bool, second: bool, third: bool, asked: int) -> None:
    """An odd size is rounded down."""
    assert -3 <= asked <= 7 and (asked < 0 or asked % 2 == 1)
    asked = plain(asked + 3, 10) - 3
    try:
        perform(small_state((first, second, third)), SETTINGS[2], Alloc(Tokens(asked - asked % 2)))
    except ValueError:
        return
    raise AssertionError(asked)


RELEASED = claim("POOL-09", "POOL-10", "POOL-11", "POOL-12", "POOL-13", on=("free",))
FREED_AGAIN = claim("MISUSE-01", "MISUSE-02", on=("misuse", "double_free"))
FREED_TWICE = claim("MISUSE-02", "MISUSE-03", on=("misuse", "repeated_free"))
REJECTING = setting_of(1, misuse="reject")


def _releases(act: Acting, free: tuple[bool, bool, bool], one: int, other: int) -> bool:
    state, given = small_state(free), (PageNo(one), PageNo(other))
    slots = slots_of_size_1(given)
    raised, after = False, state
    try:
        after = act(state, SETTINGS[1], Free(slots)).after
    except ValueError:
        raised = True
    before, now = seen(state, SETTINGS[1]), seen(after, SETTINGS[1])
    if one != other and one in state.owners and other in state.owners:
        return not raised and keeps(Step(SETTINGS[1], state, before, Free(slots), None, now), RELEASED)
    call = RepeatedFree(slots[:1]) if one == other else DoubleFree(slots)
    step = Step(REJECTING, state, before, call, aftermath(after, raised), now)
    return keeps(step, FREED_TWICE if one == other else FREED_AGAIN) and after == state


def aftermath(state: State, raised: bool) -> Aftermath:
    """Everything is allocated after misuse, page by page."""
    grants: list[tuple[Slot, ...]] = []
    while True:
        _, answer, _, state = perform(state, SETTINGS[1], Alloc(Tokens(1)))
        if answer is None:
            return Aftermath(raised, True, tuple(grants), True)
        grants.append(answer)


def slots_of_size_1(pages: Sequence[PageNo]) -> tuple[Slot, ...]:
    """The slots of pages that have one each."""
    return tuple(map(Slot, pages))


@lemma(
    *RELEASED.rules,
    *FREED_AGAIN.rules,
    *FREED_TWICE.rules[1:],
    bounds="3 pages, any free; any two of pages 0 to 4 are given back in one call",
)
def a_release_keeps_every_rule(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """What is lawful is taken back, and what isn't is refused."""
    assert 0 <= one <= 4 and 0 <= other <= 4
    assert _releases(perform, (first, second, third), plain(one, 4), plain(other, 4))


@lemma("MISUSE-02", bounds="a page that is named twice is not noticed")
def planted_release_of_a_page_named_twice(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """The pages are made a set before anybody looks."""
    assert 0 <= one <= 4 and 0 <= other <= 4

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        return perform(state, setting, Free(tuple(set(call.slots))))

    assert _releases(act, (first, second, third), plain(one, 4), plain(other, 4))


WAITING = claim("POOL-19", on=("group_open",))


def _groups(act: Acting, first: bool, second: bool, third: bool, one: int, other: int) -> tuple[bool, Step]:
    """Two pages are given back in one group: whether they wait, and the step of the group's end."""
    one, other = plain(one, 3), plain(other, 3)
    given = (one, other)
    state = small_state((first and 1 not in given, second and 2 not in given, third and 3 not in given))
    slots = slots_of_size_1((PageNo(one), PageNo(other)))
    waits = step_of(act, state, SETTINGS[1], FreeInGroup(slots))
    return keeps(waits, WAITING), step_of(act, state, SETTINGS[1], EndGroup(slots))


@lemma(*WAITING.rules, *RELEASED.rules, bounds="3 pages, any free; any two pages are given back in one group")
def a_group_of_frees_waits_for_its_end(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """Within the group nothing becomes available, at its end everything."""
    assert 1 <= one <= 3 and 1 <= other <= 3 and one != other
    waits, ended = _groups(perform, first, second, third, one, other)
    assert waits and keeps(ended, RELEASED)


@lemma("POOL-19", bounds="the second free of a group takes effect at once")
def planted_group_of_one(first: bool, second: bool, third: bool, one: int, other: int) -> None:
    """The group ends with the first free."""
    assert 1 <= one <= 3 and 1 <= other <= 3 and one != other

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        return perform(state, setting, Free(call.slots))

    assert _groups(act, first, second, third, one, other)[0]


ROWS: tuple[tuple[Slot, ...], ...] = tuple(tuple(map(Slot, row)) for row in ((), (8,), (8, 9), (10, 11, 8)))
"""The slots of a request by its tokens: its last page is page 4, the one before page 5."""

EXTENDED = claim("POOL-03", "POOL-06", "POOL-11", "POOL-13", "POOL-17", "POOL-18", "POOL-20", on=("alloc_extend",))
NOT_EXTENDED = claim("POOL-08", "POOL-20", on=("refused_extend",))
FIVE_PAGES = setting_of(2, pages=5)


def _extends(act: Acting, free: tuple[bool, bool, bool], before: int, further: int) -> bool:
    """A request of ``before`` tokens grows."""
    state = small_state(free)
    state = state._replace(owners={**state.owners, PageNo(4): 1, PageNo(5): 1})
    step = step_of(act, state, FIVE_PAGES, Extend(ROWS[before], Tokens(further)))
    if step.answer is None:
        needed = pages_needed(before + further, 2) - pages_needed(before, 2)
        return needed > len(step.before.free) and keeps(step, NOT_EXTENDED)
    return keeps(step, EXTENDED)


@lemma(
    *EXTENDED.rules,
    "POOL-08",
    bounds="5 pages of 2 slots, 3 of them free or not; up to 3 tokens before, up to 4 further ones",
)
def an_extension_keeps_every_rule(first: bool, second: bool, third: bool, before: int, further: int) -> None:
    """The last page is filled before another one is opened, and no page too many is opened."""
    assert 0 <= before <= 3 and 0 <= further <= 4
    before, further = plain(before, 3), plain(further, 4)
    assert _extends(perform, (first, second, third), before, further)


@lemma("POOL-17", bounds="a partly filled page is left as it is")
def planted_extension_on_a_new_page(first: bool, second: bool, third: bool, before: int, further: int) -> None:
    """Growth always begins on a new page."""
    assert 0 <= before <= 3 and 0 <= further <= 4
    before, further = plain(before, 3), plain(further, 4)

    def act(state: State, setting: Setting, call: Any) -> performed.Step[State]:
        return perform(state, setting, Extend((), call.asked))

    assert _extends(act, (first, second, third), before, further)


# Keys: any length

WHOLE_PAGES = claim("TREE-01", "TREE-10", on=("match",))
CAPPED = {
    (size, capped): setting_of(size, match_cap="len-1" if capped else "full")
    for size in (1, 2, 64, 100)
    for capped in (False, True)
}


@lemma(*WHOLE_PAGES.rules, bounds="any key length; page size 1, 2, 64 or 100; bigram or not; both caps")
def a_match_is_capped_in_whole_pages(tokens: int, page_size: int, bigram: bool, capped: bool) -> None:
    """The cap is the most whole pages of the key's units, or of all but one of them."""
    assert tokens >= 0 and page_size in (1, 2, 64, 100)
    for size in (1, 2, 64, 100):
        if page_size == size:
            assert _capped(Setting.cap, tokens, size, bigram, capped)


def _capped(cap: Callable[[Setting, int], int], tokens: int, size: int, bigram: bool, capped: bool) -> bool:
    """The cap, and what it is in words of its own: no page less than what is allowed."""
    units = key_length(tokens, bigram)
    setting = CAPPED[size, bool(capped)]
    length = cap(setting, units)
    names: Any = range(units)
    state = state_of(empty_tier())
    now = seen(state, setting)
    step = Step(setting, state, now, Match(Path(NO_KEY, ROOT, names, (), names)), Hit(length), now)
    allowed = units - 1 if capped and units else units
    return keeps(step, WHOLE_PAGES) and length <= allowed < length + size and length <= tokens


@lemma("TREE-10", bounds="a bigram key counts as many units as it has tokens")
def planted_bigram_counted_as_token(tokens: int, page_size: int, bigram: bool, capped: bool) -> None:
    """The length is taken from the tokens."""
    assert tokens >= 0 and page_size in (1, 2, 64, 100)
    assert _capped(lambda setting, _: setting.cap(tokens), tokens, 2, bigram, capped)
