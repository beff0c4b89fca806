"""Mutants of puts: wrong names, wrong contents, and what happens after a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.conformance.specimen.prefix.host import STORED, UNDER_WAY, UNSTORED
from kvlitmus.conformance.specimen.prefix.put import PutQueue
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work
from kvlitmus.mutants.hosted import HOSTED, NOT_BACK, SGLANG, VLLM
from kvlitmus.mutants.prefix.hashing import Personal, Upstreams
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.interface import PageStore
from kvlitmus.spec.words.units import Key, Unit


@mutant(
    "tenant-not-in-the-name",
    bugs=("H-13",),
    links=(SGLANG + "issues/26747",),
    kills=("BACKUP-05", "HASH-03", "HASH-04"),
    configs=HOSTED,
)
class TenantNotInTheName(PageHasher):
    """A tenant reads another one's KV: the namespace is no part of the names in storage."""

    def seed(self, namespace: str | None, page_size: int, bigram: bool) -> bytes:
        return super().seed(None, page_size, bigram)


@mutant(
    "prompts-spell-tenants",
    kills=("BACKUP-05", "TIER-08"),
    profile=replace(PROFILE, hash_scheme="sglang-1"),
    configs=HOSTED,
)
class PromptsSpellTenants(Upstreams):
    """A crafted prompt of no tenant reads a tenant's pages from storage, or puts others in their place: what is hashed
    for a tenant's seed is what is hashed for a page of the same bytes.
    """


@null_mutant("null-other-names", profile=replace(PROFILE, hash_scheme="one's own"), configs=HOSTED[:2])
class OtherNames(Personal):
    """Names are made by another scheme, which nobody has to know: storage is asked by them, and that is all."""


@mutant(
    "put-restarts-the-chain",
    bugs=("H-14",),
    links=(SGLANG + "pull/16370",),
    kills=("BACKUP-05", "BACKUP-04", "BACKUP-06"),
)
class PutRestartsTheChain(PutQueue):
    """KV of a wrong position is served: a node whose parent has no name is named as if it began the prompt."""

    def names(self, key: Key, start: int) -> Sequence[str]:
        """From the first page of the put."""
        return self.hasher.page_hashes(key._replace(tokens=key.tokens[start:]), self.size, None)


@mutant(
    "put-under-the-name-before",
    bugs=("V26", "T07"),
    links=("https://github.com/ovg-project/kvcached/pull/451", "https://github.com/NVIDIA/TensorRT-LLM/pull/12472"),
    kills=("BACKUP-04", "BACKUP-05", "BACKUP-06"),
)
class PutUnderTheNameBefore(PutQueue):
    """Pages are stored under the name of the page before them: the list of names begins one page earlier."""

    def names(self, key: Key, start: int) -> Sequence[str]:
        """Off by one, but for the first."""
        return super().names(key, max(0, start - self.size))


@mutant(
    "put-names-raw-tokens",
    bugs=("S105", "S31"),
    links=(SGLANG + "pull/40733", SGLANG + "pull/17193"),
    kills=("BACKUP-04", "BACKUP-05"),
    configs=tuple(config for config in HOSTED if config.bigram),
)
class PutNamesRawTokens(PutQueue):
    """With speculative decoding nothing that is written is ever found: one path doesn't turn keys into bigrams."""

    def names(self, key: Key, start: int) -> Sequence[str]:
        """As if the key were a plain one."""
        return super().names(key._replace(bigram=False), start)


@mutant(
    "put-goes-on-after-a-refusal",
    bugs=("H-60",),
    kills=("BACKUP-07",),
)
class PutGoesOnAfterARefusal(PutQueue):
    """Storage fills with pages that no query ever reaches, behind one that it has refused."""

    def accepted(self, store: PageStore, name: str, contents: tuple[int, ...]) -> bool:
        super().accepted(store, name, contents)
        return True


@mutant(
    "refused-put-never-ends",
    bugs=("D03", "H-07"),
    links=("https://github.com/ai-dynamo/dynamo/issues/3730",),
    kills=("LIFE-06", "LIFE-08"),
)
class RefusedPutNeverEnds(PutQueue):
    """A put that was refused is never taken note of, and its pages are pinned for ever."""

    def finish(self, work: Work) -> None:
        if work.done == len(work.sources):
            super().finish(work)


