"""The build of a report: what changes a verdict changes it, and nothing else does."""

from __future__ import annotations

import ast
import functools
import io
import sys
import tokenize
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report import build
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import (
    COMPONENT_CONFIGS,
    CONFIGS,
    RANK_CONFIGS,
    SPARSE_CONFIGS,
    STORE_CONFIGS,
    TIER_CONFIGS,
    items,
)
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import component_target, target
from kvlitmus.conformance.specimen.parts import PROFILE

SPECIMEN = "kvlitmus.conformance.specimen.cache"
SOURCE = '"""A module."""\n\ndef half(n):  # of a page\n    """Half."""\n    return n // 2\n'


def essence(source: str) -> str:
    return build.essence(source, ast.parse(source))


def test_comments_and_docstrings_are_no_part_of_a_build() -> None:
    assert essence(SOURCE) == "def half(n):\n    return n // 2"
    assert essence(SOURCE.replace("Half.", "Rounded down.").replace("of a page", "of a node")) == essence(SOURCE)
    assert essence(SOURCE.replace("// 2", "// 3")) != essence(SOURCE)


@pytest.mark.parametrize(
    "text",
    [
        '"# none"',
        "'# none'",
        "'\\'# none'",
        "r'\\'# none'",
        '"""\n# none\n"# none" \\"""# none"""',
        "'''#''# none'''",
        "'a\\\n# none'",
    ],
)
def test_what_stands_in_a_string_is_no_comment(text: str) -> None:
    source = f"if x:\n    x = {text}"
    tokens = [token.type for token in tokenize.generate_tokens(io.StringIO(source).readline)]
    assert tokenize.COMMENT not in tokens
    assert essence(source) == essence(f"{source}  # '\n# \"\n") == source


def test_imports_and_docstrings_are_found_in_every_block() -> None:
    blocks = """
try:
    import a
except E:
    import b
else:
    import c
finally:
    import d
match x:
    case 1:
        for one in x:
            import e
        else:
            with x:
                class C:
                    "It has one."
                    import f
if TYPE_CHECKING:
    import none
elif x:
    import none
"""
    assert [*build.imports(ast.parse(blocks))] == [*"abcdef"]
    assert "It has one." not in essence(blocks) and "import none" in essence(blocks)


def changed(monkeypatch: pytest.MonkeyPatch, part: str, kinds: tuple[str, ...] = ()) -> bool:
    """Whether the build of the specimen, judged as these kinds, is another one when this file is."""
    before = build.build_of(SPECIMEN, kinds)
    read = build._read

    def other(path: Path) -> tuple[str, tuple[str, ...]]:
        digest, imported = read(path)
        return ("changed" if path.as_posix().endswith(part) else digest), imported

    with monkeypatch.context() as patch:
        patch.setattr(build, "_read", other)
        return build.build_of(SPECIMEN, kinds) != before


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


OWN = {
    "components": (
        "spec/component_facts.py",
        "calls/component_look.py",
        "actions/components.py",
        "litmus/components.py",
    ),
    "sparse": ("spec/sparse_state.py", "calls/sparse.py", "actions/sparse.py", "litmus/sparse_staging.py"),
    "ranks": ("spec/rank_facts.py", "calls/ranks.py", "actions/ranks.py", "litmus/ranks.py"),
    "store": ("spec/store_state.py", "calls/store.py", "actions/store.py", "litmus/store.py"),
}


@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind, parts in OWN.items() for part in parts])
def test_what_is_about_another_kind_of_cache_is_not(monkeypatch: pytest.MonkeyPatch, kind: str, part: str) -> None:
    others = tuple(OWN.keys() - {kind})
    assert (
        changed(monkeypatch, part, (kind,))
        and not changed(monkeypatch, part)
        and not changed(monkeypatch, part, others)
    )


CASES = {
    "": (target, (*CONFIGS[:2], *TIER_CONFIGS[:2]), 10),
    "components": (component_target, COMPONENT_CONFIGS[:1], 8),
    "sparse": (target, SPARSE_CONFIGS[:1], 8),
    "ranks": (target, RANK_CONFIGS[:1], 2),
    "store": (target, STORE_CONFIGS[:1], 8),
}
"""What judges each kind of cache: a target, its configurations, and how many items of all kinds are played."""
BEFORE_ANYTHING = {"layout_of", "components_at_first"}
"""What is made of components at first, which is nothing where there are none."""


@pytest.mark.parametrize("kind", CASES)
def test_nothing_about_another_kind_of_cache_is_asked(kind: str) -> None:
    """What a build leaves out has no say: no function of such a module is called while a cache is judged."""
    made, configs, many = CASES[kind]
    every = items(configs, made.profile, steps=100)
    chosen = every[:: max(1, len(every) // many)][:many]
    assert build.kinds_of(configs) == ({kind} if kind else set()) and len(chosen) == many
    run_item(made, chosen[0], Options(shrink_trials=0))  # what is loaded first is loaded
    rooms = {str(path.parent): room for room in build.ROOMS if (path := build.path_of(room))}
    called: set[str] = set()

    @functools.cache
    def apart(file: str) -> bool:
        path = Path(file)
        room = rooms.get(str(path.parent))
        return room is not None and build.is_apart(f"{room}.{path.stem}", (kind,))

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and apart(frame.f_code.co_filename):
            called.add(frame.f_code.co_name)

    sys.setprofile(look)
    try:
        results = [run_item(made, one, Options(shrink_trials=0)) for one in chosen]
    finally:
        sys.setprofile(None)
    assert not any(one.error for one in results)
    assert called <= BEFORE_ANYTHING


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
