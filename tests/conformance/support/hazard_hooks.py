"""Known hazards of SGLang 0.5.13.post1, each noted from SGLang's own state at the moment when it really happens.

A target of this module is one of SGLang's hierarchies with a hook: a look at its queues, nodes and free lists around
the one function in which the hazard happens.  Beside it stands a judge for whom a broken rule counts only if the
hazard has happened, at most :attr:`Mechanism.within` calls before; a schedule in which it hasn't is no counterexample.
Shrinking plays with the same judge, so what is left at the end still shows the hazard.

Used by ``tools/hazards.py``, in SGLang's environment and in its own process: in a worker the judge is the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.state_commits import commits_13
from kvlitmus.conformance.adapters.sglang.common.storage_hits import hits_13
from kvlitmus.conformance.adapters.sglang.v0_5_13.hicache import hiradix
from kvlitmus.conformance.adapters.sglang.v0_5_13.unified import unified
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import HarnessError

Note = Callable[[], None]
FOR_EVER = 1_000_000
NOT_YET = "a rule is broken, and the hazard has not happened, after"
"""What ends a schedule without a finding; the number of calls follows."""


class HazardChecker(Checker):
    """Counts a broken rule only shortly after the hazard has happened."""

    noted = 0
    last = -FOR_EVER

    def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
        """As ever, if the hazard has happened."""
        try:
            super().judge(occasions, inputs, unknown)
        except Violation:
            self.only_if_it_happened()
            raise

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """As ever; what a call raises counts, too, if the hazard has happened."""
        try:
            return super().call(text, method, *args, **kwargs)
        except Violation:
            self.only_if_it_happened()
            raise
        finally:
            self.look_up()

    def look_up(self) -> None:
        """Whether the hazard has happened since the last call."""
        happened = getattr(self.adapter, "happened", [])
        if len(happened) > self.noted:
            self.noted, self.last = len(happened), self.steps

    def only_if_it_happened(self) -> None:
        """Raise ``HarnessError``, which ends the schedule without a finding, if not.  Caches without a hook go on."""
        self.look_up()
        if hasattr(self.adapter, "happened") and self.steps - self.last > self.adapter.within:
            raise HarnessError(f"{NOT_YET} {self.steps} calls")


@dataclass(frozen=True)
class Mechanism:
    """A target with a hook.  ``within``: in how many calls after it happened a rule must be broken."""

    id: str
    hook: Callable[[Any, Note], None]
    says: str
    target: Any = hiradix
    within: int = FOR_EVER

    @property
    def profile(self) -> Any:
        """The target's."""
        return self.target.profile

    @property
    def configs(self) -> Any:
        """The target's."""
        return self.target.configs

    @property
    def capabilities(self) -> Any:
        """The target's."""
        return self.target.capabilities

    @property
    def version(self) -> Any:
        """The target's."""
        return getattr(self.target, "version", "")

    def make(self, config: Config) -> Any:
        """A fresh cache, hooked."""
        adapter = self.target.make(config)
        adapter.happened, adapter.within = [], self.within

        def note() -> None:
            adapter.happened.append(self.id)

        self.hook(adapter, note)
        if hasattr(adapter, "_build"):  # an attach may make the cache anew
            around(adapter, "_build", lambda: lambda _: self.hook(adapter, note))
        return adapter


def around(thing: Any, name: str, then: Callable[..., Callable[[Any], None]]) -> None:
    """Replace a method: ``then`` is called before it with its arguments, what that returns after it with its answer."""
    before = getattr(thing, name)

    def hooked(*args: Any, **kwargs: Any) -> Any:
        after = then(*args, **kwargs)
        answer = before(*args, **kwargs)
        after(answer)
        return answer

    setattr(thing, name, hooked)


def free_slots(adapter: Any) -> list[int]:
    """The host's free list."""
    return [int(slot) for slot in adapter.host.free_slots.tolist()]


def nodes(adapter: Any) -> Iterable[Any]:
    """Every node of the tree but the root."""
    waiting = list(adapter.cache.root_node.children.values())
    while waiting:
        node = waiting.pop()
        waiting += node.children.values()
        yield node


def reset_frees_what_threads_hold(adapter: Any, note: Note) -> None:
    """H-04: after a reset slots are free that the release queue or a thread still has."""

    def reset() -> Callable[[Any], None]:
        def after(_: Any) -> None:
            if set(adapter._moving()) & set(free_slots(adapter)):
                note()

        return after

    around(adapter.cache, "reset", reset)


