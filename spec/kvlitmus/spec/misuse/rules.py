"""Misuse: what a cache does when its caller breaks the contract.

Ordinary schedules contain legal calls only.  A cache that declares in its profile that it
*rejects* or *ignores* misuse is held to that: afterwards the pool must be as sound as before.
After misuse that is *undefined* nothing can be judged, so it is not tried, unless it is forced.

To **reject** is to raise; to **ignore** is to return and to have changed nothing.

What the contract forbids: freeing what the caller doesn't own; an insert with too few slots, or with slots that aren't
the caller's whole pages, each once; a receipt that isn't out; a request that doesn't run, or one that runs already; a key
with tokens below 0 or of more than 32 bits; tokens and slots that are no sequence of integers.

Of a cache of components as well: a place of another component's or prefix's entry; entries that end behind the key; a
component that there isn't; fewer entries than none; the handle of a hit that a reset has forgotten; a copy, a prefetch
or a write that has ended.  Each of its pools is judged as the plain cache that it is.

An array is the caller's own: he may write into it once the call that he passed it to has returned.  So are the slots that
a match hands out; a cache that hands out its own, and says so, hands out what can't be written into.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Kind, rule
from kvlitmus.spec.misuse.calls import Aftermath, Found, Lookups, page_granted
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens


@fact(0)
def raised(answer: Aftermath | Lookups) -> bool:
    """Whether the call raised."""
    return answer.raised


@fact(0)
def declared_misuse(setting: Setting) -> str:
    """What the profile declares: reject, ignore or undefined."""
    return setting.profile.misuse


@fact(0)
def odd_is_rejected(setting: Setting) -> bool | Unknown:
    """Whether the profile says that an allocation of a size that is no multiple of the page is rejected; unknown where it is rounded up."""
    return True if setting.profile.align == "reject" else UNKNOWN


@fact(0)
def found_oddly(answer: Lookups) -> Found:
    """What the match said that had something odd about it."""
    return answer.found


@fact(0)
def found_lawfully(answer: Lookups) -> Found:
    """What the same key finds in the cache's own form."""
    return answer.lawful


@fact(0)
def units_found_lawfully(found_lawfully: Found) -> Tokens:
    """How many units the key finds in the cache's own form."""
    return found_lawfully.units


@fact(0)
def units_found_oddly(found_oddly: Found) -> Tokens:
    """How many units that match said are cached."""
    return found_oddly.units


def taken_after(then: State, before: Seen) -> set[PageNo]:
    """The pages that nobody may be granted after misuse: owned, protected, or cached before it."""
    locked = (page.page for page in then.device.pages.values() if page.locks)
    return {*then.owners, *locked, *before.cached.values()}


@fact(0)
def later_sound(setting: Setting, then: State, before: Seen, answer: Aftermath) -> bool:
    """Whether, after the misuse, everything can be allocated once in whole pages and nothing twice."""
    taken = taken_after(then, before)
    for grant in answer.grants:
        page = page_granted(setting, grant, taken)
        if page is None:
            return False
        taken.add(page)
    return answer.taken_back and answer.refused


@fact(0)
def handle_aliased(before: Seen, after: Seen, answer: Aftermath) -> bool:
    """Whether a returned handle lies in the memory of the free list, or overwriting it changed that list."""
    return answer.aliased or before.listed != after.listed


free_rule = partial(rule, reference="prefix.perform.free")


@free_rule(
    "MISUSE-01",
    on=(On.DOUBLE_FREE,),
    source="R-DEV-08, R-HOST-06",
    allowed="at most {capacity} slots available and every page handed out at most once",
)
def a_double_free_creates_no_memory(available_after: Tokens, capacity: Tokens, later_sound: bool) -> bool:
    """Freeing a page that is free already MUST NOT make more available than there is, nor let one page be handed out twice."""
    return available_after <= capacity and later_sound


@free_rule(
    "MISUSE-02",
    on=(On.DOUBLE_FREE, On.REPEATED_FREE, On.PARTIAL_FREE, On.FORBIDDEN),
    source="R-DEV-08, R-HOST-05, R-HOST-06, R-LK-06",
    allowed="an error where misuse is rejected, and none where it is ignored",
)
def misuse_is_treated_as_declared(raised: bool, declared_misuse: str) -> bool:
    """A call that the contract forbids MUST raise where the profile says *reject*. It MUST NOT raise where it says
    *ignore*.
    """
    return declared_misuse == "undefined" or raised == (declared_misuse == "reject")