@mutant(
    "put-leaves-out-the-last-page",
    bugs=("V15", "H-16"),
    links=(VLLM + "pull/48596",),
    kills=("BACKUP-08", "BACKUP-09"),
)
class PutLeavesOutTheLastPage(PutQueue):
    """The last page of a prompt never gets to storage, and counts as stored."""

    def put(self, work: Work, store: PageStore, pages: int | None) -> None:
        """All but the last one of several."""
        if len(work.sources) > 1:
            work.sources = work.sources[:-1]
        super().put(work, store, pages)


@mutant(
    "put-begins-before-the-copy",
    bugs=("V14", "V13"),
    links=(VLLM + "issues/46951", VLLM + "issues/45704"),
    kills=("BACKUP-06", "TIER-08"),
)
class PutBeginsBeforeTheCopy(BackupQueue):
    """Noise is stored under good names: host pages go to storage as soon as they are reserved."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        started = super().start(node, namespace, units)
        if started:
            work = self.queue[-1]
            self.backed([node], work.key, work.start)
        return started

    def finish(self, work: Work) -> None:
        told, self.backed = self.backed, lambda *_: None
        super().finish(work)
        self.backed = told


@mutant(
    "put-source-not-pinned",
    bugs=("S10", "K01"),
    links=(SGLANG + "pull/9601", "https://github.com/kvcache-ai/Mooncake/issues/4239"),
    kills=("TIER-11", "BACKUP-06"),
)
class PutSourceNotPinned(PutQueue):
    """Another prompt's KV gets into storage: host pages are evicted while a put still has to read them."""

    def start(self, nodes: list[TieredNode], pages: list[int], key: Key, start: int) -> None:
        super().start(nodes, pages, key, start)
        for node in nodes:
            self.tree.unpin(node)

    def finish(self, work: Work) -> None:
        for node in work.nodes:
            node.pins += 1
        super().finish(work)


@mutant(
    "put-reads-by-another-index",
    bugs=("T04",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/13124",),
    kills=("BACKUP-04", "BACKUP-05", "BACKUP-06"),
)
class PutReadsByAnotherIndex(PutQueue):
    """Pages are stored under each other's names: names are in the order of the prompt, pages in that of memory."""

    def start(self, nodes: list[TieredNode], pages: list[int], key: Key, start: int) -> None:
        super().start(nodes, sorted(pages), key, start)


@mutant(
    "put-forgets-the-head",
    bugs=("S113",),
    links=(SGLANG + "pull/37172",),
    kills=("BACKUP-09", "BACKUP-08"),
    configs=NOT_BACK,
)
class PutForgetsTheHead(PutQueue):
    """Every query misses at the first page: what begins a prompt is too hot to be stored."""

    def start(self, nodes: list[TieredNode], pages: list[int], key: Key, start: int) -> None:
        if start or len(pages) == 1:
            super().start(nodes, pages, key, start)
        else:
            super().start(nodes, pages[1:], key, start + self.size)


@mutant("failed-puts-vanish", bugs=("H-07",), links=(SGLANG + "pull/39269",), kills=("TIER-40",), configs=NOT_BACK)
class FailedPutsVanish(PutQueue):
    """Who waits for the notice of a put waits for ever: one that fails is gone at once, and no tick ever hears of it.

    In SGLang 0.5.13 an exception of storage ends the thread that has the put in hand.
    """

    def put(self, work: Work, store: PageStore, pages: int | None) -> None:
        super().put(work, store, pages)
        if work.landed and work.done < len(work.sources):
            self.finish(work)


@mutant("refused-page-never-put-again", bugs=("H-60",), kills=("BACKUP-11",))
class RefusedPageNeverPutAgain(PutQueue):
    """One refusal by storage, and a prompt is never found there again: what was refused counts as on its way."""

    def finish(self, work: Work) -> None:
        rest = work.sources[work.done :]
        super().finish(work)
        for page in rest:
            self.host.stored[page] = UNDER_WAY


@mutant("puts-nothing-but-new-backups", kills=("BACKUP-11",))
class PutsNothingButNewBackups(PutQueue):
    """What was on the host before there was storage, and what storage refused, never gets there: only an acknowledged
    backup begins a put.
    """

    def after_insert(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        """An insertion is no reason to put anything."""


@mutant("stored-outlives-the-storage", kills=("BACKUP-11",))
class StoredOutlivesTheStorage(PutQueue):
    """An exchanged storage stays empty: what the one before has counts as stored."""

    def detach(self) -> None:
        """What is under way ends, and nothing else."""
        stored = self.host.stored
        super().detach()
        self.host.stored = bytearray(STORED if one == STORED else UNSTORED for one in stored)
