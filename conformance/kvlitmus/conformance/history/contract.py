"""The caller's side of the contract: what the recorded *engine* must not do.

A cache can't be blamed for what follows from a free of somebody else's page.  So before a call is judged, its
caller is: each function here looks at the checker's state and raises :class:`Breach` for a call that the
contract forbids.  After a breach nothing is judged, unless the profile says that such calls are rejected or
ignored, because nobody knows what the call did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias

from kvlitmus.conformance.checker.calls.prefix.request import most_to_take_back
from kvlitmus.spec.prefix.page import Place
from kvlitmus.spec.words.units import Key, PageNo, page_floor

if TYPE_CHECKING:
    from kvlitmus.conformance.history.playback import RecordedChecker


class Breach(Exception):
    """A call that the contract forbids: what kind of breach it is, and what was wrong in words."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


class Contradiction(Exception):
    """A trace that says two things that can't both be true."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


P = ParamSpec("P")
Judges: TypeAlias = Callable[Concatenate["RecordedChecker", P], None]


def where_known(judge: Judges[P]) -> Judges[P]:
    """Nobody is blamed where it isn't known who has what."""

    def judged(checker: RecordedChecker, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not checker.blind:
            judge(checker, *args, **kwargs)

    judged.__doc__ = judge.__doc__
    return judged


@where_known
def alloc(checker: RecordedChecker, n: int) -> None:
    """A pool that rejects odd sizes must not be asked for one."""
    if n % checker.size and checker.profile.align == "reject":
        raise Breach(
            "size", f"{n} slots are no whole pages of {checker.size}, and the profile says that such sizes are rejected"
        )


@where_known
def free(checker: RecordedChecker, slots: Sequence[int], *, freed: Sequence[int] = ()) -> None:
    """Only the caller's own pages may be freed, each once; ``freed`` wait in the same group."""
    if len(set(slots)) < len(slots):
        twice = next(slot for at, slot in enumerate(slots) if slot in slots[:at])
        raise Breach("double free", f"slot {twice} is named twice in one free")
    waiting = {slot // checker.size for slot in freed}
    for page in dict.fromkeys(PageNo(slot // checker.size) for slot in slots):
        if page in waiting:
            raise Breach("double free", f"page {page} is freed twice in one group")
        if not checker.loose[page]:
            raise Breach("foreign free", f"page {page} isn't the caller's to free: it is {home(checker, page)}")


def home(checker: RecordedChecker, page: PageNo) -> str:
    """Where a page is that the caller doesn't own, as far as the checker knows."""
    size = checker.size
    for rid, running in checker.requests.items():
        if any(slot // size == page for slot in running.row[running.cached :]):
            return f"request {rid}'s"
    if any(cached.page == page for cached in checker.tree.pages.values()):
        return "the tree's"
    if page not in checker.usable:
        return "no page of the pool"
    return "free, or was never handed out"


@where_known
def extend(checker: RecordedChecker, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> None:
    """An extension continues pages that the caller owns, and makes nothing shorter."""
    if not len(before) == len(after) == len(last):
        raise Breach("lengths", f"{len(before)}, {len(after)} and {len(last)} requests are meant at once")
    for old, new, slot in zip(before, after, last, strict=True):
        if old < 0 or new < old:
            raise Breach("lengths", f"a request of {old} tokens can't be extended to {new}")
        if old % checker.size and not checker.loose[PageNo(slot // checker.size)]:
            page = PageNo(slot // checker.size)
            raise Breach("foreign page", f"page {page} isn't the caller's to fill: it is {home(checker, page)}")


@where_known
def insert(checker: RecordedChecker, key: Key, slots: Sequence[int], protected: int) -> None:
    """What is inserted is a whole page for each page of the key, from ``protected`` on the caller's own."""
    size, whole = checker.size, page_floor(key.length, checker.size)
    if len(slots) < whole:
        raise Breach("short value", f"{len(slots)} slots for the {whole} units in whole pages of the key")
    if protected % size or protected > len(slots):
        raise Breach("protected part", f"{protected} of {len(slots)} slots are no whole pages")
    for at in range(protected, whole, size):
        page = PageNo(slots[at] // size)
        if list(slots[at : at + size]) != list(range(page * size, page * size + size)):
            raise Breach("broken page", f"slots {list(slots[at : at + size])} are not one whole page in order")
        if not checker.loose[page]:
            raise Breach("foreign page", f"page {page} isn't the caller's to insert: it is {home(checker, page)}")
    own = [slot // size for slot in slots[protected:whole:size]]
    if len(set(own)) < len(own):
        raise Breach("broken page", "the same page is brought for two places of the key")


@where_known
def running(checker: RecordedChecker, rid: int) -> None:
    """Only a request that runs can grow, be shortened, be published and end."""
    if rid not in checker.requests:
        raise Breach("no such request", f"request {rid!r} isn't running")


@where_known
def computed(checker: RecordedChecker, rid: int, upto: int | None) -> None:
    """What is computed of a request is not less than what it shares, and not more than it has slots for."""
    request = checker.requests[rid]
    if upto is not None and not request.cached <= upto <= len(request.row):
        raise Breach(
            "computed part", f"{upto} units of request {rid!r}: {request.cached} are cached, it has {len(request.row)}"
        )


@where_known
def own_tokens(checker: RecordedChecker, rid: int, n: int) -> None:
    """Only tokens that a request doesn't share may be taken back."""
    most = most_to_take_back(checker.requests[rid])
    if not 0 <= n <= most:
        raise Breach("shared part", f"{n} tokens of request {rid!r}, of which {most} are its own")


@where_known
def beginning(checker: RecordedChecker, rid: int) -> None:
    """A request that runs, or is on the host, can't begin."""
    if rid in checker.requests:
        raise Breach("request twice", f"request {rid!r} is running already")
    if rid in checker.state.retracted.requests:
        raise Breach("request twice", f"request {rid!r} is retracted")


@where_known
def retracted(checker: RecordedChecker, rid: int) -> None:
    """Only a request that was retracted can resume, or be discarded."""
    if rid not in checker.state.retracted.requests:
        raise Breach("no such request", f"request {rid!r} isn't retracted")


def of_components(checker: RecordedChecker, wants: Mapping[str, object]) -> None:
    """Only components that there are can be asked for."""
    there = checker.setting.layout.components_by_name
    for name in wants:
        if name not in there:
            raise Breach("no such component", f"{name!r}: there are {', '.join(there)}")


def wanted(checker: RecordedChecker, wants: Mapping[str, int]) -> None:
    """Of a component no fewer than none can be asked for, or evicted."""
    of_components(checker, wants)
    for name, many in wants.items():
        if many < 0:
            raise Breach("size", f"{many} of {name} are fewer than none")


@where_known
def places(checker: RecordedChecker, given: Mapping[str, Collection[int]]) -> None:
    """Only the caller's own places may be freed, or brought, each once."""
    of_components(checker, given)
    seen = set[Place]()
    for name, some in given.items():
        for place in some:
            at = checker.setting.layout.named(name).pool, place
            if at in seen:
                raise Breach("place twice", f"place {place} of {at[0]} is named twice in one call")
            if at not in checker.state.owned:
                raise Breach("foreign place", f"place {place} of {at[0]} isn't the caller's")
            seen.add(at)


def entries(checker: RecordedChecker, key: Key, brought: Mapping[str, Mapping[int, int]]) -> None:
    """What is inserted ends within the key, in places of the caller's own."""
    places(checker, {name: some.values() for name, some in brought.items()})
    for name, some in brought.items():
        for end in some:
            if not 0 < end <= len(key.units):
                raise Breach(
                    "beyond the key", f"an entry of {name} ends at {end}, and the key has {len(key.units)} units"
                )
