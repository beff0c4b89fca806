"""Recorded steps, judged again: by the rules of this tree, without the cache.

The items are played once more: the same programs and schedules make the same calls, and a :class:`Played` answers
what was recorded, and does what the cache did with what the suite had lent it.  A call
that was not recorded, because a move has changed or the run ended before, ends the item: nothing is guessed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

from kvlitmus.conformance.history.playback import exception_of
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.tape.calls import CALLS, DOES, LENT, LOOKS, READS, TOLD_ONCE, TURNS, Lent, look_key
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.forms import Form, FormError, Json, form_of
from kvlitmus.conformance.tape.lines import Header, Step, TapeError, TapeReader, encoded
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.recorder import DOING
from kvlitmus.spec.interface.ranks import GroupLost

PATIENCE = 20.0
"""Seconds for which a put waits until another thread has read what it had read then."""

_BYTES, _NUMBERS = form_of(bytes), form_of(Sequence[int])


class NotRecorded(NotImplementedError):
    """A call that the recorded run did not make."""


class Play:
    """One recorded play, and how far it has been answered.

    ``looks``: what was looked at after the step where it is.  ``reached``: is told of each step that it comes to.
    """

    def __init__(self, steps: Sequence[Step], reached: Callable[[int], None]) -> None:
        self._steps = {one.number: one for one in steps}
        self._reached = reached
        self._changes = Looks()
        self.looks: dict[str, list[Json]] = {}
        self.go_on(0)

    def step(self, number: int) -> Step | None:
        """The step of this number, if it was recorded."""
        return self._steps.get(number)

    def go_on(self, number: int) -> None:
        """The play is after this step now."""
        step = self._steps.get(number)
        self._reached(number)
        self.looks = self._changes.read(step.looks) if step is not None else {}


class Read:
    """The handle that another thread uses: each question is answered as it was, one answer after the other."""

    def __init__(self, reads: Sequence[tuple[Any, Any]]) -> None:
        self._left = {key: [answer for asked, answer in reads if asked == key] for key, _ in reads}
        self._last: dict[Any, Any] = {}
        self.waiting = len(reads)

    def store_get(self, keys: Sequence[str], size: int) -> Any:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`."""
        key = (tuple(keys), size)
        if self._left.get(key):
            self._last[key] = self._left[key].pop(0)
            self.waiting -= 1
        answer = self._last.get(key, [None for _ in keys])
        if isinstance(answer, BaseException):
            self.waiting = 0  # the other thread has ended
            raise answer
        return answer


