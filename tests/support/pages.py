"""What a written page shows, done in the order in which it stands there.

A block with a title is a file, and is written; a ``diff`` changes one; a ``console`` has commands, each with what it
prints; a ``text`` is more of what the last command printed.  ``sh`` is what a test has no time or network for:
its words are understood, and not run.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from kvlitmus.conformance import cli
from kvlitmus.conformance.cli.commands import run as run_command
from kvlitmus.conformance.cli.commands import session
from kvlitmus.conformance.isolation import worker_pool
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.isolation.supervisor import Limits
from kvlitmus.conformance.isolation.worker import described
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.run import engine, targets
from kvlitmus.conformance.run.results import Item, ItemResult, Options, config_from_json
from tests.test_layout import ROOT

DOCS = ROOT / "docs"
LESS = ("--steps", "250", "--jobs", "1")
"""What is given to a ``kvlitmus run`` that names no number of steps and passes: a reader has more time than a test."""

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of a page: its language, the file that it is, if it is one, and its lines."""

    language: str
    title: str
    body: str


class Printed(NamedTuple):
    """What a command printed, and its exit code."""

    text: str
    code: int


def pages() -> dict[str, str]:
    """Every written page with its text, by its path in the checkout."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def blocks(text: str) -> list[Block]:
    """The blocks of a page."""
    return [Block(*found) for found in _BLOCK.findall(text)]


def follow(text: str, folder: Path, *, processes: bool = False) -> list[str]:
    """Do what a page shows, in an empty folder; the commands that were run.  An ``AssertionError`` says what differs.

    Programs that the page links to under ``examples/`` are there from the beginning.  ``processes``: judge in worker
    processes and all of it, as a reader does; otherwise here and less, which is quicker.
    """
    for name in re.findall(r"\]\((?:\.\./)*(?:docs/)?examples/(\w+\.py)\)", text):
        shutil.copy(DOCS / "examples" / name, folder)
    done = list[str]()
    printed: Printed | None = None
    for block in blocks(text):
        if block.language == "console":
            for command, shown in commands(block.body):
                small = not processes and any(line.startswith("exit 0") for line in shown)
                less = LESS if small else LESS[2:]
                printed = run(command, folder, less, processes=processes)
                done.append(command)
                compare(command, shown, printed)
        elif block.language == "diff":
            change(folder / block.title, block.body)
        elif block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.body, encoding="utf-8")
        elif block.language == "sh":
            printed = None
        elif block.language == "text" and printed is not None:
            compare(done[-1], block.body.splitlines(), printed)
    return done


def commands(body: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console, each with the lines that are shown below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def compare(command: str, shown: list[str], printed: Printed) -> None:
    """What is shown must have been printed, in this order, and the exit code be the one that is named."""
    assert missing(shown, printed.text) == [], f"$ {command}\n{printed.text}"
    named = [int(found[1]) for line in shown if (found := re.match(r"exit (\d+)\b", line))]
    assert all(code == printed.code for code in named), f"$ {command}\nexit code {printed.code}\n{printed.text}"


def missing(shown: list[str], printed: str) -> list[str]:
    """Lines that are shown and were not printed, in this order; a line may end with `` …``."""
    rest = iter(printed.splitlines())

    def printed_next(line: str) -> bool:
        start = line.removesuffix(" …")
        return any(other == line or (start != line and other.startswith(start)) for other in rest)

    return [line for line in shown if line.strip() not in ("", "…") and not printed_next(line)]


def change(path: Path, diff: str) -> None:
    """Replace each removed line by the line added after it."""
    text = path.read_text(encoding="utf-8")
    pairs = re.findall(r"^-(.*)\n\+(.*)$", diff, re.MULTILINE)
    assert pairs
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def run(command: str, folder: Path, less: Sequence[str] = (), *, processes: bool = False) -> Printed:
    """Run a command of a page, ``kvlitmus`` or ``python``; a run without ``--steps`` gets these words, too."""
    program, *words = shlex.split(command, comments=True)
    program = program.removeprefix(".venv/bin/")
    arguments = [name for word in words for name in expand(word, folder)]
    if program == "kvlitmus" and arguments[0] == "run" and "--steps" not in arguments:
        arguments += less
    if program == "kvlitmus" and arguments[0] != "replay" and not processes:
        return here(arguments, folder)
    line = {"kvlitmus": [sys.executable, "-m", "kvlitmus.conformance.cli"], "python": [sys.executable]}[program]
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run([*line, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return Printed(done.stdout + done.stderr, done.returncode)


def expand(word: str, folder: Path) -> list[str]:
    """What a shell makes of a word: the files that a pattern stands for, else the word."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob(word)) if "*" in word else [word]


def here(words: Sequence[str], folder: Path) -> Printed:
    """``kvlitmus``, with whatever it judges in this process."""
    out, before = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), set(sys.modules)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}))
        stack.enter_context(patch.object(sys, "path", [str(folder), *sys.path]))
        stack.enter_context(patch.object(session, "ask", asked_here))
        stack.enter_context(patch.object(run_command, "FIRST_SECONDS", 600.0))  # what is shown is shrunk to its end
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)  # an adapter may leave a folder to be cleaned up
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(out))
        try:
            code = cli.main(words)
        finally:
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
                    del sys.modules[name]
            gc.collect()
    return Printed(out.buffer.getvalue().decode(), code)


class HereSession(session.Session):
    """A session with a target that was loaded into this process."""

    target: Any

    def run(
        self, items: Sequence[Item], options: Options, *, jobs: int = 1, on_event: object = None
    ) -> Generator[ItemResult]:
        """Judge one item after the other."""
        for item in items:
            yield engine.run_item(self.target, item, options)


class HerePool:
    """In the place of a pool of workers: it is its one worker, and there is no process."""

    def __init__(self, ref: targets.TargetRef, limits: Limits, state: object) -> None:
        self.target, self.limits = targets.load_target(ref), limits
        self.loaded = described(self.target)

    def __enter__(self) -> HerePool:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ready(self) -> HerePool:
        """The worker."""
        return self

    def ask(self, seconds: float, *, do: str, config: dict[str, Any]) -> dict[str, Any]:
        """Make a cache."""
        try:
            made = engine.fresh_checker(self.target, config_from_json(config), Options(), CurrentRun())
        except Unsupported as declined:
            return {"unsupported": str(declined)}
        except engine.HarnessError as error:
            return {"failed": str(error)}
        return {"capabilities": sorted(made.capabilities)}


ASK = session.ask


def asked_here(ref: targets.TargetRef, limits: Limits | None = None) -> session.Session:
    """Ask a target what it is, in this process."""
    with patch.object(worker_pool, "WorkerPool", HerePool):
        found = HereSession(ref=ref, info=ASK(ref, limits).info)
    found.target = targets.load_target(ref)
    return found
