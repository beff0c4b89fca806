"""The plan follows what a target accepts: where it declines a whole family, the nearest configuration is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kvlitmus.conformance.checker.guard import LeftOut
from kvlitmus.conformance.isolation.current_run import CurrentRun, MethodMask
from kvlitmus.conformance.isolation.worker_pool import Maker, TargetInfo, look_further
from kvlitmus.conformance.ports import PORTS, Config, Unsupported, capabilities_in, capabilities_of, unasked
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import fresh_checker, run_item
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import component_target, target
from kvlitmus.spec.interface.cache import CACHE_PORTS
from kvlitmus.spec.interface.tiers import TIER_PORTS
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.shapes import Window, needed


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
            return {"capabilities": sorted(fresh_checker(self.inner, config, Options(), CurrentRun()).capabilities)}
        except LeftOut as why:
            return {"left_out": str(why)}
        except Unsupported as declined:
            return {"unsupported": str(declined)}


def found(choosy: Choosy) -> tuple[Config, ...]:
    """The configurations that are added to those of the plan."""
    families = list(plan.families_of(choosy).values())
    info = TargetInfo(name="", profile=target.profile, configs=plan.configs_of(choosy))
    for config in info.configs:
        if unasked(capabilities_of(choosy.inner.make(config)), config):
            info.left_out[config.label] = "no port"
        elif choosy.accepts(config):
            info.capabilities[config.label] = frozenset()
    look_further(cast("Maker", choosy), info, families)
    accepted = {config.label for config in info.configs if choosy.accepts(config)}
    assert info.capabilities.keys() == accepted - info.left_out.keys()
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


class Lacking:
    """Makes what another target makes, without some of the methods."""

    def __init__(self, inner: Any, *ports: str) -> None:
        self.inner, self.pools, self.profile = inner, inner.pools, inner.profile
        self.methods = frozenset(method for port in ports for method in PORTS[port])

    def make(self, config: Config) -> Any:
        return MethodMask(self.inner.make(config), self.methods)


HOSTED = [
    "page=1 lru pages=24 host=20 write_through",
    "page=4 lru pages=20 host=16 write_through_selective",
    "page=4 lru pages=20 host=6 write_back",
    "page=1 lru pages=16 host=8 write_back",
    "page=4 lru pages=20 bigram host=10 write_through",
    "page=2 lru pages=20 host=8 write_through",
]
"""The hierarchies of the plan that have storage, without it, but for the one that the plan has so too."""


def test_where_no_storage_can_be_attached_hierarchies_are_judged_without() -> None:
    """No more is made than these: a port is missing, and no configuration has it."""
    choosy = Choosy(Lacking(target, "lifecycle"), lambda config: True)
    assert [config.label for config in found(choosy)] == HOSTED
    assert choosy.asked == len(HOSTED)


def test_where_storage_is_declined_hierarchies_are_judged_without() -> None:
    choosy = Choosy(target, lambda config: config.storage == "none" and config.write == "write_through")
    assert [config.label for config in found(choosy)] == [one for one in HOSTED if one.endswith("write_through")]


def lacking_by_turns() -> Iterator[Any]:
    """Each port, but for steps, whose copies are under way: flat, with storage, with a host alone; by day in one."""
    kinds = (plan.TIER_CONFIGS[0], Config(page_size=4), plan.HOST_CONFIGS[1])
    ports = sorted({*TIER_PORTS, *CACHE_PORTS} - {"steps"}, key=lambda port: (port != "lifecycle", port))
    for at, port in enumerate(ports):
        for kind, config in enumerate(kinds):
            yield pytest.param(port, config, marks=[pytest.mark.nightly] * (at % len(kinds) != kind))


@pytest.mark.parametrize(("port", "config"), [*lacking_by_turns()])
def test_nothing_is_asked_for_that_there_is_no_port_for(port: str, config: Config) -> None:
    """One that can't attach storage is left out where there is some."""
    item = Item(kind="random", config=config, seed=2, ops=30)
    result = run_item(Lacking(target, port), item, Options(reruns=0, shrink_trials=0))
    assert not result.findings and not result.error, result
    assert result.left_out == (port == "lifecycle" and config.storage != "none")
    assert bool(result.steps) != result.left_out


def test_a_flat_cache_is_not_asked_for_a_host_tier() -> None:
    item = Item(kind="random", config=plan.HOST_CONFIGS[0], seed=1, ops=40)
    result = run_item(Lacking(target, *TIER_PORTS), item, Options())
    assert result.left_out and "the port host (host_available, evict_host, load_back)" in result.unsupported


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
        assert result.evaluated["TIER-08"], "the host has pages"
        assert not {name for name in result.reached if name in ("attach", "detach", "prefetch", "poll")}


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("name", ["kv+swa", "kv+swa+state", "blocks+swa"])
def test_a_window_that_is_off_by_a_token_is_seen_in_each_layout_by_itself(name: str, by: int) -> None:
    """A cache may keep one layout alone: pages of four round a token away, so it is judged at pages of one as well."""

    def differs(config: Config) -> bool:
        window = layout_of(name, config.page_size, config.pages).named("swa")
        assert isinstance(window.shape, Window)
        off = window._replace(shape=Window(window.shape.reach + by))
        return any(needed(window, end) != needed(off, end) for end in range(window.align, config.pages, window.align))

    configs = [one for one in plan.COMPONENT_CONFIGS + plan.REQUEST_CONFIGS if one.components == name]
    assert [one.page_size for one in configs if differs(one)] == [1]
