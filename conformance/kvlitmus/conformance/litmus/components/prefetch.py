"""Litmus tests on prefetches of several components: admission, anchors, what is read, commits, aborts, running I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.conformance.checker.calls.components import prefetch as fetches
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.components.tree import STATES, WINDOWS, bring, evict_all, locked, store
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key

NEEDS = ("components", "component_prefetch")
EACH = {"component_grants": "each"}
"""A prefetch has buffers of its own for each component; it isn't asked of caches whose windows come with the KV."""
APART = ("kv+swa", "kv+state", "kv+swa+state", "kv+chunk", "kv+index")
"""The layouts with a pool for each component."""
SHARED = ("groups", "groups+chunk")


def begin(checker: Checker, key: Key, *, threshold: int = 0, number: int = 0) -> bool:
    """Match a key and begin to fetch what is behind the hit, at least so many pages."""
    length, handle = components.match(checker, key)
    return fetches.prefetch(checker, key, length, handle, threshold * checker.size, number)


def ends(checker: Checker, **pages: Collection[int]) -> dict[str, list[int]]:
    """Entries that end after so many pages."""
    return {name: [page * checker.size for page in some] for name, some in pages.items()}


def everything(checker: Checker, key: Key) -> dict[str, list[int]]:
    """Storage has everything of a key."""
    units = len(key.units)
    return {one.name: list(range(one.unit, units + 1, one.unit)) for one in checker.setting.layout.components}


def read_of(checker: Checker, number: int = 0) -> dict[str, list[int]]:
    """All that a prefetch reads."""
    return {name: list(some) for name, some in checker.state.fetches[number].reads.items()}


def fetch(checker: Checker, key: Key, stored: Mapping[str, Collection[int]] | None = None, *, number: int = 0) -> None:
    """Fetch a key whole: begin, read, and commit what came when the I/O has ended."""
    if begin(checker, key, number=number):
        fetches.found(checker, number, everything(checker, key) if stored is None else stored)
        finish(checker, read_of(checker, number), number=number)


def finish(checker: Checker, came: Mapping[str, Collection[int]], *, number: int = 0) -> None:
    """The I/O ends, and what came is committed."""
    if checker.state.fetches[number].running:
        fetches.settled(checker, number)
    fetches.commit(checker, number, came)


def take_all_but(checker: Checker, name: str, left: int) -> dict[str, tuple[int, ...]]:
    """Take so much of a component's pool that so many places are left, if it has more."""
    layout = checker.setting.layout
    granted = components.alloc(checker, {name: max(0, layout.places[layout.named(name).pool] - left)})
    return dict(granted or {})


def without(came: Mapping[str, Collection[int]], name: str, number: int) -> dict[str, Collection[int]]:
    """What came, but for the entry of a component that has this number, if so many were read."""
    return {**came, name: [end for at, end in enumerate(came.get(name, ())) if at != number]}


@litmus(
    rules=("COMP-20", "COMP-21", "POOL-04", "COMP-26", "COMP-27", "COMP-28", "COMP-29"),
    needs=NEEDS,
    profile=EACH,
)
def what_is_stored_is_fetched_whole(checker: Checker) -> None:
    """A key is fetched from the root, then a longer one behind it; each is found with all its components."""
    key = prompt(checker, "abcd")
    fetch(checker, key)
    components.match(checker, key)
    longer = prompt(checker, "abcdefgh")
    fetch(checker, longer)
    for ways in ("abcdefgh", "abcd", "abcx"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("COMP-22", "COMP-23", "COMP-13"), needs=NEEDS, profile=EACH)
def below_the_threshold_nothing_happens(checker: Checker) -> None:
    """Two pages are behind the hit and four are asked for: a refusal, with full pools too, and nothing is evicted."""
    key = prompt(checker, "ab")
    begin(checker, key, threshold=4)
    store(checker, prompt(checker, "xyzw"))
    base = checker.setting.layout.base.name
    while components.alloc(checker, {base: 1}) is not None:
        pass
    begin(checker, key, threshold=4)


