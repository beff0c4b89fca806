"""A sparse host pool as engines write it: a free list, a table of rows filled with −1, and a length for each row.

The table has one entry for each token, so a row is read without arithmetic; the free list has one for each slot, and
pages are runs of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.sparse import SparseShape, SparseView
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile

ROWS = 4
ROW_PAGES = 5
"""A row has room for so many pages and half a page, which is of no use to it."""
NO_SLOT = -1


class Staging(NamedTuple):
    """A row that waits for its copy, the copy's number, and how many tokens are staged."""

    copy: int
    row: int
    tokens: int


class Transfer(NamedTuple):
    """A row that a peer writes to, and how many tokens come."""

    row: int
    tokens: int


class RowTable:
    """Rows of slots over a pool of pages; the whole of a sparse specimen, which a mutant may replace."""

    def __init__(self, config: Config, profile: Profile) -> None:
        self.page = config.page_size
        self.profile = profile
        self.ratio = profile.sparse_ratio
        self.width = ROW_PAGES * self.page + self.page // 2
        self.size = config.pages * self.page
        self.free_slots = list(range(self.size))
        self.table = [[NO_SLOT] * self.width for _ in range(ROWS)]
        self.lengths = [0] * ROWS
        self.room = self.page + 2
        self.buffered = [[NO_SLOT] * self.room for _ in range(ROWS)]
        self.recent = [list(range(self.room)) for _ in range(ROWS)]
        # A slot too few for three long sequences: one waits, or finds that it can't grow.
        self.device = list(range(3 * (self.room + self.page) - 1))
        self.places: list[list[int]] = [[] for _ in range(ROWS)]
        self.begun = 0
        self.copying: set[int] = set()
        self.staged: list[Staging] = []
        self.sent = 0
        self.transfers: dict[int, Transfer] = {}
        self.promised = [0] * ROWS
        self.backed = [0] * ROWS

    # -- pages -------------------------------------------------------------------------------------

    def round_up(self, tokens: int) -> int:
        """So many tokens in whole pages."""
        return -(-tokens // self.page) * self.page

    def take(self, pages: int) -> list[int] | None:
        """The slots of so many pages, or ``None``."""
        many = pages * self.page
        if many > len(self.free_slots):
            return None
        taken, self.free_slots = self.free_slots[:many], self.free_slots[many:]
        return taken

    def give_back(self, slots: Sequence[int]) -> None:
        """These slots are free again."""
        self.free_slots += slots

    def available(self) -> int:
        """How many slots are free."""
        return len(self.free_slots)

    # -- rows --------------------------------------------------------------------------------------

    def nothing(self, tokens: int) -> bool:
        """Whether a request for so many tokens is for none."""
        return tokens <= 0 and self.profile.sparse_count == "empty"

    def check(self, row: int, start: int, tokens: int) -> None:
        """Raise ``ValueError`` for what no row can have; no ``assert``, which isn't looked at under ``python -O``."""
        if start < 0 or tokens < 0:
            raise ValueError(f"expected a start and a count from 0 on (got {start}, {tokens})")
        if start > self.lengths[row]:
            raise ValueError(f"row {row} has {self.lengths[row]} slots: nothing can start at {start}")
        if self.round_up(start + tokens) > self.width:
            raise ValueError(f"row {row} has room for {self.width} slots (wanted up to {start + tokens})")

    def end_of(self, row: int, start: int, tokens: int) -> int:
        """Where the last page ends that is asked for."""
        return self.round_up(start + tokens) if tokens else 0

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        """The slots of some tokens; the row is made as long as it takes, or nothing is changed."""
        if self.nothing(tokens):
            return []
        self.check(row, start, tokens)
        if not self.grow(row, self.end_of(row, start, tokens)):
            return None
        return self.table[row][start : start + tokens]

    def grow(self, row: int, end: int) -> bool:
        """Make a row so long, if it is shorter; whether memory was enough."""
        length = self.lengths[row]
        if end > length:
            if any(self.promised) and end - length > self.unpromised(row):
                return False
            slots = self.take((end - length) // self.page)
            if slots is None:
                return False
            self.table[row][length:end] = slots
            self.lengths[row] = end
        return True

    def held(self, row: int) -> list[int]:
        """All slots of a row."""
        return [slot for slot in self.table[row] if slot != NO_SLOT]

    def free(self, row: int) -> None:
        """Give back all that a row has."""
        self.give_back(self.held(row))
        self.release(row)
        self.clear(row)

    def abort(self, row: int) -> None:
        """Give back all that the row of an aborted request has."""
        self.withdraw(row)
        self.break_off(row)
        self.free(row)

    # -- admission and backups ---------------------------------------------------------------------

    def unpromised(self, row: int) -> int:
        """How many free slots no other row was promised."""
        promises = zip(self.promised, self.lengths, strict=True)
        others = sum(max(0, most - own) for at, (most, own) in enumerate(promises) if at != row)
        return len(self.free_slots) - others

    def reserve(self, row: int, tokens: int) -> bool:
        """Promise so many tokens to a row, if there is room for all of them."""
        most = self.round_up(self.hosted(tokens))
        if most > min(self.unpromised(row), self.width):
            return False
        self.promised[row] = most
        return True

    def back_up(self, row: int, length: int) -> list[int] | None:
        """The slot of the token before the newest, if the host lacks that token."""
        if self.on_host(row, length):
            return []
        place = self.place(length)
        slots = self.request(row, place, 1)
        if slots is not None:
            self.backed[row] = place + 1
        return slots

    def on_host(self, row: int, length: int) -> bool:
        """Whether the host has all tokens but the newest, or those that it lacks are no whole group yet."""
        return not self.whole(length) or self.backed[row] >= self.hosted(length - 1)

    # -- tokens that are compressed to one ---------------------------------------------------------

    def hosted(self, tokens: int) -> int:
        """How many slots so many tokens of the model take."""
        return tokens // self.ratio

    def whole(self, length: int) -> bool:
        """Whether the tokens before the newest one are whole groups."""
        return (length - 1) % self.ratio == 0

    def place(self, length: int) -> int:
        """Where in its row the last group before the newest token is."""
        return self.hosted(length - 1) - 1

    # -- staging -----------------------------------------------------------------------------------

    def stage(self, row: int, tokens: int) -> list[int] | None:
        """The slots of a prompt; a copy to them begins, unless there are none."""
        slots = self.request(row, 0, self.hosted(tokens))
        if slots:
            self.begin(row, tokens)
        return slots

    def begin(self, row: int, tokens: int) -> None:
        """A copy begins, and its row waits for it."""
        self.widen(row, tokens)
        self.copying.add(self.begun)
        self.staged.append(Staging(self.begun, row, tokens))
        self.begun += 1

    def copied(self, copy: int) -> None:
        """The device has done a copy."""
        self.copying.discard(copy)

    def ready(self) -> list[int]:
        """The rows that begin to decode: those staged first whose copies have ended."""
        many = self.acknowledged()
        done, self.staged = self.staged[:many], self.staged[many:]
        for one in done:
            self.begin_decoding(one.row, one.tokens)
        return [one.row for one in done]

    def acknowledged(self) -> int:
        """How many of the staged rows are copied, up to the first one that isn't."""
        return next((at for at, one in enumerate(self.staged) if one.copy in self.copying), len(self.staged))

    def begin_decoding(self, row: int, tokens: int) -> None:
        """The first tokens of a prompt are on the device already, as many as there is room for."""
        self.admit(row, tokens)
        if self.hosted(tokens) > self.room and self.profile.sparse_staged == "first":
            self.buffered[row] = list(range(self.room))

    def withdraw(self, row: int) -> None:
        """A row waits no more; its copy is waited for, as it writes to pages that are free soon."""
        for one in self.staged:
            if one.row == row:
                self.copying.discard(one.copy)
        self.staged = [one for one in self.staged if one.row != row]

    def retract(self, row: int) -> None:
        """Give back all that the row of a request has that will be computed anew."""
        self.withdraw(row)
        self.break_off(row)
        self.free(row)

    # -- transfers ---------------------------------------------------------------------------------

    def prealloc(self, row: int, tokens: int, page_size: int) -> list[int] | None:
        """The slots of a prompt, to which a peer writes from now on, unless there are none."""
        if not self.accepts(page_size):
            return None
        slots = self.request(row, 0, self.hosted(tokens))
        if slots:
            self.expect(row, tokens)
        return slots

    def expect(self, row: int, tokens: int) -> None:
        """A transfer begins; the device has room for what it brings."""
        self.widen(row, tokens)
        self.transfers[self.sent] = Transfer(row, tokens)
        self.sent += 1

    def destinations(self, row: int) -> list[int]:
        """The pages that a peer writes to."""
        return [slot // self.page for slot in self.held(row)[:: self.page]]

    def transferred(self, transfer: int, arrived: bool) -> None:
        """A peer has ended a transfer."""
        one = self.transfers.pop(transfer)
        if arrived:
            self.arrive(one)
        else:
            self.free(one.row)

    def arrive(self, one: Transfer) -> None:
        """All tokens of a prompt are on the host, and nowhere else: its request decodes."""
        self.admit(one.row, one.tokens)

    def break_off(self, row: int) -> None:
        """The peer is told to stop, and has, before pages are free that it would write to."""
        self.transfers = {number: one for number, one in self.transfers.items() if one.row != row}

    def clear(self, row: int) -> None:
        """Nothing is in a row any more, and nothing promised to it."""
        self.promised[row] = self.backed[row] = 0
        self.table[row] = [NO_SLOT] * self.width
        self.lengths[row] = 0

    # -- the buffer --------------------------------------------------------------------------------

    def admit(self, row: int, length: int) -> None:
        """Fill the buffer with all tokens of a row, or leave it empty if they are too many."""
        hosted = self.hosted(length)
        self.widen(row, length)
        self.buffered[row] = list(range(self.room)) if hosted <= self.room else [NO_SLOT] * self.room
        self.recent[row] = list(range(self.room))
        self.backed[row] = hosted

    def check_wishes(self, hosted: int, wanted: Sequence[int]) -> None:
        """Raise ``ValueError`` for what can't be wanted of so many tokens."""
        odd = [token for token in wanted if not 0 <= token < hosted]
        if odd or len(set(wanted)) < len(wanted) or len(wanted) > self.room:
            raise ValueError(f"expected up to {self.room} distinct tokens of {hosted}, got {list(wanted)}")

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        """The places of these tokens; what isn't there takes the place that was used least recently."""
        hosted = self.hosted(length)
        self.check_wishes(hosted, wanted)
        if hosted <= self.room:
            return list(wanted)
        buffered, newest = self.buffered[row], hosted - 1
        hits = [place for place in self.recent[row] if buffered[place] in wanted]
        idle = [place for place in self.recent[row] if place not in hits]
        taken: list[int] = []
        places: list[int] = []
        for token in wanted:
            if token == newest:
                places.append(self.room)
            elif token in buffered and buffered.index(token) in hits:
                places.append(buffered.index(token))
            else:
                taken.append(self.victim(idle))
                buffered[taken[-1]] = token
                places.append(taken[-1])
        self.use(row, idle, taken, hits)
        return places

    def victim(self, idle: list[int]) -> int:
        """Take the next place that is used anew out of those that hold nothing wanted."""
        return idle.pop(0)

    def use(self, row: int, idle: list[int], taken: list[int], hits: list[int]) -> None:
        """The order in which places are used anew: these were used in this step, the others weren't."""
        self.recent[row] = idle + taken + hits

    # -- the device's slots behind the buffers -----------------------------------------------------

    def slots_for(self, length: int) -> int:
        """How many device slots a buffer has for so many tokens of the model."""
        paged = min(self.round_up(self.hosted(length)), self.room)
        return paged if paged < self.room and self.profile.sparse_grows == "page" else self.room + self.reserve_slots()

    def reserve_slots(self) -> int:
        """How many slots are behind the room of a buffer, the newest token's own the first of them."""
        return self.page

    def has_room(self, length: int) -> bool:
        """Whether the device has slots for a buffer of so many tokens."""
        return self.slots_for(length) <= len(self.device)

    def widen(self, row: int, length: int) -> bool:
        """Take the slots that a buffer lacks, all or none; whether there were enough."""
        lacking = max(0, self.slots_for(length) - len(self.places[row]))
        if lacking > len(self.device):
            return False
        self.places[row] += self.device[:lacking]
        del self.device[:lacking]
        return True

    def grow_buffer(self, row: int, length: int) -> int | None:
        """Make room for the newest token; its slot."""
        if not self.widen(row, length):
            return None
        return self.places[row][self.newest_place(length)]

    def newest_place(self, length: int) -> int:
        """Where the newest token is in its buffer."""
        return min(self.hosted(length) - 1, self.room)

    def release(self, row: int) -> None:
        """Give a buffer back."""
        self.device += self.places[row]
        self.places[row] = []

    def accepts(self, page_size: int) -> bool:
        """Whether a peer with such pages may write here."""
        return page_size == self.page


class SparseSpecimen:
    """A table of rows behind the ports."""

    def __init__(self, table: RowTable) -> None:
        self.table = table

    def sparse_shape(self) -> SparseShape:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return SparseShape(ROWS, self.table.width)

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return self.table.request(row, start, tokens)

    def sparse_read(self, row: int) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return self.table.held(row)

    def sparse_free(self, row: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        self.table.free(row)

    def sparse_abort(self, row: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseAbort`."""
        self.table.abort(row)

    def sparse_prefills(self, tokens: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        return self.table.has_room(tokens)

    def sparse_stage(self, row: int, tokens: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        return self.table.stage(row, tokens)

    def sparse_copied(self, copy: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        self.table.copied(copy)

    def sparse_copying(self) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        return sorted(self.table.copying)

    def sparse_ready(self) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        return self.table.ready()

    def sparse_retract(self, row: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        self.table.retract(row)

    def sparse_back_up(self, row: int, length: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBackups`."""
        return self.table.back_up(row, length)

    def sparse_reserve(self, row: int, tokens: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseAdmission`."""
        return self.table.reserve(row, tokens)

    def sparse_receives(self, tokens: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return self.table.has_room(tokens)

    def sparse_prealloc(self, row: int, tokens: int, page_size: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return self.table.prealloc(row, tokens, page_size)

    def sparse_destinations(self, row: int) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return self.table.destinations(row)

    def sparse_transferred(self, transfer: int, arrived: bool) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        self.table.transferred(transfer, arrived)

    def sparse_transferring(self) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return sorted(self.table.transfers)

    def sparse_device_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseGrowth`."""
        return len(self.table.device)

    def sparse_device_buffer(self, row: int) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseGrowth`."""
        return tuple(self.table.places[row])

    def sparse_grow(self, row: int, length: int) -> int | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseGrowth`."""
        return self.table.grow_buffer(row, length)

    def sparse_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return self.table.available()

    def sparse_view(self) -> SparseView:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseInspect`."""
        rows = {row: [slot for slot in slots if slot != NO_SLOT] for row, slots in enumerate(self.table.table)}
        return SparseView(list(self.table.free_slots), rows)

    def sparse_buffer(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBuffers`."""
        return self.table.room

    def sparse_admit(self, row: int, length: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBuffers`."""
        self.table.admit(row, length)

    def sparse_swap(self, row: int, length: int, tokens: Sequence[int]) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseSwaps`."""
        return self.table.swap(row, length, tokens)

    def sparse_connect(self, page_size: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparsePeer`."""
        return self.table.accepts(page_size)
