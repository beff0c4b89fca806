"""Where ranks meet: a call on several ranks, run in one thread, in which nobody waits for what never comes.

Each rank is a generator.  One after the other goes on until it enters something; a collective happens when all members
of its group have entered the same.  When no rank can go on, those that are left wait for ever: at once that is known.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.conformance.support.bounds import MAX_SLOT, UNORDERED
from kvlitmus.conformance.support.frames import raised_at
from kvlitmus.conformance.support.integers import integer
from kvlitmus.conformance.support.text import harmless, shown, type_name
from kvlitmus.spec.interface.ranks import (
    Await,
    Collective,
    Decision,
    Exchange,
    Group,
    GroupLost,
    Prefix,
    Receive,
    Send,
    Turns,
)
from kvlitmus.spec.ranks.calls import ABSENT, LOST, RAISED, RETURNED, WAITING, Trace

MOST = 1_000
"""A rank that enters, or decides, more than so many things in one call is taken to go on for ever."""

NUMBERS, TUPLES = {int}, {tuple}
"""The types of what a prefix is made of, and of prefixes, as most caches give them."""

OPERATIONS: Mapping[str, Callable[[Sequence[int]], int]] = {"min": min, "max": max, "sum": sum}
"""How values are reduced."""


class OddAnswer(Exception):
    """A rank yielded or returned what the port doesn't promise; the text says what."""


@dataclass(slots=True)
class Turn:
    """One rank in a call: where it stands; ``lacking``: before it entered anything it said that it has no such call."""

    rank: int
    turns: Turns | None
    entered: list[Exchange] = field(default_factory=list)
    at: Exchange | None = None
    decisions: tuple[Decision, ...] = ()
    ended: str = ""
    why: str = ""
    told: bool = False
    lacking: bool = False

    def go_on(self, values: tuple[int, ...] | None, lost: bool = False) -> None:
        """Go on until the rank enters the next thing, or ends; ``values``: what came out of the last one."""
        assert self.turns is not None
        try:
            self.told = self.told or lost
            if lost:
                self.at = self.turns.throw(GroupLost())
            else:
                self.at = next(self.turns) if values is None else self.turns.send(values)
            self.at = exchange_of(self.rank, self.at)
            self.entered.append(self.at)
            if len(self.entered) > MOST:
                raise OddAnswer(f"rank {self.rank} entered more than {MOST} things in one call")
        except StopIteration as stop:
            self.end(RETURNED)
            self.decisions = decisions_of(self.rank, stop.value)
        except GroupLost:
            self.end(LOST)
            self.told = True
        except OddAnswer:
            raise
        except Exception as error:  # noqa: BLE001 - what would end the process is for the caller
            self.end(RAISED)
            self.why = raised_at(error)
            self.lacking = isinstance(error, NotImplementedError) and not self.entered

    def end(self, how: str) -> None:
        """The call is over on this rank."""
        self.at, self.ended = None, how

    @property
    def trace(self) -> Trace:
        """What this rank did."""
        return Trace(self.rank, tuple(self.entered), self.decisions, self.ended or WAITING, self.why, self.told)


def decisions_of(rank: int, value: object) -> tuple[Decision, ...]:
    """What a rank returned, as decisions; raises :class:`OddAnswer` for anything else."""
    try:
        some = sequence_of(value)
        decisions = tuple(Decision(text_of(one.kind), text_of(one.of), prefixes_of(one.prefixes)) for one in some)
    except Exception as error:
        raise OddAnswer(f"rank {rank} returned {shown(value)}, not a list of decisions: {harmless(error)}") from error
    return decisions


def sequence_of(value: Any) -> Sequence[Any]:
    """Whatever iterates, but for texts, mappings and sets; raises ``TypeError`` or ``ValueError`` for anything else.

    No answer of ranks is as long as :data:`MOST`; what has no end is cut off here.
    """
    if type(value) not in (tuple, list) and isinstance(value, UNORDERED):  # which takes long to find out
        raise TypeError(f"expected a sequence, got {type_name(value)}")
    some = tuple(itertools.islice(value, MOST + 1))
    if len(some) > MOST:
        raise ValueError(f"expected at most {MOST} things, got more")
    return some


def number_of(value: Any) -> int:
    """An integer of some size; raises ``TypeError`` or ``ValueError`` for anything else."""
    number = integer(value)
    if abs(number) >= MAX_SLOT:
        raise ValueError(f"expected a number below {MAX_SLOT}, got {shown(number)}")
    return number


def text_of(value: Any) -> str:
    """A text; raises ``TypeError`` for anything else."""
    if type(value) is not str:
        raise TypeError(f"expected a text, got {type_name(value)}")
    return value


def prefix_of(value: Any) -> Prefix:
    """A prefix: some numbers; raises ``TypeError`` or ``ValueError`` for anything else, texts included."""
    return tuple(map(number_of, sequence_of(value)))


