"""Litmus tests on tokens that are compressed before they go to sparse host memory.

They are made for any ratio; where each token has a slot, they say what the tests on backups say.
"""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.sparse.admission import BACKUPS, decoding, steps, whole_row
from kvlitmus.conformance.litmus.sparse.rows import with_rows


def ratio_of(checker: Checker) -> int:
    """How many tokens of the model are compressed to one."""
    return sparse.state_of(checker).ratio


@litmus(rules=("SPARSE-38", "SPARSE-43", "SPARSE-44"), needs=BACKUPS)
def each_group_is_backed_up_when_it_is_whole(checker: Checker) -> None:
    """The step after each group's last token backs it up, over a page's end, and no other does."""
    ratio = ratio_of(checker)
    decoding(checker, 0, ratio)
    steps(checker, 0, ratio + 1, min(checker.size + 2, 8) * ratio + 1)
    sparse.read(checker, 0)
    sparse.free(checker, 0)


@litmus(rules=("SPARSE-38", "SPARSE-43", "SPARSE-45"), needs=BACKUPS)
@with_rows(2)
def a_prompt_ends_within_a_group(checker: Checker) -> None:
    """Of a prompt that ends one token before a group is whole, that group has no slot; it is backed up as a whole."""
    ratio = ratio_of(checker)
    tokens = 2 * ratio + ratio - 1
    decoding(checker, 0, tokens)
    steps(checker, 0, tokens + 1, tokens + ratio + 2)
    decoding(checker, 1, ratio + 1)
    steps(checker, 1, ratio + 2, 2 * ratio + 2)


@litmus(rules=("SPARSE-06", "SPARSE-44", "SPARSE-45"), needs=BACKUPS)
def a_group_begins_a_page(checker: Checker) -> None:
    """A prompt fills its page to the last group: the next one takes a page, and only when it is backed up."""
    ratio, page = ratio_of(checker), checker.size
    decoding(checker, 0, page * ratio)
    steps(checker, 0, page * ratio + 1, (page + 2) * ratio + 1)


@litmus(rules=("SPARSE-39", "SPARSE-40", "SPARSE-42"), needs=("sparse", "sparse_admission"))
def admission_counts_groups(checker: Checker) -> None:
    """A request of as many groups as a row has slots is admitted, also with tokens that fill no group more."""
    ratio = ratio_of(checker)
    most = min(whole_row(checker), checker.config.pages * checker.size)
    sparse.reserve(checker, 0, most * ratio + ratio - 1)
    sparse.request(checker, 0, 0, most)
    sparse.free(checker, 0)
    sparse.reserve(checker, 0, (most + 1) * ratio)


@litmus(rules=("SPARSE-23", "SPARSE-25", "SPARSE-26"), needs=("sparse", "sparse_buffers", "sparse_swaps"))
def a_buffer_has_room_for_groups(checker: Checker) -> None:
    """As many groups as there is room for lie in order, though they are of more tokens; the next has its own place."""
    ratio, room = ratio_of(checker), sparse.state_of(checker).room
    if sparse.request(checker, 0, 0, room) is not None:
        sparse.admit(checker, 0, room * ratio)
    if 0 not in sparse.state_of(checker).lengths:
        return
    for length in range(room * ratio + 1, (room + 1) * ratio + 1):
        if sparse.back_up(checker, 0, length) is None or not sparse.grow(checker, 0, length):
            return
        sparse.swap(checker, 0, length, [length // ratio - 1, 0][:room])
