"""The one function that builds the compiled core, on a small module of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvlitmus.optimized import build_core

SMALL = """
#include <Python.h>
static PyModuleDef small = {PyModuleDef_HEAD_INIT, "_core", "@WORDS@", -1, nullptr, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&small); }
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with the sources of a small core; skipped where nothing compiles them."""
    try:
        build_core.compiler()
    except build_core.NotBuilt as reason:
        pytest.skip(str(reason))
    (tmp_path / "native").mkdir()
    write(tmp_path, "as it is")
    return tmp_path


def write(package: Path, words: str) -> None:
    (package / "native" / "module.cpp").write_text(SMALL.replace("@WORDS@", words))


def words_of(package: Path) -> str:
    """What a fresh process finds in the module."""
    command = [sys.executable, "-c", "import _core; print(_core.__doc__)"]
    return subprocess.run(command, cwd=package, capture_output=True, text=True, check=True).stdout.strip()


def test_a_core_is_built_beside_its_package_or_elsewhere(package: Path) -> None:
    assert build_core.build(package).parent == package
    assert words_of(package) == "as it is"
    elsewhere = package / "elsewhere"
    elsewhere.mkdir()
    assert build_core.build(package, elsewhere) == build_core.module_in(elsewhere)


def test_what_was_built_from_other_sources_is_stale(package: Path) -> None:
    assert not build_core.stale(package), "there is none"
    build_core.build(package)
    assert not build_core.stale(package)
    write(package, "changed")
    assert build_core.stale(package)
    build_core.build(package)
    assert not build_core.stale(package) and words_of(package) == "changed"
    (package / "native" / "another.h").write_text("")
    assert build_core.stale(package)
    build_core.module_in(package).with_suffix(".sources").unlink()
    assert build_core.stale(package), "nobody knows what it was built from"


def test_where_it_fails_the_reason_is_said_and_what_was_there_stays(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_core.build(package)
    (package / "native" / "wrong.cpp").write_text("this is no C++\n")
    with pytest.raises(build_core.NotBuilt, match=r"(?s)the C\+\+ compiler failed:.*wrong.cpp"):
        build_core.build(package)
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(build_core.NotBuilt, match=r"no C\+\+ compiler \(/nowhere/c\+\+\)"):
        build_core.build(package)
    assert words_of(package) == "as it is"
    assert sorted(path.name for path in package.iterdir() if "part" in path.name) == []


def test_the_compiler_may_have_arguments(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = shutil.which(build_core.compiler()[0])
    assert command is not None
    monkeypatch.setenv("CXX", f"{command} -DKVLITMUS_NOTHING")
    assert build_core.compiler() == [command, "-DKVLITMUS_NOTHING"]
    build_core.build(package)


def test_the_core_that_is_here_was_built_from_what_is_here() -> None:
    assert not build_core.stale(), (
        "the compiled core is older than its sources: run python -m kvlitmus.optimized.build_core"
    )
