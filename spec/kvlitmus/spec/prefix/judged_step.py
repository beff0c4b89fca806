"""A step as facts look at it: what they have of it, and the effects that its rows of the table allow."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlitmus.spec.law.actions import ACTIONS, Cause, What, joined
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix import work_occasions as _tier_occasions  # noqa: F401 - what calls on the tiers are
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting

KNOWN: dict[tuple[int, tuple[On, ...]], tuple[Profile, Mapping[What, tuple[Cause, ...]]]] = {}
"""What :func:`causes_in` found, by the identity of the profile, which is kept: to hash one takes longer than to look."""


def causes_in(occasions: tuple[On, ...], profile: Profile) -> Mapping[What, tuple[Cause, ...]]:
    """The effects that a step on these occasions may have, each with the causes that this profile allows."""
    known = KNOWN.get((id(profile), occasions))
    if known is None:
        known = KNOWN[id(profile), occasions] = (profile, _causes_in(occasions, profile))
    return known[1]


@functools.cache
def _causes_in(occasions: tuple[On, ...], profile: Profile) -> Mapping[What, tuple[Cause, ...]]:
    row = joined(*[ACTIONS[on] for on in occasions if on in ACTIONS])
    allowed = {
        what: tuple([one.cause for one in causes if not one.field or getattr(profile, one.field) == one.value])
        for what, causes in row.items()
    }
    return {what: causes for what, causes in allowed.items() if causes}


@dataclass(slots=True, eq=False)
class Look:
    """One step, as facts have it (:data:`~kvlitmus.spec.law.facts.INPUTS`)."""

    setting: Setting
    """What was asked for and declared."""
    state: State
    """What was known before the call."""
    expected: State
    """What a correct cache has after it."""
    then: State
    """What is known after it."""
    call: Any
    """The call."""
    answer: Any
    """Its answer."""
    before: Seen
    """What was seen before it."""
    after: Seen
    """What was seen after it."""
    _causes: Mapping[What, tuple[Cause, ...]] | None = None
    """What :attr:`causes` has worked out."""

    @property
    def causes(self) -> Mapping[What, tuple[Cause, ...]]:
        """The effects that the step may have, each with its causes; worked out once."""
        if self._causes is None:
            self._causes = causes_in(self.occasions, self.setting.profile)
        return self._causes

    @property
    def occasions(self) -> tuple[On, ...]:
        """What the step is."""
        return occasions_of(self.call, self.answer, self.state, self.setting, self.before)

    @property
    def below_before(self) -> Tiers:
        """What was known below the device before the step."""
        assert self.state.tiers is not None
        return self.state.tiers

    @property
    def below(self) -> Tiers:
        """What is known below the device after the step."""
        assert self.then.tiers is not None
        return self.then.tiers

    @property
    def tiers_seen_before(self) -> TierSeen:
        """What was seen of all tiers before it."""
        assert isinstance(self.before, TierSeen)
        return self.before

    @property
    def tiers_seen(self) -> TierSeen:
        """What was seen of all tiers after it."""
        assert isinstance(self.after, TierSeen)
        return self.after
