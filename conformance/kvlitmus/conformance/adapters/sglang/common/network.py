"""``torch.distributed`` for several ranks of SGLang in one process: each rank's calls stop where they would wait.

SGLang's calls block: a collective returns when all members of its group have entered it.  Here a call of the scheduler
runs on a thread of its own, and what it enters hands the baton back (:class:`Call`): exactly one thread runs at any
time, and a run is the same every time.  Who meets whom, and what comes out, is decided by whoever runs the ranks.

SGLang's storage threads reduce over groups of their own.  They are in no call, so they meet here, as soon as all
members have come (:class:`Meetings`); until then a thread stays where it is, as it would.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.steps import Gone
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, torch_module
from kvlitmus.spec.interface.ranks import Await, Collective, Exchange, Group, Receive, Send

REDUCED: Mapping[str, Callable[[Sequence[int]], int]] = {"min": min, "max": max, "sum": sum}
WAYS = frozenset(
    {
        "all_reduce",
        "barrier",
        "make_group",
        "_all_reduce",
        "_all_reduce_attn_groups",
        "_barrier_attn_groups",
        "_pp_sync",
    }
)
"""SGLang's functions that only pass a collective on; what it is about says the one that calls them."""


@dataclass(frozen=True)
class Member:
    """A process group, as one of its members has it; ``meetings``: where the storage threads of all ranks meet."""

    group: Group
    rank: int
    meetings: Meetings


class Meetings:
    """Where the storage threads of several ranks reduce: it happens when all members of a group have come."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, ...], dict[int, tuple[steps.Thread, Foreign, str]]] = {}

    def come(self, member: Member, thread: steps.Thread, tensor: Foreign, op: str) -> None:
        """A thread brings its numbers, and goes on when all others have brought theirs."""
        members = member.group.members
        there = self.waiting.setdefault(members, {})
        there[member.rank] = (thread, tensor, op)
        if len(there) < len(members):
            while member.rank in self.waiting[members] and self.waiting[members][member.rank][0] is thread:
                thread.stop()
            return
        columns = zip(*[numbers(brought) for _, brought, _ in there.values()], strict=True)
        values = [REDUCED[op](column) for column in columns]
        self.waiting[members] = {}
        for other, brought, _ in there.values():
            fill(brought, values)
            if other is not thread:
                other.resume()

    def waits(self, thread: steps.Thread) -> bool:
        """Whether a thread waits for others."""
        return any(thread is one for there in self.waiting.values() for one, _, _ in there.values())


class Call:
    """A blocking call of one rank, which stops wherever it enters something.

    ``copies``: which copies are over when an event is done that it may wait for.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.entered: Exchange | None = None
        self.copies: dict[int, Await] = {}
        self.values: tuple[int, ...] = ()
        self.answer: object = None
        self.error: BaseException | None = None
        self.gone = self.over = False
        self._go, self._stopped = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._stopped.acquire()
        self._carrier = _Caller(self)

    def go_on(self, values: tuple[int, ...] = ()) -> Exchange | None:
        """Go on until the next thing is entered, and say what that is; ``None`` when the call has ended."""
        self.values, self.entered = values, None
        if self._carrier.ident is None:
            self._carrier.start()
        else:
            self._go.release()
        self._stopped.acquire()
        if self.error is not None:
            raise self.error
        return self.entered

    def enter(self, one: Exchange) -> tuple[int, ...]:
        """Said by the call itself: wait for what comes out of this."""
        self.entered = one
        self._stopped.release()
        self._go.acquire()
        if self.gone:
            raise Gone
        return self.values

    def end(self) -> None:
        """Nobody goes on with this call: its thread ends where it stands."""
        if self._carrier.ident is not None and not self.over:
            self.gone = True
            self._go.release()
            self._stopped.acquire()

    def run(self) -> None:
        """The call itself."""
        try:
            self.answer = self.function()
        except Gone:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again where the call was made
            self.error = error
        self.over = True
        self._stopped.release()


class _Caller(threading.Thread):
    """What a :class:`Call` runs on."""

    def __init__(self, call: Call) -> None:
        super().__init__(daemon=True)
        self.call = call

    def run(self) -> None:
        self.call.run()


