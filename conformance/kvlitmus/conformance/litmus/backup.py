"""Litmus tests on backups: to the host, and to storage."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import (
    FAILING,
    READS,
    STORAGE,
    TIERS,
    backed,
    brought,
    computed,
    emptied,
    step,
    storage,
)
from kvlitmus.conformance.litmus.spelling import Spelt, within
from kvlitmus.conformance.ports.tiers import BACKUP, FAILED, Outcome

ASYNC = ("write_through", "write_through_selective")


@litmus(rules=("BACKUP-01", "BACKUP-02"), needs=TIERS)
def a_page_is_backed_up_when_it_is_due(judge: Judge) -> None:
    """A key is computed once, then by others with more behind it."""
    computed(judge, prompt(judge, "ab"))
    computed(judge, prompt(judge, "abc"))
    computed(judge, prompt(judge, "abc"))
    computed(judge, prompt(judge, "ad"))
    tiers.settle(judge)


@litmus(rules=("BACKUP-03", "LOCK-01", "LOCK-04"), needs=TIERS, writes=ASYNC)
def a_backup_holds_its_source_until_it_has_landed(judge: Judge) -> None:
    """While copies to the host are under way, ticks and evictions pass; then the second lands before the first."""
    computed(judge, prompt(judge, "ab"), uses=3)
    computed(judge, prompt(judge, "cd"), uses=3)
    tiers.tick(judge)
    tree.evict(judge, judge.capacity)
    ready = [number for number, job in tiers.seen(judge).jobs.items() if job.ready and not job.landed]
    if ready:
        tiers.advance(judge, ready[-1], Outcome())
        tiers.tick(judge)
        tree.evict(judge, judge.capacity)
    tiers.settle(judge)
    tree.evict(judge, judge.capacity)


@litmus(rules=("BACKUP-03", "LOCK-04"), needs=TIERS, writes=ASYNC)
def a_node_is_split_while_it_is_backed_up(judge: Judge) -> None:
    """Another request shares half of what is on its way to the host."""
    computed(judge, prompt(judge, "abcd"), uses=2)
    computed(judge, prompt(judge, "abe"))
    step(judge, "backup")
    tree.match(judge, prompt(judge, "a"))
    tiers.settle(judge)
    tree.evict(judge, judge.capacity)
    tree.match(judge, prompt(judge, "abcd"))


@litmus(rules=("BACKUP-04", "BACKUP-05", "BACKUP-06", "BACKUP-08", "BACKUP-09"), needs=(*READS, "data"))
def storage_tells_tenants_and_places_apart(judge: Judge) -> None:
    """The same tokens in two namespaces, and the same page in two places, are stored and read back."""
    storage(judge)
    for namespace in (None, "tenant-a", "tenant-b"):
        backed(judge, prompt(judge, "aba", namespace=namespace))
    emptied(judge)
    for rid, namespace in enumerate((None, "tenant-a", "tenant-b"), 1):
        brought(judge, rid, prompt(judge, "aba", tail=1, namespace=namespace))
    tiers.settle(judge)


def spelt(judge: Judge) -> tuple[Spelt, ...]:
    """Prompts that spell the seed of a tenant, for this page size."""
    return tuple(reversed([one for one in within() if one.page == judge.size]))


SPELT = 16
"""The page size of these prompts: with smaller pages hardly a tenant's name is short enough, and none below 9."""


@litmus(rules=("BACKUP-05", "TIER-07"), needs=(*READS, "data"), bigram=False, once=True, page=SPELT)
def a_prompt_spells_its_way_to_where_a_tenant_will_look(judge: Judge) -> None:
    """A prompt of no tenant spells a tenant's seed and is stored; then the tenant asks for what stood behind it."""
    storage(judge)
    for rid, one in enumerate(spelt(judge), 1):
        backed(judge, one.prompt)
        emptied(judge)
        brought(judge, rid, one.victim)
        tiers.settle(judge)
        emptied(judge)


@litmus(rules=("BACKUP-05", "TIER-07"), needs=(*READS, "data"), bigram=False, once=True, page=SPELT)
def a_prompt_spells_its_way_to_another_tenants_page(judge: Judge) -> None:
    """The other way round: the tenant's page is stored, and then the prompt asks for it."""
    storage(judge)
    for rid, one in enumerate(spelt(judge), 1):
        backed(judge, one.victim)
        backed(judge, one.prompt._replace(tokens=one.prompt.tokens[: judge.size]))
        emptied(judge)
        brought(judge, rid, one.prompt)
        tiers.settle(judge)
        emptied(judge)