def revocation_hits_another(adapter: Any, note: Note) -> None:
    """H-05: the drain of revocations strikes a prefetch from the books whose own query was not revoked."""
    refused: list[Any] = []

    def query(operation: Any) -> Callable[[Any], None]:
        def after(answer: Any) -> None:
            if answer[1] < adapter.controller.prefetch_threshold:
                refused.append(operation)

        return after

    def drain(**_: Any) -> Callable[[Any], None]:
        books, controller = adapter.cache.ongoing_prefetch, adapter.controller
        for rid in list(controller.prefetch_revoke_queue.queue):
            if rid in books and not any(books[rid][3] is one for one in refused):
                note()
        return lambda _: None

    around(adapter.controller, "_storage_hit_query", query)
    around(adapter.cache, "_drain_storage_control_queues_impl", drain)


def detach_frees_twice(adapter: Any, note: Note) -> None:
    """H-06: after the forced release of a detach the free list has a slot twice."""

    def release() -> Callable[[Any], None]:
        before = len(free_slots(adapter)) - len(set(free_slots(adapter)))

        def after(_: Any) -> None:
            if len(free_slots(adapter)) - len(set(free_slots(adapter))) > before:
                note()

        return after

    around(adapter.cache, "_force_release_pending_storage_ops", release)


def a_thread_dies(adapter: Any, note: Note) -> None:
    """H-07: a thread of the controller is dead, with an operation in hand."""

    def advance(*_: Any) -> Callable[[Any], None]:
        before = len(adapter._in_hands(alive=False))
        return lambda _: note() if len(adapter._in_hands(alive=False)) > before else None

    around(adapter, "advance", advance)


def anchor_is_above(adapter: Any, note: Note) -> None:
    """H-08: a prefetch has begun whose anchor ends before the match does."""
    matches: list[Any] = []

    def match(*_: Any) -> Callable[[Any], None]:
        return matches.append

    def prefetch(rid: str, last: Any, *_: Any) -> Callable[[Any], None]:
        found = matches[-1]
        matched = len(found.device_indices) + int(found.host_hit_length)
        deeper = matched > adapter._path(last).length
        return lambda _: note() if deeper and rid in adapter.cache.ongoing_prefetch else None

    around(adapter, "_match", match)
    around(adapter.cache, "prefetch_from_storage", prefetch)


def tenants_share_a_name(adapter: Any, note: Note) -> None:
    """H-13: pages of two namespaces are put under one name."""
    owners: dict[str, set[Any]] = {}

    def put(node: Any, *_: Any) -> Callable[[Any], None]:
        for name in node.hash_value or ():
            owners.setdefault(name, set()).add(node.key.extra_key)
            if len(owners[name]) > 1:
                note()
        return lambda _: None

    around(adapter.cache, "write_backup_storage", put)


def chain_begins_anew(adapter: Any, note: Note) -> None:
    """H-14: a node with names is put below one that has none."""

    def put(node: Any, *_: Any) -> Callable[[Any], None]:
        above = node.parent
        if node.hash_value and above is not adapter.cache.root_node and not above.hash_value:
            note()
        return lambda _: None

    around(adapter.cache, "write_backup_storage", put)


def commit_hangs_below_the_device(adapter: Any, note: Note) -> None:
    """H-28: a commit leaves a node with a host copy below one without."""

    def hanging() -> int:
        root = adapter.cache.root_node
        return sum(
            one.host_value is not None and one.parent is not root and one.parent.host_value is None
            for one in nodes(adapter)
        )

    def poll(*_: Any) -> Callable[[Any], None]:
        before = hanging()
        return lambda _: note() if hanging() > before else None

    around(adapter.cache, "check_prefetch_progress", poll)


def load_evicts_its_sources(adapter: Any, note: Note) -> None:
    """H-29: while a load back makes room, host slots are freed that it is going to read."""
    sources: set[int] = set()

    def load(node: Any, *_: Any, **__: Any) -> Callable[[Any], None]:
        while node.evicted:
            sources.update(int(slot) for slot in node.host_value.tolist())
            node = node.parent
        return lambda _: sources.clear()

    def free(indices: Any) -> Callable[[Any], None]:
        if sources & {int(slot) for slot in indices.tolist()}:
            note()
        return lambda _: None

    around(adapter.cache, "load_back", load)
    around(adapter.host, "free", free)


