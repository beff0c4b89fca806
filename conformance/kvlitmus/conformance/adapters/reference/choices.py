"""The legal choices of the reference's hierarchy, as configuration and profile say them."""

from __future__ import annotations

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.hierarchy import Choices


def choices_of(config: Config, profile: Profile) -> Choices:
    """The choices that make a hierarchy behave as declared."""
    return Choices(
        write=config.write,
        stop=config.stop,
        threshold=config.threshold,
        rate_limit=config.rate_limit,
        reserve=profile.reserve,
        backup_parent=profile.backup_parent,
        fill_matched=profile.fill_matched,
        load_threshold=profile.load_threshold,
        timeout=profile.timeout,
        timeout_basis=profile.timeout_basis,
        timeout_from=profile.timeout_from,
        restored_counts=profile.restored_counts,
    )
