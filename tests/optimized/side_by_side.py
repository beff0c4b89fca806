#!/usr/bin/env python3
"""Both cores of the optimized cache side by side, for as many steps as wanted.

    python tests/optimized/side_by_side.py --steps 1000000             from seed 0
    python tests/optimized/side_by_side.py --steps 20000 --sanitize    the compiled core with AddressSanitizer and UBSan
    python tests/optimized/side_by_side.py --steps 0 --tiers 100000    hierarchies on it, beside the reference
    python tests/optimized/side_by_side.py --steps 0 --sparse 100000   sparse rows on it, beside the reference
    python tests/optimized/side_by_side.py --steps 0 --components 9999 caches of components on it, likewise

A step is one call of both, whose answers or errors are compared; after every ``--every``-th call the whole state is
(see ``tests/optimized/support/cores.py``).  With tiers the reference is the other, and the state is compared after each
call (``tests/optimized/support/hierarchy_play.py``); so it is with sparse rows and with components (``sparse_pair.py``,
``component_pair.py``), which play litmus tests and then drawn schedules.  With ``--sanitize`` the core is built anew,
into a folder of its own, and a process with the sanitizers' libraries loaded plays it.  Exit codes: 0 no difference, 1
one, or what a sanitizer says.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

CALLS = 200
"""Calls of one pair of caches."""

CALLS_WITH_TIERS = 250
"""The same of hierarchies."""


def arguments() -> argparse.Namespace:
    """The command line."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=100_000, help="stop after so many (100,000)")
    parser.add_argument("--tiers", type=int, default=0, help="and so many with tiers, beside the reference (0)")
    parser.add_argument("--sparse", type=int, default=0, help="and so many with sparse rows, beside the reference (0)")
    parser.add_argument("--components", type=int, default=0, help="and so many of components, beside the reference (0)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--every", type=int, default=10, help="compare the state after every so many calls (10)")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan")
    parser.add_argument("--package", type=Path, help="build the core of native/ in this folder, not the tree's own")
    parser.add_argument("--core", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def sanitized(given: argparse.Namespace) -> int:
    """Build the core with the sanitizers, and play it in a process of its own."""
    from kvlitmus.optimized.build_core import PACKAGE, build, compiler

    with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
        module = build(given.package or PACKAGE, Path(folder), sanitize=True)
        found = [
            subprocess.run([*compiler(), f"-print-file-name={name}"], check=True, capture_output=True, text=True)
            for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")
        ]
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(one.stdout.strip() for one in found),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=0"),
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            "PYTHONMALLOC": "malloc",
            "NUMBA_DISABLE_JIT": "1",
        }
        options = ["--steps", str(given.steps), "--seed", str(given.seed), "--every", str(given.every)]
        options += ["--tiers", str(given.tiers), "--sparse", str(given.sparse)]
        options += ["--components", str(given.components)]
        command = [sys.executable, __file__, *options, "--core", str(module)]
        return subprocess.run(command, check=False, env=environment).returncode


def load(module: Path) -> None:
    """Take this extension module for the core."""
    import importlib.util

    from kvlitmus import optimized

    spec = importlib.util.spec_from_file_location("kvlitmus.optimized._core", module)
    assert spec is not None and spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    sys.modules["kvlitmus.optimized._core"] = core
    setattr(optimized, "_core", core)  # noqa: B010  as its import would have done


def contents(seed: int) -> None:
    """Have the core copy pages between two arrays of different layouts; raises ``AssertionError`` for a wrong byte."""
    from kvlitmus.optimized import _core

    rng = np.random.default_rng(seed)
    extents, order, chunk = rng.integers(1, 4, 3), rng.permutation(3), int(rng.choice([*range(1, 40), *(64, 192) * 9]))
    count, spare = rng.integers(1, 6, 2).tolist()
    source = rng.integers(0, 256, (count, *extents, chunk), np.uint8)
    base = rng.integers(0, 256, (count + spare, *extents[order], chunk), np.uint8)
    target = base.transpose(0, *(1 + np.argsort(order)), 4)
    pages, places = rng.permutation(count).astype(np.int32), rng.permutation(len(base))[:count]
    expected = target.copy()
    expected[places] = source[pages]
    steps = zip(extents.tolist(), source.strides[1:4], target.strides[1:4], strict=True)
    page = (source.strides[0], target.strides[0])
    assert _core.within(pages, count) and not _core.within(pages, count - 1)
    _core.copy_pages(source.ctypes.data, base.ctypes.data, pages, places, page, chunk, tuple(steps))
    assert (target == expected).all()


