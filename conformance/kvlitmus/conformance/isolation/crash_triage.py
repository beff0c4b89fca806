"""Crash triage: from a dead worker to a finding.

What the worker was playing is on disk.  It is played again in a fresh worker that notes every
call, so that the last one is known; a schedule is cut after it and shrunk, each trial in a worker
that may die of it.  Who is blamed is decided with more time than the judge gave, not with less: a
slow machine must not turn an innocent call into the last one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.generate.shrink import NOT_AGAIN, Case, Failed, Shrunk, shrink
from kvlitmus.conformance.isolation.process import Death, Process
from kvlitmus.conformance.isolation.worker_pool import WorkerPool
from kvlitmus.conformance.run.results import Finding, Item, Options, schedule_from_json, to_json
from kvlitmus.conformance.support.text import harmless

RULE = "PORT-02"

TRIALS = 200
"""How many schedules are tried at most when one is shrunk; each may cost a process."""

CALLS = 2_000
"""Maximum number of calls of a counterexample that are kept."""

AGAIN = 2
"""When it is played again, a call has so many times the limit, unless somebody waits for the first cause alone."""

FENCED_AFTER = 2
"""A method that killed so many workers is not called any more."""

PLAYS_BYTES = 8 << 20
"""The longest file of plays that is read."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """What one trial came to: how the worker died, if it did, and the calls that it made.

    op: the operation that was being played.  method: the method that was called last.
    """

    death: Death | None = None
    calls: list[str] = field(default_factory=list)
    op: int = 0
    method: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a worker was doing when it died, from its file of plays; ``making``: no play had begun."""

    making: bool = True
    muted: frozenset[str] = frozenset()
    force: bool = False
    schedule: tuple[Op, ...] = ()


def read_plays(path: Path) -> Played:
    """What was being played; a file that makes no sense counts as nothing."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        with path.open("rb") as file:
            data = file.read(PLAYS_BYTES)
        plain = json.loads(data[1:])
        if data[:1] == b"P":
            return Played(
                making=False,
                muted=frozenset(map(str, plain["muted"])),
                force=bool(plain["force"]),
                schedule=schedule_from_json(plain["schedule"]),
            )
    return Played()


class CrashTriage:
    """Finds out what killed a worker.

    start: makes a fresh worker with the target loaded, or says how it died.  shrunk: kind, number and
    method of the deaths that were shrunk already; another of them is told as it was met.
    While it shrinks, the triage has less patience with a call than the judge; what it tells of the
    smallest schedule is seen with all of it.
    """

    def __init__(
        self,
        start: Callable[[], Process | Death],
        folder: Path,
        *,
        call_seconds: float,
        again_seconds: float | None,
        shrink_seconds: float,
        fenced: frozenset[str],
        shrunk: set[tuple[str, int, str]],
    ) -> None:
        self.start = start
        self.folder = folder
        self.call_seconds = call_seconds
        self.shrink_seconds = shrink_seconds
        self.again_seconds = AGAIN * call_seconds if again_seconds is None else again_seconds
        self.patience = min(call_seconds, max(0.2, min(2.0, call_seconds / 5)))
        self.fenced = fenced
        self.shrunk = shrunk
        self.worker: Process | None = None

    def find(
        self, item: Item, options: Options, played: Played, death: Death, *, certain: bool
    ) -> tuple[Finding | None, str]:
        """The finding, and the method that was called last; none if it isn't ``certain`` and no worker dies again."""
        judged = replace(options, muted=played.muted, force_misuse=played.force)
        try:
            first = self.play(item, judged, played.schedule, self.again_seconds)
            if first.death is None and not certain:
                return None, ""
            return self.examine(item, judged, played, death, first)
        finally:
            if self.worker is not None:
                self.worker.stop(0)

    def examine(self, item: Item, options: Options, played: Played, death: Death, first: Trial) -> tuple[Finding, str]:
        """Cut, shrink, and tell; ``first`` is what came of playing it again."""
        ops, best, config = list(played.schedule), first, item.config
        stopped, minimal = "it was not shrunk", ""
        kind = (death.kind, death.number, first.method)
        if first.death is not None and ops:
            ops = ops[: first.op + 1]
            if kind not in self.shrunk and first.death.same(death):
                self.shrunk.add(kind)
                ((config, smaller), stopped, minimal), best = self.smaller(item, options, ops, first)
                ops = list(smaller)
        again = "" if first.death is not None else "; it did not when the same was played once more in a new process"
        told = best.death if best.death is not None and best.death.same(death) else death
        told = replace(told, seconds=death.seconds)
        calls = [harmless(call) for call in best.calls[-CALLS:]]
        method = best.method or first.method
        last = calls[-1] if calls else harmless(told.place) or "a call that is not known"
        where = "" if last.startswith(method) or not method else f" (in {method}(), which looks at the cache after it)"
        said = f"; it had printed: {told.output}" if told.output and told.kind != "hang" else ""
        found = Finding(
            rules=[RULE],
            item=item.id,
            config=config,
            call=last,
            calls=calls,
            allowed="the call comes back within the time limit, and the process lives on",
            seen={},
            detail=harmless(f"the call {told.text}{where}{again}{said}", 1_000),
            schedule=ops,
            minimal=minimal if ops else "",
            not_minimal=stopped if ops else "",
            litmus=item.name if item.kind == "litmus" else "",
            drawn_steps=len(first.calls),
            steps=len(best.calls),
        )
        return found, method

    def smaller(self, item: Item, options: Options, ops: list[Op], found: Trial) -> tuple[Shrunk, Trial]:
        """A smaller schedule that kills a worker alike, and what it came to; the given one if there is none."""
        assert found.death is not None
        wanted, method = found.death, found.method

        def alike(came: Trial) -> bool:
            return came.death is not None and came.death.same(wanted) and came.method == method

        def kills(case: Case, _: int | None = None) -> Failed | None:
            if not case.ops:
                return None
            came = self.play(replace(item, config=case.config), options, case.ops, self.patience)
            return Failed(len(came.calls)) if alike(came) else None

        tails = [Case(item.config, tuple(ops[-tail:])) for tail in (1, 2, 4, 8) if tail < len(ops)]
        start = next((one for one in tails if kills(one) is not None), Case(item.config, tuple(ops)))
        best = shrink(start, kills, trials=TRIALS, seconds=self.shrink_seconds)
        final = self.play(
            replace(item, config=best.case.config), options, best.case.ops, min(self.call_seconds, self.again_seconds)
        )
        if alike(final):
            return best, final
        return Shrunk(Case(item.config, tuple(ops)), NOT_AGAIN), found

    def play(self, item: Item, options: Options, ops: Sequence[Op], seconds: float) -> Trial:
        """Play once in a worker that may die of it."""
        if self.worker is None:
            started = self.start()
            if isinstance(started, Death):
                return Trial()
            self.worker = started
        trace = self.folder / "trace"
        trace.unlink(missing_ok=True)
        came = self.worker.ask(
            seconds,
            do="trial",
            config=to_json(item.config),
            options=to_json(options),
            schedule=to_json(list(ops)),
            litmus=item.name if item.kind == "litmus" else "",
            fenced=sorted(self.fenced),
            trace=str(trace),
        )
        trial = read_trace(trace)
        if isinstance(came, Death):
            self.worker = None
            trial.death = came
        return trial


