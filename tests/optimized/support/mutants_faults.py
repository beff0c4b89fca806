"""Mutants of what happens when something fails: the defects of November 2026, and slips that are near.

They are judged by the sweep (:mod:`tests.optimized.test_fault_sweep`), which looks at counters, contents and
holds itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from kvlitmus.mutants.mutant import Register, recipe_of
from kvlitmus.optimized.tree import BUSY
from kvlitmus.optimized.work import BACKUP, LOAD
from tests.optimized.support.mutants import PACKAGE, nothing
from tests.support.mutants import Change, Original, Patched

FAULTS = Register()


def fault(*places: str) -> Callable[[Change], Change]:
    """Register what makes a replacement out of an original; the sweep puts its own parts into the cache."""

    def register(change: Change) -> Change:
        id = change.__name__.replace("_", "-")
        patches = {f"{PACKAGE}.{place}": change for place in places}
        FAULTS.add(Patched(id=id, recipe=recipe_of(id, change), kills=("the sweep",), patches=patches))
        return change

    return register


@fault("load:Loads.start")
def resident_before_it_is_submitted(original: Original) -> Any:
    """The pages of a load are resident, and stay so when the mover raises (row 3)."""

    def start(self: Any, found: Any, sources: Any, pages: Any) -> Any:
        host_pages = self.tree.path_host_pages(found.place, found.resident)
        self.tree.make_resident(sources, pages)
        self.tree.lock(found.place)
        ticket = self.submit(LOAD, lambda: self.mover.load(host_pages, pages))
        if ticket is None:
            return None
        return self.follow(LOAD, found.place, sources, pages, host_pages, ticket)

    return start


@fault("backup:Backups.copied")
def spilled_whatever_came(original: Original) -> Any:
    """A spill counts as copied when its copy has failed (row 4)."""

    def copied(self: Any, run: Any, pages: Any) -> bool:
        original(self, run, pages)
        return True

    return copied


@fault("copying:Copies.advance")
def errors_of_copies_come_through(original: Original) -> Any:
    """What a ticket raises comes out of the cache, and its job stays (row 5)."""

    def advance(self: Any, work: Any, layers: Any) -> bool:
        work.ticket.advance(layers)
        return True

    return advance


@fault("backup:Backups.start")
def busy_before_it_is_submitted(original: Original) -> Any:
    """A node whose backup can't be submitted stays busy and locked (row 6)."""

    def start(self: Any, node: Any) -> bool:
        pages = self.host.take_or_evict(node.hi - node.lo)
        if pages is None:
            return False
        end = self.tree.place(node.branch, node.hi)
        self.tree.give_host(node, pages, False, False)
        self.tree.set_flags((node,), BUSY)
        self.tree.lock(end)
        device_pages = self.tree.device_run(node)
        ticket = self.submit(BACKUP, lambda: self.mover.backup(device_pages, pages))
        if ticket is None:
            return False
        self.follow(BACKUP, end, (node,), device_pages, pages, ticket)
        return True

    return start


@fault("tree:Tree.room", "branch:Branch.append")
def branch_hangs_before_it_has_room(original: Original) -> Any:
    """A new branch is found before it has memory for its pages (row 11)."""
    if original.__name__ == "append":

        def append(self: Any, units: Any, pages: Any, page_size: int, *how: Any) -> None:
            self.room(len(units) // page_size, page_size)
            original(self, units, pages, page_size, *how)

        return append

    def room(self: Any, branch: Any, end: int, units: Any) -> Any:
        return original(self, branch, end, self.no_units)

    return room


@fault("load:Loads.fail")
def failed_load_stays(original: Original) -> Any:
    """A load that failed ends like one that has landed."""
    return lambda self, work: self.finish(work)


@fault("tree:Tree.relied_on")
def failed_load_asks_nobody(original: Original) -> Any:
    """The pages of a load that failed leave the device though a request has them."""
    return lambda self, runs: False


@fault("load:Loads.fail")
def failed_load_keeps_its_pins(original: Original) -> Any:
    """The sources of a load that failed stay pinned."""

    def fail(self: Any, work: Any) -> None:
        unpin, self.tree.unpin = self.tree.unpin, nothing
        try:
            original(self, work)
        finally:
            self.tree.unpin = unpin

    return fail


@fault("backup:Backups.fail")
def failed_backup_stays(original: Original) -> Any:
    """A backup that failed ends like one that has landed."""

    def fail(self: Any, work: Any) -> None:
        self.landed(work)
        self.finish(work)

    return fail


@fault("backup:Backups.fail")
def failed_backup_loses_its_pages(original: Original) -> Any:
    """The host pages of a backup that failed are never free again."""

    def fail(self: Any, work: Any) -> None:
        pages, work.host_pages = work.host_pages, np.empty(0, np.int32)
        original(self, work)
        work.host_pages = pages

    return fail


@fault("tree:Tree.depended_on")
def failed_backup_asks_nobody(original: Original) -> Any:
    """A host copy is taken away from above others."""
    return lambda self, runs: False


@fault("load:Loads.load_back")
def refused_load_keeps_its_pins(original: Original) -> Any:
    """A load that is declined, for whatever reason, leaves its sources pinned."""

    def load_back(self: Any, *args: Any, **how: Any) -> Any:
        unpin, self.tree.unpin = self.tree.unpin, nothing
        try:
            return original(self, *args, **how)
        finally:
            self.tree.unpin = unpin

    return load_back


@fault("request:RequestTable.end")
def request_is_forgotten_first(original: Original) -> Any:
    """A request that can't be cached for want of memory is gone, and so are its pages."""

    def end(self: Any, rid: Any, **how: Any) -> Any:
        try:
            return original(self, rid, **how)
        except MemoryError:
            del self.running[rid]
            raise

    return end


@fault("pool:PagePool.give_back")
def failed_begin_keeps_its_pages(original: Original) -> Any:
    """What a begin has taken when memory runs out is lost."""

    def give_back(self: Any, pages: Any) -> None:
        caller = inspect.currentframe()
        assert caller is not None and caller.f_back is not None
        if caller.f_back.f_code.co_name != "begin":
            original(self, pages)

    return give_back


@fault("put:Puts.outstanding")
def put_without_memory_comes_through(original: Original) -> Any:
    """An eviction ends in the middle when a put finds no memory."""

    def outstanding(self: Any, runs: Any) -> None:
        if self.store is not None:
            self.start_waiting(runs)

    return outstanding


@fault("fetch:Fetches.commit")
def failed_commit_keeps_its_pages(original: Original) -> Any:
    """What was read ahead is neither cached nor freed when there is no memory for it."""

    def commit(self: Any, operation: Any) -> None:
        insert_host = self.tree.insert_host
        release, lost = self.host.release, []

        def insert(*args: Any) -> Any:
            try:
                return insert_host(*args)
            except MemoryError:
                lost.append(True)
                raise

        self.tree.insert_host = insert
        self.host.release = lambda pages: None if lost else release(pages)
        try:
            original(self, operation)
        finally:
            del self.tree.insert_host, self.host.release

    return commit
