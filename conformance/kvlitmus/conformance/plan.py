"""The plan of a run: which items of work make up the verdict.

The set is deterministic: the same version, target and options give the same items in the same
order.  Every configuration gets all litmus tests that make sense in it, and a number of
schedules drawn from consecutive seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.litmus.registry import Litmus, all_litmus
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.results import Item

OPS = 250
"""Operations in one schedule."""

STEPS = 4_000
"""Steps per configuration, about; one operation makes a little more than one step."""

POLICIES = ("lfu", "fifo", "mru", "filo", "priority", "slru")

CONFIGS: tuple[Config, ...] = (
    Config(page_size=1),
    Config(page_size=4),
    Config(page_size=16),
    *(Config(page_size=4, policy=policy) for policy in POLICIES),
    Config(page_size=1, bigram=True),
    Config(page_size=4, bigram=True),
    Config(page_size=4, pages=8),
    Config(page_size=1, pool="host"),
    Config(page_size=4, pool="host"),
)
"""The configurations of a full run; a target may declare ``configs`` of its own."""


def configs_of(target: Any) -> tuple[Config, ...]:
    """The configurations in which a target is judged."""
    declared = getattr(target, "configs", None)
    return tuple(declared) if declared else CONFIGS


def suits(test: Litmus, config: Config, profile: Profile, *, force_misuse: bool) -> bool:
    """Whether a litmus test makes sense in a configuration."""
    if config.pool == "host" and not test.needs <= {
        "pool",
        "extend",
        "group",
        "reset",
        "inspect",
        "hashes",
        "prefetch",
    }:
        return False
    if test.misuse and profile.misuse == "undefined" and not force_misuse:
        return False
    return (
        config.page_size >= test.min_page
        and (not test.policies or config.policy in test.policies)
        and test.bigram in (None, config.bigram)
        and config.pages >= 32
    )


def items(
    configs: Sequence[Config],
    profile: Profile,
    *,
    seed: int = 0,
    steps: int = STEPS,
    litmus: bool = True,
    force_misuse: bool = False,
) -> list[Item]:
    """All items of a run: litmus tests first, then schedules, configuration by configuration."""
    found: list[Item] = []
    for config in configs:
        if litmus:
            found += [
                Item(kind="litmus", config=config, name=test.id)
                for test in all_litmus().values()
                if suits(test, config, profile, force_misuse=force_misuse) and not (test.once and config != configs[0])
            ]
    rounds = -(-steps // OPS)
    for number in range(rounds):
        found += [Item(kind="random", config=config, seed=seed + number, ops=OPS) for config in configs]
    return found


def with_pages(configs: Sequence[Config], page_sizes: Sequence[int]) -> tuple[Config, ...]:
    """The LRU configurations for other page sizes."""
    plain = [config for config in configs if config.policy == "lru" and not config.bigram and config.pages == 32]
    pools = sorted({config.pool for config in plain})
    return tuple(replace(Config(), page_size=size, pool=pool) for pool in pools for size in page_sizes)
