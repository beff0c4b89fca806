"""Litmus tests on loading back."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.request import end, resume, retract
from kvlitmus.conformance.litmus.prefix.scenes import FAILING, TIERS, backed, computed, step, too_many
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.tiers import FAILED, LOAD, Outcome
from kvlitmus.spec.words.units import Key


def long_key(checker: Checker, first: str = "a") -> Key:
    """A key long enough to be worth a load back wherever the threshold is, if there is room for such a key at all."""
    pages = max(3, min(-(-checker.profile.load_threshold // checker.size), too_many(checker)))
    return prompt(checker, first + "b" * (pages - 1))


def demoted(checker: Checker) -> Key:
    """A key that is worth a load back and on the host alone."""
    key = long_key(checker)
    backed(checker, key)
    tree.evict(checker, checker.capacity)
    return key


def fill(checker: Checker) -> None:
    """Begin a request that has the whole device, and writes all of it."""
    tokens = (9,) * (checker.capacity + int(checker.config.bigram))
    request.begin(checker, 1, Key(None, tokens[: checker.capacity], checker.config.bigram))


@litmus(rules=("LOAD-01", "LOAD-02", "LOAD-05", "TIER-11", "LOCK-04", "REQ-02"), needs=TIERS)
def a_request_finds_on_the_device_what_was_loaded_back(checker: Checker) -> None:
    """What was demoted is loaded back; while the copy is under way nothing of it may go; then a request shares it."""
    key = demoted(checker)
    tiers.load_back(checker, key)
    tree.evict(checker, checker.capacity)
    tiers.evict_host(checker, checker.config.host_pages * checker.size)
    step(checker, "load")
    tiers.tick(checker)
    request.begin(checker, 1, key)
    tiers.settle(checker)
    end(checker, 1, keep=True)
    tiers.settle(checker)


@litmus(rules=("LOAD-01",), needs=TIERS)
def half_of_a_key_is_loaded_behind_the_other_half(checker: Checker) -> None:
    """The last pages were demoted and come back behind those that stayed."""
    key = long_key(checker)
    backed(checker, key)
    computed(checker, key)
    tiers.deliver(checker)
    tree.evict(checker, 2 * checker.size)
    tiers.load_back(checker, key)
    tiers.settle(checker)
    tree.match(checker, key)


@litmus(rules=("LOAD-03", "LOAD-04"), needs=TIERS)
def a_full_device_takes_nothing_back(checker: Checker) -> None:
    """A request has the whole device: nothing can be loaded, and nothing changes; when it has ended, all can."""
    key = demoted(checker)
    fill(checker)
    tiers.load_back(checker, key)
    end(checker, 1, keep=False)
    tiers.load_back(checker, key)
    tiers.settle(checker)


def loaded_into_a_full_device(checker: Checker, pages: int) -> Key:
    """A key is on the host alone, the device full of what was never backed up; then the key is loaded."""
    key = prompt(checker, "a" + "b" * (pages - 1))
    backed(checker, key)
    at = 0
    while checker.before.available and at < checker.config.pages:
        computed(checker, prompt(checker, "c" + chr(ord("d") + at % 20) * (1 + at // 20)))
        at += 1
    tiers.load_back(checker, key)
    tiers.settle(checker)
    return key


@litmus(rules=("POOL-12",), needs=TIERS, writes=("write_back",))
def a_load_makes_room_by_writing_back(checker: Checker) -> None:
    """The device is full of what was never backed up, the host of what is loaded: no source is given away (H-29)."""
    key = loaded_into_a_full_device(checker, min(checker.config.host_pages, checker.config.pages))
    tree.evict(checker, checker.capacity)
    backed(checker, key)
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, key)
    tiers.settle(checker)


@litmus(rules=("POOL-12", "LOAD-01", "LOAD-02", "LOAD-05"), needs=TIERS, writes=("write_back",))
def a_load_writes_back_to_the_rest_of_the_host(checker: Checker) -> None:
    """The device is full of what was never backed up, half of the host of what is loaded: the rest is room for both."""
    loaded_into_a_full_device(checker, max(1, min(checker.config.host_pages, checker.config.pages) // 2))


@litmus(rules=("LOAD-06", "TIER-08"), needs=(*TIERS, "layers", "data"))
def a_load_arrives_layer_by_layer(checker: Checker) -> None:
    """Layers are copied one by one; as many may be read as have arrived."""
    key = demoted(checker)
    tiers.load_back(checker, key)
    while step(checker, "load", Outcome("part", 1)):
        tiers.tick(checker)
    tiers.settle(checker)


@litmus(rules=("LOAD-03", "LOAD-07"), needs=(*TIERS, "quota"))
def a_load_heeds_its_quota(checker: Checker) -> None:
    """A load is asked for with a quota one short, just enough for it, and enough for what it newly locks, too."""
    key = long_key(checker)
    backed(checker, key)
    tree.evict(checker, 2 * checker.size)
    for units in (checker.size, 2 * checker.size, key.length - checker.size, key.length):
        tiers.load_back(checker, key, units)
    tiers.settle(checker)
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, key, key.length)
    tiers.settle(checker)


@litmus(rules=("LOAD-07",), needs=(*TIERS, "quota"))
def a_quota_counts_the_whole_path(checker: Checker) -> None:
    """A load hangs on two nodes that nobody has locked, and its quota has room for one of them only."""
    key = long_key(checker)
    pages = key.length // checker.size
    backed(checker, key)
    tiers.load_back(checker, key)
    tiers.settle(checker)
    tree.evict(checker, checker.size)
    tree.match(checker, prompt(checker, "a"))
    for units in ((pages - 1) * checker.size, key.length - checker.size, key.length):
        tiers.load_back(checker, key, units)
    tiers.settle(checker)


@litmus(rules=("LOAD-08", "LOAD-09", "LOAD-10", "TIER-08", "LIFE-06", "LIFE-08"), needs=FAILING)
def what_could_not_be_loaded_is_on_the_host_as_before(checker: Checker) -> None:
    """The copy of a load fails under way; the next one lands."""
    key = demoted(checker)
    for outcome in (FAILED, Outcome()):
        tiers.load_back(checker, key)
        step(checker, "load", outcome)
        tiers.tick(checker)
        tree.match(checker, key)
    request.begin(checker, 1, key)
    end(checker, 1, keep=True)
    tiers.settle(checker)


@litmus(rules=("LOAD-08", "LOAD-10", "TIER-08", "LIFE-08"), needs=FAILING)
def a_request_gives_up_what_could_not_be_loaded(checker: Checker) -> None:
    """A request waits for a load that fails: it ends, and the next one computes what is missing."""
    key = demoted(checker)
    tiers.load_back(checker, key)
    request.begin(checker, 1, key)
    step(checker, "load", FAILED)
    end(checker, 1, keep=False)
    tiers.tick(checker)
    request.begin(checker, 2, key)
    end(checker, 2, keep=True)
    tiers.settle(checker)


@litmus(rules=("LOCK-01", "LOAD-08", "LOAD-10", "TIER-08"), needs=FAILING)
def what_a_request_holds_is_loaded_again(checker: Checker) -> None:
    """A load fails while a request holds its pages, and the request doesn't end: they stay, and arrive later."""
    key = demoted(checker)
    tiers.load_back(checker, key)
    request.begin(checker, 1, key)
    step(checker, "load", FAILED)
    tiers.tick(checker)
    tree.evict(checker, checker.capacity)
    tiers.deliver(checker)
    end(checker, 1, keep=True)
    tiers.settle(checker)


