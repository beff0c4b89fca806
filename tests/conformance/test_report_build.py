"""The build of a report: what changes a verdict changes it, and nothing else does."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report import build
from kvlitmus.conformance.run.plan import items
from kvlitmus.conformance.specimen.parts import PROFILE

SPECIMEN = "kvlitmus.conformance.specimen.cache"
SOURCE = '"""A module."""\n\ndef half(n):  # of a page\n    """Half."""\n    return n // 2\n'


def essence(source: str) -> str:
    return build.essence(source, ast.parse(source))


def test_comments_and_docstrings_are_no_part_of_a_build() -> None:
    assert essence(SOURCE) == "def half(n):\n    return n // 2"
    assert essence(SOURCE.replace("Half.", "Rounded down.").replace("of a page", "of a node")) == essence(SOURCE)
    assert essence(SOURCE.replace("// 2", "// 3")) != essence(SOURCE)
    assert essence('x = "# no comment"\n') == 'x = "# no comment"'


def changed(monkeypatch: pytest.MonkeyPatch, part: str) -> bool:
    """Whether the build of the specimen is another one when this file is."""
    before = build.build_of(SPECIMEN)
    read = build._read

    def other(path: Path) -> tuple[str, tuple[str, ...]]:
        digest, imported = read(path)
        return ("changed" if path.as_posix().endswith(part) else digest), imported

    with monkeypatch.context() as patch:
        patch.setattr(build, "_read", other)
        return build.build_of(SPECIMEN) != before


@pytest.mark.parametrize(
    "part",
    ["checker/checker.py", "actions/tiers.py", "litmus/fetch.py", "calls/pool.py", "spec/units.py", "spec/effects.py",
     "specimen/cache.py", "run/plan.py", "vectors/__init__.py"],
)  # fmt: skip
def test_what_decides_verdicts_is_part_of_it(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    assert changed(monkeypatch, part)


@pytest.mark.parametrize(
    "part", ["cli/__init__.py", "commands/run.py", "generate/shrink.py", "run/minimise.py", "spec/less.py"]
)
def test_what_decides_none_is_not(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    assert not changed(monkeypatch, part)


def test_the_adapter_of_the_target_is_part_of_it() -> None:
    pools, files = (
        build.build_of(f"kvlitmus.conformance.adapters.{name}") for name in ("reference.flat", "stores.file")
    )
    assert len({pools, files, build.build_of("my_cache")}) == 3


def test_items_have_a_digest_of_their_own() -> None:
    configs = (Config(), Config(page_size=4))
    made = [items(configs, PROFILE), items(configs, PROFILE, seed=1), items(configs[:1], PROFILE)]
    made.append(items((configs[0], replace(configs[1], pages=31)), PROFILE))
    assert len({build.items_of(one) for one in made}) == len(made)
    assert build.items_of(made[0]) == build.items_of(items(configs, PROFILE))
