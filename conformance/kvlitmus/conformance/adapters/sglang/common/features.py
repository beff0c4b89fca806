"""What a release has: an adapter goes by that, and not by its number.

An adapter is written against one release, and its main branch is a few weeks further.  Most of what it drives is there
still, under the same names.  So any release is driven, and what is missing is said in a line, by name:

* a module that the adapter asks for and that isn't there, or a function that takes other arguments, is found where the
  adapter itself runs into it (:func:`lacks`).  While a cache is made it is ``Unsupported``; in a call it is *not
  implemented*, which is no verdict on the cache;
* a module that the adapter has replaced by a stub may be used by the other release in earnest.  Such a use is said, too
  (:class:`Hollow`), in place of the nonsense that an empty class would answer;
* what only some releases have is asked for: ``hasattr``, and :func:`taken` for arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ADAPTERS = str(Path(__file__).resolve().parents[2])
"""The folder of the adapters."""

LACKING = (AttributeError, TypeError, ImportError, KeyError)
"""What somebody runs into who asks for what isn't there."""


class MissingError(NotImplementedError, AttributeError):
    """A release lacks something that its adapter needs, or uses something that was replaced; said in a line."""


def taken(function: Callable[..., object], **named: Any) -> dict[str, Any]:
    """Of these arguments those that a function of this release takes."""
    known = inspect.signature(function).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
        return named
    return {name: value for name, value in named.items() if name in known}


def lacks(error: BaseException) -> bool:
    """Whether it is the adapter itself that ran into something missing, not the release in a function of its own."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return isinstance(error, LACKING) and at is not None and at.tb_frame.f_code.co_filename.startswith(ADAPTERS)


def in_a_line(error: BaseException) -> str:
    """What was missing, in the words of the error."""
    text = " ".join(str(error).split())
    return text if isinstance(error, MissingError) else f"{type(error).__name__}: {text}"


class Hollow(type):
    """The classes that stubs answer with, in a release that nobody has read: to use one is an error that says which."""

    def refuse(cls, what: str) -> NoReturn:
        """Say what was replaced."""
        raise MissingError(f"{cls.__module__}.{cls.__name__}{what} is used, which the adapter has replaced by nothing")

    def __call__(cls, *given: Any, **named: Any) -> Any:
        """A class of the release that is derived from one can be made; a class of a stub can't."""
        if "hollow" in vars(cls):
            cls.refuse("()")
        return super().__call__(*given, **named)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or "hollow" not in vars(cls):
            raise AttributeError(name)
        cls.refuse(f".{name}")


class Unread:
    """An adapter to a release that nobody has read: what it lacks is said in place of a verdict."""

    def __init__(self, made: object, says: Callable[[BaseException], str]) -> None:
        self.__dict__.update(made=made, says=says)

    def __getattr__(self, name: str) -> Any:
        made, says = self.__dict__["made"], self.__dict__["says"]
        value = getattr(made, name)
        if not callable(value):
            return value

        def call(*given: Any, **named: Any) -> Any:
            try:
                return value(*given, **named)
            except LACKING as error:
                if isinstance(error, MissingError) or not lacks(error):
                    raise
                raise MissingError(says(error)) from error

        return call
