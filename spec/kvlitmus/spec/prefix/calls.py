"""The calls on a flat cache, as values: a step can be kept, judged again, and proven things about.

What a call answers is in :mod:`kvlitmus.spec.interface`.  Keys come **named** (:class:`Path`): with the names of all
their prefixes, so that no fact has to look at tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from kvlitmus.spec.law.occasions import jointly, occasion, occasions_by_answer, refusable
from kvlitmus.spec.law.on import On
from kvlitmus.spec.words.names import Names, page_names
from kvlitmus.spec.words.units import Key, Name, Slot, Tokens

Slots = tuple[Slot, ...]

Amount_co = TypeVar("Amount_co", covariant=True)
"""How much a call asks for: so many slots of a plain cache, of one of components so many entries of each."""

Given_co = TypeVar("Given_co", covariant=True)
"""What a caller brings or gives back: slots of a plain cache, of one of components the places of entries of each."""


class Path(NamedTuple):
    """A key with the names of its prefixes.

    ``root``: the name of its namespace.  ``names``: of all its prefixes, in units, shortest first; ``pages``: of those
    that end with a whole page.  ``tokens``: what the slot of each token of a request holds (for a bigram key one name more).
    """

    key: Key
    root: Name
    names: tuple[Name, ...]
    pages: tuple[Name, ...]
    tokens: tuple[Name, ...]

    def end(self, pages: int) -> Name:
        """The name of the prefix that ends with so many pages; the root's where there is none."""
        return self.pages[pages - 1] if pages else self.root


def path_of(names: Names, key: Key, page_size: int, *, row: bool = False) -> Path:
    """A key, named; for a request's ``row`` the slot of each token.

    The last token of a bigram key has no successor yet, so its slot holds a prefix of its own.
    """
    root = names.root(key.namespace)
    own = names.of(key.namespace, key.units)
    tokens = own
    if row and key.bigram and key.tokens:
        tokens = (*own, *names.extend(own[-1] if own else root, ((key.tokens[-1], -1),)))
    return Path(key, root, own, page_names(own, page_size), tokens)


@jointly(On.COMPONENT_ALLOC, On.REFUSED_COMPONENT_ALLOC)
@refusable(On.ALLOC, On.REFUSED_ALLOC)
class Alloc(NamedTuple, Generic[Amount_co]):
    """Allocate so much for the caller itself; answers slots, or the places of entries, or ``None`` when refused."""

    asked: Amount_co


class Extend(NamedTuple):
    """Slots for ``asked`` further tokens after those of ``row``; answers slots, or ``None``.  ``decode``: by the port for one token."""

    row: tuple[Slot, ...]
    asked: Tokens
    decode: bool = False


