"""Transcripts: the calls of a play, written down as the simplest operations that make them.

A litmus test makes its calls itself, so nothing of it can be dropped; an operation such as ``deliver`` makes many calls
of which a counterexample may need one.  As operations one by one, both can be shrunk like any other schedule.

A transcript need not say quite the same: keys are as like what was asked for as three numbers can say, and calls that
no operation makes are left out.  Whether it breaks a rule is found out by playing it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.generate.actions.prefix.tier import (
    AGAIN,
    ANEW,
    FAULTY,
    LIMITED,
    MAX_WAITING,
    STARTING,
    STEERED,
)
from kvlitmus.conformance.generate.caller import PAST
from kvlitmus.conformance.generate.schedule import HIGHEST, NAMESPACES, Op, fitted, make_key
from kvlitmus.spec.interface.tiers import BACKUP, LOAD, QUERY, SPILL, SPILLED, Outcome
from kvlitmus.spec.prefix.calls import Begin, Compute
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.units import Key

COMPOSITE = frozenset({"call_back", "deliver", "fail", "flush"})
"""Operations of a schedule that are worth writing down call by call."""

WHOLE_KEY = 255
"""A key that was computed before is wanted again as it was."""

LONGER = range(32, 96)
"""One with more behind it."""

ALONE = 255
"""A publication by itself; a job that goes on to its end; a copy that fails and nobody gives up for it."""

LEAPS = (60.0, 2.0, 1.0, 0.25)
"""How far an operation moves the clock, and at which place of :func:`~.actions.prefix.tier.clock` each leap stands."""

NAMED = tuple(at for at, one in enumerate(NAMESPACES) if one is not None)
"""The numbers of the namespaces that have a name."""

LOAN = 4
"""The most pages of a loan."""

SPOILT = 24
"""So many pages of storage are tried in the place of the one that was lost: its name is another one now."""


class Transcript:
    """A program that plays another one, and writes down what it calls.

    ``at``: which operation of that program is being played, where it has any.
    """

    def __init__(self, program: Callable[[Checker], None], at: Callable[[], int] = lambda: 0) -> None:
        self.program = program
        self.at = at
        self.written: list[tuple[int, Op]] = []

    def __call__(self, checker: Checker) -> None:
        """Play it, with a scribe who is told of each call."""
        self.written.clear()
        Scribe(checker, self.write, self.written).listen()
        self.program(checker)

    def write(self, op: Op) -> None:
        """One more operation."""
        self.written.append((self.at(), op))

    def variants(self) -> Iterator[tuple[Op, ...]]:
        """All that was written; where storage lost pages, with one page after the other in their place."""
        ops = [op for _, op in self.written]
        yield tuple(ops)
        if any(op.kind == "spoil" for op in ops):
            for a in range(SPOILT):
                yield tuple(op._replace(a=a) if op.kind == "spoil" else op for op in ops)

    def spelt_out(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """A schedule that was played, with single calls for what is composite, and for what ended it."""
        written: dict[int, list[Op]] = {}
        for at, op in self.written:
            written.setdefault(at, []).append(op)
        spelt = [one for at, op in enumerate(ops) for one in (written.get(at, []) if op.kind in COMPOSITE else [op])]
        return (*spelt, *written.get(len(ops), []))


class Keys:
    """The three numbers for a key: the very same key, or one that shares as many pages with the others."""

    def __init__(self, checker: Checker) -> None:
        self.config = checker.config
        self.profile = checker.profile
        self.most = max(1, min(8, checker.config.pages // 4))
        self.ways: dict[Key, tuple[int, int]] = {}
        self.made: dict[Key, Key] = {}
        self.spaces: dict[str, int] = {}

    def spell(self, key: Key, among: range = range(256)) -> tuple[int, int, int]:
        """The numbers; the second of them, which says how long it is, is one of these."""
        b = min(among, key=lambda b: (*self.misfit(b, key), b))
        if key not in self.ways:
            self.ways[key] = self.way(key, b)
            self.made[key] = self.make(*self.ways[key], b)
        a, c = self.ways[key]
        return a, b, c

    def misfit(self, b: int, key: Key) -> tuple[int, bool]:
        """How many pages a key of this number has more or less than a key, and whether another tail."""
        size = self.config.page_size
        pages = b % (self.most + 1) - min(key.length // size, self.most)
        return 2 * abs(pages) - (pages > 0), (b // 9) % size != key.length % size

    def make(self, a: int, c: int, b: int) -> Key:
        """The key that these numbers stand for."""
        return fitted(self.profile, make_key(self.config, a, b, c))

    def way(self, key: Key, b: int) -> tuple[int, int]:
        """Which way each page goes, and the namespace: one of the others, where there are too few keys without any."""
        own = self.space(key.namespace)
        spaces = (own, *NAMED) if key.namespace is None else (own,)
        ends = range(0, 256, 64) if key.bigram else (0,)
        ways = [(a, space | odd | end) for space in spaces for end in ends for odd in (0, 8) for a in range(256)]

        def unlike(way: tuple[int, int]) -> int:
            made = self.make(*way, b)
            if made == key:
                return -1
            return sum(abs(self.shared(key, one) - self.shared(made, self.made[one])) for one in self.made)

        return min(ways, key=unlike)

    def space(self, namespace: str | None) -> int:
        """The number of a namespace."""
        if namespace in NAMESPACES:
            return NAMESPACES.index(namespace)
        assert namespace is not None
        return self.spaces.setdefault(namespace, NAMED[len(self.spaces) % len(NAMED)])

    def shared(self, one: Key, other: Key) -> int:
        """How many pages two keys share."""
        if one.namespace != other.namespace:
            return 0
        same = 0
        for mine, theirs in zip(one.tokens, other.tokens, strict=False):
            if mine != theirs:
                break
            same += 1
        return same // self.config.page_size


class Scribe:
    """Is told of each call before it is made, and writes operations that make it.

    Remembers what a :class:`~kvlitmus.conformance.generate.caller.Caller` of these operations will have by then.
    """

    def __init__(self, checker: Checker, write: Callable[[Op], None], written: list[tuple[int, Op]]) -> None:
        self.checker = checker
        self.write = write
        self.written = written
        self.keys = Keys(checker)
        self.past: list[Key] = []
        self.waits: dict[int, None] = {}
        self.waited: list[int] = []
        self.starving: int | None = None
        self.grouped = self.detached = False
        self.told: int | None = None
        self.borrowed: dict[int, range] = {}

    def listen(self) -> None:
        """Be told of what the checker is asked to do from now on."""
        checker = self.checker
        call, step, compute = checker.call, checker.step, checker.compute

        def called(text: str, method: str, *args: Any, **kwargs: Any) -> Any:
            note = getattr(self, f"note_{method}", None)
            if note is not None:
                note(*args, **kwargs)
            answer = call(text, method, *args, **kwargs)
            after = getattr(self, f"after_{method}", None)
            if after is not None:
                after(answer, *args)
            return answer

        def stepped(given: Any, answer: Any) -> None:
            if type(given) is Begin and given.ahead and self.last == "begin":
                self.change(self.written[-1][1]._replace(kind="begin_ahead"))
            step(given, answer)

        def computed(given: Compute) -> None:
            waiting = [rid for rid, one in checker.requests.items() if one.upto is not None]
            if given.rid in waiting:
                self.write(Op("compute", min(255, given.units - 1), 0, waiting.index(given.rid)))
            compute(given)

        for name, listening in (("call", called), ("step", stepped), ("compute", computed)):
            setattr(checker, name, listening)
        if checker.store is not None:
            for name, c in (("lose", 0), ("shorten", 255)):
                setattr(checker.store, name, self.spoiling(checker.store, getattr(checker.store, name), c))

    def spoiling(self, store: HarnessStore, do: Callable[[str], None], c: int) -> Callable[[str], None]:
        """Storage that loses a page or cuts it short, and says so."""

        def spoil(name: str) -> None:
            names = sorted(store.contents)
            seeds = range(1 << 16) if name in names else range(1)
            seed = next((one for one in seeds if random.Random(one).choice(names or [""]) == name), 0)
            self.write(Op("spoil", seed >> 8, seed & 255, c))
            do(name)

        return spoil

    @property
    def last(self) -> str:
        """The kind of the last operation."""
        return self.written[-1][1].kind if self.written else ""

    def change(self, op: Op) -> None:
        """Another operation in the place of the last one."""
        self.written[-1] = (self.written[-1][0], op)

    def running(self, rid: int) -> int:
        """Which of the running requests it is."""
        return list(self.checker.requests).index(rid) if rid in self.checker.requests else 0

    def was_computed(self, rid: int) -> None:
        """As :meth:`~kvlitmus.conformance.generate.caller.Caller.computed` remembers it."""
        running = self.checker.requests.get(rid)
        if running is not None and running.path.key.tokens and self.past[-1:] != [running.path.key]:
            self.past.append(running.path.key)
            del self.past[:-PAST]

    def again(self, key: Key) -> tuple[int, int, int]:
        """A key that is wanted back: one that was computed, whole or cut, or else anew, or one with more behind it."""
        most = 2 * self.checker.size
        past = [(at, one, len(key.tokens) - len(one.tokens)) for at, one in enumerate(self.past)]
        past = [one for one in reversed(past) if one[1].namespace == key.namespace and -most <= one[2] <= most]
        for at, known, more in past:
            if more <= 0 and known.tokens[: len(key.tokens)] == key.tokens:
                return at, ANEW, WHOLE_KEY if not more else -more - 1
        anew, found = range(STEERED | 1, ANEW, 2), range(1, STEERED, 2)
        among = min(anew, found, key=lambda among: min(self.keys.misfit(b, key) for b in among))
        a, b, c = self.keys.spell(key, among)
        if self.keys.make(a, c, b) != key:
            for at, known, more in past:
                if more > 0 and key.tokens[: len(known.tokens)] == known.tokens:
                    return at, ANEW, next(c for c in LONGER if c % most == more - 1)
        return a, b, c

    # -- requests ------------------------------------------------------------------------------

    def note_begin(self, rid: int, key: Key) -> None:
        """``begin``; where memory runs out, ``starve``."""
        if self.starving is None:
            self.write(Op("begin", *self.keys.spell(key)))
            self.borrow(rid, key.length // self.checker.size - self.keys.most)
            return
        a, b, c = self.keys.spell(key, range(STARTING))
        alike = [one for one in range(256) if self.keys.make(one, c, b) == self.keys.make(a, c, b)]
        self.write(Op("starve", next((one for one in alike if one % 3 == self.starving % 3), a), b, c))

    def borrow(self, rid: int, pages: int) -> None:
        """What a request has beyond the longest key that numbers can say is the caller's own."""
        self.borrowed[rid] = range(0, pages, LOAN)
        for at in self.borrowed[rid]:
            self.write(Op("alloc", min(LOAN, pages - at) - 1))

    def note_grow(self, rid: int, tokens: Sequence[int]) -> None:
        """``grow``, as often as it takes."""
        most = self.checker.size + 2
        for at in range(0, len(tokens), most):
            part = tokens[at : at + most]
            a = sum(((token - 1) & 1) << bit for bit, token in enumerate(part[:8]))
            self.write(Op("grow", a, len(part) - 1, self.running(rid)))

    def note_take_back(self, rid: int, n: int) -> None:
        """``take_back``, as often as it takes."""
        for at in range(0, n, HIGHEST + 1):
            self.write(Op("take_back", min(n - at, HIGHEST + 1) - 1, ALONE, self.running(rid)))

    def note_fork(self, rid: int, of: int) -> None:
        """``fork``, of what is published already."""
        self.write(Op("fork", 0, 0, self.running(of)))

    def note_retract(self, rid: int) -> None:
        """``save``."""
        self.write(Op("save", 0, 0, self.running(rid)))

    def note_resume(self, rid: int) -> None:
        """``bring_back``."""
        self.write(Op("bring_back", 0, 0, list(self.checker.state.retracted.requests).index(rid)))

    def note_discard(self, rid: int) -> None:
        """``bring_back`` of one that is aborted instead."""
        self.write(Op("bring_back", 0, ALONE, list(self.checker.state.retracted.requests).index(rid)))

    def note_publish(self, rid: int, *, chunked: bool) -> None:
        """``publish``."""
        if self.starving is not None:
            self.write(Op("starve", self.starving, STARTING | 1, self.running(rid)))
            return
        self.was_computed(rid)
        self.write(Op("publish", int(chunked), 0 if self.grouped else ALONE, self.running(rid)))

    def note_publish_upto(self, rid: int, upto: int, *, chunked: bool) -> None:
        """The same of what is computed."""
        self.note_publish(rid, chunked=chunked)

    def note_end(self, rid: int, *, keep: bool) -> None:
        """``finish`` or ``abort``."""
        if self.starving is not None and keep:
            self.write(Op("starve", self.starving, (STARTING | 1) + 1, self.running(rid)))
            return
        if keep:
            self.was_computed(rid)
        self.write(Op("finish" if keep else "abort", 0, 0, self.running(rid)))
        for _ in self.borrowed.pop(rid, ()):
            self.write(Op("free", 0, 1))

    def note_end_upto(self, rid: int, upto: int) -> None:
        """``finish`` of what is computed."""
        self.note_end(rid, keep=True)

    def note_fail_memory(self, after: int | None) -> None:
        """The next call on a request is to be starved."""
        self.starving = after

    def note_free_group_begin(self) -> None:
        """What is published now is published within a group."""
        self.grouped = True

    def note_free_group_end(self) -> None:
        """And no more."""
        self.grouped = False

    # -- the tree and the pool -----------------------------------------------------------------

    def note_match(self, key: Key) -> None:
        """``match``."""
        self.write(Op("match", *self.keys.spell(key)))

    def note_lock(self, handle: object) -> None:
        """``lock``, which matches, too."""
        if self.last == "match":
            self.change(self.written[-1][1]._replace(kind="lock"))

    def note_unlock(self, token: object) -> None:
        """``unlock``."""
        checker = self.checker
        self.write(Op("unlock", next((at for at, one in enumerate(checker.receipts) if one not in checker.tokens), 0)))

    def note_insert(self, key: Key, slots: Sequence[int], *, protected: int, chunked: bool, **_: Any) -> None:
        """``insert``, which allocates what it inserts."""
        if self.last == "alloc":
            self.written.pop()
        a, b, c = self.keys.spell(key)
        self.write(Op("insert", a, b, c | (16 if protected else 0) | (32 if chunked else 0)))

    def note_evict(self, n: int) -> None:
        """``evict``."""
        self.write(Op("evict", self.amount(n)))

    def amount(self, n: int) -> int:
        """The number that stands for so many slots to evict; for more than a few pages, all."""
        return n - 1 if 0 < n <= 4 * self.checker.size else 224

    def note_alloc(self, n: int) -> None:
        """``alloc``, as often as it takes."""
        pages = -(-n // self.checker.size)
        for at in range(0, pages, LOAN):
            self.write(Op("alloc", min(LOAN, pages - at) - 1))

    def note_free(self, slots: Sequence[int]) -> None:
        """``free``; duplicates are freed by ``insert`` when it is played."""
        if self.last != "insert":
            self.write(Op("free", 0, 1))

    def note_flush(self) -> None:
        """``flush_all``."""
        self.write(Op("flush_all"))

    def note_reset(self) -> None:
        """``reset``."""
        self.waits.clear()
        self.write(Op("reset"))

    # -- tiers ---------------------------------------------------------------------------------

    def note_evict_host(self, n: int) -> None:
        """``evict_host``."""
        self.write(Op("evict_host", self.amount(n)))

    def note_load_back(self, key: Key) -> None:
        """``load_back``."""
        self.write(Op("load_back", *self.again(key)))

    def note_load_back_within(self, key: Key, quota: int) -> None:
        """The same within a quota: of a key that was computed before."""
        a, b, c = self.again(key)
        if b == ANEW:
            a = next(one for one in range(LIMITED, 256) if one % len(self.past) == a)
            c = WHOLE_KEY - 7 + min(7, quota // self.checker.size)
        self.write(Op("load_back", a, b, c))

    def note_advance(self, number: int, outcome: Outcome) -> None:
        """``advance``, or ``fail`` for a copy that fails."""
        ready = {one: job for one, job in tiers.seen(self.checker).jobs.items() if job.ready and not job.landed}
        if number not in ready:
            return
        kind = ready[number].kind
        if kind in COPIES and outcome.how == "fail":
            copies = [one for one, job in ready.items() if job.kind in COPIES]
            self.write(Op("fail", copies.index(number), ALONE))
            return
        b, c = self.outcome(kind, outcome)
        self.write(Op("advance", list(ready).index(number), b, c))

    def outcome(self, kind: str, outcome: Outcome) -> tuple[int, int]:
        """The numbers for how a job goes on (:func:`~.actions.prefix.tier.outcome`)."""
        if outcome.how == "part":
            return 0, max(0, outcome.pages - 1) % (2 if kind == LOAD else 3)
        if outcome.how == "done" or kind == BACKUP:
            return ALONE, 0
        faults = range(128 if kind == QUERY else 128 - FAULTY, 128 + FAULTY)
        return next(b for b in faults if (b % 3 == 0) == (outcome.how == "fail")), outcome.pages % 4

    def note_tick(self) -> None:
        """``tick``, but for the one that detaching brings about."""
        if not self.detached:
            self.write(Op("tick"))
        self.detached = False

    def note_attach(self, store: object) -> None:
        """``attach``, or ``exchange`` for another storage."""
        number = next((one for one, known in self.checker.stores.items() if known is store), 0)
        if self.checker.store is store:
            self.write(Op("attach"))
            return
        if self.last == "detach":
            self.written.pop()
        self.write(Op("exchange", number))

    def note_detach(self) -> None:
        """``detach``."""
        self.write(Op("detach"))

    def after_detach(self, answer: object) -> None:
        """A tick follows if that was done."""
        self.detached = answer is True

    def note_fail_host_alloc(self, after: int) -> None:
        """``fault``."""
        self.write(Op("fault", after % 3))

    def note_fail_copy(self, kind: str, after: int) -> None:
        """``misfire``."""
        kinds = (LOAD, SPILL, SPILLED) if self.checker.config.write == "write_back" else (LOAD, BACKUP)
        self.write(Op("misfire", kinds.index(kind) if kind in kinds else 0, after % 3))

    def note_set_clock(self, seconds: float) -> None:
        """``clock``, as often as it takes."""
        left = seconds - self.checker.below.clock
        for leap in LEAPS:
            times = min(4, int(left // leap))
            left -= times * leap
            for _ in range(times + (leap == LEAPS[-1] and left > 0)):
                self.write(Op("clock", len(LEAPS) - 1 - LEAPS.index(leap)))

    # -- prefetches ----------------------------------------------------------------------------

    def note_prefetch(self, rid: int, key: Key) -> None:
        """``prefetch``: of a request that is new, that waited before, or that waits."""
        a, b, c = self.again(key)
        waited = list(dict.fromkeys(self.waited))
        if rid in self.waits:
            b = next(one for one in range(240, 256) if one % len(self.waits) == list(self.waits).index(rid))
        elif rid in waited:
            b = next(one for one in range(AGAIN, 240) if one % len(waited) == waited.index(rid))
        self.write(Op("prefetch", a, b, c))

    def after_prefetch(self, answer: Any, rid: int, key: Key) -> None:
        """It waits, if it has begun."""
        if isinstance(answer, tuple) and answer[:1] == (True,):
            self.waits[rid] = None

    def note_poll(self, rid: int) -> None:
        """``poll``."""
        self.told = None
        if rid in self.waits or not self.waits:
            self.write(Op("poll", 0, ALONE, list(self.waits).index(rid) if rid in self.waits else 0))

    def after_poll(self, answer: object, rid: int) -> None:
        """It waits no more, if it need not."""
        if answer is True:
            self.told = rid if rid in self.waits else None
            self.leave(rid)

    def leave(self, rid: int) -> None:
        """A request waits no more, but may do so again."""
        self.waits.pop(rid, None)
        self.waited.append(rid)
        del self.waited[:-MAX_WAITING]

    def note_loaded(self, rid: int) -> None:
        """Whoever polls is told; what is told beyond that, its last poll says."""
        if self.told == rid:
            self.told = None
        elif self.last == "poll":
            poll = self.written[-1][1]
            self.change(poll._replace(a=3 if poll.a else 1))

    def note_abandon(self, rid: int) -> None:
        """``abandon``."""
        if rid in self.waits:
            self.write(Op("abandon", 0, 0, list(self.waits).index(rid)))
            self.leave(rid)
