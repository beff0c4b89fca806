"""Ending early: Ctrl-C, SIGTERM and SIGHUP all end a command alike: it stops, reports what it has, and says so.

Each becomes a ``KeyboardInterrupt`` where the command is; which one it was is told by :func:`exit_code`, 128 and
the number of the signal as in a shell.  A signal that was ignored when the process started, as ``nohup`` does with
SIGHUP and a shell without job control with SIGINT for what it starts in the background, stays ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

KINDLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that end a process, if nobody asks for them, without a last word."""

CODES = frozenset({128 + signal.SIGINT, *(128 + number for number in KINDLY)})
"""The exit codes of a command that was interrupted."""

INTERRUPTED = "interrupted; what is reported up to here is valid"


class Asked:
    """What this process was asked.  by: the signal, 0 as long as there was none.  later: it has to wait.

    A signal comes to the process, whatever runs in it, so there is one of these.
    """

    by = 0
    later = False


def exit_code() -> int:
    """The exit code of a command that was interrupted."""
    return 128 + (Asked.by or signal.SIGINT)


def _interrupt(number: int, _: FrameType | None) -> None:
    if Asked.by:
        return  # whoever ends a process may say so twice, and the first time it has begun to report
    Asked.by = number
    if not Asked.later:
        raise KeyboardInterrupt


@contextmanager
def kindly() -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP are as Ctrl-C, unless they are ignored or somebody else's."""
    mine = []
    if threading.current_thread() is threading.main_thread():
        mine = [number for number in KINDLY if signal.getsignal(number) is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
        Asked.by = 0


@contextmanager
def reporting() -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP are noted only: there is nothing left to stop, and a report to be written."""
    Asked.later = True
    try:
        yield
    finally:
        Asked.later = False
