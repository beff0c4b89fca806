"""Stamps of reports are kept beside the byte code: the same as if they were worked out, and only for these sources."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report import build, stamps
from kvlitmus.conformance.run.results import Item

ITEMS = [
    Item(kind="random", config=Config(), seed=1, ops=4),
    Item(kind="litmus", config=Config(), name="pool/allocate-and-free"),
]
BUILD, LITMUS = "0123456789ab", "ba9876543210"


@pytest.fixture
def worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What had to be worked out; digests are quick here, and kept in a folder of the test's."""
    told: list[str] = []

    def quick(name: str, digest: str) -> Callable[..., str]:
        def work_out(*_: object) -> str:
            told.append(name)
            return digest

        return work_out

    monkeypatch.setattr(stamps, "build_of", quick("build", BUILD))
    monkeypatch.setattr(stamps, "litmus_digest", quick("litmus", LITMUS))
    monkeypatch.setattr(importlib.util, "cache_from_source", lambda _: str(tmp_path / "kept" / "stamps.pyc"))
    monkeypatch.setattr(stamps, "sources", lambda: "these")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return told


def stamped() -> stamps.Stamps:
    return stamps.stamps_of("a_cache", "target", ITEMS, frozenset())


def test_they_are_worked_out_once(worked_out: list[str], tmp_path: Path) -> None:
    first = stamped()
    assert first.build == BUILD and worked_out == ["build", "litmus"]
    assert stamped() == first and worked_out == ["build", "litmus"]
    stamps.stamps_of("a_cache", "target", ITEMS, frozenset({"ranks"}))
    stamps.stamps_of("another_cache", "target", ITEMS, frozenset())
    assert worked_out == ["build", "litmus"] * 2 + ["build"]


def other_sources(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stamps, "sources", lambda: "others")


def cut_short(file: Path, _: pytest.MonkeyPatch) -> None:
    file.write_text(file.read_text()[:-9])


def no_digest(file: Path, _: pytest.MonkeyPatch) -> None:
    file.write_text(file.read_text().replace(BUILD, "none"))


def no_object(file: Path, _: pytest.MonkeyPatch) -> None:
    file.write_text(json.dumps({"sources": "these", "digests": [BUILD]}))


@pytest.mark.parametrize("change", [other_sources, cut_short, no_digest, no_object])
def test_they_are_worked_out_again(
    change: Callable[[Path, pytest.MonkeyPatch], None],
    worked_out: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = stamped()
    change(tmp_path / "kept" / "stamps.json", monkeypatch)
    assert stamped() == first and worked_out == ["build", "litmus"] * 2


def nowhere(_: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> str:
        raise NotImplementedError

    patch.setattr(importlib.util, "cache_from_source", refuse)


def no_folder(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.write_text("a file")


def not_wanted(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "dont_write_bytecode", True)


@pytest.mark.parametrize("why", [nowhere, no_folder, not_wanted])
def test_where_nothing_can_be_kept_they_are_worked_out(
    why: Callable[[Path, pytest.MonkeyPatch], None],
    worked_out: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "kept"
    why(folder, monkeypatch)
    assert stamped() == stamped() and worked_out == ["build", "litmus"] * 2
    assert not folder.is_dir()


def test_a_source_that_changes_by_a_byte_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["kvlitmus"], "__path__", [str(tmp_path)])
    seen = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("folder/b.py", ""), ("folder/c.txt", "no source")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        seen.add(stamps.sources())
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    assert len(seen | {stamps.sources()}) == 4


def test_what_is_kept_is_what_is_worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "cache_from_source", lambda _: str(tmp_path / "stamps.pyc"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    module = "kvlitmus.conformance.specimen.cache"
    expected = build.build_of(module, "target"), build.items_of(ITEMS)
    assert stamps.stamps_of(module, "target", ITEMS, frozenset()) == expected
    assert stamps.stamps_of(module, "target", ITEMS, frozenset()) == expected
