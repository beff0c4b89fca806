"""What stands on a tape around values: lines, and what was raised in the place of an answer."""

from __future__ import annotations

from typing import TypeAlias

from kvlitmus.conformance.tape.forms import Json

Line: TypeAlias = dict[str, Json]
"""An object: a header or a step as it is written."""


def raised_in(told: Json) -> str | None:
    """What was raised, where that stands in the place of an answer; ``None`` for an answer."""
    return str(told["raised"]) if type(told) is dict and told.keys() == {"raised"} else None
