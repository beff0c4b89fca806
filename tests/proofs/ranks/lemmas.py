"""What is proven of ranks that agree, as functions that CrossHair reads (see ``lemmas.py``)."""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.reference.ranks import attaches, common_part, least, terminates
from kvlitmus.spec.ranks.rules import (
    a_prefetch_ends_by_agreement,
    a_window_or_a_state_is_committed_whole_or_not_at_all,
    what_every_rank_has_read_is_committed,
    what_has_ended_on_every_rank_is_acknowledged,
)
from kvlitmus.spec.ranks.state import finished
from tests.proofs.prefix.lemmas import LEMMAS, lemma

__all__ = ["LEMMAS"]

PAGES = ((1,), (1, 2), (1, 2, 3))
QUEUE = ((1,), (2,), (3,))

Values = tuple[int, int]
Least = Callable[[list[Values]], tuple[int, ...]]
Part = Callable[[int, int, bool, int, int], tuple[int, bool]]

# -- the least over ranks ------------------------------------------------------------------------------


def _fits_every_rank(reduce: Least, one: Values, other: Values) -> bool:
    first, second = reduce([one, other])
    below = first <= one[0] and first <= other[0] and second <= one[1] and second <= other[1]
    return below and first in (one[0], other[0]) and second in (one[1], other[1])


@lemma("RANKS-10", "RANKS-14", bounds="two ranks, two values of any size")
def what_is_agreed_on_is_the_most_that_every_rank_has(one: Values, other: Values) -> None:
    """The least is no more than any rank has, and no less than one has."""
    assert True
    assert _fits_every_rank(least, one, other)


@lemma("RANKS-10", "RANKS-14", bounds="the most instead of the least")
def planted_most_instead_of_least(one: Values, other: Values) -> None:
    """What is agreed on is more than one rank has."""
    assert True
    assert _fits_every_rank(lambda ranks: tuple(max(column) for column in zip(*ranks, strict=True)), one, other)


# -- commits -------------------------------------------------------------------------------------------


def _commits(part: Part, hit: int, one: int, other: int) -> bool:
    many, _ = part(hit, min(one, other), False, 0, 1)
    committed, common = PAGES[:many], PAGES[: min(hit, one, other)]
    return what_every_rank_has_read_is_committed(committed, common)


@lemma("RANKS-14", bounds="two ranks; of three pages any number on storage and read by each")
def a_commit_of_the_least_keeps_a_prefix(hit: int, one: int, other: int) -> None:
    """What is committed is the prefix that both have read, and all of it."""
    assert 0 <= hit <= 3 and 0 <= one <= 3 and 0 <= other <= 3
    assert _commits(common_part, hit, one, other)


@lemma("RANKS-14", bounds="all that storage has is committed")
def planted_commit_of_the_hit(hit: int, one: int, other: int) -> None:
    """What nobody has read yet is committed."""
    assert 0 <= hit <= 3 and 0 <= one <= 3 and 0 <= other <= 3
    assert _commits(lambda hit, pages, window, wide, size: (hit, window), hit, one, other)


def _whole_window(part: Part, hit: int, pages: int, read: int, size: int) -> bool:
    many, window = part(hit, pages, True, read, size)
    return window == (read >= size and 0 < many == hit)


@lemma("RANKS-16", bounds="any hit, pages, pages of the window and its size")
def a_window_is_whole_and_at_the_end(hit: int, pages: int, read: int, size: int) -> None:
    """A window is committed where all of it was read, and all pages before its boundary."""
    assert hit >= 0 and pages >= 0 and read >= 0 and size > 0
    assert _whole_window(common_part, hit, pages, read, size)


@lemma("RANKS-16", bounds="a window in part")
def planted_window_in_part(hit: int, pages: int, read: int, size: int) -> None:
    """A part of a window is enough."""
    assert hit >= 0 and pages >= 0 and read >= 0 and size > 0

    def part(hit: int, pages: int, window: bool, read: int, size: int) -> tuple[int, bool]:
        many = min(hit, pages)
        return many, window and read > 0 and many == hit > 0

    assert _whole_window(part, hit, pages, read, size)


Attaches = Callable[[int, int, bool], bool]


def _own_state(attach: Attaches, hit: int, one: int, other: int, read: bool) -> bool:
    many, _ = common_part(hit, min(one, other), False, 0, 1)
    committed = PAGES[:many][-1:] if attach(hit, many, read) else ()
    common = PAGES[hit - 1 : hit] if read and 0 < hit <= min(one, other) else ()
    return a_window_or_a_state_is_committed_whole_or_not_at_all([(), committed], [(), common])


@lemma("RANKS-16", bounds="two ranks; of three pages any number on storage and read by each; the state read or not")
def a_state_is_of_the_last_page_that_storage_has(hit: int, one: int, other: int, read: bool) -> None:
    """A state gets to the boundary that it was stored for, where all have read it and all pages, and nowhere else."""
    assert 0 <= hit <= 3 and 0 <= one <= 3 and 0 <= other <= 3
    assert _own_state(attaches, hit, one, other, read)


@lemma("RANKS-16", bounds="whatever was committed")
def planted_state_of_a_longer_prefix(hit: int, one: int, other: int, read: bool) -> None:
    """The state of all that storage has is given to what was committed of it."""
    assert 0 <= hit <= 3 and 0 <= one <= 3 and 0 <= other <= 3
    assert _own_state(lambda hit, many, read: read and many > 0, hit, one, other, read)


# -- acknowledgements ------------------------------------------------------------------------------------

Ended = tuple[bool, bool, bool]


def _acknowledged(count: Callable[[int, int], int], one: Ended, other: Ended) -> bool:
    ends = [
        finished(QUEUE, frozenset(page for page, over in zip(QUEUE, ended, strict=True) if over))
        for ended in (one, other)
    ]
    noted, queues, due = [QUEUE[: count(*ends)], ()], [QUEUE, ()], [min(ends), 0]
    return what_has_ended_on_every_rank_is_acknowledged(noted, queues, due)


@lemma("RANKS-10", bounds="two ranks; of three copies any have ended on each")
def the_least_finished_run_is_acknowledged(one: Ended, other: Ended) -> None:
    """The least of the finished runs is a run that has ended on both."""
    assert True
    assert _acknowledged(lambda first, second: least([(first,), (second,)])[0], one, other)


@lemma("RANKS-10", bounds="the first rank's own count")
def planted_own_count(one: Ended, other: Ended) -> None:
    """One rank's count is taken for both."""
    assert True
    assert _acknowledged(lambda first, second: first, one, other)


# -- the end of a prefetch ---------------------------------------------------------------------------------


def _ends(decide: Callable[[bool, bool], bool], one: bool, other: bool, failed: bool) -> bool:
    may = (one and other) or failed
    ended = decide(one and other, failed)
    return a_prefetch_ends_by_agreement(ended, may)


@lemma("RANKS-12", bounds="two ranks, each of which lets it end or not; reading has ended early on one or not")
def a_prefetch_ends_where_all_let_it_or_one_has_failed(one: bool, other: bool, failed: bool) -> None:
    """All can, or one has terminated."""
    assert True
    assert _ends(terminates, one, other, failed)


@lemma("RANKS-12", bounds="a failure on one rank is not heard")
def planted_failure_is_not_heard(one: bool, other: bool, failed: bool) -> None:
    """Reading that ended early on one rank is waited for."""
    assert True
    assert _ends(lambda all_may, one_failed: all_may, one, other, failed)
