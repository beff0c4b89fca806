"""Requests on components: a legal cache with a bug is accused, and vLLM's groups are judged (nightly: as published)."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.component_requests import target as reference_requests
from kvlitmus.conformance.adapters.vllm.flat import target as flat_target
from kvlitmus.conformance.adapters.vllm.v0_33 import CONFIGS as VLLM_CONFIGS
from kvlitmus.conformance.adapters.vllm.v0_33 import PLAN, target
from kvlitmus.conformance.checker.calls.components import requests
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import items
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import component_request_target
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.shapes import Component, Window
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_requests import CONFIGS, PROFILE, BlockRequests, Served, Table

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / PLAN.python


class HoldsItsHitLate(BlockRequests):
    """The blocks of a hit are held after those for the chunk were taken: one of them may be taken for it."""

    def component_start(self, key: Key, chunk: int) -> tuple[object, int, dict[str, dict[int, int]]] | None:
        self.late: list[int] | None = []
        return super().component_start(key, chunk)

    def hold(self, block: int) -> None:
        if self.late is None:
            super().hold(block)
        else:
            self.late.append(block)

    def fill(self, table: Table, chunk: int) -> None:
        super().fill(table, chunk)
        late, self.late = getattr(self, "late", None) or [], None
        for block in late:
            self.hold(block)


class WindowsAreShort(BlockRequests):
    """One block of a window is enough for a hit, however far the window reaches."""

    def longest_window(self, group: Component, reach: int, key: Key, most: int) -> int:
        return super().longest_window(group, min(reach, group.unit), key, most)

    def behind(self, group: Component, key: Key, length: int) -> list[int]:
        ends = [end for end in self.ends(group, length) if self.has(group, key, end)]
        return [self.equal[group.name, key.namespace, key.units[:end]][0] for end in ends]

    def ends(self, group: Component, length: int) -> range:
        if isinstance(group.shape, Window):
            group = group._replace(shape=Window(min(group.shape.reach, group.unit)))
        return super().ends(group, length)


class KeepsStaleKeys(BlockRequests):
    """A block that is handed out anew is still found under the prefix that it was for."""

    def take(self) -> int:
        if self.free:
            return super().take()
        block = next(iter(self.line))
        del self.line[block]
        del self.keys[block]
        self.held[block] = 1
        return block


class HeadsFirst(BlockRequests):
    """A request that ends lets the beginning of its prefix go first."""

    def component_finish(self, receipt: object) -> None:
        assert isinstance(receipt, Table)
        for row in receipt.blocks.values():
            self.release([row[end] for end in sorted(row)])


class BuggyTarget:
    """The cache of the zoo with a bug."""

    capabilities = ("component_lookup", "component_requests", "component_view")

    def __init__(self, buggy: type[BlockRequests], profile: Profile = PROFILE) -> None:
        self.buggy, self.profile = buggy, profile

    def make(self, config: Config) -> Served:
        layout = layout_of(config.components, config.page_size, config.pages)
        served = Served(self.buggy(layout.components, *layout.places.values()))
        del served.component_events  # what a bug does is to show in the cache
        return served


def broken(tried: BuggyTarget, depth: int, most: int = 100) -> set[str]:
    """The rules that are broken first in litmus tests and a few schedules."""
    for at, item in enumerate(items(CONFIGS[:1] + CONFIGS[3:], tried.profile, steps=8_000)):
        result = run_item(tried, item, Options(depth=depth))
        assert not result.error, result.error
        if result.findings:
            return {rule for finding in result.findings for rule in finding.rules}
        if at > most:
            break
    return set()


@pytest.mark.parametrize(
    ("buggy", "rules"),
    [
        (HoldsItsHitLate, {"POOL-04", "LOCK-01", "POOL-12"}),
        (WindowsAreShort, {"TREE-02", "TREE-03", "CREQ-01"}),
        (KeepsStaleKeys, {"TREE-03", "COMP-15", "POOL-12", "PORT-03"}),
        (HeadsFirst, {"TREE-05"}),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_a_bug_is_found(buggy: type[BlockRequests], rules: set[str]) -> None:
    assert broken(BuggyTarget(buggy), 3) & rules


ONE_EACH = Config(page_size=1, pages=4, components="kv+swa+state")
TWO_EACH = Config(page_size=4, pages=8, components="kv+swa+state")
SERVERS: dict[str, Any] = {"specimen": component_request_target, "reference": reference_requests}


def listener(server: str, config: Config) -> Checker:
    """What judges a server that keeps one of equal entries, by its answers and by what it tells."""
    target = SERVERS[server]
    return Checker(target.make(config), config, target.profile, depth=2)


@pytest.mark.parametrize("server", SERVERS)
def test_what_a_request_computed_twice_keeps_nothing_cached(server: str) -> None:
    checker, key = listener(server, ONE_EACH), Key(None, (1,))
    requests.start(checker, key, 1, 0)
    requests.finish(checker, 0)
    requests.start(checker, key, 1, 0)  # computes it again: its own places are not those that are cached
    requests.start(checker, Key("other", (1,)), 1, 1)  # takes these
    assert components.match(checker, Key(None, (1, 2)))[0] == 0


@pytest.mark.parametrize("server", SERVERS)
def test_who_is_refused_publishes_nothing_again(server: str) -> None:
    checker = listener(server, TWO_EACH)
    requests.start(checker, Key(None, (1,) * 9), 8, 0)
    requests.finish(checker, 0)
    requests.start(checker, Key(None, (*(1,) * 7, 3, 1, 1, 1)), 8, 0)
    requests.start(checker, Key("other", (1,) * 4), 4, 1)
    requests.finish(checker, 1)
    requests.start(checker, Key(None, (1,)), 1, 1)
    assert not requests.grow(checker, 0, 3).granted


class CachesBoundariesAlone(BlockRequests):
    """Blocks behind the last boundary of a request get no keys, as in vLLM: no hit could use them."""

    def computed(self, table: Table) -> int:
        return table.units - table.units % self.step


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_what_no_hit_can_use_need_not_be_cached(depth: int) -> None:
    """Where it is cached for somebody else, and that block goes, the one that a request holds counts for nothing."""
    config = Config(page_size=1, pages=8, components="groups")
    layout = layout_of(config.components, config.page_size, config.pages)
    served = Served(CachesBoundariesAlone(layout.components, *layout.places.values()))
    checker, one, two = Checker(served, config, PROFILE, depth=depth), Key(None, (1,)), Key(None, (1, 1))
    requests.start(checker, one, 1, 0)
    requests.start(checker, two, 2, 1)
    requests.finish(checker, 1)
    for number, key in enumerate((one, Key("other", (1,))), 1):
        requests.start(checker, key, 1, number)


def test_copies_must_be_declared() -> None:
    assert "PORT-03" in broken(BuggyTarget(BlockRequests, replace(PROFILE, component_copies="one")), 3)


# vLLM


def test_without_vllm_it_says_what_to_run() -> None:
    with pytest.raises(Unsupported, match=r"tools/peers vllm-0\.33\.0"):
        target.make(VLLM_CONFIGS[0])


@pytest.mark.parametrize("config", [Config(components="kv+swa"), Config(components="groups", bigram=True)], ids=str)
def test_what_vllm_does_not_have_is_refused(config: Config) -> None:
    with pytest.raises(Unsupported, match="share one pool"):
        target.make(config)


def test_a_start_that_raises_gives_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def component_start(key: Key, chunk: int) -> None:
        raise KeyError("no such block")

    checker = listener("specimen", ONE_EACH)
    monkeypatch.setattr(checker.adapter, "component_start", component_start)
    with pytest.raises(Violation) as raised:
        requests.start(checker, Key(None, (1, 2, 3, 4)), 4, 1)
    assert "→" not in raised.value.call
    assert raised.value.detail.endswith(" in component_start)")


JUDGE = """
import sys
from kvlitmus.conformance.adapters.sglang.common.stubs import install
from kvlitmus.conformance.adapters.vllm import flat, v0_33
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import items
from kvlitmus.conformance.run.results import Options

