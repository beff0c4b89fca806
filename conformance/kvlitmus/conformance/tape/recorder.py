"""Recorded steps: what a cache answered to the calls of a run, so that changed rules can be judged again without it.

Every kind of cache is recorded, in the words of its ports and of nothing else.  What is written is a tape: each cache
that was made for an item is a play.  :mod:`~kvlitmus.conformance.history.again` plays them.

What the cache did meanwhile with what the suite had lent it stands under ``"did"``: ``[what, [argument, …], answer]``;
what it wrote into buffers that it was handed (``["fill", argument, at, bytes]``), and into sequences that it had
returned (``["wrote", step, values]``).  The answer of a rank is ``{"turns": [entered, resumed, …], "returned": …}``, or
``"raised"``, or ``"closed"`` where it did not go on; that of ``store_other`` is ``{"reads": [[[keys, size], answer],
…]}``: what another thread asked it, and what it got.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from kvlitmus.conformance.generate.schedule import choices_of
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.results import Item, config_from_json, item_as_json, to_json
from kvlitmus.conformance.support.text import raised_text
from kvlitmus.conformance.tape.calls import (
    CALLS,
    DOES,
    DOING,
    FILLED,
    LENT,
    LOOKS,
    OTHER,
    READS,
    TOLD_ONCE,
    TURNS,
    look_key,
)
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.forms import Form, Json, form_of
from kvlitmus.conformance.tape.lines import TapeReader, TapeWriter, encoded, headed
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.written import Line

METHODS = tuple(dict.fromkeys([*(name for names in PORTS.values() for name in names), "scribble", "shares_free_list"]))
"""What is recorded of an adapter, where it has it."""

WATCHED = 64
"""So many returned lists are looked at after each call: has the cache written into them since?"""

SEEDS = 1
"""Of the drawn schedules of each configuration so many are recorded; of all else each one."""

MOST_TAPE = 1 << 18
"""A finding keeps its steps if they take no more bytes than that."""

_BYTES, _NUMBERS = form_of(bytes), form_of(Sequence[int])


def wanted(item: Item) -> bool:
    """Whether an item is part of the recorded share."""
    return (item.kind == "random" and item.seed < SEEDS) or item.kind in ("litmus", "vector", "schedule", "tape")


def told(form: Form, answer: object, operands: Operands) -> Json:
    """An answer, or what was raised."""
    return {"raised": raised_text(answer)} if isinstance(answer, BaseException) else form.write(answer, operands)


class Turning:
    """A rank in a call: what it entered so far, what it was resumed with, and how it ended."""

    def __init__(self) -> None:
        self.went: list[Any] = []
        self.end: tuple[str, Any] = ("closed", None)

    def watch(self, turns: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same generator, watched."""
        asked: Callable[[], Any] = partial(next, turns)
        try:
            while True:
                entered = asked()
                self.went.append(entered)
                try:
                    got = yield entered
                except GeneratorExit:
                    turns.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - what the suite throws in goes on to the rank
                    self.went.append(error)
                    asked = partial(turns.throw, error)
                else:
                    self.went.append(got)
                    asked = partial(next, turns) if got is None else partial(turns.send, got)
        except StopIteration as stop:
            self.end = ("returned", stop.value)
            return stop.value
        except GeneratorExit:
            raise
        except BaseException as error:
            self.end = ("raised", error)
            raise

    def told(self, operands: Operands) -> Json:
        """The same as it is written."""
        entered, resumed, returned = CALLS[TURNS].turns
        went = [told(entered if at % 2 == 0 else resumed, one, operands) for at, one in enumerate(self.went)]
        how, value = self.end
        end: Json = raised_text(value) if how == "raised" else returned.write(value, operands)
        return {"turns": went, how: True if how == "closed" else end}


