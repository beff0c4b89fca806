"""What the tutorial shows works as it stands there: files are written, changes made, commands run, in its order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layout import ROOT

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
MAX_ADAPTER_LINES = 60

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def change(path: Path, diff: str) -> None:
    """Replace each removed line by the line added after it."""
    text = path.read_text(encoding="utf-8")
    pairs = re.findall(r"^-(.*)\n\+(.*)$", diff, re.MULTILINE)
    assert pairs
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def expand(word: str, folder: Path) -> list[str]:
    """What a shell makes of a word: the files that a pattern stands for, else the word."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob(word)) if "*" in word else [word]


def run(command: str, folder: Path) -> tuple[str, int]:
    """What a command of the tutorial prints, and its exit code."""
    program, *words = shlex.split(command)
    assert program == "kvlitmus"
    arguments = [name for word in words for name in expand(word, folder)]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "kvlitmus.conformance.cli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode


def missing(shown: list[str], printed: str) -> list[str]:
    """Lines that the tutorial shows and the command does not print, in this order; a line may end with `` …``."""
    rest = iter(printed.splitlines())

    def printed_next(line: str) -> bool:
        start = line.removesuffix(" …")
        return any(other == line or (start != line and other.startswith(start)) for other in rest)

    return [line for line in shown if line.strip() not in ("", "…") and not printed_next(line)]


@pytest.mark.slow
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    done = set()
    for language, title, body in _BLOCK.findall(TEXT):
        done.add(language)
        if language == "python":
            (tmp_path / title).write_text(body, encoding="utf-8")
        elif language == "diff":
            change(tmp_path / title, body)
        else:
            first, *shown = body.splitlines()
            printed, code = run(first.removeprefix("$ "), tmp_path)
            assert missing(shown, printed) == [], printed
            for line in shown:
                if exit_line := re.match(r"exit (\d+): ", line):
                    assert code == int(exit_line.group(1))
    assert done == {"python", "diff", "console"}


def test_the_adapter_stays_small() -> None:
    (adapter,) = [body for _, title, body in _BLOCK.findall(TEXT) if title == "toy_target.py"]
    assert len([line for line in adapter.splitlines() if line.strip()]) <= MAX_ADAPTER_LINES


def test_a_line_that_is_not_printed_is_missed() -> None:
    assert missing(["a", "…", "c"], "a\nb\nc\n") == []
    assert missing(["c", "a"], "a\nb\nc\n") == ["a"]
    assert missing(["d"], "a\nb\nc\n") == ["d"]
    assert missing(["a …", "b"], "a 1\nb\n") == []
    assert missing(["a …"], "b a 1\n") == ["a …"]
    assert missing(["{0…3}"], "{0…4}\n") == ["{0…3}"]