# A cache can keep MISUSE-01 and break this: who looks whether a slot is free, and marks it afterwards, takes one that is
# named twice in a call twice.
@free_rule(
    "MISUSE-03",
    on=(On.REPEATED_FREE,),
    source="R-HOST-06; dynamo#13398",
    allowed="at most {capacity} slots available and every page handed out at most once",
)
def a_slot_named_twice_in_one_free_counts_once(available_after: Tokens, capacity: Tokens, later_sound: bool) -> bool:
    """A free that names the same page twice MUST NOT make more available than there is, nor let one page be handed out twice."""
    return available_after <= capacity and later_sound


@free_rule("MISUSE-04", on=(On.PARTIAL_FREE,), source="R-HOST-05, R-DEV-07", allowed="whole pages only, now and later")
def freeing_part_of_a_page_breaks_no_page(later_sound: bool) -> bool:
    """Freeing some slots of a page MUST NOT break pages up: whatever is handed out later is whole pages, and nothing twice."""
    return later_sound


@rule(
    "MISUSE-05",
    on=(On.SCRIBBLE,),
    source="R-HOST-08; sglang#31296",
    reference="prefix.perform.alloc",
    allowed="the same pages handed out next, whatever happens to the returned sequence",
)
def a_returned_handle_is_the_callers_own(handle_aliased: bool, later_sound: bool) -> bool:
    """The sequence that an allocation returns MUST be the caller's own: it shares no memory with the free list, and overwriting it changes nothing."""
    return not handle_aliased and later_sound


@rule(
    "MISUSE-06",
    on=(On.STALE_UNLOCK,),
    source="R-LK-06",
    reference="prefix.perform.unlock",
    allowed="an error or nothing, and never fewer than no locks",
)
def giving_a_receipt_back_twice_takes_nothing(protected: Tokens, protected_before: Tokens) -> bool:
    """Giving back a receipt that was given back already MUST NOT lower anybody's protection."""
    return protected == protected_before


@rule(
    "MISUSE-08",
    on=(On.FORBIDDEN,),
    source="R-DEV-08, R-LK-06",
    reference="prefix.perform.insert",
    allowed="what was cached, free and protected before",
)
def what_is_refused_changes_nothing(
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    declared_misuse: str,
) -> bool:
    """A call that the contract forbids MUST NOT change what is cached or free, where the profile says *reject* or *ignore*."""
    same = cached_before == cached_after and free_before == free_after
    return declared_misuse == "undefined" or same


@rule("MISUSE-09", kind=Kind.PROCEDURE, needs=("pool",), source="R-DEV-08, R-LK-06")
def after_a_refused_misuse_the_cache_goes_on() -> bool:
    """After misuse that the profile says is rejected or ignored, each lawful call MUST be answered as if there had been none."""
    return True


@rule(
    "MISUSE-10",
    on=(On.ODD_ALLOC,),
    source="R-DEV-01",
    reference="prefix.perform.alloc",
    allowed="an error, and {available_before} slots available as before",
    premise="odd_is_rejected",
)
def a_size_that_is_no_multiple_of_the_page_is_rejected(
    odd_is_rejected: bool, raised: bool, available_before: Tokens, available_after: Tokens
) -> bool:
    """Where the profile's *align* says *reject*, an allocation of a size that is no multiple of the page MUST raise and take nothing."""
    return not odd_is_rejected or (raised and available_after == available_before)


@rule(
    "MISUSE-11",
    on=(On.OTHER_WIDTH,),
    source="design",
    reference="prefix.perform.match",
    allowed="{found_lawfully}, or an error",
    premise="units_found_lawfully",
)
def integers_of_another_width_mean_the_same_or_are_refused(
    raised: bool, found_oddly: Found, found_lawfully: Found
) -> bool:
    """A match whose tokens come as integers of fewer bits than the cache's own MUST find what the same key finds, or raise."""
    return raised or found_oddly == found_lawfully


@rule("MISUSE-12", kind=Kind.PROCEDURE, needs=("raw",), source="design")
def an_array_is_the_callers_again_when_the_call_returns() -> bool:
    """What a caller writes, after a call has returned, into an array that was passed to it, or into the slots that a match handed out, MUST NOT change what the cache has, nor how it answers."""
    return True


@rule(
    "MISUSE-13",
    on=(On.BEYOND,),
    source="design",
    reference="prefix.perform.match",
    allowed="nothing found, or an error",
    premise="units_found_lawfully",
)
def a_token_beyond_the_vocabulary_is_no_other_token(raised: bool, units_found_oddly: Tokens) -> bool:
    """A match of a key whose first page has a token below 0, or not below the profile's *vocabulary*, MUST find nothing, or raise."""
    return raised or units_found_oddly == 0
