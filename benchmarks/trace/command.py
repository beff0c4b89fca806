"""The command ``python -m benchmarks.trace``: a trace through a target, and how much of it was found.

Exit codes: 0 all capacities were replayed; 2 the trace, a capacity or the target can't be used; 3 the
cache failed; 130 interrupted.  What was finished before a failure or an interrupt is printed.

A target whose environment is another Python is replayed by that Python: it runs this module with the
same arguments, and what it prints and its exit code are the command's.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from benchmarks.record import ROOT
from benchmarks.trace import plot
from benchmarks.trace.mooncake import Trace, TraceError, load_trace
from benchmarks.trace.replay import (
    VARIANTS,
    AdapterFailed,
    CannotReplay,
    Figures,
    build,
    caveats,
    check_capacity,
    replay,
)
from kvlitmus.conformance.isolation import parent
from kvlitmus.conformance.ports import Profile, Target
from kvlitmus.conformance.run.targets import TargetRef, UnknownTarget, load_target, resolve_target
from kvlitmus.conformance.support import ending
from kvlitmus.conformance.support.text import harmless, raised_text, shown, type_name

CAPACITIES = (500, 2_000, 5_000, 10_000, 30_000, 100_000)
"""The capacities that are replayed when none are named, as far as they make sense for the trace."""

MAX_CAPACITY = 10_000_000
"""The largest capacity, in blocks."""

MAX_CAPACITIES = 100
"""The most capacities of one run."""

PARENT = "KVLITMUS_PARENT"
"""The variable that tells a target's own Python who has started it."""

GRACE = 10.0
"""Seconds that a target's own Python has to end after an interrupt."""

NAME = "python -m benchmarks.trace"

DESCRIPTION = "Runs a trace of real requests through a cache, and counts what was found."

TRACE_EXAMPLES = """\
examples:
  python -m benchmarks.trace trace.jsonl    the built-in cache, at the usual capacities
  python -m benchmarks.trace trace.jsonl --target my_cache:target --capacity 1000,5000 --json
  python -m benchmarks.trace trace.jsonl --plot found.svg    and a picture of it

Nothing is judged here but what makes figures worthless. Caches that differ in legal choices differ
in their figures; which ones those are is said on stderr.

exit codes: 0 all capacities were replayed; 2 the trace, a capacity or the target can't be used;
3 the cache failed; 130 interrupted"""