load = install(v0_33.PLAN)
pool = load("vllm.v1.core.block_pool")
managers = load("vllm.v1.core.single_type_kv_cache_manager")
coordinator = load("vllm.v1.core.kv_cache_coordinator")
exec(sys.argv[2])
found, steps, target = {}, 0, eval(sys.argv[4])
for item in items(target.configs, target.profile, steps=int(sys.argv[3])):
    result = run_item(target, item, Options(depth=int(sys.argv[1])))
    assert not result.error, result.error
    steps += result.steps
    for finding in result.findings:
        found.update(dict.fromkeys(finding.rules, item.id))
    if found:
        break
print(steps, *sorted(found))
"""

NOT_HELD = "pool.BlockPool.touch = lambda self, blocks: None"

SHORT = """
cut = managers.SlidingWindowManager._contiguous_blocks_for_hit.__func__
managers.SlidingWindowManager._contiguous_blocks_for_hit = classmethod(
    lambda cls, window_size, block_size, use_eagle: max(1, cut(cls, window_size, block_size, use_eagle) - 1)
)
"""

HEADS = """
def free(self, request):
    self.block_pool.free_blocks(self.pop_blocks_for_free(request))
managers.SingleTypeKVCacheManager.free = free
"""

ONE_ROUND = """
def first(self, hashes, most):
    blocks, lengths = self.find_longest_cache_hit_per_group(hashes, most)
    return blocks, min(lengths), 0
coordinator.HybridKVCacheCoordinator.find_longest_cache_hit = first
"""

STALE = """
def forget(self, block):
    block.reset_hash()
    return False
pool.BlockPool._maybe_evict_cached_block = forget
"""

UNTOLD = """
pool.BlockPool._emit_block_removed_events = lambda self, hashes: None
"""

FIRST_GROUP = """
store = pool.BlockPool._build_block_stored_event
def told(self, *args, **said):
    said["kv_cache_group_id"] = 0
    return store(self, *args, **said)
