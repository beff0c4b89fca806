"""Standard output as it may be: closed, on a full disk, on a terminal that has been closed.

What can't be written is lost, and that is said at the end; the command itself goes on, since its exit code and its
reports matter to somebody.  Only a reader that has gone away ends it, as it ends other commands.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class Steady:
    """A text stream that goes on when writing fails.  failed: what went wrong first."""

    def __init__(self, stream: TextIO, failed: OSError | None = None) -> None:
        self.stream = stream
        self.failed = failed

    def write(self, text: str) -> int:
        """Write, or lose what can't be written."""
        try:
            return self.stream.write(text)
        except OSError as error:
            self.lose(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or lose what can't be written."""
        try:
            self.stream.flush()
        except OSError as error:
            self.lose(error)

    def lose(self, error: OSError) -> None:
        """From now on nothing is written; ``BrokenPipeError`` comes through."""
        if isinstance(error, BrokenPipeError):
            raise error
        self.failed = self.failed or error
        with suppress(OSError, ValueError):
            to_nowhere(self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def to_nowhere(file: int) -> None:
    """Have everything that is written to a descriptor go nowhere: Python must not try again at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, file)
    os.close(null)


def open_standard() -> None:
    """Open the standard descriptors that are closed, so that no other file gets their numbers."""
    for file in (0, 1, 2):
        try:
            os.fstat(file)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free


@contextmanager
def steady() -> Iterator[Steady]:
    """Meanwhile standard output is steady, and there is a standard error."""
    out, err = sys.stdout, sys.stderr
    open_standard()
    closed = OSError(errno.EBADF, "it is closed")
    with open(os.devnull, "w", encoding="utf-8") as null:  # noqa: PTH123
        mine = Steady(null, closed) if out is None else Steady(out)
        sys.stdout = cast("TextIO", mine)
        sys.stderr = null if err is None else err
        try:
            yield mine
        finally:
            sys.stdout, sys.stderr = out, err
