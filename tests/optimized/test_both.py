"""Two caches as one target: equal ones have nothing to report, and a difference is found, shrunk and told."""

from __future__ import annotations

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.support import both
from tests.support.night import by_turns

TIERED = next(config for config in both.Both.configs if config.tiered)
SLRU = Config(page_size=4, policy="slru")


def played(target: both.Both, config: Config) -> ItemResult:
    """One schedule."""
    return run_item(target, Item(kind="random", config=config, seed=0, ops=250), Options(reruns=0, shrink_seconds=5.0))


EACH = [(name, config) for config in (TIERED, SLRU) for name in ("specimen", "optimized", "optimized_3")]


@pytest.mark.parametrize(("name", "config"), by_turns(EACH, [f"{name}-{one.label}" for name, one in EACH], every=2))
def test_equal_caches_have_nothing_to_report(name: str, config: Config) -> None:
    result = played(getattr(both, name), config)
    assert not result.error and result.findings == []
    assert result.steps > 100


def test_a_difference_is_found_and_shrunk() -> None:
    """The bug is in the second one: no rule is asked about it, and the first one keeps all of them."""
    bug = load_target(resolve_target("kvlitmus.mutants.run:by_name.hits_never_counted"))
    other = both.Both(load_target(resolve_target("specimen")), bug)
    (finding,) = played(other, SLRU).findings
    assert finding.rules == ["PORT-01"] and "Difference" in finding.detail
    assert finding.steps < 12
