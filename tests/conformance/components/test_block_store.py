"""Groups of blocks with storage behind the host, a legal cache of components: with a bug they are accused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import items
from kvlitmus.conformance.run.results import Options
from kvlitmus.spec.law.rule import in_force
from kvlitmus.spec.words.shapes import Component, Window
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockKey
from kvlitmus.zoo.block_offload import Offload
from kvlitmus.zoo.block_store import CONFIGS, BlockStore, BlockStoreTarget, Fetch, Put, target
from tests.conformance.support.block_groups import broken_in
from tests.support.night import by_turns

STORED = CONFIGS[:2]
BIGRAMS = tuple(config for config in CONFIGS if config.bigram and config.host_pages)
ALONE = tuple(config for config in CONFIGS if not config.host_pages)
"""Without host memory, where the litmus tests on prefetches are played."""

# Prefetches


class TakesWhatIsFree(BlockStore):
    """Nothing is evicted for a prefetch."""

    def reachable(self, whole: int) -> int:
        line, self.line = self.line, {}
        length = super().reachable(whole)
        self.line = line
        return length


class EvictsWhateverThereIs(BlockStore):
    """Whenever something has to go for a prefetch, everything goes that may."""

    def make_room(self, whole: int, blocks: int) -> dict[str, int]:
        return self.drop(self.loose(load=True), load=True) if blocks > len(self.free) else {}


class AnchorMayGo(BlockStore):
    """What is fetched is to go on from blocks that may be evicted meanwhile."""

    def keep(self, blocks: Sequence[int]) -> None:
        return None

    def give_up(self, blocks: Sequence[int]) -> None:
        return None


class GoesByTheRun(BlockStore):
    """What the first group can restore is read, whatever storage has of the others."""

    def restores(self, fetch: Fetch, boundary: int, stored: Mapping[str, Sequence[int]]) -> bool:
        run = self.groups[0].name
        return super().restores(fetch, boundary, {group.name: stored.get(run, ()) for group in self.groups})


class ReadsShortWindows(BlockStore):
    """Near the root less than a window is read, and taken for one."""

    def behind_anchor(self, fetch: Fetch, group: Component, boundary: int) -> list[int]:
        if isinstance(group.shape, Window) and not fetch.start:
            return [*self.ends(group, boundary)]
        return super().behind_anchor(fetch, group, boundary)


class CachesWhatDidNotCome(BlockStore):
    """Only of the run it is looked at what came of it."""

    def component_prefetch_commit(
        self, fetch: object, came: Mapping[str, Sequence[int]]
    ) -> tuple[int, dict[str, list[int]]]:
        assert isinstance(fetch, Fetch)
        run = self.groups[0].name
        return super().component_prefetch_commit(fetch, {**fetch.reads, run: came.get(run, ())})  # type: ignore[dict-item]


class FreesWhatIsWritten(BlockStore):
    """Whoever gives a prefetch up thinks that its I/O has ended."""

    def component_prefetch_abort(self, fetch: object) -> dict[str, list[int]]:
        assert isinstance(fetch, Fetch)
        fetch.running = False
        return super().component_prefetch_abort(fetch)


class CommitsToEverybody(BlockStore):
    """What was fetched for one namespace is cached for those who have none."""

    def component_prefetch_commit(
        self, fetch: object, came: Mapping[str, Sequence[int]]
    ) -> tuple[int, dict[str, list[int]]]:
        assert isinstance(fetch, Fetch)
        fetch.key = fetch.key._replace(namespace=None)
        return super().component_prefetch_commit(fetch, came)


class CutsBigramsAsTokens(BlockStore):
    """A prefix of bigrams is taken to have as many tokens as bigrams: the last one of it is lost."""

    def offload(self, key: Key, *, load: bool) -> tuple[Offload | None, dict[str, int]]:
        return super().offload(key._replace(tokens=key.tokens[: len(key.tokens) - key.bigram]), load=load)


# Storage


class LosesPrefetches(BlockStore):
    """When storage goes, the last prefetch alone is given up."""

    def component_detach(self) -> dict[str, list[int]]:
        del self.fetches[:-1]
        return super().component_detach()


class FetchesFromNowhere(BlockStore):
    """A prefetch begins whether storage is there or not."""

    def component_prefetch(
        self, handle: object, key: Key, threshold: int
    ) -> tuple[Fetch | None, dict[str, list[int]], dict[str, int]]:
        attached, self.attached = self.attached, True
        answer = super().component_prefetch(handle, key, threshold)
        self.attached = attached
        return answer


class StorageComesWithAReset(BlockStore):
    """After a reset storage is taken to be there."""

    def component_reset(self) -> None:
        if hasattr(self, "fetches"):
            self.attached = True
        super().component_reset()


class WritesFromTheDevice(BlockStore):
    """What is on the device is written, though the host doesn't have it."""

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[Put | None, dict[str, tuple[int, ...]]]:
        host, self.host = self.host, {**self.found, **self.host}
        answer = super().component_write(handle, stored)
        self.host = host
        return answer


