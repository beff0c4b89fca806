"""Serving multi-turn prompts with a small transformer, whose KV lives in a hierarchical cache.

    python examples/serve.py                # on the CPU
    python examples/serve.py --device cuda

Several users talk in turn.  Device and host memory together hold a fraction of what they have said: with every turn
pages leave the device, leave the host, are read ahead from storage and loaded again.  At last everything is shut
down and begun afresh over the same storage.  Each answer is computed a second time without any cache, and its logits
must be equal.

:class:`Engine` is what an engine's author would write: one request's life is in :meth:`Engine.serve`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a file that is run sees its own folder alone

from examples.transformer import Rows, Sizes, Transformer
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.request import Running
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.base import Identity
from kvlitmus.optimized.storage.file import FileStore

PAGE = 8
"""Tokens per page."""

T = TypeVar("T")


class PagedKV:
    """The model's keys and values in the device pool, by slot; see :class:`examples.transformer.KV`."""

    def __init__(self, pool: DevicePool, cache: HierarchicalCache) -> None:
        self.pool = pool
        self.cache = cache
        self.loads: list[int] = []

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keep the rows of these slots."""
        self.pool.slots(0, layer)[slots] = keys
        self.pool.slots(1, layer)[slots] = values

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of these slots, when this layer of every load that brings some of them has arrived."""
        for job in self.loads:
            self.cache.wait_layer(job, layer)
        return self.pool.slots(0, layer)[slots], self.pool.slots(1, layer)[slots]


@dataclass
class Answer:
    """What came of a request: the logits before each token of the answer, the answer, how many tokens were cached."""

    logits: torch.Tensor
    tokens: list[int]
    cached: int


class Engine:
    """A model, a cache, and what connects them.

    pages, host_pages: how many pages of KV fit on the device and in host memory.  folder: where storage is.  chunk:
    how many tokens are computed at once; by default all of a prompt.
    """

    def __init__(
        self, model: Transformer, folder: Path, *, pages: int, host_pages: int, chunk: int | None = None
    ) -> None:
        self.model = model
        self.chunk = chunk
        sizes = model.sizes
        shape = KVShape(
            layers=sizes.layers,
            heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            dtype=model.embedding.dtype,
            page_size=PAGE,
        )
        # The memory: page 0 of the device is nobody's, it takes what padding writes.
        device_pool = DevicePool(shape, pages + 1, device=model.device)
        self.mover = TorchMover(device_pool, HostPool(shape, host_pages), stepped=False)
        # Who decides what is where, and threads that read and write storage.
        config = CacheConfig(
            page_size=PAGE,
            pages=pages,
            host_pages=host_pages,
            write="write_through",
            stop="wait_complete",
            rate_limit=host_pages * PAGE,
        )
        self.cache = HierarchicalCache(config, self.mover, Threads(self.mover), events=True)
        # Storage is shared by all that have the same model and layout, and by nobody else.
        self.cache.attach(FileStore(folder, Identity(model="example@1", layout=shape.text, page_size=PAGE)))
        self.kv = PagedKV(device_pool, self.cache)
        self.rids = iter(range(1 << 62))
        self.counts: Counter[str] = Counter()

    def serve(self, prompt: Sequence[int], new: int, user: str | None = None) -> Answer:
        """Answer a prompt with ``new`` tokens, greedily; ``user`` is the namespace that may share its KV."""
        cache, rid = self.cache, next(self.rids)
        # The last token is computed in any case: without it there are no logits.
        known = np.array(prompt[:-1], np.int32)

        # 1. What is in storage alone is read ahead.  An engine serves others while it waits.
        cache.prefetch(rid, known, user)
        while not cache.poll(rid):
            time.sleep(0.001)
            cache.tick()
        self.counts["prefetched"] += cache.loaded(rid) // PAGE

        # 2. What is on the host alone is loaded, layer by layer.
        back = cache.load_back(known, user)
        if back.work is not None:
            self.counts["loaded"] += len(back.work.device_pages)

        # 3. What is on the device is shared and locked; the rest gets slots.
        request = self.patiently(lambda: cache.begin(rid, known, user))
        self.patiently(lambda: cache.grow(rid, prompt[-1:]))
        cached = request.cached

        # 4. Compute what is not cached, then token by token.
        logits = [self.compute(prompt[cached:], rid, request)]
        answer = [int(logits[0].argmax())]
        while len(answer) < new:
            self.patiently(lambda: cache.grow(rid, answer[-1:]))
            logits.append(self.compute(answer[-1:], rid, request))
            answer.append(int(logits[-1].argmax()))

        # 5. Cached pages stay, and are backed up; the others are free again.
        cache.end(rid, keep=True)
        cache.tick()
        self.note(cached)
        return Answer(torch.stack(logits), answer, cached)

    def patiently(self, attempt: Callable[[], T | None]) -> T:
        """What comes of an attempt to get memory: pages that are being copied are locked until a tick lets them go."""
        while (found := attempt()) is None:
            if not self.cache.jobs():
                raise MemoryError("the device's memory is too small for this request")
            time.sleep(0.001)
            self.cache.tick()
        return found

    def compute(self, tokens: Sequence[int], rid: int, request: Running) -> torch.Tensor:
        """The logits after the last of these tokens, which are the last of the request; what there is, is published
        after each chunk.
        """
        done = request.length - len(tokens)
        while True:
            self.kv.loads = [work.id for work in self.cache.loads_on(request.place)]
            some = tokens[: self.chunk]
            done, tokens = done + len(some), tokens[len(some) :]
            logits = computed(self.model, self.kv, some, torch.as_tensor(request.row[:done]), None)
            if not len(tokens):
                return logits
            self.cache.publish(rid, chunked=True, upto=done)

    def note(self, cached: int) -> None:
        """Count what happened, by what the cache tells."""
        self.counts["requests"] += 1
        self.counts["cached"] += cached // PAGE
        self.counts.update(f"{event.what} {event.tier}" for event in self.cache.events())

    def close(self) -> list[str]:
        """Shut down; returns the names of pages that storage did not take."""
        lost = self.cache.close()
        self.mover.close()
        return lost


