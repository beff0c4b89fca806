"""The plan of a run: which items of work make up the verdict.

The set is deterministic: the same version, target and options give the same items in the same
order.  Every configuration gets all litmus tests that make sense in it, and a number of
schedules drawn from consecutive seeds.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any

from kvlitmus.conformance.litmus.registry import Litmus, all_litmus
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.results import Item
from kvlitmus.conformance.support.text import closest, harmless, shown
from kvlitmus.conformance.vectors import Vector, all_vectors
from kvlitmus.spec.interface.ports import PORTS, STORAGE_OF_TIERS
from kvlitmus.spec.words.layouts import LAYOUTS
from kvlitmus.spec.words.policies import POLICIES, STOPS, WRITES

OPS = 250
"""Operations in one schedule."""

STEPS = 4_000
"""Steps per configuration, about; one operation makes a little more than one step."""

OTHERS = tuple(POLICIES)[1:]
"""The policies other than LRU, under which all else is judged."""

CONFIGS: tuple[Config, ...] = (
    Config(page_size=1),
    Config(page_size=4),
    Config(page_size=16),
    *(Config(page_size=4, policy=policy) for policy in OTHERS),
    Config(page_size=1, bigram=True),
    Config(page_size=4, bigram=True),
    Config(page_size=4, pages=8),
    Config(page_size=1, pool="host"),
    Config(page_size=4, pool="host"),
)
"""The configurations of a full run; a target may declare ``configs`` of its own."""

TIERED = Config(page_size=4, pages=20, host_pages=16, storage="attached", threshold=8, rate_limit=64)
TIER_CONFIGS: tuple[Config, ...] = (
    TIERED,
    replace(TIERED, page_size=1, pages=24, host_pages=20, threshold=1, rate_limit=20, stop="wait_complete"),
    replace(TIERED, write="write_through_selective", threshold=4, stop="timeout", storage="later"),
    replace(TIERED, write="write_back", host_pages=6),
    replace(TIERED, page_size=1, pages=16, host_pages=8, threshold=2, rate_limit=8, write="write_back", stop="timeout"),
    replace(TIERED, bigram=True, host_pages=10, threshold=4, stop="wait_complete"),
    replace(TIERED, page_size=2, threshold=2, host_pages=8, storage="later", rate_limit=32),
)
"""The configurations of a hierarchy: each write policy, each stop policy, storage from the beginning and later."""

HOST_CONFIGS: tuple[Config, ...] = (
    replace(TIERED, storage="none", threshold=0, rate_limit=0),
    replace(TIERED, storage="none", threshold=0, rate_limit=0, page_size=1, pages=12, host_pages=6, write="write_back"),
)
"""Those of a hierarchy with nothing behind its host memory: roomy, and tight."""

STORE_CONFIGS: tuple[Config, ...] = (Config(page_size=1, pool="store"), Config(page_size=16, pool="store"))
"""The configurations in which a page store is judged alone."""

SPARSE_CONFIGS: tuple[Config, ...] = tuple(
    [Config(page_size=size, pages=11, pool="sparse") for size in (4, 1, 16, 128)]
)
"""The configurations in which a sparse host pool is judged: its rows have more room than it has pages."""

RANKS = Config(pool="ranks", pages=8, stop="wait_complete")
RANK_CONFIGS: tuple[Config, ...] = tuple(
    [replace(RANKS, stop=stop) for stop in ("wait_complete", "timeout", "best_effort")]
)
"""The configurations in which it is judged whether several ranks decide alike; each plays all shapes of ranks."""

COMPONENT_CONFIGS: tuple[Config, ...] = (
    *(Config(page_size=4, pages=16, components=name) for name in LAYOUTS if not name.startswith("blocks+")),
    Config(page_size=1, pages=12, components="kv+swa+state"),
    Config(page_size=1, pages=20, components="groups"),
    Config(page_size=4, pages=16, components="kv+swa", bigram=True),
    Config(page_size=4, pages=16, components="kv+state", bigram=True),
    Config(page_size=1, pages=12, components="kv+swa"),
)
"""The configurations of a cache of components: each layout at pages of four, of bigrams too; some at pages of one,
where a window that is off by a token shows."""

COMPONENT_POLICY_CONFIGS: tuple[Config, ...] = tuple(
    [Config(page_size=1, pages=12, components="kv+swa+state", policy=policy) for policy in OTHERS]
)
"""The configurations of a cache of components under every policy other than LRU."""

COMPONENT_HOST_CONFIGS: tuple[Config, ...] = (
    Config(page_size=4, pages=16, host_pages=16, write="asked", components="kv+swa+state"),
    Config(page_size=1, pages=12, host_pages=8, write="asked", components="kv+swa+state"),
    Config(page_size=4, pages=20, host_pages=24, write="asked", components="groups"),
    Config(page_size=4, pages=12, host_pages=12, write="asked", components="kv+swa", bigram=True),
    Config(page_size=4, pages=12, host_pages=12, write="asked", components="kv+index"),
    *(
        Config(page_size=1, pages=12, host_pages=8, write="asked", components="kv+swa+state", policy=policy)
        for policy in OTHERS
    ),
)
"""The configurations of a cache of components with host memory: large, tight, of shared pools, bigrams, index keys, and
under every policy."""

COMPONENT_WRITE_CONFIGS: tuple[Config, ...] = (
    Config(page_size=4, pages=16, host_pages=16, write="write_through", components="kv+swa+state"),
    Config(page_size=4, pages=20, host_pages=24, write="write_through_selective", components="groups"),
    Config(page_size=4, pages=12, host_pages=24, write="write_back", components="kv+swa+state"),
    Config(page_size=1, pages=12, host_pages=8, write="write_back", components="kv+swa+state"),
    Config(page_size=4, pages=12, host_pages=12, write="write_through", components="kv+swa", bigram=True),
    Config(page_size=4, pages=12, host_pages=12, write="write_back", components="kv+index"),
)
"""Those of a cache of components that backs up by itself, by each policy, with much host memory and with little."""

COMPONENT_STORAGE_CONFIGS: tuple[Config, ...] = (
    Config(page_size=4, pages=16, host_pages=16, write="asked", storage="attached", components="kv+swa+state"),
    Config(page_size=1, pages=12, host_pages=8, write="asked", storage="later", components="kv+swa+state"),
    Config(page_size=4, pages=20, host_pages=24, write="write_through", storage="attached", components="groups"),
    Config(
        page_size=4,
        pages=12,
        host_pages=12,
        write="asked",
        storage="attached",
        components="kv+swa",
        bigram=True,
    ),
    Config(page_size=4, pages=12, host_pages=12, write="asked", storage="attached", components="kv+chunk"),
    Config(page_size=4, pages=12, host_pages=12, write="write_back", storage="attached", components="kv+swa+state"),
)
"""Those of a cache of components with storage behind its host memory: from the beginning, later, of bigrams, chunks."""

REQUEST_CONFIGS: tuple[Config, ...] = (
    *(
        Config(page_size=4, pages=24, components=name)
        for name in ("groups", "blocks+swa", "blocks+state", "blocks+chunk")
    ),
    Config(page_size=4, pages=16, components="kv+swa+state"),
    Config(page_size=1, pages=20, components="groups"),
    Config(page_size=1, pages=12, components="blocks+swa"),
    Config(page_size=4, pages=24, components="groups", bigram=True),
)
"""The configurations of a cache that serves requests on components: pools that are shared, mostly."""

REQUEST_POLICY_CONFIGS: tuple[Config, ...] = tuple(
    [Config(page_size=1, pages=20, components="groups", policy=policy) for policy in OTHERS]
)
"""The configurations of one that serves requests, under every policy other than LRU."""

KINDS: dict[str, tuple[Config, ...]] = {
    "store": STORE_CONFIGS,
    "sparse": SPARSE_CONFIGS,
    "ranks": RANK_CONFIGS,
    "components": COMPONENT_CONFIGS + COMPONENT_POLICY_CONFIGS,
    "component_requests": REQUEST_CONFIGS + REQUEST_POLICY_CONFIGS,
}
"""The configurations of what is judged apart from caches of KV, by the capability or pool that declares it."""

COMPONENT_POOLS: dict[str, tuple[Config, ...]] = {
    "component_host": COMPONENT_HOST_CONFIGS,
    "component_writes": COMPONENT_WRITE_CONFIGS,
    "component_storage": COMPONENT_STORAGE_CONFIGS,
}
"""What a cache of components is judged in besides, by the pool that declares it."""

POOLS = ("device", "host", "tiers", *KINDS, *COMPONENT_POOLS)
"""What a target may declare as its ``pools``; the first two are its usual ones."""


def configs_of(target: Any) -> tuple[Config, ...]:
    """The configurations in which a target is judged: its own, if it declares any, or else those of its families."""
    declared = getattr(target, "configs", None)
    return tuple(declared) if declared else tuple(chain(*families_of(target).values()))


def families_of(target: Any) -> dict[str, tuple[Config, ...]]:
    """The configurations of a target that declares none of its own, by what is judged in them.

    A target that declares the capability ``store`` and no pool is a page store alone, one that declares ``sparse`` a
    sparse host pool; one that has ``store`` or ``sparse`` among its ``pools`` is judged as a cache, and that by itself;
    with ``tiers`` among them also as a hierarchy.  ``ranks`` likewise stands for several ranks,
    ``components`` for a cache of components, ``component_requests`` for one that serves requests; one of components
    that has ``component_host`` among its ``pools`` is judged with host memory too, with ``component_writes`` as one
    that backs up by itself, with ``component_storage`` as one with storage behind that.
    """
    capabilities = declared(target, "capabilities", "port", (*PORTS, "lookup"))
    pools = declared(target, "pools", "pool", POOLS)
    for kind, own in KINDS.items():
        if kind in capabilities and "pool" not in capabilities:
            return {kind: own, **{pool: some for pool, some in COMPONENT_POOLS.items() if pool in pools}}
    more = {"tiers": TIER_CONFIGS + HOST_CONFIGS, **KINDS}
    return {"flat": CONFIGS, **{pool: own for pool, own in more.items() if pool in pools}}


def declared(target: Any, field: str, what: str, known: Collection[str]) -> frozenset[str]:
    """The names that a target declares in this field; raises ``TypeError`` for what is no such name.

    What is misspelt would be judged as if it had not been said.
    """
    stated = getattr(target, field, ())
    if isinstance(stated, str):
        raise TypeError(f"a target's {field} must be a tuple of names, got the text {shown(stated)}")
    names = frozenset(map(str, stated))
    for name in sorted(names.difference(known)):
        raise TypeError(f"a target has no {what} {harmless(name, 80)!r} ({field}){closest(name, known)}")
    return names


VARIED: dict[str, tuple[object, ...]] = {
    "storage": ("none", "attached", "later"),
    "write": WRITES,
    "stop": STOPS,
    "page_size": (1, 2, 4, 8, 16, 32, 64, 128),
    "bigram": (False, True),
    "policy": tuple(POLICIES),
}
"""In what a configuration is varied to find one that a target accepts; the first three of a hierarchy alone."""

NEARBY = 150
"""So many configurations are tried, at most, for one that a target accepts."""


def lacking(family: Sequence[Config], accepted: Container[Config]) -> list[dict[str, object]]:
    """What a target accepts none of: of a whole family, else of those with one of its write policies or storages."""
    having = [config for config in family if config in accepted]
    values = [
        {name: value} for name in ("write", "storage") for value in dict.fromkeys(getattr(one, name) for one in family)
    ]
    return [one for one in ([{}, *values] if having else [{}]) if not any(like(config, one) for config in having)]


def without_storage(family: Sequence[Config], accepted: Container[Config]) -> list[Config]:
    """What a family has with storage, each without it; nothing where a target accepts one with storage."""
    stored = [config for config in family if config.storage != "none"]
    if any(config in accepted for config in stored):
        return []
    usual = Config()
    return [
        replace(one, storage=usual.storage, threshold=usual.threshold, rate_limit=usual.rate_limit, stop=usual.stop)
        for one in stored
    ]


def nearby(family: Sequence[Config], fixed: Mapping[str, object]) -> Iterator[Config]:
    """At most :data:`NEARBY` configurations with these values, which differ little from the first of a family."""
    base, tried = family[0], set(family)
    names = [name for name in VARIED if name not in fixed and (base.tiered or name not in ("storage", "write", "stop"))]
    ways = chain(*(combinations(names, many) for many in range(3)))
    for values in chain(*(product(*[[(name, value) for value in VARIED[name]] for name in way]) for way in ways)):
        made = replace(base, **{**fixed, **dict(values)})  # type: ignore[arg-type]
        if made not in tried and len(tried) < len(family) + NEARBY:
            tried.add(made)
            yield made


def like(config: Config, values: Mapping[str, object]) -> bool:
    """Whether a configuration has these values."""
    return all(getattr(config, name) == value for name, value in values.items())


def suits(test: Litmus, config: Config, profile: Profile, *, force_misuse: bool) -> bool:
    """Whether a litmus test makes sense in a configuration."""
    if any((config.pool == pool) != (pool in test.needs) for pool in ("store", "sparse", "ranks")):
        return False
    if config.tiered != bool(test.needs & {"tiers", "component_host"}) or bool(config.components) != bool(
        test.needs & {"components", "component_requests"}
    ):
        return False
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
    if any(
        getattr(profile, name) not in (value if isinstance(value, frozenset) else (value,))
        for name, value in test.profile.items()
    ):
        return False
    if config.storage == "none" and not test.needs.isdisjoint(STORAGE_OF_TIERS):
        return False
    return (
        config.page_size >= test.min_page
        and (not test.policies or config.policy in test.policies)
        and (not test.writes or config.write in test.writes)
        and (not test.stops or config.stop in test.stops)
        and test.bigram in (None, config.bigram)
        and (not test.layouts or config.components in test.layouts)
        and (config.pages >= 32 or config.tiered or config.apart)
        and (not test.page or config.storage == "attached")
    )


def items(
    configs: Sequence[Config],
    profile: Profile,
    *,
    seed: int = 0,
    steps: int = STEPS,
    litmus: bool = True,
    force_misuse: bool = False,
    vectors: Iterable[Vector] | None = None,
) -> list[Item]:
    """All items of a run: litmus tests and vectors first, then schedules, configuration by configuration.

    ``vectors`` instead of those of the package.
    """

    def fits(config: Config, test: Litmus) -> bool:
        return suits(test, config, profile, force_misuse=force_misuse)

    found: list[Item] = []
    for config in configs:
        if litmus:
            found += [
                Item(kind="litmus", config=config, name=test.id)
                for test in all_litmus().values()
                if fits(config, test) and not (test.once and config != next(one for one in configs if fits(one, test)))
            ]
            found += [
                Item(kind="vector", config=config, name=vector.id, schedule=vector.schedule)
                for vector in (all_vectors().values() if vectors is None else vectors)
                if vector.config == config
            ]
    rounds = -(-steps // OPS)
    for number in range(rounds):
        found += [Item(kind="random", config=config, seed=seed + number, ops=OPS) for config in configs]
    return found


def with_pages(configs: Sequence[Config], page_sizes: Sequence[int]) -> tuple[Config, ...]:
    """The LRU configurations for other page sizes."""
    usual = [config for config in configs if config.policy == "lru" and not config.bigram]
    plain = {config.pool: config.pages for config in usual if config.pages == 32 or config.pool == "sparse"}
    return tuple(
        replace(Config(), page_size=size, pool=pool, pages=plain[pool]) for pool in sorted(plain) for size in page_sizes
    )