class Cause(NamedTuple):
    """Why a worker died: a finding and the method that was called last, or the ``reason`` why no cache can be made."""

    finding: Finding | None = None
    method: str = ""
    reason: str = ""


class Deaths:
    """What the workers of a run have died of so far.

    killers: how many workers each method has killed.  shrunk: see :class:`CrashTriage`.  unmade: configurations whose
    making ended a worker, each with what happened.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.count = 0
        self.killers: Counter[str] = Counter()
        self.shrunk: set[tuple[str, int, str]] = set()
        self.unmade: dict[str, str] = {}

    @property
    def fenced(self) -> frozenset[str]:
        """The methods that are not called any more."""
        return frozenset(method for method, times in self.killers.items() if times >= FENCED_AFTER)

    def cause(
        self,
        worker: Process,
        item: Item,
        options: Options,
        death: Death,
        *,
        doubted: bool,
        fenced: frozenset[str],
        shrinking: Callable[[], None] = lambda: None,
    ) -> Cause | None:
        """Why a worker died over an item; ``None`` for a hang that may have been the machine's fault.

        doubted: a worker hung over it before, and none did when the same was played again; this time it is believed.
        """
        played = read_plays(worker.plays)
        certain = death.kind != "hang" or doubted
        if played.making and not certain:
            return None
        if played.making:
            reason = f"making a fresh cache, or looking at it for the first time, {death.text}"
            self.count += 1
            self.unmade[item.config.label] = reason
            return Cause(reason=reason)
        shrinking()
        limits = self.pool.limits
        triage = CrashTriage(
            self.pool.ready_or_dead,
            self.pool.folder.path,
            call_seconds=limits.call_seconds,
            again_seconds=limits.again_seconds,
            shrink_seconds=limits.shrink_seconds,
            fenced=fenced,
            shrunk=self.shrunk,
        )
        found, method = triage.find(item, options, played, death, certain=certain)
        if found is None:
            return None
        self.count += 1
        self.killers[method] += bool(method)
        return Cause(found, method)


def read_trace(path: Path) -> Trial:
    """The calls of a trial, as far as they were noted."""
    trial = Trial()
    with suppress(OSError):
        for line in path.read_bytes()[-PLAYS_BYTES:].splitlines():
            with suppress(ValueError, TypeError, AttributeError):
                note: dict[str, Any] = json.loads(line)
                trial.op = note.get("op", trial.op)
                trial.method = note.get("method", trial.method)
                if "call" in note:
                    if trial.calls and note["last"]:
                        trial.calls[-1] = note["last"]
                    trial.calls.append(note["call"])
    return trial