class WritesAllAgain(BlockStore):
    """What storage has of a prefix is not looked at."""

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[Put | None, dict[str, tuple[int, ...]]]:
        return super().component_write(handle, {})


class WritesTheRunAlone(BlockStore):
    """Windows and states are never written."""

    def needs(self, key: Key) -> list[BlockKey]:
        return [at for at in super().needs(key) if not self.writing or at[0] == self.groups[0].name]

    writing = False

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[Put | None, dict[str, tuple[int, ...]]]:
        self.writing = True
        answer = super().component_write(handle, stored)
        self.writing = False
        return answer


class LosesWhatItWrites(BlockStore):
    """What a write reads may be evicted under it when storage has gone."""

    def component_detach(self) -> dict[str, list[int]]:
        self.pins.clear()
        return super().component_detach()

    def component_written(self, write: object, ok: bool) -> None:
        return None


class PinsForEver(BlockStore):
    """What a write has read that failed stays on the host."""

    def component_written(self, write: object, ok: bool) -> None:
        if ok:
            super().component_written(write, ok)


class Buggy(BlockStoreTarget):
    """Makes groups with a bug."""

    def __init__(self, kind: type[BlockStore]) -> None:
        self.kind = kind


def found(kind: type[BlockStore], configs: Sequence[Config], depth: int = 3) -> Iterator[set[str]]:
    """Item by item, the rules that litmus tests and a few schedules find broken first."""
    return broken_in(Buggy(kind), configs, configs, depth)


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (TakesWhatIsFree, {"COMP-23"}),
            (EvictsWhateverThereIs, {"COMP-13"}),
            (AnchorMayGo, {"COMP-13", "LOCK-01", "TREE-05"}),
            (GoesByTheRun, {"COMP-26"}),
            (CachesWhatDidNotCome, {"COMP-29"}),
            (FreesWhatIsWritten, {"COMP-29"}),
            (ReadsShortWindows, {"COMP-26"}),
        ]
    ),
)
def test_a_bug_of_prefetches_into_blocks_is_found(kind: type[BlockStore], rules: set[str]) -> None:
    assert any(rules & broken for broken in found(kind, ALONE))


@pytest.mark.parametrize(
    ("kind", "rules"),
    by_turns(
        [
            (CommitsToEverybody, {"COMP-15"}),
            (LosesPrefetches, {"COMP-29"}),
            (FetchesFromNowhere, {"COMP-20"}),
            (StorageComesWithAReset, {"COMP-58", "COMP-20"}),
            (WritesFromTheDevice, {"COMP-58"}),
            (WritesAllAgain, {"COMP-32"}),
            (WritesTheRunAlone, {"COMP-32"}),
            (LosesWhatItWrites, {"COMP-13", "LOCK-01"}),
            (PinsForEver, {"COMP-12"}),
        ]
    ),
)
def test_a_bug_of_storage_behind_blocks_is_found(kind: type[BlockStore], rules: set[str]) -> None:
    assert any(rules & broken for broken in found(kind, STORED))


@pytest.mark.nightly
def test_a_bug_with_bigrams_is_found_where_there_are_some() -> None:
    assert any("COMP-32" in broken for broken in found(CutsBigramsAsTokens, BIGRAMS))
    assert not any(found(CutsBigramsAsTokens, [replace(config, bigram=False) for config in BIGRAMS]))


@pytest.mark.nightly
@pytest.mark.parametrize("depth", [0, pytest.param(3, marks=pytest.mark.nightly)])  # by day: test_zoo.py
def test_without_a_bug_nothing_is_found(depth: int) -> None:
    assert not any(found(BlockStore, CONFIGS, depth))


@pytest.mark.nightly
def test_every_rule_of_its_ports_has_something_to_say() -> None:
    said: set[str] = set()
    for item in items(CONFIGS, target.profile, steps=0):
        said |= run_item(target, item, Options(reruns=0)).evaluated.keys()
    assert said >= {in_force(f"COMP-{number:02}") for number in range(1, 63)}
