"""The reference that serves requests on components as a target: the frozen model behind the ports."""

from __future__ import annotations

from collections.abc import Mapping

from kvlitmus.conformance.adapters.reference.components import ReferenceLookup
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.ports.component_configs import refuse_others
from kvlitmus.spec.prefix.calls import Begin, End, Grow
from kvlitmus.spec.prefix.components.calls import Holding
from kvlitmus.spec.words.units import Key, Tokens

Held = dict[str, dict[int, int]]


def plain(held: Mapping[str, Mapping[int, int]]) -> Held:
    """Places by component and end, as the ports have them."""
    return {name: dict(some) for name, some in held.items()}


class ReferenceRequests(ReferenceLookup):
    """The reference behind the ports of requests on components."""

    serves = "component_requests"

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
