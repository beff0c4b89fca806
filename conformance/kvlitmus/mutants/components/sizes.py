"""Mutants of what a cache of components counts: how many entries could be evicted, and how many are protected."""

from __future__ import annotations

import functools

from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentTree
from kvlitmus.mutants.components.tree import WINDOWED
from kvlitmus.mutants.registry import mutant


@mutant(
    "component-counts-what-a-window-left",
    links=("https://github.com/sgl-project/sglang/pull/7367",),
    kills=("LOCK-02", "POOL-14"),
    configs=WINDOWED,
)
class CountsWhatAWindowLeft(ComponentTree):
    """A scheduler waits for windows that aren't there: a tombstone counts as an entry of the window that could go."""

    def counts(self, node: ComponentNode) -> list[tuple[str, int]]:
        """Node by node, as of the KV."""
        return [(one.name, bool(node.locks.get(one.name))) for one in self.components]


@mutant(
    "component-counts-each-receipt",
    links=("https://github.com/sgl-project/sglang/issues/35270",),
    kills=("LOCK-02", "LOCK-07", "POOL-14"),
)
class CountsEachReceipt(ComponentTree):
    """A prefix that two requests share is counted twice as protected, so less seems to be left than there is."""

    def counts(self, node: ComponentNode) -> list[tuple[str, int]]:
        """Receipt by receipt."""
        return [(name, node.locks.get(name, 0)) for name in node.places]


@mutant("component-counts-no-unlock", kills=("LOCK-02", "LOCK-06", "LOCK-07"))
class CountsNoUnlock(ComponentTree):
    """What was protected once counts as protected until it goes: admission waits for requests that have ended."""

    def keep(self, cover: dict[str, list[ComponentNode]]) -> dict[str, list[ComponentNode]]:
        """A lock moves what it covers from one counter to the other."""
        for name, nodes in cover.items():
            for one in nodes:
                self.counted.setdefault(name, set()).add(one)
        return super().keep(cover)

    @functools.cached_property
    def counted(self) -> dict[str, set[ComponentNode]]:
        """What was protected, by component."""
        return {}

    def counts(self, node: ComponentNode) -> list[tuple[str, int]]:
        """No unlock moves it back."""
        return [(name, node in self.counted.get(name, ())) for name in node.places]
