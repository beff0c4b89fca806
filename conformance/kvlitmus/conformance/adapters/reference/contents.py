"""What is in the slots of the reference, and how it talks to storage.

The model says which pages to copy, which names to ask for, and where to put what comes; here it is done.  What storage
answers goes back into the model as an argument: how many pages it has, how many were read or taken, and whether
anything more will come.  Whatever storage raises is contained: it ends the job with what was completed.

An :class:`~kvlitmus.conformance.ports.tiers.Outcome` other than *done* is made here too, as if storage had answered so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvlitmus.conformance.ports.tiers import Outcome, PageStore
from kvlitmus.reference import backup, fetch, put
from kvlitmus.reference.hierarchy import DEVICE, HOST, Hierarchy, Moved
from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.units import Name, PageNo, Pages

Hash = Callable[[Name], str]
"""From the name of a page to the name under which it is stored."""

NOBODY = -1
"""What a copy that failed leaves in a slot."""


class Contents:
    """A list of numbers per pool, one for each slot; nought in a slot that was never written."""

    def __init__(self, device_pages: int, host_pages: int, page_size: int) -> None:
        self.size = page_size
        self.pools = {DEVICE: [0] * (device_pages * page_size), HOST: [0] * (host_pages * page_size)}

    def make(self, moved: Sequence[Moved]) -> None:
        """Make these copies, one after the other."""
        for source, at, to in moved:
            target = HOST if source == DEVICE else DEVICE
            self.write(target, to, self.read(source, at))

    def read(self, tier: str, page: PageNo) -> tuple[int, ...]:
        """The contents of a page."""
        return tuple(self.pools[tier][page * self.size : (page + 1) * self.size])

    def write(self, tier: str, page: PageNo, contents: Sequence[int]) -> None:
        """Replace the contents of a page."""
        self.pools[tier][page * self.size : (page + 1) * self.size] = contents

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write slots of the device."""
        for slot, value in zip(slots, values, strict=True):
            self.pools[DEVICE][slot] = value


def failed(now: Hierarchy, job: int, contents: Contents) -> Hierarchy:
    """A copy between the tiers ends where it is; what it was to fill holds nobody's contents."""
    one = next(one for one in now.transfers if one.id == job)
    copies, resident = now.host.copies, now.cache.tree.pages
    for name in one.names:
        tier, page = (DEVICE, resident[name].page) if one.kind == LOAD else (HOST, copies[name].page)
        contents.write(tier, page, (NOBODY,) * contents.size)
    return backup.fail(now, job)


def queried(now: Hierarchy, job: int, outcome: Outcome, store: PageStore | None, hash_of: Hash) -> Hierarchy:
    """Ask storage what it has of a query's pages; a query that raises found nothing."""
    operation = fetch.of_job(now, job)
    hit = 0
    if operation.live and store is not None and outcome.how != "fail":
        try:
            hit = store.exists([hash_of(name) for name in operation.names])
        except Exception:  # noqa: BLE001 - whatever storage raises is a miss or a refusal
            hit = 0
    if outcome.how == "short":
        hit = min(hit, outcome.pages)
    return fetch.answer(now, job, Pages(hit))


def fetched(
    now: Hierarchy, job: int, outcome: Outcome, store: PageStore | None, hash_of: Hash, contents: Contents
) -> Hierarchy:
    """Read pages from storage, each into its host slots before it counts."""
    operation = fetch.of_job(now, job)
    if not operation.live or store is None:
        return fetch.read(now, job, 0, over=True)
    pages = 0
    for name, page in list(zip(operation.names, operation.held, strict=True))[operation.completed :]:
        if outcome.how != "done" and pages == outcome.pages:
            break
        try:
            found = store.get(hash_of(name))
        except Exception:  # noqa: BLE001 - whatever storage raises is a miss or a refusal
            found = None
        if found is None or len(found) != contents.size:
            return fetch.read(now, job, pages, over=True)
        contents.write(HOST, page, found)
        pages += 1
    return fetch.read(now, job, pages, over=outcome.how in ("short", "fail"))


def written(
    now: Hierarchy, job: int, outcome: Outcome, store: PageStore | None, hash_of: Hash, contents: Contents
) -> Hierarchy:
    """Hand pages to storage, in order, up to the first that it doesn't take."""
    (waiting,) = [one for one in now.puts if one.id == job]
    pages = 0
    for name in waiting.names[waiting.done :]:
        if outcome.how != "done" and pages == outcome.pages:
            break
        try:
            taken = store is not None and store.put(hash_of(name), contents.read(HOST, now.host.copies[name].page))
        except Exception:  # noqa: BLE001 - whatever storage raises is a miss or a refusal
            taken = False
        if not taken:
            return put.accepted(now, job, pages, over=True)
        pages += 1
    return put.accepted(now, job, pages, over=outcome.how in ("short", "fail"))
