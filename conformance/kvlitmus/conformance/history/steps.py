"""Recorded steps: what a cache answered to the calls of a run, so that changed rules can be judged again without it.

A trace (:mod:`~kvlitmus.conformance.history.lines`) is what an engine did, judged as it stands; the steps of a run are
answers to the suite's own calls.  :mod:`~kvlitmus.conformance.history.again` plays them.  Every kind of cache is
recorded, in the words of its ports and of nothing else.

The file is JSON lines, compressed by xz: a header, then an item a line.  Values are kept once each, in a table
(:mod:`~kvlitmus.conformance.history.values`).  A **step** is a list of these, whose empty end is left out:

0. the number of the method among those of the item; ``-1`` before the first call;
1. its arguments, as ``["c", n …]``, with ``name, n`` behind them for those that go by name;
2. its answer; an exception is one too;
3. what the cache did meanwhile with what the suite had lent it: ``[what, n …, answer]``; what it wrote into buffers
   that it was handed (``["fill", argument, at, n]``), and into sequences that it had returned (``["wrote", call, n]``);
4. what was looked at before the next call: method, arguments, answer, and so on.

The answer of a rank is ``["turns", n, m …, end]``: what it entered, what it was resumed with, and how it ended.  The
answer of ``store_other`` is ``["reads", n, m …]``: what another thread asked it, and what it got.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.history.values import GIVES, PLACED, TAKES, Operands, Row, Table, marked, paths_of, placed
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.results import Item, item_from_json, to_json
from kvlitmus.conformance.support.text import raised_text

FORMAT = 3

METHODS = tuple(dict.fromkeys([*(name for names in PORTS.values() for name in names), "scribble", "shares_free_list"]))
"""What is recorded of an adapter, where it has it."""

TOLD_ONCE = frozenset({"events", "component_events", "component_begun"})
"""The looks that take what they see away."""

LOOKS = (
    frozenset({"available", "sizes", "view", "tiers", "jobs", "peek", "layers", "layers_ready", "occupied"})
    | {"host_available", "failing", "component_available", "component_available_host", "component_free_places"}
    | {"component_entries", "component_free_host", "component_host_entries", "ranks_view", "ranks_states"}
    | {"sparse_shape", "sparse_available", "sparse_view", "sparse_copying", "sparse_transferring", "sparse_buffer"}
    | {"sparse_prefills", "sparse_receives", "sparse_destinations", "sparse_device_available"}
    | {"sparse_device_buffer", "store_yard", "store_strays"}
    | TOLD_ONCE
)
"""The methods that only look."""

LENT: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "attach": (0, ("exists", "get", "put")),
    "plan_prefetch": (1, ("available", "alloc", "free", "evict", "protect", "release")),
}
"""Calls that are handed something of the suite's: which argument that is, and what the cache may do with it."""

FILLED: Mapping[str, int] = {"store_get_into": 1}
"""Calls that are handed buffers, and which argument these are."""

TURNS, OTHER = "ranks_ask", "store_other"
"""The call whose answer goes on, step by step, and the one whose answer another thread asks."""

WATCHED = 64
"""So many returned lists are looked at after each call: has the cache written into them since?"""

SEEDS = 1
"""Of the drawn schedules of each configuration so many are recorded; of litmus tests and vectors all."""

Step = list[Any]


class Record(TypedDict):
    """One recorded item, as it is in a line of the file.

    ``methods``: what the adapter has; a step knows its method by the number here, so that a file is read the same
    whatever ports come later.  ``plays``: each time that a cache was made for it, the steps of that cache, but for
    those that another play holds as well.
    """

    item: Any
    profile: dict[str, object]
    methods: list[str]
    table: list[Row]
    plays: list[list[Step]]


class Heading(TypedDict, total=False):
    """The first line of a file of steps: whose they are, and which run recorded them."""

    kind: str
    format: int
    target: str
    version: str
    build: str
    force_misuse: bool
    kvlitmus: str
    date: str