def computed(
    model: Transformer, kv: PagedKV | Rows, tokens: Sequence[int], slots: torch.Tensor, chunk: int | None
) -> torch.Tensor:
    """The logits after the last of ``tokens``, computed ``chunk`` at once."""
    slots = slots.to(model.device)
    start = len(slots) - len(tokens)
    step = chunk or len(tokens)
    for at in range(0, len(tokens), step):
        some = tokens[at : at + step]
        logits = model.forward(some, slots[: start + at + len(some)], kv)
    return logits[-1]


def without_cache(model: Transformer, prompt: Sequence[int], answer: Sequence[int], chunk: int | None) -> torch.Tensor:
    """The logits before each token of an answer, all of them computed from nothing, in memory of their own."""
    text = [*prompt, *answer[:-1]]
    rows = Rows(model.sizes, len(text), model.device)
    slots = torch.arange(len(text))
    first = computed(model, rows, prompt, slots[: len(prompt)], chunk)
    others = [computed(model, rows, text[at : at + 1], slots[: at + 1], chunk) for at in range(len(prompt), len(text))]
    return torch.stack([first, *others])


def difference(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference; infinite where something is no number, such as a row that was never written."""
    most = float((logits - expected).abs().max())
    return math.inf if math.isnan(most) else most


# -- the scene --------------------------------------------------------------------------------------


@dataclass
class Conversation:
    """What a user and the model have said so far."""

    user: str | None
    text: list[int]
    draw: random.Random = field(repr=False)


def conversations(users: int, vocabulary: int) -> list[Conversation]:
    """Users who begin with the same instructions; every third one has a namespace of their own."""
    draw = random.Random(1)
    instructions = [draw.randrange(vocabulary) for _ in range(3 * PAGE + 3)]
    return [
        Conversation(f"tenant-{number}" if number % 3 == 2 else None, [*instructions], random.Random(number))
        for number in range(users)
    ]


def turns(talks: list[Conversation], many: int, vocabulary: int) -> Iterator[Conversation]:
    """Turn by turn, each conversation with some new words of its user."""
    for _ in range(many):
        for talk in talks:
            talk.text += [talk.draw.randrange(vocabulary) for _ in range(talk.draw.randrange(9, 30))]
            yield talk


def run(
    folder: Path,
    *,
    device: str = "cpu",
    chunk: int | None = None,
    users: int = 6,
    rounds: int = 5,
    new: int = 6,
    pages: int = 40,
    host_pages: int = 60,
) -> dict[str, float]:
    """Serve everybody, with a restart before the last round; what happened, and how much logits differed."""
    model = Transformer(Sizes(), device=device)
    vocabulary = model.sizes.vocabulary
    talks = conversations(users, vocabulary)
    total: Counter[str] = Counter()
    worst = 0.0
    for part, many in (("before", rounds - 1), ("after the restart", 1)):
        engine = Engine(model, folder, pages=pages, host_pages=host_pages, chunk=chunk)
        for talk in turns(talks, many, vocabulary):
            answer = engine.serve(talk.text, new, talk.user)
            expected = without_cache(model, talk.text, answer.tokens, chunk)
            worst = max(worst, difference(answer.logits, expected))
            talk.text += answer.tokens
        total.update(engine.counts, lost=len(engine.close()))
        if part != "before":
            total["cached after the restart"] = engine.counts["cached"]
    return {
        **{name: total[name] for name in sorted(total)},
        "tokens": sum(len(talk.text) for talk in talks),
        "worst": worst,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Serve multi-turn prompts through the cache, and compare the logits.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--chunk", type=int, default=None)
    parser.add_argument("--users", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None, help="where storage is; a temporary folder by default")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kvlitmus-example-") as folder:
        found = run(
            options.folder or Path(folder) / "pages",
            device=options.device,
            chunk=options.chunk,
            users=options.users,
            rounds=options.rounds,
        )
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
