"""Events of components: what has come and gone between two states of the reference's cache of components."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting


def changes(before: State, after: State, setting: Setting) -> list[ComponentEvent]:
    """The events of a step: on each tier what has gone, then what has come, prefixes before what goes on from them."""
    return [one for tier in (DEVICE, HOST) for one in changed(before.places(tier), after.places(tier), setting, tier)]


def changed(before: Collection[At], after: Collection[At], setting: Setting, tier: str) -> Iterator[ComponentEvent]:
    """Those of one tier, from what it held to what it holds."""
    for what, some in (("removed", set(before) - set(after)), ("stored", set(after) - set(before))):
        named = [(name, *setting.names.prefix(prefix)) for name, prefix in some]
        for name, namespace, units in sorted(named, key=lambda one: (len(one[2]), str(one))):
            yield ComponentEvent(what, tier, name, namespace, units)
