"""Events: what a cache tells the world about its contents.

Routers send a request to where its prefix is cached; all they know is what caches tell them.  Whoever
replays every event from the beginning must know exactly what is cached, and on which tier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.facts import fact
from kvlitmus.spec.on import On
from kvlitmus.spec.rule import Kind, rule
from kvlitmus.spec.state import State, Told
from kvlitmus.spec.units import Name, PageNo


@fact(2, ports=("events",))
def told(then: State) -> Told:
    """What all events so far tell."""
    assert then.told is not None
    return then.told


@fact(2)
def odd_events(told: Told) -> Sequence[str]:
    """Events that make no sense: an unknown page or parent, a page stored twice or removed while absent."""
    return told.odd


@fact(2)
def told_device(told: Told) -> frozenset[Name]:
    """Names of the pages that are on the device by all events so far."""
    return told.device


@fact(2)
def told_host(told: Told) -> frozenset[Name]:
    """Names of the pages that are on the host by all events so far."""
    return told.host


# Rules


@rule("EVENT-01", kind=Kind.STATE, needs=("events",), source="R-EVT-01", reference="event.changes")
def events_make_sense(odd_events: Sequence[object]) -> bool:
    """An event MUST name a page that was told before or whose parent was, with the page's own units, and MUST NOT remove what isn't there."""
    return not odd_events


@rule(
    "EVENT-02",
    on=(On.SETTLED, On.QUIET_TICK, On.FLAT_CALL),
    needs=("events",),
    source="R-EVT-02; map §4.12",
    reference="event.changes",
    premise="told_device",
)
def events_tell_what_the_device_has(told_device: frozenset[Name], cached_after: Mapping[Name, PageNo]) -> bool:
    """When nothing is under way, in a flat cache after every call, the events so far MUST tell exactly the pages that are on the device."""
    return told_device == frozenset(cached_after)


@rule(
    "EVENT-03",
    on=(On.SETTLED, On.QUIET_TICK),
    needs=("events", "tiers"),
    source="R-EVT-02; H-34",
    reference="event.changes",
    premise="told_host",
)
def events_tell_what_the_host_has(told_host: frozenset[Name], hosted: Mapping[Name, PageNo]) -> bool:
    """When nothing is under way, the events so far MUST tell exactly the pages that are on the host."""
    return told_host == frozenset(hosted)