@litmus(rules=("BACKUP-04", "BACKUP-05"), needs=(*READS, "reattach"))
def names_do_not_depend_on_when_storage_came(judge: Judge) -> None:
    """Pages from before storage was attached are continued after it; all are named by their whole prefix."""
    if tiers.books_of(judge).attached:
        tiers.attach(judge, on=False)
    backed(judge, prompt(judge, "ab"))
    storage(judge)
    backed(judge, prompt(judge, "abab"))
    backed(judge, prompt(judge, "ab"))
    emptied(judge)
    brought(judge, 1, prompt(judge, "abab"))
    brought(judge, 2, prompt(judge, "ab"))
    tiers.settle(judge)


@litmus(rules=("BACKUP-04",), needs=READS)
def names_do_not_depend_on_splits(judge: Judge) -> None:
    """A key that was stored as one node is read back after parts of it were shared."""
    storage(judge)
    backed(judge, prompt(judge, "abcd"))
    backed(judge, prompt(judge, "abe"))
    emptied(judge)
    brought(judge, 1, prompt(judge, "abcd"))
    brought(judge, 2, prompt(judge, "abef"))
    tiers.settle(judge)


@litmus(rules=("BACKUP-07", "LIFE-06", "LIFE-08"), needs=STORAGE)
def a_put_ends_where_storage_refuses(judge: Judge) -> None:
    """Storage takes one page of three and refuses the next, raises for another key, and is well again."""
    storage(judge)
    for letters, outcome in (("abc", Outcome("short", 1)), ("def", Outcome("fail", 1)), ("ghi", Outcome())):
        computed(judge, prompt(judge, letters), uses=3)
        if judge.config.write == "write_back":
            tree.evict(judge, judge.capacity)
        while step(judge, "backup"):
            pass
        tiers.tick(judge)
        while step(judge, "put", outcome):
            pass
        tiers.tick(judge)
    tiers.settle(judge)


@litmus(rules=("BACKUP-01", "TIER-02"), needs=TIERS, writes=ASYNC)
def a_full_host_makes_room_for_what_is_due(judge: Judge) -> None:
    """The host is filled with what the device has lost; what is computed then takes its place."""
    pages = judge.config.host_pages
    for first in range(0, pages, 2):
        letter = chr(ord("a") + first // 2)
        backed(judge, prompt(judge, letter + "z"))
        tree.evict(judge, judge.capacity)
    backed(judge, prompt(judge, "xyz"))
    request.begin(judge, 1, prompt(judge, "xyzw"))
    tiers.settle(judge)
    request.end(judge, 1, keep=True)
    tiers.settle(judge)


@litmus(rules=("BACKUP-01", "BACKUP-10", "LIFE-06", "LIFE-08", "LOCK-04"), needs=FAILING, writes=ASYNC)
def a_backup_that_failed_is_due_again(judge: Judge) -> None:
    """The copy of a backup fails under way: nothing of it is left, and the next use backs the page up."""
    key = prompt(judge, "ab")
    computed(judge, key, uses=2)
    step(judge, "backup", FAILED)
    tiers.tick(judge)
    computed(judge, key)
    tiers.deliver(judge)
    tree.evict(judge, judge.capacity)
    tree.match(judge, key)
    tiers.settle(judge)


@litmus(rules=("TIER-06", "TIER-07", "BACKUP-10"), needs=FAILING, writes=ASYNC)
def a_backup_fails_above_another(judge: Judge) -> None:
    """A trunk and what hangs below it are on their way to the host: the trunk's copy fails, the other one lands."""
    computed(judge, prompt(judge, "ab"), uses=2)
    computed(judge, prompt(judge, "abc"), uses=2)
    step(judge, "backup", FAILED)
    step(judge, "backup")
    tiers.tick(judge)
    tiers.deliver(judge)
    tree.evict(judge, judge.capacity)
    tree.match(judge, prompt(judge, "abc"))
    tiers.settle(judge)


@litmus(rules=("BACKUP-01", "TIER-02", "TIER-07", "LIFE-08"), needs=FAILING, writes=ASYNC)
def a_backup_that_cannot_begin_waits_for_the_next_use(judge: Judge) -> None:
    """Who moves contents raises where a backup is to begin: the page is as it was, and the next use backs it up."""
    key = prompt(judge, "ab")
    tiers.fail_copy(judge, BACKUP, 0)
    computed(judge, key, uses=2)
    tiers.deliver(judge)
    computed(judge, key)
    tiers.deliver(judge)
    tree.evict(judge, judge.capacity)
    tree.match(judge, key)
    tiers.settle(judge)
