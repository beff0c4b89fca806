"""Actions and effects: what each call may change, for which cause.  Everything else is unchanged.

An **effect** (:class:`What`) is one way in which a cache can be seen to change: a page leaves the device, a host copy
appears, a job begins.  Each changes one **group** of the state.  A **cause** (:class:`Cause`) is why it may happen.

:data:`ACTIONS` is the table: for each **occasion** the effects that it may have, each with its causes.  Granted, refused
and failed calls are occasions of their own, so they are rows of their own.  A cell that isn't there means *unchanged*.
A step that is several occasions may have what any of their rows allow.  Some occasions have no row: :data:`FACETS` come
always with another one, which has the row, and :data:`ELSEWHERE` are no calls on a cache that is looked at.

Rules attach to effects: ``rule(on=What.EVICT)`` is judged on every occasion whose row has that effect
(:func:`occasions_with`).  How much of an effect is allowed, and of which pages first, is said by these rules; the table
says that it may be there at all.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from kvlitmus.spec.law.on import On


class Group(enum.Enum):
    """A part of the state that changes by effects of its own."""

    DEVICE = "device tree"
    POOL = "device free list"
    NODES = "nodes"
    USES = "uses"
    LOCKS = "locks"
    HOST = "host copies"
    HOST_POOL = "host free list"
    PINS = "pins"
    JOBS = "jobs"
    STORAGE = "storage"
    EVENTS = "events"


class Meant(enum.Enum):
    """Words, each with its ``meaning``."""

    meaning: str

    def __new__(cls, word: str, meaning: str, *_: object) -> Self:
        """A word."""
        made = object.__new__(cls)
        made._value_, made.meaning = word, meaning
        return made


class What(Meant):
    """An effect: one way in which a cache can be seen to change; with the ``group`` that it changes."""

    def __init__(self, word: str, meaning: str, group: Group) -> None:
        self.group = group

    PLACE = "place", "a page that was on no tier is cached on the device", Group.DEVICE
    RESTORE = "restore", "a page that was on the host alone is on the device too", Group.DEVICE
    EVICT = "evict", "a page leaves the device and has no host copy", Group.DEVICE
    DEMOTE = "demote", "a page leaves the device and has, or had, a host copy", Group.DEVICE
    MOVE = "move", "a cached page is in another page of the device", Group.DEVICE
    TAKE = "take", "a page leaves the free list of the device", Group.POOL
    RELEASE = "release", "a page comes to the free list of the device", Group.POOL
    SPLIT = "split", "a node ends where none did", Group.NODES
    USE = "use", "a page was used now", Group.USES
    COUNT = "count", "a page has a hit more", Group.USES
    RAISE = "raise", "a page has a higher priority", Group.USES
    LOCK = "lock", "a path is protected once more", Group.LOCKS
    UNLOCK = "unlock", "a path is protected once less", Group.LOCKS
    BACK = "back", "a page has a host copy that had none", Group.HOST
    DROP = "drop", "a page has no host copy any more", Group.HOST
    MOVE_COPY = "move copy", "a host copy is in another page of the host", Group.HOST
    HOST_TAKE = "host take", "a page leaves the free list of the host", Group.HOST_POOL
    HOST_RELEASE = "host release", "a page comes to the free list of the host", Group.HOST_POOL
    PIN = "pin", "a host copy is protected once more", Group.PINS
    UNPIN = "unpin", "a host copy is protected once less", Group.PINS
    BEGIN_JOB = "begin job", "a job is listed that was not", Group.JOBS
    GO_ON = "go on", "a job that stays listed shows progress, or its end", Group.JOBS
    END_JOB = "end job", "a job is listed no more", Group.JOBS
    ASK = "ask", "storage is asked what it has", Group.STORAGE
    READ = "read", "a page is read from storage", Group.STORAGE
    PUT = "put", "a page is written to storage", Group.STORAGE
    TELL = "tell", "an event is told", Group.EVENTS

    __hash__ = object.__hash__  # that of enums is a Python function, and the table is read at every step


class Cause(Meant):
    """Why an effect may happen."""

    ASKED = "asked", "the caller asks for it"
    GIVEN = "given back", "the caller gives it back"
    KEY = "key", "it is of the key of the call"
    WANTED = "wanted", "it is for what is handed out, placed or read"
    NEED = "need", "memory is short for what is wanted"
    HANDED_OUT = "handed out", "it was found on the free list of a block table, and its page is handed out"
    DUPLICATE = "duplicate", "it was brought for what is cached already"
    OVER = "over", "the request or the prefetch is over"
    POLICY = "policy", "the write policy makes it due"
    SPILL = "spill", "under write-back what leaves the device is copied first"
    OUTSTANDING = "outstanding", "storage doesn't have it yet"
    COPYING = "copying", "a job reads from it or writes to it"
    LANDED = "landed", "a job has reached its end, and that is noted"
    FAILED = "failed", "a copy failed"
    FOUND = "found", "storage has told how much it has"
    COMMIT = "commit", "storage has given it"
    MISFIT = "misfit", "it can't be attached where it belongs"
    QUEUE = "queue", "it waited in the release queue"
    NOBODY = "nobody", "nobody waits for it any more"
    DETACHED = "detached", "storage is gone"
    RESET = "reset", "everything is forgotten"
    AGE = "age", "it wasn't used for so long that the cache lets it go"
    CHANGED = "changed", "what it tells of has changed"

    __hash__ = object.__hash__  # as above


class Because(NamedTuple):
    """A cause of an effect; where ``field`` is given, only in caches whose profile has this ``value`` there."""

    cause: Cause
    field: str = ""
    value: object = None


Row = Mapping[What, tuple[Because, ...]]
"""The effects that an occasion may have, each with its causes."""


def row(cause: Cause, *whats: What, **where: object) -> Row:
    """Effects of one cause; ``where``: the profile field and its value to which that is limited, if it is."""
    field, value = next(iter(where.items()), ("", None))
    return {what: (Because(cause, field, value),) for what in whats}


def limited(effects: Row, field: str, value: object) -> Row:
    """These effects where the profile has this value in a field, and nowhere else."""
    return {what: tuple(Because(one.cause, field, value) for one in causes) for what, causes in effects.items()}


def joined(*rows: Row) -> Row:
    """The effects of several rows, each with the causes of all of them."""
    found: dict[What, tuple[Because, ...]] = {}
    for row in rows:
        for what, causes in row.items():
            found[what] = tuple(dict.fromkeys((*found.get(what, ()), *causes)))
    return found


TOLD: Row = row(Cause.CHANGED, What.TELL)
"""Whatever changes on a tier may be told."""

HOST_ROOM: Row = joined(row(Cause.NEED, What.DROP, What.HOST_RELEASE, What.SPLIT), TOLD)
"""Making room on the host."""

SPILLS: Row = joined(
    HOST_ROOM,
    row(Cause.SPILL, What.BACK, What.MOVE_COPY, What.HOST_TAKE),
    row(Cause.OUTSTANDING, What.BEGIN_JOB),
    row(Cause.COPYING, What.PIN),
)
"""What an eviction of the device does below it: under write-back its victims are copied, and room is made for them."""


def room(cause: Cause) -> Row:
    """Making room on the device."""
    return joined(row(cause, What.EVICT, What.DEMOTE, What.RELEASE, What.SPLIT), SPILLS)


ROOM = room(Cause.NEED)
ROOM_IN_ALLOC = limited(ROOM, "evict_moment", "alloc")

WALK: Row = joined(row(Cause.KEY, What.USE, What.SPLIT), row(Cause.KEY, What.COUNT, hit_counts="match"))
"""Looking a key up."""

AGES: Row = row(Cause.AGE, What.EVICT, What.RELEASE, expiry="lookup")
"""What is old goes."""

LOOKS: Row = joined(WALK, AGES)
"""Looking a key up, where what is old may go before."""

RECLAIMS: Row = row(Cause.QUEUE, What.RELEASE, release_moment="taken")
"""Whoever takes memory collects first what was given back."""

GRANTS: Row = joined(row(Cause.WANTED, What.TAKE), row(Cause.HANDED_OUT, What.EVICT, publish="at_alloc"))
"""Memory is handed out; in a block table, what was found in it is found there no more."""

ENTERS: Row = row(Cause.KEY, What.PLACE, publish="at_alloc")
"""In a block table, full pages of a request are found from the moment in which they are handed out."""

BACKS: Row = row(Cause.POLICY, What.BACK, What.HOST_TAKE, What.BEGIN_JOB)
"""What is due is backed up."""

INSERTS: Row = joined(
    HOST_ROOM,
    BACKS,
    row(Cause.KEY, What.PLACE, What.RESTORE, What.USE, What.RAISE, What.SPLIT),
    row(Cause.DUPLICATE, What.RELEASE),
    row(Cause.KEY, What.COUNT, hit_counts="insert"),
    row(Cause.COPYING, What.LOCK, What.PIN),
    row(Cause.OUTSTANDING, What.BEGIN_JOB),
)
"""Caching a key: what is missing is placed, what was used often enough is backed up."""

RETURNS: Row = row(Cause.NOBODY, What.HOST_RELEASE, What.UNPIN, What.END_JOB)
"""A prefetch that nobody waits for any more returns what it held."""

COMMITS: Row = joined(
    TOLD,
    row(Cause.COMMIT, What.BACK),
    row(Cause.DUPLICATE, What.HOST_RELEASE),
    row(Cause.MISFIT, What.HOST_RELEASE),
    row(Cause.OVER, What.HOST_RELEASE, What.UNPIN, What.END_JOB),
    row(Cause.KEY, What.USE, What.SPLIT),
)
"""What a prefetch has read is cached on the host."""

RESERVES: Row = joined(
    HOST_ROOM, row(Cause.WANTED, What.HOST_TAKE), row(Cause.COPYING, What.PIN), row(Cause.FOUND, What.UNPIN)
)
"""Memory for what is to be read."""

LET_FINISH: Row = row(Cause.COPYING, What.ASK, What.READ, What.PUT)
"""What threads are doing with storage is let finish before it is gone."""

ACTIONS: Mapping[On, Row] = {
    On.ALLOC: joined(GRANTS, RECLAIMS, ROOM_IN_ALLOC),
    On.REFUSED_ALLOC: joined(RECLAIMS, ROOM_IN_ALLOC),
    On.ALLOC_EXTEND: joined(GRANTS, RECLAIMS, ROOM_IN_ALLOC),
    On.ALLOC_DECODE: joined(GRANTS, RECLAIMS, ROOM_IN_ALLOC),
    On.EXTEND_BATCH: joined(GRANTS, RECLAIMS, ROOM_IN_ALLOC),
    On.REFUSED_EXTEND: joined(RECLAIMS, ROOM_IN_ALLOC),
    On.FREE: row(Cause.GIVEN, What.RELEASE),
    On.GROUP_OPEN: {},
    On.GROUP_CLOSED: row(Cause.GIVEN, What.RELEASE),
    On.RESET: joined(
        TOLD,
        LET_FINISH,
        row(
            Cause.RESET,
            What.EVICT,
            What.DEMOTE,
            What.RELEASE,
            What.UNLOCK,
            What.DROP,
            What.HOST_RELEASE,
            What.UNPIN,
            What.END_JOB,
        ),
    ),
    On.FLUSH: row(Cause.RESET, What.EVICT, What.RELEASE),
    On.REFUSED_FLUSH: {},
    On.MATCH: LOOKS,
    On.INSERT: INSERTS,
    On.LOCK: joined(
        row(Cause.ASKED, What.LOCK), row(Cause.KEY, What.USE, lock_touches=True), row(Cause.KEY, What.SPLIT)
    ),
    On.UNLOCK: row(Cause.GIVEN, What.UNLOCK),
    On.EVICT: room(Cause.ASKED),
    On.BEGIN: joined(LOOKS, GRANTS, RECLAIMS, ENTERS, ROOM, row(Cause.ASKED, What.LOCK)),
    On.REFUSED_BEGIN: joined(LOOKS, RECLAIMS, ROOM),
    On.GROW: joined(GRANTS, RECLAIMS, ENTERS, ROOM),
    On.REFUSED_GROW: joined(RECLAIMS, ROOM),
    On.TAKE_BACK: row(Cause.GIVEN, What.RELEASE),
    On.FORK: joined(
        GRANTS, RECLAIMS, ENTERS, ROOM, row(Cause.ASKED, What.LOCK), row(Cause.KEY, What.USE, lock_touches=True)
    ),
    On.REFUSED_FORK: joined(RECLAIMS, ROOM),
    On.RETRACT: row(Cause.OVER, What.RELEASE, What.UNLOCK),
    On.REFUSED_RETRACT: {},
    On.RESUME: joined(LOOKS, GRANTS, RECLAIMS, ENTERS, ROOM, row(Cause.ASKED, What.LOCK)),
    On.REFUSED_RESUME: joined(LOOKS, RECLAIMS, ROOM),
    On.DISCARD: {},
    On.PUBLISH: joined(INSERTS, AGES, row(Cause.ASKED, What.LOCK), row(Cause.GIVEN, What.UNLOCK)),
    On.END: row(Cause.OVER, What.RELEASE, What.UNLOCK),
    On.FINISH: INSERTS,
    On.EVICT_HOST: joined(row(Cause.ASKED, What.DROP, What.HOST_RELEASE, What.SPLIT), TOLD),
    On.LOAD_BACK: joined(
        WALK, ROOM, row(Cause.WANTED, What.RESTORE, What.TAKE, What.BEGIN_JOB), row(Cause.COPYING, What.LOCK, What.PIN)
    ),
    On.REFUSED_LOAD_BACK: joined(WALK, ROOM),
    On.COPIED: row(Cause.ASKED, What.GO_ON),
    On.FAILED_COPY: row(Cause.FAILED, What.GO_ON),
    On.QUERY: joined(
        row(Cause.ASKED, What.ASK, What.GO_ON),
        row(Cause.FOUND, What.END_JOB, What.BEGIN_JOB, What.HOST_RELEASE, What.UNPIN),
    ),
    On.FETCH: joined(
        row(Cause.ASKED, What.READ, What.GO_ON), row(Cause.LANDED, What.END_JOB), row(Cause.FOUND, What.HOST_RELEASE)
    ),
    On.PUT: joined(row(Cause.ASKED, What.PUT, What.GO_ON), row(Cause.LANDED, What.END_JOB, What.UNPIN)),
    On.ZOMBIE: joined(RETURNS, row(Cause.ASKED, What.ASK, What.READ, What.GO_ON), row(Cause.FOUND, What.BEGIN_JOB)),
    On.TICK: joined(
        TOLD,
        row(Cause.LANDED, What.END_JOB, What.UNLOCK, What.UNPIN),
        row(Cause.NOBODY, What.END_JOB, What.GO_ON),
        row(Cause.OUTSTANDING, What.BEGIN_JOB),
        row(Cause.FAILED, What.BEGIN_JOB, What.HOST_RELEASE, What.DROP, What.DEMOTE, What.RELEASE, What.SPLIT),
        row(Cause.COPYING, What.LOCK, What.PIN),
        row(Cause.FOUND, What.UNPIN),
        row(Cause.QUEUE, What.HOST_RELEASE),
        limited(joined(RESERVES, row(Cause.FOUND, What.BEGIN_JOB)), "reserve", "hit"),
        limited(joined(HOST_ROOM, BACKS, row(Cause.POLICY, What.MOVE_COPY)), "backup_moment", "tick"),
        row(Cause.COMMIT, What.MOVE_COPY, commit="tick"),  # what went to make room comes again with a commit
    ),
    On.COMMIT: COMMITS,
    On.DETACHED: RETURNS,
    On.ATTACH: {},
    On.DETACH: joined(LET_FINISH, row(Cause.DETACHED, What.END_JOB, What.GO_ON, What.HOST_RELEASE, What.UNPIN)),
    On.SETTLED: {},
    On.PREFETCH: joined(WALK, RESERVES, row(Cause.ASKED, What.BEGIN_JOB)),
    On.REFUSED_PREFETCH: joined(WALK, HOST_ROOM),
    On.POLL: COMMITS,
    On.LOADED: {},
    On.ABANDON: joined(RETURNS, row(Cause.NOBODY, What.GO_ON)),
    On.FAULT: {},
    On.OUT_OF_MEMORY: joined(WALK, ROOM),
    On.CLOCK: {},
}
"""The table: for each occasion the effects that it may have, each with its causes."""

FACETS: Mapping[On, tuple[On, ...]] = {
    On.GROUP_END: (On.FREE,),
    On.PUBLISH_ALL: (On.PUBLISH,),
    On.PUBLISH_UPTO: (On.PUBLISH,),
    On.ABORT: (On.END,),
    On.END_UPTO: (On.FINISH,),
    On.LIMITED_LOAD_BACK: (On.LOAD_BACK,),
    On.LAYERED: (On.COPIED, On.FAILED_COPY),
    On.PREFETCH_TICK: (On.TICK,),
    On.QUIET_TICK: (On.TICK,),
    On.GATED_PREFETCH: (On.REFUSED_PREFETCH,),
}
"""Occasions that always come with another one (with one of these), whose row is theirs."""

_PURE = "it is worked out from its arguments, and no cache is there"
_STORE = "it is a call on a page store of its own, and no cache is there"
_SPARSE = "it is a call on a sparse host pool of its own, and no cache is there"
_COMPONENTS = (
    "it is a call on a cache of components, whose frame is COMP-15, COMP-16 and, pool by pool, FRAME-01 and FRAME-02"
)
_RANKS = "it is a call on ranks, which are looked at by rules of their own, and no cache is there"
_MISUSE = "the contract is broken, and nothing is expected but what the pack `misuse` says"
_EVERY = "it is said of every call of a kind of cache or trace beside what the call is"


def calls_on(kind: str) -> tuple[On, ...]:
    """The occasions of one kind of cache: its calls, granted and refused, whose names begin with the kind's."""
    return tuple([one for one in On if one.removeprefix("refused_").startswith(f"{kind}_")])


