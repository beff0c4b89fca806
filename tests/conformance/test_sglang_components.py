"""The adapters for SGLang's caches with a window and with states: without SGLang what they declare and refuse;
with the environments of ``tools/peers`` (nightly) what drawn schedules break, and what is known to be wrong.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.common import state_commits, storage_hits
from kvlitmus.conformance.adapters.sglang.common.components import HybridCache
from kvlitmus.conformance.adapters.sglang.v0_5_13 import components as old
from kvlitmus.conformance.adapters.sglang.v0_5_13 import hi_mamba, hybrid
from kvlitmus.conformance.adapters.sglang.v0_5_23 import components as new
from kvlitmus.conformance.ports import Config, Unsupported, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.conformance.support.release_python import HOME, run

TARGETS = [
    *[(module, name) for module in (old, new) for name in ("swa", "mamba", "swa_mamba")],
    *((hybrid, "swa_radix"), (hybrid, "mamba_radix"), (hi_mamba, "hi_mamba")),
]
RELEASES = {"0.5.13.post1": old, "0.5.23": new}


@pytest.mark.parametrize(("module", "name"), TARGETS)
def test_what_a_target_declares_its_adapter_has(module: ModuleType, name: str) -> None:
    target = getattr(module, name)
    assert capabilities_of(HybridCache) == target.capabilities
    assert plan.configs_of(target) == target.configs
    asked = {"swa": "kv+swa", "mamba": "kv+state", "swa_mamba": "kv+swa+state"}
    (components,) = {config.components for config in target.configs}
    assert components == asked[name.removesuffix("_radix").removeprefix("hi_")]
    known = f"sglang-{target.plan.release}-{name.replace('_', '-')}"
    assert load_target(resolve_target(known, python=sys.executable)) is target


def test_the_releases_differ_in_what_an_insert_must_bring() -> None:
    assert {one.profile.component_grants for one in (new.swa, new.swa_mamba)} == {"paired"}
    assert {one.profile.component_grants for one in (old.swa, old.swa_mamba)} == {"whole"}
    assert {module.mamba.profile.component_grants for module in (old, new)} == {"each"}
    assert {module.mamba.profile.component_points for module in (old, new)} == {"end"}


@pytest.mark.parametrize("release", RELEASES)
def test_importing_an_adapter_imports_neither_torch_nor_sglang(release: str) -> None:
    done = run(
        "-c",
        f"import sys\nimport {RELEASES[release].__name__}\n"
        "print(sorted({'torch', 'sglang', 'numpy', 'triton'} & sys.modules.keys()))",
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(("module", "name"), TARGETS)
def test_without_the_release_the_command_that_makes_it_is_named(module: ModuleType, name: str) -> None:
    target = getattr(module, name)
    with pytest.raises(Unsupported, match=f"tools/peers {target.plan.release}"):
        target.make(target.configs[0])


@pytest.mark.parametrize("module", RELEASES.values())
def test_the_unified_cache_says_what_it_is_not_for(module: ModuleType) -> None:
    with pytest.raises(Unsupported, match="KV with a window"):
        module.Hybrid(Config(page_size=4, pages=16, components="groups"))
    with pytest.raises(Unsupported, match="pages of one token"):
        module.Hybrid(Config(page_size=1, pages=16, components="kv+swa+state"))


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [
        (hybrid, "swa_radix", "SWARadixCache is a cache of kv+swa, and not of kv+swa+state"),
        (hybrid, "mamba_radix", "MambaRadixCache is a cache of kv+state, and not of kv+swa+state"),
        (hi_mamba, "hi_mamba", "HiMambaRadixCache is a cache of kv+state, and not of kv+swa+state"),
    ],
)
def test_a_cache_of_one_kind_says_what_it_is_not_for(module: ModuleType, name: str, says: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(says)):
        getattr(module, name).build(Config(page_size=4, pages=16, components="kv+swa+state"))


def test_with_pages_of_one_token_there_is_no_cache_with_a_window() -> None:
    with pytest.raises(Unsupported, match="pages of one token"):
        hybrid.swa_radix.build(Config(page_size=1, pages=16, components="kv+swa"))


def seen(release: str, *arguments: str) -> Any:
    """What a script beside this file prints, run by the release's own interpreter."""
    python = HOME / RELEASES[release].swa.plan.python
    if not python.exists():
        pytest.skip(f"run tools/peers {release} first")
    name = "sglang_components.py" if arguments[0] in ("drawn", "undeclared") else "sglang_component_hazards.py"
    name = "sglang_drawn_hazards.py" if len(arguments) > 1 and arguments[0].startswith("H-") else name
    script = str(Path(__file__).parent / "support" / name)
    done = run(script, release, *arguments, interpreter=str(python))
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["swa", "mamba"])
def test_drawn_schedules_break_nothing_in_the_new_release(name: str) -> None:
    assert seen("0.5.23", "drawn", name) == {}


