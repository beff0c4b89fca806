"""The calls that the contract forbids, as values, and what is looked at afterwards.

Whatever such a call does, the suite then allocates page by page until it is refused: what that gave is the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kvlitmus.spec.law.occasions import occasion
from kvlitmus.spec.law.on import On
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Slot, Tokens


@occasion(On.MISUSE, On.DOUBLE_FREE)
class DoubleFree(NamedTuple):
    """Free slots that were freed already."""

    slots: tuple[Slot, ...]


@occasion(On.MISUSE, On.REPEATED_FREE)
class RepeatedFree(NamedTuple):
    """Free the suite's own slots, naming each of these twice in one call."""

    slots: tuple[Slot, ...]


@occasion(On.MISUSE, On.PARTIAL_FREE)
class PartialFree(NamedTuple):
    """Free the first slot of a page that the suite owns and goes on using; then give back its other pages lawfully."""

    slots: tuple[Slot, ...]


@occasion(On.MISUSE, On.STALE_UNLOCK)
class StaleUnlock(NamedTuple):
    """Give a receipt back that was given back already."""

    receipt: int


@occasion(On.MISUSE, On.SCRIBBLE)
class Scribble(NamedTuple):
    """Overwrite the very sequence that an allocation of so many slots returned."""

    asked: Tokens


@occasion(On.MISUSE, On.ODD_ALLOC)
class OddAlloc(NamedTuple):
    """Allocate so many slots, which is no multiple of the page."""

    asked: Tokens


@occasion(On.MISUSE, On.FORBIDDEN)
class Forbidden(NamedTuple):
    """Any other call that the contract forbids: the method, and what is wrong with it, in words."""

    method: str
    wrong: str


@occasion(On.MISUSE, On.OTHER_WIDTH)
class OtherWidth(NamedTuple):
    """Match a key of so many units whose tokens come as integers of fewer bits than the cache's own."""

    units: Tokens


@occasion(On.MISUSE, On.BEYOND)
class Beyond(NamedTuple):
    """Match a key whose first page has a token that no key has: below 0, or not below the profile's ``vocabulary``."""

    token: int


MisuseCall = (
    DoubleFree | RepeatedFree | PartialFree | StaleUnlock | Scribble | OddAlloc | Forbidden | OtherWidth | Beyond
)
"""Every call that breaks the contract, or is at its edge."""


class Found(NamedTuple):
    """What a match said: so many units, in these slots where it tells them."""

    units: Tokens = Tokens(0)
    slots: tuple[Slot, ...] | None = ()


class Lookups(NamedTuple):
    """What came of such a match: whether it ``raised``; what it ``found``; and ``lawful``: what the key finds by itself."""

    raised: bool
    found: Found
    lawful: Found


class Aftermath(NamedTuple):
    """What came of misuse.

    ``raised``: whether the call did.  ``taken_back``: whether the lawful free afterwards, if there was one, was accepted.
    ``grants``: what was allocated then, a page at a time, until nothing more was to be had, or a grant was not sound.
    ``refused``: whether it ended with a refusal, as it must.  ``aliased``: whether the cache itself says that the returned
    sequence lies in the memory of its free list.
    """

    raised: bool
    taken_back: bool
    grants: tuple[tuple[int, ...], ...]
    refused: bool
    aliased: bool = False


def page_granted(setting: Setting, grant: tuple[int, ...], taken: Collection[PageNo]) -> PageNo | None:
    """The page that one more allocation of a page gave, if it is sound: whole, usable, and nobody's."""
    size = setting.size
    page = PageNo(grant[0] // size if grant else -1)
    whole = grant == tuple(range(page * size, page * size + size))
    return page if whole and page in setting.usable and page not in taken else None
