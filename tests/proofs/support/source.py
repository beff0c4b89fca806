"""The real source of a module, run with stand-ins in the place of what it imports, and with a slip put into it.

So a proof is about the code as it is now, whatever has become of it since the proof was written.  A function finds its
globals in a fresh namespace: a stand-in is used wherever the source imports that name or uses it as a builtin.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple


class Slip(NamedTuple):
    """A bug to be put into a module: of its source the text ``there``, which it has once, becomes ``slipped``.

    ``case``: the number of the case of a proof in which it shows, where it doesn't in the first ones.
    """

    module: str
    there: str
    slipped: str
    case: int = 0


class Source:
    """Where proofs get modules from, as they are or with a slip."""

    def __init__(self, slip: Slip | None = None) -> None:
        self.slip = slip
        self.read: set[str] = set()

    def module(self, name: str, constants: Mapping[str, Any] | None = None, **instead: Any) -> Any:
        """The names of a module, run with these stand-ins; ``constants`` of its own get other values.

        Raises ``ValueError`` where the source no longer has the text of the slip exactly once, or where it defines
        something itself for which there is a stand-in.
        """
        # dataclasses look their module up by its name, and this one is not among those that are imported
        slip = self.slip if self.slip is not None and self.slip.module == name else None
        self.read.add(name)
        names: dict[str, Any] = {"__name__": __name__, **instead}
        exec(compiled(name, slip, frozenset(instead)), names)
        lost = [one for one, value in instead.items() if names[one] is not value]
        if lost:
            raise ValueError(f"{name} has {', '.join(lost)} of its own: no stand-in is used for them", lost)
        names.update(constants or {})
        return SimpleNamespace(**names)


def text_of(name: str) -> str:
    """The source of a module."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, name
    return Path(spec.origin).read_text(encoding="utf-8")


def slipped(name: str, slip: Slip | None) -> str:
    """The same, with a slip in it; raises ``ValueError`` where it has not the text of the slip exactly once."""
    text = text_of(name)
    if slip is None:
        return text
    if text.count(slip.there) != 1:
        raise ValueError(f"{name} has {slip.there!r} {text.count(slip.there)} times, expected once", slip)
    return text.replace(slip.there, slip.slipped)


@cache
def compiled(name: str, slip: Slip | None, instead: frozenset[str]) -> CodeType:
    """The code of a module that imports nothing for which there is a stand-in."""
    tree = Without(instead).visit(ast.parse(slipped(name, slip)))
    return compile(ast.fix_missing_locations(tree), f"{name} with stand-ins", "exec", dont_inherit=True)


class Without(ast.NodeTransformer):
    """Takes the imports of some names out of a source."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def kept(self, node: Any) -> Any:
        """The same import without these names; nothing where none is left."""
        node.names = [one for one in node.names if (one.asname or one.name.partition(".")[0]) not in self.names]
        return node if node.names else ast.copy_location(ast.Pass(), node)

    def visit_Import(self, node: ast.Import) -> Any:
        """Of ``import a.b as c`` the name is ``c``."""
        return self.kept(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """Of ``from a import b as c`` too."""
        return self.kept(node)
