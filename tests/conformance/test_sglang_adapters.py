"""The adapters for SGLang: without SGLang what they declare and refuse, and how modules are sorted;
with the environments of ``tools/peers`` (nightly) that they tell the truth, and what is known to be wrong there.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from kvlitmus.conformance.adapters.sglang.common import pools as sglang_pools
from kvlitmus.conformance.adapters.sglang.common.stubs import Peer, Plan
from kvlitmus.conformance.adapters.sglang.v0_5_13 import flat as v0_5_13
from kvlitmus.conformance.adapters.sglang.v0_5_23 import flat as v0_5_23
from kvlitmus.conformance.ports import Config, Target, Unsupported, capabilities_of
from kvlitmus.conformance.run.targets import KNOWN
from tests.support.policies import with_policy

HOME = Path(__file__).resolve().parents[2]
ROOMS = os.pathsep.join(str(HOME / room) for room in ("spec", "reference", "optimized", "conformance"))

PEERS = {
    f"{module.__name__.split('.')[-2]}.{name}": value
    for module in (v0_5_13, v0_5_23)
    for name, value in vars(module).items()
    if isinstance(value, Peer)
}
CLASSES = {
    "v0_5_13.radix": v0_5_13.Radix,
    "v0_5_13.radix_sorted": v0_5_13.Radix,
    "v0_5_13.radix_requests": v0_5_13.RadixRequests,
    "v0_5_13.device_pool": v0_5_13.ExtendPool13,
    "v0_5_13.host_pool": sglang_pools.HostPool,
    "v0_5_23.unified_python": v0_5_23.Unified,
    "v0_5_23.unified_rust": v0_5_23.Unified,
    "v0_5_23.unified_python_requests": v0_5_23.UnifiedRequests,
    "v0_5_23.unified_rust_requests": v0_5_23.UnifiedRequests,
    "v0_5_23.unified_kvlitmus": v0_5_23.Unified,
    "v0_5_23.unified_kvlitmus_requests": v0_5_23.UnifiedRequests,
    "v0_5_23.device_pool": sglang_pools.ExtendPool,
    "v0_5_23.device_pool_triton": sglang_pools.ExtendPool,
    "v0_5_23.host_pool": v0_5_23.HostPool23,
}


def python(code: str, *path: Path, interpreter: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with the rooms and these folders on the path."""
    folders = os.pathsep.join([*map(str, path), ROOMS])
    command = [interpreter, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": folders}
    )


def test_every_target_has_a_class_here() -> None:
    assert PEERS.keys() == CLASSES.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_target_declares_its_adapters_have(name: str) -> None:
    declared = PEERS[name].capabilities
    assert capabilities_of(CLASSES[name]) == declared
    assert isinstance(PEERS[name], Target)


@pytest.mark.parametrize("module", [v0_5_13, v0_5_23])
def test_the_module_itself_is_a_target(module: Target) -> None:
    assert isinstance(module, Target)
    assert module.profile.evict_granularity == "node"