@litmus(rules=("REQ-01", "REQ-02", "REQ-07", "REQ-09"), needs=(*TIERS, "retract"))
def a_request_is_retracted_before_its_load_has_landed(checker: Checker) -> None:
    """A load fills pages that a request shares when it is retracted; it resumes with what the load was to bring.

    Before the load another request had these pages, so that nothing is right by chance.
    """
    key = demoted(checker)
    fill(checker)
    end(checker, 1, keep=False)
    tiers.load_back(checker, key)
    request.begin(checker, 1, key)
    retract(checker, 1)
    tiers.deliver(checker)
    resume(checker, 1)
    end(checker, 1, keep=True)
    tiers.settle(checker)


@litmus(rules=("LOAD-08", "LOAD-10", "BACKUP-03", "TREE-05", "LIFE-08"), needs=FAILING)
def a_load_fails_above_another(checker: Checker) -> None:
    """The first pages of a key are on their way, then the others: the first load fails, the second one lands."""
    key = demoted(checker)
    tiers.load_back(checker, key._replace(tokens=key.tokens[: key.length - checker.size + checker.config.bigram]))
    tiers.load_back(checker, key)
    step(checker, "load", FAILED)
    step(checker, "load")
    tiers.tick(checker)
    tree.match(checker, key)
    tiers.settle(checker)


@litmus(rules=("LOAD-03", "LOAD-04", "TIER-08", "LIFE-08"), needs=FAILING)
def a_load_that_cannot_begin_is_declined(checker: Checker) -> None:
    """Who moves contents raises where a load is to begin; then it doesn't."""
    key = demoted(checker)
    tiers.fail_copy(checker, LOAD, 0)
    tiers.load_back(checker, key)
    tree.match(checker, key)
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, key)
    tiers.settle(checker)
    tree.match(checker, key)


@litmus(rules=("EVICT-05", "EVICT-06"), needs=TIERS)
def a_load_makes_room_in_order_and_no_more_than_needed(checker: Checker) -> None:
    """Most of the device is a request's; what comes back takes what is free and the least valuable of the rest."""
    key = demoted(checker)
    pages = -(-len(key.units) // checker.size)
    request.begin(checker, 1, prompt(checker, "o" * (checker.config.pages - pages - 2)))
    for way in "pqrstuvwxyz"[: pages + 1]:
        computed(checker, prompt(checker, way))
        tiers.deliver(checker)
    tree.match(checker, prompt(checker, "p"))
    tiers.load_back(checker, key)
    tiers.settle(checker)
    end(checker, 1, keep=False)
    tiers.settle(checker)
