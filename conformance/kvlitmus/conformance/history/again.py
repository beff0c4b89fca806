"""Recorded steps, judged again: by the rules of this tree, without the cache.

The items are played once more: the same programs and schedules make the same calls, and a :class:`Played` answers
what was recorded, and does what the cache did with what the suite had lent it.  A call
that was not recorded, because a move has changed or the run ended before, ends the item: nothing is guessed.
"""

from __future__ import annotations

import json
import lzma
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kvlitmus.conformance.history.playback import exception_of
from kvlitmus.conformance.history.steps import FORMAT, LENT, LOOKS, TOLD_ONCE, Heading, Record, Step, looks_of
from kvlitmus.conformance.history.values import Operands, Reader, same
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Options, item_from_json, profile_from_json
from kvlitmus.spec.interface.ranks import GroupLost

PATIENCE = 20.0
"""Seconds for which a put waits until another thread has read what it had read then."""

KEYWORD = 2
"""The arguments that go by name take two places in a row: the name, and the value's number."""


class NotRecorded(NotImplementedError):
    """A call that the recorded run did not make."""


class Play:
    """One recorded play, and how far it has been answered."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = [[*step, [], []][:5] if len(step) < 5 else step for step in steps]
        self.looks = [looks_of(step[4]) for step in self.steps]


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

    def __init__(self, methods: Sequence[str], plays: Sequence[Play], reader: Reader) -> None:
        self._methods, self._plays, self._reader = methods, plays, reader
        self._numbers = {name: at for at, name in enumerate(methods)}
        self._operands = Operands()
        self._objects: dict[int, Any] = {}
        self._at = 0
        self._seen: Counter[tuple[int, int]] = Counter()
        self._lent: dict[str, Any] = {}
        self._read: Read | None = None
        for name in methods:
            setattr(self, name, partial(self._look if name in LOOKS else self._answer, name))

    def _look(self, name: str, *args: Any) -> Any:
        number = self._numbers[name]
        for play in self._plays:
            for key, answers in play.looks[self._at].items():
                if key[0] == number and self._takes(key[1], args, {}):
                    at, self._seen[key] = self._seen[key], self._seen[key] + 1
                    if at >= len(answers) and name in TOLD_ONCE:
                        break
                    return self._value(answers[min(at, len(answers) - 1)])
        raise NotRecorded(f"after call {self._at} of the recorded play nobody looked at this: {name}")

    def _answer(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in LENT:
            at, methods = LENT[name]
            self._lent |= dict.fromkeys(methods, args[at])
        number = self._numbers[name]
        self._at = at = self._at + 1
        self._seen.clear()
        self._plays = [
            play
            for play in self._plays
            if at < len(play.steps) and play.steps[at][0] == number and self._takes(play.steps[at][1], args, kwargs)
        ]
        if not self._plays:
            raise NotRecorded(f"call {at} of the recorded play is not this one: {name}")
        if self._read is not None:
            self._wait(self._read)
        _, _, answered, did, _ = self._plays[0].steps[at]
        for what, *rest in did:
            self._do(what, rest, args)
        answer: Any = None
        try:
            answer = self._made(name, answered, args)
            return answer
        finally:
            self._operands.add(name, answer)

    def _made(self, name: str, answered: int, args: Sequence[Any]) -> Any:
        row = self._reader.rows[answered]
        kind = row[0] if type(row) is list else ""
        if kind == "turns":
            return self._turns(row[1:-2], *row[-2:])
        if kind == "reads":
            pairs = zip(row[1::2], row[2::2], strict=True)
            self._read = Read([(self._value(asked), self._told(answer)) for asked, answer in pairs])
            return self._read
        if name == "raw_array" and kind == "h":
            return list(args[0])
        return self._value(answered)

    def _takes(self, recorded: int, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether these are the recorded arguments."""
        _, *row = self._reader.rows[recorded]
        if len(row) != len(args) + KEYWORD * len(kwargs):
            return False
        named = row[len(args) :]
        if named[::KEYWORD] != list(kwargs):
            return False
        numbers = [*row[: len(args)], *named[1::KEYWORD]]
        try:
            return all(
                same(self._plain(number), one) for number, one in zip(numbers, (*args, *kwargs.values()), strict=True)
            )
        except LookupError:  # what it refers to was given in another play
            return False

    def _plain(self, number: int) -> Any:
        return self._reader.value(number, self._objects, self._operands)

    def _told(self, number: int) -> Any:
        """A value, or an exception that is to be raised."""
        row = self._reader.rows[number]
        return exception_at(row) if type(row) is list and row[0] == "raised" else self._plain(number)

    def _value(self, number: int) -> Any:
        told = self._told(number)
        if isinstance(told, BaseException):
            raise told
        return told

    def _turns(self, went: Sequence[int], how: str, end: int) -> Generator[Any, Any, Any]:
        """What a rank did, step by step; whoever resumes it with something else is another run."""
        for entered, resumed in zip(went[::2], [*went[1::2], None], strict=False):
            then: Any = None if resumed is None else self._told(resumed)
            try:
                got: Any = yield self._plain(entered)
            except GroupLost as lost:
                got = lost
            if resumed is None and how == "closed":
                raise NotRecorded("a rank goes on that had not gone on in the recorded play")
            if type(got) is not type(then) and not (isinstance(then, BaseException) and isinstance(got, GroupLost)):
                raise NotRecorded("a rank is resumed with something else than in the recorded play")
            if not isinstance(got, GroupLost) and not same(then, got):
                raise NotRecorded("a rank is resumed with something else than in the recorded play")
        if how == "closed":
            raise NotRecorded("a rank goes on that had not gone on in the recorded play")
        return self._value(end)

    def _do(self, what: str, given: Sequence[Any], args: Sequence[Any]) -> None:
        """What the cache did meanwhile with what the suite had lent it, or had been given by it."""
        if what == "fill":
            argument, at, number = given
            args[argument][at][:] = self._plain(number)
        elif what == "wrote":
            call, number = given
            for one in (answer := self._operands.answers[call], *(answer if isinstance(answer, tuple) else ())):
                if type(one) is list:
                    one[:] = self._plain(number)
        else:
            *numbers, _ = given
            try:
                getattr(self._lent[what], what)(*[self._plain(one) for one in numbers])
            except Exception:  # noqa: BLE001  storage that raises on demand: the recorded cache has met that
                return

    def _wait(self, read: Read) -> None:
        """Another thread reads while this one puts: it sees all that it saw then before this one goes on."""
        until = time.monotonic() + PATIENCE
        while read.waiting > 0 and time.monotonic() < until:
            time.sleep(0.0005)
        self._read = None