def bigrams_have_two_names(adapter: Any, note: Note) -> None:
    """H-61: the first page of a key is asked for under one name and put under another."""
    asked: dict[tuple[int, ...], str] = {}
    stored: dict[tuple[int, ...], str] = {}

    def known(books: dict[tuple[int, ...], str], tokens: Iterable[int], name: str) -> None:
        first = tuple(tokens)[: adapter.config.page_size + 1]
        books.setdefault(first, name)
        if first in asked and first in stored and asked[first] != stored[first]:
            note()

    def put(node: Any, *_: Any, **__: Any) -> Callable[[Any], None]:
        if node.parent is adapter.cache.root_node and node.hash_value:
            known(stored, adapter._path(node).tokens, node.hash_value[0])
        return lambda _: None

    def query(operation: Any) -> Callable[[Any], None]:
        names: list[str] = []
        backend = adapter.backend
        look = backend.batch_exists

        def noted(keys: Any, *more: Any) -> Any:
            names.extend(keys)
            return look(keys, *more)

        backend.batch_exists = noted

        def after(_: Any) -> None:
            backend.batch_exists = look
            of = adapter._asked.get(id(operation))
            if of is not None and not of.matched and names:
                known(asked, of.key.tokens, names[0])

        return after

    around(adapter.cache, "write_backup_storage", put)
    around(adapter.controller, "_storage_hit_query", query)


def trailing(adapter: Any, note: Note, wrong: Callable[[int, int, list[bool]], bool]) -> None:
    """Look at each hit of storage: its pages, a pool's pages before a boundary, and which of those are stored."""

    def asked(keys: Any, transfers: Any = None, *_: Any) -> Callable[[Any], None]:
        def after(result: Any) -> None:
            pages = int(result.kv_hit_pages)
            for one in transfers or []:
                many = max(1, len(one.keys))
                last = [f"{key}.{one.name}.bin" in adapter.there for key in keys[max(0, pages - many) : pages]]
                if pages and wrong(pages, many, last):
                    note()

        return after

    around(adapter.store, "batch_exists_v2", asked)


def a_pool_lacks_the_boundary(adapter: Any, note: Note) -> None:
    """H-17: the pages found usable end where some pool can't be restored, however short its window may be there."""
    trailing(adapter, note, lambda _pages, _many, last: not all(last))


def a_window_is_clipped(adapter: Any, note: Note) -> None:
    """H-18: fewer pages are found usable than a window has, and what is there of it counts as all of it."""
    trailing(adapter, note, lambda pages, many, last: pages < many and all(last))


def a_state_is_under_a_shorter_key(adapter: Any, note: Note) -> None:
    """H-26: the node that a commit made has the state that was read, and ends before what that was stored for."""

    def committed(asked: int, *_: Any) -> Callable[[Any], None]:
        def after(done: Any) -> None:
            if done.state is not None and done.node < asked:
                note()

        return after

    around(adapter.published, "commit", committed)


H_04 = Mechanism("H-04", reset_frees_what_threads_hold, "slots are free that a queue or a thread still has", within=4)
H_05 = Mechanism("H-05", revocation_hits_another, "a prefetch is struck whose own query was not revoked", within=1)
H_06 = Mechanism("H-06", detach_frees_twice, "the free list has a slot twice after a detach", within=1)
H_07 = Mechanism("H-07", a_thread_dies, "a thread is dead with an operation in hand")
H_08 = Mechanism("H-08", anchor_is_above, "a prefetch has begun behind the end of its anchor", within=0)
H_13 = Mechanism("H-13", tenants_share_a_name, "two namespaces put pages under one name")
H_14 = Mechanism("H-14", chain_begins_anew, "a node with names is put below one without")
H_17 = Mechanism(
    "H-17", a_pool_lacks_the_boundary, "storage's hit ends where some pool can't be restored", target=hits_13, within=0
)
H_18 = Mechanism(
    "H-18",
    a_window_is_clipped,
    "storage's hit is shorter than the window that counts as whole",
    target=hits_13,
    within=0,
)
H_26 = Mechanism(
    "H-26",
    a_state_is_under_a_shorter_key,
    "a state is on a node that ends before what it was stored for",
    target=commits_13,
    within=0,
)
H_28 = Mechanism("H-28", commit_hangs_below_the_device, "a host copy hangs below a page without one")
H_29 = Mechanism("H-29", load_evicts_its_sources, "a load's own sources are freed while it makes room", within=4)
H_61 = Mechanism("H-61", bigrams_have_two_names, "a page has one name when asked for, another when put", target=unified)

MECHANISMS = {one.id: one for one in (H_04, H_05, H_06, H_07, H_08, H_13, H_14, H_17, H_18, H_26, H_28, H_29, H_61)}
