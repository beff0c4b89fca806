"""The surroundings of several ranks of SGLang 0.5.13.post1: their groups, and each rank's storage."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT, Backend
from kvlitmus.conformance.adapters.sglang.common.network import Meetings, Member, Torch, about, current, told
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN, modules
from kvlitmus.spec.interface.ranks import Collective, Group, World

PAGE = 16


@functools.cache
def simulate() -> None:
    """Put the network in place, once."""
    modules().hiradix.torch = install(PLAN)(f"{SRT}.managers.cache_controller").torch = Torch()
    steps.Event.waited = told
    install(PLAN)(f"{SRT}.distributed.parallel_state").create_custom_parallel_group = make_group


class Building:
    """Which rank is being built, or attaches storage; SGLang asks for groups by the numbers of their members."""

    world: World
    rank: int
    meetings: Meetings
    together = True
    """Whether all ranks build at the same time, so that nobody has to wait."""


def make_group(*, group_ranks: Sequence[int], backend: str) -> Member:
    """``create_custom_parallel_group``: all ranks of the server meet, then each has its group."""
    del backend
    if not Building.together:
        current().enter(Collective(Group("world", Building.world.ranks), "barrier", about(1)))
    return Member(Group("storage", tuple(group_ranks)), Building.rank, Building.meetings)


def groups_of(world: World, rank: int, meetings: Meetings) -> dict[str, Foreign]:
    """The groups and numbers that a server gives to the cache of this rank."""

    def mine(*kinds: str) -> Member:
        """The group of one of these kinds, or one of this rank alone."""
        found = [one for kind in kinds for one in world.groups if one.kind == kind and rank in one.members]
        return Member(found[0] if found else Group(kinds[0], (rank,)), rank, meetings)

    stages = world.stages(rank)
    stage = next(at for at, one in enumerate(stages) if rank in one)
    along = Group("pp", tuple(one[stages[stage].index(rank)] for one in stages))
    return {
        "tp_cache_group": mine("attn", "tp"),
        "attn_tp_cache_group": mine("attn", "tp"),
        "attn_cp_cache_group": mine("cp"),
        "pp_cache_group": Member(along, rank, meetings),
        "pp_rank": stage,
        "pp_size": len(stages),
    }


class Storage(Backend):
    """One rank's storage: of a prefetch it has what the suite says, and reads as many pages as it says.

    ``answers``: how many pages it has, by request; ``readable``: how many may be read by now; ``broken``: the requests
    whose reading breaks off.
    """

    def __init__(self) -> None:
        self.torch = torch_module()
        self.answers: dict[int, int] = {}
        self.readable: Counter[int] = Counter()
        self.broken: set[int] = set()
        self.asked: Counter[int] = Counter()
        self.read: Counter[int] = Counter()

    def forget(self, rid: int) -> None:
        """Nothing is known of a request: its number comes again."""
        for known in (self.answers, self.readable, self.asked, self.read):
            known.pop(rid, None)
        self.broken.discard(rid)

    def batch_exists(self, keys: Sequence[str], _extra_info: object = None) -> int:
        """Whether the next page of the query is stored."""
        rid = self._rid(in_hand())
        self.asked[rid] += len(keys)
        return int(self.asked[rid] <= self.answers.get(rid, 0))

    def batch_get(self, keys: Sequence[str], _targets: object = None, _sizes: object = None) -> list[Foreign]:
        """The next page, once it may be read; none where reading breaks off."""
        thread, pages = in_hand(), []
        rid = self._rid(thread)
        for _ in keys:
            while not self.may_read(thread):
                thread.stop()
            self.read[rid] += 1
            pages.append(None if rid in self.broken else self.torch.zeros(2 * PAGE))
        return pages

    def batch_set(self, keys: Sequence[str], values: Sequence[Foreign]) -> bool:
        """All pages are stored."""
        return True

    def may_read(self, thread: steps.Thread) -> bool:
        """Whether another page may be read, or the operation is over anyway."""
        rid = self._rid(thread)
        return thread.hands.is_terminated() or rid in self.broken or self.read[rid] < self.readable[rid]

    def _rid(self, thread: steps.Thread) -> int:
        """The request that a thread has in hand."""
        return int(thread.hands.request_id)


def in_hand() -> steps.Thread:
    """The storage thread that runs this."""
    thread = steps.here()
    assert thread is not None
    return thread


class Answers(Meetings):
    """Where the storage threads of one tree's ranks meet, and for which requests the storage of each has answered."""

    def __init__(self, members: Sequence[int]) -> None:
        super().__init__()
        self.members = frozenset(members)
        self.known: dict[int, set[int]] = {}

    def answered(self, rid: int, rank: int) -> None:
        """The storage of this rank has answered."""
        self.known.setdefault(rid, set()).add(rank)

    def all_answered(self, rid: int) -> bool:
        """Whether the storage of all ranks has."""
        return self.known.get(rid, set()) >= self.members
