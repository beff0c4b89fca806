"""Known bugs, put into the optimized cache: what its tests are judged with.

Each **mutant** is a part of the cache, or a kernel of it, in which some methods are replaced by ones with a bug that
some cache in use had.  Which bug, and which rules it breaks, is said by the specimen's mutants of the same names
(``like``), so that one bug is counted once.

**Null mutants** are legal variations: the suite must not say a word.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from kvlitmus.conformance.adapters.optimized.target import OptimizedTarget
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS, TIERED
from kvlitmus.mutants.mutant import Mutant, Register, recipe_of
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.optimized.hierarchy import TierParts
from tests.support.mutants import Change, Patched, found_at

PACKAGE = "kvlitmus.optimized"
FLAT = (Config(page_size=4), Config(page_size=1, pages=10))
TIERS = (TIERED, TIER_CONFIGS[1], TIER_CONFIGS[3])
HITS = (Config(page_size=4, policy="lfu"), Config(page_size=4, policy="slru"))
FLAT_PAGED = (Config(page_size=4), Config(page_size=4, pages=8))
SELECTIVE = (TIER_CONFIGS[2],)
TIMED = (TIER_CONFIGS[2], TIER_CONFIGS[4])
BACK = (TIER_CONFIGS[3], TIER_CONFIGS[4])

USUAL: dict[str, type] = {one.name: getattr(TierParts(), one.name) for one in fields(TierParts) if one.name != "core"}
"""The parts of the optimized cache."""

LIKE = all_mutants()
"""The mutants of the specimen."""

MUTANTS = Register()
"""All mutants and null mutants of the optimized cache by id."""


def mutant(
    id: str,
    *places: str,
    like: tuple[str, ...] = (),
    configs: tuple[Config, ...] = FLAT,
    more: tuple[str, ...] = (),
) -> Callable[[Change], Change]:
    """Register what makes a replacement out of an original, for all of these places; its docstring is the recipe.

    A mutant puts back the bugs that those of the specimen put back which it is ``like``, and may be killed by the
    rules that they name, and by ``more``.  One that is like none is a null mutant.
    """

    def register(change: Change) -> Change:
        parts, patches = replaced(dict.fromkeys(places, change))
        same = [LIKE[id] for id in like]
        told: dict[str, Any] = {
            "id": id,
            "recipe": recipe_of(id, change),
            "kills": tuple(dict.fromkeys([rule for one in same for rule in one.kills] + list(more))),
            "bugs": tuple(dict.fromkeys(bug for one in same for bug in one.bugs)),
            "target": OptimizedTarget(made_of(parts) if parts else None, core="python"),
            "configs": configs,
        }
        MUTANTS.add(Patched(**told, patches=patches) if patches else Mutant(**told))
        return change

    return register


def replaced(changes: dict[str, Change]) -> tuple[dict[str, type], dict[str, Change]]:
    """The parts of a cache in which these places are changed, and what belongs to no part and must be patched."""
    parts: dict[str, type] = {}
    patches: dict[str, Change] = {}
    for place, change in changes.items():
        owner, name = found_at(f"{PACKAGE}.{place}")
        of = [part for part, made in USUAL.items() if isinstance(owner, type) and issubclass(made, owner)]
        if not of:
            patches[f"{PACKAGE}.{place}"] = change
        for part in of:
            base = parts.get(part, USUAL[part])
            parts[part] = type(base.__name__, (base,), {name: change(inspect.getattr_static(owner, name))})
    return parts, patches


def made_of(parts: dict[str, Any]) -> TierParts:
    """The Python core's parts, but these."""
    return replace(TierParts(), **parts)


def nothing(*args: Any, **options: Any) -> None:
    """Do nothing."""


@contextmanager
def without(owner: Any, *names: str) -> Iterator[None]:
    """For a while these methods of an object do nothing."""
    for name in names:
        setattr(owner, name, nothing)
    try:
        yield
    finally:
        for name in names:
            delattr(owner, name)


def registered() -> Register:
    """All mutants; importing their modules is what registers them."""
    for module in ("tree", "request", "host", "storage", "life", "plan"):
        importlib.import_module(f"tests.optimized.support.mutants_{module}")
    return MUTANTS
