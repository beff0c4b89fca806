"""Litmus tests on backups: to the host, and to storage."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.request import end
from kvlitmus.conformance.litmus.prefix.scenes import (
    FAILING,
    READS,
    STORAGE,
    TIERS,
    USES,
    backed,
    brought,
    computed,
    emptied,
    step,
    storage,
    written_back,
)
from kvlitmus.conformance.litmus.prefix.spelling import Spelt, within
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.tiers import BACKUP, FAILED, Outcome

ASYNC = ("write_through", "write_through_selective")


@litmus(rules=("BACKUP-01", "BACKUP-02"), needs=TIERS, writes=ASYNC)
def a_page_is_backed_up_when_it_is_due(checker: Checker) -> None:
    """A key is computed once, then by others with more behind it."""
    used_again(checker)


@litmus(rules=("BACKUP-02",), needs=TIERS, writes=("write_back",))
def a_page_is_not_backed_up_before_it_leaves(checker: Checker) -> None:
    """The same under write-back, where no use makes a page due."""
    used_again(checker)


def used_again(checker: Checker) -> None:
    """Keys with a common beginning are computed, one of them twice."""
    computed(checker, prompt(checker, "ab"))
    computed(checker, prompt(checker, "abc"))
    computed(checker, prompt(checker, "abc"))
    computed(checker, prompt(checker, "ad"))
    tiers.settle(checker)


@litmus(rules=("BACKUP-03", "LOCK-01", "LOCK-04"), needs=TIERS, writes=ASYNC)
def a_backup_holds_its_source_until_it_has_landed(checker: Checker) -> None:
    """While copies to the host are under way, ticks and evictions pass; then the second lands before the first."""
    computed(checker, prompt(checker, "ab"), uses=3)
    computed(checker, prompt(checker, "cd"), uses=3)
    tiers.tick(checker)
    tree.evict(checker, checker.capacity)
    ready = [number for number, job in tiers.seen(checker).jobs.items() if job.ready and not job.landed]
    if ready:
        tiers.advance(checker, ready[-1], Outcome())
        tiers.tick(checker)
        tree.evict(checker, checker.capacity)
    tiers.settle(checker)
    tree.evict(checker, checker.capacity)


@litmus(rules=("BACKUP-03", "LOCK-04"), needs=TIERS, writes=ASYNC)
def a_node_is_split_while_it_is_backed_up(checker: Checker) -> None:
    """Another request shares half of what is on its way to the host."""
    computed(checker, prompt(checker, "abcd"), uses=2)
    computed(checker, prompt(checker, "abe"))
    step(checker, "backup")
    tree.match(checker, prompt(checker, "a"))
    tiers.settle(checker)
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "abcd"))


@litmus(rules=("BACKUP-01", "BACKUP-02"), needs=TIERS, writes=ASYNC, profile={"backup_moment": "tick"})
def a_backup_waits_for_a_tick_at_most(checker: Checker) -> None:
    """One key is used often, and one once, before a tick; then the second is used again."""
    computed(checker, prompt(checker, "ab"), uses=USES)
    computed(checker, prompt(checker, "c"))
    tiers.tick(checker)
    computed(checker, prompt(checker, "c"))
    tiers.tick(checker)
    tiers.settle(checker)
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "ab"))


@litmus(rules=("BACKUP-04", "BACKUP-05", "BACKUP-06", "BACKUP-08", "BACKUP-09"), needs=(*READS, "data"))
def storage_tells_tenants_and_places_apart(checker: Checker) -> None:
    """The same tokens in two namespaces, and the same page in two places, are stored and read back."""
    storage(checker)
    for namespace in (None, "tenant-a", "tenant-b"):
        backed(checker, prompt(checker, "aba", namespace=namespace))
    emptied(checker)
    for rid, namespace in enumerate((None, "tenant-a", "tenant-b"), 1):
        brought(checker, rid, prompt(checker, "aba", tail=1, namespace=namespace))
    tiers.settle(checker)


def spelt(checker: Checker) -> tuple[Spelt, ...]:
    """Prompts that spell the seed of a tenant, for this page size."""
    return tuple(reversed([one for one in within() if one.page == checker.size]))


SPELT = 16
"""The page size of these prompts: with smaller pages hardly a tenant's name is short enough, and none below 9."""


