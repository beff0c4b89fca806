"""Mutants of the events of components, and legal variations of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS
from kvlitmus.conformance.specimen.components.tree import ComponentJournal, ComponentNode
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.interface.components import ComponentEvent

WINDOWED = (
    Config(page_size=4, pages=16, components="kv+swa"),
    Config(page_size=4, pages=16, components="kv+swa+state"),
)
HOSTS = COMPONENT_HOST_CONFIGS[:1]


class Filtered(ComponentJournal, ABC):
    """A journal that says of each event whether it is told."""

    @abstractmethod
    def tells(self, what: str, tier: str, name: str) -> bool:
        """Whether an event of this kind is told."""

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        """It is, or it isn't."""
        if self.tells(what, tier, name):
            super().tell(what, tier, name, namespace, node)


@mutant("component-events-of-the-kv-alone", kills=("EVENT-02", "EVENT-08"), configs=WINDOWED)
class EventsOfTheKvAlone(Filtered):
    """Only the KV is told, as before there were other components: nobody knows where a window or a state is."""

    def tells(self, what: str, tier: str, name: str) -> bool:
        return name == "kv"


@mutant("component-events-forget-tombstones", kills=("EVENT-02", "EVENT-09"), configs=WINDOWED)
class EventsForgetTombstones(Filtered):
    """Of a window's entry that leaves its KV behind nothing is told: requests are sent where no hit ends any more."""

    def tells(self, what: str, tier: str, name: str) -> bool:
        return (what, name) != ("removed", "swa")


@mutant("component-events-forget-evictions", kills=("EVENT-02", "EVENT-01", "EVENT-04"), configs=WINDOWED)
class EventsForgetEvictions(Filtered):
    """What comes is told, and what goes is not."""

    def tells(self, what: str, tier: str, name: str) -> bool:
        return what != "removed" or tier == "host"


@mutant("component-events-forget-the-host", kills=("EVENT-02",), configs=HOSTS)
class EventsForgetTheHost(Filtered):
    """What is backed up is not told: after its eviction from the device nobody comes back for it."""

    def tells(self, what: str, tier: str, name: str) -> bool:
        return tier == "device"


@mutant("component-events-forget-evictions-from-the-host", kills=("EVENT-02", "EVENT-01", "EVENT-04"), configs=HOSTS)
class EventsForgetEvictionsFromTheHost(Filtered):
    """What leaves the host is not told: requests are sent to a copy that is gone."""

    def tells(self, what: str, tier: str, name: str) -> bool:
        return (what, tier) != ("removed", "host")


@mutant("component-events-name-one-tier", kills=("EVENT-01", "EVENT-04", "EVENT-02"), configs=HOSTS)
class EventsNameOneTier(ComponentJournal):
    """Each event names the device: who loads back stores again, and an eviction from the host empties the device."""

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        super().tell(what, "device", name, namespace, node)


@mutant("component-events-forget-the-namespace", kills=("EVENT-02", "EVENT-01", "EVENT-04"), configs=WINDOWED)
class EventsForgetTheNamespace(ComponentJournal):
    """Events are without a namespace: a tenant's requests are sent where another's prefix is."""

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        super().tell(what, tier, name, None, node)


@mutant("component-events-name-the-page-alone", kills=("EVENT-02",), configs=WINDOWED)
class EventsNameThePageAlone(ComponentJournal):
    """An event has the units of the last page, as if it began a key."""

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        super().tell(what, tier, name, namespace, replace(node, above=None))


