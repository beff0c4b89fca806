"""A sparse host pool without a table of slots: each row is a list of page numbers, free pages are bits of a number.

A slot is worked out when somebody asks for it.  Rows have room for six pages.  A negative count is refused, and so is
whatever else can't be granted: nothing is an error.  Three tokens of the model are one here.

The device is one chain of slots, each of which names the one behind it.  A buffer is cut from its head when its request
is staged, sent for or admitted, so that it is there when decoding begins, and is hung back whole.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.interface.sparse import SPARSE_PORTS, SparseShape, SparseView

ROWS, ROW_PAGES = 5, 6
GROUP = 3
"""How many tokens of the model are compressed to one."""
END = -1
"""What is behind the last slot of a chain."""
CONFIGS = tuple([Config(page_size=size, pages=13, pool="sparse") for size in (1, 4, 32)])


class Chain:
    """The slots of the device: ``behind`` has for each the one that follows it, be it free or in a buffer."""

    def __init__(self, slots: int) -> None:
        self.behind = [*range(1, slots), END]
        self.free, self.count = 0, slots
        self.ends: dict[int, tuple[int, int]] = {}
        """The first and the last slot of each row's buffer."""

    def of(self, row: int) -> list[int]:
        """The slots of a row's buffer, in order."""
        slot, found = self.ends.get(row, (END, END))[0], []
        while slot != END:
            found.append(slot)
            slot = self.behind[slot]
        return found

    def lengthen(self, row: int, slots: int) -> bool:
        """Hang the first free slots behind a row's buffer, one after the other; whether there were as many."""
        if slots > self.count:
            return False
        for _ in range(slots):
            slot = self.free
            self.free, self.behind[slot] = self.behind[slot], END
            first, last = self.ends.get(row, (slot, END))
            if last != END:
                self.behind[last] = slot
            self.ends[row] = first, slot
        self.count -= slots
        return True

    def hang_back(self, row: int) -> None:
        """A whole buffer goes in front of what is free."""
        self.count += len(self.of(row))
        first, last = self.ends.pop(row, (END, END))
        if last != END:
            self.behind[last], self.free = self.free, first


