"""The specimen as a target: its parts put together behind the ports."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.store import StoreSpecimen
from kvlitmus.conformance.specimen.tree import POLICIES
from kvlitmus.spec.config import Config
from kvlitmus.spec.profile import Profile


class SpecimenTarget:
    """The target ``specimen``, or a variant of it made of other parts."""

    pools = ("device", "host", "tiers", "store")

    def __init__(self, parts: Parts | None = None, profile: Profile = PROFILE) -> None:
        self.parts = parts or Parts()
        self.profile = profile

    def make(self, config: Config) -> Any:
        """A fresh :class:`Specimen`; its page store alone, where that is asked for."""
        if config.pool == "store":
            return StoreSpecimen(self.parts.store)
        if config.tiered:
            return self.make_tiered(config)
        if config.policy not in POLICIES:
            raise Unsupported(f"the specimen has no policy {config.policy!r}; it has {', '.join(POLICIES)}")
        return (self.parts.cache or Specimen)(config, self.parts, self.profile)

    def make_tiered(self, config: Config) -> TieredSpecimen:
        """A fresh specimen with a host tier."""
        made: TieredSpecimen = (self.parts.tiered or TieredSpecimen)(config, self.parts, self.profile)
        return made


target = SpecimenTarget()
"""The default target of ``kvlitmus run``."""
