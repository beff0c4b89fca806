"""The register of the specimen's mutants, and how a class becomes one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TypeVar

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.plan import (
    COMPONENT_CONFIGS,
    COMPONENT_HOST_CONFIGS,
    COMPONENT_STORAGE_CONFIGS,
    RANKS,
    REQUEST_CONFIGS,
    SPARSE_CONFIGS,
    STORE_CONFIGS,
)
from kvlitmus.conformance.specimen.cache import ComponentRequestTarget, SpecimenTarget, made_of, place_of
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.hosted import HOSTED, NOT_BACK
from kvlitmus.mutants.mutant import Mutant, Register, recipe_of

MODULES: tuple[str, ...] = (
    "prefix.pool",
    "prefix.keys",
    "prefix.tree",
    "prefix.lock",
    "prefix.evict",
    "prefix.request",
    "prefix.rows",
    "prefix.release",
    "misuse",
    "prefix.prefetch",
    "prefix.hashing",
    "stores",
    "sparse.rows",
    "sparse.staging",
    "sparse.admission",
    "sparse.ratio",
    "sparse.transfer",
    "sparse.growth",
    "sparse.promises",
    "components.tree",
    "components.sizes",
    "components.prefetch",
    "components.prefetch_choices",
    "components.host",
    "components.copies",
    "components.host_keys",
    "components.writes",
    "components.storing",
    "components.events",
    "components.requests",
    "components.drops",
    "components.order",
    "components.misuse",
    "ranks.decisions",
    "ranks.lost",
    "ranks.states",
    "ranks.changes",
    "ranks.victims",
    "ranks.alike",
    "prefix.tier",
    "prefix.making_room",
    "prefix.backup",
    "prefix.load",
    "prefix.fetch",
    "prefix.put",
    "prefix.failing",
    "prefix.life",
    "prefix.event",
    "prefix.frame",
    "prefix.free_choices",
    "legal.prefix.flat",
    "legal.prefix.tier",
    "legal.ranks",
    "legal.components.tree",
    "legal.components.prefetch",
    "legal.components.host",
    "legal.components.copies",
    "legal.components.storing",
    "legal.components.callers",
    "legal.components.order",
    "components.choices",
    "legal.choices",
)
"""The modules of this package that hold mutants, in the order in which they are listed."""

PAGED = Config(page_size=4)
PLAIN = Config(page_size=1)

ALONE = (PLAIN,)
"""Enough for a part that gets all its sizes with each call."""

SHOWS_IN: dict[str, tuple[Config, ...]] = {
    **dict.fromkeys(("prefetch", "hashing"), ALONE),
    "store": STORE_CONFIGS[:1],
    "sparse": SPARSE_CONFIGS[:2],
    **dict.fromkeys(("component_pools", "component_tree", "component_fetches"), COMPONENT_CONFIGS[:3]),
    **dict.fromkeys(("component_claims", "components"), COMPONENT_CONFIGS[:3]),
    "component_copies": COMPONENT_HOST_CONFIGS[:2],
    "component_writes": COMPONENT_STORAGE_CONFIGS[:2],
    "component_requests": REQUEST_CONFIGS[:2],
    "ranked": (RANKS,),
    **dict.fromkeys(("host", "copier", "works", "tiers", "loads", "fetches", "puts", "tiered"), HOSTED),
    "backups": NOT_BACK,
}
"""Under which configurations a mutant of a part shows, unless it says; of the other parts at pages of one and four."""

MUTANTS = Register()
"""All mutants and null mutants of the specimen by id."""

Part = TypeVar("Part", bound=type)


def mutant(
    id: str,
    *,
    kills: tuple[str, ...],
    bugs: tuple[str, ...] = (),
    links: tuple[str, ...] = (),
    beside: tuple[type, ...] = (),
    profile: Profile = PROFILE,
    configs: tuple[Config, ...] | None = None,
    long_because: str = "",
) -> Callable[[Part], Part]:
    """Register a class as a mutant: it takes the place of the part of the specimen that it is derived from.

    ``kills`` are the rules of which at least one must catch it.  ``beside`` are further parts that the bug needs
    around it, such as a pool that believes its callers.  The class's docstring is the recipe.  Raises ``ValueError``
    for an id that is taken, and for a class without a docstring or of no part.
    """

    def register(part: Part) -> Part:
        made = ComponentRequestTarget if place_of(part) == "component_requests" else SpecimenTarget
        MUTANTS.add(
            Mutant(
                id=id,
                recipe=recipe_of(id, part),
                kills=kills,
                target=made(made_of(*beside, part), profile),
                configs=configs or SHOWS_IN.get(place_of(part), (PLAIN, PAGED)),
                bugs=bugs,
                links=links,
                long_because=long_because,
                module=part.__module__,
            )
        )
        return part

    return register


def null_mutant(
    id: str,
    *,
    beside: tuple[type, ...] = (),
    profile: Profile = PROFILE,
    configs: tuple[Config, ...] | None = None,
) -> Callable[[Part], Part]:
    """Register a class as a null mutant: a legal variation, under this profile, that nothing may notice."""
    return mutant(id, kills=(), beside=beside, profile=profile, configs=configs)


def all_mutants() -> Register:
    """Every mutant of the specimen, module by module; importing these is what registers them.

    Whoever imports one of them first has no say in the order.
    """
    for module in MODULES:
        importlib.import_module(f"kvlitmus.mutants.{module}")
    places = {f"kvlitmus.mutants.{module}": at for at, module in enumerate(MODULES)}
    return Register(sorted(MUTANTS.items(), key=lambda one: places.get(one[1].module, len(MODULES))))


def mutant_of(module: str, id: str) -> Mutant:
    """One mutant of one of these modules, without the others; raises ``KeyError`` where it isn't there."""
    importlib.import_module(f"kvlitmus.mutants.{module}")
    return MUTANTS[id]
