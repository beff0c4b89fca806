"""Shrinking: the shortest schedule that still breaks the rule.

Works on the schedule itself, with nothing but a question "does this one still fail, and after how many calls?", so it
serves caches in other processes and other languages too.  What can be said of the calls that each operation made is
used where it is said.

What comes after the failure is dropped.  Then the configuration is simplified, since a small memory is filled by few
calls; operations are dropped: those that made no call, those of one kind, those of some requests, ever fewer, runs of
them, ever shorter ones; and the numbers of each operation are lowered, where that makes no further calls, or raised,
where it saves some.  When nothing of that helps any more, operations that make several calls are spelt out, as single
calls of them may do; pairs are dropped, since what begins something and what ends it can only go together; then it
begins again.

The result depends on the schedule and on the number of trials alone.  A limit in seconds is there for a target that
hangs; where it ends the search, that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from kvlitmus.conformance.generate.schedule import Op, draw
from kvlitmus.spec.words.config import Config


class Case(NamedTuple):
    """What is played: a schedule in a configuration."""

    config: Config
    ops: tuple[Op, ...]


class Failed(NamedTuple):
    """How a schedule failed.

    ``calls``: after how many calls.  ``began``: how many calls had been made when each of its operations began, as far
    as it came, and when all had been played; ``history``: the calls, as texts.  Both are empty where nobody can say.
    """

    calls: int
    began: tuple[int, ...] = ()
    history: tuple[str, ...] = ()

    def made(self, at: int) -> tuple[str, ...]:
        """The calls that an operation made."""
        end = self.began[at + 1] if at + 1 < len(self.began) else len(self.history)
        return self.history[self.began[at] : end]

    def requests(self) -> list[set[int]]:
        """The requests that each operation is about."""
        return [
            {int(found[1]) for call in self.made(at) if (found := ABOUT_REQUEST.match(call))}
            for at in range(len(self.began))
        ]

    def about(self) -> set[int]:
        """All requests."""
        return {rid for rids in self.requests() for rid in rids}


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

FIELDS = range(3)
"""The numbers of an operation."""

HIGHEST = 255
"""The largest number of an operation."""

SHORT = 8
"""Calls of a counterexample that is short enough."""

DRAWS = 200
"""So many schedules are drawn in the hope of a shorter one."""

PICKING = ("grow", "publish", "finish", "abort", "compute")
"""Operations on one of the requests that run; the last of their numbers says on which."""

SAVING = (("publish", 1), ("fail", 1), ("flush", 0), ("poll", 1))
"""Numbers that make fewer calls where they are high: a publication by itself, an end that comes later."""

FEW_PAGES = (4, 8, 12)
"""Memory that is small enough to be filled by a few calls, and large enough for what is called."""

ABOUT_REQUEST = re.compile(r"(?:begin|grow|publish|publish_upto|end|end_upto|prefetch|poll|loaded|abandon)\((\d+)\b")
"""A call that is about one request."""


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


def small(config: Config) -> list[Config]:
    """The configurations of little memory that are like a given one."""
    one = replace(config, page_size=1, threshold=min(config.threshold, 1))
    host = FEW_PAGES[0] if config.tiered else 0
    return [replace(one, pages=pages, host_pages=host) for pages in FEW_PAGES]


class Shrunk(NamedTuple):
    """What shrinking came to.  ``stopped``: why there may be a shorter one; empty where nothing helped any more."""

    case: Case
    stopped: str


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

    def take(self, case: Case, *, saves: bool = False) -> bool:
        """Go on with this one if it fails, with no more calls than the best so far; ``saves``: with fewer.

        What was tried before is not tried again.
        """
        if case in self.tried or not self.spend():
            return False
        self.tried.add(case)
        most = None if self.failed is None else self.failed.calls - saves
        failed = self.fails(case, most)
        if failed is None or (most is not None and failed.calls > most):
            return False
        self.case = case._replace(ops=case.ops[: len(failed.began)]) if failed.began else case
        self.failed = failed
        self.tried.add(self.case)
        return True

    def take_ops(self, ops: Iterable[Op], *, saves: bool = False) -> bool:
        """The same of other operations."""
        return self.take(self.case._replace(ops=tuple(ops)), saves=saves)

    def drop(self, positions: Iterable[int]) -> bool:
        """Try it without the operations at these positions."""
        gone = set(positions)
        return bool(gone) and self.take_ops(op for at, op in enumerate(self.ops) if at not in gone)

    def simplify_config(self) -> None:
        """Simplify the configuration in one respect after the other, as long as that saves calls.

        One that is plainer may save some only later, when what it needs no more has been dropped.
        """
        for config in plainer(self.case.config):
            self.take(Case(config, self.case.ops))
        before = None
        while self.case.config != before:
            before = self.case.config
            for config in simpler(before):
                self.take(Case(config, self.case.ops), saves=True)

    def drop_idle(self) -> None:
        """Drop what made no call."""
        if self.failed is not None:
            self.drop(at for at in range(len(self.failed.began)) if not self.failed.made(at))

    def drop_requests(self) -> None:
        """Drop all operations that are about some requests alone: many requests at first, then single ones.

        Later ones come first, since those that are left keep their numbers then.
        """
        assert self.failed is not None
        several = (len(self.failed.about()) + 1) // 2
        while several:
            rids = sorted(self.failed.about(), reverse=True)
            for at in range(0, len(rids), several):
                self.drop_about(set(rids[at : at + several]))
            several //= 2

    def drop_about(self, rids: set[int]) -> None:
        """Drop what is about these requests alone; of one request also so that later operations mean the same ones."""
        assert self.failed is not None
        about = {at for at, those in enumerate(self.failed.requests()) if those and those <= rids}
        if not self.drop(about) and len(rids) == 1 and about:
            between = range(min(about), max(about))
            self.take_ops(
                op._replace(c=op.c - 1) if at in between and op.kind in PICKING and op.c else op
                for at, op in enumerate(self.ops)
                if at not in about
            )

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
                start = max(0, at)
                self.take_ops(self.ops[:start] + self.ops[start + length :])
                at = min(at, len(self.ops)) - length
            length //= 2

    def drop_pairs(self) -> None:
        """Drop two operations at once that may stand apart."""
        if len(self.ops) > PAIRS_UP_TO:
            return
        first = 0
        while first < len(self.ops):
            for second in range(first + 1, len(self.ops)):
                if self.take_ops(self.ops[:first] + self.ops[first + 1 : second] + self.ops[second + 1 :]):
                    break
            else:
                first += 1

    def change_numbers(self) -> None:
        """Lower each number of each operation: to nothing, else bit by bit; or raise it, where that saves calls.

        First those of all operations at once: keys that must be equal can only be made simpler together.
        """
        for field in FIELDS:
            if any(op[1:][field] for op in self.ops):
                self.take_ops([Op(op.kind, *[0 if at == field else op[1:][at] for at in FIELDS]) for op in self.ops])
        at = 0
        while at < len(self.ops):
            for field in FIELDS:
                self.change_number(at, field)
            at += 1

    def change_number(self, at: int, field: int) -> None:
        """The same of one number."""
        if at >= len(self.ops):  # a change before it made the schedule shorter
            return
        kind, value = self.ops[at].kind, self.ops[at][1:][field]
        bits = [value & ~(1 << bit) for bit in range(7, -1, -1) if value & (1 << bit)]
        for smaller in (0, 1, *bits, value - 1):
            if at < len(self.ops) and 0 <= smaller < self.ops[at][1:][field]:
                self.take_ops(self.with_number(at, field, smaller))
        if at < len(self.ops) and value < HIGHEST and (kind, field) in SAVING:
            self.take_ops(self.with_number(at, field, HIGHEST), saves=True)

    def with_number(self, at: int, field: int, value: int) -> Sequence[Op]:
        """The schedule with one number changed."""
        numbers = list(self.ops[at][1:])
        numbers[field] = value
        return [*self.ops[:at], Op(self.ops[at].kind, *numbers), *self.ops[at + 1 :]]

    def spell_out(self) -> None:
        """Make each call by an operation of its own."""
        assert self.failed is not None
        if self.calls_of is None or not self.spend():
            return
        ops = self.calls_of(self.case, self.failed)
        if ops is not None:
            self.take_ops(ops)

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
        return Shrunk(case, shrinker.stopped or "it did not occur again when it was shrunk")

    def without_pairs() -> None:
        shrinker.until_still(
            shrinker.simplify_config,
            shrinker.drop_idle,
            shrinker.drop_kinds,
            shrinker.drop_requests,
            shrinker.drop_chunks,
            shrinker.change_numbers,
        )

    shrinker.until_still(without_pairs, shrinker.spell_out, shrinker.drop_pairs, shrinker.draw_again)
    shrinker.take(Case(case.config, shrinker.ops))  # the one that was asked for, where it does as well
    if not shrinker.stopped and len(shrinker.ops) > PAIRS_UP_TO:
        shrinker.stopped = "too long for trying pairs of operations"
    return Shrunk(shrinker.case, shrinker.stopped)