ELSEWHERE: Mapping[On, str] = {
    On.EXTEND_ONE: "it is one request's part of a batch, which is looked at as a whole",
    On.AGAIN: "it compares two runs",
    On.IN_GROUP: _EVERY,
    On.FLAT_CALL: _EVERY,
    **dict.fromkeys(calls_on("ranks"), _RANKS),
    **dict.fromkeys(calls_on("sparse"), _SPARSE),
    **dict.fromkeys(calls_on("component"), _COMPONENTS),
    On.RAISED: "it says of a call without a cache that it raised",
    On.BATCH: "nobody is called: somebody listens",
    **dict.fromkeys(
        (
            On.PAGE_HASHES,
            On.HASH_REFUSAL,
            On.HASH_PIECES,
            On.HASH_PAIR,
            On.HASH_NAMESPACES,
            On.HASHED,
            On.PLAN_PREFETCH,
        ),
        _PURE,
    ),
    **dict.fromkeys(
        (
            On.STORE_EXISTS,
            On.STORE_GET,
            On.STORE_LOOKUP,
            On.STORE_PUT,
            On.STORE_GET_INTO,
            On.STORE_CLEAR,
            On.STORE_CRASH,
            On.STORE_RACE,
        ),
        _STORE,
    ),
    **dict.fromkeys(
        (
            On.MISUSE,
            On.DOUBLE_FREE,
            On.REPEATED_FREE,
            On.PARTIAL_FREE,
            On.STALE_UNLOCK,
            On.SCRIBBLE,
            On.ODD_ALLOC,
            On.FORBIDDEN,
            On.OTHER_WIDTH,
            On.BEYOND,
        ),
        _MISUSE,
    ),
}
"""Occasions that are no calls on a cache that is looked at, each with the reason."""


def occasions_with(what: What) -> tuple[On, ...]:
    """The occasions that may have this effect, in the order of the table; not those where age alone may be its cause.

    What is let go because it is old goes in no order and in any amount, so no law of an effect says anything of it.
    """
    return tuple(on for on, row in ACTIONS.items() if any(one.cause is not Cause.AGE for one in row.get(what, ())))


def occasions_of_rule(on: On | What | Iterable[On | What]) -> tuple[On, ...]:
    """The occasions that a rule names: these, and those that may have an effect that it names; each once."""
    named = (on,) if isinstance(on, On | What) else tuple(on)
    found: dict[On, None] = {}
    for one in named:
        found |= dict.fromkeys(occasions_with(one) if isinstance(one, What) else (one,))
    return tuple(found)
