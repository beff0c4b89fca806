"""Mutants of what sparse host memory owes to admitted rows while prompts come from elsewhere, and legal variations."""

from __future__ import annotations

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.sparse import ROWS, RowTable, Transfer
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.mutants.sparse.transfer import Aside

# Transfers that fail or are broken off


@mutant("sparse-promise-outlives-a-failure", kills=("SPARSE-09",))
class PromiseOutlivesAFailure(RowTable):
    """A transfer that fails gives its row's pages back, and what they were promised for stays set aside for nobody."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        row = self.transfers[transfer].row
        promised = self.promised[row]
        super().transferred(transfer, arrived)
        self.promised[row] = promised


@mutant("sparse-promises-end-with-a-failure", kills=("SPARSE-13", "SPARSE-39"))
class PromisesEndWithAFailure(RowTable):
    """Where a transfer fails, all that was promised is counted anew from nothing: admitted rows may find no page."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        super().transferred(transfer, arrived)
        if not arrived:
            self.promised = [0] * ROWS


@mutant("sparse-promise-outlives-an-abort", kills=("SPARSE-09",))
class PromiseOutlivesAnAbort(RowTable):
    """A request that is aborted while its prompt comes gives its pages back, and keeps what it was promised."""

    def abort(self, row: int) -> None:
        waits = any(one.row == row for one in self.transfers.values())
        promised = self.promised[row]
        super().abort(row)
        self.promised[row] = promised if waits else 0


@mutant("sparse-promises-end-with-an-abort", kills=("SPARSE-13", "SPARSE-39"))
class PromisesEndWithAnAbort(RowTable):
    """Who breaks a transfer off takes back what was promised to the others that wait for a peer."""

    def break_off(self, row: int) -> None:
        if any(one.row == row for one in self.transfers.values()):
            for one in self.transfers.values():
                self.promised[one.row] = 0
        super().break_off(row)


@mutant("sparse-promise-ends-with-another-transfer", kills=("SPARSE-13", "SPARSE-39"))
class PromiseEndsWithAnotherTransfer(Aside):
    """A transfer ends whose request was aborted: what was promised to its row's next request is taken back."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        row, late = self.transfers[transfer].row, transfer in self.aside
        super().transferred(transfer, arrived)
        if late:
            self.promised[row] = 0


@mutant("sparse-promise-of-what-a-peer-has", kills=("SPARSE-39",))
class PromiseOfWhatAPeerHas(Aside):
    """Pages that an aborted request's peer still writes to are counted as free, and promised to somebody else."""

    def unpromised(self, row: int) -> int:
        return super().unpromised(row) + sum(map(len, self.aside.values()))


@mutant("sparse-promise-ends-with-the-arrival", kills=("SPARSE-13", "SPARSE-39"))
class PromiseEndsWithTheArrival(RowTable):
    """A prompt that has arrived is all that its row was admitted for: the tokens that it decodes find no page."""

    def arrive(self, one: Transfer) -> None:
        super().arrive(one)
        self.promised[one.row] = 0


# What ignores promises to others


class LooksAway(RowTable):
    """A pool that can be told not to count promises."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.looks_away = False

    def unpromised(self, row: int) -> int:
        return len(self.free_slots) if self.looks_away else super().unpromised(row)


@mutant("sparse-transfer-takes-what-is-promised", kills=("SPARSE-13",))
class TransferTakesWhatIsPromised(LooksAway):
    """A prompt that comes from a peer gets whatever is free, also what was promised to a row that decodes."""

    def prealloc(self, row: int, tokens: int, page_size: int) -> list[int] | None:
        self.looks_away = True
        try:
            return super().prealloc(row, tokens, page_size)
        finally:
            self.looks_away = False


@mutant("sparse-staging-takes-what-is-promised", kills=("SPARSE-13",))
class StagingTakesWhatIsPromised(LooksAway):
    """A prompt that was computed here goes to whatever is free, also to what was promised to another row."""

    def stage(self, row: int, tokens: int) -> list[int] | None:
        self.looks_away = True
        try:
            return super().stage(row, tokens)
        finally:
            self.looks_away = False


@mutant("sparse-backup-takes-what-is-promised", kills=("SPARSE-13",))
class BackupTakesWhatIsPromised(LooksAway):
    """A step of a row that was promised nothing takes the last page, which another one was promised."""

    def back_up(self, row: int, length: int) -> list[int] | None:
        self.looks_away = True
        try:
            return super().back_up(row, length)
        finally:
            self.looks_away = False


@mutant("sparse-transfer-takes-its-promise-anew", kills=("SPARSE-09",))
class TransferTakesItsPromiseAnew(RowTable):
    """What an admitted row gets for a peer counts beside what it was promised: it is set aside twice."""

    def expect(self, row: int, tokens: int) -> None:
        super().expect(row, tokens)
        if self.promised[row]:
            self.promised[row] += self.lengths[row]


# Calls that were refused


@mutant("sparse-refused-prompt-ends-its-promise", kills=("SPARSE-13",))
class RefusedPromptEndsItsPromise(RowTable):
    """A prompt that finds too few pages is refused, and with it goes what its row was promised."""

    def stage(self, row: int, tokens: int) -> list[int] | None:
        slots = super().stage(row, tokens)
        if slots is None:
            self.promised[row] = 0
        return slots


@mutant("sparse-refused-prompt-is-promised-more", kills=("SPARSE-09",))
class RefusedPromptIsPromisedMore(RowTable):
    """A prompt that is refused has what it asked for set aside all the same, beside what was promised."""

    def stage(self, row: int, tokens: int) -> list[int] | None:
        slots = super().stage(row, tokens)
        if slots is None and self.promised[row]:
            self.promised[row] += self.page
        return slots


@mutant("sparse-refused-peer-ends-its-promise", kills=("SPARSE-13",))
class RefusedPeerEndsItsPromise(RowTable):
    """A peer whose pages don't fit is refused, and its row is promised nothing more, though another peer may come."""

    def prealloc(self, row: int, tokens: int, page_size: int) -> list[int] | None:
        slots = super().prealloc(row, tokens, page_size)
        if slots is None:
            self.promised[row] = 0
        return slots


# Legal variations


@null_mutant("sparse-admission-leaves-a-page")
class AdmissionLeavesAPage(RowTable):
    """Beside what is promised a page is left, unless nobody has any: how many are admitted is the pool's own choice."""

    def reserve(self, row: int, tokens: int) -> bool:
        most = self.round_up(self.hosted(tokens))
        tight = most + self.page > self.unpromised(row)
        return (not tight or self.unpromised(row) == self.size) and super().reserve(row, tokens)
