"""Where the mark of a slip is: who imports a default argument or a decorator has not asked for it yet; and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests import slips

SOURCE = """\
from dataclasses import dataclass


def early(function, by=1):
    return function


@early
def grows(amount, *, by=3):
    \"\"\"By so much.\"\"\"
    total = amount
    return total + by


@(early if True else None)
def waits(amount):
    for one in [amount]:
        return one


@dataclass(frozen=True)
class Pair:
    left: int = 0


class Plain:
    pass


LIMIT = 5
"""


@pytest.mark.parametrize(
    ("line", "used"),
    [(9, "grows(1)"), (15, "waits(2)"), (21, "Pair(2)"), (30, "")],
    ids=["default", "decorator", "class", "elsewhere"],
)
def test_a_default_and_a_decorator_are_met_by_those_who_use_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: int, used: str
) -> None:
    monkeypatch.setattr(slips, "ROOT", tmp_path)
    (tmp_path / "one.py").write_text(SOURCE, encoding="utf-8")
    one = next(one for one in slips.slips("one.py") if one.line == line)
    notes = ModuleType(slips.MARK)
    notes.__file__ = str(tmp_path / "notes.py")
    exec(slips.NOTES, vars(notes))
    monkeypatch.setitem(sys.modules, slips.MARK, notes)
    monkeypatch.setenv("KVLITMUS_REACHING", "a test")
    module: dict[str, Any] = {"__name__": "one"}
    exec(compile(slips.marked(7, one), "one.py", "exec", dont_inherit=True), module)

    assert notes.seen == (set() if used else {(7, "")})
    if used:
        eval(used, module)
        assert notes.seen == {(7, "a test")}

    reach = slips.Reach({7: ["", "a::test"]}, {"a::test": 1.0, "another::test": 0.5})
    assert reach.of(7, one) == (["a::test"] if used else ["another::test", "a::test"])


@pytest.mark.parametrize(("anyway", "by"), [("", "a"), ("a", "b[1 - 2]"), ("a b[1 - 2]", "")])
def test_a_test_that_fails_without_the_slip_has_noticed_nothing(
    anyway: str, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(one: object, tests: Sequence[str], folder: Path) -> str:
        return next((f"FAILED {test} - a difference" for test in tests if test != "b"), "")

    def asked(tests: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess((), int(tests[0] in anyway))

    monkeypatch.setattr(slips, "failing", failing)
    monkeypatch.setattr(slips, "asked", asked)
    slip = slips.Slip("one.py", 1, 0, 1, "1", "2")
    assert slips.noticed(slip, ["a", "b", "b[1 - 2]"], tmp_path) == (by and f"FAILED {by} - a difference")


PLANTS = """\
import time
from pathlib import Path
from tests import slips

slips.ROOT = Path({root!r})
with slips.written({{"one.py": b"a slip"}}):
    print(flush=True)
    time.sleep(600)
"""


def test_a_slip_is_taken_back_by_who_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(SOURCE, encoding="utf-8")
    command = [sys.executable, "-c", PLANTS.format(root=str(tmp_path))]
    with subprocess.Popen(
        command, cwd=slips.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as planting:
        assert planting.stdout is not None and planting.stdout.readline() == "\n"
        assert file.read_bytes() == b"a slip"
        planting.send_signal(signal.SIGTERM)
    assert file.read_text(encoding="utf-8") == SOURCE
