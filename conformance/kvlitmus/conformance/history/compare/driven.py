"""The calls of a tape, made on another cache.

An operand means what gave it: the other cache gets its own place, handle or job where the first was given one.  Both
are laid side by side meanwhile, so that the other is asked nothing that its caller could not ask: from where they part
on it is asked nothing, until a reset.

What the suite lends is on the tape by what it was asked and answered (``did``): the other cache hears the same.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, cast

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.harness_store import StorageDownError
from kvlitmus.conformance.checker.rendezvous import OddAnswer, together
from kvlitmus.conformance.history.compare.likeness import RESETS, Play, first_difference, text_of
from kvlitmus.conformance.history.compare.names import Prefixes
from kvlitmus.conformance.history.following import Following
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.support.text import harmless, raised_text, type_name
from kvlitmus.conformance.tape.answers import exception_at
from kvlitmus.conformance.tape.calls import CALLS, DOES, FILLED, LENT, OTHER, TURNS, Lent, look_of
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.driver import Driver
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Header, Step, TapeReader
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.recorder import Turning
from kvlitmus.conformance.tape.written import raised_in
from kvlitmus.spec.interface.ranks import Turns, World

NOT_MADE = frozenset({OTHER, *FILLED})
"""Calls that another thread goes on with, or that fill buffers of the caller's: a tape doesn't tell all of that."""

LEAST: Mapping[str, Json] = {"exists": 0, "put": False, "available": 0, "evict": 0}
"""What is answered to a question that nobody asked on the tape: there is nothing, or ``None``."""


class OnLoan:
    """What the suite lends, storage or a host's memory, for the cache that is here: it answers as it did on the tape.

    ``left``: what it was asked there in this step, and answered, and nobody has asked here yet; ``did``: what it was
    asked here.
    """

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.told(())

    def told(self, did: Sequence[Json]) -> None:
        """The next step begins."""
        self.left = deque(cast("Sequence[list[Json]]", did))
        self.did = list[Json]()

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name not in DOES:
            raise AttributeError(name)
        return lambda *args: self.asked(name, args)

    def asked(self, what: str, args: Sequence[object]) -> object:
        """The answer to the next such question of this step; raises what was raised."""
        told: Json = LEAST.get(what)
        for one in self.left:
            if one[0] == what:
                told = one[2]
                self.left.remove(one)
                break
        self.did.append([what, cast("Json", DOES[what].arguments(args, {}, self.operands)[0]), told])
        if (raised := raised_in(told)) is None:
            return DOES[what].told(told, self.operands)
        kind, _, text = raised.partition(": ")
        raise StorageDownError(text) if kind == StorageDownError.__name__ else exception_at(raised)


class DrivenChecker(Checker):
    """The checker of a cache that is driven: all calls that the tape tells of are made from it."""

    def attach_at_first(self) -> None:
        """That is a call of the tape's, and so is which storage answers."""


