#!/usr/bin/env python3
"""Plays of released engines that are kept as test data, by schedules that seeds give.

    tools/peers sglang-0.5.23 && tools/peers vllm-0.33.0
    python tools/released.py tapes                              all tapes, into tests/data/tapes
    python tools/released.py streams                            all streams of events, into tests/data/events
    python tools/released.py tapes vllm-0.33.0-states           one of them
    python tools/released.py streams --into DIR …               somewhere else

The suite drives the cache through its adapter, in the release's own interpreter.

Tapes are written by the loggers of docs/examples.  The logger stands between suite and cache, as in an engine, and
makes the looks; nothing of the suite's own recording is used.

Streams are what the KV event publishers send, as a router receives it.  What the cache tells is made by the release's
own event classes, and goes through its own ``ZmqEventPublisher`` (numbers, encoding, socket) to a subscriber, which
writes the frames as they come, one msgpack array a message, packed with gzip.  Times are counted instead of told, and
vLLM's hashes begin at a fixed seed, so that the files are the same each time.  What the publishers import besides,
and the environments of tools/peers don't have, goes to ``.peers/publishers``.
"""

from __future__ import annotations

import argparse
import gzip
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = tuple(ROOT / room for room in ("spec", "reference", "optimized", "conformance"))
LOGGERS = ROOT / "docs" / "examples"
PUBLISHERS = ROOT / ".peers" / "publishers"
PACKAGES = ("msgspec==0.21.1", "pyzmq==27.3.0", "pydantic==2.14.4", "urllib3==2.8.0")
ENDPOINT, TOPIC = "inproc://events", "kv-events"
WAIT = 10_000
"""The longest that a message is waited for, in milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is played: of which release and target, in which configuration, by which schedule."""

    peer: str
    target: str
    config: dict[str, Any]
    seed: int
    ops: int


@dataclass(frozen=True, kw_only=True)
class Tape(Case):
    """What is recorded, by which logger and looks, without which ports."""

    logger: str
    looks: tuple[str, ...]
    without: frozenset[str]


HICACHE: Any = {
    "target": "sglang.v0_5_23.hicache:hicache_python",
    "logger": "tree_logger:TreeLogger",
    "looks": ("available", "sizes", "host_available", "tiers", "jobs", "occupied"),
    "without": frozenset({"data", "clock", "faults"}),  # of which an engine has none
    "config": {"page_size": 4, "pages": 16, "host_pages": 24, "storage": "attached", "threshold": 8, "rate_limit": 64},
    "ops": 250,
}

TAPES = {
    "sglang-0.5.23-hicache": Tape(peer="sglang-0.5.23", seed=5, **HICACHE),
    "sglang-0.5.23-hicache-retried": Tape(peer="sglang-0.5.23", seed=1, **HICACHE),  # in which FETCH-07 is broken
    "vllm-0.33.0-states": Tape(
        peer="vllm-0.33.0",
        target="vllm.v0_33:target",
        logger="table_logger:TableLogger",
        looks=("component_free_places", "component_entries"),
        without=frozenset({"component_events"}),  # what is told once is the router's
        config={"page_size": 4, "pages": 24, "components": "blocks+state"},
        seed=1,
        ops=150,
    ),
}


VLLM: Any = {"peer": "vllm-0.33.0", "seed": 3, "ops": 300}
SGLANG: Any = {
    "peer": "sglang-0.5.23",
    "seed": 5,
    "ops": 700,
    "config": {"page_size": 4, "pages": 16, "host_pages": 24},
}
BLOCKS: dict[str, Any] = {"page_size": 4, "pages": 24}

STREAMS = {
    "vllm-0.33.0-flat": Case(target="vllm.flat:target", config=BLOCKS, **VLLM),
    "vllm-0.33.0-window": Case(target="vllm.v0_33:target", config=BLOCKS | {"components": "blocks+swa"}, **VLLM),
    "vllm-0.33.0-states": Case(target="vllm.v0_33:target", config=BLOCKS | {"components": "blocks+state"}, **VLLM),
    "sglang-0.5.23-hicache": Case(target="sglang.v0_5_23.hicache:hicache_python_events", **SGLANG),
    "sglang-0.5.23-hicache-rust": Case(target="sglang.v0_5_23.hicache:hicache_rust_events", **SGLANG),
}


def target_of(case: Case) -> Any:
    """The target of a case, among the adapters."""
    return pkgutil.resolve_name(f"kvlitmus.conformance.adapters.{case.target}")


