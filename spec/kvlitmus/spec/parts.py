"""The parts of the spec, in the order in which they are read, shown and blamed, and with them all rules."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator

from kvlitmus.spec.law.rule import RULES, Rule

PARTS = (
    "prefix.rules.observed",
    "prefix.rules.pool",
    "prefix.rules.tree",
    "prefix.rules.lock",
    "prefix.rules.evict",
    "prefix.rules.request",
    "prefix.rules.unseen",
    "prefix.rules.flush",
    "prefix.rules.hashing",
    "prefix.rules.prefetch",
    "prefix.rules.tier",
    "prefix.rules.backup",
    "prefix.rules.count",
    "prefix.rules.job",
    "prefix.rules.copies",
    "prefix.rules.load",
    "prefix.rules.fetch",
    "prefix.rules.storage_use",
    "prefix.rules.life",
    "prefix.rules.event",
    "prefix.frame.rules",
    "stores.rules",
    "sparse.rows",
    "sparse.staging",
    "sparse.admission",
    "sparse.ratio",
    "sparse.transfer",
    "sparse.growth",
    "sparse.misuse",
    "prefix.components.tree",
    "prefix.components.prefetch",
    "prefix.components.ends",
    "prefix.components.host",
    "prefix.components.policies",
    "prefix.components.storing",
    "prefix.components.order",
    "prefix.components.requests",
    "ranks.rules",
    "law.port",
    "misuse.rules",
)
"""One module each, by its place in this room; a rule's declared order is this order, then the order within the module."""


@functools.cache
def load() -> None:
    """Import every part, which registers its rules."""
    for part in PARTS:
        importlib.import_module(f"kvlitmus.spec.{part}")


@functools.cache
def place(module: str) -> int:
    """Where a module stands in the order of the parts; modules that are none come last."""
    part = module.removeprefix("kvlitmus.spec.")
    return PARTS.index(part) if part in PARTS else len(PARTS)


def all_rules() -> dict[str, Rule]:
    """Every rule of the spec, in declared order; importing the parts is what registers them."""
    load()
    if not part_by_part(len(RULES), next(reversed(RULES), "")):
        # A part may have been imported before the parts that come before it.
        ordered = sorted(RULES.values(), key=lambda one: place(one.predicate.__module__))
        RULES.clear()
        RULES.update({one.id: one for one in ordered})
    return RULES


@functools.lru_cache(maxsize=1)
def part_by_part(_many: int, _last: str) -> bool:
    """Whether so many rules up to the last one are in the order of the parts; every cache that is judged asks."""
    places = [place(one.predicate.__module__) for one in RULES.values()]
    return places == sorted(places)


def rules_of(pack: str) -> Iterator[Rule]:
    """The rules of one pack, in declared order."""
    return (one for one in all_rules().values() if one.pack == pack)