@litmus(rules=("BACKUP-05", "TIER-08"), needs=(*READS, "data"), bigram=False, once=True, page=SPELT)
def a_prompt_spells_its_way_to_where_a_tenant_will_look(checker: Checker) -> None:
    """A prompt of no tenant spells a tenant's seed and is stored; then the tenant asks for what stood behind it."""
    storage(checker)
    for rid, one in enumerate(spelt(checker), 1):
        backed(checker, one.prompt)
        emptied(checker)
        brought(checker, rid, one.victim)
        tiers.settle(checker)
        emptied(checker)


@litmus(rules=("BACKUP-05", "TIER-08"), needs=(*READS, "data"), bigram=False, once=True, page=SPELT)
def a_prompt_spells_its_way_to_another_tenants_page(checker: Checker) -> None:
    """The other way round: the tenant's page is stored, and then the prompt asks for it."""
    storage(checker)
    for rid, one in enumerate(spelt(checker), 1):
        backed(checker, one.victim)
        backed(checker, one.prompt._replace(tokens=one.prompt.tokens[: checker.size]))
        emptied(checker)
        brought(checker, rid, one.prompt)
        tiers.settle(checker)
        emptied(checker)


@litmus(rules=("BACKUP-04", "BACKUP-05"), needs=(*READS, "reattach"))
def names_do_not_depend_on_when_storage_came(checker: Checker) -> None:
    """Pages from before storage was attached are continued after it; all are named by their whole prefix."""
    if checker.below.attached:
        tiers.attach(checker, on=False)
    backed(checker, prompt(checker, "ab"))
    storage(checker)
    backed(checker, prompt(checker, "abab"))
    backed(checker, prompt(checker, "ab"))
    emptied(checker)
    brought(checker, 1, prompt(checker, "abab"))
    brought(checker, 2, prompt(checker, "ab"))
    tiers.settle(checker)


@litmus(rules=("BACKUP-04",), needs=READS)
def names_do_not_depend_on_splits(checker: Checker) -> None:
    """A key that was stored as one node is read back after parts of it were shared."""
    storage(checker)
    backed(checker, prompt(checker, "abcd"))
    backed(checker, prompt(checker, "abe"))
    emptied(checker)
    brought(checker, 1, prompt(checker, "abcd"))
    brought(checker, 2, prompt(checker, "abef"))
    tiers.settle(checker)


@litmus(rules=("BACKUP-07", "LIFE-06", "LIFE-08", "LIFE-16", "TIER-40"), needs=STORAGE)
def a_put_ends_where_storage_refuses(checker: Checker) -> None:
    """Storage takes one page of three and refuses the next, raises for another key, and is well again."""
    storage(checker)
    for letters, outcome in (("abc", Outcome("short", 1)), ("def", Outcome("fail", 1)), ("ghi", Outcome())):
        computed(checker, prompt(checker, letters), uses=3)
        written_back(checker)
        while step(checker, "backup"):
            pass
        tiers.tick(checker)
        while step(checker, "put", outcome):
            pass
        tiers.tick(checker)
    tiers.settle(checker)