pool.BlockPool._build_block_stored_event = told
"""

NO_PROOF = """
cut = managers.SlidingWindowManager._contiguous_blocks_for_hit.__func__
managers.SlidingWindowManager._contiguous_blocks_for_hit = classmethod(
    lambda cls, window_size, block_size, use_eagle: cut(cls, window_size, block_size, False)
)
"""

DROPS = """
find = managers.%(kind)s.find_longest_cache_hit.__func__
def always(cls, **asked):
    return find(cls, **{**asked, "drop_eagle_block": %(drops)s})
managers.%(kind)s.find_longest_cache_hit = classmethod(always)
"""

PLANTED = {
    "a hit is not held": (NOT_HELD, {"CREQ-03", "POOL-04", "LOCK-01", "PORT-01"}),
    "a window is a block short": (SHORT, {"TREE-02", "TREE-03", "CREQ-01"}),
    "heads go first": (HEADS, {"TREE-05"}),
    "the first round is the hit": (ONE_ROUND, {"TREE-02", "TREE-03"}),
    "an evicted block is still found": (STALE, {"TREE-03", "COMP-15", "POOL-12", "POOL-04"}),
    "an evicted block is not told": (UNTOLD, {"EVENT-02"}),
    "every block is told of the first group": (FIRST_GROUP, {"EVENT-01", "EVENT-04", "EVENT-02"}),
}
"""Slips in vLLM's own functions, planted in the process that is judged, and the rules of which one must be broken."""


DRAFTED = {
    "a window is dropped from as it is": (NO_PROOF, {"TREE-02", "TREE-03", "CREQ-01"}),
    "nothing is dropped": (DROPS % {"kind": "FullAttentionManager", "drops": False}, {"TREE-02"}),
    "every round drops": (DROPS % {"kind": "SlidingWindowManager", "drops": True}, {"TREE-02", "EVENT-09"}),
}
"""The same with EAGLE (V05, V07)."""


def judged(depth: int, planted: str, steps: int, name: str = "v0_33.target") -> tuple[int, set[str]]:
    """How many steps vLLM was judged in, in a process of its environment, and what it broke first."""
    if not PYTHON.exists():
        pytest.skip(f"there is no {PYTHON}; {PLAN.command} makes it")
    roots = ":".join(str(ROOT / room) for room in ("spec", "reference", "conformance"))
    done = subprocess.run(
        [str(PYTHON), "-c", JUDGE, str(depth), planted, str(steps), name],
        env={"PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps_done, *rules = done.stdout.splitlines()[-1].split()
    return int(steps_done), set(rules)


@pytest.mark.nightly
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("target", ["v0_33.target", "v0_33.eagle", "flat.counted"])
def test_published_vllm_breaks_no_rule(depth: int, target: str) -> None:
    steps, rules = judged(depth, "", 3_000, target)

    assert steps > 10_000 and not rules


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLANTED)
def test_a_slip_in_published_vllm_is_found(name: str) -> None:
    planted, rules = PLANTED[name]

    assert judged(3, planted, 3_000)[1] & rules


@pytest.mark.nightly
@pytest.mark.parametrize("name", DRAFTED)
def test_a_slip_in_what_published_vllm_drops_is_found(name: str) -> None:
    planted, rules = DRAFTED[name]

    assert judged(3, planted, 3_000, "v0_33.eagle")[1] & rules


FULL = """
flat.Table.report = "full"
"""

FLAT = {
    "a hit is not held": (NOT_HELD, {"POOL-12", "LOCK-01", "LOCK-04", "PORT-01"}),
    "heads go first": (HEADS, {"TREE-05"}),
    "an evicted block is still found": (STALE, {"TREE-03", "POOL-12", "TREE-07", "FRAME-01", "PORT-01"}),
    "an evicted block is not told": (UNTOLD, {"EVENT-02"}),
    "hits are told again, in a full report": (FULL, {"EVENT-04"}),
}
"""The same of the block table; vLLM's own full reports among them, which no count survives."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", FLAT)
def test_a_slip_in_the_published_block_table_is_found(name: str) -> None:
    planted, rules = FLAT[name]

    assert judged(3, planted, 3_000, "flat.counted")[1] & rules


@pytest.mark.nightly
@pytest.mark.parametrize("report", ["", FULL])
def test_the_published_block_table_misleads_listeners_who_go_by_names(report: str) -> None:
    """The removal of one copy is told while another is there (vllm#55092), however hits are reported."""
    rules = judged(3, report, 3_000, "flat.target")[1]

    assert rules & {"EVENT-01", "EVENT-02"} and all(rule.startswith("EVENT-") for rule in rules)


@pytest.mark.parametrize("config", [Config(bigram=True), Config(policy="lfu"), Config(host_pages=8)], ids=str)
def test_what_the_block_table_does_not_have_is_refused(config: Config) -> None:
    with pytest.raises(Unsupported, match=r"policy|block table is of tokens"):
        flat_target.make(config)
