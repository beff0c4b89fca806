"""Events of components: what has come and gone between two states of the reference's cache of components."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kvlitmus.reference.prefix.components.tree import Cache
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.words.setting import Setting


def changes(before: Cache, after: Cache, setting: Setting) -> list[ComponentEvent]:
    """The events of a step: on each tier what has gone, then what has come, prefixes before what goes on from them."""
    return [
        *changed(before.held, after.held, setting, "device"),
        *changed(before.host_held, after.host_held, setting, "host"),
    ]


def changed(before: Collection[At], after: Collection[At], setting: Setting, tier: str) -> Iterator[ComponentEvent]:
    """Those of one tier, from what it held to what it holds."""
    for what, some in (("removed", set(before) - set(after)), ("stored", set(after) - set(before))):
        named = [(name, *setting.names.prefix(prefix)) for name, prefix in some]
        for name, namespace, units in sorted(named, key=lambda one: (len(one[2]), str(one))):
            yield ComponentEvent(what, tier, name, namespace, units)
