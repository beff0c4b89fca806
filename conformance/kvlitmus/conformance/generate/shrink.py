"""Shrinking: the shortest schedule that still breaks the rule.

Works on the schedule itself, with nothing but a question "does this one still fail, and after how many calls?", so it
serves caches in other processes and other languages too.  What can be said of the calls that each operation made is
used where it is said.

What comes after the failure is dropped.  Then the configuration is simplified, since a small memory is filled by few
calls; operations are dropped: those that made no call, those of one kind, those that made something, ever fewer, runs
of them, ever shorter ones; and the numbers of each operation are lowered, where that makes no further calls, or raised,
where it saves some.  When nothing of that helps any more, operations that make several calls are spelt out, as single
calls of them may do; pairs are dropped; then it begins again.

All that is done twice: first as the operations are drawn, by number; then each names what it is about
(:mod:`~kvlitmus.conformance.generate.naming`), where that can be said, so that any others can be dropped, and with what
is dropped goes what is about it.  Of a short one every part is tried in the end.

The result depends on the schedule and on the number of trials alone.  A limit in seconds is there for a target that
hangs; where it ends the search, that is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from kvlitmus.conformance.generate.naming import Naming, without
from kvlitmus.conformance.generate.schedule import HIGHEST, Op, as_long, draw
from kvlitmus.spec.words.config import Config


class Case(NamedTuple):
    """What is played: a schedule in a configuration."""

    config: Config
    ops: tuple[Op, ...]


class Failed(NamedTuple):
    """How a schedule failed.

    ``calls``: after how many calls.  ``began``: how many calls had been made when each of its operations began, as far
    as it came, and when all had been played; ``naming``: what each was about.  Both are empty where nobody can say.
    """

    calls: int
    began: tuple[int, ...] = ()
    naming: Naming | None = None

    def idle(self) -> list[int]:
        """The operations that made no call."""
        ends = (*self.began[1:], self.calls)
        return [at for at, (start, end) in enumerate(zip(self.began, ends, strict=False)) if start == end]


Fails = Callable[[Case, int | None], Failed | None]
"""How a schedule fails; ``None`` for one that doesn't.

