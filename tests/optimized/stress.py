"""Stress of the free-running mode: many requests over small pools, and every slot's contents checked before it is used.

    python -m tests.optimized.stress --minutes 60
    python -m tests.optimized.stress --seconds 20 --seed 3

A run is a series of rounds, each with a configuration drawn anew and fresh pools.  In a round a scheduler drives
several request streams at once over real tensors, with copies that lag (``support/stress_world.py``), threads that read
and write a file store, storage that is slow and fails, copies that fail where they are submitted and under way, and
memory that runs out.  Requests are abandoned and aborted, storage comes and goes, pages are evicted on purpose.  At the
end of a round everything is written to storage and the cache is closed; a second cache then reads all of it back.

A slot is *used* when a request computes with it; before that, layer by layer, each byte of it is compared with the
fingerprint of the token that it stands for.  What is put to storage is checked, too, and whenever a round comes to rest
every page of both pools has exactly one owner and every cached page the right contents.

Prints a line of JSON per round to stderr with ``--verbose``, and one for all of them at the end.  The exit code is 1
when anything was wrong; a hang ends the process with the stacks of all threads.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.optimized.support.stress_round import Round
from tests.optimized.support.stress_setting import Setting, drawn

HANG = 1_200.0
"""After so many seconds without some steps the process ends."""

PLANTED = ("", "hasty", "swap", "unpinned-load", "unlocked-backup", "unpinned-put", "early-release", "kept-load")
"""Faults that must be found: a copy that says too early that it is done, storage that answers with another page, rules
of upkeep that somebody has forgotten, and a load that failed and stays cached."""


# -- runs -------------------------------------------------------------------------------------------


def one_round(setting: Setting, seconds: float) -> Counter[str]:
    """One round of so many seconds; what happened.  Raises what was wrong."""
    with tempfile.TemporaryDirectory(prefix="kvlitmus-stress-", ignore_cleanup_errors=True) as folder:
        now = Round(setting, Path(folder) / "pages")
        until = time.monotonic() + seconds
        resting = time.monotonic() + seconds / 3
        try:
            while time.monotonic() < until:
                if now.counts["steps"] % 100 == 0:
                    faulthandler.dump_traceback_later(HANG, exit=True)
                now.step()
                if time.monotonic() > resting:
                    now.rest()
                    resting += seconds / 3
            faulthandler.dump_traceback_later(HANG, exit=True)
            now.rest()
            now.close()
        except BaseException:
            now.stop()
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
        return now.counts


def run(
    seconds: float,
    seed: int = 0,
    planted: str = "",
    *,
    device: str = "cpu",
    per_round: float = 5.0,
    verbose: bool = False,
) -> Any:
    """Rounds for so many seconds; what happened in all of them, and what was wrong with the first that was wrong."""
    began = time.monotonic()
    total: Counter[str] = Counter()
    wrong: dict[str, Any] = {}
    rounds = 0
    while not wrong and (rounds == 0 or time.monotonic() - began < seconds):
        setting = drawn(seed + rounds, planted, device)
        left = seconds - (time.monotonic() - began)
        try:
            counts = one_round(setting, max(0.5, min(per_round, left)))
            total += counts
        except Exception as error:  # noqa: BLE001  whatever was raised is what was wrong
            if verbose:
                traceback.print_exc()
            wrong = {"what": f"{type(error).__name__}: {error}", "setting": setting._asdict()}
        rounds += 1
        if verbose:
            print(json.dumps({"round": rounds, "setting": setting._asdict(), **counts}), file=sys.stderr, flush=True)
    spent = round(time.monotonic() - began, 1)
    return {"rounds": rounds, "seconds": spent, "seed": seed, "planted": planted, "wrong": wrong, **sorted_(total)}


def sorted_(counts: Counter[str]) -> dict[str, int]:
    """Counts by name."""
    return {name: counts[name] for name in sorted(counts)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description="Stress the free-running cache, and check every slot before it is used."
    )
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--round", type=float, default=5.0, help="seconds per round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--planted", choices=PLANTED, default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seconds = options.seconds + 60 * options.minutes or 20.0
    found = run(
        seconds,
        options.seed,
        options.planted,
        device=options.device,
        per_round=options.round,
        verbose=options.verbose,
    )
    print(json.dumps(found))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
