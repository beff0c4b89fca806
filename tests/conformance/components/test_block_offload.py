"""Groups of blocks with host memory, a legal cache of components: with a bug they are accused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockGroups, BlockKey
from kvlitmus.zoo.block_offload import CONFIGS, BlockOffload, BlockOffloadTarget, Offload
from tests.conformance.support.block_groups import broken_in
from tests.support.night import by_turns


class TheRunAlone(BlockOffload):
    """Only the blocks of the first group are copied to the host."""

    def offload(self, key: Key, *, load: bool) -> tuple[Offload | None, dict[str, int]]:
        if load:
            return super().offload(key, load=load)
        groups, self.groups = self.groups, self.groups[:1]
        copy = super().offload(key, load=load)
        self.groups = groups
        return copy


class LosesItsSource(BlockOffload):
    """What a copy reads may be evicted under it."""

    def hold(self, copy: Offload, needs: Iterable[BlockKey]) -> None:
        return None


class PublishesWhatFailed(BlockOffload):
    """Whether a copy has succeeded is not looked at."""

    def component_copied(self, copy: object, ok: bool) -> dict[str, list[int]]:
        return super().component_copied(copy, True)


class TakesAnyKey(BlockOffload):
    """The beginning of a prefix leaves the host before its end."""

    def use(self, key: Key) -> None:
        super().use(key)
        self.host = dict(sorted(self.host.items(), key=lambda one: len(one[0][2])))


class LoadsWhatTheHostHas(BlockOffload):
    """Only what the host has alone is loaded back, not what both tiers have together."""

    def agreed(self, key: Key) -> int:
        both, self.both = self.both, False
        found, self.found = self.found, dict(self.host) if both else self.found
        length = super().agreed(key)
        self.both, self.found = both, found
        return length


class TakesOneMore(BlockOffload):
    """Whenever something has to go from the host, one more goes."""

    def first(self, wants: Mapping[str, int], short: int, *, load: bool) -> list[BlockKey]:
        more = not load and short > 0
        return super().first({name: many + more for name, many in wants.items()}, short + more, load=load)


class ForgetsItsBlocks(BlockOffload):
    """Blocks of a copy that came too late are given back to nobody."""

    def component_copied(self, copy: object, ok: bool) -> dict[str, list[int]]:
        assert isinstance(copy, Offload)
        late = {at: block for at, block in copy.blocks.items() if not copy.load and at in self.host}
        left = super().component_copied(copy, ok)
        for at, block in late.items():
            left[at[0]].remove(block)
            self.host_free.remove(block)
        return left


class Buggy(BlockOffloadTarget):
    """Makes groups with a bug."""

    def __init__(self, kind: type[BlockOffload]) -> None:
        self.kind = kind

    def make(self, config: Config) -> BlockGroups:
        layout = layout_of(config.components, config.page_size, config.pages, config.host_pages)
        return self.kind(layout.components, *layout.places.values(), *layout.host.values())


def found(kind: type[BlockOffload], depth: int = 3) -> Iterator[set[str]]:
    """Item by item, the rules that litmus tests and a few schedules find broken first."""
    large = [replace(config, host_pages=config.pages) for config in CONFIGS]
    return broken_in(Buggy(kind), CONFIGS, large, depth)


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (TheRunAlone, {"COMP-32"}),
            (LosesItsSource, {"LOCK-01"}),
            (PublishesWhatFailed, {"COMP-29"}),
            (TakesAnyKey, {"TREE-05"}),
            (LoadsWhatTheHostHas, {"LOAD-11", "COMP-36"}),
            (TakesOneMore, {"COMP-13"}),
            (ForgetsItsBlocks, {"COMP-29", "POOL-10", "POOL-12"}),
        ]
    ),
)
def test_a_bug_of_blocks_on_the_host_is_found(kind: type[BlockOffload], rules: set[str]) -> None:
    assert any(rules & broken for broken in found(kind))


@pytest.mark.nightly
@pytest.mark.parametrize("depth", [0, *(pytest.param(depth, marks=pytest.mark.nightly) for depth in (1, 2, 3))])
def test_without_a_bug_nothing_is_found(depth: int) -> None:
    assert not any(found(BlockOffload, depth))