class Asked:
    """A handle that another thread uses: each question with each answer that it had, once."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.reads: list[tuple[Any, Any]] = []

    def store_get(self, keys: Sequence[str], size: int) -> Any:
        """See :class:`~kvlitmus.spec.interface.stores.Storage`."""
        try:
            answer = self._handle.store_get(keys, size)
        except Exception as error:
            self.reads.append(((tuple(keys), size), error))
            raise
        told = ((tuple(keys), size), list(answer) if isinstance(answer, list | tuple) else answer)
        if told not in self.reads:
            self.reads.append(told)
        return answer


def lent(thing: Any, methods: Iterable[str], did: Callable[[str, tuple[Any, ...], Any], None]) -> Any:
    """A stand-in for what the suite lends, that tells what is done with it."""

    class Lent:
        def __getattr__(self, name: str) -> Any:
            found = getattr(thing, name)
            if name not in methods:
                return found

            def noted(*args: Any) -> Any:
                try:
                    answer = found(*args)
                except BaseException as error:
                    did(name, args, error)
                    raise
                did(name, args, answer)
                return answer

            return noted

    return Lent()


class Recorder:
    """An adapter that writes down every call and its answer; ``begun`` is told of each step before it is made.

    most: the longest list that is written; what was recorded with a longer one isn't ``whole``.
    """

    def __init__(
        self,
        adapter: Any,
        methods: Sequence[str],
        begun: Callable[[Line], None] | None = None,
        most: int | None = None,
    ) -> None:
        self._adapter = adapter
        self._begun = begun
        self._most = most
        self.whole = True
        self._operands = Operands()
        self._looks = Looks()
        self._seen: dict[str, list[Json]] = {}
        self._answers: list[Any] = [None]
        self._watched: list[tuple[int, list[Any], list[Any]]] = []
        self._late: list[tuple[Line, Turning | Asked]] = []
        self._did: list[Json] = []
        self._storages: list[Any] = []
        self._steps: list[Line] = [{}]
        for name in methods:
            setattr(self, name, partial(self._look if name in LOOKS else self._call, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def steps(self) -> list[Line]:
        """What was recorded, as it is written."""
        self._flush()
        while self._late:
            step, answer = self._late.pop()
            step["answer"] = answer.told(self._operands) if isinstance(answer, Turning) else self._reads(answer)
        return self._steps if self._steps[0] else self._steps[1:]

    def _flush(self) -> None:
        """Write down what was seen since the last call."""
        for key, answers in self._seen.items():
            while len(answers) > 1 and answers[-1] == answers[-2] and key not in TOLD_ONCE:
                answers.pop()
        if self._seen:
            self._steps[-1].setdefault("looks", {})
            cast("Line", self._steps[-1]["looks"]).update(self._looks.written(self._seen))
            self._seen = {}

    def _look(self, name: str, *args: Any) -> Any:
        key = look_key(name, CALLS[name].arguments(args, {}, self._operands)[0])
        try:
            answer = getattr(self._adapter, name)(*args)
        except BaseException as error:
            self._seen.setdefault(key, []).append({"raised": raised_text(error)})
            raise
        if self._written(answer):
            self._seen.setdefault(key, []).append(CALLS[name].answer.write(answer, self._operands))
        return answer

    def _written(self, answer: Any) -> bool:
        """Whether an answer is written: a cache that is wrong may answer with millions of nodes."""
        parts = (answer, *(answer if isinstance(answer, tuple) else ()))
        if self._most is not None and any(isinstance(one, list | tuple) and len(one) > self._most for one in parts):
            self.whole = False
        return self.whole

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self._flush()
        self._operands.step = number = len(self._steps)
        given, named = CALLS[name].arguments(args, kwargs, self._operands)
        step: Line = {"call": name, **({"args": given} if given else {}), **({"kwargs": named} if named else {})}
        self._did = []
        lent_args = list(args)
        if name in LENT:
            lent_args[LENT[name]] = lent(args[LENT[name]], DOING[name], self._noted)
            if which := self._which(args[LENT[name]], name):
                given[LENT[name]] = {"lent": name, "of": which}
        buffers = [bytes(one) for one in args[FILLED[name]]] if name in FILLED else []
        self._steps.append(step)
        if self._begun is not None:
            self._begun(step)
        answer: Any = None
        try:
            answer = getattr(self._adapter, name)(*lent_args, **kwargs)
        except BaseException as error:
            step["raised"] = raised_text(error)
            raise
        else:
            answer = self._answered(name, step, answer)
        finally:
            if name in FILLED:
                for at, (now, then) in enumerate(zip(args[FILLED[name]], buffers, strict=True)):
                    if bytes(now) != then:
                        self._did.append(["fill", FILLED[name], at, _BYTES.write(bytes(now), self._operands)])
            self._look_at_returned()
            if self._did:
                step["did"] = self._did
            self._answers.append(answer)
        self._watch(number, answer)
        return answer

    def _which(self, thing: Any, name: str) -> int:
        """Which one of those it is that were lent by such a call, from 0 on; only storage is lent again."""
        known = self._storages if name == "attach" else [thing]
        if not any(thing is one for one in known):
            known.append(thing)
        return next(at for at, one in enumerate(known) if one is thing)

    def _answered(self, name: str, step: Line, answer: Any) -> Any:
        if name == TURNS and isinstance(answer, Generator):
            turning = Turning()
            step["answer"] = None
            self._late.append((step, turning))
            return turning.watch(answer)
        if name == OTHER:
            asked = Asked(answer)
            step["answer"] = None
            self._late.append((step, asked))
            return asked
        if self._written(answer):
            step["answer"] = CALLS[name].answered(answer, self._operands)
        return answer

    def _noted(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        self._did.append(
            [name, DOES[name].arguments(args, {}, self._operands)[0], told(DOES[name].answer, answer, self._operands)]
        )

    def _watch(self, number: int, answer: Any) -> None:
        for one in [answer, *(answer if isinstance(answer, tuple) else ())]:
            if type(one) is list:
                self._watched.append((number, one, list(one)))
        del self._watched[:-WATCHED]

    def _look_at_returned(self) -> None:
        for at, (number, now, then) in enumerate(self._watched):
            if now != then:
                self._did.append(["wrote", number, _NUMBERS.write(list(now), self._operands)])
                self._watched[at] = (number, now, list(now))

    def _reads(self, asked: Asked) -> Json:
        return {
            "reads": [
                [CALLS[READS].arguments(args, {}, self._operands)[0], told(CALLS[READS].answer, answer, self._operands)]
                for args, answer in asked.reads
            ]
        }


class Recording:
    """A target whose caches are recorded; one for each item.

    plays_once: nothing is played again to look closer at it, since each play is on record.
    """

    plays_once = True

    def __init__(self, target: Any) -> None:
        self._target = target
        self._recorders: list[tuple[Line, Recorder]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def make(self, config: Config) -> Any:
        """A fresh cache, on record."""
        adapter = self._target.make(config)
        recorder = Recorder(adapter, methods_of(adapter))
        self._recorders.append((header_of(adapter, config, self._target.profile), recorder))
        return recorder

    def plays(self) -> list[Recorded]:
        """The header and the steps of each cache that was made, so far."""
        return [(first, recorder.steps()) for first, recorder in self._recorders]

    def record(self, item: Item, **header: Json) -> bytes | None:
        """A tape of an item, with this in the headers beside it; nothing of a target that declined it."""
        if not self._recorders:
            return None
        lines: list[Mapping[str, object]] = []
        for first, steps in longest(self.plays()):
            if item.kind != "tape":
                first = {**first, "item": item_as_json(item, config_from_json(first["config"]))}
            lines += [headed({**header, **first}), *steps]
        return b"".join(map(encoded, lines))

    def save(self, folder: Path, item: Item) -> None:
        """Write down what was recorded of an item."""
        if (data := self.record(item)) is not None:
            (folder / name_of(item.id)).write_bytes(data)


class Watched(Protocol):
    """What is read of a checker: the texts of its calls so far."""

    history: list[str]


class Taping:
    """A target whose caches are on a tape, with what the judge says of each step.

    The cache whose step came last is the one that a finding is about: a play may make others beside it.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._header: Line = {}
        self._recorder: Recorder | None = None
        self._checker: Watched | None = None
        self._began: Sequence[int] = ()
        self._calls: list[tuple[Line, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def make(self, config: Config) -> Any:
        """A fresh cache, on a tape."""
        adapter = self._target.make(config)
        header = header_of(adapter, config, self._target.profile)
        recorder = Recorder(
            adapter, methods_of(adapter), lambda step: self._note(header, recorder, step), most=MOST_TAPE // 2
        )
        return recorder

    def watch(self, checker: Watched, began: Sequence[int]) -> None:
        """A play begins.  ``began``: how many calls had been made when each operation of its schedule began."""
        self._checker, self._began = checker, began
        before = len(checker.history)  # storage is attached first, a step for each call
        self._calls = [(step, at, -1) for at, (step, *_) in enumerate(self._calls[-before:] if before else (), 1)]

    def _note(self, header: Line, recorder: Recorder, step: Line) -> None:
        self._header, self._recorder = header, recorder
        self._calls.append((step, len(self._checker.history) if self._checker else 0, len(self._began) - 1))

    def tape(self, texts: Sequence[str], ops: int, verdicts: list[Json]) -> list[Line]:
        """The header's part, and the steps, with the texts of the calls; nothing of a play that is too long.

        ``ops``: how many operations the schedule had; what comes after them empties the cache.  ``verdicts``: what is
        said of the last step.
        """
        if self._recorder is None or not self._recorder.whole:
            return []
        told = 0
        for step, call, op in self._calls:
            if told < call <= len(texts):
                step["text"] = texts[call - 1]
            if 0 <= op < ops:
                step["op"] = op
            told = call
        steps = self._recorder.steps()
        steps[-1]["verdicts"] = verdicts
        found = [self._header, *steps]
        return found if sum(len(encoded(one)) for one in found) <= MOST_TAPE else []


def name_of(id: str) -> str:
    """The file of an item's record."""
    return f"{hashlib.sha256(id.encode()).hexdigest()[:16]}.jsonl"


def methods_of(adapter: object) -> list[str]:
    """What an adapter has that is recorded."""
    return [name for name in METHODS if callable(getattr(adapter, name, None))]


def header_of(adapter: object, config: Config, profile: Any) -> Line:
    """What a header says of a cache: how it was made, and what it has."""
    has = methods_of(adapter)
    ports = [port for port, methods in PORTS.items() if all(name in has for name in methods)]
    others = [name for name in has if not any(name in PORTS[port] for port in ports)]
    return {
        "config": to_json(config),
        "profile": to_json(choices_of(profile)),
        "ports": cast("Json", ports),
        **({"methods": cast("Json", others)} if others else {}),
    }


Recorded = tuple[Line, list[Line]]
"""A play: its header, and its steps."""


def longest(plays: Sequence[Recorded]) -> list[Recorded]:
    """The plays that no other one holds."""
    found: list[Recorded] = []
    for play in sorted(plays, key=lambda one: len(one[1]), reverse=True):
        if not any(holds(other, play) for other in found):
            found.append(play)
    return found


def holds(play: Recorded, other: Recorded) -> bool:
    """Whether a play begins with all steps of another, and saw all that was seen there."""
    if play[0] != other[0]:
        return False
    one, two = with_looks(play[1]), with_looks(other[1])
    for step, seen in two:
        mine = next(one, None)
        if (
            mine is None
            or mine[0] != step
            or not all(mine[1].get(key, [])[: len(had)] == had for key, had in seen.items())
        ):
            return False
    return True


def with_looks(steps: Iterable[Line]) -> Iterator[tuple[Line, dict[str, list[Json]]]]:
    """Each step without its looks, and what was seen after it; the first is what came before all calls."""
    looks = Looks()
    for at, step in enumerate(steps):
        if at == 0 and "call" in step:
            yield {}, {}
        yield (
            {key: value for key, value in step.items() if key != "looks"},
            looks.read(cast("Line", step.get("looks", {}))),
        )


def pack(folder: Path, path: Path, heading: Mapping[str, Json], order: Sequence[str]) -> int:
    """Put the recorded items of a folder into one file, in the order of the run; returns how many there are."""
    many = 0
    with TapeWriter(path) as writer:
        for id in order:
            if not (one := folder / name_of(id)).is_file():
                continue
            many += 1
            with TapeReader(str(one)) as reader:
                for header, steps in reader.plays():
                    writer.play({**heading, **header.data})
                    for step in steps:
                        writer.step(step.data)
    return many
