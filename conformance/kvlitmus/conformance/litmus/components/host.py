"""Litmus tests on host memory of components: backups, loads back, copies under way, evictions."""

from __future__ import annotations

from collections.abc import Mapping

from kvlitmus.conformance.checker.calls.components import host as copies
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.tree import together, use
from kvlitmus.conformance.litmus.components.tree import ALL, ANY_ENTRIES, STATES, WINDOWS, bring, evict_all, locked
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.units import Key

NEEDS = ("components", "component_host")
HYBRID = ("kv+swa+state",)
ENDS = 0x55
"""Of the components beside the KV what the end of a key needs is cached, and no more."""


def back_up(checker: Checker, key: Key, *, number: int = 0) -> bool:
    """Match a key and begin to back up what was found."""
    length, handle = components.match(checker, key)
    return copies.back_up(checker, key, length, handle, number)


def load(checker: Checker, key: Key, *, number: int = 0) -> int:
    """Match a key and begin to load back what is behind the hit; up to which boundary."""
    length, handle = components.match(checker, key)
    return copies.load(checker, key, length, handle, number)


def beginning(checker: Checker, key: Key, pages: int) -> Key:
    """The first pages of a key, of bigrams with the token that the last of them ends in."""
    return key._replace(tokens=key.tokens[: pages * checker.size + key.bigram])


def end(checker: Checker, *, number: int = 0, ok: bool = True) -> None:
    """A copy ends, if it has begun."""
    if number in checker.state.under_way:
        copies.copied(checker, number, ok)


def backed(checker: Checker, key: Key, kept: int = ALL) -> None:
    """Compute a key, cache it, and back it up; ``kept``: what of the components beside the KV."""
    use(checker, key, kept)
    back_up(checker, key)
    end(checker)


def evict_host(checker: Checker, wants: Mapping[str, int] | None = None) -> None:
    """Evict from the host as much of every component as its pool has, or so much."""
    layout = checker.setting.layout
    everything = {one.name: layout.host[one.pool] for one in reversed(layout.components)}
    for name, many in (everything if wants is None else wants).items():
        copies.evict_host(checker, {name: many})


@litmus(
    rules=("COMP-32", "LOAD-11", "POOL-04", "COMP-29", "POOL-10", "COMP-15", "POOL-12", "COMP-19"),
    needs=NEEDS,
)
def what_is_backed_up_comes_back_whole(checker: Checker) -> None:
    """A key is backed up, evicted from the device, loaded back, and found as it was, with all its components."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    evict_all(checker)
    components.match(checker, key)
    load(checker, key)
    components.match(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("COMP-32", "COMP-36"), needs=NEEDS)
def only_what_is_missing_is_copied(checker: Checker) -> None:
    """A key is backed up twice, a longer one behind it: nothing is copied, then what the longer one adds."""
    backed(checker, prompt(checker, "ab"))
    back_up(checker, prompt(checker, "ab"))
    end(checker)  # nothing, unless a copy of nothing was begun
    backed(checker, prompt(checker, "abcd"))
    evict_all(checker)
    for ways in ("ab", "abcd"):
        load(checker, prompt(checker, ways))
        end(checker)
        components.match(checker, prompt(checker, ways))
        load(checker, prompt(checker, ways))


@litmus(rules=("COMP-32", "LOAD-11"), needs=NEEDS, layouts=STATES, profile=ANY_ENTRIES)
def a_state_alone_is_worth_a_load_back(checker: Checker) -> None:
    """All KV is on the device, and only the state of the end has gone: it is loaded back, and nothing else."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    components.evict(checker, {"state": 4})
    load(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("COMP-32", "LOAD-11"), needs=NEEDS, layouts=WINDOWS, profile=ANY_ENTRIES)
