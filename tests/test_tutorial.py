"""What the tutorial shows works as it stands there: files are written, changes made, commands run, in its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import DOCS, blocks, follow

TEXT = (DOCS / "tutorial.md").read_text(encoding="utf-8")
MAX_ADAPTER_LINES = 60


@pytest.mark.nightly
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    done = [command.split()[1] for command in follow(TEXT, tmp_path)]
    assert done == ["smoke", "run", "replay", "run"]


def test_the_adapter_stays_small() -> None:
    (adapter,) = [one.body for one in blocks(TEXT) if one.title == "toy_target.py"]
    assert len([line for line in adapter.splitlines() if line.strip()]) <= MAX_ADAPTER_LINES
