"""Tables of states: what a thing may be, and which steps lead from one state to another.

A table is the source: the pages of the documentation are rendered from it, and what caches do is held against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import product
from typing import NamedTuple

NONE = "none"
"""The state of what hasn't begun."""


class Step(NamedTuple):
    """One thing of a ``kind``, ``before`` and ``after`` a call, the ``cause``."""

    kind: str
    before: str
    cause: str
    after: str


class Transition(NamedTuple):
    """Steps that are legal: from any of these states, for any of these causes, with things of these kinds.

    ``why``: what it means.  ``elsewhere``: what kind of cache makes it, where no cache of this project does.
    """

    kinds: tuple[str, ...]
    before: tuple[str, ...]
    causes: tuple[str, ...]
    after: str
    why: str
    elsewhere: str = ""

    def steps(self) -> tuple[Step, ...]:
        """The single steps."""
        return tuple(Step(*one, self.after) for one in product(self.kinds, self.before, self.causes))


class Table:
    """The ``states`` with their meanings, and the ``transitions`` between them.

    Where nothing is said of a call, things stay as they are in it; a cause in ``moves`` always needs a transition.
    """

    def __init__(
        self, states: Mapping[str, str], transitions: tuple[Transition, ...], moves: tuple[str, ...] = ()
    ) -> None:
        self.states = states
        self.transitions = transitions
        self.moves = frozenset(moves)

    @cached_property
    def steps(self) -> Mapping[Step, Transition]:
        """Every step of the transitions, each with the one that it is of."""
        return {step: one for one in self.transitions for step in one.steps()}

    def is_legal(self, step: Step) -> bool:
        """Whether a step may be made: it is one of the table's, or changes nothing in a call that may change nothing."""
        return step in self.steps or (step.before == step.after and step.cause not in self.moves)
