"""The prefix tree: which prefixes are cached, and where.

The tree maps prefixes, in whole pages, to pages of the pool.  A **match** asks for the longest
cached prefix of a key; an **insert** adds the pages of a key that are missing and leaves those
that are there alone; a page whose parent isn't cached can't be reached, so the cached pages are
always closed under "the prefix before".

How an implementation groups pages into nodes is its own affair: a split or a merge changes
nothing that these rules can see.  The pages of different namespaces never meet.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

from kvlitmus.spec.interface import Begun, Hit, Stored
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import calls, effects, partial
from kvlitmus.spec.prefix.advance import (
    computed_pages,
    duplicate_pages,
    inserted_already,
    offered_by,
    offered_by_request,
)
from kvlitmus.spec.prefix.calls import Begin, End, Insert, Match, Publish, Slots
from kvlitmus.spec.prefix.page import Tier
from kvlitmus.spec.prefix.release import NONE, released
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.words.names import NO_NAME, Names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tokens, page_floor, page_slots, same

LOOKUPS = (On.MATCH, On.BEGIN)


def adds_exactly(
    before: Mapping[Name, PageNo], after: Mapping[Name, PageNo], missing: Sequence[Name], offered: Mapping[Name, PageNo]
) -> bool:
    """Whether exactly the missing pages were added, in the places that were offered, and nothing else moved."""
    return dict(after) == {**before, **{name: offered[name] for name in missing}}


@fact(0)
def key_names(state: State, call: Match | Begin | Insert[Slots] | Publish) -> Sequence[Name]:
    """The names of the key's prefixes, shortest first."""
    return (state.requests[call.rid].path if isinstance(call, Publish) else call.path).names


@fact(0)
def key_length(key_names: Sequence[Name]) -> Tokens:
    """Units of the key that was passed."""
    return Tokens(len(key_names))


@fact(0)
def match_length(answer: Hit | Begun) -> Tokens:
    """Units that the match or the request's beginning reports as cached."""
    return Tokens(answer.length if isinstance(answer, Hit) else answer.cached)


@fact(0)
def match_slots(answer: Hit | Begun) -> Sequence[Slot] | Unknown:
    """The slots of the match."""
    slots = answer.slots if isinstance(answer, Hit) else answer.row[: answer.cached]
    return UNKNOWN if slots is None else tuple(map(Slot, slots))


@fact(0)
def found_names(state: State, match_slots: Sequence[Slot], found: Sequence[Name] | None) -> Sequence[Name]:
    """What was written last into each of the returned slots: the name of a prefix."""
    return contents_of(state, match_slots) if found is None else found


def contents_of(state: State, slots: Sequence[Slot]) -> Sequence[Name]:
    """What was written last into each of these slots."""
    get = state.contents.get
    return [get(slot, NO_NAME) for slot in slots]


@fact(0)
def match_cap(setting: Setting, key_length: Tokens) -> Tokens:
    """The longest match that the profile allows for this key."""
    return setting.most_found(key_length) if setting.inside else setting.cap(key_length)


@fact(0)
def cached_pages_before(
    state: State, setting: Setting, then: State, call: Match | Begin | Insert[Slots] | Publish
) -> tuple[int, int]:
    """How many pages of the key are certainly found, and how many possibly, before the call; see ``match_ends`` of the profile.

    Where a lookup may let go of what is old, certain is what it has left, or without a snapshot what was protected.
    """
    if isinstance(call, Publish):
        paged = computed_pages(state.requests[call.rid], setting, call.upto)
        return partial.cached_range(state, paged)[0] if setting.filters else len(paged), len(paged)
    if isinstance(call, Match | Begin) and call.within is not None:
        return call.within.certain // setting.size, call.within.possible // setting.size
    sure, possible = partial.cached_range(state, call.path.pages)
    if setting.expires and isinstance(call, calls.LOOKUPS):
        pages = state.device.pages
        left = then.device.pages.keys() if setting.seen else [name for name in pages if pages[name].locks]
        sure = min(sure, next((at for at, name in enumerate(call.path.pages) if name not in left), sure))
    if setting.profile.match_ends == "node" and isinstance(call, calls.LOOKUPS):
        sure = effects.whole_nodes(state.device, call.path.pages[:sure])
    return sure, possible


