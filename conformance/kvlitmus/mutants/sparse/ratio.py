"""Mutants of what is compressed before it goes to sparse host memory, and legal variations.

A group is backed up late, twice, in part or to another's slot where tokens and groups are mixed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.sparse import RowTable
from kvlitmus.mutants.registry import mutant, null_mutant

FOUR = replace(PROFILE, sparse_ratio=4)


@mutant("sparse-ratio-backs-up-parts", kills=("SPARSE-38", "SPARSE-43"), profile=FOUR)
class RatioBacksUpParts(RowTable):
    """A group is backed up before its last token is compressed into it: the host has a part of it for good."""

    def whole(self, length: int) -> bool:
        return True

    def hosted(self, tokens: int) -> int:
        return -(-tokens // self.ratio)


@mutant("sparse-ratio-by-the-newest", kills=("SPARSE-38", "SPARSE-43"), profile=FOUR)
class RatioByTheNewest(RowTable):
    """A step backs up the group that its own token fills, which is being computed: one step too early."""

    def whole(self, length: int) -> bool:
        return length % self.ratio == 0

    def place(self, length: int) -> int:
        return length // self.ratio - 1

    def on_host(self, row: int, length: int) -> bool:
        return not self.whole(length) or self.backed[row] >= length // self.ratio


@mutant("sparse-ratio-postponed-by-one", kills=("SPARSE-38", "SPARSE-43"), profile=FOUR)
class RatioPostponedByOne(RowTable):
    """A group is backed up a step late: it may have been missed by then, and was copied in from nowhere."""

    def whole(self, length: int) -> bool:
        return length > self.ratio and (length - 2) % self.ratio == 0


@mutant("sparse-ratio-backed-up-twice", kills=("SPARSE-38", "SPARSE-43"), profile=FOUR)
class RatioBackedUpTwice(RowTable):
    """The step after a group's backup backs it up again."""

    def on_host(self, row: int, length: int) -> bool:
        return super().on_host(row, length) and not (length > self.ratio + 1 and (length - 2) % self.ratio == 0)


@mutant("sparse-ratio-every-second-group", kills=("SPARSE-38",), profile=FOUR)
class RatioEverySecondGroup(RowTable):
    """The ratio is applied to what is compressed already: groups are left out, and taken to be on the host."""

    def on_host(self, row: int, length: int) -> bool:
        return self.place(length) % 2 == 1 or super().on_host(row, length)


@mutant("sparse-ratio-place-of-the-next", kills=("SPARSE-06", "SPARSE-38", "SPARSE-44"), profile=FOUR)
class RatioPlaceOfTheNext(RowTable):
    """A group goes to the slot of the group behind it: each is read as the one before."""

    def place(self, length: int) -> int:
        return min(super().place(length) + 1, self.width // self.page * self.page - 1)


@mutant("sparse-ratio-place-of-the-token", kills=("SPARSE-38", "SPARSE-44"), profile=FOUR)
class RatioPlaceOfTheToken(RowTable):
    """The place is the token's, cut to what the row has: groups go to slots that others were copied to."""

    def back_up(self, row: int, length: int) -> list[int] | None:
        slots = super().back_up(row, length)
        return [self.table[row][min(length - 2, self.lengths[row] - 1)]] if slots else slots


@mutant("sparse-ratio-place-in-the-first-page", kills=("SPARSE-02", "SPARSE-44"), profile=FOUR)
class RatioPlaceInTheFirstPage(RowTable):
    """The place within a page is right, and the page is the row's first."""

    def back_up(self, row: int, length: int) -> list[int] | None:
        slots = super().back_up(row, length)
        return [self.table[row][slots[0] % self.page]] if slots else slots


@mutant("sparse-ratio-stages-rounded-up", kills=("SPARSE-01", "SPARSE-45"), profile=FOUR)
class RatioStagesRoundedUp(RowTable):
    """A prompt gets a slot for tokens that are no whole group, which is never written to as a whole."""

    def stage(self, row: int, tokens: int) -> list[int] | None:
        return super().stage(row, self.round_to_groups(tokens))

    def round_to_groups(self, tokens: int) -> int:
        """So many tokens, and those that their last group lacks."""
        return -(-tokens // self.ratio) * self.ratio


@mutant("sparse-ratio-stages-tokens", kills=("SPARSE-01", "SPARSE-09", "SPARSE-45"), profile=FOUR)
class RatioStagesTokens(RowTable):
    """A prompt gets a slot for each token, as if nothing were compressed: memory is used up early."""

    def stage(self, row: int, tokens: int) -> list[int] | None:
        slots = self.request(row, 0, tokens)
        if slots:
            self.begin(row, tokens)
        return slots


@mutant("sparse-ratio-prompt-counts-tokens", kills=("SPARSE-38",), profile=FOUR)
class RatioPromptCountsTokens(RowTable):
    """How far a prompt is on the host is kept in tokens: the groups after it are taken to be there."""

    def admit(self, row: int, length: int) -> None:
        super().admit(row, length)
        self.backed[row] = length


@mutant("sparse-ratio-admission-counts-tokens", kills=("SPARSE-40",), profile=FOUR)
class RatioAdmissionCountsTokens(RowTable):
    """Admission counts a slot for each token: requests wait that would fit four times."""

    def reserve(self, row: int, tokens: int) -> bool:
        return super().reserve(row, tokens * self.ratio)


@mutant("sparse-ratio-buffer-counts-tokens", kills=("SPARSE-26", "SPARSE-28"), profile=FOUR)
class RatioBufferCountsTokens(RowTable):
    """Whether a sequence fits into its buffer is asked of its tokens, not of what they are compressed to."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        return super().swap(row, length * self.ratio, wanted)


# Legal variations


@null_mutant("sparse-ratio-of-four", profile=FOUR)
class RatioOfFour(RowTable):
    """Four tokens are compressed to one, as the profile says."""


@null_mutant("sparse-ratio-of-three", profile=replace(FOUR, sparse_ratio=3, sparse_count="reject"))
class RatioOfThree(RowTable):
    """Groups of a size that divides no page."""
