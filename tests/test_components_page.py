"""``docs/components.md``: its examples give what it says, its cache passes, and mistakes in that are named."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from collections.abc import Mapping
from itertools import product
from types import ModuleType

import pytest

from examples.component_cache import ComponentCache, Name, Target
from kvlitmus.conformance.ports import PORTS, Unsupported, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.conformance.specimen.cache import component_target
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.layouts import LAYOUTS
from kvlitmus.spec.words.policies import POLICIES
from kvlitmus.spec.words.units import Key
from tests.support.pages import DOCS

ALONE = (
    Config(page_size=1, pages=12, components="kv+swa"),
    Config(page_size=4, pages=12, host_pages=12, write="asked", components="kv+swa", bigram=True),
)
"""At pages of one, and of bigrams with host memory."""


def test_the_examples_give_what_the_page_says() -> None:
    page = (DOCS / "components.md").read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(shown, {}, "components.md", None, None)
    assert doctest.DocTestRunner(verbose=False).run(test) == doctest.TestResults(0, len(test.examples))
    assert len(test.examples) == 6


def test_the_skeleton_of_a_target_is_one() -> None:
    page = (DOCS / "components.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'^```python title="my_layers.py"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    module = ModuleType("my_layers")
    exec(shown, vars(module))
    assert plan.families_of(module)["components"]
    with pytest.raises(Unsupported):
        module.make(Config(components="kv+index"))
    methods = dict.fromkeys((name for port in module.capabilities for name in PORTS[port]), lambda self: None)
    vars(module)["Adapter"] = type("Adapter", (module.Adapter,), methods)
    assert capabilities_of(module.make(ALONE[0])) == set(module.capabilities)


WORDS = {"write_through": "write-through", "write_through_selective": "selective", "write_back": "write-back"}


def test_the_table_has_every_configuration() -> None:
    """Each row has one of the plan, and each of the plan has a row."""
    page = (DOCS / "components.md").read_text(encoding="utf-8")
    _, below = page.split("| named in `pools` |")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in below.split("\n\n")[0].splitlines()[2:]]
    pool, told = "", set()
    for named, layout, *sizes in rows:
        pool = named.split(", ")[-1].strip("`") or pool
        names = re.findall(r"`([^`]+)`", layout) or [one for one in LAYOUTS if not one.startswith("blocks+")]
        policies = POLICIES if "each policy" in layout else ("lru",)
        write = next(
            (one for one, word in WORDS.items() if f", {word}" in layout), "asked" if pool else "write_through"
        )
        storage = "later" if "storage later" in layout else "attached" if "storage" in layout else "none"
        size, pages, host = (int(one or 0) for one in sizes)
        for name, policy in product(names, policies):
            bigram = f"`{names[-1]}` of bigrams" in layout
            told.add(
                Config(
                    page_size=size,
                    pages=pages,
                    host_pages=host,
                    components=name,
                    policy=policy,
                    bigram=bigram,
                    write=write,
                    storage=storage,
                )
            )
    assert told == set(plan.configs_of(component_target))


@pytest.mark.parametrize("config", ALONE, ids=lambda config: config.label)
def test_the_cache_of_components_keeps_the_rules(config: Config) -> None:
    assert not findings(config)


class OffByOne(ComponentCache):
    """A window that is a token too short."""

    def needs(self, key: Key, pages: int) -> dict[str, list[Name]]:
        """By one token less."""
        names = super().needs(key, pages)
        start = max(0, pages * self.size - self.reach + 1)
        return names | {"swa": names["kv"][start // self.size :]}


class ForgetsTheWindow(ComponentCache):
    """A receipt without the window."""

    def component_lock(self, handle: dict[str, list[Name]]) -> tuple[int, dict[str, list[int]]]:
        """The KV alone."""
        return super().component_lock(handle | {"swa": []})


class TakesWhatIsLocked(ComponentCache):
    """An eviction that looks at no receipt."""

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """All pins are gone."""
        self.device.pins = {kind: Counter() for kind in self.device.pins}
        return super().component_evict(wants)


class GrantsInParts(ComponentCache):
    """A grant of what there is."""

    def component_alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """As much as each pool has."""
        return self.device.grant({kind: min(many, len(self.device.free[kind])) for kind, many in wants.items()})


class LeavesTombstones(ComponentCache):
    """An insert that takes no window where the KV is cached."""

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """What it doesn't take stays the caller's."""
        kept = set(self.device.cached["kv"])
        dead = {end: at for end, at in entries.get("swa", {}).items() if (key.namespace, key.units[:end]) in kept}
        rest = {end: at for end, at in entries.get("swa", {}).items() if end not in dead}
        left = super().component_insert(key, dict(entries) | {"swa": rest})
        return left | {"swa": [*left["swa"], *dead.values()]}


@pytest.mark.parametrize(
    ("kind", "rule", "litmus"),
    [
        (OffByOne, "TREE-03", "what-was-stored-is-found-whole"),
        (ForgetsTheWindow, "COMP-10", "a-lock-holds-what-its-boundary-needs"),
        (TakesWhatIsLocked, "COMP-13", "a-lock-holds-what-its-boundary-needs"),
        (GrantsInParts, "POOL-01", "a-grant-is-for-all-or-for-none"),
        (LeavesTombstones, "TREE-11", "an-insert-recovers-a-tombstone"),
    ],
)
def test_a_mistake_in_the_cache_of_components_is_named(kind: type[ComponentCache], rule: str, litmus: str) -> None:
    """The first call that is broken breaks the rule that the page says."""
    assert rule in (DOCS / "components.md").read_text(encoding="utf-8").split("Five mistakes")[1].split("## ")[0]
    assert findings(ALONE[0], litmus=litmus) == []
    assert [rule in found.rules for found in findings(ALONE[0], kind, litmus)] == [True]


class Made(Target):
    """Makes caches of one kind."""

    def __init__(self, kind: type[ComponentCache]) -> None:
        self.kind = kind

    def make(self, config: Config) -> ComponentCache:
        """A fresh one."""
        cache = super().make(config)
        cache.__class__ = self.kind
        return cache


def findings(config: Config, kind: type[ComponentCache] = ComponentCache, litmus: str = "") -> list[Finding]:
    """What a litmus test, or a drawn schedule, finds in caches of this kind."""
    drawn = Item(kind="random", config=config, seed=1, ops=60)
    item = Item(kind="litmus", config=config, name=f"components/{litmus}") if litmus else drawn
    return run_item(Made(kind), item, Options(reruns=0, shrink_trials=0)).findings