@refusable(On.EXTEND_BATCH, On.REFUSED_EXTEND)
class ExtendBatch(NamedTuple):
    """Slots for further tokens of several requests at once, each from ``before`` to ``after`` tokens; answers slots, or ``None``.

    ``last``: the slot of each request's last token, any where it has none.  ``decode``: by the port for one token.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    last: tuple[Slot, ...]
    decode: bool = False

    @property
    def asked(self) -> Tokens:
        """Slots for all of them."""
        return Tokens(sum(self.after) - sum(self.before))


@occasion(On.EXTEND_ONE)
class ExtendOne(NamedTuple):
    """No call of its own: what one request of a batch, which had ``before`` tokens, got; answers its slots."""

    before: int
    last: Slot


@jointly(On.COMPONENT_FREE)
@occasion(On.FREE)
class Free(NamedTuple, Generic[Given_co]):
    """Give slots back that the caller owns: whole pages."""

    slots: Given_co


@occasion(On.GROUP_OPEN)
class FreeInGroup(NamedTuple):
    """Give slots back in a group that is not at its end: nothing becomes available yet."""

    slots: tuple[Slot, ...]


@occasion(On.FREE, On.GROUP_END)
class EndGroup(NamedTuple):
    """The end of a group, in which these slots were given back; seen before it was opened."""

    slots: tuple[Slot, ...]


@occasion(On.GROUP_CLOSED)
class CloseGroup(NamedTuple):
    """The end of a group in which all sorts of calls were made, each a step of its own."""


@jointly(On.COMPONENT_RESET)
@occasion(On.RESET)
class Reset(NamedTuple):
    """Forget everything.  ``stored``: how many pages storage has, where there is one."""

    stored: int | None = None


class Flush(NamedTuple):
    """Forget what nobody protects; answers whether that was done."""


class Within(NamedTuple):
    """Where other components of the cache have a say, how long the longest prefix is that all of them have what they need for.

    That is ``certain``, and ``possible``.  ``told``: how long it is by the events before, where somebody listens.
    ``lacking``: of a longer hit, which components lack which ends for where it ends.
    """

    certain: Tokens
    possible: Tokens
    told: Tokens | None = None
    lacking: tuple[tuple[str, tuple[int, ...]], ...] = ()


@jointly(On.COMPONENT_MATCH)
@occasion(On.MATCH)
class Match(NamedTuple):
    """Ask for the longest cached prefix of a key that all components have what they need for; answers a :class:`Hit`, or one of components."""

    path: Path
    within: Within | None = None


@jointly(On.COMPONENT_INSERT)
@occasion(On.INSERT)
class Insert(NamedTuple, Generic[Given_co]):
    """Cache a key in these slots, of which the first ``protected`` are the tree's already; answers :class:`Stored`.

    Entries of components come by where they belong; of each those are answered that are left to the caller.
    """

    path: Path
    slots: Given_co
    protected: int = 0
    priority: int = 0
    chunked: bool = False


@jointly(On.COMPONENT_LOCK)
@occasion(On.LOCK)
class Lock(NamedTuple):
    """Protect what a match needs that ends ``at`` a prefix; the suite calls the receipt by a number.

    Components answer of each the ends of the entries that are covered.
    """

    at: Name
    receipt: int


@jointly(On.COMPONENT_UNLOCK)
@occasion(On.UNLOCK)
class Unlock(NamedTuple):
    """Give a receipt back."""

    receipt: int


@jointly(On.COMPONENT_EVICT)
@occasion(On.EVICT)
class Evict(NamedTuple, Generic[Amount_co]):
    """Make room for so much; answers how much was freed."""

    asked: Amount_co


@jointly(On.COMPONENT_START, On.REFUSED_COMPONENT_START)
@refusable(On.BEGIN, On.REFUSED_BEGIN)
class Begin(NamedTuple):
    """Begin a request; answers :class:`Begun`, or of components what it holds of each; ``None`` when refused.

    What isn't cached is computed at once, or, where slots are taken ``ahead``, later.  ``within``: as of :class:`Match`.
    ``chunk``: for so many units behind its hit there must be room, for all of them if ``None``.
    """

    rid: int
    path: Path
    ahead: bool = False
    within: Within | None = None
    chunk: int | None = None

    def at_once(self, length: int) -> int:
        """How many units are computed at once where the hit has this length."""
        whole = len(self.path.names)
        return whole if self.chunk is None else min(length + self.chunk, whole)


@jointly(On.COMPONENT_GROW, On.REFUSED_COMPONENT_GROW)
@refusable(On.GROW, On.REFUSED_GROW)
class Grow(NamedTuple):
    """Grow a request by so many further ``tokens``, to ``path`` where that is granted; answers the new slots, or ``None``.

    With components it goes on with the key that it began with, and what it holds of each then is answered.
    """

    rid: int
    tokens: Tokens
    path: Path | None = None


@occasion(On.TAKE_BACK)
class TakeBack(NamedTuple):
    """Take the last ``tokens`` of a request back, which leaves ``path``; answers how many slots came free."""

    rid: int
    tokens: Tokens
    path: Path


@refusable(On.FORK, On.REFUSED_FORK)
class Fork(NamedTuple):
    """Begin a request with all that the running request ``of`` has; answers :class:`Begun`, or ``None`` when refused."""

    rid: int
    of: int


class Retract(NamedTuple):
    """Copy a request to the host, and end it on the device; answers whether that was done."""

    rid: int


@refusable(On.RESUME, On.REFUSED_RESUME)
class Resume(NamedTuple):
    """Let a retracted request run again, whose ``path`` this is; answers :class:`Begun`, or ``None`` when refused."""

    rid: int
    path: Path


@occasion(On.DISCARD)
class Discard(NamedTuple):
    """Abort a retracted request."""

    rid: int


class Compute(NamedTuple):
    """The caller computes the next units of a request that took its slots ahead; the cache isn't told."""

    rid: int
    units: int


