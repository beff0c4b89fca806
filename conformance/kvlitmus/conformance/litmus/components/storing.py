"""Litmus tests on storage behind the host memory of components: writes, and storage that comes and goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.conformance.checker.calls.components import host as copies
from kvlitmus.conformance.checker.calls.components import prefetch as fetches
from kvlitmus.conformance.checker.calls.components import storing as storage
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.litmus.components.host import back_up, backed, beginning, end, evict_host
from kvlitmus.conformance.litmus.components.prefetch import EACH, begin, everything, read_of
from kvlitmus.conformance.litmus.components.tree import ALL, ANY_ENTRIES, evict_all
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.prefix.components.state import ends_at
from kvlitmus.spec.words.units import Key

NEEDS = ("components", "component_host", "component_prefetch", "component_storage")
HYBRID = ("kv+swa+state",)
Ends = Mapping[str, Collection[int]]


def attach(checker: Checker) -> None:
    """Storage comes, if it isn't there from the beginning."""
    if not checker.state.attached:
        storage.attach(checker)


def write(checker: Checker, key: Key, stored: Ends | None = None, *, number: int = 0) -> bool:
    """Match a key and begin to write what was found; whether it has begun."""
    length, handle = components.match(checker, key)
    return storage.write(checker, key, length, handle, stored or {}, number)


def put(checker: Checker, key: Key, stored: Ends | None = None, *, ok: bool = True) -> dict[str, frozenset[int]]:
    """Write a key to the end; what storage has of it then."""
    has = {name: frozenset(some) for name, some in (stored or {}).items()}
    if write(checker, key, stored):
        takes = storage.writes(checker.state)[0].landing
        storage.written(checker, 0, ok)
        for one in checker.setting.layout.components if ok else ():
            has[one.name] = has.get(one.name, frozenset()) | ends_at(checker.path(key), one.name, takes)
    return has


def fetch(checker: Checker, key: Key, stored: Ends) -> None:
    """Fetch a key of which storage has this, and cache what came."""
    if begin(checker, key):
        fetches.found(checker, 0, stored)
        came = read_of(checker)
        if checker.state.fetches[0].running:
            fetches.settled(checker, 0)
        fetches.commit(checker, 0, came)


def settle(checker: Checker) -> None:
    """The I/O of the first prefetch ends, if it still runs."""
    if 0 in checker.state.fetches:
        fetches.settled(checker, 0)


