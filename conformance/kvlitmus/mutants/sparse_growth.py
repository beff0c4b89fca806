"""Mutants of the device's slots behind the buffers of sparse rows, and legal variations of how they are had."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.sparse import RowTable, Transfer
from kvlitmus.mutants.registry import mutant, null_mutant

WHOLE = replace(PROFILE, sparse_grows="whole")


@mutant("sparse-growth-takes-before-it-refuses", bugs=("H-51",), kills=("SPARSE-56",))
class GrowthTakesBeforeItRefuses(RowTable):
    """Slots are taken one by one, and when there are no more, growth is refused: what was taken is lost."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        lacking = self.slots_for(length) - len(self.places[row])
        if lacking > len(self.device):
            self.device.clear()
        return super().grow_buffer(row, length)


@mutant("sparse-growth-leaves-a-slot", kills=("SPARSE-57",))
class GrowthLeavesASlot(RowTable):
    """More must be free than is needed: the last slots of the device are never used, and steps refused for them."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        lacking = max(0, self.slots_for(length) - len(self.places[row]))
        if lacking and lacking + self.room >= len(self.device):
            return None
        return super().grow_buffer(row, length)


@mutant("sparse-growth-newest-slot-is-used", kills=("SPARSE-58",))
class GrowthNewestSlotIsUsed(RowTable):
    """The newest token of a long sequence is written to the buffer's last place, which another token has."""

    def newest_place(self, length: int) -> int:
        return min(super().newest_place(length), self.room - 1)


@mutant("sparse-growth-newest-slot-moves", kills=("SPARSE-58",))
class GrowthNewestSlotMoves(RowTable):
    """Each new token of a long sequence has the next slot behind the room: a backup reads where it isn't."""

    def newest_place(self, length: int) -> int:
        return min(self.hosted(length) - 1, len(self.places[0]) - 1, self.room + self.page - 1)


@mutant("sparse-growth-ends-at-the-room", kills=("SPARSE-52", "SPARSE-55"))
class GrowthEndsAtTheRoom(RowTable):
    """A full buffer gets no slot for the newest token, which is written over the last one that is there."""

    def reserve_slots(self) -> int:
        return 0

    def newest_place(self, length: int) -> int:
        return min(super().newest_place(length), self.room - 1)


@mutant("sparse-growth-by-the-token", kills=("SPARSE-52", "SPARSE-55"))
class GrowthByTheToken(RowTable):
    """A buffer takes a slot for each token: pages of the device are shared by rows."""

    def slots_for(self, length: int) -> int:
        return min(self.hosted(length), super().slots_for(length))


@mutant("sparse-growth-a-page-ahead", kills=("SPARSE-52", "SPARSE-55"))
class GrowthAPageAhead(RowTable):
    """A buffer takes the page after the one that it needs: the device is full too early."""

    def slots_for(self, length: int) -> int:
        return super().slots_for(length + self.page * self.ratio)


@mutant("sparse-growth-keeps-slots-free", kills=("SPARSE-53", "SPARSE-54", "SPARSE-55"))
class GrowthKeepsSlotsFree(RowTable):
    """Slots that a buffer takes stay on the free list: two rows decode from one place."""

    def widen(self, row: int, length: int) -> bool:
        had = list(self.device)
        granted = super().widen(row, length)
        self.device = had
        return granted


@mutant("sparse-growth-in-new-slots", kills=("SPARSE-54",))
class GrowthInNewSlots(RowTable):
    """A buffer that grows is given back and had anew: what its places held is not copied over."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        lacking = self.slots_for(length) - len(self.places[row])
        if 0 < lacking <= len(self.device):
            self.release(row)
        return super().grow_buffer(row, length)


@mutant("sparse-growth-before-what-is-there", kills=("SPARSE-54",))
class GrowthBeforeWhatIsThere(RowTable):
    """New slots are put before the old ones: all tokens are read one page further."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        had = len(self.places[row])
        slot = super().grow_buffer(row, length)
        self.places[row] = self.places[row][had:] + self.places[row][:had]
        return slot


