"""The register of litmus tests."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvlitmus.conformance.judge import Judge

MODULES: tuple[str, ...] = ("pool", "tree", "lock", "evict", "request", "misuse")
"""The modules of this package that hold litmus tests, part by part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Litmus:
    """One litmus test: what it is about, what it needs, and the program.

    rules: the rules that it leads to; each must be evaluated in the run.  needs: capabilities.
    page_sizes, policies, bigram: the configurations in which it makes sense (empty: all).
    misuse: whether it breaks the contract, so that it runs only where the profile says what
    happens then.
    """

    id: str
    sentence: str
    rules: tuple[str, ...]
    needs: frozenset[str]
    program: Callable[[Judge], None]
    min_page: int = 1
    policies: tuple[str, ...] = ()
    bigram: bool | None = None
    misuse: bool = False


LITMUS: dict[str, Litmus] = {}
"""All litmus tests by id, which is ``part/name``."""


def litmus(
    *,
    rules: tuple[str, ...],
    needs: tuple[str, ...],
    min_page: int = 1,
    policies: tuple[str, ...] = (),
    bigram: bool | None = None,
    misuse: bool = False,
) -> Callable[[Callable[[Judge], None]], Callable[[Judge], None]]:
    """Register a program as a litmus test; its name is its id, its docstring the sentence that is shown."""

    def register(program: Callable[[Judge], None]) -> Callable[[Judge], None]:
        part = program.__module__.rpartition(".")[2]
        id = f"{part}/{program.__name__.replace('_', '-')}"
        sentence = inspect.getdoc(program)
        if id in LITMUS or not sentence:
            raise ValueError(f"litmus test {id!r} is registered twice or has no sentence", id)
        LITMUS[id] = Litmus(
            id=id,
            sentence=" ".join(sentence.split()),
            rules=rules,
            needs=frozenset(needs),
            program=program,
            min_page=min_page,
            policies=policies,
            bigram=bigram,
            misuse=misuse,
        )
        return program

    return register


def all_litmus() -> dict[str, Litmus]:
    """Every litmus test; importing the modules is what registers them."""
    for module in MODULES:
        importlib.import_module(f"kvlitmus.conformance.litmus.{module}")
    return LITMUS
