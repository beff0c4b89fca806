"""The house itself: who imports whom, what a folder may hold, how long things may grow.

Each check is a function from a tree of files to a list of complaints, so that it can be run on
the project (no complaints) and on a small tree with a planted violation (exactly that complaint).
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("spec", "reference", "optimized", "conformance")
FOLDERS = (*ROOMS, "tests", "benchmarks", "tools", "docs", "examples")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

LARGE: dict[str, str] = {
    "conformance/kvlitmus/conformance/generate/machine.py::machine": (
        "a whole class, made in a function so that Hypothesis is imported only where it is used"
    ),
    "conformance/kvlitmus/mutants/prefix/fetch.py": "the 44 mutants of one part, from plan to end",
    "tests/spec/support/boundaries.py": "one table of rows, beside the values that they are made of",
}
"""What may be longer, by ``path`` or ``path::function``, each with its reason; a stale entry is a complaint."""


@dataclass(frozen=True)
class Direction:
    """What the modules below ``prefix`` may import besides the standard library.

    ``ours``: prefixes of the project, but not those in ``never``; ``lazily``: further ones inside functions only.
    ``others``: third-party packages; ``others_lazily``: further ones inside functions only, ``*`` for any.
    """

    prefix: str
    ours: tuple[str, ...]
    lazily: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    others_lazily: tuple[str, ...] = ()


_JUDGE = ("kvlitmus.spec", "kvlitmus.reference", "kvlitmus.conformance", "kvlitmus.mutants")
_COMMAND = ("kvlitmus.conformance.cli", "kvlitmus.conformance.pytest_plugin")
_JUDGES = tuple(f"kvlitmus.conformance.{name}" for name in ("beside", "checker", "history", "run.engine", "viewer"))
_SPECIMEN = ("kvlitmus.spec", "kvlitmus.conformance.specimen")
_FAST = ("kvlitmus.spec", "kvlitmus.optimized")
_STORE = ("kvlitmus.spec", "kvlitmus.optimized.storage")
_CLIENTS = tuple(f"kvlitmus.optimized.storage.{name}" for name in ("redis", "mooncake", "mooncake_client", "sealed"))
_ARRAYS = ("numpy", "numba", "llvmlite")
_DATA = ("kvlitmus.optimized.data",)
DIRECTIONS = (  # the most specific prefix comes first
    *(
        Direction(f"kvlitmus.conformance.specimen.{name}", (*_SPECIMEN, "kvlitmus.conformance.ports"))
        for name in ("cache", "flat", "hierarchy")
    ),
    Direction("kvlitmus.conformance.specimen", _SPECIMEN),
    Direction("kvlitmus.conformance.adapters", _JUDGE, lazily=("kvlitmus.optimized",), others_lazily=("*",)),
    Direction("kvlitmus.conformance.cli", _JUDGE, others_lazily=("*",)),
    Direction("kvlitmus.conformance.pytest_plugin", _JUDGE, others_lazily=("*",)),
    Direction("kvlitmus.conformance.tape", _JUDGE, never=(*_COMMAND, *_JUDGES)),
    Direction("kvlitmus.conformance", _JUDGE, never=_COMMAND, others_lazily=("*",)),
    Direction("kvlitmus.mutants", _JUDGE, never=_COMMAND),
    Direction(
        "kvlitmus.zoo", ("kvlitmus.spec", "kvlitmus.conformance.ports", "kvlitmus.zoo"), others_lazily=("numpy",)
    ),
    Direction("kvlitmus.__main__", ("kvlitmus.conformance.cli",)),
    Direction("kvlitmus.spec", ("kvlitmus.spec",)),
    Direction("kvlitmus.reference", ("kvlitmus.spec", "kvlitmus.reference")),
    Direction("kvlitmus.optimized.storage.redis", _STORE, others=("redis",)),
    Direction("kvlitmus.optimized.storage.sealed", (*_STORE, "kvlitmus.optimized.jit"), others=("numpy",)),
    Direction("kvlitmus.optimized.storage.mooncake_client", _STORE, others=("numpy",), others_lazily=("mooncake",)),
    Direction("kvlitmus.optimized.storage.mooncake", _STORE, others=("numpy",)),
    Direction("kvlitmus.optimized.storage", _STORE, never=_CLIENTS),
    Direction("kvlitmus.optimized.data.jit", ("kvlitmus.spec",), others=("triton",)),
    Direction(
        "kvlitmus.optimized.data",
        _FAST,
        never=("kvlitmus.optimized.data.jit",),
        lazily=("kvlitmus.optimized.data.jit",),
        others=(*_ARRAYS, "torch"),
        others_lazily=("triton",),
    ),
    Direction("kvlitmus.optimized.prometheus", _FAST, never=_DATA, others=("prometheus_client",)),
    Direction("kvlitmus.optimized.sglang", _FAST, never=_DATA, others=_ARRAYS, others_lazily=("*",)),
    Direction("kvlitmus.optimized", _FAST, never=_DATA, others=_ARRAYS),
)


@dataclass(frozen=True)
class Import:
    """One imported name: where, and whether only when a function runs or a type checker looks."""

    name: str
    line: int
    lazy: bool


def _below(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _named_by(call: ast.Call) -> str | None:
    """What a dynamic import imports: all of a literal, the start of an f-string, ``?`` where the text doesn't tell."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function not in ("import_module", "__import__"):
        return None
    given = call.args[0] if call.args else None
    if isinstance(given, ast.JoinedStr) and given.values:
        given = given.values[0]
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value.rstrip(".")
    return "?"