class Driven:
    """The program that makes the calls of a file's first play.

    Raises :class:`Unsupported` where it can't go on, though the two have not parted.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, checker: Checker) -> None:
        """Make them."""
        with TapeReader(self.file) as reader:
            header, steps = next(reader.plays())
            SideBySide(checker, header).drive(steps)


def rank_and_ask(step: Step) -> tuple[Json, Json]:
    """Which rank a step asks, and what; ``None`` where it asks none."""
    given = CALLS[TURNS].by_name(step.args, step.kwargs) if step.call == TURNS else {}
    return given.get("rank"), given.get("ask")


class SideBySide(Driver):
    """Two caches side by side: one on a tape, the other there."""

    def __init__(self, checker: Checker, header: Header) -> None:
        super().__init__(checker.adapter)
        self.checker = checker
        self.prefixes = Prefixes()
        self.tape, self.here = Play(header, self.prefixes), Play(header, self.prefixes)
        self.looks = Looks()
        self.lent = OnLoan(self.operands)
        self.world: World | None = None

    def drive(self, steps: Iterable[Step]) -> None:
        """Make the calls of a play."""
        apart, following = False, Following(steps)
        for step in following:
            if apart and step.call not in RESETS:
                self.tape.moment(step)
                self.looks.read(step.looks)
                continue
            there = self.asked_together(step, following)
            try:
                made = self.of_ranks(there) if step.call == TURNS else [self.made(step)]
                pairs = [(self.tape.moment(one), self.here.moment(here)) for one, here in zip(there, made, strict=True)]
            except FormError as error:
                self.end(step, f"expected {error.expected}, got {json.dumps(error.got)}")
            if apart:
                if not all(self.tape.fresh(mine) and self.here.fresh(theirs) for mine, theirs in pairs):
                    return
                for play in (self.tape, self.here):
                    play.afresh()
                apart = False
                continue
            found = [first_difference(mine, theirs, self.here.names, self.prefixes) for mine, theirs in pairs]
            apart = any(parts is not None and not parts.order for parts in found)

    def end(self, step: Step, why: str) -> NoReturn:
        """The play can't go on."""
        raise Unsupported(harmless(f"line {step.line}, {text_of(step)}: {why}"))

    def made(self, step: Step) -> Step:
        """The step of the cache that is here."""
        if step.call:
            if step.call in NOT_MADE or step.call.startswith("raw_"):
                self.end(step, "such a call can't be made from a tape")
            if getattr(self.adapter, step.call, None) is None:
                self.end(step, "the other cache has no such call")
            args, kwargs = self.meant(step.call, step.args, step.kwargs)
            given, named = self.arguments(step, args, kwargs)
            if step.call in LENT:
                self.lend(step, given, named)
            self.lent.told(step.did)
            answer, raised = self.make(step, given, named)
            if step.call == "ranks_start":
                self.world = cast("World", [*given, *named.values()][0])
            step = step._replace(args=args, kwargs=kwargs, answer=answer, raised=raised, did=self.lent.did)
        return self.seen(step)

    def asked_together(self, step: Step, following: Following[Step]) -> list[Step]:
        """The steps in which the ranks of a tree are asked the same, from this one on; any other is made by itself."""
        if step.call != TURNS:
            return [step]
        return following.asked_together(step, rank_and_ask, self.tree_of(step))

    def tree_of(self, step: Step) -> tuple[int, ...]:
        """The ranks of the tree that is asked."""
        rank, world = rank_and_ask(step)[0], self.world
        trees = () if world is None else map(world.tree, range(len(world.trees)))
        return next((tree for tree in trees if rank in tree), ())

    def of_ranks(self, steps: Sequence[Step]) -> list[Step]:
        """The steps of the ranks that are here, which go on together; one of their tree that is not asked is gone."""
        calls, turnings, raised = dict[int, Turns](), list[Turning](), list[str | None]()
        for step in steps:
            given, named = self.arguments(step, step.args, step.kwargs)
            turns, error = self.called(step, partial(self.adapter.ranks_ask, *given, **named))
            if error is None and not isinstance(turns, Generator):
                self.end(step, f"the other cache answers a {type_name(turns)}, not a generator of what it enters")
            raised.append(None if error is None else raised_text(error))
            turnings.append(Turning())
            if error is None:
                calls[cast("int", rank_and_ask(step)[0])] = turnings[-1].watch(turns)
        try:
            with suppress(NotImplementedError):  # each rank has said so
                together(calls, [rank for rank in self.tree_of(steps[0]) if rank not in calls])
        except OddAnswer as error:
            self.end(steps[0], f"of the other cache {error}")
        return [
            self.seen(step._replace(answer=turning.told(self.operands) if why is None else None, raised=why))
            for step, turning, why in zip(steps, turnings, raised, strict=True)
        ]

    def seen(self, step: Step) -> Step:
        """A step with what is seen of the cache that is here."""
        looks = {key: self.looked(key, len(answers)) for key, answers in self.looks.read(step.looks).items()}
        return step._replace(looks={key: told for key, told in looks.items() if told is not None})

    def lend(self, step: Step, given: list[object], named: dict[str, object]) -> None:
        """Put what is lent in the place of what was, by place or by name."""
        at, name = LENT[step.call], list(CALLS[step.call].parameters)[LENT[step.call]]
        if not isinstance(given[at] if at < len(given) else named.get(name), Lent):
            self.end(step, "what was lent to it is not on the tape")
        if at < len(given):
            given[at] = self.lent
        else:
            named[name] = self.lent

    def called(self, step: Step, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Make the call of a step, as a call of the suite's."""
        self.checker.announce(text_of(step), step.call)
        return self.attempt(make)

    def attempt(self, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Ask the cache that is here."""
        return self.checker.attempt(make)

    def meant(self, method: str, args: list[Json], kwargs: Mapping[str, Json]) -> tuple[list[Json], dict[str, Json]]:
        """Arguments by the numbers that places and jobs have here."""
        given = CALLS[method].by_name(args, kwargs)
        here = {name: self.tape.names.there(name, one, given, self.here.names) for name, one in given.items()}
        return list(here.values())[: len(args)], {name: here[name] for name in kwargs}

    def looked(self, key: str, often: int) -> Json:
        """Look as often as was looked at the other."""
        method, args = look_of(key)
        if method == "peek" or not hasattr(self.adapter, method):
            return None
        here, _ = self.meant(method, args, {})
        seen = [self.look(method, here) for _ in range(often)]
        told: list[Json] = [answer if raised is None else {"raised": raised} for answer, raised in seen]
        return told[0] if len(told) == 1 else {"several": told}
