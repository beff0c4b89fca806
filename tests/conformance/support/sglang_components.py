"""What is played on SGLang's caches of several components: ``RELEASE drawn|undeclared TARGET``, as JSON.

Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options

MODULES = {"0.5.13.post1": "v0_5_13", "0.5.23": "v0_5_23"}
OTHERS = {"swa_radix": "hybrid", "mamba_radix": "hybrid", "hi_mamba": "hi_mamba"}
"""Where the targets are that aren't of the unified cache."""
CHOICES = ("evict_granularity", "duplicates", "component_grants", "component_refill")


def target_of(release: str, name: str) -> Any:
    """A target of a release."""
    module = importlib.import_module(
        f"kvlitmus.conformance.adapters.sglang.{MODULES[release]}.{OTHERS.get(name, 'components')}"
    )
    return getattr(module, name)


def drawn(target: Any, steps: int = 6_000) -> dict[str, list[str]]:
    """The rules that litmus tests and drawn schedules break, each with the calls of its shortest counterexample."""
    broken: dict[str, list[str]] = {}
    for item in plan.items(target.configs, target.profile, steps=steps):
        result = engine.run_item(target, item, Options(reruns=0, shrink_trials=0))
        assert not result.error, result.error
        for finding in result.findings:
            for rule in finding.rules:
                calls = [*finding.calls, finding.call]
                if rule not in broken or len(calls) < len(broken[rule]):
                    broken[rule] = calls
    return broken


def slipped(target: Any, slip: Callable[[Any], None] | None) -> Any:
    """The target, in each cache of which a slip is planted, if there is one."""

    if slip is None:
        return target

    def planted(config: Config) -> Any:
        cache = target.build(config)
        slip(cache)
        return cache

    return replace(target, build=planted)


def undeclared(target: Any) -> dict[str, list[str]]:
    """For each choice that the profile declares, what is broken where it declares the usual one instead."""
    usual = type(target.profile)()
    return {
        name: sorted(drawn(replace(target, profile=replace(target.profile, **{name: getattr(usual, name)})), 1_000))
        for name in CHOICES
    }


if __name__ == "__main__":
    release, what, name = sys.argv[1:]
    print(json.dumps({"drawn": drawn, "undeclared": undeclared}[what](target_of(release, name))))