@litmus(rules=("BACKUP-01", "POOL-12"), needs=TIERS, writes=ASYNC)
def a_full_host_makes_room_for_what_is_due(checker: Checker) -> None:
    """The host is filled with what the device has lost; what is computed then takes its place."""
    pages = checker.config.host_pages
    for first in range(0, pages, 2):
        letter = chr(ord("a") + first // 2)
        backed(checker, prompt(checker, letter + "z"))
        tree.evict(checker, checker.capacity)
    backed(checker, prompt(checker, "xyz"))
    request.begin(checker, 1, prompt(checker, "xyzw"))
    tiers.settle(checker)
    end(checker, 1, keep=True)
    tiers.settle(checker)


@litmus(rules=("BACKUP-01", "LOAD-08", "LIFE-06", "LIFE-08", "LOCK-04"), needs=FAILING, writes=ASYNC)
def a_backup_that_failed_is_due_again(checker: Checker) -> None:
    """The copy of a backup fails under way: nothing of it is left, and the next use backs the page up."""
    key = prompt(checker, "ab")
    computed(checker, key, uses=2)
    step(checker, "backup", FAILED)
    tiers.tick(checker)
    computed(checker, key)
    tiers.deliver(checker)
    tree.evict(checker, checker.capacity)
    tree.match(checker, key)
    tiers.settle(checker)


@litmus(rules=("TREE-05", "TIER-08", "LOAD-08"), needs=FAILING, writes=ASYNC)
def a_backup_fails_above_another(checker: Checker) -> None:
    """A trunk and what hangs below it are on their way to the host: the trunk's copy fails, the other one lands."""
    computed(checker, prompt(checker, "ab"), uses=2)
    computed(checker, prompt(checker, "abc"), uses=2)
    step(checker, "backup", FAILED)
    step(checker, "backup")
    tiers.tick(checker)
    tiers.deliver(checker)
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "abc"))
    tiers.settle(checker)


@litmus(rules=("BACKUP-01", "POOL-12", "TIER-08", "LIFE-08"), needs=FAILING, writes=ASYNC)
def a_backup_that_cannot_begin_waits_for_the_next_use(checker: Checker) -> None:
    """Who moves contents raises where a backup is to begin: the page is as it was, and the next use backs it up."""
    key = prompt(checker, "ab")
    tiers.fail_copy(checker, BACKUP, 0)
    computed(checker, key, uses=2)
    tiers.deliver(checker)
    computed(checker, key)
    tiers.deliver(checker)
    tree.evict(checker, checker.capacity)
    tree.match(checker, key)
    tiers.settle(checker)


@litmus(rules=("BACKUP-07", "BACKUP-08", "BACKUP-09", "BACKUP-11"), needs=STORAGE)
def what_storage_refused_is_put_when_it_is_used_again(checker: Checker) -> None:
    """Storage takes one page of three and refuses the next, then raises; each time the path is used again."""
    storage(checker)
    key = prompt(checker, "abc")
    computed(checker, key, uses=USES)
    written_back(checker)
    while step(checker, "backup"):
        pass
    tiers.tick(checker)
    for outcome in (Outcome("short", 1), Outcome("fail", 0)):
        while step(checker, "put", outcome):
            pass
        tiers.tick(checker)
        computed(checker, key)
        tiers.tick(checker)
    tiers.settle(checker)


@litmus(rules=("BACKUP-04", "BACKUP-11", "LIFE-02", "LIFE-05"), needs=(*READS, "reattach"))
def another_storage_is_given_what_the_first_one_has(checker: Checker) -> None:
    """Two prompts are stored; an empty storage takes the place of that one; they are used again, then read from it."""
    storage(checker)
    keys = [prompt(checker, letters) for letters in ("ab", "cde")]
    for key in keys:
        backed(checker, key)
    tiers.attach(checker, on=False)
    tiers.attach(checker, on=True, storage=1)
    for key in keys:
        computed(checker, key)
        tiers.tick(checker)
    tiers.deliver(checker)
    emptied(checker)
    for rid, key in enumerate(keys, 1):
        brought(checker, rid, key)
    tiers.settle(checker)


@litmus(rules=("BACKUP-11",), needs=(*STORAGE, "reattach"))
def what_is_older_than_the_storage_is_put_when_it_is_used_again(checker: Checker) -> None:
    """A prompt is on the host before there is storage; then it is used, with more behind it."""
    if checker.below.attached:
        tiers.attach(checker, on=False)
    backed(checker, prompt(checker, "ab"))
    storage(checker)
    computed(checker, prompt(checker, "abc"))
    tiers.tick(checker)
    tiers.settle(checker)
