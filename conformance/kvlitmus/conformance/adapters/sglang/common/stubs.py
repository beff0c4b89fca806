"""Importing a few modules of a server (SGLang, vLLM), and nothing else of it.

Its cache lives in a dozen modules that need torch alone, but importing them the ordinary
way brings the whole server along: model code, CUDA kernels, HTTP.  This module puts a finder in
front of Python's own that sorts every module of the server into one of three kinds:

* **real**: the file as published, executed unchanged.  Everything that is judged is real.
* **package**: a parent package without its ``__init__``, so that real modules are found in it.
* **stub**: everything else.  A stub answers any name: questions about hardware
  (``is_cuda``, ``can_use_…``) with no, everything else with an empty class.  It exists so that
  ``from … import …`` works; nothing that is judged calls into it.

Some stubs hold **lifted** functions or classes: ones whose own source is compiled out of the
published file, because a real module needs them while their module would import the
server.  They too run as published.

One process holds one release; asking for a second one raises ``Unsupported``.  The release need not be the one that
the plan was written for: see :mod:`~kvlitmus.conformance.adapters.sglang.common.features`.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeAlias

from kvlitmus.conformance.adapters.sglang.common.features import Hollow, Unread, in_a_line
from kvlitmus.conformance.ports import Config, Profile, Unsupported

Foreign: TypeAlias = Any
"""Something that belongs to torch or to the server; neither need be installed, so their types aren't known here."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which modules of one release are real, and what the stubs must know.

    release: the version that it was written for.  root, title: the server's package, and what it is called.
    real: modules executed as published; a package listed here runs its ``__init__`` too.
    lifted: stub module → file below the package → names of what is taken out of it.
    answers: stub module → names with fixed values.
    absent: modules outside of the package that are stubbed when they are not installed.
    """

    release: str
    real: frozenset[str]
    lifted: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    answers: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    root: str = "sglang"
    title: str = "SGLang"

    @property
    def packages(self) -> frozenset[str]:
        """The parents of the real modules that aren't real themselves."""
        parents = {name.rsplit(".", depth)[0] for name in self.real for depth in range(1, name.count(".") + 1)}
        return frozenset(parents - self.real)

    @property
    def command(self) -> str:
        """The command that makes the environment."""
        return f"tools/peers {self.release if self.root == 'sglang' else self.environment}"

    @property
    def environment(self) -> str:
        """The name of that environment."""
        return f"{self.root}-{self.release}"

    @property
    def python(self) -> str:
        """The interpreter of that environment, relative to the checkout."""
        return f".peers/{self.environment}/bin/python"

    @property
    def installed(self) -> str | None:
        """The version that is installed."""
        return version_of(self.root)

    @property
    def read(self) -> bool:
        """Whether the release that is installed is the one that the plan was written for."""
        return self.installed == self.release

    @property
    def judged(self) -> str:
        """What is judged, by name and version."""
        return f"{self.title} {self.installed or self.release}"

    def lacking(self, error: BaseException) -> str:
        """What the release that is installed lacks, in a line."""
        return f"{self.judged}, by the adapter that was written for {self.release}: {in_a_line(error)}"


@cache
def version_of(package: str) -> str | None:
    """The version of a package that is installed, if it is."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Stub(ModuleType):
    """A module that has every name; of a release that nobody has read, one that says when they are used."""

    def __init__(self, name: str, *, read: bool = True) -> None:
        super().__init__(name)
        self._read = read

    def __getattr__(self, name: str) -> Foreign:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _answer(self.__name__, name, read=self._read)
        setattr(self, name, value)
        return value


def _answer(module: str, name: str, *, read: bool) -> Foreign:
    """What a stub gives for a name that nobody told it about."""
    if name.startswith(("is_", "can_use", "get_bool_env_var", "support")):
        return lambda *_args, **_kwargs: False
    if name.startswith("_is_"):
        return False
    return type(name, (), {"__module__": module}) if read else Hollow(name, (), {"__module__": module, "hollow": True})


def lift(file: Path, names: Sequence[str], scope: dict[str, object]) -> None:
    """Compile single functions and classes out of a published file, into the scope of a stub.

    Raises ``Unsupported`` when the file has no such definition, that is, when this is not the
    release that the plan was written for.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names]
    missing = set(names) - {node.name for node in wanted}
    if missing:
        raise Unsupported(f"{file} has no {sorted(missing)}; is this the right release?")
    # Annotations are not evaluated: their names need not be in scope.
    future = ast.parse("from __future__ import annotations").body
    code: CodeType = compile(ast.Module(body=[*future, *wanted], type_ignores=[]), str(file), "exec")
    exec(code, scope)  # noqa: S102 - the published source of the release that is being judged


