"""What the tests of the command line have in common."""

from __future__ import annotations

import sys

import pytest

ONE = ["--config", "page_size=1,policy=lru,bigram=false,pool=device", "--jobs", "1", "--color", "never"]
BROKEN = "kvlitmus.mutants.run:by_name.lookup_pins"

Capture = pytest.CaptureFixture[str]


def command(*words: str) -> list[str]:
    """The command as a process."""
    return [sys.executable, "-m", "kvlitmus.conformance.cli", *words]
