"""Build the compiled core of the optimized cache, ``kvlitmus.optimized._core``, beside its package.

    python -m kvlitmus.optimized.build_core               for the interpreter that runs this
    python -m kvlitmus.optimized.build_core --sanitize    with AddressSanitizer and UBSan, to be played under these
    python -m kvlitmus.optimized.build_core --if-stale    only where it is not there, or its sources have changed

It takes a C++17 compiler (``CXX``, else ``c++``, ``g++`` or ``clang++``) and Python's headers, nothing else.  Exit
codes: 0 built, 1 there is no compiler or it failed, with its own words.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
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


def sources(package: Path = PACKAGE) -> str:
    """What a core is built from: a digest of its sources and of this file."""
    files = [Path(__file__), *sorted(path for path in (package / "native").iterdir() if path.suffix in (".cpp", ".h"))]
    return hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)).hexdigest()


def module_in(folder: Path) -> Path:
    """The extension module of this interpreter in a folder, whether it is there or not."""
    return folder / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"


def stale(package: Path = PACKAGE) -> bool:
    """Whether the module beside the package was built from other sources than those that are there now."""
    module = module_in(package)
    note = module.with_suffix(".sources")
    return module.exists() and not (note.exists() and note.read_text(encoding="utf-8") == sources(package))


def build(package: Path = PACKAGE, into: Path | None = None, *, sanitize: bool = False) -> Path:
    """Compile ``package/native/*.cpp``; returns the extension module, in ``into`` or else in the package.

    Raises :class:`NotBuilt`, and leaves what was there, where that can't be done.
    """
    into = into or package
    module = module_in(into)
    part = module.with_name(f"{module.name}.{os.getpid()}.part")
    files, digest = sorted(str(source) for source in (package / "native").glob("*.cpp")), sources(package)
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    flags = [*(SANITIZED if sanitize else FLAGS), f"-I{sysconfig.get_paths()['include']}"]
    done = subprocess.run(
        [*compiler(), *flags, *shared, *files, "-o", str(part)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        part.unlink(missing_ok=True)
        raise NotBuilt(f"the C++ compiler failed:\n{done.stdout}{done.stderr}")
    module.with_suffix(".sources").unlink(missing_ok=True)
    part.replace(module)
    module.with_suffix(".sources").write_text(digest, encoding="utf-8")
    return module


def main() -> int:
    """The command."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, help="put the module into this folder (default: the package)")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan")
    parser.add_argument(
        "--if-stale", action="store_true", help="only where it is not there or its sources have changed"
    )
    given = parser.parse_args()
    if given.if_stale and module_in(PACKAGE).exists() and not stale():
        return 0
    try:
        sys.stdout.write(f"{build(into=given.into, sanitize=given.sanitize)}\n")
    except NotBuilt as error:
        sys.stderr.write(f"build_core: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
