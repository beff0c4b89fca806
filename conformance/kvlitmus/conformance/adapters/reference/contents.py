"""What is in the slots of the reference, and how it talks to storage.

The reference says which pages to copy, which names to ask for, and where to put what comes; here it is done.  What
storage did goes back into it as an outcome: how many pages it has, how many were read or taken, and whether anything
more will come.  Whatever storage raises is contained: it ends the job with what was completed.

An :class:`~kvlitmus.spec.interface.tiers.Outcome` other than *done* is made here too, as if storage had answered so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kvlitmus.reference.prefix.event import Moved
from kvlitmus.reference.prefix.hierarchy import DEVICE, HOST, under_way
from kvlitmus.spec.interface.tiers import LOAD, Outcome, PageStore
from kvlitmus.spec.prefix.own_work import Operation, Transfer
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Name, PageNo

One = TypeVar("One")
Hash = Callable[[Name], str]
"""From the name of a page to the name under which it is stored."""

NOBODY = -1
"""What a copy that failed leaves in a slot."""


class Contents:
    """A list of numbers per pool, one for each slot; nought in a slot that was never written."""

    def __init__(self, device_pages: int, host_pages: int, page_size: int) -> None:
        self.size = page_size
        self.pools = {DEVICE: [0] * (device_pages * page_size), HOST: [0] * (host_pages * page_size)}

    def make(self, moved: Iterable[Moved]) -> None:
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


def held_by(state: State, rid: int, contents: Contents) -> list[int]:
    """What the row of a request holds; of pages that a load is still to bring, what it reads on the host."""
    running, size = state.requests[rid], contents.size
    held = [contents.pools[DEVICE][slot] for slot in running.row]
    loading = {name for one in under_way(state, LOAD) for name in one.names}
    for at, name in enumerate(running.path.pages[: running.cached // size]):
        if name in loading:
            held[at * size : at * size + size] = contents.read(HOST, state.host.pages[name].page)
    return held


def failed(state: State, one: Transfer, contents: Contents) -> None:
    """A copy between the tiers ends where it is; what it was to fill holds nobody's contents."""
    copies, resident = state.host.pages, state.device.pages
    for name in one.names:
        tier, page = (DEVICE, resident[name].page) if one.kind == LOAD else (HOST, copies[name].page)
        contents.write(tier, page, (NOBODY,) * contents.size)


def queried(one: Operation, outcome: Outcome, store: PageStore | None, hash_of: Hash) -> Outcome:
    """Ask storage what it has of a query's pages; a query that raises found nothing."""
    hit = 0
    if one.live and store is not None and outcome.how != "fail":
        try:
            hit = store.exists([hash_of(name) for name in one.names])
        except Exception:  # noqa: BLE001 - whatever storage raises is a miss or a refusal
            hit = 0
    return Outcome("short", min(hit, outcome.pages) if outcome.how == "short" else hit)


def fetched(one: Operation, outcome: Outcome, store: PageStore | None, hash_of: Hash, contents: Contents) -> Outcome:
    """Read pages from storage, each into its host slots before it counts."""
    if not one.live or store is None:
        return Outcome("short", 0)

    def read(page: tuple[Name, PageNo]) -> bool:
        found = store.get(hash_of(page[0]))
        whole = found is not None and len(found) == contents.size
        if whole:
            contents.write(HOST, page[1], found or ())
        return whole

    return gone_on(outcome, list(zip(one.names, one.held, strict=True))[one.completed :], read)


def written(
    state: State, one: Transfer, outcome: Outcome, store: PageStore | None, hash_of: Hash, contents: Contents
) -> Outcome:
    """Hand pages to storage, in order, up to the first that it doesn't take."""

    def put(name: Name) -> bool:
        kept = contents.read(HOST, state.host.pages[name].page)
        return store is not None and store.put(hash_of(name), kept)

    return gone_on(outcome, one.names[one.done :], put)


def gone_on(outcome: Outcome, pages: Iterable[One], take: Callable[[One], bool]) -> Outcome:
    """Take page after page as far as the outcome lets it, up to the first that can't be taken; how far it came."""
    done = 0
    for page in pages:
        if outcome.how != "done" and done == outcome.pages:
            break
        try:
            taken = take(page)
        except Exception:  # noqa: BLE001 - whatever storage raises is a miss or a refusal
            taken = False
        if not taken:
            return Outcome("short", done)
        done += 1
    return Outcome("short" if outcome.how in ("short", "fail") else "part", done)