def test_importing_the_adapters_imports_neither_torch_nor_sglang() -> None:
    modules = sorted({known.module for known in KNOWN.values() if ".sglang." in known.module})
    assert len(modules) > 4
    done = python(
        f"import importlib, sys\n[importlib.import_module(name) for name in {modules}]\n"
        "print(sorted({'torch', 'sglang', 'numpy', 'triton'} & sys.modules.keys()))"
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", PEERS)
def test_without_the_release_the_command_that_makes_it_is_named(name: str) -> None:
    peer = PEERS[name]
    with pytest.raises(Unsupported, match=f"tools/peers {peer.plan.release}") as caught:
        peer.make(Config(pool=peer.pool))
    assert peer.python in str(caught.value)


def test_what_can_not_be_built_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(Unsupported, match="device pool, not the host pool"):
        v0_5_13.radix.make(Config(pool="host"))
    with pytest.raises(Unsupported, match="host pool, not the device pool"):
        v0_5_23.host_pool.make(Config(pool="device"))
    with pytest.raises(Unsupported, match="no eviction policy 'arc', only lru, lfu"):
        v0_5_23.unified_rust.make(with_policy("arc"))


def test_packages_are_the_parents_of_real_modules() -> None:
    plan = Plan(release="1", real=frozenset({"sglang.a.b.real", "sglang.a"}))
    assert plan.packages == {"sglang", "sglang.a.b"}


FAKE = {
    "torch/__init__.py": "def set_num_threads(count): pass\n",
    "numpy/__init__.py": "",
    "sglang-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: sglang\nVersion: 9.9\n",
    "sglang-9.9.dist-info/RECORD": "sglang/__init__.py,,\nsglang/srt/cache.py,,\n",
    "sglang/__init__.py": "raise RuntimeError('the package ran')",
    "sglang/srt/__init__.py": "raise RuntimeError('the package ran')",
    "sglang/srt/cache.py": (
        "from sglang.srt.hardware import is_cuda, Thing, half\n"
        "import somebody.elses.thing\n"
        "answer = (is_cuda(), Thing.__name__, half(9), somebody.elses.thing.Other.__name__)\n"
    ),
    "sglang/srt/hardware.py": (
        "raise RuntimeError('the server was imported')\ndef half(n: Unknown):\n    return n // 2\n"
    ),
}

INSTALL = (
    "from kvlitmus.conformance.adapters.sglang.common.stubs import Plan, install\n"
    "from kvlitmus.conformance.ports import Unsupported\n"
    "plan = Plan(release='{release}', real=frozenset({{'sglang.srt.cache'}}), absent=('somebody',),\n"
    "    lifted={{'sglang.srt.hardware': {{'srt/hardware.py': ('{lifted}',)}}}})\n"
    "try:\n"
    "    print(install(plan)('sglang.srt.cache').answer)\n"
    "except Unsupported as error:\n"
    "    print('unsupported:', error)\n"
)


@pytest.fixture
def fake_release(tmp_path: Path) -> Path:
    """A package called sglang whose every module would do harm if it ran, but for one."""
    for name, text in FAKE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_real_modules_run_and_everything_else_is_a_stub(fake_release: Path) -> None:
    done = python(INSTALL.format(release="9.9", lifted="half"), fake_release)
    assert done.stdout.strip() == "(False, 'Thing', 4, 'Other')", done.stderr


def test_another_release_than_the_plans_is_driven(fake_release: Path) -> None:
    """Its own number is nothing to it; what it uses of the stubs, nobody has looked at."""
    done = python(INSTALL.format(release="9.10", lifted="half"), fake_release)
    assert done.stdout.strip() == "(False, 'Thing', 4, 'Other')", done.stderr


def test_an_editable_installation_lists_no_files(fake_release: Path) -> None:
    (fake_release / "sglang-9.9.dist-info" / "RECORD").write_text("__editable__.sglang.pth,,\n", encoding="utf-8")
    done = python(INSTALL.format(release="9.10", lifted="half"), fake_release)
    assert done.stdout.strip() == "(False, 'Thing', 4, 'Other')", done.stderr


CACHE = """
from sglang.srt.hardware import Thing, is_cuda
class Kept(Thing):
    pass
class Cache:
    def __init__(self, size):
        self.kept = Kept()
    def find(self, key):
        return (len(key), is_cuda())
    def store(self, key):
        return Thing()
    def count(self):
        return Thing.many
"""

DRIVE = """
from kvlitmus.conformance.adapters.sglang.common import features
from kvlitmus.conformance.adapters.sglang.common.stubs import Peer, Plan, install
from kvlitmus.conformance.ports import Config, Profile
plan = Plan(release="9.10", real=frozenset({"sglang.srt.cache", "sglang.srt.gone"}))
adapter = '''
class Adapter:
    def __init__(self, config):
        self.cache = install(plan)("sglang.srt.cache").Cache(config.pages)
    def match(self, key):
        return self.cache.find(key)
    def insert(self, key):
        return self.cache.store(key)
    def available(self):
        return self.cache.count()
    def deeper(self):
        return install(plan)("sglang.srt.gone")
'''
exec(compile(adapter, features.ADAPTERS + "/of_a_test.py", "exec"))
peer = Peer(plan=plan, profile=Profile(), capabilities=frozenset(), build=Adapter, configs=())
try:
    made = peer.make(Config())
    print(peer.version, getattr(made, CALL)(*GIVEN))
except Exception as error:
    print(type(error).__name__, error)
"""

BY = "SGLang 9.9, by the adapter that was written for 9.10:"


@pytest.mark.parametrize(
    ("lost", "other", "call", "said"),
    [
        ("", "", "match((1, 2),)", "SGLang 9.9 (2, False)"),
        ("class Cache", "class Tree", "match((1,),)", f"Unsupported {BY} AttributeError: "),
        ("self, size", "self", "match((1,),)", f"Unsupported {BY} TypeError: "),
        ("def find", "def look_up", "match((1,),)", f"MissingError {BY} AttributeError: "),
        ("find(self, key", "find(self, key, more", "match((1,),)", f"MissingError {BY} TypeError: "),
        ("len(key)", "unknown", "match(7,)", "NameError name 'unknown' is not defined"),
        ("", "", "match(7,)", "TypeError object of type 'int' has no len()"),
        ("", "", "insert(7,)", "MissingError sglang.srt.hardware.Thing() is used, which the adapter has replaced"),
        ("", "", "available()", "MissingError sglang.srt.hardware.Thing.many is used, which the adapter has replaced"),
        ("", "", "deeper()", f"Unsupported {BY} ModuleNotFoundError: No module named 'sglang.srt.gone'"),
    ],
)
def test_what_another_release_lacks_is_said_in_a_line(
    fake_release: Path, lost: str, other: str, call: str, said: str
) -> None:
    """Each time one thing is missing; an error of the release's own stays one."""
    (fake_release / "sglang/srt/cache.py").write_text(CACHE.replace(lost, other) if lost else CACHE, encoding="utf-8")
    method, _, given = call.partition("(")
    done = python(f"CALL, GIVEN = {method!r}, ({given}\n{DRIVE}", fake_release)
    assert done.stdout.startswith(said) and done.stdout.count("\n") == 1, done


OTHERS = {
    "sglang-0.5.23": ("0.5.13.post1", "has no ['assert_int64_array']"),
    "sglang-0.5.13.post1-hicache": ("0.5.23", "by the adapter that was written for 0.5.13.post1: "),
    "sglang-0.5.13.post1": ("0.5.23", "[] \n"),
}
"""Targets, each with a release that its adapter wasn't written for, and what comes of that: the last one is judged."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_the_adapter_of_one_release_says_what_another_lacks(name: str) -> None:
    """Or judges it; that its adapter runs into something missing is no fault of a release."""
    known, (release, said) = KNOWN[name], OTHERS[name]
    code = (
        f"from {known.module} import {known.attribute} as target\n"
        "from kvlitmus.conformance.run.engine import run_item\n"
        "from kvlitmus.conformance.run.plan import items\n"
        "from kvlitmus.conformance.run.results import Options\n"
        "item = items(target.configs, target.profile, steps=500)[0]\n"
        "found = run_item(target, item, Options())\n"
        "print(target.version, [one.rules for one in found.findings], found.unsupported or found.error)\n"
    )
    done = python(code, interpreter=environment(release))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(f"SGLang {release} [] ") and said in done.stdout, done.stdout


def test_a_file_without_the_function_to_lift_is_refused(fake_release: Path) -> None:
    done = python(INSTALL.format(release="9.9", lifted="double"), fake_release)
    assert "has no ['double']; is this the right release?" in done.stdout, done


def test_a_process_holds_one_release(fake_release: Path) -> None:
    code = INSTALL.format(release="9.9", lifted="half")
    done = python(code + code, fake_release)  # two plans, though they say the same
    assert "SGLang 9.9 is loaded already; use a process of its own" in done.stdout, done


def test_what_a_script_of_a_release_is_run_with_is_there() -> None:
    """``tools/peers exec`` imports it in the release's own Python, where only the night looks."""
    loader = SourceFileLoader("peers", str(HOME / "tools" / "peers"))
    spec = spec_from_loader("peers", loader)
    assert spec is not None
    peers = module_from_spec(spec)
    loader.exec_module(peers)
    for release in peers.RELEASES.values():
        code = peers.RUN.format(adapter=release.adapter, files=release.files)
        asked = [node for node in ast.parse(code).body if isinstance(node, ast.ImportFrom)]
        assert len(asked) > 1
        for node in asked:
            assert node.module is not None
            assert {one.name for one in node.names} <= vars(import_module(node.module)).keys(), node.module
        adapter = import_module(f"kvlitmus.conformance.adapters.{release.adapter}")
        assert adapter.PLAN.environment == f"{release.project}-{release.version}"


def environment(release: str) -> str:
    """The interpreter of a release's environment, or a skip."""
    interpreter = HOME / ".peers" / f"sglang-{release}" / "bin" / "python"
    if not interpreter.exists():
        pytest.skip(f"there is no {interpreter}; tools/peers {release} makes it")
    return str(interpreter)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEERS)
