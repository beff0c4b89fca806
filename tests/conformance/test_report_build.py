"""The build of a report: what changes a verdict changes it, and nothing else does, words and names least of all."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

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
from kvlitmus.spec.law import fingerprint
from kvlitmus.spec.law.fingerprint import Code
from kvlitmus.spec.law.modules import Place, path_of
from tests.test_layout import ROOT

SPECIMEN = "kvlitmus.conformance.specimen.cache"

SAYS = """
import json
from kvlitmus.conformance.report import build
from kvlitmus.conformance.run import plan, targets
from kvlitmus.spec.parts import all_rules

found = {id: rule.digest for id, rule in all_rules().items()}
for name in ("sglang-0.5.13.post1", "components", "reference-sparse", "reference-store", "sglang-0.5.13.post1-ranks"):
    known = targets.KNOWN[name]
    ref = targets.TargetRef(name=name, module=known.module, attribute=known.attribute, python="", roots=())
    target = targets.load_target(ref)
    configs = plan.configs_of(target)
    kinds = build.kinds_of(configs)
    found[name] = build.build_of(known.module, known.attribute, kinds)
    found[f"items of {name}"] = build.items_of(plan.items(configs, target.profile, steps=250), kinds)
print(json.dumps([found, {id: rule.sentence for id, rule in all_rules().items()}]))
"""
"""Prints every digest of a tree, and the pins of its sentences."""


class Copy:
    """A copy of the sources, to be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for room in ("spec", "reference", "conformance"):
            shutil.copytree(ROOT / room, folder / room)  # with bytecode, which is compiled anew where a file changes

    def change(self, old: str, new: str, file: str = "*.py", *, optional: bool = False) -> None:
        """Replace whatever matches, everywhere or in files of one name; something must, unless it is optional."""
        found = 0
        for path in self.folder.rglob(file):
            text = path.read_text(encoding="utf-8")
            changed, many = re.subn(old, new, text)
            found += many
            if many:
                path.write_text(changed, encoding="utf-8")
        assert found or optional, old

    def move(self, room: str, module: str, folder: str) -> None:
        """Move a module into a folder beside it."""
        place = self.folder / room.split(".")[1] / room.replace(".", "/")
        (place / folder).mkdir()
        (place / folder / "__init__.py").write_text('"""A folder."""\n', encoding="utf-8")
        (place / f"{module}.py").rename(place / folder / f"{module}.py")
        self.change(rf"\b{re.escape(room)}\.{module}\b", f"{room}.{folder}.{module}")
        apart = rf"from {room} import \1\nfrom {room}.{folder} import {module}"
        self.change(rf"(?m)^from {re.escape(room)} import (.*), {module}$", apart, optional=True)

    def says(self) -> Any:
        """All digests and pins of sentences."""
        rooms = ":".join(str(self.folder / room) for room in ("spec", "reference", "conformance"))
        command = [sys.executable, "-S", "-c", SAYS]
        done = subprocess.run(command, env={"PYTHONPATH": rooms}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the tree says as it is."""
    return Copy(tmp_path_factory.mktemp("here")).says()


@pytest.mark.nightly
def test_words_names_and_folders_change_nothing_but_the_pins_of_sentences(tmp_path: Path, here: Any) -> None:
    copy = Copy(tmp_path)
    # Words: of facts, of helpers, of litmus tests, in comments; and of two rules.
    copy.change("How many entries of each component were evicted.", "How many of each went.", "tree.py")
    copy.change(
        r'(?m)^def (node_hits|host_appeared|pages_in_order|backup_place)\b(.*)\n    """',
        r"# A function.\n\g<0>Again: ",
    )
    copy.change('(?m)^def (the_least_valuable_leaf_goes_first)(.*)\n    """', r"\g<0>A test: ", "evict.py")
    for rule in ("POOL-01", "COMP-21"):
        copy.change(f'@rule\\(\\s*"{rule}",(?s:.*?)\\n    """', r"\g<0>Note well: ")
    # Names: of facts, functions, a constant, parameters and local variables.
    for name in ("parts_at_stake", "sparse_places_left", "pages_in_order", "follow_unseen", "MAX_RECEIPTS"):
        copy.change(rf"\b{name}\b", f"{name}_of_old")
    copy.change(r"\bdata\b", "raw", "schemes.py")
    copy.change(r"\bwanted\b", "chosen", "judge.py")
    # Folders: modules of two rooms, and a function that is in another module.
    copy.move("kvlitmus.spec.prefix", "windows", "known")
    copy.move("kvlitmus.conformance.checker", "rendezvous", "several")
    sha256 = re.compile(r"def sha256\((?s:.*?)\n\n\n")
    schemes, moved = tmp_path / "spec/kvlitmus/spec/words/schemes.py", tmp_path / "spec/kvlitmus/spec/hashed.py"
    moved.write_text(f"import hashlib\n\n{sha256.findall(schemes.read_text())[0]}", encoding="utf-8")
    copy.change(sha256.pattern, "from kvlitmus.spec.hashed import sha256\n\n\n", "schemes.py")
    said, sentences = copy.says()
    assert {name for name, digest in here[0].items() if said[name] != digest} == set()
    assert {id for id, pin in here[1].items() if sentences[id] != pin} == {"POOL-01", "COMP-21"}


