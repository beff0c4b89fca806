"""Litmus tests on loading back."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import FAILING, TIERS, backed, computed, step
from kvlitmus.conformance.ports.tiers import FAILED, LOAD, Outcome
from kvlitmus.spec.units import Key


def long_key(judge: Judge, first: str = "a") -> Key:
    """A key long enough to be worth a load back wherever the threshold is that the profile declares."""
    pages = max(3, -(-judge.profile.load_threshold // judge.size))
    return prompt(judge, first + "b" * (pages - 1))


@litmus(rules=("LOAD-01", "LOAD-02", "LOAD-05", "TIER-11", "LOCK-04", "REQ-02"), needs=TIERS)
def a_request_finds_on_the_device_what_was_loaded_back(judge: Judge) -> None:
    """What was demoted is loaded back; while the copy is under way nothing of it may go; then a request shares it."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.evict_host(judge, judge.config.host_pages * judge.size)
    step(judge, "load")
    tiers.tick(judge)
    request.begin(judge, 1, key)
    tiers.settle(judge)
    request.end(judge, 1, keep=True)
    tiers.settle(judge)


@litmus(rules=("LOAD-01",), needs=TIERS)
def half_of_a_key_is_loaded_behind_the_other_half(judge: Judge) -> None:
    """The last pages were demoted and come back behind those that stayed."""
    key = long_key(judge)
    backed(judge, key)
    computed(judge, key)
    tiers.deliver(judge)
    tree.evict(judge, 2 * judge.size)
    tiers.load_back(judge, key)
    tiers.settle(judge)
    tree.match(judge, key)


@litmus(rules=("LOAD-03", "LOAD-04"), needs=TIERS)
def a_full_device_takes_nothing_back(judge: Judge) -> None:
    """A request has the whole device: nothing can be loaded, and nothing changes; when it has ended, all can."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tokens = (9,) * (judge.capacity + int(judge.config.bigram))
    request.begin(judge, 1, Key(None, tokens[: judge.capacity], judge.config.bigram))
    tiers.load_back(judge, key)
    if 1 in judge.requests:
        request.end(judge, 1, keep=False)
    tiers.load_back(judge, key)
    tiers.settle(judge)


@litmus(rules=("TIER-01", "LOAD-01", "LOAD-02", "LOAD-05", "POOL-12"), needs=TIERS, writes=("write_back",))
def a_load_makes_room_by_writing_back(judge: Judge) -> None:
    """The device is full of what was never backed up, the host of what is loaded: no source is given away (H-29)."""
    pages = min(judge.config.host_pages, judge.config.pages)
    key = prompt(judge, "a" + "b" * (pages - 1))
    backed(judge, key)
    at = 0
    while judge.before.available and at < judge.config.pages:
        computed(judge, prompt(judge, "c" + chr(ord("d") + at % 20) * (1 + at // 20)))
        at += 1
    tiers.load_back(judge, key)
    tiers.settle(judge)
    tree.evict(judge, judge.capacity)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    tiers.settle(judge)


@litmus(rules=("LOAD-06", "TIER-08"), needs=(*TIERS, "layers", "data"))
def a_load_arrives_layer_by_layer(judge: Judge) -> None:
    """Layers are copied one by one; as many may be read as have arrived."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    while step(judge, "load", Outcome("part", 1)):
        tiers.tick(judge)
    tiers.settle(judge)


@litmus(rules=("LOAD-03", "LOAD-07"), needs=(*TIERS, "quota"))
def a_load_heeds_its_quota(judge: Judge) -> None:
    """A load is asked for with a quota one short, just enough for it, and enough for what it newly locks, too."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, 2 * judge.size)
    for units in (judge.size, 2 * judge.size, key.length - judge.size, key.length):
        tiers.load_back(judge, key, units)
    tiers.settle(judge)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key, key.length)
    tiers.settle(judge)


@litmus(rules=("LOAD-08", "LOAD-09", "LOAD-10", "TIER-08", "LIFE-06", "LIFE-08"), needs=FAILING)
def what_could_not_be_loaded_is_on_the_host_as_before(judge: Judge) -> None:
    """The copy of a load fails under way; the next one lands."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    for outcome in (FAILED, Outcome()):
        tiers.load_back(judge, key)
        step(judge, "load", outcome)
        tiers.tick(judge)
        tree.match(judge, key)
    request.begin(judge, 1, key)
    request.end(judge, 1, keep=True)
    tiers.settle(judge)


@litmus(rules=("LOAD-08", "LOAD-10", "TIER-08", "LIFE-08"), needs=FAILING)
def a_request_gives_up_what_could_not_be_loaded(judge: Judge) -> None:
    """A request waits for a load that fails: it ends, and the next one computes what is missing."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    request.begin(judge, 1, key)
    step(judge, "load", FAILED)
    request.end(judge, 1, keep=False)
    tiers.tick(judge)
    request.begin(judge, 2, key)
    request.end(judge, 2, keep=True)
    tiers.settle(judge)


@litmus(rules=("LOCK-01", "LOAD-08", "LOAD-10", "TIER-08"), needs=FAILING)
def what_a_request_holds_is_loaded_again(judge: Judge) -> None:
    """A load fails while a request holds its pages, and the request doesn't end: they stay, and arrive later."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    request.begin(judge, 1, key)
    step(judge, "load", FAILED)
    tiers.tick(judge)
    tree.evict(judge, judge.capacity)
    tiers.deliver(judge)
    request.end(judge, 1, keep=True)
    tiers.settle(judge)


@litmus(rules=("LOAD-08", "LOAD-10", "BACKUP-03", "TIER-05", "LIFE-08"), needs=FAILING)
def a_load_fails_above_another(judge: Judge) -> None:
    """The first pages of a key are on their way, then the others: the first load fails, the second one lands."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key._replace(tokens=key.tokens[: key.length - judge.size + judge.config.bigram]))
    tiers.load_back(judge, key)
    step(judge, "load", FAILED)
    step(judge, "load")
    tiers.tick(judge)
    tree.match(judge, key)
    tiers.settle(judge)


@litmus(rules=("LOAD-03", "LOAD-04", "TIER-08", "LIFE-08"), needs=FAILING)
def a_load_that_cannot_begin_is_declined(judge: Judge) -> None:
    """Who moves contents raises where a load is to begin; then it doesn't."""
    key = long_key(judge)
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.fail_copy(judge, LOAD, 0)
    tiers.load_back(judge, key)
    tree.match(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    tiers.settle(judge)
    tree.match(judge, key)
