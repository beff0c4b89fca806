"""A small hierarchy on a bench: what it is, its transitions, and how it is put into a state and driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kvlitmus.reference.prefix import event
from kvlitmus.reference.prefix.hierarchy import DEVICE, HOST, empty_hierarchy, under_way, works_of
from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.interface.tiers import DONE, FETCH, LOAD, PUT, QUERY, Outcome
from kvlitmus.spec.law.step import Step as Made
from kvlitmus.spec.prefix.calls import Begin, End, path_of
from kvlitmus.spec.prefix.own_work import Operation
from kvlitmus.spec.prefix.seen import Record
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.prefix.work_calls import Advance, Attach, Poll, Tick
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names, page_names
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, RequestId
from tests.proofs.support.tier_judge import Judge
from tests.proofs.support.tier_shown import Shower

SHOWN = frozenset(
    {
        "pool",
        "counters",
        "lookup",
        "inspect",
        "tree",
        "evict",
        "requests",
        "host",
        "tiers",
        "steps",
        "prefetching",
        "data",
        "copy_faults",
    }
    | {"layers", "quota", "reattach", "events"}
)
"""What of a hierarchy can be seen here.  It has no store of its own and no memory that runs out."""
NO_RECORD = Record()
"""Storage saw nothing."""
HOLDER = RequestId(9)
"""The request that goes on holding what it computed."""


ASKED, PROFILE = Config(threshold=1, rate_limit=100), Profile()
"""What is asked for and declared, unless a scope says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How small the hierarchy is, and what happens to it.

    ``keys``: all keys that are used.  ``prefetches``, ``backups``, ``loads``, ``puts``: how much may be under way at
    once, what is nobody's any more included.  ``holds``: whether a request may hold pages.  ``lives``: whether storage
    comes and goes and the cache is reset.  ``faults``: whether an allocation may fail although there is memory.
    ``failures``: whether copies between the tiers may fail, under way and where they are to begin.
    ``quotas``: limits that are set to load backs.  ``layers``: whether a load may stop between its layers.
    ``asked``, ``profile``: what is asked for beside the sizes, and what is declared.
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
    asked: Config = ASKED
    profile: Profile = PROFILE

    @property
    def config(self) -> Config:
        """What is asked for, of this size."""
        return replace(
            self.asked, page_size=self.page_size, pages=self.pages, host_pages=self.host_pages, storage="attached"
        )


class Model:
    """The reference; a planted slip does something else at some call."""

    def perform(self, now: State, setting: Setting, call: Any) -> Made[State]:
        """See :func:`kvlitmus.reference.prefix.perform.perform`."""
        return perform(now, setting, call)


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
        self.setting = setting = Setting(scope.config, scope.profile, SNAPSHOT, SHOWN, self.table)
        self.now = perform(empty_hierarchy(setting), setting, Attach()).after
        self.contents: dict[str, dict[PageNo, Name]] = {DEVICE: {}, HOST: {}}
        self.judge = Judge(setting, Shower(setting, scope.keys))

    def restore(self, state: State) -> None:
        """Put everything into a state: each slot holds what the laws say, or nothing."""
        self.now = state
        below = works_of(state)
        missing = [one for one in below.transfers if one.failed or not one.landed]
        loading = {name for one in missing if one.kind == LOAD for name in one.names}
        device = {page.page: name for name, page in state.device.pages.items() if name not in loading}
        host = {copy.page: name for name, copy in state.host.pages.items() if name in below.settled}
        for one in below.operations:
            if one.live:
                host.update(zip(one.held[: one.completed], one.names, strict=False))
        size = self.scope.page_size
        for request in state.requests.values():
            for at, name in enumerate(page_names(request.path.names, size)):
                if at * size >= request.cached:
                    device[PageNo(request.row[at * size] // size)] = name
        self.contents = {DEVICE: device, HOST: host}

    def go(self, call: Any) -> Any:
        """Make a call, and the copies that it wants made; returns the answer."""
        step = self.model.perform(self.now, self.setting, call)
        for source, at, to in event.moves(self.now, step.after):
            content = self.contents[source].get(at)
            there = self.contents[HOST if source == DEVICE else DEVICE]
            if content is None:
                there.pop(to, None)
            else:
                there[to] = content
        self.now = step.after
        return step.answer

    def did(self, call: Any, record: Record = NO_RECORD) -> Any:
        """Make a call; the step is judged.  Returns the answer."""
        answer = self.go(call)
        self.judge.observe(self.now, self.contents, call, answer, record)
        return answer

    def compute(self, key: tuple[int, ...], hold: bool = False) -> None:
        """A request computes a key's KV, if there is memory for it."""
        request = self.did(Begin(HOLDER, self.paths[key]))
        if request is None:
            return
        size = self.scope.page_size
        for at, name in enumerate(self.paged[key]):
            if at * size >= request.cached:
                self.contents[DEVICE][PageNo(request.row[at * size] // size)] = name
        if not hold:
            self.did(End(HOLDER, True))

    def write(self, operation: Operation, pages: int) -> None:
        """Storage gives some pages of a fetch: they are written first, and counted then."""
        if operation.live:
            for at in range(operation.completed, operation.completed + pages):
                self.contents[HOST][operation.held[at]] = operation.names[at]

    def deliver(self) -> None:
        """Everything under way reaches its end, as well as it can."""
        for transfer in under_way(self.now, *COPIES):
            if not transfer.landed:
                self.go(Advance(transfer.id, DONE))
        for one in works_of(self.now).operations:
            if one.stage == QUERY:
                self.go(Advance(one.job, DONE))
        for one in works_of(self.now).operations:
            if one.stage == FETCH:
                pages = len(one.names) - one.completed if one.live else 0
                self.write(one, pages)
                self.go(Advance(one.job, Outcome("short", pages)))
        for waiting in under_way(self.now, PUT):
            if not waiting.landed:
                self.go(Advance(waiting.id, DONE))
        for rid in range(1, self.scope.prefetches + 1):
            self.go(Poll(rid))
        self.go(Tick())


Step = tuple[str, Callable[[], None]]
"""What a step is, in words, and the step."""