@fact(0)
def hit_bound(call: Match | Begin | Insert[Slots] | Publish) -> str:
    """What bounds a hit, in words: of a cache of components which of them lack which ends for where it ends."""
    if not isinstance(call, Match | Begin) or call.within is None:
        return " and match_ends"
    lacking = "".join(
        [f"; {name} lacks what ends at {', '.join(map(str, ends))}" for name, ends in call.within.lacking]
    )
    return f", the largest admitted boundary that is valid for all components{lacking}"


@fact(0)
def certain_length(
    setting: Setting,
    call: Match | Begin | Insert[Slots] | Publish,
    cached_pages_before: tuple[int, int],
    match_cap: Tokens,
) -> Tokens:
    """Units of the key that are certainly cached, before the call."""
    units = cached_pages_before[0] * setting.size
    return Tokens(units if isinstance(call, calls.IN_LIFE) else min(units, page_floor(match_cap, setting.size)))


@fact(0)
def possible_length(
    setting: Setting,
    call: Match | Begin | Insert[Slots] | Publish,
    cached_pages_before: tuple[int, int],
    match_cap: Tokens,
) -> Tokens:
    """Units of the key that are possibly cached, before the call."""
    units = cached_pages_before[1] * setting.size
    if isinstance(call, calls.IN_LIFE):
        return Tokens(units)
    return Tokens(min(units + (setting.size - 1 if setting.inside else 0), match_cap))


@fact(0)
def inside_length(state: State, setting: Setting, call: Match | Begin, match_length: Tokens) -> Tokens:
    """Units behind the last whole page of a match with which a cached page there begins, where matches may end inside one."""
    whole = match_length // setting.size
    if not setting.inside or match_length % setting.size == 0 or whole > len(call.path.pages):
        return Tokens(0)
    return alike(state.device, setting.names, call.path, whole, setting.size)


def alike(tree: Tier, names: Names, path: calls.Path, whole: int, size: int) -> Tokens:
    """Units of a key behind so many whole pages with which a cached page there begins, the longest one."""
    above, begun = path.end(whole), set[Name]()
    for name, page in tree.pages.items():
        while page.parent == above != name:
            begun.add(name)
            name = names.parent(name)
    return Tokens(sum(1 for _ in takewhile(begun.__contains__, path.names[whole * size : (whole + 1) * size])))


@fact(0)
def reported_already(answer: Stored) -> Tokens:
    """Units that the insert reports as cached before."""
    return Tokens(answer.already)


@fact(0)
def to_free(setting: Setting, call: Insert[Slots], answer: Stored) -> frozenset[Slot]:
    """The slots that the insert hands back to the caller."""
    return frozenset(left_to_caller(setting, call, answer))


def left_to_caller(setting: Setting, call: Insert[Slots], answer: Stored) -> tuple[Slot, ...]:
    """The slots that the caller has to free: as told, or by the contract of the profile."""
    if answer.to_free is not None:
        return tuple(map(Slot, answer.to_free))
    if setting.profile.duplicates != "caller_frees":
        return ()
    return call.slots[call.protected : answer.already]


@fact(0)
def brought_twice(state: State, setting: Setting, call: Insert[Slots], answer: Stored) -> frozenset[PageNo]:
    """The pages of the insert that were brought for what was cached already, elsewhere."""
    return frozenset(duplicate_pages(state, setting, call, inserted_already(state, setting, call, answer)))


@fact(0)
def expected_to_free(setting: Setting, brought_twice: frozenset[PageNo]) -> frozenset[Slot]:
    """The slots of duplicates that are the caller's to free, as the profile declares."""
    if setting.profile.duplicates != "caller_frees":
        return frozenset()
    return frozenset(slot for page in brought_twice for slot in page_slots(page, setting.size))


@fact(3)
def duplicates(setting: Setting, brought_twice: frozenset[PageNo]) -> frozenset[PageNo]:
    """Duplicates that the cache is to free, as the profile declares."""
    return brought_twice if setting.profile.duplicates == "cache_frees" else frozenset()


@fact(3)
def missing_before(state: State, setting: Setting, call: Insert[Slots] | End, answer: Stored | None) -> Sequence[Name]:
    """Names of the key's whole pages that were not cached, before the call, in order."""
    if isinstance(call, Insert):
        assert answer is not None
        return call.path.pages[inserted_already(state, setting, call, answer) :]
    cached = state.device.pages
    return [name for name in _kept(state.requests[call.rid], setting, call) if name not in cached]


