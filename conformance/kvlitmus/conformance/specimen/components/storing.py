"""The specimen's storage behind the host memory of components: whether it is there, and who writes to it.

A write is an object with the nodes that it pins on the host, as a copy is; who detaches goes through the
prefetches that were begun, and gives up those that are still running.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentHierarchy, Pinned
from kvlitmus.conformance.specimen.components.prefetch import ComponentFetch, ComponentFetcher, Places
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.spec.words.units import Key


@dataclass(eq=False)
class ComponentWrite:
    """A write to storage: what it takes, and what it pins on the host."""

    takes: Pinned
    pinned: Pinned


class ComponentWriter:
    """Writes from the host to storage, and gives up what reads from it when it goes."""

    def __init__(self, copies: ComponentCopier, fetches: ComponentFetcher, *, attached: bool) -> None:
        self.copies = copies
        self.fetches = fetches
        self.attached = attached
        self.fetching: list[ComponentFetch] = []
        self.writing: list[ComponentWrite] = []

    # Coming and going

    def attach(self) -> None:
        """Storage is there."""
        self.attached = True

    def detach(self) -> Places:
        """Storage is away: all prefetches that are not over are given up; what is given back."""
        self.attached = False
        returned: Places = {}
        for fetch in self.fetching:
            if not fetch.over:
                for name, places in self.give_up(fetch).items():
                    returned.setdefault(name, []).extend(places)
        self.fetching = []
        return returned

    def give_up(self, fetch: ComponentFetch) -> Places:
        """Abort one prefetch; what it gives back."""
        return self.fetches.abort(fetch)

    def begin_fetch(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        """Begin a prefetch, unless storage is away, and remember it until it is over."""
        if not self.attached:
            return None, {}
        fetch, freed = self.fetches.begin(node, key, threshold)
        self.fetching = [one for one in self.fetching if not one.over]
        if fetch is not None:
            self.fetching.append(fetch)
        return fetch, freed

    # Writing

    def write(self, node: ComponentNode | None, stored: Mapping[str, Collection[int]]) -> ComponentWrite | None:
        """Pin on the host what a boundary needs, and say what of that storage lacks."""
        if node is None or not self.may_write(node):
            return None
        takes = self.lacking(node, stored)
        if not takes:
            return None
        write = ComponentWrite(takes, self.pin(node))
        self.writing.append(write)
        return write

    def may_write(self, node: ComponentNode) -> bool:
        """Whether storage is there, and the host has all that a boundary needs."""
        return self.attached and all(name in at.host for name, at in self.copies.needs(node))

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        """What a boundary needs and storage lacks."""
        return [(name, at) for name, at in self.copies.needs(node) if at.end not in stored.get(name, ())]

    def pin(self, node: ComponentNode) -> Pinned:
        """Protect on the host what a boundary needs."""
        pinned = [(name, at) for name, at in self.copies.needs(node) if name in at.host]
        for name, at in pinned:
            at.host_locks[name] = at.host_locks.get(name, 0) + 1
        return pinned

    def ended(self, write: ComponentWrite, *, ok: bool) -> None:
        """A write reads nothing any more, whether it succeeded or not."""
        self.unpin(write)
        self.writing.remove(write)

    def unpin(self, write: ComponentWrite) -> None:
        """Take the protection of a write back."""
        for name, at in write.pinned:
            at.host_locks[name] -= 1
        write.pinned = []


class ComponentStorehouse(ComponentHierarchy):
    """Pools, tree, host memory and storage behind the ports."""

    storage: Any = None

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        super().component_reset()
        attached = self.storage.attached if self.storage else self.config.storage == "attached"
        self.storage = self.parts.component_writes(self.copies, self.fetches, attached=attached)

    def component_prefetch(self, handle: Any, key: Key, threshold: int) -> tuple[Any, Any, dict[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        fetch, freed = self.storage.begin_fetch(self.claims.found(handle), key, threshold)
        self.claims.begins(fetch)
        return fetch, {name: list(some) for name, some in fetch.buffers.items()} if fetch else {}, freed

    def component_attach(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        self.storage.attach()

    def component_detach(self) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        returned: dict[str, list[int]] = self.storage.detach()
        return returned

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[ComponentWrite | None, dict[str, list[int]]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        write = self.storage.write(self.claims.found(handle), stored)
        self.claims.begins(write)
        ends: dict[str, list[int]] = {}
        for name, node in write.takes if write else ():
            ends.setdefault(name, []).append(node.end)
        return write, ends

    def component_written(self, write: Any, ok: bool) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        self.claims.ends(write)
        self.storage.ended(write, ok=ok)
