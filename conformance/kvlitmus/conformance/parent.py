"""The parent of a process: no worker outlives the one that started it, however that one ended.

On Linux the kernel sees to it: the worker asks for SIGKILL when the thread that started it ends, so that even one in
a call that never lets go of the interpreter's lock is gone.  Elsewhere, and where that thread may end before the
process does, a thread of the worker looks every now and then whose child it is; that needs the lock, so a
worker in such a call ends only when the call does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1


def told() -> str:
    """What a child is told of this process, for :class:`Parent`: its number, and whether the kernel can be asked."""
    lasting = threading.current_thread() is threading.main_thread()
    return f"{os.getpid()}:{int(lasting)}"


class Parent:
    """The process that has started this one, as it was :func:`told`."""

    def __init__(self, told: str) -> None:
        number, _, lasting = told.partition(":")
        self.number = int(number)
        if lasting == "1" and sys.platform == "linux":
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
