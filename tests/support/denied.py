"""Permissions that count for root as well: the tests may be run by it, and it may read and write everything."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

VERSION, OVERRIDE = 0x20080522, (1 << 1) | (1 << 2)
"""Of the kernel's capabilities: the version of the call's form, and those to write, read and search anything."""


@contextmanager
def no_override() -> Iterator[None]:
    """For this thread the permissions of files count, whoever it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(VERSION, 0)
    before, now = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, before) == 0
    assert libc.capget(head, now) == 0
    now[0] = int(now[0]) & ~OVERRIDE  # of the effective ones; those that are permitted stay, to be had again
    assert libc.capset(head, now) == 0
    try:
        yield
    finally:
        assert libc.capset(head, before) == 0