def a_window_comes_back_whole(checker: Checker) -> None:
    """A part of the window has gone from the device, then all of it: what is missing is loaded back, and no more."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    for many in (1, 4):
        components.evict(checker, {"swa": many})
        load(checker, key)
        end(checker)
        components.match(checker, key)


@litmus(rules=("LOAD-11",), needs=NEEDS, layouts=HYBRID, profile=ANY_ENTRIES)
def a_load_back_ends_where_both_tiers_can_together(checker: Checker) -> None:
    """The host has the window and the device the state: together they have the key, and neither has it alone."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    copies.evict_host(checker, {"state": 4})
    components.evict(checker, {"swa": 4})
    load(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("COMP-36",), needs=NEEDS, layouts=HYBRID, profile=ANY_ENTRIES)
def the_least_of_all_is_no_boundary(checker: Checker) -> None:
    """There is a state of the fourth page, and a window of the third: at the third there is no state to load back."""
    key = prompt(checker, "abcd")
    bring(checker, key, {"kv": range(1, 5), "swa": range(1, 4), "state": [4]})
    load(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("LOCK-01", "COMP-12", "COMP-13"), needs=NEEDS)
def what_a_backup_reads_stays(checker: Checker) -> None:
    """While a key is backed up both tiers are emptied: what is read stays, and the copy lands whole."""
    key = prompt(checker, "abcd")
    backed(checker, prompt(checker, "ab"))
    use(checker, key, ALL)
    back_up(checker, key)
    evict_all(checker)
    evict_host(checker)
    end(checker)
    evict_all(checker)
    load(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("LOCK-01", "COMP-12", "COMP-13"), needs=NEEDS)
def what_a_load_back_reads_stays(checker: Checker) -> None:
    """While a key is loaded back both tiers are emptied: neither its beginning nor what is read goes."""
    key = prompt(checker, "abcd")
    backed(checker, prompt(checker, "ab"))
    backed(checker, key)
    evict_all(checker)
    load(checker, prompt(checker, "ab"))
    end(checker)
    load(checker, key)
    evict_host(checker)
    evict_all(checker)
    end(checker)
    components.match(checker, key)
    evict_host(checker)


@litmus(rules=("COMP-29", "POOL-10", "COMP-15", "COMP-16"), needs=NEEDS)
def a_copy_that_fails_leaves_everything_as_it_was(checker: Checker) -> None:
    """A backup fails, and later a load back: nothing of them is found or lost, and both succeed the second time."""
    key = prompt(checker, "abc")
    use(checker, key, ALL)
    for ok in (False, True):
        back_up(checker, key)
        end(checker, ok=ok)
    evict_all(checker)
    for ok in (False, True):
        load(checker, key)
        end(checker, ok=ok)
        components.match(checker, key)
    evict_host(checker)


@litmus(rules=("COMP-15", "COMP-29"), needs=NEEDS)
def who_computes_meanwhile_is_first(checker: Checker) -> None:
    """A key is computed and cached while it is loaded back: what is cached stays, what was brought goes back."""
    key = prompt(checker, "abc")
    backed(checker, key)
    evict_all(checker)
    load(checker, key)
    use(checker, key, ALL)
    end(checker)
    components.match(checker, key)


@litmus(rules=("COMP-12", "COMP-13"), needs=NEEDS)
def a_receipt_does_not_cover_what_is_loaded_back(checker: Checker) -> None:
    """What only the first half of a locked key needs has gone and is loaded back: the receipt is nothing to it."""
    key = prompt(checker, "abcd")
    half = beginning(checker, key, 2)
    backed(checker, half)
    backed(checker, key)
    locked(checker, key, 0)
    for one in checker.setting.layout.components[1:]:
        components.evict(checker, {one.name: checker.setting.layout.places[one.pool]})
    load(checker, half)
    end(checker)
    components.unlock(checker, 0)
    evict_all(checker)
    components.match(checker, key)


@litmus(rules=("COMP-29", "COMP-15"), needs=NEEDS)
def two_backups_land_once(checker: Checker) -> None:
    """A key is backed up twice at once, then a longer one: what lands second gives back what is there."""
    key = prompt(checker, "abcd")
    use(checker, key, ALL)
    back_up(checker, key, number=0)
    back_up(checker, key, number=1)
    end(checker, number=1)
    end(checker, number=0)
    evict_host(checker)