def prefixes_of(value: Any) -> tuple[Prefix, ...]:
    """Some prefixes; raises as that does."""
    if type(value) is tuple and {*map(type, value)} == TUPLES:  # as most caches give them
        prefixes: tuple[Prefix, ...] = value
        numbers = [*itertools.chain.from_iterable(prefixes)]
        few = len(prefixes) <= MOST and len(numbers) <= MOST
        if few and {*map(type, numbers)} == NUMBERS and min(numbers) > -MAX_SLOT and max(numbers) < MAX_SLOT:
            return prefixes
    return tuple(map(prefix_of, sequence_of(value)))


def exchange_of(rank: int, value: object) -> Exchange:
    """What a rank yielded, its sequences as tuples; raises :class:`OddAnswer` for anything else."""
    kind = type(value)
    given: tuple[Any, ...] = value if isinstance(value, tuple) else ()
    try:
        if issubclass(kind, Collective):
            return collective_of(*given)
        if issubclass(kind, Send):
            to, layout, values = given
            return Send(number_of(to), tuple(map(text_of, sequence_of(layout))), prefix_of(values))
        if issubclass(kind, Receive):
            (source,) = given
            return Receive(number_of(source))
        if issubclass(kind, Await):
            what, pages = given
            return Await(text_of(what), prefixes_of(pages))
    except OddAnswer as error:
        raise OddAnswer(f"rank {rank} {error}") from error
    except Exception as error:
        text = f"rank {rank} yielded a {type_name(value)} with fields of other types: {harmless(error)}"
        raise OddAnswer(text) from error
    raise OddAnswer(f"rank {rank} yielded a {type_name(value)}")


def collective_of(group: Any, op: Any, layout: Any, values: Any) -> Collective:
    """A collective that a rank entered; raises :class:`OddAnswer`, and as :func:`prefix_of` does."""
    kind, members = group
    entered = Group(text_of(kind), prefix_of(members))
    if not entered.members:
        raise OddAnswer("entered a collective of nobody")
    if text_of(op) not in (*OPERATIONS, "barrier"):
        raise OddAnswer(f"entered a collective of operation {shown(op)}")
    return Collective(entered, op, tuple(map(text_of, sequence_of(layout))), prefix_of(values))


def together(calls: Mapping[int, Turns], gone: Sequence[int] = ()) -> tuple[list[Trace], list[tuple[int, int]]]:
    """Run a call on all ranks; what each did, and the messages that nobody received.

    ``gone``: the ranks that are not there; whoever needs them is told.  Raises :class:`OddAnswer`, and
    ``NotImplementedError`` where all ranks have no such call.
    """
    turns = {rank: Turn(rank, call) for rank, call in calls.items()}
    turns |= {rank: Turn(rank, None, ended=ABSENT) for rank in gone}
    mail: dict[tuple[int, int], deque[tuple[int, ...]]] = {}
    for rank in sorted(calls):
        turns[rank].go_on(None)
    if all(turns[rank].lacking for rank in calls):
        raise NotImplementedError
    while any(one_step(turns, rank, mail) for rank in sorted(calls)):
        pass
    for one in turns.values():
        if one.turns is not None and not one.ended:
            one.turns.close()
    unread = [between for between, waiting in sorted(mail.items()) for _ in waiting]
    return [turns[rank].trace for rank in sorted(turns)], unread


def one_step(turns: Mapping[int, Turn], rank: int, mail: dict[tuple[int, int], deque[tuple[int, ...]]]) -> bool:
    """Let one rank go on, and with it all members of a collective that has all of them; whether that could be done."""
    turn = turns[rank]
    if isinstance(turn.at, Await):
        turn.go_on(())
        return True
    if isinstance(turn.at, Send):
        mail.setdefault((rank, turn.at.to), deque()).append(turn.at.values)
        turn.go_on(())
        return True
    if isinstance(turn.at, Receive):
        waiting = mail.get((turn.at.source, rank))
        if waiting:
            turn.go_on(waiting.popleft())
            return True
        return told(turn, turns, (turn.at.source,))
    if isinstance(turn.at, Collective):
        return reduced(turns, turn.at.group) or told(turn, turns, turn.at.group.members)
    return False


def told(turn: Turn, turns: Mapping[int, Turn], others: Sequence[int]) -> bool:
    """Tell a rank that one of those that it waits for is gone, or was told so itself; whether that is so."""
    if not any(other in turns and turns[other].ended in (ABSENT, LOST) for other in others):
        return False
    turn.go_on(None, lost=True)
    return True


def reduced(turns: Mapping[int, Turn], group: Group) -> bool:
    """Reduce, where all members of a group have entered the same with as many values; whether they have."""
    members = [turns[rank] for rank in group.members if rank in turns]
    entered = [one.at for one in members if isinstance(one.at, Collective) and one.at.group == group]
    if len(entered) < len(group.members):
        return False
    if len({(one.op, len(one.values)) for one in entered}) > 1:
        return False
    first = entered[0]
    columns = list(zip(*[one.values for one in entered], strict=True))
    values = () if first.op == "barrier" else tuple([OPERATIONS[first.op](column) for column in columns])
    for one in members:
        one.go_on(values)
    return True
