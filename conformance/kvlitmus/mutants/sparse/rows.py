"""Mutants of a sparse host pool, and legal variations of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.sparse import NO_SLOT, RowTable
from kvlitmus.mutants.registry import mutant, null_mutant

_GITHUB = "https://github.com/sgl-project/sglang/"
_ROWS = _GITHUB + "pull/23606"
_ADMITTED = _GITHUB + "issues/23704"
REJECTING = replace(PROFILE, sparse_count="reject")


@mutant("sparse-start-is-asserted", bugs=("H-48",), links=(_ROWS,), kills=("SPARSE-12",))
class StartIsAsserted(RowTable):
    """That a request starts within what is allocated is only asserted, and Python runs with ``-O``: the row is made
    longer than anybody asked for.
    """

    def check(self, row: int, start: int, tokens: int) -> None:
        super().check(row, min(start, self.lengths[row]), tokens + max(0, start - self.lengths[row]))


@mutant("sparse-overflow-found-late", bugs=("H-48",), links=(_ROWS,), kills=("SPARSE-06",))
class OverflowFoundLate(RowTable):
    """Pages are taken before anybody looks whether they fit into the row; that raises then, and they are lost."""

    def check(self, row: int, start: int, tokens: int) -> None:
        end = self.round_up(start + tokens)
        if 0 <= start <= self.lengths[row] and end > self.width:
            self.take((end - self.lengths[row]) // self.page)
        super().check(row, start, tokens)


@mutant("sparse-overflow-is-cut-off", bugs=("H-48",), links=(_ROWS,), kills=("SPARSE-12",))
class OverflowIsCutOff(RowTable):
    """What doesn't fit into the row is left out silently: there are fewer slots than tokens."""

    def check(self, row: int, start: int, tokens: int) -> None:
        super().check(row, start, min(tokens, max(0, self.width // self.page * self.page - start)))

    def grow(self, row: int, end: int) -> bool:
        return super().grow(row, min(end, self.width // self.page * self.page))


@mutant("sparse-free-stops-at-the-width", bugs=("H-48",), links=(_ROWS,), kills=("SPARSE-06", "SPARSE-07"))
class FreeStopsAtTheWidth(RowTable):
    """The last page of a full row is left out when the row is read or given back: it is cut to a width that was meant
    to be one page larger.
    """

    def held(self, row: int) -> list[int]:
        return super().held(row)[: self.width // self.page * self.page - self.page]


@mutant("sparse-free-forgets-the-last-page", links=(_ROWS,), kills=("POOL-12", "SPARSE-06"))
class FreeForgetsTheLastPage(RowTable):
    """Only the tokens that were asked for are given back, rounded down to the page: each row leaks its last page."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.asked = [0] * len(self.lengths)

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        granted = super().request(row, start, tokens)
        if granted:
            self.asked[row] = max(self.asked[row], start + tokens)
        return granted

    def free(self, row: int) -> None:
        whole = self.asked[row] // self.page * self.page
        self.asked[row] = 0
        self.give_back(self.held(row)[:whole])
        self.clear(row)


@mutant("sparse-abort-keeps-the-row", kills=("SPARSE-06", "SPARSE-17"))
class AbortKeepsTheRow(RowTable):
    """A request that is aborted while it waits gives its row number back, and not its host pages: the next request of
    that row gets the pages of the old one, and those behind its own end are nobody's.
    """

    def abort(self, row: int) -> None:
        """Leave it as it is."""


@mutant("sparse-one-token-is-one-slot", links=(_ROWS,), kills=("SPARSE-03", "SPARSE-06"))
class OneTokenIsOneSlot(RowTable):
    """Memory is handed out token by token, as with pages of one: a page is spread over the pool, in pieces."""

    def round_up(self, tokens: int) -> int:
        return tokens

    def grow(self, row: int, end: int) -> bool:
        length = self.lengths[row]
        if end > length:
            if end - length > len(self.free_slots):
                return False
            self.table[row][length:end] = self.free_slots[: end - length]
            del self.free_slots[: end - length]
            self.lengths[row] = end
        return True


@mutant("sparse-asks-for-a-page-more", kills=("SPARSE-06", "SPARSE-17"))
class AsksForAPageMore(RowTable):
    """Rounding up adds a page to what is a whole number of pages already."""

    def end_of(self, row: int, start: int, tokens: int) -> int:
        whole = super().end_of(row, start, tokens)
        more = whole + self.page if whole == start + tokens and whole > self.lengths[row] else whole
        return more if more <= self.width and more - self.lengths[row] <= len(self.free_slots) else whole


@mutant("sparse-asks-anew", kills=("SPARSE-02", "SPARSE-06"))
class AsksAnew(RowTable):
    """Who asks again gets pages again: what was copied to the old ones is lost, and they leak."""

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        if start == 0 < tokens <= self.lengths[row]:
            slots = self.take(self.lengths[row] // self.page)
            if slots is not None:
                self.table[row][: self.lengths[row]] = slots
        return super().request(row, start, tokens)


@mutant("sparse-counts-what-was-asked-for", kills=("SPARSE-02", "SPARSE-06"))
class CountsWhatWasAskedFor(RowTable):
    """The row's length is that of the tokens, not of the pages: its next token gets a page of its own, and the rest of
    the page before is lost.
    """

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        before, granted = self.lengths[row], super().request(row, start, tokens)
        if granted:
            self.lengths[row] = max(before, start + tokens)
        return granted

    def grow(self, row: int, end: int) -> bool:
        length = self.lengths[row]
        if end > length:
            slots = self.take(-(-(end - length) // self.page))
            if slots is None:
                return False
            self.table[row][length:end] = slots[: end - length]
            self.lengths[row] = end
        return True


@mutant("sparse-answers-the-page", kills=("SPARSE-01",))
class AnswersThePage(RowTable):
    """The whole pages are answered, not the slots of the tokens that were asked for."""

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        granted = super().request(row, start, tokens)
        if not granted:
            return granted
        return self.table[row][start : self.round_up(start + tokens)]


@mutant("sparse-numbers-from-one", kills=("POOL-06",))
class NumbersFromOne(RowTable):
    """Pages are counted from one, as in a pool with a reserved page: the last one lies behind the memory."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.free_slots = [slot + self.page for slot in self.free_slots]


@mutant("sparse-free-twice", kills=("POOL-04", "SPARSE-17"))
class FreesTwice(RowTable):
    """A row that was given back keeps its slots in the table: giving it back again frees them once more, and two
    requests get one page.
    """

    def clear(self, row: int) -> None:
        self.lengths[row] = 0


@mutant("sparse-shared-when-short", links=(_ADMITTED,), bugs=("H-49",), kills=("POOL-04", "SPARSE-13"))
class SharedWhenShort(RowTable):
    """When memory runs out a row gets pages of another one: admission had promised what isn't there."""

    def take(self, pages: int) -> list[int] | None:
        taken = super().take(pages)
        if taken is not None:
            return taken
        others = [slot for row in self.table for slot in row if slot != NO_SLOT]
        return others[: pages * self.page] if len(others) >= pages * self.page else None


@mutant("sparse-takes-what-is-left", kills=("SPARSE-13",))
class TakesWhatIsLeft(RowTable):
    """A request that lacks more pages than are free gets those that are: the other tokens have no slots."""

    def take(self, pages: int) -> list[int] | None:
        return super().take(min(pages, len(self.free_slots) // self.page))

    def grow(self, row: int, end: int) -> bool:
        free = len(self.free_slots) // self.page * self.page
        return super().grow(row, min(end, self.lengths[row] + free))

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        granted = super().request(row, start, tokens)
        return None if granted is None else [slot for slot in granted if slot != NO_SLOT]


@mutant("sparse-keeps-what-it-took", kills=("SPARSE-06",))
class KeepsWhatItTook(RowTable):
    """Pages are taken one by one, and not given back when there aren't enough."""

    def take(self, pages: int) -> list[int] | None:
        taken = super().take(pages)
        if taken is None:
            super().take(len(self.free_slots) // self.page)
        return taken


@mutant("sparse-row-grows-before-memory", kills=("SPARSE-17",))
class RowGrowsBeforeMemory(RowTable):
    """What is free is put into the row before it is known whether it is enough: a refusal leaves a longer row."""

    def grow(self, row: int, end: int) -> bool:
        free = len(self.free_slots) // self.page * self.page
        if end - self.lengths[row] > free:
            super().grow(row, self.lengths[row] + free)
            return False
        return super().grow(row, end)


@mutant("sparse-refuses-the-last-page", kills=("SPARSE-09",))
class RefusesTheLastPage(RowTable):
    """The check of what is free is off by one: the last page is never handed out."""

    def take(self, pages: int) -> list[int] | None:
        return None if pages * self.page >= len(self.free_slots) else super().take(pages)


@mutant("sparse-refuses-to-append", kills=("SPARSE-09",))
class RefusesToAppend(RowTable):
    """A start that is where the row ends counts as beyond it: a row whose last page is full can't grow."""

    def check(self, row: int, start: int, tokens: int) -> None:
        if start == self.lengths[row] > 0:
            raise ValueError("nothing can start there")
        super().check(row, start, tokens)


@mutant("sparse-start-from-the-end", links=(_ROWS,), kills=("SPARSE-12",))
class StartFromTheEnd(RowTable):
    """A negative start isn't looked at, and counts from the end of the table: slots of other tokens, or none."""

    def check(self, row: int, start: int, tokens: int) -> None:
        super().check(row, max(0, start), max(0, tokens))


@mutant("sparse-negative-count-goes-back", kills=("SPARSE-12",), profile=REJECTING)
class NegativeCountGoesBack(RowTable):
    """Where the profile says that it is refused, a negative count is taken for none all the same."""

    def nothing(self, tokens: int) -> bool:
        return tokens <= 0


@mutant("sparse-none-takes-a-page", kills=("SPARSE-06", "SPARSE-14"))
class NoneTakesAPage(RowTable):
    """A request for no tokens is one for a token: a page is taken for a request that has nothing to keep."""

    def nothing(self, tokens: int) -> bool:
        return tokens < 0

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        if tokens == 0 and 0 <= start <= self.lengths[row]:
            return super().request(row, start, 1)
        return super().request(row, start, tokens) if tokens else []


@mutant("sparse-free-clears-the-next-row", kills=("SPARSE-17",))
class FreeClearsTheNextRow(RowTable):
    """Giving a row back gives back the one behind it, too: its request reads what others write."""

    def free(self, row: int) -> None:
        super().free(row)
        if row + 1 < len(self.table):
            super().free(row + 1)


@mutant("sparse-keeps-the-row", kills=("POOL-12", "SPARSE-17"))
class KeepsTheRow(RowTable):
    """A row that was given back keeps its slots, which are free as well."""

    def free(self, row: int) -> None:
        if self.lengths[row]:
            self.give_back(self.held(row))
            self.lengths[row] = 0

    def held(self, row: int) -> list[int]:
        return super().held(row)[: self.lengths[row]]

    def clear(self, row: int) -> None:
        """Leave it as it is."""


@mutant("sparse-free-list-repeats", kills=("POOL-11",))
class FreeListRepeats(RowTable):
    """The slots of a page are freed as so many times its first one: the count is right, and the pages are lost."""

    def give_back(self, slots: Sequence[int]) -> None:
        super().give_back([slot - slot % self.page for slot in slots])


@mutant("sparse-count-beside-the-list", kills=("POOL-13",))
class CountBesideTheList(RowTable):
    """How much is free is counted beside the free list, and lowered before memory is taken: each refusal lowers it for
    good.
    """

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.counted = self.size

    def take(self, pages: int) -> list[int] | None:
        self.counted = max(0, self.counted - pages * self.page)
        return super().take(pages)

    def give_back(self, slots: Sequence[int]) -> None:
        super().give_back(slots)
        self.counted += len(slots)

    def available(self) -> int:
        return self.counted


@mutant("sparse-read-frees", kills=("SPARSE-06", "SPARSE-17"))
class ReadFrees(RowTable):
    """Reading a row back gives its rest back: slots that nobody has asked for yet are free, and still the row's."""

    reading = False

    def held(self, row: int) -> list[int]:
        found = super().held(row)
        if len(found) > self.page:
            self.free_slots += found[-self.page :]
        return found

    def free(self, row: int) -> None:
        self.give_back(super().held(row))
        self.clear(row)


@mutant("sparse-any-peer", links=(_ROWS,), kills=("SPARSE-22",))
class AnyPeer(RowTable):
    """Peers with pages of one token are accepted by the way, as before host pages were as large as the device's: whole
    pages are written where single tokens belong.
    """

    def accepts(self, page_size: int) -> bool:
        return page_size in (self.page, 1)


# Slips of a row's buffer


@mutant("sparse-swap-most-recent", kills=("SPARSE-28",))
class SwapMostRecent(RowTable):
    """The place that was used last is used anew: what the next step wants again is copied each time."""

    def victim(self, idle: list[int]) -> int:
        return idle.pop()


@mutant("sparse-swap-hits-are-no-use", kills=("SPARSE-28",))
class SwapHitsAreNoUse(RowTable):
    """Only being filled counts as a use: tokens that are wanted at every step are pushed out."""

    def use(self, row: int, idle: list[int], taken: list[int], hits: list[int]) -> None:
        self.recent[row] = [place for place in self.recent[row] if place not in taken] + taken


@mutant("sparse-swap-hits-before-misses", kills=("SPARSE-28",))
class SwapHitsBeforeMisses(RowTable):
    """In one step, what was there counts as used before what was filled."""

    def use(self, row: int, idle: list[int], taken: list[int], hits: list[int]) -> None:
        self.recent[row] = idle + hits + taken


@mutant("sparse-swap-hits-as-wanted", kills=("SPARSE-28",))
class SwapHitsAsWanted(RowTable):
    """Tokens that are there are looked at in the order of the wish: their old order is lost."""

    def use(self, row: int, idle: list[int], taken: list[int], hits: list[int]) -> None:
        super().use(row, idle, taken, sorted(hits))


@mutant("sparse-swap-takes-what-is-wanted", kills=("SPARSE-24", "SPARSE-27", "SPARSE-28"))
class SwapTakesWhatIsWanted(RowTable):
    """A place is used anew though it holds a token that is wanted: two tokens are said to be in it."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        before = list(self.recent[row])
        found = super().swap(row, length, wanted)
        return [before[0] if at and place < self.room < length else place for at, place in enumerate(found)]


@mutant("sparse-swap-newest-from-the-host", kills=("SPARSE-26", "SPARSE-28"))
class SwapNewestFromTheHost(RowTable):
    """The newest token is looked for like any other, and copied from a host slot that nobody has written to."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        return super().swap(row, length + 1 if length > self.room else length, wanted)


@mutant("sparse-swap-short-is-searched", kills=("SPARSE-25",))
class SwapShortIsSearched(RowTable):
    """A sequence that fits is swapped like any other: its newest token is said to be behind the buffer."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        found = super().swap(row, length, wanted)
        return [self.room if token == length - 1 else place for token, place in zip(wanted, found, strict=True)]


@mutant("sparse-admit-trusts-the-buffer", kills=("SPARSE-28",))
class AdmitTrustsTheBuffer(RowTable):
    """A row whose KV came to the host begins as if its buffer held its first tokens: they are read from what another
    request left there.
    """

    def admit(self, row: int, length: int) -> None:
        super().admit(row, min(length, self.room))


@mutant("sparse-admit-keeps-the-order", kills=("SPARSE-28",))
class AdmitKeepsTheOrder(RowTable):
    """The order in which places are used anew is that of the request that had the row before."""

    def admit(self, row: int, length: int) -> None:
        recent = self.recent[row]
        super().admit(row, length)
        self.recent[row] = recent


@mutant("sparse-swap-drops-what-was-there", kills=("SPARSE-23",))
class SwapDropsWhatWasThere(RowTable):
    """Only tokens that were copied are answered."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        there = list(self.buffered[row])
        found = super().swap(row, length, wanted)
        return [place for token, place in zip(wanted, found, strict=True) if length <= self.room or token not in there]


@mutant("sparse-swap-frees-the-host", kills=("SPARSE-06", "SPARSE-17"))
class SwapFreesTheHost(RowTable):
    """A row that begins to decode from its buffer gives a host page back: what is pushed out of the buffer is lost."""

    def admit(self, row: int, length: int) -> None:
        super().admit(row, length)
        self.give_back(self.held(row)[-self.page :])


@mutant("sparse-swap-takes-any-wish", bugs=("H-52",), kills=("SPARSE-63",))
class SwapTakesAnyWish(RowTable):
    """Nobody looks at what is wanted: a token that is named twice fills two places, and one before the row is read."""

    def check_wishes(self, hosted: int, wanted: Sequence[int]) -> None:
        pass


@mutant("sparse-swap-moves-before-it-looks", bugs=("H-52",), kills=("SPARSE-28",))
class SwapMovesBeforeItLooks(RowTable):
    """What can't be wanted is rejected when the place that was used least recently has been given away."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        try:
            return super().swap(row, length, wanted)
        except ValueError:
            if self.hosted(length) > self.room:
                self.recent[row].append(self.recent[row].pop(0))
            raise


@mutant("sparse-swap-drops-the-row", bugs=("H-52",), kills=("SPARSE-06", "SPARSE-17"))
class SwapDropsTheRow(RowTable):
    """Whoever asks for what can't be wanted is taken to be at its end: its row is given back."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        try:
            return super().swap(row, length, wanted)
        except ValueError:
            self.give_back(self.held(row))
            raise


# Legal variations


@null_mutant("sparse-swap-ignores-odd-wishes", profile=replace(PROFILE, misuse="ignore"))
class SwapIgnoresOddWishes(RowTable):
    """What can't be wanted is nowhere, and nothing is moved for it, as the profile says."""

    def swap(self, row: int, length: int, wanted: Sequence[int]) -> list[int]:
        try:
            return super().swap(row, length, wanted)
        except ValueError:
            return [NO_SLOT] * len(wanted)


@null_mutant("sparse-buffers-of-one-token")
class BuffersOfOneToken(RowTable):
    """A buffer has room for one token: how large it is, its pool says."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.room = 1


@null_mutant("sparse-highest-first")
class HighestFirst(RowTable):
    """The highest pages are handed out first: which free page is taken is nobody's business."""

    def take(self, pages: int) -> list[int] | None:
        heads = sorted((slot for slot in self.free_slots if slot % self.page == 0), reverse=True)[:pages]
        if len(heads) < pages:
            return None
        taken = [slot + at for slot in heads for at in range(self.page)]
        gone = set(taken)
        self.free_slots = [slot for slot in self.free_slots if slot not in gone]
        return taken


@null_mutant("sparse-refuses-by-an-error")
class RefusesByAnError(RowTable):
    """Want of memory is an error, as a hole is: a refusal may be either."""

    def request(self, row: int, start: int, tokens: int) -> list[int] | None:
        granted = super().request(row, start, tokens)
        if granted is None:
            raise RuntimeError("too few pages are free")
        return granted


@null_mutant("sparse-rows-of-whole-pages")
class RowsOfWholePages(RowTable):
    """Rows have room for whole pages, and two more of them: how wide a row is, its pool says."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.width = 7 * self.page
        self.table = [[NO_SLOT] * self.width for _ in self.table]


@null_mutant("sparse-rejects-a-negative-count", profile=REJECTING)
class RejectsANegativeCount(RowTable):
    """Fewer tokens than none are refused, as the profile says."""
