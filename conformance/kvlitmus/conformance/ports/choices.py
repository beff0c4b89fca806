"""Which values may be given: :mod:`kvlitmus.spec.words.config`, :mod:`kvlitmus.spec.words.profile`."""

from __future__ import annotations

from kvlitmus.spec.words.choices import LONGEST_TEXT, checked, fault, is_seconds, verify
from kvlitmus.spec.words.config import CONFIG_VALUES as CONFIG
from kvlitmus.spec.words.policies import POLICIES as EVICTION
from kvlitmus.spec.words.profile import PROFILE_VALUES as PROFILE

POLICIES = tuple(EVICTION)

__all__ = ["CONFIG", "LONGEST_TEXT", "POLICIES", "PROFILE", "checked", "fault", "is_seconds", "verify"]
