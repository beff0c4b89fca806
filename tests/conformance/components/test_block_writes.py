"""Groups of blocks that back up by themselves, a legal cache of components: with a bug they are accused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.components import ComponentBegun
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockGroups, BlockKey, layout_for
from kvlitmus.zoo.block_writes import CONFIGS, BlockWrites, BlockWritesTarget
from tests.conformance.support.block_groups import broken_in
from tests.support.night import by_turns


class ForgetsLongPrefixes(BlockWrites):
    """What is as long as a whole key is not copied."""

    def save(self, key: Key, *, wait: bool = False) -> None:
        super().save(key._replace(tokens=key.tokens[: -self.step]) if len(key.tokens) > self.step else key, wait=wait)


class SavesTheRunAlone(BlockWrites):
    """A prefix is copied when a block of the run goes, and not when a window or a state goes alone."""

    def save_before(self, prefix: BlockKey, gone: Sequence[BlockKey]) -> None:
        super().save_before(prefix, [at for at in gone if at[0] == prefix[0]])


class SavesNothing(BlockWrites):
    """What leaves the device is lost."""

    def save_before(self, prefix: BlockKey, gone: Sequence[BlockKey]) -> None:
        return None


class SavesTooEarly(BlockWrites):
    """With every policy a prefix is copied as soon as it is inserted."""

    def __init__(self, write: str, *rest: object) -> None:
        super().__init__("write_through", *rest)  # type: ignore[arg-type]


class SaysHalf(BlockWrites):
    """Of what has begun in one call only the first is told."""

    def component_begun(self) -> list[ComponentBegun]:
        return super().component_begun()[:1]


class Buggy(BlockWritesTarget):
    """Makes groups with a bug."""

    def __init__(self, kind: type[BlockWrites]) -> None:
        self.kind = kind

    def make(self, config: Config) -> BlockGroups:
        layout = layout_for(config)
        return self.kind(config.write, layout.components, *layout.places.values(), *layout.host.values())


def found(kind: type[BlockWrites], depth: int = 3) -> Iterator[set[str]]:
    """Item by item, the rules that litmus tests and a few schedules find broken first."""
    return broken_in(Buggy(kind), CONFIGS, CONFIGS, depth)


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (ForgetsLongPrefixes, {"COMP-55", "COMP-56"}),
            (SavesTheRunAlone, {"COMP-56"}),
            (SavesNothing, {"COMP-56"}),
            (SavesTooEarly, {"COMP-53"}),
            (SaysHalf, {"POOL-10", "COMP-15", "POOL-12"}),
        ]
    ),
)
def test_a_bug_of_write_policies_is_found(kind: type[BlockWrites], rules: set[str]) -> None:
    assert any(rules & broken for broken in found(kind))


@pytest.mark.nightly
@pytest.mark.parametrize("depth", [0, pytest.param(3, marks=pytest.mark.nightly)])  # by day: test_zoo.py
def test_without_a_bug_nothing_is_found(depth: int) -> None:
    assert not any(found(BlockWrites, depth))
