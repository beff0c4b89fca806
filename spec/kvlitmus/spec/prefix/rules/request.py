"""The life of a request: who owns which slots while it runs, and who frees them.

A request **begins** with a prompt: the cached prefix is locked and shared, and slots for the
rest are its own.  It **grows** by the tokens it generates, and its last tokens may be **taken back**.  It may be **forked**: a
second request shares what it shares, and goes on with copies of the rest.  It may be retracted **with a copy** on the host, and
be **resumed** with the KV that it had.  It may **publish** what it has
computed so far (between chunks of a long prompt): its whole pages become the tree's, stay
locked, and where another request was faster the request goes on with *that* request's slots.
Slots are there before anything is computed into them.  A caller that has not computed all of its
request says **up to** where it has; what is behind that is not published.
At its **end** it is *finished* (what was computed is cached), *aborted* or *retracted* (nothing
is), and in each case it owns nothing afterwards: cached pages are the tree's, all others free.

The tail that does not fill a page can't be cached: it stays the request's while it runs, and is
freed at its end.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from kvlitmus.spec.interface import Begun
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import partial
from kvlitmus.spec.prefix.advance import computed_pages, copied_from, copied_pages, dropped_by
from kvlitmus.spec.prefix.calls import Begin, End, Fork, Grow, Publish, Resume, Retract, TakeBack
from kvlitmus.spec.prefix.late_locks import late_locks
from kvlitmus.spec.prefix.memory_needed import growth_needs
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.rules import evict as _evict  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import pool as _pool  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules.tree import contents_of
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.spare_pages import unseen_in
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tokens, pages_needed, pages_of, same

ROWS = (On.BEGIN, On.GROW, On.FORK, On.RESUME, On.PUBLISH)
REFUSED = (On.REFUSED_BEGIN, On.REFUSED_GROW, On.REFUSED_FORK, On.REFUSED_RESUME)


@fact(0, before="request_before")
def request_after(expected: State, call: Begin | Grow | Fork | Resume | Publish | End | Retract) -> RequestState:
    """The request, after the call."""
    return expected.requests[call.rid]


@fact(0)
def row(request_after: RequestState) -> Sequence[Slot]:
    """The slots of the request, one per token, after the call."""
    return request_after.row


@fact(0)
def row_cached(request_after: RequestState) -> Tokens:
    """How many leading slots of the row are the tree's."""
    return Tokens(request_after.cached)


@fact(0)
def computed_slots(
    state: State, call: Begin | Grow | Fork | Resume | Publish, request_after: RequestState
) -> int | None:
    """How many slots of the row are computed, where that is not all of them."""
    if isinstance(call, Begin):
        return request_after.computed if call.ahead else None
    if isinstance(call, Fork | Resume):
        return copied_from(state, call).upto
    return call.upto if isinstance(call, Publish) else state.requests[call.rid].upto


@fact(0)
def row_names(
    expected: State, row: Sequence[Slot], computed_slots: int | None, row_found: Sequence[Name] | None
) -> Sequence[Name]:
    """What is written in the row's computed slots, in order."""
    return contents_of(expected, row[:computed_slots]) if row_found is None else row_found


@fact(0)
def request_names(request_after: RequestState) -> Sequence[Name]:
    """The names of all prefixes of the request's tokens."""
    return request_after.path.tokens


@fact(0)
def computed_names(request_names: Sequence[Name], computed_slots: int | None) -> Sequence[Name]:
    """The names of the prefixes of the request's computed tokens."""
    return request_names[:computed_slots]


@fact(0)
def computed_length(request_before: RequestState, call: Publish | End) -> Tokens:
    """Units of the request up to which the call says that it is computed."""
    units = len(request_before.path.names)
    return Tokens(units if call.upto is None else min(call.upto, units))


@fact(0)
def uncomputed_pages(request_before: RequestState, setting: Setting, call: Publish | End) -> frozenset[PageNo]:
    """The request's own pages in which not every slot is computed, by what the call says."""
    whole = len(computed_pages(request_before, setting, call.upto)) * setting.size
    return pages_of(request_before.row[max(request_before.cached, whole) :], setting.size)


@fact(0)
def request_pages(request_before: RequestState, setting: Setting) -> frozenset[PageNo]:
    """Pages that the request owned alone before it ended, spare ones included."""
    return pages_of(request_before.row[request_before.cached :], setting.size) | request_before.spare


