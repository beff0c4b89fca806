"""Mutants of the device's slots behind the buffers of sparse rows, and legal variations of how they are had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.sparse import NO_SLOT, RowTable, Transfer
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


@mutant("sparse-growth-takes-host-pages", kills=("SPARSE-06", "SPARSE-17"))
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


# Growth that was refused, and goes on later


@mutant("sparse-refused-growth-turns-the-order", kills=("SPARSE-28",))
class RefusedGrowthTurnsTheOrder(RowTable):
    """Growth that is refused turns the order of use round: what was used last goes first when the row goes on."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        slot = super().grow_buffer(row, length)
        if slot is None:
            self.recent[row].reverse()
        return slot


@mutant("sparse-refused-growth-empties-the-buffer", kills=("SPARSE-27", "SPARSE-28"))
class RefusedGrowthEmptiesTheBuffer(RowTable):
    """Growth that is refused forgets what the buffer holds: when the row goes on, all of it is copied once more."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        slot = super().grow_buffer(row, length)
        if slot is None:
            self.buffered[row] = [NO_SLOT] * self.room
        return slot


@mutant("sparse-refused-growth-ends-its-promise", kills=("SPARSE-13",))
class RefusedGrowthEndsItsPromise(RowTable):
    """An admitted row that finds no slot on the device is promised no page of the host any more."""

    def grow_buffer(self, row: int, length: int) -> int | None:
        slot = super().grow_buffer(row, length)
        if slot is None:
            self.promised[row] = 0
        return slot


# Slots that other calls move


@mutant("sparse-swap-moves-what-is-there", kills=("SPARSE-65",))
class SwapMovesWhatIsThere(RowTable):
    """Places that hold what is wanted exchange their slots so that these come in order, and no KV is copied."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        had = list(self.buffered[row])
        places = super().swap(row, length, wanted)
        own = self.places[row]
        stayed = [at for at in places if at < min(self.room, len(own)) and self.buffered[row][at] == had[at]]
        for at, slot in zip(stayed, sorted(own[at] for at in stayed), strict=True):
            own[at] = slot
        return places


@mutant("sparse-free-closes-the-gap", kills=("SPARSE-65",))
class FreeClosesTheGap(RowTable):
    """The device is made compact when a buffer is given back: other tables name slots that nothing was copied to."""

    def release(self, row: int) -> None:
        super().release(row)
        slots = sorted([*self.device, *(slot for own in self.places for slot in own)])
        for own in self.places:
            own[:] = slots[: len(own)]
            del slots[: len(own)]
        self.device = slots


@mutant("sparse-staging-takes-a-slot", kills=("SPARSE-65",))
class StagingTakesASlot(RowTable):
    """A prompt was computed in the first slot of a buffer that is in use; that buffer gets the slot of the prompt's."""

    def begin(self, row: int, tokens: int) -> None:
        super().begin(row, tokens)
        mine = self.places[row]
        other = next((own for at, own in enumerate(self.places) if at != row and own), mine)
        mine[:1], other[:1] = other[:1], mine[:1]


@mutant("sparse-swap-writes-the-newest-elsewhere", kills=("SPARSE-65",))
class SwapWritesTheNewestElsewhere(RowTable):
    """A swap copies to the slot that was told for the newest token, whose place has another one from then on."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        had = list(self.buffered[row])
        places, own = super().swap(row, length, wanted), self.places[row]
        for at in range(min(self.room, len(own) - 1)):
            if self.buffered[row][at] != had[at] and len(own) > self.room:
                own[at], own[self.room] = own[self.room], own[at]
                break
        return places


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


@null_mutant("sparse-swap-loads-beside")
class SwapLoadsBeside(RowTable):
    """What is swapped in is copied to slots behind the newest token's, and its places have these from then on."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        had = list(self.buffered[row])
        places, own = super().swap(row, length, wanted), self.places[row]
        filled = [at for at in range(self.room) if self.buffered[row][at] != had[at]]
        for at, spare in zip(filled, range(self.room + 1, len(own)), strict=False):
            own[at], own[spare] = own[spare], own[at]
        return places


@null_mutant("sparse-backup-leaves-the-newest-slot")
class BackupLeavesTheNewestSlot(RowTable):
    """While a long sequence's token is copied to the host, the next one has another of the slots behind the room."""

    def back_up(self, row: int, length: int) -> list[int] | None:
        slots = super().back_up(row, length)
        if slots and self.hosted(length - 1) > self.room:
            own = self.places[row]
            own[self.room :] = [*own[self.room + 1 :], own[self.room]]
        return slots


@null_mutant("sparse-buffers-begin-turned")
class BuffersBeginTurned(RowTable):
    """A buffer has its slots in another order when its row begins to decode than while it waited."""

    def admit(self, row: int, length: int) -> None:
        super().admit(row, length)
        self.places[row].reverse()
