"""The plan follows what a target accepts: where it declines a whole family, the nearest configuration is looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kvlitmus.conformance.isolation.worker_pool import Maker, TargetInfo, look_further
from kvlitmus.conformance.ports import Config, Unsupported, capabilities_in, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import component_target, target


class Choosy:
    """Makes what another target makes, of the configurations that it accepts; counts how often it was asked."""

    def __init__(self, inner: Any, accepts: Callable[[Config], bool]) -> None:
        self.inner, self.accepts = inner, accepts
        self.capabilities, self.pools = getattr(inner, "capabilities", ()), inner.pools
        self.asked = 0

    def make(self, config: Config) -> dict[str, object]:
        """What a worker says of it."""
        self.asked += 1
        try:
            if not self.accepts(config):
                raise Unsupported("not that one")
            return {"capabilities": sorted(capabilities_of(self.inner.make(config)))}
        except Unsupported as declined:
            return {"unsupported": str(declined)}


def found(choosy: Choosy) -> tuple[Config, ...]:
    """The configurations that are added to those of the plan."""
    families = list(plan.families_of(choosy).values())
    info = TargetInfo(name="", profile=target.profile, configs=plan.configs_of(choosy))
    for config in info.configs:
        if choosy.accepts(config):
            info.capabilities[config.label] = frozenset()
    look_further(cast("Maker", choosy), info, families)
    assert info.capabilities.keys() == {config.label for config in info.configs if choosy.accepts(config)}
    return info.configs[len(plan.configs_of(choosy)) :]


@pytest.mark.parametrize(
    ("inner", "accepts", "labels"),
    [
        (
            target,
            lambda config: not config.tiered or (config.write == "write_through_selective" and config.page_size == 16),
            ["page=16 lru pages=20 host=16 write_through_selective storage=attached best_effort"],
        ),
        (
            target,
            lambda config: not config.tiered or (config.storage == "none" and config.policy == "lfu"),
            ["page=4 lfu pages=20 host=16 write_through"],
        ),
        (
            target,
            lambda config: not config.tiered or config.write == "write_back",
            ["page=4 lru pages=20 host=16 write_back storage=later best_effort"],
        ),
        (target, lambda config: config.pool != "sparse" or config.page_size == 64, ["page=64 lru pages=11 sparse"]),
        (
            component_target,
            lambda config: config.page_size == 8 and not config.tiered,
            ["page=8 lru pages=16 kv+swa"],
        ),
    ],
)
def test_what_is_accepted_is_found(inner: Any, accepts: Callable[[Config], bool], labels: list[str]) -> None:
    """A hierarchy, one without storage, a sparse pool, components, each accepted in sizes that the plan has not."""
    assert [config.label for config in found(Choosy(inner, accepts))] == labels


def test_nothing_is_looked_for_where_something_is_accepted() -> None:
    choosy = Choosy(target, lambda config: True)
    assert not found(choosy)
    assert not choosy.asked


def test_without_storage_none_is_attached() -> None:
    """One class may serve configurations with storage and without: in those nobody asks for it."""
    for config in plan.HOST_CONFIGS:
        adapter = target.make(config)
        assert capabilities_of(adapter) - capabilities_in(adapter, config) >= {"lifecycle", "prefetching"}
        result = run_item(target, Item(kind="random", config=config, ops=120), Options())
        assert not result.findings
        assert result.evaluated["TIER-07"], "the host has pages"
        assert not {name for name in result.reached if name in ("attach", "detach", "prefetch", "poll")}
