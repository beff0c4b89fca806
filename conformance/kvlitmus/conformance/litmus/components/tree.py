"""Litmus tests on a cache of components: boundaries, tombstones, sparse states, locks, grants, evictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.tree import give_left, together, use
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.shapes import Point, Run, Window
from kvlitmus.spec.words.units import Key

NEEDS = ("components",)
ALL = 0xFF
"""Everything that an engine comes by is brought, of every component."""
WINDOWS = ("kv+swa", "kv+swa+state")
STATES = ("kv+state", "kv+swa+state")
ANY_ENTRIES: Mapping[str, object] = {
    "component_points": "any",
    "component_grants": frozenset({"each", "paired"}),
}


def store(checker: Checker, key: Key, kept: int = ALL) -> None:
    """Serve a request for a key; ``kept``: what of the components beside the KV.

    The hit is locked: what is evicted to make room must not be what the insert goes on from.
    """
    use(checker, key, kept)


def bring(checker: Checker, key: Key, ends: Mapping[str, Sequence[int]]) -> None:
    """Cache a key with entries that end after so many pages, in as many inserts as it takes.

    Whoever inserts brings the KV of everything behind the hit, so each finds its part of the key first, and
    nothing is evicted in between.
    """
    base = checker.setting.layout.base.name
    for part, some in inserts(checker, key, ends):
        hit, whole = components.match(checker, part)[0] // checker.size, len(part.units) // checker.size
        some_ends = {**some, base: sorted({*some.get(base, ()), *range(hit + 1, whole + 1)})}
        granted = components.alloc(checker, {name: len(some) for name, some in some_ends.items()})
        if granted is None:
            return
        size = checker.size
        entries = {
            name: dict(zip([at * size for at in some_ends[name]], granted[name], strict=False)) for name in granted
        }
        give_left(checker, components.insert(checker, part, entries))


def inserts(
    checker: Checker, key: Key, ends: Mapping[str, Sequence[int]]
) -> Iterator[tuple[Key, Mapping[str, Sequence[int]]]]:
    """The inserts by which these entries are brought, each with its part of the key.

    Where windows come with KV, one ends with the window before a page that has none; where states are brought for the
    end of a key, one ends with each state.
    """
    layout, profile = checker.setting.layout, checker.setting.profile
    if profile.component_grants == "each" and profile.component_points == "any":
        yield key, ends
        return
    windows = [one.name for one in layout.components if isinstance(one.shape, Window)]
    states = [one.name for one in layout.components if isinstance(one.shape, Point)]
    pages, first = list(ends[layout.base.name]), 0
    for at, page in enumerate(pages, 1):
        after = pages[at] if at < len(pages) else None
        gap = any(page in ends.get(name, ()) and after not in ends.get(name, ()) for name in windows)
        if after is None or gap or any(page in ends.get(name, ()) for name in states):
            mine = pages[first:at]
            more = 1 if key.bigram else 0
            part = Key(key.namespace, key.tokens[: page * checker.size + more], key.bigram)
            yield part, {name: [one for one in some if one in mine] for name, some in ends.items()}
            first = at


def locked(checker: Checker, key: Key, receipt: int) -> int:
    """Match a key and lock what was found."""
    length, handle = components.match(checker, key)
    components.lock(checker, key, length, handle, receipt)
    return length


def evict_all(checker: Checker) -> None:
    """Evict as much of every component as its pool has."""
    layout = checker.setting.layout
    for one in reversed(layout.components):
        components.evict(checker, {one.name: layout.places[one.pool]})


@litmus(rules=("TREE-02", "TREE-03", "COMP-12", "COMP-13"), needs=NEEDS)
def an_empty_cache_of_components_has_nothing(checker: Checker) -> None:
    """Nothing is found, nothing can be evicted, and a receipt for the root covers nothing."""
    components.match(checker, prompt(checker, ""))
    components.match(checker, prompt(checker, "abc"))
    evict_all(checker)
    locked(checker, prompt(checker, "ab"), 0)
    components.unlock(checker, 0)


@litmus(
    rules=("TREE-02", "TREE-03", "POOL-01", "POOL-04", "POOL-10", "TREE-11", "COMP-15", "POOL-12"),
    needs=NEEDS,
)
def what_was_stored_is_found_whole(checker: Checker) -> None:
    """A key is found with the entries of every component, with a tail behind it and under its own namespace alone."""
    for ways in ("abcd", "abce"):
        store(checker, prompt(checker, ways))
    for ways in ("abcd", "abce", "abc", "ab", "a", "abcdx", "bcd"):
        components.match(checker, prompt(checker, ways))
    components.match(checker, prompt(checker, "abcd", tail=1))
    components.match(checker, prompt(checker, "abcd", namespace="other"))


@litmus(rules=("TREE-02", "TREE-11", "COMP-12"), needs=NEEDS, layouts=(*WINDOWS, "kv+chunk", "kv+index"))
def an_insert_recovers_a_tombstone(checker: Checker) -> None:
    """Entries beside the KV go; the hit shrinks; the same key is computed again, and is found whole."""
    layout = checker.setting.layout
    second = layout.components[1].name
    key = prompt(checker, "abcde")
    store(checker, key)
    components.evict(checker, {second: 2})
    components.match(checker, key)
    components.evict(checker, {second: layout.places[layout.components[1].pool]})
    components.match(checker, key)
    store(checker, key)
    components.match(checker, key)
    evict_all(checker)


@litmus(rules=("TREE-02", "TREE-03"), needs=NEEDS, layouts=WINDOWS, profile=ANY_ENTRIES)
def a_window_must_fill_after_a_gap(checker: Checker) -> None:
    """The window is there from the root on, then not, then again: after the gap a whole window must have come."""
    names = [one.name for one in checker.setting.layout.components]
    pages = list(range(1, 7))
    ends = {"kv": pages, "swa": [1, 2, 4, 5, 6]} | ({"state": [1, 4, 5]} if "state" in names else {})
    bring(checker, prompt(checker, "abcdef"), ends)
    for many in pages:
        components.match(checker, prompt(checker, "abcdef"[:many]))


@litmus(rules=("TREE-02",), needs=NEEDS, layouts=("groups+chunk",))
def a_window_of_several_blocks_must_be_whole(checker: Checker) -> None:
    """Of a window that reaches back to the fourth page, the blocks after the sixth and the eighth are there.

    Then that after the fourth is there, too, and one that the window has left behind is not.
    """
    key = prompt(checker, "abcdefgh")
    bring(checker, key, {"kv": list(range(1, 9)), "swa": [2, 6, 8], "state": [8]})
    components.match(checker, key)
    evict_all(checker)
    bring(checker, key, {"kv": list(range(1, 9)), "swa": [4, 6, 8], "state": [8]})
    components.match(checker, key)


@litmus(rules=("TREE-02",), needs=NEEDS, layouts=("kv+swa",), profile={"window_root": "shorter"})
def near_the_root_a_window_may_be_short(checker: Checker) -> None:
    """A prefix that is shorter than the window is usable, since there is nothing before it."""
    store(checker, prompt(checker, "a"))
    components.match(checker, prompt(checker, "ab"))


@litmus(rules=("TREE-02",), needs=NEEDS, layouts=("kv+swa",), profile={"window_root": "full"})
def near_the_root_a_window_must_be_full(checker: Checker) -> None:
    """A prefix that is shorter than the window is of no use, as the profile says; one that is longer is."""
    store(checker, prompt(checker, "a"))
    components.match(checker, prompt(checker, "a"))
    store(checker, prompt(checker, "abc"))
    components.match(checker, prompt(checker, "abc"))


@litmus(rules=("TREE-02", "TREE-03"), needs=NEEDS, layouts=STATES)
def states_are_sparse(checker: Checker) -> None:
    """States after the second and the fourth page: a key of three pages, and one that parts there, hit two."""
    names = [one.name for one in checker.setting.layout.components]
    pages = [1, 2, 3, 4]
    ends = {"kv": pages, "state": [2, 4]} | ({"swa": pages} if "swa" in names else {})
    bring(checker, prompt(checker, "abcd"), ends)
    for ways in ("abcd", "abc", "abcx", "ab", "a", "abcde"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("TREE-02", "TREE-03"), needs=NEEDS, layouts=STATES)
def a_split_leaves_the_state_behind(checker: Checker) -> None:
    """A key parts from a longer one: the state of the longer is not that of what both have."""
    names = [one.name for one in checker.setting.layout.components]
    more = {"swa": [1, 2, 3, 4]} if "swa" in names else {}
    bring(checker, prompt(checker, "abcd"), {"kv": [1, 2, 3, 4], "state": [4]} | more)
    components.match(checker, prompt(checker, "abx"))
    store(checker, prompt(checker, "abxy"))
    for ways in ("abxy", "abcd", "ab", "abc"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("TREE-02",), needs=NEEDS, layouts=("kv+swa+state",), profile={**ANY_ENTRIES, "component_grants": "each"})
def a_hit_is_an_intersection(checker: Checker) -> None:
    """The window can go on at the fourth page, the state at the third and the sixth: no boundary is good for both.

    The least of what each reaches alone would be five pages, of which neither is true for the state.
    """
    bring(checker, prompt(checker, "abcdef"), {"kv": [1, 2, 3, 4, 5, 6], "swa": [4, 5], "state": [3, 6]})
    components.match(checker, prompt(checker, "abcdef"))
    components.match(checker, prompt(checker, "abcde"))
    bring(checker, prompt(checker, "abcdef"), {"kv": [1, 2, 3, 4, 5, 6], "swa": [6]})
    components.match(checker, prompt(checker, "abcdef"))


@litmus(rules=("TREE-02", "COMP-10"), needs=NEEDS, layouts=("kv+chunk",))
def a_chunk_needs_nothing_before_it(checker: Checker) -> None:
    """At a multiple of the chunk nothing of it is needed; behind it all since then."""
    bring(checker, prompt(checker, "abcdefg"), {"kv": [1, 2, 3, 4, 5, 6, 7], "chunk": [1, 4, 5, 7]})
    for many in range(1, 8):
        locked(checker, prompt(checker, "abcdefg"[:many]), many)
        components.unlock(checker, many)


@litmus(rules=("COMP-10", "COMP-12", "COMP-13", "LOCK-01"), needs=NEEDS)
def a_lock_holds_what_its_boundary_needs(checker: Checker) -> None:
    """While a path is locked, all that can go is what it doesn't need; afterwards everything can."""
    key = prompt(checker, "abcd")
    store(checker, key)
    locked(checker, key, 0)
    evict_all(checker)
    components.match(checker, key)
    locked(checker, prompt(checker, "ab"), 1)
    components.unlock(checker, 0)
    evict_all(checker)
    components.match(checker, key)
    components.unlock(checker, 1)
    evict_all(checker)
    components.match(checker, key)