@litmus(rules=("COMP-32", "COMP-58", "COMP-29", "COMP-20"), needs=NEEDS, profile=EACH)
def what_is_written_comes_back(checker: Checker) -> None:
    """A key is written, storage goes and comes, and both tiers are emptied: the key is fetched, and found as it was."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    attach(checker)
    stored = put(checker, key)
    storage.detach(checker)
    evict_all(checker)
    evict_host(checker)
    begin(checker, key)
    attach(checker)
    fetch(checker, key, stored)
    components.match(checker, key)


@litmus(rules=("COMP-32", "COMP-59"), needs=NEEDS)
def only_what_storage_lacks_is_written(checker: Checker) -> None:
    """A key is written, and again, then a longer one: nothing is written that is there, and all that is added."""
    attach(checker)
    backed(checker, prompt(checker, "ab"))
    stored = put(checker, prompt(checker, "ab"))
    stored = put(checker, prompt(checker, "ab"), stored)
    backed(checker, prompt(checker, "abcd"))
    stored = put(checker, prompt(checker, "abcd"), stored)
    put(checker, prompt(checker, "abcd"), stored)


@litmus(rules=("COMP-32",), needs=NEEDS, layouts=HYBRID, profile=ANY_ENTRIES)
def a_window_and_a_state_are_written_alone(checker: Checker) -> None:
    """Storage has all KV of a key, then half of its window: the rest of the window and the state are written."""
    attach(checker)
    key = prompt(checker, "abcd")
    backed(checker, key)
    size = checker.size
    stored: dict[str, list[int]] = {"kv": [size, 2 * size, 3 * size, 4 * size]}
    for more in ({}, {"swa": [3 * size]}, {"swa": [3 * size, 4 * size]}):
        put(checker, key, stored | more)


@litmus(rules=("COMP-32", "COMP-58"), needs=NEEDS, profile=EACH, bigram=True)
def a_bigram_in_storage_knows_its_next_token(checker: Checker) -> None:
    """A key is written; another one with its tokens goes on with another token, and lacks the last page in storage.

    That page is written too, and each key is fetched with its own.
    """
    attach(checker)
    key = prompt(checker, "ab")
    other = key._replace(tokens=(*key.tokens[:-1], key.tokens[-1] + 1))
    backed(checker, key)
    put(checker, key)
    backed(checker, other)
    put(checker, other, everything(checker, beginning(checker, other, 1)))
    evict_all(checker)
    evict_host(checker)
    for one in (other, key):
        fetch(checker, one, everything(checker, one))
        components.match(checker, one)


@litmus(rules=("COMP-29",), needs=NEEDS, profile=EACH)
def storage_goes_during_a_fetch(checker: Checker) -> None:
    """Two prefetches run when storage goes, and one reads: what that may write comes back when its I/O ends."""
    attach(checker)
    key = prompt(checker, "abcd")
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, prompt(checker, "ab")))
    begin(checker, prompt(checker, "xy"), number=1)
    storage.detach(checker)
    evict_all(checker)
    use(checker, prompt(checker, "efg"), ALL)
    settle(checker)
    attach(checker)
    fetch(checker, key, everything(checker, key))


@litmus(rules=("COMP-29",), needs=NEEDS, profile=EACH)
def storage_goes_after_a_commit(checker: Checker) -> None:
    """A prefetch is committed while its I/O runs, then storage goes: nothing of it is given back a second time."""
    attach(checker)
    key, base = prompt(checker, "abc"), checker.setting.layout.base.name
    if begin(checker, key):
        fetches.found(checker, 0, everything(checker, key))
        fetches.commit(checker, 0, {base: read_of(checker).get(base, [])[:1]})
    storage.detach(checker)
    settle(checker)
    components.match(checker, key)


@litmus(rules=("LOCK-01",), needs=NEEDS)
def what_a_write_reads_stays(checker: Checker) -> None:
    """The host is emptied while a key is written, and again when storage has gone; all goes after the write."""
    attach(checker)
    key = prompt(checker, "abcd")
    backed(checker, key)
    begun = write(checker, key)
    evict_host(checker)
    storage.detach(checker)
    evict_all(checker)
    evict_host(checker)
    if begun:
        storage.written(checker, 0)
    evict_host(checker)


@litmus(rules=("LOCK-01",), needs=NEEDS)
def a_backup_spares_what_is_written(checker: Checker) -> None:
    """A key is written while one key after another is backed up: the host is full, and what is read stays."""
    attach(checker)
    key = prompt(checker, "abc")
    backed(checker, key)
    write(checker, key)
    for first in "efghijk":
        backed(checker, prompt(checker, f"{first}xyz"))
    if storage.writes(checker.state):
        storage.written(checker, 0)
    evict_host(checker)


@litmus(rules=("COMP-58", "COMP-59", "COMP-20"), needs=NEEDS, profile=EACH)
def nothing_begins_while_storage_is_away(checker: Checker) -> None:
    """While storage is away no write begins, and no prefetch on a full device: nothing is evicted for it."""
    key = prompt(checker, "abc")
    backed(checker, key)
    if checker.state.attached:
        storage.detach(checker)
    write(checker, key)
    for first in "efghijk":
        use(checker, prompt(checker, f"{first}xyz"), ALL)
    begin(checker, prompt(checker, "pqrs"))
    attach(checker)
    components.match(checker, key)
    backed(checker, key)
    put(checker, key)


@litmus(rules=("COMP-32", "COMP-58", "COMP-59"), needs=NEEDS)
def nothing_is_written_that_the_host_lacks(checker: Checker) -> None:
    """A key is on the device, then its backup runs, then it is evicted bit by bit: it is written if all is there."""
    attach(checker)
    key = prompt(checker, "abcd")
    use(checker, key, ALL)
    put(checker, key)
    back_up(checker, key)
    put(checker, key)
    end(checker)
    for one in reversed(checker.setting.layout.components):
        copies.evict_host(checker, {one.name: 1})
        put(checker, key)
    back_up(checker, key)
    end(checker)
    put(checker, key)


@litmus(rules=("COMP-32", "LOCK-01"), needs=NEEDS)
def a_write_that_fails_is_made_again(checker: Checker) -> None:
    """A write fails: what it read may go, is backed up again, and is written whole the second time."""
    attach(checker)
    key = prompt(checker, "abc")
    backed(checker, key)
    stored = put(checker, key, ok=False)
    evict_host(checker)
    backed(checker, key)
    begun = write(checker, key, stored)
    other = write(checker, key, stored, number=1)
    if begun:
        storage.written(checker, 0)
    evict_host(checker)
    if other:
        storage.written(checker, 1, ok=False)
    evict_host(checker)


@litmus(rules=("COMP-58", "COMP-59"), needs=NEEDS)
def a_reset_forgets_writes_and_not_storage(checker: Checker) -> None:
    """A write is under way at a reset: the host is empty, storage is there as before, and a key can be written."""
    attach(checker)
    key = prompt(checker, "ab", tail=1)
    backed(checker, key)
    write(checker, key)
    components.reset(checker)
    put(checker, key)
    backed(checker, key)
    put(checker, key)
    evict_host(checker)


@litmus(rules=("COMP-12", "LOCK-01"), needs=NEEDS, layouts=HYBRID, profile=ANY_ENTRIES)
def what_comes_during_a_write_may_stay(checker: Checker) -> None:
    """Storage lacks the state alone, and the host the window: that is backed up during the write, then all is to go.

    What came only now may go at once; what the write reads goes after it.
    """
    attach(checker)
    key = prompt(checker, "abcd")
    backed(checker, key)
    copies.evict_host(checker, {"swa": 4})
    stored = {name: ends for name, ends in everything(checker, key).items() if name != "state"}
    begun = write(checker, key, stored)
    back_up(checker, key)
    end(checker)
    evict_host(checker)
    if begun:
        storage.written(checker, 0)
    evict_host(checker)
