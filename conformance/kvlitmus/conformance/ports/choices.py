"""Which values configurations and profiles may have: :mod:`kvlitmus.spec.config`, :mod:`kvlitmus.spec.profile`."""

from __future__ import annotations

from kvlitmus.spec.choices import LONGEST_TEXT, checked, fault, is_seconds, verify
from kvlitmus.spec.config import CONFIG_VALUES as CONFIG
from kvlitmus.spec.policies import POLICIES as EVICTION
from kvlitmus.spec.profile import PROFILE_VALUES as PROFILE

POLICIES = tuple(EVICTION)

__all__ = ["CONFIG", "LONGEST_TEXT", "POLICIES", "PROFILE", "checked", "fault", "is_seconds", "verify"]