def exception_at(row: Sequence[str]) -> BaseException:
    """An exception that reads like the one that was recorded."""
    text = row[1]
    for kind in (NotImplementedError, GroupLost):
        if text.partition(":")[0] == kind.__name__:
            return kind(*text.split(": ", 1)[1:])
    return exception_of(text)


class Again:
    """A target that plays one recorded item."""

    plays_once = True

    def __init__(self, item: Record) -> None:
        self._methods: list[str] = item["methods"]
        self._plays = [Play(steps) for steps in item["plays"]]
        self._reader = Reader(item["table"])
        self.profile = profile_from_json(item["profile"])

    def make(self, config: Config) -> Played:
        """The cache as it was recorded, from the beginning."""
        return Played(self._methods, self._plays, self._reader)


def unpack(path: Path) -> tuple[Heading, Iterator[Record]]:
    """The header of a file of steps, and its items one by one; raises ``ValueError`` for anything else."""

    def records() -> Iterator[Record]:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            next(lines)
            for number, line in enumerate(lines, 2):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path}: line {number}: expected a recorded item: {error}") from None

    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            header = json.loads(lines.readline())
            if header.get("kind") != "kvlitmus steps" or header.get("format") != FORMAT:
                raise ValueError(f"expected recorded steps of format {FORMAT}")
    except (lzma.LZMAError, EOFError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: these are no recorded steps: {error}") from None
    return header, records()


@dataclass(slots=True, kw_only=True)
class JudgedSteps:
    """What came of recorded steps.

    ``broken``: rules, each with the first item that breaks it.  ``evaluated``: how often each rule was.  ``ended``:
    items that could not be judged to their end, each with the reason.
    """

    header: Heading
    items: int = 0
    steps: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    evaluated: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)


def judge(path: Path) -> JudgedSteps:
    """Judge the recorded steps of a file; raises ``ValueError`` for what is no such file."""
    header, records = unpack(path)
    outcome = JudgedSteps(header=header)
    options = Options(force_misuse=bool(header.get("force_misuse")), shrink_trials=0)
    for record in records:
        item = item_from_json(record["item"])
        result = engine.run_item(Again(record), item, options)
        outcome.items += 1
        outcome.steps += result.steps
        outcome.evaluated += result.evaluated
        for finding in result.findings:
            for rule in finding.rules:
                outcome.broken.setdefault(rule, item.id)
        if result.error:
            outcome.ended[item.id] = result.error
    return outcome
