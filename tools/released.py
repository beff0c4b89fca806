"""Plays of released engines that are kept as test data: in the release's own interpreter, by a schedule of a seed."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOMS = tuple(ROOT / room for room in ("spec", "reference", "optimized", "conformance"))


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is played: of which release and target, in which configuration, by which schedule."""

    peer: str
    target: str
    config: dict[str, Any]
    seed: int
    ops: int


def target_of(case: Case) -> Any:
    """The target of a case, among the adapters."""
    import importlib

    module, _, attribute = case.target.partition(":")
    return getattr(importlib.import_module(f"kvlitmus.conformance.adapters.{module}"), attribute)


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


def command(
    about: str | None,
    what: str,
    cases: Mapping[str, Case],
    make: Callable[[str, Path], None],
    *,
    file: str,
    folder: Path,
    paths: Sequence[Path] = (),
    before: Callable[[Path], None] = lambda _: None,
) -> int:
    """The command line of a script that makes test data; returns the exit code.

    what: what it makes, as one word.  make: makes one, by its name, into a folder, where the release is.  file: the
    script.  paths: what it imports beside the rooms.  before: is given the release's interpreter, before it is started.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar=what.upper(), help=f"which ones: {', '.join(cases)} (default: all)")
    parser.add_argument(
        "--into", type=Path, default=folder, help=f"the folder (default: {folder.relative_to(ROOT).as_posix()})"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = sorted(set(args.names) - cases.keys())
    if unknown:
        parser.error(f"there is no {what} {unknown[0]!r}; there are {', '.join(cases)}")
    args.into.mkdir(parents=True, exist_ok=True)
    if args.here:
        make(args.names[0], args.into)
        return 0
    for name in args.names or cases:
        python = ROOT / ".peers" / cases[name].peer / "bin" / "python"
        if not python.exists():
            parser.error(f"{python} isn't there: run tools/peers {cases[name].peer}")
        before(python)
        path = os.pathsep.join(map(str, (*ROOMS, *paths)))
        words = [str(python), file, "--here", "--into", str(args.into), name]
        subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"})
    return 0
