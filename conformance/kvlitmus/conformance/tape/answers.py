"""What stands on a tape in the place of a cache: answers as recorded, and what the cache did with what it was lent."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from kvlitmus.conformance.tape.calls import CALLS, DOES, DOING, LENT, LOOKS, READS, TURNS, Lent
from kvlitmus.conformance.tape.forms import Form, Json, form_of
from kvlitmus.conformance.tape.lines import Step
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.recorder import WATCHED
from kvlitmus.conformance.tape.written import raised_in
from kvlitmus.spec.interface.ranks import GroupLost

PATIENCE = 20.0
"""Seconds for which a put waits until another thread has read what it had read then."""

_BYTES, _NUMBERS = form_of(bytes), form_of(Sequence[int])


class NotRecorded(NotImplementedError):
    """A call, or a look, that is not on the tape."""


class Ended(BaseException):
    """What a recorded call raised, where that would have ended the process."""


EXPECTED: dict[str, type[Exception]] = {one.__name__: one for one in (MemoryError, TypeError)}
"""What is told apart by its type: memory that was made short, and an answer of the wrong type."""


def exception_of(raised: str) -> BaseException:
    """An exception that reads like the one that was recorded."""
    kind, _, message = raised.partition(": ")
    if not kind.isidentifier():
        kind, message = "Exception", raised
    if kind in EXPECTED:
        return EXPECTED[kind](message)
    base = Ended if kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit") else Exception
    made: BaseException = type(kind, (base,), {})(message)
    return made


def exception_at(text: str) -> BaseException:
    """The same; what says that there is no such call, or that a group was lost, is told apart by its type too."""
    for kind in (NotImplementedError, GroupLost):
        if text.partition(":")[0] == kind.__name__:
            return kind(*text.split(": ", 1)[1:])
    return exception_of(text)


def raised(told: Any) -> Any:
    """A value; raises an exception that is one."""
    if isinstance(told, BaseException):
        raise told
    return told


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


class Answers:
    """What was recorded of these methods, given again: the answers, and what else the cache did in a call.

    ``operands``: what the steps so far gave.
    """

    def __init__(self, methods: Iterable[str], operands: Operands) -> None:
        self.operands = operands
        self._looked: Counter[str] = Counter()
        for name in methods:
            setattr(self, name, partial(self._look if name in LOOKS else self._answer, name))
        self._lists: deque[tuple[int, list[list[Any]]]] = deque(maxlen=WATCHED)
        self._lent: dict[str, Any] = {}
        self._read: Read | None = None

    def _look(self, method: str, *args: Any) -> Any:
        """What a look showed."""
        raise NotImplementedError

    def _answer(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """What a call answered, or raised."""
        raise NotImplementedError

    def _due(self, key: str, many: int) -> int:
        """Which of its answers a look shows now: one after the other, and the last one again."""
        self._looked[key] += 1
        return min(self._looked[key], many) - 1

    def played(self, step: Step, args: Sequence[Any]) -> Any:
        """The call of a step is made: all that the cache did, and its answer; raises what it raised."""
        if step.call in LENT and len(args) > LENT[step.call]:
            self._lent |= dict.fromkeys(DOING[step.call], args[LENT[step.call]])
        if self._read is not None:
            self._wait(self._read)
        for what, *rest in cast("list[list[Json]]", step.did):
            self._do(cast("str", what), rest, args)
        if step.raised is not None:
            raise exception_at(step.raised)
        answer = self._made(step, args)
        lists = [one for one in (answer, *(answer if isinstance(answer, tuple) else ())) if type(one) is list]
        if lists:
            self._lists.append((step.number, lists))
        return answer

    def _made(self, step: Step, args: Sequence[Any]) -> Any:
        told = step.answer
        if step.call == TURNS and type(told) is dict and "turns" in told:
            return self._turns(told)
        if type(told) is dict and told.keys() == {"reads"}:
            pairs = cast("list[list[list[Json]]]", told["reads"])
            self._read = Read(
                [(self._asked(asked), self._told(CALLS[READS].answer, answer)) for asked, answer in pairs]
            )
            return self._read
        if step.call == "raw_array" and told == {"@": step.number}:
            array = list(args[0])
            self.operands.noted(step.call, array)
            return array
        return CALLS[step.call].told(told, self.operands)

    def _asked(self, asked: list[Json]) -> tuple[tuple[str, ...], int]:
        (keys, size), _ = CALLS[READS].given(asked, {}, self.operands)
        return tuple(cast("Sequence[str]", keys)), cast("int", size)

    def _told(self, form: Form, told: Json) -> Any:
        """A value, or an exception that is to be raised."""
        if (text := raised_in(told)) is not None:
            return exception_at(text)
        return form.read(told, self.operands)

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
        return returns.read(told["returned"], self.operands)

    def _do(self, what: str, given: Sequence[Json], args: Sequence[Any]) -> None:
        """What the cache did meanwhile with what the suite had lent it, or had been given by it."""
        if what == "fill":
            argument, at, filled = cast("tuple[int, int, Json]", given)
            args[argument][at][:] = _BYTES.read(filled, self.operands)
        elif what == "wrote":
            number, wrote = cast("tuple[int, Json]", given)
            for one in next((lists for at, lists in self._lists if at == number), ()):
                one[:] = cast("list[int]", _NUMBERS.read(wrote, self.operands))
        else:
            asked, _ = DOES[what].given(cast("list[Json]", given[0]), {}, self.operands)
            self._use(what, asked, given[1])

    def _use(self, what: str, asked: Sequence[Any], answer: Json) -> None:
        """The cache asked this of what it was lent."""
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
