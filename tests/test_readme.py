"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from kvlitmus.conformance.ports import Config, Profile, capabilities_of
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from tests.test_layout import ROOMS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


class BlockPool:
    """Somebody's engine."""

    def __init__(self, pages: int, page_size: int) -> None:
        self._free = list(range(pages * page_size))

    def take(self, n: int) -> list[int] | None:
        taken, self._free = self._free[:n], self._free[n:]
        return taken

    def give_back(self, slots: list[int]) -> None:
        self._free += slots

    def free_count(self) -> int:
        return len(self._free)


def test_readme_and_ci_run_the_same_test_command() -> None:
    last = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert f"tools/setup && {last}\n" in README


def test_the_target_in_the_readme_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ModuleType("my_engine")
    engine.BlockPool = BlockPool  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_engine", engine)
    (source,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    target = ModuleType("my_target")
    exec(compile(source, "README.md", "exec"), target.__dict__)

    assert isinstance(target.profile, Profile)
    adapter = target.make(Config(pages=4, page_size=2))
    assert capabilities_of(adapter) == {"pool"}
    adapter.free(adapter.alloc(6))
    assert adapter.available() == 8


def test_the_mutants_that_are_counted_are_those_of_the_register() -> None:
    mutants = list(all_mutants().values())
    bugs, null = sum(not one.null for one in mutants), sum(one.null for one in mutants)
    assert f"`mutants: {bugs}/{bugs} killed, null: 0/{null} alarms`" in README


def test_the_changelog_counts_the_rules() -> None:
    rules = all_rules()
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"There are {len(rules)} rules;" in changes
    assert {one.pack.upper() for one in rules.values()} - set(re.findall(r"`([A-Z]+)`", changes)) == set()
    assert len(changes.splitlines()) <= 150


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_what_the_papers_point_to_is_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    rooms = "|".join(ROOMS)
    named = re.findall(rf"((?:{rooms}|tests|tools)/[\w./]+\w)", text) + re.findall(r"\]\((?!http)([^)]+)\)", text)
    assert len(named) >= 4
    plain = [one for one in named if not re.search(r"…|PART|NAME", one)]
    assert [one for one in plain if not (ROOT / one).exists()] == []
