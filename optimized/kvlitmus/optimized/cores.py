"""Cores: who keeps pool, tree and victims, the compiled core or the Python one.

Both do the same, to the last victim, page number and error, with tiers and without.  The **Python** core
(:mod:`~kvlitmus.optimized.tree` and what it stands on) is there wherever numba is.  The **native** one
(:mod:`~kvlitmus.optimized.compiled`) is there where a compiler was when the package was built.  ``auto``, the default,
takes the native one where it can; the environment variable ``KVLITMUS_CORE`` says what ``auto`` means.

    $ python -m kvlitmus.optimized.cores
    native: .../_core.cpython-311-x86_64-linux-gnu.so
"""

from __future__ import annotations

import os
import sys
from typing import Any

AUTO, NATIVE, PYTHON = "auto", "native", "python"
CORES = (AUTO, NATIVE, PYTHON)
VARIABLE = "KVLITMUS_CORE"


def lacking() -> str:
    """Why there is no native core; nothing where there is one."""
    try:
        from kvlitmus.optimized import _core  # noqa: F401  whether it is there
    except ImportError as error:
        command = "python -m kvlitmus.optimized.build_core"
        return f"it was not built with this package, or not for this Python ({error}); {command} builds it"
    return ""


def wanted(core: str) -> str:
    """What this setting means: ``auto`` is what the environment says; raises ``ValueError`` for what is no core."""
    if core != AUTO:
        return core
    named = os.environ.get(VARIABLE, "") or AUTO
    if named not in CORES:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(CORES)} (got {named!r})")
    return named


def core_of(core: str, only_python: str = "") -> str:
    """Which core a cache with this setting has, or the Python one, where it says why only that will do.

    Raises ``ValueError`` where the setting names one that can't be.
    """
    if only_python:
        if core == NATIVE:
            raise ValueError(f"core must be auto or python: {only_python}, which the native core has not")
        return PYTHON
    named = wanted(core)
    why = "" if named == PYTHON else lacking()
    if why and named == NATIVE:
        asked = f"{VARIABLE} says {NATIVE}, but " if core == AUTO else ""
        raise ValueError(f"{asked}there is no native core: {why}")
    return PYTHON if named == PYTHON or why else NATIVE


def compiled() -> Any:
    """The compiled core; ``None`` where there is none, or where ``auto`` means the one in Python."""
    if core_of(AUTO) != NATIVE:
        return None
    from kvlitmus.optimized import _core

    return _core


def report() -> str:
    """Which core a cache has here, and why; raises ``ValueError`` where the environment names one that isn't there."""
    core = compiled()
    if core is not None:
        return f"native: {core.__file__}"
    why = f"{VARIABLE} says so" if wanted(AUTO) == PYTHON else f"there is no native core: {lacking()}"
    return f"python: {why}"


def main() -> int:
    """Say it; 2 where the environment names no core, or one that isn't there."""
    try:
        sys.stdout.write(f"{report()}\n")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
