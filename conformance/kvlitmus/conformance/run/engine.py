"""The engine: plays items of work against a target and reports what came of it.

One process, one item at a time; :mod:`~kvlitmus.conformance.isolation.supervisor` spreads items over
worker processes and stands by when one of them dies.

A random schedule ends at its first violation.  It is shrunk, and played again with the broken
rules muted, so that one bug does not hide the rest; what could not be reached because of it is
*blocked*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text, seen_texts
from kvlitmus.conformance.checker.guard import LeftOut, Violation, short_of_memory
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.naming import Naming
from kvlitmus.conformance.generate.schedule import Op, draw, may_misuse, table
from kvlitmus.conformance.generate.shrink import NOT_AGAIN, Case, Failed, Shrunk, shrink
from kvlitmus.conformance.generate.transcript import COMPOSITE, Transcript
from kvlitmus.conformance.isolation.current_run import CurrentRun, MethodMask
from kvlitmus.conformance.isolation.remote.apart import PIPED, UNSEEN
from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.litmus.registry import litmus_of
from kvlitmus.conformance.ports import PORTS, Config, Profile, Unsupported, capabilities_of, unasked
from kvlitmus.conformance.run.fitting import Declaring
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options
from kvlitmus.conformance.support.frames import raised_at
from kvlitmus.conformance.support.text import harmless, type_name
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.calls import LOOKS
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.written import Line
from kvlitmus.conformance.vectors import needs_of

Program = Callable[[Checker], None]

NO_METHOD = "kvlitmus_asks_for_a_method_that_nobody_has"
"""An adapter that has this has everything."""


class HarnessError(Exception):
    """The target or the suite itself failed, outside of any judged call."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The program that plays a schedule.

    ``most``: it ends after so many calls, if given.  ``began``: how many calls had been made when each operation began.
    ``naming``: where it is noted what each was about, if anybody wants to know.
    """

    ops: Sequence[Op]
    most: int | None = None
    began: list[int] = field(default_factory=list, compare=False)
    naming: Naming | None = field(default=None, compare=False)

    def __call__(self, checker: Checker) -> None:
        """Play all operations and settle."""
        self.began.clear()
        Interpreter(checker).play(self.ops, most=self.most, began=self.began, naming=self.naming)


def make_checker(target: Any, config: Config, options: Options, run: CurrentRun | None = None) -> Checker:
    """A checker over a fresh cache; ``run`` is told.

    Raises :class:`Unsupported` when the target declines the configuration, :class:`LeftOut` where it has no port,
    :class:`HarnessError` when it can't be made,
    and :class:`Violation` when what it shows while it is fresh has not the promised form.
    """
    run = run or CurrentRun()
    run.making()
    return build_checker(target, config, options, run)


def fresh_checker(target: Any, config: Config, options: Options, run: CurrentRun) -> Checker:
    """The same, also of a cache that breaks a rule while it is fresh: what it can do is known; it is judged later."""
    try:
        return make_checker(target, config, options, run)
    except Violation as violation:
        return checker_of(violation)


def checker_of(violation: Violation) -> Checker:
    """The checker of a cache that broke a rule while it was fresh."""
    if not isinstance(violation.fresh, Checker):
        raise violation
    return violation.fresh


def build_checker(target: Any, config: Config, options: Options, run: CurrentRun) -> Checker:
    """The same, as part of a play that is going on."""
    adapter, profile = make_adapter(target, config, run)
    if options.without:
        adapter = MethodMask(adapter, options.without)
    kind = run.checker_type or Checker
    try:
        checker = kind(
            adapter,
            config,
            profile,
            depth=options.depth,
            muted=options.muted,
            force_misuse=options.force_misuse,
            memory_mb=run.memory_mb,
        )
    except NotImplementedError as error:
        raise HarnessError(f"a fresh cache could not be observed: {raised_at(error)}") from error
    if run.met is not None:
        checker.met, checker.on_first = run.met.setdefault(config.label, set()), run.on_first
    checker.again = lambda: build_checker(target, config, options, run)
    return checker


def make_adapter(target: Any, config: Config, run: CurrentRun) -> tuple[Any, Profile]:
    """A fresh cache and its profile; raises as :func:`make_checker` does."""
    try:
        adapter = target.make(config)
        profile = target.profile
        everything = callable(getattr(adapter, NO_METHOD, None))
        declared = frozenset(map(str, getattr(target, "capabilities", ())))
        offered = capabilities_of(adapter)
        lacking = declared - offered
        partly = "" if offered else nearest(adapter)
    except (Unsupported, KeyboardInterrupt):
        raise
    except RemoteFault as fault:
        raise HarnessError(f"making the cache {fault}") from fault
    except BaseException as error:
        raise HarnessError(
            f"making the cache raised {raised_at(error)}{short_of_memory(error, run.memory_mb)}"
        ) from error
    if adapter is None:
        raise HarnessError("make() returned None, which implements no port")
    if not run.made(adapter):
        raise HarnessError(
            "making the cache returned the object of the call before; each call must build a fresh cache"
        )
    if everything:
        raise HarnessError("the adapter answers to every name, so its ports can't be told from what it lacks")
    if not offered:
        raise HarnessError(f"make() returned {type_name(adapter)}, which implements no port{partly}")
    if lacking:
        ports = "; ".join(f"{port} ({', '.join(lacked(adapter, port)) or 'no such port'})" for port in sorted(lacking))
        raise HarnessError(harmless(f"the target declares ports of which its adapter lacks methods: {ports}"))
    if port := unasked(offered, config):
        raise LeftOut(f"it takes the port {port} ({', '.join(PORTS[port])}), which the target lacks")
    if not issubclass(type(profile), Profile):
        raise HarnessError(f"the target's profile must be a Profile (got {type_name(profile)})")
    inserts = sorted(offered & {"tree", "components"})
    if profile.publish == "at_alloc" and inserts:
        told = "the profile says publish='at_alloc', of a block table, which has no insert"
        raise HarnessError(f"{told}; the adapter has the port {inserts[0]} ({', '.join(PORTS[inserts[0]])})")
    return (MethodMask(adapter, run.fenced) if run.fenced else adapter), profile


def lacked(adapter: Any, port: str) -> list[str]:
    """The methods of a port that an adapter lacks."""
    return [
        name
        for name in PORTS.get(port, ("match",) if port == "lookup" else ())
        if not callable(getattr(adapter, name, None))
    ]


def nearest(adapter: Any) -> str:
    """Of an adapter without a port what it lacks for the one that it has most of; empty if it has nothing of any."""
    lacking = {port: lacked(adapter, port) for port in PORTS}
    begun = [port for port, names in lacking.items() if len(names) < len(PORTS[port])]
    if not begun:
        return ""
    port = min(begun, key=lambda one: len(lacking[one]))
    return f"; for {port} it lacks {', '.join(lacking[port])}"


def play(
    target: Any,
    config: Config,
    options: Options,
    program: Program,
    run: CurrentRun | None = None,
    *,
    watches: bool = False,
) -> tuple[Checker, Violation | None]:
    """Run one program on a fresh cache; returns the checker and what was violated.

    ``watches``: the checker notes where state and cache first parted.
    """
    run = run or CurrentRun()
    try:
        checker = make_checker(target, config, options, run)
    except Violation as violation:
        return checker_of(violation), violation
    checker.watches_parting = watches
    if isinstance(target, recorder.Taping):
        target.watch(checker, program.began if isinstance(program, Scheduled) else ())
    run.playing(checker, options, program)
    try:
        program(checker)
    except Violation as violation:
        check_looking(checker)
        return checker, violation
    except NotImplementedError as error:
        last = checker.history[-1] if checker.history else "before the first call"
        raise HarnessError(f"{last}: {UNFILLED}{harmless(error)}") from error
    check_looking(checker)
    return checker, None


UNFILLED = "the adapter has this method, but it isn't implemented: "
"""How it is said that a method has no body yet."""


def check_looking(checker: Checker) -> None:
    """Looking at a cache must change nothing, else no call can be blamed for anything."""
    try:
        first, second = checker.observe_now(), checker.observe_now()
    except (Violation, NotImplementedError):
        return
    seen = [(one.available, one.sizes, one.free, one.cached) for one in (first, second)]
    if seen[0] != seen[1]:
        raise HarnessError("looking at the cache changes it: two looks in a row, without a call between them, differ")


def run_item(target: Any, item: Item, options: Options, run: CurrentRun | None = None) -> ItemResult:
    """Judge one item: play, and where a rule is broken shrink, mute and play again.

    ``run``: the state of this process, where somebody watches it or judges in another way.
    """
    run = run or CurrentRun()
    target = Declaring(target, item.declared) if item.declared else target
    started = monotonic()
    result = ItemResult(item=item.id, config=item.config.label)
    try:
        with _judging(item, run):
            if options.record and recorder.wanted(item):
                _recorded(target, item, options, result, run)
            else:
                _run(target, item, options, result, run)
    except Unsupported as declined:
        result.unsupported = harmless(declined) or "the target gave no reason"
        result.left_out = isinstance(declined, LeftOut)
    except HarnessError as error:
        result.error = harmless(error, 2_000)
    finally:
        run.checker = None  # which holds the run in turn: nobody but the garbage collector would let go of the cache
    result.seconds = monotonic() - started
    return result


def _judging(item: Item, run: CurrentRun) -> AbstractContextManager[None]:
    """Where a tape is driven another kind of checker judges."""
    if item.kind != "tape":
        return nullcontext()
    from kvlitmus.conformance.history.compare.driven import DrivenChecker  # which judges records by this module

    return run.judged_by(DrivenChecker)


def _recorded(target: Any, item: Item, options: Options, result: ItemResult, run: CurrentRun) -> None:
    recording = recorder.Recording(target)
    try:
        _run(recording, item, options, result, run)
    finally:
        recording.save(Path(options.record), item)


def _run(target: Any, item: Item, options: Options, result: ItemResult, run: CurrentRun) -> None:
    muted = options.muted
    if item.kind in ("litmus", "transcript") and litmus_of(item.name).page:
        item = replace(item, config=replace(item.config, page_size=litmus_of(item.name).page))
    program = _program(target, item, options, run)
    for attempt in range(1 + max(0, options.reruns)):
        now = replace(options, muted=muted)
        checker, violation = play(target, item.config, now, program, run)
        count(checker, result)
        if attempt == 0 and item.kind == "litmus" and violation is None:
            counted = checker.counted() + checker.idle()
            result.unexercised = [rule for rule in litmus_of(item.name).rules if not counted[rule]]
        if violation is None:
            return
        watches = options.taped and item.kind != "random" and not getattr(target, "plays_once", False)
        result.findings.append(finding(target, item, now, checker, violation, program, run, watches=watches))
        muted |= set(violation.rules)
        if any(rule.startswith("PORT-") for rule in violation.rules):
            return


def _program(target: Any, item: Item, options: Options, run: CurrentRun) -> Program:
    if item.kind == "schedule":
        return Scheduled(item.schedule)
    if item.kind == "tape":
        from kvlitmus.conformance.history.compare.driven import Driven  # which judges records by this module

        return Driven(item.name)
    fresh = fresh_checker(target, item.config, options, run)
    has = fresh.capabilities
    test = litmus_of(item.name) if item.kind in ("litmus", "transcript") else None
    missing = (test.needs if test is not None else needs_of(item.schedule)) - has
    if missing:
        raise LeftOut(f"{item.name} needs {', '.join(sorted(missing))}")
    if test is not None and item.kind == "transcript":
        return Scheduled(transcribed(target, item.config, options, test.program, run))
    if test is not None:
        return test.program
    if item.kind == "vector":
        return Scheduled(item.schedule)
    kinds = table(has, item.generation)
    if not kinds:
        raise LeftOut("the target has no port that a schedule could use")
    misuse = may_misuse(fresh.profile, has, item.generation)
    return Scheduled(draw(item.seed, item.ops, kinds, misuse=misuse, generation=item.generation))


def transcribed(target: Any, config: Config, options: Options, program: Program, run: CurrentRun) -> tuple[Op, ...]:
    """A schedule that makes the calls of a program as nearly as can be, and that breaks a rule if any such does."""
    transcript = Transcript(program)
    play(target, config, options, transcript, run)
    ops: tuple[Op, ...] = ()
    for ops in transcript.variants():
        if play(target, config, options, Scheduled(ops), run)[1] is not None:
            break
    return ops


def count(checker: Checker, result: ItemResult) -> None:
    """Add what a play has brought to the result of its item."""
    result.steps += checker.steps
    result.evaluated += checker.counted()
    result.unknown += checker.unknown()
    result.idle += checker.idle()
    for rule in ("PORT-01", "PORT-02", "PORT-03", "PORT-04"):
        if PIPED not in checker.capabilities or rule not in UNSEEN:
            result.evaluated[rule] += checker.steps
    result.reached += checker.reached
    result.capabilities = sorted(checker.capabilities)
    result.declined = sorted({*result.declined, *checker.declined})


class Found(NamedTuple):
    """How a play broke a rule; ``tape``: what it is on, if it is on one."""

    checker: Checker
    violation: Violation
    tape: recorder.Taping | None = None

    def told(self) -> tuple[Any, ...]:
        """All that is said of it: the calls, the rules, and the facts of the first."""
        rule = self.checker.rules[self.violation.rules[0]]
        facts = seen_texts(rule, self.checker.names, self.violation.facts)
        return list(self.checker.history), self.violation.rules, facts


def shrunk(target: Any, case: Case, rule: str, options: Options, run: CurrentRun) -> tuple[Shrunk, Found | None]:
    """A shorter schedule that breaks the same rule, as far as trials reach, and how it broke it."""
    last: Found | None = None

    def still_fails(case: Case, most: int | None) -> Failed | None:
        nonlocal last
        naming = Naming()
        program = Scheduled(case.ops, most, naming=naming)
        try:
            played, other = play(target, case.config, options, program, run)
        except (HarnessError, Unsupported):
            return None
        if other is None or rule not in other.rules:
            return None
        if not needs_of(case.ops[: len(program.began)]) <= played.capabilities:
            return None  # what isn't asked for here isn't judged here: no rule would say what was wrong first
        last = Found(played, other)
        return Failed(len(played.history), tuple(program.began), naming)

    def spelt_out(case: Case, failed: Failed) -> Sequence[Op] | None:
        settling = len(failed.began) > len(case.ops)
        if not (settling or any(op.kind in COMPOSITE for op in case.ops)):
            return None
        naming = Naming()
        scheduled = Scheduled(case.ops, failed.calls, naming=naming)
        transcript = Transcript(scheduled, lambda: len(scheduled.began) - 1)
        try:
            play(target, case.config, options, transcript, run)
        except HarnessError:
            return None
        return transcript.spelt_out(naming.numbered(case.ops))

    trials, seconds = options.shrink_trials, options.shrink_seconds
    return shrink(case, still_fails, trials=trials, seconds=seconds, spell_out=spelt_out), last


def watched(
    target: Any, config: Config, options: Options, program: Program, run: CurrentRun, known: Found | None
) -> Found | None:
    """A play once more, to see where state and cache part; ``None`` where it breaks nothing this time.

    It is on a tape, if that is wanted and all is as it was ``known`` without one: an odd answer may be one that can't
    be written down, and then the tape's own failure must not pass for the cache's.
    """
    if options.taped and known is not None:
        tape = recorder.Taping(target)
        try:
            checker, violation = play(tape, config, options, program, run, watches=True)
        except (HarnessError, Unsupported):
            violation = None
        if violation is not None and (found := Found(checker, violation, tape)).told() == known.told():
            return found
    checker, violation = play(target, config, options, program, run, watches=True)
    return None if violation is None else Found(checker, violation)


@contextmanager
def looking_alone(target: Any, *, ended: bool) -> Iterator[None]:
    """Behind a pipe looks come with an answer: where the process ``ended``, each is made alone, to see which did it."""
    before = target.look_alone(LOOKS) if ended else ()
    try:
        yield
    finally:
        if ended:
            target.look_alone(before)


def under_usual_policy(
    target: Any, case: Case, found: Found, options: Options, run: CurrentRun
) -> tuple[Case, Found] | None:
    """The same under the usual eviction policy, if the same call breaks the same rules with the same facts there.

    So another policy is part of a counterexample only where it matters.  That the rule breaks there too is not enough:
    something else may be wrong with that policy.
    """
    usual = case._replace(config=replace(case.config, policy=Config().policy))
    if usual == case:
        return None
    tape = None if found.tape is None else recorder.Taping(target)
    try:
        checker, violation = play(tape or target, usual.config, options, Scheduled(usual.ops), run, watches=True)
    except (HarnessError, Unsupported):
        return None
    if violation is None:
        return None
    other = Found(checker, violation, tape)
    return (usual, other) if (other.told(), checker.parted) == (found.told(), found.checker.parted) else None


def finding(
    target: Any,
    item: Item,
    options: Options,
    checker: Checker,
    violation: Violation,
    program: Program,
    run: CurrentRun,
    *,
    watches: bool = False,
) -> Finding:
    """A counterexample, shrunk if it came from a schedule and that is wanted.

    ``watches``: it is played once more, to see where state and cache part, even if it isn't shrunk.
    """
    found, drawn, first = Found(checker, violation), checker.steps, violation.rules[0]
    ops = tuple(program.ops) if isinstance(program, Scheduled) else ()
    shrinks = bool(ops) and options.shrink_trials > 0
    best = Shrunk(Case(item.config, ops), "it was not shrunk" if ops else "")
    known: Found | None = found
    if shrinks:
        best, known = shrunk(target, best.case, first, options, run)
    if watches or options.shrink_trials > 0:
        with looking_alone(target, ended=PIPED in checker.capabilities and first == "PORT-02"):
            again = watched(target, best.case.config, options, Scheduled(best.case.ops) if ops else program, run, known)
        if again is not None and first in again.violation.rules:
            found = again
            if ops and (usual := under_usual_policy(target, best.case, found, options, run)) is not None:
                best, found = best._replace(case=usual[0]), usual[1]
        elif shrinks:
            best = Shrunk(Case(item.config, ops), NOT_AGAIN)
    checker, violation = found.checker, found.violation
    rule = checker.rules[violation.rules[0]]
    return Finding(
        rules=list(violation.rules),
        item=item.id,
        config=best.case.config,
        call=harmless(violation.call),
        calls=texts_of(checker),
        allowed=allowed_text(rule, checker.names, violation.facts),
        seen=seen_texts(rule, checker.names, violation.facts),
        detail=harmless(violation.detail),
        schedule=list(best.case.ops),
        minimal=best.minimal,
        not_minimal=best.stopped,
        litmus=item.name if item.kind == "litmus" else "",
        drawn_steps=drawn,
        steps=checker.steps,
        after=list(checker.passed_over),
        parted=[f"call {at}: {what}" for at, what in checker.parted],
        tape=taped(found, len(best.case.ops)),
    )


def texts_of(checker: Checker) -> list[str]:
    """The calls of a play, as findings tell them."""
    return [harmless(call) + checker.begun.get(at, "") for at, call in enumerate(checker.history, 1)]


def taped(found: Found, ops: int) -> list[Line]:
    """The tape of a play, if it is on one; ``ops``: how many operations its schedule had."""
    checker, violation, tape = found
    if tape is None:
        return []
    verdicts: list[Json] = [
        {
            "rule": id,
            "sentence": checker.rules[id].text,
            "allowed": allowed_text(checker.rules[id], checker.names, violation.facts),
            "seen": dict(seen_texts(checker.rules[id], checker.names, violation.facts)),
        }
        for id in violation.rules
    ]
    return tape.tape(texts_of(checker), ops, verdicts)
