"""The facts that rules speak of.

A **fact** is a pure function, named after what it says; its docstring is its meaning, and its
**depth** is the least depth of observation at which it can be known.  Depth 0 is what the suite itself
passed in, got back, wrote into slots or can conclude from that; 1 adds counters (``available``, the
tree's sizes); 2 adds events; 3 adds a full snapshot (free list, nodes).

The parameters of a fact name other facts, or one of the :data:`INPUTS`: the one definition of a fact
serves judge, recorded traces, enumerations, lemmas and docs.  A fact that can't be known here is
:data:`UNKNOWN`; its return type says so (``… | Unknown``), every fact that is worked out from it is
unknown too, and a rule that speaks of it is *not judged here*.

Some facts are known only where there is *no* snapshot (``unseen``): what they say from answers and counters, others say
better where the cache was looked at.

A fact is defined in the module of the part that speaks of it first.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kvlitmus.spec.law.fingerprint import Source, digest

Compute = TypeVar("Compute", bound=Callable[..., Any])


class Unknown(enum.Enum):
    """What can't be known, as a type of its own."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        raise TypeError("an unknown fact is neither true nor false; compare it with UNKNOWN")


UNKNOWN: Final = Unknown.UNKNOWN
"""The one value of :class:`Unknown`."""

INPUTS: Mapping[str, str] = {
    "setting": "what was asked for and declared: configuration, profile, capabilities",
    "state": "what was known before the call",
    "expected": "what a correct cache has after the call, as far as the call and its answer say",
    "then": "what is known after the call: what was expected, as it was seen",
    "call": "the call",
    "answer": "its answer",
    "before": "what was seen of the cache before the call",
    "after": "what was seen of the cache after the call",
    "found": "what the slots of the answer held when it was given",
    "row_found": "what the request's row held after its caller had computed",
    "pools": "what was seen of all pools of a cache of components after the call",
    "component_known": "what is known of a cache of components after the call, by its answer and as it was seen",
}
"""What facts are worked out from, in the end: the names that their parameters may have beside those of facts."""


Facts = dict[str, Any]
"""What is known of one step, by the names of facts; of what type each is, its function says."""


class Fact(NamedTuple):
    """What a fact means, from which depth on it is known, and how."""

    depth: int
    """The least depth of observation at which it can be known."""
    meaning: str
    """What it says, in words."""
    compute: Callable[..., Any]
    """The function that works it out."""
    needs: tuple[str, ...] = ()
    """The facts and inputs that it is worked out from."""
    open: bool = False
    """Whether it may be unknown."""
    ports: frozenset[str] = frozenset()
    """The capabilities without which it can't be known."""
    unseen: bool = False
    """Whether it is unknown where there is a snapshot."""


FACTS: dict[str, Fact] = {}
"""All facts by name."""

BEFORE: dict[str, str] = {"then": "state", "expected": "state", "after": "before"}
"""What is known or seen after a call, or follows from it, and what the same is called of the moment before."""


def digests_of(names: Iterable[str], source: Source) -> dict[str, str]:
    """The digests of these facts and of all that they are worked out from, each by what it is worked out from and how."""
    found: dict[str, str] = {}
    for name in worked_out_from(names):
        one = FACTS[name]
        needs = [found.get(need, need) for need in one.needs]
        known = (one.depth, one.open, sorted(one.ports), one.unseen)
        found[name] = digest(f"{known} {needs} {source.of(one.compute)}")
    return found


def fact(
    depth: int, *, ports: tuple[str, ...] = (), unseen: bool = False, before: str = ""
) -> Callable[[Compute], Compute]:
    """Define a fact by the function that works it out; the function itself is returned unchanged.

    ``before``: what the same is called of the moment before the call, if anybody speaks of that: another fact, which is
    defined along with it, or the input that is the same already.
    Raises ``ValueError`` for a name that is taken, a parameter that is neither a fact nor an input, and a function
    without a meaning.
    """

    def register(compute: Compute) -> Compute:
        name, meaning = compute.__name__, " ".join((inspect.getdoc(compute) or "").split())
        needs = tuple(inspect.signature(compute).parameters)
        strange = [one for one in needs if one not in FACTS and one not in INPUTS]
        if strange:
            raise ValueError(f"fact {name!r} is worked out from {strange}, which are neither facts nor inputs", name)
        if not meaning:
            raise ValueError(f"fact {name!r} has no meaning", name)
        unknown = re.search(r"\bUnknown\b", str(compute.__annotations__.get("return", ""))) is not None
        text = meaning.rstrip(".")
        text = text if text[1:2].isupper() else text[0].lower() + text[1:]
        one = Fact(depth, text, compute, needs, unknown, frozenset(ports), unseen)
        add(name, one)
        if before:
            BEFORE[name] = before
        if before and before not in INPUTS:
            needs = tuple([BEFORE.get(need, need) for need in needs])
            add(before, one._replace(meaning=text.replace(" after ", " before "), needs=needs))
        return compute

    return register


def add(name: str, one: Fact) -> None:
    """Note a fact; a name can't be taken twice, nor be that of an input."""
    if name in FACTS or name in INPUTS:
        raise ValueError(f"fact {name!r} is already defined", name)
    FACTS[name] = one


def worked_out_from(names: Iterable[str]) -> tuple[str, ...]:
    """These facts and all that they are worked out from, each after what it needs."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in ordered or name not in FACTS:
            return
        for one in FACTS[name].needs:
            visit(one)
        ordered[name] = None

    for name in names:
        visit(name)
    return tuple(ordered)
