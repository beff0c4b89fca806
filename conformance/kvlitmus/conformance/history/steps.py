"""Recorded steps: what a cache answered to the calls of a run, so that changed rules can be judged again without it.

A trace (:mod:`~kvlitmus.conformance.history.lines`) is what an engine did, judged as it stands; the steps of a run are
answers to the suite's own calls.  :mod:`~kvlitmus.conformance.history.again` plays them.

The file is JSON lines, compressed by xz: a header, then an item a line.  Answers are kept once each, in a table; a
step is the number of its method among those of the item, a checksum of its arguments, the number of its answer, and
what it did meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from kvlitmus.conformance import ports
from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.run.results import Item, item_from_json, to_json
from kvlitmus.conformance.support.text import raised_text
from kvlitmus.spec import prefetch_plan
from kvlitmus.spec.interface import tiers as tier_ports
from kvlitmus.spec.prefetch_plan import PrefetchAsk
from kvlitmus.spec.units import Key

FORMAT = 2
RAW = (*PORTS["raw"], *PORTS["raw_requests"], *PORTS["raw_prefetching"])
"""Calls with arrays of the cache's own callers: these are not recorded, only whether there was one."""

RAW_ARRAY = RAW[0]
"""The call that makes such an array."""

METHODS = tuple(dict.fromkeys([*(name for names in PORTS.values() for name in names), "scribble", "shares_free_list"]))
"""What is recorded of an adapter, where it has it."""

LENT = {
    "attach": ("exists", "get", "put"),
    "plan_prefetch": ("available", "alloc", "free", "evict", "protect", "release"),
}
"""Calls that are handed something of the suite's, and what the cache may do with it."""

FORMS = {
    form.__name__: form
    for module in (ports, tier_ports, prefetch_plan)
    for form in vars(module).values()
    if isinstance(form, type) and issubclass(form, tuple) and hasattr(form, "_fields")
} | {"Key": Key}
"""The answers that have fields, by the name of their form."""

SEEDS = 1
"""Of the drawn schedules of each configuration so many are recorded; of litmus tests and vectors all.

Page stores are not recorded: they are handed buffers, and their processes are killed; answers don't tell what they did.
"""

Step = list[Any]
"""The number of a method in the item's list, its arguments' checksum, the number of its answer, then what the cache did
meanwhile."""


class Record(TypedDict):
    """One recorded item, as it is in a line of the file.

    ``methods``: what the adapter has; a step knows its method by the number here, so that a file is read the same
    whatever ports come later.  ``plays``: each time that a cache was made for it, the steps of that cache, but for
    beginnings of another play.
    """

    item: Any
    profile: dict[str, object]
    methods: list[str]
    table: list[Any]
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
    drawn = item.kind == "random" and item.seed < SEEDS
    return not item.config.apart and (drawn or item.kind in ("litmus", "vector"))