@litmus(rules=("COMP-20", "COMP-21", "COMP-22", "COMP-23", "COMP-13"), needs=NEEDS, profile=EACH, layouts=APART)
def the_kv_is_cut_to_what_there_is(checker: Checker) -> None:
    """Three pages are free and five are stored: three are fetched, with the state or the window of the third.

    Where four are asked for, or none is free, the prefetch is refused.
    """
    key = prompt(checker, "abcde")
    take_all_but(checker, "kv", 3)
    begin(checker, key, threshold=4)
    fetch(checker, key)
    components.match(checker, key)
    begin(checker, key, number=1)


@litmus(rules=("COMP-20", "COMP-21", "COMP-22", "COMP-23"), needs=NEEDS, profile=EACH, layouts=APART)
def a_third_allocation_can_fail(checker: Checker) -> None:
    """Not even one page of KV is free: the prefetch is refused, and everything else is as it was."""
    key = prompt(checker, "abcde")
    given = take_all_but(checker, "kv", 0)
    begin(checker, key)
    components.free(checker, given)
    if begin(checker, key):
        fetches.abort(checker, 0)


@litmus(rules=("COMP-12", "COMP-22"), needs=NEEDS, profile=EACH, layouts=STATES)
def a_refusal_lets_the_anchor_go(checker: Checker) -> None:
    """Behind a hit whose state is read no other state is to be had: after the refusal the anchor can be evicted."""
    store(checker, prompt(checker, "ab"))
    while components.alloc(checker, {"state": 1}) is not None:
        pass
    locked(checker, prompt(checker, "ab"), 0)
    begin(checker, prompt(checker, "abcd"))
    components.unlock(checker, 0)
    evict_all(checker)


@litmus(rules=("COMP-21", "COMP-22", "COMP-23", "COMP-13"), needs=NEEDS, profile=EACH, layouts=STATES)
def a_state_is_there_or_nothing_is(checker: Checker) -> None:
    """No state is free: the prefetch is refused whatever there is of KV; with one state it starts, short of KV too."""
    key = prompt(checker, "abcde")
    given = take_all_but(checker, "state", 0)
    begin(checker, key)
    components.free(checker, given)
    take_all_but(checker, "state", 1)
    take_all_but(checker, "kv", 4)
    fetch(checker, key)
    components.match(checker, key)


@litmus(
    rules=("COMP-21", "COMP-22", "COMP-23", "COMP-13", "COMP-26"),
    needs=NEEDS,
    profile=EACH,
    layouts=("kv+swa",),
    min_page=2,
)
def a_short_prefetch_needs_no_window(checker: Checker) -> None:
    """No window is free: what is as long as one is refused whole, what is shorter goes on with its KV."""
    take_all_but(checker, "swa", 1)
    begin(checker, prompt(checker, "abcde"))
    key = prompt(checker, "a")
    fetch(checker, key)
    components.match(checker, key)


@litmus(
    rules=("COMP-21", "COMP-26", "COMP-27"),
    needs=NEEDS,
    profile={**EACH, "component_fetch_window": "root"},
    layouts=("kv+swa",),
    min_page=2,
)
def near_the_root_a_window_is_what_there_is(checker: Checker) -> None:
    """One page is fetched with the one page of its window, and behind it two with two: no less is a window there."""
    fetch(checker, prompt(checker, "a"))
    longer = prompt(checker, "abcd")
    fetch(checker, longer, ends(checker, kv=(2, 3, 4), swa=(1, 2)))
    fetch(checker, longer, ends(checker, kv=(2, 3, 4), swa=(2, 3)))
    components.match(checker, longer)


@litmus(
    rules=("COMP-21", "COMP-22"),
    needs=NEEDS,
    profile={**EACH, "component_fetch_window": "root"},
    layouts=("kv+swa",),
    min_page=2,
)
def near_the_root_a_window_is_cut_with_the_kv(checker: Checker) -> None:
    """There is KV for one page alone: of the window of a longer key no more is taken than that page has."""
    take_all_but(checker, "kv", 1)
    begin(checker, prompt(checker, "xyz"))


