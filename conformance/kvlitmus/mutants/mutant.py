"""What a mutant is, whatever body of code has it: what goes wrong, what is put together with it, who must notice."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.ports import Config, Profile

CRASHES = frozenset({"PORT-01", "PORT-02"})
"""Rules that a cache breaks by crashing: never a kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A bug in a correct body of code; a null mutant is a legal variation of it."""

    id: str
    """A short name, such as ``split-forgets-locks``."""
    recipe: str
    """What goes wrong for a user, or why it is legal."""
    kills: tuple[str, ...] = ()
    """What must notice it, at least one of them: rules, or the names of laws and tests."""
    target: Any = None
    """The body put together with the part that is wrong."""
    configs: tuple[Config, ...] = ()
    """Under which configurations it shows."""
    bugs: tuple[str, ...] = ()
    """Ids of the known bugs that it puts back, links: where they were reported."""
    links: tuple[str, ...] = ()
    """Where they were reported."""
    long_because: str = ""
    """Why its shortest counterexample needs more than 15 steps, where it does."""
    module: str = ""
    """Where the part is that is wrong."""

    @property
    def null(self) -> bool:
        """Whether it is legal: nothing may notice it, so it names nothing."""
        return not self.kills

    @property
    def profile(self) -> Profile:
        """What the cache that has it declares."""
        profile: Profile = self.target.profile
        return profile

    def killed_by(self, noticed: Iterable[str]) -> str:
        """The first of these that kills it, empty if there is none; that the cache merely crashes is no kill."""
        return next((one for one in noticed if one in self.kills and one not in CRASHES), "")


class Register(dict[str, Mutant]):
    """Mutants of one body by id, in order."""

    def add(self, one: Mutant) -> None:
        """Register one; raises ``ValueError`` for an id that is taken."""
        if one.id in self:
            raise ValueError(f"mutant {one.id!r} is registered twice", one.id)
        self[one.id] = one


def recipe_of(id: str, made: Any) -> str:
    """The docstring of what is registered as a mutant; raises ``ValueError`` where it has none of its own."""
    recipe = inspect.getdoc(made)
    if not recipe or made.__doc__ is None:
        raise ValueError(f"mutant {id!r} has no recipe: give {made.__name__} a docstring", id)
    return recipe
