"""Components: the kinds of state that a cache keeps for a prefix, and at which boundaries each of them is valid.

A model may keep more than the KV of every token: a sliding window of it, chunks, a recurrent state, index keys.  Each is
a **component**.  What it keeps is made of **entries**; an entry stands for ``unit`` tokens, takes one place of a
**pool** (several components may share one), and is named by the prefix that ends with it.  A **boundary** is a length
at which a prefix may end: a common multiple of what all components are aligned to.

The **shape** of a component says once which entries a boundary needs (:func:`needed`).  A prefix can be used up to a
boundary only if every component has what the boundary needs (:func:`valid`), so what a match returns is the *largest
admitted boundary that is valid for all* (:func:`largest`).  This need not be the least of what each component could do
alone, see :mod:`kvlitmus.spec.prefix.components.fetch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WHOLE_LEAVES = ("leaf", "later")
"""The cascades in which all goes with an entry at the end of a path."""


@dataclass(frozen=True, slots=True)
class Run:
    """The whole prefix is needed: KV of full attention."""


@dataclass(frozen=True, slots=True)
class Window:
    """The ``reach`` tokens before the boundary are needed: w of them in SGLang, w - 1 in vLLM for a window of w."""

    reach: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens since the last multiple of ``size`` are needed: chunked local attention."""

    size: int


@dataclass(frozen=True, slots=True)
class Point:
    """One entry is needed, stored for the boundary itself: a recurrent state."""


@dataclass(frozen=True, slots=True)
class Derived:
    """The same tokens are needed as of the component ``of``: index keys, one for each entry of the KV."""

    of: str


Shape = Run | Window | Chunk | Point | Derived


class Component(NamedTuple):
    """One kind of state.

    ``unit``: how many tokens an entry stands for.  ``align``: boundaries are multiples of it; it is a multiple of
    ``unit``.
    """

    name: str
    shape: Shape
    pool: str
    unit: int
    align: int


def start_of(shape: Shape, boundary: int, root: str) -> int | None:
    """The first token that a boundary needs of a component of this shape; ``None``: it can't be valid there."""
    if isinstance(shape, Window):
        if boundary < shape.reach and root == "full" and boundary:
            return None
        return max(0, boundary - shape.reach)
    if isinstance(shape, Chunk):
        return boundary - boundary % shape.size
    return 0


def needed(component: Component, boundary: int, root: str = "shorter") -> range | None:
    """Where the entries end that a boundary needs, in tokens from the root; ``None``: it can't be valid there."""
    if isinstance(component.shape, Point):
        return range(boundary, boundary + 1 if boundary else boundary)
    start = start_of(component.shape, boundary, root)
    if start is None:
        return None
    unit = component.unit
    return range(start - start % unit + unit, boundary + 1, unit)


def valid(component: Component, boundary: int, held: Container[int], root: str = "shorter") -> bool:
    """Whether a boundary is valid for a component that holds entries which end there."""
    ends = needed(component, boundary, root)
    return ends is not None and all(end in held for end in ends)


def working(component: Component, before: int, after: int) -> tuple[int, ...]:
    """Where the entries end that the tokens between two lengths are computed with.

    They are what is read by the first of these tokens, and what all of them are written to.  Of a :class:`Point` it is the
    state that they go on from, and the one that they leave behind.
    """
    unit = component.unit
    first, last = before + -before % unit, after + -after % unit
    if isinstance(component.shape, Point):
        return tuple(sorted({first, last} - {0}))
    start = start_of(component.shape, before, "shorter") or 0
    return tuple(range(start - start % unit + unit, last + 1, unit))


def step_of(components: Iterable[Component]) -> int:
    """How far apart boundaries are: the least common multiple of what the components are aligned to."""
    return math.lcm(*[one.align for one in components])


def admit(boundary: int, length: int, step: int, cap: str = "full") -> bool:
    """Whether a prefix of a key of this length may end at a boundary at all; ``cap``: the profile's ``match_cap``."""
    return 0 <= boundary <= length - (cap == "len-1" and length > 0) and boundary % step == 0


def followed(component: Component, boundary: int, held: Container[int]) -> bool:
    """Whether a component holds the entry behind a boundary, too; of a :class:`Point` nothing is asked there.

    That entry is dropped from a hit and computed again (EAGLE): the draft model needs what the model says of it.
    """
    return isinstance(component.shape, Point) or not boundary or boundary + component.unit in held


def largest(
    components: Sequence[Component],
    length: int,
    held: Callable[[str], Container[int]],
    *,
    root: str = "shorter",
    cap: str = "full",
    drop: str = "none",
    most: int | None = None,
) -> int:
    """The largest admitted boundary of a key of this length that is valid for all components; the largest up to ``most``.

    ``held``: where the entries of a component end that are there.  The root is always valid.  ``drop``: with ``last`` each
    must hold the entry behind it as well (:func:`followed`).
    """
    step, end = step_of(components), length if most is None else min(length, most)
    for boundary in range(end - end % step, 0, -step):
        if (
            admit(boundary, length, step, cap)
            and all(valid(one, boundary, held(one.name), root) for one in components)
            and (drop == "none" or all(followed(one, boundary, held(one.name)) for one in components))
        ):
            return boundary
    return 0


class Need(NamedTuple):
    """How many entries of a component are asked for; where there is room for fewer, all is cut short if it is ``truncatable``, else refused."""

    component: Component
    entries: int
    truncatable: bool = False


def summed(needs: Iterable[Need]) -> Mapping[str, int]:
    """What is asked of each pool."""
    total: dict[str, int] = {}
    for need in needs:
        total[need.component.pool] = total.get(need.component.pool, 0) + need.entries
    return total


def fits(needs: Iterable[Need], available: Mapping[str, int]) -> bool:
    """Whether all of this can be granted: it is summed for each pool before anything is taken."""
    return all(available.get(pool, 0) >= entries for pool, entries in summed(needs).items())
