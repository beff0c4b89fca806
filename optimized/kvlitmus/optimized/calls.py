"""Calls that an exception ends: each has been made, or has not begun, or the cache says that it is torn.

A signal handler may raise between any two steps of a call (Ctrl-C raises ``KeyboardInterrupt``).  What the call has
changed by then is half of something: a page that is free and cached, say, is handed out to somebody else.  Nobody
could undo that safely, for the next exception may come meanwhile.  So a call is **torn** from its beginning to its end,
which costs some stores: where it raises before it has changed anything it is as if it had not been made, and where it
doesn't come to its end in any other way the cache refuses all further calls until it is reset.

Rules of upkeep:

- Whoever changes something sets ``changed`` before, after everything that can be refused.
- What is refused, or undone, after that takes it back.
- A page that is refused ends its call and tears nothing: whoever misused that page did so before.
- Effects of the compiled core are one step; it says itself that it has made one (``watch``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from kvlitmus.optimized.inputs import WrongPage

_Given = TypeVarTuple("_Given")
_Answer = TypeVar("_Answer")


class TornCache(RuntimeError):
    """An exception has ended a call halfway, so nobody knows what is whose: :meth:`FlatCache.reset` is what is left."""


class Calls:
    """The call under way of one cache and all its parts.

    ``torn``: it is under way, or has ended halfway.  ``changed``: it has begun to change something.
    """

    __slots__ = ("changed", "torn")

    def __init__(self) -> None:
        self.torn = False
        self.changed = False

    def ended(self, error: BaseException, outer: bool) -> None:
        """The call has ended by this error; ``outer``: it was a step of a larger one."""
        self.torn = outer or (self.changed and not isinstance(error, WrongPage))

    def refuse(self) -> bool:
        """Raise :class:`TornCache`, unless a call is under way that this one is a step of: then ``True``.

        Whatever Python runs meanwhile may call, too: a finalizer, or the comparison of two namespaces.
        """
        here = inspect.currentframe()
        frame = here.f_back.f_back if here is not None and here.f_back is not None else None
        while frame is not None:
            if frame.f_code.co_filename in _OPENING and frame.f_locals.get("calls") is self:
                return True
            frame = frame.f_back
        raise TornCache("a call was interrupted halfway, nobody knows what is whose: reset(abort=True) the cache")


_OPENING = [str(Path(__file__).with_name(name)) for name in ("calls.py", "cache.py", "life.py", "tree.py")]
"""Where calls begin: whoever begins one has these calls by this name."""


class Part(Protocol):
    """What has calls: a cache, or a part of one."""

    calls: Calls


_Part = TypeVar("_Part", bound=Part)


def whole(method: Callable[[_Part, *_Given], _Answer]) -> Callable[[_Part, *_Given], _Answer]:
    """A call that is made, or not begun, or leaves a cache that is torn; also where it is a step of a larger call.

    Its arguments have no names: that would cost as much as all the rest.
    """

    @functools.wraps(method)
    def call(part: _Part, *given: *_Given) -> _Answer:
        calls = part.calls
        if calls.torn:
            return method(part, *given)
        calls.changed = False
        calls.torn = True
        try:
            answer = method(part, *given)
        except BaseException as error:
            calls.ended(error, outer=False)
            raise
        calls.torn = False
        return answer

    return call


def called(method: Callable[[_Part, *_Given], _Answer]) -> Callable[[_Part, *_Given], _Answer]:
    """:func:`whole` for a call of a cache: where that is torn it is refused, unless it is a step of another call."""

    @functools.wraps(method)
    def call(cache: _Part, *given: *_Given) -> _Answer:
        calls = cache.calls
        outer = calls.torn and calls.refuse()
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            answer = method(cache, *given)
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer
        return answer

    return call
