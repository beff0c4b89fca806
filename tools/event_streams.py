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

import argparse
import gzip
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOMS = [str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance")]
FOLDER = ROOT / "tests" / "data" / "events"
BESIDE = ROOT / ".peers" / "publishers"
PACKAGES = ("msgspec==0.21.1", "pyzmq==27.3.0", "pydantic==2.14.4", "urllib3==2.8.0")
ENDPOINT, TOPIC = "inproc://events", "kv-events"
WAIT = 10_000
"""The longest that a message is waited for, in milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is captured: of which release and target, in which configuration, by which schedule."""

    peer: str
    target: str
    config: dict[str, Any]
    seed: int
    ops: int


STREAMS = {
    "vllm-0.33.0-flat": Stream(
        peer="vllm-0.33.0", target="vllm.flat:target", config={"page_size": 4, "pages": 24}, seed=3, ops=300
    ),
    "vllm-0.33.0-window": Stream(
        peer="vllm-0.33.0",
        target="vllm.v0_33:target",
        config={"page_size": 4, "pages": 24, "components": "blocks+swa"},
        seed=3,
        ops=300,
    ),
    "vllm-0.33.0-states": Stream(
        peer="vllm-0.33.0",
        target="vllm.v0_33:target",
        config={"page_size": 4, "pages": 24, "components": "blocks+state"},
        seed=3,
        ops=300,
    ),
    "sglang-0.5.23-hicache": Stream(
        peer="sglang-0.5.23",
        target="sglang.v0_5_23.hicache:hicache_python_events",
        config={"page_size": 4, "pages": 16, "host_pages": 24},
        seed=5,
        ops=700,
    ),
    "sglang-0.5.23-hicache-rust": Stream(
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
    import importlib

    from kvlitmus.conformance.ports import Config
    from kvlitmus.conformance.run import engine
    from kvlitmus.conformance.run.results import Item, Options
    from kvlitmus.spec.parts import all_rules

    stream = STREAMS[name]
    module, _, attribute = stream.target.partition(":")
    target = getattr(importlib.import_module(f"kvlitmus.conformance.adapters.{module}"), attribute)
    tee = Tee()
    target = (of_vllm if stream.peer.startswith("vllm") else of_sglang)(target, tee)
    item = Item(kind="random", config=Config(**stream.config), seed=stream.seed, ops=stream.ops)
    muted = frozenset(id for id in all_rules() if not id.startswith("PORT-"))
    result = engine.run_item(target, item, Options(muted=muted, shrink_trials=0))
    if result.error or result.unsupported or result.findings:
        said = [f"{one.rules}: {one.call}: {one.detail}" for one in result.findings]
        raise SystemExit(f"{name}: {result.error or result.unsupported or said}")
    wire = tee.wire
    assert wire is not None, "nothing was told"
    path = folder / f"{name}.msgpack.gz"
    path.write_bytes(gzip.compress(b"".join(wire.messages), mtime=0))
    print(f"{path}: {len(wire.messages)} batches of {result.steps} steps, {path.stat().st_size:,} bytes")


def main() -> int:
    """Capture the streams that are asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="STREAM", help=f"which ones: {', '.join(STREAMS)} (default: all)")
    parser.add_argument("--into", type=Path, default=FOLDER, help="the folder (default: tests/data/events)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = sorted(set(args.names) - STREAMS.keys())
    if unknown:
        parser.error(f"there is no stream {unknown[0]!r}; there are {', '.join(STREAMS)}")
    args.into.mkdir(parents=True, exist_ok=True)
    if args.here:
        capture(args.names[0], args.into)
        return 0
    for name in args.names or STREAMS:
        python = ROOT / ".peers" / STREAMS[name].peer / "bin" / "python"
        if not python.exists():
            parser.error(f"{python} isn't there: run tools/peers {STREAMS[name].peer}")
        if not BESIDE.exists():
            install = [str(python), "-m", "pip", "install", "--quiet", "--target", str(BESIDE), *PACKAGES]
            subprocess.run(install, check=True)
        path = os.pathsep.join([*ROOMS, str(BESIDE)])
        command = [str(python), __file__, "--here", "--into", str(args.into), name]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
