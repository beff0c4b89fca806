"""Limits of the keys that a cache takes, as its profile declares them.

Real caches differ in what they accept as a key: some have no empty prompt, or no namespaces, or check tokens against a
vocabulary.  A key beyond these limits is never passed; what would happen to it is nobody's promise, but for tokens that
are not of the vocabulary, or that no cache takes (:data:`ALL_TOKENS`): those are misuse (:mod:`kvlitmus.spec.misuse.rules`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Key

ALL_TOKENS = 1 << 32
"""Tokens are below this number in any case."""

PARTS = "/"
"""What separates the parts of a structured namespace."""


def beyond_limits(profile: Profile, key: Key) -> str:
    """Why a cache with this profile takes no such key; empty for one that it takes."""
    if len(key.tokens) < profile.least_key:
        return f"it takes no key of fewer than {profile.least_key} tokens (least_key)"
    if why := beyond_vocabulary(profile, key.tokens):
        return why
    if key.namespace is not None and profile.namespaces == "none":
        return "it has no namespaces (namespaces)"
    if key.namespace is not None and profile.namespaces == "parts" and key.namespace.count(PARTS) != 1:
        return "its namespaces have two parts (namespaces)"
    return ""


def beyond_vocabulary(profile: Profile, tokens: Sequence[int]) -> str:
    """Why a cache with this profile takes no such tokens; empty for those that it takes."""
    if tokens and not (min(tokens) >= 0 and max(tokens) < profile.vocabulary):
        return f"it takes tokens from 0 to {profile.vocabulary - 1} (vocabulary)"
    return ""


def unlimited(profile: Profile) -> bool:
    """Whether it takes every key."""
    return profile.least_key == 0 and profile.vocabulary >= ALL_TOKENS and profile.namespaces == "text"