FLAT, RANKS, SPARSE = "sglang-0.5.13.post1", "sglang-0.5.13.post1-ranks", "reference-sparse"
DECISIVE: dict[str, tuple[list[tuple[str, str, str]], set[str], set[str]]] = {
    "a helper that facts call": (
        [("schemes.py", r"hashlib\.sha256", "hashlib.sha512")],
        {"HASH-01", FLAT, RANKS, SPARSE},
        {"POOL-01", f"items of {SPARSE}"},
    ),
    "of one kind: an operator, a fact and a premise": (
        [
            ("sparse/state.py", r"place >= state\.backed", "place > state.backed"),
            ("ranks/facts.py", r"poll_common\[-1:\]", "poll_common[:1]"),
            ("ranks/rules.py", r'"parts_at_stake"', '"not parts_at_stake"'),
        ],
        {SPARSE, "RANKS-16", RANKS},
        {FLAT, f"items of {FLAT}"},
    ),
    "a litmus test and an action": (
        [
            ("evict.py", r"tree\.evict\(checker, 1\)", "tree.evict(checker, 2)"),
            ("registry.py", "LOANS = 4", "LOANS = 5"),
        ],
        {f"items of {FLAT}", FLAT},
        {"EVICT-01", f"items of {SPARSE}"},
    ),
}
"""Changes that decide something; the rules and targets that must be other ones for it, and some that must not."""


BY_DAY = "of one kind: an operator, a fact and a premise"


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=[pytest.mark.nightly] * (name != BY_DAY)) for name in DECISIVE]
)
def test_what_decides_changes_the_rules_and_targets_that_it_decides(tmp_path: Path, here: Any, change: str) -> None:
    changes, decided, apart = DECISIVE[change]
    copy = Copy(tmp_path)
    for file, old, new in changes:
        copy.change(old, new, file)
    said, sentences = copy.says()
    other = {name for name, digest in here[0].items() if said[name] != digest}
    assert decided <= other and not apart & other
    assert sentences == here[1]


def changed(monkeypatch: pytest.MonkeyPatch, part: str, kinds: tuple[str, ...] = ()) -> bool:
    """Whether the build of the specimen, judged as these kinds, is another one when all code of this file is."""
    read = fingerprint.code_of
    before = build.build_of(SPECIMEN, kinds=frozenset(kinds))

    def other(place: Place) -> Code:
        code, path = read(place), path_of(place.module)
        return code._replace(text="changed") if path is not None and path.as_posix().endswith(part) else code

    try:
        with monkeypatch.context() as patch:
            patch.setattr(fingerprint, "code_of", other)
            forget()
            return build.build_of(SPECIMEN, kinds=frozenset(kinds)) != before
    finally:
        forget()


def forget() -> None:
    """Work builds out again."""
    build.source_for.cache_clear()
    build.build_of.cache_clear()


@pytest.mark.parametrize(
    "part",
    [
        "checker/checker.py",
        "actions/prefix/tier.py",
        "calls/prefix/pool.py",
        "spec/words/units.py",
        "spec/prefix/effects.py",
        "specimen/cache.py",
        "run/plan.py",
        "vectors/__init__.py",
    ],
)
def test_what_decides_verdicts_is_part_of_it(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    assert changed(monkeypatch, part)


@pytest.mark.parametrize(
    "part", ["cli/__init__.py", "commands/run.py", "generate/shrink.py", "run/minimise.py", "spec/prefix/stand_ins.py"]
)
def test_what_decides_none_is_not(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    assert not changed(monkeypatch, part)


OWN = {
    "components": (
        "spec/prefix/components/tree.py",
        "calls/components/snapshot.py",
        "actions/components/tree.py",
    ),
    "sparse": ("spec/sparse/state.py", "calls/sparse.py", "actions/sparse.py"),
    "ranks": ("spec/ranks/facts.py", "calls/ranks.py", "actions/ranks.py"),
    "store": ("spec/stores/state.py", "calls/stores.py", "actions/stores.py"),
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
BEFORE_ANYTHING = {"layout_of", "at_first"}
"""What is made of components at first, which is nothing where there are none."""


@pytest.mark.parametrize("kind", CASES)
def test_nothing_about_another_kind_of_cache_is_asked(kind: str) -> None:
    """What a build leaves out has no say: no function of such a module is called while a cache is judged."""
    made, configs, many = CASES[kind]
    every = items(configs, made.profile, steps=100)
    chosen = every[:: max(1, len(every) // many)][:many]
    assert build.kinds_of(configs) == ({kind} if kind else set()) and len(chosen) == many
    run_item(made, chosen[0], Options(shrink_trials=0))  # what is loaded first is loaded
    rooms = {path.parent: room for room in build.ROOMS if (path := path_of(room))}
    called: set[str] = set()

    @functools.cache
    def apart(file: str) -> bool:
        path = Path(file).with_suffix("")
        for folder, room in rooms.items():
            if path.is_relative_to(folder):
                return build.is_apart(".".join((room, *path.relative_to(folder).parts)), (kind,))
        return False

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