class SparseMap:
    """Page numbers by row; ``free``: one bit for each page, set where it is free."""

    def __init__(self, config: Config) -> None:
        self.page = config.page_size
        self.pages = config.pages
        self.free = (1 << config.pages) - 1
        self.rows: dict[int, list[int]] = {}
        self.buffers: dict[int, OrderedDict[int, int]] = {}
        self.copies: list[int] = []
        self.queue: list[tuple[int, int, int]] = []
        self.numbers = itertools.count()
        self.promises: dict[int, int] = {}
        self.on_host: dict[int, int] = {}
        self.expected: dict[int, tuple[int | None, list[int], int]] = {}
        self.arrivals = itertools.count()
        self.device = Chain(3 * self.sparse_buffer() + self.page + 2)

    def sparse_shape(self) -> SparseShape:
        """Rows of whole pages."""
        return SparseShape(ROWS, ROW_PAGES * self.page)

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        """Work out what is missing; take it from the highest bit down, or nothing."""
        own = self.rows.get(row, [])
        if start < 0 or tokens < 0 or start > len(own) * self.page:
            return None
        wanted = -(-(start + tokens) // self.page) if tokens else 0
        missing = max(0, wanted - len(own))
        if wanted > ROW_PAGES or missing > self.free.bit_count() - self.promised_beside(row):
            return None
        for _ in range(missing):
            page = self.free.bit_length() - 1
            self.free ^= 1 << page
            own = [*own, page]
        if own:
            self.rows[row] = own
        return [self.slot(own, token) for token in range(start, start + tokens)]

    def promised_beside(self, row: int) -> int:
        """How many pages are kept for others."""
        kept = {other: most - len(self.rows.get(other, [])) for other, most in self.promises.items() if other != row}
        return sum(pages for pages in kept.values() if pages > 0)

    def sparse_reserve(self, row: int, tokens: int) -> bool:
        """A page more than the request needs is kept, unless it is the only one."""
        pages = -(-(tokens // GROUP) // self.page)
        free = self.free.bit_count() - self.promised_beside(row)
        if pages > ROW_PAGES or (pages >= free and (pages > free or free < self.pages)):
            return False
        self.promises[row] = pages
        return True

    def sparse_back_up(self, row: int, length: int) -> Sequence[int] | None:
        """One slot for the group that has just become whole, or none where none has, or it is there."""
        groups, rest = divmod(length - 1, GROUP)
        if rest or self.on_host[row] >= groups:
            return ()
        slots = self.sparse_request(row, groups - 1, 1)
        if slots:
            self.on_host[row] = groups
        return slots

    def slot(self, own: Sequence[int], token: int) -> int:
        """The slot of a token in a row of these pages."""
        page, place = divmod(token, self.page)
        return own[page] * self.page + place

    def sparse_read(self, row: int) -> Sequence[int]:
        """All slots of the row's pages."""
        return tuple(self.slots_of(self.rows.get(row, [])))

    def slots_of(self, pages: Sequence[int]) -> Iterator[int]:
        """The slots of these pages, in order."""
        for page in pages:
            yield from range(page * self.page, (page + 1) * self.page)

    def sparse_free(self, row: int) -> None:
        """Set the bits of the row's pages, and keep none for it."""
        self.promises.pop(row, None)
        self.device.hang_back(row)
        for page in self.rows.pop(row, []):
            self.free |= 1 << page

    def sparse_abort(self, row: int) -> None:
        """As if it had been retracted."""
        self.sparse_retract(row)

    def sparse_receives(self, tokens: int) -> bool:
        """As for prompts that are computed here."""
        return self.sparse_prefills(tokens)

    def sparse_prealloc(self, row: int, tokens: int, page_size: int) -> Sequence[int] | None:
        """Slots, and the pages that a peer may write to until it says that it won't."""
        slots = self.sparse_request(row, 0, tokens // GROUP) if self.sparse_connect(page_size) else None
        if slots:
            self.lend(row, tokens // GROUP)
            self.expected[next(self.arrivals)] = row, self.rows[row], tokens
        return slots

    def sparse_destinations(self, row: int) -> Sequence[int]:
        """The row's list."""
        return tuple(self.rows[row])

    def sparse_transferring(self) -> Sequence[int]:
        """Their numbers."""
        return tuple(self.expected)

    def sparse_transferred(self, transfer: int, arrived: bool) -> None:
        """What belongs to no row any more is free now."""
        row, pages, tokens = self.expected.pop(transfer)
        if row is None:
            for page in pages:
                self.free |= 1 << page
        elif arrived:
            self.sparse_admit(row, tokens)
        else:
            self.sparse_free(row)

    def sparse_prefills(self, tokens: int) -> bool:
        """Prompts that are too long for a row, or whose buffer the device has no room for, are refused here already."""
        groups = tokens // GROUP
        return groups <= ROW_PAGES * self.page and self.size_of(groups) <= self.device.count

    def sparse_stage(self, row: int, tokens: int) -> Sequence[int] | None:
        """Slots, then a copy and a place in the queue."""
        slots = self.sparse_request(row, 0, tokens // GROUP)
        if slots:
            self.lend(row, tokens // GROUP)
            number = next(self.numbers)
            self.copies.append(number)
            self.queue.append((number, row, tokens))
        return slots

    def sparse_copied(self, copy: int) -> None:
        """One stream: what began before this copy has ended, too."""
        self.copies = [number for number in self.copies if number > copy]

    def sparse_copying(self) -> Sequence[int]:
        """The numbers on the stream."""
        return self.copies.copy()

    def sparse_ready(self) -> Sequence[int]:
        """One row at a time; its buffer is filled as it decodes."""
        if not self.queue or self.queue[0][0] in self.copies:
            return ()
        _, row, tokens = self.queue.pop(0)
        self.sparse_admit(row, tokens)
        return (row,)

    def sparse_retract(self, row: int) -> None:
        """The whole stream is waited for, if the row is staged."""
        if any(staged == row for _, staged, _ in self.queue):
            self.copies.clear()
            self.queue = [one for one in self.queue if one[1] != row]
        for number, (receiver, pages, tokens) in self.expected.items():
            if receiver == row:
                self.expected[number] = None, pages, tokens
                self.rows[row] = [page for page in self.rows[row] if page not in pages]
        self.sparse_free(row)

    def sparse_available(self) -> int:
        """Count the bits."""
        return self.free.bit_count() * self.page

    def sparse_view(self) -> SparseView:
        """Slots of the free pages, the highest first, and of each row."""
        free = [page for page in reversed(range(self.pages)) if self.free >> page & 1]
        return SparseView(tuple(self.slots_of(free)), {row: self.sparse_read(row) for row in self.rows})

    def sparse_buffer(self) -> int:
        """Room for two pages."""
        return 2 * self.page

    def sparse_admit(self, row: int, length: int) -> None:
        """Tokens by recency, each with its place; a place without a token has a negative number for one."""
        self.on_host[row] = groups = length // GROUP
        self.lend(row, groups)
        fits = groups <= self.sparse_buffer()
        self.buffers[row] = OrderedDict((place if fits else ~place, place) for place in range(self.sparse_buffer()))

    def sparse_swap(self, row: int, length: int, tokens: Sequence[int]) -> Sequence[int]:
        """Wanted tokens are moved behind the others in their old order; the first of the others make room.

        What can't be wanted is nowhere.
        """
        held, newest = self.buffers[row], length // GROUP - 1
        if len({token for token in tokens if 0 <= token <= newest}) < len(tokens) or len(tokens) > len(held):
            return [-1] * len(tokens)
        if newest < len(held):
            return tokens
        wanted, room = set(tokens), len(held)
        hits = [token for token in held if token in wanted]
        missing = [token for token in tokens if token not in held and token != newest]
        for token in hits:
            held.move_to_end(token)
        places = [held.popitem(last=False)[1] for _ in missing]
        held.update(zip(missing, places, strict=True))
        for token in hits:
            held.move_to_end(token)
        return [room if token == newest else held[token] for token in tokens]

    def size_of(self, groups: int) -> int:
        """How many slots the buffer of so many groups has: whole pages, and one more when these are all of it."""
        pages = -(-groups // self.page)
        return min(pages * self.page, self.sparse_buffer()) + (pages * self.page >= self.sparse_buffer())

    def lend(self, row: int, groups: int) -> bool:
        """A buffer is as large as so many groups take, if the device has what it lacks; whether it has."""
        return self.device.lengthen(row, self.size_of(groups) - len(self.device.of(row)))

    def sparse_device_available(self) -> int:
        """As it was counted."""
        return self.device.count

    def sparse_device_buffer(self, row: int) -> Sequence[int]:
        """Along the chain."""
        return tuple(self.device.of(row))

    def sparse_grow(self, row: int, length: int) -> int | None:
        """What the buffer lacks is cut from the chain; the newest group has the slot of its place, or the last one."""
        groups = length // GROUP
        if not self.lend(row, groups):
            return None
        return self.device.of(row)[min(groups - 1, self.sparse_buffer())]

    def sparse_connect(self, page_size: int) -> bool:
        """Only equals."""
        return not page_size - self.page


class SparseMapTarget:
    """Makes them; ``configs`` says that they are nothing else."""

    profile = Profile(sparse_count="reject", sparse_staged="nothing", sparse_ratio=GROUP, misuse="ignore")
    capabilities = frozenset(SPARSE_PORTS)
    configs = CONFIGS

    def make(self, config: Config) -> SparseMap:
        """A fresh one."""
        if config.pool != "sparse":
            raise Unsupported("it is a sparse host pool alone")
        return SparseMap(config)


target = SparseMapTarget()
