"""The ranks of a cache in as many processes, over groups of ``torch.distributed``: gloo, or NCCL where there are GPUs.

Each process holds the whole cache and runs one rank of it.  A call is a generator there as everywhere: what the rank
enters it says first, then enters for real.  So the judge sees who has entered what before anybody waits, and a
collective that not all enter is named at once.  What comes out of the real one is compared with what the judge expects.

The extra ``ranks`` brings torch.  A rank is lost when its process is killed, where that is wanted (``mortal``).  Its
group says so to the others, or its time is up: that they are told within the limit is judged.  A group of gloo doesn't
outlive its members, so nobody comes back: all begin anew, in new processes.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvlitmus.conformance.ports import Unsupported
from kvlitmus.spec.interface.ports import capabilities_of
from kvlitmus.spec.interface.ranks import (
    Ask,
    Decision,
    Exchange,
    GroupLost,
    Local,
    Prefix,
    RankView,
    StatesView,
    World,
)
from kvlitmus.spec.words.config import Config

SILENT = 20.0
"""Seconds after which a rank that says nothing is reported."""
GIVES_UP = 1800.0
"""Seconds after which a group of gloo gives up, as torch has it."""
TOLD = 10.0
"""Seconds after which it does where ranks can be lost; less than :data:`SILENT`."""
START = 300.0
"""Seconds that the processes have to import torch and find each other."""


class SilentRank(Exception):
    """A rank said nothing for too long, or its process is gone."""


class OtherValues(Exception):
    """What came out of a real collective is not what its members brought, reduced."""


class RaisedThere(Exception):
    """A rank raised something; the text is what."""


class Member:
    """The process of one rank."""

    def __init__(
        self, number: int, many: int, folder: Path, cache: object, seconds: float = GIVES_UP, backend: str = "gloo"
    ) -> None:
        self.number = number
        self.busy = False
        self.mine, theirs = Pipe()
        command = [sys.executable, "-m", "kvlitmus.conformance.adapters.process_groups.rank"]
        self.process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(number), str(many), str(folder / "store"), str(seconds), backend],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.PIPE,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        theirs.close()
        self.mine.send(cache)

    def hear(self, seconds: float) -> tuple[str, Any]:
        """What the rank says next; raises :class:`SilentRank`."""
        try:
            if self.mine.poll(seconds):
                what, value = self.mine.recv()
                return what, value
        except (EOFError, OSError) as error:
            raise SilentRank(f"the process of rank {self.number} has ended") from error
        raise SilentRank(f"rank {self.number} said nothing for {seconds:g} s")

    def done(self, *said: object) -> Any:
        """Have the rank do something that no other one is needed for; what it answers."""
        self.mine.send(said)
        what, value = self.hear(SILENT)
        if what == "raised":
            raise RaisedThere(value)
        if what == "impossible":
            raise NotImplementedError
        return value

    def end(self) -> None:
        """End the process, wherever it is."""
        self.process.kill()
        self.process.wait()
        self.mine.close()
        assert self.process.stdin is not None
        self.process.stdin.close()


class ProcessRanks:
    """The port :class:`~kvlitmus.spec.interface.ranks.Ranks` over processes, each of one rank."""

    def __init__(self, members: list[Member], silent: float, again: Callable[[], list[Member]] | None = None) -> None:
        self.members = members
        self.silent = silent
        self.again = again
        """New processes for those that were lost; none where ranks can't be lost."""

    def ranks_start(self, world: World) -> None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`; shapes of another size are not there."""
        if len(world.ranks) != len(self.members):
            raise NotImplementedError
        if self.again is not None and any(member.process.poll() is not None for member in self.members):
            self.members = self.again()
        for member in self.members:
            member.done("start", world)

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        member = self.members[rank]
        member.busy = True
        member.mine.send(("ask", ask))
        what, value = member.hear(self.silent)
        while what == "enters":
            try:
                expected = yield value
            except GroupLost:
                expected = None
            said, got = member.hear(self.silent)
            if said != "out":  # its group has told it that it can't end
                what, value = said, got
                continue
            if got != expected:
                raise OtherValues(f"rank {rank} got {got} out of {value}, where {expected} was expected")
            what, value = member.hear(self.silent)
        member.busy = False
        if what == "raised":
            raise RaisedThere(value)
        if what == "lost" and all(one.process.poll() is None for one in self.members):
            raise RaisedThere("a group gave up, though all ranks are there")
        if what == "lost":
            raise GroupLost
        decisions: tuple[Decision, ...] = value
        return decisions

    def ranks_local(self, event: Local) -> Sequence[Prefix] | None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`; a rank that is lost doesn't come back."""
        if event.what == "restart" or (event.what == "die" and self.again is None):
            raise NotImplementedError
        if event.what == "die":
            self.members[event.rank].process.kill()
            self.members[event.rank].process.wait()
            return None
        ended: Sequence[Prefix] | None = self.members[event.rank].done("local", event)
        return ended

    def ranks_view(self, rank: int) -> RankView | None:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksView`; ``None`` while a call on the rank has not ended."""
        view: RankView | None = None if self.members[rank].busy else self.members[rank].done("view", rank)
        return view


class StatedProcessRanks(ProcessRanks):
    """Those of a cache that keeps states."""

    def ranks_states(self, rank: int) -> StatesView | None:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksStates`; ``None`` while a call on the rank has not ended."""
        view: StatesView | None = None if self.members[rank].busy else self.members[rank].done("states", rank)
        return view


def gpus() -> int:
    """How many GPUs there are for ranks of NCCL."""
    import torch

    return torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0


class ProcessTarget:
    """A target whose ranks run in ``many`` processes; it ends them when it is left, or the program ends.

    ``inner``: the target that each process makes its cache of; it and what it makes of a configuration must be
    picklable.  ``silent``: seconds after which a rank that says nothing is reported.  ``mortal``: whether ranks can be
    lost; each time all processes are started anew, which takes seconds.  ``backend``: ``gloo``, or ``nccl``, which
    wants a GPU for each rank.
    """

    capabilities = frozenset({"ranks", "ranks_view"})

    def __init__(
        self, many: int, inner: Any = None, silent: float = SILENT, *, mortal: bool = False, backend: str = "gloo"
    ) -> None:
        if inner is None:
            from kvlitmus.conformance.specimen.cache import target as inner
        self.many, self.inner, self.silent, self.mortal = many, inner, silent, mortal
        self.profile, self.backend = inner.profile, backend
        self.members: list[Member] = []
        self.ranks: type[ProcessRanks] = ProcessRanks
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def make(self, config: Config) -> ProcessRanks:
        """The ranks, in processes that are kept as long as every call in them has ended.

        Raises :class:`~kvlitmus.conformance.ports.Unsupported` where NCCL has fewer GPUs than ranks.
        """
        if self.backend == "nccl" and (there := gpus()) < self.many:
            raise Unsupported(f"NCCL wants a GPU for each of {self.many} ranks; {there} are here")
        if self.members and any(member.busy or member.process.poll() is not None for member in self.members):
            self.end()
        if not self.members:
            self.start(self.inner.make(config))
        if not self.mortal:
            return self.ranks(self.members, self.silent)

        def again() -> list[Member]:
            self.end()
            self.start(self.inner.make(config))
            return self.members

        return self.ranks(self.members, self.silent, again)

    def start(self, cache: object) -> None:
        """Start the processes, and wait until they have found each other."""
        self.ranks = StatedProcessRanks if "rank_states" in capabilities_of(cache) else ProcessRanks
        self.folder = tempfile.TemporaryDirectory(prefix="kvlitmus-ranks-")
        atexit.register(self.end)
        seconds = TOLD if self.mortal else GIVES_UP
        folder = Path(self.folder.name)
        self.members = [Member(number, self.many, folder, cache, seconds, self.backend) for number in range(self.many)]
        for member in self.members:
            member.hear(START)

    def end(self) -> None:
        """End all processes."""
        atexit.unregister(self.end)
        for member in self.members:
            member.end()
        self.members = []
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


two = ProcessTarget(2)
"""The specimen over two processes."""
four = ProcessTarget(4)
"""The specimen over four processes."""
two_nccl = ProcessTarget(2, backend="nccl")
"""The specimen over two processes, each with a GPU, and groups of NCCL."""
