"""Mutants of admission to sparse host memory and of backups, and legal variations of them."""

from __future__ import annotations

from kvlitmus.conformance.specimen.sparse import RowTable
from kvlitmus.mutants.registry import mutant, null_mutant

_ADMITTED = "https://github.com/sgl-project/sglang/issues/23704"


@mutant("sparse-backup-after-staging", kills=("SPARSE-38",))
class BackupAfterStaging(RowTable):
    """The first step after a prompt was staged backs up its last token again, from a place that holds another one."""

    def on_host(self, row: int, length: int) -> bool:
        return False


@mutant("sparse-backup-of-every-second", kills=("SPARSE-38",))
class BackupOfEverySecond(RowTable):
    """Every second step backs nothing up: its token is on the device alone when its place is used anew."""

    def on_host(self, row: int, length: int) -> bool:
        return length % 2 == 0 or super().on_host(row, length)


@mutant("sparse-backup-of-the-last-request", kills=("SPARSE-38",))
class BackupOfTheLastRequest(RowTable):
    """How far a row was backed up outlives its request: the next one's tokens are taken to be on the host."""

    def clear(self, row: int) -> None:
        backed = self.backed[row]
        super().clear(row)
        self.backed[row] = backed

    def begin_decoding(self, row: int, tokens: int) -> None:
        backed = self.backed[row]
        super().begin_decoding(row, tokens)
        self.backed[row] = max(backed, tokens)


@mutant("sparse-backup-takes-a-page-each", kills=("SPARSE-06", "SPARSE-17"))
class BackupTakesAPageEach(RowTable):
    """Each step takes a page for its token, also where the row's last page has room."""

    def back_up(self, row: int, length: int) -> list[int] | None:
        slots = super().back_up(row, length)
        if slots and self.lengths[row] + self.page <= self.width:
            self.grow(row, self.lengths[row] + self.page)
        return slots


@mutant("sparse-backup-refused-after-taking", kills=("SPARSE-06",))
class BackupRefusedAfterTaking(RowTable):
    """When a step finds no page, the last page of another row is put on the free list for it, and it is refused."""

    def back_up(self, row: int, length: int) -> list[int] | None:
        slots = super().back_up(row, length)
        if slots is None:
            self.give_back(self.held(row)[-self.page :])
        return slots


@mutant("sparse-admission-looks-away", bugs=("H-49",), links=(_ADMITTED,), kills=("SPARSE-39",))
class AdmissionLooksAway(RowTable):
    """Host memory isn't counted when a request is admitted: a later step finds none, and the server fails."""

    def reserve(self, row: int, tokens: int) -> bool:
        super().reserve(row, tokens)
        return True


@mutant("sparse-admission-counts-what-is-free", bugs=("H-49",), links=(_ADMITTED,), kills=("SPARSE-39",))
class AdmissionCountsWhatIsFree(RowTable):
    """Each request is compared with what is free, and not with what is promised already."""

    def reserve(self, row: int, tokens: int) -> bool:
        most = self.round_up(tokens)
        if most > min(len(self.free_slots), self.width):
            return False
        self.promised[row] = most
        return True


@mutant("sparse-admission-by-token", kills=("SPARSE-39", "SPARSE-42"))
class AdmissionByToken(RowTable):
    """Tokens are counted, not pages: requests that end within a page are promised a page together."""

    def reserve(self, row: int, tokens: int) -> bool:
        if tokens > min(self.unpromised(row), self.width):
            return False
        self.promised[row] = tokens
        return True


@mutant("sparse-admission-keeps-nothing", bugs=("H-49",), links=(_ADMITTED,), kills=("SPARSE-13", "SPARSE-39"))
class AdmissionKeepsNothing(RowTable):
    """What was promised is given to whoever asks first."""

    def unpromised(self, row: int) -> int:
        return len(self.free_slots)


@mutant("sparse-admission-promises-twice", kills=("SPARSE-09", "SPARSE-42"))
class AdmissionPromisesTwice(RowTable):
    """What an admitted row was given stays promised to it: as much of the pool is used by nobody."""

    def unpromised(self, row: int) -> int:
        return len(self.free_slots) - sum(most for at, most in enumerate(self.promised) if at != row)


@mutant("sparse-admission-outlives-the-row", kills=("SPARSE-09", "SPARSE-40"))
class AdmissionOutlivesTheRow(RowTable):
    """A promise isn't taken back with its row: after some requests nobody is admitted any more."""

    def clear(self, row: int) -> None:
        promised = self.promised[row]
        super().clear(row)
        self.promised[row] = promised


@mutant("sparse-admission-never-of-all", kills=("SPARSE-40",))
class AdmissionNeverOfAll(RowTable):
    """A request that needs as many pages as a row has waits for one more, for ever."""

    def reserve(self, row: int, tokens: int) -> bool:
        return self.round_up(tokens) <= self.width - self.page and super().reserve(row, tokens)


@mutant("sparse-admission-allocates", kills=("SPARSE-06", "SPARSE-17"))
class AdmissionAllocates(RowTable):
    """A request that is admitted gets its first page at once, which its row doesn't name."""

    def reserve(self, row: int, tokens: int) -> bool:
        admitted = super().reserve(row, tokens)
        if admitted:
            self.take(1)
        return admitted


@mutant("sparse-admitted-waits-for-others", kills=("SPARSE-09", "SPARSE-42"))
class AdmittedWaitsForOthers(RowTable):
    """An admitted row may not touch its own promise: when the rest is used, it is refused."""

    def unpromised(self, row: int) -> int:
        mine = max(0, self.promised[row] - self.lengths[row])
        return super().unpromised(row) - (mine if self.lengths[row] else 0)


# Legal variations


@null_mutant("sparse-admission-one-at-a-time")
class AdmissionOneAtATime(RowTable):
    """A request is admitted when no other is promised anything."""

    def reserve(self, row: int, tokens: int) -> bool:
        alone = not any(most for at, most in enumerate(self.promised) if at != row)
        return alone and super().reserve(row, tokens)
