"""The page on adapters and CI: every command on it is one, and what it says of outcomes is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kvlitmus.conformance import cli
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.report.compare import CHANGES
from kvlitmus.conformance.run.results import Verdict
from tests.support.pages import blocks, follow
from tests.test_layout import ROOT

PAGE = (ROOT / "docs/adapters.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line.removeprefix(".venv/bin/")
    for text in (PAGE, README)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for line in block.splitlines()
    if line.removeprefix(".venv/bin/").startswith("kvlitmus ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_one(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    assert cli.parser(words[0]).parse_args(words).command == words[0]


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    assert follow(PAGE, tmp_path) == ["kvlitmus init-adapter my_cache.py", "kvlitmus smoke my_cache"]


def test_the_test_file_of_the_page_is_one() -> None:
    (file,) = [one for one in blocks(PAGE) if one.title == "test_my_cache.py"]
    made: dict[str, object] = {}
    exec(compile(file.body, file.title, "exec"), made)
    assert callable(made["test_my_cache"])


def test_there_are_commands_to_look_at() -> None:
    """And a wrong one is found."""
    assert {"init-adapter", "run", "smoke", "report", "diff"} <= {line.split()[1] for line in COMMANDS}
    with pytest.raises(UsageError):
        cli.parser("diff").parse_args(["diff", "only-one.json"])


def test_every_verdict_and_every_change_is_explained() -> None:
    for verdict in Verdict:
        assert re.search(rf"^\|[\w ,]*\b{verdict.value.replace('_', ' ')}\b", PAGE, re.MULTILINE), verdict
    for change in CHANGES:
        assert re.search(rf"^\|[\w ,]*\b{change}\b", PAGE, re.MULTILINE), change
