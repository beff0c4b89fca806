"""Folders and servers that live as long as this process, and not a moment longer.

A worker may be ended at any time, by a signal and with all its children, and then runs no code of its own.
So a small second process, which is nobody's child, waits for the end of this one (its input ends then), stops the
server if there is one, and removes the folder.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
import weakref
from collections.abc import Sequence
from pathlib import Path

from kvlitmus.conformance.isolation.process import MARK

KEEPER = """
import os, shutil, subprocess, sys
if os.fork():
    os._exit(0)
folder, command = sys.argv[1], sys.argv[2:]
os.mkdir(folder, 0o700)
try:
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) if command else None
    os.write(1, b".")
    os.close(1)
    sys.stdin.buffer.read()
    if server is not None:
        server.kill()
        server.wait()
finally:
    shutil.rmtree(folder, ignore_errors=True)
"""
"""It makes the folder itself, so that none is left when this process is ended before the keeper is at work."""

_serials = itertools.count(1)


def kept_folder(*command: str, prefix: str = "kvlitmus-scratch-") -> Path:
    """A new folder, removed when this process ends; ``command`` runs in it until then.

    ``{folder}`` in the command stands for the folder.  Raises ``OSError`` when that can't be made.
    """
    folder = Path(tempfile.gettempdir()) / f"{prefix}{uuid.uuid4().hex}"
    words = [word.replace("{folder}", str(folder)) for word in command]
    # Without the mark by which a run finds what its workers left behind: the keeper has to outlive them a little.
    settings = {name: value for name, value in os.environ.items() if name != MARK}
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", KEEPER, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=settings,
    )
    keeper.wait()  # it goes on as another process; the pipe to it stays open as long as this process lives
    with keeper.stdout or contextlib.nullcontext() as ready:
        if ready is None or not ready.read(1):
            raise OSError(f"no folder could be made in {folder.parent}, or {' '.join(words) or 'nothing'} not started")
    assert keeper.stdin is not None
    _pipes.append(os.dup(keeper.stdin.fileno()))  # nothing closes this one, or warns of it, when Python ends
    keeper.stdin.close()
    return folder


_pipes: list[int] = []


@functools.cache
def process_folder(pid: int) -> Path:
    """The folder of this process; a child of ``fork`` asks under its own number and gets its own."""
    assert pid == os.getpid()
    return kept_folder()


def yard() -> Path:
    """A new folder within that of the process."""
    folder = process_folder(os.getpid()) / str(next(_serials))
    folder.mkdir(mode=0o700)
    return folder


def remove_with(owner: object, folder: Path) -> None:
    """Remove a folder as soon as its owner is gone."""
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)


def strays(folder: Path, own: str) -> Sequence[str]:
    """What lies in a folder beside the one thing that belongs there."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name != own)
