"""One type of the compiled core built alone, with a slip in one of its files: that takes a second or two.

A process of its own plays it (``side_by_side.py``), for a slip may write anywhere.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kvlitmus.optimized.build_core import PACKAGE, NotBuilt, compiler, module_in
from tests.optimized import side_by_side

MODULE = r"""
#include "python.h"
namespace kvlitmus { Names names; }
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "", -1, nullptr, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__core() {
    using namespace kvlitmus;
    PyObject* numpy = PyImport_ImportModule("numpy");
    names.ndarray = PyObject_GetAttrString(numpy, "ndarray");
    names.empty = PyObject_GetAttrString(numpy, "empty");
    names.int32 = PyObject_CallMethod(numpy, "dtype", "s", "int32");
    names.int64 = PyObject_CallMethod(numpy, "dtype", "s", "int64");
    names.stale_handle = PyExc_ValueError;
    names.TYPE = PyImport_ImportModule("kvlitmus.optimized.TYPE");
    PyObject* module = PyModule_Create(&definition);
    return module && add_TYPE(module) ? module : nullptr;
}
"""


def built(kind: str, folder: Path, file: str = "", slip: tuple[str, str] = ("", "")) -> Path:
    """``sparse`` or ``components`` with a slip in one of their files; skips where nothing compiles C++."""
    try:
        command = compiler()
    except NotBuilt as why:
        pytest.skip(str(why))
    shutil.copytree(PACKAGE / "native", folder / "native")
    if file:
        text = (folder / "native" / file).read_text(encoding="utf-8")
        assert text.count(slip[0]) == 1, slip
        (folder / "native" / file).write_text(text.replace(*slip), encoding="utf-8")
    (folder / "native" / "alone.cpp").write_text(MODULE.replace("TYPE", kind), encoding="utf-8")
    sources = sorted(map(str, (folder / "native").glob(f"{kind.removesuffix('s')}*.cpp")))
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    flags = ["-std=c++17", "-O0", "-fPIC", "-fno-strict-aliasing", f"-I{sysconfig.get_paths()['include']}"]
    module = module_in(folder)
    subprocess.run(
        [*command, *flags, *shared, str(folder / "native" / "alone.cpp"), *sources, "-o", str(module)], check=True
    )
    return module


def played(kind: str, module: Path, steps: int) -> subprocess.CompletedProcess[str]:
    """Play it beside the reference, in a process of its own."""
    command = [sys.executable, side_by_side.__file__, "--steps", "0", f"--{kind}", str(steps), "--core", str(module)]
    return subprocess.run(command, check=False, capture_output=True, text=True)