@litmus(rules=("COMP-13", "POOL-10"), needs=NEEDS)
def a_full_host_evicts_once(checker: Checker) -> None:
    """Key after key is backed up until the host is full: what nothing protects makes room, and what is read doesn't."""
    for first in "abcdefgh":
        key = prompt(checker, f"{first}xyz")
        backed(checker, key)
    evict_all(checker)
    load(checker, key)
    end(checker)


@litmus(rules=("POOL-10", "COMP-36"), needs=NEEDS)
def a_refusal_takes_nothing(checker: Checker) -> None:
    """A component has no place left on the device, and none to evict: the load back is refused, and takes nothing."""
    layout = checker.setting.layout
    key = prompt(checker, "abcd")
    backed(checker, key)
    evict_all(checker)
    last = layout.components[-1]
    taken = components.alloc(checker, together(checker, {last.name: layout.places[last.pool]}))
    load(checker, key)
    if taken is not None:
        components.free(checker, taken)
    load(checker, key)
    end(checker)
    components.match(checker, key)
    evict_all(checker)
    evict_host(checker)


@litmus(rules=("COMP-36", "COMP-13", "POOL-10"), needs=NEEDS)
def a_refused_backup_takes_nothing(checker: Checker) -> None:
    """So many backups are under way that the host is full: the next is refused whole, and goes when they failed."""
    keys = [prompt(checker, f"{first}bcd") for first in "aefg"]
    for number, key in enumerate(keys):
        use(checker, key, ALL)
        back_up(checker, key, number=number)
    key = prompt(checker, "abcd")
    back_up(checker, key, number=len(keys))
    for number in copies.copies(checker.state):
        end(checker, number=number, ok=False)
    backed(checker, key)


@litmus(rules=("COMP-36", "COMP-13", "POOL-10"), needs=NEEDS)
def a_refused_backup_says_what_it_has_evicted(checker: Checker) -> None:
    """Half of the host is evictable, and copies of one key take the rest: the last finds too little to evict."""
    layout = checker.setting.layout
    half = layout.host[layout.base.pool] // 2
    for pages in (2, 8):
        backed(checker, prompt(checker, "z" * half), ENDS)
        evict_all(checker)
        key, begun = prompt(checker, "abcdefgh"[:pages]), 0
        use(checker, key, ENDS)
        while begun < half and back_up(checker, key, number=begun):
            begun += 1
        for number in copies.copies(checker.state):
            end(checker, number=number, ok=False)
        evict_host(checker)
        evict_all(checker)


@litmus(rules=("POOL-10", "COMP-36", "COMP-13"), needs=NEEDS, profile={**ANY_ENTRIES, "component_grants": "each"})
def a_refused_load_back_says_what_it_has_evicted(checker: Checker) -> None:
    """The last component has no place left that could be evicted, and another one has: the load back is refused."""
    layout = checker.setting.layout
    key = prompt(checker, "abcd")
    backed(checker, key)
    evict_all(checker)
    last, base = layout.components[-1], layout.base
    pages = 2 if last.pool == base.pool else layout.places[base.pool]
    use(checker, prompt(checker, "z" * pages), ENDS)
    if last.pool != base.pool:
        components.evict(checker, {last.name: layout.places[last.pool]})
    free = checker.state.free.get(DEVICE, layout.places)[last.pool]
    taken = components.alloc(checker, {last.name: free})
    load(checker, key)
    if taken is not None:
        components.free(checker, taken)
    end(checker)


@litmus(rules=("COMP-16", "TREE-05", "COMP-19"), needs=NEEDS)
def the_host_keeps_whole_prefixes(checker: Checker) -> None:
    """The host is emptied bit by bit, from the end: KV has what is before it, and everything else goes with its KV."""
    layout = checker.setting.layout
    backed(checker, prompt(checker, "ab"))
    use(checker, prompt(checker, "abcd"), ALL)
    back_up(checker, prompt(checker, "abcd"))
    components.match(checker, prompt(checker, "xy"))
    end(checker)
    for _ in range(6):
        copies.evict_host(checker, {layout.base.name: 1})
        load(checker, prompt(checker, "abcd"))
        end(checker)
    evict_host(checker)


