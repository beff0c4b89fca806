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

import gzip
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.released import ROOT, Case, command, item_of, steps_played, target_of

LOGGERS = ROOT / "docs" / "examples"
FOLDER = ROOT / "tests" / "data" / "tapes"


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
    from kvlitmus.conformance.run.results import to_json
    from kvlitmus.conformance.support.version import version

    tape = TAPES[name]
    target = target_of(tape)
    target = replace(target, capabilities=target.capabilities - tape.without)
    where, _, kind = tape.logger.partition(":")
    logger = getattr(importlib.import_module(where), kind)
    item = item_of(tape)
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

        steps = steps_played(name, tape, replace(target, build=built))
        # The others are asked what this one offers or evicts.
        longest = max((one.read_bytes() for one in made), key=len)
    path = folder / f"{name}.tape.gz"
    path.write_bytes(gzip.compress(longest, mtime=0))
    print(f"{path}: {steps} steps, {len(longest):,} bytes, {path.stat().st_size:,} packed")


def main() -> int:
    """Record the tapes that are asked for; returns the exit code."""
    return command(__doc__, "tape", TAPES, record, file=__file__, folder=FOLDER, paths=(LOGGERS,))


if __name__ == "__main__":
    sys.exit(main())
