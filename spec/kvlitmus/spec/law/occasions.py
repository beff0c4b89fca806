"""Occasions: what a step is, and how it ended, as rules name it.

Each call says so where it is defined; nothing here knows any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kvlitmus.spec.law.on import On

Call = TypeVar("Call")
How = TypeVar("How", bound=Callable[..., tuple[On, ...]])

PLAIN: dict[type, tuple[tuple[On, ...], tuple[On, ...]]] = {}
"""What calls are when they are granted, and when they answer ``None``; most are the same whatever they answer."""

JOINT: dict[type, tuple[tuple[On, ...], tuple[On, ...]]] = {}
"""What calls are on a cache of components, granted and refused: ``None``, or an answer that says that it is ``refused``."""

BY_ANSWER: dict[type, Callable[[Any, Any], tuple[On, ...]]] = {}
"""Calls of which their answer tells more than whether they were refused."""

BY_STATE: dict[type, Callable[..., tuple[On, ...]]] = {}
"""Calls of which what they are depends on what was known and seen before, too."""


def occasion(*on: On) -> Callable[[type[Call]], type[Call]]:
    """Say of a call what it is, whatever it answers."""

    def register(call: type[Call]) -> type[Call]:
        PLAIN[call] = on, on
        return call

    return register


def refusable(granted: On, refused: On) -> Callable[[type[Call]], type[Call]]:
    """Say of a call what it is when it is granted, and when it answers ``None``."""

    def register(call: type[Call]) -> type[Call]:
        PLAIN[call] = (granted,), (refused,)
        return call

    return register


def jointly(on: On, refused: On | None = None) -> Callable[[type[Call]], type[Call]]:
    """Say of a call what it is on a cache of components, and when it is refused there, if it can be."""

    def register(call: type[Call]) -> type[Call]:
        JOINT[call] = ((on,), (refused or on,))
        return call

    return register


def occasions_by_answer(*calls: type) -> Callable[[How], How]:
    """Let a function of call and answer say what these calls are."""

    def register(how: How) -> How:
        BY_ANSWER.update(dict.fromkeys(calls, how))
        return how

    return register


def occasions_by_state(*calls: type) -> Callable[[How], How]:
    """Let a function of state, setting, call, answer and what was seen before say what these calls are."""

    def register(how: How) -> How:
        BY_STATE.update(dict.fromkeys(calls, how))
        return how

    return register


def occasions_of(call: Any, answer: Any, state: Any = None, setting: Any = None, before: Any = None) -> tuple[On, ...]:
    """What a call is that was answered so.

    Of some calls it depends on the ``state`` before them, the ``setting`` and what was seen ``before``, too.
    """
    if setting is not None and setting.layout.components and type(call) in JOINT:
        return JOINT[type(call)][answer is None or getattr(answer, "refused", False)]
    plain = PLAIN.get(type(call))
    if plain is not None:
        return plain[answer is None]
    by_answer = BY_ANSWER.get(type(call))
    if by_answer is not None:
        return by_answer(call, answer)
    assert state is not None
    return BY_STATE[type(call)](state, setting, call, answer, before)
