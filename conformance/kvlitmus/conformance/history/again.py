"""Recorded steps, judged again: by the rules of this tree, without the cache.

The items are played once more: the same programs and schedules make the same calls, and a :class:`Played` answers
what was recorded, and does what the cache did to the storage or the host pool that the suite lent it.  A call
that was not recorded, because a move has changed or the run ended before, ends the item: nothing is guessed.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kvlitmus.conformance.history.playback import exception_of
from kvlitmus.conformance.history.steps import FORMAT, FORMS, LENT, RAW_ARRAY, Heading, Record, Step, Table
from kvlitmus.conformance.ports import Config, Hit
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Options, item_from_json, profile_from_json

EVENTS = "events"
"""The look that takes what it sees away."""

LOOKS = frozenset(
    {"available", "sizes", "view", "tiers", "jobs", "peek", "layers", "layers_ready", "occupied", "host_available"}
    | {"failing", EVENTS}
)
"""The methods that only look."""


class NotRecorded(NotImplementedError):
    """A call that the recorded run did not make."""


class Token:
    """Stands for a handle or a receipt."""


Asked = tuple[str, int]
"""A call: its method, and the checksum of its arguments."""


@dataclass(slots=True)
class Moment:
    """One call of a recorded play, and what was looked at before the next one."""

    key: Asked | None
    answer: list[Any]
    looks: dict[Asked, list[list[Any]]] = field(default_factory=dict)

    def covers(self, other: Moment) -> bool:
        """Whether this tells all that the other does."""
        return (self.key, self.answer) == (other.key, other.answer) and all(
            self.looks.get(key, [])[: len(seen)] == seen for key, seen in other.looks.items()
        )


def moments(steps: Sequence[Step], methods: Sequence[str]) -> list[Moment]:
    """The calls of a play in their order, each with its looks; the first is no call but what a fresh cache shows."""
    found = [Moment(None, [])]
    for number, checksum, *answer in steps:
        method = methods[number]
        if method in LOOKS:
            found[-1].looks.setdefault((method, checksum), []).append(answer)
        else:
            found.append(Moment((method, checksum), answer))
    return found


class Played:
    """The ports of a recorded cache: answers as recorded.

    The calls must be those that were recorded, in their order.  Looking changes nothing, so between two calls the
    checker may look at what was looked at then, in any order and as often as it likes; events are told once.
    """

    def __init__(self, methods: Sequence[str], plays: Sequence[list[Moment]], values: list[Any]) -> None:
        self._plays = plays
        self._values = values
        self._table = Table()
        self._table.handles = [one for one in values if type(one) is Token]
        self._at = 0
        self._seen: Counter[Asked] = Counter()
        self._lent: dict[str, Any] = {}
        for name in methods:
            setattr(self, name, partial(self._look if name in LOOKS else self._answer, name))

    def _look(self, name: str, *args: Any) -> Any:
        key = (name, self._table.sum(args, {}))
        seen = next((found for play in self._plays if (found := play[self._at].looks.get(key))), [])
        at, self._seen[key] = self._seen[key], self._seen[key] + 1
        if not seen or (at >= len(seen) and name == EVENTS):
            raise NotRecorded(f"after call {self._at} of the recorded play nobody looked at this: {name}")
        return self._value(seen[min(at, len(seen) - 1)])

    def _answer(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in LENT:
            self._lent |= dict.fromkeys(LENT[name], args[-1])
        wanted = (name, self._table.asked(name, args, kwargs))
        self._at = at = self._at + 1
        self._seen.clear()
        self._plays = [play for play in self._plays if at < len(play) and play[at].key == wanted]
        if not self._plays:
            raise NotRecorded(f"call {at} of the recorded play is not this one: {name}")
        answer = self._value(self._plays[0][at].answer)
        if name == RAW_ARRAY:
            return list(args[0]) if answer else None
        return answer

    def _value(self, recorded: Sequence[Any]) -> Any:
        answer, *did = recorded
        raised = answer == -1
        if raised:
            answer, *did = did
        for what, *given in did:
            self._do(what, given)
        if raised:
            raise exception_of(str(self._values[answer]))
        return own_copy(self._values[answer])

    def _do(self, what: str, given: Sequence[Any]) -> None:
        try:
            getattr(self._lent[what], what)(*given)
        except Exception:  # noqa: BLE001  storage that raises on demand: the recorded cache has met that
            return


def own_copy(answer: Any) -> Any:
    """An answer whose lists are the caller's, who may write into them."""
    if type(answer) is list:
        return list(answer)
    if isinstance(answer, Hit) and type(answer.slots) is list:
        return answer._replace(slots=list(answer.slots))
    return answer


class Again:
    """A target that plays one recorded item."""

    def __init__(self, item: Record) -> None:
        self.methods: list[str] = item["methods"]
        self.plays = [moments(steps, self.methods) for steps in item["plays"]]
        self.profile = profile_from_json(item["profile"])
        self.values: list[Any] = []
        for row in item["table"]:
            self.values.append(value_of(row, self.values))

    def make(self, config: Config) -> Played:
        """The cache as it was recorded, from the beginning."""
        return Played(self.methods, self.plays, self.values)


def value_of(row: Any, values: Sequence[Any]) -> Any:
    """The value of a row of the table; those that it is made of come before it."""
    if type(row) is not list:
        return row
    kind, *rest = row
    if kind in ("l", "t"):
        return rest if kind == "l" else tuple(rest)
    if kind == "h":
        return Token()
    inner = [values[at] for at in rest]
    return inner if kind == "L" else tuple(inner) if kind == "T" else FORMS[kind](*inner)


def unpack(path: Path) -> tuple[Heading, list[Record]]:
    """The header of a file of steps, and its items; raises ``ValueError`` for anything else."""
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            header = json.loads(lines.readline())
            if header.get("kind") != "kvlitmus steps" or header.get("format") != FORMAT:
                raise ValueError(f"expected recorded steps of format {FORMAT}")
            return header, [json.loads(line) for line in lines]
    except (lzma.LZMAError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: these are no recorded steps: {error}") from None


@dataclass(slots=True, kw_only=True)
class Outcome:
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


def judge(path: Path) -> Outcome:
    """Judge the recorded steps of a file; raises ``ValueError`` for what is no such file."""
    header, records = unpack(path)
    outcome = Outcome(header=header)
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