def test_an_adapter_tells_the_truth(name: str) -> None:
    module, _, target = name.partition(".")
    command = [
        environment(PEERS[name].plan.release),
        str(HOME / "tests/conformance/support/sglang_drive.py"),
        module,
        target,
    ]
    done = subprocess.run(
        [*command, "150"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ROOMS},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["calls"] > 1000


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEERS)
def test_capabilities_declared_are_those_of_a_real_adapter(name: str) -> None:
    module, _, target = name.partition(".")
    code = (
        f"from kvlitmus.conformance.adapters.sglang.{module}.flat import {target} as target\n"
        "from kvlitmus.conformance.ports import Config, capabilities_of\n"
        "adapter = target.make(Config(pool=target.pool, page_size=4))\n"
        "assert capabilities_of(adapter) == target.capabilities\n"
    )
    done = python(code, interpreter=environment(PEERS[name].plan.release))
    assert done.returncode == 0, done.stderr[-2000:]


GROUP = (
    "from kvlitmus.conformance.adapters.sglang.{module}.flat import {target} as target\n"
    "from kvlitmus.conformance.ports import Config\n"
    "from kvlitmus.spec.words.units import Key\n"
    "cache, key = target.make(Config(page_size=1, pages=8)), Key(None, (1, 2, 3, 4))\n"
    "cache.begin(1, key); cache.begin(2, key); cache.publish(1, chunked=False)\n"
    "cache.free_group_begin(); cache.publish(2, chunked=False); cache.free_group_end()\n"
    "view = cache.view()\n"
    "print(len(set(view.free) & set(view.nodes[0].slots)))\n"
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("module", "target", "twice"),
    [("v0_5_13", "radix_requests", 4), ("v0_5_23", "unified_rust_requests", 0)],
)
def test_a_request_published_in_a_free_group(module: str, target: str, twice: int) -> None:
    """sglang#34067, merged between the two releases: what was freed in a group changed before it took effect."""
    interpreter = environment(PEERS[f"{module}.{target}"].plan.release)
    done = python(GROUP.format(module=module, target=target), interpreter=interpreter)
    assert done.stdout.strip() == str(twice), done.stderr


@pytest.mark.nightly
def test_an_allocation_kernel_on_an_empty_free_list() -> None:
    """0.5.13.post1 launches its kernel before it looks whether there are pages; the adapter says so and lives."""
    code = (
        "from kvlitmus.conformance.adapters.sglang.v0_5_13.flat import device_pool as target\n"
        "from kvlitmus.conformance.ports import Config\n"
        "pool = target.make(Config(page_size=4, pages=2))\n"
        "pool.alloc(8)\n"
        "pool.alloc_decode([5], [7])\n"
    )
    done = python(code, interpreter=environment("0.5.13.post1"))
    assert done.returncode == 1
    assert "NullAddress" in done.stderr
