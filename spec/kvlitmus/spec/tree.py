"""The prefix tree: which prefixes are cached, and where.

The tree maps prefixes, in whole pages, to pages of the pool.  A **match** asks for the longest
cached prefix of a key; an **insert** adds the pages of a key that are missing and leaves those
that are there alone; a page whose parent isn't cached can't be reached, so the cached pages are
always closed under "the prefix before".

How an implementation groups pages into nodes is its own affair: a split or a merge changes
nothing that these rules can see.  The pages of different namespaces never meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.rule import Kind, rule
from kvlitmus.spec.units import Name, PageNo, Slot, Tokens, same

LOOKUPS = ("match", "begin")


def adds_exactly(
    before: Mapping[Name, PageNo], after: Mapping[Name, PageNo], missing: Sequence[Name], offered: Mapping[Name, PageNo]
) -> bool:
    """Whether exactly the missing pages were added, in the places that were offered, and nothing else moved."""
    return dict(after) == {**before, **{name: offered[name] for name in missing}}


@rule(
    "TREE-01",
    kind=Kind.STEP,
    on=LOOKUPS,
    source="R-TR-01; sglang#10637, sglang#28692",
    reference="tree.match",
    allowed="a multiple of {page_size}",
)
def a_match_ends_at_a_page_boundary(match_length: Tokens, page_size: int) -> bool:
    """A match MUST cover whole pages only."""
    return match_length % page_size == 0


@rule(
    "TREE-02",
    kind=Kind.STEP,
    on=LOOKUPS,
    source="R-TR-01; nano-vllm#144",
    reference="tree.match",
    allowed="{certain_length} to {possible_length} units",
)
def a_match_is_the_longest_cached_prefix(match_length: Tokens, certain_length: Tokens, possible_length: Tokens) -> bool:
    """A match MUST cover the longest cached prefix of the key that the profile's cap allows: no less, no more."""
    return certain_length <= match_length <= possible_length


@rule(
    "TREE-03",
    kind=Kind.STEP,
    on=LOOKUPS,
    source="R-TR-01, R-TR-02; vllm#4764, nano-vllm#163",
    reference="tree.match",
    allowed="slots that hold exactly this prefix: {key_names}",
)
def a_match_returns_the_kv_of_that_very_prefix(
    match_length: Tokens, match_slots: Sequence[Slot], found_names: Sequence[Name], key_names: Sequence[Name]
) -> bool:
    """Each slot of a match MUST hold the KV of the key's token at that position, after all tokens before it, in the key's namespace."""
    return len(match_slots) == match_length and same(found_names, key_names[:match_length])


@rule(
    "TREE-04",
    kind=Kind.STEP,
    on=("match",),
    source="R-TR-04, R-TR-06",
    reference="tree.match",
    allowed="the same pages cached and free as before",
)
def a_match_moves_nothing(
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
) -> bool:
    """A match MUST NOT change what is cached or free; it may split nodes and note the use."""
    return cached_before == cached_after and free_before == free_after


@rule("TREE-05", kind=Kind.STATE, needs=("tree",), source="R-TR-01, R-EV-02; sglang#27562", reference="tree.is_closed")
def what_is_cached_can_be_reached(parents: frozenset[Name], cached_after: Mapping[Name, PageNo]) -> bool:
    """The parent of every cached page MUST be cached too."""
    return cached_after.keys() >= parents


@rule(
    "TREE-06",
    kind=Kind.STATE,
    needs=("tree", "inspect"),
    source="R-TR-05, R-HOST-04; sglang#28692, sglang#36696",
    reference="tree.node_of",
)
def nodes_form_a_trie_of_whole_pages(broken_nodes: Sequence[object], broken_pages: Sequence[object]) -> bool:
    """Nodes MUST be non-empty runs of whole pages, siblings MUST differ in their first page, and each page's slots MUST be one whole page."""
    return not broken_nodes and not broken_pages


