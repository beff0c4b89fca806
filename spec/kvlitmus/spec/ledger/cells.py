"""What a ledger is made of: rows, columns, cells.

A **row** is a call of a port, or one way in which a call can go on: a completion, a granted or refused one.  A
**column** is a question that any call of any cache raises.  A **cell** answers it: by the rules that say it, or by a
**freedom**, which is the cache's own affair and which a legal cache uses, or by a **gap**: nobody says it, and somebody
should.  Where the question doesn't arise, the cell says why.

The words are those of ports, occasions and effects.  How a cache or what is known of it looks like is said nowhere here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.law.actions import ACTIONS, FACETS, Meant, Row, joined
from kvlitmus.spec.law.on import On


class Family(enum.Enum):
    """A kind of cache, as it is judged."""

    FLAT = "flat caches"
    TIERS = "hierarchies"
    PURE = "plans and names"
    STORES = "page stores"
    SPARSE = "sparse host pools"
    COMPONENTS = "caches of components"
    REQUESTS = "requests on components"
    RANKS = "ranks"


class Column(Meant):
    """A question about a call."""

    REFUSED = "granted", "when it has to be granted"
    LEAST = "at least", "how much it takes, gives or finds at least, and that it is done now"
    MOST = "at most", "how much it takes, gives or finds at most"
    WHICH = "which go", "which pages, entries or rows go for it, and in what order"
    STAYS = "what stays", "what stays as it is"


class Refusal(enum.Enum):
    """How an answer says that a call was refused."""

    NEVER = "it can't be refused"
    NONE = "None"
    FALSE = "False"
    NOTHING_BEGUN = "an answer that begins with None, or with False"
    NO_SLOTS = "the slots are None"
    NO_DECISION = "every rank decides that nothing is granted"
    NOT_STORED = "False at each position"


class Amount(enum.Enum):
    """By what a call is told how much; its place among the arguments comes with it."""

    NONE = "nothing"
    COUNT = "a number of slots, pages or tokens"
    COUNTS = "a number for each component"
    KEY = "the key"
    ITEMS = "a sequence: as many as it has items"
    PLACES = "of each component where entries end"
    ASK = "what ranks are asked"


class Freedom(NamedTuple):
    """What is a cache's own affair.  ``field``, ``value``: what its profile declares then; empty where nobody needs to know."""

    name: str
    meaning: str
    field: str = ""
    value: object = None


class Cell(NamedTuple):
    """An answer: the rules that say it, and what they leave to the cache, to nobody, or to no question.

    ``rules`` are judged behind the call itself, ``later`` behind others that follow, in which it shows.  ``free``: names of freedoms.
    ``gap``: what no rule says.  ``without``: why the question doesn't arise.  One that has none of all answers nothing.
    """

    rules: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    gap: str = ""
    without: str = ""


def by(ids: str, *, later: str = "", free: str = "", gap: str = "") -> Cell:
    """A cell with these rules, and those in which it shows later, separated by spaces; ``free``: freedoms, by commas."""
    names = tuple(one.strip() for one in free.split(",") if one)
    return Cell(tuple(ids.split()), tuple(later.split()), names, gap)


def no(why: str) -> Cell:
    """A cell whose question doesn't arise."""
    return Cell(without=why)


GRANTED = no("it can't be refused")
NO_AMOUNT = no("it takes, gives and finds nothing")
NO_VICTIMS = no("nothing goes for it")


class Line(NamedTuple):
    """A row of the ledger.

    ``how``: which of the call's ways it is, empty where there is one.  ``occasions``: what a step of it may be.  ``plain``: as
    which steps of a plain cache it is judged as well (:mod:`~kvlitmus.spec.law.lifted`), rank by rank or pool by pool.
    ``effects``: what it may change, where :data:`~kvlitmus.spec.law.actions.ACTIONS` doesn't say it.  ``look``: whether it
    changes nothing, and is asked for what there is.  ``at``: the place of the amount among the arguments.
    """

    family: Family
    call: str
    occasions: tuple[On, ...]
    cells: Mapping[Column, Cell]
    how: str = ""
    refusal: Refusal = Refusal.NEVER
    amount: Amount = Amount.NONE
    at: int = 0
    effects: Row | None = None
    look: bool = False
    plain: tuple[On, ...] = ()

    @property
    def name(self) -> str:
        """The call, and which way of it."""
        return f"{self.call}: {self.how}" if self.how else self.call

    @property
    def changes(self) -> Row:
        """The effects that it may have, each with its causes."""
        if self.effects is not None:
            return self.effects
        rows = dict.fromkeys(row for on in self.occasions for row in (on, *FACETS.get(on, ())))
        return joined(*(ACTIONS[on] for on in rows if on in ACTIONS))


OCCASIONS = frozenset(On)
"""All occasions."""


def line(
    family: Family,
    call: str,
    *occasions: On,
    refused: Cell = GRANTED,
    least: Cell = NO_AMOUNT,
    most: Cell = NO_AMOUNT,
    which: Cell = NO_VICTIMS,
    stays: Cell,
    how: str = "",
    refusal: Refusal = Refusal.NEVER,
    amount: Amount = Amount.NONE,
    at: int = 0,
    effects: Row | None = None,
    plain: tuple[On, ...] = (),
) -> Line:
    """A row of a call that may change something; where it may be refused, each of its ``occasions`` may be its refusal too."""
    if refusal is not Refusal.NEVER:
        both = [name for on in occasions for name in (on, f"refused_{on}")]
        occasions = tuple([On(name) for name in both if name in OCCASIONS])
    cells = dict(zip(Column, (refused, least, most, which, stays), strict=True))
    return Line(family, call, occasions, cells, how, refusal, amount, at, effects, plain=plain)


LOOKING = no("looking changes nothing: two looks in a row are compared, and a target that differs isn't judged")


def look(family: Family, call: str, says: str, *occasions: On, why: str = "") -> Line:
    """A row of a call that says what there is: ``says`` are the rules that compare it, else ``why`` says who does."""
    said = by(says) if says else no(why)
    cells = dict(zip(Column, (GRANTED, said, said, NO_VICTIMS, LOOKING), strict=True))
    return Line(family, call, occasions, cells, look=True, effects={})


BY_THE_SUITE = no("the suite does it to the cache: it takes and gives nothing")


def done_to(family: Family, call: str, *occasions: On, stays: Cell) -> Line:
    """A row of what the suite does to a cache: a fault, a clock, contents, damage."""
    return line(family, call, *occasions, least=BY_THE_SUITE, most=BY_THE_SUITE, stays=stays, effects={})
