"""The kits' caches: how each is built here, and what they are in Python."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.isolation.remote.kits import BUILDS, KITS
from tests.support.pages import DOCS, blocks
from tests.test_layout import ROOT

TOOLCHAINS = ROOT / ".toolchains"
"""Where ``tools/toolchains`` puts what isn't there otherwise."""

TOOLS: Mapping[str, Sequence[str]] = {"cpp": ("c++",), "rust": ("rustc",), "go": ("go",), "ts": ("node", "tsc")}
"""What it takes to build a kit's cache."""

STRICT: Mapping[str, Sequence[str]] = {
    "cpp": ("-O0", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
    "rust": ("-Copt-level=0", "-Dwarnings"),
    "go": (),
    "ts": ("--typeRoots", str(TOOLCHAINS / "node_modules" / "@types")),
}
"""What a compiler is told here besides what the kit says: to be strict, or where something is."""


def built(lang: str, folder: Path) -> tuple[str, ...]:
    """The command that runs a kit's cache, built in this folder; skips the test where there is no toolchain."""
    for tool in TOOLS[lang]:
        if shutil.which(tool) is None:
            pytest.skip(f"no toolchain: {KITS[lang]} needs {tool}")
    assert main(["init-adapter", "--lang", lang, str(folder)]) == 0
    build, command = BUILDS[lang]
    words = [*shlex.split(build.rpartition("&& ")[2].removeprefix("npx ")), *STRICT[lang]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *before, program = command.split()
    return (*before, str(folder / program))


TWINS: Mapping[str, tuple[str, str]] = {
    "host-tier": ("two_tiers", "tiers_target"),
    "block-table": ("block_manager", "block_target"),
    "radix-tree": ("radix_cache", "radix_target"),
}
"""The modules of a guide: the cache, and its adapter."""


def twin(guide: str, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, str]) -> Any:
    """The target of a guide, with its bug mended as the guide says, and then with these changes to the cache."""
    cache, target = TWINS[guide]
    text = (DOCS / "guides" / f"{guide}.md").read_text(encoding="utf-8")
    source = (DOCS / "examples" / f"{cache}.py").read_text(encoding="utf-8")
    for block in blocks(text):
        if block.language == "diff":
            lines = block.body.splitlines()
            source = replaced(source, lines[0][1:], lines[1][1:])
    for old, new in changes.items():
        source = replaced(source, old, new)
    (adapter,) = [one.body for one in blocks(text) if one.language == "python"]
    for name, body in ((cache, source), (target, adapter)):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(body, f"{name}.py", "exec"), vars(module))
    return sys.modules[target]


def replaced(source: str, old: str, new: str) -> str:
    """The source with something else in the place of what must stand there."""
    assert old in source, old
    return source.replace(old, new)


def find_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs looked for in :data:`TOOLCHAINS` as well, behind what the machine has."""
    places = [TOOLCHAINS / "go" / "go" / "bin", TOOLCHAINS / "node_modules" / ".bin"]
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ.get("PATH", ""), *map(str, places)]))
    if TOOLCHAINS.exists():
        monkeypatch.setenv("GOCACHE", str(TOOLCHAINS / "go-cache"))
