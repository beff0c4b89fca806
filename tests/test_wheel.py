"""What users install: the wheel holds every file of the rooms, needs nothing, and imports."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from kvlitmus.optimized import build_core
from tests.test_layout import BASE, ROOMS, ROOT, import_all
from tools import hooks


def build(folder: Path, **environment: str) -> Path:
    """A wheel, built from this checkout without fetching anything; pure, where nothing else is said."""
    environment = {"KVLITMUS_BUILD_CORE": "never", **environment}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pure wheel."""
    return build(tmp_path_factory.mktemp("wheel"))


def built(path: Path) -> bool:
    """Whether a file is the compiled core, or what its build has left beside it."""
    return path.name.startswith("_core.") and path.suffix != ".pyi"


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    in_rooms = {
        path.relative_to(ROOT / room).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not built(path)
    }
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert shipped == in_rooms


def tag_of(wheel: Path) -> tuple[str, str]:
    """What the wheel says it runs on, and whether it is pure."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/WHEEL"))
        said = email.message_from_bytes(archive.read(name))
    assert wheel.name.endswith(f"-{said['Tag']}.whl")
    return said["Tag"], said["Root-Is-Purelib"]


def test_without_a_compiler_the_wheel_is_pure_and_the_reason_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "CXX": "/nowhere/c++", "KVLITMUS_BUILD_CORE": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "without its compiled core: no C++ compiler (/nowhere/c++)" in done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert tag_of(wheel) == ("py3-none-any", "true")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"KVLITMUS_BUILD_CORE": "always", "CXX": "/nowhere/c++"}, "no C++ compiler (/nowhere/c++)"),
        ({"KVLITMUS_BUILD_CORE": "always", "CXX": "false"}, "the C++ compiler failed"),
        ({"KVLITMUS_BUILD_CORE": "perhaps"}, "must be auto, never or always (got 'perhaps')"),
    ],
)
def test_a_wheel_that_is_to_have_a_core_has_one_or_fails(
    tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and words in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_a_wheel_with_the_core_serves_in_a_clean_environment(tmp_path: Path) -> None:
    """NumPy and numba are this environment's; the cache is the wheel's."""
    numpy = pytest.importorskip("numpy")
    try:
        build_core.compiler()
    except build_core.NotBuilt as reason:
        pytest.skip(str(reason))
    made = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    environment = {**os.environ, "KVLITMUS_BUILD_CORE": "always"}
    subprocess.run([*made, "-w", str(tmp_path), str(ROOT)], env=environment, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    tag, pure = tag_of(wheel)
    assert (tag.split("-")[:2], pure) == ([f"cp{sys.version_info[0]}{sys.version_info[1]}"] * 2, "false")
    with zipfile.ZipFile(wheel) as archive:
        (module,) = (name for name in archive.namelist() if built(Path(name)))
    assert module == f"kvlitmus/optimized/_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "clean")], check=True)
    python = tmp_path / "clean" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(numpy.__file__).parent.parent)}
    for core, code in (("native", 0), ("python", 1)):
        command = [str(python), "-m", "kvlitmus.optimized", core]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert code or done.stdout.startswith(str(tmp_path / "clean")), done.stdout


def metadata_of(wheel: Path) -> Message:
    """What the wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_a_wheel_that_is_built_where_the_project_is_hosted_points_there(tmp_path: Path) -> None:
    home = "https://git.example.org/somebody/kvlitmus"
    found = metadata_of(build(tmp_path, KVLITMUS_REPOSITORY=home))
    urls = dict(one.split(", ") for one in found.get_all("Project-URL", []))
    assert urls["Repository"] == home and len(urls) >= 4
    assert all((ROOT / url.removeprefix(f"{home}/blob/HEAD/")).is_file() for url in urls.values() if "/blob/" in url)
    readme = found.get_payload()
    targets = re.findall(r"\]\(([^)]+)\)", str(readme))
    assert len(targets) >= 10 and all(target.startswith("https://") for target in targets)


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"KVLITMUS_REPOSITORY": "https://h.example/a/b/"}, "https://h.example/a/b"),
        ({"GITHUB_SERVER_URL": "https://g.example", "GITHUB_REPOSITORY": "a/b"}, "https://g.example/a/b"),
        ({}, ""),
    ],
)
def test_where_the_project_is_hosted(tmp_path: Path, environment: dict[str, str], home: str) -> None:
    assert hooks.repository(tmp_path, environment) == home


@pytest.mark.parametrize("origin", ["https://h.example/a/b.git", "git@h.example:a/b.git", "https://h.example/a/b"])
def test_the_remote_says_where(tmp_path: Path, origin: str) -> None:
    for words in (["init", "-q"], ["remote", "add", "origin", origin]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    assert hooks.repository(tmp_path, {}) == "https://h.example/a/b"


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="KVLITMUS_REPOSITORY must be like"):
        hooks.repository(tmp_path, {"KVLITMUS_REPOSITORY": "file:///etc"})


def test_the_base_install_needs_nothing(wheel: Path) -> None:
    found = metadata_of(wheel)
    needed = found.get_all("Requires-Dist", [])
    assert len(needed) >= 5, "the extras are declared"
    assert [one for one in needed if "extra ==" not in one] == []
    assert found["License-Expression"] == "Apache-2.0"


def test_everything_imports_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    done = import_all([tmp_path], BASE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(1 for room in BASE for _ in (ROOT / room).rglob("*.py"))
    shown = subprocess.run(
        [sys.executable, "-S", "-m", "kvlitmus", "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("kvlitmus ")
