"""A reset forgets receipts: who keeps one protects what is cached under the same prefix later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.ports import Config, Hit
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget, component_target
from kvlitmus.conformance.specimen.components.tree import ComponentSpecimen, prefix_of
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.spec.words.units import Key

FLAT = Config(page_size=4)
TIERED = Config(page_size=4, pages=20, host_pages=16)
LAYERS = [Config(page_size=4, pages=16, components=one) for one in ("kv+swa", "kv+state", "kv+swa+state", "groups")]


class KeepsReceipts(ComponentSpecimen):
    """Whoever was protected at a reset is so again, as soon as it is cached again."""

    def component_reset(self) -> None:
        receipts = getattr(self, "receipts", [])
        self.stuck = {(name, prefix_of(one)) for cover in receipts for name, nodes in cover.items() for one in nodes}
        self.receipts: list[Any] = []
        super().component_reset()

    def component_lock(self, handle: object) -> tuple[object, dict[str, list[int]]]:
        cover, ends = super().component_lock(handle)
        self.receipts.append(cover)
        return cover, ends

    def component_unlock(self, receipt: object) -> None:
        self.receipts.remove(receipt)
        super().component_unlock(receipt)

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        left = super().component_insert(key, entries)
        for node in self.tree.walk(key):
            for name in [name for name, prefix in self.stuck if prefix == prefix_of(node)]:
                self.stuck.remove((name, prefix_of(node)))
                node.locks[name] = node.locks.get(name, 0) + 1
        return left


class Keeping:
    """The same of one tree: what was locked at a reset is locked by the next match that finds something."""

    def reset(self) -> None:
        self.stuck = getattr(self, "open", 0)
        self.open = 0
        super().reset()  # type: ignore[misc]

    def lock(self, handle: object) -> object:
        self.open += 1
        return super().lock(handle)  # type: ignore[misc]

    def unlock(self, receipt: object) -> None:
        self.open -= 1
        super().unlock(receipt)  # type: ignore[misc]

    def match(self, key: Key) -> Hit:
        hit: Hit = super().match(key)  # type: ignore[misc]
        for _ in range(self.stuck if hit.length else 0):
            super().lock(hit.handle)  # type: ignore[misc]
            self.stuck -= 1
        return hit


class KeepsLocks(Keeping, Specimen):
    """A flat cache."""


class KeepsLocksOfTiers(Keeping, TieredSpecimen):
    """A hierarchy."""


class KeepingTarget:
    """The specimen's caches of components, with receipts that outlive a reset."""

    profile = component_target.profile

    def make(self, config: Config) -> KeepsReceipts:
        return KeepsReceipts(config, Parts(), self.profile)


def broken(target: object, name: str, config: Config, depth: int) -> set[str]:
    """The rules that a litmus test finds broken."""
    result = engine.run_item(target, Item(kind="litmus", config=config, name=name), Options(depth=depth))
    assert not result.error and not result.unsupported
    return {rule for finding in result.findings for rule in finding.rules}


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("config", LAYERS, ids=lambda one: one.components)
def test_components_that_stay_protected_are_told(config: Config, depth: int) -> None:
    name = "components/a-reset-forgets-receipts"
    assert broken(KeepingTarget(), name, config, depth) & {"COMP-12", "EVICT-01"}
    assert not broken(component_target, name, config, depth)


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("config", [FLAT, TIERED], ids=lambda one: one.label)
def test_pages_that_stay_protected_are_told(config: Config, depth: int) -> None:
    parts = replace(Parts(), cache=KeepsLocks, tiered=KeepsLocksOfTiers)
    name = f"{'life' if config.tiered else 'lock'}/a-reset-forgets-receipts"
    assert broken(SpecimenTarget(parts), name, config, depth) & {"EVICT-01", "EVICT-21", "LOCK-04"}
    assert not broken(SpecimenTarget(), name, config, depth)
