"""The register of mutants."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts

MODULES: tuple[str, ...] = (
    "pool",
    "keys",
    "tree",
    "lock",
    "evict",
    "request",
    "release",
    "misuse",
    "prefetch",
    "hashing",
    "store",
    "tiers",
    "backup",
    "load",
    "fetch_plan",
    "fetch",
    "fetch_end",
    "put",
    "failing",
    "life",
    "event",
    "legal.flat",
    "legal.tiers",
)
"""The modules of this package that hold mutants, in the order in which they are listed."""

PAGED = Config(page_size=4)
PLAIN = Config(page_size=1)

Part = TypeVar("Part", bound=type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One mutant.

    id: a short name, such as ``split-forgets-locks``.  bugs: ids of the known bugs that it puts
    back (empty for a null mutant).  links: where they were reported.  kills: the rules that must
    catch it.  configs: under which configurations it shows.  long_because: why its shortest
    counterexample needs more than 15 steps, where it does.
    """

    id: str
    bugs: tuple[str, ...]
    links: tuple[str, ...]
    recipe: str
    kills: tuple[str, ...]
    parts: Parts
    profile: Profile = PROFILE
    configs: tuple[Config, ...] = (PLAIN, PAGED)
    null: bool = False
    long_because: str = ""

    @property
    def target(self) -> SpecimenTarget:
        """The specimen with this mutant's parts."""
        return SpecimenTarget(self.parts, self.profile)


MUTANTS: dict[str, Mutant] = {}
"""All mutants and null mutants by id."""


def mutant(
    id: str,
    *,
    bugs: tuple[str, ...],
    links: tuple[str, ...],
    kills: tuple[str, ...],
    slot: str,
    profile: Profile = PROFILE,
    configs: tuple[Config, ...] = (PLAIN, PAGED),
    long_because: str = "",
    beside: Mapping[str, type] | None = None,
) -> Callable[[Part], Part]:
    """Register a class as a mutant: it takes the place ``slot`` (``pool``, ``tree``, ``requests``, …) in the parts.

    ``beside`` names further parts that the bug needs around it, such as a pool that believes its
    callers.  The class's docstring is the recipe.  Raises ``ValueError`` for an id that is taken, or a class
    without a docstring.
    """
    return _register(id, bugs, links, kills, slot, profile, configs, long_because, beside or {}, null=False)


def null_mutant(
    id: str,
    *,
    slot: str,
    profile: Profile = PROFILE,
    configs: tuple[Config, ...] = (PLAIN, PAGED),
    beside: Mapping[str, type] | None = None,
) -> Callable[[Part], Part]:
    """Register a class as a null mutant: a legal variation, under this profile."""
    return _register(id, (), (), (), slot, profile, configs, "", beside or {}, null=True)


def _register(
    id: str,
    bugs: tuple[str, ...],
    links: tuple[str, ...],
    kills: tuple[str, ...],
    slot: str,
    profile: Profile,
    configs: tuple[Config, ...],
    long_because: str,
    beside: Mapping[str, type],
    *,
    null: bool,
) -> Callable[[Part], Part]:
    def register(part: Part) -> Part:
        parts: dict[str, Any] = {**beside, slot: part}
        recipe = inspect.getdoc(part)
        if id in MUTANTS:
            raise ValueError(f"mutant {id!r} is registered twice", id)
        if not recipe or part.__doc__ is None:
            raise ValueError(f"mutant {id!r} has no recipe: give the class a docstring", id)
        MUTANTS[id] = Mutant(
            id=id,
            bugs=bugs,
            links=links,
            recipe=recipe,
            kills=kills,
            parts=Parts(**parts),
            profile=profile,
            configs=configs,
            null=null,
            long_because=long_because,
        )
        return part

    return register


def all_mutants() -> dict[str, Mutant]:
    """Every mutant; importing the modules is what registers them."""
    for module in MODULES:
        importlib.import_module(f"kvlitmus.mutants.{module}")
    return MUTANTS