@rule(
    "TREE-07",
    kind=Kind.STATE,
    needs=("tree",),
    source="R-TR-09; sglang#35270",
    reference="cache.homes",
    allowed="each page cached once",
)
def one_page_is_cached_under_one_name(cached_listed: Sequence[PageNo], cached_after: Mapping[Name, PageNo]) -> bool:
    """A page MUST NOT be cached for two prefixes, nor a prefix in two pages."""
    return len(cached_listed) == len(cached_after) == len(set(cached_listed))


@rule(
    "TREE-08",
    kind=Kind.STEP,
    on=("insert",),
    source="R-TR-07, R-TR-08",
    reference="tree.insert",
    allowed="what was cached, and the missing pages {missing_before} in the pages offered: {offered}",
)
def an_insert_adds_exactly_the_missing_pages(
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    missing_before: Sequence[Name],
    offered: Mapping[Name, PageNo],
) -> bool:
    """An insert MUST cache the key's missing pages in the slots it was given, and leave every page that was cached where it is."""
    return adds_exactly(cached_before, cached_after, missing_before, offered)


@rule(
    "TREE-09",
    kind=Kind.STEP,
    on=("insert",),
    source="R-TR-07; sglang-jax#1618",
    reference="tree.insert",
    allowed="{certain_length} to {possible_length} units",
)
def an_insert_reports_what_was_cached_already(
    reported_already: Tokens, certain_length: Tokens, possible_length: Tokens
) -> bool:
    """An insert MUST report exactly how many units of the key were cached before."""
    return certain_length <= reported_already <= possible_length


@rule(
    "TREE-10",
    kind=Kind.STEP,
    on=LOOKUPS,
    source="R-TR-03; sglang#10846, sglang#24371",
    reference="tree.match",
    allowed="at most {match_cap} units",
)
def a_match_is_never_longer_than_the_key(match_length: Tokens, match_cap: Tokens) -> bool:
    """A match MUST NOT be longer than the whole pages of the key, counted in units (one fewer than tokens for bigrams), nor than the profile's cap."""
    return match_length <= match_cap


@rule(
    "TREE-11",
    kind=Kind.STEP,
    on=("insert",),
    source="R-TR-09; sglang-jax#1618, sglang#35270",
    reference="tree.insert",
    allowed="{expected_to_free} for the caller to free",
)
def an_insert_says_which_slots_were_brought_in_vain(
    to_free: frozenset[Slot], expected_to_free: frozenset[Slot]
) -> bool:
    """The slots that an insert leaves to its caller MUST be exactly those that were brought for pages cached already, as the profile declares."""
    return to_free == expected_to_free


@rule(
    "TREE-12",
    kind=Kind.STEP,
    on=("insert",),
    source="R-TR-09",
    reference="tree.insert",
    allowed="the free list as before, grown by exactly {duplicates}",
)
def an_insert_frees_nothing_but_duplicates(
    free_before: frozenset[PageNo], free_after: frozenset[PageNo], duplicates: frozenset[PageNo]
) -> bool:
    """An insert MUST free nothing, except the pages brought in vain where the profile says that the cache frees them."""
    return free_after == free_before | duplicates


@rule(
    "TREE-13",
    kind=Kind.STATE,
    needs=("tree", "inspect"),
    source="R-TR-11; sglang#9776, sglang#18843",
    reference="tree.insert",
    allowed="the hit counts that the profile's hit_counts amount to",
)
def hits_are_counted_as_declared(node_hits: Sequence[tuple[int, int]]) -> bool:
    """A node's hit count MUST rise with each use that the profile counts, once, and with nothing else; a chunk of the same request is no new use."""
    return all(seen == expected for seen, expected in node_hits)


@rule(
    "TREE-14",
    kind=Kind.STATE,
    needs=("tree", "inspect"),
    source="R-TR-11",
    reference="tree.insert",
    allowed="the highest priority that each page was given",
)
def priority_only_rises(node_priorities: Sequence[tuple[int, int]]) -> bool:
    """A node's priority MUST be the highest with which any of its pages was inserted."""
    return all(seen == expected for seen, expected in node_priorities)
