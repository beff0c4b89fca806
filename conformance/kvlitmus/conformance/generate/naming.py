"""Names: what an operation is about, by the operation that made it.

A drawn operation says "the second of the running requests", which is another one as soon as one before it is left out.
While a schedule is shrunk, each operation names instead the operation that made what it is about, by its place in the
schedule, so that others can be left out one by one.  What was named and isn't there makes the operation none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kvlitmus.conformance.generate.schedule import HIGHEST, Op

PLACES = (2, 0, 1)
"""The numbers of an operation, that which mostly says what it is about first."""

Alive = Mapping[str, Iterable[int]]
"""What is alive, by what it is and by its number."""


class Gone(Exception):
    """What an operation names is not there."""


class Naming:
    """Notes which operation made what, and what each operation was about.

    ``about``: by the place of an operation that of the one that made what it picked first.  ``picked``: which of how
    many that was.
    """

    def __init__(self) -> None:
        self.made: dict[str, dict[int, int]] = {}
        self.about: dict[int, int] = {}
        self.picked: dict[int, tuple[int, int, int]] = {}
        self.at = self.of = -1
        self.first = True

    def begin(self, at: int, of: int, alive: Alive) -> None:
        """The operation at this place begins, which names that one (-1: none); what is new, the one before it made."""
        for what, numbers in alive.items():
            known = self.made.get(what, {})
            self.made[what] = {number: known.get(number, at - 1) for number in numbers}
        self.at, self.of, self.first = at, of, True

    def pick(self, what: str, among: Sequence[int], which: int) -> int | None:
        """One of these things, which are alive: the one that is named, else the one of that number.

        Raises :class:`Gone`.
        """
        made, first, self.first = self.made.get(what, {}), self.first, False
        if first and self.of >= 0:
            own = [number for number in among if made.get(number) == self.of]
            if not own:
                raise Gone
            found = own[which % len(own)]
        elif not among:
            return None
        else:
            found = among[which % len(among)]
        if first:
            self.chose(what, among, which, found)
        return found

    def named(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """The operations that were played, each with the name of what it was about."""
        return tuple([op._replace(of=self.about.get(at, -1)) for at, op in enumerate(ops)])

    def numbered(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """The same without names: a number says which of the things that were alive each was about."""
        return tuple(
            [
                (numbered_op(op, *self.picked[at]) if op.of >= 0 and at in self.picked else op)._replace(of=-1)
                for at, op in enumerate(ops)
            ]
        )

    def chose(self, what: str, among: Sequence[int], which: int, found: int) -> None:
        """The operation is about this one of these."""
        made = self.made.get(what, {})
        maker = made.get(found, -1)
        own = [number for number in among if made.get(number, -1) == maker]
        self.about[self.at] = maker if own[which % len(own)] == found else -1
        self.picked[self.at] = (which, among.index(found), len(among))


def numbered_op(op: Op, which: int, index: int, many: int) -> Op:
    """An operation whose number that said ``which`` says the ``index`` of ``many`` now, and is as like it as can be."""
    place = next((place for place in PLACES if op[1 + place] == which), None)
    like = min(range(index, HIGHEST + 1, many), key=lambda number: abs(number - which))
    return op if place is None else op.with_number(place, like)


def without(ops: Sequence[Op], gone: Iterable[int]) -> tuple[Op, ...]:
    """The operations but for those at these places, and for those that are about what these have made."""
    places: dict[int, int] = {-1: -1}
    left: list[Op] = []
    dropped = set(gone)
    for at, op in enumerate(ops):
        if at not in dropped and op.of in places:
            places[at] = len(left)
            left.append(op if op.of < 0 else op._replace(of=places[op.of]))
    return tuple(left)