@litmus(
    rules=("COMP-21", "COMP-26", "COMP-27", "COMP-29", "TREE-02"),
    needs=NEEDS,
    profile={**EACH, "component_fetch_window": "anchor"},
    layouts=("kv+swa",),
    min_page=2,
)
def behind_an_anchor_a_window_is_what_is_missing(checker: Checker) -> None:
    """Behind a page with its window one page is fetched with one page of the window, and hits end there then."""
    fetch(checker, prompt(checker, "a"))
    longer = prompt(checker, "abcd")
    fetch(checker, longer, ends(checker, kv=(2,), swa=(2,)))
    components.match(checker, longer)
    fetch(checker, longer, ends(checker, kv=(3, 4), swa=(4,)))
    fetch(checker, longer)
    components.match(checker, longer)


@litmus(rules=("COMP-22", "COMP-23", "COMP-13"), needs=NEEDS, profile=EACH)
def one_eviction_makes_room(checker: Checker) -> None:
    """All pools are full of what was cached: what the prefetch needs goes, once, and nothing is taken less."""
    for ways in ("abcde", "fghij", "klmno", "pqrst"):
        store(checker, prompt(checker, ways))
    fetch(checker, prompt(checker, "uvwxyz"))
    components.match(checker, prompt(checker, "uvwxyz"))
    fetch(checker, prompt(checker, "ABCDE"))
    components.match(checker, prompt(checker, "ABCDE"))


@litmus(rules=("COMP-22", "COMP-23", "COMP-13"), needs=NEEDS, profile=EACH)
def what_no_eviction_makes_is_not_missed(checker: Checker) -> None:
    """Two pages are cached and all other KV is somebody's: there is no room for four, whether or not any are evicted.

    Where fewer are worth it, what goes makes room for them.
    """
    store(checker, prompt(checker, "ab"))
    base = checker.setting.layout.base.name
    while components.alloc(checker, {base: 1}) is not None:
        pass
    key = prompt(checker, "uvwxyz")
    begin(checker, key, threshold=4)
    begin(checker, key)


@litmus(rules=("COMP-22", "COMP-23"), needs=NEEDS, profile=EACH, layouts=("kv+swa",), min_page=2)
def room_that_a_window_lacks_is_not_missed(checker: Checker) -> None:
    """KV could make room for two pages, which need a window, and there is none: one page goes on without, or none."""
    store(checker, prompt(checker, "abc"))
    components.evict(checker, {"swa": 3})
    take_all_but(checker, "swa", 0)
    places = checker.setting.layout.places["kv"]
    components.alloc(checker, {"kv": places - 4})
    begin(checker, prompt(checker, "uv"))


@litmus(rules=("COMP-20", "COMP-21", "COMP-22", "COMP-23"), needs=NEEDS, profile=EACH, layouts=SHARED)
def what_shares_a_pool_is_summed_for_a_prefetch(checker: Checker) -> None:
    """Each component alone has room in the pool, all together don't: the KV is cut by what the others need."""
    key = prompt(checker, "abcdefgh")
    given = take_all_but(checker, "kv", 9)
    begin(checker, key)
    components.free(checker, given)
    given = take_all_but(checker, "kv", 5)
    begin(checker, key, number=1)
    for number in list(checker.state.fetches):
        fetches.abort(checker, number)


@litmus(rules=("COMP-12", "COMP-13", "LOCK-01", "COMP-29"), needs=NEEDS, profile=EACH)
def the_anchor_stays_and_its_state_may_go(checker: Checker) -> None:
    """While something is fetched behind a hit its KV stays; what other components have there can be evicted."""
    anchor, key = prompt(checker, "abcd"), prompt(checker, "abcdefgh")
    store(checker, anchor)
    if begin(checker, key):
        evict_all(checker)
        components.match(checker, anchor)
        fetches.found(checker, 0, everything(checker, key))
        finish(checker, read_of(checker))
        components.match(checker, key)
    evict_all(checker)
    store(checker, anchor)
    if begin(checker, key):
        fetches.abort(checker, 0)
    evict_all(checker)


@litmus(rules=("LOCK-01", "COMP-22", "COMP-23"), needs=NEEDS, profile=EACH, layouts=("kv+swa", "kv+state", "kv+index"))
def a_prefetch_does_not_evict_its_own_anchor(checker: Checker) -> None:
    """The anchor alone is cached, and longest ago: the prefetch behind it is cut short and leaves it alone."""
    anchor = prompt(checker, "abcd")
    store(checker, anchor)
    base = checker.setting.layout.base.name
    while components.alloc(checker, {base: 1}) is not None:
        pass
    begin(checker, prompt(checker, "abcdefgh"))
    components.match(checker, anchor)