@fact(0)
def dropped_pages(state: State, setting: Setting, call: TakeBack) -> frozenset[PageNo]:
    """The request's pages that lie wholly behind the tokens that are left to it."""
    return dropped_by(state, setting, call)


@fact(0)
def request_wanted(state: State, setting: Setting, call: Begin | Grow | Fork | Resume) -> Tokens:
    """Slots of the pages that the request needs at most beyond what it has, shares or is certain to find cached, and of those that a beginning must leave."""
    size = setting.size
    if isinstance(call, Fork | Resume):
        return Tokens((copied_pages(state, setting, call) + setting.spare_pages) * size)
    if isinstance(call, Grow):
        return Tokens(growth_needs(state, setting, call) * size)
    paged = call.path.pages[: setting.cap(len(call.path.names)) // size]
    profile = setting.profile  # what it finds may count as available, too, or be less than what is cached
    counted = setting.table or profile.evict_moment == "alloc" or profile.match_ends == "node"
    found = 0 if counted else partial.cached_range(state, paged)[0]
    beside = profile.watermark + setting.spare_pages
    return Tokens((pages_needed(len(call.path.key.tokens), size) - found + beside) * size)


@fact(0)
def fits_alone(setting: Setting, state: State, call: Begin) -> bool | Unknown:
    """Whether the request needs no more pages than the pool has beside those that are in its way: owned by callers and requests, waiting in a release queue, protected, or, where a beginning need not evict, cached.

    Of block tables and hierarchies it is only asked when nothing runs or is protected; what is under way in a hierarchy
    isn't known without a snapshot.
    """
    tiers, profile, pages = state.tiers, setting.profile, state.device.pages
    if setting.config.tiered:
        if tiers is None:
            return UNKNOWN
        if tiers.work or tiers.failing or tiers.fault is not None or tiers.starved:
            return False
    may_evict = profile.evict_moment == "alloc"
    if setting.config.tiered or setting.table:
        if state.receipts or state.requests or (pages and not may_evict):
            return False
        cached = 0
    else:
        late = late_locks(state, state.device)
        cached = sum(1 for name, page in pages.items() if page.locks or name in late) if may_evict else len(pages)
    needed = pages_needed(len(call.path.key.tokens), setting.size) + profile.evict_slack + profile.watermark
    waiting = 0 if setting.reclaims else len(waiting_in(state))
    spare = setting.spare_pages + unseen_in(state, setting)
    return needed + spare + cached + len(state.owners) + waiting <= len(setting.usable)


@fact(0)
def forked_row(state: State, call: Fork) -> Sequence[Slot]:
    """The slots of the request that is forked."""
    return copied_from(state, call).row


@fact(0)
def shared_slots(state: State, call: Fork) -> Sequence[Slot]:
    """Those of them that it shares."""
    one = copied_from(state, call)
    return one.row[: one.cached]


@fact(0)
def host_memory_known(state: State, setting: Setting, call: Retract) -> bool | Unknown:
    """Whether the pages that the host would have for retracted requests are no more than it has had for them before.

    In a hierarchy other work may be in their place, so there it isn't known.
    """
    if setting.config.tiered:
        return UNKNOWN
    parked, row = state.retracted, state.requests[call.rid].row
    return parked.pages(setting.size) + pages_needed(len(row), setting.size) <= parked.most


@fact(0)
def admitted(answer: Begun | None) -> bool:
    """Whether the request has begun."""
    return answer is not None


@fact(3)
def unreachable_names(
    request_after: RequestState, setting: Setting, call: Begin | Fork | Resume | Publish, after: Seen
) -> Sequence[Name]:
    """Names of the request's cached part that are not cached, or elsewhere, after the call."""
    size, row = setting.size, request_after.row
    upto = call.upto if isinstance(call, Publish) else None
    shared = computed_pages(request_after, setting, upto)[: request_after.cached // size]
    if setting.table:
        found = after.places()
        return [
            name
            for at, name in enumerate(shared)
            if at * size >= len(row) or found.get(PageNo(row[at * size] // size)) != name
        ]
    cached = after.cached
    return [
        name for at, name in enumerate(shared) if at * size >= len(row) or cached.get(name) != row[at * size] // size
    ]


# Rules

begin_rule = functools.partial(rule, reference="prefix.perform.begin")
publish_rule = functools.partial(rule, reference="prefix.perform.publish")
end_rule = functools.partial(rule, reference="prefix.perform.end")


@begin_rule(
    "REQ-01", on=ROWS, source="R-TR-10; mini-sglang#142, nano-vllm#211", allowed="one slot for each of {request_names}"
)
def a_request_has_one_slot_for_each_token(row: Sequence[Slot], request_names: Sequence[Name]) -> bool:
    """After beginning, growing, being forked or resumed, or publishing, a request MUST have exactly one slot for each of its tokens, none twice."""
    return len(row) == len(request_names) and len(set(row)) == len(row)


@publish_rule("REQ-02", on=ROWS, source="R-TR-10; mini-sglang#142", allowed="slots that hold {computed_names}")
def a_request_reads_its_own_kv(row_names: Sequence[Name], computed_names: Sequence[Name]) -> bool:
    """When a request begins, grows, is forked, resumed or published, every computed slot of it MUST hold the KV of its own token at that position."""
    return same(row_names, computed_names)


@publish_rule(
    "REQ-03",
    on=(On.BEGIN, On.FORK, On.RESUME, On.PUBLISH),
    source="R-TR-10; mini-sglang#142",
    allowed="the tree's own slots for the first {row_cached} tokens",
    premise="row_cached",
)
def the_cached_part_of_a_request_is_the_trees(unreachable_names: Sequence[Name]) -> bool:
    """The leading slots that a request shares MUST be the very slots under which the tree caches them."""
    return not unreachable_names


@publish_rule(
    "REQ-04",
    on=(On.PUBLISH,),
    source="R-TR-07, R-TR-10; vllm#29387, vllm#38715",
    allowed="the whole pages of {computed_length} units cached, by the profile's admission, and the rest in the slots it had",
)
def publishing_caches_every_whole_page(
    row_cached: Tokens,
    certain_length: Tokens,
    computed_length: Tokens,
    page_size: int,
    row: Sequence[Slot],
    row_before: Sequence[Slot],
) -> bool:
    """Publishing MUST cache all whole pages of the request up to where it is computed, or those that the profile's
    admission lets through, and no other. The rest MUST stay the request's own, in the same slots.
    """
    whole = row_cached % page_size == 0 and certain_length <= row_cached <= computed_length
    return whole and same(row[row_cached:], row_before[row_cached:])


@end_rule(
    "REQ-07",
    on=(On.END, On.RETRACT),
    source="R-TR-10; sglang#19518, sglang#12224, TensorRT-LLM#15018",
    allowed="each of {request_pages} free or cached, or waiting where the profile has a release_delay",
    premise="request_pages",
)
def an_ended_request_owns_nothing(
    request_pages: frozenset[PageNo],
    free_after: frozenset[PageNo],
    cached_listed: Sequence[PageNo],
    waiting_after: frozenset[PageNo],
) -> bool:
    """Every page that an ended or retracted request owned alone MUST be free or cached afterwards, and not both; where the profile has a release queue, it may wait there to be free."""
    cached = request_pages.intersection(cached_listed)
    free = request_pages & (free_after | waiting_after)
    return cached.isdisjoint(free) and cached | free == request_pages


@end_rule(
    "REQ-09",
    on=(On.ABORT, On.RETRACT),
    source="R-TR-10; vllm#43569, vllm#45498",
    allowed="what was cached before, unchanged",
    premise="cached_before",
)
def aborting_caches_nothing(cached_before: Mapping[Name, PageNo], cached_after: Mapping[Name, PageNo]) -> bool:
    """Aborting or retracting a request MUST neither add to what is cached nor take from it."""
    return cached_before == cached_after


@begin_rule(
    "REQ-10",
    on=REFUSED,
    source="R-DEV-03; vllm#11565, sglang#16067",
    allowed="{available_before} available, evictions aside, and nobody's pages touched",
)
def a_refused_request_leaves_nothing_behind(
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    vanished: frozenset[Name],
) -> bool:
    """A request that can't begin, grow, be forked or resumed for want of memory MUST leave everything as it was, except for what was evicted in the attempt."""
    victims = {cached_before[name] for name in vanished}
    kept = {name: page for name, page in cached_before.items() if name not in vanished}
    return free_after == free_before | victims and cached_after == kept


@publish_rule(
    "REQ-11",
    on=(On.PUBLISH,),
    source="R-TR-09, R-TR-10; sglang#1858",
    allowed="nothing lost: every page the request owned is now cached, free or still its own",
    premise="request_pages",
)
def publishing_loses_no_page(
    request_pages: frozenset[PageNo],
    owned_after: frozenset[PageNo],
    free_after: frozenset[PageNo],
    cached_listed: Sequence[PageNo],
    waiting_after: frozenset[PageNo],
) -> bool:
    """Every page that a request owned before publishing MUST be cached, free or still its own afterwards, or wait to be free."""
    return request_pages <= owned_after.union(free_after, cached_listed, waiting_after)


@end_rule(
    "REQ-13",
    on=(On.PUBLISH_UPTO, On.END_UPTO),
    source="R-TR-10; vllm#29387, vllm#38715",
    allowed="none of the pages {uncomputed_pages} cached",
    premise="uncomputed_pages",
)
def nothing_is_cached_that_was_not_computed(
    uncomputed_pages: frozenset[PageNo], cached_listed: Sequence[PageNo]
) -> bool:
    """A page of a request in which a slot was not computed MUST NOT become cached."""
    return uncomputed_pages.isdisjoint(cached_listed)


@begin_rule(
    "REQ-14",
    on=REFUSED,
    needs=("pool",),
    source="R-DEV-01, R-DEV-03; vllm#11565",
    allowed="{request_wanted} slots granted or left, by the profile's watermark, since {available_before} were available",
)
def a_request_is_refused_only_when_memory_is_short(request_wanted: Tokens, available_before: Tokens) -> bool:
    """A request MUST NOT be refused while the pool says that as much is available as it needs to grow, be forked or resumed, or to begin and leave the profile's watermark."""
    return request_wanted > available_before


@begin_rule(
    "REQ-15",
    on=(On.BEGIN, On.REFUSED_BEGIN),
    source="R-DEV-03, R-EV-01; vllm#11565",
    allowed="a beginning, since what the pool has beside it suffices",
    premise="fits_alone",
)
def what_fits_the_empty_cache_is_admitted(fits_alone: bool, admitted: bool) -> bool:
    """A request MUST begin where the pool has what it needs and the profile's watermark, beside what is owned or protected; where a beginning doesn't evict, once its caller has evicted what is cached."""
    return admitted or not fits_alone


@rule(
    "REQ-16",
    on=(On.TAKE_BACK,),
    source="transformers#47433, transformers#48509, mlx-lm#1494",
    reference="prefix.rows.take_back",
    allowed="{dropped_pages} free, or waiting where the profile has a release_delay",
    premise="dropped_pages",
)
def what_is_taken_back_comes_free(
    dropped_pages: frozenset[PageNo], free_after: frozenset[PageNo], waiting_after: frozenset[PageNo]
) -> bool:
    """When tokens of a request are taken back, each page that lies wholly behind what is left MUST be free afterwards; where the profile has a release queue, it may wait there."""
    return dropped_pages <= free_after | waiting_after


@rule(
    "REQ-17",
    on=(On.TAKE_BACK,),
    source="transformers#47433, transformers#48509, mlx-lm#1494",
    reference="prefix.rows.take_back",
    allowed="the slots of {dropped_pages}",
)
def taking_back_tells_what_came_free(told_units: Tokens, dropped_pages: frozenset[PageNo], page_size: int) -> bool:
    """Taking tokens back MUST return the number of slots in the pages that lie wholly behind what is left, and of no other."""
    return told_units == len(dropped_pages) * page_size


@rule(
    "REQ-18",
    on=(On.FORK,),
    source="TensorRT-LLM#14945, transformers#42921, llama.cpp#3802",
    reference="prefix.rows.copied",
    allowed="{shared_slots}, and no other of {forked_row}",
)
def a_fork_shares_what_is_shared(
    forked_row: Sequence[Slot], shared_slots: Sequence[Slot], row: Sequence[Slot], row_cached: Tokens
) -> bool:
    """A forked request MUST share the slots that the request which it is forked of shares, and no other slot of it."""
    return same(row[:row_cached], shared_slots) and set(row[row_cached:]).isdisjoint(forked_row)


@rule(
    "REQ-19",
    on=(On.RETRACT, On.REFUSED_RETRACT),
    source="vllm#588, vllm#787; sglang#40729",
    reference="prefix.rows.retract",
    allowed="a retraction, since the host has had as many pages for retracted requests before",
    premise="host_memory_known",
)
def what_the_host_had_room_for_it_has_room_for(host_memory_known: bool, said_yes: bool) -> bool:
    """A request MUST be retracted where the host has had as many pages for retracted requests before: what was resumed or discarded is free there. In a hierarchy other work may be in their place."""
    return said_yes or not host_memory_known