@fact(3)
def missing_taken(
    setting: Setting, call: Insert[Slots] | End, missing_before: Sequence[Name], cached_after: Mapping[Name, PageNo]
) -> Sequence[Name]:
    """Those of them that the call had to cache: all, or of a request the first ones, as far as a filter of the cache's own let them through."""
    if isinstance(call, Insert) or not setting.filters:
        return missing_before
    return [*takewhile(cached_after.__contains__, missing_before)]


@fact(3)
def offered(state: State, setting: Setting, call: Insert[Slots] | End) -> Mapping[Name, PageNo]:
    """What the insert offered for each whole page of the key: name to page."""
    if isinstance(call, Insert):
        return offered_by(call, setting)
    running = state.requests[call.rid]
    kept = _kept(running, setting, call)
    return dict(zip(kept, offered_by_request(running, setting, kept), strict=True))


def _kept(running: RequestState, setting: Setting, call: End) -> Sequence[Name]:
    """The whole pages that are cached at the end of a request."""
    return computed_pages(running, setting, call.upto) if call.keep else ()


# Rules

match_rule = functools.partial(rule, on=LOOKUPS, reference="prefix.perform.match")
insert_rule = functools.partial(rule, on=(On.INSERT,), reference="prefix.perform.insert")


@match_rule(
    "TREE-01",
    source="R-TR-01; sglang#10637, sglang#28692",
    allowed="a multiple of {page_size}, or {inside_length} more, by the profile's match_ends",
    premise="match_length",
)
def a_match_ends_at_a_page_boundary(match_length: Tokens, page_size: int, inside_length: Tokens) -> bool:
    """A match MUST cover whole pages only, and of another page no more than its beginning that a cached page shares, where the profile's match_ends lets it."""
    return match_length % page_size <= inside_length


@match_rule(
    "TREE-02",
    source="R-TR-01; nano-vllm#144",
    allowed="{certain_length} to {possible_length} units, by the profile's match_cap{hit_bound}",
)
def a_match_is_the_longest_cached_prefix(match_length: Tokens, certain_length: Tokens, possible_length: Tokens) -> bool:
    """A match MUST cover the longest cached prefix of the key that the profile's cap allows and at whose end every component has what it needs: no less, no more."""
    return certain_length <= match_length <= possible_length


@match_rule(
    "TREE-03",
    source="R-TR-01, R-TR-02; vllm#4764, nano-vllm#163",
    allowed="slots that hold exactly this prefix: {key_names}",
    premise="match_length",
)
def a_match_returns_the_kv_of_that_very_prefix(
    match_length: Tokens, match_slots: Sequence[Slot], found_names: Sequence[Name], key_names: Sequence[Name]
) -> bool:
    """Each slot of a match MUST hold the KV of the key's token at that position, after all tokens before it, in the key's namespace."""
    return len(match_slots) == match_length and same(found_names, key_names[:match_length])


@rule(
    "TREE-04",
    on=(On.MATCH, On.LOCK, On.UNLOCK),
    source="R-TR-04, R-TR-06, R-LK-04",
    reference="prefix.perform.match",
    allowed="the same pages cached and free as before, by the profile's expiry",
    premise="cached_before",
)
def looking_and_locking_move_nothing(
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    expired: AbstractSet[Name],
) -> bool:
    """A match, a lock or an unlock MUST NOT change what is cached or free, but for what the profile lets expire at a match; it may split nodes and note the use."""
    if not expired:
        return cached_before == cached_after and free_before == free_after
    gone = {cached_before[name] for name in expired}
    left = {name: page for name, page in cached_before.items() if name not in expired}
    return cached_after == left and free_after == free_before | gone


@rule(
    "TREE-05",
    needs=("lookup",),
    source="R-TR-01, R-EV-02, R-EV-05, R-HT-01 (S1, S2), R-PFC-07; H-28, sglang#27562, sglang#30106",
    reference="prefix.perform.in_order",
    allowed="{cut_off} cached where pages behind them are, by the profile's table_gaps",
)
def what_is_cached_can_be_reached(cut_off: Sequence[Name]) -> bool:
    """The parent of every cached page MUST be cached on the same tier too, unless the profile says that a block table
    leaves gaps. Under write-back the host may leave some.
    """
    return not cut_off


@rule(
    "TREE-06",
    needs=("lookup", "inspect"),
    source="R-TR-05, R-HOST-04, R-HOST-05; H-45, sglang#28692, sglang#36696",
    reference="prefix.perform.least_valuable",
    premise="cached_listed",
)
def nodes_form_a_trie_of_whole_pages(broken_nodes: Sequence[object], broken_pages: Sequence[object]) -> bool:
    """Nodes MUST be non-empty runs of whole pages. Siblings MUST differ in their first page. Each page's slots MUST be
    one whole page, on each tier. Work in flight MUST hold whole pages of the host.
    """
    return not broken_nodes and not broken_pages


