"""Parts of the compiled core in a small program of their own, beside what they are the twins of.

A driver is a few lines of C++ around one header.  It reads lists of numbers, a line each, and says a line for each.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from kvlitmus.optimized import levels
from kvlitmus.optimized.build_core import NotBuilt, compiler

NATIVE = Path(levels.__file__).parent / "native"


def driver(
    folder: Path, header: str, text: str, names: Mapping[str, int] | None = None, slip: tuple[str, str] = ("", "")
) -> Path:
    """This driver, built in a folder, with a slip in the header; skips where nothing compiles C++.

    ``names``: numbers that it knows by name.
    """
    try:
        command = compiler()
    except NotBuilt as why:
        pytest.skip(str(why))
    source = (NATIVE / header).read_text(encoding="utf-8")
    assert not slip[0] or source.count(slip[0]) == 1, slip
    # all of them, so that no header finds its neighbours beside itself
    for path in NATIVE.glob("*.h"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / header).write_text(source.replace(*slip) if slip[0] else source, encoding="utf-8")
    (folder / "driver.cpp").write_text(text, encoding="utf-8")
    program = folder / "driver"
    defined = [f"-D{name}={value}" for name, value in (names or {}).items()]
    build = [*command, "-std=c++17", "-O1", *defined, str(folder / "driver.cpp"), "-o", str(program)]
    subprocess.run(build, check=True)
    return program


def said(program: Path, given: Iterable[Sequence[int]]) -> list[str]:
    """What a driver says to each of these lists, of which it is told the length first; fewer lines where it dies."""
    text = "".join([f"{len(one)} {' '.join([str(number) for number in one])}\n" for one in given])
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=False)
    return [line.strip() for line in done.stdout.splitlines()]