class _Stubs(Loader):
    """Makes the stubs of a plan."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.packages = plan.packages
        self.read = plan.read

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = Stub(spec.name, read=self.read)
        inside = Path(*spec.name.split(".")[1:])
        module.__path__ = [str(self.folder / inside)] if spec.name in self.packages else []
        return module

    def exec_module(self, module: ModuleType) -> None:
        scope = vars(module)
        scope.update(self.plan.answers.get(module.__name__, {}))
        for file, names in self.plan.lifted.get(module.__name__, {}).items():
            scope.update(torch=torch_module(), array=array, dataclasses=dataclasses)
            lift(self.folder / file, names, scope)


class Finder(MetaPathFinder):
    """Sorts the modules of the server into real ones, packages and stubs."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self._stubs = _Stubs(plan, folder)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Where a module comes from, as the import system asks."""
        top = fullname.partition(".")[0]
        if top in self.plan.absent:
            found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
            return found or importlib.machinery.ModuleSpec(fullname, self._stubs, is_package=True)
        if top != self.plan.root:
            return None
        if fullname in self.plan.real:
            return importlib.machinery.PathFinder.find_spec(fullname, path, target)
        return importlib.machinery.ModuleSpec(fullname, self._stubs, is_package=True)


def installed_folder(plan: Plan) -> Path:
    """Where a release is installed, editable ones too; ``Unsupported`` with the command to run when there is none."""
    for module in ("torch", "numpy"):
        if importlib.util.find_spec(module) is None:
            raise Unsupported(
                f"{module} is not installed for {sys.executable}: run {plan.command!r} and use {plan.python}"
            )
    if plan.installed is None:
        raise Unsupported(
            f"{plan.title} {plan.release} is not installed for {sys.executable}:"
            f" run {plan.command!r} and use {plan.python}"
        )
    for file in importlib.metadata.files(plan.root) or []:
        if file.parts[:1] == (plan.root,):
            return Path(str(file.locate())).parents[len(file.parts) - 2]
    found = importlib.util.find_spec(plan.root)  # an editable installation lists none of its files
    for folder in (found.submodule_search_locations or []) if found is not None else []:
        return Path(folder)
    raise Unsupported(f"{plan.judged} is installed without files: run {plan.command!r} again")


def importing(plan: Plan, name: str) -> Foreign:
    """Import a module of the release; ``Unsupported`` for one that it hasn't got."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if plan.read or error.name is None or error.name.partition(".")[0] != plan.root:
            raise
        raise Unsupported(plan.lacking(error)) from error


def install(plan: Plan) -> Callable[[str], Foreign]:
    """Put the finder in place (once) and return a function that imports a module of the release.

    Raises ``Unsupported`` when no release is installed, or when another one, or the server as a
    whole, was imported into this process before.
    """
    for finder in sys.meta_path:
        if isinstance(finder, Finder):
            if finder.plan is not plan:
                raise Unsupported(f"{finder.plan.judged} is loaded already; use a process of its own")
            return partial(importing, plan)
    if plan.root in sys.modules:
        raise Unsupported(f"{plan.title} was imported before its adapter; use a process of its own")
    folder = installed_folder(plan)
    # The allocators' Triton kernels run in Triton's own interpreter: the kernels are the
    # published ones, only the hardware is missing.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    # Tensors of a few dozen numbers: threads would only get into each other's way.
    torch_module().set_num_threads(1)
    sys.meta_path.insert(0, Finder(plan, folder))
    return partial(importing, plan)


def torch_module() -> Foreign:
    """Torch, which the project itself need not have."""
    return importlib.import_module("torch")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A target made of a real release: what the suite needs to know before anything is imported.

    configs: the configurations in which it is judged.  policies: the eviction policies that the
    release has; empty for a pool without a tree.  pool: the pool that the target judges.
    """

    plan: Plan
    profile: Profile
    capabilities: frozenset[str]
    build: Callable[[Config], object]
    configs: tuple[Config, ...]
    policies: tuple[str, ...] = ()
    pool: str = "device"

    @property
    def python(self) -> str:
        """The interpreter that has the release, relative to the checkout."""
        return self.plan.python

    @property
    def version(self) -> str:
        """What reports say that was judged."""
        return self.plan.judged

    def make(self, config: Config) -> object:
        """A fresh cache; ``Unsupported`` when the release is missing or the configuration impossible."""
        if config.pool != self.pool:
            raise Unsupported(f"this target judges the {self.pool} pool, not the {config.pool} pool")
        if self.policies and config.policy not in self.policies:
            raise Unsupported(
                f"{self.plan.judged} has no eviction policy {config.policy!r}, only {', '.join(self.policies)}"
            )
        install(self.plan)
        if self.plan.read:
            return self.build(config)
        try:
            return Unread(self.build(config), self.plan.lacking)
        except Unsupported:
            raise
        except Exception as error:
            raise Unsupported(self.plan.lacking(error)) from error
