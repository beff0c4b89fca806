"""Two targets as one, so that ``kvlitmus run`` plays them in lock step for as long as wanted.

::

    .venv/bin/kvlitmus run tests.support.both:optimized --steps 20000 --jobs 2 --no-litmus

In each configuration so many steps are played; what a seed finds is shrunk, and ``kvlitmus replay`` plays it again.
``optimized_1``, ``optimized_2`` and so on have other kinds of pools in each configuration.
"""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.plan import CONFIGS, TIER_CONFIGS
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.support.configs import TIER_POLICY_CONFIGS, TIGHT_CONFIGS
from tests.support.differential import DifferentialAdapter

RAW = tuple(name for port, names in PORTS.items() if port.startswith("raw") for name in names)
"""Methods for what breaks the contract: what comes of that need not be equal."""


class Both:
    """The caches of two targets, compared after each call: where they differ, the call raises ``Difference``."""

    pools = ("device", "tiers")
    configs = (*CONFIGS, *TIER_CONFIGS, *TIER_POLICY_CONFIGS, *TIGHT_CONFIGS)

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self.profile = first.profile

    def make(self, config: Config) -> DifferentialAdapter:
        """A fresh cache of each; raises :class:`~kvlitmus.conformance.ports.Unsupported` where one can't be had."""
        made = DifferentialAdapter(self.first.make(config), self.second.make(config), config.page_size)
        for name in RAW:
            vars(made).pop(name, None)
        return made


def __getattr__(name: str) -> Both:
    """A target by its name, beside the reference."""
    if name.startswith("_"):
        raise AttributeError(name)
    first, _, shift = name.partition("_")
    target = load_target(resolve_target(first))
    return Both(target.shifted(int(shift)) if shift else target, load_target(resolve_target("reference")))
