"""The parent of a process: no worker outlives the one that started it, however that one ended.

On Linux the kernel sees to it: the worker asks for SIGKILL when the thread that started it ends, so that even one in
a call that never lets go of the interpreter's lock is gone.  Elsewhere, and where that thread may end before the
process does, a thread of the worker looks every now and then whose child it is; that needs the lock, so a
worker in such a call ends only when the call does.  Where an interpreter is a script that starts the real one and
waits, the script is the parent; then the worker notices that nobody speaks to it any more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1

LASTING, PASSING = "lasting", "passing"


def told() -> str:
    """What a child is told, for :class:`Parent`: whether the thread that starts it lasts as long as this process."""
    return LASTING if threading.current_thread() is threading.main_thread() else PASSING


class Parent:
    """The process that has started this one, and what was :func:`told` of it."""

    def __init__(self, told: str) -> None:
        self.number = os.getppid()
        if told == LASTING and sys.platform == "linux":
            die_with_parent()
        self.check()  # it may have ended before the kernel was asked

    def check(self) -> None:
        """End this process if the parent is gone."""
        if os.getppid() != self.number:
            os._exit(0)


def die_with_parent() -> bool:
    """Have the kernel end this process when the thread that started it ends; whether it will."""
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0)
    except (OSError, AttributeError):  # a system without it, or an interpreter that can't call it
        return False
