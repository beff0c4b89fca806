"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from kvlitmus.conformance.ports import Config, Profile, capabilities_of
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from tests.support.pages import blocks, missing, pages
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


def test_the_readme_is_read_to_its_end() -> None:
    assert len(README.splitlines()) <= 120


def test_the_counterexample_of_the_readme_is_that_of_the_guide() -> None:
    (shown,) = [one.body for one in blocks(README) if one.language == "text"]
    printed = [one.body for one in blocks(pages()["docs/guides/block-table.md"]) if one.language == "console"]
    assert missing(shown.splitlines(), printed[0]) == []


def test_the_readme_leads_to_every_guide() -> None:
    guides = {path for path in pages() if path.startswith("docs/guides/")}
    assert guides and all(f"]({path})" in README for path in guides)


def test_readme_and_ci_run_the_same_test_command() -> None:
    last = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert f"tools/setup && {last}\n" in README


def test_the_target_in_the_readme_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ModuleType("my_engine")
    engine.BlockPool = BlockPool  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_engine", engine)
    (source,) = [one.body for one in blocks(README) if one.title == "my_target.py"]
    target = ModuleType("my_target")
    exec(compile(source, "README.md", "exec"), target.__dict__)

    assert isinstance(target.profile, Profile)
    adapter = target.make(Config(pages=4, page_size=2))
    assert capabilities_of(adapter) == {"pool"}
    adapter.free(adapter.alloc(6))
    assert adapter.available() == 8


def test_as_many_mutants_are_in_the_register_as_are_told() -> None:
    mutants = list(all_mutants().values())
    bugs, null = sum(not one.null for one in mutants), sum(one.null for one in mutants)
    told = re.search(r"More than (\d+) bugs.*?more than (\d+) legal variations", README, re.DOTALL)
    assert told and 0 < bugs - int(told[1]) < 100 and 0 < null - int(told[2]) < 100


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
    plain = [one.partition("#")[0] for one in named if not re.search(r"…|PART|NAME", one)]
    assert [one for one in plain if not (ROOT / one).exists()] == []
