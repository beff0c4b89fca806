"""Folders and servers that live as long as this process, and not a moment longer.

A worker may be ended at any time, by a signal too, and then runs no code of its own.  So a small
second process waits for the end of this one (its input ends then), stops the server if there is one, and
removes the folder.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

KEEPER = """
import shutil, subprocess, sys
folder, command = sys.argv[1], sys.argv[2:]
server = subprocess.Popen(command, stdin=subprocess.DEVNULL) if command else None
try:
    sys.stdin.buffer.read()
finally:
    if server is not None:
        server.kill()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)
"""

_serials = itertools.count(1)


def kept_folder(*command: str, prefix: str = "kvlitmus-") -> Path:
    """A new folder, removed when this process ends; ``command`` runs in it until then.

    ``{folder}`` in the command stands for the folder.  Raises ``OSError`` when that can't be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    words = [word.replace("{folder}", str(folder)) for word in command]
    # Never waited for: its end is what it is for.  Its input is the pipe that ends with this process.
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", KEEPER, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=True,
    )
    _keepers.append(keeper)
    return folder


_keepers: list[subprocess.Popen[bytes]] = []


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
