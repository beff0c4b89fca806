"""Requests composed from parts: for caches that have a pool, a tree, locks and eviction, but no requests.

An engine's scheduler does this work; where it isn't part of the cache (SGLang's isn't), the suite
does it in the plainest lawful way: match, lock, make room, allocate; insert, free
duplicates, match again and move the lock; free the rest and unlock.

That second match is a use like any other: the capability ``composed`` says that publications have one
(:func:`kvlitmus.spec.prefix.advance.publish`).  Which calls a request was made of is noted, for whoever shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvlitmus.conformance.ports import PORTS, Begun, Profile
from kvlitmus.conformance.support.integers import integers, sequence
from kvlitmus.spec.words.units import Key, page_floor

PARTS = frozenset({"pool", "tree", "locks", "evict"})
"""What it takes to compose requests."""

PAST_THEM = frozenset({"raw_begin", "take_back", "fork", "retract", "resume", "discard"})
"""Calls on requests of the cache's own, which the composed ones would know nothing of."""


HANDED = object()
"""Stands for the handle that the call before gave."""

NOTHING_LEFT: Mapping[str, dict[str, Any]] = {
    "caller_frees": {"to_free": []},
    "cache_frees": {"to_free": None},
}
"""What an insert has answered, as ``duplicates`` has it, that leaves nothing to free; with others it isn't known."""

WRONG = 3
"""So often what was foreseen may be wrong before it is looked ahead no more."""


class Part(NamedTuple):
    """One call of the cache that a request is composed of.

    text: it as a reader should see it; empty for a look.  only: what the call before must have answered for this one to
    be made ahead of time, before that answer is known: all of it, or these fields; ``None`` where it doesn't matter.
    """

    text: str
    method: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any] = {}
    only: int | dict[str, Any] | None = None


def one_by_one(adapter: Any, parts: Iterable[Part], answer: Any = None) -> Iterator[Any]:
    """Make these calls; what each answered.  ``answer``: that of the call before."""
    for part in parts:
        args = [answer.handle if one is HANDED else one for one in part.args]
        answer = getattr(adapter, part.method)(*args, **part.kwargs)
        yield answer


class ToldOfRequests:
    """An adapter of the suite's own that is told when a call is a part of a composed request.

    ``composing``: the calls that were made for one so far; none where a call is a step by itself.
    """

    composing: Sequence[str] = ()

    def together(self, parts: Sequence[Part]) -> Iterator[Any]:
        """Make these calls, none of which has to wait for more than a handle; what each answered.

        Those from the first on whose ``only`` isn't met are made when their answer is asked for.
        """
        return one_by_one(self, parts)

    def foreseen(self, key: Key) -> tuple[int, int] | None:
        """How much of a key is cached, and what is available, by what was seen after the last call."""
        return None

    def uncalled(self) -> None:
        """A step is over without a call of the cache: what was seen after the last one is seen again."""

    def still(self, look: str) -> object:
        """What a look showed after the last call, and need not be asked again; ``None`` where that isn't known."""
        return None


@dataclass(slots=True)
class ComposedRequest:
    """A running request: key, row, how much of the row is the tree's, and the receipt that protects it."""

    key: Key
    row: list[int]
    cached: int
    receipt: object


