"""The target ``reference``, and variants of it with other legal choices."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.adapters.reference.flat import PROFILE, ReferenceCache, ReferencePorts
from kvlitmus.conformance.adapters.reference.ranks import RankedReference
from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.words.policies import POLICIES


class ReferenceTarget:
    """The target ``reference``, or a variant of it with other legal choices."""

    pools = ("device", "host", "tiers", "ranks")

    def __init__(self, profile: Profile = PROFILE) -> None:
        self.profile = profile

    def make(self, config: Config) -> ReferencePorts | RankedReference:
        """A fresh reference cache, with a host below it where the configuration has one; or ranks that hold one."""
        if config.pool == "ranks":
            return RankedReference()
        if config.policy not in POLICIES:
            raise Unsupported(f"the reference has no policy {config.policy!r}; it has {', '.join(POLICIES)}")
        if config.components:
            raise Unsupported(f"this reference has KV alone, no {config.components}: reference-components has them")
        if config.tiered:
            return TieredReference(config, self.profile)
        return ReferenceCache(config, self.profile)


target = ReferenceTarget()
"""The reference."""


node_target = ReferenceTarget(replace(PROFILE, evict_granularity="node"))
"""The reference when it evicts whole nodes."""


capped_target = ReferenceTarget(replace(PROFILE, match_cap="len-1"))
"""The reference when a match leaves one unit to compute."""


late_target = ReferenceTarget(
    replace(PROFILE, reserve="hit", timeout_from="first_poll", timeout_basis="requested", timeout=(1.0, 64.0, 0.0))
)
"""The reference when a prefetch takes memory late."""


filling_target = ReferenceTarget(
    replace(PROFILE, backup_parent="chain", fill_matched=True, restored_counts=True, load_threshold=6)
)
"""The reference when it fills and chains."""
