"""Lifts: a step of some kind of cache, seen as a step of a plain cache.

One component of a cache of several, and one rank of several, is a plain cache by itself, as far as it can be seen.  So
what a plain cache owes it owes too, and one rule says it for all of them.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from kvlitmus.spec.law.facts import INPUTS, UNKNOWN, Unknown
from kvlitmus.spec.words.setting import Setting

Known = TypeVar("Known")
"""What is known of a plain cache: :class:`~kvlitmus.spec.prefix.state.State`."""

Sight = TypeVar("Sight")
"""What is seen of one: :class:`~kvlitmus.spec.prefix.seen.Seen`."""


class Lifted(NamedTuple, Generic[Known, Sight]):
    """A step of the plain cache that something else is, or has a part that is one.

    The fields mean what the inputs of facts of the same names do (:data:`~kvlitmus.spec.law.facts.INPUTS`).  What such
    a view can't tell is ``UNKNOWN``: nothing is made up, and rules that would need it aren't judged.
    """

    where: str
    """The component, tier or rank in words, as "component kv" or "rank 1"."""
    setting: Setting
    """What the plain cache was asked for and declares; its capabilities say which rules can be judged."""
    state: Known | Unknown = UNKNOWN
    expected: Known | Unknown = UNKNOWN
    then: Known | Unknown = UNKNOWN
    call: object = UNKNOWN
    """A call on a plain cache; unknown where the step is none, so that no rule about calls is judged."""
    answer: object = UNKNOWN
    before: Sight | Unknown = UNKNOWN
    after: Sight | Unknown = UNKNOWN
    hidden: frozenset[str] = frozenset()
    """Facts that could be worked out, but not rightly from such a view."""
    laws: frozenset[str] = frozenset()
    """The rules that are judged of such a view, where these are not all that can be."""

    @property
    def inputs(self) -> tuple[object, ...]:
        """The inputs of facts, in order; what slots hold is taken from the state."""
        return (*self[1:9], None, None, None, None)

    @property
    def unknown(self) -> frozenset[str]:
        """The inputs and facts that nobody knows here."""
        names = [name for name, value in zip(INPUTS, self.inputs, strict=True) if value is UNKNOWN]
        return self.hidden.union(names) if names else self.hidden
