"""Moments: after each step of a play what the reference has answered, and what each of the two shows.

A tape is judged once more, without the cache; the judge knows what calls and answers amount to.  Where no more can be
said (a call has broken the contract, nothing was seen, or the reference has chosen otherwise), the moments end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from kvlitmus.conformance.adapters.reference.flat import ReferenceCache, ReferencePorts
from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.beside.driven import driven
from kvlitmus.conformance.beside.facts import facts_of
from kvlitmus.conformance.beside.follower import Follower, said_below
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.history.compare.names import GIVEN_BACK
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.run.engine import HarnessError, Program, Scheduled, play
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.tape.calls import CALLS, LENT, TURNS
from kvlitmus.conformance.tape.changes import Looks, exact
from kvlitmus.conformance.tape.driver import Driver
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Header, Step, TapeError, TapeReader, encoded
from kvlitmus.conformance.tape.operands import GIVES, Operands
from kvlitmus.conformance.tape.played import Again, Record
from kvlitmus.conformance.tape.written import Line, raised_in
from kvlitmus.conformance.viewer.plain import fields, items
from kvlitmus.reference.prefix.choose import NO_CHOICE, Choice, counted
from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.law.rule import in_force
from kvlitmus.spec.law.step import Step as Made
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.calls import Compute
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Advance, EvictHost, Settled, Tick
from kvlitmus.spec.words.policies import TICKS_AFTER_POLLS
from kvlitmus.spec.words.units import PageNo, Slot, pages_in_order

UNMADE = frozenset({"poke", "write"})
"""Calls of a step that the caller makes by itself."""

HARMLESS = UNMADE | {"scribble", "shares_free_list"}
"""Calls that change nothing in a correct cache: what the caller writes is its own, and a question is a question."""


LOCAL = "ranks_local"
"""The call by which something happens to one rank alone."""

LOAD = "component_load"
"""The call that answers for which boundary it loads."""

MOST_STEPS = 4_000
"""A play of more steps is no counterexample that anybody reads."""


class Moment(NamedTuple):
    """What is known after a step.

    ``answers``: what the reference answered, by the step that asked; no answer of a call that several steps made.
    ``parts``: what the two differ in: what it is about, what the reference has, and what the cache has; nothing where
    nobody looked at the cache.  ``left``: the reference has chosen otherwise, and is elsewhere from here on.
    """

    answers: dict[int, Json]
    parts: list[tuple[str, str, str]] | None
    left: bool = False


def moments_of(header: Mapping[str, Json], steps: Sequence[Mapping[str, Json]]) -> dict[int, Moment]:
    """The moments of a play by step; none of one that can't be judged again, or is very long."""
    if not 0 < len(steps) <= MOST_STEPS:
        return {}
    try:
        with TapeReader("a play", data=b"".join(map(encoded, (header, *steps)))) as reader:
            found, told = next(iter(reader.plays()))
            return dict(moments(found, list(told)))
    except (TapeError, FormError):
        return {}


def filled(header: Line, steps: Sequence[Line]) -> list[Line]:
    """The steps with the answers of the reference that differ from the cache's, and with the one to the last call."""
    told = [one.answers for one in moments_of(header, steps).values() if not one.left]
    found = {step: answer for answers in told for step, answer in answers.items()}
    first = 1 if steps and "call" in steps[0] else 0
    made: list[Line] = []
    for number, step in enumerate(steps, first):
        bare = {key: value for key, value in step.items() if key != "expected"}
        last = number == first + len(steps) - 1
        if number in found and (last or "raised" in step or found[number] != step.get("answer")):
            at = list(bare).index("answer" if "answer" in bare else "raised") + 1
            parts = list(bare.items())
            bare = dict([*parts[:at], ("expected", found[number]), *parts[at:]])
        made.append(bare)
    return made


