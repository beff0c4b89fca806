"""A small hierarchy on a bench: what it is, its transitions, and how it is put into a state and driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.reference import backup, fetch, life, load, put, tier
from kvlitmus.reference.hierarchy import DEVICE, HOST, Choices, Hierarchy, Operation, empty_hierarchy
from kvlitmus.spec.calls import Begin, End, Path, path_of
from kvlitmus.spec.config import Config
from kvlitmus.spec.interface import Begun
from kvlitmus.spec.interface.tiers import FETCH, LOAD, QUERY
from kvlitmus.spec.names import Names, page_names
from kvlitmus.spec.profile import Profile
from kvlitmus.spec.seen import Record
from kvlitmus.spec.setting import SNAPSHOT, Setting
from kvlitmus.spec.units import Key, Name, PageNo, Pages, RequestId, Tokens
from tests.proofs.support.tier_judge import Judge
from tests.proofs.tier_shown import Shower

SHOWN = frozenset(
    {"pool", "counters", "tree", "evict", "requests", "host", "tiers", "steps", "prefetching", "data", "copy_faults"}
    | {"layers", "quota", "reattach", "events"}
)
"""What of a hierarchy can be seen here.  It has no store of its own and no memory that runs out."""
NO_RECORD = Record()
"""Storage saw nothing."""
HOLDER = RequestId(9)
"""The request that goes on holding what it computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How small the hierarchy is, and what happens to it.

    ``keys``: all keys that are used.  ``prefetches``, ``backups``, ``loads``, ``puts``: how much may be under way at
    once, what is nobody's any more included.  ``holds``: whether a request may hold pages.  ``lives``: whether storage
    comes and goes and the cache is reset.  ``faults``: whether an allocation may fail although there is memory.
    ``failures``: whether copies between the tiers may fail, under way and where they are to begin.
    ``quotas``: limits that are set to load backs.  ``layers``: whether a load may stop between its layers.
    """

    pages: int = 3
    host_pages: int = 3
    page_size: int = 1
    keys: tuple[tuple[int, ...], ...] = ((1,), (1, 2), (1, 2, 3))
    prefetches: int = 2
    backups: int = 1
    loads: int = 1
    puts: int = 0
    holds: bool = False
    lives: bool = False
    faults: bool = False
    failures: bool = False
    quotas: tuple[int, ...] = ()
    layers: bool = False
    depth: int = 1_000
    choices: Choices = field(default_factory=lambda: Choices(threshold=1, rate_limit=100))

    @property
    def config(self) -> Config:
        """What is asked for."""
        choices = self.choices
        return Config(
            page_size=self.page_size,
            pages=self.pages,
            host_pages=self.host_pages,
            write=choices.write,
            storage="attached",
            stop=choices.stop,
            threshold=choices.threshold,
            rate_limit=choices.rate_limit,
        )

    @property
    def profile(self) -> Profile:
        """What is declared."""
        choices = self.choices
        return Profile(
            reserve=choices.reserve,
            backup_parent=choices.backup_parent,
            fill_matched=choices.fill_matched,
            load_threshold=choices.load_threshold,
            timeout=choices.timeout,
            timeout_basis=choices.timeout_basis,
            timeout_from=choices.timeout_from,
            restored_counts=choices.restored_counts,
        )


class Model:
    """The transitions of the reference; a planted slip replaces one."""

    def match(self, now: Hierarchy, names: tuple[Name, ...]) -> tuple[Hierarchy, int, int]:
        """How many pages are resident, and how many follow on the host alone."""
        after, pages, behind = tier.match(now, names, len(names) * now.setting.size)
        return after, len(pages), behind

    def begin(self, now: Hierarchy, path: Path) -> tuple[Hierarchy, Begun | None]:
        """A request begins."""
        return life.begin(now, Begin(HOLDER, path))

    def end(self, now: Hierarchy, keep: bool) -> Hierarchy:
        """It ends."""
        return life.end(now, End(HOLDER, keep))

    def load_back(
        self, now: Hierarchy, root: Name, names: tuple[Name, ...]
    ) -> tuple[Hierarchy, int, tuple[PageNo, ...] | None]:
        """See :func:`kvlitmus.reference.load.load_back`."""
        return load.load_back(now, root, names)

    def load_within(
        self, now: Hierarchy, root: Name, names: tuple[Name, ...], quota: int
    ) -> tuple[Hierarchy, int, tuple[PageNo, ...] | None]:
        """The same, within a quota."""
        return load.load_back(now, root, names, quota=Tokens(quota))

    def evict(self, now: Hierarchy, slots: int) -> tuple[Hierarchy, int]:
        """See :func:`kvlitmus.reference.tier.evict`."""
        after, freed, _ = tier.evict(now, Tokens(slots))
        return after, freed

    def evict_host(self, now: Hierarchy, pages: int) -> tuple[Hierarchy, int]:
        """See :func:`kvlitmus.reference.tier.evict_host`."""
        return tier.evict_host(now, Pages(pages))

    def submit(
        self, now: Hierarchy, rid: RequestId, root: Name, names: tuple[Name, ...], units: int
    ) -> tuple[Hierarchy, fetch.Submitted]:
        """See :func:`kvlitmus.reference.fetch.submit`."""
        return fetch.submit(now, rid, root, names, units)

    def answer(self, now: Hierarchy, job: int, hit: int) -> Hierarchy:
        """See :func:`kvlitmus.reference.fetch.answer`."""
        return fetch.answer(now, job, Pages(hit))

    def read(self, now: Hierarchy, job: int, pages: int, over: bool) -> Hierarchy:
        """See :func:`kvlitmus.reference.fetch.read`."""
        return fetch.read(now, job, pages, over=over)

    def poll(self, now: Hierarchy, rid: RequestId) -> tuple[Hierarchy, bool]:
        """See :func:`kvlitmus.reference.fetch.poll`."""
        return fetch.poll(now, rid)

    def abandon(self, now: Hierarchy, rid: RequestId) -> Hierarchy:
        """See :func:`kvlitmus.reference.fetch.abandon`."""
        return fetch.abandon(now, rid)

    def fail(self, now: Hierarchy, job: int) -> Hierarchy:
        """See :func:`kvlitmus.reference.backup.fail`."""
        return backup.fail(now, job)

    def land(self, now: Hierarchy, job: int) -> Hierarchy:
        """See :func:`kvlitmus.reference.backup.land`."""
        return backup.land(now, job)

    def copy_layers(self, now: Hierarchy, job: int, layers: int) -> Hierarchy:
        """See :func:`kvlitmus.reference.load.copy_layers`."""
        return load.copy_layers(now, job, layers)

    def accepted(self, now: Hierarchy, job: int, pages: int, over: bool) -> Hierarchy:
        """See :func:`kvlitmus.reference.put.accepted`."""
        return put.accepted(now, job, pages, over=over)

    def tick(self, now: Hierarchy) -> Hierarchy:
        """See :func:`kvlitmus.reference.life.tick`."""
        return life.tick(now)

    def detach(self, now: Hierarchy) -> tuple[Hierarchy, bool]:
        """See :func:`kvlitmus.reference.life.detach`."""
        return life.detach(now)

    def reset(self, now: Hierarchy) -> Hierarchy:
        """See :func:`kvlitmus.reference.life.reset`."""
        return life.reset(now)


class Bench:
    """One hierarchy with contents, put into a state and driven from there."""

    def __init__(self, scope: Scope, model: Model) -> None:
        self.scope = scope
        self.model = model
        self.table = Names()
        self.root = self.table.root(None)
        self.names = {key: self.table.of(None, key) for key in scope.keys}
        self.paged = {key: page_names(names, scope.page_size) for key, names in self.names.items()}
        self.paths = {key: path_of(self.table, Key(None, key), scope.page_size, row=True) for key in scope.keys}
        setting = Setting(scope.config, scope.profile, SNAPSHOT, SHOWN, self.table)
        self.now = empty_hierarchy(setting, scope.choices)._replace(storage=True)
        self.contents: dict[str, dict[PageNo, Name]] = {DEVICE: {}, HOST: {}}
        self.judge = Judge(setting, Shower(self.table, scope.keys, scope.page_size))

    def restore(self, state: Hierarchy) -> None:
        """Put everything into a state: each slot holds what the laws say, or nothing."""
        self.now = state
        missing = [one for one in state.transfers if one.failed or not one.landed]
        loading = {name for one in missing if one.kind == LOAD for name in one.names}
        device = {page.page: name for name, page in state.cache.tree.pages.items() if name not in loading}
        host = {copy.page: name for name, copy in state.host.copies.items() if copy.settled}
        for one in state.operations:
            if one.live:
                host.update(zip(one.held[: one.completed], one.names, strict=False))
        size = self.scope.page_size
        for request in state.cache.requests.values():
            for at, name in enumerate(page_names(request.path.names, size)):
                if at * size >= request.cached:
                    device[PageNo(request.row[at * size] // size)] = name
        self.contents = {DEVICE: device, HOST: host}

    def go(self, after: Hierarchy) -> None:
        """This is how it stands after a step: make the copies that it wants made."""
        for source, at, to in after.moved:
            content = self.contents[source].get(at)
            there = self.contents[HOST if source == DEVICE else DEVICE]
            if content is None:
                there.pop(to, None)
            else:
                there[to] = content
        self.now = after._replace(moved=())

    def did(self, call: Any, answer: Any, after: Hierarchy, record: Record = NO_RECORD) -> None:
        """A call was made and answered, and this is how it stands after it; the step is judged."""
        self.go(after)
        self.judge.observe(self.now, self.contents, call, answer, record)

    def compute(self, key: tuple[int, ...], hold: bool = False) -> None:
        """A request computes a key's KV, if there is memory for it."""
        path = self.paths[key]
        after, request = self.model.begin(self.now, path)
        self.did(Begin(HOLDER, path), request, after)
        if request is None:
            return
        size = self.scope.page_size
        for at, name in enumerate(self.paged[key]):
            if at * size >= request.cached:
                self.contents[DEVICE][PageNo(request.row[at * size] // size)] = name
        if not hold:
            self.end(True)

    def end(self, keep: bool) -> None:
        """The request ends."""
        self.did(End(HOLDER, keep), None, self.model.end(self.now, keep))

    def write(self, operation: Operation, pages: int) -> None:
        """Storage gives some pages of a fetch: they are written first, and counted then."""
        if operation.live:
            for at in range(operation.completed, operation.completed + pages):
                self.contents[HOST][operation.held[at]] = operation.names[at]

    def deliver(self) -> None:
        """Everything under way reaches its end, as well as it can."""
        for transfer in self.now.transfers:
            if not transfer.landed:
                self.go(self.model.land(self.now, transfer.id))
        for one in self.now.operations:
            if one.stage == QUERY:
                self.go(self.model.answer(self.now, one.job, len(one.names)))
        for one in self.now.operations:
            if one.stage == FETCH:
                pages = len(one.names) - one.completed if one.live else 0
                self.write(one, pages)
                self.go(self.model.read(self.now, one.job, pages, True))
        for waiting in self.now.puts:
            if not waiting.landed:
                self.go(self.model.accepted(self.now, waiting.id, len(waiting.names) - waiting.done, False))
        for rid in range(1, self.scope.prefetches + 1):
            self.go(self.model.poll(self.now, RequestId(rid))[0])
        self.go(self.model.tick(self.now))


Step = tuple[str, Callable[[], None]]
"""What a step is, in words, and the step."""
