"""Things that are not what they seem, for hostile adapters to hand out and to raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Odd(BaseException): ...


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Quitter(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


class NoRepr:
    def __repr__(self) -> str:
        raise SystemExit(7)


class LongRepr:
    def __repr__(self) -> str:
        return "x" * 100_000_000


class FakeInt(int): ...  # like the integers of array libraries


class Liar(list[int]):
    def __len__(self) -> int:
        return 1 << 60

    def __eq__(self, other: object) -> bool:
        return True

    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1

    __hash__ = None


class LyingTuple(tuple[Any, ...]):
    def __len__(self) -> int:
        raise MemoryError

    def __iter__(self) -> Iterator[Any]:
        raise ZeroDivisionError


class NeverEqual:
    def __eq__(self, other: object) -> bool:
        raise OverflowError("don't compare me")

    __hash__ = None  # type: ignore[assignment]


class FakeClass:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise LookupError("no class")


class ExitingClass:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise SystemExit(9)


class ExitingEqual:
    def __eq__(self, other: object) -> bool:
        raise SystemExit(9)

    __hash__ = None  # type: ignore[assignment]


class ExitingError(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise SystemExit(9)