@pytest.mark.nightly
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("release", RELEASES)
def test_a_state_goes_with_the_window_before_it(release: str) -> None:
    """``TreeComponent.eviction_priority``, which the profile declares: that is no violation of COMP-16."""
    broken = seen(release, "drawn", "swa_mamba")
    assert not broken.keys() - {"COMP-15"}
    assert not broken or release != "0.5.23"


@pytest.mark.nightly
def test_each_choice_that_the_window_declares_is_one_that_it_makes() -> None:
    accused = seen("0.5.23", "undeclared", "swa")
    assert accused.keys() == {"evict_granularity", "duplicates", "component_grants", "component_refill"}
    assert all(accused.values()), accused


@pytest.mark.nightly
@pytest.mark.timeout(1000)
def test_the_old_release_frees_what_a_running_request_reads() -> None:
    assert seen("0.5.13.post1", "drawn", "mamba") == {}
    broken = seen("0.5.13.post1", "drawn", "swa")
    assert broken.keys() == {"COMP-15"}
    assert all("lock(" in " ".join(calls) and calls[-1].startswith("insert(") for calls in broken.values())


@pytest.mark.nightly
@pytest.mark.timeout(1000)
def test_so_does_what_a_server_without_host_memory_makes() -> None:
    """``SWARadixCache``; in ``MambaRadixCache``, and on the device in ``HiMambaRadixCache``, nothing is found."""
    broken = seen("0.5.13.post1", "drawn", "swa_radix")
    assert broken.keys() == {"COMP-15"}
    assert all("lock(" in " ".join(calls) and calls[-1].startswith("insert(") for calls in broken.values())
    for name in ("mamba_radix", "hi_mamba"):
        assert seen("0.5.13.post1", "drawn", name) == {}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("hazard", "old_answer", "new_answer"),
    [
        ("H-17", 6, 0),  # eight pages, the window after six alone, states after four and eight
        ("H-18", 2, 2),  # two pages of a window of four, at the root
        ("H-18, read", [0, 8], [1, 4]),  # its places are for two pages, and nothing is read; or they are cut
        ("H-20", 2, 1),  # read, not read, read
        ("H-63", {"write through": True}, {"write through": False, "write back": True}),
    ],
)
def test_what_is_known_of_storage(hazard: str, old_answer: object, new_answer: object) -> None:
    assert seen("0.5.13.post1", hazard) == old_answer
    assert seen("0.5.23", hazard) == new_answer


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_drawn_schedules_find_what_storage_takes_for_usable() -> None:
    """H-17 and H-18, seen in the answer of ``batch_exists_v2``, after shrinking too; the new one has no H-17."""
    assert seen("0.5.13.post1", "H-17", "80") > 0
    assert seen("0.5.13.post1", "H-18", "20") > 0
    assert seen("0.5.23", "H-17", "80") == 0


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_drawn_schedules_attach_a_state_to_a_shorter_key() -> None:
    """H-26, where the ranks agree on less than this one has, after shrinking too."""
    assert seen("0.5.13.post1", "H-26", "40") > 0


def test_what_attaches_states_is_a_target_of_the_old_release() -> None:
    ref = resolve_target("sglang-0.5.13.post1-state-commits", python=sys.executable)
    assert load_target(ref) is state_commits.commits_13
    assert capabilities_of(state_commits.StateCommits) > state_commits.commits_13.capabilities
    with pytest.raises(Unsupported, match="tools/peers"):
        state_commits.commits_13.make(state_commits.commits_13.configs[0])


def test_of_storage_alone_the_old_release_is_a_target() -> None:
    """Near the root the new one reads a shorter window and uses it, which no port can say."""
    ref = resolve_target("sglang-0.5.13.post1-storage-hits", python=sys.executable)
    assert load_target(ref) is storage_hits.hits_13
    assert capabilities_of(storage_hits.StorageHits) == storage_hits.hits_13.capabilities
    with pytest.raises(Unsupported, match="tools/peers"):
        storage_hits.hits_13.make(storage_hits.hits_13.configs[0])


@pytest.mark.nightly
def test_a_state_is_attached_to_a_shorter_key() -> None:
    """H-26, in the old release alone: the class is gone from the new one."""
    assert seen("0.5.13.post1", "H-26") == {"tokens": 2, "state": 7}


@pytest.mark.nightly
def test_where_there_are_states_they_say_where_a_request_is_cached() -> None:
    """sglang#38815: the branch of a window doesn't shorten the key of a state any more."""
    assert seen("0.5.23", "sglang#38815") == {"window": 4, "window and states": None}
