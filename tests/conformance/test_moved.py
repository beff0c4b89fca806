"""Names of version 0.1: what an old adapter imports is named, and saved target names are read."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

from kvlitmus.conformance.run.moved import MOVED, now
from kvlitmus.conformance.run.targets import UnknownTarget, load_target, resolve_target

OLD = """\
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.{module} import {name}


class Target:
    profile = Profile()

    def make(self, config: Config) -> object:
        raise Unsupported("nothing")


target = Target()
"""


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> str:
    """An adapter written for version 0.1, importable."""
    stem = f"old_adapter_{module}"
    (tmp_path / f"{stem}.py").write_text(OLD.format(module=module, name=name))
    monkeypatch.syspath_prepend(tmp_path)
    return f"{stem}:target"


def test_an_adapter_that_imports_the_ports_runs_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = resolve_target(written(tmp_path, monkeypatch, "ports", "Hit, Begun, Sizes, NodeView, View, Stored"))
    assert type(load_target(ref)).__name__ == "Target"


@pytest.mark.parametrize(
    ("module", "name", "where"),
    [
        ("tier_ports", "TierView", "kvlitmus.spec.interface.tiers"),
        ("store_ports", "Storage", "kvlitmus.spec.interface.stores"),
        ("choices", "PROFILE", "kvlitmus.conformance.ports.choices"),
    ],
)
def test_an_adapter_that_imports_what_has_moved_is_told_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, where: str
) -> None:
    ref = resolve_target(written(tmp_path, monkeypatch, module, name))
    with pytest.raises(UnknownTarget) as told:
        load_target(ref)
    assert str(told.value) == f"kvlitmus.conformance.{module} is {where} now: change the import"
    assert hasattr(importlib.import_module(where), name), "and there it is"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("kvlitmus.conformance.mutants_run:by_name.lookup_pins", "kvlitmus.mutants.run"),
        ("kvlitmus.conformance.adapters.reference:target", "kvlitmus.conformance.adapters.reference.target"),
        ("kvlitmus.conformance.adapters.reference.target:target", "kvlitmus.conformance.adapters.reference.target"),
        ("kvlitmus.conformance.mutants.store:one", "kvlitmus.mutants.store"),
        ("my_cache:target", "my_cache"),
    ],
)
def test_the_name_of_a_target_in_a_saved_file_is_read(name: str, module: str) -> None:
    assert resolve_target(name).module == module


@pytest.mark.parametrize("old", MOVED)
def test_what_has_moved_is_there(old: str) -> None:
    assert now(old) == MOVED[old]
    assert importlib.util.find_spec(MOVED[old]) is not None