@litmus(rules=("COMP-12", "COMP-13"), needs=NEEDS)
def a_path_locked_twice_is_held_by_each(checker: Checker) -> None:
    """Two receipts for one path: giving one back frees nothing, giving back the other everything."""
    key = prompt(checker, "abc")
    store(checker, key)
    locked(checker, key, 0)
    locked(checker, key, 1)
    for receipt in (0, 1):
        components.unlock(checker, receipt)
        evict_all(checker)
        components.match(checker, key)


@litmus(rules=("COMP-12", "COMP-13"), needs=NEEDS)
def a_receipt_gives_back_what_it_covers(checker: Checker) -> None:
    """The path grows and loses entries while it is locked; the receipt still gives back just what it took."""
    layout = checker.setting.layout
    key = prompt(checker, "abcdef")
    store(checker, prompt(checker, "abcd"))
    locked(checker, key, 0)
    for one in layout.components[1:]:
        components.evict(checker, {one.name: layout.places[one.pool]})
    store(checker, key)
    components.unlock(checker, 0)
    locked(checker, key, 1)
    components.unlock(checker, 1)
    evict_all(checker)
    components.match(checker, key)


@litmus(rules=("POOL-01", "POOL-04", "POOL-07", "POOL-10"), needs=NEEDS)
def a_grant_is_for_all_or_for_none(checker: Checker) -> None:
    """One component asks for more than there is: nothing is granted; then each pool is emptied to its last place."""
    layout = checker.setting.layout
    for one in layout.components:
        wants = {other.name: 1 for other in layout.components}
        wants[one.name] = layout.places[one.pool] + 1
        components.alloc(checker, together(checker, wants))
    pools = {one.pool: one.name for one in layout.components}
    wants = {name: layout.places[pool] for pool, name in pools.items()}
    granted = components.alloc(checker, wants)
    components.alloc(checker, dict.fromkeys(pools.values(), 1))
    if granted is not None:
        components.free(checker, granted)