def calling() -> Call | None:
    """The call that runs this, if it is one."""
    carrier = threading.current_thread()
    return carrier.call if isinstance(carrier, _Caller) else None


def current() -> Call:
    """The call that runs this."""
    call = calling()
    assert call is not None, "a collective is entered in no call"
    return call


def told(event: steps.Event) -> None:
    """Somebody waits for copies: a call says which, as far as it knows."""
    call = calling()
    if call is not None and id(event) in call.copies:
        call.enter(call.copies[id(event)])


def numbers(tensor: Foreign) -> tuple[int, ...]:
    """What a tensor holds, in order."""
    return tuple(int(number) for number in tensor.reshape(-1).tolist())


def fill(tensor: Foreign, values: Sequence[int]) -> None:
    """Write into a tensor what came out."""
    tensor.copy_(torch_module().tensor(list(values), dtype=tensor.dtype).reshape(tensor.shape))


def about(many: int) -> tuple[str, ...]:
    """What the values are about, by the function of SGLang's that brings them."""
    frame = sys._getframe(1)  # noqa: SLF001 - the callers' names are wanted
    while frame.f_code.co_name in WAYS or frame.f_code.co_filename == __file__:
        assert frame.f_back is not None
        frame = frame.f_back
    return tuple(f"{frame.f_code.co_name} {at}" for at in range(many))


class Distributed:
    """What SGLang calls of ``torch.distributed``; anything else, and groups that are no :class:`Member`, is torch's."""

    def __init__(self) -> None:
        self.real = torch_module().distributed

    def __getattr__(self, name: str) -> Foreign:
        return getattr(self.real, name)

    def get_world_size(self, group: Foreign = None) -> int:
        """How many members."""
        return len(group.group.members) if isinstance(group, Member) else int(self.real.get_world_size(group=group))

    def get_rank(self, group: Foreign = None) -> int:
        """The place among the members."""
        if isinstance(group, Member):
            return group.group.members.index(group.rank)
        return int(self.real.get_rank(group=group))

    def get_process_group_ranks(self, group: Foreign) -> list[int]:
        """The members."""
        if isinstance(group, Member):
            return list(group.group.members)
        return list(self.real.get_process_group_ranks(group))

    def all_reduce(self, tensor: Foreign, op: Foreign = None, group: Foreign = None) -> None:
        """Reduce in place."""
        if not isinstance(group, Member):
            self.real.all_reduce(tensor, op=op, group=group)
            return
        name = {self.real.ReduceOp.MIN: "min", self.real.ReduceOp.MAX: "max", self.real.ReduceOp.SUM: "sum"}[op]
        thread = steps.here()
        if thread is not None:
            group.meetings.come(group, thread, tensor, name)
            return
        brought = numbers(tensor)
        fill(tensor, current().enter(Collective(group.group, name, about(len(brought)), brought)))

    def barrier(self, group: Foreign = None) -> None:
        """Wait for all members."""
        if isinstance(group, Member):
            current().enter(Collective(group.group, "barrier", about(1)))
        else:
            self.real.barrier(group=group)

    def recv(self, tensor: Foreign, *, group_src: int, group: Member, tag: int = 0) -> None:
        """Wait for the numbers of another member."""
        fill(tensor, current().enter(Receive(group.group.members[group_src])))

    def isend(self, tensor: Foreign, *, group_dst: int, group: Member, tag: int = 0) -> Foreign:
        """Send numbers to another member; that is done at once."""
        sent = numbers(tensor)
        current().enter(Send(group.group.members[group_dst], about(len(sent)), sent))
        return SimpleNamespace(is_completed=lambda: True)

    def destroy_process_group(self, group: Foreign = None) -> None:
        """Forget a group."""
        if not isinstance(group, Member):
            self.real.destroy_process_group(group)


class Torch:
    """``torch``, as a module of SGLang's sees it: with :class:`Distributed`."""

    def __init__(self) -> None:
        self.distributed = Distributed()

    def __getattr__(self, name: str) -> Foreign:
        return getattr(torch_module(), name)