def item_of(case: Case) -> Any:
    """The schedule of a case."""
    from kvlitmus.conformance.ports import Config
    from kvlitmus.conformance.run.results import Item

    return Item(kind="random", config=Config(**case.config), seed=case.seed, ops=case.ops)


def steps_played(name: str, case: Case, target: Any) -> int:
    """Play the schedule of a case to its end, whatever rules it breaks; returns how many steps it had."""
    from kvlitmus.conformance.run import engine
    from kvlitmus.conformance.run.results import Options
    from kvlitmus.spec.parts import all_rules

    muted = frozenset(id for id in all_rules() if not id.startswith("PORT-"))
    result = engine.run_item(target, item_of(case), Options(muted=muted, shrink_trials=0))
    if result.error or result.unsupported or result.findings:
        said = [f"{one.rules}: {one.call}: {one.detail}" for one in result.findings]
        raise SystemExit(f"{name}: {result.error or result.unsupported or said}")
    return result.steps


def record(name: str, folder: Path) -> None:
    """Record one tape, in the release's own interpreter."""
    from kvlitmus.conformance.generate.schedule import choices_of
    from kvlitmus.conformance.ports import PORTS, Config
    from kvlitmus.conformance.run.results import to_json
    from kvlitmus.conformance.support.version import version

    tape = TAPES[name]
    target = target_of(tape)
    target = replace(target, capabilities=target.capabilities - tape.without)
    logger = pkgutil.resolve_name(tape.logger)
    item = item_of(tape)
    ports = sorted(target.capabilities & PORTS.keys())
    methods = list(dict.fromkeys(name for port in ports for name in PORTS[port]))
    header = {
        "kvlitmus": version(),
        "target": tape.target,
        "cache": f"{target.version}, by {tape.logger.partition(':')[0]}.py",
        "config": to_json(item.config),
        "profile": to_json(choices_of(target.profile)),
        "ports": ports,
        "item": {"kind": item.kind, "seed": item.seed, "ops": item.ops, "generation": item.generation},
    }
    with tempfile.TemporaryDirectory() as scratch:
        made: list[Path] = []
        build = target.build

        def built(config: Config) -> Any:
            made.append(Path(scratch) / str(len(made)))
            cache = build(config)
            only = SimpleNamespace(**{name: getattr(cache, name) for name in methods})  # what is on the tape
            return logger(only, str(made[-1]), header, tape.looks)

        steps = steps_played(name, tape, replace(target, build=built))
        # The others are asked what this one offers or evicts.
        longest = max((one.read_bytes() for one in made), key=len)
    path = folder / f"{name}.tape.gz"
    path.write_bytes(gzip.compress(longest, mtime=0))
    print(f"{path}: {steps} steps, {len(longest):,} bytes, {path.stat().st_size:,} packed")


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


class Data(NamedTuple):
    """A kind of test data: what there is, what makes one into a folder, which folder, and what is imported besides."""

    cases: Mapping[str, Case]
    make: Callable[[str, Path], None]
    folder: Path
    beside: Path


KINDS = {
    "tapes": Data(TAPES, record, ROOT / "tests" / "data" / "tapes", LOGGERS),
    "streams": Data(STREAMS, capture, ROOT / "tests" / "data" / "events", PUBLISHERS),
}


def main() -> int:
    """Make what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS, help="what is made")
    told = "; ".join(f"{kind} {', '.join(data.cases)}" for kind, data in KINDS.items())
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all): {told}")
    parser.add_argument("--into", type=Path, metavar="DIR", help="the folder (default: that of the test data)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    data = KINDS[args.kind]
    if unknown := sorted(set(args.names) - data.cases.keys()):
        parser.error(f"there are no {args.kind} {unknown[0]!r}; there are {', '.join(data.cases)}")
    folder = args.into or data.folder
    folder.mkdir(parents=True, exist_ok=True)
    if args.here:
        data.make(args.names[0], folder)
        return 0
    for name in args.names or data.cases:
        python = ROOT / ".peers" / data.cases[name].peer / "bin" / "python"
        if not python.exists():
            parser.error(f"{python} isn't there: run tools/peers {data.cases[name].peer}")
        if not data.beside.exists():
            install = [str(python), "-m", "pip", "install", "--quiet", "--target", str(data.beside), *PACKAGES]
            subprocess.run(install, check=True)
        path = os.pathsep.join(map(str, (*ROOMS, data.beside)))
        words = [str(python), __file__, args.kind, "--here", "--into", str(folder), name]
        subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
