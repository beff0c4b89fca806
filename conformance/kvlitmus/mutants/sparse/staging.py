"""Mutants of staging, what a prompt goes through on its way to sparse host memory, and legal variations of it."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.sparse import RowTable
from kvlitmus.mutants.registry import mutant, null_mutant

NOTHING_KEPT = replace(PROFILE, sparse_staged="nothing")


@mutant("sparse-ready-before-the-copy", kills=("SPARSE-30",))
class ReadyBeforeTheCopy(RowTable):
    """That a copy was begun is taken for its end: a request decodes from slots that nothing was written to yet."""

    def acknowledged(self) -> int:
        return len(self.staged)


@mutant("sparse-ready-by-count", kills=("SPARSE-30", "SPARSE-31"))
class ReadyByCount(RowTable):
    """The copies that have ended are counted, and as many rows taken from the queue's head: where a later copy ended
    first, a row is acknowledged whose copy goes on.
    """

    def acknowledged(self) -> int:
        return sum(one.copy not in self.copying for one in self.staged)


@mutant("sparse-ready-as-they-end", kills=("SPARSE-31",))
class ReadyAsTheyEnd(RowTable):
    """Rows are acknowledged as their copies end, not as they were staged: each rank has its own order."""

    def ready(self) -> list[int]:
        self.staged.sort(key=lambda one: (one.copy in self.copying, one.copy))
        return super().ready()


STREAMS = replace(PROFILE, copy_acks="any_order")
"""Several streams, whose copies are acknowledged as they end."""


@null_mutant("sparse-ready-in-any-order", profile=STREAMS)
class ReadyInAnyOrder(ReadyAsTheyEnd):
    """Rows are acknowledged as their copies end, as the profile declares."""


@mutant("sparse-ready-of-another-stream", profile=STREAMS, kills=("SPARSE-30",))
class ReadyOfAnotherStream(ReadyByCount):
    """The copies of all streams that have ended are counted, and as many rows taken from the queue's head."""


@mutant("sparse-ready-from-the-tail", kills=("SPARSE-31",))
class ReadyFromTheTail(RowTable):
    """Of the rows that are copied, the one that was staged last is acknowledged first."""

    def ready(self) -> list[int]:
        return super().ready()[::-1]


@mutant("sparse-ready-twice", kills=("SPARSE-30",))
class ReadyTwice(RowTable):
    """A row stays in the queue when it was acknowledged, and is acknowledged again: it is in the batch twice."""

    def ready(self) -> list[int]:
        staged = list(self.staged)
        rows = super().ready()
        if rows:
            self.staged = staged[len(rows) - 1 :]
        return rows


@mutant("sparse-ready-when-all-are", kills=("SPARSE-32",))
class ReadyWhenAllAre(RowTable):
    """Nobody is acknowledged as long as any copy goes on: under load, nobody ever."""

    def acknowledged(self) -> int:
        return 0 if self.copying else len(self.staged)


@mutant("sparse-abort-leaves-the-queue", kills=("SPARSE-30",))
class AbortLeavesTheQueue(RowTable):
    """An aborted or retracted request stays in the queue of what is staged, and is acknowledged when its pages are
    somebody else's.
    """

    def withdraw(self, row: int) -> None:
        for one in self.staged:
            if one.row == row:
                self.copying.discard(one.copy)


@mutant("sparse-abort-drops-the-next", kills=("SPARSE-31", "SPARSE-32"))
class AbortDropsTheNext(RowTable):
    """Whoever is withdrawn takes those that were staged after it out of the queue: their requests never decode."""

    def withdraw(self, row: int) -> None:
        at = next((at for at, one in enumerate(self.staged) if one.row == row), len(self.staged))
        after = self.staged[at + 1 :]
        super().withdraw(row)
        self.staged = [one for one in self.staged if one not in after]


@mutant("sparse-abort-frees-under-the-copy", kills=("POOL-04", "POOL-12", "SPARSE-06"))
class AbortFreesUnderTheCopy(RowTable):
    """The pages of a row that is withdrawn are free while its copy goes on: it writes into what another row has."""

    def withdraw(self, row: int) -> None:
        self.staged = [one for one in self.staged if one.row != row]


