"""Groups of blocks over one pool, a legal cache of components: with a bug they are accused, and undeclared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import CONFIGS, PROFILE, BlockGroups, BlockGroupsTarget
from tests.conformance.support.block_groups import broken_in
from tests.support.night import by_turns


class LeastOfAll(BlockGroups):
    """Each group is asked once, of the whole key, and the least of the answers is the hit."""

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        whole = len(key.units) - len(key.units) % self.step
        length = min(self.longest(group, key, whole) for group in self.groups)
        hit = {group.name: self.behind(group, key, length) for group in self.groups}
        return length, hit, hit

    def behind(self, group: Component, key: Key, length: int) -> list[int]:
        return [self.found[group.name, key.namespace, key.units[:end]] for end in self.there(group, key, length)]

    def there(self, group: Component, key: Key, length: int) -> list[int]:
        """What is there of what a hit needs."""
        return [end for end in self.ends(group, length) if self.has(group, key, end)]


class RunsCount(BlockGroups):
    """A run of blocks that is shorter than the window counts, wherever it begins."""

    def longest_window(self, group: Component, reach: int, key: Key, most: int) -> int:
        return super().longest_window(group, min(reach, group.unit), key, most)

    def behind(self, group: Component, key: Key, length: int) -> list[int]:
        ends = [end for end in self.ends(group, length) if self.has(group, key, end)]
        return [self.found[group.name, key.namespace, key.units[:end]] for end in ends]


class FirstRoundOnly(BlockGroups):
    """A hit is given up as a whole as soon as a group shortens it."""

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        length, hit, handle = super().component_match(key)
        whole = self.longest(self.groups[0], key, len(key.units) - len(key.units) % self.step)
        return (length, hit, handle) if length == whole else super().component_match(Key(key.namespace, ()))


class HoldsTheFirst(BlockGroups):
    """Only the blocks of the first group are held."""

    def component_lock(self, handle: object) -> tuple[object, dict[str, list[int]]]:
        assert isinstance(handle, dict)
        return super().component_lock({name: handle[name] for name in list(handle)[:1]})


class HeldBlocksWait(BlockGroups):
    """Blocks that somebody holds are in the line too."""

    def wait(self, blocks: Iterable[int]) -> None:
        for block in sorted(blocks, key=lambda one: -len(self.keys[one][2])):
            self.line.pop(block, None)
            self.line[block] = None


class HeadsFirst(BlockGroups):
    """The beginning of a prefix goes before its end."""

    def wait(self, blocks: Iterable[int]) -> None:
        super().wait(blocks)
        self.line = dict.fromkeys(sorted(self.line, key=lambda one: len(self.keys[one][2])))


class EachAlone(BlockGroups):
    """Whether there are blocks enough is asked for each group by itself, and the last one gets the rest."""

    def component_alloc(self, wants: dict[str, int]) -> dict[str, list[int]] | None:  # type: ignore[override]
        if any(many > len(self.free) for many in wants.values()):
            return None
        return {name: [self.free.pop(0) for _ in range(min(many, len(self.free)))] for name, many in wants.items()}


class Buggy(BlockGroupsTarget):
    """Makes groups with a bug, or says another profile of right ones."""

    def __init__(self, kind: type[BlockGroups], profile: Profile = PROFILE) -> None:
        self.kind = kind
        self.profile = profile

    def make(self, config: Config) -> BlockGroups:
        layout = layout_of(config.components, config.page_size, config.pages)
        return self.kind(layout.components, *layout.places.values())


def found(target: Buggy, depth: int = 3) -> Iterator[set[str]]:
    """Item by item, the rules that litmus tests and a few schedules find broken first."""
    return broken_in(target, CONFIGS, CONFIGS, depth)


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (LeastOfAll, {"TREE-02"}),
            (RunsCount, {"TREE-02"}),
            (FirstRoundOnly, {"TREE-02", "EVENT-09"}),
            (HoldsTheFirst, {"COMP-10"}),
            (HeldBlocksWait, {"LOCK-02"}),
            (HeadsFirst, {"TREE-05"}),
            (EachAlone, {"POOL-01"}),
        ]
    ),
)
def test_a_bug_of_block_groups_is_found(kind: type[BlockGroups], rules: set[str]) -> None:
    assert any(rules & broken for broken in found(Buggy(kind)))


@pytest.mark.parametrize("kind", [LeastOfAll, RunsCount, FirstRoundOnly, HoldsTheFirst, EachAlone])
def test_it_is_found_by_answers_alone(kind: type[BlockGroups]) -> None:
    assert any(found(Buggy(kind), depth=0))


@pytest.mark.nightly
@pytest.mark.parametrize("depth", [3, 0])  # by day: test_zoo.py
def test_without_a_bug_nothing_is_found(depth: int) -> None:
    assert not any(found(Buggy(BlockGroups), depth))


@pytest.mark.parametrize("depth", by_turns([3, 0], every=2))
def test_that_blocks_go_alone_must_be_declared(depth: int) -> None:
    """Groups that the profile says go with the KV are told from these by a snapshot alone."""
    changed = Buggy(BlockGroups, replace(PROFILE, component_cascade="base"))
    assert any("COMP-19" in broken for broken in found(changed, depth)) == (depth == 3)
