"""Disturbances of caches of components, of sparse host pools and of ranks, which the table of actions has no rows for.

Their calls are exempt from the frame (:data:`kvlitmus.spec.law.actions.ELSEWHERE`): rules of their own say what must
stay as it is.  Whether these see every change is asked here.  A :class:`Way` is one change that nobody asked for.  It
is done to a copy of the specimen behind a call, which is then looked at and judged anew.  What can't show at once, such
as a pin that is lost, is *lasting*.  That, and what did not show at once, is done to the specimen itself, which plays
on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.calls import ranks, sparse
from kvlitmus.conformance.checker.calls.components import snapshot as component_look
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.spec.law.actions import ELSEWHERE
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.ranks.calls import Together
from kvlitmus.spec.sparse.calls import SparseDone

KINDS = ("component", "sparse", "ranks")
"""The kinds of caches, as the names of their calls begin."""

OUTCOMES = ("noticed", "noticed later", "legal", "open", "impossible", "missed")
NOTICED, LATER, LEGAL, OPEN, IMPOSSIBLE, MISSED = OUTCOMES
"""What becomes of a change behind a call."""

Gone = Collection[int]
"""The ranks that are gone: a call is made to the others."""


class Way(NamedTuple):
    """One change that nobody asked for: what happens, how it is done to a specimen behind a call, and when it shows.

    ``do`` has the specimen, the call and the ranks that are gone, and says whether it could be done.
    """

    how: str
    do: Callable[[Any, Any, Gone], bool]
    lasting: bool = False


class Cell(NamedTuple):
    """A kind of call, and what happens behind it."""

    on: On
    how: str


class Cells:
    """For each cell how often it was tried, which rules noticed it, and the calls after which none did at once.

    ``can_last``: the cells of lasting changes that can be made.  ``later``: the rules that noticed a cell in what came
    later.
    """

    def __init__(self) -> None:
        self.reached: dict[On, int] = {}
        self.made: dict[Cell, int] = {}
        self.noticed: dict[Cell, dict[str, int]] = {}
        self.silent: dict[Cell, list[str]] = {}
        self.can_last: set[Cell] = set()
        self.later: dict[Cell, tuple[str, ...]] = {}

    def note(self, cell: Cell, rules: Sequence[str], calls: list[str]) -> None:
        """A cell was tried, and these rules were broken."""
        self.made[cell] = self.made.get(cell, 0) + 1
        counts = self.noticed.setdefault(cell, {})
        for rule in rules:
            counts[rule] = counts.get(rule, 0) + 1
        if not rules:
            self.silent.setdefault(cell, calls)


def row_of(occasions: Sequence[str]) -> On | None:
    """The kind of call that a step is, among those without a row in the table; the narrowest, where it is several."""
    rows = [one for one in map(On, occasions) if one in ELSEWHERE and one.removeprefix("refused_").startswith(KINDS)]
    return rows[-1] if rows else None


class Behind(Checker):
    """A checker that knows, behind each call of these kinds, the specimen as it was before anybody looked at it."""

    trying = False
    copies = False
    fresh: Any = None

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        answer = super().call(text, method, *args, **kwargs)
        if self.copies and not self.trying and method.startswith("component_"):
            self.fresh = copy.deepcopy(self.adapter), self.state
        return answer

    def answered(
        self, call: Any, answer: Any, state: Any = None, pools: PoolsSeen | None = None, known: State | None = None
    ) -> None:
        super().answered(call, answer, state, pools, known)
        if self.trying:
            return
        row = row_of(self.own_judge.tally.occasions)
        fresh, self.fresh = self.fresh, None
        if row is None or (self.copies and pools is not None and (fresh is None or pools.begun)):
            return
        kept = dict(vars(self))
        books = [(one, dict(one)) for one in (self.copying, self.fetching, self.writing, self.tokens)]
        said = self.history[-1:]
        self.trying = True
        try:
            self.disturb(row, call, answer, state, fresh or (None, None))
        finally:
            adapter = self.adapter
            vars(self).clear()
            vars(self).update(kept)
            self.adapter, self.trying = self.after_all(adapter), False
            self.history[len(self.history) - len(said) :] = said
            for one, was in books:
                one.clear()
                one.update(was)

    def after_all(self, _adapter: Any) -> Any:
        """The specimen that goes on: as it was, or as it was left (given)."""
        return self.adapter

    def gone(self) -> Gone:
        """The ranks that are gone."""
        return [rank for rank, own in self.ranks_state.own.items() if not own.alive]

    def disturb(self, row: On, call: Any, answer: Any, state: Any, fresh: Any) -> None:
        """Change something behind a call."""
        raise NotImplementedError

    def judged_anew(self, call: Any, answer: Any, state: Any, known: Any) -> tuple[str, ...]:
        """The rules that are broken when the specimen, as it is now, is looked at and judged after a call."""
        said, pools = list(self.history), self.component_pools
        remembered = [(one, dict(vars(one))) for one in (pools, *pools.pools, *pools.both)] if pools else []
        try:
            if known is not None:
                self.state = known
                component_look.judge(self, call, answer)
            elif isinstance(answer, SparseDone):
                given = {name: getattr(answer, name) for name in ("accepted", "places", "ready", "pages")}
                sparse.follow(self, state, call, answer.slots, **given)
            else:
                views = ranks._views(self)  # noqa: SLF001 - a look at all ranks has no other name
                super().answered(call, answer._replace(views=views) if isinstance(answer, Together) else views, state)
        except Violation as violation:
            return tuple(violation.rules)
        finally:
            self.history[:] = said
            for one, was in remembered:  # what was seen of the pools before the call is what it is judged by
                vars(one).clear()
                vars(one).update(was)
        return ()


def showing(cells: Cells, ways: Sequence[Way], *, most: int) -> type[Checker]:
    """A checker that disturbs copies of the specimen behind its calls, in each way that shows at once."""

    class ShowingChecker(Behind):
        copies = True

        def disturb(self, row: On, call: Any, answer: Any, state: Any, fresh: Any) -> None:
            cells.reached[row] = cells.reached.get(row, 0) + 1
            live, (undrained, known) = self.adapter, fresh
            self.note_lasting(row, call, live)
            if cells.reached[row] <= most:
                self.adapter = copy.deepcopy(undrained or live)
                if rules := self.judged_anew(call, answer, state, known):
                    raise RuntimeError(f"{rules} are broken where nothing was changed, after {self.history[-1]}")
            spare = None  # one copy serves those that can't be made here
            for way in ways:
                cell = Cell(row, way.how)
                if way.lasting or cells.made.get(cell, 0) >= most:
                    continue
                self.adapter = spare = spare or copy.deepcopy(undrained or live)
                if way.do(self.adapter, call, self.gone()):
                    spare = None
                    cells.note(cell, self.judged_anew(call, answer, state, known), self.history[-8:])

        def note_lasting(self, row: On, call: Any, live: Any) -> None:
            """Note which lasting changes can be made here; one copy serves those that can't."""
            copied = None
            for way in ways:
                cell = Cell(row, way.how)
                if way.lasting and cell not in cells.can_last:
                    copied = copied or copy.deepcopy(live)
                    if way.do(copied, call, self.gone()):
                        cells.can_last.add(cell)
                        copied = None

    return ShowingChecker


class Lasting:
    """One lasting change behind the first call of a kind at which it can be made."""

    def __init__(self, cell: Cell, way: Way) -> None:
        self.cell, self.way = cell, way
        self.done = False
        self.last: list[str] = []

    def checker(self) -> type[Checker]:
        """A checker that makes the change, and plays on."""
        asked = self

        class LastingChecker(Behind):
            def after_all(self, _adapter: Any) -> Any:
                return _adapter

            def disturb(self, row: On, call: Any, answer: Any, state: Any, fresh: Any) -> None:
                if row is asked.cell.on and not asked.done and asked.way.do(self.adapter, call, self.gone()):
                    asked.done = True
                    asked.last = self.history[-8:]

        return LastingChecker


class Excuse(NamedTuple):
    """Why a change that no rule notices is legal behind these calls (any, if none is given)."""

    how: tuple[str, ...]
    why: str
    on: tuple[On, ...] = ()


def excuse_of(cell: Cell, excuses: Sequence[Excuse]) -> str:
    """Why a cell is legal; empty where nobody says."""
    return next((one.why for one in excuses if cell.how in one.how and (not one.on or cell.on in one.on)), "")