@mutant(
    "component-events-are-told-twice",
    kills=(
        "EVENT-01",
        "EVENT-04",
    ),
    configs=WINDOWED,
)
class EventsAreToldTwice(ComponentJournal):
    """What was told is told once more with the next call: who counts has it twice, and keeps it when it goes."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[ComponentEvent] = []

    def take(self) -> list[ComponentEvent]:
        told = super().take()
        again, self.last = [one for one in self.last if one.what == "stored"], told
        return [*again, *told]


BY_NAME = replace(PROFILE, event_copies="one")
"""Listeners that keep a set of names."""


@mutant(
    "component-events-take-back-what-is-told-again", profile=BY_NAME, kills=("EVENT-02", "EVENT-09"), configs=WINDOWED
)
class EventsTakeBackWhatIsToldAgain(ComponentJournal):
    """An entry that is told again is taken back as often as it was told, by a cache whose listeners don't count.

    Every second one is told twice; who goes by names loses it with the first removal, which comes with the next call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.back: list[ComponentEvent] = []

    def take(self) -> list[ComponentEvent]:
        told, back = super().take(), self.back
        self.back = [one._replace(what="removed") for one in told[::2] if one.what == "stored"]
        return [*back, *told]


@mutant("component-events-forget-a-reset", kills=("EVENT-02",), configs=WINDOWED)
class EventsForgetAReset(ComponentJournal):
    """A reset tells nothing."""

    def clear(self) -> None:
        pass


@mutant("component-events-wait-for-the-next-call", kills=("EVENT-02",), configs=WINDOWED)
class EventsWaitForTheNextCall(ComponentJournal):
    """What a call has changed is told when the next one returns."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[ComponentEvent] = []

    def take(self) -> list[ComponentEvent]:
        told, self.late = self.late, super().take()
        return told


@mutant("component-events-swap-components", kills=("EVENT-02", "EVENT-01", "EVENT-04"), configs=WINDOWED[1:])
class EventsSwapComponents(ComponentJournal):
    """A state is told as a window's entry, and the other way round."""

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        other = {"swa": "state", "state": "swa"}.get(name, name)
        super().tell(what, tier, other, namespace, node)


# Legal


@null_mutant("component-events-in-any-order", configs=(*WINDOWED, *COMPONENT_HOST_CONFIGS[:2]))
class EventsInAnyOrder(ComponentJournal):
    """Of one call, what comes is told by the component, longest prefixes first, and after what goes."""

    def take(self) -> list[ComponentEvent]:
        told = super().take()
        if len({(one.tier, one.component, one.namespace, one.units) for one in told}) < len(told):
            return told  # what comes and goes in one call is told as it happens
        return sorted(told, key=lambda one: (one.what != "cleared", one.what, one.component, -len(one.units)))


@null_mutant("component-events-tell-again", profile=BY_NAME, configs=(*WINDOWED, *COMPONENT_HOST_CONFIGS[:2]))
class EventsTellAgain(ComponentJournal):
    """What came with one call and is there still is told again with the next, to listeners who don't count."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[ComponentEvent] = []

    def take(self) -> list[ComponentEvent]:
        told, last = super().take(), self.last
        gone = {tuple(one[1:]) for one in told if one.what == "removed"}
        self.last = [one for one in told if one.what == "stored" and tuple(one[1:]) not in gone]
        if any(one.what == "cleared" for one in told):
            return told
        return [*told, *[one for one in last if tuple(one[1:]) not in gone]]


@null_mutant("component-events-clear-one-by-one", configs=(*WINDOWED, *COMPONENT_HOST_CONFIGS[:2]))
class EventsClearOneByOne(ComponentJournal):
    """A reset tells each entry as removed, not that everything is."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[tuple[object, ...], None] = {}

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        super().tell(what, tier, name, namespace, node)
        at = tuple(self.waiting[-1][1:])
        if what == "stored":
            self.there[at] = None
        else:
            del self.there[at]

    def clear(self) -> None:
        there, self.there = self.there, {}
        self.waiting += [ComponentEvent("removed", *at) for at in there]  # type: ignore[arg-type]


@null_mutant("component-events-say-nothing-twice", configs=WINDOWED)
class EventsSayNothingTwice(ComponentJournal):
    """What comes and goes in one call, and comes again, is told once; what is there before and after is not told."""

    def take(self) -> list[ComponentEvent]:
        told = super().take()
        if any(one.what == "cleared" for one in told):
            return told
        last = {tuple(one[1:]): one for one in told}
        first = {tuple(one[1:]): one for one in reversed(told)}
        return [one for at, one in last.items() if first[at].what == one.what]
