"""The guides: each is followed from its first line to its last, and ends in a verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import DOCS, blocks, follow

GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCS / "guides").glob("*.md"))}
KINDS = ("block-table", "components", "host-tier", "radix-tree", "ranks", "store", "trace")
MOST = 60
"""Lines of an adapter."""


def test_there_is_a_guide_for_each_kind_of_cache() -> None:
    assert tuple(GUIDES) == KINDS


AT_NIGHT = ("block-table", "host-tier", "ranks", "store")
"""Guides that are followed at night alone: they take longer than the others together."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in AT_NIGHT)) for name in GUIDES]
)
def test_a_guide_can_be_followed(name: str, tmp_path: Path) -> None:
    assert follow(GUIDES[name], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_can_be_followed_as_a_reader_does(name: str, tmp_path: Path) -> None:
    assert follow(GUIDES[name], tmp_path, processes=True)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_is_short_and_ends_in_a_verdict(name: str) -> None:
    parts = re.findall(r"^## (.+)$", GUIDES[name], re.MULTILINE)
    assert parts[-2:] == ["The verdict", "What next"]
    (adapter,) = [one.body for one in blocks(GUIDES[name]) if one.language == "python"]
    assert len([line for line in adapter.splitlines() if line.strip()]) <= MOST
    verdicts = [line for one in blocks(GUIDES[name]) for line in one.body.splitlines() if line.startswith("exit ")]
    assert [line[:7] for line in verdicts] == ["exit 1:", "exit 0:"][: 1 if name == "trace" else 2]
