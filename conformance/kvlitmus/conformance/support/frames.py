"""Where in others' code something happened: the innermost frame that is neither the suite's nor Python's own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import PurePath
from types import TracebackType
from typing import NamedTuple

from kvlitmus.conformance.support.text import LONGEST, harmless, raised_text

NOT_THEIRS = re.compile(
    r"^<"  # no file: frozen modules, and what dataclasses and their like make up
    r"|/kvlitmus/(?:spec|conformance/(?!adapters/|specimen/))"
    r"|/lib/python3\.\d+/(?!site-packages/|dist-packages/)"
)
"""Files of the suite and of Python's library; caches and adapters that come with the suite are judged like others."""

_TRACEBACK = BaseException.__dict__["__traceback__"]


class Frame(NamedTuple):
    """One frame of a stack: the whole name of the file, the line, and the function."""

    file: str
    line: int
    function: str


def theirs(frames: Iterable[Frame]) -> str:
    """The first frame that is somebody else's as ``file, line 3 in method``, harmless; empty if there is none."""
    for file, line, function in frames:
        if not NOT_THEIRS.search(file):
            return harmless(f"{PurePath(file).name}, line {line} in {function}", 120)
    return ""


def frames_of(error: BaseException) -> list[Frame]:
    """The frames that an exception came through, the innermost first."""
    found: list[Frame] = []
    step: TracebackType | None = _TRACEBACK.__get__(error)  # whatever its class says of it
    while step is not None:
        code = step.tb_frame.f_code
        found.append(Frame(code.co_filename, step.tb_lineno, code.co_name))
        step = step.tb_next
    return found[::-1]


def frames_now(thread: int | None) -> list[Frame]:
    """The frames that a thread of this process is in, the innermost first."""
    found: list[Frame] = []
    frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - there is no other way to ask
    while frame is not None:
        found.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


def raised_at(error: BaseException) -> str:
    """An exception as ``Type: message (file, line 3 in method)``; of a long message the place is told all the same."""
    place = theirs(frames_of(error))
    return f"{raised_text(error, LONGEST - 2 * len(place))} ({place})" if place else raised_text(error)
