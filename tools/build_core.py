#!/usr/bin/env python3
"""Build the compiled core of the optimized cache, ``kvlitmus.optimized._core``, beside its package.

    python tools/build_core.py                     for the interpreter that runs this
    python tools/build_core.py --sanitize          with AddressSanitizer and UBSan, for tools/sanitize_core.py

It takes a C++17 compiler (``CXX``, else ``c++``, ``g++`` or ``clang++``) and Python's headers, nothing else.  Exit
codes: 0 built, 1 there is no compiler or it failed, with its own words.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "optimized" / "kvlitmus" / "optimized"
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wextra")
SANITIZED = ("-std=c++17", "-O1", "-g", "-fPIC", "-fno-omit-frame-pointer", "-fsanitize=address,undefined")


class NotBuilt(RuntimeError):
    """There is no core, and why."""


def compiler() -> list[str]:
    """The command that compiles C++; raises :class:`NotBuilt` where there is none."""
    named = shlex.split(os.environ.get("CXX", ""))
    for command in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    raise NotBuilt(f"no C++ compiler ({' '.join(named) or 'c++, g++, clang++'}); CXX may name one")


def build(package: Path = PACKAGE, into: Path | None = None, *, sanitize: bool = False) -> Path:
    """Compile ``package/native/*.cpp``; returns the extension module, in ``into`` or else in the package.

    Raises :class:`NotBuilt`, and leaves what was there, where that can't be done.
    """
    into = into or package
    module = into / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    part = module.with_name(f"{module.name}.{os.getpid()}.part")
    sources = sorted(str(source) for source in (package / "native").glob("*.cpp"))
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    flags = [*(SANITIZED if sanitize else FLAGS), f"-I{sysconfig.get_paths()['include']}"]
    done = subprocess.run(
        [*compiler(), *flags, *shared, *sources, "-o", str(part)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        part.unlink(missing_ok=True)
        raise NotBuilt(f"the C++ compiler failed:\n{done.stdout}{done.stderr}")
    part.replace(module)
    return module


def main() -> int:
    """The command."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, help="put the module into this folder (default: the package)")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan")
    given = parser.parse_args()
    try:
        print(build(into=given.into, sanitize=given.sanitize))
    except NotBuilt as error:
        print(f"build_core: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