class Composed:
    """An adapter with requests: its own ports, and those of requests made of them."""

    def __init__(self, adapter: Any, page_size: int, profile: Profile) -> None:
        self._adapter = adapter
        self._size = page_size
        self._profile = profile
        self._running: dict[int, ComposedRequest] = {}
        self._made: list[str] = []
        self._wrong = 0
        self._told = isinstance(adapter, ToldOfRequests)
        if self._told:
            adapter.composing = self._made

    def __getattr__(self, name: str) -> Any:
        if name in PAST_THEM:
            raise AttributeError(name)
        found = getattr(self._adapter, name)
        return self._reset if name == "reset" else found  # kept on the object it would hold all of this in a circle

    def _reset(self) -> None:
        self._running.clear()
        self._adapter.reset()

    def made_of(self) -> tuple[str, ...]:
        """The calls that were made of the cache since this was asked last, as a reader should see them."""
        made = tuple(self._made)
        self._made.clear()
        return made

    def _calls(self, *parts: Part) -> list[Any]:
        """Make these calls of the cache, and note each; what they answered."""
        return [*self._each(parts)]

    def _each(self, parts: Sequence[Part]) -> Iterator[Any]:
        """The same, each when its answer is asked for, or ahead of time."""
        adapter = self._adapter
        answers = adapter.together(parts) if self._told else one_by_one(adapter, parts)
        for part in parts:
            if part.text:
                self._made.append(part.text)
            yield next(answers)

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Match, lock, make room, allocate; without room the lock is given back."""
        size = self._size
        most = -(-len(key.tokens) // size) * size
        cached, ahead = self._ahead(key, most)
        only = {"length": cached} if ahead else None
        answers = self._each([Part("match", "match", [key]), Part("lock", "lock", [HANDED], only=only), *ahead])
        hit, receipt = next(answers), next(answers)
        found = page_floor(hit.length, size)  # who composes copies nothing
        available = next(answers) if ahead and hit.length == cached else None
        if available is not None and available == ahead[1].only:
            *_, got = answers
            own: Collection[int] | None = None if got is None else slots_of(got)
        else:
            self._wrong += bool(ahead)
            own = self._room(most - found, available)
        if own is None:
            self._calls(Part("unlock", "unlock", [receipt]))
            return None
        row = [*slots_of(hit.slots)[:found], *own][: len(key.tokens)]
        self._running[rid] = ComposedRequest(key, row, found, receipt)
        return Begun(tuple(row), found)

    def _ahead(self, key: Key, most: int) -> tuple[int, list[Part]]:
        """How much of a key a match will find, and the calls that make room for the rest; none if it isn't foreseen."""
        seen = self._adapter.foreseen(key) if self._told and self._wrong < WRONG else None
        if seen is None:
            return 0, []
        cached, available = seen
        if self._profile.match_cap == "len-1":
            cached = min(cached, key.length - 1)
        cached = page_floor(max(cached, 0), self._size)
        if most <= cached:
            return 0, []
        first, *rest = self._making(most - cached, available)
        return cached, [Part("", "available", []), first._replace(only=available), *rest]

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """Fill the last page, then whole new pages."""
        request, size = self._running[rid], self._size
        before, after = len(request.row), len(request.row) + len(tokens)
        end = -(-before // size) * size
        missing = -(-after // size) * size - end
        if self._told and not missing:
            self._adapter.uncalled()
        own = self._room(missing)
        if own is None:
            return None
        rest = [request.row[-1] + 1 + offset for offset in range(min(after, end) - before)] if end > before else []
        new = [*rest, *own][: after - before]
        request.row += new
        request.key = request.key._replace(tokens=request.key.tokens + tuple(tokens))
        return new

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """Insert the whole pages, free duplicates, go on with the tree's slots and a lock on them."""
        return self._publish(rid, len(self._running[rid].row), chunked=chunked)

    def _publish(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """The same for the pages that are computed."""
        request = self._running[rid]
        whole = self._whole(request, upto)
        if whole:
            tokens = self._tokens(request, whole)
            if self._profile.match_cap == "len-1":
                tokens = (*tokens, 0)  # one more than is wanted: the last one is left to be computed
            hit, receipt, _ = self._stored(
                request,
                whole,
                Part(f"match of {whole}", "match", [request.key._replace(tokens=tokens)]),
                Part("lock", "lock", [HANDED]),
                Part("unlock", "unlock", [request.receipt]),
                chunked=chunked,
            )
            request.row[:whole] = slots_of(hit.slots)[:whole]
            request.cached, request.receipt = whole, receipt
        return Begun(tuple(request.row), request.cached)

    def end(self, rid: int, *, keep: bool) -> None:
        """Finish or abort: what the tree does not take is freed, and the lock is given back."""
        self._end(rid, len(self._running[rid].row) if keep else 0)

    def _end(self, rid: int, upto: int) -> None:
        """Cache the whole pages of so many units, free the rest, unlock."""
        request = self._running.pop(rid)
        kept = self._whole(request, upto)
        rest = self._freed(request.row[max(kept, request.cached) :])
        rest.append(Part("unlock", "unlock", [request.receipt]))
        if kept:
            self._stored(request, kept, *rest, chunked=False)
        else:
            self._calls(*rest)

    def _whole(self, request: ComposedRequest, upto: int) -> int:
        """How many of so many units fill whole pages."""
        return page_floor(min(upto, request.key.length), self._size)

    def _tokens(self, request: ComposedRequest, whole: int) -> tuple[int, ...]:
        """The tokens of so many units, and more of the request's own where the cache takes no key as short as that."""
        return request.key.tokens[: max(whole + int(request.key.bigram), self._profile.least_key)]

    def _stored(self, request: ComposedRequest, whole: int, *after: Part, chunked: bool) -> list[Any]:
        """Insert the first ``whole`` units, free what is left to the caller, and go on; what that answered."""
        key = request.key._replace(tokens=self._tokens(request, whole))
        how = {"protected": request.cached, "chunked": chunked}
        insert = Part(f"insert of {whole}, protected={request.cached}", "insert", [key, request.row[:whole]], how)
        duplicates = self._profile.duplicates
        if duplicates in NOTHING_LEFT:
            first, *others = after
            answers = self._each([insert, first._replace(only=NOTHING_LEFT[duplicates]), *others])
            stored = next(answers)
        else:
            [stored], answers = self._calls(insert), iter(())
        told = stored.to_free
        left = [] if told is None else slots_of(told)
        if duplicates == "kept" or (told is None and duplicates == "caller_frees"):
            left += request.row[request.cached : stored.already]  # who composes has no use for what is its own twice
        if frees := self._freed(left):
            return self._calls(*frees, *after)[len(frees) :]
        return [*answers] or self._calls(*after)

    def _freed(self, slots: Iterable[int]) -> list[Part]:
        """The call that frees the whole pages that these slots begin; none for no slots."""
        size = self._size
        pages = dict.fromkeys(slot // size for slot in slots)
        slots = [slot for page in pages for slot in range(page * size, page * size + size)]
        return [Part(f"free({slots})", "free", [slots])] if slots else []

    def _room(self, n: int, available: int | None = None) -> Collection[int] | None:
        """``n`` slots, evicting what is missing of what is ``available``; ``None`` when there is no room."""
        if n <= 0:
            return ()
        got = self._calls(*self._making(n, self._available() if available is None else available))[-1]
        return None if got is None else slots_of(got)

    def _making(self, n: int, available: int) -> list[Part]:
        """The calls that make room for ``n`` slots, where so many are available."""
        short = n - available
        evict = [Part(f"evict({short})", "evict", [short])] if short > 0 else []
        return [*evict, Part(f"alloc({n})", "alloc", [n])]

    def _available(self) -> int:
        """How many slots are available now: where a message costs more than to remember it, what was seen last."""
        adapter = self._adapter
        known = adapter.still("available") if isinstance(adapter, ToldOfRequests) else None
        return known if type(known) is int else adapter.available()


def slots_of(answer: Any) -> list[int]:
    """An answer of slots as a list."""
    return [*integers(sequence(answer, "slots"))]


class PartlyComposed(Composed):
    """The same with requests that are computed in part: for caches that take keys as short as they may be then."""

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """Insert the whole pages that are computed."""
        return self._publish(rid, upto, chunked=chunked)

    def end_upto(self, rid: int, upto: int) -> None:
        """Finish: what isn't computed is freed, too."""
        self._end(rid, upto)


def offers(adapter: object, port: str) -> bool:
    """Whether an adapter has all methods of a port."""
    return all(callable(getattr(adapter, name, None)) for name in PORTS[port])


def with_requests(adapter: Any, page_size: int, profile: Profile) -> Any:
    """The adapter itself where it has requests or can't have them, else the adapter with composed ones."""
    if offers(adapter, "requests") or not all(offers(adapter, port) for port in PARTS):
        return adapter
    return (Composed if profile.least_key else PartlyComposed)(adapter, page_size, profile)