@mutant("sparse-retract-keeps-the-pages", kills=("SPARSE-06", "SPARSE-17"))
class RetractKeepsThePages(RowTable):
    """A request that is retracted while it is staged leaves the queue and keeps its host pages."""

    def retract(self, row: int) -> None:
        staged = any(one.row == row for one in self.staged)
        self.withdraw(row)
        if not staged:
            self.free(row)


@mutant("sparse-retract-gives-prompt-back", kills=("SPARSE-06",))
class RetractGivesPromptBack(RowTable):
    """What a retracted row gives back is its prompt without the page that it fills in part."""

    def retract(self, row: int) -> None:
        tokens = next((one.tokens for one in self.staged if one.row == row), 0)
        self.withdraw(row)
        if tokens % self.page:
            self.give_back(self.held(row)[: tokens // self.page * self.page])
            self.clear(row)
        else:
            self.free(row)


@mutant("sparse-copy-before-the-slots", kills=("SPARSE-34",))
class CopyBeforeTheSlots(RowTable):
    """The copy begins before anybody knows whether there are slots: where there are none, it writes somewhere."""

    def stage(self, row: int, tokens: int) -> list[int] | None:
        copy = self.begun
        self.copying.add(copy)
        slots = self.request(row, 0, tokens)
        if slots:
            self.begin(row, tokens)
        return slots


@mutant("sparse-copy-never-ends", kills=("SPARSE-34",))
class CopyNeverEnds(RowTable):
    """The event that was recorded is that of another copy: the end of every second one isn't seen."""

    def copied(self, copy: int) -> None:
        if copy % 2 == 0:
            super().copied(copy)


class Later(RowTable):
    """Who gives back doesn't wait: the pages are put aside, and are free when the copy has ended."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.aside: dict[int, list[int]] = {}

    def withdraw(self, row: int) -> None:
        for one in self.staged:
            if one.row == row and one.copy in self.copying:
                staged = self.round_up(one.tokens)
                self.aside[one.copy] = self.table[row][:staged]
                self.table[row][:staged] = [-1] * staged
        self.staged = [one for one in self.staged if one.row != row]

    def copied(self, copy: int) -> None:
        super().copied(copy)
        self.give_back(self.aside.pop(copy, []))


@mutant("sparse-aside-for-good", kills=("SPARSE-06",))
class AsideForGood(Later):
    """What was put aside while a copy went on is never looked at again."""

    def copied(self, copy: int) -> None:
        self.copying.discard(copy)


@mutant("sparse-copy-ends-with-the-row", kills=("SPARSE-17",))
class CopyEndsWithTheRow(RowTable):
    """The end of a copy is taken for that of its request: the row is emptied."""

    def copied(self, copy: int) -> None:
        super().copied(copy)
        for one in self.staged:
            if one.copy == copy:
                self.give_back(self.held(one.row))
                self.clear(one.row)


@mutant("sparse-ready-takes-a-page", kills=("SPARSE-06",))
class ReadyTakesAPage(RowTable):
    """Each acknowledged request is given a page for its next tokens at once, which no row names."""

    def begin_decoding(self, row: int, tokens: int) -> None:
        super().begin_decoding(row, tokens)
        self.take(1)


@mutant("sparse-staged-buffer-is-trusted", kills=("SPARSE-28",), profile=NOTHING_KEPT)
class StagedBufferIsTrusted(RowTable):
    """The device places of the prompt are given back, and the buffer is said to hold its first tokens all the same."""

    def begin_decoding(self, row: int, tokens: int) -> None:
        super().begin_decoding(row, tokens)
        self.buffered[row] = list(range(self.room))


# Legal variations


@null_mutant("sparse-pages-put-aside")
class PagesPutAside(Later):
    """Giving back doesn't wait for a copy: the pages are free when it has ended."""


@null_mutant("sparse-copies-at-once")
class CopiesAtOnce(RowTable):
    """A copy has ended before its call returns: how long it takes is nobody's business."""

    def begin(self, row: int, tokens: int) -> None:
        super().begin(row, tokens)
        self.copying.clear()


@null_mutant("sparse-ready-one-by-one")
class ReadyOneByOne(RowTable):
    """One row is acknowledged at a time, in their order."""

    def acknowledged(self) -> int:
        return min(1, super().acknowledged())


@null_mutant("sparse-staged-buffer-is-empty", profile=NOTHING_KEPT)
class StagedBufferIsEmpty(RowTable):
    """A prompt that is longer than the buffer begins to decode with an empty one, as the profile says."""