class Played:
    """The ports of a recorded cache: answers as recorded.

    The calls must be those that were recorded, in their order.  Looking changes nothing, so between two calls the
    checker may look at what was looked at then, in any order and as often as it likes; events are told once.
    """

    def __init__(self, methods: Sequence[str], plays: Sequence[Play]) -> None:
        self._plays = plays
        self._operands = Operands()
        self._answers: list[Any] = [None]
        self._seen: Counter[str] = Counter()
        self._shown: dict[str, tuple[Json, Any]] = {}
        self._lent: dict[str, Any] = {}
        self._read: Read | None = None
        for name in methods:
            setattr(self, name, partial(self._look if name in LOOKS else self._answer, name))

    @property
    def at(self) -> int:
        """The step that was answered last."""
        return self._operands.step

    def _look(self, name: str, *args: Any) -> Any:
        key = look_key(name, CALLS[name].arguments(args, {}, self._operands)[0])
        for play in self._plays:
            if (answers := play.looks.get(key)) is not None:
                at, self._seen[key] = self._seen[key], self._seen[key] + 1
                if at >= len(answers) and name in TOLD_ONCE:
                    break
                told = answers[min(at, len(answers) - 1)]
                if (shown := self._shown.get(key)) is None or shown[0] is not told:  # else nothing has changed
                    shown = self._shown[key] = told, self._told(CALLS[name].answer, told)
                return raised(shown[1])
        raise NotRecorded(f"after call {self._operands.step} of the recorded play nobody looked at this: {name}")

    def _answer(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in LENT:
            self._lent |= dict.fromkeys(DOING[name], args[LENT[name]])
        self._operands.step = number = self._operands.step + 1
        self._seen.clear()
        self._plays = [
            play
            for play in self._plays
            if (step := play.step(number)) is not None and step.call == name and self._takes(step, args, kwargs)
        ]
        if not self._plays:
            raise NotRecorded(f"call {number} of the recorded play is not this one: {name}")
        for play in self._plays:
            play.go_on(number)
        if self._read is not None:
            self._wait(self._read)
        step = cast("Step", self._plays[0].step(number))
        for what, *rest in cast("list[list[Json]]", step.did):
            self._do(cast("str", what), rest, args)
        answer: Any = None
        try:
            answer = self._made(step, args)
            return answer
        finally:
            self._answers.append(answer)

    def _made(self, step: Step, args: Sequence[Any]) -> Any:
        if step.raised is not None:
            raise exception_at(step.raised)
        told = step.answer
        if step.call == TURNS and type(told) is dict and "turns" in told:
            return self._turns(told)
        if type(told) is dict and told.keys() == {"reads"}:
            pairs = cast("list[list[list[Json]]]", told["reads"])
            self._read = Read([(self._asked(asked), self._told(READS.answer, answer)) for asked, answer in pairs])
            return self._read
        if step.call == "raw_array" and told == {"@": step.number}:
            array = list(args[0])
            self._operands.noted(step.call, array)
            return array
        return CALLS[step.call].told(told, self._operands)

    def _asked(self, asked: list[Json]) -> tuple[tuple[str, ...], int]:
        (keys, size), _ = READS.given(asked, {}, self._operands)
        return tuple(cast("Sequence[str]", keys)), cast("int", size)

    def _takes(self, step: Step, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether these are the recorded arguments."""
        if len(step.args) != len(args) or list(step.kwargs) != list(kwargs):
            return False
        try:
            given, named = CALLS[step.call].given(step.args, step.kwargs, self._operands)
        except FormError:  # what it refers to was given in another play
            return False
        return all(map(same, given, args)) and all(map(same, named.values(), kwargs.values()))

    def _told(self, form: Form, told: Json) -> Any:
        """A value, or an exception that is to be raised."""
        if type(told) is dict and told.keys() == {"raised"}:
            return exception_at(str(told["raised"]))
        return form.read(told, self._operands)

    def _turns(self, told: Mapping[str, Json]) -> Generator[Any, Any, Any]:
        """What a rank did, step by step; whoever resumes it with something else is another run."""
        enters, resumes, returns = CALLS[TURNS].turns
        went = cast("list[Json]", told["turns"])
        closed = "closed" in told
        for at in range(0, len(went), 2):
            then = self._told(resumes, went[at + 1]) if at + 1 < len(went) else None
            try:
                got: Any = yield self._told(enters, went[at])
            except GroupLost as lost:
                got = lost
            if at + 1 == len(went) and closed:
                raise NotRecorded("a rank goes on that had not gone on in the recorded play")
            if not same(then, got) and not (isinstance(then, BaseException) and isinstance(got, GroupLost)):
                raise NotRecorded("a rank is resumed with something else than in the recorded play")
        if closed:
            raise NotRecorded("a rank goes on that had not gone on in the recorded play")
        if "raised" in told:
            raise exception_at(str(told["raised"]))
        return returns.read(told["returned"], self._operands)

    def _do(self, what: str, given: Sequence[Json], args: Sequence[Any]) -> None:
        """What the cache did meanwhile with what the suite had lent it, or had been given by it."""
        if what == "fill":
            argument, at, filled = cast("tuple[int, int, Json]", given)
            args[argument][at][:] = _BYTES.read(filled, self._operands)
        elif what == "wrote":
            number, wrote = cast("tuple[int, Json]", given)
            for one in (answer := self._answers[number], *(answer if isinstance(answer, tuple) else ())):
                if type(one) is list:
                    one[:] = cast("list[int]", _NUMBERS.read(wrote, self._operands))
        else:
            asked, _ = DOES[what].given(cast("list[Json]", given[0]), {}, self._operands)
            try:
                getattr(self._lent[what], what)(*asked)
            except Exception:  # noqa: BLE001  storage that raises on demand: the recorded cache has met that
                return

    def _wait(self, read: Read) -> None:
        """Another thread reads while this one puts: it sees all that it saw then before this one goes on."""
        until = time.monotonic() + PATIENCE
        while read.waiting > 0 and time.monotonic() < until:
            time.sleep(0.0005)
        self._read = None


def same(one: Any, other: Any) -> bool:
    """Whether two arguments say the same; a list says what a tuple does, and what is lent is not looked at."""
    if isinstance(one, Lent):
        return True
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        alike = type(one) is type(other) or (type(one) in (list, tuple) and type(other) in (list, tuple))
        return alike and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and bool(one == other)


def raised(told: Any) -> Any:
    """A value; raises an exception that is one."""
    if isinstance(told, BaseException):
        raise told
    return told


def exception_at(text: str) -> BaseException:
    """An exception that reads like the one that was recorded."""
    for kind in (NotImplementedError, GroupLost):
        if text.partition(":")[0] == kind.__name__:
            return kind(*text.split(": ", 1)[1:])
    return exception_of(text)


class Record(NamedTuple):
    """An item, and its plays: each cache that was made for it, but for those that another play holds as well."""

    item: Item
    plays: list[tuple[Header, list[Step]]]

    @property
    def tape(self) -> bytes:
        """The same as it is written."""
        return b"".join(
            encoded(line) for header, steps in self.plays for line in (header.data, *(step.data for step in steps))
        )


class Again:
    """A target that plays one recorded item."""

    plays_once = True

    def __init__(self, record: Record) -> None:
        self._record = record
        self._reached = [0] * len(record.plays)
        header, _ = record.plays[0]
        self._methods = [*(name for port in sorted(header.ports) for name in PORTS[port]), *header.methods]
        self.profile = header.profile

    def make(self, config: Config) -> Played:
        """The cache as it was recorded, from the beginning."""
        plays = [Play(steps, partial(self._come, at)) for at, (_, steps) in enumerate(self._record.plays)]
        return Played(self._methods, plays)

    def _come(self, play: int, number: int) -> None:
        self._reached[play] = max(self._reached[play], number)

    @property
    def judged(self) -> int:
        """How many of the recorded steps were made again."""
        return sum(self._reached)


def records(reader: TapeReader, *, others: bool = False) -> Iterator[Record]:
    """The items of a tape one by one; raises :class:`TapeError`.

    ``others``: a play that names no item, of an engine for instance, is one by itself.
    """

    def played() -> Iterator[tuple[Item, tuple[Header, list[Step]]]]:
        for number, (header, steps) in enumerate(reader.plays(), 1):
            item = header.item
            if item is None and others:
                item = Item(kind="tape", config=header.config, name=f"play-{number}.jsonl")
            if item is None:
                raise TapeError(reader.file, header.line, "an item in the header", "none")
            for step in (kept := list(steps)):
                if step.call and step.call not in CALLS:
                    raise TapeError(reader.file, step.line, "a call of the ports", repr(step.call))
            yield item, (header, kept)
        if reader.torn is not None:
            raise TapeError(reader.file, reader.torn[0], "a whole line", f"half a line: {reader.torn[1]}")

    for item, same_item in groupby(played(), lambda one: one[0]):
        yield Record(item, [play for _, play in same_item])


@dataclass(slots=True, kw_only=True)
class JudgedSteps:
    """What came of recorded steps.

    ``steps``: calls that were judged.  ``judged``, ``total``: of the tape's steps those that were made again, and all.
    ``broken``: rules, each with the first item that breaks it.  ``evaluated``: how often each rule was.  ``ended``:
    items that could not be judged to their end, each with the reason.
    """

    header: Header
    items: int = 0
    steps: int = 0
    judged: int = 0
    total: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    evaluated: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)


def judge(path: Path) -> JudgedSteps:
    """Judge the recorded steps of a file; raises :class:`TapeError` for what is no such file."""
    with TapeReader(str(path)) as reader:
        outcome = JudgedSteps(header=reader.header)
        options = Options(force_misuse=reader.header.force_misuse, shrink_trials=0)
        for record in records(reader):
            target = Again(record)
            result = engine.run_item(target, record.item, options)
            outcome.items += 1
            outcome.judged += target.judged
            outcome.total += sum(max((one.number for one in steps), default=0) for _, steps in record.plays)
            outcome.steps += result.steps
            outcome.evaluated += result.evaluated
            for finding in result.findings:
                for rule in finding.rules:
                    outcome.broken.setdefault(rule, record.item.id)
            if result.error:
                outcome.ended[record.item.id] = result.error
    return outcome