@mutant("sparse-growth-takes-host-pages", kills=("SPARSE-61",))
class GrowthTakesHostPages(RowTable):
    """With each page of the device, a page of the host is taken that no row names."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        before = len(self.places[row])
        slot = super().grow_buffer(row, length)
        if len(self.places[row]) > before:
            self.take(1)
        return slot


@mutant("sparse-growth-finished-keeps-newest", kills=("SPARSE-59", "SPARSE-60"))
class GrowthFinishedKeepsNewest(RowTable):
    """A buffer gives back as many slots as it has room for tokens: those behind are lost with each long request."""

    def release(self, row: int) -> None:
        self.device += self.places[row][: self.room]
        self.places[row] = []


@mutant("sparse-growth-retracted-keeps-buffer", kills=("SPARSE-59", "SPARSE-60"))
class GrowthRetractedKeepsBuffer(RowTable):
    """A request that is retracted gives its host pages back and not its buffer, which its row's next request loses."""

    def retract(self, row: int) -> None:
        self.places[row] = []
        super().retract(row)


@mutant("sparse-growth-aborted-keeps-buffer", bugs=("H-52",), kills=("SPARSE-59", "SPARSE-60"))
class GrowthAbortedKeepsBuffer(RowTable):
    """A request that is aborted gives its host pages back, and its buffer on the device is forgotten."""

    def abort(self, row: int) -> None:
        self.places[row] = []
        super().abort(row)


@mutant("sparse-growth-failed-keeps-buffer", kills=("SPARSE-60",))
class GrowthFailedKeepsBuffer(RowTable):
    """The buffer of a prompt whose transfer fails is never given back."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        if not arrived:
            self.places[self.transfers[transfer].row] = []
        super().transferred(transfer, arrived)


@mutant("sparse-growth-gives-back-twice", kills=("SPARSE-53", "SPARSE-59"))
class GrowthGivesBackTwice(RowTable):
    """A buffer's last slots are freed with its pages and once more by themselves: two rows get them."""

    def release(self, row: int) -> None:
        self.device += self.places[row][self.room :]
        super().release(row)


# The buffer of a prompt that has arrived


@mutant("sparse-growth-arrived-without-newest", kills=("SPARSE-52",))
class GrowthArrivedWithoutNewest(RowTable):
    """The buffer of a long prompt that came from a peer has no slot behind its room: its newest token has none."""

    def expect(self, row: int, tokens: int) -> None:
        super().expect(row, tokens)
        self.device += self.places[row][self.room :]
        del self.places[row][self.room :]

    def arrive(self, one: Transfer) -> None:
        had = list(self.places[one.row])
        super().arrive(one)
        self.device += self.places[one.row][len(had) :]
        self.places[one.row] = had


@mutant("sparse-growth-arrived-as-long-as-its-prompt", kills=("SPARSE-52",))
class GrowthArrivedAsLongAsItsPrompt(RowTable):
    """What came from a peer gets a slot of the device for each of its tokens, however few a buffer has room for."""

    def arrive(self, one: Transfer) -> None:
        super().arrive(one)
        lacking = max(0, min(self.hosted(one.tokens) - len(self.places[one.row]), len(self.device)))
        self.places[one.row] += self.device[:lacking]
        del self.device[:lacking]


@mutant("sparse-growth-arrived-once-more", kills=("SPARSE-52",))
class GrowthArrivedOnceMore(RowTable):
    """The room behind a long prompt's buffer is taken when its transfer begins, and again when it ends."""

    def arrive(self, one: Transfer) -> None:
        super().arrive(one)
        if self.hosted(one.tokens) > self.room and len(self.device) >= self.page:
            self.places[one.row] += self.device[: self.page]
            del self.device[: self.page]


@mutant("sparse-growth-arrived-is-one-page", kills=("SPARSE-52",))
class GrowthArrivedIsOnePage(RowTable):
    """Who decodes what a peer sent begins with a page of the device: longer prompts lie beyond their buffer."""

    def arrive(self, one: Transfer) -> None:
        super().arrive(one)
        self.device += self.places[one.row][self.page :]
        del self.places[one.row][self.page :]


# Legal variations


@null_mutant("sparse-growth-whole-buffers", profile=WHOLE)
class GrowthWholeBuffers(RowTable):
    """Each buffer is whole from the beginning, as the profile says, and no step lacks a slot."""


@null_mutant("sparse-growth-one-slot-behind")
class GrowthOneSlotBehind(RowTable):
    """A full buffer gets one slot for the newest token, and no page."""

    def reserve_slots(self) -> int:
        return 1


@null_mutant("sparse-growth-last-slots-first")
class GrowthLastSlotsFirst(RowTable):
    """Slots that were given back last are taken first, and in no order."""

    def release(self, row: int) -> None:
        self.device = self.places[row][::-1] + self.device
        self.places[row] = []
