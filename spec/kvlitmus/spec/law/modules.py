"""Modules of kvlitmus as they are read: what each binds, imports and does, and what a name in it stands for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = "kvlitmus"
"""The package whose definitions are followed; of all others, names count."""

WHOLE = "*"
"""In the place of a name: all definitions of a module, and what it does besides when it is imported."""
EFFECTS = "!"
"""In the place of a name: what a module does when it is imported, beside defining and importing."""


class Place(NamedTuple):
    """Where something is defined: a module of kvlitmus, and a name there, :data:`WHOLE` or :data:`EFFECTS`."""

    module: str
    name: str


@cache
def path_of(module: str) -> Path | None:
    """The file of a module of kvlitmus; ``None`` for anything else."""
    first, *rest = module.split(".")
    if first != ROOT or not rest or not all(rest):
        return None
    for root in sys.modules[ROOT].__path__:
        place = Path(root, *rest)
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


class Module:
    """A module as it is read: what it binds, imports and does."""

    def __init__(self, name: str, source: str, *, is_package: bool) -> None:
        self.name = name
        self.package = name if is_package else name.rpartition(".")[0]
        self.bound: dict[str, list[ast.stmt]] = {}
        self.imported: dict[str, str] = {}
        self.effects: list[ast.stmt] = []
        for statement in ast.parse(source).body:
            self._note(statement)

    def _note(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self.imported.update(imports(statement))
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.bound.setdefault(statement.name, []).append(statement)
        elif is_for_types(statement):
            for inner in statement.body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    self.imported.update(imports(inner))
        elif names := targets(statement):
            for name in names:
                self.bound.setdefault(name, []).append(statement)
        elif not is_nothing(statement):
            self.effects.append(statement)


@cache
def module_of(name: str) -> Module | None:
    """A module of kvlitmus, read; ``None`` for anything else."""
    path = path_of(name)
    if path is None:
        return None
    return Module(name, path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py")


def imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with the full name of what it stands for."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            first = alias.name.partition(".")[0]
            yield first, first


def is_for_types(statement: ast.AST) -> TypeGuard[ast.If]:
    """Whether this is there for type checkers alone."""
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Name)
        and statement.test.id == "TYPE_CHECKING"
        and not statement.orelse
    )


def is_nothing(statement: ast.stmt) -> bool:
    """Whether a statement does nothing: a docstring, ``pass``, or what only a script does."""
    if isinstance(statement, ast.If):
        test = statement.test
        return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def targets(statement: ast.stmt) -> list[str]:
    """The names that an assignment binds; none, where it assigns to a part of something or is none."""
    if isinstance(statement, ast.AnnAssign):
        left: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        left = statement.targets
    else:
        return []
    names: list[str] = []
    for one in left:
        parts = one.elts if isinstance(one, ast.Tuple | ast.List) else [one]
        if not all(isinstance(part, ast.Name) for part in parts):
            return []
        names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names


@cache
def resolved(full: str) -> Place | str:
    """What a full name stands for: a place in kvlitmus, through all re-exports, or itself where it is elsewhere."""
    if full.partition(".")[0] != ROOT:
        return full
    if path_of(full) is not None:
        return Place(full, WHOLE)
    name, _, attribute = full.rpartition(".")
    module = module_of(name)
    if module is None:
        return Place(name, attribute) if name == ROOT else resolved_attribute(name, attribute)
    if attribute in module.bound:
        return Place(name, attribute)
    if attribute in module.imported:
        return resolved(module.imported[attribute])
    return Place(name, WHOLE)


def resolved_attribute(holder: str, attribute: str) -> Place | str:
    """What an attribute of something in kvlitmus stands for, where that isn't a module."""
    place = resolved(holder)
    return place if isinstance(place, Place) else f"{place}.{attribute}"


def function_at(place: Place | str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function that is defined somewhere; ``None`` where it isn't one, or not one alone."""
    module = module_of(place.module) if isinstance(place, Place) else None
    found = module.bound.get(place.name, []) if module is not None and isinstance(place, Place) else []
    one = found[0] if len(found) == 1 else None
    return one if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) else None