It may be ended after so many calls: a later failure is of no use.
"""

SpellOut = Callable[[Case, Failed], Sequence[Op] | None]
"""The same calls, each by an operation of its own; ``None`` where they are that already, or nobody can say."""

TRIALS = 2_000
"""So many schedules are tried."""

SAFETY = 300.0
"""Seconds after which shrinking ends in any case; who has a target that may hang gives it fewer."""

PAIRS_UP_TO = 40
"""The longest schedule in which pairs are tried: their number grows with the square."""

KEYED = frozenset({"begin", "begin_ahead", "match", "insert", "lock"})
"""Operations whose second number says how long a key is, and nothing else."""

TOGETHER_UP_TO = 20
"""The longest schedule in which an operation is dropped together with memory."""

SOME_PAGES = 8
"""So many pages at most that takes."""

FIELDS = range(3)
"""The numbers of an operation."""

FEW_CALLS = 12
"""Of a counterexample of so many calls every part is tried, unless it takes more operations than :data:`FEW_OPS`."""

FEW_OPS = 12

MINIMAL, TWO_MINIMAL = "minimal", "2-minimal"
"""No part of it breaks the rule; or none that lacks one or two operations, or a token."""

NOT_AGAIN = "it did not occur again when it was shrunk"

SHORT = 8
"""Calls of a counterexample that is short enough."""

DRAWS = 200
"""So many schedules are drawn in the hope of a shorter one."""

TAIL = 9
"""So much less in the second number of a key is a token less behind its last page."""

SAVING = (("publish", 1), ("fail", 1), ("flush", 0), ("poll", 1))
"""Numbers that make fewer calls where they are high: a publication by itself, an end that comes later."""

FEW_PAGES = (4, 8, 12)
"""Memory that is small enough to be filled by a few calls, and large enough for what is called."""


def simpler(config: Config) -> Iterator[Config]:
    """Configurations that are simpler in one respect, those that help most first."""
    if config.page_size > 1:
        yield replace(config, page_size=1, threshold=min(config.threshold, 1))
    for pages in FEW_PAGES:
        if pages < config.pages:
            yield replace(config, pages=pages)
        if pages < config.host_pages:
            yield replace(config, host_pages=pages)
    if config.bigram:
        yield replace(config, bigram=False)
    if config.storage == "later":
        yield replace(config, storage="attached")
    if config.storage != "none":
        yield replace(config, storage="none")


def plainer(config: Config) -> Iterator[Config]:
    """Hierarchies in which the same takes fewer uses, or the end of a prefetch fewer calls."""
    if config.write != "write_through" and config.tiered:
        yield replace(config, write="write_through")
    if config.stop != "best_effort" and config.tiered:
        yield replace(config, stop="best_effort")


def smaller(config: Config) -> Iterator[Config]:
    """Configurations with some pages less on one tier."""
    for fewer in range(1, SOME_PAGES + 1):
        if config.pages - fewer >= FEW_PAGES[0]:
            yield replace(config, pages=config.pages - fewer)
        if config.host_pages - fewer >= FEW_PAGES[0]:
            yield replace(config, host_pages=config.host_pages - fewer)


def keyed_alike(ops: Iterable[Op], there: Config, here: Config) -> tuple[Op, ...]:
    """The same operations here, those on keys of their own with keys as long as there."""
    return tuple([op._replace(b=as_long(op.b, there, here)) if op.kind in KEYED else op for op in ops])


def small(config: Config) -> list[Config]:
    """The configurations of little memory that are like a given one."""
    one = replace(config, page_size=1, threshold=min(config.threshold, 1))
    host = FEW_PAGES[0] if config.tiered else 0
    return [replace(one, pages=pages, host_pages=host) for pages in FEW_PAGES]


class Shrunk(NamedTuple):
    """What shrinking came to.

    ``stopped``: why there may be a shorter one; empty where nothing helped any more: ``minimal`` says what was tried.
    """

    case: Case
    stopped: str
    minimal: str = ""


class Shrinker:
    """The best schedule so far, how it fails (``None``: not known yet), and what may still be spent."""

    def __init__(
        self, case: Case, fails: Fails, trials: int, seconds: float, spell_out: SpellOut | None = None
    ) -> None:
        self.case = case
        self.failed: Failed | None = None
        self.fails = fails
        self.calls_of = spell_out
        self.trials = self.left = trials
        self.seconds = seconds
        self.until = monotonic() + seconds
        self.stopped = ""
        self.names = False
        self.tried: set[Case] = set()

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operations of the best schedule so far."""
        return self.case.ops

    def spend(self) -> bool:
        """Take one trial, if there is one left."""
        if self.left <= 0:
            self.stopped = f"shrinking stopped after {self.trials:,} tr{'y' if self.trials == 1 else 'ies'}"
        elif monotonic() >= self.until:
            self.stopped = f"shrinking stopped after {self.seconds:.0f} s"
        else:
            self.left -= 1
            return True
        return False

    def take(self, case: Case, *, saves: bool = False, more: int = 0) -> bool:
        """Go on with this one if it fails, with no more calls than the best so far.

        ``saves``: with fewer calls; ``more``: with so many more at most.  What was tried before is not tried again.
        """
        if case in self.tried or not self.spend():
            return False
        self.tried.add(case)
        most = None if self.failed is None else self.failed.calls - saves + more
        failed = self.fails(case, most)
        if failed is None or (most is not None and failed.calls > most):
            return False
        ops = case.ops[: len(failed.began)] if failed.began else case.ops
        self.case, self.failed = case._replace(ops=ops), failed
        if self.names:
            self.name()
        self.tried.add(self.case)
        return True

    def name(self) -> None:
        """From now on operations name what they are about, where that can be said."""
        self.names = True
        if self.failed is not None and self.failed.naming is not None:
            self.case = self.case._replace(ops=self.failed.naming.named(self.ops))

    def take_ops(self, ops: Iterable[Op], *, saves: bool = False) -> bool:
        """The same of other operations."""
        return self.take(self.case._replace(ops=tuple(ops)), saves=saves)

    @property
    def by_number(self) -> tuple[Op, ...]:
        """The same operations without names: numbers say which of the things that are alive each is about.

        What is left out then changes what the others are about, which may be a way to fewer calls.
        """
        naming = None if self.failed is None else self.failed.naming
        return self.ops if naming is None else naming.numbered(self.ops)

    def drop(self, positions: Iterable[int]) -> bool:
        """Try it without the operations at these positions, with or without what is about what they made."""
        gone = set(positions)
        return bool(gone) and (self.drop_strictly(gone) or self.take_ops(without(self.by_number, gone)))

    def drop_strictly(self, positions: Iterable[int]) -> bool:
        """Try it without the operations at these positions, and without what is about what they made."""
        return self.take_ops(without(self.ops, positions))

    def simplify_config(self) -> None:
        """Simplify the configuration in one respect after the other, as long as that saves calls.

        One that is plainer may save some only later, when what it needs no more has been dropped.
        """
        for config in plainer(self.case.config):
            self.take_config(config)
        before = None
        while self.case.config != before:
            before = self.case.config
            for config in simpler(before):
                self.take(Case(config, self.case.ops), saves=True) or self.take(
                    Case(config, self.by_number), saves=True
                )

    def take_config(self, config: Config, *, saves: bool = False) -> bool:
        """The same operations in another configuration, as they are, with keys as long as they were, or by number."""
        alike = keyed_alike(self.ops, self.case.config, config)
        return any(self.take(Case(config, ops), saves=saves) for ops in (self.ops, alike, self.by_number))

    def drop_idle(self) -> None:
        """Drop what made no call."""
        if self.failed is not None:
            self.drop(self.failed.idle())

    def drop_makers(self) -> None:
        """Drop operations that others name, and these with them: many at first, then single ones, later ones first."""
        several = (len({op.of for op in self.ops}) + 1) // 2
        while several:
            makers = sorted({op.of for op in self.ops if op.of >= 0}, reverse=True)
            for at in range(0, len(makers), several):
                self.drop(maker for maker in makers[at : at + several] if maker < len(self.ops))
            several //= 2

    def drop_kinds(self) -> None:
        """Drop all operations of a kind."""
        for kind in sorted({op.kind for op in self.ops}):
            self.drop(at for at, op in enumerate(self.ops) if op.kind == kind)

    def drop_chunks(self) -> None:
        """Drop runs of operations, from long ones to single ones, later ones first."""
        length = max(1, len(self.ops) // 2)
        while length:
            at = len(self.ops) - length
            while at > -length:
                self.drop(range(max(0, at), max(0, at) + length))
                at = min(at, len(self.ops)) - length
            length //= 2

    def drop_pairs(self) -> None:
        """Drop two operations at once that may stand apart."""
        if len(self.ops) > PAIRS_UP_TO:
            return
        first = 0
        while first < len(self.ops):
            for second in range(first + 1, len(self.ops)):
                if self.drop_strictly((first, second)):
                    break
            else:
                first += 1

    def drop_with_memory(self) -> None:
        """Drop an operation together with some memory, which is then filled without it."""
        at = 0
        while len(self.ops) <= TOGETHER_UP_TO and at < len(self.ops):
            here, left = self.case.config, without(self.ops, {at})
            if not any(self.take(Case(config, keyed_alike(left, here, config))) for config in smaller(here)):
                at += 1

    def is_short(self) -> bool:
        """Whether every part can be tried."""
        return self.failed is not None and self.failed.calls <= FEW_CALLS and len(self.ops) <= FEW_OPS

    def drop_any(self) -> None:
        """Of a short one try every part, small ones first; its last operation is the one that fails."""
        last = len(self.ops) - 1
        if not self.is_short() or last < 1:
            return
        self.left = max(self.left, 1 << last)
        for many in range(last):
            for kept in itertools.combinations(range(last), many):
                if self.drop_strictly(at for at in range(last) if at not in kept) or self.stopped:
                    return

    def change_numbers(self) -> None:
        """Lower each number of each operation: to nothing, else bit by bit; or raise it, where that saves calls.

        First those of all operations at once: keys that must be equal can only be made simpler together.
        """
        for field in FIELDS:
            if any(op[1:][field] for op in self.ops):
                self.take_ops([op.with_number(field, 0) for op in self.ops])
        at = 0
        while at < len(self.ops):
            for field in FIELDS:
                self.change_number(at, field)
            self.change_name(at)
            at += 1

    def change_number(self, at: int, field: int) -> None:
        """The same of one number."""
        if at >= len(self.ops):  # a change before it made the schedule shorter
            return
        kind, value = self.ops[at].kind, self.ops[at][1:4][field]
        bits = [value & ~(1 << bit) for bit in range(7, -1, -1) if value & (1 << bit)]
        for smaller in (0, 1, *bits, value - TAIL, value - 1):
            if at < len(self.ops) and 0 <= smaller < self.ops[at][1:4][field]:
                self.replace(at, self.ops[at].with_number(field, smaller))
        if at < len(self.ops) and value < HIGHEST and (kind, field) in SAVING:
            self.replace(at, self.ops[at].with_number(field, HIGHEST), saves=True)

    def change_name(self, at: int) -> None:
        """Let an operation be about what others are about, which was made before."""
        if at < len(self.ops):
            for maker in sorted({op.of for op in self.ops if 0 <= op.of < self.ops[at].of}):
                self.replace(at, self.ops[at]._replace(of=maker))

    def replace(self, at: int, op: Op, *, saves: bool = False) -> bool:
        """Try it with another operation at this place."""
        return at < len(self.ops) and self.take_ops([*self.ops[:at], op, *self.ops[at + 1 :]], saves=saves)

    def spell_out(self) -> None:
        """Make each call by an operation of its own; calls that were one line then count one by one, if others go."""
        assert self.failed is not None
        if self.calls_of is None or not self.spend():
            return
        before = self.case, self.failed
        ops = self.calls_of(self.case, self.failed)
        if ops is not None and self.take(self.case._replace(ops=tuple(ops)), more=len(ops)):
            self.until_still(self.drop_idle, self.drop_makers, self.drop_chunks)
            if self.failed.calls > before[1].calls:
                self.case, self.failed = before

    def draw_again(self) -> None:
        """Where it is long: draw schedules of the kinds that are left, until one is found that is shorter.

        What is left after dropping one thing after another may be a long way round; in a simple configuration, with
        these kinds alone, a few hundred draws are likely to find a short one.
        """
        assert self.failed is not None
        if self.failed.calls <= SHORT:
            return
        kinds = [op.kind for op in self.ops]
        configs = list(dict.fromkeys([self.case.config, *small(self.case.config)]))
        for seed in range(DRAWS):
            ops = tuple(draw(seed, 2 * len(kinds), kinds))
            if self.take(Case(configs[seed % len(configs)], ops), saves=True) or self.stopped:
                return

    def until_still(self, *passes: Callable[[], None]) -> None:
        """Make these passes until none of them changes anything, or nothing may be spent any more."""
        before = None
        while self.case != before and not self.stopped:
            before = self.case
            for one in passes:
                one()


def shrink(
    case: Case, fails: Fails, *, trials: int = TRIALS, seconds: float = SAFETY, spell_out: SpellOut | None = None
) -> Shrunk:
    """A shorter and simpler schedule that still fails; the given one if none is found.

    ``spell_out``: what its calls are one by one, where that can be said.
    """
    shrinker = Shrinker(case, fails, trials, seconds, spell_out)
    if not shrinker.take(case):
        return Shrunk(case, shrinker.stopped or NOT_AGAIN)

    def without_pairs() -> None:
        shrinker.until_still(
            shrinker.simplify_config,
            shrinker.drop_idle,
            shrinker.drop_kinds,
            shrinker.drop_makers,
            shrinker.drop_chunks,
            shrinker.change_numbers,
        )

    # First by number: what is left out changes what the rest is about, and chance finds ways that no single step does.
    shrinker.until_still(without_pairs, shrinker.spell_out, shrinker.drop_pairs, shrinker.draw_again)
    shrinker.name()
    shrinker.until_still(
        without_pairs,
        shrinker.spell_out,
        shrinker.drop_pairs,
        shrinker.drop_with_memory,
        shrinker.draw_again,
        shrinker.drop_any,
    )
    if shrinker.take(Case(case.config, shrinker.ops)):  # the one that was asked for, where it does as well
        shrinker.until_still(shrinker.drop_pairs, shrinker.drop_any)
    stopped = shrinker.stopped
    if not stopped and len(shrinker.ops) > PAIRS_UP_TO:
        stopped = "too long for trying pairs of operations"
    minimal = MINIMAL if shrinker.is_short() else TWO_MINIMAL
    return Shrunk(shrinker.case, stopped, "" if stopped else minimal)
