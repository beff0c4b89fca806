"""The reference as the oracle of another cache: with the choices that it was seen to make, it must do what it did.

An :class:`Oracle` is a judge.  Beside judging, it asks :func:`~kvlitmus.reference.prefix.perform.perform` for every
step what a correct cache would have answered and what it would be afterwards, and compares: the answer, what is known
of the cache (the tree with recency, hits, locks and priorities, owners, requests, contents), and what the snapshot
shows. What differs raises :class:`Differs`.
"""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.beside.follower import said
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.reference.prefix.choose import counted
from kvlitmus.reference.prefix.perform import choice_of, free_pages, perform, sizes
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix.advance import follow
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State

GROUPS = tuple(name for name in State._fields if name not in ("told", "late"))
"""The groups of the state that are compared: all, save those of events, which are asked for after the call."""


class Differs(AssertionError):
    """A cache did what the reference doesn't do, with the same choices."""


class Oracle(Checker):
    """A judge of a flat cache, at depth 3, that asks the reference at every step."""

    compared = 0
    judges = True
    """Whether the rules are evaluated, too; without them the reference alone must notice."""

    def step(self, call: Any, answer: Any) -> None:
        state, before = self.state, self.before
        super().step(call, answer)
        self.compare(Step(call, answer, before, self.before), state)
        self.compared += 1

    def judge(self, *args: Any) -> None:
        if self.judges:
            super().judge(*args)

    def compare(self, seen: Step[Seen], state: State) -> None:
        """Hold one step against the reference's."""
        setting = self.setting
        try:
            expected = perform(state, setting, seen.call, choice_of(seen, state, setting))
        except ValueError as illegal:
            raise Differs(f"{self.history[-1]}: {illegal}") from illegal
        if setting.table:
            self.hold_table(expected.after, seen.after)
            expected = expected._replace(after=follow(expected.after, setting, seen.after))
        for what, one, other in (
            ("the answer", said(expected, setting), said(seen, setting)),
            ("the free pages", free_pages(expected.after, setting), seen.after.free),
            ("the cached pages", places(expected.after), seen.after.cached),
            ("the counters", seen.after.sizes and sizes(expected.after, setting), seen.after.sizes),
            *[(f"the {name}", getattr(expected.after, name), getattr(self.state, name)) for name in GROUPS],
        ):
            if one != other:
                raise Differs(f"{self.history[-1]}: {what}: expected {one}, got {other}")
        self.compare_counts(expected.after, seen.after)

    def hold_table(self, expected: State, seen: Seen) -> None:
        """The same is found in the same pages of a block table; which of them a page of the tree names is nothing."""
        found = {page: block.name for page, block in expected.table.items()}
        if found != seen.places() or expected.device.pages.keys() != seen.cached.keys():
            raise Differs(f"{self.history[-1]}: the entered pages: expected {found}, got {seen.places()}")

    def compare_counts(self, expected: State, seen: Seen) -> None:
        """What nodes show of themselves is what their last pages should have."""
        pages, table = counted(expected, self.setting).pages, expected.table
        for info, _, locks, hits, priority in seen.nodes:
            last = pages[info.names[-1]]
            if table:
                last = last._replace(locks=table[info.pages[-1]].holders)
            shown = {"locks": locks, "priority": priority}
            if self.profile.hit_counts != "none":
                shown["hits"] = hits
                last = last._replace(hits=self.setting.counted(last.hits))
            for what, value in shown.items():
                if value is not None and value != getattr(last, what):
                    raise Differs(f"{self.history[-1]}: {what} of a node: expected {getattr(last, what)}, got {value}")


def places(state: State) -> dict[int, int]:
    """Where each cached page is."""
    return {name: page.page for name, page in state.device.pages.items()}
