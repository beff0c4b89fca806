"""The one set-up that README, CI and developers share, run against interpreters that only take notes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.test_layout import ROOT

_FAKE = """#!/bin/sh
# An interpreter that says what it was asked to do, and makes environments like itself.
here=$(cd "$(dirname "$0")" && pwd)
case "$*" in
    *'version_info[:2]'*) echo @VERSION@ ;;
    *'version_info < (3, 11)'*) exit @TOO_OLD@ ;;
    *'import venv, ensurepip'*) exit @NO_VENV@ ;;
    '-m venv '*)
        echo "venv" >>@LOG@
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        echo "VIRTUAL_ENV=$PWD/$3" >"$3/bin/activate"
        ;;
    '-m pip --version') ;;
    '-m pip install '*)
        echo "$*" | sed 's/.*-c constraints.txt -e //' >>@LOG@
        if [ "$KVLITMUS_BUILD_CORE" = never ]; then echo "no core" >>@LOG@; fi
        exit $(cat @PIP@)
        ;;
    '-m kvlitmus.optimized.build_core --if-stale')
        if [ ! -e @NO_CORE@ ]; then exit 0; fi
        echo "build_core: no C++ compiler" >&2
        exit 1
        ;;
esac
"""


class Machine:
    """A checkout with the real script and a fake Python beside it."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.log = folder / "log"
        self.pip = folder / "pip-exit-code"
        self.no_core = folder / "no-core"
        self.python = folder / "fake-python"
        (self.checkout / "tools").mkdir(parents=True)
        for name in ("tools/setup", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.checkout / name)
        self.native = self.checkout / "optimized/kvlitmus/optimized/native"
        self.native.mkdir(parents=True)
        (self.native / "module.cpp").write_text("// as it is\n")
        shutil.copy(ROOT / "optimized/kvlitmus/optimized/build_core.py", self.native.parent)
        self.pip.write_text("0")
        self.fake()

    def fake(self, version: str = "3.11", too_old: int = 0, no_venv: int = 0) -> None:
        """Put an interpreter of this kind on the machine."""
        text = _FAKE.replace("@VERSION@", version).replace("@TOO_OLD@", str(too_old))
        text = text.replace("@NO_VENV@", str(no_venv)).replace("@LOG@", str(self.log)).replace("@PIP@", str(self.pip))
        text = text.replace("@NO_CORE@", str(self.no_core))
        self.python.write_text(text)
        self.python.chmod(0o755)

    def setup(self, *level: str) -> tuple[int, list[str], str]:
        """Run the set-up; exit code, what Python was asked for, messages."""
        self.log.write_text("")
        environment = {**os.environ, "PYTHON": str(self.python)}
        command = ["bash", str(self.checkout / "tools" / "setup"), *level]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout == ""
        return done.returncode, self.log.read_text().splitlines(), done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_run_installs_and_the_second_does_nothing(machine: Machine) -> None:
    assert machine.setup()[:2] == (0, ["venv", ".[dev]"])
    assert machine.setup() == (0, [], "")


def test_a_smaller_set_up_is_part_of_a_larger_one(machine: Machine) -> None:
    assert machine.setup("dev")[:2] == (0, ["venv", ".[dev]"])
    assert machine.setup("base")[:2] == (0, [])
    assert machine.setup("docs")[:2] == (0, [".[dev,docs]"]), "the environment is kept"
    assert machine.setup("dev")[:2] == (0, [])


def test_a_larger_set_up_extends_a_smaller_one(machine: Machine) -> None:
    assert machine.setup("base")[:2] == (0, ["venv", ".", "no core"])
    assert machine.setup("dev")[:2] == (0, [".[dev]"])


def test_a_changed_requirement_is_installed(machine: Machine) -> None:
    machine.setup()
    with (machine.checkout / "constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    assert machine.setup()[:2] == (0, [".[dev]"])


def test_a_changed_source_of_the_core_is_built_but_not_for_the_judge_alone(machine: Machine) -> None:
    machine.setup("base")
    (machine.native / "module.cpp").write_text("// changed\n")
    assert machine.setup("base") == (0, [], "")
    machine.setup()
    (machine.native / "another.h").write_text("// new\n")
    assert machine.setup()[:2] == (0, [".[dev]"])
    assert machine.setup() == (0, [], "")


def test_without_a_compiler_everything_is_made_and_the_reason_is_said(machine: Machine) -> None:
    machine.no_core.touch()
    code, asked, said = machine.setup()
    assert (code, asked) == (0, ["venv", ".[dev]"])
    assert "no C++ compiler" in said and "runs on its tree in Python" in said
    assert machine.setup() == (0, [], "")


def test_after_an_interruption_it_starts_over(machine: Machine) -> None:
    machine.pip.write_text("1")
    assert machine.setup()[:2] == (1, ["venv", ".[dev]"])
    machine.pip.write_text("0")
    assert machine.setup()[:2] == (0, ["venv", ".[dev]"])
    assert machine.setup()[:2] == (0, [])


def test_a_moved_checkout_gets_a_new_environment(machine: Machine) -> None:
    machine.setup()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))
    assert machine.setup()[:2] == (0, ["venv", ".[dev]"])


def test_a_broken_environment_is_replaced(machine: Machine) -> None:
    machine.setup()
    (machine.checkout / ".venv/bin/python").unlink()
    assert machine.setup()[:2] == (0, ["venv", ".[dev]"])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"version": "3.9", "too_old": 1}, r"is Python 3\.9: too old"),
        ({"no_venv": 1}, r"has no venv \(on Debian and Ubuntu: apt install python3\.11-venv\)"),
    ],
)
def test_a_machine_without_a_usable_python_is_told_what_to_do(
    machine: Machine, kind: dict[str, int], message: str
) -> None:
    machine.fake(**kind)  # type: ignore[arg-type]
    code, asked, said = machine.setup()
    assert (code, asked) == (1, [])
    assert "needs Python 3.11 or newer" in said
    assert len(re.findall(message, said)) == 1
    assert not (machine.checkout / ".venv").exists()


def test_a_machine_without_any_python_is_told_so(machine: Machine) -> None:
    machine.python.unlink()
    code, _, said = machine.setup()
    assert code == 1
    assert f"none of these runs here: {machine.python}" in said


def test_an_unknown_level_is_wrong_usage(machine: Machine) -> None:
    assert machine.setup("everything")[:2] == (2, [])
