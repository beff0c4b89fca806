"""Small traces in Mooncake's format, made up but shaped like a chat service's; ``tests/data`` holds one.

    python tests/conformance/support/trace_maker.py > tests/data/small_trace.jsonl

A few system prompts, conversations that continue on their own answers, prompts that are sent twice,
prompts shorter than a block, prompts that end with a full block, and many that arrive at the same time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import NamedTuple

BLOCK = 512


class Line(NamedTuple):
    """One request before it has ids: its arrival, its tokens (as one number a token run), its answer's length."""

    timestamp: int
    prompt: tuple[tuple[int, int], ...]
    output: int

    @property
    def length(self) -> int:
        return sum(tokens for _, tokens in self.prompt)


def ids_of(prompts: Sequence[Line]) -> list[list[int]]:
    """Ids of the blocks: equal contents after equal contents, equal ids; a partly filled block is one of its own."""
    known: dict[tuple[object, ...], int] = {}
    found = []
    for line in prompts:
        content = [(text, at) for text, tokens in line.prompt for at in range(tokens)]
        row: list[int] = []
        for start in range(0, len(content), BLOCK):
            chain = (row[-1] if row else None, tuple(content[start : start + BLOCK]))
            row.append(known.setdefault(chain, len(known)))
        found.append(row)
    return found


def make(requests: int, seed: int) -> str:
    """A trace of that many requests as text."""
    random_ = random.Random(seed)
    texts = iter(range(1_000_000))
    systems = [(next(texts), length) for length in (512, 700, 1536, 100)]
    conversations: list[tuple[tuple[int, int], ...]] = []
    lines: list[Line] = []
    now = 0
    while len(lines) < requests:
        now += random_.choice((0, 0, 0, 40, 1000))
        what = random_.random()
        if what < 0.08 and lines:
            prompt = random_.choice(lines).prompt
        elif what < 0.55 and conversations:
            at = min(len(conversations) - 1, int(random_.expovariate(0.2)))
            prompt = (*conversations.pop(-1 - at), (next(texts), random_.choice((40, 300, 512, 900))))
        else:
            prompt = (random_.choice(systems), (next(texts), random_.choice((12, 412, 1024, 1500, 3000))))
        output = random_.randint(1, 600)
        lines.append(Line(now, prompt, output))
        if lines[-1].length < 8000:
            conversations.append((*prompt, (next(texts), output)))
    rows = [
        {"timestamp": line.timestamp, "input_length": line.length, "output_length": line.output, "hash_ids": ids}
        for line, ids in zip(lines, ids_of(lines), strict=True)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


if __name__ == "__main__":
    print(make(240, seed=20), end="")
