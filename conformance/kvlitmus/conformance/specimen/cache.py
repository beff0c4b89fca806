"""The specimen as a target: its parts put together behind the ports."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.ports.component_configs import refuse_others
from kvlitmus.conformance.specimen.components.host import ComponentHierarchy
from kvlitmus.conformance.specimen.components.requests import ComponentServer
from kvlitmus.conformance.specimen.components.storing import ComponentStorehouse
from kvlitmus.conformance.specimen.components.tree import ComponentSpecimen
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.tree import POLICIES
from kvlitmus.conformance.specimen.ranks import RankedSpecimen
from kvlitmus.conformance.specimen.sparse import SparseSpecimen
from kvlitmus.conformance.specimen.stores import StoreSpecimen
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile

PLACES: dict[type, str] = {
    **{part.default: part.name for part in fields(Parts) if isinstance(part.default, type)},
    Specimen: "cache",
    TieredSpecimen: "tiered",
    ComponentSpecimen: "components",
}
"""The part that each class is; one derived from it may take its place."""


def place_of(part: type) -> str:
    """The part of a specimen whose place a class can take; raises ``ValueError`` for a class that is of no part."""
    place = next((PLACES[base] for base in part.__mro__ if base in PLACES), None)
    if place is None:
        raise ValueError(f"{part.__name__} must be derived from a part of the specimen: {sorted(PLACES.values())}")
    return place


def made_of(*parts: type) -> Parts:
    """The usual parts, but for these, each in the place of the one that it is derived from."""
    return Parts(**{place_of(part): part for part in parts})


class SpecimenTarget:
    """The target ``specimen``, or a variant of it made of other parts."""

    pools: tuple[str, ...] = ("device", "host", "tiers", "store", "sparse", "ranks")

    def __init__(self, parts: Parts | None = None, profile: Profile = PROFILE) -> None:
        self.parts = parts or Parts()
        self.profile = profile

    def make(self, config: Config) -> Any:
        """A fresh :class:`Specimen`; its page store, its sparse host pool or several ranks, where that is asked for."""
        if config.pool == "store":
            return StoreSpecimen(self.parts.store)
        if config.pool == "sparse":
            return SparseSpecimen(self.parts.sparse(config, self.profile))
        if config.components:
            return self.make_components(config)
        if config.pool == "ranks":
            return RankedSpecimen(self.parts.ranked)
        if config.tiered:
            return self.make_tiered(config)
        if config.policy not in POLICIES:
            raise Unsupported(f"the specimen has no policy {config.policy!r}; it has {', '.join(POLICIES)}")
        return (self.parts.cache or Specimen)(config, self.parts, self.profile)

    def make_components(self, config: Config) -> ComponentSpecimen:
        """A fresh cache of components, with host memory and storage behind it where that is asked for."""
        refuse_others(config)
        hosted = ComponentHierarchy if config.storage == "none" else ComponentStorehouse
        usual = hosted if config.tiered else ComponentSpecimen
        made: ComponentSpecimen = (self.parts.components or usual)(config, self.parts, self.profile)
        return made

    def make_tiered(self, config: Config) -> TieredSpecimen:
        """A fresh specimen with a host tier."""
        made: TieredSpecimen = (self.parts.tiered or TieredSpecimen)(config, self.parts, self.profile)
        return made


target = SpecimenTarget()
"""The default target of ``kvlitmus run``."""


class ComponentTarget(SpecimenTarget):
    """The specimen as a cache of components alone."""

    capabilities = (
        "component_lookup",
        "components",
        "component_prefetch",
        "component_counters",
        "component_sizes",
        "component_events",
        "component_view",
    )
    pools = ("component_host", "component_writes", "component_storage")

    def make(self, config: Config) -> Any:
        """A fresh cache of the components of the configuration."""
        return self.make_components(config)


component_target = ComponentTarget()
"""The target ``components``."""


class ComponentRequestTarget(SpecimenTarget):
    """The specimen as a cache that serves requests on components."""

    capabilities = ("component_lookup", "component_requests", "component_events", "component_view")

    def make(self, config: Config) -> Any:
        """A fresh cache of the components of the configuration."""
        refuse_others(config)
        return ComponentServer(config, self.parts, self.profile)


component_request_target = ComponentRequestTarget(profile=replace(PROFILE, match_cap="len-1"))
"""The target ``component-requests``; the last token of a request is always computed."""