@rule(
    "TREE-07",
    needs=("lookup",),
    source="R-TR-09; sglang#35270",
    reference="prefix.perform.free_pages",
    allowed="each page cached once",
    premise="cached_listed",
)
def one_page_is_cached_under_one_name(
    cached_listed: Sequence[PageNo], cached_places: AbstractSet[tuple[Name, PageNo]]
) -> bool:
    """A page MUST NOT be cached for two prefixes, nor a prefix in two pages; in a block table it may be in several."""
    return len(cached_listed) == len(cached_places) == len(set(cached_listed))


@rule(
    "TREE-08",
    on=(On.INSERT, On.FINISH),
    source="R-TR-07, R-TR-08, R-TR-10; sglang#38191",
    reference="prefix.perform.insert",
    allowed="what was cached, and the missing pages {missing_before} in the pages offered: {offered}",
    premise="missing_before",
)
def an_insert_adds_exactly_the_missing_pages(
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    missing_taken: Sequence[Name],
    offered: Mapping[Name, PageNo],
) -> bool:
    """An insert, or a request that finishes, MUST cache the missing whole pages in the slots that it brings, and leave every page that was cached where it is."""
    return adds_exactly(cached_before, cached_after, missing_taken, offered)


@insert_rule("TREE-09", source="R-TR-07; sglang-jax#1618", allowed="{certain_length} to {possible_length} units")
def an_insert_reports_what_was_cached_already(
    reported_already: Tokens, certain_length: Tokens, possible_length: Tokens
) -> bool:
    """An insert MUST report exactly how many units of the key were cached before."""
    return certain_length <= reported_already <= possible_length


@match_rule(
    "TREE-10",
    source="R-TR-03; sglang#10846, sglang#24371",
    allowed="at most {match_cap} units, by the profile's match_cap",
)
def a_match_is_never_longer_than_the_key(match_length: Tokens, match_cap: Tokens) -> bool:
    """A match MUST NOT be longer than the whole pages of the key, counted in units (one fewer than tokens for bigrams), nor than the profile's cap."""
    return match_length <= match_cap


@insert_rule(
    "TREE-11",
    source="R-TR-09, R-SWA-06; sglang-jax#1618, sglang#35270, sglang#27586",
    allowed="{expected_to_free} for the caller to free, by the profile's duplicates",
    premise="reported_already",
)
def an_insert_says_which_slots_are_duplicates(to_free: frozenset[Slot], expected_to_free: frozenset[Slot]) -> bool:
    """The slots that an insert leaves to its caller MUST be exactly those that were brought for pages cached already, as the profile declares."""
    return to_free == expected_to_free


@insert_rule(
    "TREE-12",
    source="R-TR-09",
    allowed="the free list as before, grown by exactly {duplicates}, by the profile's duplicates",
)
def an_insert_frees_nothing_but_duplicates(
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    duplicates: frozenset[PageNo],
    waiting_before: frozenset[PageNo],
    waiting_after: frozenset[PageNo],
) -> bool:
    """An insert MUST free nothing, except duplicates where the profile says that the cache frees them, and what waits for that in a release queue."""
    return released(free_before, duplicates, free_after, waiting_before if duplicates else NONE, waiting_after)


@rule(
    "TREE-13",
    needs=("tree", "inspect"),
    source="R-TR-11, R-HT-01; sglang#9776, sglang#18843",
    reference="prefix.perform.insert",
    allowed="the hit counts that the profile's hit_counts amount to",
    premise="node_hits",
)
def hits_are_counted_as_declared(node_hits: Sequence[tuple[int, int]]) -> bool:
    """A node's hit count MUST rise with each use that the profile counts, once, and with nothing else, whatever tier it is on; a chunk of the same request is no new use. What comes from storage begins without."""
    return all(seen == expected for seen, expected in node_hits)


@rule(
    "TREE-14",
    needs=("tree", "inspect"),
    source="R-TR-11, R-HT-01",
    reference="prefix.perform.insert",
    allowed="the highest priority that each page was given",
    premise="node_priorities",
)
def priority_only_rises(node_priorities: Sequence[tuple[int, int]]) -> bool:
    """A node's priority MUST be the highest with which any of its pages was inserted, whatever tier it is on."""
    return all(seen == expected for seen, expected in node_priorities)
