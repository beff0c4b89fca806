"""The targets of SGLang 0.5.23's unified cache with components and its compiled tree: what they declare and refuse.

With the environment of the release (nightly): that the tree is compiled, what litmus tests and drawn schedules break,
that the tree in Python answers the same, and slips that are seen.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_host, components, native_components
from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import require_core
from kvlitmus.conformance.ports import Unsupported, capabilities_of
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.conformance.support.release_python import HOME, printed, run
from tests.conformance.support.sglang_native_slips import SLIPS

NAMES = ("swa", "mamba", "swa_mamba", "swa_hosted", "mamba_hosted", "swa_mamba_hosted")


def both(name: str) -> tuple[Any, Any]:
    """The target with the tree in Python, and the one with the compiled tree."""
    module = component_host if name.endswith("_hosted") else components
    return getattr(module, name), getattr(native_components, f"{name}_rust")


@pytest.mark.parametrize("name", NAMES)
def test_a_target_is_that_of_the_tree_in_python_with_another_tree(name: str) -> None:
    python, compiled = both(name)
    assert replace(compiled, build=python.build) == python
    assert issubclass(compiled.build, python.build)
    assert (python.build.core, compiled.build.core) == ("python", "rust")
    assert capabilities_of(compiled.build) == compiled.capabilities
    known = f"sglang-0.5.23-{name.replace('_', '-')}-rust"
    assert load_target(resolve_target(known, python=sys.executable)) is compiled


@pytest.mark.parametrize("name", NAMES)
def test_without_the_release_the_command_that_makes_it_is_named(name: str) -> None:
    target = both(name)[1]
    with pytest.raises(Unsupported, match=r"tools/peers 0\.5\.23"):
        target.make(target.configs[0])


def test_another_tree_than_was_asked_for_is_refused() -> None:
    """SGLang takes the tree in Python, with a warning at most, where it can't make the compiled one."""
    fallen_back = SimpleNamespace(tree_core=type("UnifiedTreeCore", (), {})())
    with pytest.raises(Unsupported, match="fell back to UnifiedTreeCore where RustUnifiedTreeCore was asked for"):
        require_core(fallen_back, "rust")
    require_core(fallen_back, "python")


def test_importing_the_adapter_imports_neither_torch_nor_sglang() -> None:
    code = f"import sys, {native_components.__name__}; print(sorted({{'torch', 'sglang'}} & sys.modules.keys()))"
    done = run("-c", code, cwd=HOME)
    assert done.stdout.strip() == "[]", done.stderr


def played(script: str, *arguments: str) -> Any:
    """What a script of the folder prints, by the release's own interpreter."""
    return printed(components.swa.plan.python, script, *arguments)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_what_answers_is_compiled(name: str) -> None:
    bigram = [config.bigram for config in both(name)[1].configs]
    kinds = ["RustBigramUnifiedTreeCoreBinding" if one else "RustUnifiedTreeCoreBinding" for one in bigram]
    seen = played("sglang_native_target", f"{name}_rust", "0")
    assert seen == [["RustUnifiedTreeCore", kind, True, ".so"] for kind in kinds]


@pytest.mark.nightly
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", NAMES)
def test_litmus_tests_and_drawn_schedules_break_nothing(name: str) -> None:
    assert played("sglang_native_target", f"{name}_rust", "6000") == {}


@pytest.mark.nightly
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", NAMES)
def test_both_trees_answer_the_same(name: str) -> None:
    """So what is read off the compiled tree is what the nodes of the other say; where they part the judge says so."""
    assert played("sglang_native_twins", name, "3000") == {}


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "slip"), [("swa", "short"), ("mamba", "kv_alone"), ("swa_hosted", "alone")])
def test_twins_that_part_are_seen(name: str, slip: str) -> None:
    assert "PORT-01" in played("sglang_native_twins", name, "300", slip)


SEEN = {
    ("anywhere", "swa"): {"TREE-02"},
    ("anywhere", "mamba"): {"TREE-02"},
    ("kv_alone", "swa"): {"COMP-10"},
    ("kv_alone", "mamba"): {"COMP-10"},
    ("unlocked", "swa"): {"LOCK-02", "LOCK-06"},
    ("leaked", "swa"): {"EVICT-02", "POOL-12"},
    ("leaked", "mamba"): {"EVICT-02", "POOL-12"},
    ("greedy", "swa"): {"COMP-13"},
    ("short", "swa"): {"TREE-09", "TREE-11"},
    ("stateless", "mamba_hosted"): {"COMP-32"},
    ("kept", "swa_hosted"): {"EVICT-02", "POOL-12"},
    ("held", "swa_hosted"): {"COMP-12"},
    ("alone", "swa_hosted"): {"COMP-19", "COMP-32"},
    ("loose", "swa_hosted"): {"COMP-13"},
}
"""By slip and target rules that it breaks."""


def test_each_slip_is_planted() -> None:
    assert {slip for slip, _ in SEEN} == SLIPS.keys()


@pytest.mark.nightly
@pytest.mark.parametrize(("slip", "name"), SEEN)
def test_a_slip_is_accused(slip: str, name: str) -> None:
    assert SEEN[slip, name] <= played("sglang_native_target", f"{name}_rust", "500", slip).keys()
