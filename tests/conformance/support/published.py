"""A legal stream of KV events: what the suite's own cache tells, published as engines do, in batches with numbers."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.words.units import Key

Told = dict[str, Any]
"""An event, or a batch, as it is written."""

SIZE = 2
"""Tokens in a block."""


def event(one: Event) -> Told:
    """An event of a cache as it is published."""
    if one.what == "cleared":
        return {"type": "AllBlocksCleared"}
    if one.what == "removed":
        return {"type": "BlockRemoved", "block_hashes": [one.page], "medium": "GPU"}
    lora = {} if one.namespace is None else {"lora_name": one.namespace}
    return {
        "type": "BlockStored",
        "block_hashes": [one.page],
        "parent_block_hash": one.parent,
        "token_ids": list(one.units),
        "block_size": SIZE,
        "lora_id": None,
        "medium": "GPU",
        **lora,
    }


def cached(seed: int, calls: int) -> Iterator[list[Told]]:
    """What a flat cache tells after each of so many inserts, evictions and resets."""
    draw = random.Random(seed)
    cache: Any = target.make(Config(page_size=SIZE, pages=12))
    for _ in range(calls):
        key = Key(draw.choice([None, "a"]), tuple(draw.choices(range(3), k=SIZE * draw.randint(1, 4))))
        slots = cache.alloc(len(key.tokens))
        if slots is None:
            cache.evict(len(key.tokens))
        else:
            stored = cache.insert(key, slots)
            if stored.already:
                cache.free(slots[: stored.already])
        if draw.random() < 0.02:
            cache.reset()
        yield [event(one) for one in cache.events()]


def legal(seed: int = 0, calls: int = 60) -> list[Told]:
    """A legal stream; what is told at once is one batch."""
    return [{"seq": at, "events": told} for at, told in enumerate(one for one in cached(seed, calls) if one)]


def as_lines(batches: Iterable[Told]) -> bytes:
    """The stream in JSON Lines."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in batches)


def as_messages(batches: Iterable[Told]) -> bytes:
    """The stream as it comes from a socket: topic, number, batch."""
    frames = [
        [b"kv", one["seq"].to_bytes(8, "big"), msgpack.packb([1.5, one["events"], one.get("data_parallel_rank")])]
        for one in batches
    ]
    return b"".join(map(msgpack.packb, frames))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": lambda raw: gzip.compress(raw, mtime=0),
    "xz": lzma.compress,
}


def written(folder: Path, raw: bytes) -> str:
    """A file that has this."""
    path = folder / "events"
    path.write_bytes(raw)
    return str(path)


def events_in(batches: Sequence[Told], kind: str) -> list[Told]:
    """All events of a kind."""
    return [one for batch in batches for one in batch["events"] if one["type"] == kind]