@litmus(rules=("COMP-26", "COMP-27", "COMP-28"), needs=NEEDS, profile=EACH, layouts=("kv+swa+state",))
def what_is_read_is_an_intersection(checker: Checker) -> None:
    """Storage can restore the window at the fifth page, the state at the third and the sixth: together nothing.

    The least of what each can do would be the fifth page, for which there is no state.  It is read once there is one.
    """
    key = prompt(checker, "abcdef")
    pages = [1, 2, 3, 4, 5, 6]
    fetch(checker, key, ends(checker, kv=pages, swa=[4, 5], state=[3, 6]))
    components.match(checker, key)
    fetch(checker, key, ends(checker, kv=pages, swa=[4, 5], state=[3, 5, 6]))
    components.match(checker, key)


@litmus(rules=("COMP-26", "COMP-27"), needs=NEEDS, profile=EACH, layouts=("kv+swa",))
def a_clipped_window_is_no_window(checker: Checker) -> None:
    """Of a window of two pages storage has the last one: it can't be restored there, nor near the anchor."""
    key = prompt(checker, "abcd")
    pages = [1, 2, 3, 4]
    fetch(checker, key, ends(checker, kv=pages, swa=[2, 4]))
    fetch(checker, key, ends(checker, kv=pages, swa=[1, 4]))
    fetch(checker, key, ends(checker, kv=pages, swa=[1, 2, 4]))
    components.match(checker, key)


@litmus(rules=("COMP-26", "COMP-27", "COMP-28"), needs=NEEDS, profile=EACH)
def of_what_is_not_named_there_is_nothing(checker: Checker) -> None:
    """Storage names the KV alone; then nothing at all; then nothing is said of what came."""
    key = prompt(checker, "abcdefgh")
    for stored in ({"kv": everything(checker, key)["kv"]}, {}):
        fetch(checker, key, stored)
        evict_all(checker)
    for named in ((), ("kv",)):
        if begin(checker, key):
            fetches.found(checker, 0, everything(checker, key))
            reads = read_of(checker)
            finish(checker, {name: reads.get(name, ()) for name in named})
            components.match(checker, key)


@litmus(rules=("COMP-26", "COMP-27"), needs=NEEDS, profile=EACH)
def what_is_not_worth_it_is_not_read(checker: Checker) -> None:
    """Four pages and more are worth it, and storage has two: nothing is read."""
    key = prompt(checker, "abcdefgh")
    if begin(checker, key, threshold=4):
        fetches.found(checker, 0, everything(checker, prompt(checker, "ab")))
        finish(checker, read_of(checker))
    components.match(checker, key)


@litmus(rules=("COMP-26", "COMP-27", "COMP-29"), needs=NEEDS, profile=EACH)
def what_is_read_ends_where_storage_ends(checker: Checker) -> None:
    """Storage has half of the key: the window or the state of that boundary is read, and the rest is given back."""
    key, half = prompt(checker, "abcdefgh"), prompt(checker, "abcd")
    fetch(checker, key, everything(checker, half))
    components.match(checker, key)
    components.match(checker, half)


@litmus(rules=("TREE-02", "COMP-26", "COMP-27", "COMP-28", "COMP-29"), needs=NEEDS, profile=EACH, layouts=STATES)
def a_state_stays_with_its_position(checker: Checker) -> None:
    """The state of the sixth page was read and three pages of KV came: it is given back, no hit ends at the third."""
    key = prompt(checker, "abcdef")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        came = read_of(checker)
        came["kv"] = came.get("kv", [])[:3]
        finish(checker, came)
    components.match(checker, key)
    components.match(checker, prompt(checker, "abc"))