class Publish(NamedTuple):
    """Cache what a request has computed, up to a unit where that isn't all; answers :class:`Begun`."""

    rid: int
    upto: int | None = None
    chunked: bool = False


@jointly(On.COMPONENT_FINISH)
class End(NamedTuple):
    """Finish a request (``keep``), up to a unit where not all of it is computed; or abort it.

    Where the profile says that an aborted request is kept, its end is a finish.
    """

    rid: int
    keep: bool
    upto: int | None = None


EXTENSIONS = (Extend, ExtendBatch)
"""The calls for further tokens of requests that the cache knows nothing of."""

TAKING = (Alloc, *EXTENSIONS, Begin, Grow, Fork, Resume)
"""The calls that take memory of the device."""

LOOKUPS = (Match, Begin)
"""The calls that look for a key's longest cached prefix."""

LOOKING = (*LOOKUPS, Publish)
"""The calls in which a cache may look for what is cached: what a request has published may be looked up once more."""

INSERTS = (Insert, Publish, End)
"""The calls that insert: in them backups begin."""

IN_LIFE = (Insert, Publish)
"""Those of them after which the request, if there is one, goes on."""

OF_REQUESTS = (Publish, End)
"""Those of them that insert what a request has computed."""

GIVES_BACK = (Free, EndGroup)
"""The calls after which slots that the caller has given back are free."""


class Raised(NamedTuple):
    """The answer of a call that raised: what it raised, as text."""

    error: str


@occasion(On.AGAIN)
class PlayedAgain(NamedTuple):
    """No call: a whole schedule was played on a second, fresh cache, and these prefixes went at each eviction."""

    victims: Sequence[object]
    victims_again: Sequence[object]


@occasions_by_answer(Extend)
def extend_occasions(call: Extend, answer: object) -> tuple[On, ...]:
    """Slots for the further tokens of a row, by one port or the other, are granted or refused."""
    if answer is None:
        return (On.REFUSED_EXTEND,)
    return (On.ALLOC_DECODE,) if call.decode else (On.ALLOC_EXTEND,)


@occasions_by_answer(Flush)
def flush_occasions(_: Flush, answer: object) -> tuple[On, ...]:
    """What nobody protects is forgotten, or all is as it was."""
    return (On.FLUSH,) if answer else (On.REFUSED_FLUSH,)


@occasions_by_answer(Retract)
def retract_occasions(_: Retract, answer: object) -> tuple[On, ...]:
    """A request is on the host, or runs on."""
    return (On.RETRACT,) if answer else (On.REFUSED_RETRACT,)


@occasions_by_answer(Publish)
def publish_occasions(call: Publish, _: object) -> tuple[On, ...]:
    """All that a request has is published, or a part."""
    return (On.PUBLISH, On.PUBLISH_ALL) if call.upto is None else (On.PUBLISH, On.PUBLISH_UPTO)


@occasions_by_answer(End)
def end_occasions(call: End, _: object) -> tuple[On, ...]:
    """A request is aborted, or finished, all of it or a part."""
    if not call.keep:
        return (On.END, On.ABORT)
    return (On.END, On.FINISH) if call.upto is None else (On.END, On.FINISH, On.END_UPTO)
