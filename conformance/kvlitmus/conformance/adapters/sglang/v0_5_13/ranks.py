"""SGLang 0.5.13.post1: several ranks that each have a ``HiRadixCache``, in one process, on a CPU.

Target:

``ranks`` (also the module itself)
    For each rank a ``HiRadixCache`` with its controller, pools and storage threads, as published, in every shape of
    tensor, context, attention and pipeline parallelism.

What is replaced, besides what is for one rank (:mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.environment`):

* ``torch.distributed`` inside the tree's and the controller's module
  (:mod:`kvlitmus.conformance.adapters.sglang.common.network`), and the function that makes the storage threads' groups.
  Groups are given as a server gives them: with attention data parallelism its own groups, with pipeline parallelism one
  group along the stages.
* The storage: it has of a prefetch what the suite says, and reads as many pages as it says.  Threads go on as far as
  they can between two steps of the suite: a query waits for its answer, and reading for its pages.

What the scheduler does around the tree is played in its order.  ``insert`` is a request that was computed: its prefix
is locked, memory is allocated, evicting where there is too little, and what fits is cached.  ``acks`` is
``check_hicache_events``; of that, the queues of the storage threads are emptied with every call that has to do with
storage.

A page of the suite's is one of 16 tokens here: SGLang loads nothing back that is shorter than 10.  One operation
copies several pages, and they end together.  Copies of one direction share a stream, and queries and reads a thread, so
they end in the order in which they began; what storage has is a prefix, for there is only KV.  Nobody else takes pages
of the host pool, and a rank can't be lost.  What ranks can't meet with is refused (``NotImplementedError``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Generator
from dataclasses import dataclass

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import BackendFactory
from kvlitmus.conformance.adapters.sglang.common.network import Call, current
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer
from kvlitmus.conformance.adapters.sglang.common.tree import walk
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_13.hicache import HICACHE_PROFILE, HiRadix
from kvlitmus.conformance.adapters.sglang.v0_5_13.rank_environment import (
    PAGE,
    Answers,
    Building,
    Storage,
    groups_of,
    simulate,
)
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.ranks import (
    RANK_PORTS,
    Ask,
    Await,
    Decision,
    Exchange,
    Local,
    Prefix,
    RankView,
    World,
)
from kvlitmus.spec.words.units import Key

WAITED = {"write": "wrote", "load": "loaded"}
CONFIGS = tuple(Config(pool="ranks", pages=8, stop=stop) for stop in ("wait_complete", "timeout", "best_effort"))


@dataclass(slots=True)
class Reading:
    """A prefetch: SGLang's operation, the pages that it took memory for, and where those lie that are neither cached
    nor free; ``noted``: what storage has of it was told; ``over``: it was ended or given up.
    """

    operation: Foreign
    pages: tuple[Prefix, ...]
    slots: list[int]
    noted: bool = False
    over: bool = False


class Rank(HiRadix):
    """One rank: a ``HiRadixCache`` of its own, called as its scheduler calls it."""

    def __init__(self, world: World, number: int, meetings: Answers) -> None:
        self.world, self.number, self.meetings = world, number, meetings
        self.copies: dict[str, dict[int, tuple[Prefix, ...]]] = {"write": {}, "load": {}}
        self.reads: dict[int, Reading] = {}
        self.released: set[int] = set()
        self.fetched: list[int] = []
        self.storage = Storage()
        super().__init__(
            Config(
                page_size=PAGE,
                pages=world.pages,
                host_pages=world.host_pages,
                storage="attached",
                threshold=PAGE,
                rate_limit=PAGE * world.host_pages,
                stop=world.stop,
            )
        )
        self.attach_storage()

    def _make_cache(self) -> Foreign:
        cache = super()._make_cache()
        attach, fetched = cache._insert_helper_host, self.fetched  # noqa: SLF001 - how much is committed is said there alone

        def watched(node: Foreign, key: Foreign, *args: Foreign) -> Foreign:
            fetched.append(len(key))
            return attach(node, key, *args)

        cache._insert_helper_host = watched  # noqa: SLF001
        return cache

    def _params(self, **more: object) -> Foreign:
        return super()._params(**more, **groups_of(self.world, self.number, self.meetings))

    def _extra_config(self) -> str:
        limit = {"prefetch_timeout_base": self.world.limit, "prefetch_timeout_per_ki_token": 0}
        return json.dumps({"prefetch_threshold": PAGE, **limit})

    def attach_storage(self) -> bool:
        """``attach_storage_backend``."""
        steps.Rig.current, BackendFactory.made = self.rig, self.storage
        Building.rank, Building.world, Building.meetings = self.number, self.world, self.meetings
        if not self._attach():
            return False
        self.controller.prefetch_capacity_limit = self.config.rate_limit
        return True

    # -- calls ---------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> list[Decision]:
        """Make a call, as the scheduler makes it."""
        decide = getattr(self, f"ask_{ask.what}", None)
        if decide is None:
            raise NotImplementedError
        decided: list[Decision] = decide(ask)
        self.go_on()
        return decided

    def ask_match(self, ask: Ask) -> list[Decision]:
        """``match_prefix``."""
        return [Decision("match", "device", (ask.key[: self.resident(ask.key)],))]

    def ask_evict(self, ask: Ask) -> list[Decision]:
        """``evict``."""
        return [self.evicting(ask.pages * PAGE)]

    def ask_insert(self, ask: Ask) -> list[Decision]:
        """``get_new_batch_prefill`` and ``cache_finished_req``: lock, make room, allocate, insert, unlock."""
        found = self._find(key_of(ask.key))
        there, host = len(found.device_indices) // PAGE, self.on("host_value")
        locked = self.cache.inc_lock_ref(found.last_device_node)
        room = self.allocator.available_size() + self.cache.evictable_size()
        missing = pages_of(ask.key)[there : there + room // PAGE]
        victims = self.evicting(len(missing) * PAGE - self.allocator.available_size())
        fresh = self.allocator.alloc(len(missing) * PAGE) if missing else None
        if fresh is not None:
            slots = [*found.device_indices.tolist(), *fresh.tolist()]
            self._insert(key_of(missing[-1]), slots, priority=0, chunked=False)
        elif there:
            self._insert(key_of(ask.key[:there]), found.device_indices.tolist(), priority=0, chunked=False)
        self.cache.dec_lock_ref(found.last_device_node, locked.to_dec_params())
        now = self.on("host_value")
        return [
            victims,
            Decision("commit", "device", missing if fresh is not None else ()),
            Decision("victims", "host", tuple(page for page in host if page not in now)),
            *self.writing(),
        ]

    def writing(self) -> list[Decision]:
        """The copies to the host that have begun since one looked."""
        begun = []
        for number, (node, units, _) in self.cache.ongoing_write_through.items():
            if number not in self.copies["write"]:
                path = self._path(node).tokens[::PAGE]
                self.copies["write"][number] = pages_of(path)[-(units // PAGE) :]
                begun.append(Decision("grant", "write", self.copies["write"][number]))
        return begun

    def ask_acks(self, ask: Ask) -> list[Decision]:
        """``check_hicache_events``, and the next batch may begin."""
        queues = {"write": self.controller.ack_write_queue, "load": self.controller.ack_load_queue}
        current().copies = {
            id(ack.finish_event): Await(WAITED[kind], self.copies[kind][ack.node_ids[-1]])
            for kind, queue in queues.items()
            for ack in queue
        }
        self.cache.check_hicache_events()
        self.see_freed()
        self._start_loads()
        return [self.over("write", self.cache.ongoing_write_through), self.over("load", self.cache.ongoing_load_back)]

    def over(self, kind: str, ongoing: dict[int, Foreign]) -> Decision:
        """The copies of one direction that count as ended now."""
        ended = [number for number in self.copies[kind] if number not in ongoing]
        return Decision("ack", kind, tuple(page for number in ended for page in self.copies[kind].pop(number)))

    def ask_load(self, ask: Ask) -> list[Decision]:
        """``PrefillAdder.add_one_req``: match, lock what is resident, ``init_load_back``; then the batch begins."""
        device = self.on("value")
        found = self._find(key_of(ask.key))
        there = len(found.device_indices) // PAGE
        back: Foreign = ()
        if found.host_hit_length:
            locked = self.cache.inc_lock_ref(found.last_device_node)
            back = self._load_back(found)
            self.cache.dec_lock_ref(found.last_device_node, locked.to_dec_params())
        pages = pages_of(ask.key)[there : there + len(back) // PAGE]
        if pages:
            self.copies["load"][found.best_match_node.id] = pages
        now = self.on("value")
        self._start_loads()
        victims = tuple(page for page in device if page not in now)
        return [Decision("victims", "device", victims), Decision("grant", "load", pages)]

    def ask_prefetch(self, ask: Ask) -> list[Decision]:
        """``Scheduler._prefetch_kvcache``."""
        self.drain()
        host = self.on("host_value")
        begun = self.prefetch(ask.rid, Key(None, tokens_of(ask.key), False))
        pages: tuple[Prefix, ...] = ()
        if begun.started:
            first = begun.matched // PAGE
            pages = pages_of(ask.key)[first : first + begun.asked // PAGE]
            self.forget(ask.rid)
            operation = self.cache.ongoing_prefetch[str(ask.rid)][3]
            self.reads[ask.rid] = Reading(operation, pages, operation.host_indices[::PAGE].tolist())
        now = self.on("host_value")
        victims = tuple(page for page in host if page not in now)
        return [Decision("victims", "host", victims), Decision("grant", "read", pages)]

    def forget(self, rid: int) -> None:
        """The storage knows nothing yet of this prefetch, whatever it said to one of the same request before."""
        self.released.discard(rid)
        self.meetings.known.pop(rid, None)
        self.storage.forget(rid)

    def ask_hit(self, ask: Ask) -> list[Decision]:
        """The storage threads meet where the storage of every rank has answered; the scheduler sees what came of it."""
        one = self.reads.get(ask.rid)
        if one is not None and self.meetings.all_answered(ask.rid):
            self.released.add(ask.rid)
            self.go_on()
        self.drain()
        decided = []
        if one is not None and not one.noted and not one.over and ask.rid in self.released:
            one.noted, one.pages = True, one.pages[: len(one.operation.hash_value)]
            one.over = not one.pages
            decided.append(Decision("grant", "hit", one.pages))
        self.drain()
        return decided

    def ask_poll(self, ask: Ask) -> list[Decision]:
        """``check_prefetch_progress``."""
        one = self.reads.get(ask.rid)
        before = str(ask.rid) in self.cache.ongoing_prefetch
        self.poll(ask.rid)
        decided = []
        if one is not None and before and str(ask.rid) not in self.cache.ongoing_prefetch:
            one.over, many = True, self.fetched[-1] // PAGE
            given = one.operation.host_indices[: many * PAGE : PAGE].tolist()
            one.slots = [slot for slot in one.slots if slot not in given]
            decided = [Decision("commit", "kv", one.pages[:many]), Decision("commit", "window", ())]
        self.go_on()
        self.drain()
        return decided

    def ask_abort(self, ask: Ask) -> list[Decision]:
        """``release_aborted_request``."""
        self.drain()
        self.cache.release_aborted_request(str(ask.rid))
        if ask.rid in self.reads:
            self.reads[ask.rid].over = True
        self.go_on()
        self.drain()
        return []

    def evicting(self, many: int) -> Decision:
        """``evict``, of so many tokens; what went, the least recently used first."""
        before = self.on("value")
        if many > 0:
            self.evict(many)
        now = self.on("value")
        return Decision("victims", "device", tuple(page for page in before if page not in now))

    def resident(self, key: Prefix) -> int:
        """How many pages of a key ``match_prefix`` finds on the device."""
        return len(self._find(key_of(key)).device_indices) // PAGE

    def drain(self) -> None:
        """What of ``check_hicache_events`` empties the queues of the storage threads."""
        if self.cache.enable_storage:
            self.cache.drain_storage_control_queues()
        self.see_freed()

    def see_freed(self) -> None:
        """What prefetches held and is free now is theirs no longer."""
        free = set(self.host.free_slots.tolist())
        for rid, one in list(self.reads.items()):
            one.slots = [slot for slot in one.slots if slot not in free]
            if one.over and not one.slots:
                del self.reads[rid]

    # -- the storage threads -------------------------------------------------------------------

    def go_on(self) -> None:
        """The storage threads of this rank go on as far as they can."""
        while any(self.goes_on(thread) for thread in list(self.rig.threads)):
            pass

    def goes_on(self, thread: steps.Thread) -> bool:
        """Let a thread go on to its next stop, unless it waits for others or for the suite; whether it did."""
        if not thread.alive or self.meetings.waits(thread):
            return False
        if thread.queue is None:
            ready = self.storage.may_read(thread)
        else:
            first = next(iter(thread.queue.queue), None)
            ready = first is not None and (
                thread.queue is not self.controller.prefetch_queue
                or first.is_terminated()
                or int(first.request_id) in self.released
            )
        if ready:
            thread.resume()
        return ready

    # -- what happens to this rank alone -----------------------------------------------------

    def local(self, event: Local) -> tuple[Prefix, ...]:
        """Something happens to this rank alone; the pages whose copy ended."""
        if event.what in ("wrote", "loaded"):
            return self.end_copy("write" if event.what == "wrote" else "load", event.key)
        happen = {"found": self.answer, "read": self.may_read, "failed": self.break_off, "clock": self.set_time}
        if event.what not in happen:
            raise NotImplementedError
        happen[event.what](event)
        self.go_on()
        return ()

    def end_copy(self, kind: str, page: Prefix) -> tuple[Prefix, ...]:
        """The stream comes to the end of an operation, if that is the next one."""
        queue = self.controller.ack_write_queue if kind == "write" else self.controller.ack_load_queue
        number = next((number for number, pages in self.copies[kind].items() if page in pages), -1)
        first = next((ack for ack in queue if not ack.finish_event.query()), None)
        if first is None or number not in first.node_ids:
            raise NotImplementedError
        first.finish_event.synchronize()
        return self.copies[kind][number]

    def answer(self, event: Local) -> None:
        """Storage answers a query: the first one that is open, with a prefix."""
        many = len(event.boundaries)
        open_ones = [rid for rid, one in self.reads.items() if not one.over and rid not in self.released]
        if open_ones[:1] != [event.rid] or tuple(event.boundaries) != tuple(range(1, many + 1)):
            raise NotImplementedError
        self.storage.answers[event.rid] = many
        self.meetings.answered(event.rid, self.number)

    def reading_now(self, rid: int) -> Foreign:
        """The operation of a request, which a thread is reading; raises where none is."""
        operation = self.reads[rid].operation if rid in self.reads else None
        if operation is None or not any(thread.hands is operation for thread in self.rig.threads):
            raise NotImplementedError
        return operation

    def may_read(self, event: Local) -> None:
        """So many pages of a prefetch can be read by now."""
        known = self.storage.readable[event.rid]
        if event.pages != known:
            self.reading_now(event.rid)
        self.storage.readable[event.rid] = event.pages

    def break_off(self, event: Local) -> None:
        """The next page of a prefetch can't be read."""
        self.reading_now(event.rid)
        self.storage.broken.add(event.rid)

    def set_time(self, event: Local) -> None:
        """This rank's clock."""
        self.set_clock(event.pages)

    # -- looking -------------------------------------------------------------------------------

    def on(self, tier: str) -> tuple[Prefix, ...]:
        """The pages that have memory on a tier, the least recently used first."""
        paths: list[Prefix] = []
        found = []
        for parent, node in walk(self.cache.root_node):
            above = paths[parent] if parent >= 0 else ()
            paths.append(above + tuple(node.key.token_ids[::PAGE]))
            if getattr(node, tier) is not None:
                pages = pages_of(paths[-1])[len(above) :]
                found += [(node.last_access_time, len(page), page) for page in pages]
        return tuple(page for _, _, page in sorted(found))

    def looks(self) -> RankView:
        """What this rank has; a page is on a tier as soon as its copy begins."""
        return RankView(
            self.on("value"),
            self.on("host_value"),
            (),
            (),
            self.held(),
            (),
            self.allocator.available_size() // PAGE,
            self.host.available_size() // PAGE,
            self.world.window_pages,
        )

    def held(self) -> tuple[tuple[int, tuple[Prefix, ...], int], ...]:
        """The pages that prefetches hold.

        Those that wait to be freed are freed one after the other, and which comes first is each rank's own; so what is
        held is told as held by the first prefetches, the rest, which no request is known for, under -1.
        """
        left, found = sum(len(one.slots) for one in self.reads.values()), []
        for rid, one in sorted(self.reads.items()):
            if not one.over:
                found.append((rid, one.pages[:left], 0))
                left -= len(one.pages[:left])
        return (*found, (-1, ((),) * left, 0)) if left else tuple(found)