@litmus(rules=("TREE-02", "COMP-28", "COMP-29"), needs=NEEDS, profile=EACH, layouts=WINDOWS)
def a_part_of_a_window_is_given_back(checker: Checker) -> None:
    """One page of a window is lost: the KV is cached, the window given back whole, and no hit ends there.

    When the window is computed for it one does.
    """
    key = prompt(checker, "abcde")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        finish(checker, without(read_of(checker), "swa", 0))
    components.match(checker, key)
    components.match(checker, prompt(checker, "abcdef"))
    store(checker, key)
    components.match(checker, key)


@litmus(rules=("COMP-15", "COMP-28", "COMP-29"), needs=NEEDS, profile=EACH, layouts=("kv+swa",))
def a_commit_fills_tombstones_alone(checker: Checker) -> None:
    """Meanwhile somebody computed the key, with a page of the window that is fetched: the other one is filled."""
    key = prompt(checker, "abcd")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        bring(checker, key, {"kv": [1, 2, 3, 4], "swa": [2, 4]})
        finish(checker, read_of(checker))
    components.match(checker, key)
    components.match(checker, prompt(checker, "ab"))


@litmus(rules=("COMP-28", "COMP-29"), needs=NEEDS, profile=EACH, layouts=("kv+index",))
def a_missing_index_clamps_the_kv(checker: Checker) -> None:
    """All of the KV came and of the index keys the second page did not: one page is cached of either."""
    key = prompt(checker, "abcd")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        finish(checker, without(read_of(checker), "index", 1))
    components.match(checker, key)


@litmus(rules=("COMP-28", "COMP-29"), needs=NEEDS, profile=EACH)
def a_hole_in_the_kv_ends_it(checker: Checker) -> None:
    """The second page of KV was lost and those behind it came: one page is cached, and all else given back."""
    key = prompt(checker, "abcdefgh")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        finish(checker, without(read_of(checker), "kv", 1))
    components.match(checker, key)


@litmus(rules=("POOL-04", "COMP-29"), needs=NEEDS, profile=EACH)
def nothing_is_reused_while_it_is_written(checker: Checker) -> None:
    """Committed and aborted while the I/O still runs: all that is free is granted, and none of what may be written."""
    key = prompt(checker, "abcd")
    base = checker.setting.layout.base.name
    for stops in (True, False):
        if not begin(checker, key):
            return
        fetches.found(checker, 0, everything(checker, key))
        if stops:
            came = {name: some[:1] for name, some in read_of(checker).items()}
            fetches.commit(checker, 0, came)
        else:
            fetches.abort(checker, 0)
        loans = []
        while (granted := components.alloc(checker, {base: 1})) is not None:
            loans.append(granted)
        if 0 in checker.state.fetches:
            fetches.settled(checker, 0)
        for loan in loans:
            components.free(checker, loan)
        evict_all(checker)


@litmus(rules=("COMP-29",), needs=NEEDS, profile=EACH)
def an_abort_returns_everything(checker: Checker) -> None:
    """Aborted before storage has answered, while it is read, and when it was: all comes back, once."""
    key = prompt(checker, "abcd")
    for stage in range(3):
        if not begin(checker, key):
            return
        if stage:
            fetches.found(checker, 0, everything(checker, key))
        if stage == 2:
            fetches.settled(checker, 0)
        fetches.abort(checker, 0)
        if stage == 1:
            fetches.settled(checker, 0)
        components.match(checker, key)


@litmus(rules=("COMP-15", "COMP-28", "COMP-29"), needs=NEEDS, profile=EACH)
def a_key_parts_while_it_is_fetched(checker: Checker) -> None:
    """Meanwhile another key is cached that shares the first pages: what is fetched goes where it belongs."""
    key, other = prompt(checker, "abcd"), prompt(checker, "abxy")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        store(checker, other)
        finish(checker, read_of(checker))
    components.match(checker, key)
    components.match(checker, other)


@litmus(rules=("POOL-04", "COMP-28", "COMP-29"), needs=NEEDS, profile=EACH)
def a_key_is_fetched_twice(checker: Checker) -> None:
    """Two prefetches of one key: each has places of its own, and the second to be committed gives all of them back."""
    key = prompt(checker, "abcd")
    begun = [number for number in (0, 1) if begin(checker, key, number=number)]
    for number in begun:
        fetches.found(checker, number, everything(checker, key))
    for number in begun:
        finish(checker, read_of(checker, number), number=number)
    components.match(checker, key)