def _names(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        start = ".".join([*parents, *([node.module] if node.module else [])])
        yield from (f"{start}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and (name := _named_by(node)) is not None:
        yield name


@functools.cache
def imports_of(source: str, package: str) -> tuple[Import, ...]:
    """Every import of a module that lies in ``package``, static or dynamic, at any depth."""

    def walk(node: ast.AST, lazy: bool) -> Iterator[Import]:
        for name in _names(node, package):
            yield Import(name, getattr(node, "lineno", 0), lazy)
        guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        inner = lazy or guard or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inner)

    return tuple(walk(ast.parse(source), False))


def _python_files(root: Path, folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path.relative_to(root).as_posix(), path


def _may(direction: Direction, one: Import) -> bool:
    if _below(one.name, ("kvlitmus",)):
        ours = _below(one.name, direction.ours) and not _below(one.name, direction.never)
        return ours or (one.lazy and _below(one.name, direction.lazily))
    package = one.name.partition(".")[0]
    if package in sys.stdlib_module_names or package in direction.others:
        return True
    return one.lazy and not {package, "*"}.isdisjoint(direction.others_lazily)


def wrong_imports(root: Path) -> list[str]:
    """Imports against the directions of the house."""
    complaints = []
    for name, path in _python_files(root, ROOMS):
        module = ".".join(Path(name).with_suffix("").parts[1:])
        package = module.removesuffix(".__init__") if path.stem == "__init__" else module.rpartition(".")[0]
        direction = next((one for one in DIRECTIONS if _below(module, (one.prefix,))), None)
        if direction is None:
            complaints.append(f"{name}: belongs to no room")
            continue
        complaints += [
            f"{name}:{one.line}: {direction.prefix} may not import {one.name}"
            for one in imports_of(path.read_text(encoding="utf-8"), package)
            if not _may(direction, one)
        ]
    return complaints


def wrong_folders(root: Path) -> list[str]:
    """Rooms that are no clean portion of the namespace, without types, or with folders that are no packages."""
    complaints = []
    for room in ROOMS:
        namespace = root / room / "kvlitmus"
        found = {path.name for path in namespace.iterdir()} - {"__pycache__"} if namespace.is_dir() else set()
        here = {room, "mutants", "zoo", "__main__.py"} if room == "conformance" else {room}  # python -m kvlitmus
        complaints += [f"{room}/kvlitmus/{name}: not here; only {room}/ is" for name in sorted(found - here)]
        packages = [name for name in (room, "mutants", "zoo") if (namespace / name).is_dir()]
        complaints += [
            f"{room}/kvlitmus/{name}/py.typed is missing"
            for name in packages
            if not (namespace / name / "py.typed").is_file()
        ]
        inside = [path for name in packages for path in (namespace / name).rglob("*.py")]
        folders = {path.parent for path in inside} | {namespace / name for name in packages}
        complaints += [
            f"{folder.relative_to(root).as_posix()}/__init__.py is missing"
            for folder in sorted(folders)
            if not (folder / "__init__.py").is_file()
        ]
    return complaints


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield name, (node.end_lineno or node.lineno) - node.lineno + 1
            yield from _functions(node, f"{name}.")
        elif not isinstance(node, ast.expr):  # which has no function in it
            yield from _functions(node, prefix)


def too_long(root: Path, allowed: dict[str, str]) -> list[str]:
    """Files and functions over the limits that nobody gave a reason for, and reasons that nothing needs."""
    long: dict[str, str] = {}
    for name, path in _python_files(root, FOLDERS):
        text = path.read_text(encoding="utf-8")
        if (lines := len(text.splitlines())) > MAX_FILE_LINES:
            long[name] = f"{name}: {lines} lines, more than {MAX_FILE_LINES}"
        for function, lines in _functions(ast.parse(text)):
            if lines > MAX_FUNCTION_LINES:
                long[f"{name}::{function}"] = f"{name}::{function}: {lines} lines, more than {MAX_FUNCTION_LINES}"
    complaints = [text for name, text in long.items() if not allowed.get(name, "").strip()]
    return complaints + [f"{name}: is not too long (any more); take it off the list" for name in allowed.keys() - long]


_IMPORT_ALL = """
import importlib, importlib.util, pkgutil, sys
sys.path[:0] = sys.argv[2:]
def failed(name): raise
names = []
for name in sys.argv[1].split():
    if not importlib.util.find_spec(f"kvlitmus.{name}"):
        continue
    package = importlib.import_module(f"kvlitmus.{name}")
    names += [package.__name__]
    names += [one.name for one in pkgutil.walk_packages(package.__path__, package.__name__ + ".", failed)]
if importlib.util.find_spec("kvlitmus.__main__"):
    names.append("kvlitmus.__main__")
for name in names:
    if not name.endswith(".__main__"):
        importlib.import_module(name)
print(len(names))
"""


def import_all(paths: list[Path], rooms: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Import every module of some rooms with nothing but the standard library installed; prints how many there are."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-W",
        "error",
        "-c",
        _IMPORT_ALL,
        " ".join((*rooms, "mutants", "zoo")),
        *map(str, paths),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


BASE = ("spec", "reference", "conformance")


def test_imports_run_one_way() -> None:
    assert wrong_imports(ROOT) == []


def test_each_room_is_a_clean_portion_of_the_namespace() -> None:
    assert wrong_folders(ROOT) == []


def test_nothing_is_too_long() -> None:
    assert too_long(ROOT, LARGE) == []


MAX_ENTRIES = 20


def wrong_rooms(folder: Path) -> list[str]:
    """What stands at the top of ``conformance`` and is neither a package nor its face."""
    found = sorted(path for path in folder.iterdir() if path.name not in ("__pycache__", "__init__.py", "py.typed"))
    complaints = [f"{path.name} is no package" for path in found if not path.is_dir()]
    return complaints + [f"{len(found)} packages, more than {MAX_ENTRIES}"] * (len(found) > MAX_ENTRIES)


def test_the_top_of_conformance_is_packages_by_role() -> None:
    assert wrong_rooms(ROOT / "conformance/kvlitmus/conformance") == []


def test_a_loose_module_and_one_package_too_many_are_found(tmp_path: Path) -> None:
    for name in ("__init__.py", "py.typed", *(f"package_{at}/__init__.py" for at in range(MAX_ENTRIES))):
        _plant(tmp_path, name)
    assert wrong_rooms(tmp_path) == []
    _plant(tmp_path, "loose.py")
    assert wrong_rooms(tmp_path) == ["loose.py is no package", f"{MAX_ENTRIES + 1} packages, more than {MAX_ENTRIES}"]


CIRCLES: tuple[frozenset[str], ...] = ()
"""Modules that import each other: there are none."""


def import_graph(root: Path) -> dict[str, set[str]]:
    """Which module of the rooms imports which, at any depth and for type checkers, too."""
    sources = {}
    for name, path in _python_files(root, ROOMS):
        sources[".".join(Path(name).with_suffix("").parts[1:]).removesuffix(".__init__")] = path
    graph = {}
    for module, path in sources.items():
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        found = set()
        for one in imports_of(path.read_text(encoding="utf-8"), package):
            found.add(one.name if one.name in sources else one.name.rpartition(".")[0])
        graph[module] = (found & sources.keys()) - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The sets of modules of which each imports, by way of others, each."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            fresh = graph[waiting.pop()] - seen
            seen |= fresh
            waiting += fresh
        reached[start] = seen
    found = {
        frozenset(other for other in reached[one] if one in reached[other]) for one in graph if one in reached[one]
    }
    return sorted(found, key=sorted)


def test_no_modules_import_each_other_but_those_that_are_known() -> None:
    """Take a circle off the list when it is gone; never put one on it."""
    assert circles(import_graph(ROOT)) == sorted(CIRCLES, key=sorted)


def test_a_circle_is_found_wherever_its_imports_are(tmp_path: Path) -> None:
    _plant(tmp_path, "spec/kvlitmus/spec/__init__.py")
    _plant(tmp_path, "spec/kvlitmus/spec/a.py", "from kvlitmus.spec import b")
    _plant(tmp_path, "spec/kvlitmus/spec/b.py", "def f() -> None:\n    from kvlitmus.spec.c import something")
    _plant(tmp_path, "spec/kvlitmus/spec/c.py", "import kvlitmus.spec.d")
    _plant(tmp_path, "spec/kvlitmus/spec/d.py")
    assert circles(import_graph(tmp_path)) == []
    _plant(tmp_path, "spec/kvlitmus/spec/c.py", "if TYPE_CHECKING:\n    import kvlitmus.spec.a")
    assert circles(import_graph(tmp_path)) == [frozenset({f"kvlitmus.spec.{name}" for name in "abc"})]


ABOVE: dict[str, tuple[str, ...]] = {
    "words": (),
    "interface": ("words",),
    "law": ("words",),
    "prefix": ("words", "interface", "law"),
    "prefix.rules": ("words", "interface", "law", "prefix"),
    "prefix.frame": ("words", "interface", "law", "prefix", "prefix.rules"),
    "prefix.components": ("words", "interface", "law", "prefix"),
    **dict.fromkeys(("ranks", "sparse", "stores"), ("words", "interface", "law", "prefix")),
    "misuse": ("words", "interface", "law", "prefix", "prefix.rules"),
    "ledger": ("words", "interface", "law", "prefix"),
    "": ("law",),  # the list of the parts
}
"""The folders of ``spec``, and which others each may import."""

FAMILIES = ("components", "ranks", "sparse", "stores", "misuse")
"""What is judged beside caches of prefixes: a folder, or a module, of this name in each of the rooms."""

SHARED = ("", "prefix", "misuse")
"""What each family may import: a part of it may be a cache of prefixes, whose callers may break the contract."""

BY_FAMILY = (
    *(f"kvlitmus.{name}." for name in ("spec", "reference", "mutants.legal", "mutants")),
    *(f"kvlitmus.conformance.{name}." for name in ("litmus", "checker.calls", "generate.actions", "specimen")),
)
"""The rooms with such folders."""


def folder_of(module: str) -> str:
    """The folder of a module of ``spec``."""
    inside = module.removeprefix("kvlitmus.spec").strip(".")
    return next((one for one in sorted(ABOVE, reverse=True) if one and _below(inside, (one,))), "")


def family_of(module: str) -> str:
    """What a module is about: one of the families, ``prefix``, or nothing of these."""
    room = next((one for one in BY_FAMILY if module.startswith(one)), None)
    inside = module.removeprefix(room) if room else ""
    first = (inside.removeprefix("prefix.") if inside.startswith("prefix.components.") else inside).partition(".")[0]
    return first if first in (*FAMILIES, "prefix") else ""


def wrong_arrows(graph: dict[str, set[str]]) -> list[str]:
    """Imports from a folder of ``spec`` into one below it, and from a family into another one."""
    complaints = []
    for module, imported in sorted(graph.items()):
        for other in sorted(imported):
            if _below(module, ("kvlitmus.spec",)) and (folder := folder_of(other)) != (own := folder_of(module)):
                complaints += [f"{module}: {own or 'spec'} may not import {other}"] * (folder not in ABOVE[own])
            elif (theirs := family_of(other)) not in SHARED and (mine := family_of(module)) not in ("", theirs):
                complaints.append(f"{module}: {mine} may not import {other}")
    return complaints


def test_arrows_between_folders_and_families_run_one_way() -> None:
    assert wrong_arrows(import_graph(ROOT)) == []


@pytest.mark.parametrize(
    ("module", "imported", "complaint"),
    [
        ("spec.law.rule", "spec.parts", "law may not import kvlitmus.spec.parts"),
        ("spec.interface.cache", "spec.prefix.calls", "interface may not import kvlitmus.spec.prefix.calls"),
        ("spec.prefix.state", "spec.prefix.rules.pool", "prefix may not import kvlitmus.spec.prefix.rules.pool"),
        (
            "spec.prefix.rules.pool",
            "spec.prefix.frame.trust",
            "prefix.rules may not import kvlitmus.spec.prefix.frame.trust",
        ),
        ("spec.sparse.state", "spec.stores.state", "sparse may not import kvlitmus.spec.stores.state"),
        ("spec.prefix.calls", "spec.ranks.calls", "prefix may not import kvlitmus.spec.ranks.calls"),
        (
            "reference.ranks",
            "reference.prefix.components.tree",
            "ranks may not import kvlitmus.reference.prefix.components.tree",
        ),
        (
            "spec.prefix.state",
            "spec.prefix.components.state",
            "prefix may not import kvlitmus.spec.prefix.components.state",
        ),
        ("mutants.prefix.tree", "spec.sparse.state", "prefix may not import kvlitmus.spec.sparse.state"),
        ("conformance.litmus.components.host", "mutants.stores", "components may not import kvlitmus.mutants.stores"),
    ],
)
def test_a_wrong_arrow_is_found(module: str, imported: str, complaint: str) -> None:
    graph = {f"kvlitmus.{module}": {f"kvlitmus.{imported}"}}
    assert wrong_arrows(graph) == [f"kvlitmus.{module}: {complaint}"]
    assert wrong_arrows({"kvlitmus.spec.sparse.rows": {"kvlitmus.spec.prefix.calls", "kvlitmus.spec.law.rule"}}) == []


MAX_SPEC_ENTRIES = 14


def test_the_top_of_spec_is_folders() -> None:
    top = ROOT / "spec/kvlitmus/spec"
    assert {path.name for path in top.iterdir() if any(path.glob("*.py"))} == {
        name for name in ABOVE if name and "." not in name
    }
    assert sum(path.name != "__pycache__" for path in top.iterdir()) <= MAX_SPEC_ENTRIES


def test_the_base_runs_on_the_standard_library_alone() -> None:
    done = import_all([ROOT / room for room in BASE], BASE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(1 for _ in _python_files(ROOT, BASE))


def _plant(root: Path, name: str, text: str = '"""Planted."""\n') -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A tree that follows all rules."""
    for room in ROOMS:
        _plant(tmp_path, f"{room}/kvlitmus/{room}/__init__.py")
        _plant(tmp_path, f"{room}/kvlitmus/{room}/py.typed", "")
    for folder in ("specimen", "adapters"):
        _plant(tmp_path, f"conformance/kvlitmus/conformance/{folder}/__init__.py")
    assert wrong_imports(tmp_path) == wrong_folders(tmp_path) == too_long(tmp_path, {}) == []
    assert import_all([tmp_path / room for room in BASE], BASE).stdout == "5\n"
    return tmp_path


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("spec", "import numpy"),
        ("spec", "from kvlitmus.reference import pool"),
        ("spec", "from kvlitmus import reference"),
        ("spec", "from ..reference import pool"),
        ("spec", "def f() -> None:\n    import kvlitmus.conformance.checker.guard"),
        ("spec", "import importlib\nimportlib.import_module('kvlitmus.reference.prefix.pool')"),
        ("spec", "import importlib\nimportlib.import_module(f'kvlitmus.reference.{1}')"),
        ("spec", "def f(name: str) -> None:\n    __import__(name)"),
        ("reference", "import kvlitmus.conformance"),
        ("reference", "if True:\n    from kvlitmus.optimized import tree"),
        ("reference", "def f() -> None:\n    import hypothesis"),
        ("optimized", "from kvlitmus.reference.prefix.pool import Pool"),
        ("optimized", "def f() -> None:\n    import kvlitmus.conformance.ports"),
        ("optimized", "import torch"),
        ("optimized", "def f() -> None:\n    import torch"),
        ("optimized", "import pandas"),
        ("optimized", "from kvlitmus.optimized.data import pools"),
        ("optimized/storage", "import numpy"),
        ("optimized/storage", "from kvlitmus.optimized import tree"),
        ("optimized/storage", "import kvlitmus.optimized.storage.redis"),
        ("optimized/data", "import triton.language as tl"),
        ("optimized/data", "from kvlitmus.optimized.data.jit import paged_copy"),
        ("optimized/data", "from kvlitmus.reference.prefix.pool import Pool"),
        ("conformance", "import hypothesis.strategies as st"),
        ("conformance", "from kvlitmus.optimized import tree"),
        ("conformance", "def f() -> None:\n    from kvlitmus.optimized import tree"),
        ("conformance", "from kvlitmus.conformance.cli import main"),
        ("conformance", "def f() -> None:\n    import kvlitmus.conformance.pytest_plugin"),
        ("conformance/adapters", "import torch"),
        ("conformance/adapters", "from kvlitmus.optimized import tree"),
        ("conformance/specimen", "from kvlitmus.reference import pool"),
        ("conformance/specimen", "def f() -> None:\n    from kvlitmus.conformance.checker import guard"),
        ("conformance/specimen", "from kvlitmus.conformance.ports import Hit"),
    ],
)
def test_a_wrong_import_is_found(house: Path, where: str, text: str) -> None:
    room = where.partition("/")[0]
    _plant(house, f"{room}/kvlitmus/{where}/planted.py", text)
    (complaint,) = wrong_imports(house)
    assert complaint.startswith(f"{room}/kvlitmus/{where}/planted.py:{text.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("spec", "import math\nfrom kvlitmus.spec import units\nfrom . import units"),
        ("reference", "import kvlitmus.spec.words.units\nfrom kvlitmus.reference import pool"),
        ("optimized", "import numpy as np\nfrom numba import njit\nfrom kvlitmus.spec import units"),
        ("optimized/storage", "from kvlitmus.optimized.storage.base import Key\nfrom kvlitmus.spec import units"),
        ("optimized/storage/redis", "import redis\nfrom kvlitmus.optimized.storage.base import Key"),
        ("optimized/data", "import numpy, torch\nfrom kvlitmus.optimized import mover"),
        ("optimized/data", "def f() -> None:\n    import triton\n    from kvlitmus.optimized.data.jit import kernel"),
        ("optimized/data/jit", "import triton"),
        ("conformance", "from kvlitmus.reference import pool\ndef f() -> None:\n    import hypothesis"),
        ("conformance", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("conformance/adapters", "def f() -> None:\n    import torch\n    from kvlitmus.optimized import tree"),
        ("conformance/specimen", "from kvlitmus.spec import units\nfrom kvlitmus.conformance.specimen import pool"),
        ("conformance/specimen/cache", "from kvlitmus.conformance.ports import Hit"),
    ],
)
def test_a_right_import_is_no_complaint(house: Path, where: str, text: str) -> None:
    _plant(house, f"{where.partition('/')[0]}/kvlitmus/{where}/planted.py", text)
    assert wrong_imports(house) == []


def _closed_namespace(house: Path) -> str:
    _plant(house, "spec/kvlitmus/__init__.py")
    return "spec/kvlitmus/__init__.py: not here"


def _second_package(house: Path) -> str:
    _plant(house, "spec/kvlitmus/extra/__init__.py")
    return "spec/kvlitmus/extra: not here"


def _untyped(house: Path) -> str:
    (house / "reference/kvlitmus/reference/py.typed").unlink()
    return "reference/kvlitmus/reference/py.typed is missing"


def _no_package(house: Path) -> str:
    _plant(house, "conformance/kvlitmus/conformance/litmus/prefix/pool.py")
    return "conformance/kvlitmus/conformance/litmus/prefix/__init__.py is missing"


@pytest.mark.parametrize("plant", [_closed_namespace, _second_package, _untyped, _no_package])
def test_a_wrong_folder_is_found(house: Path, plant: Callable[[Path], str]) -> None:
    expected = plant(house)
    (complaint,) = wrong_folders(house)
    assert complaint.startswith(expected)


def test_a_long_file_and_a_long_function_are_found(house: Path) -> None:
    limit = ["class A:", "    def f(self) -> None:", *["        pass"] * (MAX_FUNCTION_LINES - 1)]
    _plant(house, "tests/planted.py", "\n".join(limit))
    _plant(house, "spec/kvlitmus/spec/planted.py", "\n" * MAX_FILE_LINES)
    assert too_long(house, {}) == [], "the limits themselves are allowed"
    _plant(house, "tests/planted.py", "\n".join([*limit, "        pass"]))
    _plant(house, "spec/kvlitmus/spec/planted.py", "\n" * (MAX_FILE_LINES + 1))
    names = ["spec/kvlitmus/spec/planted.py", "tests/planted.py::A.f"]
    assert [one.rpartition(": ")[0] for one in too_long(house, {})] == names
    assert too_long(house, dict.fromkeys(names, "a table")) == []
    assert len(too_long(house, dict.fromkeys(names, " "))) == 2, "an entry without a reason excuses nothing"
    assert len(too_long(house, dict.fromkeys([*names, "tests/gone.py"], "a table"))) == 1, "a stale entry is found"


def test_a_dependency_of_the_base_is_found_when_it_is_imported(house: Path) -> None:
    _plant(house, "conformance/kvlitmus/conformance/adapters/planted.py", "import hypothesis")
    done = import_all([house / room for room in BASE], BASE)
    assert done.returncode == 1
    assert "No module named 'hypothesis'" in done.stderr
