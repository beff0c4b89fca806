#!/usr/bin/env python3
"""Captures what the KV event publishers of released engines send, into tests/data/events, as a router receives it.

    tools/peers vllm-0.33.0 && tools/peers sglang-0.5.23
    python tools/event_streams.py                           all streams
    python tools/event_streams.py vllm-0.33.0-flat          one of them
    python tools/event_streams.py --into DIR …              somewhere else

The suite drives the cache through its adapter, by a schedule that a seed gives.  What the cache tells is made by the
release's own event classes, and goes through its own ``ZmqEventPublisher`` (numbers, encoding, socket) to a subscriber,
which writes the frames as they come, one msgpack array a message, packed with gzip.  Times are counted instead of
told, and vLLM's hashes begin at a fixed seed, so that the files are the same each time.

What the publishers import besides, and the environments of tools/peers don't have, goes to ``.peers/publishers``.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.released import ROOT, Case, command, steps_played, target_of

FOLDER = ROOT / "tests" / "data" / "events"
BESIDE = ROOT / ".peers" / "publishers"
PACKAGES = ("msgspec==0.21.1", "pyzmq==27.3.0", "pydantic==2.14.4", "urllib3==2.8.0")
ENDPOINT, TOPIC = "inproc://events", "kv-events"
WAIT = 10_000
"""The longest that a message is waited for, in milliseconds."""


STREAMS = {
    "vllm-0.33.0-flat": Case(
        peer="vllm-0.33.0", target="vllm.flat:target", config={"page_size": 4, "pages": 24}, seed=3, ops=300
    ),
    "vllm-0.33.0-window": Case(
        peer="vllm-0.33.0",
        target="vllm.v0_33:target",
        config={"page_size": 4, "pages": 24, "components": "blocks+swa"},
        seed=3,
        ops=300,
    ),
    "vllm-0.33.0-states": Case(
        peer="vllm-0.33.0",
        target="vllm.v0_33:target",
        config={"page_size": 4, "pages": 24, "components": "blocks+state"},
        seed=3,
        ops=300,
    ),
    "sglang-0.5.23-hicache": Case(
        peer="sglang-0.5.23",
        target="sglang.v0_5_23.hicache:hicache_python_events",
        config={"page_size": 4, "pages": 16, "host_pages": 24},
        seed=5,
        ops=700,
    ),
    "sglang-0.5.23-hicache-rust": Case(
        peer="sglang-0.5.23",
        target="sglang.v0_5_23.hicache:hicache_rust_events",
        config={"page_size": 4, "pages": 16, "host_pages": 24},
        seed=5,
        ops=700,
    ),
}


class Wire:
    """A release's publisher, and a subscriber that writes down what it receives."""

    def __init__(self, publisher: type, batch: type) -> None:
        import msgspec
        import zmq

        self.publisher = publisher(0, endpoint=ENDPOINT, topic=TOPIC)
        self.batch = batch
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.connect(ENDPOINT)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, TOPIC)
        self.socket.setsockopt(zmq.RCVTIMEO, WAIT)
        self.pack = msgspec.msgpack.Encoder().encode
        self.messages: list[bytes] = []

    def send(self, events: list[Any]) -> None:
        """Publish a batch, and receive it."""
        self.publisher.publish(self.batch(ts=float(len(self.messages)), events=events))
        self.messages.append(self.pack(self.socket.recv_multipart()))


class Tee:
    """What the first cache tells that tells anything; others are made to see what a cache offers, or would evict."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.cache: object = None

    def of(self, cache: Any, events: Any) -> None:
        """Publish what a cache tells from now on; ``events``: the release's module of events."""
        take = cache.take_events

        def taken() -> list[Any]:
            found: list[Any] = take()
            if found and self.wire is None:
                self.cache, self.wire = cache, Wire(events.ZmqEventPublisher, events.KVEventBatch)
            if found and self.cache is cache and self.wire is not None:
                self.wire.send(found)
            return found

        cache.take_events = taken


def of_vllm(target: Any, tee: Tee) -> Any:
    """The target with vLLM's own event classes.

    The adapter has stand-ins for these classes, which import a server; it gets them back.
    """
    import dataclasses

    from kvlitmus.conformance.adapters.vllm import v0_33

    name = "vllm.distributed.kv_events"
    plan = replace(
        target.plan,
        real=target.plan.real | {name, "vllm.config.kv_events", "vllm.utils.network_utils"},
        answers={one: known for one, known in target.plan.answers.items() if one != name}
        | {"vllm.config.utils": {"config": dataclasses.dataclass}},
    )
    v0_33.PLAN = plan
    stand_ins = {"BlockStored": v0_33.Stored, "BlockRemoved": v0_33.Removed, "AllBlocksCleared": v0_33.Cleared}

    def built(config: Any) -> Any:
        adapter = target.build(config)
        manager = adapter.manager
        tee.of(manager, v0_33.install(plan)(name))
        take = manager.take_events
        manager.take_events = lambda: [
            stand_ins[type(one).__name__](**{field: getattr(one, field) for field in one.__struct_fields__})
            for one in take()
        ]
        return adapter

    return replace(target, plan=plan, build=built)


def of_sglang(target: Any, tee: Tee) -> Any:
    """The target as it is."""
    from kvlitmus.conformance.adapters.sglang.common.stubs import install

    def built(config: Any) -> Any:
        adapter = target.build(config)
        tee.of(adapter.cache, install(target.plan)("sglang.srt.disaggregation.kv_events"))
        return adapter

    return replace(target, build=built)


def capture(name: str, folder: Path) -> None:
    """Capture one stream, in the release's own interpreter."""
    case, tee = STREAMS[name], Tee()
    target = (of_vllm if case.peer.startswith("vllm") else of_sglang)(target_of(case), tee)
    steps = steps_played(name, case, target)
    wire = tee.wire
    assert wire is not None, "nothing was told"
    path = folder / f"{name}.msgpack.gz"
    path.write_bytes(gzip.compress(b"".join(wire.messages), mtime=0))
    print(f"{path}: {len(wire.messages)} batches of {steps} steps, {path.stat().st_size:,} bytes")


def install_beside(python: Path) -> None:
    """Install what the publishers import besides, unless it is there."""
    if not BESIDE.exists():
        install = [str(python), "-m", "pip", "install", "--quiet", "--target", str(BESIDE), *PACKAGES]
        subprocess.run(install, check=True)


def main() -> int:
    """Capture the streams that are asked for; returns the exit code."""
    return command(
        __doc__, "stream", STREAMS, capture, file=__file__, folder=FOLDER, paths=(BESIDE,), before=install_beside
    )


if __name__ == "__main__":
    sys.exit(main())
