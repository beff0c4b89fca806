"""The program of one rank: it says what it enters, enters it for real, and says what came out.

Started with the number of a connection, of its rank, of all ranks, a file by which the processes find each other,
the seconds after which a group gives up, and what its groups are made with: ``gloo``, or ``nccl`` with a GPU for each
rank.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from kvlitmus.conformance.support.text import raised_text
from kvlitmus.spec.interface.ranks import Ask, Await, Exchange, Group, GroupLost, Receive, Send, worlds


class Links:
    """The real groups of this process, and its messages."""

    def __init__(self, number: int, many: int, store: str, seconds: float, backend: str) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self.device = torch.device("cuda", number) if backend == "nccl" else torch.device("cpu")
        if backend == "nccl":
            torch.cuda.set_device(self.device)
        limit = timedelta(seconds=seconds)
        dist.init_process_group(backend, init_method=f"file://{store}", rank=number, world_size=many, timeout=limit)
        self.torch, self.dist = torch, dist
        shapes = [world for world in worlds().values() if len(world.ranks) == many]
        groups = {group: None for world in shapes for group in world.groups if len(group.members) > 1}
        self.groups: Mapping[Group, Any] = {
            group: dist.new_group(list(group.members), timeout=limit) for group in groups
        }
        self.operations = {"min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX, "sum": dist.ReduceOp.SUM}
        self.sent: list[tuple[Any, Any]] = []

    def enter(self, one: Exchange) -> tuple[int, ...]:
        """Enter a collective, or send or receive a message; what came out."""
        if isinstance(one, Await):
            return ()
        if isinstance(one, Send):
            for numbers in ((len(one.values),), one.values):
                mail = self.tensor(numbers)
                self.sent.append((self.dist.isend(mail, one.to), mail))
            return ()
        if isinstance(one, Receive):
            (many,) = self.received(1, one.source)
            return self.received(many, one.source)
        if one.op == "barrier":
            self.dist.barrier(group=self.groups[one.group])
            return ()
        values = self.tensor(one.values)
        self.dist.all_reduce(values, op=self.operations[one.op], group=self.groups[one.group])
        return tuple(values.tolist())

    def received(self, many: int, source: int) -> tuple[int, ...]:
        """So many numbers of the next message."""
        mail = self.tensor((0,) * many)
        self.dist.recv(mail, source)
        return tuple(mail.tolist())

    def tensor(self, numbers: tuple[int, ...]) -> Any:
        """These numbers as others can receive them."""
        return self.torch.tensor(numbers, dtype=self.torch.int64, device=self.device)

    def settle(self) -> None:
        """All that was sent in the last call has been received: the judge has seen to it."""
        for sending, _ in self.sent:
            sending.wait()
        self.sent.clear()


def ask(cache: Any, links: Links, say: Callable[[str, object], None], rank: int, asked: Ask) -> None:
    """Make a call: say what is entered, enter it, say what came out; at last what was decided."""
    links.settle()
    turns = cache.ranks_ask(rank, asked)
    values: tuple[int, ...] | None = None
    lost = False
    while True:
        try:
            one = turns.throw(GroupLost()) if lost else next(turns) if values is None else turns.send(values)
        except StopIteration as stop:
            say("returned", stop.value)
            return
        except GroupLost:
            say("lost", None)
            return
        say("enters", one)
        try:
            values, lost = links.enter(one), False
        except RuntimeError:  # what the group says when a member is gone, or its time is up
            lost = True
        else:
            say("out", values)


def serve(talk: Connection, rank: int, links: Links, cache: Any) -> None:
    """Do what the judge says, one thing after the other."""

    def say(what: str, value: object) -> None:
        talk.send((what, value))

    say("ready", rank)
    while True:
        what, value = talk.recv()
        try:
            if what == "ask":
                ask(cache, links, say, rank, value)
                continue
            done = getattr(cache, f"ranks_{what}")(value)
        except NotImplementedError:
            say("impossible", None)
        except Exception as error:  # noqa: BLE001 - whatever the cache raises is told
            say("raised", raised_text(error))
        else:
            say("done", done)


def end_with_the_judge() -> None:
    """End this process when the judge's ends, wherever it is then."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve one rank until the judge is gone."""
    descriptor, rank, many, store = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    seconds, backend = float(sys.argv[5]), sys.argv[6]
    threading.Thread(target=end_with_the_judge, daemon=True).start()
    talk = Connection(descriptor)
    try:
        cache = talk.recv()
        serve(talk, rank, Links(rank, many, store, seconds, backend), cache)
    except EOFError:
        os._exit(0)


if __name__ == "__main__":
    main()
