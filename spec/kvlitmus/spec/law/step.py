"""A step: one call on a cache, what it answered, and the cache before and after."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

Sight = TypeVar("Sight")


class Step(NamedTuple, Generic[Sight]):
    """One call that was made and answered.

    ``call`` and ``answer`` as in :mod:`kvlitmus.spec.prefix.calls`.  ``before`` and ``after``: what was seen of the cache.  Of a
    cache under test that is a snapshot (:class:`~kvlitmus.spec.prefix.seen.Seen`); of the reference it is all that there is
    (:class:`~kvlitmus.spec.prefix.state.State`).
    """

    call: Any
    answer: Any
    before: Sight
    after: Sight
