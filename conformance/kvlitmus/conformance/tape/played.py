"""A tape in the place of the cache that it is of: what was recorded, answered again.

The calls must be those that were recorded, in their order.  A call that was not recorded ends the play: nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, cast

from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.run.results import Item
from kvlitmus.conformance.tape.answers import Answers, NotRecorded, raised, same
from kvlitmus.conformance.tape.calls import CALLS, TOLD_ONCE, look_key
from kvlitmus.conformance.tape.changes import Looks, Unchanged
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Header, Step, TapeError, TapeReader, encoded
from kvlitmus.conformance.tape.operands import Operands


class Play:
    """One recorded play, and how far it has been answered.

    ``looks``: what was looked at after the step where it is.  ``reached``: is told of each step that it comes to.
    ``header``: the line of the file on which it begins.
    """

    def __init__(self, steps: Sequence[Step], reached: Callable[[int], None], header: int) -> None:
        self._steps = {one.number: one for one in steps}
        self._header = header
        self._reached = reached
        self._changes = Looks()
        self.looks: dict[str, list[Json]] = {}
        self.go_on(0)

    def step(self, number: int) -> Step | None:
        """The step of this number, if it was recorded."""
        return self._steps.get(number)

    def line(self, number: int) -> int:
        """The line of a step: behind the end that of the last, and that of the header where no look was fresh."""
        step = self._steps.get(min(number, max(self._steps, default=0)))
        return self._header if step is None else step.line

    def go_on(self, number: int) -> None:
        """The play is after this step now."""
        step = self._steps.get(number)
        self._reached(number)
        self.looks = self._changes.read(step.looks) if step is not None else {}


class Played(Answers):
    """The ports of a recorded cache: answers as recorded.

    The calls must be those that were recorded, in their order.  Looking changes nothing, so between two calls the
    checker may look at what was looked at then, in any order and as often as it likes; events are told once.
    """

    def __init__(self, methods: Sequence[str], plays: Sequence[Play]) -> None:
        super().__init__(methods, Operands())
        self._plays = plays
        self._first = plays[0]
        self._shown = Unchanged[Any]()

    @property
    def at(self) -> int:
        """The step that was answered last."""
        return self.operands.step

    def line(self, number: int) -> int:
        """The line of the file on which a step stands."""
        return (self._plays or [self._first])[0].line(number)

    def _look(self, method: str, *args: Any) -> Any:
        key = look_key(method, CALLS[method].arguments(args, {}, self.operands)[0])
        for play in self._plays:
            if (answers := play.looks.get(key)) is not None:
                told = answers[self._due(key, len(answers))]
                if method in TOLD_ONCE and self._looked[key] > len(answers):
                    break
                return raised(self._shown.of(key, told, lambda told: self._told(CALLS[method].answer, told)))
        raise NotRecorded(f"after step {self.at} of the recorded play nobody looked at this: {method}")

    def _answer(self, method: str, *args: Any, **kwargs: Any) -> Any:
        self.operands.step = number = self.operands.step + 1
        self._looked.clear()
        alike = [
            play
            for play in self._plays
            if (step := play.step(number)) is not None and step.call == method and self._takes(step, args, kwargs)
        ]
        if not alike:
            raise NotRecorded(f"step {number} of the recorded play is not this call: {method}")
        self._plays = alike
        for play in self._plays:
            play.go_on(number)
        return self.played(cast("Step", self._plays[0].step(number)), args)

    def _takes(self, step: Step, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether these are the recorded arguments."""
        if len(step.args) != len(args) or list(step.kwargs) != list(kwargs):
            return False
        try:
            given, named = CALLS[step.call].given(step.args, step.kwargs, self.operands)
        except FormError:  # what it refers to was given in another play
            return False
        return all(map(same, given, args)) and all(map(same, named.values(), kwargs.values()))


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
    """A target that plays one recorded item; ``made``: its caches so far.

    ``profile``: another one than the record's, to judge it by.
    """

    plays_once = True

    def __init__(self, record: Record, profile: Profile | None = None) -> None:
        self._record = record
        self._reached = [0] * len(record.plays)
        header, _ = record.plays[0]
        self._methods = [*(name for port in sorted(header.ports) for name in PORTS[port]), *header.methods]
        self.profile = profile or header.profile
        self.made: list[Played] = []

    def make(self, config: Config) -> Played:
        """The cache as it was recorded, from the beginning."""
        plays = [
            Play(steps, partial(self._come, at), header.line) for at, (header, steps) in enumerate(self._record.plays)
        ]
        self.made.append(Played(self._methods, plays))
        return self.made[-1]

    def _come(self, play: int, number: int) -> None:
        self._reached[play] = max(self._reached[play], number)

    @property
    def step(self) -> int:
        """The number of the last step that was asked for."""
        return max((one.at for one in self.made), default=0)

    @property
    def judged(self) -> int:
        """How many of the recorded steps were made again."""
        return sum(self._reached)


def records(reader: TapeReader, *, others: bool = False, torn: bool = False) -> Iterator[Record]:
    """The items of a tape one by one; raises :class:`TapeError`.

    ``others``: a play that names no item, of an engine for instance, is one by itself.  ``torn``: a tape that breaks
    off is one as far as it goes.
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
        if not torn:
            reader.check_whole()

    for item, same_item in groupby(played(), lambda one: one[0]):
        yield Record(item, [play for _, play in same_item])