def flat(given: argparse.Namespace, shown: Callable[[str], None]) -> str:
    """Play caches without tiers with either core; raises ``AssertionError`` for a difference."""
    from kvlitmus.optimized.policy import POLICIES
    from tests.optimized.support.cores import Cores, play

    steps, seed = 0, given.seed
    while steps < given.steps:
        source = random.Random(seed)
        config = {"page_size": source.choice((1, 2, 4, 16)), "pages": source.choice((5, 12, 40, 200))}
        policy, bigram = source.choice(list(POLICIES)), source.random() < 0.25
        dtype, events = source.choice(("int32", "int64")), source.random() < 0.3
        cores = Cores(**config, policy=policy, bigram=bigram, dtype=dtype, events=events)
        try:
            steps += play(cores, source, CALLS, given.every)
            contents(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {cores.config}, after {cores.steps} steps:\n{error}") from error
        seed += 1
        shown(f"{steps:,} steps, {seed - given.seed} caches")
    return f"{steps:,} steps of {seed - given.seed} pairs of caches"


def with_tiers(given: argparse.Namespace, shown: Callable[[str], None]) -> str:
    """Play hierarchies on the compiled core, and the reference's; raises ``AssertionError`` for a difference."""
    from tests.optimized.support.hierarchy_play import STOPS, WRITES, config_of, play

    logging.getLogger("kvlitmus.optimized").addHandler(logging.NullHandler())  # copies fail because they are asked to
    steps, seed = 0, given.seed
    kinds = itertools.cycle(itertools.product(WRITES, STOPS))
    while steps < given.tiers:
        play(config_of(seed, *next(kinds)), seed, CALLS_WITH_TIERS)
        steps, seed = steps + CALLS_WITH_TIERS, seed + 1
        shown(f"{steps:,} steps with tiers, {seed - given.seed} hierarchies")
    return f"{steps:,} steps of {seed - given.seed} hierarchies"


def beside(seed: int, wanted: int, pairs: Sequence[Any], configs: Sequence[Any], shown: Callable[[int], None]) -> int:
    """Play pairs of the core and the reference: how many steps.  Raises ``AssertionError`` for a difference."""
    from kvlitmus.conformance.run import engine, plan
    from kvlitmus.conformance.run.results import Options

    steps, first = 0, seed
    while steps < wanted:
        for one in pairs:
            for item in plan.items(configs, one.profile, seed=seed, steps=1, litmus=seed == first):
                result = engine.run_item(one, item, Options(shrink_trials=0, reruns=0))
                steps += result.steps
                for found in result.findings:
                    raise AssertionError(f"{item.id}: {found.rules}\n{found.detail}")
                shown(steps)
                if steps >= wanted:
                    return steps
        seed += 1
    return steps


def sparse(given: argparse.Namespace, shown: Callable[[str], None]) -> str:
    """Play sparse rows, and the reference's."""
    from kvlitmus.conformance.adapters.optimized.sparse import TARGETS
    from kvlitmus.conformance.run import plan
    from tests.optimized.support.sparse_pair import PairTarget

    pairs = [PairTarget(target.profile) for target in TARGETS.values()]
    tell = lambda steps: shown(f"{steps:,} steps with sparse rows")  # noqa: E731
    return f"{beside(given.seed, given.sparse, pairs, plan.SPARSE_CONFIGS[:3], tell):,} steps of sparse rows"


def components(given: argparse.Namespace, shown: Callable[[str], None]) -> str:
    """Play caches of components, and the reference's."""
    from kvlitmus.conformance.adapters.optimized.components import TARGETS
    from kvlitmus.conformance.run import plan
    from tests.optimized.support.component_pair import PairTarget

    pairs = [PairTarget(target.profile) for target in TARGETS.values()]
    configs = plan.COMPONENT_HOST_CONFIGS + plan.COMPONENT_CONFIGS + plan.COMPONENT_POLICY_CONFIGS
    tell = lambda steps: shown(f"{steps:,} steps with components")  # noqa: E731
    return f"{beside(given.seed, given.components, pairs, configs, tell):,} steps of components"


def main() -> int:
    """The command."""
    given = arguments()
    if given.sanitize:
        return sanitized(given)
    os.environ["KVLITMUS_CORE"] = "native"
    if given.core:
        load(given.core)
    from kvlitmus.optimized import _core

    began = last = time.monotonic()

    def shown(line: str) -> None:
        nonlocal last
        if time.monotonic() - last > 10:
            last = time.monotonic()
            print(line, flush=True)

    tiers, rows = (with_tiers, given.tiers), (sparse, given.sparse)
    plays = ((flat, given.steps), tiers, rows, (components, given.components))
    try:
        played = [play(given, shown) for play, wanted in plays if wanted]
    except AssertionError as error:
        print(error)
        return 1
    print(f"{_core.__file__}: {' and '.join(played)}, 0 differences ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
