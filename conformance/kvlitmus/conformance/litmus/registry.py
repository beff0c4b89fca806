"""The register of litmus tests."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

MODULES: Mapping[str, str] = {
    "prefix.pool": "pool",
    "prefix.tree": "tree",
    "prefix.lock": "lock",
    "prefix.evict": "evict",
    "prefix.request": "request",
    "prefix.hashing": "hashing",
    "prefix.prefetch": "prefetch",
    "prefix.tier": "tier",
    "prefix.backup": "backup",
    "prefix.load": "load",
    "prefix.fetch": "fetch",
    "prefix.life": "life",
    "prefix.event": "event",
    "prefix.frame": "frame",
    "stores": "store",
    "sparse.rows": "sparse",
    "sparse.staging": "sparse_staging",
    "sparse.admission": "sparse_admission",
    "sparse.ratio": "sparse_ratio",
    "sparse.transfer": "sparse_transfer",
    "sparse.growth": "sparse_growth",
    "sparse.promises": "sparse_promises",
    "components.tree": "components",
    "components.prefetch": "component_prefetch",
    "components.host": "component_host",
    "components.host_keys": "component_host_keys",
    "components.writes": "component_writes",
    "components.storing": "component_storing",
    "components.events": "component_events",
    "components.requests": "component_requests",
    "components.order": "component_order",
    "components.misuse": "component_misuse",
    "ranks": "ranks",
    "misuse": "misuse",
}
"""The modules of this package that hold litmus tests, part by part, each with what the ids of its tests begin with.

Ids stay: they are in reports and counterexamples.
"""


class About(TypedDict, total=False):
    """What a litmus test is about, and where it makes sense; what isn't said is as in :class:`Litmus`."""

    rules: Required[tuple[str, ...]]
    min_page: int
    policies: tuple[str, ...]
    bigram: bool | None
    misuse: bool
    once: bool
    writes: tuple[str, ...]
    stops: tuple[str, ...]
    page: int
    profile: Mapping[str, object]
    layouts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Litmus:
    """One litmus test: what it is about, what it needs, and the program."""

    id: str
    """``part/name``."""
    sentence: str
    """What is shown of it."""
    rules: tuple[str, ...]
    """The rules that it leads to; each must be evaluated in the run."""
    needs: frozenset[str]
    """Capabilities."""
    program: Callable[[Checker], None]
    """The calls."""
    min_page: int = 1
    """The least page size at which it makes sense."""
    policies: tuple[str, ...] = ()
    """The policies with which it does (empty: all)."""
    bigram: bool | None = None
    """Whether its keys are bigrams; ``None``: either."""
    misuse: bool = False
    """Whether it breaks the contract, so that it runs only where the profile says what happens then."""
    once: bool = False
    """Whether it depends on no configuration, so that one run is enough."""
    writes: tuple[str, ...] = ()
    """The write policies of the hierarchies in which it makes sense (empty: all)."""
    stops: tuple[str, ...] = ()
    """Likewise the stop policies."""
    page: int = 0
    """The page size at which it is played, in a hierarchy with storage, whatever page size that has (0: at that one).
    """
    profile: Mapping[str, object] = field(default_factory=dict)
    """Values of the profile without which it makes no sense, or sets of them."""
    layouts: tuple[str, ...] = ()
    """Those of components in which it makes sense (empty: all)."""


LITMUS: dict[str, Litmus] = {}
"""All litmus tests by id, which is ``part/name``."""


def litmus(
    *, needs: tuple[str, ...], **about: Unpack[About]
) -> Callable[[Callable[[Checker], None]], Callable[[Checker], None]]:
    """Register a program as a litmus test; its name is its id, its docstring the sentence that is shown."""

    def register(program: Callable[[Checker], None]) -> Callable[[Checker], None]:
        module = program.__module__.removeprefix("kvlitmus.conformance.litmus.")
        part = MODULES.get(module, module.rpartition(".")[2])
        id = f"{part}/{program.__name__.replace('_', '-')}"
        add(id, inspect.getdoc(program) or "", program, needs=needs, **about)
        return program

    return register


def add(
    id: str, sentence: str, program: Callable[[Checker], None], *, needs: tuple[str, ...], **about: Unpack[About]
) -> None:
    """Register a program under an id; for tests that come from a table.

    Raises ``ValueError`` for an id that is taken and for a test without a sentence.
    """
    if id in LITMUS or not sentence:
        raise ValueError(f"litmus test {id!r} is registered twice or has no sentence", id)
    LITMUS[id] = Litmus(id=id, sentence=" ".join(sentence.split()), program=program, needs=frozenset(needs), **about)


def all_litmus() -> dict[str, Litmus]:
    """Every litmus test, part by part; importing the modules is what registers them.

    Whoever imports one of them first has no say in the order.
    """
    load()
    return {id: LITMUS[id] for id in in_order(tuple(LITMUS))}


def litmus_of(id: str) -> Litmus:
    """One litmus test; raises ``KeyError`` where it isn't there."""
    load()
    return LITMUS[id]


@functools.cache
def load() -> None:
    """Import every module, which registers its tests."""
    for module in MODULES:
        importlib.import_module(f"kvlitmus.conformance.litmus.{module}")


@functools.lru_cache(maxsize=1)
def in_order(ids: tuple[str, ...]) -> tuple[str, ...]:
    """These ids, part by part; sorted once, as each item of a run asks for them."""
    places = {part: at for at, part in enumerate(MODULES.values())}
    return tuple(sorted(ids, key=lambda id: places.get(id.partition("/")[0], len(MODULES))))