def moments(header: Header, steps: Sequence[Step]) -> Iterator[tuple[int, Moment]]:
    """The same step by step; raises :class:`FormError` for a look that can't be read."""
    looks, seen, last = Looks(), dict[int, dict[str, Json]](), dict[str, Json]()
    for step in steps:
        last = {**last, **{key: answers[-1] for key, answers in looks.read(step.looks).items()}}
        seen[step.number] = last
    config, by_number = header.config, {step.number: step for step in steps}
    if config.components or config.pool in ("ranks", "sparse", "store"):
        yield from of_driven(header, steps, seen)
        return
    for number, one in Followed(header, steps).found.items():
        yield number, Moment(one.answers, parts_of(header, by_number[number], one.looks, seen[number]))


def of_driven(
    header: Header, steps: Sequence[Step], seen: Mapping[int, Mapping[str, Json]]
) -> Iterator[tuple[int, Moment]]:
    """The moments of a family that is driven, as long as the reference is where the cache is.

    In what they differ where no rule is broken is a choice; but a sparse pool or a store has none, and there it may be
    what a rule says that was broken before.
    """
    by_number = {step.number: step for step in steps}
    finding = header.data.get("finding")
    chooses = bool(header.config.components) or header.config.pool == "ranks"
    broken_before = not chooses and isinstance(finding, dict) and bool(finding.get("after"))
    for number, one in driven(header, steps, seen):
        step = by_number[number]
        parts = parts_of(header, step, one.looks, seen[number])
        answers: dict[int, Json] = {}
        differs = False
        if step.call and not (step.raised or "").startswith("NotImplementedError"):
            differs = not alike(step, one.answer)
            answers = {number: with_handle(step, one.answer) if differs else step.answer}
        if (parts or differs) and not broken_before and "verdicts" not in step.data:
            yield number, Moment(answers if differs else {}, parts, left=True)
            return
        yield number, Moment(answers, parts)


def parts_of(
    header: Header, step: Step, mine: Mapping[str, Json], theirs: Mapping[str, Json]
) -> list[tuple[str, str, str]] | None:
    """In what two differ, if anybody looked at what the cache holds after this step: of a store nobody can."""
    if not step.looks or header.config.pool == "store":
        return None
    table = header.profile.duplicates == "kept"
    own, other = (facts_of(looks, header.config, table=table) for looks in (mine, theirs))
    return own.beside(other)


def alike(step: Step, answer: Json) -> bool:
    """Whether the reference answered as the cache did, but for what is a cache's own affair."""
    if step.raised is not None:
        return raised_in(answer) is not None
    if step.call == LOCAL:
        return True  # what ended with it is the cache's to say
    if step.call == TURNS:
        one, other = decided(step.answer), decided(answer)
        return all(one[what] == other[what] for what in one if what in other)
    return bare(step.call, step.answer) == bare(step.call, answer)


def decided(told: Json) -> dict[str, Json]:
    """What a rank decided, of each kind; of what a cache says nothing it need not decide."""
    decisions = items(fields(told).get("returned"))
    return {
        exact([fields(one).get("kind"), fields(one).get("of")]): fields(one).get("prefixes", []) for one in decisions
    }


def bare(call: str, told: Json) -> Json:
    """An answer without the handle or receipt in it."""
    told = full(told)
    if call in GIVEN_BACK and type(told) is dict:  # of one pool it doesn't matter to which component it belonged
        return [*sorted(place for some in told.values() for place in cast("list[int]", some))]
    where = GIVES.get(call)
    if call == LOAD and type(told) is list and told[:1] == [None]:
        return [None, *told[2:]]  # of nothing that is loaded no boundary says anything
    if type(told) is list and type(where) is int and where < len(told):
        given = call == "component_match" or told[where] is not None
        return [*told[:where], given, *told[where + 1 :]]
    return told


def with_handle(step: Step, answer: Json) -> Json:
    """The reference's answer with the cache's handle or receipt, where both gave one."""
    where, theirs = GIVES.get(step.call), step.answer
    if type(where) is not int or type(answer) is not list or type(theirs) is not list:
        return answer
    if where >= min(len(answer), len(theirs)) or answer[where] is None or theirs[where] is None:
        return answer
    return [*answer[:where], theirs[where], *answer[where + 1 :]]


