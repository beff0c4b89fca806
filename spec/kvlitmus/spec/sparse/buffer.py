"""The buffer on the device that a sparse row decodes from, as a value: which token each place holds, and in which order
places were used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import page_ceil

NO_TOKEN = -1


@lean
class SparseBuffer(NamedTuple):
    """A row's buffer of ``len(tokens)`` places.

    tokens: which token each place holds, :data:`NO_TOKEN` for none.  order: the places, the least recently used first.
    length: how many tokens the sequence has; the newest one of a sequence that is longer than the buffer has a place of its
    own behind the others.
    """

    tokens: tuple[int, ...]
    order: tuple[int, ...]
    length: int

    @property
    def room(self) -> int:
        """How many places there are, and the number of the newest token's own."""
        return len(self.tokens)


def admitted(room: int, length: int) -> SparseBuffer:
    """The buffer of a request that begins to decode with the KV of so many tokens on the host.

    They are all in it, token ``i`` in place ``i``, if there is room for them, and none of them if not.
    """
    places = tuple(range(room))
    return SparseBuffer(places if length <= room else (NO_TOKEN,) * room, places, length)


def acknowledged(room: int, length: int, keeps: str) -> SparseBuffer:
    """The buffer of a request whose KV was computed on the device, when it has been copied to the host.

    ``keeps``: what is in the buffer if there is no room for all, the ``first`` tokens or none of them (``nothing``), as the
    profile's ``sparse_staged`` says.
    """
    return admitted(room, length) if keeps == "nothing" else admitted(room, room)._replace(length=length)


def may_be_wanted(buffer: SparseBuffer, length: int, wanted: Sequence[int]) -> bool:
    """Whether these tokens of a sequence of that length can be wanted: each is one of it and named once, and they are no
    more than there is room for.
    """
    return len(set(wanted)) == len(wanted) <= buffer.room and all(0 <= token < length for token in wanted)


def swapped(buffer: SparseBuffer, length: int, wanted: Sequence[int]) -> tuple[SparseBuffer, tuple[int, ...]]:
    """The buffer with these tokens of a sequence of that length, and the place of each.

    As long as the sequence fits, each token has the place of its own number, and nothing changes.  After that, places are
    used anew in the order in which they were used last: first those that stay idle, then those that were filled, then
    those that held what was wanted.
    """
    if length <= buffer.room:
        return buffer._replace(length=length), tuple(wanted)
    there = {token: place for place, token in enumerate(buffer.tokens) if token in wanted}
    idle = [place for place in buffer.order if buffer.tokens[place] not in there]
    missing = [token for token in wanted if token not in there and token != length - 1]
    filled = dict(zip(missing, idle, strict=False))
    tokens = list(buffer.tokens)
    for token, place in filled.items():
        tokens[place] = token
    hits = [place for place in buffer.order if buffer.tokens[place] in there]
    order = (*idle[len(missing) :], *idle[: len(missing)], *hits)
    found = {**there, **filled, length - 1: buffer.room}
    return SparseBuffer(tuple(tokens), order, length), tuple([found[token] for token in wanted])


def grown(tokens: int, room: int, page_size: int, grows: str) -> tuple[int, int]:
    """How many device slots the buffer of so many tokens has that has room for ``room``, at least and at most.

    It grows by the page, or is whole from the beginning, as the profile's ``sparse_grows`` says.  A whole one has one slot
    behind the others for the newest token, or as many more as a page has.
    """
    paged = min(page_ceil(tokens, page_size), room)
    return (room + 1, room + page_size) if grows == "whole" or paged == room else (paged, paged)