def wanted(item: Item) -> bool:
    """Whether an item is part of the recorded share."""
    return (item.kind == "random" and item.seed < SEEDS) or item.kind in ("litmus", "vector")


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
    """An adapter that writes down every call and its answer."""

    def __init__(self, adapter: Any, methods: Sequence[str], table: Table) -> None:
        self._adapter, self._table = adapter, table
        self._objects: dict[int, tuple[int, object]] = {}
        self._operands = Operands()
        self._watched: list[tuple[int, list[Any], list[Any]]] = []
        self._late: list[tuple[Step, Turning | Asked]] = []
        self._did: list[Any] = []
        self._numbers = {name: at for at, name in enumerate(methods)}
        self._steps: list[Step] = [[-1, 0, 0, [], []]]
        for name in methods:
            setattr(self, name, partial(self._look if name in LOOKS else self._call, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def steps(self) -> list[Step]:
        """What was recorded, as it is written."""
        while self._late:
            step, answer = self._late.pop()
            step[2] = self._table.put(self._turns(answer) if isinstance(answer, Turning) else self._reads(answer))
        found = []
        for step in self._steps:
            whole = list(step)
            while len(whole) > 3 and not whole[-1]:
                whole.pop()
            found.append(whole)
        return found

    def _look(self, name: str, *args: Any) -> Any:
        given = self._args(name, args, {})
        row = [self._numbers[name], given]
        try:
            answer = getattr(self._adapter, name)(*args)
        except BaseException as error:
            self._steps[-1][4] += [*row, self._raised(error)]
            raise
        self._steps[-1][4] += [*row, self._add(answer)]
        return answer

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        step: Step = [self._numbers[name], self._args(name, args, kwargs), 0, [], []]
        self._did = step[3]
        given = list(args)
        if name in LENT:
            at, methods = LENT[name]
            given[at] = lent(args[at], methods, self._noted)
        buffers = [bytes(one) for one in args[FILLED[name]]] if name in FILLED else []
        self._steps.append(step)
        answer: Any = None
        try:
            answer = getattr(self._adapter, name)(*given, **kwargs)
        except BaseException as error:
            step[2] = self._raised(error)
            raise
        else:
            answer = self._answered(name, step, answer)
        finally:
            if name in FILLED:
                for number, (now, then) in enumerate(zip(args[FILLED[name]], buffers, strict=True)):
                    if bytes(now) != then:
                        step[3].append(["fill", FILLED[name], number, self._add(bytes(now))])
            self._look_at_returned(step)
            self._operands.add(name, answer)
        self._watch(answer)
        return answer

    def _answered(self, name: str, step: Step, answer: Any) -> Any:
        if name == TURNS and isinstance(answer, Generator):
            turning = Turning()
            self._late.append((step, turning))
            return turning.watch(answer)
        if name == OTHER:
            asked = Asked(answer)
            self._late.append((step, asked))
            return asked
        told = answer
        for path in paths_of(answer, GIVES.get(name)):
            told = marked(told, path, self._operands)
        step[2] = self._add(told)
        return answer

    def _noted(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        told = self._raised(answer) if isinstance(answer, BaseException) else self._add(answer)
        self._did.append([name, *map(self._add, args), told])

    def _watch(self, answer: Any) -> None:
        call = len(self._operands.answers) - 1
        for one in [answer, *(answer if isinstance(answer, tuple) else ())]:
            if type(one) is list:
                self._watched.append((call, one, list(one)))
        del self._watched[:-WATCHED]

    def _look_at_returned(self, step: Step) -> None:
        for at, (call, now, then) in enumerate(self._watched):
            if now != then:
                step[3].append(["wrote", call, self._add(list(now))])
                self._watched[at] = (call, now, list(now))

    def _args(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        numbers = [self._argument(name, at, one) for at, one in enumerate(args)]
        named = [part for key, one in kwargs.items() for part in (key, self._add(one))]
        return self._table.put(["c", *numbers, *named])

    def _argument(self, name: str, at: int, value: Any) -> int:
        if name in LENT and LENT[name][0] == at:
            return self._table.put(["lent", name])
        if name in FILLED and FILLED[name] == at:
            return self._table.put(["lent", "buffers"])
        if at in TAKES.get(name, ()) and (where := self._operands.place_of(value)) is not None:
            return self._table.put(["@", *where])
        if PLACED.get(name) == at and (row := placed(value, self._operands)) is not None:
            return self._table.put(row)
        return self._add(value)

    def _add(self, value: Any) -> int:
        return self._table.add(value, self._odd)

    def _raised(self, error: BaseException) -> int:
        return self._table.put(["raised", raised_text(error)])

    def _odd(self, value: object) -> Row:
        """The row of what is no plain data: known by its number in the play."""
        number, _ = self._objects.setdefault(id(value), (len(self._objects), value))  # kept, so that ids stay its own
        return ["o", number]

    def _turns(self, turning: Turning) -> Row:
        went = [self._raised(one) if isinstance(one, BaseException) else self._add(one) for one in turning.went]
        how, value = turning.end
        end = self._raised(value) if how == "raised" else self._add(value)
        return ["turns", *went, how, end]

    def _reads(self, asked: Asked) -> Row:
        rows = [(self._add(args), answer) for args, answer in asked.reads]
        told = [self._raised(one) if isinstance(one, BaseException) else self._add(one) for _, one in rows]
        return ["reads", *(part for (args, _), answer in zip(rows, told, strict=True) for part in (args, answer))]


class Recording:
    """A target whose caches are recorded; one for each item.

    plays_once: nothing is played again to look closer at it, since each play is on record.
    """

    plays_once = True

    def __init__(self, target: Any) -> None:
        self._target = target
        self._table = Table()
        self._profile: dict[str, object] = {}
        self._methods: list[str] = []
        self._recorders: list[Recorder] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def make(self, config: Config) -> Any:
        """A fresh cache, on record."""
        adapter = self._target.make(config)
        methods = [name for name in METHODS if callable(getattr(adapter, name, None))]
        if not self._recorders:
            self._profile = describe(self._target.profile)
            self._methods = methods
        recorder = Recorder(adapter, methods, self._table)
        self._recorders.append(recorder)
        return recorder

    def record(self, item: Item) -> Record | None:
        """What was recorded of an item; nothing of a target that declined it."""
        if not self._recorders:
            return None
        return {
            "item": to_json(item),
            "profile": self._profile,
            "methods": self._methods,
            "plays": longest([one.steps() for one in self._recorders]),
            "table": self._table.rows,
        }

    def save(self, folder: Path, item: Item) -> None:
        """Write down what was recorded of an item."""
        if (data := self.record(item)) is not None:
            name = hashlib.sha256(item.id.encode()).hexdigest()[:16]
            (folder / f"{name}.json").write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")


def longest(plays: Sequence[list[Step]]) -> list[list[Step]]:
    """The plays that no other one holds."""
    found: list[list[Step]] = []
    for play in sorted(plays, key=len, reverse=True):
        if not any(holds(other, play) for other in found):
            found.append(play)
    return found


def holds(play: Sequence[Step], other: Sequence[Step]) -> bool:
    """Whether a play begins with all steps of another, and saw all that was seen there."""
    return len(play) >= len(other) and all(map(covers, play, other))


def covers(step: Step, other: Step) -> bool:
    """Whether a step tells all that another does."""
    one, two = [*step, [], []][:5], [*other, [], []][:5]
    return one[:4] == two[:4] and all(
        seen[: len(wanted)] == wanted
        for key, wanted in looks_of(two[4]).items()
        for seen in (looks_of(one[4]).get(key, []),)
    )


def looks_of(flat: Sequence[int]) -> dict[tuple[int, int], list[int]]:
    """What was looked at after a step: for each method with its arguments, the answers."""
    found: dict[tuple[int, int], list[int]] = {}
    for method, args, answer in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        found.setdefault((method, args), []).append(answer)
    return found


def pack(folder: Path, path: Path, header: Heading, order: Sequence[str]) -> int:
    """Put the recorded items of a folder into one file, in the order of the run; returns how many there are."""
    items = {}
    for one in folder.glob("*.json"):
        text = one.read_text(encoding="utf-8")
        items[item_from_json(json.loads(text)["item"]).id] = text
    lines = [
        json.dumps({"kind": "kvlitmus steps", "format": FORMAT, **header}),
        *(items[id] for id in order if id in items),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9 | lzma.PRESET_EXTREME))
    return len(lines) - 1
