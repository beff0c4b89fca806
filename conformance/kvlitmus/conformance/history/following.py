"""What is left of a tape, of which one that was taken too early can be put back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

One = TypeVar("One")


class Following(Iterator[One], Generic[One]):
    """The calls that are left.  ``ended``: there were no more."""

    def __init__(self, calls: Iterable[One]) -> None:
        self._calls = iter(calls)
        self._kept: list[One] = []
        self.ended = False

    def __next__(self) -> One:
        found = self._kept.pop() if self._kept else next(self._calls, None)
        self.ended = found is None
        if found is None:
            raise StopIteration
        return found

    def asked_together(
        self, first: One, asked: Callable[[One], tuple[object, object]], ranks: Collection[object]
    ) -> list[One]:
        """The calls that ask some of these ranks the same as the first does, one after the other, each once.

        ``asked``: which rank a call asks, and what; ``None`` of a call that asks none.
        """
        rank, what = asked(first)
        found, left = [first], [one for one in ranks if one != rank]
        for one in self:
            rank, other = asked(one)
            if rank not in left or other != what:
                self._kept.append(one)
                break
            left.remove(rank)
            found.append(one)
        return found