@litmus(rules=("POOL-10", "POOL-12"), needs=NEEDS)
def a_reset_forgets_both_tiers(checker: Checker) -> None:
    """Both tiers hold something, and a copy is under way: after a reset both are empty and can be filled."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    evict_all(checker)
    load(checker, key)
    components.reset(checker)
    load(checker, key)
    backed(checker, key)
    evict_all(checker)
    load(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("COMP-12", "COMP-29", "LOCK-01"), needs=NEEDS)
def what_comes_during_a_copy_may_stay(checker: Checker) -> None:
    """A prefix is backed up twice at once; one copy ends, and what it brought is to go while the other is under way."""
    key = prompt(checker, "ab", tail=1)
    use(checker, key, ALL)
    for number in (0, 1):
        back_up(checker, key, number=number)
    end(checker, number=1)
    evict_host(checker)
    end(checker)
    evict_host(checker)


@litmus(
    rules=("TREE-02", "POOL-12", "COMP-32", "COMP-29", "LOCK-01"), needs=NEEDS, profile={"component_landing": "begun"}
)
def what_is_on_its_way_counts(checker: Checker) -> None:
    """A prefix and a longer one are backed up at once, and loaded back at once: the second takes the rest."""
    for ways in ("ab", "abcd"):
        use(checker, prompt(checker, ways), ALL)
    for way in (back_up, load):
        for number, ways in enumerate(("ab", "abcd")):
            way(checker, prompt(checker, ways), number=number)
            components.match(checker, prompt(checker, ways))
        evict_host(checker)
        evict_all(checker)
        end(checker, number=1)
        components.match(checker, prompt(checker, "abcd"))
        end(checker)
        evict_all(checker)


@litmus(rules=("COMP-32", "POOL-10", "COMP-15"), needs=NEEDS, profile={"component_extent": "path"})
def a_backup_along_its_path_stops_where_the_host_is_full(checker: Checker) -> None:
    """Of prefixes of a key none is on the host: the longest is backed up while another fills the host, and after it."""
    layout = checker.setting.layout
    key = prompt(checker, "abcd")
    for pages in (1, 2, 3, 4):
        use(checker, beginning(checker, key, pages), ALL)
    other = prompt(checker, "z" * (layout.host[layout.base.pool] - 2))
    use(checker, other, ENDS)
    back_up(checker, other)
    back_up(checker, key, number=1)
    evict_all(checker)
    evict_host(checker)
    end(checker)
    end(checker, number=1)
    evict_all(checker)
    evict_host(checker)
    use(checker, key, ALL)
    back_up(checker, key)
    end(checker)


@litmus(rules=("LOCK-01", "COMP-32"), needs=NEEDS, profile={"component_extent": "path"})
def what_a_copy_along_its_path_reads_stays(checker: Checker) -> None:
    """All prefixes of a key are backed up, and the key is loaded back, each while both tiers are evicted."""
    key = prompt(checker, "abcd")
    for pages in (1, 2, 3, 4):
        use(checker, beginning(checker, key, pages), ALL)
    back_up(checker, key)
    evict_all(checker)
    end(checker)
    evict_all(checker)
    for pages in (1, 2, 3, 4):
        backed(checker, beginning(checker, key, pages))
    evict_all(checker)
    load(checker, key)
    evict_host(checker)
    evict_all(checker)
    end(checker)
    components.match(checker, key)


@litmus(rules=("LOCK-01", "COMP-32"), needs=NEEDS, layouts=HYBRID, profile={"component_extent": "path"})
def what_a_backup_takes_before_it_stops_stays(checker: Checker) -> None:
    """The host has place for one more state, and a backup goes by two: both tiers are evicted before it has ended."""
    layout = checker.setting.layout
    others = layout.host["state"] - 1
    if layout.places["state"] < others + 2:
        return
    for number, way in enumerate("uvwxyz"[:others], 1):
        use(checker, prompt(checker, way), ENDS)
        back_up(checker, prompt(checker, way), number=number)
    for ways in ("ab", "abcd"):
        use(checker, prompt(checker, ways), ENDS)
    back_up(checker, prompt(checker, "abcd"))
    evict_all(checker)
    evict_host(checker)
    end(checker)
