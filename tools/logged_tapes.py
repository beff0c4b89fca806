#!/usr/bin/env python3
"""Records plays of released engines by the loggers of docs/examples, into tests/data/tapes.

    tools/peers sglang-0.5.23 && tools/peers vllm-0.33.0
    python tools/logged_tapes.py                        all tapes
    python tools/logged_tapes.py vllm-0.33.0-states     one of them
    python tools/logged_tapes.py --into DIR …           somewhere else

The suite drives the cache through its adapter, by a schedule that a seed gives; the logger stands between the two, as
in an engine, and makes the looks.  Nothing of the suite's own recording is used.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATHS = [str(ROOT / one) for one in ("spec", "reference", "optimized", "conformance", "docs/examples")]
FOLDER = ROOT / "tests" / "data" / "tapes"


@dataclass(frozen=True, kw_only=True)
class Tape:
    """What is recorded: of which release and target, by which logger and looks, without which ports."""

    peer: str
    target: str
    logger: str
    looks: tuple[str, ...]
    without: frozenset[str]
    config: dict[str, Any]
    seed: int
    ops: int


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


class Only:
    """The ports of a cache that are on the tape, and no others."""

    def __init__(self, cache: Any, methods: list[str]) -> None:
        for name in methods:
            setattr(self, name, getattr(cache, name))


def record(name: str, folder: Path) -> None:
    """Record one tape, in the release's own interpreter."""
    import importlib

    from kvlitmus.conformance.generate.schedule import describe
    from kvlitmus.conformance.ports import PORTS, Config
    from kvlitmus.conformance.run import engine
    from kvlitmus.conformance.run.results import Item, Options, to_json
    from kvlitmus.conformance.support.version import version
    from kvlitmus.spec.parts import all_rules

    tape = TAPES[name]
    module, _, attribute = tape.target.partition(":")
    target = getattr(importlib.import_module(f"kvlitmus.conformance.adapters.{module}"), attribute)
    target = replace(target, capabilities=target.capabilities - tape.without)
    where, _, kind = tape.logger.partition(":")
    logger = getattr(importlib.import_module(where), kind)
    item = Item(kind="random", config=Config(**tape.config), seed=tape.seed, ops=tape.ops)
    ports = sorted(target.capabilities & PORTS.keys())
    methods = list(dict.fromkeys(name for port in ports for name in PORTS[port]))
    header = {
        "kvlitmus": version(),
        "target": tape.target,
        "cache": f"{target.version}, by {where}.py",
        "config": to_json(item.config),
        "profile": to_json(describe(target.profile)),
        "ports": ports,
        "item": {"kind": item.kind, "seed": item.seed, "ops": item.ops, "generation": item.generation},
    }
    with tempfile.TemporaryDirectory() as scratch:
        made: list[Path] = []
        build = target.build

        def built(config: Config) -> Any:
            made.append(Path(scratch) / str(len(made)))
            return logger(Only(build(config), methods), str(made[-1]), header, tape.looks)

        muted = frozenset(id for id in all_rules() if not id.startswith("PORT-"))
        result = engine.run_item(replace(target, build=built), item, Options(muted=muted, shrink_trials=0))
        if result.error or result.unsupported or result.findings:
            said = [f"{one.rules}: {one.call}: {one.detail}" for one in result.findings]
            raise SystemExit(f"{name}: {result.error or result.unsupported or said}")
        longest = max(
            (one.read_bytes() for one in made), key=len
        )  # the others are asked what this one offers or evicts
    path = folder / f"{name}.tape.gz"
    path.write_bytes(gzip.compress(longest, mtime=0))
    print(f"{path}: {result.steps} steps, {len(longest):,} bytes, {path.stat().st_size:,} packed")


def main() -> int:
    """Record the tapes that are asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TAPE", help=f"which ones: {', '.join(TAPES)} (default: all)")
    parser.add_argument("--into", type=Path, default=FOLDER, help="the folder (default: tests/data/tapes)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = sorted(set(args.names) - TAPES.keys())
    if unknown:
        parser.error(f"there is no tape {unknown[0]!r}; there are {', '.join(TAPES)}")
    args.into.mkdir(parents=True, exist_ok=True)
    if args.here:
        record(args.names[0], args.into)
        return 0
    for name in args.names or TAPES:
        python = ROOT / ".peers" / TAPES[name].peer / "bin" / "python"
        if not python.exists():
            parser.error(f"{python} isn't there: run tools/peers {TAPES[name].peer}")
        command = [str(python), __file__, "--here", "--into", str(args.into), name]
        subprocess.run(
            command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "PYTHONHASHSEED": "0"}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
