"""A writer that dies in the middle of a write.

The system itself kills it: a child process sets a limit on the size of the files that it may
write, and the write that crosses the limit ends the process (SIGXFSZ), exactly at that byte and whatever
library makes the write.  What it has written is left as it is.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress


def die_while(write: Callable[[], object], after: int) -> None:
    """Run ``write`` in a child process that dies when one of its files gets longer than ``after`` bytes."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (after, most))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with suppress(BaseException):
            write()
    finally:
        os._exit(0)
