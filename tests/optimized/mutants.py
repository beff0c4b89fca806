"""Known bugs, put into the optimized cache: what its tests are judged with.

Each **mutant** replaces a few methods of the cache by ones with a bug that some cache in use had.  Which bug, and which
rules it breaks, is said by the specimen's mutants of the same names (``like``), so that one bug is counted once.  A
mutant counts as killed when the suite breaks a rule that one of those names; a ``difference`` is one that no
rule is about, and that only the lock step with the reference can see.

**Null mutants** are legal variations: the suite must not say a word.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS, TIERED
from kvlitmus.mutants.registry import all_mutants

Original = Any
"""The method that is replaced; what replaces it calls it where it goes on as before."""

PACKAGE = "kvlitmus.optimized"
FLAT = (Config(page_size=4), Config(page_size=1, pages=10))
TIERS = (TIERED, TIER_CONFIGS[1], TIER_CONFIGS[3])
HITS = (Config(page_size=4, policy="lfu"), Config(page_size=4, policy="slru"))
FLAT_PAGED = (Config(page_size=4), Config(page_size=4, pages=8))
SELECTIVE = (TIER_CONFIGS[2],)
TIMED = (TIER_CONFIGS[2], TIER_CONFIGS[4])
BACK = (TIER_CONFIGS[3], TIER_CONFIGS[4])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One mutant: its ``patches`` by place (``module:Class.method``), and the configurations in which it shows."""

    id: str
    recipe: str
    like: tuple[str, ...]
    patches: dict[str, Callable[[Original], Any]]
    configs: tuple[Config, ...]
    null: bool = False
    more: tuple[str, ...] = ()

    @property
    def bugs(self) -> frozenset[str]:
        """The known bugs that it puts back."""
        return frozenset(bug for id in self.like for bug in all_mutants()[id].bugs)

    @property
    def kills(self) -> frozenset[str]:
        """The rules that may catch it."""
        return frozenset(rule for id in self.like for rule in all_mutants()[id].kills) | frozenset(self.more)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The optimized cache with this bug."""
        undo: list[tuple[Any, str, Any]] = []
        try:
            for place, make in self.patches.items():
                module, _, path = place.partition(":")
                owner: Any = importlib.import_module(f"{PACKAGE}.{module}")
                *classes, name = path.split(".")
                for one in classes:
                    owner = getattr(owner, one)
                original = inspect.getattr_static(owner, name)
                undo.append((owner, name, original))
                setattr(owner, name, make(original))
            yield
        finally:
            for owner, name, original in reversed(undo):
                setattr(owner, name, original)


MUTANTS: dict[str, Mutant] = {}


def mutant(
    id: str,
    *places: str,
    like: tuple[str, ...] = (),
    configs: tuple[Config, ...] = FLAT,
    null: bool = False,
    more: tuple[str, ...] = (),
) -> Callable[[Callable[[Original], Any]], Callable[[Original], Any]]:
    """Register what makes a replacement out of an original, for all of these places; its docstring is the recipe."""

    def register(make: Callable[[Original], Any]) -> Callable[[Original], Any]:
        recipe = inspect.getdoc(make)
        assert recipe and id not in MUTANTS
        MUTANTS[id] = Mutant(
            id=id,
            recipe=recipe,
            like=like,
            patches=dict.fromkeys(places, make),
            configs=configs,
            null=null,
            more=more,
        )
        return make

    return register


def nothing(*args: Any, **options: Any) -> None:
    """Do nothing."""


@contextmanager
def without(owner: Any, *names: str) -> Iterator[None]:
    """For a while these methods of an object do nothing."""
    for name in names:
        setattr(owner, name, nothing)
    try:
        yield
    finally:
        for name in names:
            delattr(owner, name)


def registered() -> dict[str, Mutant]:
    """All mutants; importing their modules is what registers them."""
    for module in ("tree", "request", "host", "storage", "life", "plan"):
        importlib.import_module(f"tests.optimized.mutants_{module}")
    return MUTANTS
