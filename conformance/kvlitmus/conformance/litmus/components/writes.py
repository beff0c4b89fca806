"""Litmus tests on write policies of components: what is backed up without being asked for."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.components import host as copies
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.litmus.components.host import end, evict_host, load
from kvlitmus.conformance.litmus.components.tree import ALL, ANY_ENTRIES, STATES, WINDOWS, evict_all
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key

NEEDS = ("components", "component_host", "component_writes")
THROUGH = ("write_through",)
SELECTIVE = ("write_through_selective",)
BACK = ("write_back",)


def land(checker: Checker, *, ok: bool = True) -> None:
    """Every copy that is under way ends."""
    for number in copies.copies(checker.state):
        copies.copied(checker, number, ok)


def come_back(checker: Checker, key: Key) -> None:
    """Load a key back as far as it goes, and find it."""
    load(checker, key)
    end(checker)
    components.match(checker, key)


@litmus(rules=("COMP-32", "COMP-53", "COMP-54", "COMP-55"), needs=NEEDS, writes=THROUGH)
def what_is_inserted_is_on_the_host(checker: Checker) -> None:
    """A key is cached, its backup ends, all leaves the device, and it comes back; so does what goes on from it."""
    for ways in ("ab", "abcd"):
        key = prompt(checker, ways)
        use(checker, key, ALL)
        land(checker)
        evict_all(checker)
        come_back(checker, key)


@litmus(rules=("COMP-29", "COMP-55"), needs=NEEDS, writes=THROUGH)
def a_backup_that_failed_is_due_again(checker: Checker) -> None:
    """The backup of an insert fails: the host has nothing of it, and the next insert of the same key begins another."""
    key = prompt(checker, "abc")
    for ok in (False, True):
        use(checker, key, ALL)
        land(checker, ok=ok)
    evict_all(checker)
    come_back(checker, key)


@litmus(rules=("COMP-53", "COMP-55"), needs=NEEDS, writes=THROUGH)
def what_the_host_has_lost_is_due_again(checker: Checker) -> None:
    """The host evicts what was backed up, and the same key is inserted once more, before a copy ends and after it."""
    key = prompt(checker, "abcd")
    for _ in range(2):
        use(checker, key, ALL)
        use(checker, key, ALL)
        land(checker)
        evict_host(checker)


@litmus(rules=("COMP-36", "POOL-10", "COMP-55"), needs=NEEDS, writes=THROUGH)
def a_full_host_makes_room_or_refuses(checker: Checker) -> None:
    """More is inserted than the host can hold, while the copies before are under way, and after they have ended."""
    for ways in ("abc", "defg", "hij"):
        use(checker, prompt(checker, ways), ALL)
    land(checker)
    for ways in ("klm", "abc"):
        evict_all(checker)
        use(checker, prompt(checker, ways), ALL)
        land(checker)
    for ways in ("abc", "klm", "hij"):
        evict_all(checker)
        come_back(checker, prompt(checker, ways))


@litmus(rules=("COMP-53", "COMP-55"), needs=NEEDS, writes=SELECTIVE)
def the_second_insert_is_backed_up(checker: Checker) -> None:
    """A key is cached, and nothing of it is copied; it is used again, and is on the host then."""
    key = prompt(checker, "abc")
    use(checker, key, ALL)
    land(checker)
    use(checker, key, ALL)
    land(checker)
    evict_all(checker)
    come_back(checker, key)


@litmus(rules=("COMP-53",), needs=NEEDS, writes=SELECTIVE)
def what_was_evicted_is_used_for_the_first_time_again(checker: Checker) -> None:
    """A key is cached, evicted, and cached again: that is its first use."""
    for _ in range(2):
        use(checker, prompt(checker, "abc"), ALL)
        land(checker)
        evict_all(checker)
        evict_host(checker)


@litmus(rules=("COMP-32", "COMP-16", "COMP-53", "COMP-54", "COMP-56"), needs=NEEDS, writes=BACK)
def what_leaves_the_device_is_on_the_host(checker: Checker) -> None:
    """Nothing is copied while there is room; two keys that share a beginning leave the device, and both come back."""
    for ways in ("ab", "ac"):
        use(checker, prompt(checker, ways), ALL)
        land(checker)
    evict_all(checker)
    for ways in ("ab", "ac"):
        come_back(checker, prompt(checker, ways))


@litmus(rules=("COMP-32", "COMP-56"), needs=NEEDS, writes=BACK, layouts=WINDOWS, profile=ANY_ENTRIES)
def a_window_that_goes_alone_is_saved(checker: Checker) -> None:
    """A window leaves the device alone, and then the KV: the boundary is on the host, with its window."""
    key = prompt(checker, "ab")
    use(checker, key, ALL)
    components.evict(checker, {"swa": 1})
    come_back(checker, key)
    evict_all(checker)
    come_back(checker, key)


@litmus(rules=("COMP-32", "COMP-56"), needs=NEEDS, writes=BACK, layouts=STATES, profile=ANY_ENTRIES)
def a_state_that_goes_alone_is_saved(checker: Checker) -> None:
    """States leave the device, those of inner boundaries too: each of them is one that can be loaded back."""
    use(checker, prompt(checker, "abc"), ALL)
    components.evict(checker, {"state": 3})
    for ways in ("a", "ab", "abc"):
        come_back(checker, prompt(checker, ways))


@litmus(rules=("COMP-53", "COMP-56"), needs=NEEDS, writes=BACK)
def a_load_back_saves_what_it_evicts(checker: Checker) -> None:
    """A load back makes room on the device by evicting another key, which is on the host then."""
    first = prompt(checker, "ab")
    use(checker, first, ALL)
    evict_all(checker)
    for ways in ("cd", "ef", "gh"):
        use(checker, prompt(checker, ways), ALL)
    load(checker, first)
    end(checker)
    for ways in ("ab", "cd", "gh"):
        come_back(checker, prompt(checker, ways))


@litmus(rules=("COMP-36", "COMP-53"), needs=NEEDS, writes=BACK)
def what_no_tier_has_room_for_is_dropped(checker: Checker) -> None:
    """The host is full of what running copies need, and the device is emptied: what finds no room is gone."""
    for number, ways in enumerate(("abcd", "efgh", "ijk")):
        use(checker, prompt(checker, ways), ALL)
        evict_all(checker)
        load(checker, prompt(checker, ways), number=number)
    evict_all(checker)
    land(checker)
    for ways in ("abcd", "efgh", "ijk"):
        components.match(checker, prompt(checker, ways))
