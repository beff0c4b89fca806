"""The register of actions, and what all of them heed."""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.conformance.generate.caller import Caller

Action = Callable[[Caller, int, int, int], None]

ACTIONS: dict[str, Action] = {}
"""Kind of operation → how it is played."""

MAX_LOANS = 4
MAX_RECEIPTS = 4
MAX_REQUESTS = 6
GROUPED = 32
"""How many of 256 publications happen within a free group."""


def action(kind: str) -> Callable[[Action], Action]:
    """Register a function as the action of one kind of operation."""

    def register(play: Action) -> Action:
        if kind in ACTIONS:
            raise ValueError(f"there is an action {kind!r} already", kind)
        ACTIONS[kind] = play
        return play

    return register
