"""A configuration that can't be written down, for targets that must decline it."""

from __future__ import annotations

from kvlitmus.conformance.ports import Config


def with_policy(policy: str) -> Config:
    """A configuration with a policy that is none, as one of a later version would be."""
    config = Config()
    object.__setattr__(config, "policy", policy)
    return config
