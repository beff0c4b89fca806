"""The programs that judge correctness from outside: the suite, the example, stress, and the tests marked ``gpu``.

Each is a stage of its own; they run last, when the table is there: the tests alone, the others at once.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.stage import Bench, Skip

ROOMS = ("spec", "reference", "optimized", "conformance")
TESTS = "tests marked gpu"
BESIDE = ("suite", "end to end", "stress")
"""Programs that run at once, beside the other long stages."""
WORKERS = 16
"""Processes of the tests at most; they share the device."""
STRESS = 40
"""Seconds of stress; more in the nightly runs."""


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


def program(bench: Bench, name: str) -> None:
    """Run :data:`TESTS`, or one of :data:`BESIDE`, to its end, in this process's group.

    Whoever kills that kills the program.

    What it prints goes where this stage's output goes.  Raises ``Skip`` where it can't be run, ``RuntimeError`` for
    an exit code that says nothing of the data.
    """
    command = command_of(bench, name)
    if command is None:
        raise Skip("not in this checkout")
    posts = signposts(bench.root)
    try:
        done = subprocess.run(command, cwd=bench.root, env=place(bench, posts), stdin=subprocess.DEVNULL, check=False)
    finally:
        shutil.rmtree(posts, ignore_errors=True)
    judge(bench, name, done.returncode)


def command_of(bench: Bench, name: str) -> list[str] | None:
    """What is started; ``None`` where it isn't in this checkout."""
    if name == TESTS:
        return pytest_command(bench.root)
    if name == "suite":
        return suite_command()
    if name == "end to end":
        return example_command(bench.root, bench.device)
    return stress_command(bench.root, bench.device, bench.seed)


def place(bench: Bench, posts: str) -> dict[str, str]:
    """The environment of a program of this checkout, without installation: by ``PYTHONPATH`` alone."""
    roots = [posts, *(str(bench.root / room) for room in ROOMS), str(bench.root)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*roots, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "KVLITMUS_DEVICE": bench.device,
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "2",  # several programs at once, and tensors too small for more
    }


def pytest_command(root: Path) -> list[str]:
    """Runs pytest over the files that have tests marked ``gpu``, and no others: the rest may need what isn't here."""
    marked = re.compile(r"pytest\.mark\.gpu\b")
    files = sorted(
        str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py") if marked.search(path.read_text())
    )
    # Warnings of another release of a library are no errors here.
    settings = ["-o", "addopts=", "--import-mode=importlib", "-W", "default", "-p", "no:cacheprovider"]
    settings += ["-q", "-rfEs", "-m", "gpu"]
    workers = min(WORKERS, os.cpu_count() or 1)
    if importlib.util.find_spec("xdist") is not None and workers > 1:  # most of the time kernels are compiled
        settings += ["-n", str(workers), "--dist=worksteal", "-p", "no:benchmark"]
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


def judge(bench: Bench, name: str, code: int) -> None:
    """What an exit code says about the data: 1 is wrong data, anything else unknown is the harness's trouble."""
    if code == 0:
        bench.record.check(name, 1, [], "exit code 0")
    elif code == 1:
        bench.record.check(name, 1, ["exit code 1"])
        raise RuntimeError("exit code 1; its output is in the record")
    else:
        raise RuntimeError(f"exit code {code}; its output is in the record")