class Table:
    """Answers, each kept once, as plain data; what is no plain data is a handle, known by its number."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.at: dict[str, int] = {}
        self.handles: list[object] = []

    def beside(self) -> Table:
        """The same answers for another play, whose handles are its own."""
        table = Table()
        table.rows, table.at = self.rows, self.at
        return table

    def add(self, value: Any) -> int:
        """The number of a value."""
        row = self.row(value)
        key = json.dumps(row)
        if key not in self.at:
            self.at[key] = len(self.rows)
            self.rows.append(row)
        return self.at[key]

    def row(self, value: Any) -> Any:
        """A value as a row: a scalar, or a list that begins with what it is."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) in (list, tuple) and all(type(one) is int for one in value):
            return ["l" if type(value) is list else "t", *value]
        if isinstance(value, list | tuple):
            named = type(value).__name__
            plain = "L" if isinstance(value, list) else "T"
            return [named if FORMS.get(named) is type(value) else plain, *(self.add(one) for one in value)]
        return ["h", self.handle(value)]

    def handle(self, value: object) -> int:
        """The number of a handle."""
        for at, one in enumerate(self.handles):
            if one is value:
                return at
        self.handles.append(value)
        return len(self.handles) - 1

    def asked(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
        """A checksum of the arguments of a call, but for arrays of the cache's own callers."""
        return self.sum(() if name in RAW and name != RAW_ARRAY else args, kwargs)

    def sum(self, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
        """A checksum of arguments; what the suite lends has none."""
        plain = [self.plain(one) for one in (*args, *sorted(kwargs.items()))]
        return zlib.crc32(json.dumps(plain).encode()) & 0xFF

    def plain(self, value: Any) -> Any:
        """An argument as plain data."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, PrefetchAsk) and not value.prefix_keys:
            value = value[:-1]  # records from before there were such keys have the sum of what was there
        if isinstance(value, list | tuple):
            return [self.plain(one) for one in value]
        return next((f"handle {at}" for at, one in enumerate(self.handles) if one is value), "lent")


def lent(thing: Any, methods: Iterable[str], did: Callable[[str, tuple[Any, ...]], None]) -> Any:
    """A stand-in for what the suite lends, that tells what is done with it."""

    class Lent:
        def __getattr__(self, name: str) -> Any:
            found = getattr(thing, name)
            if name not in methods:
                return found

            def noted(*args: Any) -> Any:
                did(name, args)
                return found(*args)

            return noted

    return Lent()


class Recorder:
    """An adapter that writes down every call and its answer."""

    def __init__(self, adapter: Any, methods: Sequence[str], table: Table, steps: list[Step]) -> None:
        self._adapter, self._table, self._steps = adapter, table, steps
        self._doing: list[Any] = []
        self._numbers = {name: at for at, name in enumerate(methods)}
        for name in methods:
            setattr(self, name, partial(self._call, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def _did(self, name: str, args: tuple[Any, ...]) -> None:
        self._doing.append([name, *(list(one) if isinstance(one, tuple) else one for one in args)])

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        given = (lent(args[0], LENT["attach"], self._did),) if name == "attach" else args
        if name == "plan_prefetch":
            given = (args[0], lent(args[1], LENT[name], self._did))
        table = self._table
        step: Step = [self._numbers[name], table.asked(name, args, kwargs)]
        self._doing = []
        try:
            answer = getattr(self._adapter, name)(*given, **kwargs)
        except BaseException as error:
            self._steps.append([*step, -1, table.add(raised_text(error)), *self._doing])
            raise
        self._steps.append([*step, table.add(answer is not None if name == RAW_ARRAY else answer), *self._doing])
        return answer


class Recording:
    """A target whose caches are recorded; one for each item."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.table = Table()
        self.plays: list[tuple[dict[str, object], list[str], list[Step]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def make(self, config: Config) -> Any:
        """A fresh cache, on record."""
        adapter = self._target.make(config)
        own = getattr(adapter, "profile", None)
        profile = describe(own if isinstance(own, Profile) else self._target.profile)
        methods = [name for name in METHODS if callable(getattr(adapter, name, None))]
        steps: list[Step] = []
        self.plays.append((profile, methods, steps))
        return Recorder(adapter, methods, self.table.beside(), steps)

    def save(self, folder: Path, item: Item) -> None:
        """Write down the plays of an item that are not the beginning of another; a target that declined has none."""
        longest: list[list[Step]] = []
        for *_, steps in sorted(self.plays, key=lambda one: -len(one[2])):
            if not any(other[: len(steps)] == steps for other in longest):
                longest.append(steps)
        if not longest:
            return
        profile, methods, _ = self.plays[0]
        data: Record = {
            "item": to_json(item),
            "profile": profile,
            "methods": methods,
            "table": self.table.rows,
            "plays": longest,
        }
        name = hashlib.sha256(item.id.encode()).hexdigest()[:16]
        (folder / f"{name}.json").write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")


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
    path.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9))
    return len(lines) - 1
