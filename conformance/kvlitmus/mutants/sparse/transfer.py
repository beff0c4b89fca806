"""Mutants of what a peer writes into sparse host memory, and legal variations of it."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.sparse import RowTable, Transfer
from kvlitmus.mutants.registry import mutant, null_mutant

_PAGES = "https://github.com/sgl-project/sglang/pull/23606"


@mutant("sparse-transfer-to-any-peer", links=(_PAGES,), kills=("SPARSE-12",))
class TransferToAnyPeer(RowTable):
    """Whoever asks gets destinations: a peer with larger pages writes beyond the ones that it was given."""

    def prealloc(self, row: int, tokens: int, page_size: int) -> list[int] | None:
        return super().prealloc(row, tokens, self.page)


@mutant("sparse-transfer-of-full-pages", links=(_PAGES,), kills=("SPARSE-47",))
class TransferOfFullPages(RowTable):
    """The last page, which the prompt fills in part, is no destination: its tokens never come."""

    def destinations(self, row: int) -> list[int]:
        tokens = next(one.tokens for one in reversed(self.transfers.values()) if one.row == row)
        return super().destinations(row)[: tokens // self.page]


@mutant("sparse-transfer-from-the-end", kills=("SPARSE-47",))
class TransferFromTheEnd(RowTable):
    """Destinations are named from the last one on, and the peer sends in the prompt's order: pages are mixed up."""

    def destinations(self, row: int) -> list[int]:
        return super().destinations(row)[::-1]


@mutant("sparse-abort-stops-every-peer", kills=("SPARSE-48",))
class AbortStopsEveryPeer(RowTable):
    """Who aborts one request forgets the transfers of all: their rows are used before the KV has come."""

    def break_off(self, row: int) -> None:
        self.transfers = {}


@mutant("sparse-transfer-before-the-slots", kills=("SPARSE-48",))
class TransferBeforeTheSlots(RowTable):
    """The peer is told to send before anybody knows whether there are slots: without any, it writes somewhere."""

    def prealloc(self, row: int, tokens: int, page_size: int) -> list[int] | None:
        self.expect(row, tokens)
        if not self.accepts(page_size):
            return None
        return self.request(row, 0, self.hosted(tokens))


@mutant("sparse-transfer-never-ends", kills=("SPARSE-48",))
class TransferNeverEnds(RowTable):
    """What the peer says of every second transfer is lost: its request waits for ever."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        if transfer % 2 == 0:
            super().transferred(transfer, arrived)


@mutant("sparse-transfer-ends-for-all", kills=("SPARSE-48",))
class TransferEndsForAll(RowTable):
    """The end of one transfer is taken for that of those before it, too: their requests would decode from nothing."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        super().transferred(transfer, arrived)
        self.transfers = {number: one for number, one in self.transfers.items() if number > transfer}


@mutant("sparse-transfer-failed-keeps-pages", kills=("SPARSE-06", "SPARSE-17"))
class TransferFailedKeepsPages(RowTable):
    """A request whose transfer fails ends with an error, and its host pages are forgotten."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        if arrived:
            super().transferred(transfer, arrived)
        else:
            self.transfers.pop(transfer)


@mutant("sparse-transfer-failed-gives-prompt-back", kills=("SPARSE-06", "SPARSE-17"))
class TransferFailedGivesPromptBack(RowTable):
    """What is given back after a failure is the prompt, without the page that it fills in part."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        one = self.transfers[transfer]
        if not arrived and one.tokens % self.page:
            self.transfers.pop(transfer)
            self.give_back(self.held(one.row)[: one.tokens // self.page * self.page])
            self.clear(one.row)
        else:
            super().transferred(transfer, arrived)


@mutant("sparse-transfer-failure-not-noticed", kills=("SPARSE-06", "SPARSE-17"))
class TransferFailureNotNoticed(RowTable):
    """A transfer that failed is taken for one that arrived: the request decodes from what was in its pages before."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        super().transferred(transfer, True)


@mutant("sparse-transfer-aborted-keeps-pages", bugs=("H-52",), kills=("SPARSE-06", "SPARSE-17"))
class TransferAbortedKeepsPages(RowTable):
    """A request that is aborted while its KV comes leaves the queue and keeps its host pages."""

    def abort(self, row: int) -> None:
        waits = any(one.row == row for one in self.transfers.values())
        self.break_off(row)
        if not waits:
            super().abort(row)


@mutant("sparse-transfer-aborted-frees-at-once", kills=("POOL-04", "POOL-12", "SPARSE-06"))
class TransferAbortedFreesAtOnce(RowTable):
    """The pages of an aborted request are free while its peer goes on: it writes into what another row has."""

    def break_off(self, row: int) -> None:
        """Nobody tells the peer."""


@mutant("sparse-transfer-backs-up-the-last", kills=("SPARSE-38",))
class TransferBacksUpTheLast(RowTable):
    """The first step backs up the prompt's last token, from a place on the device that it never had."""

    def arrive(self, one: Transfer) -> None:
        super().arrive(one)
        self.backed[one.row] -= 1


@mutant("sparse-transfer-skips-a-backup", kills=("SPARSE-38",))
class TransferSkipsABackup(RowTable):
    """That the first step has nothing to back up is said twice: the first decoded token never comes to the host."""

    def arrive(self, one: Transfer) -> None:
        super().arrive(one)
        self.backed[one.row] += 1


class Aside(RowTable):
    """The peer isn't told to stop: the pages that it writes to are put aside, and are free when it has ended."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.aside: dict[int, list[int]] = {}

    def break_off(self, row: int) -> None:
        for number, one in self.transfers.items():
            if one.row == row and number not in self.aside:
                sent = self.round_up(self.hosted(one.tokens))
                self.aside[number] = self.table[row][:sent]
                self.table[row][:sent] = [-1] * sent

    def transferred(self, transfer: int, arrived: bool) -> None:
        if transfer in self.aside:
            del self.transfers[transfer]
            self.give_back(self.aside.pop(transfer))
        else:
            super().transferred(transfer, arrived)


@mutant("sparse-transfer-aside-for-good", kills=("SPARSE-06",))
class TransferAsideForGood(Aside):
    """What was put aside for a peer is never looked at again."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        if transfer in self.aside:
            del self.transfers[transfer]
        else:
            super().transferred(transfer, arrived)


@mutant("sparse-transfer-arrives-for-another", kills=("SPARSE-06", "SPARSE-17"))
class TransferArrivesForAnother(Aside):
    """A transfer fails whose request was aborted: its row's next request is ended in its place."""

    def transferred(self, transfer: int, arrived: bool) -> None:
        row = self.transfers[transfer].row
        late = transfer in self.aside
        super().transferred(transfer, arrived)
        if late and not arrived:
            self.free(row)


# Legal variations


@null_mutant("sparse-transfer-pages-put-aside")
class TransferPagesPutAside(Aside):
    """An abort doesn't stop the peer: the pages are free when it has ended."""


@null_mutant("sparse-transfer-pages-used-anew-first")
class TransferPagesFirst(RowTable):
    """Pages that were given back last are used first: who had them doesn't matter once they are free."""

    def give_back(self, slots: Sequence[int]) -> None:
        self.free_slots = [*slots, *self.free_slots]
