"""The build of a report: a digest of everything that decides its verdicts, so that a stale report can be told.

Two trees that have the same build for a target say the same of it.  What counts: the rules with their facts; the
modules that judge, and those that make the calls (oracle, calls, actions, litmus tests, plan), with their imports; and
the target's adapter.  Comments, docstrings and the command line don't count, nor does what only shrinks
counterexamples or watches processes, nor what is about another kind of cache than the target.  The items of a run
have a digest of their own.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.results import Item, to_json
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.rule import Rule

ROOTS = ("run.engine", "run.plan", "run.verdicts", "litmus", "generate.actions", "checker.calls", "vectors")
"""Modules and packages of the judge from which everything else is reached by imports."""

LEFT_OUT = frozenset(
    f"kvlitmus.{name}"
    for name in (
        "spec.less",
        "conformance.generate.shrink",
        "conformance.run.minimise",
        "conformance.run.failures",
        "conformance.isolation.current_run",
        "conformance.checker.explain",
        "conformance.support.files",
        "conformance.support.ending",
        "conformance.history.steps",
    )
)
"""Reached from there, but without a say in verdicts."""

KINDS = {"components": "component", "sparse": "sparse", "ranks": "rank", "store": "store"}
"""What is judged apart from caches of KV, and how the names of modules begin that are about it alone."""
PACKS = {"comp": "components", "creq": "components", "sparse": "sparse", "ranks": "ranks", "store": "store"}
"""The packs of rules about one of these; the others may be asked of any cache."""
ROOMS = ("kvlitmus.spec", *(f"kvlitmus.conformance.{name}" for name in ("litmus", "generate.actions", "checker.calls")))
"""Where such modules are."""

BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of modules and statements that statements are in; no expression has any."""

STRING_OR_COMMENT = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'''
    r"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\#[^\n]*""",
    re.DOTALL,
)
"""What begins where no other does: a tokenizer would find the same, and much that is of no interest here."""

DIGITS = 12


def kinds_of(configs: Iterable[Config]) -> frozenset[str]:
    """What of :data:`KINDS` is judged in these configurations; nothing, for a cache of KV."""
    return frozenset("components" if one.components else one.pool for one in configs) & KINDS.keys()


def is_about(rule: Rule, kinds: Collection[str]) -> bool:
    """Whether a rule may be asked of these kinds of caches, or of any."""
    return rule.pack not in PACKS or PACKS[rule.pack] in kinds


def is_apart(module: str, kinds: Collection[str]) -> bool:
    """Whether a module is about another kind of cache alone: nothing of it is asked where these are judged."""
    room, _, name = module.rpartition(".")
    return room in ROOMS and any(name.startswith(KINDS[kind]) for kind in KINDS.keys() - set(kinds))


def build_of(target_module: str, kinds: Collection[str] = ()) -> str:
    """Twelve hex digits that change with whatever decides verdicts on a target of this module and these kinds."""
    found: dict[str, str] = {}
    waiting = ["kvlitmus.spec", *(f"kvlitmus.conformance.{name}" for name in ROOTS), target_module]
    while waiting:
        name = waiting.pop()
        path = path_of(name)
        if name in found or name in LEFT_OUT or path is None or is_apart(name, kinds):
            continue
        found[name], imported = _read(path)
        waiting += imported
        waiting += inner_modules(name, path)
    lines = [f"{id} {digest_of(rule)}" for id, rule in all_rules().items() if is_about(rule, kinds)]
    lines += [f"{name} {digest}" for name, digest in sorted(found.items())]
    return _digest("\n".join(lines))


@cache
def digest_of(rule: Rule) -> str:
    """The digest of a rule, worked out once: the sources of all its facts are read for it."""
    return rule.digest


def items_of(items: Iterable[Item]) -> str:
    """Twelve hex digits that change with the items of a run: their configurations, seeds, programs and order."""
    plain = {"config": cache(to_json)}  # there are thousands of items of each configuration
    told = [
        [item.id, {name: plain.get(name, to_json)(getattr(item, name)) for name in Item.__dataclass_fields__}]
        for item in items
    ]
    return _digest(json.dumps(told, sort_keys=True))


@cache
def path_of(module: str) -> Path | None:
    """The file of a module of kvlitmus; ``None`` for anything else."""
    first, *rest = module.split(".")
    if first != "kvlitmus" or not rest:
        return None
    for root in sys.modules["kvlitmus"].__path__:
        place = Path(root, *rest)
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


def inner_modules(name: str, path: Path) -> Iterator[str]:
    """The modules of a package that registers what it holds, or that is loaded part by part."""
    if path.name == "__init__.py" and (name == "kvlitmus.spec" or name.removeprefix("kvlitmus.conformance.") in ROOTS):
        yield from (f"{name}.{inner.stem}" for inner in sorted(path.parent.glob("*.py")) if inner != path)


@cache
def _read(path: Path) -> tuple[str, tuple[str, ...]]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    return _digest(essence(source, tree)), tuple(imports(tree))


def inner(tree: ast.AST) -> Iterator[ast.AST]:
    """What stands in the blocks of a module or statement: statements, and handlers and cases, which have blocks too."""
    for blocks in BLOCKS:
        yield from getattr(tree, blocks, ())


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules that a module imports, wherever it does; not what is there for type checkers alone."""
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and tree.test.id == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom) and tree.module:
        yield tree.module
        yield from (f"{tree.module}.{alias.name}" for alias in tree.names)
    for child in inner(tree):
        yield from imports(child)


def docstrings(tree: ast.AST) -> Iterator[ast.stmt]:
    """The docstrings in a module, wherever they are."""
    if isinstance(tree, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(tree, clean=False):
        yield tree.body[0]
    for child in inner(tree):
        yield from docstrings(child)


def essence(source: str, tree: ast.Module) -> str:
    """A source without its comments and docstrings; the same under every version of Python."""
    lines = STRING_OR_COMMENT.sub(lambda found: "" if found[0][0] == "#" else found[0], source).splitlines()
    for doc in docstrings(tree):
        for at in range(doc.lineno - 1, doc.end_lineno or doc.lineno):
            lines[at] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