COLUMNS = ("capacity", "hit blocks", "of all", "hit tokens", "of all", "evictions", "requests with hit", "seconds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="a trace in Mooncake's format: JSON Lines, one request a line")
    parser.add_argument(
        "--target", metavar="T", default="specimen", help="a target's name, or module:attribute (default: specimen)"
    )
    parser.add_argument(
        "--capacity",
        metavar="N,N,…",
        type=capacities,
        help=f"capacities in blocks (default: {','.join(map(str, CAPACITIES))}, as far as the trace allows)",
    )
    parser.add_argument(
        "--variant",
        choices=tuple(VARIANTS),
        default="full-leaf",
        help="full-leaf: only full blocks take part; all-leaf: the partly filled last one too (default: full-leaf)",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as a JSON list and nothing else")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw how much was found over the capacity: .svg or .png (needs the extra 'plot': matplotlib)",
    )
    parser.add_argument("--figures", metavar="FILE", help=argparse.SUPPRESS)


def capacities(text: str) -> tuple[int, ...]:
    """``500,2000`` as numbers; raises ``ArgumentTypeError``."""
    words = text.split(",")
    found = []
    for word in words:
        plain = word.strip().replace("_", "")
        if not (plain.isascii() and plain.isdigit() and len(plain) < 10 and 1 <= int(plain) <= MAX_CAPACITY):
            raise argparse.ArgumentTypeError(
                f"expected numbers of blocks from 1 to {MAX_CAPACITY:,}, got {shown(word, 40)}"
            )
        found.append(int(plain))
    if len(found) > MAX_CAPACITIES:
        raise argparse.ArgumentTypeError(f"expected at most {MAX_CAPACITIES} capacities, got {len(found)}")
    return tuple(found)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    try:
        ref = resolve_target(args.target)
        if args.plot is not None:
            plot.check(args.plot)
    except (UnknownTarget, plot.CannotPlot) as error:
        return complain(harmless(error), 2)
    if args.plot is None:
        return replayed(args, ref)
    with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
        args.figures = str(Path(folder) / "figures.json")
        code = replayed(args, ref)
        return code or draw(args, ref)


def replayed(args: argparse.Namespace, ref: TargetRef) -> int:
    """Replay in this Python, or in the target's own."""
    return run_here(args, ref) if ref.python == sys.executable else run_there(args, ref)


def draw(args: argparse.Namespace, ref: TargetRef) -> int:
    """Draw the figures that the replay has left, wherever it ran."""
    kept = json.loads(Path(args.figures).read_text(encoding="utf-8"))
    title = f"{harmless(ref.name, 60)}, {harmless(Path(args.file).name, 60)}, {args.variant}"
    try:
        plot.draw(args.plot, kept["rows"], blocks=kept["blocks"], tokens=kept["tokens"], title=title)
    except plot.CannotPlot as error:
        return complain(harmless(error), 2)
    print(f"picture in {harmless(args.plot)}", file=sys.stderr)
    return 0


def run_here(args: argparse.Namespace, ref: TargetRef) -> int:
    """Run the command in this process."""
    output = Output(sys.stdout, json=args.json, kept=args.figures)
    try:
        with redirect_stdout(sys.stderr):  # what a cache prints must not get between the figures
            trace = load_trace(args.file)
            wanted = chosen(trace, args.variant, args.capacity)
            target = load(ref)
            check(target, ref.name, wanted)
            replay_all(trace, target, args.variant, wanted, output)
    except TraceError as error:
        return complain(str(error), 2)
    except UnknownTarget as error:
        return complain(harmless(error), 2)
    except CannotReplay as reason:
        return complain(f"target {ref.name!r} can't take part: {reason}", 2)
    except AdapterFailed as error:
        output.end()
        return complain(f"target {ref.name!r} failed: {error}", 3)
    except KeyboardInterrupt:
        output.end()
        return complain(
            "interrupted; the figures printed are those of the capacities that were finished", ending.exit_code()
        )
    output.end()
    return 0


def run_there(args: argparse.Namespace, ref: TargetRef) -> int:
    """Run the command in the target's own Python; an interrupt is passed on, once, and its answer waited for."""
    command = [ref.python, "-m", "benchmarks.trace", args.file, "--target", ref.name, "--variant", args.variant]
    if args.capacity is not None:
        command += ["--capacity", ",".join(map(str, args.capacity))]
    if args.json:
        command.append("--json")
    if args.figures is not None:
        command += ["--figures", args.figures]
    path = os.pathsep.join([str(ROOT), *ref.roots, *ref.folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        # In a session of its own the child doesn't get the terminal's interrupt a second time.
        env = {**os.environ, "PYTHONPATH": path, PARENT: parent.told()}
        child = subprocess.Popen(command, env=env, start_new_session=True)
    except OSError as error:
        return complain(f"target {ref.name!r} can't take part: {ref.python} can't be run: {error.strerror}", 2)
    try:
        code = child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(timeout=GRACE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            child.kill()
            child.wait()
            return complain("interrupted", ending.exit_code())
        return ending.exit_code()
    return code if code >= 0 else complain(f"target {ref.name!r} failed: its process died of signal {-code}", 3)


def load(ref: TargetRef) -> Target:
    """The target itself; raises :class:`CannotReplay` when there is none."""
    sys.path[:0] = [folder for folder in ref.folders if folder not in sys.path]
    try:
        found: Any = load_target(ref)
    except (KeyboardInterrupt, UnknownTarget):
        raise
    except BaseException as error:
        raise CannotReplay(f"importing {ref.module} raised {raised_text(error)}") from error
    profile = getattr(found, "profile", None)
    if isinstance(found, type) or not callable(getattr(found, "make", None)) or not isinstance(profile, Profile):
        what = "a class" if isinstance(found, type) else f"of type {type_name(found)}"
        raise CannotReplay(f"expected an object with make(config) and a Profile as its profile; it is {what}")
    target: Target = found
    return target


def complain(text: str, code: int) -> int:
    """Say what went wrong; returns the exit code."""
    print(f"{NAME}: {text}", file=sys.stderr)
    return code


def chosen(trace: Trace, variant: str, given: Sequence[int] | None) -> tuple[int, ...]:
    """The capacities to replay; raises :class:`TraceError` when a given one can't hold the longest request.

    Of the default ones those are left out that can't, and those beyond the first that never evicts.
    """
    if given is not None:
        for capacity in given:
            check_capacity(trace, variant, capacity)
        return tuple(given)
    longest = max(map(VARIANTS[variant], trace.requests))
    fitting = [capacity for capacity in CAPACITIES if capacity >= longest] or [max(longest, 1)]
    apart = different(trace, variant)
    needed = sum(1 for capacity in fitting if capacity < apart) + 1
    return tuple(fitting[:needed])


def different(trace: Trace, variant: str) -> int:
    """How many blocks there are, each counted once."""
    return len({block for request in trace.requests for block in request.blocks[: VARIANTS[variant](request)]})


def check(target: Target, name: str, wanted: Sequence[int]) -> None:
    """Say on stderr why this target's figures may differ; raises :class:`CannotReplay` when it has none."""
    build(target, min(wanted))
    for text in caveats(target.profile):
        print(f"note: target {name!r}: {text}", file=sys.stderr)


def replay_all(trace: Trace, target: Target, variant: str, wanted: Sequence[int], output: Output) -> None:
    """Replay the trace at each capacity, and give each one's figures out at once."""
    output.begin(trace, variant)
    for capacity in wanted:
        start = time.perf_counter()
        progress = Progress(sys.stderr, capacity, len(trace.requests))
        try:
            figures = replay(trace.requests, target, capacity, variant, progress.show)
        finally:
            progress.clear()
        output.figures(figures, time.perf_counter() - start)


class Progress:
    """How far the replay at one capacity is, on a terminal; elsewhere nothing."""

    def __init__(self, stream: TextIO, capacity: int, total: int) -> None:
        self.stream = stream
        self.capacity = capacity
        self.total = total
        self.live = stream.isatty()
        self.shown = 0.0

    def show(self, done: int) -> None:
        """So many requests are done."""
        if self.live and (now := time.monotonic()) - self.shown >= 0.1:
            self.shown = now
            print(f"\r\x1b[Kcapacity {self.capacity:,}: {done:,} of {self.total:,} requests", end="", file=self.stream)
            self.stream.flush()

    def clear(self) -> None:
        """Nothing more to show."""
        if self.live:
            print("\r\x1b[K", end="", file=self.stream)
            self.stream.flush()


class Output:
    """Where figures go: to a table that grows, or, as JSON, to one list at the end; and to a file, for a picture."""

    def __init__(self, stream: TextIO, *, json: bool, kept: str | None) -> None:
        self.stream = stream
        self.json = json
        self.kept = kept
        self.blocks = self.tokens = 0
        self.rows: list[dict[str, int]] = []

    def begin(self, trace: Trace, variant: str) -> None:
        """What the trace is, and the head of the table."""
        self.blocks = sum(map(VARIANTS[variant], trace.requests))
        self.tokens = sum(request.tokens for request in trace.requests)
        self.line(
            f"{len(trace.requests):,} requests, {self.tokens:,} input tokens; {variant}: {self.blocks:,} blocks, "
            f"{different(trace, variant):,} different (a capacity from there on never evicts)"
        )
        self.line("  ".join(f"{name:>10}" for name in COLUMNS))

    def figures(self, figures: Figures, seconds: float) -> None:
        """One capacity is done."""
        self.rows.append(figures._asdict())
        cells = (
            f"{figures.capacity:,}",
            f"{figures.hit_blocks:,}",
            f"{figures.hit_blocks / max(1, self.blocks):.2%}",
            f"{figures.hit_tokens:,}",
            f"{figures.hit_tokens / self.tokens:.2%}",
            f"{figures.evictions:,}",
            f"{figures.requests_with_hit:,}",
            f"{seconds:.1f}",
        )
        self.line("  ".join(f"{cell:>{max(10, len(name))}}" for cell, name in zip(cells, COLUMNS, strict=True)))

    def line(self, text: str) -> None:
        """One line of the table, at once."""
        if not self.json:
            print(text, file=self.stream, flush=True)

    def end(self) -> None:
        """Nothing more comes."""
        if self.json:
            rows = ",\n".join(f"  {json.dumps(row)}" for row in self.rows)
            print(f"[\n{rows}\n]" if rows else "[]", file=self.stream, flush=True)
        if self.kept is not None:
            kept = {"blocks": self.blocks, "tokens": self.tokens, "rows": self.rows}
            Path(self.kept).write_text(json.dumps(kept), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """The command; :func:`run_there` starts it in a target's own Python, where it stays."""
    parser = argparse.ArgumentParser(
        prog=NAME,
        description=DESCRIPTION,
        epilog=TRACE_EXAMPLES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    args = parser.parse_args(arguments)
    if PARENT in os.environ:
        parent.Parent(os.environ.pop(PARENT))
        return run_here(args, resolve_target(args.target, python=sys.executable))
    return run(args)