def full(told: Json) -> Json:
    """An answer without components of which there is nothing."""
    if type(told) is dict:
        return {name: one for name, one in told.items() if one not in ([], 0)}
    return [full(one) if type(one) is dict else one for one in told] if type(told) is list else told


class Shown(NamedTuple):
    """What the reference answered, by step, and what it shows then."""

    answers: dict[int, Json]
    looks: dict[str, Json]


class Followed:
    """The reference that follows a flat cache or a hierarchy; ``found``: what it shows, by step."""

    def __init__(self, header: Header, steps: Sequence[Step]) -> None:
        self.found: dict[int, Shown] = {}
        self.steps = {step.number: step for step in steps}
        self.at = self.last = 0
        self.adapter: ReferencePorts | None = None
        self.follower: Follower | None = None
        program = None if header.item is None else program_of(header.item)
        if header.item is None or program is None:
            return
        self.target = Again(Record(header.item, [(header, list(steps))]))
        followed = self

        class Watching(Checker):
            """A judge that tells what it knows."""

            def compute(self, call: Compute) -> None:
                """Note, and compute."""
                super().compute(call)
                followed.computed(self, call)

            def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
                """Note, and judge."""
                followed.judged(self, inputs)
                super().judge(occasions, inputs, unknown)

        finding = header.data.get("finding")
        told = cast("list[Json]", finding.get("rules") or ()) if isinstance(finding, dict) else ()
        rules = {in_force(str(rule)) for rule in told}
        options = Options(
            depth=header.depth,
            muted=frozenset(all_rules().keys() - rules) if rules else frozenset(),
            force_misuse=header.force_misuse,
            shrink_trials=0,
        )
        try:
            play(self.target, header.config, options, program, CurrentRun(Watching))
        except (HarnessError, Unsupported, FormError):
            return
        if not header.config.tiered:
            adapter = self.shows(header)
            adapter.state = self.state_of(adapter)
            self.drive(adapter)

    def beside(self, checker: Checker) -> tuple[Follower, ReferencePorts]:
        """The follower, and the ports that show what it has."""
        if self.follower is None or self.adapter is None:
            self.follower = Follower(checker.setting)
            kind = TieredReference if checker.config.tiered else ReferenceCache
            self.adapter = kind(checker.config, checker.profile, checker.names)
        return self.follower, self.adapter

    def shows(self, header: Header) -> ReferencePorts:
        """The ports that show what the reference has; of a fresh one, where no step was judged."""
        return self.adapter or ReferenceCache(header.config, header.profile)

    def state_of(self, adapter: ReferencePorts) -> State:
        """What the reference has."""
        return self.follower.state if self.follower is not None else adapter.state

    def computed(self, checker: Checker, call: Compute) -> None:
        """The caller has computed more of a request."""
        follower, _ = self.beside(checker)
        try:
            follower.compute(call)
        except (ValueError, KeyError):
            self.at = -1

    def judged(self, checker: Checker, inputs: tuple[Any, ...]) -> None:
        """A step is about to be judged: the reference makes it, too."""
        setting, state, expected, _, call, answer, before, after, *_ = inputs
        known = isinstance(expected, State) and isinstance(after, Seen) and after.seen
        if self.at < 0 or call is None or isinstance(call, Compute):
            return
        if isinstance(call, Settled):
            self.settled(checker)
            return
        if not known:
            self.at = -1 if expected is not None or not isinstance(after, Seen | None) else self.at
            return
        follower, adapter = self.beside(checker)
        number, start, self.at = self.target.made[-1].at, self.at, self.target.made[-1].at
        seen = Made(call, answer, before, after)
        try:
            step = follower.make(seen, state)
        except (ValueError, KeyError):
            try:
                step = follower.perform(seen)  # no correct cache chooses so: the reference chooses for itself
            except (ValueError, KeyError):
                if not isinstance(call, Advance):
                    self.at = -1
                    return
                step = Made(call, None, follower.state, follower.state)  # of a job that the reference hasn't
        self.last = number
        adapter.state = step.after._replace(device=counted(step.after, setting))
        made = [at for at in range(start + 1, number + 1) if self.steps[at].call not in UNMADE]
        answers: dict[int, Json] = {}
        if len(made) == 1:
            untold = isinstance(call, EvictHost) and answer is None
            mine = untold or said_below(step, setting) == said_below(seen, setting)
            told = self.steps[made[0]]
            answers[made[0]] = told.answer if mine and told.raised is None else written(told.call, step.answer)
        self.found[number] = Shown(answers, looks_of(adapter))

    def settled(self, checker: Checker) -> None:
        """All is delivered; where the cache breaks a rule by how it is then, the reference has come to rest.

        Until then it is a cache's to choose which tick takes note of what is over.
        """
        number = self.target.made[-1].at
        if number not in self.found or "verdicts" not in self.steps[number].data:
            return
        follower, adapter = self.beside(checker)
        for _ in range(TICKS_AFTER_POLLS):
            follower.state = perform(follower.state, checker.setting, Tick()).after
        adapter.state = follower.state
        self.found[number] = self.found[number]._replace(looks=looks_of(adapter))

    def drive(self, adapter: ReferencePorts) -> None:
        """Make the calls behind the last step that was judged: one has broken the contract, or was not answered."""
        driver = Choosing(adapter)
        for number in range(self.last + 1, max(self.steps, default=0) + 1):
            step = self.steps[number]
            if step.call in HARMLESS:
                self.found[number] = Shown({}, looks_of(adapter))
                continue
            if not callable(getattr(adapter, step.call, None)) or step.call in LENT:
                continue
            try:
                told, raised = driver.make(step, *driver.arguments(step, step.args, step.kwargs))
            except FormError:  # a handle: the reference has others, and refuses what was given back already
                if number == self.last + 1 and step.call == "unlock":
                    continue
                return
            answer: Json = told if raised is None else {"raised": raised}
            self.found[number] = Shown({number: answer}, looks_of(adapter))


