"""What users install: the wheel holds every file of the rooms, needs nothing, and imports."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_layout import BASE, ROOMS, ROOT, import_all


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout without fetching anything."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    in_rooms = {
        path.relative_to(ROOT / room).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert shipped == in_rooms


def test_the_base_install_needs_nothing(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    needed = metadata.get_all("Requires-Dist", [])
    assert len(needed) >= 5, "the extras are declared"
    assert [one for one in needed if "extra ==" not in one] == []
    assert metadata["License-Expression"] == "Apache-2.0"


def test_everything_imports_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    done = import_all([tmp_path], BASE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(1 for room in BASE for _ in (ROOT / room).rglob("*.py"))