@litmus(rules=("POOL-01", "POOL-04"), needs=NEEDS, layouts=("groups",))
def what_shares_a_pool_is_summed(checker: Checker) -> None:
    """Each component alone would fit in the pool, all together don't."""
    pool = checker.setting.layout.places["blocks"]
    half = pool // 2 + 1
    components.alloc(checker, {"kv": half, "swa": half})
    granted = components.alloc(checker, {"kv": pool // 2, "swa": 1, "state": pool - pool // 2 - 1})
    if granted is not None:
        components.free(checker, granted)


@litmus(rules=("COMP-12", "COMP-13", "LOCK-01", "COMP-16", "TREE-05", "COMP-19"), needs=NEEDS)
def the_kv_goes_from_its_end(checker: Checker) -> None:
    """The first pages were used longest ago, but the KV behind them needs them; what goes with the KV goes."""
    base = checker.setting.layout.base.name
    store(checker, prompt(checker, "abcd"))
    store(checker, prompt(checker, "abcdef"))
    for _ in range(3):
        components.evict(checker, {base: 1})
        components.match(checker, prompt(checker, "abcdef"))
    components.evict(checker, {base: 2})


@litmus(rules=("COMP-12", "COMP-13"), needs=NEEDS)
def components_go_one_by_one(checker: Checker) -> None:
    """An entry of each component in turn; the KV goes from its end."""
    layout = checker.setting.layout
    for ways in ("abcd", "abxy"):
        store(checker, prompt(checker, ways))
    for _ in range(3):
        for one in reversed(layout.components):
            components.evict(checker, {one.name: 1})
            components.match(checker, prompt(checker, "abcd"))
    components.evict(checker, {one.name: 2 for one in layout.components})
    evict_all(checker)


@litmus(rules=("TREE-02",), needs=NEEDS, profile=ANY_ENTRIES)
def what_is_brought_twice_is_left(checker: Checker) -> None:
    """Two callers compute the same: the second keeps what it brought for what is there, and may give it back."""
    layout = checker.setting.layout
    key = prompt(checker, "ab")
    runs = {one.name: [1, 2] for one in layout.components if isinstance(one.shape, Run)}
    bring(checker, key, runs)
    bring(checker, key, runs | {one.name: [2] for one in layout.components[1:]})
    components.match(checker, key)
    bring(checker, key, {one.name: [2] for one in layout.components})
    components.match(checker, key)


@litmus(rules=("COMP-12", "COMP-13"), needs=NEEDS)
def a_reset_forgets_receipts(checker: Checker) -> None:
    """A key is locked when the cache is reset, and is cached again: nothing protects it, and all of it can go."""
    key = prompt(checker, "abc")
    store(checker, key)
    locked(checker, key, 0)
    components.reset(checker)
    store(checker, key)
    components.match(checker, key)
    evict_all(checker)
    components.match(checker, key)


@litmus(rules=("POOL-01", "POOL-04"), needs=NEEDS)
def after_a_reset_all_is_free(checker: Checker) -> None:
    """Entries, loans and receipts are forgotten: nothing is found, and each pool can be emptied."""
    layout = checker.setting.layout
    store(checker, prompt(checker, "abc"))
    locked(checker, prompt(checker, "abc"), 0)
    components.alloc(checker, {layout.base.name: 1})
    components.reset(checker)
    components.match(checker, prompt(checker, "abc"))
    pools = {one.pool: one.name for one in layout.components}
    components.alloc(checker, {name: layout.places[pool] for pool, name in pools.items()})