class Choosing(Driver):
    """Makes calls on the reference, with the pages that the cache took where that is a choice."""

    def called(self, step: Step, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Make the call of a step; by a choice of the reference's own, where no correct cache chooses so."""
        self.adapter.choice = Choice(pages=granted(step.answer, self.adapter.size))
        answer, error = self.attempt(make)
        self.adapter.choice = NO_CHOICE
        return self.attempt(make) if isinstance(error, ValueError) else (answer, error)


def granted(answer: Json, size: int) -> tuple[PageNo, ...] | None:
    """The pages in an answer that is slots."""
    if type(answer) is not list or not all(type(slot) is int and slot >= 0 for slot in answer):
        return None
    return tuple(pages_in_order([Slot(slot) for slot in cast("list[int]", answer)], size))


def written(call: str, answer: Any) -> Json:
    """An answer of the reference's; handles are its own."""
    if isinstance(answer, Hit):
        answer = answer._replace(handle=None)
    return CALLS[call].answer.write(answer, Operands())


def looks_of(adapter: ReferencePorts) -> dict[str, Json]:
    """What the reference shows."""
    tiered = isinstance(adapter, TieredReference)
    names = ["available", "sizes", *(("tiers", "jobs", "host_available", "occupied") if tiered else ("view",))]
    return {name: CALLS[name].answer.write(getattr(adapter, name)(), Operands()) for name in names}


def program_of(item: Item) -> Program | None:
    """What was played; nothing, where this version doesn't know."""
    if item.kind in ("schedule", "vector"):
        return Scheduled(item.schedule)
    known = all_litmus()
    return known[item.name].program if item.kind == "litmus" and item.name in known else None
