"""A session with a target: what it says of itself, and the results of items that are played on it.

The one seam between the commands and the machinery that finds targets and stands by while they
are judged.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError
from kvlitmus.conformance.isolation import supervisor
from kvlitmus.conformance.isolation.supervisor import Event, TargetInfo
from kvlitmus.conformance.isolation.worker_pool import WorkerPool, probe_in
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run import targets
from kvlitmus.conformance.run.results import Item, ItemResult, Options


@dataclass(slots=True, kw_only=True)
class Session:
    """A target that was found and asked what it is."""

    ref: targets.TargetRef
    info: TargetInfo
    limits: supervisor.Limits = field(default_factory=supervisor.Limits)
    pool: WorkerPool | None = None

    @property
    def name(self) -> str:
        """The name of the target, harmless."""
        return harmless(self.ref.name, 100)

    @property
    def version(self) -> str:
        """What the target states as its version, if anything."""
        stated = {key: text for key, text in self.info.versions.items() if key not in ("python", "kvlitmus")}
        return " ".join(harmless(f"{key} {text}", 100) for key, text in sorted(stated.items()))

    @property
    def profile(self) -> Profile:
        """The legal choices that the target declares."""
        return self.info.profile

    @property
    def configs(self) -> tuple[Config, ...]:
        """The configurations that the target is judged in."""
        return self.info.configs

    @property
    def capabilities(self) -> frozenset[str]:
        """What the target can do in at least one configuration."""
        return frozenset().union(*self.info.capabilities.values())

    def run(
        self, items: Sequence[Item], options: Options, *, jobs: int = 1, on_event: Callable[[Event], None] | None = None
    ) -> Generator[ItemResult]:
        """The results, in the order of the items; raises :class:`TargetFailed`, last if the judge was changed."""
        with self.take_pool() or workers(self.ref, self.limits) as pool:
            yield from play(pool, items, options, jobs=jobs, on_event=on_event)

    def take_pool(self) -> WorkerPool | None:
        """The workers that are there already, for the first who plays something."""
        pool, self.pool = self.pool, None
        return pool

    def let_go(self) -> None:
        """Nothing is played here: no worker waits for it."""
        if (pool := self.take_pool()) is not None:
            pool.stop()


def workers(ref: targets.TargetRef, limits: supervisor.Limits | None = None, *, keeps: bool = False) -> WorkerPool:
    """Workers for a target, none of which is started yet."""
    return WorkerPool(ref, limits or supervisor.Limits(on_wait=waiting(limited=False)), None, keeps=keeps)


def play(
    pool: WorkerPool,
    items: Sequence[Item],
    options: Options,
    *,
    jobs: int = 1,
    on_event: Callable[[Event], None] | None = None,
) -> Generator[ItemResult]:
    """The results, in the order of the items.

    Raises :class:`UsageError` for a target that isn't there, :class:`TargetFailed` for one that can't be loaded, and
    last if the judge was changed.
    """
    try:
        yield from supervisor.run_items(pool.ref, items, options, jobs=jobs, on_event=on_event, pool=pool)
    except targets.UnknownTarget as error:
        raise UsageError(str(error)) from error
    except (supervisor.TargetError, supervisor.JudgeChanged) as error:
        raise TargetFailed(str(error)) from error


def find(word: str, python: str | None) -> targets.TargetRef:
    """Where a target is; nothing is started.  Raises :class:`UsageError` for a name that stands for nothing."""
    try:
        return targets.resolve_target(word, python=python)
    except targets.UnknownTarget as error:
        raise UsageError(str(error)) from None


def limits_of(args: argparse.Namespace) -> supervisor.Limits:
    """The limits that a command line asks for; that a start gets more time than was said is told."""
    asked, least = args.start_timeout, args.timeout
    if asked is not None and asked < least:
        told = f"--start-timeout {asked} is less than any call may take: it is {least} s, as --timeout says"
        print(f"kvlitmus: {told}; with --timeout {asked} it is {asked} s", file=sys.stderr)
    return supervisor.Limits(
        call_seconds=args.timeout,
        start_seconds=max(asked or supervisor.Limits().start_seconds, least),
        memory_mb=args.memory,
        again_seconds=args.timeout / 2 if getattr(args, "first", False) else None,
        on_wait=waiting(limited=True),
    )


def waiting(*, limited: bool) -> Callable[[str, str], None]:
    """What says that a call takes long, in a line that stays, beside whatever moves; what two workers wait for, once.

    limited: whether the command has the options that change limits, which then are named.
    """
    told = ""

    def wait(text: str, option: str) -> None:
        nonlocal told
        if text != told:
            told = text
            clear, more = "\r\x1b[K" if sys.stderr.isatty() else "", f" ({option})" if limited else ""
            print(f"{clear}  {text}{more}", file=sys.stderr, flush=True)

    return wait


def ask(ref: targets.TargetRef, limits: supervisor.Limits | None = None) -> Session:
    """Ask a target what it is.

    Raises :class:`UsageError` for one that isn't there, :class:`TargetFailed` for one that can't be imported or made.
    """
    with asked(ref, limits) as session:
        return session


@contextlib.contextmanager
def asked(ref: targets.TargetRef, limits: supervisor.Limits | None = None) -> Iterator[Session]:
    """The same; inside, the worker that was asked waits for the first items that are played."""
    with workers(ref, limits) as pool:
        try:
            session = Session(ref=ref, info=probe_in(pool), limits=pool.limits, pool=pool)
        except targets.UnknownTarget as error:
            raise UsageError(str(error)) from error
        except supervisor.TargetError as error:
            raise TargetFailed(str(error)) from error
        try:
            yield session
        finally:
            session.pool = None
