"""The reference that serves requests on components as a target: the frozen model behind the ports."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.ports.component_configs import refuse_others
from kvlitmus.reference.prefix.components import events as component_events
from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.reference.prefix.components.perform import perform
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.prefix.calls import Begin, End, Grow, Match, Path, Reset, path_of
from kvlitmus.spec.prefix.components.calls import ComponentHit, Entries, Holding, JointCall
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Tokens

Held = dict[str, dict[int, int]]


def plain(held: Mapping[str, Mapping[int, int]]) -> Held:
    """Places by component and end, as the ports have them."""
    return {name: dict(some) for name, some in held.items()}


class ReferenceRequests:
    """The reference behind the ports of requests on components."""

    def __init__(self, config: Config, profile: Profile) -> None:
        self.setting = Setting(config, profile, 3, frozenset({"component_requests"}))
        self.cache = model.empty(self.setting)
        self.receipts = itertools.count()
        self.events: list[ComponentEvent] = []

    def perform(self, call: JointCall) -> object:
        """Perform a call, and note what is to be told of it."""
        before = self.cache
        self.cache, answer = perform(before, self.setting, call)
        self.events += component_events.changes(before, self.cache, self.setting)
        return answer

    def path(self, key: Key) -> Path:
        """A key with the names of its prefixes."""
        return path_of(self.setting.names, key, self.setting.size)

    def component_match(self, key: Key) -> tuple[int, Entries, object]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        hit = self.perform(Match(self.path(key)))
        assert isinstance(hit, ComponentHit)
        return hit.length, hit.entries, None

    def component_start(self, key: Key, chunk: int) -> tuple[object, int, Held] | None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentRequests`."""
        receipt = next(self.receipts)
        begun = self.perform(Begin(receipt, self.path(key), chunk=chunk))
        if begun is None:
            return None
        assert isinstance(begun, Holding)
        return receipt, begun.length, plain(begun.held)

    def component_grow(self, receipt: object, chunk: int) -> tuple[bool, Held]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentRequests`."""
        assert isinstance(receipt, int)
        holding = self.perform(Grow(receipt, Tokens(chunk)))
        assert isinstance(holding, Holding)
        return holding.granted, plain(holding.held)

    def component_finish(self, receipt: object) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentRequests`."""
        assert isinstance(receipt, int)
        self.perform(End(receipt, keep=True))

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        self.perform(Reset())

    def component_events(self) -> Sequence[ComponentEvent]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentEvents`."""
        events, self.events = self.events, []
        return events

    def component_free_places(self) -> Mapping[str, Sequence[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        return model.free_places(self.cache, self.setting)

    def component_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        prefix = self.setting.names.prefix
        return [(name, *prefix(at), place) for (name, at), place in self.cache.places(DEVICE).items()]


class ReferenceRequestTarget:
    """The target ``reference-component-requests``."""

    capabilities = ("component_lookup", "component_requests", "component_events", "component_view")
    profile = Profile(match_cap="len-1", component_order="policy", misuse="reject")

    def make(self, config: Config) -> ReferenceRequests:
        """A fresh cache of the components of the configuration."""
        refuse_others(config)
        return ReferenceRequests(config, self.profile)


target = ReferenceRequestTarget()
"""The reference: what two requests compute is cached once."""