def pages_of(key: Prefix) -> tuple[Prefix, ...]:
    """The pages of a key, from the first one on."""
    return tuple(tuple(key[:at]) for at in range(1, len(key) + 1))


def tokens_of(key: Prefix) -> tuple[int, ...]:
    """The tokens of a key: each page's number, 16 times."""
    return tuple(page for page in key for _ in range(PAGE))


def key_of(key: Prefix) -> Key:
    """A key of the suite's as the adapters of one rank have it."""
    return Key(None, tokens_of(key), False)


class RankedHiRadix:
    """All ranks, behind the ports."""

    def __init__(self, config: Config) -> None:
        del config  # each world says its sizes
        simulate()
        self.ranks: dict[int, Rank] = {}

    def ranks_start(self, world: World) -> None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        for rank in self.ranks.values():
            rank.rig.close()
        meetings = [Answers(world.tree(at)) for at in range(len(world.trees))]
        trees = {rank: at for at in range(len(world.trees)) for rank in world.tree(at)}
        self.ranks = {number: Rank(world, number, meetings[trees[number]]) for number in world.ranks}

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], list[Decision]]:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        call = Call(functools.partial(self.ranks[rank].ask, ask))
        try:
            entered = call.go_on()
            while entered is not None:
                entered = call.go_on((yield entered))
        finally:
            call.end()
        return call.answer  # type: ignore[return-value]  # what the call answered, which is what ask() does

    def ranks_local(self, event: Local) -> tuple[Prefix, ...]:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        return self.ranks[event.rank].local(event)

    def ranks_view(self, rank: int) -> RankView:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksView`."""
        return self.ranks[rank].looks()


ranks = Peer(
    plan=PLAN,
    profile=HICACHE_PROFILE,
    capabilities=frozenset(RANK_PORTS),
    build=RankedHiRadix,
    configs=CONFIGS,
    pool="ranks",
)

profile = ranks.profile
capabilities = ranks.capabilities
make = ranks.make
