"""The programs that judge correctness from outside: the suite, the example, and the tests marked ``gpu``.

They are started in the first stage, all at once, and run beside the checks of this process; their verdicts are
collected before anything is timed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.gpu_device import Machine, environment
from benchmarks.gpu_stage import Bench, Skip

ROOMS = ("spec", "reference", "optimized", "conformance")
NAMES = ("tests marked gpu", "suite", "end to end", "stress")
STRESS = 40
"""Seconds of stress; more in the nightly runs."""
KEPT = 6_000
"""Characters of a program's output that go into the record."""


@dataclass
class Program:
    """A program that was started, and where its output goes."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    started: float

    def text(self) -> str:
        """What it has printed so far."""
        self.output.flush()
        return Path(self.output.name).read_text(errors="replace")

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or ``None`` when it took longer; then it is ended, with what it has started."""
        try:
            return self.process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            self.end()
            return None

    def end(self) -> None:
        """End it and its children, which are in a process group of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()


def signposts(root: Path) -> str:
    """A folder of packages that stand for the checkout's own.

    Folders without an ``__init__.py`` give way to any installed package of their name, and some packages do install
    their ``tests``; a package at the very front of the path does not.
    """
    folder = Path(tempfile.mkdtemp(prefix="kvlitmus-gpu-"))
    for name in ("benchmarks", "examples", "tests"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"__path__ = [{str(root / name)!r}]\n")
    return str(folder)


def _start(bench: Bench, name: str, command: list[str]) -> None:
    """Start a program of this checkout, without installation: by ``PYTHONPATH`` alone."""
    if "signposts" not in bench.kept:
        bench.kept["signposts"] = signposts(bench.root)
    roots = [bench.kept["signposts"], *(str(bench.root / room) for room in ROOMS), str(bench.root)]
    place = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*roots, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "KVLITMUS_DEVICE": bench.device,
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "2",  # several programs at once, and tensors too small for more
    }
    output = tempfile.NamedTemporaryFile(prefix="kvlitmus-gpu-", suffix=".log")  # noqa: SIM115 (closed in collect)
    process = subprocess.Popen(
        command, cwd=bench.root, env=place, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    bench.kept.setdefault("programs", {})[name] = Program(name, command, process, output, time.monotonic())


def end_all(bench: Bench) -> None:
    """End what is still running, whatever happens."""
    for program in bench.kept.get("programs", {}).values():
        if program.process.poll() is None:
            program.end()
    if "signposts" in bench.kept:
        shutil.rmtree(bench.kept["signposts"], ignore_errors=True)


def start(bench: Bench) -> None:
    """Say what this machine is, and start the programs."""
    bench.kept["machine"] = Machine(bench.device, bench.seed)
    bench.kept["chunk_sizes"] = [512, 4096] if bench.dry else [128 << 10, 32 << 10, 8 << 10]
    bench.record.head.update(environment(bench.device))
    # A build tells whether the driver is newer than torch's CUDA, which changes what the copy engine does.
    if importlib.util.find_spec("kvlitmus") is None:
        raise RuntimeError("kvlitmus can't be imported: PYTHONPATH must name the four roots")
    if bench.dry:
        return
    _start(bench, "tests marked gpu", pytest_command(bench.root))
    for name, command in (
        ("suite", suite_command()),
        ("end to end", example_command(bench.root, bench.device)),
        ("stress", stress_command(bench.root, bench.device, bench.seed)),
    ):
        if command:
            _start(bench, name, command)


def pytest_command(root: Path) -> list[str]:
    """Runs pytest over the files that have tests marked ``gpu``, and no others: the rest may need what isn't here."""
    marked = re.compile(r"pytest\.mark\.gpu\b")
    files = sorted(
        str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py") if marked.search(path.read_text())
    )
    # Warnings of another release of a library are no errors here.
    # One process, whatever the project's own settings say: there is one device.
    settings = ["-o", "addopts=", "--import-mode=importlib", "-W", "default", "-p", "no:cacheprovider"]
    settings += ["-q", "-rfEs", "-m", "gpu"]
    if importlib.util.find_spec("pytest_timeout") is None:
        settings += ["-c", os.devnull, "--rootdir", str(root), "-o", f"pythonpath={root}"]
        settings += ["-o", "markers=gpu: needs a CUDA device"]
    return [sys.executable, "-m", "pytest", *settings, *files]


def suite_command() -> list[str] | None:
    """The whole suite on the optimized cache with pools on the device; ``None`` where no such target is listed."""
    from kvlitmus.conformance.run.targets import KNOWN

    if "optimized-cuda" not in KNOWN:
        return None
    options = ["--steps", "500", "--jobs", "6", "--color", "never", "--timeout", "60"]
    return [sys.executable, "-m", "kvlitmus.conformance.cli", "run", "optimized-cuda", *options]


def example_command(root: Path, device: str) -> list[str] | None:
    """The transformer that serves prompts through the cache; ``None`` where it isn't in this checkout."""
    if not (root / "examples" / "serve.py").exists():
        return None
    return [sys.executable, "-m", "examples.serve", "--device", device]


def stress_command(root: Path, device: str, seed: int) -> list[str] | None:
    """The free-running cache under stress, every slot checked before it is used; ``None`` where it isn't there."""
    if not (root / "tests" / "optimized" / "stress.py").exists():
        return None
    options = ["--device", device, "--seconds", str(STRESS), "--seed", str(seed)]
    return [sys.executable, "-m", "tests.optimized.stress", *options]


def collect(bench: Bench) -> None:
    """Wait for the programs, and record what they found."""
    programs: dict[str, Program] = bench.kept.get("programs", {})
    troubles: list[str] = []
    for name in NAMES:
        program = programs.get(name)
        if program is None:
            note = "exercised on CUDA only" if bench.dry else "not in this checkout"
            bench.record.check(name, 0, [], f"not run: {note}")
            continue
        code = program.wait(bench.left())
        seconds = time.monotonic() - program.started
        text = program.text()
        program.output.close()
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        bench.record.head.setdefault("programs", {})[name] = {
            "command": program.command,
            "exit_code": code,
            "seconds": round(seconds, 1),
            "output": text[-KEPT:],
        }
        try:
            judge(bench, name, code, last)
        except RuntimeError as error:
            troubles.append(str(error))
    if troubles:
        raise RuntimeError("; ".join(troubles))
    if not programs and not bench.dry:
        raise Skip("nothing was started")


def judge(bench: Bench, name: str, code: int | None, last: str) -> None:
    """What an exit code says about the data: 1 is wrong data, anything else unknown is the harness's trouble."""
    if code is None:
        bench.record.check(name, 0, [], "NOT FINISHED in its time")
        bench.record.unfinished.append(name)
    elif code == 0:
        bench.record.check(name, 1, [], last[:200])
    elif code == 1:
        bench.record.check(name, 1, [f"exit code 1: {last[:200]}"], "see programs in the JSON")
    else:
        raise RuntimeError(f"{name} ended with exit code {code}: {last[:300]}; {json.dumps(name)} in the JSON has more")
